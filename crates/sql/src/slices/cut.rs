//! Cuts a statement's plan: the largest parts that may run on slices become leaves.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::logical_plan::{Distinct, FetchType, Limit, SkipType};
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use splay_functions::walk::Walk;
use splay_store::TableSnapshot;

use super::slicing_axis::{Axis, AxisFit, GAP_FILLS, along, with_table};
use super::table::{LeafSource, read};
use super::two_phase_grouping::{halves, is_unordered};

/// A part of a statement that may run on slices.
#[derive(Debug)]
pub(crate) struct SliceablePart {
    pub(crate) plan: LogicalPlan,
    pub(crate) axes: Vec<Axis>,
    /// Whether it is the whole statement.
    pub(crate) is_whole: bool,
    pub(crate) source: Arc<LeafSource>,
}

impl SliceablePart {
    /// A digest that two processes compare to see that they planned the same text alike.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.plan.display_indent_schema().to_string().hash(&mut hasher);
        hasher.finish()
    }

    /// The tables that it reads.
    pub(crate) fn tables(&self) -> Result<Vec<TableSnapshot>> {
        let mut tables = Vec::new();
        self.plan.apply(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                tables.extend(with_table(scan, |table| table.snapshot().clone()));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(tables)
    }
}

/// A statement's plan in two parts: leaves, and the rest, which processes their rows.
#[derive(Debug)]
pub(crate) struct CutPlan {
    pub(crate) top: LogicalPlan,
    pub(crate) parts: Vec<SliceablePart>,
    /// The reasons why parts aren't cut, or not along every axis.
    pub(crate) reasons: Vec<String>,
}

/// Cuts a plan whose joins are converted, before it is optimised.
pub(crate) fn cut(plan: LogicalPlan) -> Result<CutPlan> {
    let mut cutter = Cutter { root: plan.clone(), parts: Vec::new(), reasons: Vec::new() };
    let top = cutter.cut(plan)?;
    if !cutter.parts.is_empty() && fills_gaps(&top)? {
        cutter.reasons.push("gaps are filled above the part that could be cut".to_owned());
        return Ok(CutPlan { top: cutter.root, parts: Vec::new(), reasons: cutter.reasons });
    }
    Ok(CutPlan { top, parts: cutter.parts, reasons: cutter.reasons })
}

fn fills_gaps(plan: &LogicalPlan) -> Result<bool> {
    let is_fill = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if GAP_FILLS.contains(&call.func.name()));
    plan.exists(|node| {
        let mut has_gap_fill = false;
        for expr in node.expressions() {
            has_gap_fill |= expr.exists(|expr| Ok(is_fill(expr)))?;
        }
        Ok(has_gap_fill)
    })
}

struct Cutter {
    root: LogicalPlan,
    parts: Vec<SliceablePart>,
    reasons: Vec<String>,
}

