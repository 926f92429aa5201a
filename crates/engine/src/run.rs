//! Runs a tick plan over snapshots of its tables.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, RecordBatch, RecordBatchOptions};
use arrow::compute::filter;
use arrow::datatypes::{DataType, SchemaRef};
use splay_store::{Segment, SelectionStats, TableSnapshot};

use crate::aggregate::{Aggregate, Key, TableAggregate, needs_symbols, over_frame, over_table};
use crate::codes::condition;
use crate::error::{Error, Result};
use crate::expr::{Chosen, Columns, Expr, Value};
use crate::frame::{Frame, SortKey};
use crate::join::join;
use crate::parallel;
use crate::plan::{Plan, Scan};
use crate::stop::Stop;
use crate::table::{
    Ahead, Block, Cover, CoverColumns, End, Part, Wanted, count, date_position, find, find_by_time, find_end, narrow,
};
use crate::window::{first_rows, over_partitions, wants_few, windows, windows_of_partitions};

/// Rows that are evaluated at once.
const BLOCK_ROWS_MAX: usize = 65_536;

/// Batches of fewer rows are put together.
const BATCH_ROWS_MIN: usize = 8_192;

/// Spans of a segment from which on, and rows of each on average up to which, rows are copied together.
const PIECES_MIN: usize = 4;
const PIECE_ROWS: usize = 1_024;

/// Most rows at an end of time that are found by the ends of each symbol's.
const ENDS_ROWS_MAX: usize = 4096;

/// Rows from which on a second thread pays.
const PARALLEL_ROWS: usize = 200_000;

/// What a plan runs over and within.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The tables, as the plan numbers them.
    pub tables: &'a [TableSnapshot],
    /// The constants, as the plan numbers them, each an array of one value.
    pub constants: &'a [ArrayRef],
    /// Threads that may work at once.
    pub threads: usize,
    /// Bytes that rows in memory may take.
    pub memory_bytes: usize,
    /// Whether to go on.
    pub stop: Stop<'a>,
    /// What is read, one entry for each scan.
    pub scanned: RefCell<Vec<SelectionStats>>,
}

/// Runs a plan.
///
/// # Errors
/// [`Error::Store`] for damaged bytes. After any other error the statement may be run in another way.
pub fn run(plan: &Plan, setting: &Setting<'_>, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let frames = frames(plan, setting)?;
    let mut batches = Vec::with_capacity(frames.len());
    for frame in frames.into_iter().filter(|frame| frame.len() > 0) {
        let options = RecordBatchOptions::new().with_row_count(Some(frame.len()));
        batches.push(RecordBatch::try_new_with_options(Arc::clone(schema), frame.into_columns(), &options)?);
    }
    Ok(batches)
}

/// The rows of a plan, one frame behind the other.
fn frames(plan: &Plan, setting: &Setting<'_>) -> Result<Vec<Frame>> {
    setting.stop.check()?;
    let each = |input: &Plan, step: &dyn Fn(Frame) -> Result<Frame>| -> Result<Vec<Frame>> {
        frames(input, setting)?.into_iter().map(step).collect()
    };
    match plan {
        Plan::Rows { scan, outputs, types, fetch } => {
            rows(scan, &covers(scan, false, setting)?, outputs, types, *fetch, setting)
        }
        Plan::Union { inputs } => {
            let mut all = Vec::new();
            for input in inputs {
                all.extend(frames(input, setting)?);
            }
            Ok(all)
        }
        Plan::Asof { input, asof } => join(frames(input, setting)?, asof, setting),
        Plan::Window { input, calls } if over_partitions(calls) => {
            windows_of_partitions(frames(input, setting)?, calls, setting)
        }
        Plan::Filter { input, predicate } => each(input, &|frame| frame.filter(predicate, setting.constants)),
        Plan::Project { input, outputs } => each(input, &|frame| frame.project(outputs, setting.constants)),
        other => Ok(vec![frame(other, setting)?]),
    }
}

