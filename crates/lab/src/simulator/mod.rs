//! The market simulator.
//!
//! Two markets share the parts below; each writes the files of its own layout.
//!
//! | part | question it answers |
//! |---|---|
//! | `random` | what does the seed give? |
//! | `activity` | how many events, and when? |
//! | `price` | where is the fair price now? |
//! | `decimal` | how is a number or a time written? |
//! | `settings` | what may be asked for? |
//! | `taq`, `tickers`, `venue_quotes`, `prints`, `taq_rows`, `gzip_table` | the equity day |
//! | `crypto`, `crypto_day`, `instruments`, `market`, `book`, `crypto_rows`, `crypto_csv`, `crypto_parquet` | the crypto month |
//!
//! Invariants:
//! - The same settings give the same bytes; what is then compressed is the same on every machine. Only `+ - * /` and the
//!   square root, which IEEE 754 fixes, touch a float.
//! - Prices and sizes are integers (ticks of the grid, units of the last decimal) until they are written.
//! - Memory is bounded by the busiest minute of a symbol, not by the rows.

mod activity;
mod book;
mod crypto;
mod crypto_csv;
mod crypto_day;
mod crypto_parquet;
mod crypto_rows;
mod decimal;
mod gzip_table;
mod instruments;
mod market;
mod price;
mod prints;
mod random;
mod settings;
mod taq;
mod taq_rows;
mod tickers;
mod venue_quotes;

use std::path::PathBuf;

pub use crypto::{generate_crypto, generate_write_day};
pub use settings::{CryptoSettings, FileFormat, TaqSettings};
pub use taq::generate_taq;

/// Rows between two calls of the progress callback.
const PROGRESS_ROWS: u64 = 1 << 16;

/// A file the simulator wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its rows; the header and the trailer are not counted.
    pub rows: u64,
}

/// Counts rows and tells the caller now and then.
struct Progress<'a> {
    rows: u64,
    report: &'a mut dyn FnMut(u64),
}

impl<'a> Progress<'a> {
    fn new(report: &'a mut dyn FnMut(u64)) -> Self {
        Self { rows: 0, report }
    }

    /// One more row; every 65,536th is reported.
    fn add_row(&mut self) {
        self.rows += 1;
        if self.rows.is_multiple_of(PROGRESS_ROWS) {
            (self.report)(self.rows);
        }
    }

    /// Reports the final count.
    fn finish(self) {
        (self.report)(self.rows);
    }
}
