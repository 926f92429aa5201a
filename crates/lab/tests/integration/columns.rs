//! Columns of every type with values that are hard to keep.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array, DictionaryArray,
    DurationNanosecondArray, FixedSizeBinaryArray, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray, Time32SecondArray, Time64MicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Int32Type, TimeUnit};
use half::f16;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_lab::compression::Column;

/// More than a page and a batch of the smaller schemes.
const ROWS: usize = 1_300;

fn random() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(11)
}

/// Numbers of all sizes, extremes among them.
fn longs() -> Vec<i64> {
    let mut random = random();
    let mut values: Vec<i64> = (0..ROWS).map(|_| random.random::<i64>() >> random.random_range(0..63)).collect();
    values.extend([i64::MIN, i64::MAX, 0, -1, 1, i64::MIN, i64::MAX]);
    values
}

fn doubles() -> Vec<f64> {
    let mut random = random();
    let mut values: Vec<f64> = (0..ROWS).map(|_| f64::from_bits(random.random())).collect();
    values.extend([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::MIN]);
    values.extend([0x7ff8_0000_0000_0001, 0xfff8_0000_0000_0000, 0x7ff0_0000_0000_0001].map(f64::from_bits));
    values
}

fn texts() -> Vec<String> {
    let mut random = random();
    let mut values: Vec<String> = (0..ROWS).map(|_| "añ€😀x".repeat(random.random_range(0..4))).collect();
    values.extend(["", "\0", "a\0b", "\u{10ffff}"].map(str::to_owned));
    values.push("long ".repeat(5_000));
    values
}

fn arrays() -> Vec<(&'static str, ArrayRef)> {
    let longs = longs();
    let doubles = doubles();
    let texts = texts();
    let cents = || longs.iter().map(|n| (n % 1_000_000) as f64 / 100.0);
    let low = |n: &i64| *n as i32;
    let bytes: Vec<[u8; 12]> = longs.iter().map(|n| std::array::from_fn(|at| n.to_le_bytes()[at % 8])).collect();
    let coded: DictionaryArray<Int32Type> = texts
        .iter()
        .map(|text| text.chars().next().map(String::from))
        .map(Option::unwrap_or_default)
        .collect::<Vec<_>>()
        .iter()
        .map(String::as_str)
        .collect();
    vec![
        ("booleans", Arc::new(longs.iter().map(|n| Some(n % 3 == 0)).collect::<BooleanArray>())),
        ("i8", Arc::new(Int8Array::from_iter_values(longs.iter().map(|n| *n as i8)))),
        ("i16", Arc::new(Int16Array::from_iter_values(longs.iter().map(|n| *n as i16)))),
        ("i32", Arc::new(Int32Array::from_iter_values(longs.iter().map(low)))),
        ("i64", Arc::new(Int64Array::from(longs.clone()))),
        ("u8", Arc::new(UInt8Array::from_iter_values(longs.iter().map(|n| *n as u8)))),
        ("u16", Arc::new(UInt16Array::from_iter_values(longs.iter().map(|n| *n as u16)))),
        ("u32", Arc::new(UInt32Array::from_iter_values(longs.iter().map(|n| *n as u32)))),
        ("u64", Arc::new(UInt64Array::from_iter_values(longs.iter().map(|n| *n as u64)))),
        ("f16", Arc::new(Float16Array::from_iter_values(longs.iter().map(|n| f16::from_bits(*n as u16))))),
        ("f32", Arc::new(Float32Array::from_iter_values(longs.iter().map(|n| f32::from_bits(*n as u32))))),
        ("f64", Arc::new(Float64Array::from(doubles))),
        ("prices", Arc::new(Float64Array::from_iter_values(cents()))),
        ("prices in f32", Arc::new(Float32Array::from_iter_values(cents().map(|x| x as f32)))),
        ("prices and -0", Arc::new(Float64Array::from_iter_values(cents().chain([-0.0])))),
        ("prices and NaN", Arc::new(Float64Array::from_iter_values(cents().chain([f64::NAN])))),
        ("large and small", Arc::new(Float64Array::from_iter_values([1e18, 0.1, 1e-9, 123_456_789_012.25, 9e15]))),
        ("dates", Arc::new(Date32Array::from_iter_values(longs.iter().map(low)))),
        ("dates in ms", Arc::new(Date64Array::from_iter_values(longs.iter().map(|n| n % 100_000 * 86_400_000)))),
        ("seconds", Arc::new(Time32SecondArray::from_iter_values(longs.iter().map(|n| (n % 86_400).abs() as i32)))),
        ("micros", Arc::new(Time64MicrosecondArray::from_iter_values(longs.iter().map(|n| (n % 86_400).abs())))),
        ("durations", Arc::new(DurationNanosecondArray::from(longs.clone()))),
        ("times", Arc::new(TimestampNanosecondArray::from(longs.clone()).with_timezone("UTC"))),
        ("times in ms", Arc::new(TimestampMillisecondArray::from(longs.clone()))),
        ("decimals", Arc::new(Decimal128Array::from_iter_values(longs.iter().map(|n| i128::from(*n) * 997)))),
        ("bytes", Arc::new(FixedSizeBinaryArray::try_from_iter(bytes.iter()).unwrap())),
        ("texts", Arc::new(StringArray::from(texts.clone()))),
        (
            "texts without zeros",
            Arc::new(StringArray::from_iter_values(texts.iter().map(|text| text.replace('\0', "")))),
        ),
        ("large texts", Arc::new(LargeStringArray::from(texts.clone()))),
        ("views", Arc::new(StringViewArray::from_iter_values(&texts))),
        ("binaries", Arc::new(BinaryArray::from_iter_values(texts.iter().map(String::as_bytes)))),
        ("symbols", Arc::new(coded)),
    ]
}

