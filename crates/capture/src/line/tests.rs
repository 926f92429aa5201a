//! The rules, one test each; then cuts, hostile bytes.

mod clients;
mod hostile;
mod rules;
mod types;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::{LineDecoder, LineError, LineRows, LineSettings};

const NOW: i64 = 1_700_000_000_000_000_000;

/// All that a body of lines gives.
fn decode(bytes: &[u8]) -> (Vec<LineRows>, Vec<LineError>) {
    decode_with(LineSettings::default(), bytes)
}

fn decode_with(settings: LineSettings, bytes: &[u8]) -> (Vec<LineRows>, Vec<LineError>) {
    let mut decoder = LineDecoder::new(settings);
    assert_eq!(decoder.push(bytes, NOW), bytes.len());
    assert!(decoder.finish(NOW));
    let batches = decoder.take();
    let errors = decoder.take_errors();
    assert_eq!(decoder.accepted(), batches.iter().map(|batch| batch.lines).sum::<u64>());
    assert_eq!(decoder.refused(), errors.len() as u64);
    for batch in &batches {
        check(batch);
    }
    (batches, errors)
}

/// What holds for every batch.
fn check(batch: &LineRows) {
    batch.spec.validate().unwrap();
    assert_eq!(batch.lines, batch.rows.num_rows() as u64);
    assert_eq!(batch.rows.column(0).null_count(), 0);
    for column in batch.rows.columns() {
        column.to_data().validate_full().unwrap();
    }
    for field in batch.rows.schema().fields() {
        let position = batch.spec.position(field.name()).unwrap();
        assert_eq!(&batch.spec.columns[position].column_type.arrow(), field.data_type());
    }
}

/// The one table of lines that are all good.
fn table(text: &str) -> LineRows {
    let (mut batches, errors) = decode(text.as_bytes());
    assert_eq!(errors, [], "{text}");
    assert_eq!(batches.len(), 1, "{text}");
    batches.remove(0)
}

/// The reason for which one line is refused.
fn reason(line: &[u8]) -> String {
    let (batches, errors) = decode(line);
    assert!(batches.is_empty(), "{:?}", line.escape_ascii().to_string());
    assert_eq!(errors.len(), 1);
    errors[0].reason.to_string()
}

/// A column's values as text; null is `-`.
fn column(rows: &RecordBatch, name: &str) -> Vec<String> {
    let array = rows.column_by_name(name).unwrap_or_else(|| panic!("no column {name} in {:?}", rows.schema()));
    let options = FormatOptions::default().with_null("-");
    let format = ArrayFormatter::try_new(array, &options).unwrap();
    (0..array.len())
        .map(|i| match array.data_type() {
            DataType::Timestamp(_, _) if array.is_valid(i) => {
                array.as_primitive::<TimestampNanosecondType>().value(i).to_string()
            }
            _ => format.value(i).to_string(),
        })
        .collect()
}

fn names(rows: &RecordBatch) -> Vec<String> {
    rows.schema().fields().iter().map(|field| field.name().clone()).collect()
}
