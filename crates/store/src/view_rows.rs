//! Rows of materialized views: which of them are what the view's query gives now.
//!
//! - A view is kept by *parts*: runs of partitions of the table that it reads, which together cover all time. The query's rows with times of a part
//!   come from the table's rows with times of the part.
//! - The commit that keeps a part's rows records a source: the name ends with the part's first date, the digest is that of the query and of all
//!   that its rows depend on in the table. A part without such a record, or with live rows, is stale, whatever happened since and in
//!   whichever order.
//! - What goes by the table's retention stays in the view.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use arrow::array::{AsArray, BooleanArray};
use arrow::datatypes::TimestampNanosecondType;

use crate::database::{Database, Partition, Table, TableSnapshot};
use crate::dates::start_of_date;
use crate::error::{Error, Result};
use crate::load::{Load, LoadOptions, Removal};
use crate::manifest::Source;
use crate::partition;
use crate::schema::TableSpec;
use crate::select::Selection;
use crate::views::View;

/// Number that changes when the rows of a query may, between releases.
const QUERY_VERSION: u8 = 1;

/// Partitions of a table at a view's side: those that the table has, and those that it had when rows were kept of them.
#[derive(Debug)]
pub struct ViewCells<'a> {
    source: &'a TableSnapshot,
    /// Digest and standing of what was kept, by first date of the part.
    kept: BTreeMap<i32, String>,
    cells: BTreeMap<i32, Option<&'a Partition>>,
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
    /// Whether the kept rows are those that the query would give.
    pub is_fresh: bool,
    /// Whether some of its rows are in no file yet, so that it can't be kept.
    pub is_live: bool,
    /// Whether rows were kept of some of its partitions.
    is_recorded: bool,
    digest: String,
}

impl ViewPart {
    /// Whether it can be kept, and isn't.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.is_fresh && !self.is_live && (self.rows > 0 || self.is_recorded)
    }
}

