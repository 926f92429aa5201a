//! `text[n]` and `text[a:b]`: the character at a place, and those from one to another. Places count from 1, and from the end below 0; what isn't
//! there is left out.
//!
//! Source: <https://duckdb.org/docs/stable/sql/functions/text>.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::is_text;

/// The characters of a text at a place, or from one place to another.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Characters {
    signature: Signature,
}

impl Characters {
    pub(super) fn new() -> Characters {
        Characters { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Characters {
    fn name(&self) -> &str {
        "__characters"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        match names.as_slice() {
            [text, places @ ..] => Ok(format!("{text}[{}]", places.join(":"))),
            [] => plan_err!("[…] takes a text"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_whole = |of: &DataType| of.is_integer() || of.is_null();
        match arg_types {
            [text, places @ ..] if is_text(text) && matches!(places.len(), 1 | 2) && places.iter().all(is_whole) => {
                let mut types = vec![DataType::Utf8];
                types.resize(arg_types.len(), DataType::Int64);
                Ok(types)
            }
            _ => plan_err!("[…] of a text takes whole numbers"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let (Some(texts), Some(first), Some(last)) = (arrays.first(), arrays.get(1), arrays.last()) else {
            return exec_err!("[…] takes a text and places");
        };
        let (texts, first) = (texts.as_string::<i32>(), first.as_primitive::<Int64Type>());
        let last = last.as_primitive::<Int64Type>();
        let parts = (0..rows).map(|row| {
            let is_there = texts.is_valid(row) && first.is_valid(row) && last.is_valid(row);
            is_there.then(|| part(texts.value(row), first.value(row), last.value(row)))
        });
        let parts: StringArray = parts.collect();
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&parts, 0)?),
            false => ColumnarValue::Array(Arc::new(parts)),
        })
    }
}

/// The characters from one place to another.
fn part(text: &str, first: i64, last: i64) -> &str {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let place = |place: i64| if place < 0 { place.saturating_add(length() + 1) } else { place };
    let (first, last) = (place(first), place(last));
    if last < 1 || last < first {
        return "";
    }
    let skipped = usize::try_from(first.max(1) - 1).unwrap_or(usize::MAX);
    let count = usize::try_from(last).unwrap_or(usize::MAX).saturating_sub(skipped);
    let at = |from: usize, characters: usize| {
        text[from..].char_indices().nth(characters).map_or(text.len(), |(offset, _)| from + offset)
    };
    let start = at(0, skipped);
    &text[start..at(start, count)]
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn places_count_from_both_ends() {
        let one = |place| part("aßc", place, place);
        assert_eq!([1, 2, 3, 4, 0, -1, -3, -4].map(one), ["a", "ß", "c", "", "", "c", "a", ""]);
        let from_to = [(1, 2), (2, -1), (1, -2), (-2, -1), (3, 2), (-9, 2), (2, i64::MAX), (i64::MIN, i64::MAX)];
        let parts = from_to.map(|(first, last)| part("aßc", first, last));
        assert_eq!(parts, ["aß", "ßc", "aß", "ßc", "", "aß", "ßc", "aßc"]);
    }
}
