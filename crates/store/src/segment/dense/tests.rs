//! Every bit comes back, also of values that no load admits.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int32Type, UInt32Type, UInt64Type};

use crate::schema::{ColumnSpec, ColumnType, TableSpec};
use crate::segment::Segment;
use crate::tier::Tier;

/// Rows with these columns behind their time.
fn table(columns: &[(ColumnType, ArrayRef)]) -> (TableSpec, RecordBatch) {
    let rows = columns[0].1.len();
    let times = TimestampNanosecondArray::from_iter_values((0..).take(rows));
    let mut specs = vec![ColumnSpec::new("time", ColumnType::Timestamp)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(times.with_timezone("UTC"))];
    for (number, (column_type, array)) in columns.iter().enumerate() {
        specs.push(ColumnSpec::new(format!("c{number}"), column_type.clone()));
        arrays.push(Arc::clone(array));
    }
    let spec = TableSpec::new("t", specs, "time", None);
    let batch = RecordBatch::try_new(spec.arrow(), arrays).unwrap();
    (spec, batch)
}

/// Floats as their bits, coded texts as texts.
fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, UInt64Type>(f64::to_bits)),
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, UInt32Type>(f32::to_bits)),
        DataType::Dictionary(..) => cast(array, &DataType::Utf8).unwrap(),
        _ => Arc::clone(array),
    }
}

/// Values that encodings fall for: NaNs of any payload, both zeros, infinities, denormals, extremes, empty texts, nulls within lists.
#[test]
fn extremes_come_back_bit_for_bit() {
    let bits = [
        0x7ff8_0000_0000_0000_u64,
        0xfff8_0000_0000_0001,
        0x7ff0_0000_0000_0001,
        0x7fff_ffff_ffff_ffff,
        0,
        1 << 63,
        1,
        0x000f_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x3ff0_0000_0000_0000,
    ];
    for (rows, nulls) in [(0, false), (1, false), (24, false), (24, true), (8193, true)] {
        let is_null = |row: usize| nulls && row % 5 == 1;
        let all = |row: usize| bits[row % bits.len()];
        let doubles = (0..rows).map(|row| (!is_null(row)).then(|| f64::from_bits(all(row))));
        #[expect(clippy::cast_possible_truncation, reason = "the upper half of the bits, which has the exponent")]
        let singles =
            (0..rows).map(|row| (!is_null(row)).then(|| f32::from_bits((all(row) >> 32) as u32 | all(row) as u32 & 1)));
        let signed = [i64::MIN, i64::MAX, -1, 0, 1, i64::MIN + 1];
        let signed = (0..rows).map(|row| (!is_null(row)).then(|| signed[row % signed.len()]));
        let unsigned = [u64::MAX, 0, 1 << 63, 1, u64::MAX - 1];
        let unsigned = (0..rows).map(|row| (!is_null(row)).then(|| unsigned[row % unsigned.len()]));
        let wide = [10_i128.pow(38) - 1, -(10_i128.pow(38) - 1), 0, i128::from(i64::MAX) + 1, -1];
        let wide: Decimal128Array = (0..rows).map(|row| (!is_null(row)).then(|| wide[row % wide.len()])).collect();
        let texts = (0..rows).map(|row| (!is_null(row)).then(|| ["", "\0", "ÖMV", "a", "\u{10ffff}"][row % 5]));
        let long = (0..rows).map(|row| (!is_null(row)).then(|| format!("{row} {}", "x".repeat(row % 300))));
        let items = (0..rows * 3).map(|item| (item % 7 != 2).then(|| f64::from_bits(all(item))));
        let item = Arc::new(Field::new("item", DataType::Float64, true));
        let items = Arc::new(items.collect::<Float64Array>());
        let valid: BooleanArray = (0..rows).map(|row| Some(!is_null(row))).collect();
        let valid = nulls.then(|| arrow::buffer::NullBuffer::new(valid.values().clone()));
        let columns: Vec<(ColumnType, ArrayRef)> = vec![
            (ColumnType::Float64, Arc::new(doubles.collect::<Float64Array>())),
            (ColumnType::Float32, Arc::new(singles.collect::<Float32Array>())),
            (ColumnType::Int64, Arc::new(signed.collect::<Int64Array>())),
            (ColumnType::UInt64, Arc::new(unsigned.collect::<UInt64Array>())),
            (ColumnType::Decimal { precision: 38, scale: 3 }, Arc::new(wide.with_precision_and_scale(38, 3).unwrap())),
            (ColumnType::Text, Arc::new(texts.clone().collect::<StringArray>())),
            (ColumnType::Text, Arc::new(long.collect::<StringArray>())),
            (ColumnType::Symbol, Arc::new(texts.collect::<DictionaryArray<Int32Type>>())),
            (ColumnType::Levels { size: 3 }, Arc::new(FixedSizeListArray::new(item, 3, items, valid))),
        ];
        let (spec, batch) = table(&columns);
        let segment = Segment::encoded(&spec, &batch, Tier::Dense, &Arc::default()).unwrap();
        for (number, (column_type, array)) in columns.iter().enumerate() {
            let read = segment.column(&spec, number + 1).unwrap().read(0..rows).unwrap();
            let (read, array) = match column_type {
                ColumnType::Levels { .. } => (levels(&read), levels(array)),
                _ => (plain(&read), plain(array)),
            };
            assert_eq!(&read, &array, "{column_type} {rows} rows");
        }
    }
}

/// Levels as the bits of their items, of which those of a null list don't count.
fn levels(array: &ArrayRef) -> ArrayRef {
    let lists = array.as_any().downcast_ref::<FixedSizeListArray>().unwrap();
    let size = lists.value_length() as usize;
    let items = plain(lists.values());
    let rows = (0..items.len() as u32).map(|item| lists.is_valid(item as usize / size).then_some(item));
    take(&items, &rows.collect::<UInt32Array>(), None).unwrap()
}
