//! The `splay` command with cloud stores.

use std::process::ExitCode;

fn main() -> ExitCode {
    splay_stores::register();
    splay_cli::run()
}
