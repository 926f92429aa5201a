//! Journal files: see crates/capture/src/fuzz/journal.rs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use splay_capture::fuzz;

#[global_allocator]
static ALLOCATOR: splay_mutate::CountingAllocator = splay_mutate::CountingAllocator;

fuzz_target!(|bytes: &[u8]| splay_mutate::bounded(fuzz::MEMORY, bytes, fuzz::journal));
