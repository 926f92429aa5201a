//! Random tables: any schema, any values, any batches, and the order in which the store has to give them back.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeListArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    Time64NanosecondArray, TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array, UInt64Builder,
};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int32Type, TimestampNanosecondType};
use chrono::DateTime;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use splay_store::{ColumnSpec, ColumnType, TableSpec, days};

use crate::model::DAY;

const ZONES: [&str; 8] = [
    "UTC",
    "America/New_York",
    "Asia/Tokyo",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "America/St_Johns",
    "Asia/Kolkata",
    "Africa/Monrovia",
];
const TEXTS: [&str; 8] = ["", "A", "AA", "Ä", "AAPL", "a", "naïve 漢字", "zzz"];

/// A table with a column of almost every type, in any order.
pub(crate) fn spec(rng: &mut ChaCha8Rng, symbol: bool) -> TableSpec {
    let mut types = vec![ColumnType::Timestamp];
    if symbol {
        types.push(ColumnType::Symbol);
    }
    for _ in 0..rng.random_range(0..8) {
        types.push(column_type(rng));
    }
    let mut columns: Vec<ColumnSpec> =
        types.into_iter().enumerate().map(|(i, column_type)| ColumnSpec::new(format!("c{i}"), column_type)).collect();
    for place in (1..columns.len()).rev() {
        columns.swap(place, rng.random_range(0..=place));
    }
    TableSpec::new("t", columns, "c0", symbol.then_some("c1")).with_time_zone(*ZONES.choose(rng).unwrap())
}

fn column_type(rng: &mut ChaCha8Rng) -> ColumnType {
    use ColumnType as C;
    let types = [
        C::Bool,
        C::Int8,
        C::Int16,
        C::Int32,
        C::Int64,
        C::UInt8,
        C::UInt16,
        C::UInt32,
        C::UInt64,
        C::Float32,
        C::Float64,
        C::Decimal { precision: 38, scale: 0 },
        C::Decimal { precision: 9, scale: 4 },
        C::Date,
        C::Time,
        C::Timestamp,
        C::Symbol,
        C::Text,
        C::Levels { size: 1 },
        C::Levels { size: 5 },
    ];
    types.choose(rng).unwrap().clone()
}

/// A batch of a table; a quarter of the values are null, and times lie in few days around a base or at the ends of time.
pub(crate) fn batch(rng: &mut ChaCha8Rng, spec: &TableSpec, rows: usize, extremes: bool) -> RecordBatch {
    // Cut out of a larger one, so that arrays have offsets.
    let (before, behind) = (rng.random_range(0..10), rng.random_range(0..10));
    let total = before + rows + behind;
    let column = |column: &ColumnSpec| match column.name.as_str() {
        "c0" => times(rng, total, extremes),
        _ => values(rng, &column.column_type, total),
    };
    let columns = spec.columns.iter().map(column).collect();
    RecordBatch::try_new(spec.arrow(), columns).unwrap().slice(before, rows)
}

/// Clocks went back in St. John's and New York, at 00:01 and 02:00, in the night that these surround.
const BASE: i64 = 1_289_088_000_000_000_000;

fn times(rng: &mut ChaCha8Rng, rows: usize, extremes: bool) -> ArrayRef {
    let step = *[1, 1_000_000_000, 60_000_000_000].choose(rng).unwrap();
    let sorted = rng.random_bool(0.3);
    let one = |_| match rng.random_range(0..40) {
        0 if extremes => *[i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 0, -1].choose(rng).unwrap(),
        _ => BASE + rng.random_range(0..3) * DAY + rng.random_range(0..1440) * step,
    };
    let mut times: Vec<i64> = (0..rows).map(one).collect();
    if sorted {
        times.sort_unstable();
    }
    Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
}

fn values(rng: &mut ChaCha8Rng, column_type: &ColumnType, rows: usize) -> ArrayRef {
    use ColumnType as C;
    let mut null_rate = *[0.0, 0.25, 1.0].choose(rng).unwrap();
    if rows == 0 {
        null_rate = 0.0;
    }
    macro_rules! numbers {
        ($array:ty, $native:ty) => {
            Arc::new((0..rows).map(|_| maybe(rng, null_rate, integer::<$native>)).collect::<$array>())
        };
    }
    match column_type {
        C::Bool => Arc::new((0..rows).map(|_| maybe(rng, null_rate, |r| r.random_bool(0.5))).collect::<BooleanArray>()),
        C::Int8 => numbers!(Int8Array, i8),
        C::Int16 => numbers!(Int16Array, i16),
        C::Int32 => numbers!(Int32Array, i32),
        C::Int64 => numbers!(Int64Array, i64),
        C::UInt8 => numbers!(UInt8Array, u8),
        C::UInt16 => numbers!(UInt16Array, u16),
        C::UInt32 => numbers!(UInt32Array, u32),
        C::UInt64 => numbers!(UInt64Array, u64),
        C::Date => numbers!(Date32Array, i32),
        C::Float32 => {
            let value = |r: &mut ChaCha8Rng| f32::from(u8::try_from(r.random_range(0..200)).unwrap()) - 100.0;
            Arc::new((0..rows).map(|_| maybe(rng, null_rate, value)).collect::<Float32Array>())
        }
        C::Float64 => Arc::new((0..rows).map(|_| maybe(rng, null_rate, float)).collect::<Float64Array>()),
        C::Decimal { precision, scale } => {
            let value = |r: &mut ChaCha8Rng| i128::from(r.random_range(-999_999_999..=999_999_999_i64));
            let array = (0..rows).map(|_| maybe(rng, null_rate, value)).collect::<Decimal128Array>();
            Arc::new(array.with_precision_and_scale(*precision, *scale).unwrap())
        }
        C::Time => {
            let value = |r: &mut ChaCha8Rng| r.random_range(0..DAY);
            Arc::new((0..rows).map(|_| maybe(rng, null_rate, value)).collect::<Time64NanosecondArray>())
        }
        C::Timestamp => {
            let array: Vec<Option<i64>> = (0..rows).map(|_| maybe(rng, null_rate, integer::<i64>)).collect();
            Arc::new(TimestampNanosecondArray::from(array).with_timezone("UTC"))
        }
        C::Symbol => symbols(rng, rows, null_rate),
        C::Text => {
            let value = |r: &mut ChaCha8Rng| TEXTS.choose(r).unwrap().repeat(r.random_range(0..4));
            Arc::new((0..rows).map(|_| maybe(rng, null_rate, value)).collect::<StringArray>())
        }
        C::Levels { size } => {
            let items = values(rng, &C::Float64, rows * usize::try_from(*size).unwrap());
            let nulls: Vec<bool> = (0..rows).map(|_| !rng.random_bool(null_rate)).collect();
            let field = Arc::new(Field::new("item", DataType::Float64, true));
            Arc::new(FixedSizeListArray::new(field, *size, items, Some(nulls.into())))
        }
    }
}

