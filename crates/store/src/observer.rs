//! Observers of long work, who may end it.

use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// Sees the bytes of each segment that was done, and may end the work behind it.
pub type Observer<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Tells the observer, and ends the work if it wants that.
pub(crate) fn go_on(observer: Observer<'_>, bytes: u64) -> Result<()> {
    if observer(bytes).is_break() { Err(Error::Stopped) } else { Ok(()) }
}
