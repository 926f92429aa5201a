//! Statements of SplayDB on several machines, by datafusion-distributed.
//!
//! A scheduler opens the database, cuts each statement into leaves (`splay_sql::Leaf`), and computes the rest of the plan. Executors open the same
//! database, in a shared folder or in copies of it, and run leaves over slices of the tables.
//!
//! | File | What it has |
//! | --- | --- |
//! | `leaf.rs` | a leaf as an operator of an executor, and its bytes on the wire |
//! | `remote.rs` | a leaf as an operator of the scheduler: tasks for the executors, their rows as one stream |
//! | `executor.rs`, `scheduler.rs` | the two servers |
//! | `executors.rs` | connections to executors, and which of them answer |
//! | `token.rs` | the shared token, and the addresses on which a server may listen |
//! | `client.rs` | a client of a scheduler |
//! | `args.rs` | the command line |

pub mod args;
pub mod client;
pub mod error;
pub mod executor;
pub mod executors;
pub mod leaf;
pub mod remote;
pub mod scheduler;
pub mod token;

pub use error::{Error, Result};

/// The version that executors and their scheduler must share. A leaf is a part of the plan of a text, so that both must plan alike.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/leaves-1");
