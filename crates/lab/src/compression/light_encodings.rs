//! Light encodings of whole numbers: what columnar stores do before, or instead of, compression of bytes.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::codec::{Codec, Compressor, Decompressor};
use super::column::Column;
use super::numbers::{self, NumericForm};
use super::pack::{pack, unpack};
use super::rows::{RowCodec, RowDecoder, RowScheme};
use super::scheme::SchemeId;
use crate::{Error, Result};

/// Rows of a block.
pub const BLOCK_ROWS: u32 = 8_192;
/// More bytes than an encoding makes of a block.
const BLOCK_BYTES_MAX: usize = 32 * BLOCK_ROWS as usize;

/// In the byte that tells the width of split values: they have a sign.
const SIGN: u8 = 0x80;

/// An encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LightEncoding {
    /// Differences from the least value of a block, in as few bits as its range needs.
    BitPacking,
    /// Differences from the value before, packed.
    Delta,
    /// Differences of these differences, packed.
    DeltaOfDelta,
    /// Each value and how often it follows itself, packed.
    RunLength,
    /// The first bytes of all values, then the second bytes, and so on.
    ByteStreamSplit,
}

impl LightEncoding {
    /// All of them.
    pub const ALL: [LightEncoding; 5] = [
        LightEncoding::BitPacking,
        LightEncoding::Delta,
        LightEncoding::DeltaOfDelta,
        LightEncoding::RunLength,
        LightEncoding::ByteStreamSplit,
    ];

    fn name(self) -> &'static str {
        match self {
            LightEncoding::BitPacking => "bit packing",
            LightEncoding::Delta => "delta",
            LightEncoding::DeltaOfDelta => "delta of delta",
            LightEncoding::RunLength => "run length",
            LightEncoding::ByteStreamSplit => "byte stream split",
        }
    }
}

/// The scheme of an encoding and a codec of its bytes.
pub fn scheme(light: LightEncoding, codec: Codec) -> RowScheme {
    let encoded = EncodedScheme { light, codec };
    RowScheme::new(id(light.name(), codec), BLOCK_ROWS, Box::new(encoded))
}

/// What an encoding with a codec behind it is.
pub fn id(encoding: &'static str, codec: Codec) -> SchemeId {
    let name = if codec == Codec::None { encoding.to_owned() } else { format!("{encoding}, {codec}") };
    SchemeId { name, family: "encoding", codec: codec.name(), encoding, level: codec.level(), ..SchemeId::default() }
}

#[derive(Debug)]
struct EncodedScheme {
    light: LightEncoding,
    codec: Codec,
}

impl RowCodec for EncodedScheme {
    fn encode(&self, column: &Column, block_rows: usize) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
        let (numbers, form) = numbers::of(column)?;
        let layout = numbers::layout(column.data_type()).filter(|_| form == NumericForm::Bits).unwrap_or((8, true));
        let mut compressor = Compressor::new(self.codec)?;
        let encoded = |block: &[i64]| compress(&mut compressor, &encode(self.light, block, layout));
        Ok((vec![form.byte()], numbers.chunks(block_rows).map(encoded).collect::<Result<_>>()?))
    }

    fn decoder(&self, shared: &[u8], data_type: &DataType) -> Result<Box<dyn RowDecoder>> {
        let &[form] = shared else { return Err(Error::damaged(0, "the shared part has another length")) };
        let decompressor = Decompressor::new(self.codec)?;
        Ok(Box::new(Decoder {
            light: self.light,
            form: NumericForm::from_byte(form)?,
            data_type: data_type.clone(),
            decompressor,
        }))
    }
}

/// A block with its length before compression in front.
pub fn compress(compressor: &mut Compressor, block: &[u8]) -> Result<Vec<u8>> {
    let length = u32::try_from(block.len()).map_err(Error::codec("a block"))?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(compressor.compress(block)?);
    Ok(bytes)
}

/// The block that was compressed, of at most `max` bytes.
pub fn decompress(decompressor: &mut Decompressor, block: &[u8], max: usize) -> Result<Vec<u8>> {
    let short = || Error::damaged(0, "the block is too short");
    let (length, bytes) = block.split_at_checked(4).ok_or_else(short)?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if length > max {
        return Err(Error::damaged(0, format!("a block of {length} bytes")));
    }
    decompressor.decompress(bytes, length)
}

struct Decoder {
    light: LightEncoding,
    form: NumericForm,
    data_type: DataType,
    decompressor: Decompressor,
}

impl RowDecoder for Decoder {
    fn decode(&mut self, block: &[u8], rows: usize) -> Result<ArrayRef> {
        let bytes = decompress(&mut self.decompressor, block, BLOCK_BYTES_MAX)?;
        let numbers = decode(self.light, &bytes, rows)?;
        numbers::to_values(&numbers, self.form, &self.data_type)
    }
}

