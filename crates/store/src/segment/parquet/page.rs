//! The bytes of a page: checked and decompressed, with its definition levels as a validity mask.

use std::cell::RefCell;
use std::ops::Range;

use parquet::basic::CompressionCodec;

use super::super::checksum::CheckedFile;
use super::encodings;
use super::modules::{Cipher, ModulePlace};
use super::thrift::{self, PageHeader};
use crate::error::{Error, Result};

/// Most bytes that a thread keeps for the next page.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// A page's header, and its bytes as they were before compression.
pub(super) struct PageBytes<'a> {
    pub(super) header: PageHeader,
    pub(super) bytes: &'a [u8],
}

/// Buffers that a thread uses for each page.
struct PageScratch {
    bytes: Vec<u8>,
    /// Decrypted bytes: a header, then a page.
    decrypted: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

thread_local! {
    static SCRATCH: RefCell<PageScratch> = const { RefCell::new(PageScratch { bytes: Vec::new(), decrypted: Vec::new(), zstd: None }) };
}

/// Whether pages of a codec are decompressed here.
pub(super) fn is_supported(codec: CompressionCodec) -> bool {
    matches!(codec, CompressionCodec::UNCOMPRESSED | CompressionCodec::ZSTD | CompressionCodec::LZ4_RAW)
}

/// How a page's bytes become those of its values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) codec: CompressionCodec,
    /// How they are decrypted, and in which place.
    pub(super) cipher: Option<(&'a Cipher, ModulePlace)>,
    /// Most bytes before compression.
    pub(super) bytes_max: usize,
}

/// Hands over a page.
pub(super) fn with_bytes<T>(
    file: &CheckedFile,
    place: Range<usize>,
    form: Form<'_>,
    read: impl FnOnce(PageBytes<'_>) -> Result<T>,
) -> Result<T> {
    let stored = file.data(place.clone())?;
    let wrong = |expected: &str, found: String| Error::corrupt(&file.path, place.start as u64, expected, found);
    let parsed = |bytes: &[u8]| {
        let header = thrift::page_header(bytes);
        let header = header.ok_or_else(|| wrong("the header of a page", "other bytes".to_owned()))?;
        match header.bytes <= form.bytes_max {
            true => Ok(header),
            false => Err(wrong("a page of its rows", format!("{} bytes before compression", header.bytes))),
        }
    };
    let whole = |header: &PageHeader, start: usize| {
        let body = stored.get(start..).and_then(|body| body.get(..header.stored_bytes));
        body.ok_or_else(|| wrong("a whole page", format!("{} bytes", stored.len())))
    };
    if form.cipher.is_none() && form.codec == CompressionCodec::UNCOMPRESSED {
        let header = parsed(&stored)?;
        return read(PageBytes { header, bytes: whole(&header, header.header_bytes)? });
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let PageScratch { bytes, decrypted, zstd } = scratch;
        let (header, body) = match form.cipher {
            None => {
                let header = parsed(&stored)?;
                (header, whole(&header, header.header_bytes)?)
            }
            Some((cipher, at)) => {
                let strange = || wrong("a page that its key authenticates in this place", "another".to_owned());
                let start = cipher.header(&stored, at, decrypted).ok_or_else(strange)?;
                let header = parsed(decrypted)?;
                cipher.body(whole(&header, start)?, at, decrypted).ok_or_else(strange)?;
                (header, decrypted.as_slice())
            }
        };
        let result = match form.codec {
            CompressionCodec::UNCOMPRESSED => read(PageBytes { header, bytes: body }),
            codec => {
                bytes.resize(header.bytes, 0);
                decompress(codec, zstd, body, bytes).map_err(|error| wrong("a compressed page", error))?;
                read(PageBytes { header, bytes })
            }
        };
        for buffer in [bytes, decrypted] {
            if buffer.capacity() > BUFFER_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
        result
    })
}

/// Decompresses a page into so many bytes as it has.
fn decompress(
    codec: CompressionCodec,
    decompressor: &mut Option<zstd::bulk::Decompressor<'static>>,
    body: &[u8],
    into: &mut [u8],
) -> Result<(), String> {
    let written = match codec {
        CompressionCodec::ZSTD => {
            let zstd = match decompressor {
                Some(zstd) => zstd,
                none => none.insert(zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?),
            };
            zstd.decompress_to_buffer(body, into).map_err(|error| error.to_string())?
        }
        _ => lz4_flex::block::decompress_into(body, into).map_err(|error| error.to_string())?,
    };
    if written == into.len() { Ok(()) } else { Err(format!("{written} bytes instead of {}", into.len())) }
}

/// The validity mask of a page's values, if there are nulls, and the bytes behind it; `None` for invalid bytes.
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
