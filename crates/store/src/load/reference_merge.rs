//! Changes of reference tables: reads all rows, merges them with the new ones by key, and rewrites the table.
//!
//! Memory: the table and the new rows, each at most half of the load's limit, and the bytes of all keys.

use arrow::array::{Array, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, prep_null_mask_filter, take_record_batch};
use arrow::row::{RowConverter, Rows, SortField};
use arrow::util::display::array_value_to_string;
use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

use super::removal::{MatchCounts, Removal};
use super::{IncomingRows, Load, LoadReport, Replace, segment_rows};
use crate::error::{Error, Result};
use crate::manifest::Operation;
use crate::row_order::{BatchOrder, conform, gather, sorted};
use crate::schema::TableSpec;
use crate::schema::reference::PARTITION;
use crate::write::Change;

/// The action for a row whose key the table, or an earlier new row, has already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing is loaded.
    #[default]
    Refuse,
    /// The stored row stays.
    Keep,
    /// The new row replaces the stored one.
    Replace,
}

/// Resolves key conflicts: gets the stored rows and the new rows of the same keys, row by row, with all columns, and
/// returns which stored rows change, and their new values.
pub type ResolveConflicts<'a> = dyn FnMut(&RecordBatch, &RecordBatch) -> Result<(BooleanArray, RecordBatch)> + 'a;

/// Gets the rows that come into a table.
pub type ObserveRows<'a> = dyn FnMut(&RecordBatch) -> Result<()> + 'a;

/// Keys of rows.
pub(crate) struct KeySet {
    spec: TableSpec,
    positions: Vec<usize>,
    converter: RowConverter,
    /// Keys of each batch that was added.
    batches: Vec<Rows>,
    /// The first row of each key: number of its batch, and row.
    first: HashTable<(usize, usize)>,
    hasher: DefaultHashBuilder,
}

impl KeySet {
    /// Without any; `None` for a table without a key.
    pub(crate) fn new(spec: &TableSpec) -> Result<Option<KeySet>> {
        let positions = spec.key_positions();
        if positions.is_empty() {
            return Ok(None);
        }
        let field = |position: &usize| SortField::new(spec.columns[*position].column_type.arrow());
        let converter = RowConverter::new(positions.iter().map(field).collect())?;
        let (batches, first, hasher) = (Vec::new(), HashTable::new(), DefaultHashBuilder::default());
        Ok(Some(KeySet { spec: spec.clone(), positions, converter, batches, first, hasher }))
    }

    /// Adds the keys of a batch, and gives for each row the first one of its key, if there was one before.
    pub(crate) fn add(&mut self, rows: &RecordBatch) -> Result<Vec<Option<(usize, usize)>>> {
        let columns: Vec<_> = self.positions.iter().map(|position| Arc::clone(rows.column(*position))).collect();
        self.batches.push(self.converter.convert_columns(&columns)?);
        let (number, batches, hasher) = (self.batches.len() - 1, &self.batches, &self.hasher);
        let bytes = |(batch, row): (usize, usize)| batches[batch].row(row).data();
        let mut before = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let key = bytes((number, row));
            let same = |other: &(usize, usize)| bytes(*other) == key;
            match self.first.entry(hasher.hash_one(key), same, |other| hasher.hash_one(bytes(*other))) {
                Entry::Occupied(entry) => before.push(Some(*entry.get())),
                Entry::Vacant(free) => {
                    free.insert((number, row));
                    before.push(None);
                }
            }
        }
        Ok(before)
    }

    /// Adds the keys of a batch, of which none may be there already.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`].
    pub(crate) fn add_new(&mut self, rows: &RecordBatch, reason: &'static str) -> Result<()> {
        match self.add(rows)?.iter().position(Option::is_some) {
            Some(row) => Err(self.duplicate(rows, row, reason)),
            None => Ok(()),
        }
    }

    fn duplicate(&self, rows: &RecordBatch, row: usize, reason: &'static str) -> Error {
        let name = |position: &usize| self.spec.columns[*position].name.clone();
        let value = |position: &usize| array_value_to_string(rows.column(*position), row).unwrap_or_default();
        Error::DuplicateKey {
            table: self.spec.name.clone(),
            columns: self.positions.iter().map(name).collect::<Vec<_>>().join(", "),
            values: self.positions.iter().map(value).collect::<Vec<_>>().join(", "),
            reason,
        }
    }
}

/// The rows after a merge.
struct MergeOutcome {
    /// Stored rows that don't change.
    stays: BooleanArray,
    /// Rows that come: changed ones and new ones.
    come: Vec<RecordBatch>,
    /// For each of these, the number of the row that was appended.
    numbers: Vec<usize>,
}