fn encode(light: LightEncoding, values: &[i64], (width, is_signed): (usize, bool)) -> Vec<u8> {
    let mut output = Vec::new();
    match light {
        LightEncoding::BitPacking => pack(values, &mut output),
        LightEncoding::Delta => {
            let (first, steps) = differences(values);
            output.extend_from_slice(&first.to_le_bytes());
            pack(&steps, &mut output);
        }
        LightEncoding::DeltaOfDelta => {
            let (first, steps) = differences(values);
            let (step, changes) = differences(&steps);
            output.extend_from_slice(&first.to_le_bytes());
            output.extend_from_slice(&step.to_le_bytes());
            pack(&changes, &mut output);
        }
        LightEncoding::RunLength => {
            let runs = values.chunk_by(|one, other| one == other);
            let (starts, lengths): (Vec<i64>, Vec<i64>) =
                runs.map(|run| (run[0], i64::try_from(run.len()).unwrap_or(0))).unzip();
            output.extend_from_slice(&u32::try_from(starts.len()).unwrap_or(0).to_le_bytes());
            pack(&starts, &mut output);
            pack(&lengths, &mut output);
        }
        LightEncoding::ByteStreamSplit => {
            output.push(u8::try_from(width).unwrap_or(8) | if is_signed { SIGN } else { 0 });
            for place in 0..width {
                output.extend(values.iter().map(|value| value.to_le_bytes()[place]));
            }
        }
    }
    output
}

/// The first value, and the difference of each other from the one before.
fn differences(values: &[i64]) -> (i64, Vec<i64>) {
    let first = values.first().copied().unwrap_or(0);
    (first, values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect())
}

/// Sums of all differences up to each, behind the first value.
fn sums(first: i64, steps: &[i64]) -> Vec<i64> {
    let mut sum = first;
    let mut values = Vec::with_capacity(steps.len() + 1);
    values.push(first);
    values.extend(steps.iter().map(|step| {
        sum = sum.wrapping_add(*step);
        sum
    }));
    values
}

fn decode(light: LightEncoding, bytes: &[u8], rows: usize) -> Result<Vec<i64>> {
    let mut input = bytes;
    let values = match light {
        LightEncoding::BitPacking => unpack(&mut input, rows)?,
        LightEncoding::Delta => {
            let first = number(&mut input)?;
            sums(first, &unpack(&mut input, rows.saturating_sub(1))?)
        }
        LightEncoding::DeltaOfDelta => {
            let (first, step) = (number(&mut input)?, number(&mut input)?);
            let steps = sums(step, &unpack(&mut input, rows.saturating_sub(2))?);
            sums(first, &steps[..rows.saturating_sub(1).min(steps.len())])
        }
        LightEncoding::RunLength => runs(&mut input, rows)?,
        LightEncoding::ByteStreamSplit => return split_values(input, rows),
    };
    if input.is_empty() { Ok(values) } else { Err(Error::damaged(0, "the block is too long")) }
}

fn number(input: &mut &[u8]) -> Result<i64> {
    let (number, rest) = input.split_first_chunk().ok_or_else(|| Error::damaged(0, "the block is too short"))?;
    *input = rest;
    Ok(i64::from_le_bytes(*number))
}

fn runs(input: &mut &[u8], rows: usize) -> Result<Vec<i64>> {
    let (count, rest) = input.split_first_chunk().ok_or_else(|| Error::damaged(0, "the block is too short"))?;
    *input = rest;
    let count = u32::from_le_bytes(*count) as usize;
    if count > rows {
        return Err(Error::damaged(0, format!("{count} runs in {rows} rows")));
    }
    let (starts, lengths) = (unpack(input, count)?, unpack(input, count)?);
    let mut values = Vec::with_capacity(rows);
    for (start, length) in starts.iter().zip(&lengths) {
        let length = usize::try_from(*length).ok().filter(|length| *length <= rows - values.len());
        let length = length.ok_or_else(|| Error::damaged(0, "runs are longer than the block"))?;
        values.resize(values.len() + length, *start);
    }
    Ok(values)
}

fn split_values(input: &[u8], rows: usize) -> Result<Vec<i64>> {
    let refused = || Error::damaged(0, "the bytes of values are too few or too many");
    let (width, streams) = input.split_first().ok_or_else(refused)?;
    let (width, is_signed) = (usize::from(width & !SIGN), width & SIGN != 0);
    if !(1..=8).contains(&width) || rows * width != streams.len() {
        return Err(refused());
    }
    let mut values = vec![[0_u8; 8]; rows];
    for (place, stream) in streams.chunks_exact(rows.max(1)).enumerate() {
        for (value, byte) in values.iter_mut().zip(stream) {
            value[place] = *byte;
        }
    }
    Ok(values.iter().map(|value| numbers::number(&value[..width], is_signed)).collect())
}
