//! Checks for readers that all files of a journal exist, while another process may write.
//!
//! - The catalog lists the files. It is replaced before a file is removed and after one was created. So a file is
//!   missing if it doesn't exist although the catalog named it both before and after the check.
//! - A missing file has acknowledged rows. Once a start has reported and listed the loss, readers skip it, as that
//!   start did.
//! - Without a catalog, and with captured rows in the tables' files, the whole journal is missing.

use splay_store::storage::Storage;

use super::catalog::{Catalog, CatalogContent};
use super::loss::{JournalLoss, LossKind};
use super::reader::numbers;
use super::{FOLDER, path};
use crate::error::{Error, Result};

/// How often the files are listed again while some are removed.
const TRIES: usize = 1_000;

/// The catalog, if there is a sound one.
pub(super) fn catalog(storage: &dyn Storage) -> Result<Option<Catalog>> {
    Ok(match Catalog::load(storage)? {
        CatalogContent::Sound(catalog) => Some(catalog),
        CatalogContent::Absent | CatalogContent::Damaged => None,
    })
}

/// Fails with the first file that has to be there and isn't.
pub(super) fn check(storage: &dyn Storage) -> Result<()> {
    let mut before = None;
    for _ in 0..TRIES {
        let Some(number) = first_missing(storage)? else { return Ok(()) };
        // Or it went by right while it was looked for: then the catalog names it no longer.
        if before == Some(number) {
            let expected = "a journal file that the catalog names, whose rows may be in no other file";
            return Err(lost(storage, &path(number), 0, expected.to_owned(), "no file".to_owned()));
        }
        before = Some(number);
    }
    Ok(())
}

fn first_missing(storage: &dyn Storage) -> Result<Option<u64>> {
    let Some(catalog) = catalog(storage)? else { return Ok(None) };
    let there = numbers(storage)?;
    let is_listed = |number: &u64| {
        let is_it = |loss: &JournalLoss| loss.kind == LossKind::Missing && names(loss, *number);
        catalog.losses.iter().any(is_it)
    };
    let mut named = catalog.oldest.max(1)..=catalog.newest;
    Ok(named.find(|number| there.binary_search(number).is_err() && !is_listed(number)))
}

fn names(loss: &JournalLoss, number: u64) -> bool {
    (loss.files.0..=loss.files.1).contains(&number)
}

/// An error that says what isn't there any more.
pub(super) fn lost(storage: &dyn Storage, path: &str, offset: u64, expected: String, found: String) -> Error {
    Error::Damaged { path: storage.display_path(path), offset, expected, found }
}

/// Fails if there is no journal, though there was one: `captured` says whether tables' files have rows of it.
pub(super) fn check_missing_journal(storage: &dyn Storage, captured: impl FnOnce() -> bool) -> Result<()> {
    let is_gone = numbers(storage)?.is_empty() && Catalog::load(storage)? == CatalogContent::Absent && captured();
    if !is_gone {
        return Ok(());
    }
    let expected = "the journal that rows of the tables came from";
    Err(lost(storage, FOLDER, 0, expected.to_owned(), "no file of it".to_owned()))
}

/// Whether a start has already reported that something is wrong with a file.
pub(super) fn is_reported(storage: &dyn Storage, number: u64) -> Result<bool> {
    Ok(catalog(storage)?.is_some_and(|catalog| catalog.losses.iter().any(|loss| names(loss, number))))
}
