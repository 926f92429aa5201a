//! Tables: their properties and their maintenance.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use splay_store::{
    AdviseSettings, ByteSize, ColumnSpec, ColumnType, CompactOptions, LoadOptions, Observer, Retention, Table,
    TableSnapshot,
};

use crate::database::PyDatabase;
use crate::dates;
use crate::error::{Failure, Result};
use crate::load;
use crate::reports::{Commit, CompactReport, LoadReport, Partition, Problem, PublishReport, Source};
use crate::schema::PySchema;
use crate::signals::Signals;

/// A table of a database. What it says is so at the time of the question.
#[pyclass(frozen, name = "Table", module = "splay")]
#[derive(Debug)]
pub(crate) struct PyTable {
    table: Table,
    database: Py<PyDatabase>,
}

impl PyTable {
    /// A table of an open database.
    pub(crate) fn new(table: Table, database: Py<PyDatabase>) -> PyTable {
        PyTable { table, database }
    }

    fn snapshot(&self, py: Python<'_>) -> Result<TableSnapshot> {
        Ok(py.detach(|| self.table.snapshot())?)
    }
}

/// Does upkeep detached, and looks for Ctrl-C behind each segment.
fn until_interrupted<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(Observer<'_>) -> splay_store::Result<T> + Send,
) -> Result<T> {
    let (mut signals, mut raised) = (Signals::new(), None);
    let done = py.detach(|| {
        work(&mut |_| match signals.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        })
    });
    match raised {
        Some(error) => Err(error.into()),
        None => Ok(done?),
    }
}

/// A number of bytes, or a size such as `2G`.
#[derive(FromPyObject)]
enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    fn bytes(self) -> PyResult<u64> {
        match self {
            Size::Bytes(bytes) => Ok(bytes),
            Size::Text(text) => text.parse::<ByteSize>().map(|size| size.0 as u64).map_err(PyValueError::new_err),
        }
    }
}

fn column_type(name: &str) -> PyResult<ColumnType> {
    name.parse().map_err(PyValueError::new_err)
}

#[pymethods]
impl PyTable {
    /// The database that it is of.
    #[getter]
    fn database(&self, py: Python<'_>) -> Py<PyDatabase> {
        self.database.clone_ref(py)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.table.name()
    }

    /// Columns with their types.
    #[getter]
    fn schema(&self, py: Python<'_>) -> Result<PySchema> {
        Ok(PySchema(self.snapshot(py)?.spec().shown_arrow()))
    }

    /// Rows of all partitions.
    #[getter]
    fn rows(&self, py: Python<'_>) -> Result<u64> {
        Ok(self.snapshot(py)?.rows())
    }

