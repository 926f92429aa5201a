//! Rows that only the journal has, brought into the tables' files so that they can be changed.

use splay_store::Database;

use crate::capture::Capture;
use crate::error::{Error, Result};
use crate::follow::{FollowSettings, follow};
use crate::journal;
use crate::settings::CaptureSettings;

/// Takes the place of a server that doesn't run: writes the journal's rows to the tables' files, and keeps others from capturing until the
/// capture that it gives is closed. `None` where nothing is to be done: there is no journal, or this process captures.
///
/// Where another process captures, the database follows it from now on, so that the store refuses changes of rows that only that process has.
///
/// # Errors
/// Those of [`Capture::open`] and [`Capture::write_down`].
pub fn settle(database: &Database) -> Result<Option<Capture>> {
    if database.captures() || !database.path().join(journal::FOLDER).exists() {
        return Ok(None);
    }
    let settings = CaptureSettings { automatic: false, disk_reserve_bytes: 0, ..CaptureSettings::default() };
    match Capture::open(database.clone(), settings) {
        Ok((capture, _)) => {
            database.capture_elsewhere(false);
            capture.write_down(None)?;
            Ok(Some(capture))
        }
        Err(Error::Locked { .. }) => {
            database.capture_elsewhere(true);
            follow(database, FollowSettings::default());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
