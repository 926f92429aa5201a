//! Parquet and Arrow IPC files, batch by batch.

use std::fs::File;
use std::io::{Read, Seek};

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::error::{Error, Result};
use crate::format::{Batches, Kind};
use crate::input::InputFile;

/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 15;

fn open(file: &InputFile) -> Result<File> {
    if file.member.is_some() {
        return Err(Error::unsupported(&file.name, "Parquet and Arrow files can't be read inside a zip file; unpack it first"));
    }
    let mut opened = File::open(&file.path).map_err(Error::io("open", &file.path))?;
    let mut head = [0u8; 4];
    let got = opened.read(&mut head).map_err(Error::io("read", &file.path))?;
    if head[..got].starts_with(&[0x1f, 0x8b]) || head == [0x28, 0xb5, 0x2f, 0xfd] {
        return Err(Error::unsupported(&file.name, "Parquet and Arrow files can't be read compressed as a whole; unpack it first"));
    }
    opened.rewind().map_err(Error::io("read", &file.path))?;
    Ok(opened)
}

fn wrong(file: &InputFile) -> impl Fn(&dyn std::fmt::Display) -> Error + use<> {
    let name = file.name.clone();
    move |source| Error::damaged(&name, format!("can't be read: {source}"))
}

fn is_ipc_file(file: &mut File, input: &InputFile) -> Result<bool> {
    let mut magic = [0u8; 6];
    let got = file.read(&mut magic).map_err(Error::io("read", &input.path))?;
    file.rewind().map_err(Error::io("read", &input.path))?;
    Ok(got == 6 && &magic == b"ARROW1")
}

/// The file's schema.
pub(crate) fn schema(file: &InputFile, kind: Kind) -> Result<SchemaRef> {
    let wrong = wrong(file);
    let mut opened = open(file)?;
    if kind == Kind::Parquet {
        let builder = ParquetRecordBatchReaderBuilder::try_new(opened).map_err(|e| wrong(&e))?;
        return Ok(SchemaRef::clone(builder.schema()));
    }
    if is_ipc_file(&mut opened, file)? {
        return Ok(FileReader::try_new_buffered(opened, None).map_err(|e| wrong(&e))?.schema());
    }
    Ok(StreamReader::try_new_buffered(opened, None).map_err(|e| wrong(&e))?.schema())
}

/// The file's batches.
pub(crate) fn batches(file: &InputFile, kind: Kind) -> Result<Batches> {
    let name = file.name.clone();
    let wrong = wrong(file);
    let mut opened = open(file)?;
    let (reader, total): (Box<dyn Iterator<Item = Result<_, ArrowError>>>, f64) = if kind == Kind::Parquet {
        let builder = ParquetRecordBatchReaderBuilder::try_new(opened).map_err(|e| wrong(&e))?;
        #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
        let rows = builder.metadata().file_metadata().num_rows() as f64;
        (Box::new(builder.with_batch_size(BATCH_ROWS).build().map_err(|e| wrong(&e))?), rows)
    } else if is_ipc_file(&mut opened, file)? {
        let reader = FileReader::try_new_buffered(opened, None).map_err(|e| wrong(&e))?;
        #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
        let batches = reader.num_batches() as f64;
        let mut seen = 0.0;
        return Ok(Box::new(reader.map(move |batch| {
            seen += 1.0;
            Ok((batch.map_err(|e| wrong(&e))?, seen / f64::max(batches, 1.0)))
        })));
    } else {
        (Box::new(StreamReader::try_new_buffered(opened, None).map_err(|e| wrong(&e))?), f64::INFINITY)
    };
    let mut rows = 0.0;
    Ok(Box::new(reader.map(move |batch| {
        let batch = batch.map_err(|e| Error::damaged(&name, format!("can't be read: {e}")))?;
        #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
        let more = batch.num_rows() as f64;
        rows += more;
        Ok((batch, rows / total))
    })))
}
