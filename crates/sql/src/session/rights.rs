//! Rights in sessions (ADR 65, ADR 66).
//!
//! - A session's catalogue contains only what its rights show: tables and views without a right don't exist for it,
//!   and columns without a right aren't in their table's schema. So no clause needs a check of its own.
//! - The scan drops rows that policies hide, before any filter of the statement (`guard/`).
//! - A session belongs to one set of rights. Users with equal rights share it and its plans; their answers aren't
//!   cached. Users who read everything share the plans, the cached answers and the materialized rows of the
//!   unrestricted session.
//! - Changes check their right before they begin (`change/rights.rs`). Only superusers change users and roles (`change/users.rs`).

use std::sync::Arc;

use arrow::datatypes::Schema;
use splay_store::{Rights, Table, View};

use super::Session;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::show_create::ShowCreate;

impl Session {
    /// A session over the same database, threads and memory with limited rights. It reads no files.
    ///
    /// Call it on a session that may do everything: the rights are the only limit of the new one.
    ///
    /// # Errors
    /// [`Error::Internal`] if it can't be set up.
    pub fn for_rights(&self, rights: Arc<Rights>) -> Result<Session> {
        if rights.is_superuser() {
            return Ok(self.for_caller(Caller::owner()));
        }
        self.guarded(Arc::new(Guard::new(rights, self.database.clone(), Arc::clone(&self.states))))
    }

    /// This session for a named user with the same rights, who is granted what he creates. Only with
    /// `has_shown_password` may the user set a password: a token, which may expire, must not create one that doesn't.
    #[must_use]
    pub fn as_user(&self, user: &str, has_shown_password: bool) -> Session {
        let (user, changes_password) = (Some(Arc::from(user)), has_shown_password);
        self.for_caller(Caller { user, changes_password, ..self.caller().clone() })
    }

    /// This session with at most `bytes` bytes of memory per statement, if that is less than its own limit.
    #[must_use]
    pub fn with_memory_at_most(&self, bytes: u64) -> Session {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.for_memory(bytes.min(self.memory_bytes()))
    }

    /// The user on whose behalf statements run, if it is known.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.caller().user.as_deref()
    }

    /// This session without the right to change users and roles.
    #[must_use]
    pub fn without_users(&self) -> Session {
        self.for_caller(Caller { manages_users: false, ..self.caller().clone() })
    }

    /// Whether the session has PostgreSQL's catalogue.
    #[must_use]
    pub fn has_catalogue(&self) -> bool {
        self.is_with_catalogue()
    }

    /// Whether the caller may know that a table or view exists.
    #[must_use]
    pub fn sees(&self, name: &str) -> bool {
        self.caller.sees(name)
    }

    /// The views that the session may read. Empty if their list is damaged; a statement that reads a view then gets the
    /// error.
    #[must_use]
    pub fn readable_views(&self) -> Vec<View> {
        let views = self.database().views().unwrap_or_default();
        views.iter().filter(|view| self.caller.reads_view(view)).cloned().collect()
    }

    /// The columns of a schema that the caller may know.
    #[must_use]
    pub fn known_columns(&self, table: &str, schema: &Schema) -> Schema {
        match self.caller().veil() {
            None => schema.clone(),
            Some(guard) => guard.known_columns(table, schema),
        }
    }

    /// A table by its name, if the caller may know it.
    ///
    /// # Errors
    /// [`splay_store::Error::NoSuchTable`], with the names that the caller may know.
    pub fn table(&self, name: &str) -> Result<Table> {
        if !self.sees(name) {
            return Err(self.no_such_table(name));
        }
        self.database().table(name).map_err(|error| self.redact(error.into()))
    }

    /// An error without details that the caller may not know: the names of other tables, values of a key that he can't read.
    pub(crate) fn redact(&self, error: Error) -> Error {
        use splay_store::Error::{DuplicateKey, NoSuchTable};
        let Some(guard) = self.caller().veil() else { return error };
        match error {
            Error::Store(NoSuchTable { table, .. }) => self.no_such_table(&table),
            Error::Store(DuplicateKey { table, columns, reason, .. }) if !guard.reads(&table, &columns) => {
                let unknown = "…".to_owned();
                Error::Store(DuplicateKey { table, columns: unknown.clone(), values: unknown, reason })
            }
            other => other,
        }
    }

    /// The error for an unknown table, which lists those that the caller may know.
    pub(crate) fn no_such_table(&self, table: &str) -> Error {
        self.caller.no_such_table(&self.database, table)
    }

    /// The statement that recreates a table or a view: `CREATE TABLE …`, without columns that the caller may not read.
    ///
    /// # Errors
    /// [`splay_store::Error::NoSuchTable`] if there is none, or none that may be read; [`splay_store::Error::Denied`] for the query of a view,
    /// which names tables, unless everything may be done.
    pub fn create_statement(&self, name: &str) -> Result<String> {
        ShowCreate::of_name(name).statement(&self.database, &self.caller)
    }
}
