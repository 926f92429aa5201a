//! Calendars that whoever has the session adds to the shipped ones.
//!
//! Functions know no database. The session's configuration says where other calendars are found ([`OwnCalendars`]), and a plan gets those that it
//! names before it is optimized ([`with_own_calendars`]): each call of a function that names one holds it from then on, so that all rows of a
//! statement see the same calendar, whatever becomes of the table that it was read from.
//!
//! A call that names its calendar by a column or an expression finds the shipped ones alone.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::execution::context::SessionConfig;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use splay_calendar::Calendar;

use super::dates::DateFunction;
use super::instants::InstantFunction;
use crate::walk::{Walk, WalkPlan};

/// Where calendars are found that aren't shipped.
pub trait CalendarSource: Debug + Send + Sync {
    /// The calendar of a name that no shipped one has.
    ///
    /// # Errors
    /// If there is none, or what has the name is no calendar.
    fn calendar(&self, name: &str) -> Result<Arc<Calendar>>;
}

/// The extension of a session's configuration that says where they are.
#[derive(Debug)]
pub struct OwnCalendars(pub Arc<dyn CalendarSource>);

/// A calendar in a plan, equal to itself alone.
#[derive(Debug, Clone)]
pub(crate) struct CalendarHandle(pub Arc<Calendar>);

impl PartialEq for CalendarHandle {
    fn eq(&self, other: &CalendarHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CalendarHandle {}

impl Hash for CalendarHandle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Deref for CalendarHandle {
    type Target = Calendar;

    fn deref(&self) -> &Calendar {
        &self.0
    }
}

/// The calendar of a name: a shipped one, or one of the session's.
pub(super) fn calendar_in(name: &str, config: &SessionConfig) -> Result<Arc<Calendar>> {
    match (Calendar::named(name), config.get_extension::<OwnCalendars>()) {
        (Err(_), Some(own)) => own.0.calendar(name),
        (shipped, _) => shipped.map_err(|error| plan_datafusion_err!("{error}")),
    }
}

/// The calendar that a call of a function of calendars holds, if it holds one.
pub fn own_calendar(function: &ScalarUDF) -> Option<&Calendar> {
    let inner = function.inner();
    let of_instant = inner.downcast_ref::<InstantFunction>().and_then(|of| of.own.as_ref());
    let of_date = || inner.downcast_ref::<DateFunction>().and_then(|of| of.own.as_ref());
    of_instant.or_else(of_date).map(|own| &*own.0)
}

/// The calendar that a call names, of those held and shipped.
///
/// # Errors
/// If there is none.
pub(crate) fn calendar_of(function: &ScalarUDF, name: &str) -> Result<CalendarHandle> {
    let own = function.inner().downcast_ref::<InstantFunction>().and_then(|of| of.own.clone());
    own.map_or_else(|| super::calendar(name).map(CalendarHandle), Ok)
}

/// A plan whose calls hold the calendars that they name, where these aren't shipped.
///
/// # Errors
/// Those of the session's [`CalendarSource`].
pub fn with_own_calendars(plan: LogicalPlan, config: &SessionConfig) -> Result<LogicalPlan> {
    let mut calendars: HashMap<String, CalendarHandle> = HashMap::new();
    plan.walk_steps(|step| {
        step.walk_expressions(|expr| {
            expr.apply(|expr| {
                if let Some(name) = name_of_other(expr)
                    && !calendars.contains_key(name)
                {
                    calendars.insert(name.to_owned(), CalendarHandle(calendar_in(name, config)?));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if calendars.is_empty() {
        return Ok(plan);
    }
    let with_calendar_of_name = |expr: Expr| {
        let Some(own) = name_of_other(&expr).and_then(|name| calendars.get(name)) else {
            return Ok(Transformed::no(expr));
        };
        let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return Ok(Transformed::no(expr)) };
        let func = with_calendar(&func, own);
        Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
    };
    let rewritten = plan
        .rewrite_steps_down(|step| step.rewrite_expressions(|expr| Walk::transform_up(expr, with_calendar_of_name)));
    Ok(rewritten?.data)
}

/// The name that a call of a function of calendars gives, if no shipped calendar has it and the call holds none yet.
fn name_of_other(expr: &Expr) -> Option<&str> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let inner = call.func.inner();
    let of_instant = inner.downcast_ref::<InstantFunction>().map(|of| of.own.is_none());
    let is_open = of_instant.or_else(|| inner.downcast_ref::<DateFunction>().map(|of| of.own.is_none()));
    let name = is_open.filter(|is_open| *is_open).and_then(|_| call.args.last())?.as_literal()?.try_as_str()??;
    Calendar::named(name).is_err().then_some(name)
}

fn with_calendar(function: &Arc<ScalarUDF>, own: &CalendarHandle) -> Arc<ScalarUDF> {
    let inner = function.inner();
    if let Some(of) = inner.downcast_ref::<InstantFunction>() {
        return Arc::new(ScalarUDF::from(of.with(own.clone())));
    }
    match inner.downcast_ref::<DateFunction>() {
        Some(of) => Arc::new(ScalarUDF::from(of.with(own.clone()))),
        None => Arc::clone(function),
    }
}
