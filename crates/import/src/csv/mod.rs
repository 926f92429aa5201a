//! Text with one record per line: comma, tab, pipe or any other single-byte delimiter.
//!
//! [`parse`](parse::parse) turns blocks of whole records into record batches, by the [`RecordLayout`](parse::RecordLayout) of a file.

pub(crate) mod columns;
pub(crate) mod compact_clock;
pub(crate) mod delimiter;
pub(crate) mod fields;
pub(crate) mod number_form;
pub(crate) mod numbers;
pub(crate) mod parse;
pub(crate) mod preamble;
pub(crate) mod times;
