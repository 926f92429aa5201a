//! `len(x)`: characters of a text, values of a list.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::is_text;

/// The scalar function `len`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Len {
    signature: Signature,
}

impl Len {
    pub(super) fn new() -> Len {
        Len { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Len {
    fn name(&self) -> &str {
        "len"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [text] if is_text(text) || text.is_null() => Ok(vec![DataType::Utf8]),
            [list @ DataType::List(_)] => Ok(vec![list.clone()]),
            [DataType::LargeList(item) | DataType::FixedSizeList(item, _)] => {
                Ok(vec![DataType::List(Arc::clone(item))])
            }
            _ => plan_err!("len takes a text or a list"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("len takes one value") };
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let lengths = lengths(&values)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?),
            false => ColumnarValue::Array(Arc::new(lengths)),
        })
    }
}

fn lengths(values: &ArrayRef) -> Result<Int64Array> {
    let number = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    match values.data_type() {
        DataType::Utf8 => {
            let texts = values.as_string::<i32>();
            Ok(texts.iter().map(|text| text.map(|text| number(text.chars().count()))).collect())
        }
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            let length = |row| (!lists.is_null(row)).then(|| i64::from(lists.value_length(row)));
            Ok((0..lists.len()).map(length).collect())
        }
        other => exec_err!("len takes a text or a list, not a {other}"),
    }
}
