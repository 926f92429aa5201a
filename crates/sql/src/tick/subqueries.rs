//! Sub-queries in expressions: each is read before the rows that use it, like the side of a join.
//!
//! - An uncorrelated scalar query is a constant: `x < (SELECT max(y) FROM t)`.
//! - An uncorrelated query in `IN` is a list of its distinct values.
//! - A scalar query correlated by equalities is grouped by these keys and looked up: `x = (SELECT min(y) FROM t WHERE
//!   t.k = o.k)`. It must consist of aggregates that are null for no rows, or of an expression that is null if they
//!   are, because rows without a group get null. A plain count is 0 for these.
//! - `EXISTS` of a query correlated by equalities alone tests whether the key, or the keys together, are in the list
//!   of its keys. With one comparison beside them it compares the least or the greatest value of the key: there is a
//!   row with `t.y < o.y` if and only if `(SELECT min(y) …) < o.y`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, ScalarValue};
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::logical_plan::{Aggregate, Filter, Projection, Subquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator};
use splay_engine::{AsofJoin, BinaryOp, Expr as TickExpr, LookupTable, Plan, ValueList};
use splay_functions::walk::{Walk, WalkPlan};

use super::asof::as_text;
use super::combine::groups_by;
use super::convert::{UnsupportedExpr, unknown};
use super::recognise::{LookupSource, Recogniser, Stage};
use crate::pushdown::is_text;
use crate::subquery_plans::{has_row, is_any};

/// Aggregates that are null for no rows.
const NULL_OF_NOTHING: [&str; 8] = ["min", "max", "sum", "avg", "med", "median", "stddev", "var"];

fn unsupported(error: DataFusionError) -> UnsupportedExpr {
    UnsupportedExpr(error.to_string())
}

/// Tables with up to this many rows are lists without a grouping that removes repeated values.
const LIST_ROWS_MAX: u64 = 1 << 20;

