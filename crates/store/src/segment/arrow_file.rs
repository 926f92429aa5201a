//! Reads the columns of an Arrow IPC file of one record batch, by ranges of rows, from mapped bytes.
//!
//! - Buffers are sliced, never copied.
//! - A range's bytes are checked against their checksums and its values against their type (text is UTF-8, codes are within
//!   the dictionary) when it is first read; from then on slices are made without that work.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, DictionaryArray, Int32Array, make_array, new_empty_array};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::{self, Block, RecordBatch as BatchHeader};

use super::checksum::{CheckedFile, OnceBits};
use super::{guarded, prefetch};
use crate::error::{Error, Result};
use crate::storage::MappedBytes;

/// Rows that are checked together.
const CHUNK_ROWS: usize = 8192;

/// Pieces that are prefetched before they are copied.
const PIECES_AHEAD: usize = 4;

const MAGIC: &[u8; 6] = b"ARROW1";

/// An opened file.
#[derive(Debug)]
pub(crate) struct ArrowFile {
    file: Arc<CheckedFile>,
    bytes: MappedBytes,
    schema: SchemaRef,
    rows: usize,
    columns: Vec<ColumnBuffers>,
}

/// The places of a column's buffers.
#[derive(Debug)]
struct ColumnBuffers {
    layout: Layout,
    /// The texts of codes. All that is read of the column shares this array, by which others know what they have found for its texts.
    dictionary: Option<ArrayRef>,
    checked: OnceBits,
}

#[derive(Debug)]
struct Layout {
    data_type: DataType,
    nulls: Option<Range<usize>>,
    buffers: Vec<Range<usize>>,
    child: Option<Box<Layout>>,
}

impl ColumnBuffers {
    /// The array of some data of the column, which are sound.
    fn array(&self, data: ArrayData) -> ArrayRef {
        let Some(texts) = self.dictionary.as_ref().filter(|_| is_coded(&self.layout.data_type)) else {
            return make_array(data);
        };
        let codes = data.into_builder().data_type(DataType::Int32).child_data(Vec::new());
        // SAFETY: the codes are those of sound data, and their texts are those of that.
        Arc::new(unsafe {
            DictionaryArray::new_unchecked(Int32Array::from(codes.build_unchecked()), Arc::clone(texts))
        })
    }
}

impl ArrowFile {
    pub(crate) fn open(file: Arc<CheckedFile>, rows: u64) -> Result<ArrowFile> {
        let Some(bytes) = file.mapped().cloned() else {
            return Err(Error::corrupt(
                &file.path,
                0,
                "a Parquet file, as all in the object store",
                "an Arrow IPC file",
            ));
        };
        let (schema, rows, columns) = Opener { file: &file, bytes: &bytes }.open(rows)?;
        Ok(ArrowFile { file, bytes, schema, rows, columns })
    }

