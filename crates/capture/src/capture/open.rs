//! Opens the capture of a database: takes the lock, recovers the journal, starts the threads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use splay_store::{Database, WriteDownPosition};

use super::Capture;
use crate::calendar::TableCalendars;
use crate::capture_state::CaptureState;
use crate::captured_rows::CapturedTables;
use crate::clock::{Clock, SystemClock, seconds};
use crate::dedupe::Deduplicator;
use crate::dedupe_rules::DedupeRules;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::journal::{self, JournalWriter};
use crate::layer_compaction;
use crate::maintenance::Maintenance;
use crate::measure::{Meters, UnsyncedBatches};
use crate::receipt::Receipt;
use crate::recovery::Recovery;
use crate::refusals::NewestRefusals;
use crate::replica::{ReplicaState, Replicas, Role};
use crate::settings::CaptureSettings;
use crate::status::RecoveryStatus;
use crate::stored_tables::captured_of;
use crate::tickerplant::Tickerplant;

/// Numbers that a start leaves out: more than there are batches between two syncs. So many starts fit in a number that every format
/// keeps exactly: two million in 53 bits.
const NUMBERS_LEFT_OUT: u64 = 1 << 32;

/// Most producers.
const PRODUCERS_MAX: usize = 1 << 16;

impl Capture {
    /// Opens the journal of a database, takes rows that aren't in its tables' files back to memory, and begins to take more.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process captures; [`Error::Damaged`] for a journal whose bytes aren't what was written.
    pub fn open(database: Database, settings: CaptureSettings) -> Result<(Capture, RecoveryStatus)> {
        Capture::open_with(database, settings, Arc::new(SystemClock::default()))
    }

