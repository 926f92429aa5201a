//! The reports of calls: plain, frozen values.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::dates;

/// The result of a load or a write.
#[pyclass(frozen, get_all, module = "splay")]
#[derive(Debug)]
pub(crate) struct LoadReport {
    pub(crate) table: String,
    pub(crate) rows: u64,
    pub(crate) removed: u64,
    pub(crate) duplicates: u64,
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
            removed: report.removed,
            duplicates: report.duplicates,
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
            "LoadReport(table={:?}, rows={}, duplicates={}, quarantined={}, partitions={}, segments={}, bytes={}, epoch={}, files={})",
            self.table,
            self.rows,
            self.duplicates,
            self.quarantined,
            self.partitions,
            self.segments,
            self.bytes,
            self.epoch,
            self.files.len()
        )
    }
}

/// The result of reading one file.
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

/// The result of a compaction.
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

/// The state of the Delta table after a publication.
#[pyclass(frozen, module = "splay")]
#[derive(Debug)]
pub(crate) struct PublishReport(pub(crate) splay_store::PublishReport);

#[pymethods]
impl PublishReport {
    #[getter]
    fn path(&self) -> &std::path::Path {
        &self.0.path
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.version
    }

    #[getter]
    fn is_new(&self) -> bool {
        self.0.is_new
    }

    #[getter]
    fn commit(&self) -> u64 {
        self.0.epoch
    }

    #[getter]
    fn files(&self) -> usize {
        self.0.files
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.rows
    }

    #[getter]
    fn files_added(&self) -> usize {
        self.0.changed.0
    }

    #[getter]
    fn files_removed(&self) -> usize {
        self.0.changed.1
    }

    #[getter]
    fn left_out(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.0.left_out.iter().map(|day| dates::to_python(py, *day)).collect()
    }

    fn __repr__(&self) -> String {
        let splay_store::PublishReport { version, epoch, files, rows, left_out, .. } = &self.0;
        let left_out = left_out.len();
        format!(
            "PublishReport(version={version}, commit={epoch}, files={files}, rows={rows}, left_out={left_out} dates)"
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

/// A commit of a table.
#[pyclass(frozen, get_all, module = "splay")]
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) commit: u64,
    /// Nanoseconds since the epoch.
    pub(crate) at: i64,
    pub(crate) operation: String,
    pub(crate) added: u64,
    pub(crate) removed: u64,
    pub(crate) duplicates: u64,
    pub(crate) sources: Vec<String>,
    pub(crate) undoes: Option<u64>,
    pub(crate) cannot_undo: Option<String>,
    days: Vec<i32>,
}

impl Commit {
    pub(crate) fn new(report: splay_store::CommitReport) -> Commit {
        Commit {
            commit: report.commit,
            at: report.at,
            operation: report.operation.to_owned(),
            added: report.added,
            removed: report.removed,
            duplicates: report.duplicates,
            sources: report.sources.into_iter().map(|source| source.name).collect(),
            undoes: report.undoes,
            cannot_undo: report.cannot_undo,
            days: report.dates,
        }
    }
}

#[pymethods]
impl Commit {
    /// Dates whose rows it changed.
    #[getter]
    fn dates(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.days.iter().map(|days| dates::to_python(py, *days)).collect()
    }

    fn __repr__(&self) -> String {
        format!("Commit({}, {:?}, added={}, removed={})", self.commit, self.operation, self.added, self.removed)
    }
}
