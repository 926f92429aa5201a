//! Write-downs: move captured rows from memory to segments on disk, in one commit that also records which rows these
//! are.

use std::sync::Arc;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::load::{LoadReport, chunk_rows, row_bytes, segment_rows, stored};
use crate::manifest::{FileEntry, Operation};
use crate::row_order::merge;
use crate::schema::TableSpec;
use crate::segment::{Segment, follows};
use crate::tier::Tier;
use crate::write::{Change, Writer};
use crate::write_down_position::WriteDownPosition;

/// Memory that the size of segments is derived from, as in a load.
const MEMORY_BYTES: usize = 1 << 30;

impl Database {
    /// Writes captured rows of a table to files, as segments in which a symbol's rows are later than those in the
    /// segments before. The same commit records that the files have the rows of `captured`.
    ///
    /// If some rows sort before rows on disk, the segments from that place on are rewritten with them. Otherwise no
    /// existing file is touched.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::Locked`] while another writer is at work; [`Error::FellBack`] if `captured` says less than
    /// the table does; others as a load. Unless it is [`Error::Poisoned`] or a failure of the last step, nothing has changed.
    pub fn write_down(
        &self,
        table: &str,
        captured: WriteDownPosition,
        rows: &[(i32, Vec<Arc<Segment>>)],
    ) -> Result<LoadReport> {
        let writer = Writer::begin(self, table)?;
        let Some(state) = writer.table() else {
            return Err(Error::NoSuchTable { table: table.to_owned(), existing: self.tables()? });
        };
        let recorded = state.captured;
        if captured.sequence < recorded.sequence || captured.cut < recorded.cut {
            return Err(Error::FellBack { table: table.to_owned(), recorded, incoming: captured });
        }
        let spec = state.spec.clone();
        let mut change = Change::new(Operation::Capture);
        change.captured = Some(captured);
        let mut report = LoadReport::default();
        for (date, segments) in rows {
            let count: u64 = segments.iter().map(|segment| segment.rows()).sum();
            if count > 0 {
                write_date(&writer, &spec, *date, segments, &mut change)?;
                report.partitions += 1;
                report.rows += count;
            }
        }
        report.segments = change.add.len();
        report.bytes = change.add.iter().map(|file| file.bytes + file.index_bytes).sum();
        report.epoch = writer.commit(change)?;
        Ok(report)
    }
}

fn write_date(
    writer: &Writer,
    spec: &TableSpec,
    date: i32,
    segments: &[Arc<Segment>],
    change: &mut Change,
) -> Result<()> {
    let existing: Vec<FileEntry> = writer.partition(date);
    let stands: Vec<Arc<Segment>> = existing.iter().map(|entry| Arc::new(writer.segment(entry))).collect();
    let mut unchanged = stands.len();
    for (number, lower) in stands.iter().enumerate() {
        let mut all_follow = true;
        for upper in segments {
            all_follow &= follows(spec, lower, upper)?;
        }
        if !all_follow {
            unchanged = number;
            break;
        }
    }
    let row_bytes = row_bytes(spec, segments)?;
    let chunk_rows = chunk_rows(row_bytes);
    let mut sources = stored(spec, &stands[unchanged..], chunk_rows);
    sources.extend(stored(spec, segments, chunk_rows));
    let tier = existing.first().map(|entry| entry.tier).or_else(|| spec.tier_of(date, date)).unwrap_or(Tier::Mapped);
    let rows_max = segment_rows(writer, MEMORY_BYTES, row_bytes);
    merge(spec, sources, rows_max, &mut |rows| {
        change.add.push(writer.write_segment(spec, date, tier, &rows)?);
        Ok(())
    })?;
    change.remove.extend(existing.into_iter().skip(unchanged).map(|entry| entry.path));
    Ok(())
}