impl<'a> ViewCells<'a> {
    /// What a view reads, and what is kept of it.
    #[must_use]
    pub fn of(source: &'a TableSnapshot, kept: Option<&TableSnapshot>) -> ViewCells<'a> {
        let sources = kept.into_iter().flat_map(TableSnapshot::sources);
        let kept: BTreeMap<i32, String> =
            sources.filter_map(|(source, _)| Some((date_of(&source.name)?, source.digest.clone()))).collect();
        let mut cells: BTreeMap<i32, Option<&Partition>> = kept.keys().map(|date| (*date, None)).collect();
        cells.extend(source.partitions().iter().map(|partition| (partition.date, Some(partition))));
        ViewCells { source, kept, cells }
    }

    /// First dates of the partitions that have rows which are in no file yet.
    #[must_use]
    pub fn live_dates(&self) -> Vec<i32> {
        let partitions = self.source.partitions().iter().filter(|_| self.source.live() != 0);
        partitions.filter(|partition| self.has_live(partition)).map(|partition| partition.date).collect()
    }

    /// First date and first instant of each, in order; no instant where a clock that is put back passes it twice.
    ///
    /// # Errors
    /// [`Error::Schema`] for a zone that isn't known.
    pub fn starts(&self) -> Result<Vec<(i32, Option<i64>)>> {
        let (zone, day_start) = (self.source.spec().zone()?, self.source.spec().day_start);
        Ok(self.cells.keys().map(|date| (*date, start_of_date(zone, day_start, *date))).collect())
    }

    /// The parts of a view. `begins` has the partitions at whose first instant a part may begin, with that instant: no row of the query has a
    /// time before it and comes from a row of the table at or after it, nor the other way round.
    #[must_use]
    pub fn parts(&self, view: &View, begins: &HashMap<i32, i64>) -> Vec<ViewPart> {
        let mut parts: Vec<ViewPart> = Vec::new();
        let (query, expired) = (self.query_hasher(view), self.source.state().history.expired());
        let mut runs: Vec<(i64, Vec<(i32, Option<&Partition>)>)> = Vec::new();
        for (date, partition) in &self.cells {
            match (begins.get(date), runs.last_mut()) {
                (None, Some((_, run))) => run.push((*date, *partition)),
                (Some(start), Some(_)) => runs.push((*start, vec![(*date, *partition)])),
                (_, None) => runs.push((i64::MIN, vec![(*date, *partition)])),
            }
        }
        for (place, (start, run)) in runs.iter().enumerate() {
            let end = runs.get(place + 1).map_or(i64::MAX, |(next, _)| next.saturating_sub(1));
            let mut hasher = query.clone();
            hasher.update(&run[0].0.to_le_bytes());
            let partitions = || run.iter().filter_map(|(_, partition)| *partition);
            for segment in partitions().flat_map(|partition| partition.segments.iter()) {
                hasher.update(segment.entry().digest.as_bytes());
                hasher.update(&segment.entry().rows.to_le_bytes());
            }
            let digest = hasher.finalize().to_hex().to_string();
            let is_live = partitions().any(|partition| self.has_live(partition));
            let kept = self.kept.get(&run[0].0);
            let has_expired = expired.is_some_and(|expired| run[0].0 <= expired) && kept.is_some();
            let is_kept =
                !is_live && kept == Some(&digest) && run[1..].iter().all(|(date, _)| !self.kept.contains_key(date));
            parts.push(ViewPart {
                dates: run.iter().map(|(date, _)| *date).collect(),
                times: *start..=end,
                rows: partitions().map(Partition::rows).sum(),
                is_fresh: has_expired || is_kept,
                is_live,
                is_recorded: run.iter().any(|(date, _)| self.kept.contains_key(date)),
                digest,
            });
        }
        parts
    }

    fn has_live(&self, partition: &Partition) -> bool {
        let files = &self.source.state().files;
        self.source.live() != 0
            && partition
                .segments
                .iter()
                .any(|segment| segment.is_cut() || files.get(&segment.entry().path) != Some(segment.entry()))
    }

    /// What the rows of all parts depend on.
    fn query_hasher(&self, view: &View) -> blake3::Hasher {
        let spec = self.source.spec();
        let words: Vec<String> = view
            .query
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .map(str::to_lowercase)
            .filter(|word| !word.is_empty())
            .collect();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[QUERY_VERSION]);
        let mut add = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        add(&view.query);
        view.columns.iter().for_each(|column| add(column));
        add(&spec.time);
        add(spec.symbol.as_deref().unwrap_or_default());
        add(&spec.dates_in());
        add(&spec.partition.to_string());
        // A column of a name that isn't one word may be named in another way.
        let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        for column in &spec.columns {
            let name = column.name.to_lowercase();
            if words.contains(&name) || !is_word(&name) {
                add(&name);
                add(&column.column_type.to_string());
            }
        }
        hasher
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

    /// Begins to keep rows of parts of a view, in the place of what was kept of them. `kept` is the table with the view's rows as it was when
    /// the parts were looked at; `None` if it has changed since.
    ///
    /// # Errors
    /// As [`Database::load`].
    pub fn keep_view(
        &self,
        view: &View,
        spec: &TableSpec,
        kept: Option<&TableSnapshot>,
        parts: &[ViewPart],
    ) -> Result<Option<Load>> {
        let mut load = Load::begin(self, spec, LoadOptions::default())?;
        let before = kept.map(TableSnapshot::epoch);
        if load.epoch() != before || self.view(&view.name)?.as_ref() != Some(view) {
            return Ok(None);
        }
        let of_parts = |source: &Source| {
            date_of(&source.name).is_some_and(|date| parts.iter().any(|part| part.dates.contains(&date)))
        };
        let sources = kept.into_iter().flat_map(TableSnapshot::sources);
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

    /// Drops a materialized view with its rows; whether there was one.
    ///
    /// # Errors
    /// As [`Table::drop_table`] and [`Database::drop_view`].
    pub fn drop_materialized(&self, view: &View) -> Result<bool> {
        // Rows first: a view without them gives what its query does.
        if let Some(rows) = view.rows_table() {
            match self.table(&rows).and_then(|table| Table::drop_rows(&table)) {
                Ok(_) | Err(Error::NoSuchTable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.drop_view(&view.name)
    }
}

/// The kept rows of parts.
fn rows_of(spec: &TableSpec, parts: &[ViewPart]) -> Removal {
    let times: Vec<RangeInclusive<i64>> = parts.iter().map(|part| part.times.clone()).collect();
    let mut selection = Selection::default();
    selection.time.min = times.iter().map(|times| *times.start()).min().unwrap_or(i64::MAX);
    selection.time.max = times.iter().map(|times| *times.end()).max().unwrap_or(i64::MIN);
    Removal::matching(selection, vec![spec.time_position()], move |rows| {
        let found = rows.column(0).as_primitive::<TimestampNanosecondType>();
        // Parts are in order.
        let of_parts = |time: i64| {
            let behind = times.partition_point(|times| *times.end() < time);
            times.get(behind).is_some_and(|times| times.contains(&time))
        };
        Ok(found.values().iter().map(|time| Some(of_parts(*time))).collect::<BooleanArray>())
    })
}

/// The first date of the part that a source records.
fn date_of(name: &str) -> Option<i32> {
    let (_, date) = name.rsplit_once(' ')?;
    date.parse().ok().map(partition::days)
}
