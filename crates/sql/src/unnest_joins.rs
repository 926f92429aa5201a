//! `unnest` of a row's own lists in `FROM`: `FROM t, unnest(t.x) AS u(v)`, `LEFT JOIN LATERAL unnest(t.x) AS u(v) ON true`.
//!
//! DataFusion 55.2 plans such lists as a query that reads columns from around it, and has no plan for a join with one. Here the lists are
//! computed over the rows of the left side, whose columns go along, so that no join is left:
//!
//! ```text
//! Join                                          Projection: t.*, u.v
//!   t                                             Unnest: item
//!   Subquery                               ──►      Projection: t.*, t.x AS item
//!     Unnest                                          t
//!       Projection: outer(t.x)
//! ```
//!
//! - A row comes once for each item of its longest list. An inner join drops a row whose lists are null or empty; a left join keeps it, with
//!   nulls.
//! - A query may select from the lists, by expressions and conditions, beside an inner join. Beside a left join it may only name items: the row
//!   that is kept has nulls, whatever an expression makes of a null.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullHandling, RecursionUnnestOption, Result, UnnestOptions, plan_err};
use datafusion::logical_expr::logical_plan::{Join, Subquery, Unnest};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use splay_functions::walk::{Walk, WalkPlan};

/// The plan without joins to lists of the left side's rows. Other correlated queries stay as they are.
///
/// # Errors
/// A plan error for a left join on a condition.
pub(crate) fn without_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_query = false;
    plan.walk_steps(|node| {
        has_query |= matches!(node, LogicalPlan::Subquery(_));
        Ok(if has_query { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_query {
        return Ok(plan);
    }
    let mut number = 0;
    let rewritten = plan.rewrite_steps_up(|node| match node {
        LogicalPlan::Join(join) => rewrite_join(join, &mut number),
        other => Ok(Transformed::no(other)),
    });
    Ok(rewritten?.data)
}

fn rewrite_join(join: Join, number: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let keeps_rows = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let is_of_left = |reference: &Expr| matches!(reference, Expr::OuterReferenceColumn(_, column) if join.left.schema().has_column(column));
    let query = query_of(&join.right).filter(|query| query.outer_ref_columns.iter().all(is_of_left));
    let Some(query) = query else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let mut lists = Lists { left: &join.left, keeps_rows, has_lists: false, number };
    let above = lists.over(&query.subquery)?;
    let Some((plan, items)) = above.filter(|_| lists.has_lists) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let condition = conjunction(equal.chain(join.filter.clone()).filter(|condition| *condition != lit(true)));
    if keeps_rows && condition.is_some() {
        return plan_err!(
            "LEFT JOIN unnest(…) takes ON true: choose the items before, as in unnest(list_filter(x, v -> v > 0))"
        );
    }
    let named = items.into_iter().zip(join.right.schema().iter());
    let named =
        named.map(|(item, (relation, field))| Expr::Column(item).alias_qualified(relation.cloned(), field.name()));
    let columns = join.left.schema().columns().into_iter().map(Expr::Column).chain(named);
    let plan = LogicalPlanBuilder::from(plan).project(columns)?;
    let plan = match condition {
        Some(condition) => plan.filter(condition)?,
        None => plan,
    };
    plan.build().map(Transformed::yes)
}

/// The query of a relation, if it is correlated.
fn query_of(relation: &LogicalPlan) -> Option<&Subquery> {
    match relation {
        LogicalPlan::SubqueryAlias(alias) => query_of(&alias.input),
        LogicalPlan::Subquery(query) => Some(query),
        _ => None,
    }
}

/// The steps of a query over the rows of the left side, in place of its single row without columns.
struct Lists<'a> {
    left: &'a Arc<LogicalPlan>,
    keeps_rows: bool,
    has_lists: bool,
    /// The number of renamed columns. The query may use names of the left side.
    number: &'a mut usize,
}

impl Lists<'_> {
    /// A plan with the left side's columns and further ones, and the query's own among these; `None` for unsupported steps.
    fn over(&mut self, plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<Column>)>> {
        match plan {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                Ok(Some((self.left.as_ref().clone(), Vec::new())))
            }
            LogicalPlan::SubqueryAlias(alias) => self.over(&alias.input),
            LogicalPlan::Subquery(query) => self.over(&query.subquery),
            LogicalPlan::Projection(projection) => {
                let Some((input, columns)) = self.over(&projection.input)? else { return Ok(None) };
                self.project(&projection.expr, &projection.input, input, &columns)
            }
            LogicalPlan::Filter(filter) if !self.keeps_rows => {
                let Some((input, columns)) = self.over(&filter.input)? else { return Ok(None) };
                let Some(condition) = bound(&filter.predicate, &filter.input, &columns)? else { return Ok(None) };
                Ok(Some((LogicalPlanBuilder::from(input).filter(condition)?.build()?, columns)))
            }
            LogicalPlan::Unnest(unnest) if !self.has_lists && unnest.struct_type_columns.is_empty() => {
                let Some((input, columns)) = self.over(&unnest.input)? else { return Ok(None) };
                self.has_lists = true;
                self.unnest(unnest, input, &columns)
            }
            _ => Ok(None),
        }
    }

    fn name(&mut self) -> String {
        *self.number += 1;
        format!("__item_{}", self.number)
    }

    fn project(
        &mut self,
        exprs: &[Expr],
        of: &LogicalPlan,
        input: LogicalPlan,
        columns: &[Column],
    ) -> Result<Option<(LogicalPlan, Vec<Column>)>> {
        let (mut added, mut items) = (Vec::new(), Vec::new());
        for expr in exprs {
            let Some(expr) = bound(&expr.clone().unalias(), of, columns)? else { return Ok(None) };
            match expr {
                Expr::Column(item) if columns.contains(&item) => items.push(item),
                // Steps above the lists of a left join aren't supported.
                _ if self.has_lists && self.keeps_rows => return Ok(None),
                expr => {
                    let name = self.name();
                    added.push(expr.alias(name.clone()));
                    items.push(Column::new_unqualified(name));
                }
            }
        }
        if added.is_empty() {
            return Ok(Some((input, items)));
        }
        let all = input.schema().columns().into_iter().map(Expr::Column).chain(added);
        let all: Vec<Expr> = all.collect();
        Ok(Some((LogicalPlanBuilder::from(input).project(all)?.build()?, items)))
    }

    fn unnest(
        &mut self,
        unnest: &Unnest,
        input: LogicalPlan,
        columns: &[Column],
    ) -> Result<Option<(LogicalPlan, Vec<Column>)>> {
        let schema = unnest.input.schema();
        let null_handling =
            if self.keeps_rows { NullHandling::PreserveAndExpandEmpty } else { unnest.options.null_handling };
        let mut options = UnnestOptions::new().with_null_handling(null_handling);
        let (mut lists, mut items) = (Vec::new(), Vec::new());
        for (place, column) in schema.columns().into_iter().enumerate() {
            let list = columns[place].clone();
            if !unnest.exec_columns.contains(&column) {
                items.push(list);
                continue;
            }
            let recursions = unnest.options.recursions.iter().filter(|recursion| recursion.input_column == column);
            let depths: Vec<usize> = recursions.map(|recursion| recursion.depth).collect();
            for depth in if depths.is_empty() { vec![1] } else { depths } {
                let output_column = Column::new_unqualified(self.name());
                items.push(output_column.clone());
                options =
                    options.with_recursions(RecursionUnnestOption { input_column: list.clone(), output_column, depth });
            }
            lists.push(list);
        }
        let unnest = Unnest::try_new(Arc::new(input), lists, options)?;
        Ok(Some((LogicalPlan::Unnest(unnest), items)))
    }
}

/// An expression over other columns, with the outer ones in place; `None` if it contains a query.
fn bound(expr: &Expr, of: &LogicalPlan, columns: &[Column]) -> Result<Option<Expr>> {
    let has_query =
        expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))))?;
    if has_query {
        return Ok(None);
    }
    let bound = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(columns[of.schema().index_of_column(&column)?].clone()))
            }
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            other => Transformed::no(other),
        })
    });
    Ok(Some(bound?.data))
}