/// The rows of a plan in one frame.
fn frame(plan: &Plan, setting: &Setting<'_>) -> Result<Frame> {
    match plan {
        Plan::Rows { types, .. } => {
            let frames = frames(plan, setting)?;
            let rows: usize = frames.iter().map(Frame::len).sum();
            check_memory(rows, types.iter(), setting.memory_bytes / 2)?;
            Frame::concat(frames, types)
        }
        Plan::Asof { .. } | Plan::Union { .. } | Plan::Filter { .. } | Plan::Project { .. } => {
            whole(frames(plan, setting)?, setting)
        }
        Plan::AggregateTable { scan, keys, key_types, aggregates } => {
            let covers = match picked_end(keys, aggregates, scan) {
                Some((end, by_time)) => {
                    found(scan, setting, |snapshot, wanted| find_end(snapshot, wanted, end, by_time))?
                }
                None => {
                    let by_symbol = needs_symbols(table(scan, setting)?, keys, aggregates, setting.constants);
                    covers(scan, by_symbol, setting)?
                }
            };
            let asked = TableAggregate {
                snapshot: table(scan, setting)?,
                predicate: scan.predicate.as_ref(),
                keys,
                key_types,
                aggregates,
                constants: setting.constants,
                threads: setting.threads,
                memory_bytes: setting.memory_bytes,
                stop: setting.stop,
            };
            over_table(&asked, covers).map(of_columns)
        }
        Plan::Aggregate { input, keys, key_types, aggregates } => {
            let input = frame(input, setting)?;
            over_frame(&input, keys, key_types, aggregates, setting.constants).map(of_columns)
        }
        Plan::Window { calls, .. } if over_partitions(calls) => whole(frames(plan, setting)?, setting),
        Plan::Window { input, calls } if wants_few(calls, setting.constants) => {
            let constants = setting.constants;
            let parts = over_frames(frames(input, setting)?, setting, |frame| first_rows(frame, calls, constants))?;
            windows(whole(parts, setting)?, calls, setting)
        }
        Plan::Window { input, calls } => windows(frame(input, setting)?, calls, setting),
        Plan::Sort { input, keys, fetch: Some(fetch) } => {
            let candidates = match ends(input, keys, *fetch, setting)? {
                Some(ends) => ends,
                None => frames(input, setting)?,
            };
            first_of(candidates, keys, *fetch, setting)
        }
        Plan::Sort { input, keys, fetch: None } => frame(input, setting)?.sort(keys, None, setting.constants),
        Plan::Limit { input, skip, fetch } => {
            let input = frame(input, setting)?;
            Ok(input.slice(*skip, fetch.unwrap_or(input.len())))
        }
    }
}

/// Frames one behind the other.
fn whole(frames: Vec<Frame>, setting: &Setting<'_>) -> Result<Frame> {
    let types: Vec<DataType> = match frames.first() {
        Some(frame) => frame.columns().iter().map(|column| column.data_type().clone()).collect(),
        None => return Err(Error::Unsupported("rows of which there are none".to_owned())),
    };
    if frames.len() > 1 {
        check_memory(frames.iter().map(Frame::len).sum(), types.iter(), setting.memory_bytes / 2)?;
    }
    Frame::concat(frames, &types)
}

/// A step on each frame, by threads where that pays.
fn over_frames(
    frames: Vec<Frame>,
    setting: &Setting<'_>,
    step: impl Fn(Frame) -> Result<Frame> + Send + Sync,
) -> Result<Vec<Frame>> {
    let rows: usize = frames.iter().map(Frame::len).sum();
    let threads = if rows >= PARALLEL_ROWS { setting.threads } else { 1 };
    let stop = setting.stop;
    parallel::each(frames.len(), threads, |number| stop.check().and_then(|()| step(frames[number].clone())))
}

/// The first rows in an order, each frame's first and then those of all.
fn first_of(frames: Vec<Frame>, keys: &[SortKey], fetch: usize, setting: &Setting<'_>) -> Result<Frame> {
    let constants = setting.constants;
    let parts = over_frames(frames, setting, |frame| frame.sort(keys, Some(fetch), constants))?;
    whole(parts, setting)?.sort(keys, Some(fetch), constants)
}

fn of_columns(columns: Vec<ArrayRef>) -> Frame {
    let rows = columns.first().map_or(0, |column| column.len());
    Frame::new(columns, rows)
}

fn table<'a>(scan: &Scan, setting: &Setting<'a>) -> Result<&'a TableSnapshot> {
    setting.tables.get(scan.table).ok_or_else(|| Error::Unsupported("a table that isn't there".to_owned()))
}

