//! Calls that are replaced by others, and clauses of calls that DataFusion's planner ignores.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, OrderByExpr, OrderByOptions, SelectItem, Value,
    WindowFrame, WindowFrameBound, WindowFrameUnits, WindowType,
};
use splay_functions::{FRAME_MARKER, in_words_of_chrono};

use super::time_patterns::in_words_of_strftime;
use crate::error::{Error, Result};
use crate::function_calls::{GREATEST, LEAST, argument, name_of};
use crate::names::{title, titled};

/// Gives an expression without an alias its title, before its calls are written otherwise.
pub(super) fn name_as_written(column: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(expression) = column
        && let Some(title) = title(expression)
    {
        let expr = std::mem::replace(expression, super::nothing());
        *column = SelectItem::ExprWithAlias { expr, alias: titled(title) };
    }
}

/// Whether an expression in place of a partition key describes a frame.
pub(super) fn is_marker(expression: &Expr) -> bool {
    matches!(expression, Expr::Function(call) if name_of(call) == FRAME_MARKER)
}

/// Writes a call in a form that DataFusion's planner accepts.
///
/// # Errors
/// [`Error::Statement`] for arguments that a function doesn't take.
pub(super) fn spell_out(call: &mut Function) -> Result<()> {
    let name = name_of(call);
    if LEAST.contains(&name.as_str()) || GREATEST.contains(&name.as_str()) {
        pick_row(call, &name)?;
    } else if name == "strftime" {
        call.name = ObjectName::from(vec![Ident::new("to_char")]);
        if let FunctionArguments::List(FunctionArgumentList { args, .. }) = &mut call.args
            && let [one, other] = args.as_mut_slice()
            && is_text(one)
            && !is_text(other)
        {
            // The format may be the first argument.
            std::mem::swap(one, other);
        }
        if let FunctionArguments::List(FunctionArgumentList { args, .. }) = &mut call.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) = args.get_mut(1)
            && let Value::SingleQuotedString(format) = &mut value.value
        {
            *format = in_words_of_chrono(format, false);
        }
    }
    if name == "to_char"
        && let FunctionArguments::List(FunctionArgumentList { args, .. }) = &mut call.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) = args.get_mut(1)
        && let Value::SingleQuotedString(pattern) = &mut value.value
        && let Some(words) = in_words_of_strftime(pattern)?
    {
        *pattern = words;
    }
    mark_frame(call);
    Ok(())
}

fn is_text(argument: &FunctionArg) -> bool {
    matches!(
        argument,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))
            if matches!(value.value, Value::SingleQuotedString(_))
    )
}

/// A filter, in addition to an optional one, of the rows in which neither of two values is null.
pub(super) fn where_there(filter: Option<Box<Expr>>, one: &Expr, other: &Expr) -> Box<Expr> {
    let is_there = |value: &Expr| Expr::IsNotNull(Box::new(Expr::Nested(Box::new(value.clone()))));
    let and = |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
    let both = and(is_there(one), is_there(other));
    Box::new(match filter {
        Some(filter) => and(Expr::Nested(filter), both),
        None => both,
    })
}

/// `arg_max(x, y)` as `first(x ORDER BY y DESC) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)`.
fn pick_row(call: &mut Function, name: &str) -> Result<()> {
    let wrong = || Error::Statement {
        message: format!(
            "{name} takes (x, y), the x of the row in which y is extreme, and without OVER the number of rows"
        ),
    };
    let FunctionArguments::List(list) = &mut call.args else { return Err(wrong()) };
    let (args, clauses) = (&mut list.args, &mut list.clauses);
    let (Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(by))), true, true) =
        (args.pop(), args.len() == 1, clauses.is_empty())
    else {
        return Err(wrong());
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) = args.first() else { return Err(wrong()) };
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        list.duplicate_treatment = None;
    }
    call.filter = Some(where_there(call.filter.take(), value, &by));
    let options = OrderByOptions { asc: Some(LEAST.contains(&name)), nulls_first: Some(false) };
    clauses.push(FunctionArgumentClause::OrderBy(vec![OrderByExpr { expr: by, options, with_fill: None }]));
    call.name = ObjectName::from(vec![Ident::new("first")]);
    Ok(())
}