    /// Bytes of a column, its dictionary left out.
    pub(crate) fn column_bytes(&self, column: usize) -> u64 {
        fn of(layout: &Layout) -> usize {
            let own = layout.buffers.iter().chain(&layout.nulls).map(Range::len).sum::<usize>();
            own + layout.child.as_deref().map_or(0, of)
        }
        of(&self.columns[column].layout) as u64
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn mapped(&self) -> &MappedBytes {
        &self.bytes
    }

    /// A range of a column.
    pub(crate) fn read(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        let column = &self.columns[column];
        self.check_chunks(column, &rows)?;
        // SAFETY: `check` built an array of every chunk that the range touches with full validation, from the same bytes,
        // which do not change while they are mapped.
        let data = unsafe { self.data(&column.layout, column.dictionary.as_ref(), &rows)?.build_unchecked() };
        Ok(column.array(data))
    }

    /// Several ranges of a column behind each other, copied; `None` for columns with nulls and those whose values differ in
    /// width.
    pub(crate) fn read_pieces(&self, column: usize, pieces: &[Range<usize>]) -> Result<Option<ArrayRef>> {
        let column = &self.columns[column];
        let (layout, stored) = (&column.layout, &column.layout.buffers);
        let width = match &layout.data_type {
            DataType::Dictionary(_, _) => Some(4),
            other => other.primitive_width(),
        };
        let (Some(width), None, Some(buffer)) = (width, &layout.nulls, stored.first()) else { return Ok(None) };
        let total = pieces.iter().map(Range::len).sum::<usize>();
        let mut values = MutableBuffer::with_capacity(total * width);
        let place = |rows: &Range<usize>| buffer.start + rows.start * width..buffer.start + rows.end * width;
        for (number, rows) in pieces.iter().enumerate() {
            if let Some(later) = pieces.get(number + PIECES_AHEAD).and_then(|rows| self.bytes.get(place(rows))) {
                prefetch::begin_of(later);
            }
            self.check_chunks(column, rows)?;
            let bytes = place(rows);
            self.within(buffer, &bytes)?;
            let stored = self.bytes.get(bytes);
            values.extend_from_slice(stored.ok_or_else(|| self.short_of(buffer))?);
        }
        let mut builder = ArrayData::builder(layout.data_type.clone()).len(total).add_buffer(values.into());
        if matches!(layout.data_type, DataType::Dictionary(_, _)) {
            builder = builder.add_child_data(texts(column.dictionary.as_ref()));
        }
        // SAFETY: the values are copies of those that `check` validated, chunk by chunk, over the same dictionary.
        let data = unsafe { builder.build_unchecked() };
        Ok(Some(column.array(data)))
    }

    /// Checks those chunks that a range touches and that weren't checked before.
    fn check_chunks(&self, column: &ColumnBuffers, rows: &Range<usize>) -> Result<()> {
        let mut unchecked = chunks(rows).filter(|chunk| !column.checked.get(*chunk)).peekable();
        if unchecked.peek().is_some() && rows.len() > CHUNK_ROWS {
            self.read_ahead_layout(&column.layout, rows);
        }
        for chunk in unchecked {
            self.check(column, chunk * CHUNK_ROWS..((chunk + 1) * CHUNK_ROWS).min(self.rows))?;
            column.checked.set(chunk);
        }
        Ok(())
    }

    /// Asks for the bytes of a range that hasn't been read yet, without waiting for them.
    pub(crate) fn read_ahead(&self, column: usize, rows: &Range<usize>) {
        let column = &self.columns[column];
        if chunks(rows).any(|chunk| !column.checked.get(chunk)) {
            // Checksums cover whole chunks.
            let checked = chunks(rows).start * CHUNK_ROWS..(chunks(rows).end * CHUNK_ROWS).min(self.rows);
            self.read_ahead_layout(&column.layout, &checked);
        }
    }

    fn read_ahead_layout(&self, layout: &Layout, rows: &Range<usize>) {
        if let Some(nulls) = &layout.nulls {
            self.file.read_ahead(nulls.start + rows.start / 8..nulls.start + rows.end.div_ceil(8));
        }
        if let (DataType::FixedSizeList(_, size), Some(child)) = (&layout.data_type, &layout.child) {
            let size = usize::try_from(*size).unwrap_or(0);
            return self.read_ahead_layout(child, &(rows.start * size..rows.end * size));
        }
        let bits = match &layout.data_type {
            DataType::Boolean => 1,
            // Texts are found by their offsets only.
            DataType::Utf8 | DataType::Dictionary(_, _) => 32,
            other => 8 * other.primitive_width().unwrap_or(8),
        };
        if let Some(values) = layout.buffers.first() {
            self.file.read_ahead(values.start + rows.start * bits / 8..values.start + (rows.end * bits).div_ceil(8));
        }
    }

    /// Checks checksums and values of some rows.
    fn check(&self, column: &ColumnBuffers, rows: Range<usize>) -> Result<()> {
        let data = self.data(&column.layout, column.dictionary.as_ref(), &rows)?;
        data.build().map(|_| ()).map_err(|e| self.bad(&e))
    }

    fn bad(&self, error: &arrow::error::ArrowError) -> Error {
        Error::corrupt(&self.file.path, 0, "sound values", error.to_string())
    }

    fn data(
        &self,
        layout: &Layout,
        dictionary: Option<&ArrayRef>,
        rows: &Range<usize>,
    ) -> Result<arrow::array::ArrayDataBuilder> {
        let bits = |buffer: &Range<usize>| -> Result<BooleanBuffer> {
            let bytes = buffer.start + rows.start / 8..buffer.start + rows.end.div_ceil(8);
            self.within(buffer, &bytes)?;
            Ok(BooleanBuffer::new(self.file.data(bytes)?, rows.start % 8, rows.len()))
        };
        let values = |buffer: &Range<usize>, width: usize, rows: Range<usize>| -> Result<Buffer> {
            let bytes = buffer.start + rows.start * width..buffer.start + rows.end * width;
            self.within(buffer, &bytes)?;
            self.file.data(bytes)
        };
        let nulls = layout.nulls.as_ref().map(bits).transpose()?.map(NullBuffer::new);
        let builder = ArrayData::builder(layout.data_type.clone()).len(rows.len()).nulls(nulls);
        Ok(match &layout.data_type {
            DataType::Boolean => {
                let values = bits(&layout.buffers[0])?;
                builder.add_buffer(values.sliced())
            }
            DataType::Utf8 => {
                let offsets = values(&layout.buffers[0], 4, rows.start..rows.end + 1)?;
                let ends = offsets.typed_data::<i32>();
                let (first, last) = (ends.first().copied().unwrap_or(0), ends.last().copied().unwrap_or(0));
                let text = &layout.buffers[1];
                if first < 0 || last < first {
                    return Err(Error::corrupt(&self.file.path, text.start as u64, "offsets in order", "others"));
                }
                let used = text.start + first as usize..text.start + last as usize;
                self.within(text, &used)?;
                // Texts are cut to those of the range, so offsets begin at 0.
                let offsets = if first == 0 {
                    offsets
                } else {
                    ends.iter().map(|end| end.wrapping_sub(first)).collect::<Vec<i32>>().into()
                };
                builder.add_buffer(offsets).add_buffer(self.file.data(used)?)
            }
            DataType::FixedSizeList(_, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                let Some(child) = &layout.child else {
                    return Err(Error::corrupt(&self.file.path, 0, "a list's items", "none"));
                };
                let items = self.data(child, None, &(rows.start * size..rows.end * size))?;
                builder.add_child_data(items.build().map_err(|e| self.bad(&e))?)
            }
            DataType::Dictionary(_, _) => {
                let codes = values(&layout.buffers[0], 4, rows.clone())?;
                builder.add_buffer(codes).add_child_data(texts(dictionary))
            }
            other => {
                let width = other.primitive_width().unwrap_or(8);
                builder.add_buffer(values(&layout.buffers[0], width, rows.clone())?)
            }
        })
    }

    fn within(&self, buffer: &Range<usize>, bytes: &Range<usize>) -> Result<()> {
        if bytes.start < buffer.start || bytes.end > buffer.end || bytes.start > bytes.end {
            return Err(self.short_of(buffer));
        }
        Ok(())
    }

    fn short_of(&self, buffer: &Range<usize>) -> Error {
        let expected = format!("{} bytes", buffer.len());
        Error::corrupt(&self.file.path, buffer.start as u64, expected, "a shorter buffer")
    }
}

/// Whether values are codes of 32 bits.
fn is_coded(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(codes, _) if **codes == DataType::Int32)
}

