//! Rows of Kafka topics into a SplayDB server, each exactly once.
//!
//! The server keeps, with the rows, how far each partition is: a batch is a message of the producer `kafka/NAME/TOPIC/PARTITION`, whose number
//! is the offset behind its last record. After a start the program asks for that number and reads on from there. Each batch also says which
//! number it follows on, so that one that an earlier run left on its way is refused instead of coming between (ADR 74).
//!
//! - [`settings`]: what is read and where it goes, from a TOML file.
//! - [`decode`]: from a record's bytes to rows of the table.
//! - [`kafka`]: consumers, with a thread for each partition (`session`). [`registry`]: schemas. [`dead_letters`]: a topic of records that are no rows.
//!
//! Batches, their numbers and the server are [`splay_records`].

pub mod dead_letters;
pub mod decode;
pub mod kafka;
pub mod registry;
mod session;
pub mod settings;

pub use splay_records::{columns, decimal, http_client, mailbox, metrics, partition, server, stop, times};
