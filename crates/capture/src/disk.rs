//! A full disk: rows are refused before it is full, and a reserve keeps room for writes that must still succeed.
//!
//! - While fewer than `disk_free_bytes_min` are free, rows are refused with an error that states both figures. They
//!   are accepted again, without a restart, once a quarter more is free; this hysteresis avoids alternating between
//!   both states.
//! - `.journal/reserve` is a file that occupies space. It is removed when a write finds no space, and by a start that
//!   finds little, so that write-downs, commits and an orderly stop can proceed. It is created again once there is
//!   space for it above the limit.
//! - Both figures are at most a twentieth of the file system.
//! - The maintenance thread checks the free space, and so do senders if the last check is 100 ms old. If the system doesn't
//!   report free space, or reports it without regard to a quota, only a failing write reveals that the disk is full.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use splay_store::storage::{DiskSpace, Storage};

use crate::error::{Error, Result};
use crate::journal::{self, RESERVE_FILE};
use crate::settings::CaptureSettings;

/// How old the last check of the free space may be.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the reserve isn't made again after it was released: where a quota is exhausted, the file system itself reports free space.
const PAUSE: Duration = Duration::from_secs(1);

/// The part of a file system that the bound and the reserve are at most: one of so many.
const PARTS: u64 = 20;

/// Room on the disk, as capture sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DiskStatus {
    /// Bytes free, if the system says so.
    pub free_bytes: Option<u64>,
    /// Below this rows are refused.
    pub free_bytes_min: u64,
    /// Bytes of the reserve that is kept.
    pub reserve_bytes: u64,
    /// Whether rows are refused for lack of room.
    pub is_refusing: bool,
    /// Batches that were refused for lack of room.
    pub refused: u64,
}

/// The disk of a database.
#[derive(Debug)]
pub(crate) struct Disk {
    storage: Arc<dyn Storage>,
    free_bytes_min: u64,
    reserve_bytes: u64,
    state: Mutex<DiskState>,
    is_refusing: AtomicBool,
    /// Whether a write found no room when rows last came.
    is_full: AtomicBool,
    refused: AtomicU64,
}

#[derive(Debug)]
struct DiskState {
    looked_at: Instant,
    space: Option<DiskSpace>,
    /// Bytes of the existing reserve.
    reserve: u64,
    released_at: Option<Instant>,
    /// Whether a look since rows were refused has found too little room.
    was_low: bool,
}

impl DiskState {
    /// A figure of the settings, for this file system.
    fn bounded(&self, bytes: u64) -> u64 {
        self.space.map_or(bytes, |space| bytes.min(space.total_bytes / PARTS))
    }

    /// Whether so many bytes are free, as far as the system says.
    fn has(&self, bytes: u64) -> bool {
        self.space.is_none_or(|space| space.free_bytes >= bytes)
    }
}