/// The texts of a dictionary: none where the file has none.
fn texts(dictionary: Option<&ArrayRef>) -> ArrayData {
    dictionary.map_or_else(|| ArrayData::new_empty(&DataType::Utf8), |texts| texts.to_data())
}

/// The chunks that a range of rows touches.
fn chunks(rows: &Range<usize>) -> Range<usize> {
    if rows.is_empty() { 0..0 } else { rows.start / CHUNK_ROWS..(rows.end - 1) / CHUNK_ROWS + 1 }
}

/// Reads the file's messages.
struct Opener<'a> {
    file: &'a CheckedFile,
    bytes: &'a MappedBytes,
}

impl Opener<'_> {
    fn bad(&self, offset: usize, expected: &str, found: impl ToString) -> Error {
        Error::corrupt(&self.file.path, offset as u64, expected, found.to_string())
    }

    fn open(&self, rows: u64) -> Result<(SchemaRef, usize, Vec<ColumnBuffers>)> {
        let bytes = self.bytes;
        let Some(trailer) = bytes.len().checked_sub(10) else {
            return Err(self.bad(0, "an Arrow IPC file", "a shorter one"));
        };
        self.file.check(trailer..bytes.len())?;
        let length = i32::from_le_bytes([bytes[trailer], bytes[trailer + 1], bytes[trailer + 2], bytes[trailer + 3]]);
        let start = usize::try_from(length).ok().and_then(|length| trailer.checked_sub(length));
        let Some(start) = start.filter(|_| bytes[trailer + 4..] == *MAGIC) else {
            return Err(self.bad(trailer, "the end of an Arrow IPC file", "other bytes"));
        };
        self.file.check(start..trailer)?;
        let footer = ipc::root_as_footer(&bytes[start..trailer]).map_err(|e| self.bad(start, "a footer", e))?;
        let Some(schema) = footer.schema() else { return Err(self.bad(start, "a schema", "none")) };
        // Its bytes were checked above; if they aren't what our writer wrote, the conversion may panic.
        let schema = guarded(&self.file.path, || Ok(Arc::new(ipc::convert::fb_to_schema(schema))))?;
        let mut dictionaries = Vec::new();
        for block in footer.dictionaries().into_iter().flatten() {
            dictionaries.push(self.dictionary(block)?);
        }
        let mut batches = footer.recordBatches().into_iter().flatten();
        let (Some(block), None) = (batches.next(), batches.next()) else {
            return Err(self.bad(start, "one record batch", "another number"));
        };
        let (message, body) = self.message(block)?;
        let header = message.header_as_record_batch();
        let header = header.ok_or_else(|| self.bad(body.start, "a record batch", "another message"))?;
        if u64::try_from(header.length()).ok() != Some(rows) {
            return Err(self.bad(body.start, &format!("{rows} rows"), header.length()));
        }
        let rows = usize::try_from(rows).map_err(|e| self.bad(body.start, "a number of rows", e))?;
        let mut cursor = BufferCursor::new(self, header, body);
        let mut ids = 0;
        let mut columns = Vec::new();
        for field in schema.fields() {
            let layout = cursor.layout(field.data_type(), rows)?;
            let dictionary = if matches!(field.data_type(), DataType::Dictionary(_, _)) {
                // Dictionaries are numbered in the order of their fields.
                let dictionary_texts =
                    dictionaries.iter().find(|(id, _)| *id == ids).map(|(_, texts)| Arc::clone(texts));
                ids += 1;
                Some(dictionary_texts.unwrap_or_else(|| new_empty_array(&DataType::Utf8)))
            } else {
                None
            };
            columns.push(ColumnBuffers { layout, dictionary, checked: OnceBits::new(rows.div_ceil(CHUNK_ROWS)) });
        }
        Ok((schema, rows, columns))
    }

    fn message(&self, block: &Block) -> Result<(ipc::Message<'_>, Range<usize>)> {
        let place = || -> Option<(usize, usize, usize)> {
            let start = usize::try_from(block.offset()).ok()?;
            let body = start.checked_add(usize::try_from(block.metaDataLength()).ok()?)?;
            let end = body.checked_add(usize::try_from(block.bodyLength()).ok()?)?;
            (end <= self.bytes.len() && body >= start + 8).then_some((start, body, end))
        };
        let Some((start, body, end)) = place() else {
            return Err(self.bad(0, "a block within the file", "one that leaves it"));
        };
        self.file.check(start..body)?;
        // Continuation marker and length of the metadata stand before it.
        let message = ipc::root_as_message(&self.bytes[start + 8..body]);
        Ok((message.map_err(|e| self.bad(start, "a message", e))?, body..end))
    }

    fn dictionary(&self, block: &Block) -> Result<(i64, ArrayRef)> {
        let (message, body) = self.message(block)?;
        let start = body.start;
        let header = message.header_as_dictionary_batch();
        let header = header.ok_or_else(|| self.bad(start, "a dictionary", "another message"))?;
        let data = header.data().ok_or_else(|| self.bad(start, "a dictionary", "none"))?;
        let rows = usize::try_from(data.length()).map_err(|e| self.bad(start, "a number of entries", e))?;
        self.file.check(body.clone())?;
        let layout = BufferCursor::new(self, data, body).layout(&DataType::Utf8, rows)?;
        let mut builder = ArrayData::builder(DataType::Utf8).len(rows);
        for buffer in &layout.buffers {
            builder = builder.add_buffer(self.file.slice(buffer.clone())?);
        }
        let data = builder.build().map_err(|e| self.bad(start, "a dictionary", e))?;
        Ok((header.id(), make_array(data)))
    }
}

