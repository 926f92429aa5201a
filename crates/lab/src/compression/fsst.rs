//! FSST: texts as codes of a byte for the pieces that are frequent in a block. The `fsst-rs` crate, with a table of pieces for each block.
//!
//! Layout of a block: number of pieces, their lengths, 8 bytes each for them, then the packed lengths of the compressed texts, then these.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use fsst::{Compressor, Decompressor, Symbol};

use super::column::{Column, unsupported};
use super::light_encodings::BLOCK_ROWS;
use super::pack::{pack, unpack};
use super::plain_bytes;
use super::rows::{RowCodec, RowDecoder, RowScheme};
use super::scheme::SchemeId;
use crate::{Error, Result};

/// The code behind which a byte stands for itself.
const ESCAPE: u8 = fsst::ESCAPE_CODE;

/// The scheme.
pub fn scheme() -> RowScheme {
    let id =
        SchemeId { name: "fsst".to_owned(), family: "fsst", codec: "none", encoding: "fsst", ..SchemeId::default() };
    RowScheme::new(id, BLOCK_ROWS, Box::new(Fsst))
}

struct Fsst;

impl RowCodec for Fsst {
    fn encode(&self, column: &Column, block_rows: usize) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
        if !matches!(column.data_type(), DataType::Utf8 | DataType::Binary) {
            return Err(unsupported("fsst", column, "its values are no texts"));
        }
        let texts = plain_bytes::text_rows(column.values());
        Ok((Vec::new(), texts.chunks(block_rows).map(encode).collect()))
    }

    fn decoder(&self, _: &[u8], data_type: &DataType) -> Result<Box<dyn RowDecoder>> {
        Ok(Box::new(Decoder { data_type: data_type.clone() }))
    }
}

fn encode(texts: &[&[u8]]) -> Vec<u8> {
    let compressor = Compressor::train(&texts.to_vec());
    let pieces = compressor.symbol_table();
    let mut block = vec![u8::try_from(pieces.len()).unwrap_or(u8::MAX)];
    block.extend_from_slice(compressor.symbol_lengths());
    block.extend(pieces.iter().flat_map(|piece| piece.to_u64().to_le_bytes()));
    let compressed: Vec<Vec<u8>> = texts.iter().map(|text| compressor.compress(text)).collect();
    let lengths: Vec<i64> = compressed.iter().map(|text| i64::try_from(text.len()).unwrap_or(0)).collect();
    pack(&lengths, &mut block);
    block.extend(compressed.concat());
    block
}

struct Decoder {
    data_type: DataType,
}

impl RowDecoder for Decoder {
    fn decode(&mut self, block: &[u8], rows: usize) -> Result<ArrayRef> {
        let short = || Error::damaged(0, "the block is too short");
        let (count, rest) = block.split_first().ok_or_else(short)?;
        let count = usize::from(*count);
        let (lengths_stored, rest) = rest.split_at_checked(count).ok_or_else(short)?;
        let (pieces, mut rest) = rest.split_at_checked(8 * count).ok_or_else(short)?;
        let (mut symbols, mut lengths) = ([Symbol::ZERO; 255], [1_u8; 255]);
        if lengths_stored.iter().any(|length| !(1..=8).contains(length)) {
            return Err(Error::damaged(0, "a piece has no length from 1 to 8"));
        }
        lengths[..count].copy_from_slice(lengths_stored);
        for (symbol, piece) in symbols.iter_mut().zip(pieces.as_chunks().0) {
            *symbol = Symbol::from_slice(piece);
        }
        let decompressor = Decompressor::new(&symbols, &lengths);
        let mut texts = Vec::with_capacity(rows);
        for length in unpack(&mut rest, rows)? {
            let length = usize::try_from(length).map_err(|error| Error::damaged(0, error))?;
            let (text, behind) = rest.split_at_checked(length).ok_or_else(short)?;
            if ends_in_escape(text) {
                return Err(Error::damaged(0, "a text ends within a byte"));
            }
            texts.push(decompressor.decompress(text));
            rest = behind;
        }
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        plain_bytes::of_texts(&texts, None, &self.data_type)
    }
}

/// Whether the last code needs a byte behind it.
fn ends_in_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|code| **code == ESCAPE).count() % 2 == 1
}
