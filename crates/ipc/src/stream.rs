//! Streams: messages one behind the other.

use std::io::Read;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;

use crate::message::{Messages, root_as_message};
use crate::{Error, Result};

/// Stands before the length of a message since Arrow 0.15.
const MARKER: [u8; 4] = [0xff; 4];

/// The error for a stream that ends too early.
const CUT_SHORT: Error = Error::Damaged("it ends within a message");

/// The batches of a stream, in their order. After an error or the end there are no more.
#[derive(Debug)]
pub struct StreamReader<R> {
    source: R,
    messages: Messages,
    schema: SchemaRef,
    bytes_read: u64,
    is_at_end: bool,
}

impl<R: Read> StreamReader<R> {
    /// A reader at the beginning of a stream, which reads up to the schema.
    ///
    /// # Errors
    /// As [`Error`] says.
    pub fn try_new(source: R) -> Result<StreamReader<R>> {
        StreamReader::with_bytes_max(source, usize::MAX)
    }

    /// A reader whose messages, dictionaries and rows together, may unpack to so many bytes. A message beyond them is an error before it is
    /// unpacked.
    ///
    /// # Errors
    /// As [`Error`] says.
    pub fn with_bytes_max(mut source: R, bytes_max: usize) -> Result<StreamReader<R>> {
        let (mut messages, mut bytes_read) = (Messages::new(None, bytes_max), 0);
        loop {
            let Some((header, body)) = message(&mut source, &mut bytes_read)? else {
                return Err(Error::Damaged("it ends before its schema"));
            };
            messages.take(&header, &body)?;
            if let Some(schema) = messages.schema() {
                let schema = SchemaRef::clone(schema);
                return Ok(StreamReader { source, messages, schema, bytes_read, is_at_end: false });
            }
        }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// Bytes that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Bytes that the messages so far have unpacked to.
    pub fn bytes_unpacked(&self) -> usize {
        self.messages.bytes_unpacked()
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        while let Some((header, body)) = message(&mut self.source, &mut self.bytes_read)? {
            if let Some(batch) = self.messages.take(&header, &body)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.is_at_end {
            return None;
        }
        let batch = self.batch();
        self.is_at_end = !matches!(batch, Ok(Some(_)));
        batch.transpose()
    }
}

/// Header and body of the next message.
fn message(source: &mut impl Read, bytes_read: &mut u64) -> Result<Option<(Vec<u8>, Buffer)>> {
    let mut word = Vec::new();
    source.take(4).read_to_end(&mut word)?;
    if word.is_empty() {
        return Ok(None);
    }
    let mut prefix_bytes = 4;
    if word == MARKER {
        word = read_exact(source, 4)?;
        prefix_bytes += 4;
    }
    let size = u32::from_le_bytes(word.try_into().map_err(|_| CUT_SHORT)?);
    if size == 0 {
        return Ok(None);
    }
    let header = read_exact(source, u64::from(size))?;
    let body_bytes = u64::try_from(root_as_message(&header)?.bodyLength());
    let body_bytes = body_bytes.map_err(|_| Error::Damaged("a message of negative length"))?;
    let body = read_exact(source, body_bytes)?;
    *bytes_read += prefix_bytes + u64::from(size) + body_bytes;
    Ok(Some((header, Buffer::from_vec(body))))
}

/// Reads so many bytes. Memory grows with the bytes that are there, not with the length that was claimed.
fn read_exact(source: &mut impl Read, length: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(CUT_SHORT) }
}
