//! Fuzz targets: functions of any bytes that panic if something is wrong.
//!
//! The crate's own tests feed them a fixed number of seeded inputs; `fuzz/` feeds them by coverage, and needs the feature `fuzz`.
//! How to add one: docs/guide/add-a-fuzz-target.md.

pub use crate::encryption::fuzz::{MEMORY as SEALED_MEMORY, sealed};
pub use crate::segment::fuzz::{MEMORY, dense};

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: splay_mutate::CountingAllocator = splay_mutate::CountingAllocator;
