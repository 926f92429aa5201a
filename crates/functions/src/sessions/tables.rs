//! `trading_days(calendar [, from, to])`, `trading_sessions`, `special_days`, and `calendars()`, in the place of a table.
//!
//! Rows are in the order of dates. Both dates are included; without dates the rows are those of all that the calendar covers.
//! Arguments are constants. One that is null gives no rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use chrono::NaiveDate;
use datafusion::catalog::{MemTable, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::logical_expr::Expr;
use splay_calendar::Calendar;

use super::custom_calendars::calendar_in;
use super::rows;

type Rows = fn(&Calendar, NaiveDate, NaiveDate) -> Result<RecordBatch>;

/// All table functions of calendars.
pub(super) fn all() -> Vec<Arc<TableFunction>> {
    let of_calendar = |name: &'static str, schema: SchemaRef, rows: Rows| {
        Arc::new(TableFunction::new(name.to_owned(), Arc::new(CalendarRows { name, schema, rows })))
    };
    vec![
        of_calendar("trading_days", rows::trading_days_schema(), rows::trading_days),
        of_calendar("trading_sessions", rows::trading_sessions_schema(), rows::trading_sessions),
        of_calendar("special_days", rows::special_days_schema(), rows::special_days),
        Arc::new(TableFunction::new("calendars".to_owned(), Arc::new(Calendars))),
    ]
}

/// Rows of one calendar.
#[derive(Debug)]
struct CalendarRows {
    name: &'static str,
    schema: SchemaRef,
    rows: Rows,
}

impl TableFunctionImpl for CalendarRows {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let (calendar, dates) = match args.exprs() {
            [calendar] => (calendar, None),
            [calendar, from, to] => (calendar, Some((from, to))),
            _ => return self.wrong_arguments(),
        };
        let Some(ScalarValue::Utf8(name)) = constant(calendar, &DataType::Utf8) else { return self.wrong_arguments() };
        let Some(name) = name else { return table(RecordBatch::new_empty(Arc::clone(&self.schema))) };
        let calendar = calendar_in(&name, args.session().config())?;
        let (from, to) = match dates {
            None => (*calendar.covered().start(), *calendar.covered().end()),
            Some((from, to)) => match (self.date(from)?, self.date(to)?) {
                (Some(from), Some(to)) => (from, to),
                _ => return table(RecordBatch::new_empty(Arc::clone(&self.schema))),
            },
        };
        table((self.rows)(&calendar, from, to)?)
    }
}

impl CalendarRows {
    fn wrong_arguments<T>(&self) -> Result<T> {
        plan_err!(
            "{0} takes (calendar) or (calendar, from, to), as in {0}('NYSE', '2024-01-01', '2024-12-31')",
            self.name
        )
    }

    fn date(&self, expr: &Expr) -> Result<Option<NaiveDate>> {
        if let Expr::Literal(value, _) = expr
            && matches!(value.data_type(), DataType::Timestamp(..))
        {
            return plan_err!("{} takes dates, not times", self.name);
        }
        match constant(expr, &DataType::Date32) {
            Some(ScalarValue::Date32(None)) => Ok(None),
            Some(ScalarValue::Date32(Some(days))) => {
                let date = NaiveDate::default().checked_add_signed(chrono::TimeDelta::days(i64::from(days)));
                date.map(Some).ok_or_else(|| plan_datafusion_err!("{expr} is no date of a calendar"))
            }
            _ => plan_err!("{} takes constant dates such as '2024-12-31', not {expr}", self.name),
        }
    }
}

/// The value of a constant as a type, if it is one and has one there.
fn constant(expr: &Expr, to: &DataType) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => value.cast_to(to).ok(),
        _ => None,
    }
}

/// Which calendars there are.
#[derive(Debug)]
struct Calendars;

impl TableFunctionImpl for Calendars {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        match args.exprs() {
            [] => table(rows::calendars()?),
            _ => plan_err!("calendars takes no arguments"),
        }
    }
}

fn table(rows: RecordBatch) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
}
