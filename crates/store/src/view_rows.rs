//! Stored rows of materialized views, and which of them are fresh, that is, equal to the result of the view's query
//! now.
//!
//! - A view is stored in *parts*, which together cover all time. The query's rows with times in a part depend only on
//!   the table's rows with times in the part. A part begins with a bucket: the one in which a partition of the table
//!   begins. Where buckets go across the ends of partitions, a part is made of rows of several partitions, and a
//!   partition has rows of several parts.
//! - The commit that stores a part's rows records a source: its name ends with the part's first date, its digest is
//!   that of the query and of all inputs of the part in the table. A part without such a record, or with live rows,
//!   is stale, whatever happened since and in whatever order.
//! - A part of whose rows the table's retention has removed some stays as it was stored. The record says of which
//!   commit of the table it was made. A bucket that reaches into removed rows belongs to the part before, which had
//!   them, so that the part behind it follows the table.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray};
use arrow::datatypes::TimestampNanosecondType;

use crate::database::{Database, Partition, Table, TableSnapshot};
use crate::dates::start_of_date;
use crate::error::{Error, Result};
use crate::load::{Load, LoadOptions, Removal};
use crate::manifest::Source;
use crate::partition;
use crate::retype::Inexact;
use crate::schema::{ColumnType, TableSpec};
use crate::segment::Segment;
use crate::select::Selection;
use crate::views::{View, refuse_drop_of_read};

/// Number that changes when the rows of a query may, between releases.
const QUERY_VERSION: u8 = 1;

/// The partitions of the table that a view has to consider: those that the table has now, those from which rows were
/// stored earlier, and those behind removed ones.
#[derive(Debug)]
pub struct ViewPartitions<'a> {
    source: &'a TableSnapshot,
    /// The other tables that the view's rows are computed from, and whether only their rows before a part's end count.
    others: Vec<(&'a TableSnapshot, bool)>,
    /// The stored parts, by the date that names them.
    stored: BTreeMap<i32, StoredPart>,
    partitions: BTreeMap<i32, Option<&'a Partition>>,
    removals: Removals,
}

/// What was recorded when a part's rows were stored.
#[derive(Debug)]
struct StoredPart {
    digest: String,
    /// The commit of the table that they were computed from; 0 where older releases stored them, which didn't record it.
    commit: u64,
}

/// Rows of a view that are kept or computed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewPart {
    /// First dates of the partitions whose rows, from the part's first bucket on, are its rows, in days since 1970-01-01. The first one here names
    /// the part: the earliest that has rows in it.
    pub dates: Vec<i32>,
    /// Times of its rows, in nanoseconds since the epoch.
    pub times: RangeInclusive<i64>,
    /// Rows of the table's partitions that it is made of. A partition whose rows are of several parts counts in each.
    pub rows: u64,
    /// Whether the stored rows are those that the query would give now.
    pub is_fresh: bool,
    /// Whether the stored rows stay as they are, because retention has removed rows that they were computed from.
    pub is_expired: bool,
    /// Whether some of its rows are in no file yet, so that its result can't be stored.
    pub is_live: bool,
    /// Whether rows are stored under some of its dates.
    is_recorded: bool,
    digest: String,
    /// The table's commit.
    commit: u64,
}

impl ViewPart {
    /// Whether its result can be stored and isn't.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.is_fresh && !self.is_live && (self.rows > 0 || self.is_recorded)
    }
}

impl<'a> ViewPartitions<'a> {
    /// The inputs of a view, and its stored parts.
    ///
    /// # Errors
    /// As [`ViewPartitions::starts`].
    pub fn of(
        source: &'a TableSnapshot,
        others: Vec<(&'a TableSnapshot, bool)>,
        stored: Option<&TableSnapshot>,
    ) -> Result<ViewPartitions<'a>> {
        let sources = stored.into_iter().flat_map(TableSnapshot::sources);
        let stored: BTreeMap<i32, StoredPart> = sources.filter_map(|(source, _)| stored_part(source)).collect();
        let removals = Removals::of(source)?;
        let mut partitions: BTreeMap<i32, Option<&Partition>> = stored.keys().map(|date| (*date, None)).collect();
        // Behind removed rows another part begins, whether the table has rows there or not.
        let behind = removals.dates_behind(source.spec())?;
        let is_behind_stored = |(date, since): &(i32, u64)| {
            stored.range(..date).next_back().is_some_and(|(_, stored)| stored.commit < *since)
        };
        partitions.extend(behind.into_iter().filter(is_behind_stored).map(|(date, _)| (date, None)));
        partitions.extend(source.partitions().iter().map(|partition| (partition.date, Some(partition))));
        Ok(ViewPartitions { source, others, stored, partitions, removals })
    }