impl Recogniser<'_> {
    /// The replacement of each sub-query in an expression over the columns of `schema`.
    pub(super) fn queries(&mut self, expr: &Expr, schema: &DFSchema) -> Result<Vec<(Expr, TickExpr)>, UnsupportedExpr> {
        let mut subqueries: Vec<Expr> = Vec::new();
        let collected = expr.apply(|expr| {
            if matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_))
                && !subqueries.contains(expr)
            {
                subqueries.push(expr.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        collected.map_err(unsupported)?;
        let mut queries = Vec::with_capacity(subqueries.len());
        for expr in subqueries {
            let stands_for = match &expr {
                Expr::ScalarSubquery(query) if query.outer_ref_columns.is_empty() => self.one_value(query)?,
                Expr::ScalarSubquery(query) => self.value_by_key(query, schema)?,
                Expr::InSubquery(of) if of.subquery.outer_ref_columns.is_empty() => {
                    let value = self.convert(as_text(&of.expr, schema), schema)?;
                    let is_among = self.among(value, &of.expr, schema, (*of.subquery.subquery).clone())?;
                    negate_if(is_among, of.negated)
                }
                Expr::Exists(of) if !of.subquery.outer_ref_columns.is_empty() => {
                    negate_if(self.exists(&of.subquery, schema)?, of.negated)
                }
                Expr::Exists(of) if has_row(&of.subquery.subquery) => {
                    self.constant(Ok(ScalarValue::Boolean(Some(!of.negated))))?
                }
                Expr::Exists(of) => self.one_value(&is_any(of).map_err(unsupported)?)?,
                other => return unknown(format!("the expression {other}")),
            };
            queries.push((expr, stands_for));
        }
        Ok(queries)
    }

    /// The value of a query that always has one row.
    fn one_value(&mut self, query: &Subquery) -> Result<TickExpr, UnsupportedExpr> {
        let plan = query.subquery.as_ref();
        let stage = self.stage(plan)?.into_plan(plan.schema());
        if !has_one_row(&stage) {
            return unknown("a scalar sub-query that isn't an aggregate of all rows");
        }
        let side = self.add_side(stage, plan.schema());
        Ok(TickExpr::Constant(self.constants.side(side, 0)))
    }

    /// Whether a value is in the only column of a query.
    fn among(
        &mut self,
        value: TickExpr,
        expr: &Expr,
        schema: &DFSchema,
        plan: LogicalPlan,
    ) -> Result<TickExpr, UnsupportedExpr> {
        let [field] = &plan.schema().fields()[..] else { return unknown("IN with a sub-query of several columns") };
        let own = as_text(expr, schema).get_type(schema).map_err(unsupported)?;
        let of = field.data_type();
        if !ValueList::takes(of) || own != *of && !(is_text(&own) && is_text(of)) {
            return unknown(format!("IN that compares {own} with {of}"));
        }
        let known = self.lists.iter().find_map(|(known, list)| (*known == plan).then_some(*list));
        let list = match known {
            Some(list) => list,
            None => self.list_of(plan)?,
        };
        Ok(TickExpr::In(Box::new(value), Arc::new(ValueList::new(list))))
    }

    /// The constant that holds the values of a query of one column.
    fn list_of(&mut self, plan: LogicalPlan) -> Result<usize, UnsupportedExpr> {
        let output = Arc::clone(plan.schema());
        let stage = match self.stage(&plan)? {
            // Few rows can be held without grouping: the list has each value once anyway.
            stage @ Stage::Table { .. } if self.has_few_rows(&stage) => stage.into_plan(&output),
            Stage::Frame(stage) if groups_by(&stage, &[0]) => stage,
            _ => self.stage(&LogicalPlan::Distinct(Distinct::All(Arc::new(plan.clone()))))?.into_plan(&output),
        };
        let side = self.add_side(stage, &output);
        let list = self.constants.side(side, 0);
        self.lists.push((plan, list));
        Ok(list)
    }

    /// The value of a correlated query for each row, by its equalities with outer columns.
    fn value_by_key(&mut self, query: &Subquery, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let ValueOfNoRows { aggregate, value, counts } = of_nothing(&query.subquery)?;
        let correlated = split_correlation(&aggregate.input, schema)?;
        if correlated.comparison.is_some() {
            return unknown("a correlated scalar sub-query with a comparison other than =");
        }
        let values = self.aggregates_by_keys(&correlated, aggregate.aggr_expr.clone(), vec![value], schema)?;
        let Some((lookup, data_type)) = values.into_iter().next() else {
            return unknown("a sub-query without a column");
        };
        if !counts {
            return Ok(lookup);
        }
        let zero = ScalarValue::new_zero(&data_type).map_err(unsupported)?;
        let Some(zero) = self.constants.fix(&zero) else { return unknown(format!("a count of type {data_type}")) };
        let is_there = TickExpr::IsNotNull(Box::new(lookup.clone()));
        let otherwise = Some(Box::new(TickExpr::Constant(zero)));
        Ok(TickExpr::Case { branches: vec![(is_there, lookup)], otherwise, data_type })
    }

    /// Values of the aggregates of a query's rows with the keys of each outer row, and their types; null where there are none.
    fn aggregates_by_keys(
        &mut self,
        query: &CorrelatedQuery,
        aggregates: Vec<Expr>,
        values: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<Vec<(TickExpr, DataType)>, UnsupportedExpr> {
        let CorrelatedQuery { plan, pairs, .. } = query;
        for (inner, outer) in pairs {
            let inner_type = inner.get_type(plan.schema()).map_err(unsupported)?;
            let outer_type = outer.get_type(schema).map_err(unsupported)?;
            if !LookupTable::takes(&outer_type, &inner_type) {
                return unknown(format!("a correlated sub-query with a key of type {outer_type}"));
            }
        }
        let keys = named_keys(pairs);
        let grouped = Aggregate::try_new(Arc::new(plan.clone()), keys, aggregates).map_err(unsupported)?;
        let keys = grouped.schema.columns().into_iter().take(pairs.len()).map(Expr::Column);
        let (width, outputs) = (values.len(), keys.chain(values).collect());
        let values = Projection::try_new(outputs, Arc::new(LogicalPlan::Aggregate(grouped))).map_err(unsupported)?;
        let values = LogicalPlan::Projection(values);
        let stage = self.stage(&values)?.into_plan(values.schema());
        let of_keys: Vec<usize> = (0..pairs.len()).collect();
        if !groups_by(&stage, &of_keys) {
            return unknown("a correlated sub-query whose rows can't be grouped by the correlated columns alone");
        }
        let types = values.schema().fields()[pairs.len()..].iter().map(|field| field.data_type().clone());
        let side = self.add_side(stage, values.schema());
        let of_keys: Vec<usize> = of_keys.into_iter().map(|column| self.constants.side(side, column)).collect();
        let values: Vec<usize> =
            (pairs.len()..pairs.len() + width).map(|column| self.constants.side(side, column)).collect();
        let outer = pairs.iter().map(|(_, outer)| self.convert(outer, schema));
        let outer = outer.collect::<Result<Vec<_>, _>>()?;
        let (table, key) = match outer.as_slice() {
            [key] => (LookupTable::new(of_keys, values), key.clone()),
            _ => {
                let finding = Arc::new(LookupTable::new(of_keys, Vec::new()));
                self.lookups.push(Arc::clone(&finding));
                (LookupTable::by_number(values), TickExpr::Find(finding, outer))
            }
        };
        let table = Arc::new(table);
        let lookup = |column| TickExpr::Lookup(Arc::clone(&table), Some(column), Box::new(key.clone()));
        Ok((0..width).map(lookup).zip(types).collect())
    }

    /// Whether a correlated query has a row, by its equalities with outer columns, and one comparison. A null key equals none.
    fn exists(&mut self, query: &Subquery, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        if has_row(&query.subquery) {
            return unknown("a correlated EXISTS of an aggregate query, which always has a row");
        }
        let correlated = split_correlation(without_outputs(&query.subquery), schema)?;
        let Some(Comparison { inner, op, outer }) = &correlated.comparison else {
            return self.keys_among(&correlated.pairs, schema, &correlated.plan);
        };
        let inner_type = inner.get_type(correlated.plan.schema()).map_err(unsupported)?;
        if inner_type != outer.get_type(schema).map_err(unsupported)? {
            return unknown("a correlated EXISTS that compares values of two types");
        }
        let outer = self.convert(outer, schema)?;
        // The extremes of the values that are compared: both, for a value that differs from one of them.
        let extremes: &[(fn(Expr) -> Expr, BinaryOp)] = match op {
            Operator::Lt => &[(min, BinaryOp::Less)],
            Operator::LtEq => &[(min, BinaryOp::LessOrEqual)],
            Operator::Gt => &[(max, BinaryOp::Greater)],
            Operator::GtEq => &[(max, BinaryOp::GreaterOrEqual)],
            Operator::NotEq => &[(min, BinaryOp::NotEqual), (max, BinaryOp::NotEqual)],
            _ => return unknown(format!("a correlated EXISTS with the comparison {op}")),
        };
        let aggregates: Vec<Expr> = extremes.iter().map(|(extreme, _)| extreme(inner.clone())).collect();
        let name = |aggregate: &Expr| Expr::Column(Column::from_name(aggregate.schema_name().to_string()));
        let values = aggregates.iter().map(name).collect();
        let values = self.aggregates_by_keys(&correlated, aggregates, values, schema)?;
        let constant = |value: bool| Ok(ScalarValue::Boolean(Some(value)));
        let mut branches = Vec::with_capacity(extremes.len());
        for ((value, _), (_, op)) in values.into_iter().zip(extremes) {
            let holds = TickExpr::Binary(*op, Box::new(value), Box::new(outer.clone()));
            branches.push((holds, self.constant(constant(true))?));
        }
        // Unknown comparisons don't hold.
        let otherwise = Some(Box::new(self.constant(constant(false))?));
        Ok(TickExpr::Case { branches, otherwise, data_type: DataType::Boolean })
    }

    /// The plan that keeps the rows for which `EXISTS` or `NOT EXISTS` holds, if the order of a table finds them.
    pub(super) fn exists_by_time(
        &mut self,
        condition: &Expr,
        schema: &DFSchema,
    ) -> Result<Option<AsofJoin>, UnsupportedExpr> {
        let Expr::Exists(of) = condition else { return Ok(None) };
        if of.subquery.outer_ref_columns.is_empty() || has_row(&of.subquery.subquery) {
            return Ok(None);
        }
        let correlated = split_correlation(without_outputs(&of.subquery.subquery), schema);
        let Ok(CorrelatedQuery { plan, pairs, comparison: None }) = correlated else { return Ok(None) };
        self.keys_by_time(&pairs, schema, &plan, !of.negated)
    }

    /// Whether the keys of a row of `schema` are those of a row of a plan. In each pair the plan's key is first. A null key equals none.
    pub(super) fn keys_among(
        &mut self,
        pairs: &[(Expr, Expr)],
        schema: &DFSchema,
        plan: &LogicalPlan,
    ) -> Result<TickExpr, UnsupportedExpr> {
        let are_there = pairs.iter().map(|(inner, _)| inner.clone().is_not_null());
        let Some(are_there) = conjunction(are_there) else { return unknown("a sub-query without an equality") };
        let filter = Filter::try_new(are_there, Arc::new(plan.clone())).map_err(unsupported)?;
        let keys =
            Projection::try_new(named_keys(pairs), Arc::new(LogicalPlan::Filter(filter))).map_err(unsupported)?;
        let keys = LogicalPlan::Projection(keys);
        let [(_, outer)] = pairs else { return self.has_keys(pairs, schema, keys) };
        let key = self.convert(outer, schema)?;
        let is_among = self.among(key.clone(), outer, schema, keys)?;
        let is_key = TickExpr::IsNotNull(Box::new(key));
        Ok(TickExpr::Binary(BinaryOp::And, Box::new(is_key), Box::new(is_among)))
    }

    /// Whether the combination of a row's keys occurs among the rows of a query.
    fn has_keys(
        &mut self,
        pairs: &[(Expr, Expr)],
        schema: &DFSchema,
        query: LogicalPlan,
    ) -> Result<TickExpr, UnsupportedExpr> {
        let output = Arc::clone(query.schema());
        let mut keys = Vec::with_capacity(pairs.len());
        for ((_, outer), field) in pairs.iter().zip(output.fields()) {
            let own = outer.get_type(schema).map_err(unsupported)?;
            if !LookupTable::takes(&own, field.data_type()) {
                return unknown(format!("a correlated sub-query with a key of type {own}"));
            }
            keys.push(self.convert(outer, schema)?);
        }
        let distinct = LogicalPlan::Distinct(Distinct::All(Arc::new(query)));
        let plan = self.stage(&distinct)?.into_plan(&output);
        let side = self.add_side(plan, &output);
        let of_keys = (0..pairs.len()).map(|column| self.constants.side(side, column)).collect();
        let finding = Arc::new(LookupTable::new(of_keys, Vec::new()));
        self.lookups.push(Arc::clone(&finding));
        Ok(TickExpr::IsNotNull(Box::new(TickExpr::Find(finding, keys))))
    }

    fn has_few_rows(&self, stage: &Stage) -> bool {
        matches!(stage, Stage::Table { scan, .. } if self.snapshot(scan).rows() <= LIST_ROWS_MAX)
    }

    pub(super) fn add_side(&mut self, plan: Plan, schema: &DFSchema) -> usize {
        self.sides.push(LookupSource { plan, schema: Arc::clone(schema.inner()) });
        self.sides.len() - 1
    }
}

/// The query's keys of pairs. One that several outer values must equal has another name each time.
fn named_keys(pairs: &[(Expr, Expr)]) -> Vec<Expr> {
    let name = |(number, (key, _)): (usize, &(Expr, Expr))| match pairs[..number].iter().any(|(other, _)| other == key)
    {
        true => key.clone().alias(format!("__key_{number}")),
        false => key.clone(),
    };
    pairs.iter().enumerate().map(name).collect()
}

/// A query without its select list, if only its existence matters.
fn without_outputs(mut plan: &LogicalPlan) -> &LogicalPlan {
    while let LogicalPlan::Projection(Projection { input, .. }) = plan {
        plan = input;
    }
    plan
}

fn negate_if(expr: TickExpr, is_negated: bool) -> TickExpr {
    if is_negated { TickExpr::Not(Box::new(expr)) } else { expr }
}

/// Whether a plan always has exactly one row.
pub(super) fn has_one_row(plan: &Plan) -> bool {
    match plan {
        Plan::AggregateTable { keys, .. } => keys.is_empty(),
        Plan::Aggregate { keys, .. } => keys.is_empty(),
        Plan::Project { input, .. } => has_one_row(input),
        _ => false,
    }
}

/// A query with a value even for no rows, which is known in advance.
struct ValueOfNoRows<'a> {
    /// An aggregate without GROUP BY.
    aggregate: &'a Aggregate,
    /// The value, computed from the aggregates.
    value: Expr,
    /// Whether it is a count, which is 0 for no rows. Otherwise it is null.
    counts: bool,
}

fn of_nothing(plan: &LogicalPlan) -> Result<ValueOfNoRows<'_>, UnsupportedExpr> {
    let (aggregate, value) = aggregate_of_all(plan)?;
    let of_aggregates = aggregate.aggr_expr.iter().map(|one| match without_alias(one) {
        Expr::AggregateFunction(call) => call.func.name(),
        _ => "",
    });
    let names: Vec<&str> = of_aggregates.collect();
    let is_column = matches!(value, Expr::Column(_));
    match names.as_slice() {
        ["count"] if is_column => Ok(ValueOfNoRows { aggregate, value, counts: true }),
        names if names.iter().all(|name| NULL_OF_NOTHING.contains(name)) && is_null_of_nulls(&value) => {
            Ok(ValueOfNoRows { aggregate, value, counts: false })
        }
        _ => unknown(format!("a correlated sub-query with the value {value}")),
    }
}

