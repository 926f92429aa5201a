//! Whole numbers by their bits: `hex(n)`, `to_binary(n)` and `bit_count(n)`. `hex` of a text gives its bytes.
//!
//! Negative numbers are those of two's complement, of 64 bits but in `bit_count`, which counts those of the number's type.
//!
//! Source: <https://duckdb.org/docs/stable/sql/functions/numeric>.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::is_text;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Hex,
    Binary,
    Count,
}

/// The scalar functions of this file.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Bits {
    kind: Kind,
    signature: Signature,
}

impl Bits {
    pub(super) fn all() -> [Bits; 3] {
        let bits = |kind| Bits { kind, signature: Signature::user_defined(Volatility::Immutable) };
        [Kind::Hex, Kind::Binary, Kind::Count].map(bits)
    }
}

impl ScalarUDFImpl for Bits {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Hex => "hex",
            Kind::Binary => "to_binary",
            Kind::Count => "bit_count",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [DataType::UInt64] => Ok(vec![DataType::UInt64]),
            // Its type says how many bits a negative number has.
            [number] if self.kind == Kind::Count && number.is_signed_integer() => Ok(vec![number.clone()]),
            [number] if number.is_integer() || number.is_null() => Ok(vec![DataType::Int64]),
            [text] if self.kind == Kind::Hex && is_text(text) => Ok(vec![DataType::Utf8]),
            [DataType::Binary | DataType::LargeBinary] if self.kind == Kind::Hex => Ok(vec![DataType::Binary]),
            _ if self.kind == Kind::Hex => plan_err!("hex takes a whole number or a text"),
            _ => plan_err!("{} takes a whole number", self.name()),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(if self.kind == Kind::Count { DataType::Int64 } else { DataType::Utf8 })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("{} takes one value", self.name()) };
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let result = self.of(&values)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

impl Bits {
    fn of(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let written = |bits: u64| match self.kind {
            Kind::Hex => format!("{bits:X}"),
            _ => format!("{bits:b}"),
        };
        let width = values.data_type().primitive_width().unwrap_or(size_of::<u64>());
        let mask = u64::MAX >> (u64::BITS as usize - 8 * width.clamp(1, size_of::<u64>()));
        let bits: Vec<Option<u64>> = match values.data_type() {
            DataType::UInt64 => values.as_primitive::<UInt64Type>().iter().collect(),
            of if of.is_integer() => {
                let wide = arrow::compute::cast(values, &DataType::Int64)?;
                wide.as_primitive::<Int64Type>().iter().map(|number| number.map(i64::cast_unsigned)).collect()
            }
            DataType::Utf8 => return Ok(hexadecimal(values.as_string::<i32>().iter().map(|x| x.map(str::as_bytes)))),
            DataType::Binary => return Ok(hexadecimal(values.as_binary::<i32>().iter())),
            other => return exec_err!("{} of a {other}", self.name()),
        };
        let bits = bits.into_iter();
        Ok(match self.kind {
            Kind::Count => {
                let counts = bits.map(|bits| bits.map(|bits| i64::from((bits & mask).count_ones())));
                Arc::new(counts.collect::<Int64Array>())
            }
            _ => Arc::new(bits.map(|bits| bits.map(written)).collect::<StringArray>()),
        })
    }
}

fn hexadecimal<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> ArrayRef {
    let text = |bytes: &[u8]| {
        bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        })
    };
    Arc::new(values.map(|bytes| bytes.map(text)).collect::<StringArray>())
}
