//! Functions of other systems that exist here under another name, or as an expression over existing functions.
//!
//! Source of each, and what differs: docs/reference/functions.md.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    Ident, ObjectName, OrderByExpr, OrderByOptions, Value, helpers::attached_token::AttachedToken,
};

use super::calls::{text, where_there};
use super::templates;
use crate::error::{Result, fault};
use crate::function_calls;
use crate::function_calls::{GREATEST, LEAST, argument, call_of, name_of, one_list};

/// Names of functions, and their names here. The arguments are the same.
const RENAMED: [(&str, &str); 28] = [
    ("approx_count_distinct", "approx_distinct"),
    ("approx_quantile", "approx_percentile_cont"),
    ("arbitrary", "first"),
    ("array_apply", "array_transform"),
    ("editdist3", "levenshtein"),
    ("favg", "avg"),
    ("fsum", "sum"),
    ("greatest_common_divisor", "gcd"),
    ("group_concat", "string_agg"),
    ("kahan_sum", "sum"),
    ("lcase", "lower"),
    ("least_common_multiple", "lcm"),
    ("list_apply", "array_transform"),
    ("list_value", "make_array"),
    ("listagg", "string_agg"),
    ("ord", "ascii"),
    ("prefix", "starts_with"),
    ("regexp_matches", "regexp_like"),
    ("sign", "signum"),
    ("split", "string_to_array"),
    ("str_split", "string_to_array"),
    ("string_split", "string_to_array"),
    ("suffix", "ends_with"),
    ("sum_no_overflow", "sum"),
    ("sumkahan", "sum"),
    ("ucase", "upper"),
    ("unicode", "ascii"),
    ("variance", "var_samp"),
];

/// Functions that return a part of a time, and that part for `date_part`.
const PARTS: [(&str, &str); 19] = [
    ("day", "day"),
    ("dayofmonth", "day"),
    ("dayofweek", "dow"),
    ("dayofyear", "doy"),
    ("epoch", "epoch"),
    ("hour", "hour"),
    ("isodow", "isodow"),
    ("isoyear", "isoyear"),
    ("microsecond", "microsecond"),
    ("millisecond", "millisecond"),
    ("minute", "minute"),
    ("month", "month"),
    ("nanosecond", "nanosecond"),
    ("quarter", "quarter"),
    ("second", "second"),
    ("week", "week"),
    ("weekday", "dow"),
    ("weekofyear", "week"),
    ("year", "year"),
];

fn lookup<'a>(list: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    list.iter().find(|(alias, _)| *alias == name).map(|(_, here)| *here)
}

/// Renames a call to the function here, or returns the expression that replaces it.
///
/// # Errors
/// [`Error::Statement`] for arguments that only the other system's function accepts.
pub(super) fn spelt_out(call: &mut Function) -> Result<Option<Expr>> {
    let name = name_of(call);
    if let Some(expression) = templates::written_out(call)? {
        return Ok(Some(expression));
    }
    if let Some(part) = lookup(&PARTS, &name) {
        if let Some(args) = plain(call, 1) {
            args.insert(0, argument(text(part)));
            rename(call, "date_part");
        }
        return Ok(None);
    }
    if let Some(here) = lookup(&RENAMED, &name) {
        rename(call, here);
    }
    match name.as_str() {
        "listagg" | "group_concat" | "string_agg" => {
            if let FunctionArguments::List(list) = &mut call.args
                && list.args.len() == 1
            {
                list.args.push(argument(text(",")));
            }
        }
        "count_if" | "countif" => count_if(call)?,
        "mode" if !call.within_group.is_empty() => {
            let value = within(call, "mode")?;
            call.args = one_list(vec![argument(value.expr)]);
        }
        "percentile_disc" => {
            let value = within(call, "percentile_disc")?;
            if value.options.asc == Some(false) {
                return fault("percentile_disc(p) WITHIN GROUP takes an ascending order here");
            }
            let FunctionArguments::List(list) = &mut call.args else { return fault("percentile_disc takes (p)") };
            list.args.insert(0, argument(value.expr));
            rename(call, "quantile_disc");
        }
        "dayname" | "monthname" => {
            if let Some(args) = plain(call, 1) {
                args.push(argument(text(if name == "dayname" { "%A" } else { "%B" })));
                rename(call, "to_char");
            }
        }
        "percentile_cont" | "quantile_cont" => return Ok(of_each_share(call)),
        "count_star" => {
            call.args = one_list(vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
            rename(call, "count");
        }
        "struct_pack" => named_parts(call)?,
        "weighted_avg" => {
            if let Some(args) = plain(call, 2) {
                args.reverse();
                rename(call, "wavg");
            }
        }
        "if" => return choice(call),
        "time_bucket" => return Ok(bucket_of_numbers(call)),
        _ => return several(call, &name),
    }
    Ok(None)
}

/// `struct_pack(a := 1)` as `named_struct('a', 1)`.
fn named_parts(call: &mut Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut call.args else { return fault("struct_pack takes (name := value, …)") };
    let mut args = Vec::with_capacity(2 * list.args.len());
    for arg in std::mem::take(&mut list.args) {
        let (name, value) = match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name.value, value),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                (name.value, value)
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value @ Expr::Identifier(_))) => (value.to_string(), value),
            other => return fault(format!("struct_pack takes (name := value, …), and not {other}")),
        };
        args.extend([argument(text(&name.to_lowercase())), argument(value)]);
    }
    list.args = args;
    rename(call, "named_struct");
    Ok(())
}

fn rename(call: &mut Function, name: &str) {
    call.name = ObjectName::from(vec![Ident::new(name)]);
}

