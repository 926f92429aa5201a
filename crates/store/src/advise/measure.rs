//! Measures the size of samples in each tier, and the time to read their columns.
//!
//! A sample is written as a segment of its own. Bytes that grow with rows are scaled to the whole segment by the number
//! of rows; fixed bytes aren't. Dictionaries are scaled at the rate at which they grew from half of the sample to all
//! of it. The index has the same size in all tiers, except for the checksums of the file's blocks, so its size is taken
//! from the segment's own index.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

use super::sample::RUN_ROWS;
use super::{ColumnAdvice, ColumnInTier, PartAdvice, TIERS, reason};
use crate::error::Result;
use crate::index::CRC_BLOCK_BYTES;
use crate::schema::TableSpec;
use crate::segment::{ColumnReader, Segment, odd_one};

/// Rows that are read at once: as many as statements read of a column.
const READ_ROWS: usize = 8192;

/// Fewest rows of a sample whose read speed is reported.
const TIMED_ROWS_MIN: usize = 4096;

/// How often all columns are read; the shortest time of each counts.
const PASSES: usize = 4;

/// No further pass begins after this time.
const PASSES_TIME_MAX: Duration = Duration::from_secs(2);

/// Bytes that are written before a pass, so that columns come from memory and not from the processor's cache.
const CACHE_BYTES: usize = 64 << 20;

/// Rows of a row group: each has dictionaries of its own.
const GROUP_ROWS: u64 = 1 << 20;

/// A dictionary isn't made larger than this.
const DICTIONARY_BYTES_MAX: f64 = 1_048_576.0;

/// Measurements of all samples. Bytes per row are weighted by the rows that each sample represents.
pub(super) struct Totals {
    weight: f64,
    segments: usize,
    rows: u64,
    tiers: [TierMeasurement; 4],
    now: CurrentSizes,
    /// By column, a float that can't be stored as a whole number.
    odd: Vec<Option<f64>>,
    /// By column, whether all values of the samples are null.
    all_null: Vec<bool>,
    /// Memory that is overwritten to evict the processor's cache.
    cache: Vec<u8>,
}

/// The samples in one tier.
struct TierMeasurement {
    columns: Vec<ColumnTotal>,
    file: f64,
    index: f64,
}

/// The sampled segments in the tiers that they have now.
struct CurrentSizes {
    columns: Vec<f64>,
    file: f64,
    index: f64,
}

#[derive(Clone, Default)]
struct ColumnTotal {
    bytes: f64,
    encodings: BTreeSet<String>,
    read: ReadCost,
}

/// Bytes read of a column, and the time that took.
#[derive(Clone, Copy, Default)]
struct ReadCost {
    bytes: f64,
    rows: f64,
    seconds: f64,
}

/// The bytes of a segment in a tier.
#[derive(Clone)]
struct SegmentSizes {
    columns: Vec<f64>,
    file: f64,
}

impl Totals {
    pub(super) fn new(spec: &TableSpec) -> Totals {
        let columns = spec.columns.len();
        let tier = || TierMeasurement { columns: vec![ColumnTotal::default(); columns], file: 0.0, index: 0.0 };
        Totals {
            weight: 0.0,
            segments: 0,
            rows: 0,
            tiers: TIERS.map(|_| tier()),
            now: CurrentSizes { columns: vec![0.0; columns], file: 0.0, index: 0.0 },
            odd: vec![None; columns],
            all_null: vec![true; columns],
            cache: Vec::new(),
        }
    }

