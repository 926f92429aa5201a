//! A load: batches arrive, are sorted by partition, and become visible together in one commit.
//!
//! - Nothing is visible before [`Load::commit`] returns; a load that fails or is dropped leaves the database
//!   unchanged.
//! - Rows of an existing partition are merged with its stored rows; equal rows stay; among rows with equal symbol and
//!   time the stored ones come first, then the new ones in order of arrival.
//! - Memory: rows are held up to a limit, then sorted and spilled to disk, and merged at the commit.

mod duplicates;
mod incoming;
mod partition;
pub(crate) mod periods;
mod reference_merge;
mod removal;
mod spill;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{SchemaRef, TimestampNanosecondType};

use crate::database::{Database, TableSnapshot};
use crate::dates::Dates;
use crate::error::{Error, Result};
use crate::manifest::{FileEntry, Operation, Source};
use crate::observer::{Observer, go_on};
use crate::partition::Period;
use crate::row_key::Dedupe;
use crate::row_order::{RowSource, conform, follow_each_other, gather, merge, sorted};
use crate::schema::reference::{self, REFERENCE_ROWS_MAX};
use crate::schema::{TableSpec, refuse_quarantine_name};
use crate::segment::Segment;
use crate::tier::Tier;
use crate::write::{Change, Writer};
use incoming::IncomingRows;
pub(crate) use reference_merge::KeySet;
pub use reference_merge::{ObserveRows, OnConflict, ResolveConflicts};
use removal::MatchCounts;
pub use removal::Removal;
use spill::RunWriter;

/// How a load is done.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Bytes of memory that the load may use, at least 1 MiB; a merge holds 4 MiB of each run besides. Default 1 GiB.
    pub memory_bytes: usize,
    /// Whether sources that were loaded before are loaded again. Default false.
    pub again: bool,
    /// Threads that sort and write. Default: as many as the machine runs at once.
    pub threads: usize,
    /// How new segments are kept; `None` means as the table says for their age ([`Table::set_tier`](crate::Table::set_tier)), else as their
    /// partition is, else mapped.
    pub tier: Option<Tier>,
    /// The stored rows that the new ones replace. Default: none.
    pub replace: Replace,
    /// The span of the table's partitions. `None` keeps it, and for a new table chooses one that suits its rows ([`Period`]).
    pub partition: Option<Period>,
    /// The duplicates among the new rows, and whether they are left out or refused. Default: none; equal rows are stored beside each other.
    pub dedupe: Option<Dedupe>,
    /// The action for a row whose key the table has already. Default: the load is refused.
    pub on_conflict: OnConflict,
}

/// The stored rows that a load replaces, in the commit that brings its own rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replace {
    /// None: its rows come beside those that are stored.
    #[default]
    Nothing,
    /// All rows of the dates that it has rows of.
    Dates,
    /// Replaces, on each date that the load has rows of, all rows of the symbols that it has there.
    Symbols,
    /// All rows of the table.
    Table,
}

/// Least memory of a load.
const MEMORY_BYTES_MIN: usize = 1 << 20;

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        LoadOptions {
            memory_bytes: 1 << 30,
            again: false,
            threads,
            tier: None,
            replace: Replace::Nothing,
            partition: None,
            dedupe: None,
            on_conflict: OnConflict::Refuse,
        }
    }
}

/// The result of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Rows that came in.
    pub rows: u64,
    /// Rows removed.
    pub removed: u64,
    /// New rows that were left out as duplicates, or because of a row of the same key that is kept.
    pub duplicates: u64,
    /// Partitions to which rows were added.
    pub partitions: usize,
    /// Segments written.
    pub segments: usize,
    /// Bytes of those and their indexes.
    pub bytes: u64,
    /// The commit's number.
    pub epoch: u64,
}