/// The end of the rows that is all that is asked for, and whether it goes by time.
fn picked_end(keys: &[Key], aggregates: &[Aggregate], scan: &Scan) -> Option<(End, bool)> {
    if !keys.is_empty() || scan.predicate.is_some() || aggregates.iter().any(|aggregate| aggregate.filter.is_some()) {
        return None;
    }
    let mut picks = aggregates.iter().map(|aggregate| aggregate.function.picks());
    let (last, by_time) = picks.next()??;
    let end = if last { End::Last } else { End::First };
    picks.all(|pick| pick == Some((last, by_time))).then_some((end, by_time))
}

/// The wanted rows of a table, counted.
fn covers(scan: &Scan, by_symbol: bool, setting: &Setting<'_>) -> Result<Vec<Cover>> {
    found(scan, setting, |snapshot, wanted| find(snapshot, wanted, by_symbol))
}

fn found(
    scan: &Scan,
    setting: &Setting<'_>,
    find: impl FnOnce(&TableSnapshot, &Wanted) -> Result<Vec<Cover>>,
) -> Result<Vec<Cover>> {
    let snapshot = table(scan, setting)?;
    let covers = match scan.wanted(setting.constants)? {
        Some(wanted) => find(snapshot, &wanted)?,
        None => Vec::new(),
    };
    let covers = match &scan.predicate {
        Some(predicate) => narrow(snapshot, covers, predicate, setting.constants)?,
        None => covers,
    };
    setting.scanned.borrow_mut().push(count(snapshot, &covers)?);
    Ok(covers)
}

/// The rows among which those are that come first by time, or last, where the order of the table tells them; `None` where it
/// doesn't.
fn ends(input: &Plan, keys: &[SortKey], count: usize, setting: &Setting<'_>) -> Result<Option<Vec<Frame>>> {
    let Plan::Rows { scan, outputs, types, fetch: None } = input else { return Ok(None) };
    let Some(SortKey { expr: Expr::Column(key), descending, .. }) = keys.first() else { return Ok(None) };
    let time = table(scan, setting)?.spec().time_position();
    let by_time = matches!(outputs.get(*key), Some(Expr::Column(column)) if *column == time);
    if !by_time || scan.predicate.is_some() || !(1..=ENDS_ROWS_MAX).contains(&count) {
        return Ok(None);
    }
    let covers = found(scan, setting, |snapshot, wanted| find_by_time(snapshot, wanted, *descending, count))?;
    rows(scan, &covers, outputs, types, None, setting).map(Some)
}

/// The rows of covers of a table, in its order; at least one frame, of which what comes next learns the types.
fn rows(
    scan: &Scan,
    covers: &[Cover],
    outputs: &[Expr],
    types: &[DataType],
    fetch: Option<usize>,
    setting: &Setting<'_>,
) -> Result<Vec<Frame>> {
    let snapshot = table(scan, setting)?;
    let (predicate, constants, stop) = (scan.predicate.as_ref(), setting.constants, setting.stop);
    let reader = RowReader { snapshot, predicate, outputs, constants, stop };
    let total: usize = covers.iter().map(Cover::wanted).sum();
    if fetch.is_none() {
        reader.check_memory(total, types, setting.memory_bytes)?;
    }
    let computes = scan.predicate.is_some() || outputs.iter().any(|output| !matches!(output, Expr::Column(_)));
    let frames = if fetch.is_none() && computes && total >= PARALLEL_ROWS && setting.threads > 1 {
        reader.read_parallel(covers, setting.threads)?
    } else {
        reader.read(covers, fetch)?
    };
    let frames = put_together(frames, types)?;
    Ok(if frames.is_empty() { vec![Frame::concat(frames, types)?] } else { frames })
}

/// Reads the wanted rows of covers.
struct RowReader<'a> {
    snapshot: &'a TableSnapshot,
    predicate: Option<&'a Expr>,
    outputs: &'a [Expr],
    constants: &'a [ArrayRef],
    stop: Stop<'a>,
}

