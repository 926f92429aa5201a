//! Arguments of `splay lab`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use splay_lab::compression::{Kind, Metric, Order};
use splay_store::ByteSize;

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Measure codecs and encodings on columns: factor, times to write and read, a block at random, memory
    Compression(Box<CompressionArguments>),
    /// Compare file formats and the tiers of a database: size, times to write and read, four queries on each
    Formats(FormatsArguments),
}

/// Where rows come from.
#[derive(Debug, Args)]
pub struct InputArguments {
    /// Files, folders or patterns (quote them): CSV, Parquet, Arrow, DBN
    #[arg(value_hint = ValueHint::AnyPath)]
    pub files: Vec<String>,
    /// Folder of a database, in the place of files
    #[arg(long, conflicts_with = "files", requires = "tables")]
    pub database: Option<PathBuf>,
    /// Table of the database; may be repeated for formats
    #[arg(long = "table", value_name = "TABLE", requires = "database")]
    pub tables: Vec<String>,
    /// Only this date of the table
    #[arg(long, requires = "database")]
    pub date: Option<chrono::NaiveDate>,
    /// Rows that are taken, from the first on
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: usize,
}

/// A column, a table, files or generated lists are written and read by each scheme. A result counts only if every bit came back.
#[derive(Debug, Args)]
pub struct CompressionArguments {
    #[command(flatten)]
    pub input: InputArguments,
    /// Columns of the rows; default: all
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub columns: Vec<String>,
    /// Generate lists in the place of files: longs, longs:BOUND, booleans, symbols, symbols:LETTERS, prices, times
    #[arg(long, value_name = "KIND", conflicts_with_all = ["files", "database", "columns"])]
    pub generate: Option<Kind>,
    /// Values of a generated list
    #[arg(long, default_value_t = 10_000)]
    pub count: usize,
    /// Order of a generated list: random, sorted, contiguous
    #[arg(long, default_value = "random")]
    pub order: Order,
    /// Generated lists, over which results are averaged
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub lists: u64,
    /// Which schemes are measured
    #[arg(long, value_enum, default_value = "all")]
    pub schemes: SchemesArgument,
    /// Only schemes of these codecs, such as zstd,lz4hc
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub codecs: Vec<String>,
    /// Only schemes whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub scheme: Option<String>,
    /// Runs of each test, over which times are averaged
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub times: u32,
    /// Time to spend, such as 60s, 5m or 1h; schemes are then taken at random, evenly from all codecs
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Budget>,
    /// File of results, Parquet or CSV; a run goes on where the last one ended. Without data its results are shown
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Folder for the files that are written and read; default: that of temporary files
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Seed of generated lists and of what is taken at random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Statement whose time is measured over the rows that were read, which stand as {data}: select count(*) from {data}
    #[arg(long, value_name = "SQL")]
    pub statement: Option<String>,
    #[command(flatten)]
    pub choice: ChoiceArguments,
    /// Rows shown of each table
    #[arg(long, default_value_t = 20)]
    pub show: usize,
}

/// A choice among the results.
#[derive(Debug, Args)]
pub struct ChoiceArguments {
    /// Choose schemes of at least this compression factor
    #[arg(long, value_name = "FACTOR")]
    pub min_factor: Option<f64>,
    /// Choose schemes that write within this time
    #[arg(long, value_name = "MS")]
    pub max_write_ms: Option<f64>,
    /// Choose schemes that read within this time
    #[arg(long, value_name = "MS")]
    pub max_read_ms: Option<f64>,
    /// Choose schemes that read a block at random within this time
    #[arg(long, value_name = "US")]
    pub max_block_us: Option<f64>,
    /// Choose schemes that need at most this memory
    #[arg(long, value_name = "BYTES")]
    pub max_memory: Option<ByteSize>,
    /// Choose schemes that read and run the statement within this time
    #[arg(long, value_name = "MS")]
    pub max_query_ms: Option<f64>,
    /// By what the choice is ordered, the best first: factor, write, read, block, memory, query
    #[arg(long, value_name = "METRIC")]
    pub order_by: Option<Metric>,
    /// What the Pareto front is about: rows that no other beats in all of these
    #[arg(long, value_name = "METRICS", value_delimiter = ',', default_value = "factor,write,read")]
    pub front: Vec<Metric>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemesArgument {
    /// The grid of q and today's field
    All,
    /// The grid of q: logical blocks of 2^12 to 2^20 bytes by none, LZ, gzip, snappy, lz4hc and zstd with all levels, 532 in all
    Q,
    /// Light encodings, pco, FSST, Parquet by encoding, codec and page, and Arrow IPC
    Today,
}

/// Each of the files is a table; tables with bids and offers, and those with prices and sizes, get the four queries of quotes and trades.
#[derive(Debug, Args)]
pub struct FormatsArguments {
    #[command(flatten)]
    pub input: InputArguments,
    /// Symbol whose rows the first query selects; default: AAPL, or the first one
    #[arg(long)]
    pub symbol: Option<String>,
    /// Statement in the place of the four, as NAME=SQL, with tables as {trade}; may be repeated
    #[arg(long = "statement", value_name = "NAME=SQL", value_parser = named)]
    pub statements: Vec<(String, String)>,
    /// Runs of each test, over which times are averaged
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub times: u32,
    /// Folder for the files that are written and read; default: that of temporary files
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// File for the table of results, CSV or Parquet
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget(pub Duration);

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let wrong = || format!("{text:?} is not a time such as 60s, 5m or 1h");
        let (number, seconds) = match text.strip_suffix(['s', 'm', 'h']) {
            Some(number) if text.ends_with('s') => (number, 1.0),
            Some(number) if text.ends_with('m') => (number, 60.0),
            Some(number) => (number, 3_600.0),
            None => return Err(wrong()),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        Duration::try_from_secs_f64(number * seconds).map(Budget).map_err(|_| wrong())
    }
}

fn named(text: &str) -> Result<(String, String), String> {
    let (name, statement) = text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=SQL"))?;
    Ok((name.trim().to_owned(), statement.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_times() {
        assert_eq!("60s".parse(), Ok(Budget(Duration::from_secs(60))));
        assert_eq!("1.5m".parse(), Ok(Budget(Duration::from_secs(90))));
        assert_eq!("2h".parse(), Ok(Budget(Duration::from_secs(7_200))));
        for wrong in ["60", "s", "-1s", "infs", "soon"] {
            assert!(wrong.parse::<Budget>().is_err(), "{wrong}");
        }
    }
}