/// A load that is going on. It holds the writer lock.
#[derive(Debug)]
pub struct Load {
    writer: Writer,
    spec: TableSpec,
    schema: SchemaRef,
    options: LoadOptions,
    /// Finds the partition of a row.
    dates: Dates,
    /// By their first dates.
    partitions: BTreeMap<i32, IncomingRows>,
    buffered_bytes: usize,
    runs: usize,
    rows: u64,
    sources: Vec<Source>,
    /// Stored rows that go, and how many these are.
    removal: Option<(Removal, MatchCounts)>,
    operation: Operation,
    /// Digests of sources that the table no longer has.
    unload: Vec<String>,
    /// Whether files that it replaces stay for a while.
    keep: bool,
    /// Rows were lost when they were set aside.
    failed: bool,
}

impl Database {
    /// Begins a load into a table, which is created by the load's commit if it doesn't exist. If it does, columns that are new
    /// in `spec` are added to it by the commit, and all else must agree.
    ///
    /// # Errors
    /// [`Error::Locked`] while another writer is at work; [`Error::Schema`] if `spec` doesn't fit the table; [`Error::Refused`] if it
    /// keeps the rows of a materialized view; [`Error::Name`] for a new table with a name that can't be one; [`Error::RowsElsewhere`] if it replaces
    /// rows, of which another process has some in memory or in its journal.
    pub fn load(&self, spec: &TableSpec, options: LoadOptions) -> Result<Load> {
        match refuse_quarantine_name("table", &spec.name) {
            Err(error) if !self.has_table(&spec.name)? => Err(error),
            _ => self.load_as_capture(spec, options),
        }
    }

    /// Like [`Database::load`], but for capture, which may create tables with the reserved names of quarantines.
    ///
    /// # Errors
    /// As [`Database::load`].
    pub fn load_as_capture(&self, spec: &TableSpec, options: LoadOptions) -> Result<Load> {
        self.refuse_of_view(&spec.name)?;
        self.settle(&spec.name)?;
        Load::begin(self, spec, options)
    }
}

impl Load {
    pub(crate) fn begin(database: &Database, spec: &TableSpec, options: LoadOptions) -> Result<Load> {
        spec.validate()?;
        if options.memory_bytes < MEMORY_BYTES_MIN {
            let reason = format!("a load needs at least {} MiB", MEMORY_BYTES_MIN >> 20);
            return Err(Error::Setting { setting: "memory_bytes", reason });
        }
        if options.tier == Some(Tier::Object) {
            let reason =
                "rows are loaded into a tier of this machine, and moved to the object store by compact or maintain";
            return Err(Error::Setting { setting: "tier", reason: reason.to_owned() });
        }
        let writer = Writer::begin(database, &spec.name)?;
        let spec = match (writer.table(), options.partition) {
            (Some(state), Some(requested)) if requested != state.spec.partition => {
                let has = state.spec.partition;
                return Err(state.spec.error(format!("its partitions are those of \"{has}\", not of \"{requested}\"")));
            }
            (Some(state), _) => fit_spec(&state.spec, spec)?,
            (None, _) if database.view(&spec.name)?.is_some() => {
                return Err(Error::Name { what: "table", name: spec.name.clone(), reason: "a view has this name" });
            }
            (None, requested) => spec.clone().with_partition(requested.unwrap_or(spec.partition)),
        };
        spec.validate()?;
        if options.replace == Replace::Symbols && spec.symbol.is_none() {
            return Err(spec.error("it has no symbol column: only whole dates can be replaced".to_owned()));
        }
        if options.partition.is_some() && spec.reference.is_some() {
            return Err(spec.error("it is a reference table, which has one partition".to_owned()));
        }
        if options.replace == Replace::Dates && spec.reference.is_some() {
            return Err(spec.error("it is a reference table, which has no dates: replace the whole table".to_owned()));
        }
        if options.dedupe.is_some() && spec.reference.is_some() {
            let reason =
                "it is a reference table, whose rows are told apart by its key: see what becomes of a conflict";
            return Err(spec.error(reason.to_owned()));
        }
        if options.on_conflict != OnConflict::Refuse && spec.key_positions().is_empty() {
            return Err(spec.error("it has no key, so no row conflicts with another: leave the clause out".to_owned()));
        }
        let operation = if options.replace == Replace::Nothing { Operation::Load } else { Operation::Replace };
        let (schema, dates) = (spec.arrow(), spec.partitions()?);
        let partitions = BTreeMap::new();
        let sources = Vec::new();
        let load = Load {
            writer,
            spec,
            schema,
            options,
            dates,
            partitions,
            buffered_bytes: 0,
            runs: 0,
            rows: 0,
            sources,
            removal: None,
            operation,
            unload: Vec::new(),
            keep: true,
            failed: false,
        };
        load.options.dedupe.as_ref().map_or(Ok(()), |dedupe| load.check_dedupe(dedupe))?;
        if load.options.replace != Replace::Nothing && load.writer.table().is_some() {
            database.table(&load.spec.name)?.refuse_live()?;
        }
        Ok(load)
    }

