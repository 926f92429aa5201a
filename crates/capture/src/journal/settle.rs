//! Acts on the findings of a start, before it continues: saves bytes that don't count, then lists losses in the
//! catalog, and only then truncates the end. Invariant: after a crash in between, the next start finds the same
//! again.

use splay_store::storage::Storage;

use super::catalog::Catalog;
use super::reader::{FileRepair, JournalContent};
use super::{FOLDER, path};
use crate::error::Result;

impl JournalContent {
    /// Makes the journal one that can be gone on with.
    pub(crate) fn settle(&mut self, storage: &dyn Storage) -> Result<()> {
        for loss in &self.losses {
            tracing::error!(loss = %loss, "the journal has lost something: see splay journal inspect");
        }
        if let Some((bytes, salvage_file)) = &self.torn {
            tracing::warn!(bytes, kept = %salvage_file, "the journal's end was torn and is cut off");
        }
        self.keep_aside(storage)?;
        self.list(storage)?;
        for mend in std::mem::take(&mut self.mends) {
            match mend {
                FileRepair::Cut(number, bytes) => storage.open_append(&path(number), bytes)?.sync()?,
                FileRepair::Remove(number) => storage.remove(&path(number))?,
                FileRepair::Rename(number, name) => storage.rename(&path(number), &format!("{FOLDER}/{name}"))?,
            }
        }
        Ok(())
    }

    /// Copies bytes that don't count to files beside.
    fn keep_aside(&mut self, storage: &dyn Storage) -> Result<()> {
        for aside in std::mem::take(&mut self.asides) {
            let bytes = storage.map(&path(aside.number))?;
            let aside_path = format!("{FOLDER}/{}", aside.name);
            if storage.list(FOLDER)?.iter().any(|entry| entry.name == aside.name) {
                storage.remove(&aside_path)?;
            }
            let mut file = storage.create(&aside_path)?;
            file.write(bytes.get(aside.range).unwrap_or_default())?;
            file.sync()?;
            storage.sync_dir(FOLDER)?;
        }
        Ok(())
    }

    /// Writes the catalog if it isn't there, or something is lost that it doesn't list.
    fn list(&mut self, storage: &dyn Storage) -> Result<()> {
        // The catalog keeps the needed layouts alone, so that the next start reads the same ones.
        self.catalog.layouts = self.needed.values().map(|(number, spec)| (*number, spec.as_ref().clone())).collect();
        self.catalog.layouts.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        if self.has_catalog && self.losses.is_empty() {
            return Ok(());
        }
        let mut catalog = self.catalog.clone();
        let newest = self.files.last();
        catalog.newest = catalog.newest.max(newest.map_or(0, |file| file.number));
        let (bytes, sequence) = newest.map_or((0, 0), |file| (file.bytes, file.last));
        if newest.is_some_and(|file| file.number == catalog.newest) {
            (catalog.bytes, catalog.sequence) = (bytes, catalog.sequence.max(sequence));
        }
        if !self.has_catalog {
            catalog.first = self.files.first().map_or(1, |file| file.first);
        }
        self.losses.iter().for_each(|loss| catalog.add(loss.clone()));
        Catalog::store(&catalog, storage)?;
        (self.catalog, self.has_catalog) = (catalog, true);
        Ok(())
    }
}
