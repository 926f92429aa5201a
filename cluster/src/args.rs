//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Statements of SplayDB on several machines.
#[derive(Debug, Parser)]
#[command(name = "splay-cluster", version)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run parts of statements over slices of a database's tables.
    Executor {
        /// The database.
        database: PathBuf,
        /// Options of the server.
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Answer statements, whose parts run on executors.
    Scheduler {
        /// The database: the executors' folder, or a copy of it.
        database: PathBuf,
        /// URLs of the executors, separated by commas: http://HOST:PORT.
        #[arg(long, value_delimiter = ',', required = true)]
        executors: Vec<String>,
        /// Slices for each executor.
        #[arg(long, default_value_t = 2)]
        slices_per_executor: usize,
        /// Rows below which another slice costs more than it saves.
        #[arg(long, default_value_t = 1_000_000)]
        slice_rows_min: u64,
        /// Statements that run at the same time; others wait.
        #[arg(long, default_value_t = 8)]
        statements_max: usize,
        /// Options of the server.
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Ask a scheduler.
    Sql {
        /// URL of the scheduler: http://HOST:PORT.
        url: String,
        /// The statement.
        statement: String,
        /// Form in which rows are printed.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
        /// File with the token of the cluster.
        #[arg(long)]
        token_file: Option<PathBuf>,
    },
}

/// Options of both servers.
#[derive(Debug, Args)]
pub struct ServerArguments {
    /// Address; port 0 for any that is free. Without a token, on loopback alone.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// File with the token of the cluster, of 16 characters or more.
    #[arg(long)]
    pub token_file: Option<PathBuf>,
    /// Threads of a statement. Default: as many as the machine runs at once.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Megabytes that all statements together may hold.
    #[arg(long, default_value_t = 4096)]
    pub memory_mb: usize,
}

/// Form in which rows are printed.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Format {
    /// A table, printed once all rows are there.
    Table,
    /// CSV with a header.
    Csv,
}
