//! Python values for the placeholders of a statement.
//!
//! | Python | SQL |
//! | --- | --- |
//! | `None`, NumPy's and pandas' `NaT` | null |
//! | `bool`, `int`, `float`, `str` | boolean, bigint (or unsigned bigint), double, varchar |
//! | `decimal.Decimal` | decimal with as many digits |
//! | `datetime.datetime`, `pandas.Timestamp`, `numpy.datetime64` | timestamp in UTC; without a zone it is taken as UTC |
//! | `datetime.date`, `datetime.time` | date, time of day |
//! | `datetime.timedelta` | interval |

use std::collections::HashMap;

use arrow::datatypes::IntervalMonthDayNano;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDate, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyFloat, PyInt, PyString, PyTime, PyTimeAccess,
    PyTzInfoAccess,
};
use splay_sql::{Parameters, ScalarValue};

use crate::dates;

const NS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const DIGITS_MAX: usize = 38;

/// Values by name from a dict, by position from any other sequence.
///
/// # Errors
/// `TypeError` for a value that SQL has no type for, `OverflowError` and `ValueError` for one out of its type's range.
pub(crate) fn parameters(params: Option<&Bound<'_, PyAny>>) -> PyResult<Parameters> {
    let Some(params) = params else { return Ok(Parameters::None) };
    if let Ok(named) = params.cast::<PyDict>() {
        let mut values = HashMap::new();
        for (name, value) in named {
            let name: String = name.extract().map_err(|_| PyTypeError::new_err("names of params must be str"))?;
            let value = scalar(&value).map_err(|error| with_place(params.py(), &name, &error))?;
            values.insert(name.trim_start_matches('$').to_owned(), value);
        }
        return Ok(Parameters::Named(values));
    }
    if params.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("params must be a list or a dict of values, not one str"));
    }
    let mut values = Vec::new();
    for (place, value) in params.try_iter()?.enumerate() {
        let place = (place + 1).to_string();
        values.push(scalar(&value?).map_err(|error| with_place(params.py(), &place, &error))?);
    }
    Ok(Parameters::Positional(values))
}

/// The same exception, with the placeholder that it is about.
fn with_place(py: Python<'_>, place: &str, error: &PyErr) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("${place}: {}", error.value(py)))
}

fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    // Subclasses stand before their bases: bool is an int, datetime a date.
    if value.is_none() {
        Ok(ScalarValue::Null)
    } else if let Ok(value) = value.cast::<PyBool>() {
        Ok(ScalarValue::Boolean(Some(value.is_true())))
    } else if value.is_instance_of::<PyInt>() {
        integer(value)
    } else if let Ok(value) = value.cast::<PyFloat>() {
        Ok(ScalarValue::Float64(Some(value.value())))
    } else if let Ok(value) = value.cast::<PyString>() {
        Ok(ScalarValue::Utf8(Some(value.to_string())))
    } else if let Ok(value) = value.cast::<PyDateTime>() {
        instant(value)
    } else if value.is_instance_of::<PyDate>() {
        Ok(ScalarValue::Date32(Some(dates::from_python(value)?)))
    } else if let Ok(value) = value.cast::<PyTime>() {
        time_of_day(value)
    } else if let Ok(value) = value.cast::<PyDelta>() {
        interval(value)
    } else {
        other(value)
    }
}

/// Types that are known by name, so that their packages need not be there.
fn other(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let kind = value.get_type();
    let (module, name) = (kind.module()?.to_string(), kind.name()?.to_string());
    match (module.as_str(), name.as_str()) {
        ("decimal", "Decimal") => decimal(value),
        ("numpy", "datetime64") => {
            // NumPy doesn't look for overflow when it changes the unit.
            let count = |unit: &str| -> PyResult<i64> {
                value.call_method1("astype", (unit,))?.call_method1("astype", ("int64",))?.extract()
            };
            match count("datetime64[s]")? {
                i64::MIN => Ok(timestamp(None)),
                seconds if seconds.unsigned_abs() >= (i64::MAX / NS_PER_SECOND).unsigned_abs() => Err(out_of_range()),
                _ => Ok(timestamp(Some(count("datetime64[ns]")?))),
            }
        }
        ("numpy", "bool" | "bool_") => Ok(ScalarValue::Boolean(Some(value.is_truthy()?))),
        ("numpy", "ndarray") => Err(several(&module, &name)),
        ("numpy", _) if value.hasattr("__index__")? => integer(&value.call_method0("__index__")?),
        ("numpy", _) if value.hasattr("__float__")? => Ok(ScalarValue::Float64(Some(value.extract()?))),
        (_, "NaTType" | "NAType") => Ok(ScalarValue::Null),
        _ if value.hasattr("__iter__")? && !matches!(name.as_str(), "bytes" | "dict") => Err(several(&module, &name)),
        _ => Err(PyTypeError::new_err(format!("a value of type {module}.{name} can't be a parameter"))),
    }
}

