//! Moves segments to the object store, and removes objects that no commit names any more.
//!
//! 1. The segment is written as any other, in the form of the tier `small`, with its index.
//! 2. It is put under a key that contains its digest, unless an earlier attempt has put it there.
//! 3. Length and digest of the object are read back. Only then is the local file removed.
//! 4. The database's mark is checked once more, and the commit names the object.
//!
//! Interrupted anywhere, the table is unchanged, and the next attempt reuses or removes an object that no commit
//! names.
//!
//! Objects are removed when local files would be: once they are forgotten and no snapshot of this machine is older
//! than that. If the store doesn't answer, they stay until the next commit that moves or forgets some.

use std::collections::HashSet;

use super::Writer;
use crate::error::{Error, Result};
use crate::folder_layout::READERS_LOCK;
use crate::manifest::FileEntry;
use crate::object::ObjectTier;
use crate::segment::checksums_of_object;
use crate::storage::LockMode;
use crate::tier::Tier;

/// Digits of the digest in a key.
const DIGEST_DIGITS: usize = 16;

impl Writer {
    /// Makes an object of a segment that was written and isn't committed. The database has claimed the store.
    pub(crate) fn upload(&self, tier: &ObjectTier, entry: FileEntry) -> Result<FileEntry> {
        let written = format!("{}/{}.tmp", self.folder(), entry.path);
        let bytes = self.storage().map(&written)?;
        let key = key(self.folder(), &entry);
        let put = tier.put(&key, bytes.bytes())?;
        // A store may need a moment until it shows what it has.
        tier.length_of_new(&key)?;
        if let Err(error) = checksums_of_object(tier, &key, &entry) {
            if error.is_damage() {
                // No commit names it. What is left of it would be in the way of the next attempt.
                let _ = tier.delete(&key);
            }
            return Err(error);
        }
        if let Some(offset) = bytes.unreadable_at() {
            let shown = self.storage().display_path(&written);
            return Err(Error::corrupt(shown, offset, "a page that can be read", "none"));
        }
        tracing::debug!(object = %tier.shown(&key).display(), bytes = entry.bytes, put, "segment is in the object store");
        drop(bytes);
        self.discard(&entry.path)?;
        Ok(FileEntry { tier: Tier::Object, object: Some(key), ..entry })
    }

    /// Removes objects of the table that no commit names. What can't be done now is done later.
    pub(crate) fn sweep_objects(&self) {
        let Ok(tier) = self.database().objects() else { return };
        match self.try_sweep_objects(tier) {
            Ok(0) => {}
            Ok(objects) => tracing::info!(folder = %self.folder(), objects, "objects that no commit names are removed"),
            Err(error) => tracing::warn!(%error, "objects that no commit names are left for later"),
        }
    }

    fn try_sweep_objects(&self, tier: &ObjectTier) -> Result<usize> {
        if !tier.has_claimed(self.storage().as_ref())? {
            return Ok(0);
        }
        // Later readers see this commit or a later one, none of which names the files, so the lock can be released.
        let nobody_reads = self.storage().try_lock(READERS_LOCK, LockMode::Exclusive)?.is_some();
        let named: HashSet<&str> = self.state().into_iter().flat_map(|state| state.object_keys()).collect();
        let (mut deleted, mut checked) = (0, false);
        for entry in tier.list(&format!("{}/", self.folder()))? {
            let was_committed = epoch_of(&entry.key).is_some_and(|epoch| epoch < self.next_epoch());
            if named.contains(entry.key.as_str()) || was_committed && !nobody_reads {
                continue;
            }
            if !std::mem::replace(&mut checked, true) {
                tier.check_owner(self.storage().as_ref())?;
            }
            tier.delete(&entry.key)?;
            deleted += 1;
        }
        Ok(deleted)
    }
}

/// The key of a segment: the path of its file, with digits of its digest, so that equal keys mean equal bytes.
fn key(folder: &str, entry: &FileEntry) -> String {
    let (stem, extension) = entry.path.rsplit_once('.').unwrap_or((&entry.path, "parquet"));
    let digest = entry.digest.get(..DIGEST_DIGITS).unwrap_or(&entry.digest);
    format!("{folder}/{stem}.{digest}.{extension}")
}

/// The commit that an object was made for; `None` for what isn't whole.
fn epoch_of(key: &str) -> Option<u64> {
    let name = key.rsplit('/').next()?;
    let (epoch, rest) = name.split_once('.')?;
    rest.ends_with(".parquet").then(|| epoch.parse().ok())?
}
