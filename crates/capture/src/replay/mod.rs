//! Replays: a stored or recorded day, sent like live rows: snapshot, then deltas with sequence numbers.
//!
//! - The same request over the same rows gives the same updates, at any speed and for every subscriber: rows in order
//!   of time, then of the tables as named, then of symbol, then of arrival; updates are cut at fixed times.
//! - Each replay advances as its subscriber reads it. Nothing is dropped for a slow one; it only falls behind.
//! - The clock comes from outside.

mod journal_replay;
mod pace;
mod table_replay;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::Date32Type;
use chrono::Timelike;
use splay_store::{Database, TableSpec};

use self::journal_replay::JournalReplay;
pub use self::pace::{Pace, ReplaySpeed};
use self::table_replay::TableReplay;
use crate::error::{Error, Result};
use crate::subscribe::{SubscriptionStart, Update, UpdateKind};
use crate::subscription_filter::SubscriptionFilter;

/// Most bytes of columns that are decoded at once: those of cold segments, which aren't mapped.
const DECODED_BYTES_MAX: usize = 1 << 30;

/// How long updates that the filter drops are skipped before the reader's state is checked again.
const PASSED_OVER_MAX: Duration = Duration::from_millis(50);

/// Where the rows of a replay come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplaySource {
    /// The table: its rows in order of time.
    #[default]
    Stored,
    /// The journal: the batches as they came in, late ones late, by the time at which they came.
    Recorded,
}

/// What is replayed.
#[derive(Debug, Clone)]
pub struct ReplayRequest {
    /// The tables. Of rows of one instant those of the first come first.
    pub tables: Vec<String>,
    /// Only rows of these symbols; `None` for all. Sequence numbers count what is replayed.
    pub symbols: Option<Vec<String>>,
    /// Where the rows come from.
    pub source: ReplaySource,
    /// The date, as `2024-03-10`, in each table's time zone; of a recorded replay that of receipt, and it may be left out.
    pub date: Option<String>,
    /// The first instant: as `09:30:00`, of the date in the table's time zone, or as `2024-03-10T14:30:00Z`. Rows of the date before
    /// it are the snapshot.
    pub from: Option<String>,
    /// The instant at which it ends, as `from`.
    pub to: Option<String>,
    /// Nanoseconds of the stretches of time within which rows may be sent together, at the end of the last; at least 1.
    pub batch_ns: i64,
    /// How fast.
    pub speed: ReplaySpeed,
}

impl ReplayRequest {
    /// A date of tables, as it happened, in stretches of 10 ms.
    pub fn new(tables: Vec<String>, date: impl Into<String>) -> ReplayRequest {
        ReplayRequest {
            tables,
            symbols: None,
            source: ReplaySource::Stored,
            date: Some(date.into()),
            from: None,
            to: None,
            batch_ns: 10_000_000,
            speed: ReplaySpeed::Times(1.0),
        }
    }
}

/// What a subscriber wants of a replay.
#[derive(Debug, Clone)]
pub struct ReplayView {
    /// The tables; `None` for all.
    pub tables: Option<Vec<String>>,
    /// Only rows of these symbols; `None` for all that are replayed.
    pub symbols: Option<Vec<String>>,
    /// Only these columns, in this order; `None` for all. Each table must have them.
    pub columns: Option<Vec<String>>,
    /// With the rows of the date before the first instant as a snapshot, without, or behind an update. A recorded replay begins with
    /// nothing: its snapshot is empty.
    pub from: SubscriptionStart,
}

/// A batch of a replay: rows of one table.
struct ReplayBatch {
    /// Place of the table in the request.
    table: usize,
    sequence: u64,
    /// When it is due, in the time of the replay.
    due: i64,
    rows: RecordBatch,
}

/// Where batches come from, one after the other.
#[derive(Debug)]
enum ReplayBatches {
    Stored(Box<TableReplay>),
    Recorded(Box<JournalReplay>),
}

/// One table as a subscriber wants it.
#[derive(Debug)]
struct ReplayedTable {
    name: Arc<str>,
    spec: Arc<TableSpec>,
    /// Which rows and columns the subscriber gets; `None` if it gets nothing of the table.
    filter: Option<SubscriptionFilter>,
}

/// A replay that is going on.
#[derive(Debug)]
pub struct Replay {
    source: ReplayBatches,
    views: Vec<ReplayedTable>,
    pace: Pace,
    speed: ReplaySpeed,
    /// The instant with which it begins, once known.
    first: Option<i64>,
    /// Tables whose snapshots are still to come, last first.
    snapshots: Vec<usize>,
    /// Whether the snapshot under way has begun.
    in_snapshot: bool,
    waiting: Option<ReplayBatch>,
    last: u64,
    is_over: bool,
}

impl std::fmt::Debug for ReplayBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayBatch").field("sequence", &self.sequence).field("due", &self.due).finish_non_exhaustive()
    }
}

