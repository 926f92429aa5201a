//! The rows that a change removes from a table.
//!
//! The condition is evaluated twice: once to find the segments with matching rows, and once while these are
//! rewritten. So removed rows take no memory, however many there are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, not, prep_null_mask_filter};
use arrow::datatypes::{Int32Type, TimestampNanosecondType};

use crate::database::TableSnapshot;
use crate::error::{Error, Result};
use crate::manifest::FileEntry;
use crate::row_order::RowSource;
use crate::schema::TableSpec;
use crate::select::{SegmentRows, Selection};

/// Decides which rows of a batch match. Null counts as no match.
type Matches = Arc<dyn Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync>;

/// Rows that are read at once.
const CHUNK_ROWS: usize = 65_536;

/// Rows that a change takes out of a table.
#[derive(Clone)]
pub struct Removal {
    /// A selection that covers all of them, and perhaps other rows.
    selection: Selection,
    /// Positions of the columns that `matches` reads, ascending.
    columns: Vec<usize>,
    /// `None` if all rows of the selection go, which are whole dates then.
    matches: Option<Matches>,
}

impl std::fmt::Debug for Removal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Removal").field("selection", &self.selection).finish_non_exhaustive()
    }
}

impl Removal {
    /// The rows of dates, times and symbols; `selection` may not bound other columns.
    ///
    /// # Errors
    /// [`Error::Schema`] if it does, or if the table has no symbols and it lists some.
    pub fn of(spec: &TableSpec, selection: Selection) -> Result<Removal> {
        if !selection.columns.is_empty() {
            return Err(spec.error("rows are removed by date, time and symbol here".to_owned()));
        }
        if selection.symbols.is_some() && spec.symbol.is_none() {
            return Err(spec.error("it has no symbol column".to_owned()));
        }
        let by_date = selection.date != Selection::default().date;
        if spec.reference.is_some()
            && (by_date || spec.has_hidden_time() && selection.time != Selection::default().time)
        {
            return Err(
                spec.error("it is a reference table, whose rows have no dates: delete them by a condition".to_owned())
            );
        }
        let is_whole = spec.partition.is_day() || selection.date == Selection::default().date;
        let is_all_of_dates = is_whole && selection.symbols.is_none() && selection.time == Selection::default().time;
        if is_all_of_dates {
            return Ok(Removal { selection, columns: Vec::new(), matches: None });
        }
        let mut columns: Vec<usize> = spec.symbol_position().into_iter().chain([spec.time_position()]).collect();
        columns.sort_unstable();
        let symbols = selection.symbols.iter().flatten().cloned().map(Some).collect::<HashSet<Option<String>>>();
        spec.zone()?;
        let (spec, bounds) = (spec.clone(), selection.clone());
        let matches = move |rows: &RecordBatch| {
            let times = column(&spec, rows, &spec.time)?.as_primitive::<TimestampNanosecondType>();
            let mut dates = spec.dates()?;
            let mut of = |time: i64| bounds.time.contains(time) && bounds.date.contains(dates.of(time));
            let in_time: BooleanArray = times.values().iter().map(|time| Some(of(*time))).collect();
            match (&bounds.symbols, &spec.symbol) {
                (Some(_), Some(symbol)) => {
                    let named = of_symbols(column(&spec, rows, symbol)?.as_dictionary(), &symbols);
                    Ok(arrow::compute::and(&in_time, &named)?)
                }
                _ => Ok(in_time),
            }
        };
        Ok(Removal { selection, columns, matches: Some(Arc::new(matches)) })
    }

    /// The rows of a selection that match. `matches` gets the columns at the given positions, ascending.
    pub fn matching(
        selection: Selection,
        columns: Vec<usize>,
        matches: impl Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync + 'static,
    ) -> Removal {
        Removal { selection, columns, matches: Some(Arc::new(matches)) }
    }

