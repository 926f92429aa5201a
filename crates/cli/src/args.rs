//! Arguments of the command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use splay_capture::AckClass;
use splay_capture::text::{TextFormat, TimeUnit};
use splay_server::ingest::Speed;
use splay_server::settings::Address;
use splay_store::{ColumnType, SegmentFormat};

use crate::size::Bytes;

/// An open tick database: load, keep and query high-frequency market data.
#[derive(Debug, Parser)]
#[command(name = "splay", version, max_term_width = 110)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make market data with the simulator
    #[command(subcommand)]
    Gen(GenCommand),
    /// Load files into a table
    Load(LoadArguments),
    /// Run SQL statements
    Sql(SqlArguments),
    /// Ask statement after statement, with completion, history and commands such as \d
    Shell(ShellArguments),
    /// Capture into a database and serve it: HTTP, Flight SQL, WebSocket, line protocol
    Serve(ServeArguments),
    /// Send a stored or recorded day to subscribers, as if it were live
    Replay(ReplayArguments),
    /// Make a token for clients of a server, and its digest for the server's settings
    Token(TokenArguments),
    /// Look at what is captured, and capture rows from standard input
    #[command(subcommand)]
    Tick(TickCommand),
    /// Look at the journal, and mend what it has lost
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Write captured rows of ended dates to their files and join these; a server does so by itself
    Roll(DatabaseArguments),
    /// List the tables of a database
    Tables(TablesArguments),
    /// Show a table's columns, order, dates and size
    Describe(TableArguments),
    /// Check every byte of a database, its journal's as well, or of one table
    Verify(VerifyArguments),
    /// Copy a database into a folder of backups while it is in use; what the last backup there has isn't copied again
    Backup(BackupArguments),
    /// Copy a backup to a new database, and check it
    Restore(RestoreArguments),
    /// Copy a table to Parquet or Arrow files for other tools
    Export(ExportArguments),
    /// Join small segments, or move a table to another format
    Compact(CompactArguments),
    /// Change a table's columns, or how long its rows stay
    Alter(AlterArguments),
    /// List what was loaded into a table, deleted, replaced and undone, the newest first
    Loads(LoadsArguments),
    /// Take back what a commit did; rows of later commits stay
    Undo(UndoArguments),
    /// Delete rows: of dates, times and symbols, or those that meet a condition
    Delete(DeleteArguments),
    /// Remove dates beyond the tables' retention, and files that were kept long enough for undo
    Maintain(MaintainArguments),
    /// List the built-in recipes, or show one
    Recipes(RecipesArguments),
}

