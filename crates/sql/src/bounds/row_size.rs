//! Bounds the size of an expression's value by the sizes of its columns, before a row is read.
//!
//! Tick plans have no pool from which a function could reserve. So the statement's text must bound what they compute:
//! a value is at most [`TIMES_MAX`] times as long as its columns plus [`PLUS_MAX`] bytes. `sym || '-' || side` and
//! `replace(venue, ' ', '_')` qualify; `repeat(note, size)` doesn't.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Operator};

use super::growth::{GrowthRule, constant_bytes};
use crate::lifted_literals::is_parameter;

/// Largest factor between a value's bytes and those of its columns.
const TIMES_MAX: u64 = 8;

/// Largest constant number of bytes besides.
const PLUS_MAX: u64 = 512;

/// Approximate size of the text of a number, a time or an element of a list.
const ELEMENT_BYTES: u64 = 32;

/// Most bytes of a character.
const CHARACTER_BYTES: u64 = 4;

/// An upper bound for the bytes of a value: a factor times the columns' bytes, plus a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RowSize {
    times: u64,
    plus: u64,
}

impl RowSize {
    fn constant(plus: u64) -> RowSize {
        RowSize { times: 0, plus }
    }

    fn and(self, other: RowSize) -> RowSize {
        RowSize { times: self.times.saturating_add(other.times), plus: self.plus.saturating_add(other.plus) }
    }

    fn or(self, other: RowSize) -> RowSize {
        RowSize { times: self.times.max(other.times), plus: self.plus.max(other.plus) }
    }

    fn multiplied(self, by: u64) -> RowSize {
        RowSize { times: self.times.saturating_mul(by), plus: self.plus.saturating_mul(by) }
    }

    fn is_modest(self) -> bool {
        self.times <= TIMES_MAX && self.plus <= PLUS_MAX
    }
}

/// Whether a call of a function whose result may be much larger than its arguments stays small here.
pub(super) fn is_modest(expr: &Expr) -> bool {
    of(expr).is_some_and(RowSize::is_modest)
}

/// The bound of an expression's value; `None` if it depends on the values of a row.
fn of(expr: &Expr) -> Option<RowSize> {
    match expr {
        Expr::Alias(alias) => of(&alias.expr),
        Expr::Column(_) => Some(RowSize { times: 1, plus: 0 }),
        // The plan may run again with another value of a parameter.
        Expr::Literal(value, _) => (!is_parameter(expr)).then(|| RowSize::constant(constant_bytes(value))),
        Expr::Cast(cast) if !cast.field.data_type().is_nested() => {
            Some(of(&cast.expr)?.and(RowSize::constant(ELEMENT_BYTES)))
        }
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            values.map(|value| of(value)).try_fold(RowSize::default(), |size, value| Some(size.or(value?)))
        }
        Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat => {
            Some(of(&binary.left)?.and(of(&binary.right)?))
        }
        Expr::ScalarFunction(call) => match GrowthRule::of(call.func.name()) {
            Some(growth) => of_call(growth, call),
            None => sum(&call.args),
        },
        // All other expressions return numbers or truth values.
        _ => Some(RowSize::constant(ELEMENT_BYTES)),
    }
}

/// The size of several values, one after the other.
fn sum(args: &[Expr]) -> Option<RowSize> {
    args.iter().try_fold(RowSize::constant(ELEMENT_BYTES), |sum, arg| Some(sum.and(of(arg)?)))
}

