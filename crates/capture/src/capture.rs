//! Capture of a database: opens and recovers it, takes rows, and ends in good order.

mod quarantine;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampNanosecondType;
use splay_store::storage::{LockMode, Storage};
use splay_store::{Captured, ColumnSpec, Database, Followed, LoadOptions, TableSpec};

use crate::append::{Ack, AckClass, Append, Producer};
use crate::calendar::Calendars;
use crate::clock::{Clock, SystemClock};
use crate::conform::{conform, new_columns};
use crate::dedupe::{DedupeRules, Deduplicator};
use crate::disk::Disk;
use crate::error::{Error, Result, is_full};
use crate::held::Held;
use crate::journal::{self, JournalLoss, JournalWriter, Producers};
use crate::live::LiveTable;
use crate::measure::{Meters, Unsynced};
use crate::queue::{Done, Queue, Waiting};
use crate::receipt::{Reading, Receipt};
use crate::recovery::Recovery;
use crate::refusals::{Refusals, Rejected};
use crate::replica::{ReplicaState, Replicas, Role};
use crate::settings::CaptureSettings;
use crate::signal::Signal;
use crate::status::{Counters, DedupeStatus, Recovered, Status, TableStatus};
use crate::subscribe::{SubscribeRequest, Subscriber, Subscribers};
use crate::tickerplant::Tickerplant;
use crate::wishes::TableWishes;
use crate::{keeper, organiser, report, room};
use quarantine::split_ahead;

/// How long the lock of a process that ends is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Numbers that a start leaves out: more than there are batches between two syncs. So many starts fit in a number that every format
/// keeps exactly: two million in 53 bits.
const NUMBERS_LEFT_OUT: u64 = 1 << 32;

