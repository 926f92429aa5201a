//! Decimals beside floats and literals: which literals are decimals as written, and which type such values share.

use std::borrow::Cow;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable};

use crate::long_numbers::is_long;

/// The decimals that DataFusion 55.2 makes of floats beside decimals.
const OF_FLOATS: DataType = DataType::Decimal128(30, 15);

pub(crate) fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(_, _) | DataType::Decimal64(_, _) | DataType::Decimal128(_, _) | DataType::Decimal256(_, _)
    )
}

/// Casts decimals to floats if one of the other values is a float, unless that is a literal which [`OF_FLOATS`] holds exactly. Returns whether it cast
/// any.
pub(crate) fn one_type(values: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let types: Vec<Option<DataType>> = values.iter().map(|value| value.get_type(schema).ok()).collect();
    let is_decimal_text = |value: &Expr| literal_text(value).is_some_and(|text| fits(&text, &OF_FLOATS));
    let is_float = |(value, of): (&&mut Expr, &Option<DataType>)| {
        of.as_ref().is_some_and(DataType::is_floating) && !is_decimal_text(value)
    };
    let mut is_cast = false;
    if !values.iter().zip(&types).any(is_float) {
        return Ok(is_cast);
    }
    for (value, _) in values.into_iter().zip(&types).filter(|(_, of)| of.as_ref().is_some_and(is_decimal)) {
        *value = std::mem::take(value).cast_to(&DataType::Float64, schema)?;
        is_cast = true;
    }
    Ok(is_cast)
}

/// The text of a number that is a literal of the statement: the shortest text that gives its float, without an exponent; or the original text of a
/// long number, which is a float only if it isn't beside a decimal (`long_numbers.rs`).
pub(crate) fn literal_text(expression: &Expr) -> Option<Cow<'_, str>> {
    match expression {
        Expr::Literal(ScalarValue::Float64(Some(value)), None) => value.is_finite().then(|| value.to_string().into()),
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => match expr.as_ref() {
            Expr::Literal(ScalarValue::Utf8(Some(text)), None) => {
                is_long(text.trim_start_matches('-')).then_some(Cow::Borrowed(text.as_str()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether a number, as written, is a value of a decimal type.
pub(crate) fn fits(text: &str, decimal: &DataType) -> bool {
    let (precision, scale) = match decimal {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (usize::from(*precision), usize::try_from(*scale).unwrap_or(0)),
        _ => return false,
    };
    let text = text.trim_start_matches('-');
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    places.len() <= scale && whole.len() + scale <= precision
}
