//! Sums, differences and products of a statement's own numbers are exact: `0.06 + 0.01` is 0.07.
//!
//! PostgreSQL and DuckDB read a number with a point as a decimal. Here it is a float unless it stands beside a decimal, and
//! `0.06 + 0.01` of floats is 0.06999999999999999, so that `BETWEEN 0.06 - 0.01 AND 0.06 + 0.01` would leave 0.07 out.
//! What is computed has at most the digits that a float always preserves.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// Above all results, which have at most 15 digits.
const RESULT_END: u128 = 1_000_000_000_000_000;

/// A number with a point: `digits` divided by ten to the power of `places`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    places: u32,
}

/// Replaces an operation on two numbers, of which one has a point, by its result.
pub(super) fn compute(expression: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expression else { return };
    let (Some(left), Some(right)) = (decimal(left), decimal(right)) else { return };
    if left.places == 0 && right.places == 0 {
        return;
    }
    let places = left.places.max(right.places);
    let (Some(one), Some(other)) = (left.at(places), right.at(places)) else { return };
    let result = match op {
        BinaryOperator::Plus => one.checked_add(other).map(|digits| Decimal { digits, places }),
        BinaryOperator::Minus => one.checked_sub(other).map(|digits| Decimal { digits, places }),
        BinaryOperator::Multiply => {
            left.digits.checked_mul(right.digits).map(|digits| Decimal { digits, places: left.places + right.places })
        }
        _ => return,
    };
    if let Some(result) = result.filter(|result| result.digits.unsigned_abs() < RESULT_END) {
        *expression = result.written();
    }
}

/// The number that a literal is, with its sign. It has no exponent, and few digits.
fn decimal(expression: &Expr) -> Option<Decimal> {
    match expression {
        Expr::Nested(inner) => decimal(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            decimal(expr).map(|decimal| Decimal { digits: -decimal.digits, ..decimal })
        }
        Expr::Value(value) => {
            let Value::Number(text, false) = &value.value else { return None };
            let (whole, places) = text.split_once('.').unwrap_or((text, ""));
            let digits = format!("{whole}{places}");
            let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let digits = digits.parse::<i128>().ok().filter(|digits| is_plain && digits.unsigned_abs() < RESULT_END)?;
            Some(Decimal { digits, places: u32::try_from(places.len()).ok()? })
        }
        _ => None,
    }
}

impl Decimal {
    /// Its digits with so many behind the point, which aren't fewer.
    fn at(self, places: u32) -> Option<i128> {
        self.digits.checked_mul(10i128.checked_pow(places - self.places)?)
    }

    /// The literal.
    fn written(self) -> Expr {
        let places = self.places as usize;
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = places + 1);
        let (whole, places) = digits.split_at(digits.len() - places);
        let number = Expr::Value(Value::Number(format!("{whole}.{places}"), false).into());
        match self.digits < 0 {
            true => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) },
            false => number,
        }
    }
}
