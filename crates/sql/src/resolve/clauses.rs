//! Rewrites clauses of queries into a spelling that DataFusion's planner accepts.

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, JoinOperator, LimitClause, OrderByExpr, OrderByKind, OrderByOptions,
    Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
};

use crate::function_calls::is_aggregate;
use crate::joins::is_by_time;
use crate::names::UNNAMED;
use crate::walk::any_expression;

/// Completes what surrounds a select: `FETCH FIRST n ROWS ONLY` is `LIMIT n`, and `ORDER BY ALL` the order by every column.
pub(super) fn complete_query(query: &mut Query) {
    take_fetch(query);
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &order.kind
        && let [OrderByExpr { expr: Expr::Identifier(name), options, .. }] = keys.as_slice()
        && name.quote_style.is_none()
        && name.value.eq_ignore_ascii_case("all")
    {
        let columns = &select.projection;
        let is_plain =
            |column: &SelectItem| matches!(column, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
        // The planner knows all columns if they are plain; otherwise the order is written by number.
        order.kind = match columns.iter().all(is_plain) {
            true => OrderByKind::Expressions((1..=columns.len()).map(|place| by_place(place, *options)).collect()),
            false => OrderByKind::All(*options),
        };
    }
}

fn by_place(place: usize, options: OrderByOptions) -> OrderByExpr {
    OrderByExpr { expr: Expr::Value(Value::Number(place.to_string(), false).into()), options, with_fill: None }
}

/// `unsupported.rs` has refused a `FETCH` beside a `LIMIT`, of a share of the rows, and with ties.
fn take_fetch(query: &mut Query) {
    let Some(fetch) = query.fetch.take() else { return };
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    let rows = Some(fetch.quantity.unwrap_or_else(one));
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) => *limit = rows,
        Some(LimitClause::OffsetCommaLimit { .. }) => {}
        none => *none = Some(LimitClause::LimitOffset { limit: rows, offset: None, limit_by: Vec::new() }),
    }
}

/// `SEMI JOIN` and `ANTI JOIN` are `LEFT SEMI JOIN` and `LEFT ANTI JOIN`.
pub(super) fn complete_joins(select: &mut Select) {
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        match std::mem::replace(&mut join.join_operator, JoinOperator::CrossApply) {
            JoinOperator::Semi(constraint) => join.join_operator = JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => join.join_operator = JoinOperator::LeftAnti(constraint),
            other => join.join_operator = other,
        }
    }
}

/// `GROUP BY ()` forms one group of all rows.
pub(super) fn complete_group(select: &mut Select, state: &SessionState) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    if !matches!(keys.as_slice(), [Expr::Tuple(none)] if none.is_empty()) {
        return;
    }
    let aggregates = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => any_expression(
            expr,
            |inner| matches!(inner, Expr::Function(call) if call.over.is_none() && is_aggregate(call, state)),
        ),
        _ => false,
    };
    *keys = match select.projection.iter().any(aggregates) {
        true => Vec::new(),
        false => vec![Expr::GroupingSets(vec![Vec::new()])],
    };
}

/// Names a query in `FROM` that has none, where another relation beside it has the name of one that it reads: the planner takes the columns of both
/// for one relation's.
pub(super) fn name_relations(select: &mut Select) {
    // The relations of joins by time are already resolved.
    if select.from.iter().any(is_by_time) {
        return;
    }
    let mut names: Vec<String> = relations(&mut select.from).flat_map(|relation| visible(relation)).collect();
    names.sort();
    let is_twice = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    for (number, relation) in relations(&mut select.from).enumerate() {
        let is_hidden = visible(relation).iter().any(is_twice);
        if let TableFactor::Derived { alias: alias @ None, .. } = relation
            && is_hidden
        {
            let name = Ident::new(format!("{UNNAMED}{number}"));
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
    }
}

fn relations(from: &mut [TableWithJoins]) -> impl Iterator<Item = &mut TableFactor> {
    from.iter_mut().flat_map(|from| {
        std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation))
    })
}

/// The relation names by which columns can be qualified: for a query without a name, those of the relations that it reads.
fn visible(relation: &TableFactor) -> Vec<String> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            vec![alias.name.value.to_lowercase()]
        }
        TableFactor::Table { name, .. } => {
            name.0.last().map(|part| part.to_string().to_lowercase()).into_iter().collect()
        }
        TableFactor::Derived { subquery, .. } => match subquery.body.as_ref() {
            SetExpr::Select(select) => select
                .from
                .iter()
                .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
                .flat_map(visible)
                .collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// A `QUALIFY` that reads no window, beside a select list that does, also says that one of these is null or not, which the planner looks for.
pub(super) fn complete_qualify(select: &mut Select) {
    let Some(condition) = &mut select.qualify else { return };
    if window_in(condition).is_some() {
        return;
    }
    let of_items = select.projection.iter().find_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => window_in(expr),
        _ => None,
    });
    let Some(window) = of_items else { return };
    let both = |left: Expr, op, right: Expr| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(left))),
        op,
        right: Box::new(Expr::Nested(Box::new(right))),
    };
    let is_null = Expr::IsNull(Box::new(window.clone()));
    let always = both(is_null, BinaryOperator::Or, Expr::IsNotNull(Box::new(window)));
    let original = std::mem::replace(condition, super::nothing());
    *condition = both(original, BinaryOperator::And, always);
}

/// The first window function within an expression.
fn window_in(expression: &Expr) -> Option<Expr> {
    let mut window_call = None;
    any_expression(expression, |inner| {
        let is_window = matches!(inner, Expr::Function(call) if call.over.is_some());
        if is_window {
            window_call = Some(inner.clone());
        }
        is_window
    });
    window_call
}