impl Cutter {
    fn cut(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let axes = self.axes(&plan)?;
        if !axes.is_empty() {
            if !is_worth_it(&plan)? || !shows_no_numbers(&plan) {
                return Ok(plan);
            }
            match &plan {
                // The whole statement is planned as written, with a tick plan if it has one.
                LogicalPlan::Sort(sort) if plan == self.root => {
                    let mut sort = sort.clone();
                    sort.input = Arc::new(self.leaf(plan, axes)?);
                    return Ok(LogicalPlan::Sort(sort));
                }
                plan if is_sorted(plan) => {}
                _ => return self.leaf(plan, axes),
            }
        }
        match plan {
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Aggregate(aggregate) if is_unordered(&aggregate) => {
                let axes = self.axes(&aggregate.input)?;
                if axes.is_empty() {
                    return self.children(LogicalPlan::Aggregate(aggregate));
                }
                match halves(&aggregate)? {
                    Ok(halves) if shows_no_numbers(&halves.first) => {
                        let before = self.parts.len();
                        let leaf = self.leaf(halves.first.clone(), axes)?;
                        if let Some(plan) = halves.over(leaf)? {
                            return Ok(plan);
                        }
                        self.parts.truncate(before);
                        self.note("an aggregate whose halves have another type");
                    }
                    Ok(_) => self.note("numbers of rows stay in their slice"),
                    Err(reason) => self.note(&reason),
                }
                self.children(LogicalPlan::Aggregate(aggregate))
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => self.children(plan),
            // The rest may depend on the order of the rows.
            other => Ok(other),
        }
    }

    fn children(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let is_sort_of_some = matches!(&plan, LogicalPlan::Sort(sort) if sort.fetch.is_some());
        if is_sort_of_some {
            return Ok(plan);
        }
        Ok(plan.map_children(|child| Ok(Transformed::yes(self.cut(child)?)))?.data)
    }

    /// The axes along which a plan may be cut; records the reasons against the others.
    fn axes(&mut self, plan: &LogicalPlan) -> Result<Vec<Axis>> {
        let mut axes = Vec::new();
        for axis in [Axis::Symbol, Axis::Date] {
            match along(plan, axis)? {
                AxisFit::Cut(_) => axes.push(axis),
                AxisFit::Whole => {}
                AxisFit::No(reason) => self.note(&reason),
            }
        }
        Ok(axes)
    }

    fn note(&mut self, reason: &str) {
        if !self.reasons.iter().any(|reason_before| reason_before == reason) {
            self.reasons.push(reason.to_owned());
        }
    }

    fn leaf(&mut self, plan: LogicalPlan, axes: Vec<Axis>) -> Result<LogicalPlan> {
        let source = Arc::new(LeafSource::default());
        let leaf = read(self.parts.len(), plan.schema(), Arc::clone(&source))?;
        let is_whole = plan == self.root;
        self.parts.push(SliceablePart { plan, axes, is_whole, source });
        Ok(leaf)
    }

    /// The first rows in an order: the first ones of each slice, and then the first of these.
    fn limit(&mut self, limit: Limit) -> Result<LogicalPlan> {
        let number = match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) => skip.checked_add(fetch),
            _ => None,
        };
        let Some(number) = number.and_then(|number| i64::try_from(number).ok()) else {
            self.note("a limit that isn't a number");
            return Ok(LogicalPlan::Limit(limit));
        };
        // Projections between the limit and the sort change neither rows nor their order.
        let mut sorted = limit.input.as_ref();
        while let LogicalPlan::Projection(projection) = sorted {
            sorted = &projection.input;
        }
        let LogicalPlan::Sort(sort) = sorted else {
            self.note("a limit without an order takes the first rows of the table");
            return Ok(LogicalPlan::Limit(limit));
        };
        let axes = self.axes(sorted)?;
        if axes.is_empty() || sort.fetch.is_some() {
            return self.children(LogicalPlan::Limit(limit));
        }
        if !shows_no_numbers(sorted) {
            return Ok(LogicalPlan::Limit(limit));
        }
        let sorted = sorted.clone();
        let first = Limit { skip: None, fetch: Some(Box::new(lit(number))), input: Arc::new(sorted.clone()) };
        let leaf = self.leaf(LogicalPlan::Limit(first), axes)?;
        let mut put = Some(leaf);
        let plan = LogicalPlan::Limit(limit).transform_down(|node| match node {
            LogicalPlan::Sort(mut sort) => {
                if let Some(leaf) = put.take() {
                    sort.input = Arc::new(leaf);
                }
                Ok(Transformed::new(LogicalPlan::Sort(sort), true, TreeNodeRecursion::Jump))
            }
            node => Ok(Transformed::no(node)),
        })?;
        Ok(plan.data)
    }
}

/// Whether a part does work that is better done near the rows.
fn is_worth_it(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(!matches!(node, LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_)))
    })
}

/// Whether a plan has an order of its own, which slices don't preserve.
fn is_sorted(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => is_sorted(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_sorted(&alias.input),
        _ => false,
    }
}

/// Whether no column of a part numbers rows.
fn shows_no_numbers(plan: &LogicalPlan) -> bool {
    !plan.schema().fields().iter().any(|field| field.name().starts_with("__"))
}
