//! Casts texts with an exponent to decimals: `'1e2'::decimal(10, 2)` is 100.00. Arrow's parser of decimals refuses
//! exponents.
//!
//! Number literals with an exponent are floats, and are cast as floats.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};

use crate::decimals::is_decimal;
use crate::plan_rewrite::{any_expression, rewritten};
use crate::pushdown;
use crate::text_forms::TextForm;

/// Digits behind the point that are kept: no decimal has more.
const PLACES_MAX: usize = 76;

/// The largest exponent that is written out. Beyond it, no decimal holds a number with a digit.
const EXPONENT_MAX: u32 = 200;

static PLAIN_NUMBER: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| TextForm::function("plain_number", has_exponent, plain_number));

/// The plan with casts to decimals of texts without an exponent.
pub(crate) fn complete(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_cast = |expr: &Expr| match expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            is_decimal(field.data_type()) && !is_without_exponent(expr)
        }
        _ => false,
    };
    let has_cast = any_expression(&plan, is_cast)?;
    if has_cast { rewritten(plan, |node, _| Ok(Transformed::no(node)), completed) } else { Ok(plan) }
}

fn completed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let reads = |expr: &Expr, to: &DataType| {
        is_decimal(to) && !is_without_exponent(expr) && expr.get_type(schema).is_ok_and(|of| pushdown::is_text(&of))
    };
    Ok(match expr {
        Expr::Cast(Cast { expr, field }) if reads(&expr, field.data_type()) => {
            Transformed::yes(Expr::Cast(Cast { expr: Box::new(plain(*expr)), field }))
        }
        Expr::TryCast(TryCast { expr, field }) if reads(&expr, field.data_type()) => {
            Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(plain(*expr)), field }))
        }
        other => Transformed::no(other),
    })
}

fn plain(text: Expr) -> Expr {
    match text {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            Expr::Literal(ScalarValue::Utf8(Some(plain_number(&text).into_owned())), metadata)
        }
        text @ (Expr::Literal(_, _) | Expr::Placeholder(_)) => text,
        text => without_exponent(text),
    }
}

/// Whether a text is a number with an exponent that can be written out.
fn has_exponent(text: &str) -> bool {
    text.contains(['e', 'E']) && Number::of(text).is_some()
}

/// The text of a number without its exponent; any other text as it is.
pub(crate) fn plain_number(text: &str) -> Cow<'_, str> {
    match Number::of(text) {
        Some(number) => Cow::Owned(number.written_out()),
        None => Cow::Borrowed(text),
    }
}

/// The parts of a number with an exponent.
struct Number<'a> {
    is_negative: bool,
    whole: &'a str,
    places: &'a str,
    exponent: i32,
}

impl<'a> Number<'a> {
    fn of(text: &'a str) -> Option<Number<'a>> {
        let (number, exponent) = text.trim().split_once(['e', 'E'])?;
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let exponent: i32 = exponent.parse().ok()?;
        let is_negative = number.starts_with('-');
        let number = number.strip_prefix(['+', '-']).unwrap_or(number);
        let (whole, places) = number.split_once('.').unwrap_or((number, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = are_digits(digits) && are_digits(whole) && are_digits(places) && whole.len() + places.len() > 0;
        (is_number && exponent.unsigned_abs() <= EXPONENT_MAX).then_some(Number {
            is_negative,
            whole,
            places,
            exponent,
        })
    }

    fn written_out(&self) -> String {
        let digits = format!("{}{}", self.whole, self.places);
        let shift = usize::try_from(self.exponent.unsigned_abs()).unwrap_or(0);
        let point = self.whole.len();
        let (whole, mut places) = if self.exponent >= 0 {
            let digits = format!("{digits:0<width$}", width = point + shift);
            let (whole, places) = digits.split_at(point + shift);
            (whole.to_owned(), places.to_owned())
        } else if shift < point {
            let (whole, places) = digits.split_at(point - shift);
            (whole.to_owned(), places.to_owned())
        } else {
            ("0".to_owned(), format!("{}{digits}", "0".repeat(shift - point)))
        };
        places.truncate(PLACES_MAX);
        let sign = if self.is_negative { "-" } else { "" };
        let whole = if whole.is_empty() { "0" } else { &whole };
        if places.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{places}") }
    }
}

/// Writes the exponent of a text out, if it is a number with one.
fn without_exponent(text: Expr) -> Expr {
    PLAIN_NUMBER.call(vec![text])
}

/// Whether an expression is a call that [`without_exponent`] made.
fn is_without_exponent(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == PLAIN_NUMBER.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_move_the_point() {
        for (text, expected) in [
            ("1e2", "100"),
            ("1.5E+3", "1500"),
            ("-1.25e1", "-12.5"),
            ("125e-2", "1.25"),
            ("125e-3", "0.125"),
            ("1e-4", "0.0001"),
            (".5e1", "5"),
            ("0e0", "0"),
            (" 7e0 ", "7"),
            ("1e", "1e"),
            ("e5", "e5"),
            ("1e2.5", "1e2.5"),
            ("1e+-2", "1e+-2"),
            ("1e999", "1e999"),
            ("1e-2147483648", "1e-2147483648"),
            ("price", "price"),
            ("12.5", "12.5"),
        ] {
            assert_eq!(plain_number(text), expected, "{text}");
            assert_eq!(has_exponent(text), text != expected, "{text}");
        }
        assert_eq!(plain_number("1e-200"), format!("0.{}", "0".repeat(PLACES_MAX)));
    }
}
