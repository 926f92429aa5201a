//! What may be asked of the simulator.

use std::fs;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;

use crate::{Error, Result};

/// The most symbols of an equity day; the real market has about 11,000.
pub(crate) const SYMBOLS_MAX: u32 = 20_000;
/// The most quotes or trades of an equity day; a real day has about 10^9 quotes.
pub(crate) const ROWS_MAX: u64 = 1_000_000_000_000;
/// The largest scale of the crypto month: 10^5 times the paper's rows.
pub(crate) const SCALE_MAX: f64 = 100_000.0;
/// The days of the crypto month.
pub(crate) const DAYS_MAX: u32 = 30;

/// An equity day in the layout of the NYSE Daily TAQ files.
///
/// The default is the date of the published kdb+ walk-through, small enough for a first look: about 60 MB of text.
#[derive(Debug, Clone, PartialEq)]
pub struct TaqSettings {
    /// The folder of the files, created if absent. Default: `taq`.
    pub out: PathBuf,
    /// The trading date, in New York. Default: 2019-10-07.
    pub date: NaiveDate,
    /// Symbols, 1 to 20,000. The first hundred are well-known ones. Default: 100.
    pub symbols: u32,
    /// Quotes of all symbols together, at most 10^12; exact. Default: 400,000.
    pub quotes: u64,
    /// Trades of all symbols together, at most 10^12; exact. Default: 40,000.
    pub trades: u64,
    /// Another seed is another day. Default: 1.
    pub seed: u64,
}

impl Default for TaqSettings {
    fn default() -> Self {
        Self {
            out: PathBuf::from("taq"),
            date: NaiveDate::from_ymd_opt(2019, 10, 7).unwrap_or_default(),
            symbols: 100,
            quotes: 400_000,
            trades: 40_000,
            seed: 1,
        }
    }
}

impl TaqSettings {
    /// Checks the ranges, and that `out` is not a file or a read-only folder.
    ///
    /// # Errors
    /// [`Error::Setting`] names the first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        check("symbols", self.symbols, (1..=SYMBOLS_MAX).contains(&self.symbols), "1 to 20,000")?;
        check("quotes", self.quotes, self.quotes <= ROWS_MAX, "at most 10^12")?;
        check("trades", self.trades, self.trades <= ROWS_MAX, "at most 10^12")?;
        check_folder(&self.out)
    }
}

/// The form of the crypto month's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileFormat {
    /// Text with a header line, times as `2022-06-18T00:00:00.123456Z`.
    #[default]
    Csv,
    /// Parquet, zstd level 1, times in nanoseconds UTC, symbols and exchanges as dictionaries. About a quarter
    /// of the size of CSV.
    Parquet,
}

/// A month of crypto trades and books, an NBBO day and a write day, in the shape of the data set of "Benchmarking
/// Specialized Databases for High-frequency Data" (Barez, Bilokon, Xiong), section 4.
#[derive(Debug, Clone, PartialEq)]
pub struct CryptoSettings {
    /// The folder of the files, created if absent. Default: `crypto`.
    pub out: PathBuf,
    /// Rows as a fraction of the original data set: 1.0 is 19.6 million trades and 33.4 million books, about 30 GB of
    /// CSV. Above 0. Default: 0.01.
    pub scale: f64,
    /// Another seed is another month. Default: 1.
    pub seed: u64,
    /// The form of the files; those of the write day are always CSV. Default: CSV.
    pub format: FileFormat,
    /// Only the first days (1 to 30) of the month, without the NBBO day and the write day. Each day is the same as in
    /// the whole month. Default: all.
    pub days: Option<u32>,
}

impl Default for CryptoSettings {
    fn default() -> Self {
        Self { out: PathBuf::from("crypto"), scale: 0.01, seed: 1, format: FileFormat::Csv, days: None }
    }
}

impl CryptoSettings {
    /// Checks the ranges, and that `out` is not a file or a read-only folder.
    ///
    /// # Errors
    /// [`Error::Setting`] names the first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        // A comparison with NaN is false, so NaN is refused here too.
        check("scale", self.scale, self.scale > 0.0 && self.scale <= SCALE_MAX, "above 0 and at most 100,000")?;
        if let Some(days) = self.days {
            check("days", days, (1..=DAYS_MAX).contains(&days), "1 to 30, or none for everything")?;
        }
        check_folder(&self.out)
    }
}

fn check(setting: &'static str, value: impl ToString, holds: bool, expected: &'static str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Setting { setting, value: value.to_string(), expected }) }
}

fn check_folder(out: &Path) -> Result<()> {
    let usable = match fs::metadata(out) {
        Ok(metadata) => metadata.is_dir() && !metadata.permissions().readonly(),
        // Absent: it will be created, and creating it tells more than a guess here.
        Err(_) => true,
    };
    check("out", out.display(), usable, "a folder that can be written, or a new path")
}

/// Creates the output folder and its parents.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::io(path, "create the folder"))
}
