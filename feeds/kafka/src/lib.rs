//! Rows of Kafka topics into a SplayDB server, each exactly once.
//!
//! The server keeps, with the rows, how far each partition is: a batch is a message of the producer `kafka/NAME/TOPIC/PARTITION`, whose number
//! is the offset behind its last record. After a start the program asks for that number and reads on from there. Each batch also says which
//! number it follows on, so that one that an earlier run left on its way is refused instead of coming between (ADR 74).
//!
//! - [`settings`]: what is read and where it goes, from a TOML file.
//! - [`decode`]: from a record's bytes to rows of the table, by [`columns`].
//! - [`partition`]: batches, their numbers, what is done with each answer. Knows neither Kafka nor HTTP, so that a model can try it.
//! - [`kafka`]: consumers, with a thread for each partition (`session`). [`server`], [`registry`]: HTTP. [`dead_letters`]: records that are no rows.

pub mod columns;
pub mod dead_letters;
pub mod decode;
pub mod exact;
pub mod kafka;
pub mod mailbox;
pub mod metrics;
pub mod partition;
pub mod registry;
pub mod server;
mod session;
pub mod settings;
pub mod times;
pub mod web;
