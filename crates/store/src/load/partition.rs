//! A partition's files after a load: those that stay, those that are removed, and those that are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampNanosecondType;

use super::incoming::IncomingRows;
use super::removal::{MatchCounts, Removal, matching_rows};
use super::spill::RunWriter;
use super::{Load, Replace, row_bytes, segment_rows, stored};
use crate::error::{Error, Result};
use crate::manifest::FileEntry;
use crate::newest_date::newest_date;
use crate::row_order::{BatchOrder, OrderPart, RowSource, follow_each_other, gather, merge};
use crate::schema::TableSpec;
use crate::segment::{self, Segment};
use crate::tier::Tier;
use crate::write::Change;

/// Rows of a partition from which on a few later ones get a segment of their own.
const APPENDED_TO_ROWS_MIN: u64 = 1 << 18;

/// The part of the stored rows that these are at most.
const APPENDED_SHARE: u64 = 8;

/// Segments of a partition up to which there may be such ones.
const APPENDED_SEGMENTS_MAX: usize = 32;

impl Load {
    /// Takes the rows of a removal out of a date's files and returns what remains. Files that go as a whole are named in the change.
    pub(super) fn take_out(
        &self,
        date: i32,
        removal: Option<&(Removal, MatchCounts)>,
        change: &mut Change,
    ) -> RemainingFiles {
        let mut remaining = RemainingFiles { files: self.writer.partition(date), first: None, removal: None };
        let counts = removal.and_then(|(_, counts)| counts.get(&date));
        let goes = |entry: &FileEntry| match self.options.replace {
            Replace::Table => entry.rows,
            Replace::Dates if self.spec.partition.is_day() => entry.rows,
            _ => matching_rows(counts, entry),
        };
        change.rows.1 += remaining.files.iter().map(goes).sum::<u64>();
        let whole = remaining.files.iter().filter(|entry| goes(entry) == entry.rows);
        change.remove.extend(whole.map(|entry| entry.path.clone()));
        remaining.files.retain(|entry| goes(entry) < entry.rows);
        remaining.first = remaining.files.iter().position(|entry| goes(entry) > 0);
        remaining.removal = remaining.first.and(removal).map(|(removal, _)| removal.clone());
        remaining
    }

    pub(super) fn write_partition(
        &self,
        date: i32,
        mut incoming: IncomingRows,
        order: BatchOrder,
        remaining: RemainingFiles,
        change: &mut Change,
    ) -> Result<()> {
        let RemainingFiles { files: mut existing, first, removal } = remaining;
        if incoming.is_empty() {
            // Segments in front of the first that loses rows stay as they are.
            let Some(first) = first else { return Ok(()) };
            existing.drain(..first);
        }
        let batches = std::mem::take(&mut incoming.batches);
        if incoming.row_bytes == 0 {
            let segments: Vec<Segment> = existing.iter().map(|entry| self.writer.segment(entry)).collect();
            incoming.row_bytes = row_bytes(&self.spec, &segments)?;
        }
        let segment_rows = segment_rows(&self.writer, self.options.memory_bytes, incoming.row_bytes);
        if incoming.runs.is_empty()
            && removal.is_none()
            && (existing.is_empty()
                || self.is_behind(&existing, &batches, &order)?
                || is_later(&self.spec, &existing, &batches))
        {
            let tier = self.tier_of(date, &[]);
            change.add.extend(self.write_ordered(date, tier, &batches, &order, segment_rows)?);
            return Ok(());
        }
        let spec = self.spec.clone();
        let storage = Arc::clone(self.writer.storage());
        let segments: Vec<Segment> = existing.iter().map(|entry| self.writer.segment(entry)).collect();
        let chunk_rows = RunWriter::chunk_rows(incoming.row_bytes);
        let mut sources: Vec<RowSource<'_>> = Vec::new();
        if !segments.is_empty() {
            let rows = stored(&spec, &segments, chunk_rows);
            sources.extend(rows.into_iter().map(|source| match &removal {
                Some(removal) => removal.rest_of(source),
                None => source,
            }));
        }
        for run in &incoming.runs {
            sources.push(Box::new(run.clone().read(Arc::clone(&storage))));
        }
        let (schema, memory_batches) = (&self.schema, &batches);
        sources.push(Box::new(order.chunks(chunk_rows).map(move |chunk| gather(schema, memory_batches, &chunk))));
        let writer = &self.writer;
        let tier = self.tier_of(date, &existing);
        let mut added = Vec::new();
        merge(&spec, sources, segment_rows, &mut |rows| {
            added.push(writer.write_segment(&spec, date, tier, &rows)?);
            Ok(())
        })?;
        change.add.extend(added);
        change.remove.extend(existing.into_iter().map(|entry| entry.path));
        for run in &incoming.runs {
            run.remove(storage.as_ref())?;
        }
        Ok(())
    }

