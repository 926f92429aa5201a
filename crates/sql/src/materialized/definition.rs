//! The definition of a materialized view: its left table, its time column, and the times at which its rows can be
//! split into parts.
//!
//! - The query's rows with times in a part depend only on the table's rows with times in the part, if at the part's
//!   ends one `GROUP BY` value is unchanged: the time itself, or a function that rounds it down and never falls while
//!   the time rises. So every node above the table must work row by row, or group by such a value.
//! - A join whose left side contains the table works row by row too. The rows of a part then also depend on the
//!   tables of the right side: on all their rows, or, for a backward as-of join, on those before the part's end.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, TimestampNanosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit, TimestampNanosecondType};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::logical_plan::{Join, TableScan};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Volatility, col};
use datafusion::physical_plan::PhysicalExpr;
use splay_engine::asof::Direction;
use splay_functions::own_calendar;
use splay_store::TableSpec;

use crate::joins::asof_parts;
use crate::provider::TickTable;

/// Functions that round a time down.
pub(super) const FLOORS: [&str; 4] = ["time_bucket", "date_trunc", "date_bin", "xbar"];

/// Functions whose rows follow from those of all buckets.
const FILLS: [&str; 4] = ["time_bucket_gapfill", "__sample_fill", "locf", "interpolate"];

/// Name of the time in expressions of it alone.
const TIME: &str = "time";

/// Times that buckets within buckets are rounded down.
const ROUNDS_MAX: usize = 16;

/// Instants from 2024-01-01 on, over five years, at which buckets are tried.
const FIRST_SAMPLE: i64 = 1_704_067_200_000_000_000;
const SAMPLE_STEP: i64 = 171_931 * 1_000_000_000;
const SAMPLES: i64 = 1_000;

/// Distances from an instant, in nanoseconds, at which the next bucket is looked for: they double from an hour to nine years.
const FIRST_STEP: i64 = 3_600 * 1_000_000_000;
const LAST_STEP: i64 = 1 << 58;

/// Zone of stored times.
const ZONE: &str = "UTC";

/// The parts of a view's query.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The table that it reads.
    pub(crate) table: String,
    /// That table's time column.
    pub(crate) table_time: String,
    /// Other tables that its rows follow from.
    pub(crate) others: Vec<JoinedTable>,
    /// Position of the column that is the time of its rows: the first that is the table's time or a bucket of it.
    pub(crate) time: usize,
    /// For each grouping, and at last for the time of the rows: the expressions of which one must be constant at an instant for rows to be parted
    /// there.
    groupings: Vec<Vec<Arc<dyn PhysicalExpr>>>,
}

/// A table on the right side of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinedTable {
    pub(crate) table: String,
    /// Whether rows later than those of the left side don't count.
    pub(crate) only_before: bool,
}

/// The kind of a plan's column.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// The time of the table's rows.
    Time,
    /// That time, rounded down.
    Floor(Expr),
    Other,
}

fn refuse<T>(what: &str) -> Result<T> {
    Err(DataFusionError::Plan(format!(
        "a materialized view goes through one table and groups by a bucket of its time, such as time_bucket('1m', ts): {what}"
    )))
}

impl Definition {
    /// Looks at the plan of a query.
    ///
    /// # Errors
    /// Why its rows can't be kept.
    pub(crate) fn of(state: &SessionState, plan: &LogicalPlan) -> Result<Definition> {
        let mut walk = DefinitionWalk::default();
        let kinds = walk.columns(plan)?;
        let Some((table, table_time)) = walk.table else { return refuse("it reads no table") };
        let is_time = |place: &usize| {
            kinds[*place] != Kind::Other && matches!(plan.schema().field(*place).data_type(), DataType::Timestamp(_, _))
        };
        let Some(time) = (0..kinds.len()).find(is_time) else {
            return refuse("none of its columns is the time or a bucket of it");
        };
        let mut groupings = walk.groupings;
        let is_rounded = matches!(kinds[time], Kind::Floor(_));
        groupings.push(vec![kinds[time].clone()]);
        let schema = DFSchema::try_from(Schema::new(vec![Field::new(TIME, time_type(), false)]))?;
        let physical = |kind: Kind| match kind {
            Kind::Floor(expr) => state.create_physical_expr(expr, &schema).map(Some),
            _ => Ok(None),
        };
        let mut all = Vec::new();
        // The time itself stays as it is everywhere.
        for grouping in groupings.into_iter().filter(|kinds| !kinds.contains(&Kind::Time)) {
            let floors = grouping.into_iter().map(physical).collect::<Result<Vec<_>>>()?;
            all.push(floors.into_iter().flatten().collect());
        }
        let definition = Definition { table, table_time, others: walk.others, time, groupings: all };
        match !is_rounded || definition.keeps_times()? {
            true => Ok(definition),
            false => {
                refuse("its buckets are made of others that don't fit into them; keep those, and let a view group them")
            }
        }
    }

