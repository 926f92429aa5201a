//! Calls of PostgreSQL's functions as expressions over others, in statements about the catalogue alone.
//!
//! | Call | Becomes |
//! | --- | --- |
//! | `pg_get_viewdef(x)` | `(SELECT definition FROM pg_views WHERE to_regclass(quote_ident(viewname)) = x)`, in other statements, too |
//! | `age(x)` of one argument | 0: transactions have no numbers |
//! | `format('%I.%s', x, y)` | `concat(quote_ident(x), '.', y)` |
//! | `quote_literal(x)` | `concat('''', replace(x, '''', repeat('''', 2)), '''')`: two quotes of a text are written as they stand |
//! | `generate_subscripts(x, 1)` | `unnest(generate_series(1, cardinality(x)))` |

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart};
use datafusion::sql::sqlparser::parser::Parser;

use super::oid_of_class;
use super::rewrite::literal;
use crate::dialect::BoundedDialect;

pub(super) const VIEW_DEFINITION: &str = "pg_get_viewdef";

/// The name of a call in lower case, without its schema, and its arguments.
fn parts(expr: &Expr) -> Option<(String, Vec<&Expr>)> {
    let Expr::Function(function) = expr else { return None };
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident)?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    Some((name.value.to_ascii_lowercase(), args.collect::<Option<_>>()?))
}

fn parse_expr(text: &str) -> Option<Expr> {
    let dialect = BoundedDialect::of_postgres(text);
    let parser = Parser::new(&dialect).with_recursion_limit(super::rewrite::DEPTH_MAX).try_with_sql(text);
    parser.and_then(|mut parser| parser.parse_expr()).ok()
}

/// Whether an expression reads the definition of a view.
pub(super) fn is_view_definition(expr: &Expr) -> bool {
    parts(expr).is_some_and(|(name, args)| name == VIEW_DEFINITION && !args.is_empty())
}

/// The definition of a view by its number, or by its name.
pub(super) fn view_definition(expr: &Expr) -> Option<Expr> {
    let (_, args) = parts(expr)?;
    let view = match literal(args.first()?) {
        Some(name) => oid_of_class(name).to_string(),
        None => args.first()?.to_string(),
    };
    parse_expr(&format!(
        "(SELECT __views.definition FROM pg_catalog.pg_views AS __views WHERE to_regclass(quote_ident(__views.viewname)) = {view})"
    ))
}

/// The expression that replaces a call in a statement about the catalogue alone.
pub(super) fn of_catalogue(expr: &Expr) -> Option<Expr> {
    let (name, args) = parts(expr)?;
    match (name.as_str(), args.as_slice()) {
        ("age", [_]) => parse_expr("0"),
        ("format", [template, values @ ..]) => rewrite_format(literal(template)?, values),
        ("quote_literal", [value]) => parse_expr(&literal_of(value)),
        ("generate_subscripts", [list, _]) => {
            parse_expr(&format!("unnest(generate_series(1, CAST(cardinality({list}) AS BIGINT)))"))
        }
        _ => None,
    }
}

fn literal_of(value: &Expr) -> String {
    format!("concat('''', replace(CAST({value} AS VARCHAR), '''', repeat('''', 2)), '''')")
}

/// A text with the values in the place of `%s`, of `%I` as names, and of `%L` as literals.
fn rewrite_format(template: &str, values: &[&Expr]) -> Option<Expr> {
    let mut values = values.iter();
    let mut pieces = template.split('%');
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut parts = vec![quoted(pieces.next()?)];
    while let Some(piece) = pieces.next() {
        let (kind, rest) = match piece.chars().next() {
            Some(kind) => piece.split_at(kind.len_utf8()),
            // `%%`
            None => {
                parts.push(quoted(&format!("%{}", pieces.next()?)));
                continue;
            }
        };
        let value = values.next()?;
        parts.push(match kind {
            "s" => format!("CAST({value} AS VARCHAR)"),
            "I" => format!("quote_ident(CAST({value} AS VARCHAR))"),
            "L" => literal_of(value),
            _ => return None,
        });
        parts.push(quoted(rest));
    }
    parse_expr(&format!("concat({})", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_become_expressions() {
        for (call, expected) in [
            (
                "format('%I.%I', a, b)",
                "concat('', quote_ident(CAST(a AS VARCHAR)), '.', quote_ident(CAST(b AS VARCHAR)), '')",
            ),
            ("pg_catalog.format('50%% %s', a)", "concat('50', '% ', CAST(a AS VARCHAR), '')"),
            ("age(x)", "0"),
            ("quote_literal(a)", "concat('''', replace(CAST(a AS VARCHAR), '''', repeat('''', 2)), '''')"),
            ("generate_subscripts(k, 1)", "unnest(generate_series(1, CAST(cardinality(k) AS BIGINT)))"),
        ] {
            let written = parse_expr(call).and_then(|call| of_catalogue(&call)).map(|expr| expr.to_string());
            assert_eq!(written.as_deref(), Some(expected), "{call}");
        }
        for call in ["format('%s')", "format(a, b)", "format('%d', a)", "age(a, b)", "lower(a)"] {
            assert_eq!(parse_expr(call).and_then(|call| of_catalogue(&call)), None, "{call}");
        }
    }
}
