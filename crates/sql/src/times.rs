//! Values that are compared with times: texts without seconds and with one-digit parts count as times; numbers beside a date are errors.
//!
//! - `time >= '2024-03-04 09:30'`, `TIMESTAMP '2024-03-04 09:30Z'` and `to_timestamp('2024-03-04 09:30')` are read as
//!   if they had `:00` after the minute, and `'2024-3-4 9:30'` as if it had zeros, because Arrow's parser requires both.
//! - Texts that aren't literals are completed where they are read (`text_forms.rs`): `t::timestamp`, `time >= t`, `to_timestamp(t)`.
//! - `date = 2024-03-04` is the number 2017, and is refused. DataFusion would take it for days since 1970.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Between, Cast, InList, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use splay_functions::walk::{Walk, WalkPlan};

use crate::plan_rewrite::{rewritten, schema_below};
use crate::pushdown;
use crate::text_forms::TextForm;

static FULL_TIME: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| TextForm::function("full_time", is_short, full_time));

/// The plan with complete times.
///
/// # Errors
/// A plan error for a date that is compared with a number.
pub(crate) fn complete(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_short = false;
    plan.walk_steps(|node| {
        let schema = schema_below(node);
        node.walk_expressions(|expr| {
            expr.apply(|expr| {
                has_short |= short(expr).is_some() || reads_text(expr, &schema);
                check(expr, &schema)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if has_short { rewritten(plan, |node, _| Ok(Transformed::no(node)), complete_time) } else { Ok(plan) }
}

fn check(expr: &Expr, schema: &DFSchema) -> Result<()> {
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32 | DataType::Date64));
    let is_number = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_numeric());
    let sides: Vec<&Expr> = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => vec![left, right],
        Expr::Between(Between { expr, low, high, .. }) => vec![expr, low, high],
        Expr::InList(InList { expr, list, .. }) => std::iter::once(expr.as_ref()).chain(list.first()).collect(),
        _ => return Ok(()),
    };
    if sides.iter().any(|side| is_date(side)) && sides.iter().any(|side| is_number(side)) {
        return plan_err!("a date isn't compared with a number: write it in quotes, as in DATE '2024-03-04'");
    }
    Ok(())
}

/// Whether an expression reads a text that isn't a literal as a time.
fn reads_text(expr: &Expr, schema: &DFSchema) -> bool {
    let is_text = |expr: &Expr| is_text_to_complete(expr, schema);
    let is_time = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Timestamp(_, _)));
    match expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            matches!(field.data_type(), DataType::Timestamp(_, _)) && is_text(expr)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            is_text(left) && is_time(right) || is_text(right) && is_time(left)
        }
        Expr::Between(Between { expr, low, high, .. }) => (is_text(low) || is_text(high)) && is_time(expr),
        Expr::InList(InList { expr, list, .. }) => list.iter().any(is_text) && is_time(expr),
        Expr::ScalarFunction(ScalarFunction { func, args }) => is_of_text(func) && args.first().is_some_and(is_text),
        _ => false,
    }
}

/// Whether an expression is a text that isn't a literal.
fn is_text_to_complete(expr: &Expr, schema: &DFSchema) -> bool {
    !matches!(expr, Expr::Literal(_, _) | Expr::Placeholder(_))
        && !is_completed(expr)
        && expr.get_type(schema).is_ok_and(|data_type| pushdown::is_text(&data_type))
}

fn complete_time(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_time = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Timestamp(_, _)));
    let to_seconds = |expr: Expr| match is_text_to_complete(&expr, schema) {
        true => completed(expr),
        false => to_seconds(expr),
    };
    let boxed = |side: Box<Expr>| Box::new(to_seconds(*side));
    Ok(match expr {
        Expr::Cast(Cast { expr, field }) if matches!(field.data_type(), DataType::Timestamp(_, _)) => {
            Transformed::yes(Expr::Cast(Cast { expr: boxed(expr), field }))
        }
        Expr::TryCast(TryCast { expr, field }) if matches!(field.data_type(), DataType::Timestamp(_, _)) => {
            Transformed::yes(Expr::TryCast(TryCast { expr: boxed(expr), field }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op != Operator::StringConcat && (is_time(&left) || is_time(&right)) =>
        {
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: boxed(left), op, right: boxed(right) }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_time(&expr) => {
            Transformed::yes(Expr::Between(Between { expr, negated, low: boxed(low), high: boxed(high) }))
        }
        Expr::InList(InList { expr, list, negated }) if is_time(&expr) => {
            Transformed::yes(Expr::InList(InList { expr, list: list.into_iter().map(to_seconds).collect(), negated }))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if is_of_text(&func) => {
            let args =
                args.into_iter().enumerate().map(|(at, arg)| if at == 0 { to_seconds(arg) } else { arg }).collect();
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        other => Transformed::no(other),
    })
}

/// Whether a function converts a text to a time.
fn is_of_text(function: &ScalarUDF) -> bool {
    function.name().starts_with("to_timestamp")
}

fn to_seconds(expr: Expr) -> Expr {
    let Some(text) = short(&expr).map(|text| full_time(text).into_owned()) else { return expr };
    match expr {
        Expr::Literal(_, metadata) => Expr::Literal(ScalarValue::Utf8(Some(text)), metadata),
        expr => expr,
    }
}

/// The text of a literal that is an abbreviated time.
fn short(expr: &Expr) -> Option<&str> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = expr else { return None };
    is_short(text).then_some(text)
}

/// Whether a text is an abbreviated time: to the minute, or with a month, a day or an hour of one digit.
fn is_short(text: &str) -> bool {
    // Four bytes show that most texts are complete.
    let is_full =
        matches!(text.as_bytes(), [_, _, _, _, b'-', _, _, b'-', _, _, b' ' | b'T', _, _, b':', _, _, b':', ..]);
    !is_full && ShortTime::of(text).is_some_and(|time| !time.is_full())
}

/// A text that is cast to a time, completed if it [is short](is_short), as Arrow's parser requires.
pub(crate) fn full_time(text: &str) -> Cow<'_, str> {
    match ShortTime::of(text).filter(|time| !time.is_full()) {
        Some(time) => Cow::Owned(time.in_full()),
        None => Cow::Borrowed(text),
    }
}

/// The parts of a text that is a date, or a date with a time.
struct ShortTime<'a> {
    year: &'a str,
    month: &'a str,
    day: &'a str,
    clock: Option<ShortClock<'a>>,
}

/// The parts behind the date.
struct ShortClock<'a> {
    separator: char,
    hour: &'a str,
    minute: &'a str,
    /// The text behind the minute; it begins with a colon if seconds follow.
    rest: &'a str,
}

