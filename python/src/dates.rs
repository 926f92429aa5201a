//! Dates as Python has them: `datetime.date` against days since 1970-01-01.

use pyo3::prelude::*;

/// `datetime.date(1970, 1, 1).toordinal()`.
const EPOCH_ORDINAL: i32 = 719_163;

/// The date of a day.
pub(crate) fn to_python(py: Python<'_>, days: i32) -> PyResult<Py<PyAny>> {
    let ordinal = days.saturating_add(EPOCH_ORDINAL);
    Ok(py.import("datetime")?.getattr("date")?.call_method1("fromordinal", (ordinal,))?.unbind())
}

/// The day of a date.
pub(crate) fn from_python(date: &Bound<'_, PyAny>) -> PyResult<i32> {
    Ok(date.call_method0("toordinal")?.extract::<i32>()? - EPOCH_ORDINAL)
}
