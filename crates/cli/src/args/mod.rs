//! Arguments of the command.

mod ask;
mod records;
mod rows;
mod serve;
mod tables;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::lab_args::LabCommand;

pub use self::ask::*;
pub use self::records::*;
pub use self::rows::*;
pub use self::serve::*;
pub use self::tables::*;
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
    /// Make a follower the leader: it accepts rows from now on, and the former leader refuses them as soon as it is notified
    Promote(PromoteArguments),
    /// Create a token for clients of a server, with its digest for the server's settings
    Token(TokenArguments),
    /// Show the state of capture, and capture rows from standard input
    #[command(subcommand)]
    Tick(TickCommand),
    /// Inspect the journal, and recover batches from damaged files
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
    /// Change a table's columns, name, partitions, tiers or retention
    Alter(AlterArguments),
    /// Measure a table's columns in each tier on samples of its rows, and advise which tiers suit a goal
    Advise(AdviseArguments),
    /// List what was loaded into a table, deleted, replaced and undone, the newest first
    Loads(LoadsArguments),
    /// Undo a commit; later commits stay
    Undo(UndoArguments),
    /// Delete rows of dates and symbols, or those that meet a condition
    Delete(DeleteArguments),
    /// Move dates to the tiers for their age, remove dates beyond the tables' retention and files that were kept long enough for undo, and
    /// refresh materialized views
    Maintain(MaintainArguments),
    /// Update the Delta tables, by which other engines read Parquet segments in place, to the tables' last commits
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
