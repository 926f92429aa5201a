//! The first or last rows by time, for `ORDER BY time LIMIT n`, without reading the others.
//!
//! Without a filter the order of the table determines the rows (`table/ends.rs`). With a filter, partitions are read in
//! steps from the requested end of the table on, twice as many in each step. Reading stops once enough rows have passed
//! and no unread partition contains a time nearer to that end.

use arrow::datatypes::DataType;
use splay_store::{Bounds, Partition};

use crate::error::Result;
use crate::execution_context::ExecutionContext;
use crate::expr::Expr;
use crate::frame::{Frame, SortKey};
use crate::plan::Plan;
use crate::rows::rows;
use crate::scan::{Scan, find_covers, narrowed, table};
use crate::table::{Cover, RowSelection, TimeEnds, count, distance, find, find_by_time, time_at_end};
use crate::window::WindowCall;

/// Most rows at an end of time that are found by the ends of each symbol's runs.
const ENDS_ROWS_MAX: usize = 4096;

/// Covers that contain the first or last rows by time, found by the order of the table; `None` if that order doesn't determine them.
pub(crate) fn ends(
    input: &Plan,
    keys: &[SortKey],
    count: usize,
    context: &ExecutionContext<'_>,
) -> Result<Option<Vec<Frame>>> {
    let Plan::Rows { scan, outputs, types, fetch: None } = input else { return Ok(None) };
    let Some(SortKey { expr: Expr::Column(key), descending, .. }) = keys.first() else { return Ok(None) };
    let time = table(scan, context)?.spec().time_position();
    let by_time = matches!(outputs.get(*key), Some(Expr::Column(column)) if *column == time);
    if !by_time || !(1..=ENDS_ROWS_MAX).contains(&count) {
        return Ok(None);
    }
    if scan.predicate.is_some() {
        return ends_that_pass(scan, (outputs, types), *descending, count, context).map(Some);
    }
    let ends = TimeEnds { latest: *descending, count, of_each_symbol: false };
    let covers =
        find_covers(scan, context, |snapshot, selection| find_by_time(snapshot, selection, ends, context.threads))?;
    rows(scan, &covers, outputs, types, None, context).map(Some)
}

/// Covers that contain the first or last rows by time of each symbol, for windows that need no others; `None` if the order of the table doesn't
/// determine them.
pub(crate) fn ends_of_symbols(
    input: &Plan,
    calls: &[WindowCall],
    context: &ExecutionContext<'_>,
) -> Result<Option<Vec<Frame>>> {
    let (Plan::Rows { scan, outputs, types, fetch: None }, [call]) = (input, calls) else { return Ok(None) };
    let spec = table(scan, context)?.spec();
    let Some(symbol) = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol)) else { return Ok(None) };
    let is = |expr: &Expr, stored: usize| matches!(expr, Expr::Column(output) if matches!(outputs.get(*output), Some(Expr::Column(column)) if *column == stored));
    let ([partition], Some(key)) = (call.partition_by.as_slice(), call.order_by.first()) else { return Ok(None) };
    let Some(count) = call.first_rows(context.constants) else { return Ok(None) };
    if scan.predicate.is_some() || !is(partition, symbol) || !is(&key.expr, spec.time_position()) {
        return Ok(None);
    }
    let ends = TimeEnds { latest: key.descending, count, of_each_symbol: true };
    let covers =
        find_covers(scan, context, |snapshot, selection| find_by_time(snapshot, selection, ends, context.threads))?;
    rows(scan, &covers, outputs, types, None, context).map(Some)
}

/// The rows that pass a scan's filter, from the dates that contain the first or last rows by time.
fn ends_that_pass(
    scan: &Scan,
    (outputs, types): (&[Expr], &[DataType]),
    latest: bool,
    enough: usize,
    context: &ExecutionContext<'_>,
) -> Result<Vec<Frame>> {
    let snapshot = table(scan, context)?;
    let none = || rows(scan, &[], outputs, types, None, context);
    let Some(selection) = scan.selection(context.constants)? else { return none() };
    let mut dates: Vec<DateExtent> = snapshot
        .partitions()
        .iter()
        .filter(|partition| selection.dates.contains(partition.date) && !partition.segments.is_empty())
        .map(|partition| DateExtent::of(partition, latest))
        .collect();
    if latest {
        dates.reverse();
    }
    // For each date, the smallest distance to the end of time among it and the dates behind it.
    let mut nearest_left = vec![i64::MAX; dates.len() + 1];
    for (place, extent) in dates.iter().enumerate().rev() {
        nearest_left[place] = nearest_left[place + 1].min(extent.near);
    }
    let mut read: Vec<(Vec<Cover>, Vec<Frame>)> = Vec::new();
    let (mut place, mut at_once, mut passed, mut farthest) = (0, 1, 0, i64::MIN);
    while place < dates.len() && (passed < enough || nearest_left[place] <= farthest) {
        let next = &dates[place..dates.len().min(place + at_once)];
        let (least, greatest) = next.iter().fold((i32::MAX, i32::MIN), |(least, greatest), extent| {
            (least.min(extent.date), greatest.max(extent.date))
        });
        farthest = next.iter().fold(farthest, |farthest, extent| farthest.max(extent.far));
        let of_dates = RowSelection { dates: Bounds { min: least, max: greatest }, ..selection.clone() };
        let covers = narrowed(scan, snapshot, find(snapshot, &of_dates, false, context.threads)?, context)?;
        context.stop.expect_rows(covers.iter().map(|cover| cover.selected_rows() as u64).sum());
        let frames = rows(scan, &covers, outputs, types, None, context)?;
        passed += frames.iter().map(Frame::len).sum::<usize>();
        read.push((covers, frames));
        (place, at_once) = (place + at_once, at_once * 2);
    }
    if latest {
        read.reverse();
    }
    let (covers, frames): (Vec<Vec<Cover>>, Vec<Vec<Frame>>) = read.into_iter().unzip();
    let covers: Vec<Cover> = covers.into_iter().flatten().collect();
    context.reads.add_scan(count(snapshot, &covers)?);
    let frames: Vec<Frame> = frames.into_iter().flatten().collect();
    if frames.is_empty() { none() } else { Ok(frames) }
}

/// The least and the greatest distance of a date's rows from an end of time.
struct DateExtent {
    date: i32,
    near: i64,
    far: i64,
}

impl DateExtent {
    fn of(partition: &Partition, latest: bool) -> DateExtent {
        let reach = |end: bool| distance(latest, time_at_end(partition, end));
        DateExtent { date: partition.date, near: reach(latest), far: reach(!latest) }
    }
}
