//! Number literals with more digits than a float can hold keep their digits where a decimal is expected.
//!
//! - `CAST(12345678901234.5678 AS DECIMAL(18, 4))` casts the text of the literal.
//! - In a comparison the literal is marked with its text, and `coercion.rs` compares a decimal with all of its digits.
//! - In `VALUES` for a decimal column of a table, and as the value that `UPDATE` assigns to one, it is a text
//!   (`change/run.rs`).
//!
//! Everywhere else it is the nearest float, as any number with a decimal point.

use std::borrow::Cow;

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, ExactNumberInfo, Expr, SetExpr, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use splay_store::TableSpec;

use crate::dialect::BoundedDialect;

/// Digits that a float always preserves.
const FLOAT_DIGITS: usize = 15;

/// Whether a text is a number without an exponent that neither a float nor a 64-bit integer certainly holds.
pub(crate) fn is_long(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit);
    is_plain(text)
        && digits.skip_while(|digit| *digit == b'0').count() > FLOAT_DIGITS
        && text.parse::<i64>().is_err()
        && text.parse::<u64>().is_err()
}

fn is_plain(text: &str) -> bool {
    let points = text.bytes().filter(|byte| *byte == b'.').count();
    points <= 1 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && text.len() > points
}

/// The text of a number literal with its sign.
fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, false) => Some(text.clone()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            text_of(expr).filter(|text| !text.starts_with('-')).map(|text| format!("-{text}"))
        }
        Expr::Nested(inner) => text_of(inner),
        _ => None,
    }
}

fn long_text(expr: &Expr) -> Option<String> {
    text_of(expr).filter(|text| is_long(text.trim_start_matches('-')))
}

fn text_literal(text: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(text).into())
}

/// Rewrites an expression so that its numbers keep all their digits.
pub(crate) fn keep_digits(expr: &mut Expr) {
    match expr {
        Expr::Cast { expr, data_type, .. } if is_decimal(data_type) => {
            if let Some(text) = long_text(expr) {
                **expr = text_literal(text);
            }
        }
        Expr::BinaryOp { left, op, right } if is_comparison(op) => [left, right].into_iter().for_each(|one| keep(one)),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            [left, right].into_iter().for_each(|one| keep(one));
        }
        Expr::Between { expr, low, high, .. } => [expr, low, high].into_iter().for_each(|one| keep(one)),
        Expr::InList { list, .. } => list.iter_mut().for_each(keep),
        _ => {}
    }
}

/// Replaces a number by a call that parses its text as a float.
fn keep(expr: &mut Expr) {
    if let Some(text) = long_text(expr) {
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(text_literal(text)),
            data_type: SqlType::Double(ExactNumberInfo::None),
            array: false,
            format: None,
        };
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

fn is_decimal(data_type: &SqlType) -> bool {
    matches!(data_type, SqlType::Decimal(_) | SqlType::Numeric(_) | SqlType::Dec(_))
}

/// Rewrites `VALUES`: a column that goes into decimals and has a long number gets texts in place of numbers, if it has only numbers, texts and nulls.
/// Other queries stay as they are.
pub(crate) fn as_values<'a>(query: &'a str, spec: &TableSpec, positions: Option<&[usize]>) -> Cow<'a, str> {
    if !has_long(query) {
        return Cow::Borrowed(query);
    }
    let dialect = BoundedDialect::of_statement(query);
    let parsed = Parser::new(&dialect).try_with_sql(query).and_then(|mut parser| parser.parse_query());
    let Ok(mut parsed) = parsed else { return Cow::Borrowed(query) };
    let SetExpr::Values(values) = parsed.body.as_mut() else { return Cow::Borrowed(query) };
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let schema = spec.shown_arrow();
    for place in 0..width {
        let position = positions.map_or(Some(place), |positions| positions.get(place).copied());
        let field = position.and_then(|position| schema.fields().get(position));
        if !field.is_some_and(|field| is_decimal_type(field.data_type())) {
            continue;
        }
        let mut column: Vec<&mut Expr> = values.rows.iter_mut().filter_map(|row| row.content.get_mut(place)).collect();
        let is_known = column.iter().all(|expr| is_constant(expr));
        if is_known && column.iter().any(|expr| long_text(expr).is_some()) {
            for expr in &mut column {
                if let Some(text) = text_of(expr) {
                    **expr = text_literal(text);
                }
            }
        }
    }
    Cow::Owned(parsed.to_string())
}

/// The value that a column is set to.
pub(crate) fn as_value<'a>(value: &'a str, to: &DataType) -> Cow<'a, str> {
    if !is_decimal_type(to) || !has_long(value) {
        return Cow::Borrowed(value);
    }
    let dialect = BoundedDialect::of_statement(value);
    let parsed = Parser::new(&dialect).try_with_sql(value).and_then(|mut parser| parser.parse_expr());
    match parsed.ok().and_then(|expr| long_text(&expr)) {
        // Unless further tokens follow.
        Some(text) if value.trim().trim_matches(['(', ')']).trim().replace(' ', "") == text => {
            Cow::Owned(text_literal(text).to_string())
        }
        _ => Cow::Borrowed(value),
    }
}

fn is_decimal_type(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(_, _) | DataType::Decimal256(_, _))
}

/// Whether an expression is a number without an exponent, a text or null.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_) | Value::Null) || is_number(expr),
        expr => is_number(expr),
    }
}

fn is_number(expr: &Expr) -> bool {
    text_of(expr).is_some_and(|text| is_plain(text.trim_start_matches('-')))
}

/// Whether a text contains a run of this many digits and points.
fn has_long(text: &str) -> bool {
    text.as_bytes().split(|byte| !byte.is_ascii_digit() && *byte != b'.').any(|digits| digits.len() > FLOAT_DIGITS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn rewritten_text(text: &str) -> String {
        let mut expr = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap().parse_expr().unwrap();
        keep_digits(&mut expr);
        expr.to_string()
    }

    #[test]
    fn numbers_of_many_digits_are_texts_beside_decimals() {
        let cases = [
            ("x > 12345678901234.5677", "x > CAST('12345678901234.5677' AS DOUBLE)"),
            ("x = -12345678901234.5677", "x = CAST('-12345678901234.5677' AS DOUBLE)"),
            ("x IN (1, 12345678901234567890123)", "x IN (1, CAST('12345678901234567890123' AS DOUBLE))"),
            ("CAST(12345678901234.5678 AS DECIMAL(18,4))", "CAST('12345678901234.5678' AS DECIMAL(18,4))"),
            ("x > 9223372036854775807", "x > 9223372036854775807"),
            ("x > 0.0000000000000001", "x > 0.0000000000000001"),
            ("x + 12345678901234.5677", "x + 12345678901234.5677"),
            ("CAST(12345678901234.5678 AS DOUBLE)", "CAST(12345678901234.5678 AS DOUBLE)"),
        ];
        for (text, expected) in cases {
            assert_eq!(rewritten_text(text), expected);
        }
    }

    #[test]
    fn a_value_by_itself_is_a_text() {
        let decimal = DataType::Decimal128(18, 4);
        assert_eq!(as_value("-12345678901234.5678", &decimal), "'-12345678901234.5678'");
        assert_eq!(as_value("12345678901234.5678 + x", &decimal), "12345678901234.5678 + x");
        assert_eq!(as_value("12345678901234.5678", &DataType::Float64), "12345678901234.5678");
        assert_eq!(as_value("1.5", &decimal), "1.5");
    }
}
