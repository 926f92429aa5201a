//! Arguments of the command.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use splay_capture::AckClass;
use splay_capture::text::{TextFormat, TimeUnit};
use splay_import::NumberForm;
use splay_lab::compression::BufferCodec;
use splay_lab::formats::{FileFormat, TextCodec};
use splay_server::ingest::Speed;
use splay_server::settings::Address;
use splay_store::audit::Expected;
use splay_store::{ByteSize, ColumnType, DayStart, Dedupe, Goal, Period, Publish, Reference, Tier};

use crate::lab_args::{Budget, LabCommand};

/// An open tick database: loads, stores and queries high-frequency market data.
#[derive(Debug, Parser)]
#[command(name = "splay", version, max_term_width = 110)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate market data with the simulator
    #[command(subcommand)]
    Gen(GenCommand),
    /// Load files into a table
    Load(LoadArguments),
    /// Run SQL statements
    Sql(SqlArguments),
    /// Run statements interactively, with completion, history and commands such as \d
    Shell(ShellArguments),
    /// Capture rows into a database and serve it over HTTP, Flight SQL, PostgreSQL's wire protocol, WebSocket and line protocol
    Serve(ServeArguments),
    /// Replay a stored or recorded day to subscribers as if it were live
    Replay(ReplayArguments),
    /// Make a follower the leader: it takes rows from now on, and its leader before takes none once it has heard
    Promote(PromoteArguments),
    /// Create a token for clients of a server, with its digest for the server's settings
    Token(TokenArguments),
    /// Show the state of capture, and capture rows from standard input
    #[command(subcommand)]
    Tick(TickCommand),
    /// Inspect the journal, and recover what it has lost
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Verify and show the audit log of a server: who asked and changed what
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Write captured rows of ended dates to files and merge these; a server does this by itself
    Roll(DatabaseArguments),
    /// List the tables and views of a database
    Tables(TablesArguments),
    /// Show a table's columns, order, dates and size, or a view's columns and statement
    Describe(DescribeArguments),
    /// Check every byte of a database, including its journal, or of one table
    Verify(VerifyArguments),
    /// Back up a database while it is in use; files that the last backup in the folder has aren't copied again
    Backup(BackupArguments),
    /// Restore a backup to a new database, and verify it
    Restore(RestoreArguments),
    /// Copy a table to Parquet, Arrow or CSV files for other tools
    Export(ExportArguments),
    /// Merge small segments, or move a table to another tier
    Compact(CompactArguments),
    /// Change a table's columns, its name, how its rows are kept, or how long
    Alter(AlterArguments),
    /// Measure a table's columns in each tier on samples of its rows, and advise which tiers suit a goal
    Advise(AdviseArguments),
    /// List what was loaded into a table, deleted, replaced and undone, the newest first
    Loads(LoadsArguments),
    /// Take back what a commit did; rows of later commits stay
    Undo(UndoArguments),
    /// Delete rows: of dates, times and symbols, or those that meet a condition
    Delete(DeleteArguments),
    /// Move dates to the tiers of their age, remove those beyond the tables' retention and files that were kept long enough for undo, and
    /// refresh materialized views
    Maintain(MaintainArguments),
    /// Bring the Delta tables, by which other engines read Parquet segments in place, up to the tables' last commits
    Publish(PublishArguments),
    /// Measure what storing data costs: compression, file formats
    #[command(subcommand)]
    Lab(LabCommand),
    /// List the built-in recipes, or show one
    Recipes(RecipesArguments),
    /// Print a completion script for a shell
    Completions(CompletionsArguments),
    /// Write the manual pages
    Man(ManArguments),
}

