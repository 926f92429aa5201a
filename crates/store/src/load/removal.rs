//! Which rows a change takes out of a table.
//!
//! What matches is looked for twice: once to learn which segments are touched at all, and once while those are written anew. So nothing is
//! held for rows that go, however many there are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, not, prep_null_mask_filter};
use arrow::datatypes::{Int32Type, TimestampNanosecondType};

use super::merge::Source;
use crate::database::TableSnapshot;
use crate::error::{Error, Result};
use crate::manifest::FileEntry;
use crate::partition::Dates;
use crate::schema::TableSpec;
use crate::select::{Piece, Selection};

/// Says of rows which of them match. Null is no.
type Matches = Arc<dyn Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync>;

/// Rows that are read at once.
const CHUNK_ROWS: usize = 65_536;

/// Rows that a change takes out of a table.
#[derive(Clone)]
pub struct Removal {
    /// What holds all of them, and perhaps others.
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
        let is_all_of_dates = selection.symbols.is_none() && selection.time == Selection::default().time;
        if is_all_of_dates {
            return Ok(Removal { selection, columns: Vec::new(), matches: None });
        }
        let mut columns: Vec<usize> = spec.symbol_position().into_iter().chain([spec.time_position()]).collect();
        columns.sort_unstable();
        let symbols = selection.symbols.iter().flatten().cloned().map(Some).collect::<HashSet<Option<String>>>();
        let (zone, spec, bounds) = (spec.zone()?, spec.clone(), selection.clone());
        let matches = move |rows: &RecordBatch| {
            let times = column(&spec, rows, &spec.time)?.as_primitive::<TimestampNanosecondType>();
            let mut dates = Dates::new(zone);
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

    /// All rows of a date that have one of these symbols.
    pub(super) fn of_symbols(spec: &TableSpec, date: i32, symbols: HashSet<Option<String>>) -> Removal {
        let mut selection = Selection::default();
        (selection.date.min, selection.date.max) = (date, date);
        let columns: Vec<usize> = spec.symbol_position().into_iter().collect();
        let matches = move |rows: &RecordBatch| match rows.columns().first() {
            Some(column) => Ok(of_symbols(column.as_dictionary(), &symbols)),
            None => Ok(BooleanArray::from(vec![true; rows.num_rows()])),
        };
        if columns.is_empty() {
            return Removal { selection, columns, matches: None };
        }
        Removal { selection, columns, matches: Some(Arc::new(matches)) }
    }

    /// How many rows of each segment match, by date and path; segments without any are left out.
    pub(super) fn count(&self, snapshot: &TableSnapshot) -> Result<Counts> {
        let mut counts = Counts::default();
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
        piece: &Piece,
        read: &[usize],
        matches: &Matches,
        mut sink: Option<&mut dyn FnMut(RecordBatch) -> Result<()>>,
    ) -> Result<u64> {
        let places = self.places(read);
        let mut count = 0;
        for batch in piece.segment.batches(spec, read, piece.rows.clone(), CHUNK_ROWS)? {
            let batch = batch?;
            let found = matches(&batch.project(&places)?)?;
            let matched = found.true_count();
            if let (Some(sink), true) = (&mut sink, matched > 0) {
                sink(filter_record_batch(&batch, &certain(&found))?)?;
            }
            count += matched as u64;
        }
        Ok(count)
    }

    /// Where the columns that are asked for stand among those that are read.
    fn places(&self, read: &[usize]) -> Vec<usize> {
        self.columns.iter().filter_map(|column| read.iter().position(|other| other == column)).collect()
    }

    /// The rows of a source that don't match; it has all columns.
    pub(super) fn rest_of<'a>(&self, source: Source<'a>) -> Source<'a> {
        let (matches, columns) = (self.matches.clone(), self.columns.clone());
        Box::new(source.map(move |batch| {
            let batch = batch?;
            let Some(matches) = &matches else { return Ok(batch.slice(0, 0)) };
            let found = matches(&batch.project(&columns)?)?;
            Ok(filter_record_batch(&batch, &not(&certain(&found))?)?)
        }))
    }
}

/// Null as no.
fn certain(found: &BooleanArray) -> BooleanArray {
    if found.null_count() == 0 { found.clone() } else { prep_null_mask_filter(found) }
}

/// Rows that match, by date and by path of their segment.
pub(super) type Counts = std::collections::BTreeMap<i32, HashMap<String, u64>>;

/// How many rows of these files match.
pub(super) fn counted(counts: Option<&HashMap<String, u64>>, entry: &FileEntry) -> u64 {
    counts.and_then(|counts| counts.get(&entry.path)).copied().unwrap_or(0)
}

/// Adds the symbols that rows have.
pub(super) fn add_symbols(spec: &TableSpec, rows: &RecordBatch, symbols: &mut HashSet<Option<String>>) {
    let Some(position) = spec.symbol_position() else { return };
    let column = rows.column(position).as_dictionary::<Int32Type>();
    let values = column.values().as_string::<i32>();
    let mut seen = vec![false; values.len()];
    for key in column.keys() {
        match key {
            Some(key) if !std::mem::replace(&mut seen[key as usize], true) => {
                symbols.insert(Some(values.value(key as usize).to_owned()));
            }
            Some(_) => {}
            None => drop(symbols.insert(None)),
        }
    }
}

fn column<'a>(spec: &TableSpec, rows: &'a RecordBatch, name: &str) -> Result<&'a Arc<dyn Array>> {
    let found = rows.schema_ref().fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
    found.map(|place| rows.column(place)).ok_or_else(|| Error::NoSuchColumn {
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
