//! A day of tables in order of time.
//!
//! - Each run of equal symbols is already in order of time; the runs are merged, and rows of mapped segments are
//!   copied only when they are sent. Memory grows with the number of symbols, not of rows. Segments that aren't
//!   mapped are decoded, and more than [`DECODED_BYTES_MAX`] of them are refused.
//! - The limits of updates depend only on the rows and the request: where the table changes, where an interval of
//!   time ends, and at [`BATCH_ROWS`] rows.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Int32Type, TimestampNanosecondType};
use splay_store::{Bounds, Database, SegmentRows, Selection, TableSnapshot, TableSpec};

use super::{DECODED_BYTES_MAX, ReplayBatch, ReplayRequest, date, instant};
use crate::error::{Error, Result};

/// Most rows of an update.
const BATCH_ROWS: usize = 8_192;

/// Rows of a part of a snapshot.
const SNAPSHOT_ROWS: usize = 1 << 16;

/// A row: its piece and its place there.
type RowPosition = (u32, u32);

/// The next row of a run, in the order in which rows are given.
type NextRow = Reverse<(i64, u32, u32)>;

/// The days of all tables.
#[derive(Debug)]
pub(super) struct TableReplay {
    tables: Vec<StoredTable>,
    /// The next row of each run that has one: its time, its table, its run.
    heap: BinaryHeap<NextRow>,
    batch_ns: i64,
    sequence: u64,
    after: u64,
    begins: Option<i64>,
}

/// A day of one table.
#[derive(Debug)]
struct StoredTable {
    spec: Arc<TableSpec>,
    /// Keeps the files.
    snapshot: TableSnapshot,
    /// Columns of each piece.
    pieces: Vec<Vec<ArrayRef>>,
    /// By symbol, and with each as the pieces follow each other.
    runs: Vec<SymbolRun>,
    /// Where in the runs, and in their rows before the first instant, the snapshot is.
    before: (usize, u32),
}

/// Rows of a symbol in a piece, in order of time.
#[derive(Debug, Clone, Copy)]
struct SymbolRun {
    piece: u32,
    start: u32,
    /// The first row that is replayed; those before it are the snapshot.
    first: u32,
    next: u32,
    end: u32,
}

impl TableReplay {
    pub(super) fn open(
        database: &Database,
        request: &ReplayRequest,
        specs: &[Arc<TableSpec>],
        after: u64,
        with_snapshot: bool,
    ) -> Result<TableReplay> {
        let Some(date) = date(request)? else { return Err(Error::rejected("replay", "no date is named")) };
        let (mut tables, mut decoded, mut begins) = (Vec::new(), 0, None);
        for spec in specs {
            let from = instant(spec, request, request.from.as_ref())?;
            let to = instant(spec, request, request.to.as_ref())?;
            begins = begins.or(from);
            let time = Bounds {
                min: from.filter(|_| !with_snapshot).unwrap_or(i64::MIN),
                max: to.map_or(i64::MAX, |to| to.saturating_sub(1)),
            };
            if request.symbols.is_some() && spec.symbol.is_none() {
                return Err(Error::rejected(&spec.name, "it has no symbol column"));
            }
            if !spec.partition.is_day() {
                let reason =
                    format!("a partition spans {}, and tables are replayed that have one a date", spec.partition);
                return Err(Error::rejected(&spec.name, reason));
            }
            let selection = Selection {
                date: Bounds { min: date, max: date },
                time,
                symbols: request.symbols.clone(),
                ..Selection::default()
            };
            let snapshot = database.table(&spec.name)?.snapshot()?;
            let pieces = snapshot.select(&selection)?.0;
            tables.push(StoredTable::open(spec, snapshot, &pieces, (from, to), &mut decoded)?);
        }
        let mut heap = BinaryHeap::new();
        for (table, number) in tables.iter().zip(0..) {
            for (run, place) in table.runs.iter().zip(0..) {
                if run.next < run.end {
                    heap.push(Reverse((table.time(run.piece, run.next), number, place)));
                }
            }
        }
        let begins = begins.or_else(|| heap.peek().map(|Reverse((time, _, _))| *time));
        Ok(TableReplay { tables, heap, batch_ns: request.batch_ns, sequence: 0, after, begins })
    }