impl Replay {
    /// Begins a replay of a database. Several that share a pace go along with each other.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::Rejected`] for a request that can't be understood or columns that there aren't;
    /// [`Error::Gone`] if the journal no longer has what shall be replayed.
    pub fn begin(database: &Database, request: &ReplayRequest, view: &ReplayView, pace: Pace) -> Result<Replay> {
        let refused = |reason: &str| Err(Error::rejected("replay", reason));
        if request.tables.is_empty() {
            return refused("no table is named");
        }
        if request.batch_ns < 1 {
            return refused("rows are sent together for at least a nanosecond");
        }
        if let ReplaySpeed::Times(times) = request.speed
            && !(times.is_finite() && times > 0.0)
        {
            return refused("the speed is a number above zero, or max");
        }
        let specs = specs(database, &request.tables)?;
        let views = views(&request.tables, &specs, view)?;
        let after = match view.from {
            SubscriptionStart::After(sequence) => sequence,
            SubscriptionStart::Now | SubscriptionStart::Snapshot => 0,
        };
        let with_snapshot = view.from == SubscriptionStart::Snapshot;
        let (source, first) = match request.source {
            ReplaySource::Stored => {
                let stored = TableReplay::open(database, request, &specs, after, with_snapshot)?;
                let first = stored.begins();
                (ReplayBatches::Stored(Box::new(stored)), first)
            }
            ReplaySource::Recorded => {
                let recorded = JournalReplay::open(database, request, &specs, after)?;
                let first = recorded.begins();
                (ReplayBatches::Recorded(Box::new(recorded)), first)
            }
        };
        let is_selected = |place: &usize| views[*place].filter.is_some();
        let snapshots = if with_snapshot { (0..views.len()).rev().filter(is_selected).collect() } else { Vec::new() };
        Ok(Replay {
            source,
            views,
            pace,
            speed: request.speed,
            first: first.filter(|_| after == 0),
            snapshots,
            in_snapshot: false,
            waiting: None,
            last: after,
            is_over: false,
        })
    }

    /// The next update; `None` if none is due within the time. The last one is [`UpdateKind::End`].
    ///
    /// # Errors
    /// [`Error::Closed`] behind the last; [`Error::Gone`] if the journal no longer has what comes next; those of reading.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Update>> {
        let start = Instant::now();
        let until = start + timeout;
        if let Some(update) = self.snapshot()? {
            return Ok(Some(update));
        }
        loop {
            let Some(next_update) = self.take()? else { return self.end().map(Some) };
            let first = *self.first.get_or_insert(next_update.due);
            if let Some(wait) = self.pace.time_until(self.speed, first, next_update.due) {
                self.waiting = Some(next_update);
                let patience = until.saturating_duration_since(Instant::now());
                if patience.is_zero() {
                    return Ok(None);
                }
                std::thread::sleep(wait.min(patience));
                continue;
            }
            let view = &self.views[next_update.table];
            if let Some(filter) = &view.filter
                && let Some(rows) = filter.of(&view.spec, &next_update.rows)?
            {
                self.last = next_update.sequence;
                let table = Arc::clone(&view.name);
                return Ok(Some(Update { table, sequence: next_update.sequence, kind: UpdateKind::Delta, rows }));
            }
            // Returns now and then, because the caller may have other work.
            if start.elapsed() > timeout.max(PASSED_OVER_MAX) {
                return Ok(None);
            }
        }
    }

    fn take(&mut self) -> Result<Option<ReplayBatch>> {
        if let Some(next_update) = self.waiting.take() {
            return Ok(Some(next_update));
        }
        let views = &self.views;
        match &mut self.source {
            ReplayBatches::Stored(stored) => stored.next(|table| views[table].filter.is_some()),
            ReplayBatches::Recorded(recorded) => recorded.next(),
        }
    }

    /// The next part of the snapshots, table after table.
    fn snapshot(&mut self) -> Result<Option<Update>> {
        while let Some(place) = self.snapshots.last().copied() {
            let ReplayedTable { name, spec, filter: Some(filter) } = &self.views[place] else {
                self.snapshots.pop();
                continue;
            };
            let part = match &mut self.source {
                ReplayBatches::Stored(stored) => stored.before(place)?,
                ReplayBatches::Recorded(_) => None,
            };
            let (rows, more) = part.unwrap_or_else(|| (RecordBatch::new_empty(spec.arrow()), false));
            if !more {
                self.snapshots.pop();
            }
            let first = !std::mem::replace(&mut self.in_snapshot, more);
            let filtered_rows = filter.of(spec, &rows)?;
            let rows = match filtered_rows {
                Some(rows) => rows,
                // The first tells that there is a snapshot, the last that it is whole.
                None if first || !more => filter.columns(spec, &RecordBatch::new_empty(spec.arrow()))?,
                None => continue,
            };
            let (table, kind) = (Arc::clone(name), UpdateKind::Snapshot { first, more });
            return Ok(Some(Update { table, sequence: 0, kind, rows }));
        }
        Ok(None)
    }

    /// The last word.
    fn end(&mut self) -> Result<Update> {
        if std::mem::replace(&mut self.is_over, true) {
            return Err(Error::Closed);
        }
        // Where several tables are replayed, the first one with a filter stands for them.
        let view = self.views.iter().find_map(|view| Some((view, view.filter.as_ref()?)));
        let Some((ReplayedTable { name, spec, .. }, filter)) = view else { return Err(Error::Closed) };
        let rows = filter.columns(spec, &RecordBatch::new_empty(spec.arrow()))?;
        Ok(Update { table: Arc::clone(name), sequence: self.last, kind: UpdateKind::End, rows })
    }
}

