//! Arrow IPC from untrusted clients.
//!
//! Arrow's reader checks offsets and text, but trusts the schema and the sizes in a message: it allocates an exabyte
//! for a buffer that claims to unpack to one, and waits for a message that claims to be endless. A [`Checker`]
//! examines each message before the reader does:
//!
//! - a schema has only types that rows can have, and a bounded number of texts ([`schema`]);
//! - buffers lie within their message, and the unpacked bytes are bounded: of a message, of the dictionaries of a
//!   stream, and of all messages of a body, which are in memory together;
//! - rows are bounded too, because a column of nulls takes no bytes.
//!
//! A message that passes may still panic in the reader: [`decode`] and [`guarded`] run it where a panic ends only the
//! request.

#[cfg(test)]
mod fuzz;
mod schema;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::{self, MessageHeader, root_as_message};
use bytes::Bytes;
use futures::FutureExt;

use self::schema::{Buffers, MessageShape, TextCount, VIEW_BYTES};
use crate::problem::{Code, Outcome, Problem};

/// Rows of a message, and of all messages of a body.
const ROWS_MAX: i64 = 1 << 26;

/// Columns of a message.
const COLUMNS_MAX: usize = splay_store::COLUMNS_MAX;

fn unsound(what: impl std::fmt::Display) -> Problem {
    Problem::new(Code::Request, format!("not a sound Arrow stream: {what}"))
}

fn too_many_rows() -> Problem {
    Problem::new(Code::TooLarge, format!("more than {ROWS_MAX} rows at once"))
}

/// Looks at the messages of one stream.
#[derive(Debug)]
pub(crate) struct Checker {
    bytes_max: usize,
    /// The shape of messages, once the schema has come.
    shape: Option<MessageShape>,
    /// Unpacked bytes of the dictionaries that the reader keeps.
    dictionaries: HashMap<i64, usize>,
}

/// The size of a message once it is decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct DecodedSize {
    rows: i64,
    bytes: usize,
}

impl Checker {
    /// At the beginning of a stream of which the reader may hold so many unpacked bytes at a time.
    pub(crate) fn new(bytes_max: usize) -> Checker {
        Checker { bytes_max, shape: None, dictionaries: HashMap::new() }
    }

    /// Checks the next message.
    ///
    /// # Errors
    /// [`Code::Request`], [`Code::TooLarge`].
    pub(crate) fn check(&mut self, header: &[u8], body: &[u8]) -> Outcome<()> {
        self.message(header, body).map(|_| ())
    }

    fn message(&mut self, header: &[u8], body: &[u8]) -> Outcome<DecodedSize> {
        let message = root_as_message(header).map_err(unsound)?;
        TextCount::default().metadata(message.custom_metadata().into_iter().flatten())?;
        match message.header_type() {
            MessageHeader::NONE => Ok(DecodedSize::default()),
            MessageHeader::Schema if self.shape.is_some() => Err(unsound("a second schema")),
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(|| unsound("a schema message without a schema"))?;
                self.shape = Some(schema::shape(&schema)?);
                Ok(DecodedSize::default())
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch();
                let batch = batch.ok_or_else(|| unsound("a message of rows without rows"))?;
                let unpacked = self.unpacked(&batch, body, &self.shape()?.columns)?;
                self.bound(unpacked.bytes)?;
                Ok(unpacked)
            }
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch();
                self.dictionary(&dictionary.ok_or_else(|| unsound("a message without its dictionary"))?, body)
            }
            _ => Err(unsound("a message that is neither schema nor rows")),
        }
    }

    fn shape(&self) -> Outcome<&MessageShape> {
        self.shape.as_ref().ok_or_else(|| unsound("rows before their schema"))
    }

    fn dictionary(&mut self, dictionary: &ipc::DictionaryBatch<'_>, body: &[u8]) -> Outcome<DecodedSize> {
        let id = dictionary.id();
        let buffers = self.shape()?.dictionaries.get(&id);
        let buffers = *buffers.ok_or_else(|| unsound("a dictionary that no column has"))?;
        let values = dictionary.data().ok_or_else(|| unsound("a dictionary without values"))?;
        let mut unpacked = self.unpacked(&values, body, &[buffers])?;
        if dictionary.isDelta() {
            // The reader makes one of both, and rows that came keep the one before.
            unpacked.bytes = unpacked.bytes.saturating_add(self.dictionaries.get(&id).copied().unwrap_or(0));
        }
        self.dictionaries.insert(id, unpacked.bytes);
        self.bound(0)?;
        Ok(DecodedSize { rows: 0, ..unpacked })
    }

    /// Whether a message is within what may be held besides the dictionaries.
    fn bound(&self, bytes: usize) -> Outcome<()> {
        let total = self.dictionaries.values().fold(bytes, |total, dictionary| total.saturating_add(*dictionary));
        if total > self.bytes_max { Err(self.too_large()) } else { Ok(()) }
    }

    fn too_large(&self) -> Problem {
        Problem::new(Code::TooLarge, format!("rows unpack to more than {} bytes", self.bytes_max))
    }

    /// Checks rows and the sizes of their buffers.
    fn unpacked(&self, batch: &ipc::RecordBatch<'_>, body: &[u8], columns: &[Buffers]) -> Outcome<DecodedSize> {
        let nodes: Vec<_> = batch.nodes().into_iter().flatten().collect();
        let lengths = nodes.iter().map(|node| node.length());
        if lengths.chain([batch.length()]).any(|length| !(0..=ROWS_MAX).contains(&length)) {
            return Err(too_many_rows());
        }
        let sizes = splay_ipc::buffer_sizes(batch, body, self.bytes_max).map_err(|error| match error {
            splay_ipc::Error::TooLarge { .. } => self.too_large(),
            other => unsound(other),
        })?;
        fits(columns, &nodes, &sizes, batch.variadicBufferCounts().into_iter().flatten())?;
        Ok(DecodedSize { rows: batch.length(), bytes: sizes.iter().sum() })
    }
}

