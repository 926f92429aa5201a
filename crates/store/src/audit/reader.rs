//! Reads records for people.

use serde_json::Value;

use super::chain::LinkedLine;
use super::files::{self, LogLines};
use super::time_of;
use crate::storage::Storage;

/// Selects records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only events from this time on, in nanoseconds since the epoch.
    pub since: Option<i64>,
    /// Before this one.
    pub until: Option<i64>,
    /// Only events of this user, without regard to case.
    pub user: Option<String>,
    /// Only events of this kind.
    pub kind: Option<String>,
}

impl AuditFilter {
    fn takes(&self, record: &Value) -> bool {
        let text = |name: &str| record[name].as_str().unwrap_or_default();
        let time = time_of(text("time"));
        self.since.is_none_or(|since| time.is_some_and(|time| time >= since))
            && self.until.is_none_or(|until| time.is_some_and(|time| time < until))
            && self.user.as_ref().is_none_or(|user| text("user").eq_ignore_ascii_case(user))
            && self.kind.as_ref().is_none_or(|kind| text("kind") == kind)
    }
}

/// Gives each record that the filter takes, in order, to `take`, as its line and parsed; gives how many lines are no record. Records aren't
/// compared with their digests, which [`verify`](super::verify()) does.
///
/// # Errors
/// Files that can't be read, and what `take` says.
pub fn read<E: From<crate::Error>>(
    storage: &dyn Storage,
    filter: &AuditFilter,
    take: &mut dyn FnMut(&str, &Value) -> std::result::Result<(), E>,
) -> std::result::Result<u64, E> {
    let mut others = 0;
    for number in files::numbers(storage)? {
        let mut lines = LogLines::of(storage, files::name(number))?;
        while let Some(line) = lines.next()? {
            let text = std::str::from_utf8(&line.bytes).ok().filter(|_| LinkedLine::of(&line.bytes).is_some());
            let parsed = text.and_then(|text| Some((text, serde_json::from_str::<Value>(text).ok()?)));
            match parsed {
                Some((text, record)) if filter.takes(&record) => take(text, &record)?,
                Some(_) => {}
                None => others += u64::from(line.is_whole),
            }
        }
    }
    Ok(others)
}
