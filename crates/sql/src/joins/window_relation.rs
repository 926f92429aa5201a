//! Plans a window join: takes its condition apart and finds the order of the right's rows.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::Between;
use datafusion::logical_expr::logical_plan::Extension;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast;
use splay_functions::{RowOrder, carry_order};

use super::convert::{check_time, coerce};
use super::relation::{Parts, Side, compared, filtered, side_of};
use super::window_node::WindowNode;

const CONDITIONS: &str = "a WINDOW JOIN takes equalities between both sides, conditions on the right side alone, and the \
                          bounds of the window, as in b.ts BETWEEN a.ts - INTERVAL '1 second' AND a.ts";

/// `tables` know the order of their rows.
pub(super) fn plan(
    parts: Parts,
    tables: &dyn RowOrder,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let schema = parts.left.schema().join(parts.right.schema())?;
    let ast::JoinConstraint::On(on) = &parts.constraint else {
        return plan_err!("a WINDOW JOIN needs ON; {CONDITIONS}");
    };
    let mut condition = Condition::default();
    condition.add(context.sql_to_expr(on.clone(), &schema)?, parts.left.schema(), parts.right.schema())?;
    let (Some(begin), Some(end)) = (condition.begin, condition.end) else {
        return plan_err!("a window needs a begin and an end; {CONDITIONS}");
    };
    if begin.time != end.time {
        return plan_err!("{} and {} are two times of one window; {CONDITIONS}", begin.time, end.time);
    }
    let prevailing = parts.says("include");
    let right = filtered(parts.right, condition.filters)?;
    let ordered = carry_order(tables, &right)?;
    let own = right.schema().columns();
    let hidden = ordered.plan.schema().columns().into_iter().filter(|column| !own.contains(column)).collect();
    let (begin_bound, begin_time) = coerce(&begin.bound, &parts.left, &begin.time, &right)?;
    let (end_bound, end_time) = coerce(&end.bound, &parts.left, &end.time, &right)?;
    if begin_time != end_time {
        return plan_err!("the bounds {} and {} of a window have different types", begin.bound, end.bound);
    }
    check_time(&begin_time, &begin_time.get_type(right.schema())?)?;
    let keys = condition.keys.iter().map(|(left, of_right)| coerce(left, &parts.left, of_right, &right));
    let node = WindowNode {
        keys: keys.collect::<Result<_>>()?,
        schema: Arc::clone(parts.left.schema()),
        left: parts.left,
        right: ordered.plan,
        right_time: begin_time,
        begin: (begin_bound, begin.inclusive),
        end: (end_bound, end.inclusive),
        prevailing,
        order: ordered.order,
        is_order_complete: ordered.is_complete,
        hidden,
    };
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node.with_schema()?) }))
}

/// One bound of a window.
struct WindowBound {
    /// Over the left.
    bound: Expr,
    /// Over the right.
    time: Expr,
    inclusive: bool,
}

/// A condition taken apart.
#[derive(Default)]
struct Condition {
    keys: Vec<(Expr, Expr)>,
    begin: Option<WindowBound>,
    end: Option<WindowBound>,
    filters: Vec<Expr>,
}

impl Condition {
    fn add(&mut self, on: Expr, left: &DFSchema, right: &DFSchema) -> Result<()> {
        for expr in split_conjunction_owned(on) {
            if side_of(&expr, left, right)? == Some(Side::Right) {
                self.filters.push(expr);
                continue;
            }
            if let Expr::Between(Between { expr: time, negated: false, low, high }) = &expr {
                let compare =
                    |op, bound: &Expr| Expr::BinaryExpr(BinaryExpr::new(time.clone(), op, Box::new(bound.clone())));
                self.bound(&compare(Operator::GtEq, low), left, right)?;
                self.bound(&compare(Operator::LtEq, high), left, right)?;
                continue;
            }
            match compared(&expr, left, right)? {
                Some((left, Operator::Eq, right)) => self.keys.push((left, right)),
                _ => self.bound(&expr, left, right)?,
            }
        }
        Ok(())
    }

    fn bound(&mut self, expr: &Expr, left: &DFSchema, right: &DFSchema) -> Result<()> {
        let Some((bound, op, time)) = compared(expr, left, right)? else {
            return plan_err!("{expr} can't be a condition here; {CONDITIONS}");
        };
        let (place, inclusive) = match op {
            Operator::LtEq => (&mut self.begin, true),
            Operator::Lt => (&mut self.begin, false),
            Operator::GtEq => (&mut self.end, true),
            Operator::Gt => (&mut self.end, false),
            _ => return plan_err!("{expr} can't be a condition here; {CONDITIONS}"),
        };
        if place.is_some() {
            return plan_err!("{expr} is a second bound of the same side; {CONDITIONS}");
        }
        *place = Some(WindowBound { bound, time, inclusive });
        Ok(())
    }
}
