//! Numbers as pco compresses them, in two types: `i64` for whole numbers, codes and times, because narrower types
//! compress no better, and `f64` for floats that aren't whole numbers times a power of ten.

use std::cell::RefCell;

use pco::ChunkConfig;
use pco::PagingSpec;
use pco::data_types::Number;
use pco::metadata::DeltaEncoding;
use pco::wrapped::{ChunkDecompressor, FileCompressor, FileDecompressor};

use super::format::{CHUNK_ROWS, PAGE_ROWS, PageContent};

/// Strength of pco, of 12.
const LEVEL: usize = 8;

/// The codec's tables of a chunk, and the bytes of each page. A page without values has no bytes.
pub(super) struct CompressedChunk {
    pub(super) tables: Vec<u8>,
    pub(super) pages: Vec<Vec<u8>>,
}

/// Compresses values that are divided into pages; floats by their bits.
pub(super) fn compress(kind: PageContent, values: &[i64], pages: &[usize]) -> pco::errors::PcoResult<CompressedChunk> {
    match kind {
        PageContent::Float => {
            let floats: Vec<f64> = values.iter().map(|bits| f64::from_bits(bits.cast_unsigned())).collect();
            compress_as(&floats, pages)
        }
        PageContent::Whole | PageContent::Text => compress_as(values, pages),
    }
}

fn compress_as<T: Number>(values: &[T], pages: &[usize]) -> pco::errors::PcoResult<CompressedChunk> {
    let mut compressed = CompressedChunk { tables: Vec::new(), pages: vec![Vec::new(); pages.len()] };
    if values.is_empty() {
        return Ok(compressed);
    }
    let filled: Vec<usize> = (0..pages.len()).filter(|page| pages[*page] > 0).collect();
    let lengths = filled.iter().map(|page| pages[*page]).collect();
    let settings = ChunkConfig::default().with_compression_level(LEVEL).with_paging_spec(PagingSpec::Exact(lengths));
    let codec = FileCompressor::default();
    codec.write_header(&mut compressed.tables)?;
    let mut chunk = codec.chunk_compressor(values, &settings)?;
    chunk.write_meta(&mut compressed.tables)?;
    for (number, page) in filled.into_iter().enumerate() {
        chunk.write_page(number, &mut compressed.pages[page])?;
    }
    Ok(compressed)
}

/// A chunk's tables, ready to decode its pages.
pub(super) enum DecoderTables {
    Whole(ChunkDecompressor<i64>),
    Float(ChunkDecompressor<f64>),
    /// No page has a value.
    Empty,
}

/// Buffers that a thread uses for each page.
struct ChunkScratch {
    codec: pco::DecompressorScratch,
    floats: Vec<f64>,
}

thread_local! {
    static SCRATCH: RefCell<ChunkScratch> = RefCell::new(ChunkScratch { codec: pco::DecompressorScratch::default(), floats: Vec::new() });
}

impl DecoderTables {
    /// Reads tables; in words what is wrong with them.
    pub(super) fn read(kind: PageContent, bytes: &[u8]) -> Result<DecoderTables, String> {
        if bytes.is_empty() {
            return Ok(DecoderTables::Empty);
        }
        let (codec, rest) = FileDecompressor::new(bytes).map_err(|error| error.to_string())?;
        refuse_long_dictionary(rest)?;
        let words = |error: pco::errors::PcoError| error.to_string();
        let tables = match kind {
            PageContent::Float => DecoderTables::Float(codec.chunk_decompressor(rest).map_err(words)?.0),
            PageContent::Whole | PageContent::Text => {
                DecoderTables::Whole(codec.chunk_decompressor(rest).map_err(words)?.0)
            }
        };
        // The memory that a page reserves for values before their number bounds it.
        let delta = match &tables {
            DecoderTables::Whole(chunk) => &chunk.meta().delta_encoding,
            DecoderTables::Float(chunk) => &chunk.meta().delta_encoding,
            DecoderTables::Empty => return Ok(tables),
        };
        match delta {
            DeltaEncoding::Lookback { config, .. } if config.window_n_log > CHUNK_ROWS.ilog2() => {
                Err(format!("a window of 2^{} values", config.window_n_log))
            }
            _ => Ok(tables),
        }
    }

    /// Decodes a page of `values` values into the front of `numbers`; floats as their bits.
    pub(super) fn decode(&self, page: &[u8], values: usize, numbers: &mut Vec<i64>) -> Result<(), String> {
        if values > PAGE_ROWS {
            return Err(format!("{values} values of a page"));
        }
        numbers.resize(values, 0);
        if values == 0 {
            return Ok(());
        }
        SCRATCH.with_borrow_mut(|scratch| match self {
            DecoderTables::Empty => Err("values of a chunk that has none".to_owned()),
            DecoderTables::Whole(chunk) => decode_as(chunk, page, numbers, &mut scratch.codec),
            DecoderTables::Float(chunk) => {
                scratch.floats.resize(values, 0.0);
                decode_as(chunk, page, &mut scratch.floats, &mut scratch.codec)?;
                for (number, float) in numbers.iter_mut().zip(&scratch.floats) {
                    *number = float.to_bits().cast_signed();
                }
                Ok(())
            }
        })
    }
}

/// Refuses tables that announce more values in their dictionary than they have bytes for: pco makes room for all of them, up to 256 MiB, before it
/// reads one. Tables begin with the mode, four bits of which 4 means a dictionary, and its length in 25 bits (pco's wire format, version 4); its
/// values are whole.
fn refuse_long_dictionary(tables: &[u8]) -> Result<(), String> {
    let mut first = [0; 4];
    first.iter_mut().zip(tables).for_each(|(to, from)| *to = *from);
    let first = u32::from_le_bytes(first);
    let values = (first >> 4 & ((1 << 25) - 1)) as usize;
    if first & 0xf == 4 && values * size_of::<i64>() > tables.len() {
        return Err(format!("a dictionary of {values} values in {} bytes", tables.len()));
    }
    Ok(())
}

fn decode_as<T: Number>(
    chunk: &ChunkDecompressor<T>,
    page: &[u8],
    values: &mut [T],
    scratch: &mut pco::DecompressorScratch,
) -> Result<(), String> {
    let words = |error: pco::errors::PcoError| error.to_string();
    let mut decoder = chunk.page_decompressor_with_scratch(page, values.len(), scratch).map_err(words)?;
    let done = decoder.read(values).map_err(words)?;
    if done.finished && done.n_processed == values.len() {
        Ok(())
    } else {
        Err(format!("{} of {} values", done.n_processed, values.len()))
    }
}
