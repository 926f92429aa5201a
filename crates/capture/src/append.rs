//! Batches that senders append, and their acknowledgements.

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};
use splay_store::TableSpec;

/// How durable rows are when they are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckClass {
    /// Accepted. Lost if the process ends before they are written, which is a moment later.
    Memory,
    /// Written to the journal and visible. They survive the process, not a power cut within `sync_interval_ms`.
    Process,
    /// The journal is synced to disk.
    #[default]
    Disk,
    /// As `disk`, and on the disks of [`CaptureSettings::replicas`](crate::CaptureSettings) followers. Refused while
    /// fewer are connected.
    Replica,
}

impl std::fmt::Display for AckClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AckClass::Memory => "memory",
            AckClass::Process => "process",
            AckClass::Disk => "disk",
            AckClass::Replica => "replica",
        })
    }
}

impl std::str::FromStr for AckClass {
    type Err = String;

    fn from_str(text: &str) -> Result<AckClass, String> {
        match text {
            "memory" => Ok(AckClass::Memory),
            "process" => Ok(AckClass::Process),
            "disk" => Ok(AckClass::Disk),
            "replica" => Ok(AckClass::Replica),
            _ => Err(format!("{text:?} is no class of acknowledgement; there are memory, process, disk, replica")),
        }
    }
}

/// The sender of rows, and the number of its message. A message whose number isn't greater than the sender's last one is a repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// Name, at most 256 bytes.
    pub name: String,
    /// Number, rising with each batch of that name.
    pub sequence: u64,
    /// The number of the batch before, 0 if there was none: where the last of that name is another one, the batch is refused. So a batch
    /// that an earlier run of the sender left on its way can't come between those of the next run, which cuts its batches elsewhere (ADR 74).
    pub previous: Option<u64>,
}

impl Producer {
    /// A sender's batch, whatever came before it.
    pub fn new(name: impl Into<String>, sequence: u64) -> Producer {
        Producer { name: name.into(), sequence, previous: None }
    }

    /// Whether it doesn't follow on the last batch of that name that was taken.
    pub(crate) fn is_out_of_turn(&self, last: Option<u64>) -> bool {
        self.previous.is_some_and(|previous| previous != last.unwrap_or(0))
    }
}

/// Rows for a table.
#[derive(Debug, Clone)]
pub struct Append {
    /// Name of the table, matched without regard to case.
    pub table: String,
    /// Columns in any order, matched by name. Those that the table has and these lack are null; those that it lacks are added
    /// to it. Values are cast where nothing is lost.
    pub rows: RecordBatch,
    /// How to create the table if there is none. `None`: its time is the first timestamp column, its symbol the first
    /// dictionary column, else a column of texts with a usual name (`sym`, `symbol` and others).
    pub spec: Option<TableSpec>,
    /// The sender, if it numbers its messages.
    pub producer: Option<Producer>,
    /// The class of acknowledgement that is wanted; `None` for that of the settings.
    pub ack: Option<AckClass>,
    /// Whether the rows are refused if there is no such table, as those of a statement are, whatever the settings say.
    pub must_exist: bool,
}

impl Append {
    /// Rows without a producer.
    pub fn new(table: impl Into<String>, rows: RecordBatch) -> Append {
        Append { table: table.into(), rows, spec: None, producer: None, ack: None, must_exist: false }
    }
}

/// The acknowledgement of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ack {
    /// Number of the batch in the journal; that of the last batch for a repeat.
    pub sequence: u64,
    /// How durable the rows are.
    pub class: AckClass,
    /// Rows taken, those in quarantine included and duplicates left out; of a repeat, rows that came again.
    pub rows: u64,
    /// Whether it was a repeat: its rows had been taken before, and weren't now.
    pub duplicate: bool,
    /// Rows whose time is too far ahead of the clock. They are in the table `<table>_quarantine`.
    pub quarantined: u64,
    /// Rows that were left out as duplicates of others, which are as safe as the class says. See [`DedupeSettings`](crate::DedupeSettings).
    pub duplicate_rows: u64,
}
