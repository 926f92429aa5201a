//! Answers of `Database.sql`.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::{to_schema_pycapsule, to_stream_pycapsule};
use pyo3_arrow::{PyRecordBatch, PyTable};

use crate::error::Result;
use crate::reader::{Reader, Rows, Stream};
use crate::schema::PySchema;
use crate::stats::Stats;

/// The answer to a statement. Its rows can be read once.
#[pyclass(frozen, name = "Answer", module = "splay")]
#[derive(Debug)]
pub(crate) struct PyAnswer(pub(crate) Rows);

impl PyAnswer {
    fn table(&self, py: Python<'_>) -> Result<PyTable> {
        let reader = py.detach(|| self.0.take())?;
        let batches = py.detach(|| reader.collect())?;
        Ok(PyTable::try_new(batches, self.0.schema())?)
    }
}

#[pymethods]
impl PyAnswer {
    /// Columns with their types.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(self.0.schema())
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Costs so far; final after the last batch.
    #[getter]
    fn stats(&self, py: Python<'_>) -> Stats {
        Stats(py.detach(|| self.0.stats()))
    }

    /// All rows as a `pyarrow.Table`.
    fn to_arrow(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        optional(py, "pyarrow")?;
        Ok(self.table(py)?.into_pyarrow(py)?.unbind())
    }

    /// All rows as a `pandas.DataFrame`.
    #[pyo3(signature = (**options))]
    fn to_pandas(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> Result<Py<PyAny>> {
        optional(py, "pandas")?;
        let table = self.to_arrow(py)?;
        Ok(table.bind(py).call_method("to_pandas", (), options)?.unbind())
    }

    /// All rows as a `polars.DataFrame`.
    fn to_polars(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        let polars = optional(py, "polars")?;
        let table = self.table(py)?.into_pyobject(py)?;
        Ok(polars.getattr("DataFrame")?.call1((table,))?.unbind())
    }

    fn __iter__(&self, py: Python<'_>) -> Result<Batches> {
        optional(py, "pyarrow")?;
        let reader = py.detach(|| self.0.take())?;
        Ok(Batches(Mutex::new(reader)))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let reader = py.detach(|| self.0.offer()).map_err(PyErr::from)?;
        to_stream_pycapsule(py, Box::new(Stream(reader)), requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.0.schema().as_ref())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = if py.detach(|| self.0.is_taken()) { "its rows were read" } else { "its rows are unread" };
        format!("<splay.Answer of {} columns: {}; {state}>", self.columns().len(), self.columns().join(", "))
    }
}

/// The batches of an answer, one by one. Leaving early stops the statement.
#[pyclass(frozen, module = "splay")]
#[derive(Debug)]
pub(crate) struct Batches(Mutex<Reader>);

#[pymethods]
impl Batches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Py<PyAny>>> {
        let batch = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next_batch())?;
        let Some(batch) = batch else { return Ok(None) };
        Ok(Some(PyRecordBatch::new(batch).into_pyarrow(py)?.unbind()))
    }
}

/// A package that only some calls need.
///
/// # Errors
/// `ImportError` that says what to install; Ctrl-C while the package is being imported.
pub(crate) fn optional<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        if !error.is_instance_of::<PyImportError>(py) {
            return error;
        }
        let message = format!("this needs {name}, which splay doesn't install: pip install {name}");
        let missing = PyImportError::new_err(message);
        missing.set_cause(py, Some(error));
        missing
    })
}
