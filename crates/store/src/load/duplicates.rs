//! Duplicates in a load: of its own rows and of stored rows.
//!
//! - Rows are compared within a date and a symbol, by all columns or by those of a key. A row with a null in a column
//!   of a key has no key and is no duplicate; if all columns count, nulls are equal.
//! - Stored rows stay. Of several new rows with one key the earliest in time stays, then the first in arrival.
//! - New and stored rows come in the order (symbol, time, arrival), so one pass over both is enough. It holds the
//!   keys of one symbol, or of one symbol and time if the key includes the time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int32Type, TimestampNanosecondType};
use arrow::row::{RowConverter, Rows, SortField};
use arrow::util::display::array_value_to_string;

use super::spill::RunWriter;
use super::{IncomingRows, Load, Replace, stored_columns};
use crate::dates::Dates;
use crate::error::{Error, Result};
use crate::partition;
use crate::row_key::{Dedupe, RowKey, comparable};
use crate::row_order::{BatchOrder, BatchRange, RowSource, gather, merge};
use crate::schema::TableSpec;
use crate::segment::Segment;

/// Stored rows that are read at a time: if the key of one is needed, the keys of all are computed.
const STORED_ROWS: usize = 4096;

/// Bytes that a key takes besides its own.
const KEY_BYTES: usize = 48;

impl Load {
    /// Refuses what can't be compared: columns that aren't there, rows that are in no file yet.
    pub(super) fn check_dedupe(&self, dedupe: &Dedupe) -> Result<()> {
        DedupeColumns::of(&self.spec, dedupe)?;
        if self.writer.table().is_some() && self.writer.database().table(&self.spec.name)?.snapshot()?.live() > 0 {
            let reason = "it has captured rows that are in no file yet, among which duplicates can't be found; write them down first";
            return Err(self.spec.error(reason.to_owned()));
        }
        Ok(())
    }

    /// Leaves the duplicates among a date's new rows out. Gives the order of those in memory that stay, and how many go.
    pub(super) fn without_duplicates(
        &mut self,
        date: i32,
        incoming: &mut IncomingRows,
        order: BatchOrder,
        dedupe: &Dedupe,
    ) -> Result<(BatchOrder, u64)> {
        let files = match self.options.replace {
            Replace::Nothing => self.writer.partition(date),
            // Rows of the symbols that come in go.
            Replace::Dates | Replace::Symbols | Replace::Table => Vec::new(),
        };
        let spec = self.spec.clone();
        let segments: Vec<Segment> = files.iter().map(|entry| self.writer.segment(entry)).collect();
        let key = DedupeColumns::of(&spec, dedupe)?;
        let columns = key.row.columns.clone();
        let mut search = DuplicateSearch::new(&spec, date, key, &segments, self.options.memory_bytes, dedupe.refuse)?;
        let chunk_rows = RunWriter::chunk_rows(incoming.row_bytes);
        if incoming.runs.is_empty() {
            let schema = Arc::new(self.schema.project(&columns)?);
            let projected = incoming.batches.iter().map(|batch| Ok(batch.project(&columns)?));
            let projected = projected.collect::<Result<Vec<_>>>()?;
            let mut new_rows = BatchOrder::default();
            for chunk in order.chunks(chunk_rows) {
                let is_new = search.new_rows(&gather(&schema, &projected, &chunk)?)?;
                let rows = chunk.batch_ranges().iter().flat_map(|batch_range| batch_range.single());
                rows.zip(is_new).filter(|(_, is_new)| *is_new).for_each(|(row, _): (BatchRange, _)| new_rows.push(row));
            }
            if new_rows.rows() == 0 {
                incoming.batches.clear();
            }
            let dropped = order.rows() - new_rows.rows();
            return Ok((new_rows, dropped as u64));
        }
        let storage = Arc::clone(self.writer.storage());
        let runs = std::mem::take(&mut incoming.runs);
        let mut written = RunWriter::create(storage.as_ref(), self.runs)?;
        self.runs += 1;
        let (mut stay, mut dropped) = (0, 0);
        {
            let (schema, batches) = (&self.schema, &incoming.batches);
            let mut sources: Vec<RowSource<'_>> = Vec::new();
            for run in &runs {
                sources.push(Box::new(run.clone().read(Arc::clone(&storage))));
            }
            sources.push(Box::new(order.chunks(chunk_rows).map(move |chunk| gather(schema, batches, &chunk))));
            merge(&spec, sources, chunk_rows, &mut |rows| {
                let is_new = BooleanArray::from(search.new_rows(&rows.project(&columns)?)?);
                let new = filter_record_batch(&rows, &is_new)?;
                stay += new.num_rows();
                dropped += (rows.num_rows() - new.num_rows()) as u64;
                if new.num_rows() > 0 { written.write(&new) } else { Ok(()) }
            })?;
        }
        for run in &runs {
            run.remove(storage.as_ref())?;
        }
        incoming.batches.clear();
        let written = written.finish();
        if stay > 0 {
            incoming.runs.push(written);
        } else {
            written.remove(storage.as_ref())?;
        }
        Ok((BatchOrder::default(), dropped))
    }
}

