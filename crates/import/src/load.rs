//! From files to rows in a table: the whole way of a load.

use splay_store::{Database, Load, LoadOptions, LoadReport, Source};

use crate::error::{Error, Result};
use crate::input::{InputFile, digest};
use crate::plan::{ImportSettings, plan};
use crate::report::{Block, ImportReport};

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
            let digest = digest(file)?;
            if let Some((_, epoch)) = snapshot.sources().find(|(source, _)| source.digest == digest && source.rows > 0)
            {
                let (table, source_name) = (table.to_owned(), file.name.clone());
                return Err(splay_store::Error::AlreadyLoaded { table, source_name, epoch: *epoch }.into());
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
