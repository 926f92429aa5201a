//! Rows of a table as a plan's output: read by blocks, without the rows that its filter removes.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use splay_store::{TableSnapshot, TableSpec, Tier};

use crate::error::{Error, Result};
use crate::execution_context::{ExecutionContext, check_memory};
use crate::expr::codes::{TextResults, condition};
use crate::expr::{EvaluatedColumns, Expr, InputColumns};
use crate::filter_mask::FilterMask;
use crate::frame::{BLOCK_ROWS_MAX, Frame};
use crate::late::{ColumnPart as LatePart, FrameColumn, LateColumn, RowChoice};
use crate::parallel;
use crate::reads::{Reads, column_bytes};
use crate::scan::{Scan, table};
use crate::stop::Stop;
use crate::table::{
    Cover, CoverColumns, JoinedPieces, PIECE_ROWS, Prefetch, PrefetchPart, RowBlock, date_position, deal, is_short,
};
use crate::value::Value;

/// Most blocks that are read as a batch in search of the first rows that pass a filter.
const BLOCKS_AT_ONCE_MAX: usize = 64;

/// Batches with fewer rows are concatenated, except between slices of mapped files.
const BATCH_ROWS_MIN: usize = 8_192;

/// Consecutive words of a mask with all bits set from which on their rows are returned as a slice: as many as a batch has.
const WHOLE_WORDS_MIN: usize = BATCH_ROWS_MIN / 64;

/// The rows of a table's covers, in the table's order. At least one frame, from which the next step takes the types.
pub(crate) fn rows(
    scan: &Scan,
    covers: &[Cover],
    outputs: &[Expr],
    types: &[DataType],
    fetch: Option<usize>,
    context: &ExecutionContext<'_>,
) -> Result<Vec<Frame>> {
    let snapshot = table(scan, context)?;
    let (predicate, constants, stop) = (scan.predicate.as_ref(), context.constants, context.stop);
    let memory_bytes = context.memory_bytes;
    let spec = Arc::new(snapshot.spec().clone());
    let reader = RowReader { snapshot, spec, predicate, outputs, constants, stop, memory_bytes, reads: &context.reads };
    let total: usize = covers.iter().map(Cover::selected_rows).sum();
    let rows = fetch.map_or(total, |fetch| fetch.min(total));
    reader.check_memory(rows, types, covers)?;
    reader.check_decoded(covers, context)?;
    let frames = match fetch {
        Some(fetch) => reader.read_first(covers, fetch, context.threads)?,
        None => reader.read_parallel(covers, total, context.threads)?,
    };
    let frames = put_together(frames, types, context.threads)?;
    Ok(if frames.is_empty() { vec![Frame::concat(frames, types)?] } else { frames })
}

/// Reads the selected rows of covers.
struct RowReader<'a> {
    snapshot: &'a TableSnapshot,
    spec: Arc<TableSpec>,
    predicate: Option<&'a Expr>,
    outputs: &'a [Expr],
    constants: &'a [ArrayRef],
    stop: Stop<'a>,
    memory_bytes: usize,
    reads: &'a Reads,
}