    /// Measures a sample of a segment, which represents `weight` rows of the table.
    pub(super) fn add(&mut self, spec: &TableSpec, segment: &Segment, sample: &RecordBatch, weight: f64) -> Result<()> {
        let entry = segment.entry();
        // The share of the table's rows, for each of the segment's.
        let share = weight / entry.rows as f64;
        let now = as_it_is(spec, segment)?;
        for (at, tier) in TIERS.into_iter().enumerate() {
            let encoded = Segment::encoded(spec, sample, tier, segment.keys())?;
            let whole =
                if entry.tier.written() == tier { now.clone() } else { scale_sample(spec, segment, sample, &encoded)? };
            let total = &mut self.tiers[at];
            total.file += share * whole.file;
            total.index += share * index_bytes(segment, whole.file);
            let times = times_of(spec, &encoded, &mut self.cache)?;
            for ((column, bytes), (read, time)) in total.columns.iter_mut().zip(&whole.columns).zip(times) {
                column.bytes += share * bytes;
                if let Some(time) = time {
                    column.read.bytes += read as f64;
                    column.read.rows += sample.num_rows() as f64;
                    column.read.seconds += time.as_secs_f64();
                }
            }
            for storage in encoded.storage_of(&spec.columns)? {
                if let Some(position) = spec.position(&storage.column) {
                    total.columns[position].encodings.insert(storage.encoding);
                }
            }
        }
        self.now.file += share * now.file;
        self.now.index += share * entry.index_bytes as f64;
        self.now.columns.iter_mut().zip(&now.columns).for_each(|(total, bytes)| *total += share * bytes);
        for (odd, column) in self.odd.iter_mut().zip(sample.columns()) {
            *odd = odd.or_else(|| odd_one(column));
        }
        for (all_null, column) in self.all_null.iter_mut().zip(sample.columns()) {
            *all_null &= column.logical_null_count() == column.len();
        }
        self.weight += weight;
        self.segments += 1;
        self.rows += sample.num_rows() as u64;
        Ok(())
    }

