//! Write-downs and rolls on request.

use super::Capture;
use crate::error::{Error, Result};
use crate::maintenance::{RollReport, roll_table, today};
use crate::write_down::{WriteDownReport, WriteDownScope, write_down};

impl Capture {
    /// Writes live rows down, of a table or of all.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::Full`] if there is no room or another writer is at work: the rows stay live.
    pub fn write_down(&self, table: Option<&str>) -> Result<WriteDownReport> {
        let tables = match table {
            Some(table) => {
                vec![self.live(table)?.ok_or_else(|| Error::NoSuchTable { table: table.to_owned() })?]
            }
            None => self.shared.all_live(),
        };
        let (mut report, mut done) = (WriteDownReport::default(), Ok(()));
        for live in tables {
            // An error of one table's files doesn't stop the write-down of the others.
            done = done.and(write_down(&self.shared, &live, WriteDownScope::All).map(|one| {
                report.rows += one.rows;
                report.segments += one.segments;
                report.bytes += one.bytes;
            }));
        }
        done.map(|()| report)
    }

    /// Rolls the dates that have ended at an instant, in nanoseconds since the epoch; `None` for now.
    ///
    /// # Errors
    /// As [`Capture::write_down`]. What was done stays done; call it again.
    pub fn roll(&self, now: Option<i64>) -> Result<RollReport> {
        let (mut report, mut done) = (RollReport::default(), Ok(()));
        for live in self.shared.all_live() {
            let today = today(&self.shared, &live, now.unwrap_or_else(|| self.shared.clock.now()))?;
            done = done.and(roll_table(&self.shared, &live, today).map(|one| {
                report.rows += one.rows;
                report.partitions += one.partitions;
            }));
        }
        done.map(|()| report)
    }
}
