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
//! call stands for as many arguments.
//!
//! Source: <https://duckdb.org/docs/stable/sql/expressions/star>.

use arrow::array::{Array, AsArray, StringArray};
use arrow::compute::kernels::regexp::regexp_match;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, OrderBy, OrderByExpr, OrderByKind, RenameSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, Value, WildcardAdditionalOptions,
};

use super::relation::{FromColumn, Relation};
use crate::error::{Result, fault};
use crate::joins;
use crate::syntax::{STAR, UNPACKED};
use crate::walk::syntax::{any_expression, change_expressions, each_expression};

/// Columns that one select may have after its lists are written out.
const COLUMNS_MAX: usize = 20_000;

/// A column that was chosen.
#[derive(Debug, Clone, PartialEq)]
struct Chosen {
    expression: Expr,
    /// What it is called, folded.
    name: String,
    /// Its name, and the parts of it that fitted a pattern.
    parts: Vec<String>,
}

/// Whether a select names several columns at once in a way that the planner doesn't know.
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

/// Whether the planner doesn't know these options. Over joins by time it takes none.
fn is_ours(options: &WildcardAdditionalOptions, is_by_time: bool) -> bool {
    let others = options.opt_exclude.is_some() || options.opt_except.is_some() || options.opt_replace.is_some();
    options.opt_rename.is_some() || options.opt_ilike.is_some() || (is_by_time && others)
}

/// Whether an order is by several columns at once.
pub(super) fn is_in_order(order: &OrderBy) -> bool {
    matches!(&order.kind, OrderByKind::Expressions(keys) if keys.iter().any(|key| is_within(&key.expr)))
}

fn is_within(expression: &Expr) -> bool {
    any_expression(expression, |inner| matches!(inner, Expr::Function(call) if is_columns(call) || is_unpacked(call)))
}

fn name_of(call: &Function) -> String {
    call.name.to_string().to_lowercase()
}

fn is_columns(call: &Function) -> bool {
    let name = name_of(call);
    name == "columns" || name == STAR
}

fn is_unpacked(call: &Function) -> bool {
    name_of(call) == UNPACKED
}

