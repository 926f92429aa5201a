//! The lock of the process that captures, or follows.

use std::time::{Duration, Instant};

use splay_store::storage::{LockMode, Storage};

use super::{FOLDER, LOCK};
use crate::error::{Error, Result};

/// How long to wait for the lock of a process that is ending.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Takes the lock, of a database that may have no journal yet.
pub(crate) fn take_lock(storage: &dyn Storage) -> Result<Box<dyn std::fmt::Debug + Send + Sync>> {
    storage.create_dir(FOLDER)?;
    lock(storage)
}

/// The lock of the process that captures. One that has just ended may hold it a moment longer, so it is waited for a little.
pub(crate) fn lock(storage: &dyn Storage) -> Result<Box<dyn std::fmt::Debug + Send + Sync>> {
    if !storage.list(FOLDER)?.iter().any(|entry| entry.name == "lock") {
        drop(storage.create(LOCK)?);
    }
    let until = Instant::now() + LOCK_WAIT;
    loop {
        if let Some(lock) = storage.try_lock(LOCK, LockMode::Exclusive)? {
            return Ok(lock);
        }
        if Instant::now() >= until {
            return Err(Error::Locked { path: storage.display_path(LOCK) });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
