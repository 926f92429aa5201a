//! Views: queries under names, in `views.json` in the database's folder.
//!
//! - The single writer replaces the file as a whole: after a crash it has the old list or the new one.
//! - The store has the texts; `splay-sql` plans them. Tables and views share one name space.
//! - A materialized view has a hidden table for its rows (`view_rows.rs`).
//!
//! Bytes: docs/format/views.md.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::schema::TableSpec;

/// Version of the file that this release reads.
const VERSION: u32 = 3;

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
pub(crate) struct ViewsFile {
    version: u32,
    /// BLAKE3 of `views` as compact JSON.
    blake3: String,
    views: Vec<View>,
}

fn digest(views: &[View]) -> Result<String> {
    let text = serde_json::to_vec(views).map_err(|error| Error::Refused { reason: error.to_string() })?;
    Ok(blake3::hash(&text).to_hex().to_string())
}

impl ViewsFile {
    /// The file of some views, which it puts into the order of their names.
    pub(crate) fn to_json(mut views: Vec<View>) -> Result<Vec<u8>> {
        views.sort_by(|a, b| a.name.cmp(&b.name));
        // A list that an older release can read stays one.
        let version = views.iter().map(View::version).max().unwrap_or(1);
        let file = ViewsFile { version, blake3: digest(&views)?, views };
        serde_json::to_vec_pretty(&file).map_err(|error| Error::Refused { reason: error.to_string() })
    }

    pub(crate) fn parse(bytes: &[u8], path: &std::path::Path) -> Result<Vec<View>> {
        let corrupt = |found: String| Error::corrupt(path, 0, "the list of the views", found);
        let list: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        let version = list["version"].as_u64().unwrap_or(0);
        if version > u64::from(VERSION) {
            let found = u32::try_from(version).unwrap_or(u32::MAX);
            return Err(Error::FormatVersion { path: path.to_path_buf(), found, supported: VERSION });
        }
        let file: ViewsFile = serde_json::from_value(list).map_err(|error| corrupt(error.to_string()))?;
        let found = digest(&file.views)?;
        if found != file.blake3 {
            return Err(Error::corrupt(path, 0, format!("views of BLAKE3 {}", file.blake3), found));
        }
        Ok(file.views)
    }
}

/// Refuses a name under which the rows of a materialized view are kept.
pub(crate) fn refuse_rows_name(what: &'static str, name: &str, views: &[View]) -> Result<()> {
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

/// Refuses a change of a table or view that other views read, as `reads` says of their queries, and names these. `way` says what to do about
/// them first.
pub(crate) fn refuse_read(
    what: &str,
    views: &[View],
    name: &str,
    reads: impl Fn(&View) -> bool,
    way: impl Fn(&str) -> String,
) -> Result<()> {
    let is_reader = |view: &&View| {
        let is_of_table = view.materialized.as_ref().is_some_and(|source| source.eq_ignore_ascii_case(name));
        !view.name.eq_ignore_ascii_case(name) && (reads(view) || is_of_table)
    };
    let readers: Vec<&str> = views.iter().filter(is_reader).map(|view| view.name.as_str()).collect();
    let (of, them) = match readers.len() {
        0 => return Ok(()),
        1 => ("the view", "it"),
        _ => ("the views", "them"),
    };
    let reason = format!("{what} {name:?} is read by {of} {}: {}", readers.join(", "), way(them));
    Err(Error::Refused { reason })
}

/// Refuses to drop a table or view of a name that some of these views read, as `reads` says of each.
///
/// # Errors
/// [`Error::Refused`] with the names of these views.
pub fn refuse_drop_of_read(what: &str, views: &[View], name: &str, reads: impl Fn(&View) -> bool) -> Result<()> {
    refuse_read(what, views, name, reads, |them| format!("drop {them} first, or all by CASCADE"))
}