/// Whether columns find their nodes and buffers, each its bitmap as long as its rows, and values and offsets whole: Arrow's reader
/// panics where they aren't.
fn fits(
    columns: &[Buffers],
    nodes: &[&ipc::FieldNode],
    sizes: &[usize],
    mut views: impl Iterator<Item = i64>,
) -> Outcome<()> {
    let (mut nodes, mut rest) = (nodes.iter(), sizes);
    let mut column = |count: usize, width: usize| {
        let node = nodes.next().ok_or_else(|| unsound("fewer columns than its schema has"))?;
        let (own, others) =
            rest.split_at_checked(count).ok_or_else(|| unsound("fewer buffers than its columns have"))?;
        rest = others;
        let bits = usize::try_from(node.length()).unwrap_or(usize::MAX);
        if node.null_count() > 0 && own.first().is_some_and(|bitmap| *bitmap < bits.div_ceil(8)) {
            return Err(unsound("a bitmap that is shorter than its rows"));
        }
        if own.get(1).is_some_and(|values| !values.is_multiple_of(width)) {
            return Err(unsound("a buffer that ends within a value"));
        }
        Ok(())
    };
    for buffers in columns {
        match buffers {
            Buffers::None => column(0, 1)?,
            Buffers::Values(width) => column(2, *width)?,
            Buffers::Texts(width) => column(3, *width)?,
            Buffers::Views => {
                let count = views.next().and_then(|count| usize::try_from(count).ok());
                let count = count.filter(|count| *count <= sizes.len());
                column(2 + count.ok_or_else(|| unsound("views without a number of buffers"))?, VIEW_BYTES)?;
            }
            Buffers::Lists(width) => {
                column(1, 1)?;
                column(2, *width)?;
            }
        }
    }
    if views.next().is_some() { Err(unsound("more views than its columns have")) } else { Ok(()) }
}