/// The columns by which rows count as equal, and by which they are grouped for comparison.
struct DedupeColumns {
    row: RowKey,
    /// Finds the dates of rows, where a partition has several.
    dates: Option<RefCell<Dates>>,
}

impl DedupeColumns {
    fn of(spec: &TableSpec, dedupe: &Dedupe) -> Result<DedupeColumns> {
        let dates = if spec.partition.is_day() { None } else { Some(RefCell::new(spec.dates()?)) };
        Ok(DedupeColumns { row: RowKey::of(spec, dedupe)?, dates })
    }

    /// The symbol and the time of a row; its date, where a partition has several, if the key hasn't the time.
    fn group<'a>(&self, rows: &'a RecordBatch, row: usize) -> (Option<&'a str>, i64) {
        let symbol = self.row.symbol.and_then(|place| {
            let column = rows.column(place).as_dictionary::<Int32Type>();
            let code = column.keys().is_valid(row).then(|| column.keys().value(row) as usize)?;
            Some(column.values().as_string::<i32>().value(code))
        });
        (symbol, self.window(rows.column(self.row.time).as_primitive::<TimestampNanosecondType>().value(row)))
    }

    /// The date of a row, where a partition has several.
    fn date(&self, rows: &RecordBatch, row: usize) -> Option<i32> {
        let time = || rows.column(self.row.time).as_primitive::<TimestampNanosecondType>().value(row);
        self.dates.as_ref().map(|dates| dates.borrow_mut().of(time()))
    }

    /// The part of a time that separates groups of a symbol: the time itself if the key has it, else the date if a partition has several.
    fn window(&self, time: i64) -> i64 {
        match &self.dates {
            _ if self.row.has_time => time,
            Some(dates) => i64::from(dates.borrow_mut().of(time)),
            None => i64::MIN,
        }
    }

    /// The row behind those that have the group of a row.
    fn group_end(&self, rows: &RecordBatch, row: usize) -> usize {
        let symbols = self.row.symbol.map(|place| rows.column(place).as_dictionary::<Int32Type>().keys());
        let times = rows.column(self.row.time).as_primitive::<TimestampNanosecondType>().values();
        // Gathered rows have each symbol once in their dictionary.
        let code = |row: usize| symbols.and_then(|codes| codes.is_valid(row).then(|| codes.value(row)));
        let (own_code, own_window) = (code(row), self.window(times[row]));
        let is_in = |next: &usize| code(*next) == own_code && self.window(times[*next]) == own_window;
        row + 1 + (row + 1..rows.num_rows()).take_while(is_in).count()
    }

    fn words(&self, rows: &RecordBatch, row: usize) -> String {
        let places = self.row.symbol.into_iter().chain([self.row.time]);
        let places = places.chain(self.row.others.iter().copied().filter(|_| !self.row.nulls_count));
        let schema = rows.schema();
        let word = |place: usize| {
            let value = array_value_to_string(rows.column(place), row).unwrap_or_default();
            format!("{} {value}", schema.field(place).name())
        };
        places.map(word).collect::<Vec<_>>().join(", ")
    }
}