/// The arguments of a call, if their number is right.
fn plain(call: &mut Function, number: usize) -> Option<&mut Vec<FunctionArg>> {
    match &mut call.args {
        FunctionArguments::List(list) if list.args.len() == number => Some(&mut list.args),
        _ => None,
    }
}

fn expression(argument: FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression),
        _ => None,
    }
}

/// The key of a `WITHIN GROUP (ORDER BY …)`.
fn within(call: &mut Function, name: &str) -> Result<OrderByExpr> {
    match (call.within_group.pop(), call.within_group.is_empty()) {
        (Some(key), true) => Ok(key),
        _ => fault(format!("{name} needs WITHIN GROUP (ORDER BY x)")),
    }
}

/// `count_if(c)` as `count(*) FILTER (WHERE c)`.
fn count_if(call: &mut Function) -> Result<()> {
    let condition = plain(call, 1).and_then(Vec::pop).and_then(expression);
    let (Some(condition), None) = (condition, &call.filter) else {
        return fault("count_if takes one condition, and no FILTER");
    };
    call.filter = Some(Box::new(condition));
    call.args = one_list(vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
    rename(call, "count");
    Ok(())
}

/// The shares of `quantile_cont(x, [p, …])`.
fn shares_of(call: &Function) -> Option<&[Expr]> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(shares)))] => Some(&shares.elem),
        _ => None,
    }
}

/// `quantile_cont(x, [p, …])` as a list of `quantile_cont(x, p)`; null if there is no value.
fn of_each_share(call: &Function) -> Option<Expr> {
    let of_share = |share: &Expr| {
        let mut one = call.clone();
        if let Some([_, place]) = plain(&mut one, 2).map(Vec::as_mut_slice) {
            *place = argument(share.clone());
        }
        Expr::Function(one)
    };
    let each: Vec<Expr> = shares_of(call)?.iter().map(of_share).collect();
    let is_there = Expr::IsNotNull(Box::new(each.first()?.clone()));
    Some(case(is_there, function_calls::call("make_array", each), None))
}

fn case(condition: Expr, result: Expr, other: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: other.map(Box::new),
    }
}

/// Whether the width of a bucket is a number.
fn is_of_numbers(call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else { return false };
    let is_number = |argument: &FunctionArg| {
        matches!(
            argument,
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) if matches!(value.value, Value::Number(_, _))
        )
    };
    list.args.first().is_some_and(is_number) && matches!(list.args.len(), 2 | 3)
}

/// `time_bucket(5, x)` as `xbar(5, x)`, and with an offset `xbar(5, x - offset) + offset`.
fn bucket_of_numbers(call: &mut Function) -> Option<Expr> {
    if !is_of_numbers(call) {
        return None;
    }
    let FunctionArguments::List(list) = &mut call.args else { return None };
    let offset = if list.args.len() == 3 { list.args.pop().and_then(expression) } else { None };
    rename(call, "xbar");
    let offset = offset?;
    let with = |left: Expr, op, right: &Expr| {
        Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right.clone()) }))
    };
    let x = plain(call, 2).and_then(Vec::pop).and_then(expression)?;
    plain(call, 1)?.push(argument(with(x, BinaryOperator::Minus, &offset)));
    let bucket = std::mem::replace(call, call_of("xbar", FunctionArguments::None));
    Some(with(Expr::Function(bucket), BinaryOperator::Plus, &offset))
}

/// `if(c, x, y)` as `CASE WHEN c THEN x ELSE y END`.
fn choice(call: &mut Function) -> Result<Option<Expr>> {
    let parts: Option<Vec<Expr>> =
        plain(call, 3).and_then(|args| std::mem::take(args).into_iter().map(expression).collect());
    let Some(Ok([condition, result, other])) = parts.map(<[Expr; 3]>::try_from) else {
        return fault("if takes (condition, x, y)");
    };
    Ok(Some(case(condition, result, Some(other))))
}

/// `max(x, n)` and `arg_max(x, y, n)`: the first n of all values in their order.
fn several(call: &mut Function, name: &str) -> Result<Option<Expr>> {
    let (is_least, has_key) = match name {
        "max" => (false, false),
        "min" => (true, false),
        name if GREATEST.contains(&name) => (false, true),
        name if LEAST.contains(&name) => (true, true),
        _ => return Ok(None),
    };
    let number = if has_key { 3 } else { 2 };
    if plain(call, number).is_none() || call.over.is_some() {
        return Ok(None);
    }
    let args: Option<Vec<Expr>> =
        plain(call, number).and_then(|args| std::mem::take(args).into_iter().map(expression).collect());
    let Some(mut args) = args else { return fault(format!("{name} takes values and a number of them")) };
    let (Some(rows), Some(key)) = (args.pop(), args.pop()) else { return Ok(None) };
    let value = args.pop().unwrap_or_else(|| key.clone());
    let mut all = call_of("array_agg", one_list(vec![argument(value.clone())]));
    all.filter = Some(where_there(call.filter.take(), &value, &key));
    if let FunctionArguments::List(list) = &mut all.args {
        let options = OrderByOptions { asc: Some(is_least), nulls_first: Some(false) };
        list.clauses.push(FunctionArgumentClause::OrderBy(vec![OrderByExpr { expr: key, options, with_fill: None }]));
    }
    let one = Expr::Value(Value::Number("1".to_owned(), false).into());
    let args = vec![argument(Expr::Function(all)), argument(one), argument(rows)];
    Ok(Some(Expr::Function(call_of("array_slice", one_list(args)))))
}
