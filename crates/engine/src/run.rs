//! Runs a tick plan over snapshots of its tables.

mod first;

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::SchemaRef;

use crate::aggregate::{Aggregate, Key, TableAggregate, needs_symbols, over_frames as aggregated, over_table};
use crate::ends::{ends, ends_of_symbols};
use crate::error::{Error, Result};
use crate::execution_context::ExecutionContext;
use crate::expr::Expr;
use crate::files::file_frames;
use crate::frame::{Frame, SortKey};
use crate::frame_steps::{check_whole, in_blocks, in_parts, over_frames, whole};
use crate::join::{join, join_by_keys, window_join};
use crate::late::FrameColumn;
use crate::parallel;
use crate::plan::Plan;
use crate::rows::rows;
use crate::scan::{Scan, covers, find_covers, table};
use crate::table::{TableEnd, find_end};
use crate::unnest::unnest;
use crate::window::windows;
use first::first_frames;

/// Values that can be copied in about the time that examining a row takes.
const VALUES_OF_ROW: usize = 4;

/// Runs a plan.
///
/// # Errors
/// [`Error::Store`] for damaged bytes. After any other error the statement may be run in another way.
pub fn run(plan: &Plan, context: &ExecutionContext<'_>, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let frames = frames(plan, context)?;
    take_out(&frames, context)?;
    let mut batches = Vec::with_capacity(frames.len());
    for frame in frames.into_iter().filter(|frame| frame.len() > 0) {
        let options = RecordBatchOptions::new().with_row_count(Some(frame.len()));
        batches.push(RecordBatch::try_new_with_options(Arc::clone(schema), frame.into_columns()?, &options)?);
    }
    Ok(batches)
}

/// Runs a plan whose rows go into one batch, of which there may be so many.
///
/// # Errors
/// As [`run`]; [`Error::Unsupported`] for more rows, before they are copied.
pub fn run_in_one(
    plan: &Plan,
    context: &ExecutionContext<'_>,
    schema: &SchemaRef,
    rows_max: usize,
) -> Result<RecordBatch> {
    let batches = run(plan, context, schema)?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    if rows > rows_max {
        return Err(Error::Unsupported("a join whose sides are both large".to_owned()));
    }
    let threads = parallel::threads_for(rows, 0, context.threads);
    let columns = parallel::each(schema.fields().len(), threads, |column| {
        context.stop.check()?;
        let of_batches: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(column).as_ref()).collect();
        Ok(match of_batches.is_empty() {
            true => new_empty_array(schema.field(column).data_type()),
            false => concat(&of_batches)?,
        })
    })?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Gathers the columns that nothing has read yet, by several threads where that pays.
fn take_out(frames: &[Frame], context: &ExecutionContext<'_>) -> Result<()> {
    let columns = frames.iter().flat_map(|frame| frame.columns().iter().map(|column| (frame.len(), column)));
    let columns: Vec<(usize, &FrameColumn)> = columns.filter(|(_, column)| column.is_to_be_copied()).collect();
    let bytes = |(rows, column): &(usize, &FrameColumn)| {
        rows.saturating_mul(column.data_type().primitive_width().unwrap_or(16))
    };
    let (needed, limit) = (columns.iter().map(bytes).fold(0, usize::saturating_add), context.memory_bytes);
    if needed > limit {
        return Err(Error::Memory { needed, limit });
    }
    let values = columns.iter().map(|(rows, column)| column.values_read(*rows)).sum::<usize>();
    let threads = parallel::threads_for(values / VALUES_OF_ROW, 0, context.threads);
    let stop = context.stop;
    parallel::each(columns.len(), threads, |number| {
        stop.check()?;
        columns[number].1.values().map(|_| ())
    })?;
    Ok(())
}

/// The rows of a plan, as a list of frames.
pub(crate) fn frames(plan: &Plan, context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    let start = Instant::now();
    let output = output_frames(plan, context)?;
    context.reads.add_step(plan.step_id(), start, &output);
    Ok(output)
}

/// The rows of a plan in one frame.
fn frame(plan: &Plan, context: &ExecutionContext<'_>) -> Result<Frame> {
    let start = Instant::now();
    let output = output_frame(plan, context)?;
    context.reads.add_step(plan.step_id(), start, std::slice::from_ref(&output));
    Ok(output)
}

