//! Functions of dates and a calendar.
//!
//! - `is_trading_day(date, calendar)`.
//! - `next_trading_day(date, calendar)` and `previous_trading_day`: the first behind, the last before; the date itself doesn't count.
//! - `add_trading_days(date, n, calendar)`: so many trading days later, or earlier; none gives the date itself.
//! - `trading_days_between(from, to, calendar)`: trading days from the first date to before the second; negative if that is the earlier.
//!
//! A date is a date or text. Timestamps are refused, since the date of one depends on a zone: `session_date` gives it.
//! Null in an argument gives null.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Date32Array, Int64Array};
use arrow::datatypes::{DataType, Date32Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use splay_calendar::Calendar;
use splay_store::days;

use super::{CalendarHandle, for_each_calendar};
use crate::arguments::is_text;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum DateFunctionKind {
    Trades,
    Next,
    Previous,
    Add,
    Between,
}

/// The scalar functions of dates and a calendar.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateFunction {
    question: DateFunctionKind,
    signature: Signature,
    /// The calendar that a plan was given, for the name in the call.
    pub(super) own: Option<CalendarHandle>,
}

impl DateFunction {
    pub(super) fn all() -> [DateFunction; 5] {
        [
            DateFunctionKind::Trades,
            DateFunctionKind::Next,
            DateFunctionKind::Previous,
            DateFunctionKind::Add,
            DateFunctionKind::Between,
        ]
        .map(|question| DateFunction {
            question,
            signature: Signature::user_defined(Volatility::Immutable),
            own: None,
        })
    }

    /// The same function with a calendar.
    pub(super) fn with(&self, own: CalendarHandle) -> DateFunction {
        DateFunction { question: self.question, signature: self.signature.clone(), own: Some(own) }
    }

    /// The argument between the date and the calendar.
    fn second(&self, data_type: &DataType) -> Result<DataType> {
        match self.question {
            DateFunctionKind::Add if data_type.is_integer() || data_type.is_null() => Ok(DataType::Int64),
            DateFunctionKind::Add => plan_err!("add_trading_days adds a whole number of days, not a {data_type}"),
            _ => self.date(data_type),
        }
    }

    fn date(&self, data_type: &DataType) -> Result<DataType> {
        match data_type {
            DataType::Timestamp(..) => plan_err!(
                "{} takes a date; session_date(time, calendar) gives that of a time, and time::date that of UTC",
                self.name()
            ),
            data_type
                if is_text(data_type) || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Null) =>
            {
                Ok(DataType::Date32)
            }
            data_type => plan_err!("{} takes a date, not a {data_type}", self.name()),
        }
    }
}

impl ScalarUDFImpl for DateFunction {
    fn name(&self) -> &str {
        match self.question {
            DateFunctionKind::Trades => "is_trading_day",
            DateFunctionKind::Next => "next_trading_day",
            DateFunctionKind::Previous => "previous_trading_day",
            DateFunctionKind::Add => "add_trading_days",
            DateFunctionKind::Between => "trading_days_between",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let has_second = matches!(self.question, DateFunctionKind::Add | DateFunctionKind::Between);
        match arg_types {
            [date, calendar] if !has_second && (is_text(calendar) || calendar.is_null()) => {
                Ok(vec![self.date(date)?, DataType::Utf8])
            }
            [date, second, calendar] if has_second && (is_text(calendar) || calendar.is_null()) => {
                Ok(vec![self.date(date)?, self.second(second)?, DataType::Utf8])
            }
            _ => plan_err!(
                "{} takes ({}, calendar)",
                self.name(),
                match self.question {
                    DateFunctionKind::Add => "date, number",
                    DateFunctionKind::Between => "from, to",
                    _ => "date",
                }
            ),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.question {
            DateFunctionKind::Trades => DataType::Boolean,
            DateFunctionKind::Between => DataType::Int64,
            _ => DataType::Date32,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let [date, second @ .., names] = args.args.as_slice() else {
            return exec_err!("{} takes at least (date, calendar)", self.name());
        };
        let dates = date.to_array(rows)?;
        let second = second.first().map(|second| second.to_array(rows)).transpose()?;
        let result = self.answers(&dates, second.as_ref(), names)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

impl DateFunction {
    fn answers(&self, dates: &ArrayRef, second: Option<&ArrayRef>, names: &ColumnarValue) -> Result<ArrayRef> {
        let dates = dates.as_primitive::<Date32Type>();
        let mut answers: Vec<Option<i64>> = Vec::with_capacity(dates.len());
        for_each_calendar(self.own.as_ref(), names, dates.len(), |calendar, rows| {
            for row in rows {
                let second = match second {
                    Some(second) if second.is_null(row) => None,
                    Some(second) => Some(match self.question {
                        DateFunctionKind::Between => i64::from(second.as_primitive::<Date32Type>().value(row)),
                        _ => second.as_primitive::<Int64Type>().value(row),
                    }),
                    None => Some(0),
                };
                answers.push(match (calendar, dates.is_valid(row), second) {
                    (Some(calendar), true, Some(second)) => Some(self.answer(calendar, dates.value(row), second)?),
                    _ => None,
                });
            }
            Ok(())
        })?;
        Ok(match self.question {
            DateFunctionKind::Trades => {
                Arc::new(answers.into_iter().map(|answer| answer.map(|answer| answer != 0)).collect::<BooleanArray>())
            }
            DateFunctionKind::Between => Arc::new(answers.into_iter().collect::<Int64Array>()),
            _ => {
                let date = |answer: Option<i64>| answer.and_then(|answer| i32::try_from(answer).ok());
                Arc::new(answers.into_iter().map(date).collect::<Date32Array>())
            }
        })
    }

    fn answer(&self, calendar: &Calendar, date: i32, second: i64) -> Result<i64> {
        let date = date_of(date)?;
        let answer = match self.question {
            DateFunctionKind::Trades => calendar.is_trading_day(date).map(i64::from),
            DateFunctionKind::Next => calendar.nth_trading_day(date, 1).map(|date| i64::from(days(date))),
            DateFunctionKind::Previous => calendar.nth_trading_day(date, -1).map(|date| i64::from(days(date))),
            DateFunctionKind::Add => calendar.nth_trading_day(date, second).map(|date| i64::from(days(date))),
            DateFunctionKind::Between => {
                let to = date_of(i32::try_from(second).unwrap_or(i32::MAX))?;
                calendar.trading_days_between(date, to)
            }
        };
        answer.map_err(|error| exec_datafusion_err!("{error}"))
    }
}

/// The date of a number of days since 1970-01-01.
fn date_of(days: i32) -> Result<chrono::NaiveDate> {
    let date = chrono::NaiveDate::default().checked_add_signed(chrono::TimeDelta::days(i64::from(days)));
    date.ok_or_else(|| exec_datafusion_err!("the date {days} days after 1970-01-01 is in no calendar"))
}
