//! The lab: markets that never happened, for tests, demonstrations and benchmarks, and what storing markets costs.
//!
//! [`compression`] measures codecs and encodings on columns, [`formats`] file formats on tables.
//!
//! [`generate_taq`] writes an equity day in the layout of the NYSE Daily TAQ files, [`generate_crypto`] a month of
//! trades and 20-level books in the layout of the crypto benchmark. Both stream: memory does not grow with the rows.
//! The same settings give the same bytes, and before compression the same text on every machine.
//!
//! ```
//! use splay_lab::{TaqSettings, generate_taq};
//!
//! let folder = tempfile::tempdir()?;
//! let settings = TaqSettings { out: folder.path().to_path_buf(), symbols: 3, quotes: 500, trades: 50, ..TaqSettings::default() };
//! let written = generate_taq(&settings, &mut |_rows| {})?;
//! assert!(written.iter().any(|file| file.path.ends_with("EQY_US_ALL_TRADE_20191007.gz") && file.rows == 50));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod compression;
mod error;
pub mod formats;
pub mod simulator;
mod writers;

pub use error::{Error, Result};
pub use simulator::{
    CryptoSettings, FileFormat, TaqSettings, WrittenFile, generate_crypto, generate_taq, generate_write_day,
};
