//! Every line that both the crate influxdb-line-protocol and we accept gives the same row.
//!
//! Left out, since we decide otherwise on purpose: lines with equal names (the crate keeps both), and a backslash before a line feed (it
//! is an escape in quotes, too; the crate keeps it).

#![no_main]

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, TimestampNanosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use influxdb_line_protocol::{FieldValue, ParsedLine, parse_lines};
use libfuzzer_sys::fuzz_target;
use splay_capture::line::{LineDecoder, LineSettings};

const NOW: i64 = 1_700_000_000_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        compare(text);
    }
});

/// Name and text of each value in the line, in order.
fn values(line: &ParsedLine<'_>) -> Vec<(String, String)> {
    let tags = line.series.tag_set.iter().flatten().map(|(name, value)| (name.to_string(), value.to_string()));
    let fields = line.field_set.iter().map(|(name, value)| {
        let value = match value {
            FieldValue::I64(value) => value.to_string(),
            FieldValue::U64(value) => value.to_string(),
            FieldValue::F64(value) => value.to_bits().to_string(),
            FieldValue::String(value) => value.to_string(),
            FieldValue::Boolean(value) => value.to_string(),
        };
        (name.to_string(), value)
    });
    tags.chain(fields).collect()
}

fn compare(text: &str) {
    if text.contains("\\\n") || text.contains("\\\r") {
        return;
    }
    let Some(Ok(parsed)) = parse_lines(text).next() else { return };
    let values = values(&parsed);
    let mut seen = std::collections::HashSet::new();
    if !values.iter().all(|(name, _)| seen.insert(name.to_ascii_lowercase())) || seen.contains("time") {
        return;
    }
    let mut decoder = LineDecoder::new(LineSettings::default());
    if decoder.push(text.as_bytes(), NOW) < text.len() || !decoder.finish(NOW) {
        return;
    }
    let batches = decoder.take();
    let [batch] = batches.as_slice() else { return };
    if decoder.refused() > 0 || batch.lines != 1 {
        return;
    }
    if splay_store::validate_name("table", &parsed.series.measurement).is_ok() {
        assert_eq!(parsed.series.measurement, batch.table.as_str(), "{text:?}");
    }
    assert_eq!(texts(&batch.rows, "time"), [parsed.timestamp.unwrap_or(NOW).to_string()], "{text:?}");
    for (name, value) in &values {
        let array = batch.rows.column_by_name(name).unwrap_or_else(|| panic!("{name:?} is missing: {text:?}"));
        let got = match array.data_type() {
            DataType::Float64 => array.as_primitive::<Float64Type>().value(0).to_bits().to_string(),
            _ => texts(&batch.rows, name).concat(),
        };
        assert_eq!(&got, value, "{name:?} of {text:?}");
    }
    assert_eq!(batch.rows.num_columns(), values.len() + 1, "{text:?}");
}

/// A column's values as text.
fn texts(rows: &RecordBatch, name: &str) -> Vec<String> {
    let Some(array) = rows.column_by_name(name) else { return Vec::new() };
    let options = FormatOptions::default();
    let Ok(format) = ArrayFormatter::try_new(array, &options) else { return Vec::new() };
    (0..array.len())
        .map(|row| match array.data_type() {
            DataType::Timestamp(_, _) => array.as_primitive::<TimestampNanosecondType>().value(row).to_string(),
            _ => format.value(row).to_string(),
        })
        .collect()
}
