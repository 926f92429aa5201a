//! `full_time(text)`: times with their seconds and with two digits in each part, in the columns of texts that a statement reads as times. Arrow's
//! parser requires both.
//!
//! `times.rs` puts it around what is cast to a time or compared with one. A block without such a time is given back as it is; the cost is one look at
//! each text.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::times::{full_time, is_short};

static FULL_TIME: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(FullTime { signature }))
});

/// Completes a text, if it is an abbreviated time.
pub(crate) fn complete_time(text: Expr) -> Expr {
    FULL_TIME.call(vec![text])
}

/// Whether an expression is a call that [`complete_time`] made.
pub(crate) fn is_completed(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == FULL_TIME.name())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FullTime {
    signature: Signature,
}

impl ScalarUDFImpl for FullTime {
    fn name(&self) -> &str {
        "full_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(texts) => ColumnarValue::Array(in_block(texts)),
            ColumnarValue::Scalar(text) => {
                let one = in_block(&text.to_array()?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?)
            }
        })
    }
}

fn in_block(texts: &ArrayRef) -> ArrayRef {
    match texts.data_type() {
        DataType::Utf8 => in_texts(texts.as_string::<i32>()).unwrap_or_else(|| Arc::clone(texts)),
        DataType::LargeUtf8 => in_texts(texts.as_string::<i64>()).unwrap_or_else(|| Arc::clone(texts)),
        DataType::Dictionary(_, _) => {
            let dictionary = texts.as_any_dictionary();
            dictionary.with_values(in_block(dictionary.values()))
        }
        _ => Arc::clone(texts),
    }
}

/// `None` if all times among the texts are complete.
fn in_texts<O: OffsetSizeTrait>(texts: &GenericStringArray<O>) -> Option<ArrayRef> {
    let has_short = texts.iter().flatten().any(is_short);
    has_short.then(|| {
        let completed = texts.iter().map(|text| text.map(full_time));
        Arc::new(completed.collect::<GenericStringArray<O>>()) as ArrayRef
    })
}
