//! Writers of tables, which are compiled once for whatever they write to.

use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::Result;

/// Writes CSV with a header line.
///
/// # Errors
/// [`Error::Arrow`](crate::Error::Arrow).
pub fn write_csv(schema: &SchemaRef, batches: &[RecordBatch], file: &mut dyn Write) -> Result<()> {
    let mut writer = WriterBuilder::new().with_header(true).build(file);
    if batches.is_empty() {
        writer.write(&RecordBatch::new_empty(Arc::clone(schema)))?;
    }
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(())
}

/// Writes Parquet.
///
/// # Errors
/// Those of Parquet's writer.
pub fn write_parquet(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    properties: WriterProperties,
    file: &mut (dyn Write + Send),
) -> parquet::errors::Result<()> {
    let mut writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties))?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.close()?;
    Ok(())
}