#[derive(Debug, Subcommand)]
pub enum GenCommand {
    /// A day of US equities in the shape of NYSE Daily TAQ files
    Taq {
        /// Folder for the files; made if need be
        #[arg(long)]
        out: PathBuf,
        /// Trading day
        #[arg(long, default_value = "2019-10-07")]
        date: chrono::NaiveDate,
        /// Number of symbols
        #[arg(long, default_value_t = 100)]
        symbols: u32,
        /// Number of quotes, over all symbols
        #[arg(long, default_value_t = 400_000)]
        quotes: u64,
        /// Number of trades, over all symbols
        #[arg(long, default_value_t = 40_000)]
        trades: u64,
        /// Equal seeds give equal files
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// A month of crypto trades and 20-level books
    Crypto {
        /// Folder for the files; made if need be
        #[arg(long)]
        out: PathBuf,
        /// 1 is 20 M trades and 33 M books
        #[arg(long, default_value_t = 0.01)]
        scale: f64,
        /// Equal seeds give equal files
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Format of the files
        #[arg(long, value_enum, default_value = "csv")]
        format: GenFormat,
        /// Only the first days of the month
        #[arg(long)]
        days: Option<u32>,
        /// Only the day that is for measuring loads
        #[arg(long, conflicts_with = "days")]
        write_day: bool,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum GenFormat {
    Csv,
    Parquet,
}

#[derive(Debug, Args)]
pub struct LoadArguments {
    /// Folder of the database; made if need be
    pub database: PathBuf,
    /// Table; made if need be, otherwise the rows are merged with those it has
    pub table: String,
    /// Files, folders or patterns (quote them)
    #[arg(required = true)]
    pub files: Vec<String>,
    /// Built-in recipe (see `splay recipes`) or path of a recipe's TOML file
    #[arg(long)]
    pub recipe: Option<String>,
    /// Format of the files: csv, tsv, psv, parquet, arrow, dbn; by default by name and content
    #[arg(long)]
    pub format: Option<String>,
    /// The files have no header line
    #[arg(long)]
    pub no_header: bool,
    #[command(flatten)]
    pub shape: ShapeArguments,
    /// What a malformed row does
    #[arg(long, value_enum, default_value = "stop")]
    pub on_error: OnErrorArgument,
    /// Side file for malformed rows and their reasons; by default TABLE.quarantine.csv in the current folder
    #[arg(long, value_name = "FILE")]
    pub quarantine: Option<PathBuf>,
    /// Load files that were loaded before
    #[arg(long)]
    pub again: bool,
    /// Put the rows in the place of those that are stored: of all of each date that the files have, or of each symbol on its dates
    #[arg(long, value_enum, value_name = "WHAT")]
    pub replace: Option<ReplaceArgument>,
    /// Memory that the load may use
    #[arg(long, default_value = "2G")]
    pub memory: Bytes,
    /// Threads; by default one for each core
    #[arg(long)]
    pub threads: Option<usize>,
    /// Format of the segments
    #[arg(long, value_enum, default_value = "arrow")]
    pub tier: FormatArgument,
    /// Show what would be loaded as what, and stop
    #[arg(long)]
    pub dry_run: bool,
}

/// What a table that is made has.
#[derive(Debug, Args)]
pub struct ShapeArguments {
    /// Type of a column that the table hasn't yet, as COLUMN=TYPE; may be given several times
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = column_type)]
    pub types: Vec<(String, ColumnType)>,
    /// Time column
    #[arg(long)]
    pub time: Option<String>,
    /// Symbol column
    #[arg(long)]
    pub symbol: Option<String>,
    /// Time zone in which the table's dates are taken
    #[arg(long)]
    pub time_zone: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnErrorArgument {
    /// Stop; the database stays as it was
    Stop,
    /// Put the row into the quarantine file and go on
    Quarantine,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ReplaceArgument {
    /// All rows of each date that the files have
    Date,
    /// On each date all rows of the symbols that the files have there
    Symbol,
}

#[derive(Debug, Args)]
pub struct LoadsArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table
    pub table: String,
    /// How many are listed
    #[arg(short = 'n', long, default_value_t = 20)]
    pub count: usize,
    /// List captures, compactions and changes of columns, too
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct UndoArguments {
    /// Folder of the database
    pub database: PathBuf,
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
    /// Only rows that meet a condition, as behind WHERE
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Delete all rows of the table
    #[arg(long, conflicts_with_all = ["date", "symbols", "condition"])]
    pub all: bool,
    /// Only say how many rows would go
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct MaintainArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table; by default all
    pub table: Option<String>,
    /// Only say what would go
    #[arg(long)]
    pub dry_run: bool,
    /// Remove all files that are kept for undo, however short a time ago
    #[arg(long)]
    pub forget: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum FormatArgument {
    /// Arrow IPC, mapped: the hot tier
    Arrow,
    /// Parquet: the cold tier
    Parquet,
}

impl From<FormatArgument> for SegmentFormat {
    fn from(format: FormatArgument) -> SegmentFormat {
        match format {
            FormatArgument::Arrow => SegmentFormat::Arrow,
            FormatArgument::Parquet => SegmentFormat::Parquet,
        }
    }
}

/// Whether rows count that are acknowledged and in no table's files yet.
#[derive(Debug, Args)]
pub struct JournalArguments {
    /// Only rows in the tables' files: the journal isn't read
    #[arg(long)]
    pub no_journal: bool,
    /// Memory for rows that are in the journal alone
    #[arg(long, default_value = "2G", value_name = "BYTES")]
    pub journal_memory: Bytes,
}

/// Where statements are run, and how their rows are shown.
#[derive(Debug, Args)]
pub struct AskArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Memory that sorts, joins and groups may hold; by default 4G
    #[arg(long)]
    pub memory: Option<Bytes>,
    /// Threads; by default one for each core
    #[arg(long)]
    pub threads: Option<usize>,
    /// Rows that a table shows; 0 for all. A file has all rows
    #[arg(long, default_value_t = 40)]
    pub rows: usize,
    /// Time zone in which instants are shown, such as America/New_York; by default UTC
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    #[command(flatten)]
    pub journal: JournalArguments,
}

#[derive(Debug, Args)]
pub struct SqlArguments {
    #[command(flatten)]
    pub ask: AskArguments,
    /// Statement; or use --file. Several, with semicolons between them, are answered one after the other
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub statement: Option<String>,
    /// File that holds the statements, - for standard input
    #[arg(short, long)]
    pub file: Option<PathBuf>,
    /// How the answer is written; by default as --output is named, or as a table
    #[arg(long, value_enum)]
    pub format: Option<OutputFormat>,
    /// File for the answer instead of standard output
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Value of a placeholder $NAME, as NAME=VALUE; numbers, dates and true/false are taken as such
    #[arg(short, long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Show time, memory and what the indexes passed over, on standard error
    #[arg(long)]
    pub stats: bool,
}

#[derive(Debug, Args)]
pub struct ShellArguments {
    #[command(flatten)]
    pub ask: AskArguments,
    /// File that keeps the statements of earlier shells; by default splay/history in the user's folder of states
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
}

/// Logs go to standard error. SPLAY_LOG says which, as in SPLAY_LOG=debug or SPLAY_LOG=warn,splay_server=debug; SPLAY_LOG_FORMAT=json makes
/// each a line of JSON.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Folder of the database; made if need be
    pub database: PathBuf,
    /// Settings, a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where HTTP and WebSocket listen, port 0 for a free one, or off; goes before the settings
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<Address>,
    /// Where Flight and Flight SQL listen, port 0 for a free one, or off; goes before the settings
    #[arg(long, value_name = "ADDRESS")]
    pub flight: Option<Address>,
    /// Where line protocol is taken over TCP, port 0 for a free one, or off; goes before the settings
    #[arg(long, value_name = "ADDRESS")]
    pub line: Option<Address>,
    /// Take no rows: other processes may load, and the database must exist
    #[arg(long)]
    pub read_only: bool,
}

/// Serves the database for reading. Subscribers get the day: the first to come begins it, others go along.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// The date, in each table's time zone; with --recorded that of receipt
    #[arg(long, required_unless_present = "recorded")]
    pub date: Option<chrono::NaiveDate>,
    /// How many times as fast as it happened; 0 or max for as fast as it is taken
    #[arg(long, default_value = "1", value_parser = speed)]
    pub speed: Speed,
    /// Tables, by default all; of rows of one instant those of the first come first
    #[arg(long = "table", value_name = "TABLE", num_args = 1.., value_delimiter = ',')]
    pub tables: Vec<String>,
    /// Only rows of these symbols
    #[arg(long, value_name = "SYMBOL", num_args = 1.., value_delimiter = ',')]
    pub symbols: Vec<String>,
    /// First instant: a time of the date in the table's time zone, or with date and zone
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Instant at which it ends
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Stretch of time within which rows are sent together, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10.0)]
    pub batch_ms: f64,
    /// Replay the journal's batches as they came in instead of the tables' rows in order of time
    #[arg(long)]
    pub recorded: bool,
    /// Settings of the server, a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where HTTP and WebSocket listen, port 0 for a free one, or off; goes before the settings
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<Address>,
    /// Where Flight and Flight SQL listen, port 0 for a free one, or off; goes before the settings
    #[arg(long, value_name = "ADDRESS")]
    pub flight: Option<Address>,
}