impl Load {
    /// The commit of a change of a reference table. Without a change of rows, columns or sources there is none.
    pub(super) fn commit_reference(
        mut self,
        incoming: IncomingRows,
        removal: Option<(Removal, MatchCounts)>,
        (resolve, observe): (Option<&mut ResolveConflicts<'_>>, Option<&mut ObserveRows<'_>>),
        mut change: Change,
    ) -> Result<LoadReport> {
        let files = self.writer.partition(PARTITION);
        let all: Vec<usize> = (0..self.spec.columns.len()).collect();
        let read = |entry| self.writer.segment(entry).read_all(&self.spec, &all);
        let stored = one_batch(&self.spec, &files.iter().map(read).collect::<Result<Vec<_>>>()?)?;
        self.refuse_too_much(stored.num_rows() as u64, bytes_of(&stored))?;
        let before = stored.num_rows();
        let stored = self.without_removed(stored, removal, &incoming)?;
        let new = one_batch(&self.spec, &incoming.batches)?;
        let is_resolved = resolve.is_some();
        let settled = self.settle_keys(&stored, &new, resolve)?;
        if let Some(observe) = observe {
            let mut order: Vec<usize> = (0..settled.numbers.len()).collect();
            order.sort_by_key(|row| settled.numbers[*row]);
            observe(&take_rows(&one_batch(&self.spec, &settled.come)?, order.into_iter())?)?;
        }
        let stored = filter_record_batch(&stored, &settled.stays)?;
        let came = settled.come.iter().map(RecordBatch::num_rows).sum::<usize>();
        let went = before - stored.num_rows();
        change.rows = (came as u64, went as u64);
        // Those whose key an earlier or a later row has that is kept.
        change.duplicates = if is_resolved { 0 } else { (new.num_rows() - came) as u64 };
        if self.operation == Operation::Load && went > 0 {
            change.operation = Operation::Replace;
        }
        if came + went > 0 {
            let mut batches = vec![stored];
            batches.extend(settled.come);
            let rows = by_key(&self.spec, one_batch(&self.spec, &batches)?)?;
            self.refuse_too_much(rows.num_rows() as u64, bytes_of(&rows))?;
            let row_bytes = bytes_of(&rows).div_ceil(rows.num_rows().max(1));
            let rows_max = segment_rows(&self.writer, self.options.memory_bytes, row_bytes);
            let tier = self.tier_of(PARTITION, &files);
            let batches = [rows];
            let order = sorted(&self.spec, &batches);
            change.add = self.write_ordered(PARTITION, tier, &batches, &order, rows_max)?;
            change.remove = files.into_iter().map(|entry| entry.path).collect();
        }
        let (rows, removed, duplicates) = (came as u64, went as u64, change.duplicates);
        let mut report = LoadReport { rows, removed, duplicates, ..LoadReport::default() };
        report.segments = change.add.len();
        report.partitions = usize::from(came + went > 0);
        report.bytes = change.add.iter().map(|file| file.bytes + file.index_bytes).sum();
        let epoch = self.writer.table().map(|state| state.epoch);
        report.epoch = match epoch.filter(|_| came + went == 0 && change.sources.is_empty() && change.spec.is_none()) {
            Some(epoch) => epoch,
            None => self.writer.commit(change)?,
        };
        Ok(report)
    }

    /// Stored rows without those that are removed or replaced.
    fn without_removed(
        &mut self,
        stored: RecordBatch,
        removal: Option<(Removal, MatchCounts)>,
        incoming: &IncomingRows,
    ) -> Result<RecordBatch> {
        let removal = match self.options.replace {
            Replace::Table => return Ok(stored.slice(0, 0)),
            Replace::Symbols => {
                let symbols = incoming.replaced.values().flatten().cloned().collect();
                Some(Removal::rows_to_replace(&self.spec, PARTITION, [(PARTITION, symbols)].into(), true)?)
            }
            Replace::Nothing | Replace::Dates => removal.map(|(removal, _)| removal),
        };
        let Some(removal) = removal else { return Ok(stored) };
        let rest = removal.rest_of(Box::new(std::iter::once(Ok(stored)))).collect::<Result<Vec<_>>>()?;
        one_batch(&self.spec, &rest)
    }