    /// First date and first instant of each, in order; no instant where a clock that is put back passes it twice.
    ///
    /// # Errors
    /// [`Error::Schema`] for a zone that isn't known.
    pub fn starts(&self) -> Result<Vec<(i32, Option<i64>)>> {
        starts(self.source.spec(), self.partitions.keys().copied())
    }

    /// The partitions whose first bucket has removed rows, with which the part before it was stored, and where they begin. No part may begin with
    /// that bucket. `cuts` has where the buckets begin.
    ///
    /// # Errors
    /// As [`ViewPartitions::starts`].
    pub fn cut_by_removal(&self, cuts: &HashMap<i32, i64>) -> Result<Vec<(i32, i64)>> {
        let mut of_removed = Vec::new();
        let mut before: Option<&StoredPart> = None;
        for date in self.partitions.keys() {
            if let (Some(stored), Some(cut)) = (before, cuts.get(date)) {
                let start = *extent(self.source.spec(), *date)?.start();
                let last = start.saturating_sub(1);
                if *cut <= last && self.removals.since(stored.commit, &(*cut..=last)) {
                    of_removed.push((*date, start));
                }
            }
            before = self.stored.get(date).or(before);
        }
        Ok(of_removed)
    }

    /// The parts of a view. `cuts` has for partitions an instant at which a part may begin that has their rows from then on: no row of the query
    /// depends on rows of the table on both sides of it.
    ///
    /// # Errors
    /// As [`ViewPartitions::starts`].
    pub fn parts(&self, view: &View, cuts: &HashMap<i32, i64>) -> Result<Vec<ViewPart>> {
        let mut others = OtherSources::of(self, view)?;
        let spec = self.source.spec();
        let extents = self.partitions.keys().map(|date| extent(spec, *date)).collect::<Result<Vec<_>>>()?;
        let extent_of: HashMap<i32, &RangeInclusive<i64>> = self.partitions.keys().copied().zip(&extents).collect();
        let mut runs: Vec<(i64, Vec<i32>)> = Vec::new();
        for (date, extent) in self.partitions.keys().zip(&extents) {
            match (cuts.get(date), runs.last_mut()) {
                (Some(cut), Some((start, _))) if cut > start => runs.push((*cut, vec![*date])),
                (_, Some((_, run))) => run.push(*date),
                (cut, None) => runs.push((cut.copied().unwrap_or(*extent.start()), vec![*date])),
            }
        }
        let (mut parts, mut passed) = (Vec::with_capacity(runs.len()), 0);
        for (place, (start, dates)) in runs.iter().enumerate() {
            let end = runs.get(place + 1).map_or(i64::MAX, |(next, _)| next.saturating_sub(1));
            // The first part has all that is before, the others what begins in partitions before them, too.
            let begin = if place == 0 { i64::MIN } else { *start };
            passed += extents[passed..].iter().take_while(|extent| *extent.end() < begin).count();
            let inputs = self.partitions.values().zip(&extents).skip(passed);
            let inputs = inputs.take_while(|(_, extent)| *extent.start() <= end);
            let inputs = inputs.filter(|(_, extent)| *extent.end() >= begin);
            let inputs: Vec<(&Partition, &RangeInclusive<i64>)> =
                inputs.filter_map(|(partition, extent)| Some(((*partition)?, extent))).collect();
            let first = dates[0];
            let mut dates = dates.clone();
            if let Some(named) = dates.iter().position(|date| extent_of[date].end() >= start) {
                dates[..=named].rotate_right(1);
            }
            let mut hasher = others.before(end);
            hasher.update(&dates[0].to_le_bytes());
            for (partition, extent) in &inputs {
                add_files(&mut hasher, partition);
                // Of a partition whose rows are of several parts, the digest has which of them are of this one.
                for (side, bound, own) in [(b'<', begin, extent.start()), (b'>', end, extent.end())] {
                    if extent.contains(&bound) && bound != *own {
                        hasher.update(&[side]);
                        hasher.update(&bound.to_le_bytes());
                    }
                }
            }
            let digest = hasher.finalize().to_hex().to_string();
            let is_live = others.is_live || inputs.iter().any(|(partition, _)| self.source.has_live(partition));
            let mut of_dates = dates.iter().filter_map(|date| self.stored.get(date)).peekable();
            let is_removed = |stored: &StoredPart| self.removals.since(stored.commit, &(*start..=end));
            let has_expired = match of_dates.peek() {
                Some(_) => of_dates.any(is_removed),
                // Its rows may have been stored with the part before.
                None => self.stored.range(..first).next_back().is_some_and(|(_, stored)| is_removed(stored)),
            };
            let is_kept = !is_live
                && self.stored.get(&dates[0]).is_some_and(|stored| stored.digest == digest)
                && dates[1..].iter().all(|date| !self.stored.contains_key(date));
            parts.push(ViewPart {
                is_recorded: dates.iter().any(|date| self.stored.contains_key(date)),
                dates,
                times: begin..=end,
                rows: inputs.iter().map(|(partition, _)| partition.rows()).sum(),
                is_fresh: has_expired || is_kept,
                is_expired: has_expired,
                is_live,
                digest,
                commit: self.source.epoch(),
            });
        }
        Ok(parts)
    }
}