    /// Like [`Capture::open`], with a clock of the caller's.
    ///
    /// # Errors
    /// As [`Capture::open`].
    pub fn open_with(
        database: Database,
        settings: CaptureSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<(Capture, RecoveryStatus)> {
        let storage = database.raw_storage();
        storage.create_dir(journal::FOLDER)?;
        storage.sync_dir("")?;
        let lock = journal::lock(storage.as_ref())?;
        let replica = ReplicaState::load(storage.as_ref())?;
        if let Some(state) = &replica
            && state.role == Role::Follower
        {
            return Err(Error::Following { leader: state.leader.clone().unwrap_or_default() });
        }
        let disk = Arc::new(Disk::open(Arc::clone(&storage), &settings)?);
        let calendars = TableCalendars::new(&settings)?;
        let dedupe = Arc::new(DedupeRules::new(&settings)?);
        dedupe.check_tables(&database)?;
        let meters = Meters::new(&settings.quality, calendars.clone());
        let write_down_positions = RwLock::new(HashMap::new());
        let mut recovery = Recovery::new(&database, &meters);
        let mut journal_content = journal::replay(
            storage.as_ref(),
            &|| journal::tables(&database),
            |table, sequence, latest| {
                let mut write_down_positions = write_down_positions.write().unwrap_or_else(PoisonError::into_inner);
                let captured =
                    *write_down_positions.entry(table.to_owned()).or_insert_with(|| captured_of(&database, table));
                sequence > captured.sequence || latest > captured.cut
            },
            |batch| recovery.take(batch),
        )?;
        let (tables, mut recovered) = recovery.finish()?;
        tables.values().map(|live| live.spec()).for_each(|spec| calendars.of(&spec.name).compare(&spec));
        recovered.files = journal_content.files.len() as u64;
        recovered.torn.clone_from(&journal_content.torn);
        let captured = captured_tables(&database)?;
        let greatest = captured.iter().map(|(_, sequence)| *sequence).max().unwrap_or(0);
        journal_content.tell_missing_journal(greatest);
        recovered.losses.clone_from(&journal_content.losses);
        journal_content.settle(storage.as_ref())?;
        let losses = journal_content.catalog.open_losses().cloned().collect();
        // Numbers go on behind those of the tables even if the journal was removed.
        let first_unused = journal_content.next_sequence.max(greatest.saturating_add(1));
        let next_sequence = first_number(first_unused);
        let (producers, received) = (std::mem::take(&mut journal_content.producers), journal_content.received);
        let bytes_max = settings.journal_segment_bytes;
        let mut writer =
            JournalWriter::begin(Arc::clone(&storage), journal_content, next_sequence, &producers, bytes_max)?;
        let replicas = Replicas::new(settings.replicas, Duration::from_millis(settings.replica_timeout_ms));
        writer.tell(Arc::<Replicas>::clone(&replicas));
        if !writer.has_begun() {
            let reason = "the journal's next file can't be begun".to_owned();
            drop(disk.disk_full_error(Error::Full { reason }));
        }
        let shared = Arc::new(CaptureState {
            database,
            receipt: Arc::new(Receipt::behind(Arc::clone(&clock), received)),
            clock,
            tables: RwLock::new(tables),
            meters,
            calendars,
            dedupe,
            producers: Arc::new(Mutex::new(producers)),
            queue: Arc::default(),
            retransmit_guard: Arc::default(),
            journal: Arc::new(Mutex::new(writer)),
            counters: Arc::default(),
            subscribers: Arc::default(),
            refusals: NewestRefusals::default(),
            disk,
            table_changes: Mutex::new(()),
            table_names: RwLock::new(()),
            numbers_left_out: first_unused..next_sequence,
            losses,
            failed: Mutex::new(None),
            maintenance: Arc::default(),
            layer_compaction: Arc::default(),
            threads: Mutex::default(),
            settings,
            followed: Mutex::default(),
            replicas,
            replica: Mutex::new(replica),
            lock: Mutex::new(Some(lock)),
        });
        shared.counters.sequence.set(next_sequence - 1);
        let capture = Capture { shared };
        // The maintenance thread rolls those, too, of which no row came back.
        for (table, _) in captured {
            capture.live(&table)?;
        }
        capture.start(next_sequence, received.unwrap_or(i64::MIN))?;
        // Until here readers of this process followed the journal for these rows.
        let followed = capture.shared.database.follow(None);
        *capture.shared.followed.lock().unwrap_or_else(PoisonError::into_inner) = followed;
        if let Some(epoch) = capture.fenced() {
            tracing::error!(epoch, "another copy of this database was promoted: no rows are taken here");
            capture.shared.fence(epoch);
        }
        Ok((capture, recovered))
    }

    fn start(&self, next_sequence: u64, received: i64) -> Result<()> {
        let shared = &self.shared;
        let mut dedupe = Deduplicator::new(&shared.dedupe);
        dedupe.prepare(|table| self.live(table).ok().flatten(), shared.clock.now());
        let plant = Tickerplant {
            queue: Arc::clone(&shared.queue),
            journal: Arc::clone(&shared.journal),
            counters: Arc::clone(&shared.counters),
            subscribers: Arc::clone(&shared.subscribers),
            receipt: Arc::clone(&shared.receipt),
            received,
            producers: Arc::clone(&shared.producers),
            producers_max: PRODUCERS_MAX,
            producer_memory: seconds(shared.settings.producer_memory_s),
            next_sequence,
            sync_interval: Duration::from_millis(shared.settings.sync_interval_ms),
            unsynced: UnsyncedBatches::default(),
            retransmit_guard: Arc::clone(&shared.retransmit_guard),
            disk: Arc::clone(&shared.disk),
            dedupe,
            replicas: Arc::clone(&shared.replicas),
        };
        let maintenance = Maintenance::new(Arc::downgrade(shared));
        shared.database.capture(Some(Arc::new(CapturedTables(Arc::downgrade(shared)))));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
                .map_err(|error| Error::Failed { reason: format!("no thread for {name}: {error}") })
        };
        let (maintenance_signal, compaction_signal) =
            (Arc::clone(&shared.maintenance), Arc::clone(&shared.layer_compaction));
        let weak = Arc::downgrade(shared);
        let threads = vec![
            spawn("journal", Box::new(move || plant.run()))?,
            spawn("maintenance", Box::new(move || maintenance.run(&maintenance_signal)))?,
            spawn("compaction", Box::new(move || layer_compaction::run(&weak, &compaction_signal)))?,
        ];
        *shared.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        Ok(())
    }
}

/// The number of the first batch after a start. `first_unused` is the first number behind those in the journal and the
/// tables.
///
/// A gap is left, because subscribers get batches before these are on disk. If a power cut took such a batch, its
/// number must not be given to another batch: a subscriber that resumes after this number would miss the new batch.
fn first_number(first_unused: u64) -> u64 {
    if first_unused <= 1 { first_unused } else { first_unused.checked_add(NUMBERS_LEFT_OUT).unwrap_or(first_unused) }
}

/// Tables with captured rows in their files, and the greatest batch number of each. A damaged table can't be read until
/// the next start, even if its files are repaired before: batches were numbered without regard to it.
fn captured_tables(database: &Database) -> Result<Vec<(String, u64)>> {
    let mut tables = Vec::new();
    for name in database.tables()? {
        // A table that can't be read for another reason is skipped: its reader gets the error.
        let Ok(table) = database.table(&name) else { continue };
        match table.stored() {
            Ok(stored) if stored.captured() != WriteDownPosition::default() => {
                tables.push((name, stored.captured().sequence))
            }
            Err(error) if error.is_damage() => {
                tracing::error!(table = %name, %error, "a table is damaged and can't be served; the others are");
                table.withhold(Some(error));
            }
            _ => {}
        }
    }
    Ok(tables)
}
