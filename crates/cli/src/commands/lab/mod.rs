//! `splay lab`: what storing data costs, measured.

mod compression;
mod formats;
mod inputs;
mod tiers;

use anyhow::Result;

use crate::lab_args::LabCommand;

pub fn run(what: LabCommand) -> Result<()> {
    match what {
        LabCommand::Compression(arguments) => compression::run(&arguments),
        LabCommand::Formats(arguments) => formats::run(&arguments),
    }
}
