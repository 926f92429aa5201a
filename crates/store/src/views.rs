//! Views: queries under names, in `views.json` in the database's folder.
//!
//! - The single writer replaces the file as a whole: after a crash it has the old list or the new one.
//! - The store has the texts; `splay-sql` plans them. Tables and views share one name space.
//! - A materialized view has a hidden table for its rows (`view_rows.rs`).
//!
//! Bytes: docs/format/views.md.

use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};

use crate::database::{Database, TableSnapshot, WRITER_LOCK};
use crate::error::{Error, Result};
use crate::rename::refuse_drop_of_read;
use crate::schema::{TableSpec, refuse_quarantine_name, validate_name};
use crate::storage::{self, LockMode};

/// Version of the file that this release reads.
const VERSION: u32 = 3;

/// Name of the file.
pub(crate) const FILE: &str = "views.json";

/// A query under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Its name, which follows the rules of a table's.
    pub name: String,
    /// Names of its columns, where they aren't those of the query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The query.
    pub query: String,
    /// The table that the query reads, for a materialized view: one whose rows are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub materialized: Option<String>,
    /// Whether statements over the table may be answered from this view's rows, unless the table of these rows says otherwise
    /// ([`View::is_query_rewrite`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub query_rewrite: bool,
}

impl View {
    /// A view whose rows aren't kept.
    pub fn new(name: impl Into<String>, columns: Vec<String>, query: impl Into<String>) -> View {
        View { name: name.into(), columns, query: query.into(), materialized: None, query_rewrite: false }
    }

    /// The first version of the file that can hold it.
    fn version(&self) -> u32 {
        match (&self.materialized, self.query_rewrite) {
            (_, true) => 3,
            (Some(_), false) => 2,
            (None, false) => 1,
        }
    }

    /// Whether statements over the table of a materialized view may be answered from its rows. `rows` is the table of these, in which a change of
    /// the option is recorded: it and the other options of the rows change by one commit.
    #[must_use]
    pub fn is_query_rewrite(&self, rows: Option<&TableSpec>) -> bool {
        rows.and_then(|rows| rows.query_rewrite).unwrap_or(self.query_rewrite)
    }

    /// The table that keeps its rows, for a materialized view.
    #[must_use]
    pub fn rows_table(&self) -> Option<String> {
        self.materialized.as_ref().map(|_| format!("{}{ROWS}", self.name))
    }
}

/// The suffix of the table that has the rows of a materialized view.
const ROWS: &str = ".rows";

/// Whether the name of a table is that of the rows of a materialized view.
pub(crate) fn may_keep_rows(table: &str) -> bool {
    let end = table.len().checked_sub(ROWS.len()).and_then(|at| table.get(at..));
    end.is_some_and(|end| end.eq_ignore_ascii_case(ROWS))
}

/// The bytes of the file as they were last read, and the views in them.
pub(crate) type ReadViews = (Vec<u8>, Arc<[View]>);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Views {
    version: u32,
    /// BLAKE3 of `views` as compact JSON.
    blake3: String,
    views: Vec<View>,
}

fn digest(views: &[View]) -> Result<String> {
    let text = serde_json::to_vec(views).map_err(|error| Error::Refused { reason: error.to_string() })?;
    Ok(blake3::hash(&text).to_hex().to_string())
}

impl Views {
    pub(crate) fn parse(bytes: &[u8], path: &std::path::Path) -> Result<Vec<View>> {
        let corrupt = |found: String| Error::corrupt(path, 0, "the list of the views", found);
        let list: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        let version = list["version"].as_u64().unwrap_or(0);
        if version > u64::from(VERSION) {
            let found = u32::try_from(version).unwrap_or(u32::MAX);
            return Err(Error::FormatVersion { path: path.to_path_buf(), found, supported: VERSION });
        }
        let file: Views = serde_json::from_value(list).map_err(|error| corrupt(error.to_string()))?;
        let found = digest(&file.views)?;
        if found != file.blake3 {
            return Err(Error::corrupt(path, 0, format!("views of BLAKE3 {}", file.blake3), found));
        }
        Ok(file.views)
    }
}

/// Refuses a name under which the rows of a materialized view are kept.
fn refuse_rows_name(what: &'static str, name: &str, views: &[View]) -> Result<()> {
    let keeps_rows = |other: &View| other.rows_table().is_some_and(|rows| rows.eq_ignore_ascii_case(name));
    match views.iter().any(keeps_rows) {
        true => {
            let reason = "the rows of a materialized view are kept under this name";
            Err(Error::Name { what, name: name.to_owned(), reason })
        }
        false => Ok(()),
    }
}

/// Refuses a name that a view has, or the rows of one.
pub(crate) fn refuse_view_names(what: &'static str, name: &str, views: &[View]) -> Result<()> {
    if views.iter().any(|view| view.name.eq_ignore_ascii_case(name)) {
        return Err(Error::Name { what, name: name.to_owned(), reason: "a view has this name" });
    }
    refuse_rows_name(what, name, views)
}

impl Database {
    /// Its views, by name. Costs one look for a file where there are none.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::FormatVersion`] or [`Error::Io`].
    pub fn views(&self) -> Result<Arc<[View]>> {
        let bytes = match self.storage().read(FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(Arc::default()),
            Err(error) => return Err(error),
        };
        let mut last = self.read_views().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, views)) = &*last
            && *read == bytes
        {
            return Ok(Arc::clone(views));
        }
        let views: Arc<[View]> = Views::parse(&bytes, &self.storage().display_path(FILE))?.into();
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
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return refused(format!("no view {name:?}; this database has {there}"));
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
    /// As [`Table::stored`](crate::Table::stored).
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
            views.sort_by(|a, b| a.name.cmp(&b.name));
            // A list that an older release can read stays one.
            let version = views.iter().map(View::version).max().unwrap_or(1);
            let file = Views { version, blake3: digest(&views)?, views };
            let text =
                serde_json::to_vec_pretty(&file).map_err(|error| Error::Refused { reason: error.to_string() })?;
            storage::replace(storage.as_ref(), FILE, &text)?;
        }
        Ok(has_changed)
    }
}
