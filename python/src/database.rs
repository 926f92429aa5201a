//! Databases: open, load, write and query them.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use splay_capture::FollowSettings;
use splay_import::{FileOpener, Format, ImportSettings, Recipe};
use splay_sql::{Session, SessionSettings};
use splay_store::{Database, LoadOptions};

use crate::answer::PyAnswer;
use crate::capture::PyCapture;
use crate::columns::NewTableOptions;
use crate::error::Result;
use crate::load;
use crate::parameters::parameters;
use crate::prepared::PyPrepared;
use crate::reader::Rows;
use crate::reports::{FileReport, LoadReport};
use crate::signals;
use crate::table::PyTable;
use crate::write;

/// Least memory that the store takes for a load.
const LOAD_BYTES_MIN: usize = 1 << 20;

/// Opens a database; creates it if the folder is absent or empty.
#[pyfunction]
#[pyo3(signature = (
    path, *, create=true, memory_bytes=None, threads=None, batch_rows=None, result_cache_bytes=0, file_cache_bytes=None,
    journal=true, journal_memory_bytes=None
))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    create: bool,
    memory_bytes: Option<usize>,
    threads: Option<usize>,
    batch_rows: Option<usize>,
    result_cache_bytes: usize,
    file_cache_bytes: Option<usize>,
    journal: bool,
    journal_memory_bytes: Option<u64>,
) -> Result<PyDatabase> {
    let defaults = SessionSettings::default();
    let settings = SessionSettings {
        memory_bytes: memory_bytes.unwrap_or(defaults.memory_bytes),
        threads: threads.unwrap_or(defaults.threads),
        batch_rows: batch_rows.unwrap_or(defaults.batch_rows),
        result_cache_bytes,
        file_cache_bytes,
        files: Some(Arc::new(FileOpener)),
        ..defaults
    };
    py.detach(|| {
        let database = if create { Database::open_or_create(&path) } else { Database::open(&path) }?;
        if journal {
            let bytes_max = journal_memory_bytes.unwrap_or(splay_capture::FOLLOWED_BYTES);
            splay_capture::follow(&database, FollowSettings { bytes_max });
        }
        let load_bytes = settings.memory_bytes.clamp(LOAD_BYTES_MIN, LoadOptions::default().memory_bytes);
        let session = Session::new(database.clone(), settings)?;
        Ok(PyDatabase { database, session, load_bytes })
    })
}

/// An open database. Threads may share it.
#[pyclass(frozen, name = "Database", module = "splay")]
#[derive(Debug)]
pub(crate) struct PyDatabase {
    database: Database,
    session: Session,
    /// What a load may hold by default: no more than a statement.
    load_bytes: usize,
}

#[pymethods]
impl PyDatabase {
    /// Its folder.
    #[getter]
    fn path(&self) -> PathBuf {
        self.database.path()
    }

    /// Names of its tables, sorted.
    fn tables(&self, py: Python<'_>) -> Result<Vec<String>> {
        Ok(py.detach(|| self.database.tables())?)
    }

    /// A table.
    fn table(slf: Bound<'_, Self>, name: &str) -> Result<PyTable> {
        let found = slf.py().detach({
            let database = &slf.get().database;
            || database.table(name)
        })?;
        Ok(PyTable::new(found, slf.unbind()))
    }

    /// Plans a statement and starts it.
    #[pyo3(signature = (statement, params=None))]
    fn sql(&self, py: Python<'_>, statement: &str, params: Option<&Bound<'_, PyAny>>) -> Result<PyAnswer> {
        let parameters = parameters(params)?;
        let answer = py.detach(|| signals::start(&self.session, statement, parameters))?;
        Ok(PyAnswer(Rows::new(answer)))
    }

    /// A statement to be run many times.
    fn prepare(&self, statement: String) -> PyPrepared {
        PyPrepared { session: self.session.clone(), text: statement }
    }

    /// Begins to capture into this database.
    #[pyo3(signature = (**settings))]
    fn capture(&self, py: Python<'_>, settings: Option<&Bound<'_, PyDict>>) -> Result<PyCapture> {
        PyCapture::open(py, self.database.clone(), settings)
    }

