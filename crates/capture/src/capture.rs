//! Capture of a database: opens and recovers it, takes rows, and ends in good order.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampNanosecondType;
use splay_store::storage::{LockMode, Storage};
use splay_store::{Captured, Database, LoadOptions, TableSpec};

use crate::append::{Ack, Append, Producer};
use crate::calendar::{Calendars, QUARANTINE};
use crate::clock::{Clock, SystemClock};
use crate::conform::{conform, new_columns};
use crate::error::{Error, Result};
use crate::held::Held;
use crate::journal::{self, JournalWriter, Producers};
use crate::live::LiveTable;
use crate::measure::{Meters, Unsynced};
use crate::queue::{Queue, Waiting};
use crate::recovery::Recovery;
use crate::refusals::{Refusals, Rejected};
use crate::settings::CaptureSettings;
use crate::signal::Signal;
use crate::status::{Counters, Recovered, Status, TableStatus};
use crate::subscribe::{SubscribeRequest, Subscriber, Subscribers};
use crate::tickerplant::Tickerplant;
use crate::wishes::TableWishes;
use crate::{codec, keeper, organiser, report, room};

/// How long the lock of a process that ends is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Numbers that a start leaves out: more than there are batches between two syncs. So many starts fit in a number that every format
/// keeps exactly: two million in 53 bits.
const NUMBERS_LEFT_OUT: u64 = 1 << 32;

/// Most producers.
const PRODUCERS_MAX: usize = 1 << 16;

/// One process's capture of a database. Clones share it.
#[derive(Debug, Clone)]
pub struct Capture {
    pub(crate) shared: Arc<Shared>,
}

/// What all clones have.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) settings: CaptureSettings,
    pub(crate) clock: Arc<dyn Clock>,
    /// By lower-case name.
    tables: RwLock<HashMap<String, Arc<LiveTable>>>,
    meters: Meters,
    pub(crate) calendars: Calendars,
    producers: Arc<Mutex<Producers>>,
    queue: Arc<Queue>,
    pub(crate) journal: Arc<Mutex<JournalWriter>>,
    pub(crate) counters: Arc<Counters>,
    subscribers: Arc<Subscribers>,
    pub(crate) refusals: Refusals,
    /// Held while tables are created, given columns, or written down.
    pub(crate) changing: Mutex<()>,
    /// Numbers that were not given, at the start.
    numbers_left_out: Range<u64>,
    failed: Mutex<Option<Error>>,
    pub(crate) keeper: Arc<Signal>,
    pub(crate) organiser: Arc<Signal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Until capture is closed.
    lock: Mutex<Option<Box<dyn std::fmt::Debug + Send + Sync>>>,
}

impl Capture {
    /// Opens the journal of a database, takes rows that aren't in its tables' files back to memory, and begins to take more.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process captures; [`Error::Damaged`] for a journal whose bytes aren't what was written.
    pub fn open(database: Database, settings: CaptureSettings) -> Result<(Capture, Recovered)> {
        Capture::open_with(database, settings, Arc::new(SystemClock::default()))
    }

