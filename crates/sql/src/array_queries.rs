//! `ARRAY(SELECT x …)`: the values of a query as a list. A query without rows gives an empty list.
//!
//! | Step | `ARRAY(q)` is |
//! | --- | --- |
//! | parsed statement ([`mark`]) | `__array((q))`: DataFusion 55.2 plans a query as a value, and not as the argument of a call |
//! | logical plan ([`as_aggregates`]) | `coalesce((SELECT array_agg(x ORDER BY …) FROM q), [])` |
//!
//! - The list has the order of the query's `ORDER BY`, or else of the table that it reads, if its rows have an order.
//! - A correlated query is joined like every other correlated scalar query (`correlated.rs`). Its `LIMIT` becomes a
//!   slice of the list, because a limit of the join's rows would apply to all outer rows together.
//! - Nulls are items. `array_agg` is null only if there is no row.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::array_agg;
use datafusion::functions_nested::expr_fn::array_slice;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{FetchType, SkipType, Subquery};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::{self, FunctionArguments};
use splay_functions::carry_order;
use splay_functions::walk::{Walk, WalkPlan};

use crate::function_calls::{call, is_array_query};
use crate::plan_rewrite::named;
use crate::row_order::TickRowOrder;

const MARKER: &str = "__array";

/// Writes `ARRAY(SELECT …)` as a call that the planner accepts.
pub(crate) fn mark(expression: &mut ast::Expr) {
    let ast::Expr::Function(array) = expression else { return };
    if !is_array_query(array) {
        return;
    }
    if let FunctionArguments::Subquery(query) = std::mem::replace(&mut array.args, FunctionArguments::None) {
        *expression = call(MARKER, vec![ast::Expr::Subquery(query)]);
    }
}

/// The function that [`mark`] names. It is planned and never run.
pub(crate) fn marker() -> ScalarUDF {
    ScalarUDF::from(ArrayQuery { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayQuery {
    signature: Signature,
}

impl ScalarUDFImpl for ArrayQuery {
    fn name(&self) -> &str {
        MARKER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(list_of(arg_types.first().unwrap_or(&DataType::Null)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("ARRAY of a query wasn't planned as one")
    }
}

fn list_of(item: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item.clone(), true)))
}

/// The plan with aggregates in place of the calls that [`mark`] wrote.
///
/// # Errors
/// A plan error for a `LIMIT` that isn't a number, in a query that reads columns from around it.
pub(crate) fn as_aggregates(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_marker = false;
    plan.walk_steps(|step| {
        step.walk_expressions(|expr| {
            has_marker = has_marker || expr.exists(|expr| Ok(marked_query(expr).is_some()))?;
            Ok(if has_marker { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(if has_marker { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_marker {
        return Ok(plan);
    }
    let rewritten = plan.rewrite_steps_up(|step| {
        let names = NamePreserver::new(&step);
        let replaced = |expr: Expr| match marked_query(&expr) {
            Some(query) => array_of(query.clone()).map(Transformed::yes),
            None => Ok(Transformed::no(expr)),
        };
        step.rewrite_expressions(|expr| named(expr, &names, |expr| expr.transform_up(replaced)))
    });
    Ok(rewritten?.data)
}

/// The query of a call that [`mark`] wrote.
fn marked_query(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == MARKER => match call.args.as_slice() {
            [Expr::ScalarSubquery(query)] => Some(query),
            _ => None,
        },
        _ => None,
    }
}

fn array_of(query: Subquery) -> Result<Expr> {
    let item = query.subquery.schema().field(0).data_type().clone();
    let empty = ScalarValue::List(ScalarValue::new_list_nullable(&[], &item));
    let (rows, part) = without_limit(&query.subquery, !query.outer_ref_columns.is_empty())?;
    let ordered = carry_order(&TickRowOrder, rows)?;
    let rows = without_sorts(ordered.plan)?;
    let value = Expr::Column(rows.schema().columns().swap_remove(0));
    let values = match ordered.order.is_empty() {
        true => array_agg(value),
        false => array_agg(value).order_by(ordered.order).build()?,
    };
    let plan = LogicalPlanBuilder::from(rows).aggregate(Vec::<Expr>::new(), [values.alias("array")])?.build()?;
    let list = Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..query });
    let list = match part {
        None => list,
        Some((first, last)) => array_slice(list, lit(first), lit(last), None),
    };
    Ok(coalesce(vec![list, lit(empty)]))
}

/// The rows of a query without its limit, and the numbers of the first and the last item that the limit keeps; the query unchanged if its limit may
/// stay.
fn without_limit(plan: &LogicalPlan, is_correlated: bool) -> Result<(&LogicalPlan, Option<(i64, i64)>)> {
    let LogicalPlan::Limit(limit) = plan else { return Ok((plan, None)) };
    let (fetch, skip) = match (limit.get_fetch_type()?, limit.get_skip_type()?) {
        (FetchType::Literal(fetch), SkipType::Literal(skip)) => (fetch, skip),
        _ if is_correlated => {
            return plan_err!("ARRAY of a query that reads columns from around it takes numbers for LIMIT and OFFSET");
        }
        _ => return Ok((plan, None)),
    };
    // DataFusion 55.2 subtracts OFFSET from a limit twice if its rows are sorted by more keys above it (`sort_pushdown.rs`).
    if !is_correlated && skip == 0 {
        return Ok((plan, None));
    }
    let number = |count: usize| i64::from(i32::try_from(count).unwrap_or(i32::MAX));
    let last = fetch.map_or(-1, |fetch| number(skip.saturating_add(fetch)));
    Ok((&limit.input, Some((number(skip.saturating_add(1)), last))))
}

/// Rows without the sorts whose keys they carry: an aggregate sorts them by these keys, and DataFusion can't join sorted rows of a correlated query.
fn without_sorts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let unsorted = plan.transform_down(|mut step| {
        let mut is_changed = false;
        while let LogicalPlan::Sort(sort) = &step
            && sort.fetch.is_none()
        {
            (step, is_changed) = (sort.input.as_ref().clone(), true);
        }
        let goes_on =
            matches!(step, LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_));
        let next = if goes_on { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Jump };
        Ok(Transformed::new(step, is_changed, next))
    });
    Ok(unsorted?.data)
}
