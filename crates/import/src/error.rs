//! What can go wrong while reading a file, one variant for each thing a caller would do differently.

use std::path::{Path, PathBuf};

/// Result of an import operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Longest piece of a malformed row that an error shows, in bytes.
pub(crate) const EXCERPT_BYTES_MAX: usize = 120;

/// Failure while a file is read. Nothing was written; the batches handed out before are sound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pattern names no file. Look for a typing mistake.
    #[error("{}", no_match(pattern))]
    NoMatch {
        /// The pattern as given.
        pattern: String,
    },

    /// A pattern that isn't one.
    #[error("{pattern:?} is not a file pattern: {reason}")]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The operating system refused an operation.
    #[error("{act} {}: {source}", path.display())]
    Io {
        /// What was being done, as a verb.
        act: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },

    /// The store refused the rows, or the load.
    #[error(transparent)]
    Store(#[from] splay_store::Error),

    /// A row doesn't fit. Mend the file, give the column another type, or put such rows into quarantine.
    #[error("{file} line {line}{}: {reason}: {excerpt}", in_column(column))]
    Row {
        /// The file, or `path:member`.
        file: String,
        /// Line in the (decompressed) file, from 1; the row's number for binary files.
        line: u64,
        /// The column, or empty when the whole row is wrong.
        column: String,
        /// What is wrong, and which setting helps.
        reason: String,
        /// The row's beginning, at most 120 bytes.
        excerpt: String,
    },

    /// The file's bytes are not what its format asks for: damaged, cut short, or of another format.
    #[error("{file}: {reason}")]
    Damaged {
        /// The file, or `path:member`.
        file: String,
        /// What is wrong.
        reason: String,
    },

    /// A kind of file that can't be read. The text says what to do instead.
    #[error("{file}: {reason}")]
    Unsupported {
        /// The file, or `path:member`.
        file: String,
        /// Why.
        reason: String,
    },

    /// The file's columns don't fit the table or the recipe.
    #[error("{file} does not fit table {table:?}: {reason}")]
    Misfit {
        /// The file, or `path:member`.
        file: String,
        /// The table.
        table: String,
        /// What doesn't fit, by name.
        reason: String,
    },

    /// A recipe asks for a last line that isn't there, or that counts other rows than were read: the file is cut short.
    #[error("{file} is cut short: {reason}")]
    Trailer {
        /// The file, or `path:member`.
        file: String,
        /// What was expected and found.
        reason: String,
    },

    /// No built-in recipe has this name, and no file either.
    #[error("no recipe {name:?}; there are {}, or give the path of a .toml file", available.join(", "))]
    UnknownRecipe {
        /// The name asked for.
        name: String,
        /// The built-in names.
        available: Vec<&'static str>,
    },

    /// A recipe that can't be used.
    #[error("recipe {origin}: {reason}")]
    Recipe {
        /// Its file or name.
        origin: String,
        /// What is wrong, with the key.
        reason: String,
    },

    /// A setting has a value it can't have.
    #[error("setting {setting}: {reason}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What is wrong.
        reason: String,
    },
}

fn no_match(pattern: &str) -> String {
    if pattern.contains(['*', '?', '[']) {
        format!("no file matches {pattern:?}")
    } else {
        format!("there is no file or folder {pattern:?}")
    }
}

fn in_column(column: &str) -> String {
    if column.is_empty() { String::new() } else { format!(", column {column}") }
}

impl Error {
    pub(crate) fn io(act: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { act, path, source }
    }

    pub(crate) fn damaged(file: &str, reason: impl Into<String>) -> Error {
        Error::Damaged { file: file.to_owned(), reason: reason.into() }
    }

    pub(crate) fn unsupported(file: &str, reason: impl Into<String>) -> Error {
        Error::Unsupported { file: file.to_owned(), reason: reason.into() }
    }
}

/// The beginning of a row for an error message: printable, at most [`EXCERPT_BYTES_MAX`] bytes.
pub(crate) fn excerpt(row: &[u8]) -> String {
    let cut = &row[..row.len().min(EXCERPT_BYTES_MAX)];
    let text: String = String::from_utf8_lossy(cut).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if row.len() > EXCERPT_BYTES_MAX { format!("{text}...") } else { text }
}

/// Most names that a message lists.
const NAMES_MAX: usize = 10;

/// Names in a message, at most ten of them.
pub(crate) fn listed<N: AsRef<str>>(names: &[N]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        others => format!("{} and {others} others", shown.join(", ")),
    }
}
