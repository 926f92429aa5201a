//! `FROM … PIVOT (agg(x) FOR key IN ('a', 'b' AS name) [DEFAULT ON NULL (value)])`: values of one key become columns.
//!
//! Planned as an aggregate with one filter per value: rows are grouped by every column of the source that neither the
//! aggregates nor the key use, and `agg(x) FILTER (WHERE key = 'a')` is the column `a`.
//!
//! - A column is called as its value reads, folded like all names, or by its alias; with several aggregates `value_aggregate`.
//! - A value that no row has gives a column of nulls, or of the default.
//! - The values are written out: columns must be known before rows are read. `ANY` and sub-queries are refused.
//!
//! Source: the `PIVOT` of Snowflake and BigQuery.

use datafusion::common::{Column, DFSchema, Result, ScalarValue, not_impl_err, plan_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias, PivotValueSource, TableFactor};

/// Plans `PIVOT`.
#[derive(Debug)]
pub(crate) struct PivotPlanner;

impl RelationPlanner for PivotPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Pivot { table, aggregate_functions, value_column, value_source, default_on_null, alias } =
            relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let input = context.plan(*table)?;
        let PivotValueSource::List(values) = value_source else {
            return not_impl_err!("PIVOT takes its values as a list, as in FOR key IN ('a', 'b')");
        };
        let key = pivot_key(value_column, input.schema(), context)?;
        let default = default_on_null.map(|value| context.sql_to_expr(value, &DFSchema::empty())).transpose()?;
        let mut aggregates = Vec::new();
        for call in aggregate_functions {
            aggregates.push(pivot_aggregate(call, input.schema(), context)?);
        }
        let mut columns = Vec::new();
        for value in values {
            let (value, name) = pivot_value(value, context)?;
            for (call, call_name) in &aggregates {
                let name = if aggregates.len() == 1 { name.clone() } else { format!("{name}_{call_name}") };
                columns.push((with_filter(call, &key, &value)?, name));
            }
        }
        let plan = pivot(input, &key, &aggregates, columns, default)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation { plan, alias })))
    }
}

fn pivot_key(mut exprs: Vec<SqlExpr>, schema: &DFSchema, context: &mut dyn RelationPlannerContext) -> Result<Column> {
    let (Some(key), true) = (exprs.pop(), exprs.is_empty()) else {
        return not_impl_err!("PIVOT by several columns at once");
    };
    match context.sql_to_expr(key, schema)? {
        Expr::Column(column) => Ok(column),
        other => plan_err!("PIVOT is FOR a column, not {other}: name the expression in a sub-query"),
    }
}

/// The aggregate, and the suffix of its columns if there are several aggregates.
fn pivot_aggregate(
    call: ExprWithAlias,
    schema: &DFSchema,
    context: &mut dyn RelationPlannerContext,
) -> Result<(Expr, String)> {
    let text = call.expr.to_string().to_lowercase();
    let name = call.alias.map(|alias| context.normalize_ident(alias)).unwrap_or(text);
    // `count(*)` comes under a name.
    match context.sql_to_expr(call.expr, schema)?.unalias() {
        expr @ Expr::AggregateFunction(_) => Ok((expr, name)),
        other => plan_err!("PIVOT takes aggregates such as last(price), not {other}"),
    }
}

fn pivot_value(value: ExprWithAlias, context: &mut dyn RelationPlannerContext) -> Result<(Expr, String)> {
    let text = value.expr.to_string();
    let expr = context.sql_to_expr(value.expr, &DFSchema::empty())?;
    let name = match (value.alias, &expr) {
        (Some(alias), _) => context.normalize_ident(alias),
        (None, Expr::Literal(literal, _)) => match literal.try_as_str().flatten() {
            Some(text) => text.to_lowercase(),
            None => text.to_lowercase(),
        },
        (None, _) => text.to_lowercase(),
    };
    Ok((expr, name))
}

/// The aggregate over the rows whose key is `value`.
fn with_filter(call: &Expr, key: &Column, value: &Expr) -> Result<Expr> {
    let Expr::AggregateFunction(call) = call else { return plan_err!("PIVOT takes aggregates") };
    let mut call = call.clone();
    let key = Expr::Column(key.clone());
    let matches = match value {
        Expr::Literal(literal, _) if literal.is_null() => key.is_null(),
        value => key.eq(value.clone()),
    };
    call.params.filter = Some(Box::new(match call.params.filter.take() {
        Some(own) => own.and(matches),
        None => matches,
    }));
    Ok(Expr::AggregateFunction(call))
}

fn pivot(
    input: LogicalPlan,
    key: &Column,
    aggregates: &[(Expr, String)],
    columns: Vec<(Expr, String)>,
    default: Option<Expr>,
) -> Result<LogicalPlan> {
    let mut used: Vec<Column> = vec![key.clone()];
    used.extend(aggregates.iter().flat_map(|(call, _)| call.column_refs()).cloned());
    let groups: Vec<Expr> =
        input.schema().columns().into_iter().filter(|column| !used.contains(column)).map(Expr::Column).collect();
    let names: Vec<String> = columns.iter().map(|(_, name)| name.clone()).collect();
    for (position, name) in names.iter().enumerate() {
        let is_group = groups.iter().any(|group| matches!(group, Expr::Column(column) if column.name == *name));
        if is_group || names[..position].contains(name) {
            return plan_err!("two columns of PIVOT are called {name}: give one another name by AS");
        }
    }
    let calls = columns.into_iter().map(|(call, name)| call.alias(name));
    let plan = LogicalPlanBuilder::from(input).aggregate(groups.clone(), calls.collect::<Vec<_>>())?;
    let Some(default) = default.filter(|default| *default != Expr::Literal(ScalarValue::Null, None)) else {
        return plan.build();
    };
    let filled = names.into_iter().map(|name| {
        let column = Expr::Column(Column::from_name(name.clone()));
        coalesce(vec![column, default.clone()]).alias(name)
    });
    plan.project(groups.into_iter().chain(filled).collect::<Vec<_>>())?.build()
}
