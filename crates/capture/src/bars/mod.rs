//! Live bars: open, high, low, close, volume, vwap and count per symbol and time bucket, sent as they change.
//!
//! - [`Bars`] computes them from the updates of a subscription: first the bars of its snapshot, then the bars that
//!   each batch changed.
//! - A bar equals the result of SQL over the same rows. A late row updates its bar; if that is no longer in memory,
//!   all its rows are read again ([`BarRows`]), so a bar is correct however late its rows are.
//! - A bar is final once a row is `late` behind its end. A final bar that changes is sent again.
//! - Only bars that aren't final are held, at most [`BARS_MAX`]; if rows can't be read again, all bars are.

mod bar;
mod bar_rebuild;
mod values;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use splay_store::{Dates, TableSpec};

use self::bar::{Bar, BarLayout, PublishedBar};
pub use self::bar_rebuild::{BarRows, StoredBarRows};
use self::values::{BarColumns, BarValues};
use crate::error::{Error, Result};
use crate::subscribe::{Update, UpdateKind};

/// Most bars that a subscription holds.
pub const BARS_MAX: usize = 1_000_000;

/// Widest bucket, in nanoseconds: a day.
const EVERY_NS_MAX: i64 = 86_400_000_000_000;

/// Bars of one update.
const UPDATE_BARS: usize = 1 << 16;

/// A request for bars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarsRequest {
    /// Width of the buckets in nanoseconds, at most a day. They are those of `time_bucket`.
    pub every_ns: i64,
    /// The column of prices, of any type of numbers.
    pub price: String,
    /// The column of sizes; without it there is neither volume nor vwap.
    pub size: Option<String>,
    /// How far behind the end of a bucket, in nanoseconds, rows have to be for its bar to be final.
    pub late_ns: i64,
}

/// Bars of one symbol that are held, by bucket.
#[derive(Debug, Default)]
struct SymbolBars {
    symbol: Option<Arc<str>>,
    bars: BTreeMap<i64, Bar>,
}

/// Makes bars of updates.
#[derive(Debug)]
pub struct Bars {
    request: BarsRequest,
    table: Arc<str>,
    columns: BarColumns,
    layout: BarLayout,
    rows: Option<Box<dyn BarRows>>,
    dates: Dates,
    /// Bars that begin on this date or later are known from their first row on; if not, rows have to be read again.
    complete_from: i32,
    symbols: Vec<SymbolBars>,
    places: HashMap<Option<Arc<str>>, usize>,
    bar_count: usize,
    /// Ends of buckets with bars that aren't final, and the symbols that have them.
    open: BTreeMap<i64, BTreeSet<usize>>,
    /// Bars that changed: symbol and bucket.
    changed: Vec<(usize, i64)>,
    /// Final bars that already have rows which are still to come.
    ahead: Vec<(usize, i64)>,
    /// Latest time of a row.
    latest: i64,
    /// The instant up to which bars are final.
    final_up_to: i64,
    /// When the last update arrived, by the clock.
    heard: Option<i64>,
    /// Bars that are due to be published.
    pending_bars: Vec<PublishedBar>,
    /// Whether the first snapshot is published, and whether its first part was.
    tells_snapshot: bool,
    is_begun: bool,
}

impl BarsRequest {
    /// Names of the columns that a subscription has to have for them.
    #[must_use]
    pub fn columns(&self, spec: &TableSpec) -> Vec<String> {
        let mut names = vec![spec.time.clone()];
        names.extend(spec.symbol.clone());
        for name in std::iter::once(&self.price).chain(&self.size) {
            if !names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                names.push(name.clone());
            }
        }
        names
    }

    /// # Errors
    /// [`Error::Rejected`] for columns that there aren't or that hold no numbers, and for widths out of bounds.
    fn validate(&self, spec: &TableSpec) -> Result<()> {
        let refused = |reason: String| Err(Error::rejected(&spec.name, reason));
        if !(1..=EVERY_NS_MAX).contains(&self.every_ns) {
            return refused("bars are a nanosecond to a day wide".to_owned());
        }
        if !(0..=EVERY_NS_MAX).contains(&self.late_ns) {
            return refused("rows are late by at most a day".to_owned());
        }
        for name in std::iter::once(&self.price).chain(&self.size) {
            let Some(column) = spec.position(name).map(|at| &spec.columns[at]) else {
                return refused(format!("it has no column {name:?}"));
            };
            if !column.column_type.arrow().is_numeric() {
                return refused(format!("column {name:?} is {}, not a number", column.column_type));
            }
        }
        Ok(())
    }
}

