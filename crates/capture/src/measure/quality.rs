//! The quality of a feed by series: gaps, duplicates and disorder of its sequence numbers, crossed books, and late
//! rows.
//!
//! - A series is a symbol of a venue. Each row is examined once, in the order of acceptance.
//! - Memory is bounded: there are at most [`SERIES_MAX`] series of all tables, and a table without room forgets its
//!   longest silent series. Counts by name exist for the first [`NAMED_MAX`] series of a table with a defect; the
//!   others are in the table's totals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::Int32Type;
use hashbrown::HashMap;
use serde::Serialize;
use splay_store::TableSpec;

use super::columns::{BatchNumbers, MeasuredColumns, Prices, times};
use super::days::{Days, LateDays};
use crate::settings::QualitySettings;

/// Series that are watched, over all tables.
pub(super) const SERIES_MAX: usize = 1 << 16;

/// Series of a table whose defects have names in metrics.
pub(super) const NAMED_MAX: usize = 100;

/// Series that are shown as the worst.
const WORST_MAX: usize = 10;

/// Bytes of a name: symbol and venue. Series with longer ones aren't watched.
const NAME_BYTES_MAX: usize = 256;

/// Numbers in a row that are below the greatest, from which on the feed is taken to have begun anew.
const RESTART: u8 = 16;

/// Between symbol and venue.
const SEPARATOR: char = '\u{1f}';

/// No series.
const NONE: u32 = u32::MAX;

/// Counts of defects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Defects {
    /// Places in which numbers were passed over.
    pub gaps: u64,
    /// Numbers that were passed over there.
    pub missing: u64,
    /// Rows with the number of the row before.
    pub duplicates: u64,
    /// Rows with a number below that of an earlier row; where there are no numbers, with an earlier time.
    pub out_of_order: u64,
    /// Rows whose bid is above their ask.
    pub crossed: u64,
}

impl Defects {
    /// Whether and how much there is to complain of. Missing numbers are in the gaps.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.gaps + self.duplicates + self.out_of_order + self.crossed
    }

    fn add(&mut self, other: &Defects) {
        self.gaps += other.gaps;
        self.missing = self.missing.saturating_add(other.missing);
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.crossed += other.crossed;
    }

    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Defects) -> Defects {
        let mut both = *self;
        both.add(other);
        both
    }

    /// The counts minus those of another.
    #[must_use]
    pub fn without(&self, other: &Defects) -> Defects {
        Defects {
            gaps: self.gaps.saturating_sub(other.gaps),
            missing: self.missing.saturating_sub(other.missing),
            duplicates: self.duplicates.saturating_sub(other.duplicates),
            out_of_order: self.out_of_order.saturating_sub(other.out_of_order),
            crossed: self.crossed.saturating_sub(other.crossed),
        }
    }
}

/// Defects of one series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SeriesQuality {
    /// Symbol; empty for rows without one.
    pub symbol: String,
    /// Venue; empty where the table has none.
    pub venue: String,
    /// Its defects.
    #[serde(flatten)]
    pub defects: Defects,
}

/// The quality of a table's feed, since capture was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Quality {
    /// Rows that were looked at.
    pub rows: u64,
    /// Rows of series that found no room: only their books were looked at.
    pub unwatched_rows: u64,
    /// Rows with an earlier time than an earlier row of their series, whatever their numbers say.
    pub late_rows: u64,
    /// Rows of dates that had ended when they came in.
    pub late_day_rows: u64,
    /// Series that are watched.
    pub series: u64,
    /// Defects of all series.
    #[serde(flatten)]
    pub defects: Defects,
    /// The worst of the series that are watched, worst first.
    pub worst: Vec<SeriesQuality>,
    /// The first series that gave reason to complain, in that order; what isn't theirs is the others'.
    #[serde(skip)]
    pub named: Vec<SeriesQuality>,
}

/// Room for series, which tables share.
#[derive(Debug, Default)]
pub(crate) struct SeriesLimit(AtomicUsize);

