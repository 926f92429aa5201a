//! Statements of SplayDB on several machines, by datafusion-distributed.
//!
//! A scheduler opens the database, cuts each statement into leaves (`splay_sql::Leaf`), and computes what is above them. Executors open the same
//! database, in a shared folder or in copies of it, and run leaves over slices of the tables.
//!
//! | File | What it has |
//! | --- | --- |
//! | `leaf.rs` | a leaf as an operator: what an executor runs, and its bytes on the wire |
//! | `remote.rs` | a leaf as the scheduler's plan has it: tasks for the executors, their rows as one stream |
//! | `executor.rs`, `scheduler.rs` | the two servers |
//! | `executors.rs` | connections to executors, their versions, who answers |
//! | `token.rs` | the shared token, and who may listen where |
//! | `client.rs` | a statement for a scheduler |
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

/// What executors and their scheduler have to agree on: the build, since leaves are named by what a build makes of a text.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/leaves-1");
