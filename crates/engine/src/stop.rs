//! Whether a plan shall go on.

use crate::error::{Error, Result};

/// Asked between blocks of rows, from every thread that works on a plan: whether to stop.
#[derive(Clone, Copy, Default)]
pub struct Stop<'a>(Option<&'a (dyn Fn() -> bool + Sync)>);

impl<'a> Stop<'a> {
    /// A plan that runs to its end.
    pub const NEVER: Stop<'static> = Stop(None);

    /// Stops once `asked` is true. It is called often, so it should cost no more than a look at a clock.
    #[must_use]
    pub fn when(asked: &'a (dyn Fn() -> bool + Sync)) -> Stop<'a> {
        Stop(Some(asked))
    }

    /// Whether to stop.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.is_some_and(|asked| asked())
    }

    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_due() { Err(Error::Stopped) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Stop::when" } else { "Stop::NEVER" })
    }
}
