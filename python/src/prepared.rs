//! Prepared statements: a text that is run many times with other values.

use pyo3::prelude::*;
use splay_sql::Session;

use crate::answer::PyAnswer;
use crate::error::Result;
use crate::parameters::parameters;
use crate::reader::Rows;
use crate::signals;

/// A statement to be run with values. Threads may share it.
#[pyclass(frozen, name = "Prepared", module = "splay")]
#[derive(Debug)]
pub(crate) struct PyPrepared {
    pub(crate) session: Session,
    pub(crate) text: String,
}

#[pymethods]
impl PyPrepared {
    /// Its text.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// Runs it.
    #[pyo3(signature = (params=None))]
    fn run(&self, py: Python<'_>, params: Option<&Bound<'_, PyAny>>) -> Result<PyAnswer> {
        let parameters = parameters(params)?;
        let answer = py.detach(|| signals::start(&self.session, &self.text, parameters))?;
        Ok(PyAnswer(Rows::new(answer)))
    }
}