impl Disk {
    /// Looks at the disk and its reserve, for a process that is about to capture. On a disk with little room the reserve is given back, for
    /// a start writes, too.
    pub(crate) fn open(storage: Arc<dyn Storage>, settings: &CaptureSettings) -> Result<Disk> {
        let reserve = match storage.list(journal::FOLDER)?.iter().any(|entry| entry.name == RESERVE_FILE) {
            true => storage.identity(&path())?.length,
            false => 0,
        };
        let (looked_at, space) = (Instant::now(), storage.disk_space().ok());
        let state = DiskState { looked_at, space, reserve, released_at: None, was_low: false };
        let disk = Disk {
            storage,
            free_bytes_min: settings.disk_free_bytes_min,
            reserve_bytes: settings.disk_reserve_bytes,
            state: Mutex::new(state),
            is_refusing: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        };
        disk.tend();
        if disk.is_refusing() {
            disk.give_back(&mut disk.state());
        }
        Ok(disk)
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses rows while there is little room.
    pub(crate) fn check(&self) -> Result<()> {
        let mut state = self.state();
        if self.is_refusing() || state.looked_at.elapsed() >= LOOK_INTERVAL {
            self.look(&mut state);
        }
        if !self.is_refusing() {
            return Ok(());
        }
        drop(state);
        self.count_refused(1);
        Err(self.error())
    }

    /// Looks at the disk, and makes the reserve if there is room for it again.
    pub(crate) fn tend(&self) {
        let mut state = self.state();
        self.look(&mut state);
        let target = state.bounded(self.reserve_bytes);
        let has_just_gone = state.released_at.is_some_and(|at| at.elapsed() < PAUSE);
        let is_right = state.reserve == target || target == 0 && state.reserve == 0;
        let room = state.bounded(self.free_bytes_min).saturating_add(target.saturating_sub(state.reserve));
        if is_right || has_just_gone || !state.has(room) {
            return;
        }
        if let Err(error) = self.make(&mut state, target) {
            state.released_at = Some(Instant::now());
            tracing::warn!(%error, bytes = target, "there is no reserve on the disk for now");
        }
    }

    /// Creates the reserve anew.
    fn make(&self, state: &mut DiskState, bytes: u64) -> splay_store::Result<()> {
        if state.reserve > 0 {
            self.storage.remove(&path())?;
            state.reserve = 0;
        }
        if bytes > 0 {
            self.storage.allocate(&path(), bytes)?;
            state.reserve = bytes;
        }
        Ok(())
    }

    /// Handles a write that found no room: gives the reserve back, and refuses rows until a later look finds more room. Returns the error for the
    /// sender.
    pub(crate) fn disk_full_error(&self, error: Error) -> Error {
        self.is_full.store(true, Ordering::Relaxed);
        let mut state = self.state();
        self.give_back(&mut state);
        if self.free_bytes_min == 0 && self.reserve_bytes == 0 {
            return error;
        }
        self.is_refusing.store(true, Ordering::Relaxed);
        state.space = self.storage.disk_space().ok();
        drop(state);
        if let Error::Full { reason } = &error {
            tracing::warn!(%reason, "the disk is full: rows are refused");
        }
        self.error()
    }

    fn give_back(&self, state: &mut DiskState) {
        if state.reserve == 0 {
            return;
        }
        let bytes = std::mem::take(&mut state.reserve);
        state.released_at = Some(Instant::now());
        match self.storage.remove(&path()) {
            Ok(()) => tracing::warn!(bytes, "the reserve on the disk was given back"),
            Err(error) => tracing::warn!(%error, "the reserve on the disk can't be given back"),
        }
    }

    /// Bytes that have to be free before rows are taken again.
    fn enough(&self, state: &DiskState) -> u64 {
        let least = state.bounded(self.free_bytes_min);
        let missing = state.bounded(self.reserve_bytes).saturating_sub(state.reserve);
        (least + least / 4).saturating_add(missing)
    }

    fn look(&self, state: &mut DiskState) {
        (state.looked_at, state.space) = (Instant::now(), self.storage.disk_space().ok());
        let was_refusing = self.is_refusing();
        let bound = if was_refusing { self.enough(state) } else { state.bounded(self.free_bytes_min) };
        let is_low = !state.has(bound);
        self.is_refusing.store(is_low, Ordering::Relaxed);
        let free_bytes = state.space.map_or(0, |space| space.free_bytes);
        match (was_refusing, is_low) {
            (false, true) => tracing::warn!(free_bytes, bound, "the disk has little room: rows are refused"),
            (true, false) => {
                tracing::info!(free_bytes, "the disk has room: rows are taken");
                if std::mem::take(&mut state.was_low) {
                    self.is_full.store(false, Ordering::Relaxed);
                }
            }
            _ => {}
        }
        state.was_low |= is_low;
    }

    /// Rows were written.
    pub(crate) fn took(&self) {
        self.is_full.store(false, Ordering::Relaxed);
    }

    /// Counts batches that were refused.
    pub(crate) fn count_refused(&self, batches: u64) {
        self.refused.fetch_add(batches, Ordering::Relaxed);
    }

    pub(crate) fn is_refusing(&self) -> bool {
        self.is_refusing.load(Ordering::Relaxed)
    }

    /// Whether rows are refused, or found no room when they last came.
    pub(crate) fn is_full(&self) -> bool {
        self.is_refusing() || self.is_full.load(Ordering::Relaxed)
    }

    /// Whether there is a reserve.
    pub(crate) fn has_reserve(&self) -> bool {
        self.state().reserve > 0
    }

    /// Why rows are refused.
    pub(crate) fn reason(&self) -> String {
        let state = self.state();
        let (least, enough) = (state.bounded(self.free_bytes_min), self.enough(&state));
        let free = state.space.map_or_else(|| "an unknown number of".to_owned(), |space| space.free_bytes.to_string());
        format!(
            "the disk has {free} bytes free; rows are refused below {least} (disk_free_bytes_min) and taken again from {enough}"
        )
    }

    pub(crate) fn error(&self) -> Error {
        Error::Full { reason: self.reason() }
    }

    pub(crate) fn status(&self) -> DiskStatus {
        let state = self.state();
        DiskStatus {
            free_bytes: state.space.map(|space| space.free_bytes),
            free_bytes_min: state.bounded(self.free_bytes_min),
            reserve_bytes: state.reserve,
            is_refusing: self.is_refusing(),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

fn path() -> String {
    format!("{}/{RESERVE_FILE}", journal::FOLDER)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use splay_store::storage::fault::FaultStorage;

    use super::*;

    const RESERVE: u64 = 1_000;
    const LEAST: u64 = 4_000;

    fn storage() -> FaultStorage {
        let storage = FaultStorage::new();
        storage.create_dir(journal::FOLDER).unwrap();
        storage
    }

    fn open(storage: &FaultStorage) -> Disk {
        let settings =
            CaptureSettings { disk_reserve_bytes: RESERVE, disk_free_bytes_min: LEAST, ..CaptureSettings::default() };
        Disk::open(Arc::new(storage.clone()), &settings).unwrap()
    }

    fn reserve(storage: &FaultStorage) -> u64 {
        storage.identity(&path()).map_or(0, |identity| identity.length)
    }

    #[test]
    fn rows_are_refused_below_the_bound_and_taken_again_a_quarter_above_it() {
        let storage = storage();
        let disk = open(&storage);
        assert_eq!((reserve(&storage), disk.is_full()), (RESERVE, false));
        for (free, is_refusing) in [(LEAST, false), (LEAST - 1, true), (LEAST, true), (4_999, true), (5_000, false)] {
            storage.free_bytes(Some(free));
            disk.tend();
            assert_eq!(disk.is_refusing(), is_refusing, "{free}");
            assert_eq!(disk.check().is_err(), is_refusing, "{free}");
        }
        storage.free_bytes(Some(17));
        disk.tend();
        let Err(Error::Full { reason }) = disk.check() else { panic!("there is no room") };
        assert!(reason.contains("17 bytes") && reason.contains("4000") && reason.contains("5000"), "{reason}");
        assert_eq!((disk.status().refused, disk.status().free_bytes), (4, Some(17)));
        assert_eq!(reserve(&storage), RESERVE, "which no write has asked for");
    }

    #[test]
    fn the_reserve_is_given_back_to_a_write_and_made_again_once_there_is_room() {
        let storage = storage();
        let disk = open(&storage);
        let used = storage.used();
        storage.free_bytes(Some(0));
        let error = disk.disk_full_error(Error::Full { reason: "no room".to_owned() });
        assert!(error.to_string().contains("0 bytes free"), "{error}");
        assert_eq!((reserve(&storage), storage.used() as u64), (0, used as u64 - RESERVE));
        assert!(disk.is_full() && disk.is_refusing());
        // The room that it has left is none for rows.
        storage.free_bytes(Some(LEAST + LEAST / 4 + RESERVE - 1));
        disk.tend();
        assert!(disk.check().is_err() && disk.is_full());
        storage.free_bytes(Some(LEAST + LEAST / 4 + RESERVE));
        assert!(disk.check().is_ok() && !disk.is_full());
        disk.state().released_at = None;
        disk.tend();
        assert_eq!((reserve(&storage), disk.status().reserve_bytes), (RESERVE, RESERVE));
    }

    #[test]
    fn a_start_on_a_full_disk_gives_the_reserve_back() {
        let storage = storage();
        drop(open(&storage));
        storage.free_bytes(Some(10));
        let disk = open(&storage);
        assert_eq!((reserve(&storage), disk.is_refusing()), (0, true));
        storage.free_bytes(None);
        assert!(disk.check().is_ok());
    }

    #[test]
    fn the_reserve_is_as_large_as_the_settings_say_now_and_never_more_than_a_part_of_the_disk() {
        let storage = storage();
        storage.allocate(&path(), 7).unwrap();
        drop(open(&storage));
        assert_eq!(reserve(&storage), RESERVE);
        let none = CaptureSettings { disk_reserve_bytes: 0, disk_free_bytes_min: 0, ..CaptureSettings::default() };
        let disk = Disk::open(Arc::new(storage.clone()), &none).unwrap();
        assert_eq!(reserve(&storage), 0);
        let full = disk.disk_full_error(Error::Full { reason: "no room".to_owned() });
        assert!(full.to_string().contains("no room") && disk.is_full() && disk.check().is_ok());
        storage.capacity(Some(200));
        let disk = open(&storage);
        assert_eq!((reserve(&storage), disk.status().free_bytes_min), (10, 10));
    }

    /// A disk that says nothing, or fails, isn't in the way of rows.
    #[test]
    fn without_a_reserve_rows_are_taken() {
        let storage = storage();
        storage.stop_after(Some(0));
        let disk = open(&storage);
        assert_eq!((disk.status().reserve_bytes, disk.check().is_ok()), (0, true));
    }
}
