//! The journal's catalog: the files that must exist, so that a missing one is detected.
//!
//! - It is written before the first batch of a file is acknowledged, before files are removed, at an orderly stop,
//!   and by a start that found a loss. Each time it is replaced as a whole.
//! - Between two writes the newest file grows: the catalog has its minimum length.
//!
//! Bytes: docs/format/journal.md.

use serde::{Deserialize, Serialize};
use splay_store::TableSpec;
use splay_store::storage::Storage;

use super::loss::JournalLoss;
use super::{FOLDER, NUMBER_MAX};
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"SPLAYCAT";
const VERSION: u32 = 1;
const NAME: &str = "catalog";

/// Magic, version, and length of the content.
const HEADER_BYTES: usize = 16;

/// Longest content that is believed.
const CONTENT_BYTES_MAX: usize = 256 << 20;

/// Losses that are listed; the oldest accepted ones go first.
const LOSSES_MAX: usize = 1_000;

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Catalog {
    /// First file that must be there.
    pub(crate) oldest: u64,
    /// Number of the first batch that it may hold.
    pub(crate) first: u64,
    /// Last file that must be there; less than `oldest` if none is.
    pub(crate) newest: u64,
    /// Bytes of the newest file that are on disk for certain.
    pub(crate) bytes: u64,
    /// Number of the last batch that is on disk for certain.
    pub(crate) sequence: u64,
    /// Whether capture has ended in good order since: then `bytes` is all of the newest file.
    pub(crate) is_orderly: bool,
    pub(crate) losses: Vec<JournalLoss>,
    /// Tables that files with losses need, whose descriptions may be damaged there, and the first such file.
    #[serde(default)]
    pub(crate) layouts: Vec<(u64, TableSpec)>,
}

/// The content of the catalog's file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CatalogContent {
    Absent,
    Damaged,
    Sound(Catalog),
}

impl Catalog {
    /// Reads it.
    ///
    /// # Errors
    /// [`Error::Damaged`] for one of a later release.
    pub(crate) fn load(storage: &dyn Storage) -> Result<CatalogContent> {
        if !storage.list(FOLDER)?.iter().any(|entry| entry.name == NAME) {
            return Ok(CatalogContent::Absent);
        }
        let bytes = storage.read(&path())?;
        let Some((version, content)) = unpack(MAGIC, &bytes) else { return Ok(CatalogContent::Damaged) };
        if version != VERSION {
            return Err(Error::Damaged {
                path: storage.display_path(&path()),
                offset: 8,
                expected: "a version of this release".to_owned(),
                found: format!("version {version}"),
            });
        }
        let catalog = serde_json::from_slice(content).ok().filter(Catalog::is_plausible);
        Ok(catalog.map_or(CatalogContent::Damaged, CatalogContent::Sound))
    }

    /// Whether others can follow its numbers.
    fn is_plausible(&self) -> bool {
        [self.oldest, self.newest, self.first, self.sequence].iter().all(|number| *number < NUMBER_MAX)
    }

    /// Replaces what is on disk, durably.
    pub(crate) fn store(&self, storage: &dyn Storage) -> splay_store::Result<()> {
        replace(storage, NAME, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        // Plain data to memory: can't fail.
        let content = serde_json::to_vec(self).unwrap_or_default();
        pack(MAGIC, VERSION, &content)
    }

    /// Adds a loss unless it is listed.
    pub(crate) fn add(&mut self, loss: JournalLoss) {
        if !self.losses.iter().any(|other| other.is_same(&loss)) {
            self.losses.push(loss);
        }
        if self.losses.len() > LOSSES_MAX {
            let place = self.losses.iter().position(|loss| loss.accepted).unwrap_or(0);
            self.losses.remove(place);
        }
    }

    /// Forgets accepted losses of files that are no longer kept.
    pub(crate) fn forget(&mut self) {
        let oldest = self.oldest;
        self.losses.retain(|loss| !loss.accepted || loss.files.1 >= oldest);
        if self.losses.is_empty() {
            self.layouts.clear();
        }
    }

    /// Losses that the operator hasn't accepted.
    pub(crate) fn open_losses(&self) -> impl Iterator<Item = &JournalLoss> {
        self.losses.iter().filter(|loss| !loss.accepted)
    }
}

fn path() -> String {
    format!("{FOLDER}/{NAME}")
}

/// Content behind its kind, version and length, and before a checksum of all.
pub(crate) fn pack(magic: &[u8; 8], version: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + content.len() + 4);
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Version and content, if kind and checksum are right.
pub(crate) fn unpack<'a>(magic: &[u8; 8], bytes: &'a [u8]) -> Option<(u32, &'a [u8])> {
    let (head, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let length = usize::try_from(word(12)?).ok().filter(|length| *length <= CONTENT_BYTES_MAX)?;
    let (content, crc) = rest.split_at_checked(length)?;
    let is_sound = crc32c::crc32c(&bytes[..HEADER_BYTES + length]).to_le_bytes() == *crc;
    (head.starts_with(magic) && is_sound).then_some((word(8)?, content))
}

/// Writes a file of the journal's folder so that it holds its old or its new bytes at every instant.
pub(crate) fn replace(storage: &dyn Storage, name: &str, bytes: &[u8]) -> splay_store::Result<()> {
    let temporary = format!("{name}.tmp");
    let (from, to) = (format!("{FOLDER}/{temporary}"), format!("{FOLDER}/{name}"));
    if storage.list(FOLDER)?.iter().any(|entry| entry.name == temporary) {
        storage.remove(&from)?;
    }
    let mut file = storage.create(&from)?;
    file.write(bytes)?;
    file.sync()?;
    drop(file);
    storage.rename(&from, &to)?;
    storage.sync_dir(FOLDER)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use splay_store::storage::fault::FaultStorage;

    use super::*;
    use crate::journal::loss::LossKind;

    #[test]
    fn a_catalog_is_read_back_and_any_damage_is_seen() {
        let storage = FaultStorage::new();
        storage.create_dir(FOLDER).unwrap();
        assert_eq!(Catalog::load(&storage).unwrap(), CatalogContent::Absent);
        let mut catalog = Catalog { oldest: 3, newest: 7, bytes: 99, sequence: 12, ..Catalog::default() };
        catalog.add(JournalLoss::new(LossKind::Missing, (4, 5)));
        catalog.add(JournalLoss::new(LossKind::Missing, (4, 5)));
        assert_eq!(catalog.losses.len(), 1);
        catalog.store(&storage).unwrap();
        catalog.store(&storage).unwrap();
        assert_eq!(Catalog::load(&storage).unwrap(), CatalogContent::Sound(catalog.clone()));
        let sound = catalog.encode();
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 4;
            assert_eq!(unpack(MAGIC, &damaged), None, "{at}");
            assert_eq!(unpack(MAGIC, &sound[..at]), None, "{at}");
        }
    }
}
