//! Segments in memory behind others of their date.
//!
//! Invariant of every partition: a symbol's rows in a segment are later than those in the segments before it.
//! [`chain`] moves late rows into order: it copies the rows that follow them into the new segment.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampNanosecondType;

use super::{ColumnReader, Segment};
use crate::error::Result;
use crate::schema::TableSpec;

/// Puts a segment in memory behind others of its date.
///
/// If earlier segments have rows of a symbol that are later than the symbol's first row in `upper`, these rows are
/// hidden there and merged into the segment that is returned instead of `upper`. Rows of equal time stay in the order
/// of the segments. The cost is a look at two times for each symbol and segment, and a copy only of late rows.
///
/// # Errors
/// Those of reading the segments.
pub fn chain(
    spec: &TableSpec,
    lower: &[Arc<Segment>],
    upper: Arc<Segment>,
    name: impl FnOnce() -> String,
) -> Result<Vec<Arc<Segment>>> {
    let mut chained = lower.to_vec();
    let mut late_batches: Vec<RecordBatch> = Vec::new();
    // From the newest: what is taken out of one segment begins behind the late row still, so the row goes on to the next.
    for place in (0..lower.len()).rev() {
        let late = late_rows(spec, &lower[place], &upper)?;
        if late.is_empty() {
            continue;
        }
        let all: Vec<usize> = (0..spec.columns.len()).collect();
        let mut ends = Vec::with_capacity(late.len());
        for (run, rows) in late {
            late_batches.push(lower[place].read(spec, &all, rows.clone())?);
            ends.push((run, rows.start));
        }
        chained[place] = Arc::new(lower[place].cut(&ends)?);
    }
    chained.retain(|segment| segment.rows() > 0);
    if late_batches.is_empty() {
        chained.push(upper);
        return Ok(chained);
    }
    // Among rows of equal symbol and time, those of older segments come first.
    late_batches.reverse();
    late_batches.push(upper.read_all(spec, &(0..spec.columns.len()).collect::<Vec<_>>())?);
    let merged = Segment::in_memory(spec, upper.entry().date, name(), &late_batches)?;
    chained.extend(merged.map(Arc::new));
    Ok(chained)
}

/// Whether each symbol's rows in `upper` come behind those in `lower`, without a copy of any row.
///
/// # Errors
/// Those of reading the segments.
pub fn follows(spec: &TableSpec, lower: &Segment, upper: &Segment) -> Result<bool> {
    Ok(late_rows(spec, lower, upper)?.is_empty())
}

/// Rows of `lower` that are later than the first that `upper` has of the same symbol: by run, ascending.
fn late_rows(spec: &TableSpec, lower: &Segment, upper: &Segment) -> Result<Vec<(usize, Range<u64>)>> {
    let mut late = Vec::new();
    if upper.entry().time_min >= lower.entry().time_max {
        return Ok(late);
    }
    let (below, above) = (lower.index()?, upper.index()?);
    let position = spec.time_position();
    let (times_below, times_above) = (lower.column(spec, position)?, upper.column(spec, position)?);
    for run in 0..above.symbols()? {
        let Some(below_run) = below.find_run(above.symbol(run)?)? else { continue };
        let (rows, first) = (below.symbol_rows(below_run)?, above.symbol_rows(run)?.start);
        if rows.is_empty() || above.symbol_rows(run)?.is_empty() {
            continue;
        }
        let time_at = |column: &ColumnReader<'_>, row: u64| -> Result<i64> {
            let row = usize::try_from(row).unwrap_or(usize::MAX);
            Ok(column.read(row..row + 1)?.as_primitive::<TimestampNanosecondType>().value(0))
        };
        let first = time_at(&times_above, first)?;
        if time_at(&times_below, rows.end - 1)? <= first {
            continue;
        }
        // The last row at or before the first of `upper`: times of a run never fall.
        let (mut low, mut high) = (rows.start, rows.end - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if time_at(&times_below, middle)? <= first { low = middle + 1 } else { high = middle }
        }
        late.push((below_run, low..rows.end));
    }
    late.sort_by_key(|(run, _)| *run);
    Ok(late)
}