/// One or two leading digits, and the rest.
fn digits(text: &str) -> Option<(&str, &str)> {
    let count = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    (count > 0).then(|| text.split_at(count))
}

impl<'a> ShortTime<'a> {
    fn of(text: &'a str) -> Option<ShortTime<'a>> {
        let (year, rest) =
            text.split_at_checked(4).filter(|(year, _)| year.bytes().all(|byte| byte.is_ascii_digit()))?;
        let (month, rest) = digits(rest.strip_prefix('-')?)?;
        let (day, rest) = digits(rest.strip_prefix('-')?)?;
        let clock = match rest.is_empty() {
            true => None,
            false => Some(ShortClock::of(rest)?),
        };
        Some(ShortTime { year, month, day, clock })
    }

    fn is_full(&self) -> bool {
        let has_two = |text: &str| text.len() == 2;
        let clock = self.clock.as_ref();
        has_two(self.month)
            && has_two(self.day)
            && clock.is_none_or(|clock| has_two(clock.hour) && clock.rest.starts_with(':'))
    }

    fn in_full(&self) -> String {
        let ShortTime { year, month, day, clock } = self;
        let date = format!("{year}-{month:0>2}-{day:0>2}");
        let Some(ShortClock { separator, hour, minute, rest }) = clock else { return date };
        let seconds = if rest.starts_with(':') { "" } else { ":00" };
        format!("{date}{separator}{hour:0>2}:{minute}{seconds}{rest}")
    }
}

impl<'a> ShortClock<'a> {
    fn of(text: &'a str) -> Option<ShortClock<'a>> {
        let separator = text.chars().next().filter(|first| matches!(first, ' ' | 'T'))?;
        let (hour, rest) = digits(&text[1..])?;
        let (minute, rest) = digits(rest.strip_prefix(':')?).filter(|(minute, _)| minute.len() == 2)?;
        let ends = rest.is_empty() || rest.starts_with([':', 'Z', 'z', '+', '-', ' ']);
        ends.then_some(ShortClock { separator, hour, minute, rest })
    }
}

/// The instant of a text, to the day, the minute or finer, in nanoseconds since the epoch.
pub(crate) fn instant(text: &str) -> Option<i64> {
    arrow::compute::kernels::cast_utils::string_to_timestamp_nanos(&full_time(text.trim())).ok()
}

/// Completes a text, if it is an abbreviated time.
fn completed(text: Expr) -> Expr {
    FULL_TIME.call(vec![text])
}

/// Whether an expression is a call that [`completed`] made.
fn is_completed(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == FULL_TIME.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_are_read_in_full() {
        for (text, expected) in [
            ("2024-03-04 09:30", "2024-03-04 09:30:00"),
            ("2024-03-04T09:30Z", "2024-03-04T09:30:00Z"),
            ("2024-03-04 09:30+01:00", "2024-03-04 09:30:00+01:00"),
            ("2024-03-04 09:30 America/New_York", "2024-03-04 09:30:00 America/New_York"),
            ("2024-03-04 09:30:15", "2024-03-04 09:30:15"),
            ("2024-3-4 9:30", "2024-03-04 09:30:00"),
            ("2024-1-5", "2024-01-05"),
            ("2024-12-5", "2024-12-05"),
            ("2024-1-15T9:30:15.25Z", "2024-01-15T09:30:15.25Z"),
            ("2024-01-05 9:30-05:00", "2024-01-05 09:30:00-05:00"),
            ("2024-01-05", "2024-01-05"),
            ("2024-1-5 9", "2024-1-5 9"),
            ("2024-1-5 123:00", "2024-1-5 123:00"),
            ("2024-1-", "2024-1-"),
            ("2024-1-5\u{a0}9:30", "2024-1-5\u{a0}9:30"),
            ("24-1-5 9:30", "24-1-5 9:30"),
            ("2024-1-5x9:30", "2024-1-5x9:30"),
            ("\u{e9}\u{e9}-1-5", "\u{e9}\u{e9}-1-5"),
            ("2024-03-04 09:3", "2024-03-04 09:3"),
            ("2024-03-04 09:300", "2024-03-04 09:300"),
            ("2024-03-04 09:3\u{e9}", "2024-03-04 09:3\u{e9}"),
        ] {
            assert_eq!(full_time(text), expected);
            assert_eq!(is_short(text), text != expected, "{text}");
        }
        assert_eq!(instant("2024-03-04T09:30+01:00"), instant("2024-03-04T08:30:00Z"));
    }
}