/// The array with nulls in it, which hide values.
fn with_nulls(values: &ArrayRef) -> ArrayRef {
    let is_null = BooleanArray::from_iter((0..values.len()).map(|row| Some(row % 7 == 3 || row < 2)));
    arrow::compute::nullif(values, &is_null).unwrap()
}

fn column(name: &str, values: &ArrayRef) -> Column {
    Column::new(name, values).unwrap()
}

/// Each type: as it is, with nulls, nulls alone, a part of it, one row, and no row.
pub fn all() -> Vec<Column> {
    let mut columns = Vec::new();
    for (name, values) in arrays() {
        let values = if name == "symbols" { cast(&values, &DataType::Utf8).unwrap() } else { values };
        let nulls = with_nulls(&values);
        let none = arrow::array::new_null_array(values.data_type(), 9);
        columns.push(column(name, &values));
        columns.push(column(&format!("{name} with nulls"), &nulls));
        columns.push(column(&format!("{name}, part"), &nulls.slice(1, nulls.len() - 2)));
        columns.push(column(&format!("{name}, nulls"), &none));
        columns.push(column(&format!("{name}, one"), &values.slice(0, 1)));
        columns.push(column(&format!("{name}, two"), &values.slice(0, 2)));
        columns.push(column(&format!("{name}, empty"), &values.slice(0, 0)));
        let same = vec![values.slice(values.len() - 1, 1); 300];
        columns.push(column(
            &format!("{name}, same"),
            &concat(&same.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap(),
        ));
    }
    columns
}

/// Columns of few rows.
pub fn small() -> Vec<Column> {
    let names = ["booleans", "i32", "f64", "prices", "times", "texts without zeros", "texts"];
    let values = arrays().into_iter().filter(|(name, _)| names.contains(name));
    values
        .flat_map(|(name, values)| {
            [values.slice(0, 40), with_nulls(&values.slice(0, 90))].map(|part| column(name, &part))
        })
        .collect()
}

/// Bit for bit, with nulls in the same rows.
pub fn assert_same(column: &Column, pieces: &[ArrayRef], scheme: &str) {
    let rows: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert_eq!(rows, column.rows(), "{scheme}, {}", column.name());
    let mut start = 0;
    for piece in pieces {
        let expected = column.values().slice(start, piece.len());
        assert_eq!(piece.to_data(), expected.to_data(), "{scheme}, {}", column.name());
        start += piece.len();
        if let Some(floats) = piece.as_any().downcast_ref::<Float64Array>() {
            let bits =
                |values: &Float64Array| -> Vec<Option<u64>> { values.iter().map(|x| x.map(f64::to_bits)).collect() };
            assert_eq!(bits(floats), bits(expected.as_any().downcast_ref().unwrap()), "{scheme}, {}", column.name());
        }
    }
}

#[test]
fn lists_and_structures_are_refused() {
    let lists = arrow::array::ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let refused = Column::new("books", &(Arc::new(lists) as ArrayRef));
    assert!(matches!(refused, Err(splay_lab::Error::Unsupported { .. })), "{refused:?}");
}

#[test]
fn codes_are_turned_into_texts() {
    let coded: DictionaryArray<Int32Type> = ["IBM", "AIG", "IBM"].into_iter().collect();
    let column = column("sym", &(Arc::new(coded) as ArrayRef));
    assert_eq!((column.data_type(), column.q_type(), column.rows()), (&DataType::Utf8, 11, 3));
    assert_eq!(column.plain_bytes().unwrap(), 12);
    let times = TimestampNanosecondArray::from(vec![1]);
    let column = Column::new("time", &(Arc::new(times) as ArrayRef)).unwrap();
    assert_eq!((column.data_type(), column.q_type()), (&DataType::Timestamp(TimeUnit::Nanosecond, None), 12));
}
