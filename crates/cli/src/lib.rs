//! The `splay` command: arguments and glue. What it does is in the libraries.
//!
//! A library, so that a build with other object stores (`stores/`) is the same command, and so is the one that Python's library has.

// The standard macros panic when the reader has gone. Those of `print.rs` don't.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod allocator;
mod args;
mod arrow_file;
mod commands;
mod copy;
mod lab_args;
mod output;
mod print;
mod progress;
mod rows;
mod size;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, AuditCommand, Command, JournalCommand, TickCommand};

const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;

/// Does what the command line says.
#[must_use]
pub fn run() -> ExitCode {
    run_with(std::env::args_os()).into()
}

/// Does what `arguments` say, the first of which is the command's name. Gives the exit code: 0, or 1 if it failed; clap ends the
/// process for arguments that it doesn't understand, and for `--help`.
#[must_use]
pub fn run_with(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    allocator::give_back_soon();
    let arguments = Arguments::parse_from(arguments);
    let done = match arguments.command {
        Command::Gen(what) => commands::generate::run(what),
        Command::Load(load) => commands::load::run(load),
        Command::Sql(sql) => commands::sql::run(sql),
        Command::Shell(shell) => commands::shell::run(&shell),
        Command::Serve(serve) => commands::serve::run(&serve),
        Command::Replay(replay) => commands::replay::run(&replay),
        Command::Promote(promote) => commands::promote::run(&promote),
        Command::Token(token) => commands::serve::token(&token),
        Command::Tick(TickCommand::Status(status)) => commands::tick_status::run(&status),
        Command::Tick(TickCommand::Write(write)) => commands::tick_write::run(&write),
        Command::Journal(JournalCommand::Inspect(inspect)) => commands::journal::inspect(&inspect),
        Command::Journal(JournalCommand::Recover(recover)) => commands::journal::recover(&recover),
        Command::Journal(JournalCommand::Accept(database)) => commands::journal::accept(&database),
        Command::Audit(AuditCommand::Verify(verify)) => commands::audit::verify(&verify),
        Command::Audit(AuditCommand::Show(show)) => commands::audit::show(&show),
        Command::Roll(database) => commands::serve::roll(&database),
        Command::Tables(database) => commands::tables::tables(&database),
        Command::Describe(table) => commands::tables::describe(&table),
        Command::Verify(verify) => commands::upkeep::verify(&verify),
        Command::Backup(backup) => commands::backup::backup(&backup),
        Command::Restore(restore) => commands::backup::restore(&restore),
        Command::Export(export) => commands::export::run(&export),
        Command::Publish(publish) => commands::upkeep::publish(&publish),
        Command::Compact(compact) => commands::upkeep::compact(&compact),
        Command::Alter(alter) => commands::upkeep::alter(alter),
        Command::Advise(advise) => commands::advise::run(&advise),
        Command::Loads(loads) => commands::changes::loads(&loads),
        Command::Undo(undo) => commands::changes::undo(&undo),
        Command::Delete(delete) => commands::changes::delete(&delete),
        Command::Maintain(maintain) => commands::changes::maintain(&maintain),
        Command::Lab(what) => commands::lab::run(what),
        Command::Recipes(recipes) => commands::tables::recipes(&recipes),
        Command::Completions(completions) => commands::manual::completions(&completions),
        Command::Man(man) => commands::manual::man(&man),
    };
    match done {
        Ok(()) => SUCCESS,
        // A reader that has seen enough (`splay sql ... | head`) is no failure.
        Err(error) if print::is_closed() && is_broken_pipe(&error) => SUCCESS,
        Err(error) => {
            print::note!("splay: {}", reasons(&error));
            FAILURE
        }
    }
}

/// The error and its causes; a cause that the text before it tells already is left out.
fn reasons(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
