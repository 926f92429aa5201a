//! Rewrites expressions that the planner doesn't accept into forms that it accepts.
//!
//! | Written | Planned as |
//! | --- | --- |
//! | `-(a - b)` | an operator of ours, which knows differences of times |
//! | `~x` | `-1 - x` |
//! | `(a, b) < (c, d)` | `a < c OR a = c AND b < d`, and the like, as in PostgreSQL |
//! | `x[2:]`, `x[:2]`, `x[:]` | with 1 and -1 for the bound that isn't there |
//! | `{'a': 1}.a` | `{'a': 1}['a']` |
//! | `NOT x = ANY (list)` | `x <> ALL (list)`, which is null where an item is null and none equals `x`; `ANY` is false there |
//! | `x = ANY (list)` in a select list | `NOT x <> ALL (list)`, for the same reason |
//! | `x LIKE p ESCAPE '/'` | with the backslash, in the pattern too |
//! | `INTERVAL '1 day 02:03:04'`, `INTERVAL '1 quarter'` | `INTERVAL '1 day 2 hours 3 minutes 4 seconds'`, `INTERVAL '3 months'` |

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, DateTimeField, Expr, Interval, SelectItem, Subscript, UnaryOperator, Value,
    ValueWithSpan,
};
use splay_functions::NEGATED;

use super::calls::text;
use super::nothing;
use super::templates::fill_template;
use crate::walk::change_expressions;

/// Writes an expression in a form that the planner accepts. Its parts are already in that form.
pub(super) fn complete(expression: &mut Expr) {
    match expression {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if is_difference(expr) => {
            let operator = BinaryOperator::Custom(NEGATED.to_owned());
            *expression = binary(Expr::Value(Value::Null.into()), operator, expr);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            if let Some(differs) = differs_from_all(expr) {
                *expression = differs;
            }
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => {
            *expression = Expr::Nested(Box::new(binary(number("-1"), BinaryOperator::Minus, expr)));
        }
        Expr::BinaryOp { left, op, right } => {
            if let (Some(left), Some(right)) = (row(left), row(right))
                && left.len() == right.len()
                && let Some(compared) = compare_rows(&left, op, &right)
            {
                *expression = Expr::Nested(Box::new(compared));
            }
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let names = match root.as_ref() {
                Expr::Identifier(_) => access_chain.iter().take_while(|access| is_name(access)).count(),
                _ => 0,
            };
            access_chain[names..].iter_mut().for_each(complete_access);
        }
        Expr::Interval(interval) => complete_interval(interval),
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            escape_by_backslash(pattern, escape_char);
        }
        Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => complete_text(expr),
        _ => {}
    }
}

/// Writes the comparisons of a column with the items of lists so that they are null if a null item leaves the result open. In a condition this isn't
/// needed, because null and false have the same effect there, and scans use comparisons in their original form.
pub(super) fn keep_nulls(column: &mut SelectItem) {
    let (SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. }) = column else {
        return;
    };
    change_expressions(expression, |inner| {
        if let Some(differs) = differs_from_all(inner) {
            *inner = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(differs))) };
        }
    });
}

/// The negation of `x = ANY (list)`, whose list may have nulls: `x <> ALL (list)`.
fn differs_from_all(expression: &mut Expr) -> Option<Expr> {
    match expression {
        Expr::Nested(inner) => differs_from_all(inner),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. }
            if !matches!(right.as_ref(), Expr::Subquery(_)) && !is_of_literals(right) =>
        {
            let [left, right] = [left, right].map(|side| std::mem::replace(side, Box::new(nothing())));
            Some(Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right })
        }
        _ => None,
    }
}

fn is_of_literals(list: &Expr) -> bool {
    let is_literal =
        |item: &Expr| matches!(item, Expr::Value(value) if !matches!(value.value, Value::Null | Value::Placeholder(_)));
    matches!(list, Expr::Array(array) if array.elem.iter().all(is_literal))
}

/// Rewrites a pattern with another escape character than the backslash, unless that character is a wildcard: DataFusion escapes by the backslash.
fn escape_by_backslash(pattern: &mut Expr, escape: &mut Option<ValueWithSpan>) {
    let Some(ValueWithSpan { value: Value::SingleQuotedString(by), .. }) = escape else { return };
    if by.chars().count() != 1 || ["\\", "%", "_"].contains(&by.as_str()) {
        return;
    }
    let escape_character = by.chars().next().unwrap_or_default();
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(literal), .. }) = pattern {
        *literal = by_backslash(literal, escape_character);
        *escape = None;
        return;
    }
    // A doubled escape character stands for one; its temporary replacement occurs in no pattern.
    let template = "replace(replace(replace(replace($1, $4, concat($4, $4)), concat($2, $2), $3), $2, $4), $3, $2)";
    let args = [pattern.clone(), text(by), text("\u{1}"), text("\\")];
    if let Ok(other) = fill_template(template, &args.each_ref()) {
        *pattern = other;
        *escape = None;
    }
}

/// A pattern with the backslash in place of its escape character.
fn by_backslash(pattern: &str, escape: char) -> String {
    let (mut escaped, mut characters) = (String::with_capacity(pattern.len()), pattern.chars());
    while let Some(character) = characters.next() {
        match character {
            character if character == escape => match characters.next() {
                Some(next) if next == escape => escaped.push(escape),
                next => escaped.extend(std::iter::once('\\').chain(next)),
            },
            '\\' => escaped.push_str("\\\\"),
            character => escaped.push(character),
        }
    }
    escaped
}

