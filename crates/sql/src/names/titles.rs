//! Titles of expressions that have no alias.
//!
//! An expression is titled by its text, in lower case but for texts in quotes: `sum(x * 2)`, `time_bucket(interval '1 minute', time)`. DataFusion 55.2
//! would title it by its plan, `sum(x * Int64(2))`. A column, and a cast of a column, have the column's name. `ARRAY(SELECT …)` is `array`, as in
//! PostgreSQL.

use datafusion::sql::sqlparser::ast::{Expr, Function, Ident};

use crate::function_calls::{is_array_query, is_list_of_columns, is_unnest};
use crate::walk::any_expression;

/// The quote of titles.
const QUOTE: char = '`';

/// Longest title, in bytes. A longer expression keeps DataFusion's, as does one with the quote of titles.
const TITLE_BYTES_MAX: usize = 1024;

/// The title of an expression; `None` for one that has a name, or stands for several columns.
pub(crate) fn title(expression: &Expr) -> Option<String> {
    if has_name(expression) || any_expression(expression, makes_columns) {
        return None;
    }
    if matches!(expression, Expr::Function(call) if is_array_query(call)) {
        return Some("array".to_owned());
    }
    let written = expression.to_string();
    (written.len() <= TITLE_BYTES_MAX && !written.contains(QUOTE)).then(|| in_lower_case(&written))
}

/// The alias that is a title: in other quotes than a statement's own aliases.
pub(crate) fn titled(title: String) -> Ident {
    Ident::with_quote(QUOTE, title)
}

/// Whether an alias is a title.
pub(crate) fn is_title(alias: &Ident) -> bool {
    alias.quote_style == Some(QUOTE)
}

fn has_name(expression: &Expr) -> bool {
    match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => true,
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } | Expr::AtTimeZone { timestamp: inner, .. } => {
            has_name(inner)
        }
        _ => false,
    }
}

fn makes_columns(expression: &Expr) -> bool {
    let is_of_columns = |call: &Function| is_unnest(&call.name) || is_list_of_columns(call);
    matches!(expression, Expr::Function(call) if is_of_columns(call))
}

/// The text in lower case, without what is between single quotes.
fn in_lower_case(written: &str) -> String {
    let parts = written.split('\'').enumerate();
    let cased = parts.map(|(number, part)| if number % 2 == 0 { part.to_lowercase() } else { part.to_owned() });
    cased.collect::<Vec<_>>().join("'")
}