#[derive(Debug, Args)]
pub struct TokenArguments {
    /// Whose token it is; shown in the server's logs
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    Table,
    Csv,
    Json,
    Ndjson,
    Arrow,
    Parquet,
}

#[derive(Debug, Subcommand)]
pub enum TickCommand {
    /// Show what a server, or a database at rest, holds and has done
    Status(TickStatusArguments),
    /// Store rows that come on standard input as lines
    Write(TickWriteArguments),
}

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Show the journal's files, what they hold, and what is lost; changes nothing
    Inspect(JournalInspectArguments),
    /// Read the whole batches out of a file that a start has set aside, and write those that the journal lacks to Arrow files
    Recover(JournalRecoverArguments),
    /// Say that all losses are known: they are listed no longer
    Accept(DatabaseArguments),
}

#[derive(Debug, Args)]
pub struct JournalRecoverArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// The file: a path, or a name in the journal's folder
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// Folder for the Arrow files, one for each table; made if need be. Without it the batches are only shown
    #[arg(long, value_name = "FOLDER", conflicts_with = "store")]
    pub to: Option<PathBuf>,
    /// Store the batches in the database, each once, however often this is called; no server may capture meanwhile
    #[arg(long)]
    pub store: bool,
}

#[derive(Debug, Args)]
pub struct JournalInspectArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// How it is shown
    #[arg(long, value_enum, default_value = "table")]
    pub format: StatusFormat,
}

/// A database, by its folder or by the server that captures into it.
#[derive(Debug, Args)]
pub struct PlaceArguments {
    /// Folder of the database, or address of its server, such as http://127.0.0.1:7750
    pub place: String,
    /// File that holds the token for the server; by default the token is taken from SPLAY_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// PEM file of the certificate that vouches for the server's; needed for https
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TickStatusArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// How it is shown
    #[arg(long, value_enum, default_value = "table")]
    pub format: StatusFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    Table,
    Json,
}

