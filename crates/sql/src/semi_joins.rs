//! Deduplicates the inner side of semi and anti joins, of `IN`, `EXISTS` and their negations, and keeps its names from those of the other side.
//!
//! DataFusion's hash join stores every row of its build side, and walks all rows of a key for each probing row:
//! `venue IN (SELECT venue FROM trade)` takes the square of the rows of a venue. Such a join needs only one of the
//! equal rows, so this rule groups the inner side by the columns that the join reads.
//!
//! A condition on a key of the outer side holds for the inner key that equals it, so the hash join hands it down to both sides, the keys of another join
//! among such conditions. DataFusion 55.2 finds the inner column by the name of the outer one: of `a.i IN (SELECT y FROM r …)` with a column `r.i` it
//! takes that for `y`, and rows are missing. Such columns get another name. Can go once the join looks for the key itself.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use splay_functions::walk::Walk;

/// Groups the inner sides of semi and anti joins.
#[derive(Debug)]
pub(crate) struct DistinctInnerSide;

impl OptimizerRule for DistinctInnerSide {
    fn name(&self) -> &str {
        "distinct_inner_side"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let is_renamed = name_apart(&mut join)?;
        let columns = inner_columns(&join);
        if columns.is_empty() || is_grouped_by(&join.right, &columns) {
            return Ok(Transformed::new(LogicalPlan::Join(join), is_renamed, TreeNodeRecursion::Continue));
        }
        let keys = columns.into_iter().map(Expr::Column).collect();
        join.right = Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(join.right, keys, Vec::new())?));
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    }
}

/// Gives columns of the inner side other names that have the name of an outer key, and aren't the one that equals it.
fn name_apart(join: &mut Join) -> Result<bool> {
    let columns = inner_columns(join);
    let is_key_named = |outer: &Expr, name: &str| matches!(outer, Expr::Column(key) if key.name == name);
    let is_mistaken = |column: &Column| {
        let mut keys = join.on.iter().filter(|(outer, _)| is_key_named(outer, &column.name)).peekable();
        keys.peek().is_some() && !keys.any(|(_, inner)| matches!(inner, Expr::Column(key) if key == column))
    };
    let renamed: Vec<(&Column, Expr)> = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| is_mistaken(column))
        .map(|(place, column)| (column, Expr::Column(Column::from_name(format!("__inner_{place}_{}", column.name)))))
        .collect();
    if renamed.is_empty() {
        return Ok(false);
    }
    let new_name = |column: &Column| renamed.iter().find(|(old, _)| *old == column).map(|(_, new)| new.clone());
    let outputs = columns.iter().map(|column| match new_name(column) {
        Some(Expr::Column(new)) => Expr::Column(column.clone()).alias(new.name),
        _ => Expr::Column(column.clone()),
    });
    let right = LogicalPlanBuilder::from(join.right.as_ref().clone()).project(outputs)?.build()?;
    let rename = |expr: Expr| {
        let renamed = expr.transform_up(|expr| {
            Ok(match &expr {
                Expr::Column(column) => new_name(column).map_or(Transformed::no(expr), Transformed::yes),
                _ => Transformed::no(expr),
            })
        });
        renamed.map(|renamed| renamed.data)
    };
    let on = join.on.iter().map(|(outer, inner)| Ok((outer.clone(), rename(inner.clone())?)));
    let (on, filter) = (on.collect::<Result<Vec<_>>>()?, join.filter.clone().map(rename).transpose()?);
    (join.on, join.filter, join.right) = (on, filter, Arc::new(right));
    Ok(true)
}

/// The columns of the inner side that a semi or anti join reads, in the side's order; none for other joins.
fn inner_columns(join: &Join) -> Vec<Column> {
    if !matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark) || join.on.is_empty() {
        return Vec::new();
    }
    let mut used: Vec<&Column> = join.on.iter().flat_map(|(_, right)| right.column_refs()).collect();
    used.extend(join.filter.iter().flat_map(|filter| filter.column_refs()));
    join.right.schema().columns().into_iter().filter(|column| used.contains(&column)).collect()
}

fn is_grouped_by(plan: &LogicalPlan, columns: &[Column]) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let is_key = |key: &Expr| matches!(key, Expr::Column(column) if columns.contains(column));
            aggregate.group_expr.len() == columns.len() && aggregate.group_expr.iter().all(is_key)
        }
        _ => false,
    }
}