impl SeriesLimit {
    fn take(&self) -> bool {
        let more = |watched: usize| (watched < SERIES_MAX).then_some(watched + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= SERIES_MAX
    }

    fn give_back(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct SeriesState {
    /// Greatest number.
    last: Option<i64>,
    /// Latest time.
    latest: i64,
    /// Rows in a row with a lower number.
    lower: u8,
    /// Batch in which it was last seen.
    seen: u64,
    /// Place among the named, or [`NONE`].
    named: u32,
    defects: Defects,
}

/// Watches the feed of one table.
#[derive(Debug)]
pub(super) struct Watch {
    settings: QualitySettings,
    room: Arc<SeriesLimit>,
    /// The table for which the places hold.
    spec: Option<Arc<TableSpec>>,
    places: MeasuredColumns,
    names: HashMap<String, u32>,
    series: Vec<SeriesState>,
    named: Vec<SeriesQuality>,
    batch: u64,
    /// Whether a series found no room.
    is_short: bool,
    rows: u64,
    unwatched_rows: u64,
    late_rows: u64,
    days: Days,
    late_days: LateDays,
    defects: Defects,
}

impl Watch {
    pub(super) fn new(settings: QualitySettings, room: Arc<SeriesLimit>, days: Days) -> Watch {
        Watch {
            settings,
            room,
            days,
            spec: None,
            places: MeasuredColumns::default(),
            names: HashMap::new(),
            series: Vec::new(),
            named: Vec::new(),
            batch: 0,
            is_short: false,
            rows: 0,
            unwatched_rows: 0,
            late_rows: 0,
            late_days: LateDays::default(),
            defects: Defects::default(),
        }
    }

    /// Columns of a table, looked for again only when the table has changed.
    pub(super) fn places(&mut self, spec: &Arc<TableSpec>) -> MeasuredColumns {
        if self.spec.as_ref().is_none_or(|previous| !Arc::ptr_eq(previous, spec)) {
            self.places = MeasuredColumns::of(spec, &self.settings);
            self.spec = Some(Arc::clone(spec));
        }
        self.places
    }

    /// Looks at a batch that came in at `now`. Its columns are those of the table.
    pub(super) fn look(&mut self, spec: &Arc<TableSpec>, rows: &RecordBatch, now: i64) {
        let places = self.places(spec);
        self.batch += 1;
        self.rows += rows.num_rows() as u64;
        if std::mem::take(&mut self.is_short) && self.room.is_full() {
            self.forget();
        }
        let column =
            |place: Option<usize>| place.filter(|place| *place < rows.num_columns()).map(|place| rows.column(place));
        let sequence = column(places.sequence).and_then(BatchNumbers::of);
        let bid = column(places.bid).and_then(Prices::of);
        let ask = column(places.ask).and_then(Prices::of);
        let times = times(rows, places.time).values();
        let ended = self.days.ended(spec, times, now);
        if ended > 0 {
            self.late_days = LateDays { rows: self.late_days.rows + ended, at: now };
        }
        let mut keys = SeriesKeys::new(column(places.symbol), column(places.venue), rows.num_rows());
        for row in 0..rows.num_rows() {
            let at = keys.series(row, |symbol, venue| self.find(symbol, venue));
            let mut defects = Defects::default();
            if let (Some(bid), Some(ask)) = (&bid, &ask) {
                defects.crossed = u64::from(bid.get(row) > ask.get(row));
            }
            match self.series.get_mut(at as usize) {
                None => self.unwatched_rows += 1,
                Some(series) => {
                    series.seen = self.batch;
                    let is_late = u64::from(times[row] < series.latest);
                    series.latest = series.latest.max(times[row]);
                    self.late_rows += is_late;
                    match &sequence {
                        Some(numbers) => series.follow(numbers.get(row), &mut defects),
                        None => defects.out_of_order = is_late,
                    }
                }
            }
            if defects.total() > 0 {
                self.note(at, &defects);
            }
        }
    }

    /// The series of a symbol and a venue, if there is room for it.
    fn find(&mut self, symbol: &str, venue: &str) -> u32 {
        if symbol.len() + venue.len() > NAME_BYTES_MAX {
            return NONE;
        }
        let name = format!("{symbol}{SEPARATOR}{venue}");
        if let Some(at) = self.names.get(&name) {
            return *at;
        }
        if !self.room.take() {
            self.is_short = true;
            return NONE;
        }
        let at = u32::try_from(self.series.len()).unwrap_or(NONE);
        let named = self.named.iter().position(|other| other.symbol == symbol && other.venue == venue);
        let named = named.and_then(|place| u32::try_from(place).ok()).unwrap_or(NONE);
        let (last, latest, lower, seen) = (None, i64::MIN, 0, self.batch);
        self.series.push(SeriesState { last, latest, lower, seen, named, defects: Defects::default() });
        self.names.insert(name, at);
        at
    }

    #[cold]
    fn note(&mut self, at: u32, defects: &Defects) {
        self.defects.add(defects);
        let Some(series) = self.series.get_mut(at as usize) else { return };
        series.defects.add(defects);
        if series.named == NONE && self.named.len() < NAMED_MAX {
            let name = self.names.iter().find(|(_, place)| **place == at).map(|(name, _)| name.as_str());
            let (symbol, venue) = parts(name.unwrap_or_default());
            series.named = u32::try_from(self.named.len()).unwrap_or(NONE);
            self.named.push(SeriesQuality { symbol, venue, defects: Defects::default() });
        }
        if let Some(named) = self.named.get_mut(series.named as usize) {
            named.defects.add(defects);
        }
    }

    /// Forgets the half of the series that has been silent for longest.
    fn forget(&mut self) {
        let mut seen: Vec<u64> = self.series.iter().map(|series| series.seen).collect();
        if seen.is_empty() {
            return;
        }
        let middle = seen.len() / 2;
        let seen_min = *seen.select_nth_unstable(middle).1 + 1;
        let mut recent_series = Vec::new();
        let mut names = HashMap::new();
        let mut all: Vec<Option<SeriesState>> = self.series.drain(..).map(Some).collect();
        let before = all.len();
        for (name, at) in self.names.drain() {
            let series = all[at as usize].take_if(|series| series.seen >= seen_min);
            if let Some(series) = series {
                names.insert(name, u32::try_from(recent_series.len()).unwrap_or(NONE));
                recent_series.push(series);
            }
        }
        self.room.give_back(before - recent_series.len());
        (self.series, self.names) = (recent_series, names);
    }

    pub(super) fn late_days(&self) -> LateDays {
        self.late_days
    }

    pub(super) fn quality(&self) -> Quality {
        let mut worst: Vec<(&String, Defects)> = self
            .names
            .iter()
            .map(|(name, at)| (name, self.series[*at as usize].defects))
            .filter(|(_, defects)| defects.total() > 0)
            .collect();
        worst.sort_unstable_by(|one, other| (other.1.total(), one.0).cmp(&(one.1.total(), other.0)));
        worst.truncate(WORST_MAX);
        let shown = |(name, defects): (&String, Defects)| {
            let (symbol, venue) = parts(name);
            SeriesQuality { symbol, venue, defects }
        };
        Quality {
            rows: self.rows,
            unwatched_rows: self.unwatched_rows,
            late_rows: self.late_rows,
            late_day_rows: self.late_days.rows,
            series: self.series.len() as u64,
            defects: self.defects,
            worst: worst.into_iter().map(shown).collect(),
            named: self.named.clone(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.room.give_back(self.series.len());
    }
}

impl SeriesState {
    /// Takes the number of the next row.
    #[inline]
    fn follow(&mut self, number: Option<i64>, defects: &mut Defects) {
        let Some(number) = number else { return };
        let Some(last) = self.last else {
            self.last = Some(number);
            return;
        };
        if number > last {
            let missing = number.abs_diff(last) - 1;
            (defects.gaps, defects.missing) = (u64::from(missing > 0), missing);
            (self.last, self.lower) = (Some(number), 0);
        } else if number == last {
            defects.duplicates = 1;
        } else {
            defects.out_of_order = 1;
            self.lower += 1;
            if self.lower >= RESTART {
                (self.last, self.lower) = (Some(number), 0);
            }
        }
    }
}

fn parts(name: &str) -> (String, String) {
    let (symbol, venue) = name.split_once(SEPARATOR).unwrap_or((name, ""));
    (symbol.to_owned(), venue.to_owned())
}

/// The series of a batch's rows. Each pair of a symbol and a venue is looked up once.
struct SeriesKeys<'a> {
    symbol: Option<DictionaryColumn<'a>>,
    venue: Option<DictionaryColumn<'a>>,
    /// Places of the series by symbol and venue: a cell for each pair if there aren't many more pairs than rows, else by hash.
    cells: Vec<u32>,
    by_hash: HashMap<(i32, i32), u32>,
    last: Option<((i32, i32), u32)>,
}

/// Place of a series that wasn't looked up yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// Pairs for each row up to which each has a cell.
const CELLS_A_ROW: usize = 4;

struct DictionaryColumn<'a> {
    keys: &'a ScalarBuffer<i32>,
    column: &'a arrow::array::DictionaryArray<Int32Type>,
    texts: &'a StringArray,
}

impl<'a> DictionaryColumn<'a> {
    fn of(column: &'a arrow::array::ArrayRef) -> Option<DictionaryColumn<'a>> {
        let column = column.as_dictionary_opt::<Int32Type>()?;
        Some(DictionaryColumn { keys: column.keys().values(), column, texts: column.values().as_string_opt::<i32>()? })
    }

    /// The place of a row's text; -1 for none.
    #[inline]
    fn key(&self, row: usize) -> i32 {
        if self.column.is_valid(row) { self.keys[row] } else { -1 }
    }

    fn text(&self, key: i32) -> &'a str {
        usize::try_from(key).map_or("", |key| self.texts.value(key))
    }
}

impl<'a> SeriesKeys<'a> {
    fn new(
        symbol: Option<&'a arrow::array::ArrayRef>,
        venue: Option<&'a arrow::array::ArrayRef>,
        rows: usize,
    ) -> SeriesKeys<'a> {
        let (symbol, venue) = (symbol.and_then(DictionaryColumn::of), venue.and_then(DictionaryColumn::of));
        // One more for rows without a text.
        let texts = |texts: &Option<DictionaryColumn<'a>>| texts.as_ref().map_or(0, |texts| texts.texts.len()) + 1;
        let pairs = texts(&symbol).saturating_mul(texts(&venue));
        let cells = if pairs <= rows.saturating_mul(CELLS_A_ROW) { vec![UNKNOWN; pairs] } else { Vec::new() };
        SeriesKeys { symbol, venue, cells, by_hash: HashMap::new(), last: None }
    }

    #[inline]
    fn series(&mut self, row: usize, mut find: impl FnMut(&str, &str) -> u32) -> u32 {
        let key = |texts: &Option<DictionaryColumn<'a>>| texts.as_ref().map_or(-1, |texts| texts.key(row));
        let both = (key(&self.symbol), key(&self.venue));
        if let Some((previous, at)) = self.last
            && previous == both
        {
            return at;
        }
        let text = |texts: &Option<DictionaryColumn<'a>>, key: i32| texts.as_ref().map_or("", |texts| texts.text(key));
        let (symbols, venues) = (&self.symbol, &self.venue);
        let mut find = || find(text(symbols, both.0), text(venues, both.1));
        let width = venues.as_ref().map_or(0, |venues| venues.texts.len()) + 1;
        let place = |key: i32| usize::try_from(key + 1).unwrap_or(0);
        let at = match self.cells.get_mut(place(both.0) * width + place(both.1)) {
            Some(cell) => {
                if *cell == UNKNOWN {
                    *cell = find();
                }
                *cell
            }
            None => *self.by_hash.entry(both).or_insert_with(find),
        };
        self.last = Some((both, at));
        at
    }
}
