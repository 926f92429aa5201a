//! Arrow IPC files, which have one dictionary for each column.
//!
//! Batches of several segments or messages bring a dictionary each. Where a column has one, all batches are held, its dictionaries are
//! joined, and only then written; without such columns batches are written as they come.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use arrow::ipc::writer::FileWriter;

/// Writes a file of these batches.
pub fn write(sink: impl Write, schema: &SchemaRef, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<()> {
    let mut writer = FileWriter::try_new(sink, schema)?;
    if schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Dictionary(..))) {
        for batch in joined(&batches.collect::<Result<Vec<_>>>()?)? {
            writer.write(&batch)?;
        }
    } else {
        for batch in batches {
            writer.write(&batch?)?;
        }
    }
    Ok(writer.finish()?)
}

/// The same rows, with one dictionary for all batches of a column.
fn joined(batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let Some(first) = batches.first() else { return Ok(Vec::new()) };
    let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); batches.len()];
    for place in 0..first.num_columns() {
        let of_column: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(place)).collect();
        for (batch, column) in columns.iter_mut().zip(joined_column(&of_column)?) {
            batch.push(column);
        }
    }
    let batch = |(batch, columns): (&RecordBatch, Vec<ArrayRef>)| Ok(RecordBatch::try_new(batch.schema(), columns)?);
    batches.iter().zip(columns).map(batch).collect()
}

fn joined_column(batches: &[&ArrayRef]) -> Result<Vec<ArrayRef>> {
    match batches[0].data_type() {
        DataType::Dictionary(keys, values) if (&**keys, &**values) == (&DataType::Int32, &DataType::Utf8) => {
            Ok(joined_texts(batches)?)
        }
        DataType::Dictionary(..) => {
            let arrays: Vec<&dyn Array> = batches.iter().map(|array| array.as_ref()).collect();
            let (all, mut start) = (concat(&arrays)?, 0);
            let slice = |array: &&ArrayRef| {
                start += array.len();
                all.slice(start - array.len(), array.len())
            };
            Ok(batches.iter().map(slice).collect())
        }
        _ => Ok(batches.iter().map(|array| Arc::clone(array)).collect()),
    }
}

/// Each text once, in the order in which they come.
fn joined_texts(batches: &[&ArrayRef]) -> Result<Vec<ArrayRef>> {
    let mut codes: HashMap<&str, i32> = HashMap::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut keys: Vec<Int32Array> = Vec::new();
    for array in batches {
        let dictionary = array.as_dictionary::<Int32Type>();
        let mut new_codes: Vec<Option<i32>> = Vec::with_capacity(dictionary.values().len());
        for text in dictionary.values().as_string::<i32>() {
            let code = match text {
                Some(text) => Some(match codes.get(text) {
                    Some(code) => *code,
                    None => {
                        let code = i32::try_from(texts.len())?;
                        texts.push(text);
                        codes.insert(text, code);
                        code
                    }
                }),
                None => None,
            };
            new_codes.push(code);
        }
        let new_code = |key: Option<i32>| key.and_then(|key| new_codes[usize::try_from(key).ok()?]);
        keys.push(dictionary.keys().iter().map(new_code).collect());
    }
    let values = Arc::new(StringArray::from(texts));
    let array = |keys| Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(&values) as ArrayRef)?) as ArrayRef);
    keys.into_iter().map(array).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow::ipc::reader::FileReader;

    use super::*;

    #[test]
    fn batches_with_other_dictionaries_are_one_file() {
        let texts = [vec![Some("A"), None, Some("B")], vec![Some("C"), Some("B")], vec![], vec![None, Some("A")]];
        let batches: Vec<RecordBatch> = texts
            .iter()
            .map(|texts| {
                let symbols: DictionaryArray<Int32Type> = texts.iter().copied().collect();
                RecordBatch::try_from_iter_with_nullable([("sym", Arc::new(symbols) as ArrayRef, true)]).unwrap()
            })
            .collect();
        let mut file = Vec::new();
        write(&mut file, &batches[0].schema(), batches.into_iter().map(Ok)).unwrap();
        let mut batches_read = Vec::new();
        for batch in FileReader::try_new(std::io::Cursor::new(file), None).unwrap() {
            let batch = batch.unwrap();
            let symbols = batch.column(0).as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
            batches_read.extend(symbols.into_iter().map(|text| text.map(str::to_owned)));
        }
        let sent: Vec<Option<String>> = texts.concat().into_iter().map(|text| text.map(str::to_owned)).collect();
        assert_eq!(batches_read, sent);
    }
}