#[derive(Debug, Subcommand)]
pub enum GenCommand {
    /// Generate a day of US equities in the layout of NYSE Daily TAQ files
    Taq {
        /// Folder for the files; created if absent
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
        /// Seed; equal seeds give equal files
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Generate a month of crypto trades and 20-level books
    Crypto {
        /// Folder for the files; created if absent
        #[arg(long)]
        out: PathBuf,
        /// Size; 1 means 20 M trades and 33 M books
        #[arg(long, default_value_t = 0.01)]
        scale: f64,
        /// Seed; equal seeds give equal files
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Format of the files
        #[arg(long, value_enum, default_value = "csv")]
        format: GenFormat,
        /// Only the first days of the month
        #[arg(long)]
        days: Option<u32>,
        /// Only the write day, which is for measuring loads
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
    /// Format of the files: csv, tsv, psv, json (lines or an array), parquet, arrow, dbn; default: detected by content and name
    #[arg(long)]
    pub format: Option<String>,
    /// The files have no header line
    #[arg(long)]
    pub no_header: bool,
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
    /// What becomes of a row of a reference table whose key is there already
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

    /// How the new rows are kept: mapped (fastest), fast or small; default: as the table's tiers say, else mapped
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
    /// Leave them out, and say how many there are
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
    /// Leave the row that is there
    Nothing,
    /// Put the new row in the place of the one that is there
    Update,
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
    /// First take the object store over from the database that writes there, which is refused from then on: for a promoted follower and a
    /// restored backup, once the other database has stopped for good
    #[arg(long, conflicts_with = "dry_run")]
    pub take_over_objects: bool,
}

#[derive(Debug, Args)]
pub struct PublishArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table; by default all that are to be published
    pub table: Option<String>,
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

/// Whether rows count that are acknowledged and in no table's files yet.
#[derive(Debug, Args)]
pub struct JournalArguments {
    /// Ignore the journal: only rows in the tables' files
    #[arg(long)]
    pub no_journal: bool,
    /// Memory for rows that only the journal has
    #[arg(long, default_value = "2G", value_name = "BYTES")]
    pub journal_memory: ByteSize,
}

/// Where statements run, and how their rows are shown.
#[derive(Debug, Args)]
pub struct AskArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Memory limit for sorts, joins and groups; default: 4G
    #[arg(long)]
    pub memory: Option<ByteSize>,
    /// Number of threads; default: one per core
    #[arg(long)]
    pub threads: Option<usize>,
    /// Rows shown of a table; 0 for all. A file gets all rows
    #[arg(long, default_value_t = 40)]
    pub rows: usize,
    /// Time zone in which times are shown, such as America/New_York; default: UTC
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// Draw charts with ASCII characters only
    #[arg(long)]
    pub ascii: bool,
    #[command(flatten)]
    pub journal: JournalArguments,
}

#[derive(Debug, Args)]
pub struct SqlArguments {
    #[command(flatten)]
    pub ask: AskArguments,
    /// Statement, or several separated by semicolons; or use --file
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub statement: Option<String>,
    /// File with the statements, - for standard input
    #[arg(short, long)]
    pub file: Option<PathBuf>,
    /// Format of the answer; default: by the name of --output, otherwise a table
    #[arg(long, value_enum)]
    pub format: Option<OutputFormat>,
    /// File for the answer instead of standard output
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Value of a placeholder $NAME, as NAME=VALUE; numbers, true and false are typed, the rest is text
    #[arg(short, long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Show time, memory and data skipped by indexes, on standard error
    #[arg(long)]
    pub stats: bool,
}

#[derive(Debug, Args)]
pub struct ShellArguments {
    #[command(flatten)]
    pub ask: AskArguments,
    /// History file; default: splay/history in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
}

/// Logs go to standard error. SPLAY_LOG sets the level, as in SPLAY_LOG=debug or SPLAY_LOG=warn,splay_server=debug; SPLAY_LOG_FORMAT=json makes
/// each line a JSON object.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Folder of the database; created if absent
    pub database: PathBuf,
    /// Settings file, TOML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address for HTTP and WebSocket (port 0: a free one), or off; overrides the settings
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<Address>,
    /// Address for Flight and Flight SQL (port 0: a free one), or off; overrides the settings
    #[arg(long, value_name = "ADDRESS")]
    pub flight: Option<Address>,
    /// Address for PostgreSQL's wire protocol, such as 127.0.0.1:8812 (port 0: a free one), or off; overrides the settings, whose default
    /// is off
    #[arg(long, value_name = "ADDRESS")]
    pub postgres: Option<Address>,
    /// Address for line protocol over TCP (port 0: a free one), or off; overrides the settings
    #[arg(long, value_name = "ADDRESS")]
    pub line: Option<Address>,
    /// Accept no rows, so that other processes may load; the database must exist
    #[arg(long)]
    pub read_only: bool,
    /// Follow the server at this address: keep a copy of its database and answer statements; take rows once promoted
    #[arg(long, value_name = "URL", conflicts_with = "read_only")]
    pub follow: Option<String>,
    /// File with the token for the server that is followed; default: the variable SPLAY_TOKEN
    #[arg(long, value_name = "FILE", requires = "follow")]
    pub follow_token_file: Option<PathBuf>,
    /// PEM file of the certificate authority of the server that is followed; required for https
    #[arg(long, value_name = "FILE", requires = "follow")]
    pub follow_authority: Option<PathBuf>,
    /// Folder for a backup of a former leader whose rows the server that is followed doesn't all have
    #[arg(long, value_name = "FOLDER", requires = "follow")]
    pub aside: Option<PathBuf>,
}

