//! The `splay` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    splay_cli::run()
}
