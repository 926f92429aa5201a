//! Failures as Python exceptions.
//!
//! - A variant's class is in `splay.errors`; its fields become the exception's attributes, its text the message.
//! - A [`Failure`] is made without the interpreter and turns into an exception where it reaches Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The errors of this package.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(splay_store::Error),
    Sql(splay_sql::Error),
    Import(splay_import::Error),
    Capture(splay_capture::Error),
    Lab(splay_lab::Error),
    /// The rows of an answer were taken before.
    Consumed,
    /// Ctrl-C, or what Python code of the caller raised.
    Python(PyErr),
}

/// Result of a call of this package.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

const CONSUMED: &str =
    "the rows of this answer were read before; run the statement again, or keep them with to_arrow()";

impl From<splay_store::Error> for Failure {
    fn from(error: splay_store::Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<splay_sql::Error> for Failure {
    fn from(error: splay_sql::Error) -> Failure {
        Failure::Sql(error)
    }
}

impl From<splay_import::Error> for Failure {
    fn from(error: splay_import::Error) -> Failure {
        Failure::Import(error)
    }
}

impl From<splay_capture::Error> for Failure {
    fn from(error: splay_capture::Error) -> Failure {
        Failure::Capture(error)
    }
}

impl From<splay_lab::Error> for Failure {
    fn from(error: splay_lab::Error) -> Failure {
        Failure::Lab(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Store(error) => error.fmt(f),
            Failure::Sql(error) => error.fmt(f),
            Failure::Import(error) => error.fmt(f),
            Failure::Capture(error) => error.fmt(f),
            Failure::Lab(error) => error.fmt(f),
            Failure::Consumed => f.write_str(CONSUMED),
            Failure::Python(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        let message = failure.to_string();
        Python::attach(|py| {
            let fields = PyDict::new(py);
            let class = match &failure {
                Failure::Store(error) => of_store(error, &fields),
                Failure::Sql(error) => of_sql(error, &fields),
                Failure::Import(error) => of_import(error, &fields),
                Failure::Capture(error) => of_capture(error, &fields),
                Failure::Lab(error) => of_lab(error, &fields),
                Failure::Consumed => Ok("ConsumedError"),
                Failure::Python(error) => return error.clone_ref(py),
            };
            class.and_then(|class| exception(py, class, message, &fields)).unwrap_or_else(|error| error)
        })
    }
}

fn exception(py: Python<'_>, class: &str, message: String, fields: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let exception = py.import("splay.errors")?.getattr(class)?.call1((message,))?;
    for (name, value) in fields {
        exception.setattr(name.cast::<pyo3::types::PyString>()?, value)?;
    }
    Ok(PyErr::from_value(exception))
}

/// Puts variables into a dict under their names.
macro_rules! keep {
    ($fields:expr, $($name:ident),+) => { $( $fields.set_item(stringify!($name), $name)?; )+ };
}

fn of_store(error: &splay_store::Error, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    use splay_store::Error;
    Ok(match error {
        Error::Io { path, source, .. } => {
            fields.set_item("path", path)?;
            fields.set_item("errno", source.raw_os_error())?;
            "StorageError"
        }
        Error::Object { object, reason, .. } => {
            keep!(fields, object, reason);
            "StorageError"
        }
        Error::Encrypted { path, key, reason } => {
            keep!(fields, path, key, reason);
            "StorageError"
        }
        Error::Corrupt { path, offset, expected, found } => {
            keep!(fields, path, offset, expected, found);
            "CorruptError"
        }
        Error::FormatVersion { path, found, supported } => {
            keep!(fields, path, found, supported);
            "FormatVersionError"
        }
        Error::Locked { path } => {
            keep!(fields, path);
            "LockedError"
        }
        Error::NotADatabase { path } => {
            keep!(fields, path);
            "NotADatabaseError"
        }
        Error::NotAFolder { address } => {
            keep!(fields, address);
            "NotADatabaseError"
        }
        Error::NoSuchTable { table, existing } => {
            keep!(fields, table, existing);
            "NoSuchTableError"
        }
        Error::NoSuchColumn { table, column, existing } => {
            keep!(fields, table, column, existing);
            "NoSuchColumnError"
        }
        Error::Name { name, .. } => {
            keep!(fields, name);
            "InvalidNameError"
        }
        Error::Schema { table, .. } => {
            keep!(fields, table);
            "SchemaError"
        }
        Error::Row { table, row, .. } => {
            keep!(fields, table, row);
            "RowError"
        }
        Error::DuplicateKey { table, columns, values, .. } => {
            keep!(fields, table, columns, values);
            "DuplicateKeyError"
        }
        Error::AlreadyLoaded { table, source_name, epoch } => {
            keep!(fields, table, source_name, epoch);
            "AlreadyLoadedError"
        }
        Error::Duplicate { table, date, row, is_stored } => {
            keep!(fields, table, date, row, is_stored);
            "DuplicateError"
        }
        Error::Setting { setting, .. } => {
            keep!(fields, setting);
            "SettingError"
        }
        Error::RowsElsewhere { table } => {
            keep!(fields, table);
            "BusyError"
        }
        Error::CannotUndo { table, commit, reason } => {
            keep!(fields, table, commit, reason);
            "CannotUndoError"
        }
        Error::NoSuchCommit { table, commit, first, last } => {
            keep!(fields, table, commit, first, last);
            "NoSuchCommitError"
        }
        Error::Refused { .. } => "ExecutionError",
        Error::Poisoned => "PoisonedError",
        Error::Arrow(_) | Error::Parquet(_) => "ArrowError",
        _ => "Error",
    })
}

fn of_sql(error: &splay_sql::Error, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    use splay_sql::Error;
    Ok(match error {
        Error::Statement { .. } => "StatementError",
        Error::ReadOnly { .. } => "ReadOnlyError",
        Error::Memory { limit_bytes, .. } => {
            keep!(fields, limit_bytes);
            "MemoryLimitError"
        }
        Error::TotalMemory { .. } => "MemoryLimitError",
        Error::Store(error) => of_store(error, fields)?,
        Error::Execution { .. } | Error::Internal { .. } => "ExecutionError",
        Error::Cancelled => "CancelledError",
        _ => "Error",
    })
}

fn of_capture(error: &splay_capture::Error, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    use splay_capture::Error;
    Ok(match error {
        Error::Full { .. } => "FullError",
        Error::Rejected { table, .. } => {
            keep!(fields, table);
            "RejectedError"
        }
        Error::NoSuchTable { table } => {
            keep!(fields, table);
            "NoSuchTableError"
        }
        Error::Locked { path } => {
            keep!(fields, path);
            "LockedError"
        }
        Error::Following { .. } | Error::Fenced { .. } => "FollowingError",
        Error::Unreplicated { .. } => "UnreplicatedError",
        Error::Closed => "CaptureClosedError",
        Error::Failed { .. } => "CaptureFailedError",
        Error::Damaged { path, offset, expected, found } => {
            keep!(fields, path, offset, expected, found);
            "CorruptError"
        }
        Error::Store(error) => of_store(error, fields)?,
        _ => "Error",
    })
}

fn of_lab(error: &splay_lab::Error, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    use splay_lab::Error;
    Ok(match error {
        Error::Io { path, source, .. } => {
            fields.set_item("path", path)?;
            fields.set_item("errno", source.raw_os_error())?;
            "StorageError"
        }
        Error::Setting { setting, .. } => {
            keep!(fields, setting);
            "SettingError"
        }
        Error::Parquet { path, .. } => {
            keep!(fields, path);
            "ArrowError"
        }
        Error::Arrow(_) => "ArrowError",
        _ => "LabError",
    })
}

fn of_import(error: &splay_import::Error, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    use splay_import::Error;
    Ok(match error {
        Error::NoMatch { pattern } => {
            keep!(fields, pattern);
            "NoMatchError"
        }
        Error::Pattern { pattern, .. } => {
            keep!(fields, pattern);
            "PatternError"
        }
        Error::Io { path, source, .. } => {
            fields.set_item("path", path)?;
            fields.set_item("errno", source.raw_os_error())?;
            "StorageError"
        }
        Error::Row { file, line, column, reason, excerpt } => {
            keep!(fields, file, line, column, reason, excerpt);
            "MalformedRowError"
        }
        Error::Damaged { file, .. } => {
            keep!(fields, file);
            "DamagedFileError"
        }
        Error::Unsupported { file, .. } => {
            keep!(fields, file);
            "UnsupportedFileError"
        }
        Error::Misfit { file, table, .. } => {
            keep!(fields, file, table);
            "MisfitError"
        }
        Error::Trailer { file, .. } => {
            keep!(fields, file);
            "TrailerError"
        }
        Error::UnknownRecipe { name, available: known } => {
            keep!(fields, name, known);
            "UnknownRecipeError"
        }
        Error::Recipe { origin, .. } => {
            keep!(fields, origin);
            "RecipeError"
        }
        Error::Setting { setting, .. } => {
            keep!(fields, setting);
            "SettingError"
        }
        Error::Store(error) => of_store(error, fields)?,
        _ => "ImportFailedError",
    })
}