    /// As [`Capture::open`], with a clock of the caller's.
    ///
    /// # Errors
    /// As [`Capture::open`].
    pub fn open_with(
        database: Database,
        settings: CaptureSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<(Capture, Recovered)> {
        let storage = database.raw_storage();
        storage.create_dir(journal::FOLDER)?;
        storage.sync_dir("")?;
        if !storage.list(journal::FOLDER)?.iter().any(|entry| entry.name == "lock") {
            drop(storage.create(journal::LOCK)?);
        }
        let lock = lock(storage.as_ref())?;
        let calendars = Calendars::new(&settings)?;
        let meters = Meters::new(&settings.quality, calendars.clone());
        let known = RwLock::new(HashMap::new());
        let mut recovery = Recovery::new(&database, &meters);
        let found = journal::replay(
            storage.as_ref(),
            |table, sequence, latest| {
                let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
                let captured = *known.entry(table.to_owned()).or_insert_with(|| {
                    database
                        .table(table)
                        .and_then(|table| table.stored())
                        .map(|stored| stored.captured())
                        .unwrap_or_default()
                });
                sequence > captured.sequence || latest > captured.cut
            },
            |batch| recovery.take(batch),
        )?;
        let (tables, mut recovered) = recovery.finish()?;
        tables.values().map(|live| live.spec()).for_each(|spec| calendars.of(&spec.name).compare(&spec));
        recovered.files = found.files.len() as u64;
        recovered.torn = found.torn;
        let captured = captured_tables(&database)?;
        let greatest = captured.iter().map(|(_, sequence)| *sequence).max().unwrap_or(0);
        // Numbers go on behind those of the tables even if the journal was removed.
        let kept = found.next_sequence.max(greatest.saturating_add(1));
        let next_sequence = first_number(kept);
        let writer = JournalWriter::begin(
            Arc::clone(&storage),
            found.files,
            next_sequence,
            &found.producers,
            settings.journal_segment_bytes,
        )?;
        let shared = Arc::new(Shared {
            database,
            clock,
            tables: RwLock::new(tables),
            meters,
            calendars,
            producers: Arc::new(Mutex::new(found.producers)),
            queue: Arc::default(),
            journal: Arc::new(Mutex::new(writer)),
            counters: Arc::default(),
            subscribers: Arc::default(),
            refusals: Refusals::default(),
            changing: Mutex::new(()),
            numbers_left_out: kept..next_sequence,
            failed: Mutex::new(None),
            keeper: Arc::default(),
            organiser: Arc::default(),
            threads: Mutex::default(),
            settings,
            lock: Mutex::new(Some(lock)),
        });
        shared.counters.sequence.set(next_sequence - 1);
        let capture = Capture { shared };
        // The keeper rolls those, too, of which no row came back.
        for (table, _) in captured {
            capture.live(&table)?;
        }
        capture.start(next_sequence)?;
        Ok((capture, recovered))
    }

    fn start(&self, next_sequence: u64) -> Result<()> {
        let shared = &self.shared;
        let plant = Tickerplant {
            queue: Arc::clone(&shared.queue),
            journal: Arc::clone(&shared.journal),
            counters: Arc::clone(&shared.counters),
            subscribers: Arc::clone(&shared.subscribers),
            clock: Arc::clone(&shared.clock),
            producers: Arc::clone(&shared.producers),
            producers_max: PRODUCERS_MAX,
            producer_memory: seconds(shared.settings.producer_memory_s),
            next_sequence,
            sync_interval: Duration::from_millis(shared.settings.sync_interval_ms),
            unsynced: Unsynced::default(),
            held: Held::default(),
        };
        let keeper = keeper::Keeper::new(Arc::downgrade(shared));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
                .map_err(|error| Error::Failed { reason: format!("no thread for {name}: {error}") })
        };
        let (kept, organised) = (Arc::clone(&shared.keeper), Arc::clone(&shared.organiser));
        let weak = Arc::downgrade(shared);
        let threads = vec![
            spawn("journal", Box::new(move || plant.run()))?,
            spawn("keeper", Box::new(move || keeper.run(&kept)))?,
            spawn("organiser", Box::new(move || organiser::run(&weak, &organised)))?,
        ];
        *shared.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        Ok(())
    }

    /// The database. Snapshots of it have the live rows, too.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.shared.database
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &CaptureSettings {
        &self.shared.settings
    }