/// Promotes a follower that a server runs, given by its address, or one that no process follows with, given by its folder.
#[derive(Debug, Args)]
pub struct PromoteArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// Serves the database for reading and sends the day to subscribers. The first subscriber starts it, later ones join.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Date, in each table's time zone; with --recorded, of receipt
    #[arg(long, required_unless_present = "recorded")]
    pub date: Option<chrono::NaiveDate>,
    /// Multiple of real time; 0 or max for as fast as subscribers read
    #[arg(long, default_value = "1", value_parser = speed)]
    pub speed: Speed,
    /// Tables, in the order of rows with equal times; default: all
    #[arg(long = "table", value_name = "TABLE", num_args = 1.., value_delimiter = ',')]
    pub tables: Vec<String>,
    /// Only rows of these symbols
    #[arg(long, value_name = "SYMBOL", num_args = 1.., value_delimiter = ',')]
    pub symbols: Vec<String>,
    /// Start: a time of the date in the table's time zone, or with date and zone
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End, exclusive; written like --from
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Interval in milliseconds within which rows are sent together
    #[arg(long, value_name = "MS", default_value_t = 10.0)]
    pub batch_ms: f64,
    /// Replay the journal's batches as they arrived instead of the tables' rows in time order
    #[arg(long)]
    pub recorded: bool,
    /// Settings file of the server, TOML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address for HTTP and WebSocket (port 0: a free one), or off; overrides the settings
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<Address>,
    /// Address for Flight and Flight SQL (port 0: a free one), or off; overrides the settings
    #[arg(long, value_name = "ADDRESS")]
    pub flight: Option<Address>,
}

#[derive(Debug, Args)]
pub struct TokenArguments {
    /// Name of the token's owner, for the server's logs
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    Table,
    Chart,
    Csv,
    Json,
    Ndjson,
    Arrow,
    Parquet,
}

impl OutputFormat {
    /// Whether it shows an answer to people, and keeps no values for programs.
    pub fn is_for_people(self) -> bool {
        matches!(self, OutputFormat::Table | OutputFormat::Chart)
    }
}

#[derive(Debug, Subcommand)]
pub enum TickCommand {
    /// Show the state of a server, or of a database at rest
    Status(TickStatusArguments),
    /// Store rows from lines on standard input
    Write(TickWriteArguments),
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that each record is as it was written, and that none is missing
    Verify(AuditVerifyArguments),
    /// Print records, the oldest first
    Show(AuditShowArguments),
}

#[derive(Debug, Args)]
pub struct AuditVerifyArguments {
    /// Folder of the database, or of the log where settings put it elsewhere
    pub database: PathBuf,
    /// File with the key of the log; default: the variable SPLAY_AUDIT_KEY
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// A record that has to be there: the head that an earlier verification printed, and that was kept elsewhere
    #[arg(long, value_name = "NUMBER:DIGEST")]
    pub head: Option<Expected>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub format: StatusFormat,
}

