//! Readers for market-data files: CSV and its kin, JSON, Parquet, Arrow IPC, DBN and ITCH, plain or compressed, and the recipes that
//! describe vendors' files.
//!
//! The crate turns files into [`RecordBatch`](arrow::array::RecordBatch)es of a table's exact Arrow schema, in input
//! order, and [`load`] brings them into a database.
//!
//! ```
//! use splay_import::{Block, Error, ImportSettings, expand, plan};
//!
//! # fn main() -> Result<(), Error> {
//! # let folder = std::env::temp_dir().join(format!("splay-import-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! let file = folder.join("trades.csv");
//! std::fs::write(&file, "time,sym,price\n2024-01-02T14:30:00Z,IBM,161.25\n").unwrap();
//!
//! let files = expand(&[file.display().to_string()])?;
//! let import = plan("trade", files, ImportSettings::default(), None)?;
//! assert_eq!(import.spec().time, "time");
//! assert_eq!(import.spec().symbol.as_deref(), Some("sym"));
//!
//! let report = import.run::<Error>(&mut |block: Block| {
//!     assert_eq!(block.batch.num_rows(), 1);
//!     Ok(())
//! })?;
//! assert_eq!(report.rows, 1);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok(())
//! # }
//! ```

mod binary;
mod column_names;
mod columnar;
mod csv;
mod date_and_clock;
mod dbn;
mod decompress;
mod detect;
mod error;
mod evidence;
mod exact;
mod few_texts;
mod fit;
mod format;
mod in_place;
mod input;
mod itch;
mod json;
mod load;
mod name_template;
mod plan;
mod recipe;
mod report;
mod roles;
mod run;
mod settings;
mod shared_file;
mod sniff;
mod text_blocks;
mod text_file_format;
mod time_apart;
mod typed_sample;
mod typed_times;

pub use column_names::{SYMBOL_NAMES, TIME_NAMES};
pub use csv::delimiter::Delimiter;
pub use csv::number_form::NumberForm;
pub use date_and_clock::DateAndClock;
pub use error::{Error, Result};
pub use exact::{cast_exactly, natural_type};
pub use few_texts::{SAMPLE_ROWS, TextSample};
pub use format::Format;
pub use in_place::{FileOpener, OpenedFiles};
pub use input::{InputFile, digest, expand};
pub use load::{LoadOutcome, Progress, load, loaded_by, new_files};
pub use plan::{Import, plan, reference_symbol};
pub use recipe::Recipe;
pub use report::{Block, FileReport, ImportReport};
pub use settings::{ImportSettings, OnError};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_precision_loss)]
mod tests;