/// The times that the rows of a partition may have. Those of neighbours overlap where a clock is put back between them.
fn extent(spec: &TableSpec, date: i32) -> Result<RangeInclusive<i64>> {
    let zone = spec.zone()?;
    let start = |date: i32| start_of_date(zone, spec.day_start, date);
    let next = spec.partition.last(date).saturating_add(1);
    let begin = start(date).or_else(|| start(date - 1)).unwrap_or(i64::MIN);
    let end = start(next).or_else(|| start(next + 1)).unwrap_or(i64::MAX);
    Ok(begin..=end.saturating_sub(1))
}

/// The times of which a table's retention has removed rows.
#[derive(Debug)]
struct Removals {
    /// Times of a partition, and the commit since which it is removed, by the first of the times.
    removed: Vec<(RangeInclusive<i64>, u64)>,
    /// The last instant of each of these and of those before it.
    ends: Vec<i64>,
}

impl Removals {
    fn of(source: &TableSnapshot) -> Result<Removals> {
        let history = &source.state().history;
        let mut removed = Vec::new();
        for expiry in history.expiries() {
            let spec = history.spec_at(expiry.commit).unwrap_or(source.spec());
            for date in expiry.note.dates.keys() {
                removed.push((extent(spec, *date)?, expiry.in_force_since));
            }
        }
        removed.sort_by_key(|(times, _)| *times.start());
        let end = |last: &mut i64, (times, _): &(RangeInclusive<i64>, u64)| {
            *last = (*last).max(*times.end());
            Some(*last)
        };
        let ends = removed.iter().scan(i64::MIN, end).collect();
        Ok(Removals { removed, ends })
    }

    /// The first date of the partition behind each removed one, and the commit since which that is removed.
    fn dates_behind(&self, spec: &TableSpec) -> Result<Vec<(i32, u64)>> {
        let mut dates = spec.dates()?.by(spec.partition);
        let ended = self.removed.iter().filter(|(times, _)| *times.end() < i64::MAX);
        Ok(ended.map(|(times, since)| (dates.of(*times.end() + 1), *since)).collect())
    }

    /// Whether rows of some times were removed after a commit.
    fn since(&self, commit: u64, times: &RangeInclusive<i64>) -> bool {
        let until = self.removed.partition_point(|(removed, _)| removed.start() <= times.end());
        let within = self.removed[..until].iter().zip(&self.ends[..until]).rev();
        let mut within = within.take_while(|(_, end)| *end >= times.start());
        within.any(|((removed, by), _)| *by > commit && removed.end() >= times.start())
    }
}

impl TableSnapshot {
    /// First dates of the partitions that have rows which are in no file yet.
    #[must_use]
    pub fn live_dates(&self) -> Vec<i32> {
        let partitions = self.partitions().iter().filter(|partition| self.has_live(partition));
        partitions.map(|partition| partition.date).collect()
    }

    fn has_live(&self, partition: &Partition) -> bool {
        let is_live = |segment: &Arc<Segment>| segment.is_in_memory() || segment.is_cut();
        self.live() != 0 && partition.segments.iter().any(is_live)
    }
}