    /// Takes stored rows out, in the commit that brings the new ones. Gives how many there are.
    ///
    /// # Errors
    /// Those of reading the table.
    pub(crate) fn remove(&mut self, removal: Removal) -> Result<u64> {
        let counts = match self.snapshot()? {
            Some(snapshot) => removal.count(&snapshot)?,
            None => MatchCounts::new(),
        };
        let rows = counts.values().flat_map(|by_path| by_path.values()).sum();
        self.removal = Some((removal, counts));
        self.operation = Operation::Delete;
        Ok(rows)
    }

    /// Number of the table's last commit; `None` if there is no such table.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.writer.table().map(|state| state.epoch)
    }

    /// Replaces the rows of a removal by the incoming ones, and their recorded sources: `unload` by digest. It can't be
    /// undone.
    pub(crate) fn replace_sources(
        &mut self,
        removal: Removal,
        unload: Vec<String>,
        sources: Vec<Source>,
    ) -> Result<()> {
        self.remove(removal)?;
        (self.operation, self.unload, self.sources, self.keep) = (Operation::Replace, unload, sources, false);
        Ok(())
    }

    /// Changes stored rows: takes them out, and what `change` makes of them in. Among rows of equal symbol and time those that were changed
    /// are the last. Gives how many there are.
    ///
    /// # Errors
    /// Those of reading the table, of `change` and of [`Load::append`].
    pub(crate) fn update(
        &mut self,
        removal: Removal,
        change: &mut dyn FnMut(RecordBatch) -> Result<RecordBatch>,
    ) -> Result<u64> {
        let rows = self.remove(removal.clone())?;
        self.operation = Operation::Update;
        if let Some(snapshot) = self.snapshot()? {
            removal.each(&snapshot, &mut |rows| self.append(&change(rows)?))?;
        }
        Ok(rows)
    }

    /// As [`Load::remove`]; `sink` gets the rows, with all columns.
    ///
    /// # Errors
    /// Those of reading the table, and of `sink`.
    pub(crate) fn remove_each(
        &mut self,
        removal: Removal,
        sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<u64> {
        let rows = self.remove(removal.clone())?;
        if let Some(snapshot) = self.snapshot()? {
            removal.each(&snapshot, sink)?;
        }
        Ok(rows)
    }

    /// Takes all rows out, and in again by partitions of another length.
    pub(crate) fn partition_by(&mut self, period: Period) -> Result<()> {
        self.spec.partition = period;
        self.dates = self.spec.partitions()?;
        let all = Removal::of(&self.spec, crate::select::Selection::default())?;
        self.update(all, &mut Ok)?;
        self.operation = Operation::Partition;
        Ok(())
    }

    /// The table's files as they are. No other process changes them while the load holds the lock.
    fn snapshot(&self) -> Result<Option<TableSnapshot>> {
        match self.writer.table() {
            Some(_) => self.writer.database().table(&self.spec.name)?.stored().map(Some),
            None => Ok(None),
        }
    }

    /// The table's schema: batches must have its columns, in its order and types.
    #[must_use]
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// Records where rows come from, so that it is refused another time. Sources without rows, which are often the same bytes, aren't; the first
    /// of them is on record.
    ///
    /// # Errors
    /// [`Error::AlreadyLoaded`] unless the options say that it may be loaded again.
    pub fn add_source(&mut self, source: Source) -> Result<()> {
        if source.rows == 0 && self.loaded_by(&source.digest).is_some() {
            return Ok(());
        }
        self.check_source(&source.name, &source.digest)?;
        self.sources.push(source);
        Ok(())
    }

    /// Whether a source may be loaded.
    ///
    /// # Errors
    /// As [`Load::add_source`].
    pub fn check_source(&self, name: &str, digest: &str) -> Result<()> {
        if self.options.again {
            return Ok(());
        }
        match self.loaded_by(digest) {
            Some((rows, epoch)) if rows > 0 => {
                Err(Error::AlreadyLoaded { table: self.spec.name.clone(), source_name: name.to_owned(), epoch })
            }
            _ => Ok(()),
        }
    }

    /// Rows of a source that was loaded, and by which commit.
    fn loaded_by(&self, digest: &str) -> Option<(u64, u64)> {
        let before = self.writer.table().and_then(|state| state.sources.get(digest));
        let before = before.map(|(source, epoch)| (source.rows, *epoch));
        let now = || self.writer.state().map_or(0, |state| state.epoch) + 1;
        let in_this = || self.sources.iter().find(|source| source.digest == digest).map(|source| (source.rows, now()));
        before.or_else(in_this)
    }

    /// Takes rows in. On failure none of the batch is taken.
    ///
    /// # Errors
    /// [`Error::Schema`] if the columns differ, [`Error::Row`] for a row without a time, [`Error::Io`] when rows can't be
    /// set aside; after the last the load is to be dropped.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.failed {
            return Err(Error::Poisoned);
        }
        let batch = conform(&self.spec, &self.schema, batch)?;
        let times = batch.column(self.spec.time_position()).as_primitive::<TimestampNanosecondType>();
        if let Some(nulls) = times.nulls().filter(|nulls| nulls.null_count() > 0) {
            let row = (0..nulls.len()).find(|row| nulls.is_null(*row)).unwrap_or(0) as u64;
            let reason = format!("has no {}", self.spec.time);
            return Err(Error::Row { table: self.spec.name.clone(), row, reason });
        }
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let bytes = batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum::<usize>();
        for (date, part) in self.split(&batch)? {
            let incoming = self.partitions.entry(date).or_default();
            incoming.row_bytes = incoming.row_bytes.max(bytes.div_ceil(rows));
            incoming.rows += part.num_rows() as u64;
            match self.options.replace {
                Replace::Symbols => removal::add_symbols(&self.spec, &part, &mut incoming.replaced)?,
                Replace::Dates if !self.spec.partition.is_day() => {
                    removal::add_dates(&self.spec, &part, &mut incoming.replaced)?;
                }
                _ => {}
            }
            incoming.batches.push(part);
        }
        self.rows += rows as u64;
        self.buffered_bytes += bytes;
        if self.spec.reference.is_some() {
            return self.refuse_too_much(self.rows, self.buffered_bytes);
        }
        if self.buffered_bytes > self.options.memory_bytes / 2 {
            self.failed = true;
            self.spill()?;
            self.failed = false;
        }
        Ok(())
    }

    /// Refuses a reference table that is too large to be written anew by each change.
    fn refuse_too_much(&self, rows: u64, bytes: usize) -> Result<()> {
        let what = match (rows > REFERENCE_ROWS_MAX, bytes > self.options.memory_bytes / 2) {
            (true, _) => format!("{REFERENCE_ROWS_MAX} rows"),
            (_, true) => format!("{} MiB", self.options.memory_bytes >> 21),
            _ => return Ok(()),
        };
        let reason = format!("a reference table has at most {what}: keep these rows in a table with a time column");
        Err(self.spec.error(reason))
    }

    /// The batch by date; rows stay in order.
    fn split(&mut self, batch: &RecordBatch) -> Result<Vec<(i32, RecordBatch)>> {
        if self.spec.reference.is_some() {
            return Ok(vec![(reference::PARTITION, batch.clone())]);
        }
        let times = batch.column(self.spec.time_position()).as_primitive::<TimestampNanosecondType>();
        let mut rows: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
        let values = times.values();
        let (first, last) = (values[0], values[values.len() - 1]);
        if values.is_sorted() && self.dates.of(first) == self.dates.of(last) {
            return Ok(vec![(self.dates.of(first), batch.clone())]);
        }
        for (row, time) in (0..).zip(values) {
            rows.entry(self.dates.of(*time)).or_default().push(row);
        }
        if rows.len() == 1 {
            return Ok(rows.into_keys().map(|date| (date, batch.clone())).collect());
        }
        let part = |(date, rows)| Ok((date, take_record_batch(batch, &UInt64Array::from(rows))?));
        rows.into_iter().map(part).collect()
    }

    /// Sorts the rows in memory and writes them to a spill file.
    fn spill(&mut self) -> Result<()> {
        let storage = Arc::clone(self.writer.storage());
        for incoming in self.partitions.values_mut() {
            let batches = std::mem::take(&mut incoming.batches);
            if batches.is_empty() {
                continue;
            }
            let order = sorted(&self.spec, &batches);
            let mut run = RunWriter::create(storage.as_ref(), self.runs)?;
            self.runs += 1;
            for chunk in order.chunks(RunWriter::chunk_rows(incoming.row_bytes)) {
                run.write(&gather(&self.schema, &batches, &chunk)?)?;
            }
            incoming.runs.push(run.finish());
            incoming.merge_runs(&self.spec, &storage, &mut self.runs)?;
        }
        self.buffered_bytes = 0;
        Ok(())
    }

    /// Makes all rows visible, durably, at once.
    ///
    /// # Errors
    /// After [`Error::Poisoned`] and a failure of the last step it is known only by opening the database again whether the
    /// rows are in. After every other error they are not.
    pub fn commit(self) -> Result<LoadReport> {
        self.commit_resolving(None)
    }

    /// Like [`Load::commit`], but `resolve` decides about rows whose key the table has already.
    ///
    /// # Errors
    /// As [`Load::commit`]; [`Error::Refused`] if two of the new rows have one key; those of `resolve`.
    pub fn commit_resolving(self, resolve: Option<&mut ResolveConflicts<'_>>) -> Result<LoadReport> {
        self.commit_observed(resolve, None)
    }

    /// As [`Load::commit_resolving`]. `observe` gets the rows that come into a reference table, new ones and those that a conflict changes,
    /// with all columns and in the order of the rows that were appended. If it fails, nothing is committed.
    ///
    /// # Errors
    /// As [`Load::commit_resolving`], and those of `observe`.
    pub fn commit_observed(
        mut self,
        resolve: Option<&mut ResolveConflicts<'_>>,
        observe: Option<&mut ObserveRows<'_>>,
    ) -> Result<LoadReport> {
        if self.failed {
            return Err(Error::Poisoned);
        }
        let may_choose =
            self.options.partition.is_none() && self.spec.partition.is_day() && self.spec.reference.is_none();
        if may_choose && self.writer.table().is_none() {
            self.choose_partition()?;
        }
        let mut partitions = std::mem::take(&mut self.partitions);
        let mut change = Change::new(self.operation);
        change.sources = std::mem::take(&mut self.sources).into_iter().map(|source| (source, 0)).collect();
        change.keep = self.keep;
        if self.writer.table().is_none_or(|state| state.spec != self.spec) {
            change.spec = Some(self.spec.clone());
        }
        if let Some(dropped) = self.writer.state().filter(|state| state.dropped) {
            // The name now belongs to a new table.
            change.unload = dropped.sources.keys().cloned().collect();
        }
        change.unload.append(&mut self.unload);
        let removal = self.removal.take();
        if self.spec.reference.is_some() {
            let incoming = partitions.remove(&reference::PARTITION).unwrap_or_default();
            return self.commit_reference(incoming, removal, (resolve, observe), change);
        }
        let touched = removal.iter().flat_map(|(_, counts)| counts.keys()).copied();
        let all = self.writer.table().filter(|_| self.options.replace == Replace::Table);
        let all = all.into_iter().flat_map(|state| state.files.values().map(|entry| entry.date));
        let mut dates: BTreeSet<i32> = partitions.keys().copied().chain(touched).chain(all).collect();
        for date in dates.clone() {
            let mut incoming = partitions.remove(&date).unwrap_or_default();
            let mut order = sorted(&self.spec, &incoming.batches);
            if let Some(dedupe) = self.options.dedupe.clone() {
                let dropped;
                (order, dropped) = self.without_duplicates(date, &mut incoming, order, &dedupe)?;
                change.duplicates += dropped;
                // A replacement may remove rows of dates that get no new ones.
                if incoming.is_empty() && self.options.replace == Replace::Nothing {
                    dates.remove(&date);
                    continue;
                }
            }
            let removal = match incoming.replaced.is_empty() {
                true => removal.clone(),
                false => Some(self.removal_of_replaced(date, &incoming)?),
            };
            let remaining = self.take_out(date, removal.as_ref(), &mut change);
            self.write_partition(date, incoming, order, remaining, &mut change)?;
        }
        let (segments, bytes) = (change.add.len(), change.add.iter().map(|f| f.bytes + f.index_bytes).sum());
        let duplicates = change.duplicates;
        let (rows, removed) = match self.operation {
            Operation::Partition => (0, 0),
            _ => (self.rows - duplicates, change.rows.1),
        };
        change.rows = (rows, removed);
        let epoch = self.writer.commit(change)?;
        Ok(LoadReport { rows, removed, duplicates, partitions: dates.len(), segments, bytes, epoch })
    }

    /// The rows whose place a partition's new ones take.
    fn removal_of_replaced(&self, first: i32, incoming: &IncomingRows) -> Result<(Removal, MatchCounts)> {
        let by_symbol = self.options.replace == Replace::Symbols;
        let removal = Removal::rows_to_replace(&self.spec, first, incoming.replaced.clone(), by_symbol)?;
        let counts = self.snapshot()?.map(|snapshot| removal.count(&snapshot)).transpose()?;
        Ok((removal, counts.unwrap_or_default()))
    }
}

