//! The window of a table: the keys of its latest rows, and of the rows of the group that is being written.
//!
//! Invariant: the window has the key of each row of the table from time `from` on. So a row from then on whose key is
//! missing is new. An earlier row isn't compared: it is stored, and counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use splay_store::{RowDigest, RowDigests, TableSnapshot, TableSpec};

use super::keys::WindowKeys;
use crate::conform::conform;
use crate::dedupe_rules::DedupeRule;
use crate::error::Result;

/// Keys of a group from which on their room isn't kept for the next one.
const GROUP_KEYS: usize = 1 << 16;

/// The window of a table.
#[derive(Debug)]
pub(super) struct DedupeWindow {
    rule: Arc<DedupeRule>,
    /// The table that the keys are of, at this commit.
    spec: Arc<TableSpec>,
    folder: Arc<str>,
    epoch: u64,
    digests: Arc<RowDigests>,
    /// A batch's schema of which it is known that its digests are like these.
    alike: Arc<TableSpec>,
    keys: WindowKeys,
    /// Time of the latest row.
    latest: i64,
    from: i64,
    /// Time up to which keys were dropped because there were too many.
    limit: i64,
    group: WindowGroup,
}

/// The keys of a group that is being written.
#[derive(Debug, Default)]
struct WindowGroup {
    keys: HashMap<RowDigest, i64>,
    latest: i64,
    from: i64,
    limit: i64,
    clock: i64,
    duplicates: u64,
    uncompared: u64,
    /// Keys of the message that is looked at, with what stood in their places, and the counts before it.
    message: Vec<(RowDigest, Option<i64>)>,
    before: (i64, u64, u64),
}

impl DedupeWindow {
    /// One of a table at a commit, without keys yet.
    pub(super) fn new(
        rule: &Arc<DedupeRule>,
        spec: Arc<TableSpec>,
        (folder, epoch): (Arc<str>, u64),
        latest: i64,
        clock: i64,
    ) -> Result<DedupeWindow> {
        let mut window = DedupeWindow {
            rule: Arc::clone(rule),
            folder,
            epoch,
            digests: rule.digests(&spec)?,
            alike: Arc::clone(&spec),
            spec,
            keys: WindowKeys::new(rule.window),
            latest,
            from: rule.from(latest, clock),
            limit: i64::MIN,
            group: WindowGroup { clock, ..WindowGroup::default() },
        };
        window.forget_group();
        Ok(window)
    }

    pub(super) fn from(&self) -> i64 {
        self.from
    }

    pub(super) fn row_digests(&self) -> &Arc<RowDigests> {
        &self.digests
    }

