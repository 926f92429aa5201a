//! Pco, a codec of numbers: the pcodec crate, each block a file of its own. Floats that are decimal are compressed as whole numbers, too.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use pco::ChunkConfig;
use pco::data_types::Number;
use pco::standalone::{simple_compress, simple_decompress_into};

use super::column::{Column, unsupported};
use super::numbers::{self, NumericForm};
use super::plain_bytes;
use super::rows::{RowCodec, RowDecoder, RowScheme};
use super::scheme::SchemeId;
use crate::{Error, Result};

/// Whether decimal floats become whole numbers first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floats {
    /// Floats stay floats.
    Asis,
    /// Floats become whole numbers if that is exact.
    Decimal,
}

/// The scheme of a level, 0 to 12.
pub fn scheme(level: u32, block_rows: u32, floats: Floats) -> RowScheme {
    let encoding = if floats == Floats::Decimal { "decimal" } else { "" };
    let prefix = if floats == Floats::Decimal { "pco of decimals" } else { "pco" };
    let name = format!("{prefix} {level}, blocks of {block_rows} rows");
    let id =
        SchemeId { name, family: "pco", codec: "pco", encoding, level: Some(i64::from(level)), ..SchemeId::default() };
    RowScheme::new(id, block_rows, Box::new(Pco { level, floats }))
}

#[derive(Debug)]
struct Pco {
    level: u32,
    floats: Floats,
}

impl RowCodec for Pco {
    fn encode(&self, column: &Column, block_rows: usize) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
        let (numbers, form) = numbers::of(column)?;
        let is_float = matches!(column.data_type(), DataType::Float32 | DataType::Float64);
        let (numbers, form) = match (self.floats, form) {
            (Floats::Decimal, NumericForm::Bits) => {
                return Err(unsupported("pco", column, "its values are no decimal floats"));
            }
            (Floats::Asis, NumericForm::Decimal(_)) => (float_bits(column)?, NumericForm::Bits),
            _ => (numbers, form),
        };
        let kind = kind(column.data_type(), form).ok_or_else(|| unsupported("pco", column, "pco has no such type"))?;
        debug_assert!(is_float || form == NumericForm::Bits);
        let block = |block: &[i64]| compress(block, kind, self.level);
        Ok((vec![form.byte()], numbers.chunks(block_rows).map(block).collect::<Result<_>>()?))
    }

    fn decoder(&self, shared: &[u8], data_type: &DataType) -> Result<Box<dyn RowDecoder>> {
        let &[form] = shared else { return Err(Error::damaged(0, "the shared part has another length")) };
        let form = NumericForm::from_byte(form)?;
        let kind = kind(data_type, form).ok_or_else(|| Error::damaged(0, format!("pco has no {data_type}")))?;
        Ok(Box::new(Decoder { form, kind, data_type: data_type.clone() }))
    }
}

/// Floats by their bits, with those of null rows as they are.
fn float_bits(column: &Column) -> Result<Vec<i64>> {
    let (width, is_signed) = numbers::layout(column.data_type()).unwrap_or((8, false));
    let mut bytes = plain_bytes::of(column)?.bytes;
    bytes.truncate(width * column.rows());
    Ok(bytes.chunks_exact(width).map(|value| numbers::number(value, is_signed)).collect())
}

/// The type as which numbers are compressed. Narrower ones gain nothing by a type of their own, which would have to be compiled.
#[derive(Debug, Clone, Copy)]
enum Kind {
    I32,
    I64,
    U32,
    U64,
    F32,
    F64,
}

fn kind(data_type: &DataType, form: NumericForm) -> Option<Kind> {
    Some(match (data_type, form) {
        (_, NumericForm::Decimal(_)) => Kind::I64,
        (DataType::Float32, _) => Kind::F32,
        (DataType::Float64, _) => Kind::F64,
        _ => match numbers::layout(data_type)? {
            (1 | 2 | 4, true) => Kind::I32,
            (1 | 2 | 4, false) => Kind::U32,
            (_, true) => Kind::I64,
            (_, false) => Kind::U64,
        },
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers are within their type")]
fn compress(numbers: &[i64], kind: Kind, level: u32) -> Result<Vec<u8>> {
    fn of<T: Number>(numbers: &[i64], level: u32, value: impl Fn(i64) -> T) -> Result<Vec<u8>> {
        let values: Vec<T> = numbers.iter().map(|number| value(*number)).collect();
        let settings = ChunkConfig::default().with_compression_level(level as usize);
        simple_compress(&values, &settings).map_err(Error::codec("pco"))
    }
    match kind {
        Kind::I32 => of(numbers, level, |n| n as i32),
        Kind::I64 => of(numbers, level, |n| n),
        Kind::U32 => of(numbers, level, |n| n as u32),
        Kind::U64 => of(numbers, level, |n| n as u64),
        Kind::F32 => of(numbers, level, |n| f32::from_bits(n as u32)),
        Kind::F64 => of(numbers, level, |n| f64::from_bits(n as u64)),
    }
}

struct Decoder {
    form: NumericForm,
    kind: Kind,
    data_type: DataType,
}

impl RowDecoder for Decoder {
    fn decode(&mut self, block: &[u8], rows: usize) -> Result<ArrayRef> {
        fn of<T: Number + Default>(block: &[u8], rows: usize, number: impl Fn(T) -> i64) -> Result<Vec<i64>> {
            let mut values = vec![T::default(); rows];
            let done = simple_decompress_into(block, &mut values).map_err(|error| Error::damaged(0, error))?;
            if done.n_processed != rows || !done.finished {
                return Err(Error::damaged(0, format!("the block doesn't have {rows} values")));
            }
            Ok(values.into_iter().map(number).collect())
        }
        let numbers = match self.kind {
            Kind::I32 => of::<i32>(block, rows, i64::from),
            Kind::I64 => of::<i64>(block, rows, |n| n),
            Kind::U32 => of::<u32>(block, rows, i64::from),
            Kind::U64 => of::<u64>(block, rows, u64::cast_signed),
            Kind::F32 => of::<f32>(block, rows, |x| i64::from(x.to_bits())),
            Kind::F64 => of::<f64>(block, rows, |x| x.to_bits().cast_signed()),
        }?;
        numbers::to_values(&numbers, self.form, &self.data_type)
    }
}
