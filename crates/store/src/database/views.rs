//! The views of a database: reads their file, and changes it.

use std::sync::{Arc, PoisonError};

use super::{Database, TableSnapshot};
use crate::error::{Error, Result};
use crate::folder_layout::{VIEWS_FILE, WRITER_LOCK};
use crate::near_names::names_instead;
use crate::schema::{refuse_quarantine_name, validate_name};
use crate::storage::{self, LockMode};
use crate::views::{View, ViewsFile, refuse_drop_of_read, refuse_rows_name, refuse_view_names};

impl Database {
    /// Its views, by name. Costs one look for a file where there are none.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::FormatVersion`] or [`Error::Io`].
    pub fn views(&self) -> Result<Arc<[View]>> {
        let bytes = match self.storage().read(VIEWS_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(Arc::default()),
            Err(error) => return Err(error),
        };
        let mut last = self.shared.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, views)) = &*last
            && *read == bytes
        {
            return Ok(Arc::clone(views));
        }
        let views: Arc<[View]> = ViewsFile::parse(&bytes, &self.storage().display_path(VIEWS_FILE))?.into();
        *last = Some((bytes, Arc::clone(&views)));
        Ok(views)
    }

    /// A view by its name, matched without regard to case.
    ///
    /// # Errors
    /// Those of [`Database::views`].
    pub fn view(&self, name: &str) -> Result<Option<View>> {
        Ok(self.views()?.iter().find(|view| view.name.eq_ignore_ascii_case(name)).cloned())
    }

    /// Adds a view. If it `replaces`, an existing view with this name is replaced.
    ///
    /// # Errors
    /// [`Error::Name`] for a name that is taken or can't be one; [`Error::Locked`] while another writer is at work; those of
    /// [`Database::views`]. The views are then as they were, unless syncing or renaming the file failed.
    pub fn create_view(&self, view: View, replaces: bool) -> Result<()> {
        validate_name("view", &view.name)?;
        let conflict = |reason| Err(Error::Name { what: "view", name: view.name.clone(), reason });
        if let Some(rows) = view.rows_table() {
            validate_name("view", &rows)?;
        }
        self.change_views(|views| {
            if self.has_table(&view.name)? {
                return conflict("a table has this name");
            }
            match views.iter_mut().find(|other| other.name.eq_ignore_ascii_case(&view.name)) {
                Some(_) if !replaces => return conflict("a view has this name"),
                Some(other) if other.materialized.is_some() => {
                    return conflict("a materialized view has this name: drop it first");
                }
                Some(other) => *other = view.clone(),
                None => {
                    refuse_quarantine_name("view", &view.name)?;
                    self.refuse_names_of_rows(views, &view)?;
                    views.push(view.clone());
                }
            }
            Ok(true)
        })
        .map(|_| ())
    }

    /// Refuses a view if the table that keeps its rows can't have its name, or the view has that of such a table.
    fn refuse_names_of_rows(&self, views: &[View], view: &View) -> Result<()> {
        let conflict = |reason| Err(Error::Name { what: "view", name: view.name.clone(), reason });
        if let Some(rows) = view.rows_table()
            && (self.has_table(&rows)? || views.iter().any(|other| other.name.eq_ignore_ascii_case(&rows)))
        {
            return conflict("the table of its rows would have a name that is taken: this name and .rows");
        }
        refuse_rows_name("view", &view.name, views)
    }

    /// Gives a view another name. `reads` says whether the query of another one reads it.
    ///
    /// # Errors
    /// As [`Database::create_view`]; [`Error::Refused`] if there is no such view, it is materialized, or others read it.
    pub fn rename_view(&self, name: &str, to: &str, reads: impl Fn(&View) -> bool) -> Result<()> {
        validate_name("view", to)?;
        refuse_quarantine_name("view", to)?;
        let refused = |reason| Err(Error::Refused { reason });
        self.change_views(|views| {
            let _names = self.refuse_rename_of_granted(name)?;
            let others: Vec<View> =
                views.iter().filter(|view| !view.name.eq_ignore_ascii_case(name)).cloned().collect();
            let Some(view) = views.iter_mut().find(|view| view.name.eq_ignore_ascii_case(name)) else {
                let names: Vec<&str> = others.iter().map(|view| view.name.as_str()).collect();
                return refused(format!("no view {name:?}; {}", names_instead(name, &names)));
            };
            if view.materialized.is_some() {
                return refused(format!(
                    "{:?} is a materialized view, whose rows are kept under its name: drop it, and create it again",
                    view.name
                ));
            }
            let readers: Vec<&str> = others.iter().filter(|view| reads(view)).map(|view| view.name.as_str()).collect();
            if !readers.is_empty() {
                let reason =
                    format!("view {:?} is read by other views, which name it: {}", view.name, readers.join(", "));
                return refused(reason);
            }
            if self.has_table(to)? {
                return Err(Error::Name { what: "view", name: to.to_owned(), reason: "a table has this name" });
            }
            refuse_view_names("view", to, &others)?;
            to.clone_into(&mut view.name);
            Ok(true)
        })
        .map(drop)
    }

    /// The table that keeps the rows of a materialized view, as its files are; `None` before there are any.
    ///
    /// # Errors
    /// As [`Table::stored`](super::Table::stored).
    pub fn rows_of_view(&self, view: &View) -> Result<Option<TableSnapshot>> {
        let Some(rows) = view.rows_table() else { return Ok(None) };
        match self.table(&rows).and_then(|table| table.stored()) {
            Ok(stored) => Ok(Some(stored)),
            Err(Error::NoSuchTable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a view; whether there was one. `reads` says whether the query of another one reads it.
    ///
    /// # Errors
    /// As [`Database::create_view`]; [`Error::Refused`] with the names of the views that read it.
    pub fn drop_view(&self, name: &str, reads: impl Fn(&View) -> bool) -> Result<bool> {
        self.change_views(|views| {
            let before = views.len();
            if views.iter().any(|view| view.name.eq_ignore_ascii_case(name)) {
                refuse_drop_of_read("view", views, name, reads)?;
            }
            views.retain(|view| !view.name.eq_ignore_ascii_case(name));
            Ok(views.len() < before)
        })
    }

    /// Writes the list anew if `change` says that it differs.
    fn change_views(&self, change: impl FnOnce(&mut Vec<View>) -> Result<bool>) -> Result<bool> {
        let storage = self.storage();
        let Some(_lock) = storage.try_lock(WRITER_LOCK, LockMode::Exclusive)? else {
            return Err(Error::Locked { path: storage.display_path(WRITER_LOCK) });
        };
        let mut views = self.views()?.to_vec();
        let has_changed = change(&mut views)?;
        if has_changed {
            storage::replace(storage.as_ref(), VIEWS_FILE, &ViewsFile::to_json(views)?)?;
        }
        Ok(has_changed)
    }
}
