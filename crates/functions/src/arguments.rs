//! What the functions of this module accept, and what order they keep.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};

/// The order of a function that is monotone in its second argument once the others are constant.
pub(super) fn ordering_of_second(inputs: &[ExprProperties]) -> SortProperties {
    let mut order = SortProperties::Unordered;
    for (position, input) in inputs.iter().enumerate() {
        if position == 1 {
            order = input.sort_properties;
        } else if input.sort_properties != SortProperties::Singleton {
            return SortProperties::Unordered;
        }
    }
    order
}

/// The type a bucket width is read as.
pub(super) fn width_type(function: &str, data_type: &DataType) -> Result<DataType> {
    match data_type {
        DataType::Interval(_) | DataType::Duration(_) | DataType::Null => {
            Ok(DataType::Interval(IntervalUnit::MonthDayNano))
        }
        text if is_text(text) => Ok(DataType::Interval(IntervalUnit::MonthDayNano)),
        other => plan_err!(
            "{function}: the width of a time bucket is an interval such as INTERVAL '5 minutes', not a {other}"
        ),
    }
}

/// The type a time is read as: nanoseconds, with the zone label it came with; dates and text are UTC.
pub(super) fn time_type(function: &str, data_type: &DataType) -> Result<DataType> {
    let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    match data_type {
        DataType::Timestamp(_, label) => Ok(DataType::Timestamp(TimeUnit::Nanosecond, label.clone())),
        DataType::Date32 | DataType::Date64 | DataType::Null => Ok(utc),
        text if is_text(text) => Ok(utc),
        other => plan_err!("{function}: a time is a timestamp or a date, not a {other}"),
    }
}

/// Whether a type is text, plain or as a dictionary.
pub(super) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}
