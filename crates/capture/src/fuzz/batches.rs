//! Tables and rows made out of any bytes.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
    StringArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, IntervalUnit, Schema, TimeUnit};
use splay_mutate::Bytes;
use splay_store::{ColumnSpec, ColumnType, TableSpec};

/// Names of columns; few, so that those of rows and tables meet.
const NAMES: [&str; 6] = ["time", "sym", "a", "B", "c", "d"];

/// Texts with what goes wrong in texts.
const TEXTS: [&str; 8] = ["", "IBM", "AAPL", "ä\u{1f980}", "0", "1.5", "true", "2024-03-10T00:00:00Z"];

/// A table whose time is its first column.
pub(super) fn table(bytes: &mut Bytes<'_>) -> TableSpec {
    let mut columns = vec![ColumnSpec::new("time", ColumnType::Timestamp)];
    let has_symbol = !bytes.one_in(4);
    if has_symbol {
        columns.push(ColumnSpec::new("sym", ColumnType::Symbol));
    }
    for name in &NAMES[2..2 + bytes.below(NAMES.len() - 1)] {
        columns.push(ColumnSpec::new(*name, column_type(bytes)));
    }
    TableSpec::new("t", columns, "time", has_symbol.then_some("sym"))
}

fn column_type(bytes: &mut Bytes<'_>) -> ColumnType {
    let types = [
        ColumnType::Bool,
        ColumnType::Int8,
        ColumnType::Int16,
        ColumnType::Int32,
        ColumnType::Int64,
        ColumnType::UInt8,
        ColumnType::UInt16,
        ColumnType::UInt32,
        ColumnType::UInt64,
        ColumnType::Float32,
        ColumnType::Float64,
        ColumnType::Decimal { precision: 38, scale: 4 },
        ColumnType::Decimal { precision: 1, scale: 0 },
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Timestamp,
        ColumnType::Symbol,
        ColumnType::Text,
        ColumnType::Levels { size: 1 },
        ColumnType::Levels { size: 3 },
    ];
    bytes.pick(&types).clone()
}

/// Rows of a table, as capture holds them.
pub(super) fn rows_of(spec: &TableSpec, bytes: &mut Bytes<'_>) -> RecordBatch {
    let (schema, rows) = (spec.arrow(), bytes.below(12));
    let columns = schema.fields().iter().map(|field| {
        let column = column(field.data_type(), rows, bytes);
        if field.is_nullable() || column.null_count() == 0 {
            return column;
        }
        let times = (0..rows).map(|_| bytes.number().cast_signed());
        cast(&Int64Array::from_iter_values(times), field.data_type()).unwrap_or(column)
    });
    let columns = columns.collect();
    RecordBatch::try_new(Arc::clone(&schema), columns).unwrap_or_else(|_| RecordBatch::new_empty(schema))
}

/// Rows as any sender may send them.
pub(super) fn any_rows(bytes: &mut Bytes<'_>) -> RecordBatch {
    let (rows, columns) = (bytes.below(12), bytes.below(NAMES.len() + 1));
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for _ in 0..columns {
        let name = bytes.pick(&NAMES).to_ascii_lowercase();
        let data_type = if name == "time" && !bytes.one_in(4) { time_type(bytes) } else { data_type(bytes) };
        let column = column(&data_type, rows, bytes);
        fields.push(Field::new(name, column.data_type().clone(), true));
        arrays.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)
        .unwrap_or_else(|_| RecordBatch::new_empty(schema))
}

fn time_type(bytes: &mut Bytes<'_>) -> DataType {
    let units = [TimeUnit::Nanosecond, TimeUnit::Microsecond, TimeUnit::Millisecond, TimeUnit::Second];
    let zones = [Some("UTC"), None, Some("+02:00"), Some("Europe/Zurich"), Some("nowhere")];
    DataType::Timestamp(*bytes.pick(&units), bytes.pick(&zones).map(Into::into))
}