    /// A writer for rows that come one by one.
    #[pyo3(signature = (table, **settings))]
    fn tick<'py>(
        this: &Bound<'py, Self>,
        table: &str,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("splay.writer")?.getattr("tick_into")?.call((this, table), settings)
    }

    /// Writes the rows of a frame into a table.
    #[pyo3(signature = (
        table, frame, *, time=None, symbol=None, time_zone=None, day_start=None, types=None, memory_bytes=None,
        threads=None, tier=None, replace=None, partition=None, dedupe=None,
        on_duplicate="drop", key=None, effective=None, on_conflict="refuse"
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn write(
        &self,
        py: Python<'_>,
        table: &str,
        frame: &Bound<'_, PyAny>,
        time: Option<String>,
        symbol: Option<String>,
        time_zone: Option<String>,
        day_start: Option<&str>,
        types: Option<&Bound<'_, PyDict>>,
        memory_bytes: Option<usize>,
        threads: Option<usize>,
        tier: Option<&str>,
        replace: Option<&str>,
        partition: Option<&str>,
        dedupe: Option<&Bound<'_, PyAny>>,
        on_duplicate: &str,
        key: Option<&Bound<'_, PyAny>>,
        effective: Option<String>,
        on_conflict: &str,
    ) -> Result<LoadReport> {
        let day_start = load::day_start(day_start)?;
        let reference = load::reference(key, effective)?;
        let table_options =
            NewTableOptions { time, symbol, time_zone, day_start, types: load::types(pairs(types)?)?, reference };
        let mut options = options(memory_bytes.unwrap_or(self.load_bytes), threads, tier, replace, partition)?;
        options.dedupe = load::dedupe(dedupe, on_duplicate)?;
        options.on_conflict = load::on_conflict(on_conflict)?;
        let rows = write::batches(frame)?;
        let report = py.detach(|| write::write(&self.database, table, rows, &table_options, options))?;
        Ok(LoadReport::new(table, &report))
    }

    /// Loads files into a table.
    #[pyo3(signature = (
        table, files, *, recipe=None, format=None, header=None, types=None, time=None, symbol=None, time_zone=None,
        day_start=None, on_error="stop", quarantine_path=None, again=false, skip_loaded=false, memory_bytes=None, threads=None, tier=None,
        progress=None, replace=None, partition=None, dedupe=None, on_duplicate="drop", zone=None, date_format=None,
        numbers=None, key=None, effective=None, on_conflict="refuse", delimiter=None, skip_lines=None, null=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn load(
        &self,
        py: Python<'_>,
        table: &str,
        files: &Bound<'_, PyAny>,
        recipe: Option<PathBuf>,
        format: Option<&str>,
        header: Option<bool>,
        types: Option<&Bound<'_, PyDict>>,
        time: Option<String>,
        symbol: Option<String>,
        time_zone: Option<String>,
        day_start: Option<&str>,
        on_error: &str,
        quarantine_path: Option<PathBuf>,
        again: bool,
        skip_loaded: bool,
        memory_bytes: Option<usize>,
        threads: Option<usize>,
        tier: Option<&str>,
        progress: Option<Py<PyAny>>,
        replace: Option<&str>,
        partition: Option<&str>,
        dedupe: Option<&Bound<'_, PyAny>>,
        on_duplicate: &str,
        zone: Option<String>,
        date_format: Option<&Bound<'_, PyAny>>,
        numbers: Option<&str>,
        key: Option<&Bound<'_, PyAny>>,
        effective: Option<String>,
        on_conflict: &str,
        delimiter: Option<&str>,
        skip_lines: Option<u64>,
        null: Option<&Bound<'_, PyAny>>,
    ) -> Result<LoadReport> {
        let mut options = options(memory_bytes.unwrap_or(self.load_bytes), threads, tier, replace, partition)?;
        options.again = again;
        let loaded = match (again, skip_loaded) {
            (false, false) => load::LoadedFiles::Refused,
            (false, true) => load::LoadedFiles::Skipped,
            (true, false) => load::LoadedFiles::Again,
            (true, true) => return Err(PyValueError::new_err("again and skip_loaded exclude each other").into()),
        };
        options.dedupe = load::dedupe(dedupe, on_duplicate)?;
        options.on_conflict = load::on_conflict(on_conflict)?;
        let recipe = recipe.map(|recipe| Recipe::load(&recipe.to_string_lossy())).transpose()?;
        let format = format.map(|name| name.parse::<Format>().map_err(PyValueError::new_err)).transpose()?;
        let settings = ImportSettings {
            recipe,
            format,
            delimiter: delimiter.map(|text| text.parse().map_err(PyValueError::new_err)).transpose()?,
            header,
            skip_lines,
            null_texts: load::one_or_many(null)?,
            types: load::types(pairs(types)?)?,
            time,
            symbol,
            time_zone,
            day_start: load::day_start(day_start)?,
            zone,
            date_formats: load::one_or_many(date_format)?,
            numbers: numbers.map(|form| form.parse().map_err(PyValueError::new_err)).transpose()?,
            reference: load::reference(key, effective)?,
            on_error: load::on_error(on_error, quarantine_path)?,
            threads: options.threads,
        };
        let files = patterns(files)?;
        let (loaded, read) =
            py.detach(|| load::load(&self.database, table, &files, settings, options, loaded, progress.as_ref()))?;
        let mut report = LoadReport::new(table, &loaded);
        report.quarantined = read.quarantined;
        for file in read.files {
            let splay_import::FileReport { name, digest, rows, bytes } = file;
            report.files.push(Py::new(py, FileReport { name, digest, rows, bytes })?);
        }
        Ok(report)
    }

    fn __repr__(&self) -> String {
        format!("<splay.Database {:?}>", self.database.path())
    }
}

fn options(
    memory_bytes: usize,
    threads: Option<usize>,
    tier: Option<&str>,
    replace: Option<&str>,
    partition: Option<&str>,
) -> PyResult<LoadOptions> {
    let defaults = LoadOptions::default();
    Ok(LoadOptions {
        memory_bytes,
        again: false,
        threads: threads.unwrap_or(defaults.threads).max(1),
        tier: tier.map(load::tier).transpose()?,
        replace: load::replace(replace)?,
        partition: partition.map(load::period).transpose()?,
        ..defaults
    })
}

fn pairs(dict: Option<&Bound<'_, PyDict>>) -> PyResult<Option<Vec<(String, String)>>> {
    dict.map(|dict| dict.iter().map(|pair| pair_of(&pair)).collect()).transpose()
}

fn pair_of((column, name): &(Bound<'_, PyAny>, Bound<'_, PyAny>)) -> PyResult<(String, String)> {
    Ok((column.extract()?, name.extract()?))
}

/// One path or pattern, or several.
fn patterns(files: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let one = |file: &Bound<'_, PyAny>| file.extract::<PathBuf>().map(|path| path.to_string_lossy().into_owned());
    if files.is_instance_of::<PyString>() || files.hasattr("__fspath__")? {
        return Ok(vec![one(files)?]);
    }
    files.try_iter()?.map(|file| one(&file?)).collect()
}
