//! Compaction of layers: sorts live rows before a reader needs them, and merges layers.
//!
//! A reader turns the tail since the previous reader into a layer, and merges small layers. The compaction thread does the
//! longer work, while readers use the existing layers.

use std::sync::Weak;
use std::time::{Duration, Instant};

use splay_store::background;

use crate::capture_state::CaptureState;
use crate::error::Result;
use crate::live::{TAIL_BATCHES_MAX, TAIL_ROWS_MAX};
use crate::signal::Signal;

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// How long it waits after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Joins of one table at a look, so that others have their turn.
const JOINS_MAX: usize = 4;

/// The compaction thread.
pub(crate) fn run(shared: &Weak<CaptureState>, signal: &Signal) {
    background::enter();
    let mut paused_until: Option<Instant> = None;
    loop {
        // The strong reference isn't kept while waiting: when the last clone of a capture is dropped, the thread ends.
        let Some(shared) = shared.upgrade() else { return };
        let is_paused = paused_until.is_some_and(|until| Instant::now() < until);
        if !is_paused && let Err(error) = look(&shared, signal) {
            tracing::warn!(%error, "live rows are put in order by who reads them");
            paused_until = Some(Instant::now() + PAUSE);
        }
        drop(shared);
        if !signal.wait(INTERVAL) {
            return;
        }
    }
}

/// Looks at all tables; gives the last failure.
fn look(shared: &CaptureState, signal: &Signal) -> Result<()> {
    let mut looked = Ok(());
    for live in shared.all_live() {
        let size = live.size();
        if (size.tail_rows > TAIL_ROWS_MAX || size.tail_batches > TAIL_BATCHES_MAX)
            && let Err(error) = live.organise()
        {
            looked = Err(error);
            continue;
        }
        for _ in 0..JOINS_MAX {
            if signal.is_stopped() {
                break;
            }
            match live.join_layers() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    looked = Err(error);
                    break;
                }
            }
        }
    }
    looked
}
