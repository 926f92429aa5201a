//! File formats side by side: how large the same tables are in each, how long writing and reading takes, and the time of statements on each.
//!
//! [`files`] are formats that this crate writes. A [`Target`] is any other way of storing tables; whoever knows one passes it in, as he passes
//! in what runs the statements.

mod answers;
mod columns;
mod compare;
mod file;
mod statements;

pub use columns::{Columns, Role};
pub use compare::{FormatResult, Runner, Settings, StatementTime, compare, to_batch};
pub use file::{FileFormat, TextCodec, files};
pub use statements::{Statement, seed_statements};

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::Result;

/// A table in memory.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name in statements.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
}

impl Table {
    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Where tables are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableLocation {
    /// A file for each table.
    Files(Vec<PathBuf>),
    /// A database with all of them.
    Database(PathBuf),
}

/// A way of storing tables.
pub trait Target {
    /// What people call it.
    fn name(&self) -> String;

    /// Stores tables in an empty folder.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for tables that it can't hold: it is left out of the comparison.
    fn write(&self, tables: &[Table], folder: &Path) -> Result<TableLocation>;

    /// Reads all rows and columns.
    ///
    /// # Errors
    /// What the store says of its files.
    fn read(&self, tables: &[Table], place: &TableLocation) -> Result<Vec<Table>>;

    /// Whether rows come back in the order in which they were given.
    fn keeps_order(&self) -> bool {
        true
    }
}