fn is_difference(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => matches!(inner.as_ref(), Expr::BinaryOp { op: BinaryOperator::Minus, .. }),
        _ => false,
    }
}

fn binary(left: Expr, op: BinaryOperator, right: &mut Expr) -> Expr {
    let right = Expr::Nested(Box::new(std::mem::replace(right, nothing())));
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn number(text: &str) -> Expr {
    Expr::Value(Value::Number(text.to_owned(), false).into())
}

/// The values of a row `(a, b)`.
fn row(expression: &Expr) -> Option<Vec<Expr>> {
    match expression {
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Nested(inner) => row(inner),
        _ => None,
    }
}

/// Writes a comparison of rows as comparisons of their values: the first that differ decide.
fn compare_rows(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    let pair = |op: BinaryOperator, place: usize| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(left[place].clone()))),
        op,
        right: Box::new(Expr::Nested(Box::new(right[place].clone()))),
    };
    let joined = |one: Expr, op: BinaryOperator, other: Expr| {
        Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(one), op, right: Box::new(other) }))
    };
    let strict = match op {
        BinaryOperator::Eq | BinaryOperator::NotEq => {
            let and = if *op == BinaryOperator::Eq { BinaryOperator::And } else { BinaryOperator::Or };
            let pairs = (0..left.len()).map(|place| pair(op.clone(), place));
            return pairs.reduce(|one, other| joined(one, and.clone(), other));
        }
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        _ => return None,
    };
    let last = left.len().checked_sub(1)?;
    Some((0..last).rev().fold(pair(op.clone(), last), |rest, place| {
        let same = joined(pair(BinaryOperator::Eq, place), BinaryOperator::And, rest);
        joined(pair(strict.clone(), place), BinaryOperator::Or, same)
    }))
}

/// Whether the first access is a part of a column's name, such as `bids` of `book.bids[1]`.
fn is_name(access: &AccessExpr) -> bool {
    matches!(access, AccessExpr::Dot(Expr::Identifier(_)))
}

fn complete_access(access: &mut AccessExpr) {
    match access {
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
            lower_bound.get_or_insert_with(|| number("1"));
            upper_bound.get_or_insert_with(|| number("-1"));
        }
        AccessExpr::Dot(Expr::Identifier(name)) => {
            *access = AccessExpr::Subscript(Subscript::Index { index: text(&name.value.to_lowercase()) });
        }
        _ => {}
    }
}

fn complete_interval(interval: &mut Interval) {
    match &interval.leading_field {
        None => complete_text(&mut interval.value),
        Some(DateTimeField::Quarter) => {
            if let Expr::Value(value) = interval.value.as_mut()
                && let Value::Number(number, _) | Value::SingleQuotedString(number) = &mut value.value
                && let Some(months) = months_of_quarters(number)
            {
                *number = months;
                interval.leading_field = Some(DateTimeField::Month);
            }
        }
        Some(_) => {}
    }
}

fn complete_text(expression: &mut Expr) {
    if let Expr::Value(value) = expression
        && let Value::SingleQuotedString(text) = &mut value.value
        && let Some(units) = in_units(text)
    {
        *text = units;
    }
}

fn months_of_quarters(number: &str) -> Option<String> {
    match number.trim().parse::<i64>() {
        Ok(whole) => whole.checked_mul(3).map(|months| months.to_string()),
        Err(_) => number.trim().parse::<f64>().ok().map(|part| (part * 3.0).to_string()),
    }
}

/// The text of an interval with units only, if it has a time of day or quarters.
fn in_units(text: &str) -> Option<String> {
    let mut words: Vec<Cow<'_, str>> = Vec::new();
    let mut is_changed = false;
    for word in text.split_whitespace() {
        if word.contains(':') {
            words.push(Cow::Owned(clock_in_units(word)?));
        } else if matches!(word.to_lowercase().as_str(), "quarter" | "quarters") {
            let months = months_of_quarters(&words.pop()?)?;
            words.extend([Cow::Owned(months), Cow::Borrowed("months")]);
        } else {
            words.push(Cow::Borrowed(word));
            continue;
        }
        is_changed = true;
    }
    is_changed.then(|| words.join(" "))
}

/// `-02:03:04.5` as `-02 hours -03 minutes -04.5 seconds`.
fn clock_in_units(clock: &str) -> Option<String> {
    let (sign, parts) = match clock.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", clock.strip_prefix('+').unwrap_or(clock)),
    };
    let parts: Vec<&str> = parts.split(':').collect();
    let is_number = |(place, part): (usize, &&str)| {
        let digits = if place == 2 { part.replacen('.', "", 1) } else { (*part).to_owned() };
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !matches!(parts.len(), 2 | 3) || !parts.iter().enumerate().all(is_number) {
        return None;
    }
    let units = ["hours", "minutes", "seconds"];
    Some(parts.iter().zip(units).map(|(part, unit)| format!("{sign}{part} {unit}")).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::in_units;

    #[test]
    fn times_of_day_and_quarters_become_units() {
        let units = |text| in_units(text);
        assert_eq!(units("02:03:04").as_deref(), Some("02 hours 03 minutes 04 seconds"));
        assert_eq!(units("1 day -02:03").as_deref(), Some("1 day -02 hours -03 minutes"));
        assert_eq!(units("00:00:01.5").as_deref(), Some("00 hours 00 minutes 01.5 seconds"));
        assert_eq!(units("2 Quarters 1 day").as_deref(), Some("6 months 1 day"));
        assert_eq!([units("1 day"), units("1:x"), units("quarter"), units("1:2:3:4")], [None, None, None, None]);
    }
}
