//! Layers of live rows: ordered segments in memory, by date.
//!
//! Invariant: within a date, each segment's rows of a symbol are later than those of the segments before it, so
//! readers read the segments in sequence and merge nothing. Cost: `TIER_LAYERS` layers of similar size are merged
//! into one, so a row is copied a few times, once per tier.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::TimestampNanosecondType;
use splay_store::{Segment, TableSnapshot, TableSpec, chain, follows};

use super::Tail;
use crate::conform::conform;
use crate::error::Result;

/// Segments of each date. Each one's rows of a symbol come, by time, behind those in the ones before.
pub(crate) type Layers = BTreeMap<i32, Vec<Arc<Segment>>>;

/// Layers as a list, for the store.
pub(crate) type SegmentsByDate = Vec<(i32, Vec<Arc<Segment>>)>;

/// Layers of about one size that become one.
const TIER_LAYERS: usize = 8;

/// Rows up to which layers count as one size.
const TIER_ROWS_MIN: u64 = 1 << 9;

/// Rows that who adds a layer joins at once, in a fraction of a millisecond; more are joined by the compaction thread.
const JOINED_ROWS_MAX: u64 = 1 << 12;

/// Layers of a date from which on who adds one joins others as well, however many rows they have: the compaction thread is behind.
const LAYERS_MAX: usize = 100;

/// Rows that are put in order at once.
const PART_ROWS: usize = 1 << 16;

/// The rows of a tail, in order.
pub(crate) fn of_tail(spec: &TableSpec, tail: &[Arc<Tail>]) -> Result<Layers> {
    let mut layers = Layers::new();
    for (date, batches) in by_date(spec, tail)? {
        let parts = in_ordered_parts(spec, date, batches)?;
        layers.extend(Segment::in_memory(spec, date, name(), &parts)?.map(|one| (date, vec![Arc::new(one)])));
    }
    Ok(layers)
}

/// Layers with others behind them.
pub(crate) fn with(spec: &TableSpec, lower: &Layers, upper: &Layers) -> Result<Layers> {
    let mut layers = lower.clone();
    for (date, segments) in upper {
        let mut all = layers.remove(date).unwrap_or_default();
        for segment in segments {
            all = add(spec, *date, &all, segment)?;
        }
        layers.insert(*date, all);
    }
    Ok(layers)
}

/// A long tail as parts that are in order each and small enough to be put there within the processor's caches; then they are
/// merged, symbol by symbol.
fn in_ordered_parts(spec: &TableSpec, date: i32, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    if batches.iter().map(RecordBatch::num_rows).sum::<usize>() <= PART_ROWS {
        return Ok(batches);
    }
    let all: Vec<usize> = (0..spec.columns.len()).collect();
    let (mut parts, mut part, mut rows) = (Vec::new(), Vec::new(), 0);
    let mut order = |part: &mut Vec<RecordBatch>| -> Result<()> {
        if let Some(ordered) = Segment::in_memory(spec, date, name(), part)? {
            parts.push(ordered.read_all(spec, &all)?);
        }
        part.clear();
        Ok(())
    };
    for batch in batches {
        rows += batch.num_rows();
        part.push(batch);
        if rows >= PART_ROWS {
            order(&mut part)?;
            rows = 0;
        }
    }
    order(&mut part)?;
    Ok(parts)
}

/// Rows of each date, in order of arrival, with all columns that the table has now.
pub(super) fn by_date(spec: &TableSpec, tail: &[Arc<Tail>]) -> Result<BTreeMap<i32, Vec<RecordBatch>>> {
    let mut dates = spec.partitions()?;
    let mut parts: BTreeMap<i32, Vec<RecordBatch>> = BTreeMap::new();
    for batch in tail {
        let rows = conform(spec, &batch.rows)?;
        let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().values();
        let (Some(least), Some(greatest)) = (times.iter().min(), times.iter().max()) else { continue };
        if dates.is_one(*least, *greatest) {
            parts.entry(dates.of(*least)).or_default().push(rows);
            continue;
        }
        let mut places: BTreeMap<i32, Vec<u32>> = BTreeMap::new();
        for (row, time) in (0..).zip(times) {
            places.entry(dates.of(*time)).or_default().push(row);
        }
        for (date, places) in places {
            parts.entry(date).or_default().push(take_record_batch(&rows, &UInt32Array::from(places))?);
        }
    }
    Ok(parts)
}

