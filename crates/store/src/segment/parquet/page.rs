//! The bytes of a page: checked and decompressed, with its definition levels as a validity mask.

use std::cell::RefCell;
use std::ops::Range;

use parquet::basic::CompressionCodec;

use super::super::checksum::CheckedFile;
use super::encodings;
use super::thrift::{self, PageHeader};
use crate::error::{Error, Result};

/// Most bytes that a thread keeps for the next page.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A page's header, and its bytes as they were before compression.
pub(super) struct PageBytes<'a> {
    pub(super) header: PageHeader,
    pub(super) bytes: &'a [u8],
}

/// What a thread needs again for each page.
struct Scratch {
    bytes: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { bytes: Vec::new(), zstd: None }) };
}

/// Whether pages of a codec are decompressed here.
pub(super) fn is_known(codec: CompressionCodec) -> bool {
    matches!(codec, CompressionCodec::UNCOMPRESSED | CompressionCodec::ZSTD | CompressionCodec::LZ4_RAW)
}

/// Hands over a page that takes at most `bytes_max` bytes before compression.
pub(super) fn with_bytes<T>(
    file: &CheckedFile,
    place: Range<usize>,
    codec: CompressionCodec,
    bytes_max: usize,
    read: impl FnOnce(PageBytes<'_>) -> Result<T>,
) -> Result<T> {
    let stored = file.data(place.clone())?;
    let wrong = |expected: &str, found: String| Error::corrupt(&file.path, place.start as u64, expected, found);
    let header = thrift::page_header(&stored).ok_or_else(|| wrong("the header of a page", "other bytes".to_owned()))?;
    let body = stored
        .get(header.header_bytes..)
        .and_then(|body| body.get(..header.stored_bytes))
        .ok_or_else(|| wrong("a whole page", format!("{} bytes", stored.len())))?;
    if header.bytes > bytes_max {
        return Err(wrong("a page of its rows", format!("{} bytes before compression", header.bytes)));
    }
    if codec == CompressionCodec::UNCOMPRESSED {
        return read(PageBytes { header, bytes: body });
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let failed = |error: String| wrong("a compressed page", error);
        scratch.bytes.resize(header.bytes, 0);
        let written = match codec {
            CompressionCodec::ZSTD => {
                let zstd = match &mut scratch.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(zstd::bulk::Decompressor::new().map_err(|e| failed(e.to_string()))?),
                };
                zstd.decompress_to_buffer(body, &mut scratch.bytes[..]).map_err(|e| failed(e.to_string()))?
            }
            _ => lz4_flex::block::decompress_into(body, &mut scratch.bytes).map_err(|e| failed(e.to_string()))?,
        };
        if written != header.bytes {
            return Err(failed(format!("{written} bytes instead of {}", header.bytes)));
        }
        let result = read(PageBytes { header, bytes: &scratch.bytes });
        if scratch.bytes.capacity() > KEPT_BYTES_MAX {
            scratch.bytes = Vec::new();
        }
        result
    })
}

/// Which of a page's values are there, if not all are, and the bytes behind; `None` for bytes that don't say it.
#[expect(clippy::type_complexity, reason = "said in words above")]
pub(super) fn levels(bytes: &[u8], values: usize) -> Option<(Option<Vec<bool>>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (packed, behind) = (rest.get(..length)?, &rest[length..]);
    let mut valid = Vec::new();
    let mut seen = 0;
    encodings::hybrid(packed, 1, values, |some| {
        if !valid.is_empty() || some.contains(&0) {
            valid.reserve(values - valid.len());
            valid.resize(seen, true);
            valid.extend(some.iter().map(|level| *level != 0));
        }
        seen += some.len();
    })?;
    Some(((!valid.is_empty()).then_some(valid), behind))
}