    /// The instant with which it begins.
    pub(super) fn begins(&self) -> Option<i64> {
        self.begins
    }

    /// The next batch. `wants` tells for which tables rows are read; batches of other tables come without rows.
    pub(super) fn next(&mut self, wants: impl Fn(usize) -> bool) -> Result<Option<ReplayBatch>> {
        loop {
            let Some((table, due, places)) = self.merge() else { return Ok(None) };
            self.sequence += 1;
            if self.sequence <= self.after {
                continue;
            }
            let source = &self.tables[table];
            let rows = if wants(table) { source.gather(&places)? } else { RecordBatch::new_empty(source.spec.arrow()) };
            return Ok(Some(ReplayBatch { table, sequence: self.sequence, due, rows }));
        }
    }

    /// The rows of the next batch: its table, the time of its last row, and where they are.
    fn merge(&mut self) -> Option<(usize, i64, Vec<RowPosition>)> {
        let Reverse((first, table, _)) = *self.heap.peek()?;
        let stretch = first.div_euclid(self.batch_ns);
        let (mut places, mut due) = (Vec::new(), first);
        while let Some(mut top) = self.heap.peek_mut() {
            let Reverse((time, of, run)) = *top;
            if of != table || time.div_euclid(self.batch_ns) != stretch || places.len() == BATCH_ROWS {
                break;
            }
            due = time;
            let table = &mut self.tables[of as usize];
            let run = &mut table.runs[run as usize];
            places.push((run.piece, run.next));
            run.next += 1;
            if run.next < run.end {
                top.0.0 = time_at(&table.pieces[run.piece as usize], table.spec.time_position(), run.next);
            } else {
                PeekMut::pop(top);
            }
        }
        Some((table as usize, due, places))
    }

    /// The next part of the table's rows before the first instant, in the table's order, and whether more parts follow.
    pub(super) fn before(&mut self, table: usize) -> Result<Option<(RecordBatch, bool)>> {
        self.tables[table].before()
    }
}

impl StoredTable {
    fn open(
        spec: &Arc<TableSpec>,
        snapshot: TableSnapshot,
        pieces: &[SegmentRows],
        (from, to): (Option<i64>, Option<i64>),
        decoded: &mut usize,
    ) -> Result<StoredTable> {
        let all: Vec<usize> = (0..spec.columns.len()).collect();
        let (mut read, mut runs) = (Vec::with_capacity(pieces.len()), Vec::new());
        for (piece, number) in pieces.iter().zip(0..) {
            let rows = piece.segment.read(spec, &all, piece.rows.clone())?;
            if !piece.segment.entry().tier.is_mapped() {
                *decoded += rows.get_array_memory_size();
                if *decoded > DECODED_BYTES_MAX {
                    let reason = "more than 1 GiB of compressed rows would have to be held; name symbols or times, or move the \
                                  date to the mapped tier";
                    return Err(Error::rejected(&spec.name, reason));
                }
            }
            let columns = rows.columns().to_vec();
            for (symbol, rows) in runs_of(piece)? {
                let start = row(rows.start - piece.rows.start)?;
                let mut run = SymbolRun {
                    piece: number,
                    start,
                    first: start,
                    next: start,
                    end: row(rows.end - piece.rows.start)?,
                };
                run.narrow(&columns[spec.time_position()], from, to);
                runs.push((symbol, run));
            }
            read.push(columns);
        }
        runs.sort_by(|(one, a), (other, b)| (one, a.piece).cmp(&(other, b.piece)));
        let runs = runs.into_iter().map(|(_, run)| run).collect();
        Ok(StoredTable { spec: Arc::clone(spec), snapshot, pieces: read, runs, before: (0, 0) })
    }

    fn time(&self, piece: u32, row: u32) -> i64 {
        time_at(&self.pieces[piece as usize], self.spec.time_position(), row)
    }

    fn before(&mut self) -> Result<Option<(RecordBatch, bool)>> {
        let mut places = Vec::new();
        let (mut at, mut offset) = self.before;
        while let Some(run) = self.runs.get(at) {
            let rows = run.start + offset..run.first;
            let count = rows.len().min(SNAPSHOT_ROWS - places.len());
            places.extend(rows.take(count).map(|row| (run.piece, row)));
            offset += u32::try_from(count).unwrap_or(u32::MAX);
            if run.start + offset < run.first {
                break;
            }
            (at, offset) = (at + 1, 0);
        }
        self.before = (at, offset);
        let more = self.runs[at..].iter().any(|run| run.start + offset < run.first);
        if places.is_empty() { Ok(None) } else { Ok(Some((self.gather(&places)?, more))) }
    }

