//! Tables that get other names.
//!
//! The name is in HEAD ([`names`](crate::names)), so that the commit which says the new one is all that happens: files stay where they are,
//! and readers go on with what they see.

use crate::database::Table;
use crate::error::{Error, Result};
use crate::manifest::Operation;
use crate::schema::{TableSpec, refuse_quarantine_name, validate_name};
use crate::views::{View, refuse_view_names};
use crate::write::{Change, Writer};

impl Table {
    /// Gives the table another name, by one commit, whose number is given. Its rows, its earlier commits and what can be undone stay. `reads`
    /// says whether the query of a view reads it, which the store doesn't know.
    ///
    /// # Errors
    /// [`Error::Name`] for a name that is taken or can't be one; [`Error::Refused`] if views read the table, or it keeps the rows of one;
    /// others as [`Table::drop_table`].
    pub fn rename(&self, to: &str, reads: impl Fn(&View) -> bool) -> Result<u64> {
        let database = self.database();
        validate_name("table", to)?;
        refuse_quarantine_name("table", to)?;
        database.refuse_of_view(self.name())?;
        // Who captures holds the lock by moments, and is the reason that counts.
        self.refuse_captured()?;
        let _names = database.refuse_rename_of_granted(self.name())?;
        let writer = Writer::begin(database, self.name())?;
        self.refuse_captured()?;
        let Some(state) = writer.table() else {
            return Err(Error::NoSuchTable { table: self.name().to_owned(), existing: database.tables()? });
        };
        let name = &state.spec.name;
        let views = database.views()?;
        refuse_read(&views, name, reads, |them| format!("drop {them}, and create {them} again over {to:?}"))?;
        let taken = |reason| Err(Error::Name { what: "table", name: to.to_owned(), reason });
        if database.place_of(to)?.is_some_and(|place| place.folder != writer.folder() || *name == to) {
            return taken("a table has this name");
        }
        refuse_view_names("table", to, &views)?;
        let mut change = Change::new(Operation::Schema);
        change.spec = Some(TableSpec { name: to.to_owned(), ..state.spec.clone() });
        let folder = writer.folder().to_owned();
        let commit = writer.commit(change)?;
        database.forget(&folder);
        Ok(commit)
    }
}

/// Refuses a change of a table that views read, as `reads` says of their queries, and names them. `way` says what to do about them first.
pub(crate) fn refuse_read(
    views: &[View],
    table: &str,
    reads: impl Fn(&View) -> bool,
    way: impl Fn(&str) -> String,
) -> Result<()> {
    let of_table = |view: &&View| {
        reads(view) || view.materialized.as_ref().is_some_and(|source| source.eq_ignore_ascii_case(table))
    };
    let readers: Vec<&str> = views.iter().filter(of_table).map(|view| view.name.as_str()).collect();
    let (what, them) = match readers.len() {
        0 => return Ok(()),
        1 => ("the view", "it"),
        _ => ("the views", "them"),
    };
    let reason = format!("table {table:?} is read by {what} {}: {}", readers.join(", "), way(them));
    Err(Error::Refused { reason })
}