/// The keys of rows, each computed when it is needed.
struct DedupeKeys {
    converter: Option<RowConverter>,
}

impl DedupeKeys {
    fn of(spec: &TableSpec, key: &DedupeColumns) -> Result<DedupeKeys> {
        let fields = key.row.others.iter().map(|place| {
            let column = &spec.columns[key.row.columns[*place]];
            SortField::new(column.column_type.arrow())
        });
        let fields: Vec<SortField> = fields.collect();
        let converter = if fields.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        Ok(DedupeKeys { converter })
    }

    fn rows(&self, key: &DedupeColumns, rows: &RecordBatch) -> Result<Option<Rows>> {
        let columns: Vec<_> = key.row.others.iter().map(|place| comparable(rows.column(*place))).collect();
        Ok(self.converter.as_ref().map(|converter| converter.convert_columns(&columns)).transpose()?)
    }
}

fn bytes(keys: Option<&Rows>, row: usize) -> Box<[u8]> {
    keys.map_or_else(Box::default, |keys| keys.row(row).as_ref().into())
}

/// Looks for duplicates among the new rows of a date, which are given in order.
struct DuplicateSearch<'a> {
    spec: &'a TableSpec,
    date: i32,
    key: DedupeColumns,
    keys: DedupeKeys,
    stored: Vec<StoredRows<'a>>,
    /// The group that the last row had.
    open: Option<(Option<String>, i64)>,
    seen: KeyGroup,
    refuse: bool,
}

/// The keys of a group, each with whether it is that of a stored row.
struct KeyGroup {
    keys: HashMap<Box<[u8]>, bool>,
    bytes: usize,
    bytes_max: usize,
}

impl KeyGroup {
    fn clear(&mut self) {
        self.keys.clear();
        self.bytes = 0;
    }

    fn hold(&mut self, key: Box<[u8]>, is_stored: bool, date: i32) -> Result<()> {
        self.bytes += key.len() + KEY_BYTES;
        if self.bytes > self.bytes_max {
            let reason = format!(
                "the keys of one symbol's rows on {} take more than {} bytes; give the load more memory, or add the time to the key",
                partition::date(date),
                self.bytes_max
            );
            return Err(Error::Setting { setting: "memory_bytes", reason });
        }
        self.keys.entry(key).or_insert(is_stored);
        Ok(())
    }
}