/// Rows that are read at once from each source of a merge.
pub(crate) fn chunk_rows(row_bytes: usize) -> usize {
    RunWriter::chunk_rows(row_bytes)
}

/// Sources of a merge that hold the rows of a partition: one if its segments follow each other, else one for each segment.
pub(crate) fn stored<'a, S: std::borrow::Borrow<Segment> + Sync>(
    spec: &'a TableSpec,
    segments: &'a [S],
    chunk_rows: usize,
) -> Vec<RowSource<'a>> {
    stored_columns(spec, (0..spec.columns.len()).collect(), segments, chunk_rows)
}

/// Like [`stored`], with only these columns.
pub(crate) fn stored_columns<'a, S: std::borrow::Borrow<Segment> + Sync>(
    spec: &'a TableSpec,
    columns: Vec<usize>,
    segments: &'a [S],
    chunk_rows: usize,
) -> Vec<RowSource<'a>> {
    let columns: Arc<[usize]> = columns.into();
    let rows = move |segment: &'a Segment| -> RowSource<'a> {
        let columns = Arc::clone(&columns);
        let ranges = match segment.ranges() {
            Ok(ranges) => ranges,
            Err(error) => return Box::new(std::iter::once(Err(error))),
        };
        Box::new(ranges.into_iter().flat_map(move |rows| -> RowSource<'a> {
            match segment.batches(spec, &columns, rows, chunk_rows) {
                Ok(batches) => Box::new(batches),
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        }))
    };
    let segments = || segments.iter().map(std::borrow::Borrow::borrow);
    if follow_each_other(spec, segments().map(Segment::entry)) {
        vec![Box::new(segments().flat_map(rows))]
    } else {
        segments().map(rows).collect()
    }
}