impl Bars {
    /// Bars of a table whose updates have the columns that [`BarsRequest::columns`] names. Without `rows` every bar stays in memory.
    /// `tells_snapshot`: whether the bars of the first snapshot are published.
    ///
    /// # Errors
    /// [`Error::Rejected`] for columns that there aren't or that hold no numbers, and for widths out of bounds.
    pub fn new(
        spec: &TableSpec,
        request: BarsRequest,
        rows: Option<Box<dyn BarRows>>,
        tells_snapshot: bool,
    ) -> Result<Bars> {
        request.validate(spec)?;
        let columns = BarColumns::new(spec, &request);
        let size = columns.size.as_ref().and_then(|size| spec.position(size));
        Ok(Bars {
            table: Arc::from(spec.name.as_str()),
            layout: BarLayout::new(spec, size.map(|at| &spec.columns[at].column_type)),
            columns,
            request,
            rows,
            dates: spec.dates()?,
            complete_from: i32::MIN,
            symbols: Vec::new(),
            places: HashMap::new(),
            bar_count: 0,
            open: BTreeMap::new(),
            changed: Vec::new(),
            ahead: Vec::new(),
            latest: i64::MIN,
            final_up_to: i64::MIN,
            heard: None,
            pending_bars: Vec::new(),
            tells_snapshot,
            is_begun: false,
        })
    }

    /// Takes an update in; gives those that it makes. `now` is the clock's time.
    ///
    /// # Errors
    /// [`Error::Rejected`] for more bars than may be held; those of reading rows again.
    pub fn take(&mut self, update: &Update, now: i64) -> Result<Vec<Update>> {
        self.heard = Some(now);
        let sequence = update.sequence;
        match update.kind {
            UpdateKind::Snapshot { first, more } => {
                if first {
                    self.forget();
                }
                self.fold(update)?;
                if !more {
                    self.end_snapshot(sequence)?;
                }
                Ok(self.give_snapshot(sequence, more))
            }
            UpdateKind::Delta => {
                self.fold(update)?;
                self.tell(sequence, self.latest);
                Ok(self.give(sequence))
            }
            UpdateKind::End => {
                self.tell(sequence, i64::MAX);
                let mut updates = self.give(sequence);
                updates.push(self.update(sequence, UpdateKind::End, &[]));
                Ok(updates)
            }
        }
    }

    /// Nothing came: bars that are over by the clock are final once nothing has come for as long as rows may be late.
    pub fn idle(&mut self, sequence: u64, now: i64) -> Vec<Update> {
        if self.heard.is_none_or(|heard| now.saturating_sub(heard) < self.request.late_ns) {
            return Vec::new();
        }
        self.tell(sequence, now);
        self.give(sequence)
    }

    fn forget(&mut self) {
        (self.symbols, self.places) = (Vec::new(), HashMap::new());
        (self.changed, self.ahead, self.pending_bars) = (Vec::new(), Vec::new(), Vec::new());
        self.open = BTreeMap::new();
        (self.bar_count, self.latest, self.final_up_to, self.complete_from) = (0, i64::MIN, i64::MIN, i32::MIN);
        self.is_begun = false;
    }