impl<'a> DuplicateSearch<'a> {
    fn new(
        spec: &'a TableSpec,
        date: i32,
        key: DedupeColumns,
        segments: &'a [Segment],
        bytes_max: usize,
        refuse: bool,
    ) -> Result<DuplicateSearch<'a>> {
        let stored = stored_columns(spec, key.row.columns.clone(), segments, STORED_ROWS);
        let stored = stored.into_iter().map(StoredRows::new).collect::<Result<Vec<_>>>()?;
        let keys = DedupeKeys::of(spec, &key)?;
        let seen = KeyGroup { keys: HashMap::new(), bytes: 0, bytes_max };
        Ok(DuplicateSearch { spec, date, key, keys, stored, open: None, seen, refuse })
    }

    /// For each row, whether it is new. `rows` has the key's columns.
    fn new_rows(&mut self, rows: &RecordBatch) -> Result<Vec<bool>> {
        let mut is_new = vec![true; rows.num_rows()];
        let mut keys: Option<Option<Rows>> = None;
        let mut start = 0;
        while start < rows.num_rows() {
            let end = self.key.group_end(rows, start);
            self.enter(rows, start)?;
            // A group of one row has no duplicates, unless more of its rows may come.
            if end - start > 1 || !self.seen.keys.is_empty() || end == rows.num_rows() {
                let keys = match &keys {
                    Some(keys) => keys,
                    None => keys.insert(self.keys.rows(&self.key, rows)?),
                };
                for (row, is_new) in (start..end).zip(&mut is_new[start..end]) {
                    *is_new = self.take(rows, row, keys.as_ref())?;
                }
            }
            start = end;
        }
        Ok(is_new)
    }

    /// Goes to the group of a row, and takes the keys of its stored rows.
    fn enter(&mut self, rows: &RecordBatch, row: usize) -> Result<()> {
        let (symbol, time) = self.key.group(rows, row);
        if self.open.as_ref().is_some_and(|open| (open.0.as_deref(), open.1) == (symbol, time)) {
            return Ok(());
        }
        self.seen.clear();
        let (seen, date) = (&mut self.seen, self.key.date(rows, row).unwrap_or(self.date));
        for stored in &mut self.stored {
            stored.each(&self.key, &self.keys, (symbol, time), &mut |bytes| seen.hold(bytes, true, date))?;
        }
        self.open = Some((symbol.map(str::to_owned), time));
        Ok(())
    }

    /// Whether a row is new.
    fn take(&mut self, rows: &RecordBatch, row: usize, keys: Option<&Rows>) -> Result<bool> {
        if !self.key.row.is_whole(rows, row) {
            return Ok(true);
        }
        let bytes = bytes(keys, row);
        match self.seen.keys.get(&bytes) {
            None => self.seen.hold(bytes, false, self.key.date(rows, row).unwrap_or(self.date)).map(|()| true),
            Some(_) if !self.refuse => Ok(false),
            Some(is_stored) => Err(Error::Duplicate {
                table: self.spec.name.clone(),
                date: partition::date(self.key.date(rows, row).unwrap_or(self.date)).to_string(),
                row: self.key.words(rows, row),
                is_stored: *is_stored,
            }),
        }
    }
}

/// Stored rows of a date, in order.
struct StoredRows<'a> {
    source: RowSource<'a>,
    batch: Option<RecordBatch>,
    row: usize,
    keys: Option<Option<Rows>>,
}

impl<'a> StoredRows<'a> {
    fn new(source: RowSource<'a>) -> Result<StoredRows<'a>> {
        let mut stored = StoredRows { source, batch: None, row: 0, keys: None };
        stored.advance()?;
        Ok(stored)
    }

    fn advance(&mut self) -> Result<()> {
        (self.batch, self.row, self.keys) = (None, 0, None);
        for batch in self.source.by_ref() {
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.batch = Some(batch);
                break;
            }
        }
        Ok(())
    }

    /// Gives the keys of the rows of a group to `take`. Groups come in order.
    fn each(
        &mut self,
        key: &DedupeColumns,
        keys: &DedupeKeys,
        group: (Option<&str>, i64),
        take: &mut dyn FnMut(Box<[u8]>) -> Result<()>,
    ) -> Result<()> {
        while let Some(batch) = &self.batch {
            self.row = first_from(self.row, batch.num_rows(), |row| key.group(batch, row) < group);
            while self.row < batch.num_rows() && key.group(batch, self.row) == group {
                let keys = match &self.keys {
                    Some(keys) => keys,
                    None => self.keys.insert(keys.rows(key, batch)?),
                };
                if key.row.is_whole(batch, self.row) {
                    take(bytes(keys.as_ref(), self.row))?;
                }
                self.row += 1;
            }
            if self.row < batch.num_rows() {
                return Ok(());
            }
            self.advance()?;
        }
        Ok(())
    }
}

/// The first row that isn't before something, by galloping.
fn first_from(start: usize, end: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (start, 1);
    while low < end && is_before((low + step - 1).min(end - 1)) {
        low = (low + step).min(end);
        step *= 2;
    }
    let mut high = (low + step - 1).min(end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
