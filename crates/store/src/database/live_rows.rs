//! Live rows: captured, and not yet in a table's files.
//!
//! - A capture attaches them to the table ([`Table::attach`]); from then on each snapshot of it contains them, as
//!   segments in memory beside those on disk. Readers see one table.
//! - A process that only reads follows the capture instead ([`Database::follow`](super::Database::follow)): the rows
//!   are the same, read from its journal.
//! - Invariant of every partition: a symbol's rows in a segment are later than those in the segments before it.
//!   [`chain`](crate::chain) puts segments in memory behind others so that this holds.

use super::{Table, TableSnapshot};
use crate::error::Result;

/// Rows that a table has beside those in its files.
pub trait LiveRows: std::fmt::Debug + Send + Sync {
    /// The table with its live rows. `stored` takes a snapshot of the files. It must be called after the live rows were
    /// read, so that rows which move to disk meanwhile are in at least one of both. [`TableSnapshot::captured`] says
    /// which are there.
    ///
    /// # Errors
    /// Those of `stored`.
    fn over(&self, stored: &dyn Fn() -> Result<TableSnapshot>) -> Result<TableSnapshot>;
}

/// Rows that this process captures.
pub trait CapturedRows: std::fmt::Debug + Send + Sync {
    /// Brings the rows of a table that are in memory into its files. A load begins with it: among rows of equal symbol and time those in the
    /// files stand first, and what was captured before the load came in before.
    ///
    /// # Errors
    /// Those of writing the rows. They stay in memory then.
    fn settle(&self, table: &str) -> Result<()>;

    /// Whether rows of the table have been taken, or may be in memory.
    fn takes(&self, table: &str) -> bool;

    /// Runs a commit that takes a name from a table. Before it, the table's files get every row that was taken for it under the name, and none is
    /// taken while it runs. After it, rows of the name are for whichever table or column has it then.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) for a name that the capture needs; those of writing the rows, after which `commit` isn't run, and
    /// of `commit`. The table, its names and its rows stay then.
    fn release_name(&self, name: ReleasedName<'_>, commit: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

/// A name that a commit takes from a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleasedName<'a> {
    /// That of the table, which is dropped or renamed.
    Table {
        /// The name.
        table: &'a str,
    },
    /// That of one of its columns, which is renamed.
    Column {
        /// Name of the table.
        table: &'a str,
        /// The name.
        column: &'a str,
    },
}

impl<'a> ReleasedName<'a> {
    /// The table's name.
    #[must_use]
    pub fn table(&self) -> &'a str {
        match self {
            ReleasedName::Table { table } | ReleasedName::Column { table, .. } => table,
        }
    }
}

/// Rows that another process took, and that are in no table's files yet, of any table.
pub trait FollowedRows: std::fmt::Debug + Send + Sync {
    /// A table with its rows: as [`LiveRows::over`], which says when `stored` has to be called.
    ///
    /// # Errors
    /// Those of `stored`; [`Error::Corrupt`](crate::Error::Corrupt) if rows that were acknowledged can't be read.
    fn over(&self, table: &Table, stored: &dyn Fn() -> Result<TableSnapshot>) -> Result<TableSnapshot>;
}