/// Checks all messages of a stream, which will be in memory together.
///
/// # Errors
/// [`Code::Request`], [`Code::TooLarge`].
pub(crate) fn check_stream(mut bytes: &[u8], bytes_max: usize) -> Outcome<()> {
    let mut checker = Checker::new(bytes_max);
    let mut all = DecodedSize::default();
    while let Some((word, rest)) = bytes.split_first_chunk::<4>() {
        let (size, rest) = match (u32::from_le_bytes(*word), rest.split_first_chunk::<4>()) {
            (u32::MAX, Some((size, rest))) => (u32::from_le_bytes(*size), rest),
            (u32::MAX, None) => return Err(unsound("it ends within a message")),
            // Without the marker, as it was before Arrow 0.15.
            (size, _) => (size, rest),
        };
        if size == 0 {
            return Ok(());
        }
        let split = usize::try_from(size).ok().and_then(|size| rest.split_at_checked(size));
        let (header, rest) = split.ok_or_else(|| unsound("it ends within a message"))?;
        let length = root_as_message(header).map_err(unsound)?.bodyLength();
        let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let (body, rest) = split.ok_or_else(|| unsound("it ends within the body of a message"))?;
        let message = checker.message(header, body)?;
        all = DecodedSize { rows: all.rows + message.rows, bytes: all.bytes.saturating_add(message.bytes) };
        if all.rows > ROWS_MAX {
            return Err(too_many_rows());
        }
        if all.bytes > bytes_max {
            return Err(checker.too_large());
        }
        bytes = rest;
    }
    if bytes.is_empty() { Ok(()) } else { Err(unsound("it ends within a message")) }
}

/// The batches of a stream. Runs long; not for the network's threads.
///
/// # Errors
/// [`Code::Request`], [`Code::TooLarge`].
pub(crate) fn decode(bytes: Bytes, bytes_max: usize) -> Outcome<(SchemaRef, Vec<RecordBatch>)> {
    check_stream(&bytes, bytes_max)?;
    // Nothing of ours is shared with the reader, so that what a panic leaves of it is dropped whole.
    let read = std::panic::catch_unwind(AssertUnwindSafe(|| read(bytes)));
    read.unwrap_or_else(|_| Err(unsound("it can't be read")))
}

/// Reads a stream that was checked.
pub(crate) fn read(bytes: Bytes) -> Outcome<(SchemaRef, Vec<RecordBatch>)> {
    let (mut decoder, mut buffer, mut batches) = (StreamDecoder::new(), Buffer::from(bytes), Vec::new());
    // The decoder takes a body of no bytes only when more follow.
    while !buffer.is_empty() {
        batches.extend(decoder.decode(&mut buffer).map_err(unsound)?);
    }
    let schema = decoder.schema().ok_or_else(|| unsound("it has no schema"))?;
    Ok((schema, batches))
}

