//! Functions that rewrite the texts of a column to the form that Arrow's parsers read.
//!
//! | Function | Form | Applied to | Source |
//! | --- | --- | --- | --- |
//! | `full_time(text)` | times with their seconds and with two digits in each part | texts that are cast to a time or compared with one | `times.rs` |
//! | `plain_number(text)` | numbers without an exponent | texts that are cast to a decimal | `decimal_texts.rs` |
//!
//! A block whose texts all have the form is returned unchanged. Cost: one scan of each text.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// Gives texts a form.
#[derive(Debug)]
pub(crate) struct TextForm {
    name: &'static str,
    /// Whether a text lacks the form.
    lacks: fn(&str) -> bool,
    form: fn(&str) -> Cow<'_, str>,
    signature: Signature,
}

impl TextForm {
    /// The function of a name that gives its form to each text that lacks it.
    pub(crate) fn function(
        name: &'static str,
        lacks: fn(&str) -> bool,
        form: fn(&str) -> Cow<'_, str>,
    ) -> Arc<ScalarUDF> {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::from(TextForm { name, lacks, form, signature }))
    }

    fn in_block(&self, texts: &ArrayRef) -> ArrayRef {
        match texts.data_type() {
            DataType::Utf8 => self.in_texts(texts.as_string::<i32>()).unwrap_or_else(|| Arc::clone(texts)),
            DataType::LargeUtf8 => self.in_texts(texts.as_string::<i64>()).unwrap_or_else(|| Arc::clone(texts)),
            DataType::Dictionary(_, _) => {
                let dictionary = texts.as_any_dictionary();
                dictionary.with_values(self.in_block(dictionary.values()))
            }
            _ => Arc::clone(texts),
        }
    }

    /// `None` if all texts have the form.
    fn in_texts<O: OffsetSizeTrait>(&self, texts: &GenericStringArray<O>) -> Option<ArrayRef> {
        texts.iter().flatten().any(self.lacks).then(|| {
            let formed = texts.iter().map(|text| text.map(self.form));
            Arc::new(formed.collect::<GenericStringArray<O>>()) as ArrayRef
        })
    }
}

impl PartialEq for TextForm {
    fn eq(&self, other: &TextForm) -> bool {
        self.name == other.name
    }
}

impl Eq for TextForm {}

impl Hash for TextForm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for TextForm {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(texts) => ColumnarValue::Array(self.in_block(texts)),
            ColumnarValue::Scalar(text) => {
                let one = self.in_block(&text.to_array()?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?)
            }
        })
    }
}
