//! The date that the ages of a table's partitions are counted from.

use crate::manifest::FileEntry;
use crate::schema::TableSpec;

/// The newest date of a table's files, which is within the newest partition.
pub(crate) fn newest_date<'a>(spec: &TableSpec, files: impl Iterator<Item = &'a FileEntry> + Clone) -> i32 {
    let newest = files.clone().map(|entry| entry.date).max().unwrap_or_default();
    if spec.partition.is_day() {
        return newest;
    }
    let last = files.filter(|entry| entry.date == newest).map(|entry| entry.time_max).max();
    match (spec.dates(), last) {
        (Ok(mut dates), Some(time)) => dates.of(time).clamp(newest, spec.partition.last(newest)),
        _ => newest,
    }
}
