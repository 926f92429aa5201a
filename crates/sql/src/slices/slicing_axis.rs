//! Decides whether a plan may run on slices of its tables, along symbols or dates.
//!
//! Idea: for each node, find the output columns that determine the slice of a row. Invariant: all rows of the output
//! with the same value in such a column come from one slice. Cost: one walk for each node that is tested.

use std::collections::BTreeSet;

use datafusion::common::{JoinType, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Join, TableScan, Window};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Volatility};
use splay_functions::SAMPLE_FILL;
use splay_functions::walk::Walk;
use splay_store::DATE_COLUMN;

use crate::joins;
use crate::provider::TickTable;
use crate::pushdown::is_text;

/// Calls that fill gaps. Their meaning depends on the steps around them.
pub(super) const GAP_FILLS: [&str; 4] = ["time_bucket_gapfill", SAMPLE_FILL, "locf", "interpolate"];

/// The dimension along which tables are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Symbol,
    Date,
}

impl Axis {
    fn name(self) -> &'static str {
        match self {
            Axis::Symbol => "symbol",
            Axis::Date => "date",
        }
    }
}

/// The relation of a plan's rows to slices along an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AxisFit {
    /// The rows of all slices together are its rows. With the columns that determine a row's slice.
    Cut(BTreeSet<usize>),
    /// Every slice has all of the plan's rows.
    Whole,
    /// Neither, with the reason.
    No(String),
}

use AxisFit::{Cut, No, Whole};

/// The relation of a plan's rows to slices along an axis.
pub(super) fn along(plan: &LogicalPlan, axis: Axis) -> Result<AxisFit> {
    if let Some(reason) = unfit(plan)? {
        return Ok(No(reason));
    }
    Ok(match plan {
        LogicalPlan::TableScan(scan) => of_table(scan, axis),
        LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => Whole,
        LogicalPlan::SubqueryAlias(alias) => along(&alias.input, axis)?,
        LogicalPlan::Filter(filter) => along(&filter.input, axis)?,
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => along(&sort.input, axis)?,
        LogicalPlan::Projection(projection) => {
            with_columns(along(&projection.input, axis)?, &projection.expr, &projection.input)
        }
        LogicalPlan::Aggregate(aggregate) => of_grouping(aggregate, axis)?,
        LogicalPlan::Window(window) => of_window(window, axis)?,
        LogicalPlan::Distinct(Distinct::All(input)) => match along(input, axis)? {
            Cut(columns) if columns.is_empty() => No(format!("DISTINCT of rows without the {}", axis.name())),
            other => other,
        },
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.iter().map(|input| along(input, axis)).collect::<Result<Vec<_>>>()?;
            of_union(inputs)
        }
        LogicalPlan::Join(join) => of_join(join, axis)?,
        LogicalPlan::Extension(_) => of_time_join(plan, axis)?,
        other => No(format!("{} needs all rows", title(other))),
    })
}

/// The reason why a node's expressions can't be computed slice by slice; `None` if they can.
fn unfit(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut reason = None;
    for expr in plan.expressions() {
        expr.exists(|expr| {
            reason = match expr {
                Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
                    Some("a query within an expression reads all rows".to_owned())
                }
                Expr::OuterReferenceColumn(..) => Some("a query that reads columns from around it".to_owned()),
                Expr::ScalarFunction(call) if call.func.name() == SAMPLE_FILL => {
                    Some("gaps are filled between the first and the last row of all".to_owned())
                }
                // Each series is filled over its own rows; `cut.rs` makes sure that no cut splits a series.
                Expr::ScalarFunction(call) if GAP_FILLS.contains(&call.func.name()) => None,
                Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
                    Some(format!("{} is computed once for the statement", call.func.name()))
                }
                _ => None,
            };
            Ok(reason.is_some())
        })?;
        if reason.is_some() {
            break;
        }
    }
    Ok(reason)
}

fn title(plan: &LogicalPlan) -> String {
    let shown = plan.display().to_string();
    shown.split([':', ' ']).next().unwrap_or_default().to_uppercase()
}

/// The table of a scan of ours.
pub(super) fn with_table<T>(scan: &TableScan, take: impl FnOnce(&TickTable) -> T) -> Option<T> {
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<TickTable>().filter(|table| !table.is_guarded()).map(take)
}

fn of_table(scan: &TableScan, axis: Axis) -> AxisFit {
    if scan.fetch.is_some() {
        return No("a limit needs all rows".to_owned());
    }
    let fit = with_table(scan, |table| {
        let spec = table.spec();
        let (is_cut, column) = match axis {
            Axis::Symbol => (spec.is_cut_by_symbol(), spec.symbol.as_ref().map(|symbol| symbol.to_lowercase())),
            // If partitions are longer than a date, a date may lie in different slices of two tables.
            Axis::Date => {
                let has_dates = table.has_date() && spec.partition.is_day();
                (spec.is_cut_by_date(), has_dates.then(|| DATE_COLUMN.to_owned()))
            }
        };
        let position = column.and_then(|column| scan.projected_schema.index_of_column_by_name(None, &column));
        if is_cut { Cut(position.into_iter().collect()) } else { Whole }
    });
    fit.unwrap_or_else(|| No(format!("{} isn't a table of the database", scan.table_name)))
}

/// The position of the column that an expression stands for, possibly under another name.
fn column_of(expr: &Expr, input: &LogicalPlan) -> Option<usize> {
    match expr {
        Expr::Column(column) => input.schema().maybe_index_of_column(column),
        Expr::Alias(alias) => column_of(&alias.expr, input),
        _ => None,
    }
}

