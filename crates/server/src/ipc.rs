//! Arrow IPC from strangers.
//!
//! Arrow's reader checks offsets and text, but believes the sizes that a message names: a buffer said to unpack to an exabyte
//! is allocated before it is unpacked, and a message said to go on for ever is waited for. [`check`] looks at a message before
//! the reader does. [`decode`] runs the reader where a panic ends nothing but the request.

use std::panic::AssertUnwindSafe;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::{MessageHeader, root_as_message};
use bytes::Bytes;

use crate::problem::{Code, Outcome, Problem};

/// Rows of a message; a column of nulls takes no bytes, so bytes alone don't bound them.
const ROWS_MAX: i64 = 1 << 26;

/// Columns of a message.
const COLUMNS_MAX: usize = splay_store::COLUMNS_MAX;

fn unsound(what: impl std::fmt::Display) -> Problem {
    Problem::new(Code::Request, format!("not a sound Arrow stream: {what}"))
}

/// Checks the sizes that a message names against the bytes there are and the bytes that it may unpack to.
///
/// # Errors
/// [`Code::Request`], [`Code::TooLarge`].
pub(crate) fn check(header: &[u8], body: &[u8], bytes_max: usize) -> Outcome<()> {
    let message = root_as_message(header).map_err(unsound)?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        MessageHeader::Schema => {
            let schema = message.header_as_schema().ok_or_else(|| unsound("a schema message without a schema"))?;
            let columns = schema.fields().map_or(0, |fields| fields.len());
            if columns > COLUMNS_MAX {
                return Err(Problem::new(Code::Request, format!("{columns} columns are more than {COLUMNS_MAX}")));
            }
            return Ok(());
        }
        MessageHeader::NONE => return Ok(()),
        _ => return Err(unsound("a message that is neither schema nor rows")),
    };
    let batch = batch.ok_or_else(|| unsound("a message of rows without rows"))?;
    let lengths = batch.nodes().into_iter().flatten().map(|node| node.length());
    if lengths.chain([batch.length()]).any(|length| !(0..=ROWS_MAX).contains(&length)) {
        return Err(Problem::new(Code::TooLarge, format!("more than {ROWS_MAX} rows in one message")));
    }
    let mut unpacked = 0usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let bytes = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(start, length)| body.get(start..start.checked_add(length)?))
            .ok_or_else(|| unsound("a buffer lies outside its message"))?;
        let size = match (batch.compression(), bytes.first_chunk::<8>()) {
            (None, _) | (_, None) => bytes.len(),
            // Minus one says that the buffer is not packed.
            (Some(_), Some(size)) => usize::try_from(i64::from_le_bytes(*size)).unwrap_or(bytes.len()),
        };
        unpacked = unpacked.saturating_add(size);
        if unpacked > bytes_max {
            let text = format!("a message of rows unpacks to more than {bytes_max} bytes");
            return Err(Problem::new(Code::TooLarge, text));
        }
    }
    Ok(())
}

/// Checks all messages of a stream.
fn check_stream(mut bytes: &[u8], bytes_max: usize) -> Outcome<()> {
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
        check(header, body, bytes_max)?;
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
    // Arrow's reader indexes and unwraps; what gets past the checks may still panic there, and nothing of ours is shared with it.
    let decoded = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let (mut decoder, mut buffer, mut batches) = (StreamDecoder::new(), Buffer::from(bytes), Vec::new());
        // The decoder takes a body of no bytes only when more follow.
        while !buffer.is_empty() {
            batches.extend(decoder.decode(&mut buffer).map_err(unsound)?);
        }
        let schema = decoder.schema().ok_or_else(|| unsound("it has no schema"))?;
        Ok((schema, batches))
    }));
    decoded.unwrap_or_else(|_| Err(unsound("it can't be read")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray};
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};

    use super::*;

    fn stream(compression: Option<CompressionType>) -> Vec<u8> {
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

    #[test]
    fn what_unpacks_to_more_than_allowed_is_refused() {
        let problem = decode(stream(Some(CompressionType::ZSTD)).into(), 500).unwrap_err();
        assert_eq!(problem.code, Code::TooLarge);
    }
}
