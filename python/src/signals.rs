//! Ctrl-C: how long work that Python waits for may go on without looking for it.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

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
    /// What the signal's handler raised, usually `KeyboardInterrupt`.
    pub(crate) fn check(&mut self) -> PyResult<()> {
        if self.is_due() { look() } else { Ok(()) }
    }
}

/// Looks at once. An interpreter that is shutting down has no signals.
///
/// # Errors
/// As [`Signals::check`].
pub(crate) fn look() -> PyResult<()> {
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))
}
