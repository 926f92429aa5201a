//! Parquet and Arrow IPC files, batch by batch.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamDecoder};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use crate::error::{Error, Result};
use crate::format::{Batches, Kind};
use crate::input::InputFile;

/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 15;

/// Bytes of a stream that are decoded at a time.
const STREAM_BYTES: u64 = 1 << 20;

pub(crate) fn open(file: &InputFile) -> Result<File> {
    if file.member.is_some() {
        return Err(Error::unsupported(
            &file.name,
            "Parquet and Arrow files can't be read inside a zip file; unpack it first",
        ));
    }
    let mut opened = File::open(&file.path).map_err(Error::io("open", &file.path))?;
    let mut head = [0u8; 4];
    let got = opened.read(&mut head).map_err(Error::io("read", &file.path))?;
    if head[..got].starts_with(&[0x1f, 0x8b]) || head == [0x28, 0xb5, 0x2f, 0xfd] {
        return Err(Error::unsupported(
            &file.name,
            "Parquet and Arrow files can't be read compressed as a whole; unpack it first",
        ));
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

/// Checks that an IPC file's footer and the blocks it lists lie inside the file: the reader would allocate what they claim.
fn check_ipc_file(file: &mut File, input: &InputFile) -> Result<()> {
    const TAIL_BYTES: usize = 10;
    let io = || Error::io("read", &input.path);
    let cut_short = || Error::damaged(&input.name, "its Arrow footer is damaged; the file may be cut short");
    let len = file.seek(SeekFrom::End(0)).map_err(io())?;
    let mut tail = [0u8; TAIL_BYTES];
    let tail_start = len.checked_sub(TAIL_BYTES as u64).ok_or_else(cut_short)?;
    file.seek(SeekFrom::Start(tail_start)).map_err(io())?;
    file.read_exact(&mut tail).map_err(io())?;
    let footer_len = arrow::ipc::reader::read_footer_length(tail).map_err(|_| cut_short())?;
    let footer_start = tail_start.checked_sub(footer_len as u64).ok_or_else(cut_short)?;
    let mut footer = vec![0u8; footer_len];
    file.seek(SeekFrom::Start(footer_start)).map_err(io())?;
    file.read_exact(&mut footer).map_err(io())?;
    let footer = arrow::ipc::root_as_footer(&footer).map_err(|_| cut_short())?;
    for block in [footer.recordBatches(), footer.dictionaries()].into_iter().flatten().flatten() {
        let parts =
            [u64::try_from(block.offset()), u64::try_from(block.metaDataLength()), u64::try_from(block.bodyLength())];
        let end = parts.into_iter().try_fold(0u64, |end, part| end.checked_add(part.ok()?));
        if end.is_none_or(|end| end > len) {
            return Err(cut_short());
        }
    }
    file.rewind().map_err(io())
}

/// Batches of an IPC stream. Memory grows with the bytes that are there, not with the lengths they claim.
struct IpcStream {
    file: File,
    name: String,
    decoder: StreamDecoder,
    buffer: Buffer,
    read: u64,
    at_end: bool,
}

impl IpcStream {
    fn new(file: File, input: &InputFile) -> IpcStream {
        let buffer = Buffer::from(Vec::<u8>::new());
        IpcStream { file, name: input.name.clone(), decoder: StreamDecoder::new(), buffer, read: 0, at_end: false }
    }

    fn wrong(&self, source: &dyn std::fmt::Display) -> Error {
        Error::damaged(&self.name, format!("can't be read: {source}"))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while !self.buffer.is_empty() {
                match self.decoder.decode(&mut self.buffer) {
                    Ok(Some(batch)) => return Ok(Some(batch)),
                    Ok(None) => {}
                    Err(e) => return Err(self.wrong(&e)),
                }
            }
            if self.at_end {
                return self.decoder.finish().map(|()| None).map_err(|e| self.wrong(&e));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        (&self.file).take(STREAM_BYTES).read_to_end(&mut bytes).map_err(|e| self.wrong(&e))?;
        self.at_end = bytes.is_empty();
        self.read += bytes.len() as u64;
        self.buffer = Buffer::from(bytes);
        Ok(())
    }

    fn schema(&mut self) -> Result<SchemaRef> {
        while self.decoder.schema().is_none() && !self.at_end {
            if self.buffer.is_empty() {
                self.fill()?;
            }
            // A batch that comes along is of no use here.
            drop(self.decoder.decode(&mut self.buffer).map_err(|e| self.wrong(&e))?);
        }
        self.decoder.schema().ok_or_else(|| self.wrong(&"it ends before its schema"))
    }
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
        check_ipc_file(&mut opened, file)?;
        return Ok(FileReader::try_new_buffered(opened, None).map_err(|e| wrong(&e))?.schema());
    }
    IpcStream::new(opened, file).schema()
}

/// The file's batches.
pub(crate) fn batches(file: &InputFile, kind: Kind) -> Result<Batches> {
    let wrong = wrong(file);
    let mut opened = open(file)?;
    if kind == Kind::Parquet {
        let builder = ParquetRecordBatchReaderBuilder::try_new(opened).map_err(|e| wrong(&e))?;
        let total = share_of(builder.metadata().file_metadata().num_rows());
        let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| wrong(&e))?;
        let mut rows = 0;
        return Ok(Box::new(reader.map(move |batch| {
            let batch = batch.map_err(|e: ArrowError| wrong(&e))?;
            rows += i64::try_from(batch.num_rows()).unwrap_or(0);
            Ok((batch, share_of(rows) / f64::max(total, 1.0)))
        })));
    }
    if is_ipc_file(&mut opened, file)? {
        check_ipc_file(&mut opened, file)?;
        let reader = FileReader::try_new_buffered(opened, None).map_err(|e| wrong(&e))?;
        let total = share_of(i64::try_from(reader.num_batches()).unwrap_or(1));
        let mut seen = 0.0;
        return Ok(Box::new(reader.map(move |batch| {
            seen += 1.0;
            Ok((batch.map_err(|e| wrong(&e))?, seen / f64::max(total, 1.0)))
        })));
    }
    let mut stream = IpcStream::new(opened, file);
    let total = share_of(i64::try_from(file.bytes).unwrap_or(1));
    let mut done = false;
    Ok(Box::new(std::iter::from_fn(move || {
        if done {
            return None;
        }
        let batch = stream.next_batch();
        done = !matches!(batch, Ok(Some(_)));
        let share = share_of(i64::try_from(stream.read).unwrap_or(0)) / f64::max(total, 1.0);
        batch.transpose().map(|b| b.map(|b| (b, share)))
    })))
}

/// Batches of row groups of a Parquet file, with the columns at these places.
pub(crate) fn row_groups(
    file: &InputFile,
    metadata: ArrowReaderMetadata,
    groups: Vec<usize>,
    places: Vec<usize>,
) -> Result<Batches> {
    let wrong = wrong(file);
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(open(file)?, metadata);
    let mask = ProjectionMask::roots(builder.parquet_schema(), places);
    let builder = builder.with_projection(mask).with_row_groups(groups).with_batch_size(BATCH_ROWS);
    let reader = builder.build().map_err(|e| wrong(&e))?;
    Ok(Box::new(reader.map(move |batch| Ok((batch.map_err(|e| wrong(&e))?, 0.0)))))
}

/// A count for the progress bar.
#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn share_of(count: i64) -> f64 {
    count as f64
}