/// The spec of an existing table for rows that come with `incoming`: new columns are added, what both have must agree.
fn fit_spec(existing: &TableSpec, incoming: &TableSpec) -> Result<TableSpec> {
    let mut spec = existing.clone();
    for column in &incoming.columns {
        match spec.position(&column.name) {
            None => spec.push_column(column.clone()),
            Some(position) if spec.columns[position].column_type == column.column_type => {}
            Some(position) => {
                return Err(existing.error(format!(
                    "column {:?} is {}, the rows have {}; nothing was loaded",
                    column.name, spec.columns[position].column_type, column.column_type
                )));
            }
        }
    }
    let differs = |a: &str, b: &str| !a.eq_ignore_ascii_case(b);
    reference_merge::fit_reference(existing, incoming)?;
    if differs(&existing.time, &incoming.time) {
        return Err(existing.error(format!("its time column is {:?}, not {:?}", existing.time, incoming.time)));
    }
    if differs(existing.symbol.as_deref().unwrap_or(""), incoming.symbol.as_deref().unwrap_or("")) {
        let name = |symbol: &Option<String>| symbol.clone().unwrap_or_else(|| "none".to_owned());
        return Err(existing.error(format!(
            "its symbol column is {}, not {}",
            name(&existing.symbol),
            name(&incoming.symbol)
        )));
    }
    if (&existing.time_zone, existing.day_start) != (&incoming.time_zone, incoming.day_start) {
        let reason = format!("its dates are in {}, not in {}", existing.dates_in(), incoming.dates_in());
        return Err(existing.error(reason));
    }
    Ok(spec)
}