/// Moves the order of a call over a window, and offsets that aren't literals, to the marker of its frame.
fn mark_frame(call: &mut Function) {
    let Some(WindowType::WindowSpec(window)) = &mut call.over else { return };
    let mut offsets = [null(), null()];
    if let Some(frame) = &mut window.window_frame {
        // A frame without an end ends at the current row.
        let bounds = [Some(&mut frame.start_bound), frame.end_bound.as_mut()];
        for (bound, offset) in bounds.into_iter().zip(&mut offsets) {
            if let Some(
                WindowFrameBound::Preceding(Some(offset_expr)) | WindowFrameBound::Following(Some(offset_expr)),
            ) = bound
            {
                quote_interval(offset_expr);
                if !is_literal(offset_expr) {
                    *offset = std::mem::replace(offset_expr.as_mut(), one());
                }
            }
        }
    }
    let mut order = Vec::new();
    if let FunctionArguments::List(FunctionArgumentList { clauses, .. }) = &mut call.args {
        clauses.retain_mut(|clause| match clause {
            FunctionArgumentClause::OrderBy(keys) => {
                order.append(keys);
                false
            }
            _ => true,
        });
    }
    let is_empty = window.window_frame.as_ref().is_some_and(is_empty_frame);
    if is_empty && let Some(frame) = &mut window.window_frame {
        // An empty frame: the current row alone, which is then excluded.
        frame.units = WindowFrameUnits::Rows;
        (frame.start_bound, frame.end_bound) = (WindowFrameBound::CurrentRow, Some(WindowFrameBound::CurrentRow));
        offsets = [null(), null()];
    }
    let has_offset = offsets.iter().any(|offset| *offset != null());
    let place = window.partition_by.iter().position(is_marker);
    if !has_offset && order.is_empty() && !is_empty {
        return;
    }
    let mut args = match place.map(|place| window.partition_by.remove(place)) {
        Some(Expr::Function(Function { args: FunctionArguments::List(list), .. })) => list.args,
        _ => vec![argument(text("")), argument(null()), argument(null())],
    };
    args.truncate(1);
    if is_empty {
        args = vec![argument(text("current row"))];
    }
    args.extend(offsets.map(argument));
    for OrderByExpr { expr, options, .. } in order {
        let is_ascending = options.asc.unwrap_or(true);
        let nulls_first = options.nulls_first.unwrap_or(!is_ascending);
        let direction = if is_ascending { "asc" } else { "desc" };
        args.push(argument(expr));
        args.push(argument(text(&format!("{direction} {}", if nulls_first { "first" } else { "last" }))));
    }
    window.partition_by.push(Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(FRAME_MARKER)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }));
}

/// Whether the literals of a frame put its end before its beginning, as in `BETWEEN 5 PRECEDING AND 6 PRECEDING`.
fn is_empty_frame(frame: &WindowFrame) -> bool {
    let number = |offset: &Expr| match offset {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse::<f64>().ok(),
            _ => None,
        },
        _ => None,
    };
    match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(Some(start)), Some(WindowFrameBound::Preceding(Some(end)))) => {
            number(start).zip(number(end)).is_some_and(|(start, end)| start < end)
        }
        (WindowFrameBound::Following(Some(start)), Some(WindowFrameBound::Following(Some(end)))) => {
            number(start).zip(number(end)).is_some_and(|(start, end)| start > end)
        }
        _ => false,
    }
}

/// `INTERVAL 5 SECONDS` as `INTERVAL '5' SECONDS`: for an offset the planner accepts only texts.
fn quote_interval(offset: &mut Expr) {
    if let Expr::Interval(interval) = offset
        && let Expr::Value(value) = interval.value.as_mut()
        && let Value::Number(number, _) = &value.value
    {
        value.value = Value::SingleQuotedString(number.clone());
    }
}

fn is_literal(offset: &Expr) -> bool {
    match offset {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::Interval(interval) => matches!(interval.value.as_ref(), Expr::Value(_)),
        _ => false,
    }
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn one() -> Expr {
    Expr::Value(Value::Number("1".to_owned(), false).into())
}

pub(super) fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}