#[derive(Debug, Args)]
pub struct AuditShowArguments {
    /// Folder of the database, or of the log where settings put it elsewhere
    pub database: PathBuf,
    /// Only records from this time on, UTC, such as 2026-03-04 or '2026-03-04 09:30:00'
    #[arg(long, value_name = "TIME", value_parser = utc_time)]
    pub since: Option<i64>,
    /// Only records before this time
    #[arg(long, value_name = "TIME", value_parser = utc_time)]
    pub until: Option<i64>,
    /// Only those of this user, or token of the settings
    #[arg(long)]
    pub user: Option<String>,
    /// Only those of this kind: sign_in, denied, statement, change, users, rows, subscribe, replicate, administration, start, stop, …
    #[arg(long)]
    pub kind: Option<String>,
    /// Output format; json prints each record as its line in the log
    #[arg(long, value_enum, default_value = "table")]
    pub format: StatusFormat,
}

/// A time as people write it, in nanoseconds since the epoch.
fn utc_time(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no time such as 2026-03-04 or 2026-03-04 09:30:00");
    let time = text.parse::<chrono::DateTime<chrono::Utc>>().ok().or_else(|| {
        let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"];
        let parse = |format: &&str| chrono::NaiveDateTime::parse_from_str(text, format).ok();
        let date = || text.parse::<chrono::NaiveDate>().ok()?.and_hms_opt(0, 0, 0);
        Some(formats.iter().find_map(parse).or_else(date)?.and_utc())
    });
    time.and_then(|time| time.timestamp_nanos_opt()).ok_or_else(wrong)
}

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Show the journal's files, their contents and losses; changes nothing
    Inspect(JournalInspectArguments),
    /// Read complete batches from a file that a start has set aside, and write or store those that the journal lacks
    Recover(JournalRecoverArguments),
    /// Mark all losses as known, so that they are no longer reported
    Accept(DatabaseArguments),
}

#[derive(Debug, Args)]
pub struct JournalRecoverArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// File: a path, or a name in the journal's folder
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// Folder for Arrow files, one per table; created if absent. Without it the batches are only shown
    #[arg(long, value_name = "FOLDER", conflicts_with = "store")]
    pub to: Option<PathBuf>,
    /// Store the batches in the database, each once even if repeated; no server may capture meanwhile
    #[arg(long)]
    pub store: bool,
}

#[derive(Debug, Args)]
pub struct JournalInspectArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub format: StatusFormat,
}

