//! Rows as CSV.
//!
//! - A null is nothing between its commas and an empty text is two quotes, so that a reader can tell them apart.
//! - A null that is the only field of its row is two quotes, too: readers take an empty line for no row.
//! - Lists of a fixed number of values, as the levels of a book are, are as many columns, `bid_px_0` to `bid_px_9`, as a load reads them.
//! - A field with a comma, a quote or an end of a line in it stands in quotes; rows end with a line feed.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Bytes of rows that are written at once.
const WRITE_BYTES: usize = 1 << 16;

/// The columns of a schema with a column for each value of lists of a fixed size.
#[must_use]
pub fn csv_schema(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().flat_map(|field| match field.data_type() {
        DataType::FixedSizeList(value, size) => {
            let column = |place| {
                Arc::new(value.as_ref().clone().with_name(format!("{}_{place}", field.name())).with_nullable(true))
            };
            (0..*size).map(column).collect()
        }
        _ => vec![Arc::clone(field)],
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Rows with a column for each value of lists of a fixed size.
///
/// # Errors
/// Those of Arrow, if memory runs out.
pub fn csv_batch(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(|column| matches!(column.data_type(), DataType::FixedSizeList(..))) {
        return Ok(batch.clone());
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for column in batch.columns() {
        let Some(lists) = column.as_fixed_size_list_opt() else {
            columns.push(Arc::clone(column));
            continue;
        };
        let (rows, size) = (lists.len() as u64, u64::try_from(lists.value_length()).unwrap_or(0));
        for place in 0..size {
            let value = |row: u64| (!lists.is_null(usize::try_from(row).unwrap_or(0))).then_some(row * size + place);
            let values: UInt64Array = (0..rows).map(value).collect();
            columns.push(take(lists.values(), &values, None)?);
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(csv_schema(&batch.schema())), columns, &options)
}

/// Writes the names of the columns as a row.
///
/// # Errors
/// Those of the sink.
pub fn write_csv_names(schema: &Schema, sink: &mut dyn Write) -> Result<(), ArrowError> {
    let mut line = Vec::new();
    for (place, field) in schema.fields().iter().enumerate() {
        begin_field(place, &mut line);
        push_text(field.name(), &mut line);
    }
    line.push(b'\n');
    Ok(sink.write_all(&line)?)
}

/// Writes rows of [`csv_batch`]. Other lists, structs and maps have to be texts already.
///
/// # Errors
/// [`ArrowError::CsvError`] for a nested column; those of the sink.
pub fn write_csv_rows(batch: &RecordBatch, sink: &mut dyn Write) -> Result<(), ArrowError> {
    let options = FormatOptions::default();
    let mut columns = Vec::with_capacity(batch.num_columns());
    for column in batch.columns() {
        if column.data_type().is_nested() {
            return Err(ArrowError::CsvError(format!("CSV has no fields of type {}", column.data_type())));
        }
        columns.push((ArrayFormatter::try_new(column.as_ref(), &options)?, column.logical_nulls()));
    }
    let (mut lines, mut text) = (Vec::new(), String::new());
    for row in 0..batch.num_rows() {
        for (place, (values, nulls)) in columns.iter().enumerate() {
            begin_field(place, &mut lines);
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            if is_null && columns.len() > 1 {
                continue;
            }
            text.clear();
            if !is_null {
                values.value(row).write(&mut text)?;
            }
            push_text(&text, &mut lines);
        }
        lines.push(b'\n');
        if lines.len() >= WRITE_BYTES {
            sink.write_all(&lines)?;
            lines.clear();
        }
    }
    Ok(sink.write_all(&lines)?)
}

fn begin_field(place: usize, line: &mut Vec<u8>) {
    if place > 0 {
        line.push(b',');
    }
}

/// A text that isn't null.
fn push_text(text: &str, line: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    if !bytes.is_empty() && !bytes.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        line.extend_from_slice(bytes);
        return;
    }
    line.push(b'"');
    for part in bytes.split_inclusive(|byte| *byte == b'"') {
        line.extend_from_slice(part);
        if part.last() == Some(&b'"') {
            line.push(b'"');
        }
    }
    line.push(b'"');
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{DictionaryArray, FixedSizeListArray, Float64Array, ListArray, StringArray};
    use arrow::datatypes::{Float64Type, Int32Type};

    use super::*;

    fn written(columns: Vec<(&str, ArrayRef)>) -> String {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
                .unwrap();
        let mut bytes = Vec::new();
        write_csv_names(&batch.schema(), &mut bytes).unwrap();
        write_csv_rows(&batch, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn an_empty_text_is_no_null() {
        let texts = || Arc::new(StringArray::from(vec![Some("a"), Some(""), None, Some("b,\"c\"\n")])) as ArrayRef;
        let symbols: DictionaryArray<Int32Type> = vec![Some(""), None, Some("x"), Some("x")].into_iter().collect();
        let numbers = Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN), Some(-2.0)])) as ArrayRef;
        assert_eq!(
            written(vec![("n", numbers), ("a,b", texts()), ("s", Arc::new(symbols))]),
            "n,\"a,b\",s\n1.5,a,\"\"\n,\"\",\nNaN,,x\n-2.0,\"b,\"\"c\"\"\n\",x\n"
        );
        assert_eq!(written(vec![("t", texts())]), "t\na\n\"\"\n\"\"\n\"b,\"\"c\"\"\n\"\n", "no empty lines");
    }

    #[test]
    fn levels_are_columns() {
        let lists = [Some(vec![Some(1.5), None]), None, Some(vec![Some(2.0), Some(3.0)])];
        let levels = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(lists, 2);
        let numbers = Arc::new(Float64Array::from(vec![7.0, 8.0, 9.0])) as ArrayRef;
        let all = RecordBatch::try_from_iter([("px", Arc::new(levels) as ArrayRef), ("n", numbers)]).unwrap();
        let mut bytes = Vec::new();
        write_csv_names(&csv_schema(&all.schema()), &mut bytes).unwrap();
        write_csv_rows(&csv_batch(&all.slice(0, 2)).unwrap(), &mut bytes).unwrap();
        write_csv_rows(&csv_batch(&all.slice(2, 1)).unwrap(), &mut bytes).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "px_0,px_1,n\n1.5,,7.0\n,,8.0\n2.0,3.0,9.0\n");
    }

    #[test]
    fn nested_values_are_refused() {
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(1.0)])]);
        let batch = RecordBatch::try_from_iter([("x", Arc::new(lists) as ArrayRef)]).unwrap();
        assert!(
            write_csv_rows(&batch, &mut Vec::new()).unwrap_err().to_string().contains("CSV has no fields of type List")
        );
    }
}
