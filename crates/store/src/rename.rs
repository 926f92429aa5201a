//! Renames tables.
//!
//! HEAD has the name (`database/table_folders.rs`), so a rename is one commit: files stay in place, and readers continue
//! with their snapshots. Rows that this process has captured under the old name are written to the files first.

use crate::database::{ReleasedName, Table};
use crate::error::{Error, Result};
use crate::manifest::Operation;
use crate::schema::{TableSpec, refuse_quarantine_name, validate_name};
use crate::views::{View, refuse_read, refuse_view_names};
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
        // Capture holds the writer lock only for moments. If it is why the lock can't be had, its own error says so.
        self.refuse_elsewhere()?;
        // Not while the journal has rows of it that are withheld.
        self.stored()?;
        let mut commit = 0;
        database.release_name(ReleasedName::Table { table: self.name() }, &mut || {
            commit = self.rename_now(to, &reads)?;
            Ok(())
        })?;
        Ok(commit)
    }

    fn rename_now(&self, to: &str, reads: impl Fn(&View) -> bool) -> Result<u64> {
        let database = self.database();
        let _names = database.refuse_rename_of_granted(self.name())?;
        let writer = Writer::begin(database, self.name())?;
        self.refuse_elsewhere()?;
        let Some(state) = writer.table() else {
            return Err(Error::NoSuchTable { table: self.name().to_owned(), existing: database.tables()? });
        };
        let name = &state.spec.name;
        let views = database.views()?;
        refuse_read("table", &views, name, reads, |them| format!("drop {them}, and create {them} again over {to:?}"))?;
        let conflict = |reason| Err(Error::Name { what: "table", name: to.to_owned(), reason });
        if database.place_of(to)?.is_some_and(|place| place.folder != writer.folder() || *name == to) {
            return conflict("a table has this name");
        }
        refuse_view_names("table", to, &views)?;
        let mut change = Change::new(Operation::Schema);
        change.spec = Some(TableSpec { name: to.to_owned(), ..state.spec.clone() });
        let folder = writer.folder().to_owned();
        let commit = writer.commit(change)?;
        database.forget_name(&folder);
        Ok(commit)
    }
}