fn several(module: &str, name: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "a value of type {module}.{name} can't be a parameter: each value has a placeholder of its own, x IN ($1, $2)"
    ))
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if let Ok(value) = value.extract::<i64>() {
        return Ok(ScalarValue::Int64(Some(value)));
    }
    match value.extract::<u64>() {
        Ok(value) => Ok(ScalarValue::UInt64(Some(value))),
        Err(_) => Err(PyOverflowError::new_err("the int is beyond 64 bits")),
    }
}

fn timestamp(ns: Option<i64>) -> ScalarValue {
    ScalarValue::TimestampNanosecond(ns, Some("UTC".into()))
}

fn out_of_range() -> PyErr {
    PyOverflowError::new_err("the time is outside 1677-09-21 to 2262-04-11, which nanoseconds in 64 bits can hold")
}

fn instant(value: &Bound<'_, PyDateTime>) -> PyResult<ScalarValue> {
    if value.get_type().name()? == "NaTType" {
        return Ok(timestamp(None));
    }
    let module = value.py().import("datetime")?;
    let utc = module.getattr("timezone")?.getattr("utc")?;
    let value = match value.get_tzinfo() {
        Some(_) => value.call_method1("astimezone", (&utc,))?,
        None => {
            let zone = PyDict::new(value.py());
            zone.set_item("tzinfo", &utc)?;
            value.call_method("replace", (), Some(&zone))?
        }
    };
    let epoch = module.getattr("datetime")?.call_method1("fromtimestamp", (0, &utc))?;
    let since = value.call_method1("__sub__", (epoch,))?;
    let ns = nanoseconds(since.cast::<PyDelta>()?)?;
    // pandas.Timestamp holds what datetime can't.
    let beyond = match value.getattr_opt("nanosecond")? {
        Some(ns) if since.getattr_opt("nanoseconds")?.is_none() => ns.extract::<i64>()?,
        _ => 0,
    };
    Ok(timestamp(Some(ns.checked_add(beyond).ok_or_else(out_of_range)?)))
}

fn nanoseconds(delta: &Bound<'_, PyDelta>) -> PyResult<i64> {
    let seconds = i64::from(delta.get_days()) * SECONDS_PER_DAY + i64::from(delta.get_seconds());
    let below = i64::from(delta.get_microseconds()) * 1_000;
    // pandas.Timedelta holds what timedelta can't.
    let beyond = delta.getattr_opt("nanoseconds")?.map_or(Ok(0), |ns| ns.extract::<i64>())?;
    let ns = i128::from(seconds) * i128::from(NS_PER_SECOND) + i128::from(below + beyond);
    i64::try_from(ns).map_err(|_| out_of_range())
}

fn time_of_day(value: &Bound<'_, PyTime>) -> PyResult<ScalarValue> {
    if value.get_tzinfo().is_some() {
        return Err(PyValueError::new_err("a time of day can't have a time zone"));
    }
    let seconds =
        (i64::from(value.get_hour()) * 60 + i64::from(value.get_minute())) * 60 + i64::from(value.get_second());
    Ok(ScalarValue::Time64Nanosecond(Some(seconds * NS_PER_SECOND + i64::from(value.get_microsecond()) * 1_000)))
}

fn interval(value: &Bound<'_, PyDelta>) -> PyResult<ScalarValue> {
    Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, nanoseconds(value)?))))
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let (sign, digits, exponent): (u8, Vec<u8>, Bound<'_, PyAny>) = value.call_method0("as_tuple")?.extract()?;
    let exponent: i64 =
        exponent.extract().map_err(|_| PyValueError::new_err(format!("{value} is not a number that SQL has")))?;
    let wrong = || PyOverflowError::new_err(format!("{value} has more than {DIGITS_MAX} digits"));
    let scale = usize::try_from((-exponent).max(0)).map_err(|_| wrong())?;
    let zeros = usize::try_from(exponent.max(0)).map_err(|_| wrong())?;
    let precision = digits.len().saturating_add(zeros).max(scale).max(1);
    if precision > DIGITS_MAX {
        return Err(wrong());
    }
    let unsigned = digits.iter().chain(std::iter::repeat_n(&0, zeros));
    let unsigned = unsigned.fold(0i128, |value, digit| value * 10 + i128::from(*digit));
    let signed = if sign == 1 { -unsigned } else { unsigned };
    let (precision, scale) = (u8::try_from(precision).map_err(|_| wrong())?, i8::try_from(scale).map_err(|_| wrong())?);
    Ok(ScalarValue::Decimal128(Some(signed), precision, scale))
}