    /// Takes rows and waits until they are as safe as asked for.
    ///
    /// # Errors
    /// [`Error::Full`] where sending again helps; [`Error::Rejected`] and [`Error::NoSuchTable`] where it doesn't;
    /// [`Error::Closed`] and [`Error::Failed`] if nothing is taken any more. After an error no row of the batch is there, but for
    /// `Failed`, where only the next start knows.
    pub fn append(&self, append: Append) -> Result<Ack> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.submit(append, move |result| drop(sender.send(result)))?;
        receiver.recv().unwrap_or(Err(Error::Closed))
    }

    /// Takes rows; `done` is told, by another thread, when they are as safe as asked for. Waits only while the queue is full.
    ///
    /// # Errors
    /// As [`Capture::append`]; `done` isn't called then.
    pub fn submit(&self, append: Append, done: impl FnOnce(Result<Ack>) + Send + 'static) -> Result<()> {
        let shared = &self.shared;
        shared.check()?;
        let live = self.live_for(&append)?;
        let spec = live.spec();
        if append.producer.as_ref().is_some_and(|p| p.name.is_empty() || p.name.len() > journal::PRODUCER_BYTES_MAX) {
            return Err(Error::rejected(&spec.name, "the name of a producer has 1 to 256 bytes"));
        }
        if shared.live_bytes() > shared.settings.live_bytes_max.saturating_mul(2) {
            shared.keeper.wake();
            return Err(Error::Full { reason: "the rows in memory wait to be written down".to_owned() });
        }
        let received = shared.clock.now();
        let latest = received.saturating_add(seconds(shared.settings.future_s));
        shared.check_length(&spec.name, room::bytes(&spec, &append.rows))?;
        let rows = conform(&spec, &append.rows)?;
        let (rows, ahead) = split_ahead(&spec, &rows, latest)?;
        let mut together = Vec::with_capacity(2);
        let count = rows.num_rows() as u64;
        let quarantined = ahead.as_ref().map_or(0, |ahead| ahead.num_rows() as u64);
        let class = append.ack.unwrap_or(shared.settings.default_ack);
        if let Some(ahead) = ahead {
            let live = self.quarantine(&spec)?;
            // Not without the rest, which also carries the producer's number.
            let mut ahead = self.waiting(live, ahead, received, class, None)?;
            ahead.is_joined = true;
            together.push(ahead);
        }
        let mut own = self.waiting(live, rows, received, class, append.producer)?;
        (own.counted, own.quarantined) = (count + quarantined, quarantined);
        own.done = Some(Box::new(done));
        together.push(own);
        shared.queue.push(together, shared.settings.queue_bytes_max)
    }

    fn waiting(
        &self,
        live: Arc<LiveTable>,
        rows: RecordBatch,
        received: i64,
        class: crate::AckClass,
        producer: Option<Producer>,
    ) -> Result<Waiting> {
        let spec = live.spec();
        let rows = codec::compact(&rows);
        let mut bytes = Vec::new();
        codec::encode(&rows, &mut bytes);
        self.shared.check_length(&spec.name, bytes.len())?;
        let times = times(&spec, &rows);
        let (is_joined, quarantined, counted, done) = (false, 0, 0, None);
        Ok(Waiting { live, spec, rows, bytes, times, received, producer, class, is_joined, quarantined, counted, done })
    }

    /// The table of rows, created or given columns if need be.
    fn live_for(&self, append: &Append) -> Result<Arc<LiveTable>> {
        let shared = &self.shared;
        let live = match self.live(&append.table)? {
            Some(live) => live,
            None if !shared.settings.create_tables => {
                return Err(Error::NoSuchTable { table: append.table.clone() });
            }
            None => {
                let spec = match &append.spec {
                    Some(spec) => spec.clone(),
                    None => TableWishes::default().table_for(&append.table, append.rows.schema_ref())?,
                };
                shared.check_columns(&spec.name, spec.columns.len())?;
                self.create(&shared.calendars.of(&spec.name).placed(spec))?
            }
        };
        live.refuse_damaged()?;
        let new = new_columns(&live.spec(), &append.rows)?;
        if !new.is_empty() {
            let _changing = shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
            live.refresh_spec()?;
            let (spec, new) = (live.spec(), new_columns(&live.spec(), &append.rows)?);
            if !new.is_empty() {
                shared.check_columns(&spec.name, spec.columns.len() + new.len())?;
            }
            for column in new {
                shared.settled(live.table().add_column(column))?;
            }
            live.refresh_spec()?;
        }
        Ok(live)
    }

    /// The live rows of a table, if there is such a table.
    pub(crate) fn live(&self, table: &str) -> Result<Option<Arc<LiveTable>>> {
        let name = table.to_lowercase();
        if let Some(live) = self.tables().get(&name) {
            return Ok(Some(Arc::clone(live)));
        }
        match self.shared.database.table(table) {
            Ok(table) => {
                let mut tables = self.shared.tables.write().unwrap_or_else(PoisonError::into_inner);
                if let Some(live) = tables.get(&name) {
                    return Ok(Some(Arc::clone(live)));
                }
                let live = LiveTable::new(table, &self.shared.meters)?;
                self.shared.calendars.of(&name).compare(&live.spec());
                tables.insert(name, Arc::clone(&live));
                Ok(Some(live))
            }
            Err(splay_store::Error::NoSuchTable { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn tables(&self) -> std::sync::RwLockReadGuard<'_, HashMap<String, Arc<LiveTable>>> {
        self.shared.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn create(&self, spec: &TableSpec) -> Result<Arc<LiveTable>> {
        let _changing = self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.settled(create_table(&self.shared.database, spec))?;
        self.live(&spec.name)?.ok_or(Error::Closed)
    }

    /// Where rows go whose time is too far ahead.
    fn quarantine(&self, spec: &TableSpec) -> Result<Arc<LiveTable>> {
        let name = format!("{}{QUARANTINE}", spec.name);
        let mut wanted = spec.clone();
        wanted.name.clone_from(&name);
        match self.live(&name)? {
            Some(live) if live.spec().columns == wanted.columns => Ok(live),
            Some(live) => {
                let _changing = self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
                for column in &wanted.columns {
                    if live.spec().position(&column.name).is_none() {
                        self.shared.settled(live.table().add_column(column.clone()))?;
                    }
                }
                live.refresh_spec()?;
                Ok(live)
            }
            None => self.create(&wanted),
        }
    }

    /// What the table is; `None` if there is none.
    ///
    /// # Errors
    /// Those of the store.
    pub fn spec(&self, table: &str) -> Result<Option<Arc<TableSpec>>> {
        Ok(self.live(table)?.map(|live| live.spec()))
    }

    /// Begins a subscription.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::Rejected`] for columns that there aren't; [`Error::Gone`] if it shall go on behind a batch
    /// that the journal no longer has.
    pub fn subscribe(&self, request: SubscribeRequest) -> Result<Subscriber> {
        self.shared.check()?;
        Subscriber::begin(self, &self.shared.subscribers, request)
    }

    /// Number of the newest batch that readers see.
    pub(crate) fn sequence(&self) -> u64 {
        self.shared.counters.sequence.get()
    }

    /// The batches behind a number, out of the journal, as far as it is written now.
    ///
    /// # Errors
    /// [`Error::Gone`] if the journal no longer has them all.
    pub(crate) fn journal_behind(&self, table: &str, after: u64) -> Result<journal::Cursor> {
        let files = self.journal().files();
        let left_out = &self.shared.numbers_left_out;
        let oldest = files.first().map_or(0, |file| file.first);
        let oldest = if oldest == left_out.end { left_out.start } else { oldest };
        let next = after.saturating_add(1);
        if next < oldest {
            return Err(Error::Gone { table: table.to_owned(), after, oldest });
        }
        Ok(journal::Cursor::new(self.shared.database.raw_storage(), &files, after))
    }

    fn journal(&self) -> MutexGuard<'_, JournalWriter> {
        self.shared.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether capture has failed and takes nothing more.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.shared.failed().is_some()
    }

    /// What was done, and what is held.
    #[must_use]
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let counters = &shared.counters;
        let mut tables: Vec<TableStatus> = shared.all_live().iter().map(|live| table_status(live)).collect();
        let known = shared.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let (producers, producers_latest) = report::latest(&known);
        drop(known);
        tables.sort_by(|one, other| one.table.cmp(&other.table));
        Status {
            tables,
            sequence: counters.sequence.get(),
            batches: counters.batches.get(),
            rows: counters.rows.get(),
            duplicates: counters.duplicates.get(),
            quarantined: counters.quarantined.get(),
            rejected: counters.rejected.get(),
            journal_bytes: counters.journal_bytes.get(),
            groups: counters.groups.get(),
            syncs: counters.syncs.get(),
            queue_bytes: shared.queue.bytes() as u64,
            write_downs: counters.write_downs.get(),
            write_downs_failed: counters.write_downs_failed.get(),
            subscribers: shared.subscribers.count(),
            subscriber_lags: shared.subscribers.status(),
            producers,
            producers_latest,
            failed: shared.failed().map(|error| error.to_string()),
        }
    }

    /// The number of the last batch of a producer that was taken, so that it knows where to go on; `None` if it is not known.
    /// That batch is on disk when this returns.
    ///
    /// # Errors
    /// [`Error::Failed`] if the journal can't be synced.
    pub fn last_of(&self, producer: &str) -> Result<Option<u64>> {
        let producers = self.shared.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let last = producers.get(producer).map(|(last, _)| *last);
        // A number that the next power cut takes back would make the producer pass over rows that are lost.
        let synced = if last.is_some() { self.journal().sync() } else { Ok(()) };
        drop(producers);
        if let Err(Error::Failed { reason }) = &synced {
            self.shared.fail(reason.clone());
        }
        synced.map(|()| last)
    }

    /// Notes that something that came by `way` was refused: counts it, and writes it to the log of refusals soon.
    pub fn reject(&self, way: &'static str, reason: impl Into<String>, message: &[u8]) {
        let reason = reason.into();
        tracing::debug!(way, %reason, "refused");
        self.shared.counters.rejected.add(1);
        self.shared.refusals.note(self.shared.clock.now(), way, &reason, message);
    }

    /// Notes that so many more were refused of which nothing is kept.
    pub fn reject_more(&self, way: &'static str, count: u64) {
        self.shared.counters.rejected.add(count);
        let reason = format!("{count} more were refused at once");
        self.shared.refusals.note(self.shared.clock.now(), way, &reason, b"");
    }

    /// The newest refusals, oldest first.
    #[must_use]
    pub fn rejected(&self) -> Vec<Rejected> {
        self.shared.refusals.newest()
    }

    /// Takes nothing more, syncs the journal and ends the threads. Live rows stay in the journal, and are back after the next
    /// start. Called twice it does nothing.
    ///
    /// # Errors
    /// [`Error::Failed`] if the journal had failed.
    pub fn close(&self) -> Result<()> {
        self.shared.queue.close(Error::Closed);
        self.shared.keeper.stop();
        self.shared.organiser.stop();
        let threads = std::mem::take(&mut *self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            drop(thread.join());
        }
        self.shared.subscribers.close();
        for live in self.tables().values() {
            live.table().attach(None);
        }
        for (table, _) in self.shared.database.damaged() {
            if let Ok(table) = self.shared.database.table(&table) {
                table.withhold(None);
            }
        }
        drop(self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        match self.shared.failed() {
            Some(error @ Error::Failed { .. }) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Shared {
    pub(crate) fn failed(&self) -> Option<Error> {
        let own = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        own.or_else(|| self.queue.closed().filter(|error| matches!(error, Error::Failed { .. })))
    }

    /// Takes nothing more.
    pub(crate) fn fail(&self, reason: String) -> Error {
        tracing::error!(%reason, "capture has failed");
        let error = Error::Failed { reason };
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.clone());
        self.queue.close(error.clone());
        error
    }

    /// What the store did. If nobody knows whether it is on disk, nothing more is taken: only the next start knows.
    pub(crate) fn settled<T>(&self, done: splay_store::Result<T>) -> Result<T> {
        done.map_err(|error| {
            let is_unknown = error.leaves_disk_unknown() || matches!(error, splay_store::Error::Poisoned);
            if is_unknown { self.fail(error.to_string()) } else { error.into() }
        })
    }

    /// Refuses to go on once capture has failed.
    pub(crate) fn check(&self) -> Result<()> {
        match self.failed() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Refuses rows that would give a table too many columns.
    fn check_columns(&self, table: &str, columns: usize) -> Result<()> {
        let most = self.settings.columns_max.min(splay_store::COLUMNS_MAX);
        if columns > most {
            return Err(Error::rejected(table, format!("{columns} columns are more than {most} (columns_max)")));
        }
        Ok(())
    }

    /// Refuses a batch that is too long.
    fn check_length(&self, table: &str, bytes: usize) -> Result<()> {
        let most = self.settings.batch_bytes_max;
        if bytes > most {
            return Err(Error::rejected(table, format!("a batch of {bytes} bytes is longer than {most}")));
        }
        Ok(())
    }

    /// The live rows of all tables.
    pub(crate) fn all_live(&self) -> Vec<Arc<LiveTable>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).values().map(|live| live.size().bytes).sum()
    }
}

fn table_status(live: &LiveTable) -> TableStatus {
    let (size, captured) = (live.size(), live.captured());
    let at =
        |at: &std::sync::atomic::AtomicI64| Some(at.load(std::sync::atomic::Ordering::Relaxed)).filter(|at| *at != 0);
    TableStatus {
        table: live.spec().name.clone(),
        live_rows: size.rows,
        live_bytes: size.bytes,
        last_sequence: size.last,
        written_sequence: captured.sequence,
        live_since: size.since.filter(|_| size.rows > 0),
        written_at: at(&live.written_at),
        rolled_at: at(&live.rolled_at),
        latencies: live.meter().latencies(),
        quality: live.meter().quality(),
    }
}

/// The lock of the process that captures. One that has just ended may hold it a moment longer, so it is waited for a little.
fn lock(storage: &dyn Storage) -> Result<Box<dyn std::fmt::Debug + Send + Sync>> {
    let until = Instant::now() + LOCK_WAIT;
    loop {
        if let Some(lock) = storage.try_lock(journal::LOCK, LockMode::Exclusive)? {
            return Ok(lock);
        }
        if Instant::now() >= until {
            return Err(Error::Locked { path: storage.display_path(journal::LOCK) });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A table that is there or is created now, by a commit without rows.
pub(crate) fn create_table(database: &Database, spec: &TableSpec) -> splay_store::Result<splay_store::Table> {
    match database.table(&spec.name) {
        Ok(table) => Ok(table),
        Err(splay_store::Error::NoSuchTable { .. }) => {
            database.load(spec, LoadOptions::default())?.commit()?;
            database.table(&spec.name)
        }
        Err(error) => Err(error),
    }
}

/// The number with which a start goes on, where `kept` is the first behind those that are known. Batches of which nobody was told that they
/// are on disk went to subscribers all the same; if a power cut took them, others must not have their numbers, or who resumes behind
/// them would miss these.
fn first_number(kept: u64) -> u64 {
    if kept <= 1 { kept } else { kept.checked_add(NUMBERS_LEFT_OUT).unwrap_or(kept) }
}

/// Tables with captured rows in their files, and the greatest number of each. Those that are damaged can't be read until the next
/// start, even if their files are sound again before: numbers went on without them.
fn captured_tables(database: &Database) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for name in database.tables()? {
        // What else can't be read is reported by whoever asks for it.
        let Ok(table) = database.table(&name) else { continue };
        match table.stored() {
            Ok(stored) if stored.captured() != Captured::default() => found.push((name, stored.captured().sequence)),
            Err(error) if error.is_damage() => {
                tracing::error!(table = %name, %error, "a table is damaged and can't be served; the others are");
                table.withhold(Some(error));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Earliest and latest time of rows.
pub(crate) fn times(spec: &TableSpec, rows: &RecordBatch) -> (i64, i64) {
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().values();
    let (least, greatest) = (times.iter().min(), times.iter().max());
    (least.copied().unwrap_or(i64::MAX), greatest.copied().unwrap_or(i64::MIN))
}

/// Rows up to a time, and those behind it if there are any.
fn split_ahead(spec: &TableSpec, rows: &RecordBatch, latest: i64) -> Result<(RecordBatch, Option<RecordBatch>)> {
    if times(spec, rows).1 <= latest {
        return Ok((rows.clone(), None));
    }
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
    let ahead = BooleanArray::from_unary(times, |time| time > latest);
    let near = BooleanArray::from_unary(times, |time| time <= latest);
    Ok((filter_record_batch(rows, &near)?, Some(filter_record_batch(rows, &ahead)?)))
}

/// Seconds in nanoseconds.
pub(crate) fn seconds(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)
}
