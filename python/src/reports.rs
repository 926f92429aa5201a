//! What calls report: plain, frozen values.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::dates;

/// What a load or a write did.
#[pyclass(frozen, get_all, module = "splay")]
#[derive(Debug)]
pub(crate) struct LoadReport {
    pub(crate) table: String,
    pub(crate) rows: u64,
    pub(crate) quarantined: u64,
    pub(crate) partitions: usize,
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
    pub(crate) epoch: u64,
    pub(crate) files: Vec<Py<FileReport>>,
}

impl LoadReport {
    pub(crate) fn new(table: &str, report: &splay_store::LoadReport) -> LoadReport {
        LoadReport {
            table: table.to_owned(),
            rows: report.rows,
            quarantined: 0,
            partitions: report.partitions,
            segments: report.segments,
            bytes: report.bytes,
            epoch: report.epoch,
            files: Vec::new(),
        }
    }
}

#[pymethods]
impl LoadReport {
    fn __repr__(&self) -> String {
        format!(
            "LoadReport(table={:?}, rows={}, quarantined={}, partitions={}, segments={}, bytes={}, epoch={}, files={})",
            self.table,
            self.rows,
            self.quarantined,
            self.partitions,
            self.segments,
            self.bytes,
            self.epoch,
            self.files.len()
        )
    }
}

/// What was read of one file.
#[pyclass(frozen, get_all, module = "splay")]
#[derive(Debug)]
pub(crate) struct FileReport {
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

#[pymethods]
impl FileReport {
    fn __repr__(&self) -> String {
        format!("FileReport(name={:?}, rows={}, bytes={})", self.name, self.rows, self.bytes)
    }
}

/// What a compaction did.
#[pyclass(frozen, get_all, module = "splay")]
#[derive(Debug)]
pub(crate) struct CompactReport {
    pub(crate) partitions: usize,
    pub(crate) segments_before: usize,
    pub(crate) segments_after: usize,
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
}

#[pymethods]
impl CompactReport {
    fn __repr__(&self) -> String {
        format!(
            "CompactReport(partitions={}, segments={} -> {}, bytes={} -> {})",
            self.partitions, self.segments_before, self.segments_after, self.bytes_before, self.bytes_after
        )
    }
}

/// Rows of one date.
#[pyclass(frozen, module = "splay")]
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) days: i32,
    #[pyo3(get)]
    pub(crate) rows: u64,
    #[pyo3(get)]
    pub(crate) segments: usize,
    #[pyo3(get)]
    pub(crate) bytes: u64,
}

#[pymethods]
impl Partition {
    #[getter]
    fn date(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        dates::to_python(py, self.days)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let date = self.date(py)?;
        Ok(format!(
            "Partition(date={}, rows={}, segments={}, bytes={})",
            date.bind(py).str()?,
            self.rows,
            self.segments,
            self.bytes
        ))
    }
}

/// A file that verification found damaged.
#[pyclass(frozen, get_all, module = "splay")]
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) path: PathBuf,
    pub(crate) error: Py<PyAny>,
}

#[pymethods]
impl Problem {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Problem({})", self.error.bind(py).str()?))
    }
}

/// A file that was loaded.
#[pyclass(frozen, get_all, module = "splay")]
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) rows: u64,
    pub(crate) epoch: u64,
}

#[pymethods]
impl Source {
    fn __repr__(&self) -> String {
        format!("Source(name={:?}, rows={}, epoch={})", self.name, self.rows, self.epoch)
    }
}
