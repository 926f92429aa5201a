//! Standard output and standard error of the commands.
//!
//! - All that a command prints goes through here: `println!` panics when a reader has closed the pipe (`splay tables market | head -1`).
//! - A closed pipe doesn't end a command's work: `say!` drops the line, so that `splay verify` goes on to the last byte and its exit code
//!   tells what it found, and `splay compact` compacts all tables. Answers are different: nobody waits for more rows, so they end with the
//!   error, which `main` takes for success where it comes from here.
//! - That a server has closed its connection is an error of the same kind, and a failure: [`is_closed`] tells them apart.

use std::fmt::Arguments;
use std::io::{Error, ErrorKind, Result, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the reader of standard output has closed it.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Standard output, for answers and reports that end when the reader has gone.
pub struct StandardOutput(std::io::Stdout);

pub fn stdout() -> StandardOutput {
    StandardOutput(std::io::stdout())
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write(bytes).inspect_err(note_closed)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush().inspect_err(note_closed)
    }
}

fn note_closed(error: &Error) {
    if error.kind() == ErrorKind::BrokenPipe {
        CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Prints a line, which is dropped if the reader has gone: for `say!`.
pub fn line(text: Arguments<'_>) -> anyhow::Result<()> {
    if is_closed() {
        return Ok(());
    }
    let mut out = stdout();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(_) if is_closed() => Ok(()),
        written => written.context("write to standard output"),
    }
}

/// Prints a line to standard error, where write errors are ignored: for `note!`.
pub fn note_line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A line on standard output, as `println!` with an error instead of a panic.
macro_rules! say {
    ($($text:tt)*) => { $crate::print::line(format_args!($($text)*)) };
}

/// A line on standard error, as `eprintln!` without a panic.
macro_rules! note {
    ($($text:tt)*) => { $crate::print::note_line(format_args!($($text)*)) };
}

pub(crate) use {note, say};