impl RowReader<'_> {
    /// Refuses rows that would take too much memory. Plain columns are slices of the mapped file and take none.
    fn check_memory(&self, rows: usize, types: &[DataType], limit: usize) -> Result<()> {
        let plain = |output: &Expr| self.predicate.is_none() && matches!(output, Expr::Column(_));
        let made = self.outputs.iter().zip(types).filter(|(output, _)| !plain(output));
        check_memory(rows, made.map(|(_, data_type)| data_type), limit)
    }

    /// The columns that are read.
    fn columns(&self) -> Vec<(usize, Part)> {
        let mut columns: Vec<(usize, Part)> = Vec::new();
        for expr in self.outputs.iter().chain(self.predicate) {
            expr.visit_columns(&mut |column| {
                if column < date_position(self.snapshot) && !columns.contains(&(column, Part::Whole)) {
                    columns.push((column, Part::Whole));
                }
            });
        }
        columns
    }

    fn read(&self, covers: &[Cover], fetch: Option<usize>) -> Result<Vec<Frame>> {
        if let Some(fetch) = fetch {
            return self.read_first(covers, fetch);
        }
        let mut frames = Vec::new();
        let mut ahead = Ahead::new(self.snapshot, covers, self.columns());
        let mut rest = covers.iter().enumerate().peekable();
        while let Some((number, cover)) = rest.next() {
            ahead.before(number)?;
            if is_short(cover) {
                // Short spans of one segment are copied behind each other, which costs less than a slice of each column for each.
                let mut pieces = Pieces::new(self.snapshot, cover);
                while let Some((number, next)) = rest.next_if(|(_, next)| is_short(next) && pieces.has_room(next)) {
                    ahead.before(number)?;
                    pieces.add(next);
                }
                if pieces.ranges.len() >= PIECES_MIN {
                    frames.push(self.chosen(&pieces)?);
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
            frames.push(self.block(&columns, &block)?);
        }
        Ok(())
    }

    /// The first of the wanted rows. No more of a column is read than the blocks they are found in.
    fn read_first(&self, covers: &[Cover], fetch: usize) -> Result<Vec<Frame>> {
        let mut frames = Vec::new();
        let mut left = fetch;
        for cover in covers {
            let (cover, block_rows) = match self.predicate {
                None => (cover.first(left), BLOCK_ROWS_MAX),
                // The filter may pass few, so more are looked at than are left to find.
                Some(_) => (cover.clone(), left.clamp(BATCH_ROWS_MIN, BLOCK_ROWS_MAX)),
            };
            for block in cover.blocks(block_rows) {
                if left == 0 {
                    return Ok(frames);
                }
                let part = cover.part(&block);
                let frame = self.block(&CoverColumns::new(self.snapshot, &part), &block)?;
                let frame = if frame.len() > left { frame.slice(0, left) } else { frame };
                left -= frame.len();
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    /// The same by threads, each of which takes the next block; the frames come in the order of the rows.
    fn read_parallel(&self, covers: &[Cover], threads: usize) -> Result<Vec<Frame>> {
        let parts: Vec<Cover> = covers
            .iter()
            .flat_map(|cover| cover.blocks(BLOCK_ROWS_MAX).into_iter().map(|block| cover.part(&block)))
            .collect();
        let read = parallel::each(parts.len(), threads, |part| self.read(std::slice::from_ref(&parts[part]), None))?;
        Ok(read.into_iter().flatten().collect())
    }

    fn block(&self, columns: &CoverColumns<'_>, block: &Block) -> Result<Frame> {
        self.chosen(&BlockRows { columns, block })
    }

    /// The wanted ones of some rows.
    fn chosen(&self, all: &dyn Columns) -> Result<Frame> {
        self.stop.check()?;
        let mut rows = all.rows();
        let Some(predicate) = self.predicate else {
            return Ok(Frame::new(self.evaluate(all)?, rows));
        };
        let mask = condition(predicate, all, self.constants)?;
        let kept = mask.true_count();
        if kept == rows {
            return Ok(Frame::new(self.evaluate(all)?, rows));
        }
        rows = kept;
        if kept == 0 {
            return Ok(Frame::new(Vec::new(), 0));
        }
        let mut columns: Vec<Option<Value>> = vec![None; self.snapshot.spec().columns.len() + 1];
        for output in self.outputs {
            let mut failed = None;
            output.visit_columns(&mut |position| {
                if columns[position].is_none() {
                    match all.column(position).and_then(|value| filtered(value, &mask)) {
                        Ok(value) => columns[position] = Some(value),
                        Err(error) => failed = Some(error),
                    }
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(Frame::new(self.evaluate(&Chosen { columns, rows })?, rows))
    }

    fn evaluate(&self, columns: &dyn Columns) -> Result<Vec<ArrayRef>> {
        let evaluate = |output: &Expr| output.evaluate(columns, self.constants)?.into_array(columns.rows());
        self.outputs.iter().map(evaluate).collect()
    }
}

/// Refuses rows of columns that would take too much memory.
fn check_memory<'a>(rows: usize, types: impl Iterator<Item = &'a DataType>, limit: usize) -> Result<()> {
    let width: usize = types.map(|data_type| data_type.primitive_width().unwrap_or(16)).sum();
    let needed = rows.saturating_mul(width);
    if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
}

fn filtered(value: Value, mask: &arrow::array::BooleanArray) -> Result<Value> {
    Ok(match value {
        Value::Array(array) => Value::Array(filter(&array, mask)?),
        scalar => scalar,
    })
}

/// Whether the rows of a cover stand in short pieces.
fn is_short(cover: &Cover) -> bool {
    let gaps = cover.spans.windows(2).filter(|pair| pair[0].rows.end != pair[1].rows.start).count();
    cover.wanted() <= BLOCK_ROWS_MAX.min((gaps + 1) * PIECE_ROWS)
}

/// The rows of several covers of a segment, behind each other.
struct Pieces<'a> {
    snapshot: &'a TableSnapshot,
    segment: &'a Arc<Segment>,
    date: i32,
    ranges: Vec<Range<usize>>,
    rows: usize,
    covers: usize,
    /// What was read before, by column.
    read: RefCell<Vec<Option<ArrayRef>>>,
}

impl<'a> Pieces<'a> {
    fn new(snapshot: &'a TableSnapshot, cover: &'a Cover) -> Pieces<'a> {
        let read = RefCell::new(vec![None; date_position(snapshot)]);
        let (segment, date) = (&cover.segment, cover.date);
        let mut pieces = Pieces { snapshot, segment, date, ranges: Vec::new(), rows: 0, covers: 0, read };
        pieces.add(cover);
        pieces
    }

    /// Whether another cover is of the same segment and not too large.
    fn has_room(&self, cover: &Cover) -> bool {
        Arc::ptr_eq(self.segment, &cover.segment) && self.rows + cover.wanted() <= BLOCK_ROWS_MAX
    }

    fn add(&mut self, cover: &Cover) {
        for span in &cover.spans {
            match self.ranges.last_mut().filter(|last| last.end == span.rows.start) {
                Some(last) => last.end = span.rows.end,
                None => self.ranges.push(span.rows.clone()),
            }
        }
        self.rows += cover.wanted();
        self.covers += 1;
    }
}

impl Columns for Pieces<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position == date_position(self.snapshot) {
            return Ok(Value::Scalar(Arc::new(Date32Array::from(vec![self.date]))));
        }
        if let Some(column) = &self.read.borrow()[position] {
            return Ok(Value::Array(Arc::clone(column)));
        }
        let column = self.segment.column(self.snapshot.spec(), position)?.read_pieces(&self.ranges)?;
        self.read.borrow_mut()[position] = Some(Arc::clone(&column));
        Ok(Value::Array(column))
    }
}

/// All rows of a block.
struct BlockRows<'a> {
    columns: &'a CoverColumns<'a>,
    block: &'a Block,
}

impl Columns for BlockRows<'_> {
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
}

/// Makes one frame of neighbours that are small.
fn put_together(frames: Vec<Frame>, types: &[DataType]) -> Result<Vec<Frame>> {
    let mut whole = Vec::new();
    let mut open: Vec<Frame> = Vec::new();
    let mut rows = 0;
    for frame in frames.into_iter().filter(|frame| frame.len() > 0) {
        if open.is_empty() && frame.len() >= BATCH_ROWS_MIN {
            whole.push(frame);
            continue;
        }
        rows += frame.len();
        open.push(frame);
        if rows >= BLOCK_ROWS_MAX {
            whole.push(Frame::concat(std::mem::take(&mut open), types)?);
            rows = 0;
        }
    }
    if !open.is_empty() {
        whole.push(Frame::concat(open, types)?);
    }
    Ok(whole)
}
