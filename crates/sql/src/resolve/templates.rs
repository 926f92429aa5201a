//! Functions of other systems, written as expressions over the functions that exist here.
//!
//! Source of each, and what differs: docs/reference/functions.md.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use splay_functions::AT_ZONE;

use crate::error::{Error, Result, fault};
use crate::function_calls::{call, name_of};
use crate::walk::change_expressions;

const EXTRACT: &str = "CASE WHEN $1 IS NULL OR $2 IS NULL THEN NULL ELSE \
                       coalesce(array_element(regexp_match($1, concat('(', $2, ')')), 1), '') END";
const EXTRACT_GROUP: &str = "CASE WHEN $1 IS NULL OR $2 IS NULL THEN NULL ELSE \
                             coalesce(array_element(regexp_match($1, concat('(', $2, ')')), $3 + 1), '') END";
const EXTRACT_FLAGS: &str = "CASE WHEN $1 IS NULL OR $2 IS NULL THEN NULL ELSE \
                             coalesce(array_element(regexp_match($1, concat('(', $2, ')'), $4), $3 + 1), '') END";

/// DuckDB's split: an empty text is one piece, an empty separator splits into characters, and a null separator doesn't split.
const SPLIT: &str = "CASE WHEN $1 IS NULL THEN NULL WHEN $1 = '' OR $2 IS NULL THEN make_array(CAST($1 AS VARCHAR)) \
                     WHEN $2 = '' THEN string_to_array($1, NULL) ELSE string_to_array($1, $2) END";

/// Names, numbers of arguments, and the expressions that replace the calls.
const TEMPLATES: [(&str, usize, &str); 56] = [
    ("add", 2, "($1 + $2)"),
    ("age", 1, "age(date_trunc('day', now()), $1)"),
    ("array_aggr", 2, ""),
    ("array_aggregate", 2, ""),
    ("array_reverse_sort", 1, "array_sort($1, 'DESC', 'NULLS LAST')"),
    ("array_sort", 1, "array_sort($1, 'ASC', 'NULLS LAST')"),
    ("array_sort", 2, "array_sort($1, $2, 'NULLS LAST')"),
    ("bin", 1, "to_binary($1)"),
    ("century", 1, "((date_part('year', $1) + 99) / 100)"),
    ("date_add", 2, "($1 + $2)"),
    ("decade", 1, "(date_part('year', $1) / 10)"),
    ("divide", 2, "($1 / $2)"),
    ("even", 1, "CASE WHEN $1 >= 0 THEN 2 * ceil($1 / 2.0) ELSE 2 * floor($1 / 2.0) END"),
    ("fdiv", 2, "floor(CAST($1 AS DOUBLE) / $2)"),
    ("fmod", 2, "(CAST($1 AS DOUBLE) - $2 * floor(CAST($1 AS DOUBLE) / $2))"),
    ("from_hex", 1, "decode($1, 'hex')"),
    ("gen_random_uuid", 0, "uuid()"),
    ("get_current_timestamp", 0, "now()"),
    ("isfinite", 1, "(abs(CAST($1 AS DOUBLE)) < CAST('Infinity' AS DOUBLE))"),
    ("isinf", 1, "(abs(CAST($1 AS DOUBLE)) = CAST('Infinity' AS DOUBLE))"),
    ("julian", 1, "(date_part('epoch', $1) / 86400 + 2440588)"),
    ("last_day", 1, "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)"),
    ("list_aggr", 2, ""),
    ("list_aggregate", 2, ""),
    ("list_dot_product", 2, "inner_product($1, $2)"),
    ("list_first", 1, "array_element($1, 1)"),
    ("list_inner_product", 2, "inner_product($1, $2)"),
    ("list_last", 1, "array_element($1, -1)"),
    ("list_min", 1, "array_min($1)"),
    ("list_reverse_sort", 1, "array_sort($1, 'DESC', 'NULLS LAST')"),
    ("list_sort", 1, "array_sort($1, 'ASC', 'NULLS LAST')"),
    ("list_sort", 2, "array_sort($1, $2, 'NULLS LAST')"),
    ("make_timestamp", 1, "CAST(to_timestamp_micros($1) AS TIMESTAMP)"),
    ("make_timestamp_ms", 1, "CAST(to_timestamp_millis($1) AS TIMESTAMP)"),
    ("make_timestamp_ns", 1, "CAST(to_timestamp_nanos($1) AS TIMESTAMP)"),
    ("map_contains", 2, "array_has(map_keys($1), $2)"),
    ("millennium", 1, "((date_part('year', $1) + 999) / 1000)"),
    ("mod", 2, "($1 % $2)"),
    ("multiply", 2, "($1 * $2)"),
    ("regexp_extract", 2, EXTRACT),
    ("regexp_extract", 3, EXTRACT_GROUP),
    ("regexp_extract", 4, EXTRACT_FLAGS),
    ("regexp_full_match", 2, "regexp_like($1, concat('^(?:', $2, ')$'))"),
    ("sem", 1, "(stddev_pop($1) / sqrt(count($1)))"),
    ("split", 2, SPLIT),
    ("str_split", 2, SPLIT),
    ("string_split", 2, SPLIT),
    ("strlen", 1, "octet_length($1)"),
    ("struct_extract", 2, "get_field($1, $2)"),
    ("subtract", 2, "($1 - $2)"),
    ("timezone", 2, "($2 AT TIME ZONE $1)"),
    ("transaction_timestamp", 0, "now()"),
    ("typeof", 1, "arrow_typeof($1)"),
    ("unhex", 1, "decode($1, 'hex')"),
    ("xor", 2, "($1 ^ $2)"),
    ("yearweek", 1, "(date_part('isoyear', $1) * 100 + date_part('week', $1))"),
];