fn output_frames(plan: &Plan, context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    context.stop.check()?;
    match plan {
        Plan::Rows { scan, outputs, types, fetch } => {
            rows(scan, &covers(scan, false, context)?, outputs, types, *fetch, context)
        }
        Plan::Union { inputs } => {
            let mut all = Vec::new();
            for input in inputs {
                all.extend(frames(input, context)?);
            }
            Ok(all)
        }
        Plan::Files(scan) => file_frames(scan, None, usize::MAX, context),
        Plan::Values { columns, .. } => {
            let columns: Vec<ArrayRef> = columns.iter().map(|column| Arc::clone(&context.constants[*column])).collect();
            let rows = columns.first().map_or(0, |column| column.len());
            Ok(vec![Frame::new(columns, rows)])
        }
        Plan::Filter { input, predicate } if let Plan::Files(scan) = &**input => {
            let start = Instant::now();
            let rows = file_frames(scan, Some(predicate), usize::MAX, context)?;
            context.reads.add_step(input.step_id(), start, &rows);
            over_input(plan, rows, context)
        }
        Plan::Cross { input, columns } => cross(&frames(input, context)?, columns, context),
        Plan::Asof { input, .. }
        | Plan::WindowJoin { input, .. }
        | Plan::Filter { input, .. }
        | Plan::Project { input, .. } => over_input(plan, frames(input, context)?, context),
        Plan::Join { input, join } => join_by_keys(frames(input, context)?, join, context),
        Plan::Window { input, calls } => {
            let input = match ends_of_symbols(input, calls, context)? {
                Some(ends) => ends,
                None => frames(input, context)?,
            };
            windows(input, calls, context)
        }
        Plan::Unnest { input, columns } => unnest(frames(input, context)?, columns, context),
        other => Ok(vec![output_frame(other, context)?]),
    }
}

/// Applies a step to the rows of its input. The first input rows give the first output rows.
pub(crate) fn over_input(plan: &Plan, input: Vec<Frame>, context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    match plan {
        Plan::Asof { asof, .. } => join(input, asof, context),
        Plan::WindowJoin { join, .. } => window_join(&input, join, context),
        Plan::Filter { predicate, .. } => {
            over_frames(in_parts(&input, context), context, |frame| frame.filter(predicate, context.constants))
        }
        Plan::Project { outputs, .. } => {
            let project = |frame: Frame| frame.project(outputs, context.constants);
            match outputs.iter().all(|output| matches!(output, Expr::Column(_))) {
                true => input.into_iter().map(project).collect(),
                false => over_frames(in_blocks(&input), context, |frame| {
                    let output = project(frame)?;
                    context.reads.add_computed(&output, context.memory_bytes)?;
                    Ok(output)
                }),
            }
        }
        _ => Err(Error::Unsupported("a step that isn't one over its input's rows alone".to_owned())),
    }
}

fn output_frame(plan: &Plan, context: &ExecutionContext<'_>) -> Result<Frame> {
    match plan {
        Plan::Rows { .. }
        | Plan::Files(_)
        | Plan::Values { .. }
        | Plan::Cross { .. }
        | Plan::Asof { .. }
        | Plan::WindowJoin { .. }
        | Plan::Join { .. }
        | Plan::Window { .. }
        | Plan::Union { .. }
        | Plan::Unnest { .. }
        | Plan::Filter { .. }
        | Plan::Project { .. } => whole(output_frames(plan, context)?, context),
        Plan::AggregateTable { scan, keys, key_types, aggregates } => {
            let covers = match picked_end(keys, aggregates, scan) {
                Some((end, by_time)) => {
                    find_covers(scan, context, |snapshot, selection| find_end(snapshot, selection, end, by_time))?
                }
                None => {
                    let by_symbol = needs_symbols(table(scan, context)?, keys, aggregates, context.constants);
                    covers(scan, by_symbol, context)?
                }
            };
            let aggregation = TableAggregate {
                snapshot: table(scan, context)?,
                predicate: scan.predicate.as_ref(),
                keys,
                key_types,
                aggregates,
                constants: context.constants,
                threads: context.threads,
                memory_bytes: context.memory_bytes,
                stop: context.stop,
                reads: &context.reads,
                by_rows: false,
            };
            over_table(&aggregation, covers).map(of_columns)
        }
        Plan::Aggregate { input, keys, key_types, aggregates } => {
            aggregated(frames(input, context)?, keys, key_types, aggregates, context).map(of_columns)
        }
        Plan::Sort { input, keys, fetch: Some(fetch) } => {
            let candidates = match ends(input, keys, *fetch, context)? {
                Some(ends) => ends,
                None => frames(input, context)?,
            };
            first_of(candidates, keys, *fetch, context)
        }
        Plan::Sort { input, keys, fetch: None } => {
            let frames = frames(input, context)?;
            check_whole(&frames, context, true)?;
            Frame::sorted(frames, keys, context.constants, context.threads, context.stop)
        }
        Plan::Limit { input, skip, fetch } => {
            let input = match fetch {
                Some(fetch) => whole(first_frames(input, skip.saturating_add(*fetch), context)?, context)?,
                None => frame(input, context)?,
            };
            Ok(input.slice(*skip, fetch.unwrap_or(input.len())))
        }
    }
}

