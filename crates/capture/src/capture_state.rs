//! The state that all clones of a capture share, and the limits that it enforces.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use splay_store::{Database, FollowedRows};

use crate::calendar::TableCalendars;
use crate::clock::Clock;
use crate::dedupe_rules::DedupeRules;
use crate::disk::Disk;
use crate::error::{Error, Result, is_full};
use crate::journal::{self, JournalLoss, JournalWriter, Producers};
use crate::live::LiveTable;
use crate::measure::Meters;
use crate::queue::BatchQueue;
use crate::receipt::Receipt;
use crate::refusals::NewestRefusals;
use crate::replica::{ReplicaState, Replicas};
use crate::retransmit_guard::RetransmitGuard;
use crate::settings::CaptureSettings;
use crate::signal::Signal;
use crate::status::{Counters, TableStatus};
use crate::subscribers::Subscribers;

/// Upper bound on the setting for the longest batch: a frame of the journal has to hold the rows and the fields before them.
const BATCH_BYTES_CEILING: usize = journal::FRAME_BYTES_MAX - (1 << 20);

/// The state that all clones share.
#[derive(Debug)]
pub(crate) struct CaptureState {
    pub(crate) database: Database,
    pub(crate) settings: CaptureSettings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) receipt: Arc<Receipt>,
    /// By lower-case name.
    pub(crate) tables: RwLock<HashMap<String, Arc<LiveTable>>>,
    pub(crate) meters: Meters,
    pub(crate) calendars: TableCalendars,
    pub(crate) dedupe: Arc<DedupeRules>,
    pub(crate) producers: Arc<Mutex<Producers>>,
    pub(crate) queue: Arc<BatchQueue>,
    /// Producers that were asked to send messages again.
    pub(crate) retransmit_guard: Arc<Mutex<RetransmitGuard>>,
    pub(crate) journal: Arc<Mutex<JournalWriter>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) refusals: NewestRefusals,
    pub(crate) disk: Arc<Disk>,
    /// Held while tables are created, given columns, or written down.
    pub(crate) table_changes: Mutex<()>,
    /// Senders share it from their look at a table until its rows are in the queue. Held alone, before `table_changes`, while a table loses its name.
    pub(crate) table_names: RwLock<()>,
    /// Numbers that were not given, at the start.
    pub(crate) numbers_left_out: Range<u64>,
    /// Losses of the journal that the operator hadn't accepted at the start.
    pub(crate) losses: Vec<JournalLoss>,
    pub(crate) failed: Mutex<Option<Error>>,
    pub(crate) maintenance: Arc<Signal>,
    pub(crate) layer_compaction: Arc<Signal>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// The source of journal rows that readers had before capture was opened. It is attached again when capture is closed.
    pub(crate) followed: Mutex<Option<Arc<dyn FollowedRows>>>,
    /// Followers, and what is known of copies of the database.
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) replica: Mutex<Option<ReplicaState>>,
    /// Until capture is closed.
    pub(crate) lock: Mutex<Option<Box<dyn std::fmt::Debug + Send + Sync>>>,
}

impl CaptureState {
    pub(crate) fn failed(&self) -> Option<Error> {
        let own = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        own.or_else(|| self.queue.closed().filter(|error| matches!(error, Error::Failed { .. })))
    }

    /// Takes nothing more, as another copy does.
    pub(crate) fn fence(&self, epoch: u64) {
        let error = Error::Fenced { epoch };
        self.queue.close(error.clone());
        self.replicas.close(&error);
        self.maintenance.stop();
    }

