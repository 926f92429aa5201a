//! From when to when gaps are filled: what the call says, else what `WHERE` says of the time; and in which sessions.
//!
//! Only what must hold of every row counts: comparisons with constants that stand alone or are joined by `AND`, in `WHERE` or in the `ON` of an
//! inner join. A bound that is a sub-query is refused, since its value isn't known when the fill is planned.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result, ScalarValue, plan_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::sessions::{CalendarHandle, IN_SESSION, calendar_of};
use crate::walk::Walk;

/// How a bound limits the times of the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BoundKind {
    /// At or behind it.
    From,
    /// Behind it.
    After,
    /// Before it.
    Before,
    /// At or before it.
    Until,
}

impl BoundKind {
    pub(super) fn is_start(self) -> bool {
        matches!(self, BoundKind::From | BoundKind::After)
    }

    /// The bound as the first instant within the range, or the first one behind it.
    pub(super) fn instant(self, t: i64) -> i64 {
        match self {
            BoundKind::From | BoundKind::Before => t,
            BoundKind::After | BoundKind::Until => t.saturating_add(1),
        }
    }

    fn of(operator: Operator) -> Option<BoundKind> {
        match operator {
            Operator::GtEq => Some(BoundKind::From),
            Operator::Gt => Some(BoundKind::After),
            Operator::Lt => Some(BoundKind::Before),
            Operator::LtEq => Some(BoundKind::Until),
            _ => None,
        }
    }
}

/// A constant that bounds the times.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TimeBound {
    pub kind: BoundKind,
    pub at: Expr,
}

/// The bounds that filters right below `plan` set to `time`.
pub(super) fn of_filters(plan: &LogicalPlan, time: &Expr) -> Vec<TimeBound> {
    let mut bounds = Vec::new();
    for_each_term(plan, |term| of_term(term, bare(time), &mut bounds));
    bounds
}

/// The calendar in whose sessions filters right below `plan` keep `time`.
///
/// # Errors
/// If they name two, or one that there isn't.
pub(super) fn calendar_of_filters(plan: &LogicalPlan, time: &Expr) -> Result<Option<CalendarHandle>> {
    let mut named_calendars: Vec<(String, Result<CalendarHandle>)> = Vec::new();
    for_each_term(plan, |term| {
        if let Expr::ScalarFunction(call) = term
            && call.func.name() == IN_SESSION
            && let [instant, name] = &call.args[..]
            && bare(instant) == bare(time)
            && let Some(ScalarValue::Utf8(Some(name))) = name.as_literal()
        {
            named_calendars.push((name.clone(), calendar_of(&call.func, name)));
        }
    });
    let (names, calendars): (Vec<_>, Vec<_>) = named_calendars.into_iter().unzip();
    let mut calendars = calendars.into_iter().collect::<Result<Vec<_>>>()?;
    match &calendars[..] {
        [first, others @ ..] if others.iter().any(|other| other.name() != first.name()) => {
            plan_err!(
                "a gap fill makes buckets in the sessions of one calendar, and WHERE names {}",
                names.join(" and ")
            )
        }
        _ => Ok(calendars.pop()),
    }
}

/// Calls `of_term` for what must hold of every row that comes from filters right below `plan`.
fn for_each_term(plan: &LogicalPlan, mut of_term: impl FnMut(&Expr)) {
    let mut plan = plan;
    let mut add = |predicate: &Expr| split_conjunction(predicate).into_iter().for_each(&mut of_term);
    while let LogicalPlan::Filter(filter) = plan {
        add(&filter.predicate);
        plan = &filter.input;
    }
    // What an inner join says holds of all its rows.
    if let LogicalPlan::Join(join) = plan
        && join.join_type == JoinType::Inner
        && let Some(predicate) = &join.filter
    {
        add(predicate);
    }
}

fn of_term(term: &Expr, time: &Expr, bounds: &mut Vec<TimeBound>) {
    let mut add = |kind: Option<BoundKind>, at: &Expr| {
        if let Some(kind) = kind.filter(|_| is_constant(at) || is_subquery(at)) {
            bounds.push(TimeBound { kind, at: at.clone() });
        }
    };
    match term {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            for (x, at) in [(left, right), (right, left)] {
                if bare(x) == time {
                    add(Some(BoundKind::From), at);
                    add(Some(BoundKind::Until), at);
                }
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if bare(left) == time => add(BoundKind::of(*op), right),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if bare(right) == time => {
            add(op.swap().and_then(BoundKind::of), left);
        }
        Expr::Between(between) if !between.negated && bare(&between.expr) == time => {
            add(Some(BoundKind::From), &between.low);
            add(Some(BoundKind::Until), &between.high);
        }
        _ => {}
    }
}

/// An expression without the casts to nanoseconds that type coercion puts around a time.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
            bare(&cast.expr)
        }
        other => other,
    }
}

/// Whether an expression is made of the one value of a sub-query.
pub(super) fn is_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_)))).unwrap_or(false) && !expr.any_column_refs()
}

/// Whether an expression has one value for the whole statement, known before its rows.
pub(super) fn is_constant(expr: &Expr) -> bool {
    let mut constant = !expr.is_volatile();
    let visited: Result<_> = expr.apply(|expr| {
        constant &= !matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        );
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && constant
}