/// The first rows in an order: the first ones of each part, and then the first of these.
fn first_of(frames: Vec<Frame>, keys: &[SortKey], fetch: usize, context: &ExecutionContext<'_>) -> Result<Frame> {
    let constants = context.constants;
    let parts = over_frames(in_parts(&frames, context), context, |frame| frame.sort(keys, Some(fetch), constants))?;
    whole(parts, context)?.sort(keys, Some(fetch), constants)
}

/// Each row of some frames with each row of a list. The columns of the frames are shared, not copied.
fn cross(input: &[Frame], list: &[ArrayRef], context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    let rows = list.first().map_or(0, |column| column.len());
    let longest = input.iter().map(Frame::len).max().unwrap_or(0);
    // The answer repeats each column of the list once for each row of the longest frame, and each frame once for each row of the list.
    let of_list = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX);
    let list_bytes = list.iter().map(of_list).fold(0, usize::saturating_add).saturating_mul(longest);
    let width = input.first().map_or(0, |frame| frame.columns().len()) + list.len();
    let frame_bytes = input.len().saturating_mul(rows).saturating_mul((width + 4) * 4 * size_of::<usize>());
    let (needed, limit) = (list_bytes.saturating_add(frame_bytes), context.memory_bytes / 2);
    if needed > limit {
        return Err(Error::Memory { needed, limit });
    }
    let mut values: Vec<Vec<ArrayRef>> = Vec::with_capacity(rows);
    for row in 0..rows {
        let repeated = UInt32Array::from(vec![u32::try_from(row).unwrap_or(u32::MAX); longest]);
        values.push(list.iter().map(|column| take(column, &repeated, None)).collect::<std::result::Result<_, _>>()?);
    }
    // If no frame has rows, one is kept for the types of its columns.
    let mut with_rows: Vec<&Frame> = input.iter().filter(|frame| frame.len() > 0).collect();
    if with_rows.is_empty() {
        with_rows.extend(input.first());
        values.truncate(1);
    }
    let mut crossed = Vec::with_capacity(with_rows.len().saturating_mul(rows));
    for frame in with_rows {
        context.stop.check()?;
        for values in &values {
            let mut with_row = frame.clone();
            values.iter().for_each(|column| with_row.push(column.slice(0, frame.len())));
            crossed.push(with_row);
        }
    }
    Ok(crossed)
}

fn of_columns(columns: Vec<ArrayRef>) -> Frame {
    let rows = columns.first().map_or(0, |column| column.len());
    Frame::new(columns, rows)
}

/// The end of the rows (first or last) that answers all aggregates by itself, and whether the order is that of time.
fn picked_end(keys: &[Key], aggregates: &[Aggregate], scan: &Scan) -> Option<(TableEnd, bool)> {
    let of_all = |aggregate: &Aggregate| aggregate.filter.is_none() && aggregate.pivot.is_none();
    if !keys.is_empty() || scan.predicate.is_some() || !aggregates.iter().all(of_all) {
        return None;
    }
    let mut picks = aggregates.iter().map(|aggregate| aggregate.function.picks());
    let (last, by_time) = picks.next()??;
    let end = if last { TableEnd::Last } else { TableEnd::First };
    picks.all(|pick| pick == Some((last, by_time))).then_some((end, by_time))
}
