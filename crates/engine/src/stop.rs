//! Cancellation of a plan, and the receiver of its progress.

use crate::error::{Error, Result};
use crate::progress::Progress;

/// Cancellation of a plan: every thread polls it between blocks of rows. It also receives the plan's progress, if somebody reads it.
#[derive(Clone, Copy, Default)]
pub struct Stop<'a> {
    is_stopped: Option<&'a (dyn Fn() -> bool + Sync)>,
    progress: Option<&'a Progress>,
}

impl<'a> Stop<'a> {
    /// Never stops a plan.
    pub const NEVER: Stop<'static> = Stop { is_stopped: None, progress: None };

    /// Stops once `is_stopped` is true. It is polled often, so it should cost no more than reading a clock.
    #[must_use]
    pub fn when(is_stopped: &'a (dyn Fn() -> bool + Sync)) -> Stop<'a> {
        Stop { is_stopped: Some(is_stopped), progress: None }
    }

    /// This stop, with progress reports to `progress`.
    #[must_use]
    pub fn telling(self, progress: &'a Progress) -> Stop<'a> {
        Stop { progress: Some(progress), ..self }
    }

    /// Whether to stop.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.is_stopped.is_some_and(|is_stopped| is_stopped())
    }

    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_due() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Reports that a step begins, which will process this many rows.
    pub(crate) fn expect_rows(&self, rows: u64) {
        if let Some(progress) = self.progress {
            progress.add_total(rows);
        }
    }

    /// Reports processed rows.
    pub(crate) fn add_rows(&self, rows: usize) {
        if let Some(progress) = self.progress {
            progress.add_rows(rows);
        }
    }
}

impl std::fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_stopped.is_some() { "Stop::when" } else { "Stop::NEVER" })
    }
}
