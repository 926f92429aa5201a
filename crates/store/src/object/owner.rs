//! The owner of a URL: the one database that may write there, identified by its mark.
//!
//! - The mark is an object that is put only if there is none, so of two databases that begin at once one wins. Its
//!   content is a random number, which the winner also has in `objects.json` in its folder. Backups and followers
//!   don't copy this file.
//! - The mark is checked before objects are written, again right before the commit that names them, and before
//!   objects are removed. A database that has lost it is refused.
//! - If a mark has disappeared, the store isn't the same one, for example a folder that isn't mounted: nothing is
//!   written.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::ObjectTier;
use crate::error::{Error, Result};
use crate::folder_layout::OWNER_FILE;
use crate::storage::{self, Storage};

/// Key of the mark. No table's folder begins with a dot.
const MARK: &str = ".splay/owner.json";

/// Most bytes of a mark.
const MARK_BYTES_MAX: u64 = 4096;

/// The database's own copy of its mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OwnerFile {
    owner: String,
    /// Whether the mark was put, or seen to be there.
    #[serde(default)]
    claimed: bool,
}

/// The mark's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OwnerMark {
    owner: String,
}

impl ObjectTier {
    /// Makes sure that the database may write here: it has the mark, or sets it if there is none.
    pub(crate) fn claim(&self, storage: &dyn Storage) -> Result<()> {
        let own = match self.own(storage)? {
            Some(own) if own.claimed => return self.check_owner(storage),
            Some(own) => own,
            None => {
                let own = OwnerFile { owner: random()?, claimed: false };
                put_own(storage, &own)?;
                own
            }
        };
        let mark = Bytes::from(serde_json::to_vec(&OwnerMark { owner: own.owner.clone() }).unwrap_or_default());
        self.put(MARK, &mark)?;
        // The answer may have been lost, or another database was first.
        self.length_of_new(MARK)?;
        self.refuse_other(&own)?;
        if self.put(MARK, &mark)? {
            // The store has overwritten the first mark with the second, so it would also overwrite that of another database.
            return Err(self.refusal(
                "it puts objects over those that are there, though it was told not to: no two databases are safe there",
            ));
        }
        put_own(storage, &OwnerFile { claimed: true, ..own })
    }

    /// Refuses a database that hasn't the mark.
    pub(crate) fn check_owner(&self, storage: &dyn Storage) -> Result<()> {
        match self.own(storage)? {
            Some(own) => self.refuse_other(&own),
            None => Err(self.refusal("this database hasn't written there yet, or is a copy of the one that has")),
        }
    }

    /// Whether this database has ever written here.
    pub(crate) fn has_claimed(&self, storage: &dyn Storage) -> Result<bool> {
        Ok(self.own(storage)?.is_some_and(|own| own.claimed))
    }

    /// Takes the mark from the database that has it, whose writes are refused from then on.
    pub(crate) fn take_over(&self, storage: &dyn Storage) -> Result<()> {
        self.delete(MARK)?;
        put_own(storage, &OwnerFile { owner: random()?, claimed: false })?;
        self.claim(storage)
    }

    fn refuse_other(&self, own: &OwnerFile) -> Result<()> {
        match self.mark()? {
            Some(mark) if mark.owner == own.owner => Ok(()),
            Some(_) => Err(self.refusal(
                "another database writes there: give this one a url of its own, or let it take over once the other is stopped for good",
            )),
            None => Err(self.refusal("the mark of this database is gone from it: is it mounted, and the same that it was?")),
        }
    }

    fn mark(&self) -> Result<Option<OwnerMark>> {
        let Some(length) = self.length(MARK)? else { return Ok(None) };
        let corrupt = |found: String| Error::corrupt(self.shown(MARK), 0, "the mark of a database", found);
        if length > MARK_BYTES_MAX {
            return Err(corrupt(format!("{length} bytes")));
        }
        let bytes = self.read(MARK, 0..length)?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| corrupt(error.to_string()))
    }

    fn own(&self, storage: &dyn Storage) -> Result<Option<OwnerFile>> {
        match storage.read(OWNER_FILE) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                Error::corrupt(storage.display_path(OWNER_FILE), 0, "who writes objects", error.to_string())
            }),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn refusal(&self, why: &str) -> Error {
        Error::Refused { reason: format!("object store {}: {why}", self.url()) }
    }
}

fn put_own(storage: &dyn Storage, own: &OwnerFile) -> Result<()> {
    storage::replace(storage, OWNER_FILE, &serde_json::to_vec(own).unwrap_or_default())
}

fn random() -> Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| Error::io("name", MARK)(std::io::Error::other(error)))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
