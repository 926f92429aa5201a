//! The state of a database for operators: its tables, and what is captured into them.
//!
//! A running server reports its own state; for a database at rest the files are read, and none is changed.

use std::collections::HashMap;

use serde::Serialize;
use splay_store::{Database, WriteDownPosition};

use crate::error::Result;
use crate::journal;
use crate::refusals::{self, RefusedInput};
use crate::status::{ProducerStatus, Status, TableStatus};

/// Refusals that a report names.
const REJECTED_SHOWN: usize = 20;

/// State of a database.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// `running`: reported by the process that captures. `at_rest`: read from the files. `elsewhere`: read from the files, while another process
    /// captures, which knows more. `read_only`: reported by a server that takes no rows.
    pub state: &'static str,
    /// Capture. In a report from files, rows that are only in the journal count as rows in memory.
    pub capture: Status,
    /// All tables, by name.
    pub tables: Vec<TableReport>,
    /// The newest refusals, oldest first.
    pub rejected_latest: Vec<RefusedInput>,
    /// Damage of the journal, as far as an inspection shows it. The next start cuts a torn end off.
    pub journal_damage: Option<String>,
}

/// State of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TableReport {
    /// Name.
    pub table: String,
    /// Rows in files.
    pub stored_rows: u64,
    /// Bytes of the files.
    pub stored_bytes: u64,
    /// Dates that files have.
    pub partitions: u64,
    /// Files.
    pub segments: u64,
    /// First and last date, as `YYYY-MM-DD`.
    pub first_date: Option<String>,
    /// See `first_date`.
    pub last_date: Option<String>,
    /// Number of its last commit.
    pub epoch: u64,
    /// Why it can't be read, if it can't.
    pub error: Option<String>,
}

impl Report {
    /// The state of a database that this process captures into, or serves without.
    ///
    /// # Errors
    /// Those of the store.
    pub fn of_running(database: &Database, status: Option<Status>, rejected: &[RefusedInput]) -> Result<Report> {
        let state = if status.is_some() { "running" } else { "read_only" };
        let newest = rejected.len().saturating_sub(REJECTED_SHOWN);
        Ok(Report {
            state,
            capture: status.unwrap_or_default(),
            tables: tables(database)?.into_iter().map(|(table, _)| table).collect(),
            rejected_latest: rejected[newest..].to_vec(),
            journal_damage: None,
        })
    }

    /// The state of a database as its files have it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn of_files(database: &Database) -> Result<Report> {
        let storage = database.raw_storage();
        let is_elsewhere = journal::is_locked(storage.as_ref())?;
        let (mut all, mut captured) = (Vec::new(), HashMap::new());
        for (table, has) in tables(database)? {
            captured.insert(table.table.to_lowercase(), has);
            all.push(table);
        }
        let of = |table: &str| captured.get(&table.to_lowercase()).copied().unwrap_or_default();
        let seen = journal::look(storage.as_ref(), of)?;
        let mut of_tables: Vec<TableStatus> = all
            .iter()
            .map(|table| {
                let totals = seen.tables.iter().find(|(name, _)| name.eq_ignore_ascii_case(&table.table));
                let (last, rows) = totals.map_or((0, 0), |(_, totals)| *totals);
                let written = of(&table.table).sequence;
                TableStatus {
                    table: table.table.clone(),
                    live_rows: rows,
                    last_sequence: last.max(written),
                    written_sequence: written,
                    ..TableStatus::default()
                }
            })
            .collect();
        of_tables.retain(|table| table.last_sequence > 0);
        let (producers, producers_latest) = latest(&seen.producers);
        let capture = Status {
            tables: of_tables,
            sequence: seen.sequence.max(captured.values().map(|captured| captured.sequence).max().unwrap_or(0)),
            journal_bytes: seen.bytes,
            producers,
            producers_latest,
            journal_losses: seen.losses,
            ..Status::default()
        };
        let state = if is_elsewhere { "elsewhere" } else { "at_rest" };
        // A process that writes may be seen in the middle of a frame.
        let journal_damage = seen.damage.filter(|_| !is_elsewhere);
        // For people to read: what it lacks is no reason to say nothing.
        let rejected_latest = refusals::logged(storage.as_ref(), REJECTED_SHOWN).unwrap_or_default();
        Ok(Report { state, capture, tables: all, rejected_latest, journal_damage })
    }
}

/// Number of producers, and those heard of last.
pub(crate) fn latest(producers: &journal::Producers) -> (u64, Vec<ProducerStatus>) {
    let mut latest: Vec<(i64, &String, u64)> =
        producers.iter().map(|(name, (sequence, at))| (*at, name, *sequence)).collect();
    latest.sort_unstable_by(|one, other| other.cmp(one));
    latest.truncate(PRODUCERS_SHOWN);
    let shown = latest.into_iter().map(|(at, name, sequence)| ProducerStatus { name: name.clone(), sequence, at });
    (producers.len() as u64, shown.collect())
}

/// Producers that a status names.
const PRODUCERS_SHOWN: usize = 100;

/// The state of each table's files, and which captured rows they contain.
fn tables(database: &Database) -> Result<Vec<(TableReport, WriteDownPosition)>> {
    let mut all = Vec::new();
    for name in database.tables()? {
        all.push(match database.table(&name).and_then(|table| table.stored()) {
            Ok(stored) => {
                let dates = stored.partitions().iter().map(|partition| splay_store::date(partition.date).to_string());
                let report = TableReport {
                    stored_rows: stored.rows(),
                    stored_bytes: stored.bytes(),
                    partitions: stored.partitions().len() as u64,
                    segments: stored.partitions().iter().map(|partition| partition.segments.len() as u64).sum(),
                    first_date: dates.clone().min(),
                    last_date: dates.max(),
                    epoch: stored.epoch(),
                    error: None,
                    table: name,
                };
                (report, stored.captured())
            }
            Err(error) => (
                TableReport { table: name, error: Some(error.to_string()), ..TableReport::default() },
                WriteDownPosition::default(),
            ),
        });
    }
    Ok(all)
}