    /// The time from which on rows of the current message are compared.
    #[cfg(test)]
    pub(super) fn compared_from(&self) -> i64 {
        self.group.from
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether the keys are those of the table as it is, apart from rows that were captured since.
    pub(super) fn is_current(&mut self, stored: &TableSnapshot) -> Result<bool> {
        // Another table may have the name by now.
        if *stored.folder() != self.folder {
            return Ok(false);
        }
        if stored.epoch() == self.epoch {
            return Ok(true);
        }
        if stored.rows_changed_since(self.epoch) || !are_alike(&self.spec, stored.spec()) {
            return Ok(false);
        }
        if *self.spec != *stored.spec() {
            self.spec = Arc::new(stored.spec().clone());
            self.digests = self.rule.digests(&self.spec)?;
        }
        self.epoch = stored.epoch();
        Ok(true)
    }

    /// Whether digests of a batch are like those of the window, by the schema that the batch has.
    pub(super) fn fits(&mut self, spec: &Arc<TableSpec>) -> bool {
        if !Arc::ptr_eq(&self.alike, spec) && are_alike(&self.spec, spec) {
            self.alike = Arc::clone(spec);
        }
        Arc::ptr_eq(&self.alike, spec)
    }

    /// Digests of rows of another schema.
    pub(super) fn digests_of(&self, rows: &RecordBatch) -> Result<Vec<Option<RowDigest>>> {
        let rows = conform(&self.spec, rows)?;
        Ok(self.digests.of(&rows.project(self.digests.columns())?)?)
    }

    /// Takes the key of a row that the table has.
    pub(super) fn hold(&mut self, key: RowDigest, time: i64) {
        if time >= self.from {
            self.keys.insert(key, time);
            self.bound();
        }
    }

    /// Lets the earliest keys go while there are too many.
    fn bound(&mut self) {
        while self.keys.len() > self.rule.keys_max
            && let Some(end) = self.keys.remove_earliest()
        {
            self.limit = self.limit.max(end);
            self.from = self.from.max(end);
        }
    }

    /// A message begins that came in at a time of the clock. All its rows are compared from one time on, in whatever order they are.
    pub(super) fn begin_message(&mut self, clock: i64) {
        let group = &mut self.group;
        group.from = group.from.max(self.rule.from(group.latest, clock));
        group.clock = clock;
        group.message.clear();
        group.before = (group.latest, group.duplicates, group.uncompared);
    }

    /// The message isn't written.
    pub(super) fn forget_message(&mut self) {
        let group = &mut self.group;
        for (key, before) in group.message.drain(..).rev() {
            match before {
                Some(time) => group.keys.insert(key, time),
                None => group.keys.remove(&key),
            };
        }
        (group.latest, group.duplicates, group.uncompared) = group.before;
    }

    /// For each row, whether it is new and has to be written.
    pub(super) fn new_rows(&mut self, digests: &[Option<RowDigest>], times: &[i64]) -> Vec<bool> {
        digests.iter().zip(times).map(|(digest, time)| self.is_new(digest.as_ref(), *time)).collect()
    }

    fn is_new(&mut self, key: Option<&RowDigest>, time: i64) -> bool {
        let is_duplicate = key.is_some_and(|key| self.contains(key, time));
        if is_duplicate {
            self.group.duplicates += 1;
        } else {
            self.group.latest = self.group.latest.max(time);
        }
        !is_duplicate
    }

    /// Whether a row from the start of the window on has the key. If none has, this one has it from here on.
    fn contains(&mut self, key: &RowDigest, time: i64) -> bool {
        let group = &mut self.group;
        if time < group.from {
            group.uncompared += 1;
            return false;
        }
        let times_of_key = group.keys.get(key).copied().into_iter().chain(self.keys.time_of(key));
        if times_of_key.max().is_some_and(|latest| latest >= group.from) {
            return true;
        }
        if group.keys.len() >= self.rule.keys_max {
            // It can't be held, and neither can those before it.
            group.limit = time.saturating_add(1);
            group.from = group.limit;
            return false;
        }
        let before = group.keys.insert(*key, time);
        group.message.push((*key, before));
        false
    }

    /// The group is written: its rows are the table's.
    pub(super) fn take_group(&mut self) {
        let keys = std::mem::take(&mut self.group.keys);
        keys.iter().for_each(|(key, time)| self.keys.insert(*key, *time));
        if keys.capacity() <= GROUP_KEYS {
            self.group.keys = keys;
        }
        self.latest = self.group.latest;
        self.from = self.from.max(self.group.from);
        self.limit = self.limit.max(self.group.limit);
        self.keys.remove_before(self.from);
        self.bound();
        let counts = &self.rule.counts;
        counts.duplicates.add(self.group.duplicates);
        counts.uncompared.add(self.group.uncompared);
        self.forget_group();
        self.tell();
    }

    /// The group wasn't written: none of its rows counts as seen.
    pub(super) fn forget_group(&mut self) {
        let group = &mut self.group;
        group.keys.clear();
        group.message.clear();
        (group.latest, group.from, group.limit) = (self.latest, self.from, i64::MIN);
        (group.duplicates, group.uncompared) = (0, 0);
    }

    /// Tells the operator how far back rows are compared.
    pub(super) fn tell(&self) {
        let (counts, keys_max) = (&self.rule.counts, self.rule.keys_max);
        counts.keys.set(self.keys.len() as u64);
        counts.from.store(self.from, Ordering::Relaxed);
        let is_limited = self.limit > self.rule.from(self.latest, self.group.clock);
        if is_limited && !counts.is_limited.swap(is_limited, Ordering::Relaxed) {
            let table = &self.rule.table;
            tracing::warn!(
                table,
                keys_max,
                "more rows than keys_max are within the window of duplicates: fewer are compared"
            );
        }
        counts.is_limited.store(is_limited, Ordering::Relaxed);
    }
}

/// Whether digests of rows of two schemas of a table mean the same: one has the columns of the other, and may have more behind them.
fn are_alike(one: &TableSpec, other: &TableSpec) -> bool {
    let roles = |spec: &TableSpec| (spec.time_position(), spec.symbol_position(), spec.day_start);
    let mut columns = one.columns.iter().zip(&other.columns);
    roles(one) == roles(other)
        && one.time_zone == other.time_zone
        && columns
            .all(|(one, other)| one.name.eq_ignore_ascii_case(&other.name) && one.column_type == other.column_type)
}
