//! Arguments of commands that show, keep and change tables.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use splay_store::{ByteSize, ColumnType, Goal, Period, Publish, Tier};

use super::JournalArguments;
use crate::lab_args::Budget;
#[derive(Debug, Args)]
pub struct MaintainArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Table; by default all
    pub table: Option<String>,
    /// Only show what would be moved and removed
    #[arg(long)]
    pub dry_run: bool,
    /// Remove all files that are kept for undo, also those of a moment ago
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
    /// Show each column's size on disk, by tier, and its encoding
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
pub struct CompactArguments {
    /// Folder of the database
    pub database: PathBuf,
    /// Only this table
    pub table: Option<String>,
    /// Tier of all rows: mapped (fastest), fast, small, dense (smallest), or object (in the object store of splay.toml); default: by the table's rules, else that of each date's first segment
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
    /// Widen a column's type. From int64 to float64, if no value is lost, and from text to symbol the table's files are rewritten
    Widen { name: String, column_type: ColumnType },
    /// Set the tier of dates from an age on: mapped (fastest), fast, small, dense (smallest), or object (in the object store of splay.toml)
    Tier {
        tier: Tier,
        /// Age: days between a date and the table's newest
        #[arg(long, default_value = "0", value_name = "DAYS")]
        after: u32,
    },
    /// Set the form in which other engines are to read Parquet segments: delta, with timestamps of microseconds; delta-nanos, with whole
    /// numbers of nanoseconds; or none. `splay compact` rewrites older segments, `splay publish` publishes
    Publish {
        #[arg(value_parser = publish_form)]
        form: PublishForm,
    },
    /// Change what a partition spans: day, month, year or all. Rewrites all rows
    Partition { period: Period },
    /// Rename the table; its rows, commits and undo history stay
    Rename { name: String },
    /// Set the retention; without an option rows are kept for ever
    Retain {
        /// Days to keep, the newest date included
        #[arg(long)]
        days: Option<u32>,
        /// Bytes of files to keep
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
    /// Goal: size (fewest bytes), speed (fastest statements), balanced (fast over new dates, small for old ones)
    #[arg(long, default_value = "balanced")]
    pub goal: Goal,
    /// Set the recommended tiers, as splay alter does. No file is moved: splay maintain and servers do that
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
