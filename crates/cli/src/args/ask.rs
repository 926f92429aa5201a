//! Arguments of commands that ask statements.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use splay_store::ByteSize;

use super::JournalArguments;
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
    /// File for the answer, - for standard output; default: -
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
    /// History file, /dev/null for none; default: splay/history in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
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

/// A database, given by its folder or by its server.
#[derive(Debug, Args)]
pub struct PlaceArguments {
    /// Folder of the database, or address of its server, such as http://127.0.0.1:7750
    #[arg(value_hint = ValueHint::AnyPath)]
    pub place: String,
    /// File with the token for the server; default: the variable SPLAY_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// PEM file that vouches for the server; default: the system's list
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
}