/// Units that DataFusion's functions of times don't know, with the expressions for `date_part` and for `date_trunc`.
const LARGE_UNITS: [(&str, &str, &str); 3] = [
    (
        "century",
        "((date_part('year', $2) + 99) / 100)",
        "(date_trunc('year', $2) - to_years(date_part('year', $2) % 100))",
    ),
    ("decade", "(date_part('year', $2) / 10)", "(date_trunc('year', $2) - to_years(date_part('year', $2) % 10))"),
    (
        "millennium",
        "((date_part('year', $2) + 999) / 1000)",
        "(date_trunc('year', $2) - to_years(date_part('year', $2) % 1000))",
    ),
];

/// Aggregates of lists by name, for `list_aggregate`.
const OF_LISTS: [(&str, &str); 8] = [
    ("avg", "array_avg($1)"),
    ("first", "array_element($1, 1)"),
    ("last", "array_element($1, -1)"),
    ("max", "array_max($1)"),
    ("mean", "array_avg($1)"),
    ("min", "array_min($1)"),
    ("product", "array_product($1)"),
    ("sum", "array_sum($1)"),
];

fn of_large_unit(call: &Function) -> Option<&'static str> {
    let is_trunc = match name_of(call).as_str() {
        "date_part" | "datepart" => false,
        "date_trunc" | "datetrunc" => true,
        _ => return None,
    };
    let arguments = arguments(call)?;
    let [Expr::Value(unit), _] = arguments.as_slice() else { return None };
    let Value::SingleQuotedString(unit) = &unit.value else { return None };
    let (_, part, start) = large_unit(unit)?;
    Some(if is_trunc { start } else { part })
}

fn large_unit(unit: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let unit = unit.to_lowercase();
    LARGE_UNITS.iter().find(|(name, _, _)| *name == unit)
}

/// Rewrites `EXTRACT(DECADE FROM x)` and other large units.
///
/// # Errors
/// [`Error::Internal`] if a template can't be parsed.
pub(super) fn rewrite_extract(expression: &mut Expr) -> Result<()> {
    let Expr::Extract { field, expr, .. } = expression else { return Ok(()) };
    if let Some((_, part, _)) = large_unit(&field.to_string()) {
        let value = std::mem::replace(expr.as_mut(), super::nothing());
        *expression = fill_template(part, &[&super::nothing(), &value])?;
    }
    Ok(())
}

