//! Joins whose smaller side doesn't fit the memory of a statement: by sorted rows, which are set aside on disk.
//!
//! DataFusion 55.2 joins by a hash table of one side, which it holds as a whole: `HashJoinExec` can't spill. Its `SortMergeJoinExec` sorts both sides,
//! and sorts spill. It costs several times as much, so it is taken only where statistics say that the table would need a large part of the memory.
//!
//! Invariants:
//! - the keys of all joins of the plan have types that both operators compare alike. Floats are left to the hash join, since the other one can't compare
//!   NaN; symbols are compared as texts, and instants as numbers;
//! - a plan without such joins, or with one of another key, stays as it is.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use splay_functions::walk::WalkPlan;

/// The memory of a statement in bytes, as an extension of its state.
#[derive(Debug)]
struct StatementMemory(usize);

/// Tells a state the memory of its statement.
pub(crate) fn bound(state: &mut SessionState, memory_bytes: usize) {
    let config = state.config_mut();
    config.set_extension(Arc::new(StatementMemory(memory_bytes)));
    // Each sort sets memory aside for its merge, 10 MiB by default, which other sorts of a small memory then lack.
    let aside = &mut config.options_mut().execution.sort_spill_reservation_bytes;
    *aside = (*aside).min(memory_bytes / MERGE_PART);
}

/// The part of the memory that the rows of a hash table may take: there are other operators, and the table itself.
const TABLE_PART: usize = 3;

/// The part of the memory that each of the sorts sets aside for its merge.
const MERGE_PART: usize = 16;

/// Bytes that a text, a list or another value of no fixed width is assumed to take.
const VALUE_BYTES: usize = 32;

/// The physical plan of a statement.
pub(crate) async fn physical(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let planned = state.create_physical_plan(plan).await?;
    let Some(memory) = state.config().get_extension::<StatementMemory>() else { return Ok(planned) };
    if most_bytes(&planned, &StatisticsContext::new())? <= memory.0 / TABLE_PART {
        return Ok(planned);
    }
    let Some(plan) = with_sortable_keys(state.optimize(plan)?)? else { return Ok(planned) };
    let mut sorting = state.clone();
    let options = sorting.config_mut().options_mut();
    options.optimizer.prefer_hash_join = false;
    // Of one stream DataFusion makes a hash table in any case.
    options.execution.target_partitions = options.execution.target_partitions.max(2);
    sorting.create_physical_plan(&plan).await
}

/// Bytes of the rows that the largest hash table of a plan holds, as far as statistics tell.
fn most_bytes(plan: &Arc<dyn ExecutionPlan>, statistics: &StatisticsContext) -> Result<usize> {
    let own = match plan.downcast_ref::<HashJoinExec>() {
        Some(join) => {
            let rows = statistics.compute(join.left().as_ref(), &StatisticsArgs::new())?.num_rows;
            rows.get_value().map_or(0, |rows| rows.saturating_mul(row_bytes(&join.left().schema())))
        }
        None => 0,
    };
    let mut below = plan.children().into_iter().map(|child| most_bytes(child, statistics));
    below.try_fold(own, |most, bytes| Ok(most.max(bytes?)))
}

fn row_bytes(schema: &Schema) -> usize {
    let bytes = |data_type: &DataType| match data_type {
        DataType::Dictionary(key, _) => key.primitive_width(),
        other => other.primitive_width(),
    };
    schema.fields().iter().map(|field| bytes(field.data_type()).unwrap_or(VALUE_BYTES)).sum()
}

/// An optimized plan whose joins have keys that rows can be sorted by; `None` if one has another.
fn with_sortable_keys(plan: LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut are_sortable = true;
    let plan = plan.rewrite_steps_up(|node| {
        let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
        let on = sortable(&join)?;
        are_sortable &= on.is_some();
        join.on = on.unwrap_or_default();
        let step = if are_sortable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop };
        Ok(Transformed::new(LogicalPlan::Join(join), true, step))
    })?;
    Ok(are_sortable.then_some(plan.data))
}

fn sortable(join: &Join) -> Result<Option<Vec<(Expr, Expr)>>> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let pairs = join.on.iter().map(|(one, other)| Ok(sortable_key(one, left)?.zip(sortable_key(other, right)?)));
    pairs.collect()
}

/// A key, or another expression by which its values are in the same order and equal alike; `None` if there is none.
fn sortable_key(key: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let data_type = key.get_type(schema)?;
    Ok(match &data_type {
        of if of.is_integer() => Some(key.clone()),
        DataType::Boolean | DataType::Date32 | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Some(key.clone())
        }
        DataType::Timestamp(_, None) => Some(key.clone()),
        DataType::Timestamp(_, Some(_)) => Some(key.clone().cast_to(&DataType::Int64, schema)?),
        DataType::Dictionary(_, values) if values.is_string() => Some(key.clone().cast_to(&DataType::Utf8, schema)?),
        _ => None,
    })
}