    /// The rows of a partition with one of these dates. With `by_symbol`, only the rows with one of the symbols that
    /// are listed for their date.
    pub(super) fn rows_to_replace(
        spec: &TableSpec,
        first: i32,
        replaced: ReplacedSymbols,
        by_symbol: bool,
    ) -> Result<Removal> {
        let mut selection = Selection::default();
        (selection.date.min, selection.date.max) = (first, spec.partition.last(first));
        let symbol = spec.symbol_position().filter(|_| by_symbol);
        let is_day = spec.partition.is_day();
        let mut columns: Vec<usize> = symbol.into_iter().chain((!is_day).then_some(spec.time_position())).collect();
        columns.sort_unstable();
        if columns.is_empty() {
            return Ok(Removal { selection, columns, matches: None });
        }
        let spec = spec.clone();
        let matches = move |rows: &RecordBatch| {
            let codes = match &spec.symbol {
                Some(symbol) if by_symbol => Some(column(&spec, rows, symbol)?.as_dictionary::<Int32Type>()),
                _ => None,
            };
            if is_day {
                let of_date = replaced.get(&first);
                return Ok(match (codes, of_date) {
                    (Some(codes), Some(symbols)) => of_symbols(codes, symbols),
                    _ => BooleanArray::from(vec![false; rows.num_rows()]),
                });
            }
            let times = column(&spec, rows, &spec.time)?.as_primitive::<TimestampNanosecondType>();
            let mut dates = spec.dates()?;
            let mut of_dates: HashMap<i32, Option<BooleanArray>> = HashMap::new();
            let matches_row = times.values().iter().enumerate().map(|(row, time)| {
                let date = dates.of(*time);
                let Some(symbols) = replaced.get(&date) else { return Some(false) };
                let of_date = of_dates.entry(date).or_insert_with(|| codes.map(|codes| of_symbols(codes, symbols)));
                Some(of_date.as_ref().is_none_or(|of_date| of_date.value(row)))
            });
            Ok(matches_row.collect())
        };
        Ok(Removal { selection, columns, matches: Some(Arc::new(matches)) })
    }

    /// How many rows of each segment match, by date and path; segments without any are left out.
    pub(super) fn count(&self, snapshot: &TableSnapshot) -> Result<MatchCounts> {
        let mut counts = MatchCounts::default();
        for piece in snapshot.select(&self.selection)?.0 {
            let rows = match &self.matches {
                None => piece.rows.end - piece.rows.start,
                Some(matches) => self.each_match(snapshot.spec(), &piece, &self.columns, matches, None)?,
            };
            if rows > 0 {
                let by_path = counts.entry(piece.date).or_default();
                *by_path.entry(piece.segment.entry().path.clone()).or_default() += rows;
            }
        }
        Ok(counts)
    }

    /// Gives the rows that match, with all columns, to `sink`.
    pub(super) fn each(&self, snapshot: &TableSnapshot, sink: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let all: Vec<usize> = (0..snapshot.spec().columns.len()).collect();
        let every: Matches = Arc::new(|rows| Ok(BooleanArray::from(vec![true; rows.num_rows()])));
        for piece in snapshot.select(&self.selection)?.0 {
            let matches = self.matches.as_ref().unwrap_or(&every);
            self.each_match(snapshot.spec(), &piece, &all, matches, Some(sink))?;
        }
        Ok(())
    }

    /// Reads a piece, gives what matches to `sink` and counts it.
    fn each_match(
        &self,
        spec: &TableSpec,
        piece: &SegmentRows,
        read: &[usize],
        matches: &Matches,
        mut sink: Option<&mut dyn FnMut(RecordBatch) -> Result<()>>,
    ) -> Result<u64> {
        let places = self.places(read);
        let mut count = 0;
        for batch in piece.segment.batches(spec, read, piece.rows.clone(), CHUNK_ROWS)? {
            let batch = batch?;
            let mask = matches(&batch.project(&places)?)?;
            let matched = mask.true_count();
            if let (Some(sink), true) = (&mut sink, matched > 0) {
                sink(filter_record_batch(&batch, &certain(&mask))?)?;
            }
            count += matched as u64;
        }
        Ok(count)
    }

