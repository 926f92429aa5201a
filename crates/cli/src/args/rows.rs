//! Arguments of commands that bring rows in and out.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use splay_import::{Delimiter, NumberForm};
use splay_lab::compression::BufferCodec;
use splay_lab::formats::{FileFormat, TextCodec};
use splay_store::{ByteSize, ColumnType, DayStart, Dedupe, Period, Reference, Tier};

use super::{JournalArguments, PlaceArguments};
#[derive(Debug, Args)]
pub struct LoadArguments {
    /// Folder of the database; created if absent
    pub database: PathBuf,
    /// Table; created if absent, otherwise the rows are merged into it
    pub table: String,
    /// Files, folders or patterns (quote them)
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub files: Vec<String>,
    /// Built-in recipe (see `splay recipes`) or path of a recipe's TOML file
    #[arg(long)]
    pub recipe: Option<String>,
    /// Format of the files: csv, tsv, psv, json (lines or an array), parquet, arrow, dbn, itch; default: detected by content and name
    #[arg(long)]
    pub format: Option<String>,
    /// Character between the fields of delimited text, such as ';' or tab; default: the recipe's, or detected
    #[arg(long, value_name = "CHARACTER")]
    pub delimiter: Option<Delimiter>,
    /// The files have no header line
    #[arg(long)]
    pub no_header: bool,
    /// Number of lines to pass over at the beginning of each file; default: comments and titles before a header are recognised
    #[arg(long, value_name = "LINES")]
    pub skip_lines: Option<u64>,
    /// Text that means null, besides NA, N/A, null and - in columns of other types than text; may be repeated
    #[arg(long = "null", value_name = "TEXT", allow_hyphen_values = true)]
    pub null_texts: Vec<String>,
    #[command(flatten)]
    pub shape: ShapeArguments,
    /// Time zone of times in the files that are written without one, such as America/New_York or -05:00; default: UTC
    #[arg(long, allow_hyphen_values = true)]
    pub zone: Option<String>,
    /// How the files write dates and times, as a pattern of strftime such as '%d/%m/%Y %H:%M:%S'; may be repeated
    #[arg(long = "date-format", value_name = "PATTERN")]
    pub date_formats: Vec<String>,
    /// How the files write the number 1234.5, such as 1,234.5 or 1.234,5
    #[arg(long, value_name = "EXAMPLE")]
    pub numbers: Option<NumberForm>,
    /// How malformed rows are handled
    #[arg(long, value_enum, default_value = "stop")]
    pub on_error: OnErrorArgument,
    /// File for malformed rows and their reasons; default: TABLE.quarantine.csv in the current folder
    #[arg(long, value_name = "FILE")]
    pub quarantine: Option<PathBuf>,
    /// Load files again that were loaded before
    #[arg(long)]
    pub again: bool,
    /// Pass over files that were loaded before, which are known by their content
    #[arg(long, conflicts_with = "again")]
    pub skip_loaded: bool,
    /// How a row of a reference table is handled if the table has a row with its key
    #[arg(long, value_enum, value_name = "WHAT", default_value = "refuse")]
    pub on_conflict: OnConflictArgument,
    /// Replace stored rows: all rows of each date in the files, on each of these dates the rows of the symbols in the files, or all rows of
    /// the table
    #[arg(long, value_enum, value_name = "WHAT")]
    pub replace: Option<ReplaceArgument>,
    /// Compare the new rows with each other and with the stored ones of their dates and symbols, and leave duplicates out: exact (all
    /// columns are equal), or the columns of a key, such as seq,venue
    #[arg(long, value_name = "exact|COLUMNS")]
    pub dedupe: Option<Dedupe>,
    /// How the duplicates that --dedupe finds are handled
    #[arg(long, value_enum, default_value = "drop", requires = "dedupe")]
    pub on_duplicate: OnDuplicateArgument,
    /// Memory limit of the load
    #[arg(long, default_value = "2G")]
    pub memory: ByteSize,
    /// Number of threads; default: one per core
    #[arg(long)]
    pub threads: Option<usize>,
    /// What a partition of a new table spans: day, month, year or all; default: what suits its rows
    #[arg(long, value_name = "PERIOD")]
    pub partition: Option<Period>,

    /// Tier of the new rows: mapped (fastest), fast, small or dense (smallest); default: by the table's rules, else mapped
    #[arg(long, value_name = "TIER")]
    pub tier: Option<Tier>,
    /// Show table, columns and types, and load nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Properties of a new table.
#[derive(Debug, Args)]
pub struct ShapeArguments {
    /// Type of a new column, as COLUMN=TYPE; may be repeated
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = column_type)]
    pub types: Vec<(String, ColumnType)>,
    /// Time column
    #[arg(long)]
    pub time: Option<String>,
    /// Symbol column
    #[arg(long)]
    pub symbol: Option<String>,
    /// Time zone of a new table's dates
    #[arg(long)]
    pub time_zone: Option<String>,
    /// When a new table's dates begin by the clock of that zone, such as 17:00 of the day before; default: 00:00
    #[arg(long, value_name = "HH:MM")]
    pub day_start: Option<DayStart>,
    /// Key of a new reference table: columns, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', conflicts_with_all = ["time", "time_zone"])]
    pub key: Vec<String>,
    /// Column of type date or timestamp from which on rows of a new reference table are in effect
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["time", "time_zone"])]
    pub effective: Option<String>,
    /// Make a new table a reference table, also without a key
    #[arg(long, conflicts_with_all = ["time", "time_zone"])]
    pub reference: bool,
}