/// The inputs of the parts other than their own partitions: files of other tables, from the earliest to the latest. Some belong to every part,
/// others only to parts that end after they begin.
struct OtherSources<'a> {
    hasher: blake3::Hasher,
    /// Whether some of the inputs are live rows.
    is_live: bool,
    /// The remaining partitions, the earliest last.
    remaining: Vec<(i64, &'a TableSnapshot, &'a Partition)>,
}

impl<'a> OtherSources<'a> {
    fn of(partitions: &ViewPartitions<'a>, view: &View) -> Result<OtherSources<'a>> {
        let mut others = OtherSources { hasher: blake3::Hasher::new(), is_live: false, remaining: Vec::new() };
        others.hasher.update(&[QUERY_VERSION]);
        add_text(&mut others.hasher, &view.query);
        view.columns.iter().for_each(|column| add_text(&mut others.hasher, column));
        add_table(&mut others.hasher, view, partitions.source.spec());
        for (table, only_before) in &partitions.others {
            add_table(&mut others.hasher, view, table.spec());
            let starts = starts(table.spec(), table.partitions().iter().map(|partition| partition.date))?;
            for (partition, (_, start)) in table.partitions().iter().zip(starts) {
                match start.filter(|_| *only_before) {
                    Some(start) => others.remaining.push((start, *table, partition)),
                    None => others.add(table, partition),
                }
            }
        }
        others.remaining.sort_by_key(|(start, _, partition)| std::cmp::Reverse((*start, partition.date)));
        Ok(others)
    }

    fn add(&mut self, table: &TableSnapshot, partition: &Partition) {
        self.hasher.update(&partition.date.to_le_bytes());
        add_files(&mut self.hasher, partition);
        self.is_live |= table.has_live(partition);
    }

    /// The digest of all inputs, other than its own partitions, of a part that ends at an instant. Has to be called for parts in order of time.
    fn before(&mut self, end: i64) -> blake3::Hasher {
        while let Some((_, table, partition)) = self.remaining.pop_if(|(start, _, _)| *start <= end) {
            self.add(table, partition);
        }
        self.hasher.clone()
    }
}

fn starts(spec: &TableSpec, dates: impl Iterator<Item = i32>) -> Result<Vec<(i32, Option<i64>)>> {
    let (zone, day_start) = (spec.zone()?, spec.day_start);
    Ok(dates.map(|date| (date, start_of_date(zone, day_start, date))).collect())
}

fn add_files(hasher: &mut blake3::Hasher, partition: &Partition) {
    for segment in partition.segments.iter() {
        hasher.update(segment.entry().digest.as_bytes());
        hasher.update(&segment.entry().rows.to_le_bytes());
    }
}

fn add_text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

/// Adds the properties of a table on which a query depends besides its rows.
fn add_table(hasher: &mut blake3::Hasher, view: &View, spec: &TableSpec) {
    let query = view.query.to_lowercase();
    let words: HashSet<&str> = query.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for text in [&spec.name, &spec.time, spec.symbol.as_ref().unwrap_or(&String::new()), &spec.dates_in()] {
        add_text(hasher, text);
    }
    add_text(hasher, &spec.partition.to_string());
    // A column of a name that isn't one word may be named in another way.
    let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    for column in &spec.columns {
        let name = column.name.to_lowercase();
        if words.contains(name.as_str()) || !is_word(&name) {
            add_text(hasher, &name);
            add_text(hasher, &column.column_type.to_string());
        }
    }
}

impl Database {
    /// Refuses a change of a table that keeps the rows of a materialized view.
    ///
    /// # Errors
    /// [`Error::Refused`]; those of [`Database::views`].
    pub fn refuse_of_view(&self, table: &str) -> Result<()> {
        if !crate::views::may_keep_rows(table) {
            return Ok(());
        }
        let views = self.views()?;
        let keeps = |view: &&View| view.rows_table().is_some_and(|rows| rows.eq_ignore_ascii_case(table));
        match views.iter().find(keeps) {
            None => Ok(()),
            Some(view) => {
                let name = &view.name;
                let reason = format!(
                    "{table:?} keeps the rows of the materialized view {name:?}, which change with the table that it reads"
                );
                Err(Error::Refused { reason })
            }
        }
    }