fn arguments(call: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_plain = call.over.is_none() && call.filter.is_none() && list.clauses.is_empty();
    let plain = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    plain.collect::<Option<Vec<&Expr>>>().filter(|_| is_plain)
}

fn template_of(call: &Function) -> Option<&'static str> {
    let name = name_of(call);
    let number = arguments(call)?.len();
    TEMPLATES.iter().find(|(function, args, _)| *function == name && *args == number).map(|(_, _, template)| *template)
}

/// The expression that replaces a call.
///
/// # Errors
/// [`Error::Statement`] for an unknown aggregate of lists.
pub(super) fn written_out(call: &Function) -> Result<Option<Expr>> {
    let template = template_of(call).or_else(|| of_large_unit(call));
    let (Some(template), Some(args)) = (template, arguments(call)) else { return Ok(None) };
    let template = if template.is_empty() { of_list(call, &args)? } else { template };
    fill_template(template, &args).map(Some)
}

/// `AT TIME ZONE $1` as a call, since the planner takes a literal alone.
pub(super) fn complete_zone(expression: &mut Expr) {
    if let Expr::AtTimeZone { timestamp, time_zone } = expression
        && let Expr::Value(value) = time_zone.as_ref()
        && matches!(value.value, Value::Placeholder(_))
    {
        let take = |expression: &mut Expr| std::mem::replace(expression, super::nothing());
        *expression = call(AT_ZONE, vec![take(timestamp), take(time_zone)]);
    }
}

/// Fills the parameters of a template with arguments.
pub(super) fn fill_template(template: &str, args: &[&Expr]) -> Result<Expr> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(template).and_then(|mut parser| parser.parse_expr());
    let mut expression = parsed.map_err(|error| Error::Internal { message: error.to_string() })?;
    change_expressions(&mut expression, |inner| {
        if let Expr::Value(value) = &*inner
            && let Value::Placeholder(name) = &value.value
            && let Some(arg) = name[1..].parse::<usize>().ok().and_then(|number| args.get(number - 1))
        {
            // The zone of AT TIME ZONE has no brackets.
            *inner = match arg {
                Expr::Value(_) => (*arg).clone(),
                other => Expr::Nested(Box::new((*other).clone())),
            };
        }
    });
    change_expressions(&mut expression, complete_zone);
    Ok(expression)
}

fn of_list(call: &Function, args: &[&Expr]) -> Result<&'static str> {
    let name = match args.get(1) {
        Some(Expr::Value(value)) => match &value.value {
            Value::SingleQuotedString(name) => name.to_lowercase(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    match OF_LISTS.iter().find(|(function, _)| *function == name) {
        Some((_, template)) => Ok(template),
        None => fault(format!(
            "{} takes a list and one of 'avg', 'first', 'last', 'max', 'min', 'product' and 'sum'",
            name_of(call)
        )),
    }
}

/// Operators of other systems: `//` becomes `/`, which divides whole numbers to whole ones, and `a ^@ b` becomes `starts_with(a, b)`.
pub(super) fn other_operator(expression: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expression else { return };
    match op {
        BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide => *op = BinaryOperator::Divide,
        BinaryOperator::PGStartsWith => {
            let args = [left, right].map(|side| std::mem::replace(side.as_mut(), super::nothing()));
            *expression = call("starts_with", args.into());
        }
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_expressions_over_their_arguments() {
        for (name, number, template) in TEMPLATES {
            if template.is_empty() {
                continue;
            }
            let parsed = Parser::new(&GenericDialect {}).try_with_sql(template).and_then(|mut it| it.parse_expr());
            assert!(parsed.is_ok(), "{name}: {parsed:?}");
            let others = (number + 1..10).any(|place| template.contains(&format!("${place}")));
            assert!(!others, "{name} has {number} arguments: {template}");
        }
        for template in LARGE_UNITS.iter().flat_map(|(_, part, start)| [part, start]) {
            assert!(
                fill_template(template, &[&super::super::nothing(), &super::super::nothing()]).is_ok(),
                "{template}"
            );
        }
    }
}
