//! Dictionaries: the distinct values once, and packed codes for the rows. The dictionary is part of what blocks share.

use std::collections::BTreeSet;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::codec::{Codec, Compressor, Decompressor};
use super::column::{Column, unsupported};
use super::light_encodings::{BLOCK_ROWS, compress, decompress, id};
use super::numbers::{self, NumericForm};
use super::pack::{pack, unpack};
use super::plain_bytes;
use super::rows::{RowCodec, RowDecoder, RowScheme};
use crate::{Error, Result};

/// A dictionary of more values gains nothing.
const VALUES_MAX: usize = 1 << 16;
/// More bytes than the codes of a block take.
const BLOCK_BYTES_MAX: usize = 16 * BLOCK_ROWS as usize;
/// Bytes that a dictionary may have.
const SHARED_BYTES_MAX: usize = 1 << 28;

/// The scheme of dictionaries with a codec of their bytes and of the codes'.
pub fn scheme(codec: Codec) -> RowScheme {
    RowScheme::new(id("dictionary", codec), BLOCK_ROWS, Box::new(DictionaryScheme { codec }))
}

struct DictionaryScheme {
    codec: Codec,
}

impl RowCodec for DictionaryScheme {
    fn encode(&self, column: &Column, block_rows: usize) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
        let (dictionary, codes) = match column.data_type() {
            DataType::Utf8 | DataType::Binary => {
                let (texts, codes) = coded(column, &plain_bytes::text_rows(column.values()))?;
                (texts_with_ends(&texts), codes)
            }
            _ => {
                let (numbers, form) = numbers::of(column)?;
                let (distinct, codes) = coded(column, &numbers)?;
                let mut dictionary = vec![form.byte()];
                dictionary.extend_from_slice(&u32::try_from(distinct.len()).unwrap_or(0).to_le_bytes());
                pack(&distinct, &mut dictionary);
                (dictionary, codes)
            }
        };
        let mut compressor = Compressor::new(self.codec)?;
        let mut packed = |codes: &[i64]| {
            let mut block = Vec::new();
            pack(codes, &mut block);
            compress(&mut compressor, &block)
        };
        let blocks = codes.chunks(block_rows).map(&mut packed).collect::<Result<_>>()?;
        Ok((compress(&mut compressor, &dictionary)?, blocks))
    }

    fn decoder(&self, shared: &[u8], data_type: &DataType) -> Result<Box<dyn RowDecoder>> {
        let mut decompressor = Decompressor::new(self.codec)?;
        let dictionary = decompress(&mut decompressor, shared, SHARED_BYTES_MAX)?;
        let values = match data_type {
            DataType::Utf8 | DataType::Binary => Values::Texts(texts(&dictionary)?),
            _ => {
                let short = || Error::damaged(0, "the dictionary is too short");
                let (form, rest) = dictionary.split_first().ok_or_else(short)?;
                let (count, mut rest) = rest.split_first_chunk().ok_or_else(short)?;
                let count = u32::from_le_bytes(*count) as usize;
                if count > VALUES_MAX {
                    return Err(Error::damaged(0, format!("a dictionary of {count} values")));
                }
                Values::Numbers(unpack(&mut rest, count)?, NumericForm::from_byte(*form)?)
            }
        };
        Ok(Box::new(Decoder { values, decompressor, data_type: data_type.clone() }))
    }
}

/// Distinct values in order, and the place of each row's among them.
fn coded<T: Ord + Copy>(column: &Column, rows: &[T]) -> Result<(Vec<T>, Vec<i64>)> {
    let mut distinct = BTreeSet::new();
    for row in rows {
        distinct.insert(*row);
        if distinct.len() > VALUES_MAX {
            return Err(unsupported("dictionary", column, format!("it has more than {VALUES_MAX} distinct values")));
        }
    }
    let distinct: Vec<T> = distinct.into_iter().collect();
    let code = |row: &T| distinct.binary_search(row).ok().and_then(|code| i64::try_from(code).ok()).unwrap_or(0);
    let codes = rows.iter().map(code).collect();
    Ok((distinct, codes))
}

/// How many there are, where each ends, and all of them.
fn texts_with_ends(texts: &[&[u8]]) -> Vec<u8> {
    let mut end = 0_u32;
    let mut bytes = u32::try_from(texts.len()).unwrap_or(0).to_le_bytes().to_vec();
    for text in texts {
        end = end.saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    bytes.extend(texts.concat());
    bytes
}

fn texts(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let short = || Error::damaged(0, "the dictionary is too short");
    let (count, rest) = bytes.split_first_chunk().ok_or_else(short)?;
    let count = u32::from_le_bytes(*count) as usize;
    let (ends, bytes) = count.checked_mul(4).and_then(|at| rest.split_at_checked(at)).ok_or_else(short)?;
    let mut start = 0;
    let text = |end: &[u8]| {
        let end = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
        let text = bytes.get(start..end).ok_or_else(short)?.to_vec();
        start = end;
        Ok(text)
    };
    ends.chunks_exact(4).map(text).collect()
}

enum Values {
    Numbers(Vec<i64>, NumericForm),
    Texts(Vec<Vec<u8>>),
}

struct Decoder {
    values: Values,
    decompressor: Decompressor,
    data_type: DataType,
}

impl RowDecoder for Decoder {
    fn decode(&mut self, block: &[u8], rows: usize) -> Result<ArrayRef> {
        let bytes = decompress(&mut self.decompressor, block, BLOCK_BYTES_MAX)?;
        let codes = unpack(&mut &bytes[..], rows)?;
        match &self.values {
            Values::Numbers(values, form) => {
                let numbers = codes.iter().map(|code| looked_up(values, *code).copied());
                numbers::to_values(&numbers.collect::<Result<Vec<_>>>()?, *form, &self.data_type)
            }
            Values::Texts(values) => {
                let texts = codes.iter().map(|code| looked_up(values, *code).map(Vec::as_slice));
                plain_bytes::of_texts(&texts.collect::<Result<Vec<_>>>()?, None, &self.data_type)
            }
        }
    }
}

fn looked_up<T>(values: &[T], code: i64) -> Result<&T> {
    let value = usize::try_from(code).ok().and_then(|code| values.get(code));
    value.ok_or_else(|| Error::damaged(0, format!("the dictionary has no value {code}")))
}