    /// For each instant the last one, not after it, at which rows can be parted: where the bucket begins that it is in. `None` if there is no such
    /// instant near.
    ///
    /// # Errors
    /// Those of the functions.
    pub(crate) fn cuts(&self, instants: &[i64]) -> Result<Vec<Option<i64>>> {
        let mut cuts = instants.to_vec();
        let mut is_settled = vec![true; instants.len()];
        for _ in 0..ROUNDS_MAX {
            let before = cuts.clone();
            for grouping in &self.groupings {
                for (cut, floor) in cuts.iter_mut().zip(last_of(grouping, &before)?) {
                    *cut = (*cut).min(floor);
                }
            }
            is_settled = cuts.iter().zip(&before).map(|(cut, before)| cut == before).collect();
            // Times without a bucket aren't rounded down again.
            cuts.iter_mut().zip(&before).filter(|(cut, _)| **cut == i64::MIN).for_each(|(cut, before)| *cut = *before);
            if is_settled.iter().all(|is_settled| *is_settled) {
                break;
            }
        }
        Ok(cuts.into_iter().zip(is_settled).map(|(cut, is_settled)| is_settled.then_some(cut)).collect())
    }

    /// For each instant the first one after it at which rows can be parted; `None` if there is none near.
    ///
    /// # Errors
    /// Those of the functions.
    pub(crate) fn next_cuts(&self, starts: &[i64]) -> Result<Vec<Option<i64>>> {
        let are_behind = |instants: &[i64]| {
            let cuts = self.cuts(instants)?;
            let is_behind = |(cut, start): (Option<i64>, &i64)| cut.is_some_and(|cut| cut > *start);
            Ok::<Vec<bool>, DataFusionError>(cuts.into_iter().zip(starts).map(is_behind).collect())
        };
        // For each one the last instant that is known to be before the cut, and one that may be behind it.
        let mut ranges: Vec<(i64, i64)> =
            starts.iter().map(|start| (*start, start.saturating_add(FIRST_STEP))).collect();
        let ends = |ranges: &[(i64, i64)]| ranges.iter().map(|(_, behind)| *behind).collect::<Vec<_>>();
        let mut is_found = are_behind(&ends(&ranges))?;
        let mut step = FIRST_STEP;
        while step <= LAST_STEP && is_found.contains(&false) {
            step *= 2;
            let open = ranges.iter_mut().zip(starts).zip(&is_found).filter(|(_, is_found)| !**is_found);
            open.for_each(|((range, start), _)| *range = (range.1, start.saturating_add(step)));
            is_found = are_behind(&ends(&ranges))?;
        }
        // The cut before an instant never falls while the instant rises.
        let is_wide = |(before, behind): &(i64, i64)| before.saturating_add(1) < *behind;
        while ranges.iter().zip(&is_found).any(|(range, is_found)| *is_found && is_wide(range)) {
            let middles: Vec<i64> = ranges.iter().map(|(before, behind)| before.midpoint(*behind)).collect();
            for ((range, middle), is_behind) in ranges.iter_mut().zip(&middles).zip(are_behind(&middles)?) {
                if is_wide(range) {
                    *range = if is_behind { (range.0, *middle) } else { (*middle, range.1) };
                }
            }
        }
        Ok(ranges.into_iter().zip(is_found).map(|((_, behind), is_found)| is_found.then_some(behind)).collect())
    }

    /// Whether rounding leaves the rows' times, which are rounded already, as they are. That of a month of weeks isn't: the week in which a month
    /// begins may be one of the month before.
    fn keeps_times(&self) -> Result<bool> {
        let Some(grouping) = self.groupings.last() else { return Ok(true) };
        let samples: Vec<i64> = (0..SAMPLES).map(|number| FIRST_SAMPLE + number * SAMPLE_STEP).collect();
        let floors = last_of(grouping, &samples)?;
        Ok(last_of(grouping, &floors)? == floors)
    }
}