/// Runs a reader of checked messages, and turns a panic into a problem. Use nothing of the reader after that.
///
/// # Errors
/// [`Code::Request`].
pub(crate) async fn guarded<T>(reading: impl Future<Output = T>) -> Outcome<T> {
    AssertUnwindSafe(reading).catch_unwind().await.map_err(|_| unsound("it can't be read"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray};
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};

    use super::*;

    pub(super) fn stream(compression: Option<CompressionType>) -> Vec<u8> {
        let columns: [(_, arrow::array::ArrayRef); 3] = [
            ("a", Arc::new(Int64Array::from_iter_values(0..100))),
            ("b", Arc::new(Float64Array::from_iter_values((0..100).map(f64::from)))),
            ("c", Arc::new(StringArray::from_iter_values((0..100).map(|i| format!("text {i}"))))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn a_sound_stream_is_read() {
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let (schema, batches) = decode(stream(compression).into(), 1 << 20).unwrap();
            assert_eq!((schema.fields().len(), batches.len(), batches[1].num_rows()), (3, 2, 100));
        }
    }

    #[test]
    fn truncated_and_flipped_streams_never_panic_nor_hang() {
        std::panic::set_hook(Box::new(|_| {}));
        for compression in [None, Some(CompressionType::LZ4_FRAME)] {
            let whole = stream(compression);
            for end in 0..whole.len() - 8 {
                assert!(decode(whole[..end].to_vec().into(), 1 << 20).is_err() || end > 0);
            }
            for at in 0..whole.len() {
                for bit in [0x01, 0x80, 0xff] {
                    let mut flipped = whole.clone();
                    flipped[at] ^= bit;
                    // Sound or not, it comes back.
                    let _ = decode(flipped.into(), 1 << 20);
                }
            }
        }
        let _ = std::panic::take_hook();
    }

    /// A body of packed messages, each within its bounds, had its batches in memory together, however many there were.
    #[test]
    fn all_messages_of_a_body_are_bounded_together() {
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![0; 10_000])) as _)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        (0..100).for_each(|_| writer.write(&batch).unwrap());
        let bytes = writer.into_inner().unwrap();
        assert!(bytes.len() < 100_000);
        assert_eq!(decode(bytes.into(), 1_000_000).unwrap_err().code, Code::TooLarge);
    }

    /// A dictionary that grows message by message was held once for each batch between them.
    #[test]
    fn a_dictionary_that_grows_is_counted_with_every_growth() {
        use arrow::array::{DictionaryArray, Int32Array};
        use arrow::ipc::writer::DictionaryHandling;
        let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let texts: Vec<String> = (0..200).map(|number| format!("a text of some length, number {number}")).collect();
        let batch = |count: usize| {
            let values = Arc::new(StringArray::from_iter_values(&texts[..count]));
            let keys = Int32Array::from(vec![0]);
            RecordBatch::try_from_iter([("a", Arc::new(DictionaryArray::new(keys, values)) as _)]).unwrap()
        };
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch(1).schema(), options).unwrap();
        (1..=200).for_each(|count| writer.write(&batch(count)).unwrap());
        let bytes = writer.into_inner().unwrap();
        assert!(bytes.len() < 200_000);
        assert_eq!(decode(bytes.clone().into(), 400_000).unwrap_err().code, Code::TooLarge);
        assert_eq!(decode(bytes.into(), 4_000_000).unwrap().1.len(), 200);
    }

    /// Regression: all dictionaries of an endless stream were held, each as long as a message may be.
    #[test]
    fn dictionaries_of_a_stream_are_bounded_together() {
        use arrow::array::{DictionaryArray, Int32Array};
        let dictionary = |text: String| {
            let values = Arc::new(StringArray::from_iter_values([text]));
            Arc::new(DictionaryArray::new(Int32Array::from(vec![0]), values)) as arrow::array::ArrayRef
        };
        let columns: Vec<_> = (0..20).map(|number| (number.to_string(), dictionary("x".repeat(10_000)))).collect();
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.into_inner().unwrap();
        let mut rest = bytes.as_slice();
        let (mut checker, mut refused) = (Checker::new(100_000), 0);
        while let Some((_, after)) = rest.split_first_chunk::<4>().filter(|(_, after)| after[..4] != [0; 4]) {
            let (size, after) = after.split_first_chunk::<4>().unwrap();
            let (header, after) = after.split_at(u32::from_le_bytes(*size) as usize);
            let length = root_as_message(header).unwrap().bodyLength();
            let (body, after) = after.split_at(usize::try_from(length).unwrap());
            refused += usize::from(checker.check(header, body).is_err());
            rest = after;
        }
        assert!((11..=12).contains(&refused), "{refused}");
    }

    /// Schemas that panicked within Arrow's reader; over Flight that ended the stream without a word.
    #[test]
    fn schemas_that_rows_cant_have_are_refused_by_name() {
        use arrow::datatypes::{DataType, Field, Schema};
        let of = |data_type: DataType| {
            let schema = Schema::new(vec![Field::new("odd", data_type, true)]);
            let bytes = StreamWriter::try_new(Vec::new(), &schema).unwrap().into_inner().unwrap();
            decode(bytes.into(), 1 << 20).map(|(schema, _)| schema.field(0).data_type().clone())
        };
        let item = || Arc::new(Field::new("item", DataType::Int64, true));
        for odd in [
            DataType::List(item()),
            DataType::Struct(vec![item()].into()),
            DataType::FixedSizeList(item(), 0),
            DataType::FixedSizeBinary(1 << 30),
            DataType::Decimal128(200, 3),
            DataType::RunEndEncoded(Arc::new(Field::new("run_ends", DataType::Int32, false)), item()),
        ] {
            assert_eq!(of(odd.clone()).unwrap_err().code, Code::Request, "{odd}");
        }
        for sound in [
            DataType::Null,
            DataType::Utf8View,
            DataType::Decimal256(76, -3),
            DataType::FixedSizeList(item(), 20),
            DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::LargeUtf8)),
            DataType::Timestamp(arrow::datatypes::TimeUnit::Second, Some("Europe/Zurich".into())),
        ] {
            assert_eq!(of(sound.clone()).unwrap(), sound);
        }
    }

    #[test]
    fn what_unpacks_to_more_than_allowed_is_refused() {
        let problem = decode(stream(Some(CompressionType::ZSTD)).into(), 500).unwrap_err();
        assert_eq!(problem.code, Code::TooLarge);
    }
}
