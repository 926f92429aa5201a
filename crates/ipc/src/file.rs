//! Files: messages with a list of their places at the end.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{self, root_as_footer};

use crate::message::Messages;
use crate::{Error, Result};

/// Bytes of the footer's length and of the magic behind it.
const TAIL_BYTES: usize = 10;

/// The error for a file whose end is not that of an Arrow file.
const FOOTER: Error = Error::Damaged("its Arrow footer is damaged; the file may be cut short");

/// Where a message is.
#[derive(Debug, Clone, Copy)]
struct MessageLocation {
    offset: u64,
    header_bytes: u64,
    body_bytes: u64,
}

impl MessageLocation {
    fn new(block: &ipc::Block, end: u64) -> Result<MessageLocation> {
        let number = |number| u64::try_from(number).map_err(|_| FOOTER);
        let header_bytes = u64::try_from(block.metaDataLength()).map_err(|_| FOOTER)?;
        let place =
            MessageLocation { offset: number(block.offset())?, header_bytes, body_bytes: number(block.bodyLength())? };
        let place_end = place.offset.checked_add(place.header_bytes).and_then(|sum| sum.checked_add(place.body_bytes));
        if place_end.is_some_and(|place_end| place_end <= end) { Ok(place) } else { Err(FOOTER) }
    }
}

/// The batches of a file, in their order, or each by its number.
#[derive(Debug)]
pub struct FileReader<R> {
    source: R,
    messages: Messages,
    schema: SchemaRef,
    batches: Vec<MessageLocation>,
    next: usize,
}

impl<R: Read + Seek> FileReader<R> {
    /// Reads the footer and the dictionaries.
    ///
    /// # Errors
    /// As [`Error`] says.
    pub fn try_new(mut source: R) -> Result<FileReader<R>> {
        let length = source.seek(SeekFrom::End(0))?;
        let tail_start = length.checked_sub(TAIL_BYTES as u64).ok_or(FOOTER)?;
        source.seek(SeekFrom::Start(tail_start))?;
        let mut tail = [0u8; TAIL_BYTES];
        source.read_exact(&mut tail)?;
        let footer_bytes = read_footer_length(tail).map_err(|_| FOOTER)? as u64;
        let footer_start = tail_start.checked_sub(footer_bytes).ok_or(FOOTER)?;
        source.seek(SeekFrom::Start(footer_start))?;
        let footer = read_exact(&mut source, footer_bytes)?;
        let footer = root_as_footer(&footer).map_err(|_| FOOTER)?;
        let schema = Arc::new(fb_to_schema(footer.schema().ok_or(FOOTER)?));
        let place = |block| MessageLocation::new(block, footer_start);
        let dictionaries: Vec<_> = footer.dictionaries().into_iter().flatten().map(place).collect::<Result<_>>()?;
        let batches = footer.recordBatches().into_iter().flatten().map(place).collect::<Result<_>>()?;
        let messages = Messages::new(Some(SchemaRef::clone(&schema)), usize::MAX);
        let mut reader = FileReader { source, messages, schema, batches, next: 0 };
        for place in dictionaries {
            reader.read(place)?;
        }
        Ok(reader)
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// How many batches there are.
    pub fn num_batches(&self) -> usize {
        self.batches.len()
    }

    /// A batch by its number, from 0.
    ///
    /// # Errors
    /// As [`Error`] says.
    pub fn batch(&mut self, number: usize) -> Result<RecordBatch> {
        let place = *self.batches.get(number).ok_or(Error::Damaged("there is no such batch"))?;
        self.read(place)?.ok_or(Error::Damaged("a message of rows without rows"))
    }

    fn read(&mut self, place: MessageLocation) -> Result<Option<RecordBatch>> {
        self.source.seek(SeekFrom::Start(place.offset))?;
        let header = read_exact(&mut self.source, place.header_bytes)?;
        let body = read_exact(&mut self.source, place.body_bytes)?;
        // The marker, which files before Arrow 0.15 don't have, and the length stand before the header.
        let start = if header.starts_with(&[0xff; 4]) { 8 } else { 4 };
        let header = header.get(start..).ok_or(Error::Damaged("a message without its header"))?;
        self.messages.take(header, &Buffer::from_vec(body))
    }
}

impl<R: Read + Seek> Iterator for FileReader<R> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.next >= self.batches.len() {
            return None;
        }
        self.next += 1;
        let batch = self.batch(self.next - 1);
        if batch.is_err() {
            self.next = self.batches.len();
        }
        Some(batch)
    }
}

/// Reads so many bytes, which lie within the file.
fn read_exact(source: &mut impl Read, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| FOOTER)?];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}