    /// The positions of the requested columns among the columns that are read.
    fn places(&self, read: &[usize]) -> Vec<usize> {
        self.columns.iter().filter_map(|column| read.iter().position(|other| other == column)).collect()
    }

    /// The rows of a source that don't match; it has all columns.
    pub(super) fn rest_of<'a>(&self, source: RowSource<'a>) -> RowSource<'a> {
        let (matches, columns) = (self.matches.clone(), self.columns.clone());
        Box::new(source.map(move |batch| {
            let batch = batch?;
            let Some(matches) = &matches else { return Ok(batch.slice(0, 0)) };
            let mask = matches(&batch.project(&columns)?)?;
            Ok(filter_record_batch(&batch, &not(&certain(&mask))?)?)
        }))
    }
}

/// Null as no.
fn certain(mask: &BooleanArray) -> BooleanArray {
    if mask.null_count() == 0 { mask.clone() } else { prep_null_mask_filter(mask) }
}

/// Rows that match, by date and by path of their segment.
pub(super) type MatchCounts = std::collections::BTreeMap<i32, HashMap<String, u64>>;

/// How many rows of these files match.
pub(super) fn matching_rows(counts: Option<&HashMap<String, u64>>, entry: &FileEntry) -> u64 {
    counts.and_then(|counts| counts.get(&entry.path)).copied().unwrap_or(0)
}

/// The symbols whose rows go, by date.
pub(super) type ReplacedSymbols = std::collections::BTreeMap<i32, HashSet<Option<String>>>;

/// Adds the dates that rows have, without symbols.
pub(super) fn add_dates(spec: &TableSpec, rows: &RecordBatch, replaced: &mut ReplacedSymbols) -> Result<()> {
    let mut dates = spec.dates()?;
    for time in rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().values() {
        replaced.entry(dates.of(*time)).or_default();
    }
    Ok(())
}

/// Adds the symbols that rows have, by date.
pub(super) fn add_symbols(spec: &TableSpec, rows: &RecordBatch, replaced: &mut ReplacedSymbols) -> Result<()> {
    let Some(position) = spec.symbol_position() else { return Ok(()) };
    let column = rows.column(position).as_dictionary::<Int32Type>();
    let values = column.values().as_string::<i32>();
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().values();
    let mut dates = spec.dates()?;
    // The codes that were seen on the date that came last, null behind all others.
    let (mut last, mut seen) = (None, Vec::new());
    for (key, time) in column.keys().iter().zip(times) {
        let date = dates.of(*time);
        if last != Some(date) {
            (last, seen) = (Some(date), vec![false; values.len() + 1]);
        }
        let code = key.map_or(values.len(), |key| key as usize);
        if !std::mem::replace(&mut seen[code], true) {
            replaced.entry(date).or_default().insert(key.map(|key| values.value(key as usize).to_owned()));
        }
    }
    Ok(())
}

fn column<'a>(spec: &TableSpec, rows: &'a RecordBatch, name: &str) -> Result<&'a Arc<dyn Array>> {
    let position = rows.schema_ref().fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
    position.map(|place| rows.column(place)).ok_or_else(|| Error::NoSuchColumn {
        table: spec.name.clone(),
        column: name.to_owned(),
        existing: rows.schema_ref().fields().iter().map(|field| field.name().clone()).collect(),
    })
}

fn of_symbols(column: &arrow::array::DictionaryArray<Int32Type>, symbols: &HashSet<Option<String>>) -> BooleanArray {
    let values = column.values().as_string::<i32>();
    let named: Vec<bool> = (0..values.len()).map(|at| symbols.contains(&Some(values.value(at).to_owned()))).collect();
    let null = symbols.contains(&None);
    let of = |key: Option<i32>| Some(key.map_or(null, |key| named[key as usize]));
    column.keys().iter().map(of).collect()
}