/// The aggregate over all rows in a scalar query, and the query's value as an expression over its columns.
fn aggregate_of_all(plan: &LogicalPlan) -> Result<(&Aggregate, Expr), UnsupportedExpr> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => aggregate_of_all(&alias.input),
        LogicalPlan::Projection(projection) => {
            let [one] = projection.expr.as_slice() else { return unknown("a correlated sub-query of several columns") };
            let (aggregate, value) = computed_below(&projection.input)?;
            match (without_alias(one), value) {
                (Expr::Column(_), Some(value)) => Ok((aggregate, value)),
                (one, None) => Ok((aggregate, one.clone())),
                _ => unknown("a correlated sub-query that computes with a column that it has computed"),
            }
        }
        _ => {
            let (aggregate, value) = computed_below(plan)?;
            match (value, aggregate.schema.columns().as_slice()) {
                (Some(value), _) => Ok((aggregate, value)),
                (None, [one]) => Ok((aggregate, Expr::Column(one.clone()))),
                _ => unknown("a correlated sub-query of several aggregates"),
            }
        }
    }
}

/// Like [`aggregate_of_all`]; `None` if nothing is computed above the aggregate.
fn computed_below(plan: &LogicalPlan) -> Result<(&Aggregate, Option<Expr>), UnsupportedExpr> {
    match plan {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Ok((aggregate, None)),
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) => {
            aggregate_of_all(plan).map(|(aggregate, value)| (aggregate, Some(value)))
        }
        _ => unknown("a correlated sub-query that isn't an aggregate of all its rows"),
    }
}

