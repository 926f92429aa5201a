//! From files to rows in a table: the whole way of a load.

use splay_store::{Database, Load, LoadOptions, LoadReport, Source, TableSnapshot};

use crate::error::{Error, Result};
use crate::input::{InputFile, digest};
use crate::plan::plan;
use crate::report::{Block, ImportReport};
use crate::settings::ImportSettings;

/// How far a load is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Bytes of the files that were read.
    pub bytes: u64,
    /// Rows that were read.
    pub rows: u64,
    /// What is loaded as what, for people.
    pub description: &'a str,
}

/// What a load did.
#[derive(Debug, Clone)]
pub struct LoadOutcome {
    /// What was read.
    pub import: ImportReport,
    /// What was written.
    pub load: LoadReport,
}

/// Loads files into a table, by one commit. `observer` is called for every block of rows; an error from it stops the load.
///
/// # Errors
/// [`Error::Store`] for what the store refuses: another writer, a file that was loaded before, rows that don't fit the table.
/// Every other variant for what is wrong with the files. The table is as it was.
pub fn load(
    database: &Database,
    table: &str,
    files: Vec<InputFile>,
    settings: ImportSettings,
    options: LoadOptions,
    observer: &mut dyn FnMut(Progress<'_>) -> Result<()>,
) -> Result<LoadOutcome> {
    let existing = match database.table(table) {
        Ok(table) => Some(table.snapshot()?),
        Err(splay_store::Error::NoSuchTable { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if !options.again
        && let Some(snapshot) = &existing
        && snapshot.sources().next().is_some()
    {
        // Before anything is read. The load itself asks again, when it holds the lock.
        for file in &files {
            if let Some(epoch) = loaded_by(snapshot, file)? {
                let (table, source_name) = (table.to_owned(), file.name.clone());
                return Err(splay_store::Error::AlreadyLoaded { table, source_name, epoch }.into());
            }
        }
    }
    let import = plan(table, files, settings, existing.as_ref().map(|snapshot| snapshot.spec()))?;
    drop(existing);
    let description = import.describe();
    let mut load = database.load(import.spec(), options)?;
    let report = fill(import, &mut load, &description, observer)?;
    for file in &report.files {
        load.add_source(Source { name: file.name.clone(), digest: file.digest.clone(), rows: file.rows })?;
    }
    Ok(LoadOutcome { load: load.commit()?, import: report })
}

/// The commit that loaded the rows of a file, known by its content, if one did. Files without rows are never loaded.
///
/// # Errors
/// For a file that can't be read.
pub fn loaded_by(snapshot: &TableSnapshot, file: &InputFile) -> Result<Option<u64>> {
    let digest = digest(file)?;
    let source = snapshot.sources().find(|(source, _)| source.digest == digest && source.rows > 0);
    Ok(source.map(|(_, epoch)| *epoch))
}

/// The files that a table hasn't loaded before.
///
/// # Errors
/// [`Error::Store`] for a table that can't be read; as [`loaded_by`].
pub fn new_files(database: &Database, table: &str, files: Vec<InputFile>) -> Result<Vec<InputFile>> {
    let snapshot = match database.table(table) {
        Ok(table) => table.snapshot()?,
        Err(splay_store::Error::NoSuchTable { .. }) => return Ok(files),
        Err(error) => return Err(error.into()),
    };
    let mut unknown = Vec::with_capacity(files.len());
    for file in files {
        if loaded_by(&snapshot, &file)?.is_none() {
            unknown.push(file);
        }
    }
    Ok(unknown)
}

fn fill(
    import: crate::plan::Import,
    load: &mut Load,
    description: &str,
    observer: &mut dyn FnMut(Progress<'_>) -> Result<()>,
) -> Result<ImportReport> {
    let mut rows = 0;
    import.run::<Error>(&mut |block: Block| {
        load.append(&block.batch)?;
        rows += block.batch.num_rows() as u64;
        observer(Progress { bytes: block.bytes_read, rows, description })
    })
}
