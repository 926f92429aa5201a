//! Targets for fuzzing: functions of any bytes that panic where something is wrong.
//!
//! The crate's own tests feed them a fixed number of seeded inputs; `fuzz/` feeds them by coverage, and needs the feature `fuzz`.
//! How to add one: docs/guide/add-a-fuzz-target.md.

mod batches;
mod cells;
mod conform;
pub(crate) mod journal;
mod line;
mod rows;

use arrow::array::RecordBatch;
use splay_mutate::{Bytes, Memory};

pub use conform::conform;
pub use journal::journal;
pub use line::line;
pub use rows::rows;

/// Memory that any of them may take.
pub const MEMORY: Memory = Memory { fixed: 16 << 20, each: 1 << 10 };

/// Rows of any columns, made of bytes.
pub fn any_rows(bytes: &mut Bytes<'_>) -> RecordBatch {
    batches::any_rows(bytes)
}

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: splay_mutate::CountingAllocator = splay_mutate::CountingAllocator;
