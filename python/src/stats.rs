//! The cost of a statement, as Python sees it.

use pyo3::prelude::*;
use splay_sql::StatementStats;

/// How many were kept of how many there are.
#[pyclass(frozen, get_all, eq, module = "splay")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    kept: u64,
    total: u64,
}

impl From<splay_store::SelectedCount> for Kept {
    fn from(count: splay_store::SelectedCount) -> Kept {
        Kept { kept: count.selected, total: count.total }
    }
}

#[pymethods]
impl Kept {
    fn __repr__(&self) -> String {
        format!("{} of {}", self.kept, self.total)
    }
}

/// The cost of a statement.
#[pyclass(frozen, module = "splay")]
#[derive(Debug)]
pub(crate) struct Stats(pub(crate) StatementStats);

#[pymethods]
impl Stats {
    #[getter]
    fn planning_seconds(&self) -> f64 {
        self.0.planning.as_secs_f64()
    }

    #[getter]
    fn execution_seconds(&self) -> f64 {
        self.0.execution.as_secs_f64()
    }

    #[getter]
    fn rows_returned(&self) -> u64 {
        self.0.rows_returned
    }

    #[getter]
    fn rows_scanned(&self) -> u64 {
        self.0.rows_scanned
    }

    #[getter]
    fn bytes_scanned(&self) -> u64 {
        self.0.bytes_scanned
    }

    #[getter]
    fn peak_memory_bytes(&self) -> u64 {
        self.0.peak_memory_bytes
    }

    #[getter]
    fn run_by(&self) -> &'static str {
        self.0.run_by.as_str()
    }

    #[getter]
    fn tick_plans_refused(&self) -> u64 {
        self.0.tick_plans_refused
    }

    #[getter]
    fn partitions(&self) -> Kept {
        self.0.selection.partitions.into()
    }

    #[getter]
    fn symbols(&self) -> Kept {
        self.0.selection.symbols.into()
    }

    #[getter]
    fn blocks(&self) -> Kept {
        self.0.selection.blocks.into()
    }

    fn __repr__(&self) -> String {
        format!(
            "Stats(run_by='{}', planning_seconds={:.6}, execution_seconds={:.6}, rows_returned={}, rows_scanned={}, bytes_scanned={}, \
             peak_memory_bytes={}, partitions={}, symbols={}, blocks={})",
            self.run_by(),
            self.planning_seconds(),
            self.execution_seconds(),
            self.rows_returned(),
            self.rows_scanned(),
            self.bytes_scanned(),
            self.peak_memory_bytes(),
            self.partitions().__repr__(),
            self.symbols().__repr__(),
            self.blocks().__repr__()
        )
    }
}