    /// Takes nothing more.
    pub(crate) fn fail(&self, reason: String) -> Error {
        tracing::error!(%reason, "capture has failed");
        let error = Error::Failed { reason };
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.clone());
        self.queue.close(error.clone());
        error
    }

    /// Passes on a result of the store. If it is unknown whether a change reached the disk, nothing more is taken: only the next start can tell.
    pub(crate) fn settled<T>(&self, done: splay_store::Result<T>) -> Result<T> {
        done.map_err(|error| {
            let is_unknown = leaves_unknown(&error);
            let is_full = matches!(&error, splay_store::Error::Io { source, .. } if is_full(source));
            match (is_unknown, is_full) {
                (true, _) => self.fail(error.to_string()),
                (false, true) => self.disk.disk_full_error(error.into()),
                (false, false) => error.into(),
            }
        })
    }

    /// Makes what was written to the journal durable.
    pub(crate) fn sync_journal(&self) -> Result<()> {
        let synced = self.journal.lock().unwrap_or_else(PoisonError::into_inner).sync();
        synced.map_err(|error| match error {
            Error::Failed { reason } => self.fail(reason),
            other => other,
        })
    }

    pub(crate) fn retransmit_guard(&self) -> MutexGuard<'_, RetransmitGuard> {
        self.retransmit_guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to go on once capture has failed.
    pub(crate) fn check(&self) -> Result<()> {
        let fenced = || self.queue.closed().filter(|error| matches!(error, Error::Fenced { .. }));
        match self.failed().or_else(fenced) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Refuses rows while there is no room for them, on the disk or in memory.
    pub(crate) fn check_room(&self) -> Result<()> {
        self.disk.check()?;
        if self.live_bytes() > self.settings.live_bytes_max.saturating_mul(2) {
            self.maintenance.wake();
            return Err(Error::Full { reason: "the rows in memory wait to be written down".to_owned() });
        }
        Ok(())
    }

    /// Refuses rows that would give a table too many columns.
    pub(crate) fn check_columns(&self, table: &str, columns: usize) -> Result<()> {
        let most = self.settings.columns_max.min(splay_store::COLUMNS_MAX);
        if columns > most {
            return Err(Error::rejected(table, format!("{columns} columns are more than {most} (columns_max)")));
        }
        Ok(())
    }

    /// Refuses rows that would make too many tables at once.
    pub(crate) fn check_new_tables(&self, table: &str, tables: usize) -> Result<()> {
        let most = self.settings.new_tables_max;
        if tables > most {
            let reason = format!("{tables} new tables at once are more than {most} (new_tables_max)");
            return Err(Error::rejected(table, reason));
        }
        Ok(())
    }

    /// Refuses rows that would add too many columns at once.
    pub(crate) fn check_new_columns(&self, table: &str, columns: usize) -> Result<()> {
        let most = self.settings.new_columns_max;
        if columns > most {
            let reason = format!("{columns} new columns at once are more than {most} (new_columns_max)");
            return Err(Error::rejected(table, reason));
        }
        Ok(())
    }

    /// Refuses a batch that is too long.
    pub(crate) fn check_length(&self, table: &str, bytes: usize) -> Result<()> {
        let most = self.settings.batch_bytes_max.min(BATCH_BYTES_CEILING);
        if bytes > most {
            return Err(Error::rejected(table, format!("a batch of {bytes} bytes is longer than {most}")));
        }
        Ok(())
    }

    /// The live rows of all tables.
    pub(crate) fn all_live(&self) -> Vec<Arc<LiveTable>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn table_status(&self, live: &LiveTable) -> TableStatus {
        let (size, captured) = (live.size(), live.captured());
        let at = |at: &std::sync::atomic::AtomicI64| {
            Some(at.load(std::sync::atomic::Ordering::Relaxed)).filter(|at| *at != 0)
        };
        let table = live.spec().name.clone();
        TableStatus {
            live_rows: size.rows,
            live_bytes: size.bytes,
            last_sequence: size.last,
            written_sequence: captured.sequence,
            live_since: size.since.filter(|_| size.rows > 0),
            written_at: at(&live.written_at),
            rolled_at: at(&live.rolled_at),
            latencies: live.meter().latencies(),
            quality: live.meter().quality(),
            dedupe: self.dedupe.of(&table).map(|rule| rule.status()),
            table,
        }
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).values().map(|live| live.size().bytes).sum()
    }
}

/// Whether a failure of the store leaves it unknown what is on disk.
pub(crate) fn leaves_unknown(error: &splay_store::Error) -> bool {
    error.leaves_disk_unknown() || matches!(error, splay_store::Error::Poisoned)
}
