//! Encrypted files with right block checksums whose bytes were changed on purpose. A reader gets an error or the original rows, never other rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, DictionaryArray, FixedSizeListArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type};

use super::checksum::{self, CheckedFile};
use super::dense::DenseFile;
use super::parquet::ParquetFile;
use super::writer::encode;
use crate::encryption::{self, EncryptionKeys};
use crate::error::{Error, Result};
use crate::schema::{ColumnSpec, ColumnType, TableSpec};
use crate::storage::MappedBytes;
use crate::tier::Tier;

const ROWS: usize = 9000;

const KEY_256: &str = "b 000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f";

fn keys() -> EncryptionKeys {
    EncryptionKeys::from_text("b 000102030405060708090a0b0c0d0e0f\na AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
}

fn table(first: i64) -> (TableSpec, RecordBatch) {
    let numbers = move || (first..).take(ROWS);
    let item = Arc::new(Field::new("item", DataType::Float64, true));
    let items = Arc::new(Float64Array::from_iter_values((0..2 * ROWS).map(|at| at as f64 / 3.0)));
    let columns: Vec<(&str, ColumnType, ArrayRef)> = vec![
        (
            "time",
            ColumnType::Timestamp,
            Arc::new(TimestampNanosecondArray::from_iter_values(numbers()).with_timezone("UTC")),
        ),
        (
            "sym",
            ColumnType::Symbol,
            Arc::new(numbers().map(|_| Some("SECRETSYMBOL")).collect::<DictionaryArray<Int32Type>>()),
        ),
        ("size", ColumnType::Int64, Arc::new(numbers().map(|n| (n % 7 > 0).then_some(n * n)).collect::<Int64Array>())),
        ("note", ColumnType::Text, Arc::new(numbers().map(|n| Some(format!("note {n}"))).collect::<StringArray>())),
        ("book", ColumnType::Levels { size: 2 }, Arc::new(FixedSizeListArray::new(item, 2, items, None))),
    ];
    let specs = columns.iter().map(|(name, column_type, _)| ColumnSpec::new(*name, column_type.clone())).collect();
    let spec = TableSpec::new("t", specs, "time", Some("sym"));
    let batch = RecordBatch::try_new(spec.arrow(), columns.into_iter().map(|(_, _, array)| array).collect()).unwrap();
    (spec, batch)
}

fn written(tier: Tier, first: i64, keys: &EncryptionKeys) -> Vec<u8> {
    let (spec, rows) = table(first);
    let key = keys.file_key_of(Tier::Small).unwrap().unwrap();
    encode(tier, &spec, &rows, Some(&key)).unwrap().0.to_vec()
}

/// All columns of a file, whose checksums are those of its bytes whatever they are.
fn read(tier: Tier, bytes: &[u8], keys: &EncryptionKeys) -> Result<Vec<ArrayRef>> {
    let sums = checksum::of(bytes);
    let mapped = MappedBytes::from(bytes::Bytes::copy_from_slice(bytes));
    let file = Arc::new(CheckedFile::new(mapped, PathBuf::from("t"), sums.into(), true)?);
    let rows = 0..ROWS;
    if tier == Tier::Dense {
        let file = DenseFile::open(Arc::new(CheckedFile::sealed(file, keys)?), ROWS as u64)?;
        let types = file.schema().fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        return types.iter().enumerate().map(|(at, data_type)| file.decode(at, rows.clone(), data_type)).collect();
    }
    let file = ParquetFile::open(file, ROWS as u64, keys)?;
    let types = file.schema().fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    let column = |(at, data_type): (usize, &DataType)| match file.decode(at, rows.clone(), data_type)? {
        Some(column) => Ok(column),
        None => match file.read(&[at], rows.clone(), ROWS)?.next() {
            Some(batch) => Ok(Arc::clone(batch?.column(0))),
            None => Err(file.short(ROWS, 0)),
        },
    };
    types.iter().enumerate().map(column).collect()
}

fn assert_named(result: Result<Vec<ArrayRef>>, sound: &[ArrayRef], what: &str) -> bool {
    match result {
        Ok(result) => {
            assert_eq!(result, sound, "{what}");
            false
        }
        Err(Error::Corrupt { .. } | Error::Encrypted { .. } | Error::FormatVersion { .. }) => true,
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn a_changed_bit_of_any_module_is_named() {
    let keys = keys();
    for tier in [Tier::Fast, Tier::Small, Tier::Dense] {
        let bytes = written(tier, 0, &keys);
        let sound = read(tier, &bytes, &keys).unwrap();
        let (mut tried, mut named) = (0, 0);
        // Every byte near both ends, where what describes the file is, and a step that visits each module otherwise.
        let step = (bytes.len() / 500).max(1);
        let ends = (0..bytes.len()).filter(|at| *at < 40 || bytes.len() - *at < 300 || at % step == 0);
        for at in ends {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            tried += 1;
            named += usize::from(assert_named(read(tier, &bytes, &keys), &sound, &format!("{tier:?} byte {at}")));
        }
        // In Parquet the column indexes, which nobody here reads, and the first magic bytes may be anything.
        assert!(named * 10 > tried * 9, "{tier:?}: {named} of {tried}");
        for length in [0, 7, 8, 100, bytes.len() / 2, bytes.len() - 1] {
            assert!(assert_named(read(tier, &bytes[..length], &keys), &sound, &format!("{tier:?} cut to {length}")));
        }
    }
}

#[test]
fn nothing_of_the_values_is_in_the_bytes() {
    let keys = keys();
    for tier in [Tier::Fast, Tier::Small, Tier::Dense] {
        let bytes = written(tier, 0, &keys);
        for text in ["SECRETSYMBOL", "note 8", "splay.table"] {
            assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{tier:?} {text}");
        }
        assert_ne!(bytes, written(tier, 0, &keys), "each file has a key of its own");
    }
}

#[test]
fn parts_of_other_files_and_places_are_refused() {
    let keys = keys();
    // A block of dense files of equal lengths, from another file and from another place.
    let (one, other) = (written(Tier::Dense, 0, &keys), written(Tier::Dense, 0, &keys));
    let sound = read(Tier::Dense, &one, &keys).unwrap();
    let block = (16 << 10) + 16;
    let start = one.len() - one.len() % block / 2 - block;
    let mut mixed = one.clone();
    mixed[start..start + block].copy_from_slice(&other[start..start + block]);
    assert!(assert_named(read(Tier::Dense, &mixed, &keys), &sound, "a block of another file"));

    // Pages of a column, of the same length.
    for tier in [Tier::Fast, Tier::Small] {
        let (one, other) = (written(tier, 0, &keys), written(tier, 0, &keys));
        let sound = read(tier, &one, &keys).unwrap();
        let pages = pages_of(&one, &keys);
        assert!(pages.iter().any(|places| places.len() > 1));
        for places in pages {
            let mut mixed = one.clone();
            mixed[places[0].clone()].copy_from_slice(&other[places[0].clone()]);
            assert!(assert_named(read(tier, &mixed, &keys), &sound, "a page of another file"));
            if let [first, second, ..] = &places[..]
                && first.len() == second.len()
            {
                let mut mixed = one.clone();
                mixed[first.clone()].copy_from_slice(&one[second.clone()]);
                mixed[second.clone()].copy_from_slice(&one[first.clone()]);
                assert!(assert_named(read(tier, &mixed, &keys), &sound, "two pages exchanged"));
            }
        }
    }
}

/// The pages of each column that is decoded here.
fn pages_of(bytes: &[u8], keys: &EncryptionKeys) -> Vec<Vec<std::ops::Range<usize>>> {
    let mapped = MappedBytes::from(bytes::Bytes::copy_from_slice(bytes));
    let file = CheckedFile::new(mapped, PathBuf::from("t"), checksum::of(bytes).into(), true).unwrap();
    let file = ParquetFile::open(Arc::new(file), ROWS as u64, keys).unwrap();
    (0..4).map(|column| file.page_places(column).unwrap()).collect()
}

#[test]
fn a_missing_and_a_wrong_key_are_told_apart_by_name() {
    let written_under = keys();
    for tier in [Tier::Fast, Tier::Dense] {
        let bytes = written(tier, 0, &written_under);
        let refusal = |keys: &EncryptionKeys| match read(tier, &bytes, keys) {
            Err(Error::Encrypted { key, reason, .. }) => {
                assert_eq!(key, "b");
                reason
            }
            other => panic!("{other:?}"),
        };
        assert!(refusal(&EncryptionKeys::default()).contains("names no keys"));
        assert!(refusal(&EncryptionKeys::from_text("a 000102030405060708090a0b0c0d0e0f")).contains("none of this id"));
        assert!(refusal(&EncryptionKeys::from_text("b 000102030405060708090a0b0c0d0e00")).contains("another one"));
        let rotated =
            EncryptionKeys::from_text("c 99999999999999999999999999999999,b 000102030405060708090a0b0c0d0e0f");
        assert!(read(tier, &bytes, &rotated).is_ok());
        // Keys that couldn't be read let nothing be written in plain.
        let unknown = EncryptionKeys::from_text("b nokey");
        assert!(unknown.file_key_of(Tier::Small).is_err());
        assert!(refusal(&unknown).contains("key 1 in the list"));
        assert!(!format!("{written_under:?}").contains("[0, 1, 2"), "keys aren't shown");
    }
}

#[test]
fn a_sealed_index_is_whole_or_refused() {
    let keys = keys();
    let path = Path::new("t.index");
    for length in [0, 1, (16 << 10) - 1, 16 << 10, (16 << 10) + 1, 50_000] {
        let plain: Vec<u8> = (0..length).map(|at: usize| (at % 251) as u8).collect();
        let sealed = encryption::seal(&plain, &keys.file_key_of(Tier::Small).unwrap().unwrap()).unwrap();
        assert_eq!(encryption::open(&sealed, &keys, path).unwrap(), plain);
        for at in (0..sealed.len()).filter(|at| *at < 300 || at % 97 == 0) {
            let mut sealed = sealed.clone();
            sealed[at] ^= 4;
            assert!(encryption::open(&sealed, &keys, path).is_err(), "byte {at} of {length}");
        }
        // Without its last block, or with a part of it.
        for cut in (0..sealed.len()).filter(|cut| *cut < 400 || cut % 89 == 0 || sealed.len() - cut < 40) {
            assert!(encryption::open(&sealed[..cut], &keys, path).is_err(), "{cut} of {} bytes", sealed.len());
        }
        if length > 16 << 10 {
            let header = sealed.len() - length - 16 * length.div_ceil(16 << 10);
            assert!(encryption::open(&sealed[..header + (16 << 10) + 16], &keys, path).is_err(), "a block less");
        }
    }
}

/// Prints the sizes and speeds of ADR 85.
#[test]
#[ignore = "it measures"]
fn what_encryption_costs() {
    const MANY: usize = 2_000_000;
    // A price that walks in cents, and sizes.
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64
    };
    let mut cents = 10_000_i64;
    let mut prices = Vec::with_capacity(MANY);
    let mut sizes = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        cents += random() % 5 - 2;
        prices.push(cents as f64 / 100.0);
        sizes.push(random() % 500 * (random() % 3));
    }
    let times = TimestampNanosecondArray::from_iter_values((0..MANY as i64).map(|row| row * 1_000_003));
    let specs = [("time", ColumnType::Timestamp), ("price", ColumnType::Float64), ("size", ColumnType::Int64)];
    let specs = specs.map(|(name, column_type)| ColumnSpec::new(name, column_type)).to_vec();
    let spec = TableSpec::new("t", specs, "time", None);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(times.with_timezone("UTC")),
        Arc::new(Float64Array::from(prices)),
        Arc::new(Int64Array::from(sizes)),
    ];
    let rows = RecordBatch::try_new(spec.arrow(), columns).unwrap();
    for tier in [Tier::Fast, Tier::Small, Tier::Dense] {
        let mut segments = [EncryptionKeys::default(), EncryptionKeys::from_text(KEY_256)].map(|keys| {
            let begin = std::time::Instant::now();
            let segment = super::Segment::encoded(&spec, &rows, tier, &Arc::new(keys)).unwrap();
            (segment, begin.elapsed(), std::time::Duration::MAX)
        });
        for _ in 0..9 {
            for (segment, _, least) in &mut segments {
                let begin = std::time::Instant::now();
                let (prices, sizes) = (segment.column(&spec, 1).unwrap(), segment.column(&spec, 2).unwrap());
                let mut sums = (0.0, 0);
                for start in (0..MANY).step_by(8192) {
                    let rows = start..(start + 8192).min(MANY);
                    sums.0 +=
                        arrow::compute::sum(prices.read(rows.clone()).unwrap().as_primitive::<Float64Type>()).unwrap();
                    sums.1 += arrow::compute::sum(sizes.read(rows).unwrap().as_primitive::<Int64Type>()).unwrap();
                }
                std::hint::black_box(sums);
                *least = (*least).min(begin.elapsed());
            }
        }
        let [(plain, written, read), (sealed, sealed_written, sealed_read)] = &segments;
        println!(
            "{:5} plain: {} bytes, written in {written:.2?}, sums in {read:.2?}; encrypted: {} bytes, {sealed_written:.2?}, {sealed_read:.2?}; \
             ratio of sums {:.3}",
            tier.name(),
            plain.entry().bytes,
            sealed.entry().bytes,
            sealed_read.as_secs_f64() / read.as_secs_f64()
        );
    }
}
