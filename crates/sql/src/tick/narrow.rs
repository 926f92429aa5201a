//! Pushes conditions on the keys of groups down to the rows that are grouped, and conditions on queries with joins
//! down to the join.
//!
//! `SELECT … FROM (SELECT symbol, … GROUP BY symbol, bucket) WHERE symbol = 'A'` groups the rows of one symbol. The
//! same is valid for the columns of `DISTINCT`, and for columns by which every window function of a step is
//! partitioned.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Filter, Projection, SubqueryAlias, Union, Window};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, LogicalPlan, Operator};

use crate::joins::window_parts;

/// Most conditions that are pushed down. Each costs a walk of the plan.
const CONDITIONS_MAX: usize = 32;

/// Most nodes of the expressions that replace the columns of a condition: `x || x` doubles them at each step.
const NODES_MAX: usize = 200;

/// Pushes the conditions of a predicate below groupings where possible. Returns the new plan and the remaining conditions; `None` if none could be
/// pushed.
///
/// # Errors
/// Those of rebuilding plans.
pub(super) fn narrow_groups(plan: &LogicalPlan, predicate: &Expr) -> Result<Option<(LogicalPlan, Option<Expr>)>> {
    let conditions = split_conjunction(predicate);
    if conditions.len() > CONDITIONS_MAX {
        return Ok(None);
    }
    let (mut narrowed, mut others) = (None, Vec::new());
    for condition in conditions {
        match below(narrowed.as_ref().unwrap_or(plan), condition)? {
            Some(plan) => narrowed = Some(plan),
            None => others.push(condition.clone()),
        }
    }
    Ok(narrowed.map(|plan| (plan, conjunction(others))))
}

/// The plan with a condition below the first grouping whose groups it selects as a whole, or at a join; `None` if there is neither.
fn below(plan: &LogicalPlan, condition: &Expr) -> Result<Option<LogicalPlan>> {
    if !is_of_columns(condition)? {
        return Ok(None);
    }
    match plan {
        LogicalPlan::SubqueryAlias(node) => {
            let condition = by_place(condition, plan.schema(), node.input.schema())?;
            let Some(input) = at_join(&node.input, &condition)? else { return Ok(None) };
            SubqueryAlias::try_new(Arc::new(input), node.alias.clone()).map(LogicalPlan::SubqueryAlias).map(Some)
        }
        LogicalPlan::Projection(node) => {
            let Some(condition) = over(condition, plan.schema(), &node.expr)? else { return Ok(None) };
            let Some(input) = at_join(&node.input, &condition)? else { return Ok(None) };
            let node = Projection::try_new_with_schema(node.expr.clone(), Arc::new(input), Arc::clone(&node.schema))?;
            Ok(Some(LogicalPlan::Projection(node)))
        }
        LogicalPlan::Filter(node) => {
            if let LogicalPlan::Join(_) = node.input.as_ref() {
                let both = node.predicate.clone().and(condition.clone());
                return Filter::try_new(both, Arc::clone(&node.input)).map(LogicalPlan::Filter).map(Some);
            }
            let Some(input) = below(&node.input, condition)? else { return Ok(None) };
            Filter::try_new(node.predicate.clone(), Arc::new(input)).map(LogicalPlan::Filter).map(Some)
        }
        LogicalPlan::Sort(node) if node.fetch.is_none() => {
            let Some(input) = below(&node.input, condition)? else { return Ok(None) };
            Ok(Some(LogicalPlan::Sort(datafusion::logical_expr::Sort { input: Arc::new(input), ..node.clone() })))
        }
        LogicalPlan::Union(node) => union(node, condition),
        LogicalPlan::Distinct(Distinct::All(input)) if !distinguishes_equal_floats(condition, plan.schema())? => {
            let condition = by_place(condition, plan.schema(), input.schema())?;
            Ok(Some(LogicalPlan::Distinct(Distinct::All(Arc::new(push_condition(input, condition)?)))))
        }
        LogicalPlan::Aggregate(node) => aggregate(node, condition),
        LogicalPlan::Window(node) => window(node, condition),
        _ => Ok(None),
    }
}

/// Like [`below`]; right above a join, parts of the condition may go to its sides.
fn at_join(plan: &LogicalPlan, condition: &Expr) -> Result<Option<LogicalPlan>> {
    match below(plan, condition)? {
        None if matches!(plan, LogicalPlan::Join(_)) => {
            Filter::try_new(condition.clone(), Arc::new(plan.clone())).map(LogicalPlan::Filter).map(Some)
        }
        narrowed => Ok(narrowed),
    }
}

/// A plan with a condition pushed down as far as possible.
fn push_condition(plan: &LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    match below(plan, &condition)? {
        Some(narrowed) => Ok(narrowed),
        None => Filter::try_new(condition, Arc::new(plan.clone())).map(LogicalPlan::Filter),
    }
}

fn union(node: &Union, condition: &Expr) -> Result<Option<LogicalPlan>> {
    let mut conditions = Vec::with_capacity(node.inputs.len());
    let mut any = false;
    for input in &node.inputs {
        let condition = by_place(condition, &node.schema, input.schema())?;
        let narrowed = below(input, &condition)?;
        any |= narrowed.is_some();
        conditions.push((input, condition, narrowed));
    }
    if !any {
        return Ok(None);
    }
    let inputs = conditions.into_iter().map(|(input, condition, narrowed)| match narrowed {
        Some(plan) => Ok(Arc::new(plan)),
        None => Filter::try_new(condition, Arc::clone(input)).map(|filter| Arc::new(LogicalPlan::Filter(filter))),
    });
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(Some(LogicalPlan::Union(Union { inputs, schema: Arc::clone(&node.schema) })))
}