/// A dictionary with repeated, unused and null entries.
fn symbols(rng: &mut ChaCha8Rng, rows: usize, null_rate: f64) -> ArrayRef {
    let count = rng.random_range(1..12_i32);
    let entries = (0..count).map(|_| maybe(rng, 0.1, |r| *TEXTS.choose(r).unwrap())).collect::<StringArray>();
    let keys = (0..rows).map(|_| maybe(rng, null_rate, |r| r.random_range(0..count))).collect::<Int32Array>();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(entries)))
}

fn maybe<T>(rng: &mut ChaCha8Rng, null_rate: f64, value: impl FnOnce(&mut ChaCha8Rng) -> T) -> Option<T> {
    (!rng.random_bool(null_rate)).then(|| value(rng))
}

/// Small ones, and the ends of the type.
fn integer<T: TryFrom<i128>>(rng: &mut ChaCha8Rng) -> T {
    let ends = [i128::from(i64::MIN), i128::from(i64::MAX), i128::from(u64::MAX), -128, 127, 255, -32768, 65535];
    let mut number = match rng.random_range(0..8) {
        0 => *ends.choose(rng).unwrap(),
        _ => rng.random_range(-50..50),
    };
    loop {
        match T::try_from(number) {
            Ok(value) => return value,
            Err(_) => number = rng.random_range(0..50),
        }
    }
}

fn float(rng: &mut ChaCha8Rng) -> f64 {
    let special =
        [f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, f64::MAX, 5e-324];
    if rng.random_bool(0.2) { *special.choose(rng).unwrap() } else { rng.random_range(-100.0..100.0) }
}

/// The rows of all batches in the store's order, and the date of each.
pub(crate) fn in_order(spec: &TableSpec, batches: &[RecordBatch]) -> (RecordBatch, Vec<i32>) {
    let plain: Vec<RecordBatch> = batches.iter().map(plain).collect();
    let all = concat_batches(&plain_schema(spec), &plain).unwrap();
    let times = all.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
    let symbols = spec.symbol_position().map(|position| all.column(position).as_string::<i32>());
    let zone: chrono_tz::Tz = spec.time_zone.parse().unwrap();
    let date = |row: usize| days(DateTime::from_timestamp_nanos(times.value(row)).with_timezone(&zone).date_naive());
    let symbol = |row: usize| symbols.and_then(|symbols| symbols.is_valid(row).then(|| symbols.value(row)));
    let mut order: Vec<usize> = (0..all.num_rows()).collect();
    order.sort_by_key(|row| (date(*row), symbol(*row), times.value(*row)));
    let mut rows = UInt64Builder::new();
    order.iter().for_each(|row| rows.append_value(*row as u64));
    let all = take_record_batch(&all, &rows.finish()).unwrap();
    let columns = all.columns().iter().map(with_one_nan).collect();
    (RecordBatch::try_new(all.schema(), columns).unwrap(), order.into_iter().map(date).collect())
}

/// A column as it is stored: of all NaN the one without a sign.
fn with_one_nan(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => Arc::new(
            column.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v }),
        ),
        DataType::Float32 => Arc::new(
            column.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v }),
        ),
        _ => Arc::clone(column),
    }
}

fn plain_schema(spec: &TableSpec) -> arrow::datatypes::SchemaRef {
    plain(&RecordBatch::new_empty(spec.arrow())).schema()
}

/// The same rows with text in place of dictionaries.
pub(crate) fn plain(batch: &RecordBatch) -> RecordBatch {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let is_symbol = matches!(field.data_type(), DataType::Dictionary(_, _));
        let data_type = if is_symbol { DataType::Utf8 } else { field.data_type().clone() };
        columns.push(if is_symbol { cast(column, &data_type).unwrap() } else { Arc::clone(column) });
        fields.push(Field::new(field.name(), data_type, field.is_nullable()));
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new_with_options(schema, columns, &options).unwrap()
}
