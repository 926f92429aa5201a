//! Several columns at once, as in DuckDB.
//!
//! | Written | Columns |
//! | --- | --- |
//! | `COLUMNS('regex')` | those with a part of their name that fits, without regard to case |
//! | `COLUMNS(*)`, `COLUMNS(t.*)`, `COLUMNS(* EXCLUDE (a))` | all, of a relation, without some |
//! | `COLUMNS(['a', 'b'])` | these, in the order of `*` |
//! | `* RENAME (a AS b)`, `* LIKE 'p%'`, `* ILIKE`, `* SIMILAR TO` | all, with other names, or those whose name fits |
//!
//! An item of a select list with `COLUMNS` becomes one for each column, named as the column is unless there is an alias, in which `\0` to `\9` are
//! the parts of the name that fitted. In `WHERE` and `QUALIFY` the condition holds of all columns. `*COLUMNS(…)` among the arguments of a
//! call gives one argument per column.
//!
//! Source: <https://duckdb.org/docs/stable/sql/expressions/star>.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, OrderBy, OrderByExpr,
    OrderByKind, Select, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};

use super::column_selection::{SelectedColumn, of_relation, plain, selected_columns};

use super::relation::{FromColumn, Relation};
use crate::error::{Result, fault};
use crate::function_calls::{is_columns, is_list_of_columns, is_unpacked};
use crate::joins;
use crate::walk::{any_expression, change_expressions, each_expression};

/// Most columns of a select after expansion.
const COLUMNS_MAX: usize = 20_000;

/// Whether a select names several columns at once in a form that the planner doesn't know.
pub(super) fn is_in_select(select: &Select) -> bool {
    let is_by_time = select.from.iter().any(joins::is_by_time);
    let in_list = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_within(expr),
        SelectItem::Wildcard(options) => is_ours(options, is_by_time),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), options) => {
            is_ours(options, is_by_time)
        }
        _ => false,
    });
    in_list || select.selection.iter().chain(&select.having).chain(&select.qualify).any(is_within)
}

/// Whether the planner doesn't know these options. Over joins by time it knows none.
fn is_ours(options: &WildcardAdditionalOptions, is_by_time: bool) -> bool {
    let others = options.opt_exclude.is_some() || options.opt_except.is_some() || options.opt_replace.is_some();
    options.opt_rename.is_some() || options.opt_ilike.is_some() || (is_by_time && others)
}

/// Whether an order names several columns at once.
pub(super) fn is_in_order(order: &OrderBy) -> bool {
    matches!(&order.kind, OrderByKind::Expressions(keys) if keys.iter().any(|key| is_within(&key.expr)))
}

fn is_within(expression: &Expr) -> bool {
    any_expression(expression, |inner| matches!(inner, Expr::Function(call) if is_list_of_columns(call)))
}

/// Replaces each `*` by the columns of a relation.
///
/// # Errors
/// As [`expand`].
pub(super) fn write_out(select: &mut Select, relation: &Relation) -> Result<()> {
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) => {
                projection.extend(star_items(relation.columns.iter().collect(), &options)?)
            }
            other => projection.push(other),
        }
    }
    select.projection = projection;
    Ok(())
}

/// Replaces lists of columns by the columns.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for unknown columns, and for several lists in one expression.
pub(super) fn expand(select: &mut Select, relation: &Relation) -> Result<()> {
    let is_by_time = select.from.iter().any(joins::is_by_time);
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if is_ours(&options, is_by_time) => {
                projection.extend(star_items(relation.columns.iter().collect(), &options)?);
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_ours(&options, is_by_time) =>
            {
                projection.extend(star_items(of_relation(&name, relation)?, &options)?);
            }
            SelectItem::UnnamedExpr(expr) if is_within(&expr) => {
                for (expr, chosen) in each_column(expr, relation)? {
                    projection.push(match chosen {
                        Some(chosen) => SelectItem::ExprWithAlias { expr, alias: quoted_ident(&chosen.name) },
                        None => SelectItem::UnnamedExpr(expr),
                    });
                }
            }
            SelectItem::ExprWithAlias { expr, alias } if is_within(&expr) => {
                for (expr, chosen) in each_column(expr, relation)? {
                    let alias = match chosen {
                        Some(chosen) => quoted_ident(&with_parts(&alias.value, &chosen.parts).to_lowercase()),
                        None => alias.clone(),
                    };
                    projection.push(SelectItem::ExprWithAlias { expr, alias });
                }
            }
            other => projection.push(other),
        }
        if projection.len() > COLUMNS_MAX {
            return fault(format!("the statement is too large: it may have at most {COLUMNS_MAX} columns"));
        }
    }
    select.projection = projection;
    for condition in select.selection.iter_mut().chain(&mut select.having).chain(&mut select.qualify) {
        if is_within(condition) {
            let original = std::mem::replace(condition, Expr::Identifier(Ident::new("")));
            let each = each_column(original, relation)?.into_iter().map(|(expr, _)| Expr::Nested(Box::new(expr)));
            let all = each.reduce(|left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: BinaryOperator::And,
                right: Box::new(right),
            });
            if let Some(all) = all {
                *condition = all;
            }
        }
    }
    Ok(())
}

