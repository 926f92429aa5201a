//! Files: messages with a list of their places at the end.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{self, root_as_footer};

use crate::message::{Messages, root_as_message};
use crate::{Error, Result};

/// Bytes of the footer's length and of the magic behind it.
const TAIL_BYTES: usize = 10;

/// Bytes between two parts of a batch that are read with them, because to seek costs more.
const GAP_BYTES_MAX: u64 = 1 << 12;

/// Bytes of a buffer's entry in a header.
const BUFFER_BYTES: usize = 16;

/// Arrow's writers begin buffers at multiples of it.
const ALIGNMENT: u64 = 64;

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
#[derive(Debug, Clone)]
pub struct FileReader<R> {
    source: R,
    messages: Messages,
    schema: SchemaRef,
    batches: Vec<MessageLocation>,
    next: usize,
    /// The buffers that are read of a batch; `None` for all.
    buffers: Option<Vec<bool>>,
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
        let mut reader = FileReader { source, messages, schema, batches, next: 0, buffers: None };
        for place in dictionaries {
            reader.read(place)?;
        }
        Ok(reader)
    }

    /// Reads only these columns, by their positions in the schema. Where the types tell which bytes of a batch they have, no others are read.
    #[must_use]
    pub fn with_columns(mut self, columns: Vec<usize>) -> FileReader<R> {
        self.buffers = buffers_of(&self.schema, &columns);
        self.messages.read_columns(columns);
        self
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
        // The marker, which files before Arrow 0.15 don't have, and the length stand before the header.
        let start = if header.starts_with(&[0xff; 4]) { 8 } else { 4 };
        let header = header.get(start..).ok_or(Error::Damaged("a message without its header"))?;
        if let Some((header, parts)) = self.parts(header, place.body_bytes)? {
            let body = self.read_parts(place, &parts)?;
            return self.messages.take(&header, &Buffer::from_vec(body));
        }
        let body = read_exact(&mut self.source, place.body_bytes)?;
        self.messages.take(header, &Buffer::from_vec(body))
    }
}

impl<R: Read + Seek> FileReader<R> {
    /// The parts of a batch's body that are read, and the header for a body that has only these; `None` if all of it is read.
    fn parts(&self, header: &[u8], body_bytes: u64) -> Result<Option<(Vec<u8>, Vec<Part>)>> {
        let message = root_as_message(header)?;
        let (Some(wanted), Some(batch)) = (&self.buffers, message.header_as_record_batch()) else { return Ok(None) };
        let Some(buffers) = batch.buffers().filter(|buffers| buffers.len() == wanted.len()) else { return Ok(None) };
        let (mut of_parts, mut parts) = (header.to_vec(), Vec::<Part>::new());
        // A header has its buffers in one place, each as offset and length.
        let first = (buffers.bytes().as_ptr() as usize).checked_sub(header.as_ptr() as usize);
        let first = first.ok_or(Error::Damaged("a message without its buffers"))?;
        for (number, (buffer, is_wanted)) in buffers.iter().zip(wanted).enumerate() {
            let (mut offset, mut length) = (0, 0);
            if *is_wanted {
                let range = u64::try_from(buffer.offset()).ok().zip(u64::try_from(buffer.length()).ok());
                let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
                let range = range.filter(|range| range.end <= body_bytes);
                let range = range.ok_or(Error::Damaged("a buffer lies outside its message"))?;
                (offset, length) = (i64::try_from(place_in(&mut parts, &range)).map_err(|_| FOOTER)?, buffer.length());
            }
            let start = first + number * BUFFER_BYTES;
            let entry = of_parts.get_mut(start..start + BUFFER_BYTES).ok_or(FOOTER)?;
            entry[..8].copy_from_slice(&offset.to_le_bytes());
            entry[8..].copy_from_slice(&length.to_le_bytes());
        }
        // Buffers that overlap, as no writer makes them, would be read once for each.
        let is_within =
            parts.last().map_or(0, Part::end) <= body_bytes.saturating_add(ALIGNMENT * parts.len() as u64 * 2);
        Ok(is_within.then_some((of_parts, parts)))
    }

    fn read_parts(&mut self, place: MessageLocation, parts: &[Part]) -> Result<Vec<u8>> {
        let within = |at: u64| usize::try_from(at).map_err(|_| FOOTER);
        let mut body = vec![0; within(parts.last().map_or(0, Part::end))?];
        for part in parts {
            self.source.seek(SeekFrom::Start(place.offset + place.header_bytes + part.range.start))?;
            let bytes = body.get_mut(within(part.start)?..within(part.end())?).ok_or(FOOTER)?;
            self.source.read_exact(bytes)?;
        }
        Ok(body)
    }
}

/// A range of a batch's body, and where it begins in a body of such parts alone.
struct Part {
    range: Range<u64>,
    start: u64,
}

impl Part {
    fn end(&self) -> u64 {
        self.start + (self.range.end - self.range.start)
    }
}

/// Where a range begins in a body of parts: in the last part, if it is close behind that, or in a new one.
fn place_in(parts: &mut Vec<Part>, range: &Range<u64>) -> u64 {
    if let Some(last) = parts.last_mut()
        && last.range.end <= range.start
        && range.start - last.range.end <= GAP_BYTES_MAX
    {
        last.range.end = range.end;
        return last.start + (range.start - last.range.start);
    }
    // Ranges begin where an array may.
    let start = parts.last().map_or(0, Part::end).next_multiple_of(ALIGNMENT) + range.start % ALIGNMENT;
    parts.push(Part { range: range.clone(), start });
    start
}

/// Which buffers of a batch some columns have; `None` if the types don't tell.
fn buffers_of(schema: &Schema, columns: &[usize]) -> Option<Vec<bool>> {
    let mut wanted = Vec::new();
    for (position, field) in schema.fields().iter().enumerate() {
        wanted.extend(std::iter::repeat_n(columns.contains(&position), buffers_of_type(field.data_type())?));
    }
    Some(wanted)
}

/// How many buffers a column of a type has; `None` if that depends on the batch or on the file's version.
fn buffers_of_type(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Null => Some(0),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => Some(3),
        DataType::Boolean | DataType::FixedSizeBinary(_) | DataType::Dictionary(_, _) => Some(2),
        DataType::List(item) | DataType::LargeList(item) => Some(2 + buffers_of_type(item.data_type())?),
        DataType::FixedSizeList(item, _) => Some(1 + buffers_of_type(item.data_type())?),
        DataType::Struct(fields) => {
            let of_fields = fields.iter().map(|field| buffers_of_type(field.data_type())).sum::<Option<usize>>();
            Some(1 + of_fields?)
        }
        other => other.is_primitive().then_some(2),
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
