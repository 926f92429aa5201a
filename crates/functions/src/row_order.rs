//! The rule that gives `first`, `last` and windows the row order of the table they read.
//!
//! Rows reach an aggregate over several streams, in no order that a query may rely on, and the sort below a window isn't stable. So the order has to be
//! in the rows: the table adds columns that number its rows, and the rule adds those columns as the last keys of the `ORDER BY` of each `first` and
//! `last`, and of each window in which rows that tie have places: neighbours, row numbers, frames of `ROWS`. It carries them from the scan through filters, projections, aliases, sorts, limits and
//! window functions; a sort on the way comes before the position, as the query wishes. An as-of join gives each row of its left at most once,
//! so that its rows have the order of those. Another join, a union or another aggregate ends the search: those have no row order to carry.
//!
//! Invariants:
//! - the columns a query returns, their names and their order do not change,
//! - a plan without such calls and windows is left as it is; ranks and frames of `RANGE` and `GROUPS` are, too, since rows that tie count as one there,
//! - nothing is guessed: where no order is known, `first`, `last` and `twap` without an `ORDER BY` are refused (`first_last.rs`,
//!   `twap.rs`).

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, config::ConfigOptions, internal_err};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::logical_plan::{
    Aggregate, Filter, Limit, LogicalPlan, Projection, Sort, SubqueryAlias, TableScan, Window,
};
use datafusion::logical_expr::{Expr, WindowFrameUnits, WindowFunctionDefinition, col};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{Walk, WalkPlan};

/// Names the aggregates whose answer depends on the order of the rows.
const ORDERED: [&str; 5] = ["first", "last", "first_value", "last_value", "twap"];

/// What knows the row order of tables.
pub trait RowOrder: Debug + Send + Sync {
    /// A plan that reads what `scan` reads and also has columns that number the rows, with the sort keys by which the
    /// numbering rises; `None` if the table has no row order.
    ///
    /// Shapes: the same rows; the columns of `scan` unchanged and first, under the same qualifier; the keys must be
    /// without ties and without nulls, as a partition number and a row number within it are. Each key is an expression
    /// over the columns of the returned plan. One or two integer, date or timestamp keys are the fast case.
    ///
    /// # Errors
    /// If the table cannot be asked.
    fn numbered(&self, scan: &TableScan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>>;

    /// The input whose rows an operator that DataFusion doesn't know gives in their order, each at most once, with further columns; `None`
    /// if it has no such input.
    fn preserved_input<'p>(&self, _operator: &'p LogicalPlan) -> Option<&'p LogicalPlan> {
        None
    }

    /// The same operator over another such input, which has further columns.
    ///
    /// # Errors
    /// If it can't have them.
    fn with_preserved_input(&self, operator: &LogicalPlan, _input: LogicalPlan) -> Result<LogicalPlan> {
        internal_err!("{} has no input whose order it keeps", operator.display())
    }
}

/// Completes the `ORDER BY` of `first`, `last` and windows with the row order of the table. Register it once per session, after
/// DataFusion's own analyzer rules.
#[derive(Debug)]
pub struct RowOrderRule {
    tables: Arc<dyn RowOrder>,
}

impl RowOrderRule {
    /// A rule that asks `tables`.
    pub fn new(tables: Arc<dyn RowOrder>) -> Self {
        Self { tables }
    }

