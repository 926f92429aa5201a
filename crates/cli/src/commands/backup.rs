//! `splay backup`, `splay restore`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use splay_store::storage::LocalStorage;
use splay_store::{Backup, Database, Error, RESTORE};

use super::upkeep;
use crate::args::{BackupArguments, RestoreArguments, VerifyArguments};
use crate::print::say;
use crate::size::{HumanBytes, Thousands};

pub fn backup(arguments: &BackupArguments) -> Result<()> {
    if let Some(backup) = &arguments.verify {
        return verify(backup);
    }
    let (Some(database), Some(to)) = (&arguments.database, &arguments.to) else { bail!("no database") };
    let database = Database::open(database)?;
    let report = splay_capture::back_up_with(&database, Arc::new(LocalStorage::made(to)?), arguments.link)?;
    say!(
        "backup {} in {}: {} files, {}; {} of them new, {}",
        report.generation,
        to.display(),
        Thousands(report.files),
        HumanBytes(report.bytes),
        Thousands(report.new_files),
        HumanBytes(report.new_bytes)
    )?;
    if arguments.link {
        let linked = Thousands(report.linked_files);
        say!("{linked} of the new files are the database's own: they are lost together")?;
    }
    Ok(())
}

fn verify(folder: &Path) -> Result<()> {
    let (backup, at) = whole(folder)?;
    backup.verify(&at)?;
    say!(
        "backup {} in {}: {} files: sound",
        backup.generation,
        folder.display(),
        Thousands(backup.files.len() as u64)
    )?;
    Ok(())
}

pub fn restore(arguments: &RestoreArguments) -> Result<()> {
    let (backup, at) = whole(&arguments.backup)?;
    let to = LocalStorage::made(&arguments.database)?;
    match backup.restore(&at, &to) {
        // Nothing was touched.
        Err(error @ Error::Io { act: RESTORE, .. }) => return Err(error.into()),
        restored => restored.with_context(|| {
            format!("{} is no database yet; remove it before you try again", arguments.database.display())
        })?,
    }
    let (files, shown) = (Thousands(backup.files.len() as u64), arguments.database.display());
    say!("backup {} restored to {shown}: {files} files", backup.generation)?;
    upkeep::verify(&VerifyArguments { database: arguments.database.clone(), table: None })
}

/// The whole backup in a folder.
fn whole(folder: &Path) -> Result<(Backup, LocalStorage)> {
    let at = LocalStorage::new(folder);
    match Backup::read(&at)? {
        Some(backup) => Ok((backup, at)),
        None => {
            bail!("{} has no backup.json: a backup there was never finished; run splay backup again", folder.display())
        }
    }
}
