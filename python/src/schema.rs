//! Columns and their types, of a table or of an answer.

use arrow::datatypes::{DataType, SchemaRef};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyIterator, PyList};
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::to_schema_pycapsule;
use splay_store::ColumnType;

use crate::answer::optional;

/// Columns in order, with SplayDB's names of their types; gives its Arrow schema to whoever asks for it.
#[pyclass(frozen, name = "Schema", module = "splay")]
#[derive(Debug)]
pub(crate) struct PySchema(pub(crate) SchemaRef);

/// SplayDB's name of a type, or Arrow's where a table can't have it.
fn type_name(data_type: &DataType) -> String {
    match ColumnType::from_arrow(data_type) {
        Some(own) if own.arrow() == *data_type => own.to_string(),
        _ => data_type.to_string(),
    }
}

#[pymethods]
impl PySchema {
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.fields().iter().map(|field| field.name().as_str()).collect()
    }

    #[getter]
    fn types(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| type_name(field.data_type())).collect()
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.names())?.try_iter()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.names().contains(&name)
    }

    fn __getitem__(&self, name: &str) -> PyResult<String> {
        let field = self.0.field_with_name(name).map_err(|_| PyKeyError::new_err(name.to_owned()))?;
        Ok(type_name(field.data_type()))
    }

    fn __eq__(&self, other: &PySchema) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        let width = self.names().iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let lines = self.names().into_iter().zip(self.types()).map(|(name, kind)| format!("\n  {name:width$}  {kind}"));
        format!("Schema:{}", lines.collect::<String>())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.0.as_ref())
    }

    fn to_arrow(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Ok(optional(slf.py(), "pyarrow")?.getattr("schema")?.call1((slf,))?.unbind())
    }
}