    fn complete(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(aggregate) => self.complete_aggregate(aggregate),
            LogicalPlan::Window(window) => self.complete_window(window),
            other => Ok(Transformed::no(other)),
        }
    }

    fn complete_aggregate(&self, aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
        if !aggregate.aggr_expr.iter().any(has_ordered_call) {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let Some((input, order)) = OrderCarrier::new(&*self.tables).carry(&aggregate.input)? else {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        };
        let aggr_expr = aggregate.aggr_expr.into_iter().map(|call| add_order(call, &order)).collect::<Result<_>>()?;
        let completed = Aggregate::try_new(Arc::new(input), aggregate.group_expr, aggr_expr)?;
        Ok(Transformed::yes(LogicalPlan::Aggregate(completed)))
    }

    fn complete_window(&self, window: Window) -> Result<Transformed<LogicalPlan>> {
        if !window.window_expr.iter().any(counts_places) {
            return Ok(Transformed::no(LogicalPlan::Window(window)));
        }
        let Some((mut plan, order)) = OrderCarrier::new(&*self.tables).carry(&window.input)? else {
            return Ok(Transformed::no(LogicalPlan::Window(window)));
        };
        // The calls of one step have one order.
        let (of_places, others): (Vec<Expr>, Vec<Expr>) = window.window_expr.iter().cloned().partition(counts_places);
        let of_places = of_places.into_iter().map(|call| add_window_order(call, &order)).collect::<Result<Vec<_>>>()?;
        for calls in [of_places, others] {
            if !calls.is_empty() {
                plan = LogicalPlan::Window(Window::try_new(calls, Arc::new(plan))?);
            }
        }
        let columns = window.schema.columns().into_iter().map(Expr::Column).collect();
        let projection = Projection::try_new(columns, Arc::new(plan))?;
        Ok(Transformed::yes(LogicalPlan::Projection(projection)))
    }
}

impl AnalyzerRule for RowOrderRule {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.rewrite_steps_up(|plan| self.complete(plan))?.data)
    }

    fn name(&self) -> &str {
        "row_order"
    }
}

/// Whether the answer of an aggregate depends on the order of the rows.
pub fn is_ordered(function: &str) -> bool {
    ORDERED.contains(&function)
}

/// Whether rows that tie in the order of a window have places in it.
fn counts_places(call: &Expr) -> bool {
    let Expr::WindowFunction(call) = call else { return false };
    let has_rows = call.params.window_frame.units == WindowFrameUnits::Rows;
    match &call.fun {
        WindowFunctionDefinition::AggregateUDF(_) => has_rows,
        WindowFunctionDefinition::WindowUDF(function) => match function.name() {
            "rank" | "dense_rank" | "percent_rank" | "cume_dist" => false,
            "first_value" | "last_value" | "nth_value" => has_rows,
            _ => true,
        },
    }
}

/// Adds `order` behind the sort keys of a window, under the name the column had before.
fn add_window_order(call: Expr, order: &[SortExpr]) -> Result<Expr> {
    let name = call.schema_name().to_string();
    let Expr::WindowFunction(mut call) = call else { return internal_err!("{call} is no window function") };
    call.params.order_by.extend(order.iter().cloned());
    Ok(Expr::WindowFunction(call).alias(name))
}

fn is_ordered_call(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if is_ordered(call.func.name()))
}

fn has_ordered_call(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(is_ordered_call(expr))).unwrap_or(false)
}