fn of_call(growth: GrowthRule, call: &ScalarFunction) -> Option<RowSize> {
    let arg = |place: usize| call.args.get(place).map_or(Some(RowSize::default()), of);
    let constant = |place: usize| call.args.get(place).and_then(constant);
    let text = |place: usize| constant(place).and_then(|value| value.try_as_str().flatten());
    let bytes_of = |place: usize| Some(text(place)?.len() as u64);
    match growth {
        GrowthRule::Repeat => Some(arg(0)?.multiplied(number(constant(1)?)?)),
        GrowthRule::Pad => Some(RowSize::constant(number(constant(1)?)?.saturating_mul(CHARACTER_BYTES))),
        GrowthRule::Replace => {
            let (of_text, from, to) = (arg(0)?, bytes_of(1)?.max(1), bytes_of(2)?);
            let places = |bytes: u64| bytes.div_ceil(from);
            let made = RowSize { times: places(of_text.times), plus: places(of_text.plus) + 1 };
            Some(of_text.and(made.multiplied(to)))
        }
        // Each group of the pattern may be the whole text, and without the flag `g` one place is replaced.
        GrowthRule::RegexpReplace => {
            let (of_text, to) = (arg(0)?, text(2)?);
            let groups = to.matches(['\\', '$']).count() as u64;
            let flags = if call.args.len() > 3 { text(3)? } else { "" };
            bytes_of(1)?;
            let copied = of_text.multiplied(groups + 1);
            let made = RowSize { times: 0, plus: to.len() as u64 };
            let of_all = || of_text.and(RowSize::constant(1)).multiplied(to.len() as u64);
            Some(copied.and(if flags.contains('g') { of_all() } else { made }))
        }
        GrowthRule::StringToArray => {
            let (of_text, delimiter) = (arg(0)?, bytes_of(1)?.max(1));
            let offsets =
                RowSize { times: of_text.times.div_ceil(delimiter), plus: of_text.plus.div_ceil(delimiter) + 1 };
            Some(of_text.and(offsets.multiplied(4)))
        }
        // The call reserves memory again for the format that a run supplies.
        GrowthRule::Format => match call.args.get(1) {
            Some(format) if is_parameter(format) => Some(RowSize::constant(ELEMENT_BYTES)),
            _ => Some(RowSize::constant((bytes_of(1)? + 2).saturating_mul(16))),
        },
        // Each directive writes one of the values, or a number of some width.
        GrowthRule::Written => {
            let format = text(0)?;
            let directives = format.matches(['%', '{']).count() as u64;
            let values = call.args.iter().skip(1).try_fold(RowSize::default(), |most, arg| Some(most.or(of(arg)?)))?;
            Some(values.multiplied(directives).and(RowSize::constant((format.len() as u64).saturating_mul(64))))
        }
        GrowthRule::Join => {
            let delimiters = bytes_of(0)?.saturating_mul(call.args.len() as u64);
            Some(sum(call.args.get(1..)?)?.and(RowSize::constant(delimiters)))
        }
        GrowthRule::Sum => sum(&call.args),
        // A constant pattern is compiled once for all rows.
        GrowthRule::Pattern => matches!(call.args.get(1).map(without_casts), Some(Expr::Literal(_, _)))
            .then_some(RowSize::constant(ELEMENT_BYTES).and(arg(0)?)),
        // Their steps are bounded if one side is.
        GrowthRule::Pairs => {
            let is_short = |place: usize| constant(place).is_some_and(|value| constant_bytes(value) <= PLUS_MAX);
            (is_short(0) || is_short(1)).then_some(RowSize::constant(ELEMENT_BYTES))
        }
        GrowthRule::Range
        | GrowthRule::ArrayRepeat
        | GrowthRule::ArrayResize
        | GrowthRule::ArrayReplace
        | GrowthRule::ArrayToString
        | GrowthRule::Map => None,
    }
}

/// A literal that is the same in each run of the plan.
fn constant(expr: &Expr) -> Option<&ScalarValue> {
    match without_casts(expr) {
        literal @ Expr::Literal(value, _) if !is_parameter(literal) => Some(value),
        _ => None,
    }
}

fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => without_casts(&cast.expr),
        other => other,
    }
}

/// A whole number; negative ones become zero.
fn number(value: &ScalarValue) -> Option<u64> {
    match value.cast_to(&arrow::datatypes::DataType::Int64) {
        Ok(ScalarValue::Int64(number)) => Some(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::functions::expr_fn::{concat, concat_ws, lpad, repeat, replace, upper};
    use datafusion::logical_expr::{binary_expr, col, lit};

    use super::*;

    fn size(times: u64, plus: u64) -> Option<RowSize> {
        Some(RowSize { times, plus })
    }

    #[test]
    fn what_constants_bound_is_modest() {
        let joined = binary_expr(col("sym"), Operator::StringConcat, lit("-"));
        assert_eq!(of(&joined), size(1, constant_bytes(&ScalarValue::from("-"))));
        assert_eq!(of(&repeat(col("a"), lit(3))), size(3, 0));
        assert_eq!(of(&lpad(vec![col("a"), lit(10)])), size(0, 40));
        assert_eq!(of(&replace(col("a"), lit("xy"), lit("12345"))), size(6, 5));
        assert!(is_modest(&upper(replace(joined, lit("-"), lit("")))));
        assert!(is_modest(&concat(vec![col("a"), lit("/"), col("b")])));
        assert!(is_modest(&concat_ws(lit(", "), vec![col("a"), col("b")])));
    }

    #[test]
    fn what_values_bound_is_not() {
        assert!(!is_modest(&repeat(col("a"), col("n"))));
        assert!(!is_modest(&repeat(col("a"), lit(1_000))));
        assert!(!is_modest(&repeat(repeat(col("a"), lit(8)), lit(8))));
        assert!(!is_modest(&replace(col("a"), lit(""), lit("12345678"))));
        assert!(!is_modest(&replace(col("a"), col("b"), col("c"))));
        assert!(!is_modest(&lpad(vec![col("a"), lit(i64::MAX)])));
        assert!(!is_modest(&concat(vec![lit("x".repeat(1_000)), col("a")])));
        let doubled = |expr: Expr| binary_expr(expr.clone(), Operator::StringConcat, expr);
        assert!(is_modest(&doubled(doubled(col("a")))));
        assert!(!is_modest(&doubled(doubled(doubled(doubled(col("a")))))));
    }
}