/// The layers of a date with a new layer after them. Small layers are merged into it, and late rows are moved to their
/// place in the order.
fn add(spec: &TableSpec, date: i32, layers: &[Arc<Segment>], upper: &Arc<Segment>) -> Result<Vec<Arc<Segment>>> {
    let rows_max = if layers.len() < LAYERS_MAX { JOINED_ROWS_MAX } else { u64::MAX };
    let (mut rows, mut lower_count) = (upper.rows(), layers.len());
    while let Some((more, together)) = alike_at_end(&layers[..lower_count], rows, rows_max) {
        (rows, lower_count) = (together, lower_count - more);
    }
    let mut parts: Vec<Arc<Segment>> = layers[lower_count..].to_vec();
    parts.push(Arc::clone(upper));
    match joined(spec, date, &parts)? {
        Some(upper) => Ok(chain(spec, &layers[..lower_count], upper, name)?),
        None => Ok(layers.to_vec()),
    }
}

/// The number of last layers that are at most about as large as the rows that follow them, and the number of their
/// rows, at most `rows_max`. None if there are too few such layers.
fn alike_at_end(layers: &[Arc<Segment>], rows: u64, rows_max: u64) -> Option<(usize, u64)> {
    let (tier, mut alike, mut together) = (tier(rows), 0, rows);
    for layer in layers.iter().rev().take_while(|layer| self::tier(layer.rows()) <= tier) {
        if together + layer.rows() > rows_max {
            break;
        }
        (alike, together) = (alike + 1, together + layer.rows());
    }
    (alike + 1 >= TIER_LAYERS).then_some((alike, together))
}

/// Neighbours of which enough are of one size and the others smaller, of a date. The oldest of the smallest size, since late rows change
/// the newest again and again.
pub(super) fn alike(layers: &Layers) -> Option<(i32, Vec<Arc<Segment>>)> {
    layers.iter().find_map(|(date, layers)| {
        let tiers: Vec<u32> = layers.iter().map(|layer| tier(layer.rows())).collect();
        let greatest = tiers.iter().copied().max()?;
        let rows = (0..=greatest).find_map(|size_class| neighbours(&tiers, size_class))?;
        Some((*date, layers[rows].to_vec()))
    })
}

/// The first neighbours of a size, with smaller ones between them but no larger, of which there are enough.
fn neighbours(tiers: &[u32], size_class: u32) -> Option<Range<usize>> {
    let (mut first, mut alike) = (0, 0);
    for (place, tier) in tiers.iter().enumerate() {
        if *tier > size_class {
            alike = 0;
        } else if *tier == size_class {
            if alike == 0 {
                first = place;
            }
            alike += 1;
            if alike == TIER_LAYERS {
                return Some(first..place + 1);
            }
        }
    }
    None
}

/// Neighbouring layers as one; `None` if they have no rows.
pub(super) fn joined(spec: &TableSpec, date: i32, parts: &[Arc<Segment>]) -> Result<Option<Arc<Segment>>> {
    if let [one] = parts {
        return Ok(Some(Arc::clone(one)).filter(|one| one.rows() > 0));
    }
    let all: Vec<usize> = (0..spec.columns.len()).collect();
    let parts = parts.iter().map(|part| part.read_all(spec, &all)).collect::<splay_store::Result<Vec<_>>>()?;
    Ok(Segment::in_memory(spec, date, name(), &parts)?.map(Arc::new))
}

/// The layers with a merged layer instead of those that it was merged from; `None` if late rows have changed these
/// meanwhile.
pub(super) fn replaced(
    layers: &Layers,
    date: i32,
    parts: &[Arc<Segment>],
    joined: Option<&Arc<Segment>>,
) -> Option<Layers> {
    let before = layers.get(&date)?;
    let first = before.iter().position(|layer| Arc::ptr_eq(layer, &parts[0]))?;
    let replaced_layers = before.get(first..first + parts.len())?;
    if !replaced_layers.iter().zip(parts).all(|(layer, part)| Arc::ptr_eq(layer, part)) {
        return None;
    }
    let mut after = before.clone();
    after.splice(first..first + parts.len(), joined.cloned());
    let mut layers = layers.clone();
    layers.insert(date, after);
    Some(layers)
}

