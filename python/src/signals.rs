//! Ctrl-C: bounds the time between two checks for signals while Python waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use splay_sql::{Answer, IntoFiles, Parameters, Session, Stop, is_change};

use crate::error::{Failure, Result};

/// Longest time between two looks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

/// Looks for Ctrl-C now and then in a loop that runs detached from the interpreter.
#[derive(Debug)]
pub(crate) struct Signals {
    last: Instant,
}

impl Signals {
    pub(crate) fn new() -> Signals {
        Signals { last: Instant::now() }
    }

    /// Whether it is time for another look.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.last.elapsed() >= INTERVAL;
        if due {
            self.last = Instant::now();
        }
        due
    }

    /// Looks if it is time.
    ///
    /// # Errors
    /// The exception of the signal's handler, usually `KeyboardInterrupt`.
    pub(crate) fn check(&mut self) -> PyResult<()> {
        if self.is_due() { look() } else { Ok(()) }
    }
}

/// Starts a statement; call it detached. One that runs as a tick plan does its work here, and Ctrl-C ends it.
///
/// # Errors
/// The errors of the statement, and the exception of a signal's handler.
pub(crate) fn start(session: &Session, text: &str, parameters: Parameters) -> Result<Answer> {
    let interrupt = Interrupt::new();
    let is_raised = || interrupt.is_raised();
    let answer = match is_change(text) {
        false => session.sql_until(text, parameters, Stop::when(&is_raised)),
        true => {
            splay_capture::settle(session.database())?;
            session.change(text, parameters, Stop::when(&is_raised), &IntoFiles(session.database()))
        }
    };
    match interrupt.raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(Failure::Python(error)),
        None => Ok(answer?),
    }
}

/// Looks for Ctrl-C while several threads work for one call.
#[derive(Debug)]
struct Interrupt {
    /// The thread that called. Python hears of signals on its main thread alone, so the others needn't look.
    caller: ThreadId,
    signals: Mutex<Signals>,
    is_raised: AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl Interrupt {
    fn new() -> Interrupt {
        Interrupt {
            caller: std::thread::current().id(),
            signals: Mutex::new(Signals::new()),
            is_raised: AtomicBool::new(false),
            raised: Mutex::default(),
        }
    }

    /// Whether a handler has raised.
    fn is_raised(&self) -> bool {
        // Relaxed: what was raised is read by the caller, who wrote it.
        if self.is_raised.load(Ordering::Relaxed) || std::thread::current().id() != self.caller {
            return self.is_raised.load(Ordering::Relaxed);
        }
        let Err(error) = self.signals.lock().unwrap_or_else(PoisonError::into_inner).check() else { return false };
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.is_raised.store(true, Ordering::Relaxed);
        true
    }
}

/// Looks at once. An interpreter that is shutting down has no signals.
///
/// # Errors
/// As [`Signals::check`].
pub(crate) fn look() -> PyResult<()> {
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))
}
