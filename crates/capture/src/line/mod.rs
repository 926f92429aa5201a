//! The line protocol of InfluxDB and QuestDB, read into columns.
//!
//! A [`LineDecoder`] is fed the bytes of a TCP stream or of an HTTP body, cut anywhere, and gives for each table the
//! [`LineRows`] that came. What is accepted, with sources, is in `docs/reference/line-protocol.md`; why the scanner is our
//! own in `docs/adr/0013-our-own-line-protocol-scanner.md`.
//!
//! - A line is stored whole or not at all. A bad line becomes a [`LineError`], and the stream goes on with the next.
//! - No bytes panic, and memory is bounded by [`LineSettings`] whatever comes.
//! - The rows are the same however the bytes are cut.
//!
//! ```
//! use splay_capture::line::{LineDecoder, LineSettings};
//!
//! let mut decoder = LineDecoder::new(LineSettings::default());
//! let now = 1_646_762_637_710_419_000;
//! let bytes = b"trades,symbol=BTC-USD,side=buy price=39269.98,amount=0.011 1646762637710419000\ntrades,symbol=";
//! assert_eq!(decoder.push(bytes, now), bytes.len());
//! let batch = &decoder.take()[0];
//! assert_eq!((batch.table.as_str(), batch.lines), ("trades", 1));
//! assert_eq!(batch.spec.time, "time");
//! assert_eq!(batch.spec.symbol.as_deref(), Some("symbol"));
//! assert_eq!(batch.rows.num_columns(), 5);
//! assert!(decoder.take_errors().is_empty());
//! ```

mod batch;
mod column;
mod decoder;
mod error;
mod names;
mod number;
mod row;
mod scan;
mod settings;
mod symbols;
mod table;
mod value;

pub use decoder::{LineDecoder, TableLookup};
pub use error::{LineError, Reason};
pub use settings::{LineSettings, Precision};
pub use table::LineRows;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