fn specs(database: &Database, tables: &[String]) -> Result<Vec<Arc<TableSpec>>> {
    let mut specs: Vec<Arc<TableSpec>> = Vec::new();
    for name in tables {
        let table = database.table(name).map_err(|error| match error {
            splay_store::Error::NoSuchTable { table, .. } => Error::NoSuchTable { table },
            other => other.into(),
        })?;
        let spec = table.stored()?.spec().clone();
        if specs.iter().any(|other| other.name == spec.name) {
            return Err(Error::rejected(&spec.name, "it is named twice"));
        }
        specs.push(Arc::new(spec));
    }
    Ok(specs)
}

fn views(tables: &[String], specs: &[Arc<TableSpec>], view: &ReplayView) -> Result<Vec<ReplayedTable>> {
    for name in view.tables.iter().flatten() {
        if !tables.iter().any(|table| table.eq_ignore_ascii_case(name)) {
            return Err(Error::NoSuchTable { table: name.clone() });
        }
    }
    let is_viewed = |name: &str| {
        view.tables.as_ref().is_none_or(|names| names.iter().any(|other| other.eq_ignore_ascii_case(name)))
    };
    let made = specs.iter().map(|spec| {
        let filter = is_viewed(&spec.name)
            .then(|| SubscriptionFilter::new(spec, view.symbols.as_deref(), view.columns.as_deref()))
            .transpose()?;
        Ok(ReplayedTable { name: Arc::from(spec.name.as_str()), spec: Arc::clone(spec), filter })
    });
    made.collect()
}

/// The date of a request, in days since 1970-01-01.
fn date(request: &ReplayRequest) -> Result<Option<i32>> {
    let Some(text) = &request.date else { return Ok(None) };
    let wrong = || Error::rejected("replay", format!("{text:?} is not a date such as 2024-03-10"));
    Date32Type::parse(text).map(Some).ok_or_else(wrong)
}

/// An instant of a request, in nanoseconds since the epoch. One without a date is of the request's date, one without a zone in
/// the table's.
fn instant(spec: &TableSpec, request: &ReplayRequest, text: Option<&String>) -> Result<Option<i64>> {
    let Some(text) = text else { return Ok(None) };
    let wrong = |why: &dyn std::fmt::Display| {
        let what = "is neither a time such as 09:30:00 nor an instant such as 2024-03-10T14:30:00Z";
        Error::rejected("replay", format!("{text:?} {what}: {why}"))
    };
    let zone = spec.time_zone.parse::<Tz>().map_err(|error| wrong(&error))?;
    let is_of_day = text.find([':', 'T', ' ']).is_some_and(|at| at <= 2);
    let seconds = if text.matches(':').count() == 1 && is_of_day { ":00" } else { "" };
    let whole = match (date(request)?, is_of_day) {
        (Some(date), true) => {
            // A date may begin on the evening before: its 18:00 is that of the day before.
            let of_day = chrono::NaiveTime::parse_from_str(&format!("{text}{seconds}"), "%H:%M:%S%.f");
            let is_before = of_day.is_ok_and(|time| spec.day_start.is_next_date(time.num_seconds_from_midnight()));
            format!("{}T{text}{seconds}", splay_store::date(date - i32::from(is_before)))
        }
        (None, true) => return Err(wrong(&"it has no date")),
        (_, false) => text.clone(),
    };
    let instant = string_to_datetime(&zone, &whole).map_err(|error| wrong(&error))?;
    instant.timestamp_nanos_opt().map(Some).ok_or_else(|| wrong(&"it is out of range"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use splay_store::{ColumnSpec, ColumnType};

    use super::*;

    #[test]
    fn a_time_of_a_date_is_that_of_the_evening_before_where_the_date_begins_there() {
        let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp)];
        let plain = TableSpec::new("t", columns, "time", None).with_time_zone("America/Chicago");
        let evening = plain.clone().with_day_start("17:00".parse().unwrap());
        let at = |spec: &TableSpec, text: &str| {
            let parsed = instant(spec, &ReplayRequest::new(vec!["t".to_owned()], "2024-03-11"), Some(&text.to_owned()));
            chrono::DateTime::from_timestamp_nanos(parsed.unwrap().unwrap()).to_rfc3339()
        };
        assert_eq!(at(&plain, "17:00"), "2024-03-11T22:00:00+00:00");
        for (text, expected) in [
            ("17:00", "2024-03-10T22:00:00+00:00"),
            ("18:00:00.5", "2024-03-10T23:00:00.500+00:00"),
            ("16:59:59", "2024-03-11T21:59:59+00:00"),
            ("00:00", "2024-03-11T05:00:00+00:00"),
            ("2024-03-11T22:00:00Z", "2024-03-11T22:00:00+00:00"),
        ] {
            assert_eq!(at(&evening, text), expected, "{text}");
        }
    }
}
