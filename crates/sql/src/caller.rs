//! The caller of a session's statements, and what he may know.

use std::sync::Arc;

use splay_store::{Database, View};

use crate::error::Error;
use crate::guard::Guard;

/// The caller of a session's statements.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The rights that limit the caller; `None` for one who may do everything with tables.
    pub(crate) guard: Option<Arc<Guard>>,
    /// The user, if he is known.
    pub(crate) user: Option<Arc<str>>,
    /// Whether he may change users and roles.
    pub(crate) manages_users: bool,
    /// Whether the user may change his own password.
    pub(crate) changes_password: bool,
}

impl Caller {
    /// The owner of the database's folder, who may do everything.
    pub(crate) fn owner() -> Caller {
        Caller { guard: None, user: None, manages_users: true, changes_password: true }
    }

    /// The guard, if it hides anything from the caller; `None` for one who reads everything, whatever he may change.
    pub(crate) fn veil(&self) -> Option<&Guard> {
        self.guard.as_deref().filter(|guard| !guard.rights().reads_everything())
    }

    /// Whether the caller may know that a table or view exists.
    pub(crate) fn sees(&self, name: &str) -> bool {
        self.veil().is_none_or(|guard| guard.sees(name))
    }

    /// Whether the caller may read a view.
    pub(crate) fn reads_view(&self, view: &View) -> bool {
        self.veil().is_none_or(|guard| guard.reads_view(view))
    }

    /// The error for an unknown table, which lists those that the caller may know.
    pub(crate) fn no_such_table(&self, database: &Database, table: &str) -> Error {
        let named = || -> splay_store::Result<Vec<String>> {
            let mut existing = database.tables()?;
            if let Some(guard) = self.veil() {
                existing.retain(|name| guard.sees(name));
            }
            // The name may be that of a view with a damaged definition, which the error then reports.
            let views = database.views()?;
            existing.extend(views.iter().filter(|view| self.reads_view(view)).map(|view| view.name.clone()));
            Ok(existing)
        };
        Error::Store(match named() {
            Ok(existing) => splay_store::Error::NoSuchTable { table: table.to_owned(), existing },
            Err(damage) => damage,
        })
    }
}