/// Walks the nodes and buffers of a record batch in the order of its fields.
struct BufferCursor<'a> {
    opener: &'a Opener<'a>,
    header: BatchHeader<'a>,
    body: Range<usize>,
    node: usize,
    buffer: usize,
}

impl<'a> BufferCursor<'a> {
    fn new(opener: &'a Opener<'a>, header: BatchHeader<'a>, body: Range<usize>) -> BufferCursor<'a> {
        BufferCursor { opener, header, body, node: 0, buffer: 0 }
    }

    fn layout(&mut self, data_type: &DataType, rows: usize) -> Result<Layout> {
        let nodes = self.header.nodes();
        let Some(node) = nodes.filter(|nodes| self.node < nodes.len()).map(|nodes| nodes.get(self.node)) else {
            return Err(self.opener.bad(self.body.start, "a node for each column", "fewer"));
        };
        self.node += 1;
        if usize::try_from(node.length()).ok() != Some(rows) {
            return Err(self.opener.bad(self.body.start, &format!("{rows} values"), node.length()));
        }
        let nulls = self.buffer()?;
        let count = match data_type {
            DataType::FixedSizeList(_, _) => 0,
            DataType::Utf8 => 2,
            _ => 1,
        };
        let buffers = (0..count).map(|_| self.buffer()).collect::<Result<Vec<_>>>()?;
        let child = match data_type {
            DataType::FixedSizeList(item, size) => {
                let items = usize::try_from(*size).ok().and_then(|size| rows.checked_mul(size));
                let items = items.ok_or_else(|| self.opener.bad(self.body.start, "a list's length", size))?;
                Some(Box::new(self.layout(item.data_type(), items)?))
            }
            _ => None,
        };
        let nulls = (node.null_count() != 0).then_some(nulls);
        Ok(Layout { data_type: data_type.clone(), nulls, buffers, child })
    }

    fn buffer(&mut self) -> Result<Range<usize>> {
        let buffers = self.header.buffers();
        let Some(buffer) = buffers.filter(|list| self.buffer < list.len()).map(|list| list.get(self.buffer)) else {
            return Err(self.opener.bad(self.body.start, "a buffer for each column", "fewer"));
        };
        self.buffer += 1;
        let place = || -> Option<Range<usize>> {
            let start = self.body.start.checked_add(usize::try_from(buffer.offset()).ok()?)?;
            let end = start.checked_add(usize::try_from(buffer.length()).ok()?)?;
            (end <= self.body.end && start.is_multiple_of(8)).then_some(start..end)
        };
        place().ok_or_else(|| self.opener.bad(self.body.start, "a buffer within the body", "one that leaves it"))
    }
}
