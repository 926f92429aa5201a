//! Trading calendars in SQL.
//!
//! | Question | Functions | File |
//! | --- | --- | --- |
//! | In which session is an instant? | `in_session`, `session_date`, `session_open`, `session_close` | `instants.rs` |
//! | Which dates trade? | `is_trading_day`, `next_trading_day`, `previous_trading_day`, `add_trading_days`, `trading_days_between` | `dates.rs` |
//! | As rows | `trading_days`, `trading_sessions`, `special_days`, `calendars` | `tables.rs` over `rows.rs` |
//!
//! A calendar is given by name. A shipped one's may be a column; one of the session's (`custom_calendars.rs`) is written as a literal. One that there isn't, and a
//! date or an instant that it doesn't cover, are errors.

mod custom_calendars;
mod dates;
mod instants;
mod rows;
mod tables;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use datafusion::catalog::TableFunction;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF};
use splay_calendar::Calendar;

pub(super) use custom_calendars::{CalendarHandle, calendar_of};
pub use custom_calendars::{CalendarSource, OwnCalendars, own_calendar, with_own_calendars};
pub(super) use instants::IN_SESSION;
pub use rows::{calendars, special_days, trading_days, trading_sessions};

/// The scalar functions of calendars.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let instants = instants::InstantFunction::all().into_iter().map(ScalarUDF::from);
    instants.chain(dates::DateFunction::all().into_iter().map(ScalarUDF::from)).collect()
}

/// Whether a function is one of these, which fail for instants and dates that a calendar doesn't cover.
pub fn fails_out_of_range(name: &str) -> bool {
    matches!(
        name,
        "in_session"
            | "session_date"
            | "session_open"
            | "session_close"
            | "is_trading_day"
            | "next_trading_day"
            | "previous_trading_day"
            | "add_trading_days"
            | "trading_days_between"
    )
}

/// The table functions of calendars.
pub(super) fn table_functions() -> Vec<Arc<TableFunction>> {
    tables::all()
}

/// The shipped calendar of a name, or an error for DataFusion.
fn calendar(name: &str) -> Result<Arc<Calendar>> {
    Calendar::named(name).map_err(|error| {
        exec_datafusion_err!(
            "{error}; one that is a table of the database is named by a literal, such as in_session(ts, 'tokyo')"
        )
    })
}

/// Calls `of_run` for each run of rows of one calendar, with none where its name is null. A call that holds its own has no other.
fn for_each_calendar(
    own: Option<&CalendarHandle>,
    names: &ColumnarValue,
    rows: usize,
    mut of_run: impl FnMut(Option<&Calendar>, std::ops::Range<usize>) -> Result<()>,
) -> Result<()> {
    let names: ArrayRef = match names {
        ColumnarValue::Scalar(name) => name.to_array()?,
        ColumnarValue::Array(names) => Arc::clone(names),
    };
    let names = names.as_string::<i32>();
    let name = |row: usize| names.is_valid(row).then(|| names.value(row));
    // One name stands for all rows.
    let is_constant = names.len() == 1;
    let mut start = 0;
    while start < rows {
        let of_start = name(if is_constant { 0 } else { start });
        let is_other = |row: &usize| name(*row) != of_start;
        let end = if is_constant { rows } else { (start + 1..rows).find(is_other).unwrap_or(rows) };
        match (of_start, own) {
            (Some(_), Some(own)) => of_run(Some(own), start..end)?,
            (Some(name), None) => of_run(Some(&*calendar(name)?), start..end)?,
            (None, _) => of_run(None, start..end)?,
        }
        start = end;
    }
    Ok(())
}