    /// Bytes of all segments and indexes.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> Result<u64> {
        Ok(self.snapshot(py)?.bytes())
    }

    /// Name of the time column, or `None`.
    #[getter]
    fn time(&self, py: Python<'_>) -> Result<Option<String>> {
        let spec = self.snapshot(py)?.spec().clone();
        Ok((!spec.has_hidden_time()).then_some(spec.time))
    }

    /// Columns of the key of a reference table; `None` for other tables.
    #[getter]
    fn key(&self, py: Python<'_>) -> Result<Option<Vec<String>>> {
        Ok(self.snapshot(py)?.spec().reference.clone().map(|reference| reference.key))
    }

    /// Column from which on rows of a reference table are in effect, or `None`.
    #[getter]
    fn effective(&self, py: Python<'_>) -> Result<Option<String>> {
        Ok(self.snapshot(py)?.spec().reference.clone().and_then(|reference| reference.effective))
    }

    /// Name of the symbol column, or `None`.
    #[getter]
    fn symbol(&self, py: Python<'_>) -> Result<Option<String>> {
        Ok(self.snapshot(py)?.spec().symbol.clone())
    }

    /// Time zone in which a row's date is taken.
    #[getter]
    fn time_zone(&self, py: Python<'_>) -> Result<String> {
        Ok(self.snapshot(py)?.spec().time_zone.clone())
    }

    /// When a date begins by the clock of that zone.
    #[getter]
    fn day_start(&self, py: Python<'_>) -> Result<String> {
        Ok(self.snapshot(py)?.spec().day_start.to_string())
    }

    /// Number of the last commit.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> Result<u64> {
        Ok(self.snapshot(py)?.epoch())
    }

    /// Partitions by date.
    #[getter]
    fn partitions(&self, py: Python<'_>) -> Result<Vec<Partition>> {
        let snapshot = self.snapshot(py)?;
        let partition = |partition: &splay_store::Partition| Partition {
            days: partition.date,
            rows: partition.rows(),
            segments: partition.segments.len(),
            bytes: partition.segments.iter().map(|s| s.entry().bytes + s.entry().index_bytes).sum(),
        };
        Ok(snapshot.partitions().iter().map(partition).collect())
    }

    /// Files that were loaded.
    #[getter]
    fn sources(&self, py: Python<'_>) -> Result<Vec<Source>> {
        let snapshot = self.snapshot(py)?;
        let source = |(source, epoch): &(splay_store::Source, u64)| Source {
            name: source.name.clone(),
            digest: source.digest.clone(),
            rows: source.rows,
            epoch: *epoch,
        };
        Ok(snapshot.sources().map(source).collect())
    }

    /// Adds a column, null in all rows there are.
    #[pyo3(signature = (name, r#type))]
    fn add_column(&self, py: Python<'_>, name: String, r#type: &str) -> Result<()> {
        let column = ColumnSpec::new(name, column_type(r#type)?);
        Ok(py.detach(|| self.table.add_column(column))?)
    }

    /// Gives a column a wider type.
    #[pyo3(signature = (name, r#type))]
    fn widen_column(&self, py: Python<'_>, name: &str, r#type: &str) -> Result<()> {
        let wider = column_type(r#type)?;
        py.detach(|| -> Result<_> {
            splay_capture::settle(self.table.database())?;
            Ok(self.table.widen_column(name, wider)?)
        })
    }

    /// Gives the table another name, and the table of that name.
    fn rename(&self, py: Python<'_>, name: &str) -> Result<PyTable> {
        let renamed = py.detach(|| -> Result<_> {
            splay_capture::settle(self.table.database())?;
            splay_sql::rename_table(&self.table, name)?;
            Ok(self.table.database().table(name)?)
        })?;
        Ok(PyTable::new(renamed, self.database.clone_ref(py)))
    }

    /// The newest commits first.
    #[pyo3(signature = (count=100))]
    fn commits(&self, py: Python<'_>, count: usize) -> Result<Vec<Commit>> {
        Ok(py.detach(|| self.table.commits(count))?.into_iter().map(Commit::new).collect())
    }

    /// The storage of each column in each segment.
    fn storage(&self, py: Python<'_>) -> Result<Vec<Py<PyDict>>> {
        let snapshot = py.detach(|| self.table.stored())?;
        let mut rows = Vec::new();
        for segment in snapshot.partitions().iter().flat_map(|partition| partition.segments.iter()) {
            let entry = segment.entry();
            for column in py.detach(|| segment.storage(snapshot.spec()))? {
                let row = PyDict::new(py);
                row.set_item("date", dates::to_python(py, entry.date)?)?;
                row.set_item("tier", entry.tier.name())?;
                row.set_item("rows", entry.rows)?;
                row.set_item("column", column.column)?;
                row.set_item("bytes", column.bytes)?;
                row.set_item("plain_bytes", column.plain_bytes)?;
                row.set_item("kept", column.encoding)?;
                rows.push(row.unbind());
            }
        }
        Ok(rows)
    }

    /// Measures samples in each tier, and says which rules suit a goal.
    #[pyo3(signature = (goal="balanced", *, budget=20.0, memory=None, apply=false))]
    fn advise<'py>(
        &self,
        py: Python<'py>,
        goal: &str,
        budget: f64,
        memory: Option<Size>,
        apply: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let settings = AdviseSettings {
            goal: goal.parse().map_err(PyValueError::new_err)?,
            budget: Duration::try_from_secs_f64(budget).map_err(|error| PyValueError::new_err(error.to_string()))?,
            memory_bytes: memory.map(Size::bytes).transpose()?,
            ..AdviseSettings::default()
        };
        let advice = py.detach(|| -> Result<_> {
            let advice = self.table.advise(&settings)?;
            if apply {
                self.table.apply(&advice)?;
            }
            Ok(advice)
        })?;
        Ok(py.import("json")?.call_method1("loads", (advice.to_json().to_string(),))?)
    }

    /// Takes back what a commit did.
    fn undo(&self, py: Python<'_>, commit: u64) -> Result<LoadReport> {
        let report = py.detach(|| -> Result<_> {
            splay_capture::settle(self.table.database())?;
            Ok(self.table.undo(commit)?)
        })?;
        Ok(LoadReport::new(self.table.name(), &report))
    }

    /// Sets how long rows stay.
    #[pyo3(signature = (*, days=None, bytes=None))]
    fn retain(&self, py: Python<'_>, days: Option<u32>, bytes: Option<Size>) -> Result<()> {
        let bytes = bytes.map(Size::bytes).transpose()?;
        Ok(py.detach(|| self.table.set_retention(Retention { days, bytes }))?)
    }

    /// Sets how rows of an age are kept.
    #[pyo3(signature = (tier, *, after=0))]
    fn set_tier(&self, py: Python<'_>, tier: &str, after: u32) -> Result<()> {
        let tier = load::tier(tier)?;
        Ok(py.detach(|| self.table.set_tier(tier, after))?)
    }

    /// Sets the form in which others are to read the Parquet segments.
    fn set_publish(&self, py: Python<'_>, form: Option<&str>) -> Result<()> {
        let form = form.map(load::publish).transpose()?;
        Ok(py.detach(|| self.table.set_publish(form))?)
    }

    /// Brings the Delta table up to the last commit.
    fn publish(&self, py: Python<'_>) -> Result<PublishReport> {
        Ok(PublishReport(py.detach(|| self.table.publish())?))
    }

    /// Changes what a partition spans.
    fn set_partition(&self, py: Python<'_>, period: &str) -> Result<()> {
        let period = load::period(period)?;
        py.detach(|| -> Result<_> {
            splay_capture::settle(self.table.database())?;
            Ok(self.table.set_partition(period, LoadOptions::default())?)
        })?;
        Ok(())
    }

    /// The span of a partition.
    #[getter]
    fn partition(&self, py: Python<'_>) -> Result<String> {
        Ok(py.detach(|| self.table.stored())?.spec().partition.to_string())
    }

    /// Moves dates to the tiers of their age; gives these.
    fn move_to_tiers(&self, py: Python<'_>) -> Result<Vec<Py<PyAny>>> {
        let mut moved = Vec::new();
        for (date, _) in py.detach(|| self.table.stored())?.due_moves() {
            let options = CompactOptions { date: Some(date), ..CompactOptions::default() };
            until_interrupted(py, |observer| self.table.compact(&options, observer))?;
            moved.push(dates::to_python(py, date)?);
        }
        Ok(moved)
    }

    /// Removes the dates beyond the retention; gives these.
    #[pyo3(signature = (*, dry_run=false))]
    fn expire(&self, py: Python<'_>, dry_run: bool) -> Result<Vec<Py<PyAny>>> {
        let report = py.detach(|| self.table.expire(self.table.stored()?.spec().retention, dry_run))?;
        Ok(report.dates.into_iter().map(|date| dates::to_python(py, date)).collect::<PyResult<_>>()?)
    }

    /// Removes files that were kept for undo; gives their bytes.
    #[pyo3(signature = (*, all=false))]
    fn forget(&self, py: Python<'_>, all: bool) -> Result<u64> {
        Ok(py.detach(|| self.table.forget(all))?)
    }

    /// Joins the segments of each partition to few large ones.
    #[pyo3(signature = (*, tier=None, before=None, memory_bytes=None))]
    fn compact(
        &self,
        py: Python<'_>,
        tier: Option<&str>,
        before: Option<&Bound<'_, PyAny>>,
        memory_bytes: Option<usize>,
    ) -> Result<CompactReport> {
        let options = CompactOptions {
            tier: tier.map(load::tier).transpose()?,
            date: None,
            before: before.map(dates::from_python).transpose()?,
            memory_bytes: memory_bytes.unwrap_or(0),
        };
        let report = until_interrupted(py, |observer| self.table.compact(&options, observer))?;
        Ok(CompactReport {
            partitions: report.partitions,
            segments_before: report.segments.0,
            segments_after: report.segments.1,
            bytes_before: report.bytes.0,
            bytes_after: report.bytes.1,
        })
    }

    /// Copies the table to files for other tools; gives rows and bytes.
    #[pyo3(signature = (folder, *, format="parquet"))]
    fn export(&self, py: Python<'_>, folder: PathBuf, format: &str) -> Result<(u64, u64)> {
        let format = load::file_format(format)?;
        until_interrupted(py, |observer| self.table.export(format, &folder, observer))
    }

    /// Checks every byte; gives the damaged files.
    fn verify(&self, py: Python<'_>) -> Result<Vec<Problem>> {
        let problems = until_interrupted(py, |observer| self.table.verify(observer))?;
        let problem = |problem: splay_store::Problem| {
            let error = PyErr::from(Failure::Store(problem.error)).into_value(py).into_any();
            Problem { path: problem.path, error }
        };
        Ok(problems.into_iter().map(problem).collect())
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let snapshot = self.snapshot(py)?;
        let (spec, partitions) = (snapshot.spec(), snapshot.partitions().len());
        if let Some(reference) = &spec.reference {
            let (name, rows) = (self.table.name(), snapshot.rows());
            return Ok(format!(
                "<splay.Table {name:?}: reference table of {rows} rows, key ({})>",
                reference.key.join(", ")
            ));
        }
        Ok(format!(
            "<splay.Table {:?}: {} rows in {partitions} partitions, ordered by {}{}>",
            self.table.name(),
            snapshot.rows(),
            spec.symbol.as_ref().map(|symbol| format!("{symbol}, ")).unwrap_or_default(),
            spec.time
        ))
    }
}