    /// The tier of a date's new segments. A change that brings no rows leaves them in the tier that they have.
    pub(super) fn tier_of(&self, date: i32, existing: &[FileEntry]) -> Tier {
        let has = existing.first().map(|entry| entry.tier);
        if self.rows == 0
            && let Some(has) = has
        {
            return has;
        }
        let by_age = || {
            let files = self.writer.table().map(|state| state.files.values()).filter(|files| files.len() > 0);
            self.spec.tier_of(date, files.map_or(date, |files| newest_date(&self.spec, files)))
        };
        self.options.tier.or_else(by_age).or(has).unwrap_or(Tier::Mapped)
    }

    /// Whether all new rows belong behind the partition's last row.
    fn is_behind(&self, existing: &[FileEntry], batches: &[RecordBatch], order: &BatchOrder) -> Result<bool> {
        let (Some(last), Some(first)) = (existing.last(), order.first()) else { return Ok(false) };
        if !follow_each_other(&self.spec, existing.iter()) {
            return Ok(false);
        }
        let all: Vec<usize> = (0..self.spec.columns.len()).collect();
        let last = self.writer.segment(last).read(&self.spec, &all, last.rows - 1..last.rows)?;
        let first = gather(&self.schema, batches, &first)?;
        let mut one_after_the_other = BatchOrder::default();
        (0..2).for_each(|batch| one_after_the_other.push_range(batch, 0..1));
        let both = gather(&self.schema, &[last, first], &one_after_the_other)?;
        Ok(segment::is_ordered(&self.spec, &both))
    }

    /// Writes rows that are all in memory, several segments at a time.
    pub(super) fn write_ordered(
        &self,
        date: i32,
        tier: Tier,
        batches: &[RecordBatch],
        order: &BatchOrder,
        segment_rows: usize,
    ) -> Result<Vec<FileEntry>> {
        let parts: Vec<OrderPart> = order.parts(segment_rows);
        let targets = parts.iter().map(|_| self.writer.next_path(date, tier)).collect::<Result<Vec<_>>>()?;
        let (next, writer, spec, schema) = (AtomicUsize::new(0), &self.writer, &self.spec, &self.schema);
        let work = || {
            let mut written = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let (Some(part), Some(path)) = (parts.get(number), targets.get(number)) else { return Ok(written) };
                let rows = gather(schema, batches, &order.part(part))?;
                written.push((number, writer.write_segment_at(spec, date, tier, path.clone(), &rows)?));
            }
        };
        let threads = self.options.threads.clamp(1, parts.len().max(1));
        let results: Vec<Result<Vec<(usize, FileEntry)>>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let joined = others.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Poisoned)));
            std::iter::once(own).chain(joined).collect()
        });
        let mut written = Vec::new();
        for result in results {
            written.extend(result?);
        }
        written.sort_by_key(|(number, _)| *number);
        Ok(written.into_iter().map(|(_, entry)| entry).collect())
    }
}

/// Whether new rows are later than all of a partition's, and few enough to become a segment of their own, so that each symbol's new rows follow its
/// stored ones. If there are many segments already, they are merged instead.
fn is_later(spec: &TableSpec, existing: &[FileEntry], batches: &[RecordBatch]) -> bool {
    let rows: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let stored: u64 = existing.iter().map(|entry| entry.rows).sum();
    let latest = existing.iter().map(|entry| entry.time_max).max().unwrap_or(i64::MIN);
    let times =
        batches.iter().map(|batch| batch.column(spec.time_position()).as_primitive::<TimestampNanosecondType>());
    rows > 0
        && stored >= APPENDED_TO_ROWS_MIN
        && rows <= stored / APPENDED_SHARE
        && existing.len() < APPENDED_SEGMENTS_MAX
        && times.flat_map(|times| times.values().iter()).all(|time| *time >= latest)
}

/// The remaining files of a date.
pub(super) struct RemainingFiles {
    /// Files that keep all their rows.
    files: Vec<FileEntry>,
    /// The first that loses some.
    first: Option<usize>,
    /// The rows that it loses.
    removal: Option<Removal>,
}
