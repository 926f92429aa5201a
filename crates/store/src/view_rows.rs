//! Stored rows of materialized views, and which of them are fresh, that is, equal to the result of the view's query
//! now.
//!
//! - A view is stored in *parts*: runs of partitions of its table, which together cover all time. The query's rows
//!   with times in a part depend only on the table's rows with times in the part.
//! - The commit that stores a part's rows records a source: its name ends with the part's first date, its digest is
//!   that of the query and of all inputs of the part in the table. A part without such a record, or with live rows,
//!   is stale, whatever happened since and in whatever order.
//! - Rows that the table's retention removes stay in the view.

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
use crate::schema::TableSpec;
use crate::segment::Segment;
use crate::select::Selection;
use crate::views::{View, refuse_drop_of_read};

/// Number that changes when the rows of a query may, between releases.
const QUERY_VERSION: u8 = 1;

/// The partitions of the table that a view has to consider: those that the table has now, and those from which rows
/// were stored earlier.
#[derive(Debug)]
pub struct ViewPartitions<'a> {
    source: &'a TableSnapshot,
    /// The other tables that the view's rows are computed from, and whether only their rows before a part's end count.
    others: Vec<(&'a TableSnapshot, bool)>,
    /// Digests of the stored parts, by first date of the part.
    digests: BTreeMap<i32, String>,
    partitions: BTreeMap<i32, Option<&'a Partition>>,
}

/// Rows of a view that are kept or computed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewPart {
    /// First dates of its partitions, in days since 1970-01-01.
    pub dates: Vec<i32>,
    /// Times of its rows, in nanoseconds since the epoch.
    pub times: RangeInclusive<i64>,
    /// Rows of the table that it is made of.
    pub rows: u64,
    /// Whether the stored rows are those that the query would give now.
    pub is_fresh: bool,
    /// Whether the stored rows stay as they are, because retention has removed the rows they were computed from.
    pub is_expired: bool,
    /// Whether some of its rows are in no file yet, so that its result can't be stored.
    pub is_live: bool,
    /// Whether rows of some of its partitions are stored.
    is_recorded: bool,
    digest: String,
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
    #[must_use]
    pub fn of(
        source: &'a TableSnapshot,
        others: Vec<(&'a TableSnapshot, bool)>,
        stored: Option<&TableSnapshot>,
    ) -> ViewPartitions<'a> {
        let sources = stored.into_iter().flat_map(TableSnapshot::sources);
        let digests: BTreeMap<i32, String> =
            sources.filter_map(|(source, _)| Some((date_of(&source.name)?, source.digest.clone()))).collect();
        let mut partitions: BTreeMap<i32, Option<&Partition>> = digests.keys().map(|date| (*date, None)).collect();
        partitions.extend(source.partitions().iter().map(|partition| (partition.date, Some(partition))));
        ViewPartitions { source, others, digests, partitions }
    }

    /// First date and first instant of each, in order; no instant where a clock that is put back passes it twice.
    ///
    /// # Errors
    /// [`Error::Schema`] for a zone that isn't known.
    pub fn starts(&self) -> Result<Vec<(i32, Option<i64>)>> {
        starts(self.source.spec(), self.partitions.keys().copied())
    }

    /// The parts of a view. `begins` has the partitions at whose first instant a part may begin, with that instant. No
    /// row of the query depends on rows of the table on the other side of this instant.
    ///
    /// # Errors
    /// As [`ViewPartitions::starts`].
    pub fn parts(&self, view: &View, begins: &HashMap<i32, i64>) -> Result<Vec<ViewPart>> {
        let mut parts: Vec<ViewPart> = Vec::new();
        let mut others = OtherSources::of(self, view)?;
        let expired = self.source.state().history.expired();
        let mut runs: Vec<(i64, Vec<(i32, Option<&Partition>)>)> = Vec::new();
        for (date, partition) in &self.partitions {
            match (begins.get(date), runs.last_mut()) {
                (None, Some((_, run))) => run.push((*date, *partition)),
                (Some(start), Some(_)) => runs.push((*start, vec![(*date, *partition)])),
                (_, None) => runs.push((i64::MIN, vec![(*date, *partition)])),
            }
        }
        for (place, (start, run)) in runs.iter().enumerate() {
            let end = runs.get(place + 1).map_or(i64::MAX, |(next, _)| next.saturating_sub(1));
            let mut hasher = others.before(end);
            hasher.update(&run[0].0.to_le_bytes());
            let partitions = || run.iter().filter_map(|(_, partition)| *partition);
            partitions().for_each(|partition| add_files(&mut hasher, partition));
            let digest = hasher.finalize().to_hex().to_string();
            let is_live = others.is_live || partitions().any(|partition| self.source.has_live(partition));
            let stored_digest = self.digests.get(&run[0].0);
            // A part is computed from all its partitions. If some of them still exist, it has expired only if its last date has.
            let last = run[run.len() - 1].0;
            let has_expired = expired.is_some_and(|expired| last <= expired) && stored_digest.is_some();
            let is_kept = !is_live
                && stored_digest == Some(&digest)
                && run[1..].iter().all(|(date, _)| !self.digests.contains_key(date));
            parts.push(ViewPart {
                dates: run.iter().map(|(date, _)| *date).collect(),
                times: *start..=end,
                rows: partitions().map(Partition::rows).sum(),
                is_fresh: has_expired || is_kept,
                is_expired: has_expired,
                is_live,
                is_recorded: run.iter().any(|(date, _)| self.digests.contains_key(date)),
                digest,
            });
        }
        Ok(parts)
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
            date_of(&source.name).is_some_and(|date| parts.iter().any(|part| part.dates.contains(&date)))
        };
        let sources = stored.into_iter().flat_map(TableSnapshot::sources);
        let unload = sources.filter(|(source, _)| of_parts(source)).map(|(source, _)| source.digest.clone()).collect();
        let has_rows = |part: &&ViewPart| part.rows > 0;
        let record = |part: &ViewPart| Source {
            name: format!("{} {}", view.materialized.as_deref().unwrap_or_default(), partition::date(part.dates[0])),
            digest: part.digest.clone(),
            rows: part.rows,
        };
        let sources = parts.iter().filter(has_rows).map(record).collect();
        load.replace_sources(rows_of(spec, parts), unload, sources)?;
        Ok(Some(load))
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

/// The first date of the part that a source records.
fn date_of(name: &str) -> Option<i32> {
    let (_, date) = name.rsplit_once(' ')?;
    date.parse().ok().map(partition::days)
}