impl ShapeArguments {
    /// What makes a new table a reference table.
    pub fn of_reference(&self) -> Option<Reference> {
        let is_reference = self.reference || !self.key.is_empty() || self.effective.is_some();
        is_reference.then(|| Reference { key: self.key.clone(), effective: self.effective.clone() })
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnErrorArgument {
    /// Stop, and leave the database unchanged
    Stop,
    /// Write the row to the quarantine file and continue
    Quarantine,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnDuplicateArgument {
    /// Leave them out, and report how many there were
    Drop,
    /// Stop at the first, and leave the database unchanged
    Stop,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ReplaceArgument {
    /// All rows of each date that the files have
    Date,
    /// On each date all rows of the symbols that the files have there
    Symbol,
    /// All rows of the table
    Table,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnConflictArgument {
    /// Load nothing
    Refuse,
    /// Keep the stored row, and leave the new one out
    Nothing,
    /// Replace the stored row by the new one
    Update,
}

#[derive(Debug, Args)]
pub struct LoadsArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Table
    pub table: String,
    /// Number of commits to list
    #[arg(short = 'n', long, default_value_t = 20)]
    pub count: usize,
    /// List captures, compactions and changes of columns, too
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct UndoArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Table
    pub table: String,
    /// Number of the commit, as `splay loads` shows it
    pub commit: u64,
}

#[derive(Debug, Args)]
pub struct DeleteArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table
    pub table: String,
    /// Date, or first and last date as FIRST..LAST
    #[arg(long, value_name = "DATE")]
    pub date: Option<String>,
    /// Only rows of these symbols
    #[arg(long, value_name = "SYMBOL", num_args = 1.., value_delimiter = ',')]
    pub symbols: Vec<String>,
    /// Only rows that meet a condition, as after WHERE
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Delete all rows of the table
    #[arg(long, conflicts_with_all = ["date", "symbols", "condition"])]
    pub all: bool,
    /// Only show how many rows would be deleted
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum FormatArgument {
    /// Arrow IPC, uncompressed
    Arrow,
    /// Parquet, with floats as floats
    Parquet,
}

impl From<FormatArgument> for splay_store::FileFormat {
    fn from(format: FormatArgument) -> splay_store::FileFormat {
        match format {
            FormatArgument::Arrow => splay_store::FileFormat::Arrow,
            FormatArgument::Parquet => splay_store::FileFormat::Parquet,
        }
    }
}

/// A format of exported files: one that the store writes, or one of the laboratory.
#[derive(Debug, Clone, Copy)]
pub enum ExportFormat {
    Store(FormatArgument),
    Lab(FileFormat),
}

/// Formats of files by their names.
const FILE_FORMATS: [(&str, FileFormat); 5] = [
    ("arrow-lz4", FileFormat::Feather(BufferCodec::Lz4)),
    ("arrow-zstd", FileFormat::Feather(BufferCodec::Zstd)),
    ("csv", FileFormat::Csv(TextCodec::None)),
    ("csv-gzip", FileFormat::Csv(TextCodec::Gzip)),
    ("csv-zstd", FileFormat::Csv(TextCodec::Zstd)),
];

/// Reads the name of a format of files.
fn export_format() -> impl TypedValueParser<Value = ExportFormat> {
    let stored = FormatArgument::value_variants().iter().filter_map(FormatArgument::to_possible_value);
    let files = FILE_FORMATS.iter().map(|(name, _)| PossibleValue::new(*name));
    PossibleValuesParser::new(stored.chain(files)).map(|name| {
        match FILE_FORMATS.iter().find(|(other, _)| *other == name) {
            Some((_, format)) => ExportFormat::Lab(*format),
            None => ExportFormat::Store(FormatArgument::from_str(&name, true).unwrap_or(FormatArgument::Parquet)),
        }
    })
}

#[derive(Debug, Args)]
pub struct ExportArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table
    pub table: String,
    /// Format of the files: one of the database's own, or Arrow with compressed buffers, or CSV
    #[arg(long, value_parser = export_format(), default_value = "parquet")]
    pub format: ExportFormat,
    /// Folder for the files; created if absent
    #[arg(long)]
    pub to: PathBuf,
    #[command(flatten)]
    pub journal: JournalArguments,
}

fn column_type(text: &str) -> Result<(String, ColumnType), String> {
    let (column, column_type) = text.split_once('=').ok_or_else(|| format!("{text:?} is not COLUMN=TYPE"))?;
    Ok((column.to_owned(), column_type.parse()?))
}
