//! Steps over several frames: in blocks or in parts for threads, and concatenated within the memory limit.

use arrow::datatypes::DataType;

use crate::error::{Error, Result};
use crate::execution_context::{ExecutionContext, check_memory};
use crate::frame::{BLOCK_ROWS_MAX, Frame, in_pieces};
use crate::late::FrameColumn;
use crate::parallel;

/// Concatenates frames.
pub(crate) fn whole(frames: Vec<Frame>, context: &ExecutionContext<'_>) -> Result<Frame> {
    let types = check_whole(&frames, context, false)?;
    Frame::concat_by(frames, &types, context.threads)
}

/// The columns' types. Refuses frames whose concatenation would take too much memory: of all columns, or only of those that aren't gathered late.
pub(crate) fn check_whole(frames: &[Frame], context: &ExecutionContext<'_>, copies_all: bool) -> Result<Vec<DataType>> {
    let types: Vec<DataType> = match frames.first() {
        Some(frame) => frame.types().cloned().collect(),
        None => return Err(Error::Unsupported("rows of which there are none".to_owned())),
    };
    if frames.len() > 1 {
        let rows = frames.iter().map(Frame::len).sum();
        let is_late = |place: usize| frames.iter().all(|frame| matches!(frame.columns()[place], FrameColumn::Late(_)));
        // A column that is gathered late costs a row number for each row.
        let copied = types.iter().enumerate().filter(|(place, _)| copies_all || !is_late(*place)).map(|(_, of)| of);
        check_memory(rows, copied.chain([&DataType::UInt32]), context.memory_bytes / 2)?;
        // Texts and lists that are there already have a known length.
        let bytes = frames.iter().flat_map(Frame::columns).filter_map(FrameColumn::bytes_of_any_length);
        let (needed, limit) = (bytes.fold(0, usize::saturating_add), context.memory_bytes / 2);
        if needed > limit {
            return Err(Error::Memory { needed, limit });
        }
    }
    Ok(types)
}

/// Slices frames into blocks.
pub(crate) fn in_blocks(frames: &[Frame]) -> Vec<Frame> {
    in_pieces(frames, BLOCK_ROWS_MAX)
}

/// Applies a step to each frame, by several threads if that pays.
pub(crate) fn over_frames(
    frames: Vec<Frame>,
    context: &ExecutionContext<'_>,
    step: impl Fn(Frame) -> Result<Frame> + Send + Sync,
) -> Result<Vec<Frame>> {
    let rows: usize = frames.iter().map(Frame::len).sum();
    let threads = parallel::threads_for(rows, 0, context.threads);
    let stop = context.stop;
    parallel::each(frames.len(), threads, |number| stop.check().and_then(|()| step(frames[number].clone())))
}

/// The rows of some frames in parts, of which each thread has one if they are many.
pub(crate) fn in_parts(frames: &[Frame], context: &ExecutionContext<'_>) -> Vec<Frame> {
    let rows: usize = frames.iter().map(Frame::len).sum();
    in_pieces(frames, rows.div_ceil(parallel::threads_for(rows, 0, context.threads)))
}
