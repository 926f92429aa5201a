//! One message: the check of its buffers, and what it adds to the state of a reader.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{read_dictionary, read_record_batch};
use arrow::ipc::{self, CompressionType, MessageHeader};
use lz4_flex::frame::FrameDecoder;

use crate::{Error, Result};

/// First bytes of a file. A stream begins with a message.
const FILE_MAGIC: &[u8] = b"ARROW1";

/// Whether these are the first bytes of a file, and not of a stream.
#[must_use]
pub fn is_file(head: &[u8]) -> bool {
    head.starts_with(FILE_MAGIC)
}

/// The most bytes that a byte of LZ4 unpacks to.
const LZ4_RATIO_MAX: usize = 255;

/// The length of each buffer of a message in bytes, after decompression.
///
/// # Errors
/// [`Error::Damaged`] if a buffer lies outside `body`, or could unpack to more than `bytes_max` and doesn't unpack to the length that it
/// claims; [`Error::TooLarge`] if all of them come to more than `bytes_max`.
pub fn buffer_sizes(batch: &ipc::RecordBatch<'_>, body: &[u8], bytes_max: usize) -> Result<Vec<usize>> {
    let (mut sizes, mut bytes) = (Vec::new(), 0usize);
    for buffer in batch.buffers().into_iter().flatten() {
        let packed = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(start, length)| body.get(start..start.checked_add(length)?))
            .ok_or(Error::Damaged("a buffer lies outside its message"))?;
        let (size, frame) = match (batch.compression(), packed.split_first_chunk::<8>()) {
            (None, _) | (_, None) => (packed.len(), None),
            (Some(compression), Some((size, frame))) => match usize::try_from(i64::from_le_bytes(*size)) {
                Ok(size) => (size, (compression.codec() == CompressionType::LZ4_FRAME).then_some(frame)),
                // Minus one says that the buffer is not compressed.
                Err(_) => (frame.len(), None),
            },
        };
        sizes.push(size);
        bytes = bytes.saturating_add(size);
        if bytes > bytes_max {
            return Err(Error::TooLarge { bytes, limit: Some(bytes_max) });
        }
        if let Some(frame) = frame.filter(|frame| frame.len().saturating_mul(LZ4_RATIO_MAX) > bytes_max - bytes) {
            check_lz4_size(frame, size)?;
        }
    }
    Ok(sizes)
}

/// Checks that a frame unpacks to as many bytes as it claims. Arrow's reader would compare the two after it has unpacked all of them; of zstd
/// it unpacks no more than is claimed.
fn check_lz4_size(frame: &[u8], claimed: usize) -> Result<()> {
    // Of a buffer that claims to be empty it unpacks nothing.
    if claimed == 0 {
        return Ok(());
    }
    let limit = (claimed as u64).saturating_add(1);
    let unpacked = std::io::copy(&mut FrameDecoder::new(frame).take(limit), &mut std::io::sink());
    match unpacked.map_err(|_| Error::Damaged("a damaged LZ4 frame"))? == claimed as u64 {
        true => Ok(()),
        false => Err(Error::Damaged("a buffer unpacks to another length than it claims")),
    }
}

/// The state of a reader: the schema and the dictionaries of the messages so far.
#[derive(Debug, Clone)]
pub(crate) struct Messages {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Bytes that the messages so far have unpacked to.
    bytes_unpacked: usize,
    /// Bytes that all messages together may unpack to.
    bytes_max: usize,
    /// The columns of batches; `None` for all.
    columns: Option<Vec<usize>>,
}

impl Messages {
    pub(crate) fn new(schema: Option<SchemaRef>, bytes_max: usize) -> Messages {
        Messages { schema, dictionaries: HashMap::new(), bytes_unpacked: 0, bytes_max, columns: None }
    }

    pub(crate) fn bytes_unpacked(&self) -> usize {
        self.bytes_unpacked
    }

    pub(crate) fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// From now on batches have only these columns.
    pub(crate) fn read_columns(&mut self, columns: Vec<usize>) {
        self.columns = Some(columns);
    }

    /// Takes a message; its rows, if it has some.
    pub(crate) fn take(&mut self, header: &[u8], body: &Buffer) -> Result<Option<RecordBatch>> {
        let message = root_as_message(header)?;
        let missing = Error::Damaged("a message without its content");
        match message.header_type() {
            MessageHeader::NONE => Ok(None),
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or(missing)?;
                if self.schema.is_some() {
                    return Err(Error::Damaged("a second schema"));
                }
                self.schema = Some(Arc::new(fb_to_schema(schema)));
                Ok(None)
            }
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch().ok_or(missing)?;
                let values = dictionary.data().ok_or(Error::Damaged("a dictionary without values"))?;
                // The reader makes one dictionary of both, and earlier rows keep the one before.
                let copied = if dictionary.isDelta() { self.dictionaries.get(&dictionary.id()) } else { None };
                let copied = copied.map_or(0, |dictionary| dictionary.get_array_memory_size());
                self.check_memory(&values, body, copied)?;
                let schema = self.schema.as_ref().ok_or(Error::Damaged("a dictionary before its schema"))?;
                read_dictionary(body, dictionary, schema, &mut self.dictionaries, &message.version())?;
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or(missing)?;
                self.check_memory(&batch, body, 0)?;
                let schema = self.schema.as_ref().ok_or(Error::Damaged("rows before their schema"))?;
                let schema = Arc::clone(schema);
                let columns = self.columns.as_deref();
                Ok(Some(read_record_batch(body, batch, schema, &self.dictionaries, columns, &message.version())?))
            }
            _ => Err(Error::Damaged("a message that is neither schema nor rows")),
        }
    }

    /// Checks that the buffers of a message lie within it, that all messages so far unpack to what is allowed, and that there is memory for
    /// this one. `copied` bytes of an earlier message are copied with it.
    fn check_memory(&mut self, batch: &ipc::RecordBatch<'_>, body: &[u8], copied: usize) -> Result<()> {
        let bytes_left = self.bytes_max.saturating_sub(self.bytes_unpacked);
        let bytes = buffer_sizes(batch, body, bytes_left)?.into_iter().fold(copied, usize::saturating_add);
        if bytes > bytes_left {
            return Err(Error::TooLarge { bytes, limit: Some(bytes_left) });
        }
        let mut memory = Vec::<u8>::new();
        memory.try_reserve_exact(bytes).map_err(|_| Error::TooLarge { bytes, limit: None })?;
        self.bytes_unpacked = self.bytes_unpacked.saturating_add(bytes);
        Ok(())
    }
}

/// The header of a message.
pub(crate) fn root_as_message(header: &[u8]) -> Result<ipc::Message<'_>> {
    let root = ipc::root_as_message(header);
    root.map_err(|error| ArrowError::ParseError(format!("the header of a message is damaged: {error}")).into())
}
