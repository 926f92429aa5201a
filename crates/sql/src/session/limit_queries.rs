//! Queries in `LIMIT` and `OFFSET`: `LIMIT (SELECT count(*) / 10 FROM trade)`.
//!
//! DataFusion plans numbers there alone. Such a query is read first, as the sub-queries of tick plans are (ADR 31), from the snapshots that the rest of
//! the statement reads. No row and null mean no `LIMIT`, and no `OFFSET`, as in PostgreSQL.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::collect;
use splay_functions::walk::{Walk, WalkPlan};

use super::Session;
use super::execution::task;
use super::planning::watches;
use crate::bounds::until_cancelled;
use crate::error::{Error, Result};
use crate::planner;
use crate::tick::with_tick_parts;

impl Session {
    /// The plan with numbers in place of the queries of its `LIMIT` and `OFFSET`, which are read now.
    pub(super) async fn read_limits(
        &self,
        mut plan: LogicalPlan,
        state: &Arc<SessionState>,
        has_joins: bool,
    ) -> Result<LogicalPlan> {
        let wrap = |error: DataFusionError| Error::from_datafusion(error, self.settings.memory_bytes);
        while let Some(query) = query_of_limit(&plan).map_err(wrap)? {
            let count = self.read_count(&query, state, has_joins).await?;
            plan = with_count(plan, &query, &count).map_err(wrap)?;
        }
        Ok(plan)
    }

    async fn read_count(&self, query: &Subquery, state: &Arc<SessionState>, has_joins: bool) -> Result<ScalarValue> {
        let wrap = |error: DataFusionError| Error::from_datafusion(error, self.settings.memory_bytes);
        if !query.outer_ref_columns.is_empty() {
            let message = "a query in LIMIT or OFFSET can't read columns of the rows around it".to_owned();
            return Err(Error::Statement { message });
        }
        let plan = query.subquery.as_ref().clone();
        let watches = watches(&plan).map_err(wrap)?;
        let plan = match self.settings.tick_plans {
            true => with_tick_parts(plan, state, has_joins).map_err(wrap)?,
            false => plan,
        };
        let plan = planner::physical(state, plan, has_joins).await.map_err(wrap)?;
        let task = task(state, self.pool().0).map_err(wrap)?;
        let rows = until_cancelled(collect(plan, task)).await.map_err(wrap)?;
        watches.check()?;
        count_of(&rows).map_err(wrap)
    }
}

/// A query in a `LIMIT` or `OFFSET` of a plan whose own limits are numbers.
pub(crate) fn query_of_limit(plan: &LogicalPlan) -> Result<Option<Subquery>, DataFusionError> {
    let mut found: Option<Subquery> = None;
    plan.walk_steps(|step| {
        if matches!(step, LogicalPlan::Limit(_)) {
            step.walk_expressions(|expr| {
                expr.apply(|part| {
                    if let Expr::ScalarSubquery(query) = part {
                        found = Some(query.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    let Some(query) = found else { return Ok(None) };
    Ok(Some(query_of_limit(&query.subquery)?.unwrap_or(query)))
}

/// The plan with a number in place of a query, wherever it is a limit.
fn with_count(plan: LogicalPlan, query: &Subquery, count: &ScalarValue) -> Result<LogicalPlan, DataFusionError> {
    let replace = |expr: Expr| {
        Ok(match expr {
            Expr::ScalarSubquery(other) if other.subquery == query.subquery => {
                Transformed::yes(Expr::Literal(count.clone(), None))
            }
            other => Transformed::no(other),
        })
    };
    let plan = plan.rewrite_steps_up(|step| match step {
        LogicalPlan::Limit(_) => step.rewrite_expressions(|expr| expr.transform_up(replace)),
        step => Ok(Transformed::no(step)),
    })?;
    match plan.transformed {
        true => Ok(plan.data),
        false => internal_err!("a query in LIMIT or OFFSET wasn't found again"),
    }
}

/// The only value of a query as a number of rows; null for no row.
fn count_of(batches: &[RecordBatch]) -> Result<ScalarValue, DataFusionError> {
    let mut rows = batches.iter().filter(|batch| batch.num_rows() > 0);
    let value = match (rows.next(), rows.next()) {
        (None, _) => return Ok(ScalarValue::Int64(None)),
        (Some(row), None) if row.num_rows() == 1 && row.num_columns() == 1 => {
            ScalarValue::try_from_array(row.column(0), 0)?
        }
        _ => {
            return plan_err!("the query in LIMIT or OFFSET gives more than one row: aggregate them, or write LIMIT 1");
        }
    };
    match value.data_type() {
        DataType::Null => Ok(ScalarValue::Int64(None)),
        of if of.is_integer() => value.cast_to(&DataType::Int64),
        of if of.is_numeric() => match value.cast_to(&DataType::Float64)? {
            ScalarValue::Float64(Some(number)) => {
                ScalarValue::Float64(Some(number.round_ties_even())).cast_to(&DataType::Int64)
            }
            _ => Ok(ScalarValue::Int64(None)),
        },
        of => plan_err!("the query in LIMIT or OFFSET gives a number of rows, not a {of}"),
    }
}
