//! Writes rows that only the journal has to the tables' files, so that statements can change them.

use splay_store::Database;

use crate::capture::Capture;
use crate::error::{Error, Result};
use crate::follow::{FollowSettings, follow};
use crate::journal;
use crate::settings::CaptureSettings;

/// Writes the rows of the journal to the tables' files, in the place of a server that doesn't run. Does nothing where there is no journal, or
/// this process captures.
///
/// Where another process captures, the database follows it from now on, so that the store refuses changes of rows that only that process has.
///
/// # Errors
/// Those of [`Capture::open`], [`Capture::write_down`] and [`Capture::close`].
pub fn settle(database: &Database) -> Result<()> {
    if database.captures() || !database.path().join(journal::FOLDER).exists() {
        return Ok(());
    }
    let settings = CaptureSettings { automatic: false, disk_reserve_bytes: 0, ..CaptureSettings::default() };
    match Capture::open(database.clone(), settings) {
        Ok((capture, _)) => {
            database.capture_elsewhere(false);
            let written = capture.write_down(None);
            capture.close()?;
            written.map(drop)
        }
        Err(Error::Locked { .. }) => {
            database.capture_elsewhere(true);
            follow(database, FollowSettings::default());
            Ok(())
        }
        Err(error) => Err(error),
    }
}