    /// Finds the rows that stored and new ones make by their keys.
    fn settle_keys(
        &self,
        stored: &RecordBatch,
        new: &RecordBatch,
        resolve: Option<&mut ResolveConflicts<'_>>,
    ) -> Result<MergeOutcome> {
        let unchanged = || BooleanArray::from(vec![true; stored.num_rows()]);
        let Some(mut keys) = KeySet::new(&self.spec)? else {
            let numbers = (0..new.num_rows()).collect();
            return Ok(MergeOutcome { stays: unchanged(), come: vec![new.clone()], numbers });
        };
        keys.add_new(stored, "is there twice")?;
        let before = keys.add(new)?;
        // For each stored row the new row with its key; for each new row the one that replaces it.
        let (mut met, mut place) = (vec![None; stored.num_rows()], (0..new.num_rows()).map(Some).collect::<Vec<_>>());
        for (row, before) in before.into_iter().enumerate() {
            let Some((batch, first)) = before else { continue };
            place[row] = None;
            let is_stored = batch == 0;
            match (self.options.on_conflict, resolve.is_some()) {
                (_, true) if is_stored && met[first].is_none() => met[first] = Some(row),
                (_, true) => {
                    let reason = "ON CONFLICT DO UPDATE command cannot affect row a second time".to_owned();
                    return Err(Error::Refused { reason });
                }
                (OnConflict::Refuse, _) => {
                    let reason = if is_stored { "already exists" } else { "is there twice among the new rows" };
                    return Err(keys.duplicate(new, row, reason));
                }
                (OnConflict::Keep, _) => {}
                (OnConflict::Replace, _) if is_stored => met[first] = Some(row),
                (OnConflict::Replace, _) => place[first] = Some(row),
            }
        }
        let fresh_numbers = || place.iter().copied().flatten();
        let fresh = take_rows(new, fresh_numbers())?;
        let meeting = || met.iter().enumerate().filter_map(|(at, row)| row.map(|row| (at, row)));
        let Some(resolve) = resolve else {
            let stays = met.iter().map(|row| Some(row.is_none())).collect();
            let numbers = meeting().map(|(_, row)| row).chain(fresh_numbers()).collect();
            return Ok(MergeOutcome {
                stays,
                come: vec![take_rows(new, meeting().map(|(_, row)| row))?, fresh],
                numbers,
            });
        };
        if meeting().next().is_none() {
            return Ok(MergeOutcome { stays: unchanged(), come: vec![fresh], numbers: fresh_numbers().collect() });
        }
        let old = take_rows(stored, meeting().map(|(at, _)| at))?;
        let (changes, rows) = resolve(&old, &take_rows(new, meeting().map(|(_, row)| row))?)?;
        let rows = conform(&self.spec, &self.schema, &rows)?;
        let changes = if changes.null_count() > 0 { prep_null_mask_filter(&changes) } else { changes };
        let changed = meeting().zip(changes.values()).filter_map(|((_, row), changes)| changes.then_some(row));
        let numbers = changed.chain(fresh_numbers()).collect();
        let mut stays = vec![true; stored.num_rows()];
        meeting().zip(changes.values()).for_each(|((at, _), changes)| stays[at] = !changes);
        let stays = BooleanArray::from(stays);
        // A conflict's action may give the rows other keys.
        let mut keys = KeySet::new(&self.spec)?;
        for rows in [&filter_record_batch(stored, &stays)?, &rows, &fresh] {
            keys.as_mut().map_or(Ok(()), |keys| keys.add_new(rows, "already exists"))?;
        }
        Ok(MergeOutcome { stays, come: vec![rows, fresh], numbers })
    }
}

/// Whether the incoming rows are for a reference table with the same key and effective date as the stored one.
pub(super) fn fit_reference(existing: &TableSpec, incoming: &TableSpec) -> Result<()> {
    let folded = |spec: &TableSpec| {
        spec.reference.as_ref().map(|reference| {
            let key: Vec<String> = reference.key.iter().map(|name| name.to_ascii_lowercase()).collect();
            (key, reference.effective.as_ref().map(|name| name.to_ascii_lowercase()))
        })
    };
    let (has, wants) = (folded(existing), folded(incoming));
    let shown = |key: &[String]| if key.is_empty() { "none".to_owned() } else { key.join(", ") };
    match (has, wants) {
        (Some(has), Some(wants)) if has == wants => Ok(()),
        (None, None) => Ok(()),
        (Some((key, _)), None) => Err(existing.error(format!("it is a reference table, whose key is {}", shown(&key)))),
        (None, Some(_)) => Err(existing.error("it is a table with a time column, not a reference table".to_owned())),
        (Some((has, one)), Some((wants, other))) => {
            let name = |effective: Option<String>| effective.unwrap_or_else(|| "none".to_owned());
            Err(existing.error(format!(
                "its key is {} and its effective date {}, not {} and {}",
                shown(&has),
                name(one),
                shown(&wants),
                name(other)
            )))
        }
    }
}

/// Batches behind each other.
fn one_batch(spec: &TableSpec, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let mut order = BatchOrder::default();
    batches.iter().enumerate().for_each(|(number, batch)| order.push_range(number, 0..batch.num_rows()));
    match batches {
        [] => Ok(RecordBatch::new_empty(spec.arrow())),
        batches => gather(&spec.arrow(), batches, &order),
    }
}

/// Rows in the order of their keys.
fn by_key(spec: &TableSpec, rows: RecordBatch) -> Result<RecordBatch> {
    let Some(keys) = KeySet::new(spec)? else { return Ok(rows) };
    let columns: Vec<_> = keys.positions.iter().map(|position| Arc::clone(rows.column(*position))).collect();
    let keys = keys.converter.convert_columns(&columns)?;
    let mut order: Vec<usize> = (0..rows.num_rows()).collect();
    order.sort_by(|one, other| keys.row(*one).cmp(&keys.row(*other)));
    take_rows(&rows, order.into_iter())
}

fn take_rows(rows: &RecordBatch, at: impl Iterator<Item = usize>) -> Result<RecordBatch> {
    let at: UInt32Array = at.map(|row| u32::try_from(row).unwrap_or(u32::MAX)).collect();
    Ok(take_record_batch(rows, &at)?)
}

fn bytes_of(rows: &RecordBatch) -> usize {
    rows.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