/// A database, given by its folder or by its server.
#[derive(Debug, Args)]
pub struct PlaceArguments {
    /// Folder of the database, or address of its server, such as http://127.0.0.1:7750
    #[arg(value_hint = ValueHint::AnyPath)]
    pub place: String,
    /// File with the token for the server; default: the variable SPLAY_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// PEM file of the certificate authority of the server; required for https
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TickStatusArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Output format
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
    /// Table; created if absent, with the columns of --type
    pub table: String,
    /// Format of the lines: csv with a header line, or ndjson with one object per line
    #[arg(long, value_parser = text_format)]
    pub format: TextFormat,
    /// Column names, for csv without a header line
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub columns: Vec<String>,
    #[command(flatten)]
    pub shape: ShapeArguments,
    /// Unit of numeric times: ns, us, ms, s
    #[arg(long, default_value = "ns", value_parser = time_unit)]
    pub unit: TimeUnit,
    /// Name under which lines are numbered; lines already stored under it are skipped
    #[arg(long, value_name = "NAME")]
    pub producer: Option<String>,
    /// Acknowledgement to wait for: memory, process, disk, replica
    #[arg(long, default_value = "disk", value_parser = ack_class)]
    pub ack: AckClass,
    /// Lines per message
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch_rows: u32,
    /// Milliseconds that a line waits for others before it is sent
    #[arg(long, default_value_t = 100)]
    pub linger_ms: u64,
    /// Seconds to retry a server that doesn't answer or has no room
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
pub struct DescribeArguments {
    #[command(flatten)]
    pub table: TableArguments,
    /// Show what each column takes on disk, by tier, and how it is encoded
    #[arg(long)]
    pub storage: bool,
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
    /// Folder of the backups; created if absent
    #[arg(required_unless_present = "verify", conflicts_with = "verify")]
    pub to: Option<PathBuf>,
    /// Hard-link segments into the backup instead of copying them, on one file system: takes no space, and doesn't protect against a failing
    /// disk
    #[arg(long, conflicts_with = "verify")]
    pub link: bool,
    /// Verify the backup in this folder instead of making one
    #[arg(long, value_name = "BACKUP")]
    pub verify: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// Folder of the backups
    pub backup: PathBuf,
    /// Folder for the database: empty or absent
    pub database: PathBuf,
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

#[derive(Debug, Args)]
pub struct CompactArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Only this table
    pub table: Option<String>,
    /// How all rows are kept: mapped (fastest), fast, small, or object (in the object store of splay.toml); default: as the table's tiers say, else as each date's first segment
    #[arg(long, value_name = "TIER")]
    pub tier: Option<Tier>,
    /// Only partitions before this date
    #[arg(long)]
    pub before: Option<chrono::NaiveDate>,
    /// Memory limit
    #[arg(long, default_value = "1G")]
    pub memory: ByteSize,
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
    /// Add a column that is null in all existing rows
    AddColumn { name: String, column_type: ColumnType },
    /// Give a column a wider type; int64 becomes float64 if no value is lost, and text symbol, which write the table's files anew
    Widen { name: String, column_type: ColumnType },
    /// Set how rows are kept: mapped (fastest), fast, small, or object (in the object store of splay.toml), from an age on
    Tier {
        tier: Tier,
        /// Days that a date is older than the table's newest
        #[arg(long, default_value = "0", value_name = "DAYS")]
        after: u32,
    },
    /// Set the form in which other engines are to read Parquet segments: delta, with timestamps of microseconds; delta-nanos, with whole
    /// numbers of nanoseconds; or none. `splay compact` writes older segments anew, `splay publish` publishes
    Publish {
        #[arg(value_parser = publish_form)]
        form: PublishForm,
    },
    /// Change what a partition spans: day, month, year or all. Writes all rows anew
    Partition { period: Period },
    /// Give the table another name; its rows, its commits and what can be undone stay
    Rename { name: String },
    /// Set how long rows stay; without an option they stay for ever
    Retain {
        /// Days that the table has, the newest date's among them
        #[arg(long)]
        days: Option<u32>,
        /// Bytes that its files may have
        #[arg(long)]
        bytes: Option<ByteSize>,
    },
}

/// A form, or none.
#[derive(Debug, Clone, Copy)]
pub struct PublishForm(pub Option<Publish>);

fn publish_form(text: &str) -> Result<PublishForm, String> {
    let of = |form: Publish| PublishForm(Some(form));
    if text.eq_ignore_ascii_case("none") { Ok(PublishForm(None)) } else { text.parse().map(of) }
}

#[derive(Debug, Args)]
pub struct AdviseArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table
    pub table: String,
    /// What the rows are to be kept for: size (fewest bytes), speed (fastest statements), balanced (fast over new dates, small for old ones)
    #[arg(long, default_value = "balanced")]
    pub goal: Goal,
    /// Set the tiers that are advised, as splay alter does. No file is moved: splay maintain and servers do that
    #[arg(long)]
    pub apply: bool,
    /// Time to spend on samples, such as 20s or 2m. The first one is taken whole
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub budget: Budget,
    /// Memory in which the system keeps mapped files; default: the machine's
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub format: AdviceFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdviceFormat {
    Table,
    /// All figures and the rules
    Json,
    /// The figures of columns
    Csv,
}

#[derive(Debug, Args)]
pub struct RecipesArguments {
    /// Show this recipe's text
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// Shell
    #[arg(value_enum)]
    pub shell: CompletionsShell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum CompletionsShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct ManArguments {
    /// Folder for the pages; created if absent
    #[arg(long)]
    pub out: PathBuf,
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