    pub(super) fn segments(&self) -> usize {
        self.segments
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes a row of files and indexes in a tier.
    pub(super) fn bytes_per_row(&self, tier: usize) -> f64 {
        self.per_row(self.tiers[tier].file + self.tiers[tier].index)
    }

    /// Seconds a row to read all columns in a tier.
    pub(super) fn seconds_per_row(&self, tier: usize) -> Option<f64> {
        let of = |column: &ColumnTotal| (column.read.rows > 0.0).then(|| column.read.seconds / column.read.rows);
        self.tiers[tier].columns.iter().map(of).sum()
    }

    fn per_row(&self, total: f64) -> f64 {
        if self.weight > 0.0 { total / self.weight } else { 0.0 }
    }

    /// The bytes of the files beside their columns.
    pub(super) fn beside(&self) -> PartAdvice {
        let in_tier = |tier: &TierMeasurement| {
            self.per_row(tier.file - tier.columns.iter().map(|column| column.bytes).sum::<f64>()).max(0.0)
        };
        let now = self.per_row(self.now.file - self.now.columns.iter().sum::<f64>()).max(0.0);
        PartAdvice { now, tiers: self.tiers.each_ref().map(in_tier) }
    }

    /// The indexes.
    pub(super) fn index(&self) -> PartAdvice {
        let in_tier = |tier: &TierMeasurement| self.per_row(tier.index);
        PartAdvice { now: self.per_row(self.now.index), tiers: self.tiers.each_ref().map(in_tier) }
    }

    /// The first columns of the table, those that people see.
    pub(super) fn columns(&self, spec: &TableSpec, shown: usize) -> Vec<ColumnAdvice> {
        let of = |position: usize| {
            let tiers = self.tiers.each_ref().map(|tier| self.in_tier(&tier.columns[position]));
            let column = &spec.columns[position];
            ColumnAdvice {
                column: column.name.clone(),
                column_type: column.column_type.to_string(),
                now: self.per_row(self.now.columns[position]),
                reason: if self.all_null[position] {
                    "null in all rows of the samples".to_owned()
                } else {
                    reason::of(&column.column_type, &tiers, self.odd[position])
                },
                tiers,
            }
        };
        (0..shown).map(of).collect()
    }

    fn in_tier(&self, column: &ColumnTotal) -> ColumnInTier {
        let ReadCost { bytes, seconds, .. } = column.read;
        ColumnInTier {
            bytes: self.per_row(column.bytes),
            encoding: column.encodings.iter().cloned().collect::<Vec<_>>().join("; "),
            gb_per_second: (seconds > 0.0).then(|| bytes / seconds / 1e9),
        }
    }
}

/// A segment in the tier that it has.
fn as_it_is(spec: &TableSpec, segment: &Segment) -> Result<SegmentSizes> {
    let mut columns = vec![0.0; spec.columns.len()];
    for stored in segment.storage_of(&spec.columns)? {
        if let Some(position) = spec.position(&stored.column) {
            columns[position] = stored.bytes as f64;
        }
    }
    Ok(SegmentSizes { columns, file: segment.entry().bytes as f64 })
}

/// A segment in the tier in which a sample of it is encoded.
fn scale_sample(spec: &TableSpec, segment: &Segment, sample: &RecordBatch, encoded: &Segment) -> Result<SegmentSizes> {
    let (rows, sampled) = (segment.entry().rows, sample.num_rows() as u64);
    let scale = rows as f64 / sampled as f64;
    let mut columns = vec![0.0; spec.columns.len()];
    let mut of_columns = 0;
    for stored in encoded.storage_of(&spec.columns)? {
        of_columns += stored.bytes;
        let Some(position) = spec.position(&stored.column) else { continue };
        let (bytes, dictionary) = (stored.bytes as f64, stored.dictionary_bytes as f64);
        columns[position] = if rows == sampled {
            bytes
        } else if dictionary > 0.0 {
            let is_symbol = spec.symbol_position() == Some(position);
            let symbols = if is_symbol { Some(segment.index()?.symbols()?) } else { None };
            dictionary_bytes(sample.column(position), bytes - dictionary, dictionary, rows, symbols)
        } else {
            bytes * scale
        };
    }
    // Schema, footer and the dictionaries of mapped files are there once.
    let once = encoded.entry().bytes.saturating_sub(of_columns) as f64;
    Ok(SegmentSizes { file: once + columns.iter().sum::<f64>(), columns })
}

/// Estimates the bytes of a dictionary column from the bytes that a sample of it takes for codes and for the
/// dictionary.
///
/// The number of distinct values is extrapolated by a power law: the exponent is the one by which it grew from half of
/// the runs to all of them. Codes grow with the bits of the dictionary's last number.
fn dictionary_bytes(sample: &ArrayRef, codes: f64, dictionary: f64, rows: u64, symbols: Option<usize>) -> f64 {
    let sampled = sample.len() as f64;
    let scale = rows as f64 / sampled;
    let (half, all) = distinct(sample);
    let (half, all) = (half.max(1) as f64, all.max(1) as f64);
    if let Some(symbols) = symbols {
        // Rows stand by symbol, so that each is in one dictionary, and its codes are runs.
        return codes * scale + dictionary * (symbols as f64 / all).max(1.0);
    }
    let power = (all / half).log2().clamp(0.0, 1.0);
    let of_group = rows.min(GROUP_ROWS) as f64;
    let grown = (of_group / sampled).max(1.0).powf(power).min((DICTIONARY_BYTES_MAX / dictionary).max(1.0));
    let bits = |values: f64| values.max(2.0).log2().ceil();
    let groups = rows.div_ceil(GROUP_ROWS) as f64;
    codes * scale * bits(all * grown) / bits(all) + dictionary * grown * groups
}

/// Values that differ in every other run of a sample, and in all of it.
fn distinct(sample: &ArrayRef) -> (usize, usize) {
    let hashes = RandomState::new();
    let (mut half, mut all) = (HashSet::new(), HashSet::new());
    let mut note = |row: usize, hash: u64| {
        all.insert(hash);
        if (row / RUN_ROWS).is_multiple_of(2) {
            half.insert(hash);
        }
    };
    match sample.data_type() {
        DataType::Utf8 => {
            let texts = sample.as_string::<i32>();
            texts.iter().enumerate().for_each(|(row, text)| note(row, hashes.hash_one(text)));
        }
        DataType::Dictionary(..) => {
            let keys = sample.as_any_dictionary().keys().to_data();
            each_value(&keys, 4, &mut |row, bytes| note(row, hashes.hash_one(bytes)));
        }
        other => {
            let width = other.primitive_width().unwrap_or(1);
            each_value(&sample.to_data(), width, &mut |row, bytes| note(row, hashes.hash_one(bytes)));
        }
    }
    (half.len(), all.len())
}

fn each_value(data: &arrow::array::ArrayData, width: usize, see: &mut impl FnMut(usize, &[u8])) {
    let Some(buffer) = data.buffers().first() else { return };
    let start = data.offset() * width;
    let end = (start + data.len() * width).min(buffer.len());
    buffer[start.min(end)..end].chunks_exact(width).enumerate().for_each(|(row, bytes)| see(row, bytes));
}

/// Bytes of a segment's index once its file has another length: it has a checksum for each block of the file.
fn index_bytes(segment: &Segment, file: f64) -> f64 {
    let entry = segment.entry();
    let blocks = |bytes: f64| (bytes / CRC_BLOCK_BYTES as f64).ceil();
    entry.index_bytes as f64 + 4.0 * (blocks(file) - blocks(entry.bytes as f64))
}

/// For each column the bytes of its values, and the shortest time in which all of them were read and passed over;
/// `None` for too few values. `cache` is memory that is written in between.
fn times_of(spec: &TableSpec, encoded: &Segment, cache: &mut Vec<u8>) -> Result<Vec<(usize, Option<Duration>)>> {
    let mut columns = Vec::with_capacity(spec.columns.len());
    for position in 0..spec.columns.len() {
        let step = if encoded.reads_by_range(spec, position)? { READ_ROWS } else { usize::MAX };
        columns.push((encoded.column(spec, position)?, step));
    }
    let is_timed = encoded.entry().rows >= TIMED_ROWS_MIN as u64;
    // The first pass checks checksums, which each file pays once.
    let mut timings = Vec::with_capacity(columns.len());
    for (column, step) in &columns {
        timings.push((pass(column, *step)?, is_timed.then_some(Duration::MAX)));
    }
    if !is_timed {
        return Ok(timings);
    }
    cache.resize(CACHE_BYTES, 1);
    let begin = Instant::now();
    for number in 0..PASSES {
        if number > 0 && begin.elapsed() >= PASSES_TIME_MAX {
            break;
        }
        cache.fill(u8::try_from(number).unwrap_or_default());
        black_box(&cache);
        for ((column, step), (_, best)) in columns.iter().zip(&mut timings) {
            let start = Instant::now();
            pass(column, *step)?;
            *best = best.map(|best| best.min(start.elapsed()));
        }
    }
    Ok(timings)
}

/// Reads all rows, and gives the bytes of their values.
fn pass(column: &ColumnReader<'_>, step: usize) -> Result<usize> {
    let (mut bytes, mut start) = (0, 0);
    while start < column.rows() {
        let end = start.saturating_add(step).min(column.rows());
        bytes += looked_at(&column.read(start..end)?);
        start = end;
    }
    Ok(bytes)
}

/// Adds up the bytes of all values, so that those of mapped files are read as well, and gives their number.
fn looked_at(column: &dyn Array) -> usize {
    match column.data_type() {
        DataType::Utf8 => {
            let texts = column.as_string::<i32>();
            let offsets = texts.value_offsets();
            let place = |offset: Option<&i32>| offset.and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0);
            sum(&texts.value_data()[place(offsets.first())..place(offsets.last())]) + size_of_val(offsets)
        }
        DataType::Dictionary(..) => looked_at(column.as_any_dictionary().keys()),
        DataType::FixedSizeList(..) => looked_at(column.as_fixed_size_list().values()),
        DataType::Boolean => {
            black_box(column.as_boolean().values().count_set_bits());
            column.len().div_ceil(8)
        }
        other => {
            let (width, data) = (other.primitive_width().unwrap_or(0), column.to_data());
            let Some(buffer) = data.buffers().first() else { return 0 };
            let start = (data.offset() * width).min(buffer.len());
            sum(&buffer[start..(start + data.len() * width).min(buffer.len())])
        }
    }
}

fn sum(bytes: &[u8]) -> usize {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    black_box(words.fold(0_u64, u64::wrapping_add));
    bytes.len()
}