/// Replaces lists of columns in an order.
///
/// # Errors
/// As [`expand`].
pub(super) fn expand_order(order: &mut OrderBy, relation: &Relation) -> Result<()> {
    let OrderByKind::Expressions(keys) = &mut order.kind else { return Ok(()) };
    let mut written = Vec::with_capacity(keys.len());
    for key in std::mem::take(keys) {
        if is_within(&key.expr) {
            let each = each_column(key.expr.clone(), relation)?.into_iter();
            written.extend(each.map(|(expr, _)| OrderByExpr { expr, ..key.clone() }));
        } else {
            written.push(key);
        }
    }
    *keys = written;
    Ok(())
}

fn quoted_ident(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// An alias with the parts of a column's name in place of `\0` to `\9`.
fn with_parts(alias: &str, parts: &[String]) -> String {
    let mut written = String::with_capacity(alias.len());
    let mut rest = alias.chars();
    while let Some(character) = rest.next() {
        let mut ahead = rest.clone();
        match ahead.next().and_then(|digit| digit.to_digit(10)) {
            Some(digit) if character == '\\' => {
                written.push_str(parts.get(digit as usize).map_or("", String::as_str));
                rest = ahead;
            }
            _ => written.push(character),
        }
    }
    written
}

/// One expression for each column of its list; the expression itself if its list became arguments.
fn each_column(mut expression: Expr, relation: &Relation) -> Result<Vec<(Expr, Option<SelectedColumn>)>> {
    unpack(&mut expression, relation)?;
    let mut lists: Vec<Vec<SelectedColumn>> = Vec::new();
    let mut error = None;
    each_expression(&expression, |inner| {
        if let Expr::Function(call) = inner
            && is_columns(call)
            && error.is_none()
        {
            match selected_columns(call, relation) {
                Ok(list) => lists.push(list),
                Err(wrong) => error = Some(wrong),
            }
        }
    });
    if let Some(error) = error {
        return Err(error);
    }
    let Some(list) = lists.pop() else { return Ok(vec![(expression, None)]) };
    if lists.iter().any(|other| *other != list) {
        return fault("an expression takes one list of COLUMNS: two in one must be the same");
    }
    let each = list.into_iter().map(|chosen| {
        let mut of_column = expression.clone();
        change_expressions(&mut of_column, |inner| {
            if matches!(inner, Expr::Function(call) if is_columns(call)) {
                *inner = chosen.expression.clone();
            }
        });
        (of_column, Some(chosen))
    });
    Ok(each.collect())
}

/// The positions of the columns that a call of `COLUMNS` selects; `None` for other expressions.
///
/// # Errors
/// As [`expand`].
pub(super) fn places(expression: &Expr, relation: &Relation) -> Result<Option<Vec<usize>>> {
    let Expr::Function(call) = expression else { return Ok(None) };
    if !is_columns(call) {
        return Ok(None);
    }
    let place = |chosen: SelectedColumn| {
        let is_it = |column: &FromColumn| column.expression() == chosen.expression;
        match relation.columns.iter().position(is_it) {
            Some(place) => Ok(place),
            None => fault(format!("a column is needed here, and not {}", chosen.expression)),
        }
    };
    selected_columns(call, relation)?.into_iter().map(place).collect::<Result<_>>().map(Some)
}

/// Replaces each `*COLUMNS(…)` by arguments.
fn unpack(expression: &mut Expr, relation: &Relation) -> Result<()> {
    let mut error = None;
    change_expressions(expression, |inner| {
        let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = inner else { return };
        let mut args = Vec::with_capacity(list.args.len());
        for arg in std::mem::take(&mut list.args) {
            match &arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) if is_unpacked(call) => {
                    match selected_columns(call, relation) {
                        Ok(columns) => args.extend(
                            columns
                                .into_iter()
                                .map(|chosen| FunctionArg::Unnamed(FunctionArgExpr::Expr(chosen.expression))),
                        ),
                        Err(wrong) => error = Some(wrong),
                    }
                }
                _ => args.push(arg),
            }
        }
        list.args = args;
    });
    error.map_or(Ok(()), Err)
}

/// `* EXCLUDE … REPLACE … RENAME …` as items.
fn star_items(columns: Vec<&FromColumn>, options: &WildcardAdditionalOptions) -> Result<Vec<SelectItem>> {
    let items = plain(columns, options)?.into_iter().map(|SelectedColumn { expression, name, .. }| {
        SelectItem::ExprWithAlias { expr: expression, alias: quoted_ident(&name) }
    });
    Ok(items.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_names_stand_in_aliases() {
        let parts = ["price".to_owned(), "ri".to_owned()];
        assert_eq!(with_parts("x_\\1_\\0\\7\\", &parts), "x_ri_price\\");
        assert_eq!(with_parts("plain", &parts), "plain");
    }
}
