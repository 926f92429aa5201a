//! Files into tables.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use splay_import::{FileReport, Import, ImportReport, ImportSettings, InputFile, OnError};
use splay_store::{
    ColumnType, Database, DayStart, Dedupe, Error, FileFormat, LoadOptions, LoadReport, OnConflict, Period, Publish,
    Reference, Replace, Source, Tier,
};

use crate::error::{Failure, Result};
use crate::signals::Signals;
use crate::write::existing;

/// Loads files; call it detached. `progress` is called with bytes read and bytes there are.
///
/// # Errors
/// Those of the importer and the store, and what `progress` and Ctrl-C raise; nothing is loaded then.
pub(crate) fn load(
    database: &Database,
    table: &str,
    patterns: &[String],
    settings: ImportSettings,
    options: LoadOptions,
    loaded: LoadedFiles,
    progress: Option<&Py<PyAny>>,
) -> Result<(LoadReport, ImportReport)> {
    let files = splay_import::expand(patterns)?;
    if options.dedupe.is_some() || options.replace != Replace::Nothing {
        splay_capture::settle(database)?;
    }
    let files = files_to_load(database, table, files, loaded)?;
    if files.is_empty() {
        return Ok((LoadReport::default(), ImportReport::default()));
    }
    let import = splay_import::plan(table, files, settings, existing(database, table)?.as_ref())?;
    let mut load = database.load(import.spec(), options)?;
    let read = run(import, &mut load, progress)?;
    for FileReport { name, digest, rows, .. } in read.files.clone() {
        load.add_source(Source { name, digest, rows })?;
    }
    Ok((load.commit()?, read))
}

/// Which files that were loaded before are loaded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadedFiles {
    /// None: the load is refused if there are any.
    Refused,
    /// None: they are passed over.
    Skipped,
    /// All.
    Again,
}

/// The files that a load reads, by what is to be done with those that were loaded before. They are known by their digests, and the load itself looks
/// once more.
fn files_to_load(
    database: &Database,
    table: &str,
    files: Vec<InputFile>,
    loaded: LoadedFiles,
) -> Result<Vec<InputFile>> {
    let snapshot = match database.table(table) {
        _ if loaded == LoadedFiles::Again => return Ok(files),
        Ok(table) => table.snapshot()?,
        Err(Error::NoSuchTable { .. }) => return Ok(files),
        Err(error) => return Err(error.into()),
    };
    if snapshot.sources().next().is_none() {
        return Ok(files);
    }
    let (mut signals, mut new) = (Signals::new(), Vec::with_capacity(files.len()));
    for file in files {
        signals.check()?;
        match splay_import::loaded_by(&snapshot, &file)? {
            Some(epoch) if loaded == LoadedFiles::Refused => {
                let (table, source_name) = (snapshot.spec().name.clone(), file.name.clone());
                return Err(Error::AlreadyLoaded { table, source_name, epoch }.into());
            }
            Some(_) => {}
            None => new.push(file),
        }
    }
    Ok(new)
}

fn run(import: Import, load: &mut splay_store::Load, progress: Option<&Py<PyAny>>) -> Result<ImportReport> {
    let (total, mut signals, mut is_first) = (import.total_bytes(), Signals::new(), true);
    let tell = |read: u64| {
        Python::attach(|py| {
            py.check_signals()?;
            progress.map_or(Ok(()), |progress| progress.bind(py).call1((read, total)).map(|_| ()))
        })
    };
    let report = import.run::<Failure>(&mut |block| {
        // Also of the first rows, so that a caller who wants to stop can do so however short the load is.
        if signals.is_due() || std::mem::take(&mut is_first) {
            tell(block.bytes_read)?;
        }
        Ok(load.append(&block.batch)?)
    })?;
    tell(total)?;
    Ok(report)
}

/// The treatment of malformed rows, by its name in Python.
///
/// # Errors
/// `ValueError` for other words, or a path that is missing or of no use.
pub(crate) fn on_error(word: &str, quarantine_path: Option<PathBuf>) -> PyResult<OnError> {
    match (word, quarantine_path) {
        ("stop", None) => Ok(OnError::Stop),
        ("stop", Some(_)) => Err(PyValueError::new_err("quarantine_path is for on_error=\"quarantine\"")),
        ("quarantine", Some(path)) => Ok(OnError::Quarantine { path }),
        ("quarantine", None) => Err(PyValueError::new_err("on_error=\"quarantine\" needs a quarantine_path")),
        (other, _) => Err(PyValueError::new_err(format!("on_error is \"stop\" or \"quarantine\", not {other:?}"))),
    }
}

/// Types by name.
///
/// # Errors
/// `ValueError` for a name that is not a type.
pub(crate) fn types(pairs: Option<Vec<(String, String)>>) -> PyResult<Vec<(String, ColumnType)>> {
    let parse = |(column, name): (String, String)| match name.parse() {
        Ok(parsed) => Ok((column, parsed)),
        Err(reason) => Err(PyValueError::new_err(format!("types[{column:?}]: {reason}"))),
    };
    pairs.unwrap_or_default().into_iter().map(parse).collect()
}

