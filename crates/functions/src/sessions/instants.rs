//! `in_session(time, calendar)`, and `session_date`, `session_open`, `session_close` of the session that a time is in.
//!
//! - A time at the opening is in the session, one at the close isn't.
//! - Null in an argument gives null. Outside of a session `in_session` is false and the others are null.
//! - A time without a zone label is UTC.
//! - Rows that come by time cost a comparison each, others a search by halves.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Date32Builder, PrimitiveArray, TimestampNanosecondBuilder,
};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err, utils::take_function_args};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use splay_calendar::{Calendar, Session};
use splay_store::days;

use super::{CalendarHandle, for_each_calendar};
use crate::arguments::{is_text, time_type};

/// The function that a gap fill looks for in `WHERE`.
pub(crate) const IN_SESSION: &str = "in_session";

/// Which property of an instant a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum InstantFunctionKind {
    IsIn,
    Date,
    Open,
    Close,
}

/// The scalar functions of an instant and a calendar.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct InstantFunction {
    question: InstantFunctionKind,
    signature: Signature,
    /// The calendar that a plan was given, for the name in the call.
    pub(super) own: Option<CalendarHandle>,
}

impl InstantFunction {
    pub(super) fn all() -> [InstantFunction; 4] {
        [InstantFunctionKind::IsIn, InstantFunctionKind::Date, InstantFunctionKind::Open, InstantFunctionKind::Close]
            .map(|question| InstantFunction {
                question,
                signature: Signature::user_defined(Volatility::Immutable),
                own: None,
            })
    }

    /// The same function with a calendar.
    pub(super) fn with(&self, own: CalendarHandle) -> InstantFunction {
        InstantFunction { question: self.question, signature: self.signature.clone(), own: Some(own) }
    }
}

impl ScalarUDFImpl for InstantFunction {
    fn name(&self) -> &str {
        match self.question {
            InstantFunctionKind::IsIn => IN_SESSION,
            InstantFunctionKind::Date => "session_date",
            InstantFunctionKind::Open => "session_open",
            InstantFunctionKind::Close => "session_close",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [time, calendar] if is_text(calendar) || calendar.is_null() => {
                Ok(vec![time_type(self.name(), time)?, DataType::Utf8])
            }
            _ => plan_err!("{0} takes (time, calendar), as in {0}(ts, 'NYSE')", self.name()),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.question {
            InstantFunctionKind::IsIn => DataType::Boolean,
            InstantFunctionKind::Date => DataType::Date32,
            InstantFunctionKind::Open | InstantFunctionKind::Close => {
                DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
            }
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [time, names] = take_function_args(self.name(), args.args)?;
        let is_scalar = matches!((&time, &names), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { rows };
        let times = time.to_array(rows)?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        let result: ArrayRef = match self.question {
            InstantFunctionKind::IsIn => {
                let mut answers = BooleanBuilder::with_capacity(rows);
                answer(times, (self.own.as_ref(), &names), |session| {
                    answers.append_option(session.map(|session| session.is_some()))
                })?;
                Arc::new(answers.finish())
            }
            InstantFunctionKind::Date => {
                let mut answers = Date32Builder::with_capacity(rows);
                answer(times, (self.own.as_ref(), &names), |session| {
                    answers.append_option(session.flatten().map(|session| days(session.date)))
                })?;
                Arc::new(answers.finish())
            }
            InstantFunctionKind::Open | InstantFunctionKind::Close => {
                let of = |session: &Session| {
                    if self.question == InstantFunctionKind::Open { session.open } else { session.close }
                };
                let mut answers = TimestampNanosecondBuilder::with_capacity(rows).with_timezone("UTC");
                answer(times, (self.own.as_ref(), &names), |session| answers.append_option(session.flatten().map(of)))?;
                Arc::new(answers.finish())
            }
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

/// Tells the session of each row, if it is in one; nothing where an argument is null.
fn answer(
    times: &PrimitiveArray<TimestampNanosecondType>,
    (own, names): (Option<&CalendarHandle>, &ColumnarValue),
    mut take: impl FnMut(Option<Option<&Session>>),
) -> Result<()> {
    for_each_calendar(own, names, times.len(), |calendar, rows| match calendar {
        None => {
            rows.for_each(|_| take(None));
            Ok(())
        }
        Some(calendar) => answer_run(times, calendar, rows, &mut take),
    })
}

fn answer_run(
    times: &PrimitiveArray<TimestampNanosecondType>,
    calendar: &Calendar,
    rows: Range<usize>,
    take: &mut impl FnMut(Option<Option<&Session>>),
) -> Result<()> {
    let mut search = calendar.search();
    for row in rows {
        if times.is_null(row) {
            take(None);
            continue;
        }
        take(Some(search.session(times.value(row)).map_err(|error| exec_datafusion_err!("{error}"))?));
    }
    Ok(())
}