/// Writes the rows of a partition's segments anew, into as few segments as their size asks for.
pub(crate) fn rewrite(
    writer: &Writer,
    spec: &TableSpec,
    date: i32,
    files: &[FileEntry],
    tier: Tier,
    memory_bytes: usize,
    observer: Observer<'_>,
) -> Result<Vec<FileEntry>> {
    let segments: Vec<Segment> = files.iter().map(|entry| writer.segment(entry)).collect();
    let row_bytes = row_bytes(spec, &segments)?;
    let mut added = Vec::new();
    let rows_max = segment_rows(writer, memory_bytes, row_bytes);
    merge(spec, stored(spec, &segments, RunWriter::chunk_rows(row_bytes)), rows_max, &mut |rows| {
        let entry = writer.write_segment(spec, date, tier, &rows)?;
        let bytes = entry.bytes;
        added.push(entry);
        go_on(observer, bytes)
    })?;
    Ok(added)
}

/// Rows of the segments that [`rewrite`] would make of these.
pub(crate) fn rows_max(writer: &Writer, spec: &TableSpec, files: &[FileEntry], memory_bytes: usize) -> Result<usize> {
    let first: Vec<Segment> = files.iter().take(1).map(|entry| writer.segment(entry)).collect();
    Ok(segment_rows(writer, memory_bytes, row_bytes(spec, &first)?))
}

/// Bytes of a row in memory, from the first rows of a partition.
pub(crate) fn row_bytes<S: std::borrow::Borrow<Segment>>(spec: &TableSpec, segments: &[S]) -> Result<usize> {
    let Some(segment) = segments.first().map(std::borrow::Borrow::borrow) else { return Ok(1) };
    let all: Vec<usize> = (0..spec.columns.len()).collect();
    let rows = segment.read(spec, &all, 0..segment.entry().rows.min(1024))?;
    let bytes: usize = rows.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    Ok(bytes.div_ceil(rows.num_rows().max(1)))
}

/// Rows of a segment that fits the settings and the memory.
pub(crate) fn segment_rows(writer: &Writer, memory_bytes: usize, row_bytes: usize) -> usize {
    let bytes = usize::try_from(writer.settings().segment_bytes).unwrap_or(usize::MAX).min(memory_bytes / 8);
    (bytes / row_bytes.max(1)).max(1024).next_multiple_of(crate::index::BLOCK_ROWS)
}