/// Functions whose result is null if their first argument is.
const NULL_OF_NULL: [&str; 9] = ["abs", "ceil", "floor", "lower", "round", "sqrt", "trunc", "upper", "date_trunc"];

/// Whether a value is null if all of its columns are.
fn is_null_of_nulls(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Alias(alias) => is_null_of_nulls(&alias.expr),
        Expr::Cast(cast) => is_null_of_nulls(&cast.expr),
        Expr::Negative(of) => is_null_of_nulls(of),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_strict = matches!(
                op,
                Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
            );
            is_strict && (is_null_of_nulls(left) || is_null_of_nulls(right))
        }
        Expr::ScalarFunction(call) if NULL_OF_NULL.contains(&call.func.name()) => {
            call.args.iter().any(is_null_of_nulls)
        }
        _ => false,
    }
}

fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// A correlated query without its correlation, and the equalities of the correlation, each with an expression of the query and one of the outer rows.
struct CorrelatedQuery {
    plan: LogicalPlan,
    pairs: Vec<(Expr, Expr)>,
    /// What else must hold of a row of the query and the outer one.
    comparison: Option<Comparison>,
}

/// A comparison of an expression of a query with one of the outer rows.
struct Comparison {
    inner: Expr,
    op: Operator,
    outer: Expr,
}

