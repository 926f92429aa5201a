//! Arguments of commands about journals and audit logs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use splay_store::ByteSize;
use splay_store::audit::ExpectedRecord;

use super::{DatabaseArguments, StatusFormat};
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
    /// Head that an earlier verification printed: the log must still contain this record
    #[arg(long, value_name = "NUMBER:DIGEST")]
    pub head: Option<ExpectedRecord>,
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