impl RowReader<'_> {
    /// Refuses rows that would take too much memory. Columns that are gathered late take none until the filter's result is known.
    fn check_memory(&self, rows: usize, types: &[DataType], covers: &[Cover]) -> Result<()> {
        let are_passed_on = covers.iter().all(|cover| are_late(cover) && !is_short(cover));
        let plain = |output: &Expr| are_passed_on && matches!(output, Expr::Column(_));
        let computed = self.outputs.iter().zip(types).filter(|(output, _)| !plain(output));
        check_memory(rows, computed.map(|(_, data_type)| data_type), self.memory_bytes)
    }

    /// Refuses columns that are decoded for filters and computed values, if the blocks that threads process at a time would take too much memory.
    fn check_decoded(&self, covers: &[Cover], context: &ExecutionContext<'_>) -> Result<()> {
        let computed = self.outputs.iter().filter(|output| !matches!(output, Expr::Column(_)));
        let mut columns = HashSet::new();
        for expr in computed.chain(self.predicate) {
            expr.visit_columns(&mut |column| _ = columns.insert(column));
        }
        let width = |column: &usize| {
            let column = self.spec.columns.get(*column)?;
            Some(column.column_type.arrow().primitive_width().unwrap_or(16))
        };
        let row_bytes: usize = columns.iter().filter_map(width).sum();
        let decoded = || covers.iter().filter(|cover| !are_mapped(cover)).map(|cover| cover.rows.len());
        let (all, longest) = (decoded().sum::<usize>(), decoded().max().unwrap_or(0));
        let rows = longest.saturating_mul(context.threads.max(1)).min(all);
        let (needed, limit) = (rows.saturating_mul(row_bytes), context.memory_bytes);
        if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
    }

    /// The columns that are read.
    fn columns(&self) -> Vec<(usize, PrefetchPart)> {
        let mut columns: Vec<(usize, PrefetchPart)> = Vec::new();
        for expr in self.outputs.iter().chain(self.predicate) {
            expr.visit_columns(&mut |column| {
                if column < date_position(self.snapshot) && !columns.contains(&(column, PrefetchPart::Whole)) {
                    columns.push((column, PrefetchPart::Whole));
                }
            });
        }
        columns
    }

    fn read(&self, covers: &[Cover]) -> Result<Vec<Frame>> {
        let mut frames = Vec::new();
        let mut ahead = Prefetch::new(self.snapshot, covers, self.columns(), self.reads);
        let mut rest = covers.iter().enumerate().peekable();
        while let Some((number, cover)) = rest.next() {
            ahead.before(number)?;
            if is_short(cover) {
                let mut pieces = JoinedPieces::new(self.snapshot, cover);
                while let Some((number, next)) = rest.next_if(|(_, next)| is_short(next) && pieces.has_room(next)) {
                    ahead.before(number)?;
                    pieces.add(next);
                }
                if pieces.are_many() {
                    frames.push(self.passing_rows(&pieces, None, self.filter_mask(&pieces)?)?);
                    continue;
                }
                for cover in &covers[number..number + pieces.covers] {
                    self.read_cover(cover, &mut frames)?;
                }
                continue;
            }
            self.read_cover(cover, &mut frames)?;
        }
        Ok(frames)
    }

    fn read_cover(&self, cover: &Cover, frames: &mut Vec<Frame>) -> Result<()> {
        let columns = CoverColumns::new(self.snapshot, cover);
        for block in cover.blocks(BLOCK_ROWS_MAX) {
            frames.extend(self.block(&columns, &block)?);
        }
        Ok(())
    }

    /// The first selected rows. Of a column only the blocks with these rows are read; if a filter passes few rows, the number of blocks doubles each
    /// time, and threads share them.
    fn read_first(&self, covers: &[Cover], fetch: usize, threads: usize) -> Result<Vec<Frame>> {
        let mut frames = Vec::new();
        let mut remaining = fetch;
        let row_bytes: u64 = self.columns().iter().map(|(column, _)| column_bytes(self.snapshot, *column)).sum();
        let parts = |cover: &Cover, block_rows: usize| {
            let blocks = cover.blocks(block_rows).into_iter();
            blocks.map(|block| (cover.part(&block), block)).collect::<Vec<_>>()
        };
        let mut parts: Box<dyn Iterator<Item = (Cover, RowBlock)>> = match self.predicate {
            None => {
                let firsts = covers.iter().scan(fetch, |remaining, cover| {
                    let first = (*remaining > 0).then(|| cover.first(*remaining))?;
                    *remaining -= first.selected_rows();
                    Some(first)
                });
                Box::new(firsts.flat_map(move |cover| parts(&cover, BLOCK_ROWS_MAX)))
            }
            Some(_) => {
                let block_rows = fetch.clamp(BATCH_ROWS_MIN, BLOCK_ROWS_MAX);
                Box::new(covers.iter().flat_map(move |cover| parts(cover, block_rows)))
            }
        };
        let mut count = 1;
        while remaining > 0 {
            let some: Vec<(Cover, RowBlock)> = parts.by_ref().take(count).collect();
            if some.is_empty() {
                break;
            }
            let rows = some.iter().map(|(part, _)| part.rows.len()).sum();
            self.reads.add_bytes(rows as u64 * row_bytes);
            let read = parallel::each(some.len(), parallel::threads_for(rows, 0, threads), |number| {
                let (part, block) = &some[number];
                self.block(&CoverColumns::new(self.snapshot, part), block)
            })?;
            for frame in read.into_iter().flatten().filter(|frame| frame.len() > 0) {
                let frame = if frame.len() > remaining { frame.slice(0, remaining) } else { frame };
                remaining -= frame.len();
                frames.push(frame);
            }
            count = (2 * count).min(BLOCKS_AT_ONCE_MAX);
        }
        Ok(frames)
    }

    /// Reads all covers, by several threads if that pays. Frames are in the order of the rows.
    fn read_parallel(&self, covers: &[Cover], total: usize, threads: usize) -> Result<Vec<Frame>> {
        let pieces: usize = covers.iter().map(|cover| cover.spans.len()).sum();
        let are_short = total < pieces * PIECE_ROWS;
        let computed = |output: &Expr| !matches!(output, Expr::Column(_) | Expr::Constant(_));
        let computes = self.predicate.is_some() || self.outputs.iter().any(computed);
        // Long pieces of columns are returned as slices.
        let copied = if are_short { pieces * self.columns().len() } else { 0 };
        let threads = parallel::threads_for(if computes { total } else { 0 }, copied, threads);
        if threads <= 1 && (!are_short || total <= BLOCK_ROWS_MAX) {
            return self.read(covers);
        }
        let parts = if are_short {
            // Each part is copied together.
            let rounds = total.div_ceil(threads * BLOCK_ROWS_MAX).max(1);
            deal(covers.to_vec(), total.div_ceil(threads * rounds))
        } else {
            blocks_of(covers)
        };
        let read = parallel::each(parts.len(), threads, |part| self.read(&parts[part]))?;
        Ok(read.into_iter().flatten().collect())
    }

    /// The selected rows of a block as one frame; or as several, if long stretches of it are selected whole: these aren't copied then.
    fn block(&self, columns: &CoverColumns<'_>, block: &RowBlock) -> Result<Vec<Frame>> {
        let rows = BlockRows { columns, block };
        let mask = self.filter_mask(&rows)?;
        let late = are_late(columns.cover()).then_some(&rows);
        let stretches = match &mask {
            Some(mask) if are_mapped(columns.cover()) => stretches(mask.words(), mask.mask().len()),
            _ => None,
        };
        let (Some(stretches), Some(mask)) = (stretches, &mask) else {
            return Ok(vec![self.passing_rows(&rows, late, mask)?]);
        };
        let frames = stretches.into_iter().map(|(stretch, is_whole)| {
            let rows = block.rows.start + stretch.start..block.rows.start + stretch.end;
            let part = RowBlock { rows, spans: Vec::new() };
            let mask =
                if is_whole { None } else { Some(FilterMask::new(mask.mask().slice(stretch.start, stretch.len()))) };
            let rows = BlockRows { columns, block: &part };
            self.passing_rows(&rows, late.map(|_| &rows), mask)
        });
        frames.collect()
    }

    /// The mask of the rows that pass the filter; `None` if all do.
    fn filter_mask(&self, all: &dyn InputColumns) -> Result<Option<FilterMask>> {
        self.stop.check()?;
        let mask = match self.predicate {
            None => None,
            Some(predicate) => Some(FilterMask::new(condition(predicate, all, self.constants)?)),
        };
        self.stop.add_rows(all.rows());
        Ok(mask.filter(|mask| mask.rows() < all.rows()))
    }

    /// A block's column, to be gathered late. `None` if a filter has decoded it, or the store reads it by batches.
    fn late_part(&self, rows: &BlockRows<'_>, column: usize) -> Result<Option<LatePart>> {
        let cover = rows.columns.cover();
        if are_mapped(cover) {
            return Ok(Some(LatePart::Mapped(rows.column(column)?.into_array(rows.rows())?)));
        }
        if rows.columns.has_read(column) || !cover.segment.reads_by_range(&self.spec, column)? {
            return Ok(None);
        }
        let data_type = self.spec.columns[column].column_type.arrow();
        let (segment, spec, rows) = (Arc::clone(&cover.segment), Arc::clone(&self.spec), rows.block.rows.clone());
        Ok(Some(LatePart::Stored { segment, spec, column, rows, data_type }))
    }

    /// The rows that pass. Plain columns of a block are gathered late.
    fn passing_rows(
        &self,
        all: &dyn InputColumns,
        of_block: Option<&BlockRows<'_>>,
        mask: Option<FilterMask>,
    ) -> Result<Frame> {
        let mask = mask.map(Arc::new);
        let rows = mask.as_ref().map_or(all.rows(), |mask| mask.rows());
        if rows == 0 && mask.is_some() {
            return Ok(Frame::new(Vec::new(), 0));
        }
        let choice = match &mask {
            None => RowChoice::all(rows),
            Some(mask) => RowChoice::of_mask(Arc::clone(mask)),
        };
        let late = of_block.zip(choice.map(Arc::new));
        let late_column = |output: &Expr| match (output, &late) {
            (Expr::Column(column), Some((rows, choice))) if *column < date_position(self.snapshot) => {
                Ok(self.late_part(rows, *column)?.map(|part| LateColumn::of_part(part, choice)))
            }
            _ => Ok(None),
        };
        let late = self.outputs.iter().map(late_column).collect::<Result<Vec<_>>>()?;
        let filtered = match &mask {
            Some(mask) => {
                let computed =
                    self.outputs.iter().zip(&late).filter(|(_, late)| late.is_none()).map(|(output, _)| output);
                Some(self.filter_columns(all, computed, mask)?)
            }
            None => None,
        };
        let looked_at = filtered.as_ref().map_or(all, |filtered| filtered as &dyn InputColumns);
        let columns = self.outputs.iter().zip(late).map(|(output, late)| match late {
            Some(late) => Ok(FrameColumn::Late(late)),
            None => output.evaluate(looked_at, self.constants)?.into_array(rows).map(FrameColumn::Array),
        });
        let frame = Frame::of(columns.collect::<Result<Vec<_>>>()?, rows);
        self.reads.add_computed(&frame, self.memory_bytes)?;
        Ok(frame)
    }

    /// The columns that some outputs read, of the rows that a mask keeps.
    fn filter_columns<'o>(
        &self,
        all: &dyn InputColumns,
        outputs: impl Iterator<Item = &'o Expr>,
        mask: &FilterMask,
    ) -> Result<EvaluatedColumns> {
        let mut columns: Vec<Option<Value>> = vec![None; self.snapshot.spec().columns.len() + 1];
        for output in outputs {
            let mut failed = None;
            output.visit_columns(&mut |position| {
                if columns[position].is_none() {
                    match all.filter_column(position, mask) {
                        Ok(value) => columns[position] = Some(value),
                        Err(error) => failed = Some(error),
                    }
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(EvaluatedColumns { columns, rows: mask.rows() })
    }
}

/// Whether plain columns of a cover may be gathered late. Remote columns are fetched at once instead.
fn are_late(cover: &Cover) -> bool {
    cover.segment.entry().tier != Tier::Object
}

/// Whether the columns of a cover are slices of a mapped file, or of captured rows that are held anyway.
fn are_mapped(cover: &Cover) -> bool {
    // The tier is known without opening the file.
    cover.segment.entry().tier.is_mapped()
}

/// Splits covers into parts of about a block each; each thread takes the next part.
fn blocks_of(covers: &[Cover]) -> Vec<Vec<Cover>> {
    let blocks =
        covers.iter().flat_map(|cover| cover.blocks(BLOCK_ROWS_MAX).into_iter().map(|block| cover.part(&block)));
    let mut parts: Vec<Vec<Cover>> = Vec::new();
    let mut room = 0;
    for block in blocks {
        let rows = block.selected_rows();
        match parts.last_mut().filter(|_| rows <= room) {
            Some(part) => part.push(block),
            None => {
                parts.push(vec![block]);
                room = BLOCK_ROWS_MAX;
            }
        }
        room = room.saturating_sub(rows);
    }
    parts
}

/// All rows of a block.
struct BlockRows<'a> {
    columns: &'a CoverColumns<'a>,
    block: &'a RowBlock,
}

impl InputColumns for BlockRows<'_> {
    fn rows(&self) -> usize {
        self.block.rows.len()
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position == self.columns.date_position() {
            return Ok(Value::Scalar(self.columns.date()));
        }
        let start = self.block.rows.start - self.columns.cover().rows.start;
        Ok(Value::Array(self.columns.column(position)?.slice(start, self.block.rows.len())))
    }

    fn may_be_coded(&self, position: usize) -> bool {
        self.columns.may_be_coded(position)
    }

    fn text_results(&self) -> Option<&TextResults> {
        Some(self.columns.text_results())
    }
}

/// Whether columns are slices of mapped files, and none would be copied.
fn is_slice(frame: &Frame) -> bool {
    let mut columns = frame.columns().iter();
    columns.clone().any(|column| matches!(column, FrameColumn::Late(_))) && !columns.any(FrameColumn::is_to_be_copied)
}

/// Splits the rows of a mask into stretches: those kept whole, of at least [`WHOLE_WORDS_MIN`] words, and those between them. `None` if there is no
/// whole one.
fn stretches(words: &[u64], rows: usize) -> Option<Vec<(Range<usize>, bool)>> {
    let mut stretches: Vec<(Range<usize>, bool)> = Vec::new();
    let mut done = 0;
    let mut at = 0;
    for same in words.chunk_by(|one, other| (*one == u64::MAX) == (*other == u64::MAX)) {
        let (begin, end) = (64 * at, (64 * (at + same.len())).min(rows));
        at += same.len();
        if same[0] == u64::MAX && same.len() >= WHOLE_WORDS_MIN {
            stretches.extend((done < begin).then_some((done..begin, false)));
            stretches.push((begin..end, true));
            done = end;
        }
    }
    if stretches.is_empty() {
        return None;
    }
    stretches.extend((done < rows).then_some((done..rows, false)));
    Some(stretches)
}

/// Concatenates small neighbouring frames.
fn put_together(frames: Vec<Frame>, types: &[DataType], threads: usize) -> Result<Vec<Frame>> {
    let mut whole = Vec::new();
    let mut open: Vec<Frame> = Vec::new();
    let mut rows = 0;
    for frame in frames.into_iter().filter(|frame| frame.len() > 0) {
        let is_large = frame.len() >= BATCH_ROWS_MIN;
        if is_large && !open.is_empty() && is_slice(&frame) {
            // A large frame isn't copied together with its small neighbours.
            whole.push(Frame::concat_by(std::mem::take(&mut open), types, threads)?);
            rows = 0;
        }
        if open.is_empty() && is_large {
            whole.push(frame);
            continue;
        }
        rows += frame.len();
        open.push(frame);
        if rows >= BLOCK_ROWS_MAX {
            whole.push(Frame::concat_by(std::mem::take(&mut open), types, threads)?);
            rows = 0;
        }
    }
    if !open.is_empty() {
        whole.push(Frame::concat_by(open, types, threads)?);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_stretches_of_kept_rows_are_told_from_the_others() {
        let (whole, some) = (vec![u64::MAX; WHOLE_WORDS_MIN], vec![u64::MAX; WHOLE_WORDS_MIN - 1]);
        let rows = |words: &[u64]| 64 * words.len();
        assert_eq!(stretches(&some, rows(&some)), None);
        assert_eq!(stretches(&[], 0), None);
        let words = [some.clone(), vec![7], whole.clone(), vec![0, 1], whole.clone()].concat();
        let (begin, end) = (rows(&some) + 64, rows(&some) + 64 + rows(&whole));
        let expected =
            vec![(0..begin, false), (begin..end, true), (end..end + 128, false), (end + 128..rows(&words), true)];
        assert_eq!(stretches(&words, rows(&words)), Some(expected));
        // The last word has fewer rows.
        let words = [whole.clone(), vec![3]].concat();
        let end = rows(&whole);
        assert_eq!(stretches(&words, end + 2), Some(vec![(0..end, true), (end..end + 2, false)]));
    }
}
