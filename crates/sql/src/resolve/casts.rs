//! Casts that have a part in names: the planner leaves them out, so that `sum(x), sum(cast(x AS double))` and `GROUP BY x, cast(x AS double)` would
//! be two columns of one name. Where that is so, each cast of the select becomes a call of [`CAST`] that is named as the cast is written;
//! `coercion.rs` puts the cast in its place once names are settled.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr, Ident,
    ObjectName, OrderByExpr, Select, SelectItem, Value,
};
use splay_functions::CAST;

use crate::walk::{any_expression, change_expressions, each_expression};

/// Names the casts of a select and of its query's order, if two columns would otherwise have the same name.
pub(super) fn name_apart(select: &mut Select, order: &mut [OrderByExpr]) {
    if has_conflict(select, order) {
        // Columns keep the titles of what is written.
        select.projection.iter_mut().for_each(super::calls::name_as_written);
        each(select, order, &mut |expression| {
            change_expressions(expression, |inner| {
                if is_cast(inner) {
                    let text = inner.to_string().to_lowercase();
                    *inner = named_cast(std::mem::replace(inner, super::nothing()), text);
                }
            });
        });
    }
}

/// Whether the planner makes a cast of an expression.
fn is_cast(expression: &Expr) -> bool {
    matches!(expression, Expr::Cast { .. } | Expr::AtTimeZone { .. })
}

fn has_conflict(select: &mut Select, order: &mut [OrderByExpr]) -> bool {
    let mut has_cast = false;
    let mut texts: HashMap<String, String> = HashMap::new();
    let mut is_twice = false;
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    };
    each(select, order, &mut |expression| {
        has_cast |= any_expression(expression, is_cast);
    });
    if !has_cast {
        return false;
    }
    each(select, order, &mut |expression| {
        let mut add = |expression: &Expr| {
            let text = expression.to_string();
            is_twice |= *texts.entry(planned_name(expression)).or_insert_with(|| text.clone()) != text;
        };
        match &*expression {
            Expr::GroupingSets(keys) | Expr::Rollup(keys) | Expr::Cube(keys) => {
                keys.iter().flatten().for_each(&mut add)
            }
            expression if is_grouped => add(expression),
            _ => {}
        }
        each_expression(expression, |inner| {
            if matches!(inner, Expr::Function(_)) {
                add(inner);
            }
        });
    });
    is_twice
}

/// The name that the planner gives a column. It counts rows by a 1.
fn planned_name(expression: &Expr) -> String {
    super::name_of(expression).to_lowercase().replace("count(*)", "count(1)").replace("count()", "count(1)")
}

/// Calls `take` with the expressions that share names.
fn each(select: &mut Select, order: &mut [OrderByExpr], take: &mut dyn FnMut(&mut Expr)) {
    for column in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = column {
            take(expr);
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(&mut *take);
    }
    select.having.iter_mut().chain(&mut select.qualify).for_each(&mut *take);
    order.iter_mut().for_each(|key| take(&mut key.expr));
}

fn named_cast(cast: Expr, text: String) -> Expr {
    let argument = |expression| FunctionArg::Unnamed(FunctionArgExpr::Expr(expression));
    let args = vec![argument(cast), argument(Expr::Value(Value::SingleQuotedString(text).into()))];
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(CAST)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