/// Like [`column_of`], for a join key, which may be cast to another text type than the column's.
fn key_of(expr: &Expr, input: &LogicalPlan) -> Option<usize> {
    match expr {
        Expr::Cast(cast) if is_text(cast.field.data_type()) => {
            let position = column_of(&cast.expr, input)?;
            is_text(input.schema().field(position).data_type()).then_some(position)
        }
        other => column_of(other, input),
    }
}

fn with_columns(input: AxisFit, exprs: &[Expr], plan: &LogicalPlan) -> AxisFit {
    match input {
        Cut(columns) => {
            let stays = |expr: &Expr| column_of(expr, plan).is_some_and(|position| columns.contains(&position));
            Cut(exprs.iter().enumerate().filter(|(_, expr)| stays(expr)).map(|(position, _)| position).collect())
        }
        other => other,
    }
}

fn of_grouping(aggregate: &Aggregate, axis: Axis) -> Result<AxisFit> {
    let input = along(&aggregate.input, axis)?;
    if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return Ok(match input {
            Whole => Whole,
            _ => No("grouping sets need all rows".to_owned()),
        });
    }
    Ok(match with_columns(input, &aggregate.group_expr, &aggregate.input) {
        Cut(columns) if columns.is_empty() => No(format!("groups that aren't by {}", axis.name())),
        other => other,
    })
}

fn of_window(window: &Window, axis: Axis) -> Result<AxisFit> {
    let input = along(&window.input, axis)?;
    let Cut(columns) = &input else { return Ok(input) };
    let is_by = |call: &WindowFunction| {
        let mut keys = call.params.partition_by.iter();
        keys.any(|key| key_of(key, &window.input).is_some_and(|position| columns.contains(&position)))
    };
    let are_all = window.window_expr.iter().all(|expr| match expr.clone().unalias() {
        Expr::WindowFunction(call) => is_by(&call),
        _ => false,
    });
    Ok(if are_all { input } else { No(format!("a window that isn't by {}", axis.name())) })
}

fn of_union(inputs: Vec<AxisFit>) -> AxisFit {
    if inputs.iter().all(|input| *input == Whole) {
        return Whole;
    }
    let mut shared: Option<BTreeSet<usize>> = None;
    for input in inputs {
        match input {
            Cut(columns) => {
                shared = Some(shared.map_or_else(|| columns.clone(), |shared| &shared & &columns));
            }
            Whole => return No("a union of rows that every slice has with others".to_owned()),
            No(reason) => return No(reason),
        }
    }
    Cut(shared.unwrap_or_default())
}

fn of_join(join: &Join, axis: Axis) -> Result<AxisFit> {
    use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let (left, right) = (along(&join.left, axis)?, along(&join.right, axis)?);
    let shift = |columns: &BTreeSet<usize>| -> BTreeSet<usize> {
        let width = join.left.schema().fields().len();
        columns.iter().map(|position| position + width).collect()
    };
    Ok(match (left, right) {
        (No(reason), _) | (_, No(reason)) => No(reason),
        (Whole, Whole) => Whole,
        (Cut(columns), Whole) => match join.join_type {
            Inner | Left | LeftSemi | LeftAnti | LeftMark => Cut(columns),
            _ => No("a join that keeps rows which every slice has".to_owned()),
        },
        (Whole, Cut(columns)) => match join.join_type {
            Inner | Right => Cut(shift(&columns)),
            RightSemi | RightAnti | RightMark => Cut(columns),
            _ => No("a join that keeps rows which every slice has".to_owned()),
        },
        (Cut(of_left), Cut(of_right)) => {
            let is_by = |one: &Expr, another: &Expr| {
                let left = key_of(one, &join.left).is_some_and(|position| of_left.contains(&position));
                left && key_of(another, &join.right).is_some_and(|position| of_right.contains(&position))
            };
            let is_by_condition = |condition: &Expr| match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    is_by(left, right) || is_by(right, left)
                }
                _ => false,
            };
            let by_keys = join.on.iter().any(|(left, right)| is_by(left, right));
            if !by_keys && !join.filter.iter().flat_map(split_conjunction).any(is_by_condition) {
                return Ok(No(format!("a join that isn't by {}", axis.name())));
            }
            // Rows without a partner have nulls there, in every slice.
            match join.join_type {
                Inner => Cut(&of_left | &shift(&of_right)),
                Left | LeftSemi | LeftAnti | LeftMark => Cut(of_left),
                Right => Cut(shift(&of_right)),
                RightSemi | RightAnti | RightMark => Cut(of_right),
                Full => Cut(BTreeSet::new()),
            }
        }
    })
}

/// The fit of as-of, window and horizon joins.
fn of_time_join(plan: &LogicalPlan, axis: Axis) -> Result<AxisFit> {
    let Some(join) = joins::time_join(plan) else { return Ok(No(format!("{} needs all rows", title(plan)))) };
    let mut columns = match (along(join.left, axis)?, along(join.right, axis)?) {
        (No(reason), _) | (_, No(reason)) => return Ok(No(reason)),
        (Whole, Whole) => return Ok(Whole),
        (Whole, Cut(_)) => return Ok(No("a join that keeps rows which every slice has".to_owned())),
        (Cut(columns), Whole) => columns,
        (Cut(of_left), Cut(of_right)) => {
            let is_by = |(left, right): &(Expr, Expr)| {
                key_of(left, join.left).is_some_and(|position| of_left.contains(&position))
                    && key_of(right, join.right).is_some_and(|position| of_right.contains(&position))
            };
            if !join.keys.iter().any(is_by) {
                return Ok(No(format!("a join by time that isn't by {}", axis.name())));
            }
            of_left
        }
    };
    // The number of a left row is that row's alone.
    columns.extend(join.left_row);
    Ok(Cut(columns))
}