/// A tier by name.
///
/// # Errors
/// `ValueError` for another name.
pub(crate) fn tier(name: &str) -> PyResult<Tier> {
    name.parse().map_err(PyValueError::new_err)
}

/// A form to publish a table in by name.
///
/// # Errors
/// `ValueError` for another one.
pub(crate) fn publish(name: &str) -> PyResult<Publish> {
    name.parse().map_err(PyValueError::new_err)
}

/// The span of a partition, by name.
///
/// # Errors
/// `ValueError` for another name.
pub(crate) fn period(name: &str) -> PyResult<Period> {
    name.parse().map_err(PyValueError::new_err)
}

/// When dates begin.
///
/// # Errors
/// `ValueError` for what no day starts at.
pub(crate) fn day_start(text: Option<&str>) -> PyResult<Option<DayStart>> {
    text.map(|text| text.parse().map_err(PyValueError::new_err)).transpose()
}

/// A format of exported files by name.
///
/// # Errors
/// `ValueError` for another name.
pub(crate) fn file_format(name: &str) -> PyResult<FileFormat> {
    match name {
        "arrow" => Ok(FileFormat::Arrow),
        "parquet" => Ok(FileFormat::Parquet),
        other => Err(PyValueError::new_err(format!("a file's format is \"arrow\" or \"parquet\", not {other:?}"))),
    }
}

/// The stored rows that a load replaces.
///
/// # Errors
/// `ValueError` for another word.
pub(crate) fn replace(what: Option<&str>) -> PyResult<Replace> {
    match what {
        None => Ok(Replace::Nothing),
        Some("date") => Ok(Replace::Dates),
        Some("symbol") => Ok(Replace::Symbols),
        Some("table") => Ok(Replace::Table),
        Some(other) => Err(PyValueError::new_err(format!(
            "what a load replaces is \"date\", \"symbol\" or \"table\", not {other:?}"
        ))),
    }
}

/// The action for a row whose key is there already.
///
/// # Errors
/// `ValueError` for another word.
pub(crate) fn on_conflict(word: &str) -> PyResult<OnConflict> {
    match word {
        "refuse" => Ok(OnConflict::Refuse),
        "nothing" => Ok(OnConflict::Keep),
        "update" => Ok(OnConflict::Replace),
        other => {
            Err(PyValueError::new_err(format!("on_conflict is \"refuse\", \"nothing\" or \"update\", not {other:?}")))
        }
    }
}

/// The duplicates that a load looks for, and the action for them.
///
/// # Errors
/// `ValueError` for other words, `TypeError` for other types.
pub(crate) fn dedupe(by: Option<&Bound<'_, PyAny>>, then: &str) -> PyResult<Option<Dedupe>> {
    let refuse = match then {
        "drop" => false,
        "stop" => true,
        other => return Err(PyValueError::new_err(format!("on_duplicate is \"drop\" or \"stop\", not {other:?}"))),
    };
    let Some(by) = by.filter(|by| !by.is_none()) else {
        return match refuse {
            false => Ok(None),
            true => {
                Err(PyValueError::new_err("on_duplicate=\"stop\" needs dedupe: \"exact\", or the columns of a key"))
            }
        };
    };
    let dedupe: Dedupe = match by.extract::<String>() {
        Ok(text) => text.parse().map_err(PyValueError::new_err)?,
        Err(_) => Dedupe { columns: Some(by.extract()?), refuse },
    };
    if dedupe.columns.as_ref().is_some_and(Vec::is_empty) {
        return Err(PyValueError::new_err("dedupe: a key needs a column"));
    }
    Ok(Some(Dedupe { refuse, ..dedupe }))
}

/// A text, or several.
///
/// # Errors
/// `TypeError` for anything else.
pub(crate) fn one_or_many(object: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    match object.filter(|object| !object.is_none()) {
        None => Ok(Vec::new()),
        Some(object) => object.extract::<String>().map(|one| vec![one]).or_else(|_| object.extract()),
    }
}

/// The options that make a new table a reference table: a key of one or several columns, or of none, or an effective date.
///
/// # Errors
/// `TypeError` for a key that is no text and no list of texts.
pub(crate) fn reference(key: Option<&Bound<'_, PyAny>>, effective: Option<String>) -> PyResult<Option<Reference>> {
    let key = match key {
        None => None,
        Some(key) => Some(match key.extract::<String>() {
            Ok(one) => vec![one],
            Err(_) => key.extract::<Vec<String>>()?,
        }),
    };
    if key.is_none() && effective.is_none() {
        return Ok(None);
    }
    Ok(Some(Reference { key: key.unwrap_or_default(), effective }))
}
