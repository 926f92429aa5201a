//! What the tests of tables and columns that lose or change their names under capture share: small journals, and batches by number.

use std::sync::Arc;

use splay_capture::{Capture, CaptureSettings, Result};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Settings};

use crate::rows::{Row, SECOND, START, TestClock, row, settings};

/// Rows of each batch.
pub const ROWS: i64 = 3;

/// Batches that are sent before the change, and behind it.
pub const BEFORE: i64 = 4;
pub const AFTER: i64 = 3;

pub fn small() -> CaptureSettings {
    CaptureSettings { journal_segment_bytes: 700, journal_keep_bytes: 0, late_s: 1, ..settings() }
}

/// Files of the journal stay that nobody needs.
pub fn keeping() -> CaptureSettings {
    CaptureSettings { journal_keep_bytes: 1 << 30, journal_segment_bytes: 1_000, ..settings() }
}

pub fn created() -> (FaultStorage, Database) {
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    (storage, database)
}

pub fn open(database: &Database, settings: CaptureSettings) -> Result<Capture> {
    Ok(Capture::open_with(database.clone(), settings, TestClock::at(START + 3_600 * SECOND))?.0)
}

pub fn reopened(storage: &FaultStorage) -> Database {
    Database::open_on(Arc::new(storage.clone())).unwrap()
}

pub fn batch_of(number: i64) -> Vec<Row> {
    let time = |at: i64| START + (number * 31 % 17 + at) * SECOND;
    (0..ROWS).map(|at| row(["A", "B"][at as usize % 2], time(at), number * ROWS + at)).collect()
}

pub fn of_batches(batches: std::ops::Range<i64>) -> Vec<i64> {
    (batches.start * ROWS..batches.end * ROWS).collect()
}
