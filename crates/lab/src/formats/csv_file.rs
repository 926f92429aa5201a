//! Tables as CSV with a header line.

use std::io::{Read, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv::{ReaderBuilder, WriterBuilder};

use super::Table;
use crate::Result;

/// Rows of a batch that is read.
const BATCH_ROWS: usize = 8_192;

/// Writes a table.
pub fn write<W: Write>(table: &Table, file: W) -> Result<W> {
    let mut writer = WriterBuilder::new().with_header(true).build(file);
    if table.batches.is_empty() {
        writer.write(&RecordBatch::new_empty(Arc::clone(&table.schema)))?;
    }
    for batch in &table.batches {
        writer.write(batch)?;
    }
    Ok(writer.into_inner())
}

/// Reads a table of known columns.
pub fn read(table: &Table, file: impl Read) -> Result<Vec<RecordBatch>> {
    let reader = ReaderBuilder::new(Arc::clone(&table.schema)).with_header(true).with_batch_size(BATCH_ROWS);
    Ok(reader.build(file)?.collect::<std::result::Result<Vec<_>, _>>()?)
}
