//! `unnest` in `FROM`, in the form that the planner takes, with the names of PostgreSQL.
//!
//! | Form | Becomes |
//! | --- | --- |
//! | `LATERAL unnest(x) AS u(v)` | `UNNEST(x) AS u(v)`, which can read columns of earlier relations anyway |
//! | `unnest(x) AS u` | `UNNEST(x) AS u(u)` |
//! | `unnest(x)` | `UNNEST(x) AS unnest(unnest)` |
//! | `unnest(x) WITH ORDINALITY AS u(v, n)` | `UNNEST(x, generate_series(1, …)) AS u(v, n)` |
//! | `unnest([t.a, t.b])` | `UNNEST(make_array(t.a, t.b))` |
//! | `t, generate_series(1, t.n) AS g(i)` | `t, UNNEST(generate_series(1, t.n)) AS g(i)` |

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Select, TableAlias, TableAliasColumnDef, TableFactor,
    TableWithJoins,
};

use super::templates;
use crate::error::Result;
use crate::function_calls::{call, is_unnest};
use crate::walk::{any_expression, change_expressions};

/// Table functions whose arguments may be columns.
const SERIES: [&str; 2] = ["generate_series", "range"];

/// Completes the relations of a select.
pub(super) fn complete(select: &mut Select) -> Result<()> {
    select.from.iter_mut().try_for_each(complete_from)
}

fn complete_from(from: &mut TableWithJoins) -> Result<()> {
    for relation in std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation)) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
            complete_from(table_with_joins)?;
        }
        if let Some(lists) = as_unnest(relation) {
            *relation = lists;
        }
        if let TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } = relation
            && !array_exprs.iter().any(is_structure)
        {
            array_exprs.iter_mut().for_each(call_lists);
            name(alias, array_exprs.len(), *with_ordinality);
            if std::mem::take(with_ordinality) {
                array_exprs.push(numbers(array_exprs)?);
            }
        }
    }
    Ok(())
}

/// Writes list literals of columns, `[t.a, t.b]`, as calls: the planner looks for the columns of a literal only in the relation itself.
fn call_lists(argument: &mut Expr) {
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    change_expressions(argument, |inner| {
        if let Expr::Array(list) = inner
            && list.elem.iter().any(|item| any_expression(item, is_column))
        {
            *inner = call("make_array", std::mem::take(&mut list.elem));
        }
    });
}

/// A function in `FROM` as `UNNEST`.
fn as_unnest(relation: &mut TableFactor) -> Option<TableFactor> {
    let unnest = |array_exprs, with_ordinality, alias: &mut Option<TableAlias>| TableFactor::UNNEST {
        alias: alias.take(),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
    match relation {
        TableFactor::Function { name, args, with_ordinality, alias, .. } if is_unnest(name) => {
            Some(unnest(plain(args)?, *with_ordinality, alias))
        }
        TableFactor::Function { lateral: true, name, args, with_ordinality: false, alias } if is_series(name) => {
            Some(unnest(vec![series(name, args, alias)?], false, alias))
        }
        TableFactor::Table { name, args: Some(args), alias, .. }
            if is_series(name) && args.settings.is_none() && reads_columns(&args.args) =>
        {
            Some(unnest(vec![series(name, &args.args, alias)?], false, alias))
        }
        _ => None,
    }
}

fn is_series(name: &ObjectName) -> bool {
    let name = name.to_string();
    SERIES.iter().any(|series| name.eq_ignore_ascii_case(series))
}

fn plain(args: &[FunctionArg]) -> Option<Vec<Expr>> {
    let expressions = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    expressions.collect()
}

fn reads_columns(args: &[FunctionArg]) -> bool {
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    plain(args).is_some_and(|args| args.iter().any(|arg| any_expression(arg, is_column)))
}

/// The call that returns the same rows as a list. Without an alias the relation has the name of the function.
fn series(name: &ObjectName, args: &[FunctionArg], alias: &mut Option<TableAlias>) -> Option<Expr> {
    let name = name.to_string().to_lowercase();
    let series = call(&name, plain(args)?);
    alias.get_or_insert_with(|| table_alias(name));
    Some(series)
}

fn table_alias(name: String) -> TableAlias {
    TableAlias { explicit: true, name: Ident::new(name), columns: Vec::new(), at: None }
}

/// Whether an argument is a structure, each field of which becomes a column.
fn is_structure(argument: &Expr) -> bool {
    match argument {
        Expr::Struct { .. } | Expr::Dictionary(_) => true,
        Expr::Function(call) => {
            let name = call.name.to_string();
            ["struct", "named_struct", "row", "struct_pack"]
                .iter()
                .any(|constructor| name.eq_ignore_ascii_case(constructor))
        }
        _ => false,
    }
}

/// Names the columns that the alias leaves unnamed.
fn name(alias: &mut Option<TableAlias>, lists: usize, has_numbers: bool) {
    let first = match alias {
        Some(alias) if lists == 1 => alias.name.clone(),
        _ => Ident::new("unnest"),
    };
    let alias = alias.get_or_insert_with(|| table_alias("unnest".to_owned()));
    for place in alias.columns.len()..lists + usize::from(has_numbers) {
        let name = match place {
            place if place == lists => Ident::new("ordinality"),
            0 => first.clone(),
            place => Ident::new(format!("unnest_{place}")),
        };
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
}

/// The numbers of the items of the longest list, from 1.
fn numbers(lists: &[Expr]) -> Result<Expr> {
    let lengths =
        lists.iter().map(|list| templates::fill_template("coalesce(CAST(array_length($1) AS BIGINT), 0)", &[list]));
    let lengths = lengths.collect::<Result<Vec<Expr>>>()?;
    templates::fill_template("generate_series(1, $1)", &[&call("greatest", lengths)])
}