fn aggregate(node: &Aggregate, condition: &Expr) -> Result<Option<LogicalPlan>> {
    let sets = node.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
    if sets || window_parts(node).is_some() || distinguishes_equal_floats(condition, &node.schema)? {
        return Ok(None);
    }
    let Some(condition) = over(condition, &node.schema, &node.group_expr)? else { return Ok(None) };
    // Keys whose value differs at each evaluation must be evaluated only once.
    if !is_of_columns(&condition)? {
        return Ok(None);
    }
    let input = Arc::new(push_condition(&node.input, condition)?);
    let (keys, calls) = (node.group_expr.clone(), node.aggr_expr.clone());
    Aggregate::try_new_with_schema(input, keys, calls, Arc::clone(&node.schema)).map(LogicalPlan::Aggregate).map(Some)
}

fn window(node: &Window, condition: &Expr) -> Result<Option<LogicalPlan>> {
    if distinguishes_equal_floats(condition, &node.schema)? {
        return Ok(None);
    }
    let columns = node.input.schema().columns();
    let of_window = |expr: &Expr| match without_alias(expr) {
        Expr::WindowFunction(call) => call.params.partition_by.clone(),
        _ => Vec::new(),
    };
    let partitions: Vec<Vec<Expr>> = node.window_expr.iter().map(of_window).collect();
    for column in condition.column_refs() {
        let place = node.schema.index_of_column(column)?;
        let Some(column) = columns.get(place) else { return Ok(None) };
        let column = Expr::Column(column.clone());
        if !partitions.iter().all(|keys| keys.contains(&column)) {
            return Ok(None);
        }
    }
    let condition = by_place(condition, &node.schema, node.input.schema())?;
    let input = Arc::new(push_condition(&node.input, condition)?);
    let (window_expr, schema) = (node.window_expr.clone(), Arc::clone(&node.schema));
    Ok(Some(LogicalPlan::Window(Window { input, window_expr, schema })))
}

/// Whether a condition reads columns, and always has the same result for the same values.
fn is_of_columns(condition: &Expr) -> Result<bool> {
    let (mut columns, mut others) = (false, false);
    condition.apply(|expr| {
        columns |= matches!(expr, Expr::Column(_));
        others |= expr.is_volatile_node()
            || match expr {
                Expr::InSubquery(of) => !of.subquery.outer_ref_columns.is_empty(),
                Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(_, _) => true,
                _ => false,
            };
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns && !others)
}

/// Whether a condition may have different results for equal floats: both zeros are one value of a group or a join, and so are all NaNs. A comparison
/// has one result for them, any other expression may not.
pub(super) fn distinguishes_equal_floats(condition: &Expr, schema: &DFSchema) -> Result<bool> {
    let (mut floats, mut compared) = (0, 0);
    condition.apply(|expr| {
        let mut compare = |operand: &Expr| -> Result<()> {
            compared += usize::from(is_float_column(without_float_casts(operand), schema)?);
            Ok(())
        };
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                compare(left)?;
                compare(right)?;
            }
            Expr::Between(between) => {
                for operand in [&between.expr, &between.low, &between.high] {
                    compare(operand)?;
                }
            }
            Expr::InList(list) => {
                for operand in std::iter::once(list.expr.as_ref()).chain(&list.list) {
                    compare(operand)?;
                }
            }
            Expr::IsNull(operand) | Expr::IsNotNull(operand) => compare(operand)?,
            expr => floats += usize::from(is_float_column(expr, schema)?),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(floats > compared)
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn is_float_column(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::Column(column) = expr else { return Ok(false) };
    Ok(schema.field(schema.index_of_column(column)?).data_type().is_floating())
}

/// A cast from one float type to another keeps equal values equal.
fn without_float_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_floating() => without_float_casts(expr),
        expr => expr,
    }
}

/// Rewrites a condition to the columns at the same positions of another schema.
fn by_place(condition: &Expr, from: &DFSchema, to: &DFSchema) -> Result<Expr> {
    let columns: Vec<Expr> = to.columns().into_iter().map(Expr::Column).collect();
    over(condition, from, &columns)?.ok_or_else(|| DataFusionError::Internal("a column has no place".to_owned()))
}

/// Rewrites a condition to the expressions of its columns; `None` if it reads others.
fn over(condition: &Expr, schema: &DFSchema, computed: &[Expr]) -> Result<Option<Expr>> {
    let (mut has_others, mut nodes) = (false, 0);
    condition.apply(|expr| {
        if let Expr::Column(column) = expr
            && let Some(by) = computed.get(schema.index_of_column(column)?)
        {
            nodes += size(by)?;
        }
        Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes > NODES_MAX {
        return Ok(None);
    }
    let over = condition.clone().transform(|expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        match computed.get(schema.index_of_column(column)?) {
            // The replacement is final: it isn't rewritten again.
            Some(by) => Ok(Transformed::new(without_alias(by).clone(), true, TreeNodeRecursion::Jump)),
            None => {
                has_others = true;
                Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop))
            }
        }
    })?;
    Ok((!has_others).then_some(over.data))
}

/// The number of nodes of an expression, counted up to the limit.
fn size(expr: &Expr) -> Result<usize> {
    let mut nodes = 0;
    expr.apply(|_| {
        nodes += 1;
        Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(nodes)
}

fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}
