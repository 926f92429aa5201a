//! Capture from Python: rows into the journal and the real-time tables of a database that this process has open.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use splay_capture::{Ack, Append, Capture, CaptureSettings, Producer};

use crate::columns::NewTableOptions;
use crate::error::Result;
use crate::load;
use crate::write;

/// An ack as Python has it, whoever gave it.
fn into_python(py: Python<'_>, ack: Ack) -> PyResult<Bound<'_, PyAny>> {
    let Ack { sequence, class, rows, duplicate, quarantined, duplicate_rows } = ack;
    let values = (sequence, class.to_string(), rows, duplicate, quarantined, duplicate_rows);
    py.import("splay._ack")?.getattr("Ack")?.call1(values)
}

/// Capture into a database. Threads may share it.
#[pyclass(frozen, name = "Capture", module = "splay")]
#[derive(Debug)]
pub(crate) struct PyCapture {
    capture: Capture,
    recovered: String,
    closed: AtomicBool,
}

impl PyCapture {
    /// Begins to capture into a database; `settings` has those that aren't as usual.
    pub(crate) fn open(
        py: Python<'_>,
        database: splay_store::Database,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<PyCapture> {
        let settings = parse(settings)?;
        let (capture, recovered) = py.detach(|| Capture::open(database, settings))?;
        Ok(PyCapture { capture, recovered: recovered.to_string(), closed: AtomicBool::new(false) })
    }
}

#[pymethods]
impl PyCapture {
    /// The result of the journal's recovery.
    #[getter]
    fn recovered(&self) -> &str {
        &self.recovered
    }

    /// Takes the rows of a frame and waits until they are as safe as asked for.
    #[pyo3(signature = (table, frame, *, ack=None, producer=None, sequence=None, time=None, symbol=None, time_zone=None, day_start=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn append<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        frame: &Bound<'_, PyAny>,
        ack: Option<&str>,
        producer: Option<String>,
        sequence: Option<u64>,
        time: Option<String>,
        symbol: Option<String>,
        time_zone: Option<String>,
        day_start: Option<&str>,
    ) -> Result<Bound<'py, PyAny>> {
        let ack = ack.map(str::parse).transpose().map_err(PyValueError::new_err)?;
        let producer = match (producer, sequence) {
            (Some(name), Some(sequence)) => Some(Producer::new(name, sequence)),
            (None, None) => None,
            _ => return Err(PyValueError::new_err("producer and sequence belong together").into()),
        };
        let rows = write::batches(frame)?;
        let day_start = load::day_start(day_start)?;
        let table_options = NewTableOptions { time, symbol, time_zone, day_start, ..NewTableOptions::default() };
        let ack: Result<Ack> = py.detach(|| {
            let (spec, rows) = write::one_batch(self.capture.database(), table, rows, &table_options)?;
            let append = Append { spec: Some(spec), producer, ack, ..Append::new(table, rows) };
            Ok(self.capture.append(append)?)
        });
        Ok(into_python(py, ack?)?)
    }

    /// The number of the last frame of a producer that was taken.
    fn last_number(&self, py: Python<'_>, producer: &str) -> Result<Option<u64>> {
        Ok(py.detach(|| self.capture.last_of(producer))?)
    }

    /// Writes live rows down, of a table or of all; gives their number.
    #[pyo3(signature = (table=None))]
    fn write_down(&self, py: Python<'_>, table: Option<&str>) -> Result<u64> {
        Ok(py.detach(|| self.capture.write_down(table))?.rows)
    }

    /// Rolls the dates that have ended; gives the number of partitions joined.
    fn roll(&self, py: Python<'_>) -> Result<usize> {
        Ok(py.detach(|| self.capture.roll(None))?.partitions)
    }

    /// The counters and the state of capture.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let status = self.capture.status();
        let found = py.import("json")?.call_method1("loads", (status.to_json(),))?;
        let live = PyDict::new(py);
        for table in status.tables {
            live.set_item(table.table, table.live_rows)?;
        }
        found.set_item("live_rows", live)?;
        Ok(found)
    }

    /// Takes nothing more, and writes live rows down. What can't be written stays in the journal, and is back when capture begins
    /// again.
    fn close(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| {
            let written =
                if self.closed.swap(true, Ordering::AcqRel) { Ok(()) } else { self.capture.write_down(None).map(drop) };
            self.capture.close()?;
            Ok(written?)
        })
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) -> Result<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<splay.Capture {:?}>", self.capture.database().path())
    }
}

/// Settings by their names, as a server's settings have them.
fn parse(options: Option<&Bound<'_, PyDict>>) -> PyResult<CaptureSettings> {
    let Some(options) = options else { return Ok(CaptureSettings::default()) };
    let text: String = options.py().import("json")?.call_method1("dumps", (options,))?.extract()?;
    CaptureSettings::from_json(&text).map_err(|error| PyValueError::new_err(format!("settings of capture: {error}")))
}