    /// Begins to store rows of parts of a view, which replace the stored rows of these parts. `stored` is the table with the view's rows as it was
    /// when the parts were examined; `None` if it has changed since.
    ///
    /// # Errors
    /// As [`Database::load`].
    pub fn keep_view(
        &self,
        view: &View,
        spec: &TableSpec,
        stored: Option<&TableSnapshot>,
        parts: &[ViewPart],
    ) -> Result<Option<Load>> {
        let mut load = Load::begin(self, spec, LoadOptions::default())?;
        let before = stored.map(TableSnapshot::epoch);
        if load.epoch() != before || self.view(&view.name)?.as_ref() != Some(view) {
            return Ok(None);
        }
        let of_parts = |source: &Source| {
            stored_part(source).is_some_and(|(date, _)| parts.iter().any(|part| part.dates.contains(&date)))
        };
        let sources = stored.into_iter().flat_map(TableSnapshot::sources);
        let unload = sources.filter(|(source, _)| of_parts(source)).map(|(source, _)| source.digest.clone()).collect();
        let has_rows = |part: &&ViewPart| part.rows > 0;
        let table = view.materialized.as_deref().unwrap_or_default();
        let record = |part: &ViewPart| {
            let name = format!("{table}{COMMIT}{} {}", part.commit, partition::date(part.dates[0]));
            Source { name, digest: part.digest.clone(), rows: part.rows }
        };
        let sources = parts.iter().filter(has_rows).map(record).collect();
        load.replace_sources(rows_of(spec, parts), unload, sources)?;
        Ok(Some(load))
    }

    /// Widens a column of the stored rows of a view, as its query gives it by now. Whole numbers that no float is equal to become the nearest
    /// one: sums of floats, which the query gives now, are no more exact.
    ///
    /// # Errors
    /// As [`Table::widen_column`], and [`Error::NoSuchTable`] where no rows are stored.
    pub fn widen_view(&self, view: &View, column: &str, wider: ColumnType) -> Result<()> {
        self.table(&view.rows_table().unwrap_or_default())?.widen_any_column(column, wider, Inexact::Rounded)
    }

    /// Drops a materialized view with its rows; whether there was one. `reads` says whether the query of another one reads it, or its rows.
    ///
    /// # Errors
    /// As [`Table::drop_table`] and [`Database::drop_view`].
    pub fn drop_materialized(&self, view: &View, reads: impl Fn(&View) -> bool) -> Result<bool> {
        refuse_drop_of_read("view", &self.views()?, &view.name, &reads)?;
        // Rows first: a view without them gives what its query does.
        if let Some(rows) = view.rows_table() {
            match self.table(&rows).and_then(|table| Table::drop_rows(&table)) {
                Ok(_) | Err(Error::NoSuchTable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.drop_view(&view.name, reads)
    }
}

/// The kept rows of parts.
fn rows_of(spec: &TableSpec, parts: &[ViewPart]) -> Removal {
    let times: Vec<RangeInclusive<i64>> = parts.iter().map(|part| part.times.clone()).collect();
    let mut selection = Selection::default();
    selection.time.min = times.iter().map(|times| *times.start()).min().unwrap_or(i64::MAX);
    selection.time.max = times.iter().map(|times| *times.end()).max().unwrap_or(i64::MIN);
    Removal::matching(selection, vec![spec.time_position()], move |rows| {
        let row_times = rows.column(0).as_primitive::<TimestampNanosecondType>();
        // Parts are in order.
        let of_parts = |time: i64| {
            let behind = times.partition_point(|times| *times.end() < time);
            times.get(behind).is_some_and(|times| times.contains(&time))
        };
        Ok(row_times.values().iter().map(|time| Some(of_parts(*time))).collect::<BooleanArray>())
    })
}

/// Stands in the name of a source before the table's commit.
const COMMIT: &str = " at commit ";

/// The part that a source records: `TABLE [at commit NUMBER] DATE`.
fn stored_part(source: &Source) -> Option<(i32, StoredPart)> {
    let (rest, date) = source.name.rsplit_once(' ')?;
    let commit = rest.rsplit_once(COMMIT).and_then(|(_, commit)| commit.parse().ok()).unwrap_or(0);
    Some((partition::days(date.parse().ok()?), StoredPart { digest: source.digest.clone(), commit }))
}