/// Times rounded down by each expression of a grouping, the latest of each; `i64::MIN` where none gives one.
fn last_of(grouping: &[Arc<dyn PhysicalExpr>], instants: &[i64]) -> Result<Vec<i64>> {
    let mut last = vec![i64::MIN; instants.len()];
    for floor in grouping {
        for (last, value) in last.iter_mut().zip(floors(floor.as_ref(), instants)?) {
            *last = (*last).max(value);
        }
    }
    Ok(last)
}

/// Times rounded down; `i64::MIN` where there is no such time.
fn floors(floor: &dyn PhysicalExpr, instants: &[i64]) -> Result<Vec<i64>> {
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(instants.to_vec()).with_timezone(ZONE));
    let schema = Arc::new(Schema::new(vec![Field::new(TIME, time_type(), false)]));
    let rows = RecordBatch::try_new(schema, vec![times])?;
    let values = cast(&floor.evaluate(&rows)?.into_array(instants.len())?, &time_type())?;
    let values = values.as_primitive::<TimestampNanosecondType>();
    Ok(values.iter().map(|value| value.unwrap_or(i64::MIN)).collect())
}

fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into()))
}

#[derive(Default)]
struct DefinitionWalk {
    /// Name and time column.
    table: Option<(String, String)>,
    groupings: Vec<Vec<Kind>>,
    others: Vec<JoinedTable>,
}

impl DefinitionWalk {
    /// The kinds of a plan's columns.
    fn columns(&mut self, plan: &LogicalPlan) -> Result<Vec<Kind>> {
        plan.apply_expressions(|expr| {
            expr.apply(|inner| refuse_expression(inner).map(|()| TreeNodeRecursion::Continue))
        })?;
        match plan {
            LogicalPlan::TableScan(scan) => {
                let spec = table_of(scan)?;
                if spec.reference.is_some() {
                    return refuse("a reference table has no time");
                }
                self.table = Some((spec.name.clone(), spec.time.clone()));
                let kind = |name: &String| if name.eq_ignore_ascii_case(&spec.time) { Kind::Time } else { Kind::Other };
                Ok(scan.projected_schema.fields().iter().map(|field| kind(field.name())).collect())
            }
            LogicalPlan::SubqueryAlias(node) => self.columns(&node.input),
            LogicalPlan::Filter(node) => self.columns(&node.input),
            LogicalPlan::Sort(node) if node.fetch.is_none() => self.columns(&node.input),
            LogicalPlan::Projection(node) => {
                let input = self.columns(&node.input)?;
                node.expr.iter().map(|expr| kind_of(expr, node.input.schema(), &input)).collect()
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let kinds = self.columns(input)?;
                self.group(kinds.clone())?;
                Ok(kinds)
            }
            LogicalPlan::Aggregate(node) => self.aggregate(node),
            LogicalPlan::Window(_) => refuse("a window function sees rows of other buckets"),
            LogicalPlan::Limit(_) | LogicalPlan::Sort(_) => refuse("LIMIT takes rows of all buckets together"),
            LogicalPlan::Distinct(_) => refuse("DISTINCT ON isn't kept"),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::EmptyRelation(_) => refuse("it reads no table"),
            LogicalPlan::Union(_) => refuse("it is a union"),
            other => refuse(&format!(
                "{} isn't kept",
                other.display().to_string().split([':', ' ']).next().unwrap_or("this")
            )),
        }
    }

    /// A join as a function of its left side's rows.
    fn join(&mut self, join: &Join) -> Result<Vec<Kind>> {
        use JoinType::{Inner, Left, LeftAnti, LeftSemi};
        if !matches!(join.join_type, Inner | Left | LeftAnti | LeftSemi) {
            return refuse("rows of the right side of a join may come alone");
        }
        let mut kinds = self.columns(&join.left)?;
        match self.only_before(join, &kinds)? {
            Some(table) => self.others.push(JoinedTable { table, only_before: true }),
            None => self.add_all_of(&join.right)?,
        }
        kinds.resize(join.schema.fields().len().max(kinds.len()), Kind::Other);
        Ok(kinds)
    }

