//! Arguments of servers, and of programs that send to them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use splay_capture::AckClass;
use splay_capture::text::{TextFormat, TimeUnit};
use splay_server::ingest::ReplaySpeed;
use splay_server::settings::Address;

use super::{PlaceArguments, ShapeArguments};
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
    /// Accept no rows: another process may capture; the database must exist
    #[arg(long)]
    pub read_only: bool,
    /// Follow the server at this address: keep a copy of its database and answer statements; take rows once promoted
    #[arg(long, value_name = "URL", conflicts_with = "read_only")]
    pub follow: Option<String>,
    /// File with the token for the server that is followed; default: the variable SPLAY_TOKEN
    #[arg(long, value_name = "FILE", requires = "follow")]
    pub follow_token_file: Option<PathBuf>,
    /// PEM file that vouches for that server; default: the system's list
    #[arg(long, value_name = "FILE", requires = "follow")]
    pub follow_authority: Option<PathBuf>,
    /// Folder to which a former leader is backed up if it has rows that its new leader lacks
    #[arg(long, value_name = "FOLDER", requires = "follow")]
    pub aside: Option<PathBuf>,
}

/// Promotes the follower that a server runs, given by its address, or the database in a folder that no server uses.
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
    pub speed: ReplaySpeed,
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

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a command is read once")]
pub enum TickCommand {
    /// Show the state of a server, or of a database at rest
    Status(TickStatusArguments),
    /// Store rows from lines on standard input
    Write(TickWriteArguments),
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

fn text_format(text: &str) -> Result<TextFormat, String> {
    text.parse()
}

fn time_unit(text: &str) -> Result<TimeUnit, String> {
    text.parse()
}

fn ack_class(text: &str) -> Result<AckClass, String> {
    text.parse()
}

fn speed(text: &str) -> Result<ReplaySpeed, String> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(ReplaySpeed::Max),
        Ok(0.0) => Ok(ReplaySpeed::Max),
        Ok(times) if times.is_finite() && times > 0.0 => Ok(ReplaySpeed::Times(times)),
        _ => Err(format!("{text:?} is neither a number above zero nor \"max\"")),
    }
}