/// Takes the equalities with outer columns out of a filter.
fn split_correlation(plan: &LogicalPlan, around: &DFSchema) -> Result<CorrelatedQuery, UnsupportedExpr> {
    let filter = match plan {
        LogicalPlan::SubqueryAlias(alias) => return split_correlation(&alias.input, around),
        LogicalPlan::Filter(filter) => filter,
        _ => return unknown("a correlated sub-query without an equality"),
    };
    let is_bound = |expr: &Expr| expr.contains_outer();
    let (mut pairs, mut rest, mut comparison) = (Vec::new(), Vec::new(), None);
    let schema = filter.input.schema();
    for condition in split_conjunction(&filter.predicate) {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_bound(left) != is_bound(right) => {
                let (inner, outer) = if is_bound(left) { (right, left) } else { (left, right) };
                pairs.push((as_text(inner, schema).clone(), as_text(&unbound(outer)?, around).clone()));
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if comparison.is_none() && is_bound(left) != is_bound(right) && op.swap().is_some() =>
            {
                let (inner, op, outer) = match (is_bound(left), op.swap()) {
                    (true, Some(swapped)) => (right, swapped, left),
                    _ => (left, *op, right),
                };
                let (inner, outer) = (as_text(inner, schema).clone(), as_text(&unbound(outer)?, around).clone());
                comparison = Some(Comparison { inner, op, outer });
            }
            condition if is_bound(condition) => {
                return unknown("a correlated sub-query with more than equalities and one comparison");
            }
            condition => rest.push(condition.clone()),
        }
    }
    let mut is_free = true;
    let below = filter.input.walk_steps(|node| {
        is_free &= !node.expressions().iter().any(Expr::contains_outer);
        Ok(TreeNodeRecursion::Continue)
    });
    below.map_err(unsupported)?;
    if pairs.is_empty() || !is_free {
        return unknown("a correlated sub-query without an equality");
    }
    let plan = match conjunction(rest) {
        Some(rest) => LogicalPlan::Filter(Filter::try_new(rest, Arc::clone(&filter.input)).map_err(unsupported)?),
        None => filter.input.as_ref().clone(),
    };
    Ok(CorrelatedQuery { plan, pairs, comparison })
}

/// Rewrites an expression over outer references to the outer rows' own columns.
fn unbound(expr: &Expr) -> Result<Expr, UnsupportedExpr> {
    let mut has_own = false;
    let unbound = expr.clone().transform_up(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        Expr::Column(_) => {
            has_own = true;
            Ok(Transformed::no(expr))
        }
        other => Ok(Transformed::no(other)),
    });
    let unbound = unbound.map_err(unsupported)?.data;
    if has_own { unknown("a correlated condition with columns of both queries on one side") } else { Ok(unbound) }
}
