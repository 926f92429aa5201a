//! `splay backup`, `splay restore`.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use splay_store::storage::{LocalStorage, refuse_address};
use splay_store::{Backup, Database, Error, RESTORE};

use super::upkeep;
use crate::args::{BackupArguments, RestoreArguments, VerifyArguments};
use crate::print::say;
use crate::size::{Counted, HumanBytes, Thousands};

pub fn backup(arguments: &BackupArguments) -> Result<()> {
    if let Some(backup) = &arguments.verify {
        return verify(backup);
    }
    let (Some(database), Some(to)) = (&arguments.database, &arguments.to) else { bail!("no database") };
    let database = Database::open(database)?;
    refuse_address(to)?;
    refuse_inside(&database.path(), to)?;
    let report = splay_capture::back_up_with(&database, Arc::new(LocalStorage::made(to)?), arguments.link)?;
    say!(
        "backup {} in {}: {}, {}; {} of them new, {}",
        report.generation,
        to.display(),
        Counted(report.files, "file"),
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

/// Refuses a folder for backups within the database's own: they would be lost with it.
fn refuse_inside(database: &Path, to: &Path) -> Result<()> {
    let of_database = database.canonicalize().with_context(|| format!("look at {}", database.display()))?;
    let to = std::path::absolute(to).with_context(|| format!("look at {}", to.display()))?;
    // The folder may not be there yet, nor one that `..` leaves.
    let mut plain = PathBuf::new();
    for part in to.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    let is_inside = |path: &Path| {
        let nearest = path.ancestors().find_map(|folder| folder.canonicalize().ok());
        nearest.is_some_and(|folder| folder.starts_with(&of_database))
    };
    if is_inside(&to) || is_inside(&plain) {
        bail!(
            "{} is inside the database {}: a backup there is lost together with it; name a folder elsewhere",
            to.display(),
            database.display()
        );
    }
    Ok(())
}

fn verify(folder: &Path) -> Result<()> {
    let (backup, at) = whole(folder)?;
    backup.verify(&at)?;
    say!(
        "backup {} in {}: {}: sound",
        backup.generation,
        folder.display(),
        Counted(backup.files.len() as u64, "file")
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
    let (files, shown) = (Counted(backup.files.len() as u64, "file"), arguments.database.display());
    say!("backup {} restored to {shown}: {files}", backup.generation)?;
    upkeep::verify(&VerifyArguments { database: arguments.database.clone(), table: None })
}

/// The whole backup in a folder.
fn whole(folder: &Path) -> Result<(Backup, LocalStorage)> {
    refuse_address(folder)?;
    let at = LocalStorage::new(folder);
    match Backup::read(&at)? {
        Some(backup) => Ok((backup, at)),
        None => {
            bail!("{} has no backup.json: a backup there was never finished; run splay backup again", folder.display())
        }
    }
}
