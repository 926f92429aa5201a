//! The users and roles of a database: reads their file, and changes it.

use std::sync::{Arc, PoisonError};

use super::Database;
use crate::access::{self, Access};
use crate::error::{Error, Result};
use crate::folder_layout::{ACCESS_FILE, ACCESS_LOCK};
use crate::storage::{self, LockMode};

impl Database {
    /// Its users and roles. Costs one look for a file where there are none.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::FormatVersion`] or [`Error::Io`]: then nobody who needs a right has one.
    pub fn access(&self) -> Result<Arc<Access>> {
        let bytes = match self.storage().read(ACCESS_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return self.access_without_file(),
            Err(error) => return Err(error),
        };
        let mut last = self.shared.access.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, access)) = &*last
            && *read == bytes
        {
            return Ok(Arc::clone(access));
        }
        let access = Arc::new(access::parse(&bytes, &self.storage().display_path(ACCESS_FILE))?);
        *last = Some((bytes, Arc::clone(&access)));
        Ok(access)
    }

    /// Nobody, unless there were users: without their file the database would be open to everybody.
    fn access_without_file(&self) -> Result<Arc<Access>> {
        let last = self.shared.access.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((_, access)) if access.has_users() => {
                let found = "no file: put it back, or open the database anew to have it without users";
                Err(Error::corrupt(self.storage().display_path(ACCESS_FILE), 0, "the list of users and roles", found))
            }
            _ => Ok(Arc::default()),
        }
    }

    fn lock_access(&self) -> Result<Box<dyn std::fmt::Debug + Send + Sync>> {
        let lock = self.storage().try_lock(ACCESS_LOCK, LockMode::Exclusive)?;
        lock.ok_or_else(|| Error::Locked { path: self.storage().display_path(ACCESS_LOCK) })
    }

    /// Changes users and roles: `change` says what, of the newest state; nothing is written if it fails or leaves all as it was.
    ///
    /// # Errors
    /// Those of `change`; [`Error::Locked`] while somebody else changes them; those of [`Database::access`]. All is then as it was, unless
    /// syncing or renaming the file failed.
    pub fn change_access<T>(&self, change: impl FnOnce(&mut Access) -> Result<T>) -> Result<T> {
        let storage = self.storage();
        let _lock = self.lock_access()?;
        let before = self.access()?;
        let mut access = Access::clone(&before);
        let done = change(&mut access)?;
        if access != *before {
            access.sort();
            storage::replace(storage.as_ref(), ACCESS_FILE, &access::bytes(access)?)?;
        }
        Ok(done)
    }

    /// Refuses to rename a table or a view that grants or policies name: they would apply to the next one of the old name. No grant can be
    /// added while the returned lock is held. If there never were grants, there is no lock.
    pub(crate) fn refuse_rename_of_granted(
        &self,
        name: &str,
    ) -> Result<Option<Box<dyn std::fmt::Debug + Send + Sync>>> {
        if *self.access()? == Access::default() {
            return Ok(None);
        }
        let lock = self.lock_access()?;
        match self.access()?.names(name) {
            true => {
                let reason = format!(
                    "grants or policies name {name:?}: revoke and drop them first, and give them to the new name"
                );
                Err(Error::Refused { reason })
            }
            false => Ok(Some(lock)),
        }
    }
}
