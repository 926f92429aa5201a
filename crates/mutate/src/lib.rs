//! What would a broken or hostile sender send? Seeded mutations for tests.
//!
//! A *target* is a function of bytes that panics where something is wrong. [`Run`] feeds it a number of inputs made from samples,
//! the same for the same seed, in any test and without a nightly compiler; `fuzz/` feeds the same targets by coverage. Both look
//! at the memory that an input makes a target take, by [`bounded`].
//!
//! ```no_run
//! use splay_mutate::Run;
//!
//! let parse = |bytes: &[u8]| {
//!     let _ = std::str::from_utf8(bytes).map(str::parse::<u32>);
//! };
//! Run { inputs: 1_000, ..Run::default() }.feed(&[b"17".to_vec(), b"4294967295".to_vec()], parse);
//! ```

mod bytes;
mod memory;
mod mutate;
mod random;
mod run;

pub use bytes::Bytes;
pub use memory::{CountingAllocator, Memory, bounded, peak};
pub use mutate::Mutator;
pub use random::Random;
pub use run::Run;