fn data_type(bytes: &mut Bytes<'_>) -> DataType {
    use DataType as D;
    let plain = [
        D::Null,
        D::Boolean,
        D::Int8,
        D::Int16,
        D::Int32,
        D::Int64,
        D::UInt8,
        D::UInt16,
        D::UInt32,
        D::UInt64,
        D::Float16,
        D::Float32,
        D::Float64,
        D::Decimal32(9, 2),
        D::Decimal64(18, 0),
        D::Decimal128(38, 10),
        D::Decimal128(5, 5),
        D::Decimal256(76, 4),
        D::Date32,
        D::Date64,
        D::Time32(TimeUnit::Second),
        D::Time32(TimeUnit::Millisecond),
        D::Time64(TimeUnit::Microsecond),
        D::Time64(TimeUnit::Nanosecond),
        D::Duration(TimeUnit::Nanosecond),
        D::Interval(IntervalUnit::MonthDayNano),
        D::Utf8,
        D::LargeUtf8,
        D::Utf8View,
        D::Binary,
        D::BinaryView,
    ];
    match bytes.below(8) {
        0 => time_type(bytes),
        1 | 2 => {
            let keys = [D::Int8, D::UInt8, D::Int16, D::UInt16, D::Int32, D::UInt32, D::Int64, D::UInt64];
            let values = [D::Utf8, D::LargeUtf8, D::Utf8View, D::Int64, D::Float64];
            D::Dictionary(Box::new(bytes.pick(&keys).clone()), Box::new(bytes.pick(&values).clone()))
        }
        3 => {
            let items = [D::Float64, D::Float32, D::Int32, D::UInt64];
            let item = Field::new(*bytes.pick(&["item", "element"]), bytes.pick(&items).clone(), true);
            D::FixedSizeList(Arc::new(item), *bytes.pick(&[1, 3]))
        }
        4 => D::List(Arc::new(Field::new("item", D::Int64, true))),
        _ => bytes.pick(&plain).clone(),
    }
}

/// A column of any values; all null where there is no way to make some.
fn column(data_type: &DataType, rows: usize, bytes: &mut Bytes<'_>) -> ArrayRef {
    if let DataType::FixedSizeList(item, size) = data_type {
        let items = column(item.data_type(), rows * usize::try_from(*size).unwrap_or(0), bytes);
        let nulls = (bytes.one_in(4)).then(|| (0..rows).map(|_| bytes.one_in(2)).collect());
        let list = FixedSizeListArray::try_new(Arc::clone(item), *size, items, nulls);
        return list.map_or_else(|_| new_null_array(data_type, rows), |list| Arc::new(list));
    }
    let made: ArrayRef = match (data_type, bytes.below(4)) {
        (DataType::Dictionary(_, _), 0..=2) => dictionary(rows, bytes),
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, _) | (_, 0) => Arc::new(texts(rows, bytes)),
        (_, 1) => Arc::new((0..rows).map(|_| float(bytes)).collect::<Float64Array>()),
        _ => Arc::new((0..rows).map(|_| whole(bytes)).collect::<Int64Array>()),
    };
    cast(&made, data_type).unwrap_or_else(|_| new_null_array(data_type, rows))
}

/// Texts by code: some twice, some null, some without a row.
fn dictionary(rows: usize, bytes: &mut Bytes<'_>) -> ArrayRef {
    let values = texts(1 + bytes.below(6), bytes);
    let count = values.len();
    let key = |bytes: &mut Bytes<'_>| (!bytes.one_in(8)).then(|| i32::try_from(bytes.below(count)).unwrap_or(0));
    let keys = (0..rows).map(|_| key(bytes)).collect();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values)))
}

fn texts(rows: usize, bytes: &mut Bytes<'_>) -> StringArray {
    let text = |bytes: &mut Bytes<'_>| match bytes.below(12) {
        0 => None,
        1 => Some(String::from_utf8_lossy(bytes.take(3)).into_owned()),
        _ => Some((*bytes.pick(&TEXTS)).to_owned()),
    };
    (0..rows).map(|_| text(bytes)).collect()
}

fn whole(bytes: &mut Bytes<'_>) -> Option<i64> {
    match bytes.below(6) {
        0 => None,
        1 => Some(bytes.number().cast_signed()),
        2 => Some(*bytes.pick(&[0, -1, i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1, 127, -128, 65_535])),
        _ => Some(i64::from(bytes.byte())),
    }
}

fn float(bytes: &mut Bytes<'_>) -> Option<f64> {
    match bytes.below(6) {
        0 => None,
        1 => Some(f64::from_bits(bytes.number())),
        2 => Some(*bytes.pick(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN, f64::EPSILON, 1e300, 16_777_217.0])),
        _ => Some(f64::from(bytes.byte()) / 4.0),
    }
}