fn tier(rows: u64) -> u32 {
    (rows / TIER_ROWS_MIN).max(1).ilog(TIER_LAYERS as u64)
}

/// For each date with live segments: the segments in files, followed by the live ones.
pub(crate) fn over_files(stored: &TableSnapshot, layers: &Layers) -> Result<SegmentsByDate> {
    let mut dated = SegmentsByDate::with_capacity(layers.len());
    for (date, live) in layers {
        let stands = stored.partitions().binary_search_by_key(date, |partition| partition.date);
        let files = stands.map(|place| stored.partitions()[place].segments.to_vec()).unwrap_or_default();
        dated.push((*date, over(stored.spec(), files, live)?));
    }
    Ok(dated)
}

/// A date's segments: those in files, and live ones behind them.
fn over(spec: &TableSpec, files: Vec<Arc<Segment>>, live: &[Arc<Segment>]) -> Result<Vec<Arc<Segment>>> {
    let mut all_follow = true;
    for lower in &files {
        for upper in live {
            all_follow = all_follow && follows(spec, lower, upper)?;
        }
    }
    let mut all = files;
    if all_follow {
        all.extend(live.iter().cloned());
        return Ok(all);
    }
    for upper in live {
        all = chain(spec, &all, Arc::clone(upper), name)?;
    }
    Ok(all)
}

/// Layers as rows with times up to `cut`, by date, and those that are later.
pub(super) fn split(spec: &TableSpec, layers: &Layers, cut: i64) -> Result<(SegmentsByDate, Layers)> {
    let (mut earlier, mut later) = (Vec::new(), Layers::new());
    let all: Vec<usize> = (0..spec.columns.len()).collect();
    for (date, segments) in layers {
        let (mut written, mut later_batches) = (Vec::new(), Vec::new());
        for segment in segments {
            if segment.entry().time_max <= cut {
                written.push(Arc::clone(segment));
                continue;
            }
            let mut ends = Vec::new();
            for (run, rows) in later_rows(spec, segment, cut)? {
                later_batches.push(segment.read(spec, &all, rows.clone())?);
                ends.push((run, rows.start));
            }
            written.push(Arc::new(segment.cut(&ends)?));
        }
        written.retain(|segment| segment.rows() > 0);
        if !written.is_empty() {
            earlier.push((*date, written));
        }
        // The rows are in the order of the segments, and within one by symbol and time.
        if let Some(segment) = Segment::in_memory(spec, *date, name(), &later_batches)? {
            later.insert(*date, vec![Arc::new(segment)]);
        }
    }
    Ok((earlier, later))
}

/// The rows of each run of a segment that are later than a time.
fn later_rows(spec: &TableSpec, segment: &Segment, cut: i64) -> Result<Vec<(usize, Range<u64>)>> {
    let index = segment.index()?;
    let times = segment.column(spec, spec.time_position())?;
    let mut later = Vec::new();
    for run in 0..index.symbols()? {
        let rows = index.symbol_rows(run)?;
        let bounds = usize::try_from(rows.start).unwrap_or(usize::MAX)..usize::try_from(rows.end).unwrap_or(usize::MAX);
        let values = times.read(bounds)?;
        let before = values.as_primitive::<TimestampNanosecondType>().values().partition_point(|time| *time <= cut);
        if before < values.len() {
            later.push((run, rows.start + before as u64..rows.end));
        }
    }
    Ok(later)
}

/// A name that no other segment in memory has.
fn name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: numbers only have to differ.
    format!("live/{:012}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_the_oldest_of_a_size_with_smaller_ones_between() {
        let tiers = |text: &str| -> Vec<u32> { text.bytes().map(|digit| u32::from(digit - b'0')).collect() };
        assert_eq!(neighbours(&tiers("00000000"), 0), Some(0..8));
        assert_eq!(neighbours(&tiers("0000000"), 0), None);
        assert_eq!(neighbours(&tiers("3000000000"), 0), Some(1..9), "the newest stay");
        assert_eq!(neighbours(&tiers("0000100001"), 0), None, "a larger one parts them");
        assert_eq!(neighbours(&tiers("0000100001"), 1), None);
        assert_eq!(neighbours(&tiers("2010111111010"), 1), Some(2..12), "from the first of the size to the last");
        assert_eq!(neighbours(&tiers("111111112"), 2), None);
    }
}