    /// The right side's table, if the join takes none of its rows that are later than the left one.
    fn only_before(&self, join: &Join, left: &[Kind]) -> Result<Option<String>> {
        let Some(parts) = asof_parts(join)? else { return Ok(None) };
        let mut right = DefinitionWalk::default();
        let Ok(kinds) = right.columns(&join.right) else { return Ok(None) };
        let is_time = |expr: &Expr, schema: &DFSchema, kinds: &[Kind]| {
            kind_of(expr, schema, kinds).is_ok_and(|kind| kind == Kind::Time)
        };
        let is_before = parts.rule.direction == Direction::Backward
            && is_time(&parts.left_time, join.left.schema(), left)
            && is_time(&parts.right_time, join.right.schema(), &kinds)
            && right.groupings.is_empty()
            && right.others.is_empty();
        Ok(right.table.filter(|_| is_before).map(|(table, _)| table))
    }

    /// All tables of a plan, with all of their rows.
    fn add_all_of(&mut self, plan: &LogicalPlan) -> Result<()> {
        plan.apply(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|inner| refuse_expression(inner).map(|()| TreeNodeRecursion::Continue))
            })?;
            if let LogicalPlan::TableScan(scan) = node {
                self.others.push(JoinedTable { table: table_of(scan)?.name, only_before: false });
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn aggregate(&mut self, node: &Aggregate) -> Result<Vec<Kind>> {
        let input = self.columns(&node.input)?;
        if node.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return refuse("GROUPING SETS, CUBE and ROLLUP group by less than the bucket");
        }
        let mut kinds: Vec<Kind> =
            node.group_expr.iter().map(|expr| kind_of(expr, node.input.schema(), &input)).collect::<Result<_>>()?;
        self.group(kinds.clone())?;
        kinds.extend(node.aggr_expr.iter().map(|_| Kind::Other));
        Ok(kinds)
    }

    fn group(&mut self, kinds: Vec<Kind>) -> Result<()> {
        let kinds: Vec<Kind> = kinds.into_iter().filter(|kind| *kind != Kind::Other).collect();
        if kinds.is_empty() {
            return refuse(
                "a grouping of it has no bucket of the time; keep totals or last values by day, and let a view group the days",
            );
        }
        self.groupings.push(kinds);
        Ok(())
    }
}

/// The table that a plan scans.
fn table_of(scan: &TableScan) -> Result<TableSpec> {
    let provider = source_as_provider(&scan.source).ok();
    let Some(table) = provider.as_ref().and_then(|provider| provider.downcast_ref::<TickTable>()) else {
        return refuse("it reads something else than a table");
    };
    if scan.table_name.table().contains('@') {
        return refuse("a table as it was doesn't change");
    }
    Ok(table.spec().clone())
}

/// The kind of an expression over the columns of a plan.
fn kind_of(expr: &Expr, schema: &DFSchema, input: &[Kind]) -> Result<Kind> {
    let kind_of_column = |expr: &Expr| match expr {
        Expr::Column(column) => schema.index_of_column(column).map(|place| input[place].clone()),
        _ => Ok(Kind::Other),
    };
    let function = match without_alias(expr) {
        Expr::ScalarFunction(function) if FLOORS.contains(&function.name()) => function,
        other => return kind_of_column(other),
    };
    // The width or unit, then what is rounded; zone and origin are constants.
    let [width, value, rest @ ..] = function.args.as_slice() else { return Ok(Kind::Other) };
    let time = match kind_of_column(value)? {
        Kind::Time => col(TIME),
        Kind::Floor(inner) => inner,
        Kind::Other => return Ok(Kind::Other),
    };
    if std::iter::once(width).chain(rest).any(|arg| !arg.column_refs().is_empty()) {
        return Ok(Kind::Other);
    }
    let args = [width.clone(), time].into_iter().chain(rest.iter().cloned()).collect();
    Ok(Kind::Floor(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&function.func), args))))
}

fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// Refuses what may give something else for the same rows.
fn refuse_expression(expr: &Expr) -> Result<()> {
    match expr {
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => {
            refuse("it has a query within")
        }
        Expr::Placeholder(_) => refuse("it has parameters"),
        Expr::WindowFunction(_) => refuse("a window function sees rows of other buckets"),
        Expr::ScalarFunction(function) if FILLS.contains(&function.name()) => {
            refuse("a gap fill goes from the first bucket of all to the last")
        }
        Expr::ScalarFunction(function) if let Some(calendar) = own_calendar(&function.func) => refuse(&format!(
            "the calendar {} is a table, whose changes the rows that are kept wouldn't follow; a view that isn't materialized reads it each time",
            calendar.name()
        )),
        Expr::ScalarFunction(function) if function.func.signature().volatility != Volatility::Immutable => {
            refuse(&format!("{} gives another value each time", function.name()))
        }
        _ => Ok(()),
    }
}
