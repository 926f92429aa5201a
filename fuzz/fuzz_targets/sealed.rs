//! Sealed files of an encrypted database: see crates/store/src/encryption/fuzz.rs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use splay_store::fuzz;

#[global_allocator]
static ALLOCATOR: splay_mutate::CountingAllocator = splay_mutate::CountingAllocator;

fuzz_target!(|bytes: &[u8]| splay_mutate::bounded(fuzz::SEALED_MEMORY, bytes, fuzz::sealed));
