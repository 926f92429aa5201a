//! `splay completions`, `splay man`: what shells and `man` say about the arguments.

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Arguments, CompletionsArguments, CompletionsShell, ManArguments};
use crate::print::say;

pub fn completions(arguments: &CompletionsArguments) -> Result<()> {
    let shell = match arguments.shell {
        CompletionsShell::Bash => Shell::Bash,
        CompletionsShell::Zsh => Shell::Zsh,
        CompletionsShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "splay", &mut script);
    say!("{}", String::from_utf8(script)?.trim_end())
}

/// A page for the command, and one for each of its commands.
pub fn man(arguments: &ManArguments) -> Result<()> {
    let folder = &arguments.out;
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    clap_mangen::generate_to(Arguments::command(), folder).with_context(|| format!("write to {}", folder.display()))
}