/// Writes the columns out.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for columns that aren't there, and for several lists in one expression.
pub(super) fn expand(select: &mut Select, relation: &Relation) -> Result<()> {
    let is_by_time = select.from.iter().any(joins::is_by_time);
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if is_ours(&options, is_by_time) => {
                projection.extend(starred(relation.columns.iter().collect(), &options)?);
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_ours(&options, is_by_time) =>
            {
                projection.extend(starred(of_relation(&name, relation)?, &options)?);
            }
            SelectItem::UnnamedExpr(expr) if is_within(&expr) => {
                for (expr, chosen) in each_column(expr, relation)? {
                    projection.push(match chosen {
                        Some(chosen) => SelectItem::ExprWithAlias { expr, alias: quoted(&chosen.name) },
                        None => SelectItem::UnnamedExpr(expr),
                    });
                }
            }
            SelectItem::ExprWithAlias { expr, alias } if is_within(&expr) => {
                for (expr, chosen) in each_column(expr, relation)? {
                    let alias = match chosen {
                        Some(chosen) => quoted(&with_parts(&alias.value, &chosen.parts).to_lowercase()),
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
            let taken = std::mem::replace(condition, Expr::Identifier(Ident::new("")));
            let each = each_column(taken, relation)?.into_iter().map(|(expr, _)| Expr::Nested(Box::new(expr)));
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

/// Writes out the columns of an order.
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

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// An alias with the parts of a column's name in the places of `\0` to `\9`.
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

/// An expression for each column of its list, or by itself if its list became arguments.
fn each_column(mut expression: Expr, relation: &Relation) -> Result<Vec<(Expr, Option<Chosen>)>> {
    unpack(&mut expression, relation)?;
    let mut lists: Vec<Vec<Chosen>> = Vec::new();
    let mut error = None;
    each_expression(&expression, |inner| {
        if let Expr::Function(call) = inner
            && is_columns(call)
            && error.is_none()
        {
            match chosen(call, relation) {
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

/// The places of the columns that an expression names, if it is a call of `COLUMNS`.
///
/// # Errors
/// As [`expand`].
pub(super) fn places(expression: &Expr, relation: &Relation) -> Result<Option<Vec<usize>>> {
    let Expr::Function(call) = expression else { return Ok(None) };
    if !is_columns(call) {
        return Ok(None);
    }
    let place = |chosen: Chosen| {
        let is_it = |column: &FromColumn| column.expression() == chosen.expression;
        match relation.columns.iter().position(is_it) {
            Some(place) => Ok(place),
            None => fault(format!("a column is needed here, and not {}", chosen.expression)),
        }
    };
    chosen(call, relation)?.into_iter().map(place).collect::<Result<_>>().map(Some)
}

/// Makes arguments of each `*COLUMNS(…)`.
fn unpack(expression: &mut Expr, relation: &Relation) -> Result<()> {
    let mut error = None;
    change_expressions(expression, |inner| {
        let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = inner else { return };
        let mut args = Vec::with_capacity(list.args.len());
        for arg in std::mem::take(&mut list.args) {
            match &arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) if is_unpacked(call) => {
                    match chosen(call, relation) {
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

/// The columns that a call of `COLUMNS` names.
fn chosen(call: &Function, relation: &Relation) -> Result<Vec<Chosen>> {
    let all = || relation.columns.iter().collect::<Vec<_>>();
    let args = match &call.args {
        FunctionArguments::List(list) if list.clauses.is_empty() => list.args.as_slice(),
        _ => &[],
    };
    let args: Vec<&FunctionArgExpr> = args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(arg) => Some(arg),
            _ => None,
        })
        .collect();
    if name_of(call) == STAR
        && let [FunctionArgExpr::Expr(kind), FunctionArgExpr::Expr(pattern)] = args.as_slice()
        && let (Some(kind), Some(pattern)) = (text_of(kind), text_of(pattern))
    {
        return fitting(all(), &pattern_of(&kind, &pattern), kind.starts_with("not "), &pattern);
    }
    match args.as_slice() {
        [FunctionArgExpr::Wildcard] => plain(all(), &WildcardAdditionalOptions::default()),
        [FunctionArgExpr::WildcardWithOptions(options)] => plain(all(), options),
        [FunctionArgExpr::QualifiedWildcard(name)] => {
            plain(of_relation(name, relation)?, &WildcardAdditionalOptions::default())
        }
        [FunctionArgExpr::Expr(Expr::Array(names))] => {
            let named = names.elem.iter().map(|name| named(name, relation)).collect::<Result<Vec<_>>>()?;
            let is_named = |column: &&FromColumn| named.iter().any(|other| std::ptr::eq(*other, *column));
            Ok(relation.columns.iter().filter(is_named).map(whole).collect())
        }
        [FunctionArgExpr::Expr(expr)] => match text_of(expr) {
            Some(pattern) => fitting(all(), &pattern, false, &pattern),
            None => fault("COLUMNS takes *, a regular expression in quotes, or a list of names in quotes"),
        },
        _ => fault("COLUMNS takes *, a regular expression in quotes, or a list of names in quotes"),
    }
}

fn text_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The regular expression of a `LIKE`, which a whole name fits, or of a `SIMILAR TO`, which a part does.
fn pattern_of(kind: &str, pattern: &str) -> String {
    if kind.ends_with("similar to") {
        return pattern.to_owned();
    }
    let mut regex = String::from("^");
    for character in pattern.chars() {
        match character {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            other if other.is_alphanumeric() => regex.push(other),
            other => {
                regex.push('\\');
                regex.push(other);
            }
        }
    }
    regex.push('$');
    regex
}

fn whole(column: &FromColumn) -> Chosen {
    Chosen { expression: column.expression(), parts: vec![column.written.clone()], name: column.name.clone() }
}

fn named<'a>(name: &Expr, relation: &'a Relation) -> Result<&'a FromColumn> {
    let name = match (text_of(name), name) {
        (Some(text), _) => text,
        (None, Expr::Identifier(name)) => name.value.clone(),
        _ => return fault("COLUMNS takes a list of names in quotes"),
    };
    match relation.columns.iter().find(|column| column.name == name.to_lowercase()) {
        Some(column) => Ok(column),
        None => fault(format!("COLUMNS: there is no column {name}")),
    }
}

/// The columns whose name has a part that fits a pattern, or has none.
fn fitting(columns: Vec<&FromColumn>, regex: &str, is_not: bool, written: &str) -> Result<Vec<Chosen>> {
    let names = StringArray::from_iter_values(columns.iter().map(|column| column.written.as_str()));
    let regex = StringArray::new_scalar(regex);
    let flags = StringArray::new_scalar("i");
    let found = match regexp_match(&names, &regex, Some(&flags)) {
        Ok(found) => found,
        Err(error) => return fault(format!("COLUMNS('{written}'): {error}")),
    };
    let found = found.as_list::<i32>();
    let mut fitting = Vec::new();
    for (place, column) in columns.into_iter().enumerate() {
        if found.is_null(place) != is_not {
            continue;
        }
        let mut chosen = whole(column);
        if !is_not {
            let groups = found.value(place);
            let groups: Vec<String> =
                groups.as_string::<i32>().iter().map(|group| group.unwrap_or_default().to_owned()).collect();
            chosen.parts.extend(groups);
        }
        fitting.push(chosen);
    }
    match fitting.is_empty() {
        true => fault(format!("no column has a name that fits '{written}'")),
        false => Ok(fitting),
    }
}

fn of_relation<'a>(name: &ObjectName, relation: &'a Relation) -> Result<Vec<&'a FromColumn>> {
    let last = name.0.last().and_then(|part| part.as_ident()).map(|part| part.value.to_lowercase());
    let last = last.unwrap_or_default();
    let columns: Vec<&FromColumn> = relation.columns.iter().filter(|column| column.is_of(&last)).collect();
    match columns.is_empty() {
        true => fault(format!("FROM has no {name}, so that {name}.* has no column")),
        false => Ok(columns),
    }
}

/// `* EXCLUDE … REPLACE … RENAME …` as items.
fn starred(columns: Vec<&FromColumn>, options: &WildcardAdditionalOptions) -> Result<Vec<SelectItem>> {
    let items = plain(columns, options)?
        .into_iter()
        .map(|Chosen { expression, name, .. }| SelectItem::ExprWithAlias { expr: expression, alias: quoted(&name) });
    Ok(items.collect())
}

/// The columns that options leave, under the names that they give.
fn plain(mut columns: Vec<&FromColumn>, options: &WildcardAdditionalOptions) -> Result<Vec<Chosen>> {
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    if let Some(ilike) = &options.opt_ilike {
        let fitting = fitting(columns.clone(), &pattern_of("ilike", &ilike.pattern), false, &ilike.pattern)?;
        columns.retain(|column| fitting.iter().any(|chosen| chosen.expression == column.expression()));
        parts.extend(fitting.into_iter().map(|chosen| (chosen.name, chosen.parts)));
    }
    for name in excluded(options) {
        let before = columns.len();
        let (relation, name) = match name.as_slice() {
            [.., relation, name] => (Some(relation), name),
            [name] => (None, name),
            [] => continue,
        };
        columns.retain(|column| column.name != *name || relation.is_some_and(|relation| !column.is_of(relation)));
        if columns.len() == before {
            return fault(format!("* EXCLUDE: there is no column {name}"));
        }
    }
    let mut chosen: Vec<Chosen> = columns.iter().map(|column| whole(column)).collect();
    let place = |name: &Ident| columns.iter().position(|column| column.name == name.value.to_lowercase());
    for item in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        match place(&item.column_name) {
            Some(place) => chosen[place].expression = Expr::Nested(Box::new(item.expr.clone())),
            None => return fault(format!("* REPLACE: there is no column {}", item.column_name)),
        }
    }
    let renamed = match &options.opt_rename {
        Some(RenameSelectItem::Single(renamed)) => std::slice::from_ref(renamed),
        Some(RenameSelectItem::Multiple(renamed)) => renamed.as_slice(),
        None => &[],
    };
    for item in renamed {
        match place(&item.ident) {
            Some(place) => chosen[place].name = item.alias.value.to_lowercase(),
            None => return fault(format!("* RENAME: there is no column {}", item.ident)),
        }
    }
    Ok(chosen)
}

/// The folded names that `*` leaves out.
fn excluded(options: &WildcardAdditionalOptions) -> Vec<Vec<String>> {
    let of = |name: &ObjectName| {
        name.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.to_lowercase()).collect()
    };
    let mut names = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![of(name)],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(of).collect(),
        None => Vec::new(),
    };
    if let Some(except) = &options.opt_except {
        let all = std::iter::once(&except.first_element).chain(&except.additional_elements);
        names.extend(all.map(|name| vec![name.value.to_lowercase()]));
    }
    names
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

    #[test]
    fn patterns_of_like_are_regular_expressions() {
        assert_eq!(pattern_of("like", "a_%.b"), "^a..*\\.b$");
        assert_eq!(pattern_of("not similar to", "a|b"), "a|b");
    }
}