    /// Adds the rows of an update to their bars.
    fn fold(&mut self, update: &Update) -> Result<()> {
        let in_snapshot = matches!(update.kind, UpdateKind::Snapshot { .. });
        let values = BarValues::of(&self.columns, &update.rows)?;
        // The place of each text of the dictionary, filled at its first row. The last entry is the place of rows without a symbol.
        let mut places: Vec<Option<usize>> = vec![None; values.texts() + 1];
        for row in 0..update.rows.num_rows() {
            let (time, key) = (values.times[row], values.key(row));
            let slots = &mut places[key.unwrap_or(values.texts())];
            let place = *slots.get_or_insert_with(|| self.place(values.text(key)));
            let bucket = self.bucket(time)?;
            self.latest = self.latest.max(time);
            if !self.symbols[place].bars.contains_key(&bucket) {
                if in_snapshot {
                    self.complete_from = self.complete_from.max(self.dates.of(time));
                    self.close_before(place, time, update.sequence);
                }
                self.begin(place, bucket, in_snapshot)?;
            }
            if let Some(bar) = self.symbols[place].bars.get_mut(&bucket)
                && update.sequence > bar.through
            {
                if !std::mem::replace(&mut bar.is_changed, true) {
                    self.changed.push((place, bucket));
                }
                bar.add(time, values.price(row), values.size(row));
            }
        }
        Ok(())
    }

    fn place(&mut self, symbol: Option<&str>) -> usize {
        let symbol: Option<Arc<str>> = symbol.map(Arc::from);
        if let Some(place) = self.places.get(&symbol) {
            return *place;
        }
        self.symbols.push(SymbolBars { symbol: symbol.clone(), bars: BTreeMap::new() });
        self.places.insert(symbol, self.symbols.len() - 1);
        self.symbols.len() - 1
    }

    fn bucket(&self, time: i64) -> Result<i64> {
        let start = time.div_euclid(self.request.every_ns).checked_mul(self.request.every_ns);
        start.ok_or_else(|| Error::rejected(&self.table, "a bucket would begin before the first nanosecond there is"))
    }

    /// Whether a bar is final once rows came up to an instant.
    fn is_final(&self, bucket: i64, up_to: i64) -> bool {
        bucket.saturating_add(self.request.every_ns).saturating_add(self.request.late_ns) <= up_to
    }

    /// Begins a bar; of rows that came before, if there may be some that aren't known.
    fn begin(&mut self, place: usize, bucket: i64, in_snapshot: bool) -> Result<()> {
        if self.bar_count >= BARS_MAX {
            let reason =
                format!("more than {BARS_MAX} bars would have to be held; ask for wider ones or fewer symbols");
            return Err(Error::rejected(&self.table, reason));
        }
        let is_unknown = self.is_final(bucket, self.final_up_to) || self.dates.of(bucket) < self.complete_from;
        let mut bar = Bar::default();
        if let Some(rows) = &self.rows
            && is_unknown
        {
            let end = bucket.saturating_add(self.request.every_ns);
            let (through, batches) = rows.rows(self.symbols[place].symbol.as_deref(), bucket, end)?;
            for batch in batches {
                let values = BarValues::of(&self.columns, &batch)?;
                for row in 0..batch.num_rows() {
                    bar.add(values.times[row], values.price(row), values.size(row));
                }
            }
            (bar.through, bar.is_changed) = (through, true);
            self.changed.push((place, bucket));
        }
        self.symbols[place].bars.insert(bucket, bar);
        self.bar_count += 1;
        if !in_snapshot {
            self.open.entry(bucket).or_default().insert(place);
        }
        Ok(())
    }

    /// Within a snapshot, where a symbol's rows come in order of time: publishes the bars that are final by these rows, and drops them from
    /// memory.
    fn close_before(&mut self, place: usize, time: i64, sequence: u64) {
        if self.rows.is_none() {
            return;
        }
        while let Some((bucket, bar)) = self.symbols[place].bars.first_key_value()
            && self.is_final(*bucket, time)
            && bar.through <= sequence
        {
            let (bucket, mut bar) = (*bucket, *bar);
            bar.is_final = true;
            self.pending_bars.push(PublishedBar { symbol: self.symbols[place].symbol.clone(), bucket, bar });
            self.symbols[place].bars.remove(&bucket);
            self.bar_count -= 1;
        }
    }

    /// All rows of the snapshot are there.
    fn end_snapshot(&mut self, sequence: u64) -> Result<()> {
        if self.latest == i64::MIN
            && let Some(rows) = &self.rows
        {
            self.complete_from = rows.newest_date()?;
        }
        for (place, symbol) in self.symbols.iter().enumerate() {
            for bucket in symbol.bars.keys() {
                self.open.entry(*bucket).or_default().insert(place);
            }
        }
        // Bars that were published and dropped are no longer among the changed ones.
        self.changed.retain(|(place, bucket)| self.symbols[*place].bars.contains_key(bucket));
        self.tell(sequence, self.latest);
        Ok(())
    }