    /// Rows as a batch.
    fn gather(&self, places: &[RowPosition]) -> Result<RecordBatch> {
        // Only the pieces that are used, so that a batch of few rows costs no look at all of them.
        let mut used: Vec<u32> = Vec::new();
        let mut number: HashMap<u32, usize> = HashMap::new();
        let mut local = Vec::with_capacity(places.len());
        for (piece, row) in places {
            let number = *number.entry(*piece).or_insert_with(|| {
                used.push(*piece);
                used.len() - 1
            });
            local.push((number, *row as usize));
        }
        let mut columns = Vec::with_capacity(self.spec.columns.len());
        for column in 0..self.spec.columns.len() {
            let parts: Vec<&dyn Array> =
                used.iter().map(|piece| self.pieces[*piece as usize][column].as_ref()).collect();
            columns.push(match parts[0].data_type() {
                DataType::Dictionary(_, _) => dictionary(&parts, &local),
                _ => interleave(&parts, &local)?,
            });
        }
        // The rows are copies now, and their order was made from the same files.
        self.snapshot.watch().check()?;
        Ok(RecordBatch::try_new(self.spec.arrow(), columns)?)
    }
}

impl SymbolRun {
    /// Leaves out rows behind the end, and finds the first that is replayed.
    fn narrow(&mut self, times: &ArrayRef, from: Option<i64>, to: Option<i64>) {
        let times = &times.as_primitive::<TimestampNanosecondType>().values()[self.start as usize..self.end as usize];
        let place = |bound: i64| u32::try_from(times.partition_point(|time| *time < bound)).unwrap_or(u32::MAX);
        self.end = to.map_or(self.end, |to| self.start + place(to));
        self.first = from.map_or(self.start, |from| self.start + place(from)).min(self.end);
        self.next = self.first;
    }
}

/// The runs of a piece with their symbols.
fn runs_of(piece: &SegmentRows) -> Result<Vec<(Option<String>, std::ops::Range<u64>)>> {
    let index = piece.segment.index()?;
    let mut runs = Vec::new();
    for run in 0..index.symbols()? {
        let rows = index.symbol_rows(run)?;
        let rows = rows.start.max(piece.rows.start)..rows.end.min(piece.rows.end);
        if !rows.is_empty() {
            runs.push((index.symbol(run)?.map(str::to_owned), rows));
        }
    }
    Ok(runs)
}

fn row(row: u64) -> Result<u32> {
    u32::try_from(row).map_err(|_| Error::rejected("replay", "a segment has more than 4 billion rows"))
}

fn time_at(columns: &[ArrayRef], time: usize, row: u32) -> i64 {
    columns[time].as_primitive::<TimestampNanosecondType>().value(row as usize)
}

/// Rows of a symbol column, with the texts that they use, in the order in which they come.
fn dictionary(parts: &[&dyn Array], local: &[(usize, usize)]) -> ArrayRef {
    let parts: Vec<(&Int32Array, &StringArray)> = parts
        .iter()
        .map(|part| part.as_dictionary::<Int32Type>())
        .map(|part| (part.keys(), part.values().as_string::<i32>()))
        .collect();
    let mut codes: HashMap<&str, i32> = HashMap::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut last: Option<((usize, i32), i32)> = None;
    let keys = local.iter().map(|(part, row)| {
        let (keys, values) = parts[*part];
        if keys.is_null(*row) {
            return None;
        }
        let key = keys.value(*row);
        if let Some((same, code)) = last
            && same == (*part, key)
        {
            return Some(code);
        }
        let text = values.value(usize::try_from(key).unwrap_or(0));
        let code = *codes.entry(text).or_insert_with(|| {
            texts.push(text);
            i32::try_from(texts.len() - 1).unwrap_or(i32::MAX)
        });
        last = Some(((*part, key), code));
        Some(code)
    });
    let keys: Int32Array = keys.collect();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(StringArray::from_iter_values(texts))))
}
