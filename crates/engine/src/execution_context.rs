//! The context in which a plan runs: its tables, files and constants, and its limits.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use splay_store::{FilesInPlace, TableSnapshot};

use crate::error::{Error, Result};
use crate::reads::Reads;
use crate::stop::Stop;

/// The tables, constants and limits with which a plan runs.
#[derive(Debug)]
pub struct ExecutionContext<'a> {
    /// The tables, by their number in the plan.
    pub tables: &'a [TableSnapshot],
    /// The files that are no tables, by their number in the plan.
    pub files: &'a [Arc<dyn FilesInPlace>],
    /// The constants, by their number in the plan, each an array of one value.
    pub constants: &'a [ArrayRef],
    /// Most threads.
    pub threads: usize,
    /// Memory limit of rows, in bytes.
    pub memory_bytes: usize,
    /// Tells whether the statement was cancelled.
    pub stop: Stop<'a>,
    /// Counts what is read.
    pub reads: Reads,
}

/// Refuses rows of columns that would take too much memory.
pub(crate) fn check_memory<'a>(rows: usize, types: impl Iterator<Item = &'a DataType>, limit: usize) -> Result<()> {
    let width: usize = types.map(|data_type| data_type.primitive_width().unwrap_or(16)).sum();
    let needed = rows.saturating_mul(width);
    if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
}
