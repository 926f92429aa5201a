//! Chooses samples: segments by their numbers of rows, and some runs of rows in each.

use std::ops::Range;

use arrow::array::{Array, RecordBatch};
use arrow::compute::concat_batches;

use crate::error::Result;
use crate::schema::TableSpec;
use crate::segment::Segment;

/// Most bytes that the rows of a sample take in memory. One row always is one.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// Rows of a run: a page of the tier with the longest ones.
pub(super) const RUN_ROWS: usize = 8192;

/// Rows that are read to estimate the width of a segment's rows.
const PROBE_ROWS: u64 = 256;

/// A segment that is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SampledSegment {
    pub(super) segment: usize,
    /// Rows of the table that it represents.
    pub(super) weight: f64,
}

/// The segments that are sampled, by the rows of all, in an order that spreads the first few over the table as well.
///
/// All are, if they are few. Otherwise those that have certain rows of the table, at equal distances: a segment of many rows is taken
/// more likely, and represents the rows around it.
pub(super) fn places(rows: &[u64], most: usize) -> Vec<SampledSegment> {
    let most = most.max(1);
    let total: u64 = rows.iter().sum();
    if rows.len() <= most {
        let all: Vec<SampledSegment> =
            rows.iter().enumerate().map(|(segment, rows)| SampledSegment { segment, weight: *rows as f64 }).collect();
        return spread(&all);
    }
    let mut samples: Vec<SampledSegment> = Vec::with_capacity(most);
    let (mut segment, mut end) = (0, rows[0]);
    for point in 0..most as u64 {
        // The middle of each of `most` equal parts.
        let row = u64::try_from(u128::from(total) * u128::from(2 * point + 1) / (2 * most as u128)).unwrap_or(total);
        while row >= end && segment + 1 < rows.len() {
            segment += 1;
            end += rows[segment];
        }
        let weight = total as f64 / most as f64;
        match samples.last_mut() {
            Some(last) if last.segment == segment => last.weight += weight,
            _ => samples.push(SampledSegment { segment, weight }),
        }
    }
    spread(&samples)
}

/// Reorders places by the reversed bits of their numbers, so that any beginning is spread evenly: the middle, the quarters, the eighths.
fn spread(places: &[SampledSegment]) -> Vec<SampledSegment> {
    let bits = usize::BITS - places.len().saturating_sub(1).leading_zeros();
    let reversed = |number: usize| if bits == 0 { 0 } else { number.reverse_bits() >> (usize::BITS - bits) };
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|number| reversed(*number));
    order.into_iter().map(|number| places[number]).collect()
}

/// At most `most` of `rows` rows, as runs at equal distances from the first row to the last; all rows, if they aren't more.
pub(super) fn runs(rows: u64, most: usize) -> Vec<Range<u64>> {
    if rows <= most as u64 {
        return std::iter::once(0..rows).filter(|rows| !rows.is_empty()).collect();
    }
    let of_run = RUN_ROWS.min(most).max(1) as u64;
    let runs = (most as u64 / of_run).max(1);
    if runs == 1 {
        let start = (rows - of_run) / 2;
        return std::iter::once(start..start + of_run).collect();
    }
    let start = |run: u64| {
        let start = u128::from(run) * u128::from(rows - of_run) / u128::from(runs - 1);
        u64::try_from(start).unwrap_or(0)
    };
    (0..runs).map(|run| start(run)..start(run) + of_run).collect()
}

/// A sample of a segment's rows, in its order, with all columns of the table.
pub(super) fn read(segment: &Segment, spec: &TableSpec, rows_max: usize) -> Result<RecordBatch> {
    let all: Vec<usize> = (0..spec.columns.len()).collect();
    let rows = segment.entry().rows;
    let probe = segment.read(spec, &all, 0..rows.min(PROBE_ROWS))?;
    let of_row = (bytes(&probe) / probe.num_rows().max(1)).max(1);
    let most = rows_max.min(BYTES_MAX / of_row).max(1);
    let (mut read, mut bytes_read) = (Vec::new(), 0);
    for run in runs(rows, most) {
        let batch = segment.read(spec, &all, run)?;
        bytes_read += bytes(&batch);
        read.push(batch);
        // Rows that are wider than the first ones.
        if bytes_read > BYTES_MAX {
            break;
        }
    }
    match &read[..] {
        [one] => Ok(one.clone()),
        _ => Ok(concat_batches(&spec.arrow(), &read)?),
    }
}

/// Bytes of the rows alone, where columns are slices of longer ones.
fn bytes(rows: &RecordBatch) -> usize {
    let of = |column: &arrow::array::ArrayRef| match column.data_type() {
        // Without the dictionary, which slices share.
        arrow::datatypes::DataType::Dictionary(..) => column.len() * 4,
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    };
    rows.columns().iter().map(of).sum()
}