#[derive(Debug, Args)]
pub struct TickWriteArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Table; made if need be, of the columns that --type names
    pub table: String,
    /// What the lines are: csv, whose first line names the columns, or ndjson, an object in each line
    #[arg(long, value_parser = text_format)]
    pub format: TextFormat,
    /// Names of the columns, for csv without a header line
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub columns: Vec<String>,
    #[command(flatten)]
    pub shape: ShapeArguments,
    /// What times are counted in that are written as numbers: ns, us, ms, s
    #[arg(long, default_value = "ns", value_parser = time_unit)]
    pub unit: TimeUnit,
    /// Name under which lines are numbered: lines that were stored before under it are passed over
    #[arg(long, value_name = "NAME")]
    pub producer: Option<String>,
    /// What is waited for: memory, process, disk
    #[arg(long, default_value = "disk", value_parser = ack_class)]
    pub ack: AckClass,
    /// Lines that are sent at once
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch_rows: u32,
    /// Milliseconds that a line waits for others
    #[arg(long, default_value_t = 100)]
    pub linger_ms: u64,
    /// Seconds for which a server that doesn't answer, or has no room, is tried again
    #[arg(long, default_value_t = 60)]
    pub retry_seconds: u64,
}

#[derive(Debug, Args)]
pub struct DatabaseArguments {
    /// Folder of the database
    pub database: PathBuf,
}

#[derive(Debug, Args)]
pub struct TablesArguments {
    /// Folder of the database
    pub database: PathBuf,
    #[command(flatten)]
    pub journal: JournalArguments,
}

#[derive(Debug, Args)]
pub struct TableArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table
    pub table: String,
    #[command(flatten)]
    pub journal: JournalArguments,
}

#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Only this table
    pub table: Option<String>,
}

#[derive(Debug, Args)]
pub struct BackupArguments {
    /// Folder of the database
    #[arg(required_unless_present = "verify", conflicts_with = "verify")]
    pub database: Option<PathBuf>,
    /// Folder of the backups; made if need be
    #[arg(required_unless_present = "verify", conflicts_with = "verify")]
    pub to: Option<PathBuf>,
    /// Give the database's own segment files a second name in the backup instead of copying them, where both are on one file system: it takes no
    /// room, and doesn't help against a disk that fails
    #[arg(long, conflicts_with = "verify")]
    pub link: bool,
    /// Read every byte of the backup in this folder and compare, instead of making one
    #[arg(long, value_name = "BACKUP")]
    pub verify: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// Folder of the backups
    pub backup: PathBuf,
    /// Folder for the database: empty, or made
    pub database: PathBuf,
}

#[derive(Debug, Args)]
pub struct ExportArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table
    pub table: String,
    /// Format of the files
    #[arg(long, value_enum, default_value = "parquet")]
    pub format: FormatArgument,
    /// Folder for the files; made if need be
    #[arg(long)]
    pub to: PathBuf,
    #[command(flatten)]
    pub journal: JournalArguments,
}

#[derive(Debug, Args)]
pub struct CompactArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Only this table
    pub table: Option<String>,
    /// Format that all segments shall have
    #[arg(long, value_enum)]
    pub format: Option<FormatArgument>,
    /// Only partitions before this date
    #[arg(long)]
    pub before: Option<chrono::NaiveDate>,
    /// Memory
    #[arg(long, default_value = "1G")]
    pub memory: Bytes,
}

#[derive(Debug, Args)]
pub struct AlterArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table
    pub table: String,
    #[command(subcommand)]
    pub change: AlterCommand,
}

#[derive(Debug, Subcommand)]
pub enum AlterCommand {
    /// Add a column, null in all rows there are
    AddColumn { name: String, column_type: ColumnType },
    /// Give a column a wider type
    Widen { name: String, column_type: ColumnType },
    /// Set how long rows stay; without an option they stay for ever
    Retain {
        /// Days that the table has, the newest date's among them
        #[arg(long)]
        days: Option<u32>,
        /// Bytes that its files may have
        #[arg(long)]
        bytes: Option<Bytes>,
    },
}

#[derive(Debug, Args)]
pub struct RecipesArguments {
    /// Show this recipe's text
    pub name: Option<String>,
}

fn text_format(text: &str) -> Result<TextFormat, String> {
    text.parse()
}

fn time_unit(text: &str) -> Result<TimeUnit, String> {
    text.parse()
}

fn ack_class(text: &str) -> Result<AckClass, String> {
    text.parse()
}

fn speed(text: &str) -> Result<Speed, String> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(Speed::Max),
        Ok(0.0) => Ok(Speed::Max),
        Ok(times) if times.is_finite() && times > 0.0 => Ok(Speed::Times(times)),
        _ => Err(format!("{text:?} is neither a number above zero nor \"max\"")),
    }
}

fn column_type(text: &str) -> Result<(String, ColumnType), String> {
    let (column, column_type) = text.split_once('=').ok_or_else(|| format!("{text:?} is not COLUMN=TYPE"))?;
    Ok((column.to_owned(), column_type.parse()?))
}
