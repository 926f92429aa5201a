//! Waits for another writer's lock.

use std::time::{Duration, Instant};

use splay_engine::Stop;

use crate::error::{Error, Result, of_store};

/// How long a change waits for another writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tries a change again while another writer is at work.
pub(crate) fn patiently<T>(stop: Stop<'_>, mut change: impl FnMut() -> splay_store::Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match change() {
            Err(splay_store::Error::Locked { .. }) if start.elapsed() < PATIENCE => {
                if stop.is_due() {
                    return Err(Error::Cancelled);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done.map_err(of_store),
        }
    }
}