/// Longest batch whatever the settings say: a frame of the journal has to hold it, and what stands before its rows.
const BATCH_BYTES_CEILING: usize = journal::FRAME_BYTES_MAX - (1 << 20);

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
    pub(crate) receipt: Arc<Receipt>,
    /// By lower-case name.
    tables: RwLock<HashMap<String, Arc<LiveTable>>>,
    meters: Meters,
    pub(crate) calendars: Calendars,
    dedupe: Arc<DedupeRules>,
    producers: Arc<Mutex<Producers>>,
    queue: Arc<Queue>,
    /// Producers that were told to send again.
    held: Arc<Mutex<Held>>,
    pub(crate) journal: Arc<Mutex<JournalWriter>>,
    pub(crate) counters: Arc<Counters>,
    subscribers: Arc<Subscribers>,
    pub(crate) refusals: Refusals,
    pub(crate) disk: Arc<Disk>,
    /// Held while tables are created, given columns, or written down.
    pub(crate) changing: Mutex<()>,
    /// Numbers that were not given, at the start.
    numbers_left_out: Range<u64>,
    /// What the journal has lost, and the operator hasn't accepted, at the start.
    losses: Vec<JournalLoss>,
    failed: Mutex<Option<Error>>,
    pub(crate) keeper: Arc<Signal>,
    pub(crate) organiser: Arc<Signal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What gave the rows of the journal to readers before, and does again once capture is closed.
    followed: Mutex<Option<Arc<dyn Followed>>>,
    /// Followers, and what is known of copies of the database.
    pub(crate) replicas: Arc<Replicas>,
    replica: Mutex<Option<ReplicaState>>,
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
        let replica = ReplicaState::load(storage.as_ref())?;
        if let Some(state) = &replica
            && state.role == Role::Follower
        {
            return Err(Error::Following { leader: state.leader.clone().unwrap_or_default() });
        }
        let disk = Arc::new(Disk::open(Arc::clone(&storage), &settings)?);
        let calendars = Calendars::new(&settings)?;
        let dedupe = Arc::new(DedupeRules::new(&settings)?);
        dedupe.check_tables(&database)?;
        let meters = Meters::new(&settings.quality, calendars.clone());
        let known = RwLock::new(HashMap::new());
        let mut recovery = Recovery::new(&database, &meters);
        let mut found = journal::replay(
            storage.as_ref(),
            &|| journal::tables(&database),
            |table, sequence, latest| {
                let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
                let captured = *known.entry(table.to_owned()).or_insert_with(|| captured_of(&database, table));
                sequence > captured.sequence || latest > captured.cut
            },
            |batch| recovery.take(batch),
        )?;
        let (tables, mut recovered) = recovery.finish()?;
        tables.values().map(|live| live.spec()).for_each(|spec| calendars.of(&spec.name).compare(&spec));
        recovered.files = found.files.len() as u64;
        recovered.torn.clone_from(&found.torn);
        let captured = captured_tables(&database)?;
        let greatest = captured.iter().map(|(_, sequence)| *sequence).max().unwrap_or(0);
        found.tell_gone(greatest);
        recovered.losses.clone_from(&found.losses);
        found.settle(storage.as_ref())?;
        let losses = found.catalog.open_losses().cloned().collect();
        // Numbers go on behind those of the tables even if the journal was removed.
        let kept = found.next_sequence.max(greatest.saturating_add(1));
        let next_sequence = first_number(kept);
        let (producers, received) = (std::mem::take(&mut found.producers), found.received);
        let bytes_max = settings.journal_segment_bytes;
        let mut writer = JournalWriter::begin(Arc::clone(&storage), found, next_sequence, &producers, bytes_max)?;
        let replicas = Replicas::new(settings.replicas, Duration::from_millis(settings.replica_timeout_ms));
        writer.tell(Arc::clone(&replicas));
        if !writer.has_begun() {
            let reason = "the journal's next file can't be begun".to_owned();
            drop(disk.found_full(Error::Full { reason }));
        }
        let shared = Arc::new(Shared {
            database,
            receipt: Arc::new(Receipt::behind(Arc::clone(&clock), received)),
            clock,
            tables: RwLock::new(tables),
            meters,
            calendars,
            dedupe,
            producers: Arc::new(Mutex::new(producers)),
            queue: Arc::default(),
            held: Arc::default(),
            journal: Arc::new(Mutex::new(writer)),
            counters: Arc::default(),
            subscribers: Arc::default(),
            refusals: Refusals::default(),
            disk,
            changing: Mutex::new(()),
            numbers_left_out: kept..next_sequence,
            losses,
            failed: Mutex::new(None),
            keeper: Arc::default(),
            organiser: Arc::default(),
            threads: Mutex::default(),
            settings,
            followed: Mutex::default(),
            replicas,
            replica: Mutex::new(replica),
            lock: Mutex::new(Some(lock)),
        });
        shared.counters.sequence.set(next_sequence - 1);
        let capture = Capture { shared };
        // The keeper rolls those, too, of which no row came back.
        for (table, _) in captured {
            capture.live(&table)?;
        }
        capture.start(next_sequence, received.unwrap_or(i64::MIN))?;
        // Up to here readers had these rows from the journal.
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
            unsynced: Unsynced::default(),
            held: Arc::clone(&shared.held),
            disk: Arc::clone(&shared.disk),
            dedupe,
            replicas: Arc::clone(&shared.replicas),
        };
        let keeper = keeper::Keeper::new(Arc::downgrade(shared));
        shared.database.capture(Some(Arc::new(keeper::Settling(Arc::downgrade(shared)))));
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
        self.append_together(vec![append])
    }

    /// Takes rows for one or several tables, all of them or none, and waits: see [`Capture::submit_together`].
    ///
    /// # Errors
    /// As [`Capture::submit_together`].
    pub fn append_together(&self, appends: Vec<Append>) -> Result<Ack> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.submit_together(appends, move |result| drop(sender.send(result)))?;
        receiver.recv().unwrap_or(Err(Error::Closed))
    }

    /// Takes rows; `done` is told, by another thread, when they are as safe as asked for. Waits only while the queue is full.
    ///
    /// # Errors
    /// As [`Capture::append`]; `done` isn't called then.
    pub fn submit(&self, append: Append, done: impl FnOnce(Result<Ack>) + Send + 'static) -> Result<()> {
        self.submit_together(vec![append], done)
    }

    /// Takes rows for one or several tables, all of them or none, whatever happens: a start finds them all or none. `done` is told
    /// once, of the rows of all. Of the appends one may name a producer, and the last says what the acknowledgement shall mean.
    ///
    /// # Errors
    /// As [`Capture::append`], also if the rows would make more tables or columns at once than `new_tables_max` and
    /// `new_columns_max` say; `done` isn't called then.
    pub fn submit_together(
        &self,
        mut appends: Vec<Append>,
        done: impl FnOnce(Result<Ack>) + Send + 'static,
    ) -> Result<()> {
        let shared = &self.shared;
        shared.check()?;
        let Some(last) = appends.last() else { return Err(Error::rejected("", "there are no rows")) };
        let class = last.ack.unwrap_or(shared.settings.default_ack);
        let producer = appends.iter_mut().find_map(|append| append.producer.take());
        let number = producer.clone();
        let submitted = self.submit_of(appends, producer, class, Box::new(done));
        match (&submitted, &number) {
            // Or a later one of this producer finds room, and this one is taken for a repeat when it comes again.
            (Err(Error::Full { .. } | Error::Unreplicated { .. }), Some(number)) => shared.held().turn_away(number),
            (Err(Error::Rejected { .. } | Error::NoSuchTable { .. }), Some(number)) => shared.held().forget(number),
            _ => {}
        }
        submitted
    }

    fn submit_of(
        &self,
        mut appends: Vec<Append>,
        producer: Option<Producer>,
        class: AckClass,
        done: Done,
    ) -> Result<()> {
        let shared = &self.shared;
        if producer.as_ref().is_some_and(|p| p.name.is_empty() || p.name.len() > journal::PRODUCER_BYTES_MAX) {
            return Err(Error::rejected(&appends[0].table, "the name of a producer has 1 to 256 bytes"));
        }
        shared.check_room()?;
        if class == AckClass::Replica {
            shared.replicas.check()?;
        }
        // Those of a table stand behind each other, in their order.
        appends.sort_by_key(|append| append.table.to_lowercase());
        let (lives, mut new_tables) = self.lives_for(&appends)?;
        let reading = shared.receipt.read();
        // By the clock as read: one that was ahead by mistake leaves receive times ahead, which say nothing of the time of rows.
        let latest = reading.clock.saturating_add(seconds(shared.settings.future_s));
        let (mut near, mut far) = (Vec::with_capacity(appends.len()), Vec::new());
        let (mut count, mut quarantined) = (0, 0);
        for (append, live) in appends.into_iter().zip(lives) {
            let spec = live.spec();
            shared.check_length(&spec.name, room::bytes(&spec, &append.rows))?;
            let rows = conform(&spec, &append.rows)?;
            let (rows, ahead) = split_ahead(&spec, &rows, latest)?;
            count += rows.num_rows() as u64;
            if let Some(ahead) = ahead {
                quarantined += ahead.num_rows() as u64;
                let quarantine = self.quarantine(&spec, &mut new_tables)?;
                let ahead = conform(&quarantine.spec(), &ahead)?;
                far.push(self.waiting(quarantine, &ahead, reading, class)?);
            }
            near.push(self.waiting(live, &rows, reading, class)?);
        }
        if quarantined > 0 {
            tracing::warn!(rows = quarantined, "rows are too far ahead of the clock and go to quarantine");
        }
        // Those of the quarantine don't count without the rest.
        let mut together = far;
        together.append(&mut near);
        if let Some((last, others)) = together.split_last_mut() {
            others.iter_mut().for_each(|other| other.is_joined = true);
            (last.counted, last.quarantined, last.producer) = (count + quarantined, quarantined, producer);
            last.done = Some(done);
        }
        shared.queue.push(together, shared.settings.queue_bytes_max)
    }

    fn waiting(&self, live: Arc<LiveTable>, rows: &RecordBatch, reading: Reading, class: AckClass) -> Result<Waiting> {
        let mut waiting = Waiting::new(live, rows, reading, class);
        let in_memory = usize::try_from(waiting.live_bytes).unwrap_or(usize::MAX);
        self.shared.check_length(&waiting.spec.name, in_memory)?;
        waiting.digests = self.shared.dedupe.digests(&waiting.spec, &waiting.rows)?;
        Ok(waiting)
    }

    /// The tables of appends, which stand table by table: made or given columns if need be, each by one commit. Also gives how many
    /// were made.
    fn lives_for(&self, appends: &[Append]) -> Result<(Vec<Arc<LiveTable>>, usize)> {
        let shared = &self.shared;
        let mut plans = Vec::new();
        for of_table in appends.chunk_by(|one, other| one.table.to_lowercase() == other.table.to_lowercase()) {
            plans.push((of_table, self.plan(of_table)?));
        }
        let made = plans.iter().filter(|(_, plan)| matches!(plan.table, Planned::New(_))).count();
        shared.check_new_tables(&appends[0].table, made)?;
        let widened = plans.iter().filter(|(_, plan)| matches!(plan.table, Planned::Known(_)));
        shared.check_new_columns(&appends[0].table, widened.map(|(_, plan)| plan.lacked).sum())?;
        // What is refused leaves neither a table nor a column.
        if plans.iter().any(|(_, plan)| plan.lacked > 0) {
            plans.iter().try_for_each(|(of_table, plan)| self.refuse_unfit(of_table, plan))?;
        }
        let mut lives = Vec::with_capacity(appends.len());
        for (of_table, plan) in plans {
            let live = match plan.table {
                Planned::Known(live) => live,
                Planned::New(spec) => self.create(&shared.calendars.of(&spec.name).placed(spec))?,
            };
            if plan.lacked > 0 {
                self.widen(&live, of_table)?;
            }
            lives.extend(of_table.iter().map(|_| Arc::clone(&live)));
        }
        Ok((lives, made))
    }

    /// What has to be done so that a table can take these rows.
    fn plan(&self, appends: &[Append]) -> Result<TablePlan> {
        let shared = &self.shared;
        let first = &appends[0];
        if let Err(error) = shared.database.refuse_of_view(&first.table) {
            return Err(Error::rejected(&first.table, error.to_string()));
        }
        if let Some(live) = self.live(&first.table)? {
            live.follow_schema()?;
            let spec = live.spec();
            if spec.reference.is_some() {
                let reason =
                    "it is a reference table, whose rows are inserted by statements and not captured".to_owned();
                return Err(Error::rejected(&spec.name, reason));
            }
            let lacked = lacked(&spec, appends)?.len();
            if lacked > 0 {
                shared.check_columns(&spec.name, spec.columns.len() + lacked)?;
            }
            shared.dedupe.check_known(&spec)?;
            return Ok(TablePlan { table: Planned::Known(live), lacked });
        }
        if !shared.settings.create_tables {
            return Err(Error::NoSuchTable { table: first.table.clone() });
        }
        splay_store::refuse_quarantine_name("table", &first.table)
            .map_err(|error| Error::rejected(&first.table, error.to_string()))?;
        let mut spec = match &first.spec {
            Some(spec) => spec.clone(),
            None => TableWishes::default().table_for(&first.table, &first.rows)?,
        };
        let lacked = lacked(&spec, appends)?;
        spec.columns.extend(lacked);
        shared.check_columns(&spec.name, spec.columns.len())?;
        shared.dedupe.check(&spec)?;
        // Somebody else may make it meanwhile, with other columns.
        Ok(TablePlan { table: Planned::New(spec), lacked: usize::MAX })
    }

    /// Whether rows fit the table as it is going to be.
    fn refuse_unfit(&self, appends: &[Append], plan: &TablePlan) -> Result<()> {
        let spec = match &plan.table {
            Planned::Known(live) => {
                let mut spec = TableSpec::clone(&live.spec());
                let lacked = lacked(&spec, appends)?;
                spec.columns.extend(lacked);
                spec
            }
            Planned::New(spec) => spec.clone(),
        };
        appends.iter().try_for_each(|append| {
            self.shared.check_length(&spec.name, room::bytes(&spec, &append.rows))?;
            conform(&spec, &append.rows).map(drop)
        })
    }

    /// Gives a table the columns of rows that it lacks.
    fn widen(&self, live: &Arc<LiveTable>, appends: &[Append]) -> Result<()> {
        if lacked(&live.spec(), appends)?.is_empty() {
            return Ok(());
        }
        let shared = &self.shared;
        let _changing = shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        live.refresh_spec()?;
        let spec = live.spec();
        let new = lacked(&spec, appends)?;
        if !new.is_empty() {
            shared.check_columns(&spec.name, spec.columns.len() + new.len())?;
            shared.settled(live.table().add_columns(new))?;
        }
        live.refresh_spec()
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

    /// What is known of copies of the database.
    pub(crate) fn replica(&self) -> MutexGuard<'_, Option<ReplicaState>> {
        self.shared.replica.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, JournalWriter> {
        self.shared.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that rows get which bring none, in nanoseconds since the epoch: their receive time, or the clock as read where
    /// receive times are so far ahead of it that rows would go to quarantine.
    #[must_use]
    pub fn row_time(&self) -> i64 {
        let Reading { clock, received } = self.shared.receipt.read();
        let is_far = received.saturating_sub(clock) > seconds(self.shared.settings.future_s);
        if is_far { clock } else { received }
    }

    /// Whether capture has failed and takes nothing more.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.shared.failed().is_some()
    }

    /// What the journal has lost, and the operator hasn't accepted. It doesn't change while capture is open.
    #[must_use]
    pub fn journal_losses(&self) -> &[JournalLoss] {
        &self.shared.losses
    }

    /// Whether rows are refused for lack of room on the disk, or found none in the journal when they last came.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.shared.disk.is_full()
    }

    /// Why rows are refused for lack of room on the disk, if they are.
    #[must_use]
    pub fn full_reason(&self) -> Option<String> {
        self.is_full().then(|| self.shared.disk.reason())
    }

    /// What was done, and what is held.
    #[must_use]
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let counters = &shared.counters;
        let mut tables: Vec<TableStatus> = shared.all_live().iter().map(|live| shared.table_status(live)).collect();
        let known = shared.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let (producers, producers_latest) = report::latest(&known);
        drop(known);
        tables.sort_by(|one, other| one.table.cmp(&other.table));
        let sum = |of: fn(&DedupeStatus) -> u64| tables.iter().filter_map(|table| table.dedupe.as_ref()).map(of).sum();
        Status {
            duplicate_rows: sum(|dedupe| dedupe.duplicate_rows),
            uncompared_rows: sum(|dedupe| dedupe.uncompared_rows),
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
            full: self.is_full(),
            journal_losses: shared.losses.clone(),
            disk: shared.disk.status(),
            clock: shared.receipt.status(),
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

    /// Notes that a producer's batch was turned away before it came here, and comes again: later ones wait for it.
    pub fn turn_away(&self, producer: &Producer) {
        self.shared.held().turn_away(producer);
    }

    /// A producer gives up its numbers up to one that found no room: later ones wait for them no longer, and they count as repeats once a later
    /// one is stored. Gives whether any were waited for.
    #[must_use]
    pub fn give_up(&self, producer: &str, through: u64) -> bool {
        self.shared.held().settle(producer, through)
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
        if let Err(error) = self.journal().close() {
            tracing::warn!(%error, "the journal's catalog doesn't say that capture ended in good order");
        }
        self.shared.subscribers.close();
        self.shared.database.capture(None);
        if let Some(followed) = self.shared.followed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.shared.database.follow(Some(followed));
        }
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

    /// Takes nothing more, as another copy does.
    pub(crate) fn fence(&self, epoch: u64) {
        let error = Error::Fenced { epoch };
        self.queue.close(error.clone());
        self.replicas.close(&error);
        self.keeper.stop();
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
            let is_full = matches!(&error, splay_store::Error::Io { source, .. } if is_full(source));
            match (is_unknown, is_full) {
                (true, _) => self.fail(error.to_string()),
                (false, true) => self.disk.found_full(error.into()),
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

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn check_room(&self) -> Result<()> {
        self.disk.check()?;
        if self.live_bytes() > self.settings.live_bytes_max.saturating_mul(2) {
            self.keeper.wake();
            return Err(Error::Full { reason: "the rows in memory wait to be written down".to_owned() });
        }
        Ok(())
    }

    /// Refuses rows that would give a table too many columns.
    fn check_columns(&self, table: &str, columns: usize) -> Result<()> {
        let most = self.settings.columns_max.min(splay_store::COLUMNS_MAX);
        if columns > most {
            return Err(Error::rejected(table, format!("{columns} columns are more than {most} (columns_max)")));
        }
        Ok(())
    }

    /// Refuses rows that would make too many tables at once.
    fn check_new_tables(&self, table: &str, tables: usize) -> Result<()> {
        let most = self.settings.new_tables_max;
        if tables > most {
            let reason = format!("{tables} new tables at once are more than {most} (new_tables_max)");
            return Err(Error::rejected(table, reason));
        }
        Ok(())
    }

    /// Refuses rows that would add too many columns at once.
    fn check_new_columns(&self, table: &str, columns: usize) -> Result<()> {
        let most = self.settings.new_columns_max;
        if columns > most {
            let reason = format!("{columns} new columns at once are more than {most} (new_columns_max)");
            return Err(Error::rejected(table, reason));
        }
        Ok(())
    }

    /// Refuses a batch that is too long.
    fn check_length(&self, table: &str, bytes: usize) -> Result<()> {
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

    fn table_status(&self, live: &LiveTable) -> TableStatus {
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

/// The same of a process that follows, for a database that may have no journal yet.
pub(crate) fn take_lock(storage: &dyn Storage) -> Result<Box<dyn std::fmt::Debug + Send + Sync>> {
    storage.create_dir(journal::FOLDER)?;
    if !storage.list(journal::FOLDER)?.iter().any(|entry| entry.name == "lock") {
        drop(storage.create(journal::LOCK)?);
    }
    lock(storage)
}

/// Columns of rows that a table lacks, each once.
fn lacked(spec: &TableSpec, appends: &[Append]) -> Result<Vec<ColumnSpec>> {
    let mut names = HashSet::new();
    let mut lacked = Vec::new();
    for append in appends {
        let new = new_columns(spec, &append.rows)?;
        lacked.extend(new.into_iter().filter(|column| names.insert(column.name.to_ascii_lowercase())));
    }
    Ok(lacked)
}

/// What a table needs before it takes rows.
struct TablePlan {
    table: Planned,
    /// Columns that it lacks.
    lacked: usize,
}

/// A table that is there, or one to be made.
enum Planned {
    Known(Arc<LiveTable>),
    New(TableSpec),
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

/// Which rows that were captured under a name are in files: those of the table that has it, else of tables that had it. Nothing of one that
/// is damaged.
pub(crate) fn captured_of(database: &Database, name: &str) -> Captured {
    match database.table(name).and_then(|table| table.stored()) {
        Ok(stored) => stored.captured(),
        Err(splay_store::Error::NoSuchTable { .. }) => database.former(name).ok().flatten().unwrap_or_default(),
        Err(_) => Captured::default(),
    }
}

/// A table that is there or is created now, by a commit without rows.
pub(crate) fn create_table(database: &Database, spec: &TableSpec) -> splay_store::Result<splay_store::Table> {
    match database.table(&spec.name) {
        Ok(table) => Ok(table),
        Err(splay_store::Error::NoSuchTable { .. }) => {
            database.load_as_capture(spec, LoadOptions::default())?.commit()?;
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

/// Seconds in nanoseconds.
pub(crate) fn seconds(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)
}