    /// Moves the bars that changed, and those that have become final, to the bars that are due. `up_to` is the instant up to which rows came.
    fn tell(&mut self, sequence: u64, up_to: i64) {
        self.final_up_to = self.final_up_to.max(up_to);
        for (place, bucket) in std::mem::take(&mut self.changed) {
            let is_final = self.is_final(bucket, self.final_up_to);
            let symbol = &mut self.symbols[place];
            if let Some(bar) = symbol.bars.get_mut(&bucket) {
                (bar.is_changed, bar.is_final) = (false, is_final);
                self.pending_bars.push(PublishedBar { symbol: symbol.symbol.clone(), bucket, bar: *bar });
            }
        }
        while let Some((bucket, _)) = self.open.first_key_value()
            && self.is_final(*bucket, self.final_up_to)
            && let Some((bucket, places)) = self.open.pop_first()
        {
            for place in places {
                let symbol = &mut self.symbols[place];
                if let Some(bar) = symbol.bars.get_mut(&bucket)
                    && !std::mem::replace(&mut bar.is_final, true)
                {
                    self.pending_bars.push(PublishedBar { symbol: symbol.symbol.clone(), bucket, bar: *bar });
                }
                self.ahead.push((place, bucket));
            }
        }
        self.let_go(sequence);
    }

    /// Final bars whose rows all came are held no longer, if rows can be read again.
    fn let_go(&mut self, sequence: u64) {
        let done = std::mem::take(&mut self.ahead);
        if self.rows.is_none() {
            return;
        }
        for (place, bucket) in done {
            let bars = &mut self.symbols[place].bars;
            if bars.get(&bucket).is_some_and(|bar| bar.through > sequence) {
                self.ahead.push((place, bucket));
            } else if bars.remove(&bucket).is_some() {
                self.bar_count -= 1;
            }
        }
    }

    /// Publishes the due bars as a delta.
    fn give(&mut self, sequence: u64) -> Vec<Update> {
        let pending = self.in_order();
        pending.chunks(UPDATE_BARS).map(|bars| self.update(sequence, UpdateKind::Delta, bars)).collect()
    }

    /// Publishes the due bars as parts of a snapshot, once there are enough.
    fn give_snapshot(&mut self, sequence: u64, more: bool) -> Vec<Update> {
        if more && self.pending_bars.len() < UPDATE_BARS {
            return Vec::new();
        }
        let pending = self.in_order();
        // Snapshots after the first one are always published, whatever was requested.
        if !self.tells_snapshot {
            self.tells_snapshot = !more;
            // Bars that were rebuilt from stored rows may have later rows: these are published with the next update.
            self.pending_bars = pending.into_iter().filter(|pending| pending.bar.through > sequence).collect();
            return Vec::new();
        }
        let chunks: Vec<&[PublishedBar]> =
            if pending.is_empty() { vec![&[]] } else { pending.chunks(UPDATE_BARS).collect() };
        let mut updates = Vec::with_capacity(chunks.len());
        for (number, bars) in chunks.iter().enumerate() {
            let first = !std::mem::replace(&mut self.is_begun, true);
            let kind = UpdateKind::Snapshot { first, more: more || number + 1 < chunks.len() };
            updates.push(self.update(sequence, kind, bars));
        }
        updates
    }

    fn in_order(&mut self) -> Vec<PublishedBar> {
        let mut pending = std::mem::take(&mut self.pending_bars);
        pending.sort_by(|one, other| (&one.symbol, one.bucket).cmp(&(&other.symbol, other.bucket)));
        // Of two versions of a bar the later one counts.
        pending.reverse();
        pending.dedup_by(|one, other| (&one.symbol, one.bucket) == (&other.symbol, other.bucket));
        pending.reverse();
        pending
    }

    fn update(&self, sequence: u64, kind: UpdateKind, bars: &[PublishedBar]) -> Update {
        Update { table: Arc::clone(&self.table), sequence, kind, rows: self.layout.rows(bars) }
    }
}