/// Adds `order` behind the sort keys of each ordered call, under the name the column had before.
fn add_order(expr: Expr, order: &[SortExpr]) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let added = expr.transform_up(|expr| match expr {
        Expr::AggregateFunction(mut call) if is_ordered(call.func.name()) => {
            call.params.order_by.extend(order.iter().cloned());
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(match added.data {
        expr if !added.transformed || expr.schema_name().to_string() == name => expr,
        expr => expr.alias(name),
    })
}

/// A plan whose rows carry the order that they have.
pub struct OrderedPlan {
    /// The plan with the columns of the order behind its own.
    pub plan: LogicalPlan,
    /// Keys over the output of `plan`.
    pub order: Vec<SortExpr>,
    /// Whether no two rows tie in `order`.
    pub is_complete: bool,
}

/// The order that the rows of a plan have: by the sorts on the way, then by the rows of the table below.
///
/// # Errors
/// If the table cannot be asked.
pub fn carry_order(tables: &dyn RowOrder, plan: &LogicalPlan) -> Result<OrderedPlan> {
    let mut carrier = OrderCarrier::new(tables);
    Ok(match carrier.carry(plan)? {
        Some((plan, order)) => OrderedPlan { plan, order, is_complete: carrier.is_numbered },
        None => OrderedPlan { plan: plan.clone(), order: Vec::new(), is_complete: false },
    })
}

/// Carries the row order of a scan up to the input of an aggregate.
struct OrderCarrier<'a> {
    tables: &'a dyn RowOrder,
    /// How many columns projections have been given, so that each gets a name of its own.
    columns: usize,
    /// Whether the way began at a table that numbers its rows.
    is_numbered: bool,
}

impl<'a> OrderCarrier<'a> {
    fn new(tables: &'a dyn RowOrder) -> OrderCarrier<'a> {
        OrderCarrier { tables, columns: 0, is_numbered: false }
    }

    /// The same plan with the columns of the row order, and the sort keys over its output.
    fn carry(&mut self, plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let numbered = self.tables.numbered(scan)?;
                self.is_numbered |= numbered.is_some();
                Ok(numbered)
            }
            LogicalPlan::Filter(filter) => self.carry_through(&filter.input, |input| {
                Ok(LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input)?))
            }),
            LogicalPlan::Limit(limit) => self.carry_through(&limit.input, |input| {
                Ok(LogicalPlan::Limit(Limit { skip: limit.skip.clone(), fetch: limit.fetch.clone(), input }))
            }),
            LogicalPlan::Window(window) => self.carry_through(&window.input, |input| {
                Ok(LogicalPlan::Window(Window::try_new(window.window_expr.clone(), input)?))
            }),
            LogicalPlan::Sort(sort) => self.carry_sort(sort),
            LogicalPlan::SubqueryAlias(alias) => self.carry_alias(alias),
            LogicalPlan::Projection(projection) => self.carry_projection(projection),
            LogicalPlan::Extension(_) => match self.tables.preserved_input(plan) {
                Some(input) => {
                    let Some((input, order)) = self.carry(input)? else { return Ok(None) };
                    Ok(Some((self.tables.with_preserved_input(plan, input)?, order)))
                }
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn carry_through(
        &mut self,
        input: &LogicalPlan,
        rebuild: impl FnOnce(Arc<LogicalPlan>) -> Result<LogicalPlan>,
    ) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
        let Some((input, order)) = self.carry(input)? else { return Ok(None) };
        Ok(Some((rebuild(Arc::new(input))?, order)))
    }

    fn carry_sort(&mut self, sort: &Sort) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
        let (input, position) = match self.carry(&sort.input)? {
            Some((input, position)) => (Arc::new(input), position),
            None => (Arc::clone(&sort.input), vec![]),
        };
        let mut order = sort.expr.clone();
        order.extend(position);
        Ok(Some((LogicalPlan::Sort(Sort { expr: sort.expr.clone(), input, fetch: sort.fetch }), order)))
    }

    fn carry_alias(&mut self, alias: &SubqueryAlias) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
        let Some((input, order)) = self.carry(&alias.input)? else { return Ok(None) };
        let order = order
            .into_iter()
            .map(|key| Ok(SortExpr { expr: requalify(key.expr, alias)?, ..key }))
            .collect::<Result<_>>()?;
        let plan = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
        Ok(Some((LogicalPlan::SubqueryAlias(plan), order)))
    }

    fn carry_projection(&mut self, projection: &Projection) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
        let Some((input, order)) = self.carry(&projection.input)? else { return Ok(None) };
        let mut exprs = projection.expr.clone();
        let mut carried = Vec::with_capacity(order.len());
        for key in order {
            let mut name = format!("__row_order_{}", self.columns);
            // Another carrier may have been here.
            while projection.schema.has_column_with_unqualified_name(&name) {
                self.columns += 1;
                name = format!("__row_order_{}", self.columns);
            }
            self.columns += 1;
            exprs.push(key.expr.alias(&name));
            carried.push(SortExpr { expr: col(Column::from_name(name)), ..key });
        }
        Ok(Some((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?), carried)))
    }
}

fn requalify(expr: Expr, alias: &SubqueryAlias) -> Result<Expr> {
    let renamed = expr.transform_up(|expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new(Some(alias.alias.clone()), column.name)))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(renamed.data)
}
