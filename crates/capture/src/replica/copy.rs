//! A copy of a database, and the steps that maintain it. Each step can be interrupted anywhere and repeated.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use splay_store::storage::Storage;
use splay_store::{Database, FollowedRows, ReplicaWriter, Table, TableHead, TableSnapshot};

use super::exchange::{PART_BYTES, finish_exchange, next_bytes_max};
use super::join::other_history;
use super::journal::FollowedJournal;
use super::{FollowerIdentity, JournalPart, Leader, LeaderState, PartKind, Position, ReplicaState};
use crate::error::{Error, Result};
use crate::follow::{FollowSettings, follow};
use crate::journal::take_lock;
use crate::journal::{self, FOLDER};
use crate::stored_tables::captured_of;

/// How often a request is sent once more while files are fetched: for about a second.
const REQUESTS_MAX: usize = 9;

/// A database that follows another one. Its process holds the locks of capture and of writers.
#[derive(Debug)]
pub struct Replica {
    pub(super) database: Database,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) leader: Arc<dyn Leader>,
    pub(super) writer: ReplicaWriter,
    /// Held for writing while journal and files are exchanged.
    pub(super) gate: Arc<RwLock<()>>,
    journal: Mutex<FollowedJournal>,
    state: Mutex<ReplicaState>,
    installed: Mutex<HashMap<String, TableHead>>,
    /// The last batch that the journal has, without its lock.
    sequence: AtomicU64,
    fetched: AtomicU64,
    seen: Mutex<LeaderPosition>,
    stopped: AtomicBool,
    /// Whether the leader has been asked whether this is a copy of its database.
    joined: AtomicBool,
    /// Whether another thread adds to the journal.
    runs: AtomicBool,
    lock: Mutex<Option<Box<dyn std::fmt::Debug + Send + Sync>>>,
}

/// The position of the leader when it last answered, and that of this copy.
#[derive(Debug, Clone, Default)]
pub(super) struct LeaderPosition {
    /// When this copy last had all that the leader had.
    pub(super) current: Option<Instant>,
    /// The same of tables, views, users and roles.
    pub(super) tables_current: Option<Instant>,
    /// Where the leader's journal ended, and its last batch.
    pub(super) end: Position,
    pub(super) sequence: u64,
    pub(super) oldest: u64,
    /// What this copy has.
    pub(super) position: Position,
    bytes_max: usize,
}

impl LeaderPosition {
    /// Whether this copy had all that the leader had when it was last asked.
    fn has_all(&self) -> bool {
        self.current.is_some() && self.position == self.end
    }
}

/// What a step along the journal did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyStep {
    /// Nothing came.
    Idle,
    /// Bytes came; whether they name tables or columns that were not there before.
    Took(bool),
    /// The leader has removed what comes next.
    Gone,
}

/// Statements wait while journal and files are exchanged.
#[derive(Debug)]
struct GatedRows {
    gate: Arc<RwLock<()>>,
    inner: Arc<dyn FollowedRows>,
}

impl FollowedRows for GatedRows {
    fn over(
        &self,
        table: &Table,
        stored: &dyn Fn() -> splay_store::Result<TableSnapshot>,
    ) -> splay_store::Result<TableSnapshot> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.inner.over(table, stored)
    }
}

impl Replica {
    /// Takes up a database as a copy, or one that is to become one. From now on its snapshots have the rows of its journal. `url` is what the leader is
    /// called in what people read. The leader isn't asked yet.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process captures into the database or follows with it; [`Error::Full`] while one writes; those of reading.
    pub fn begin(database: Database, leader: Arc<dyn Leader>, url: &str, settings: FollowSettings) -> Result<Replica> {
        let storage = database.raw_storage();
        storage.create_dir(FOLDER)?;
        storage.sync_dir("")?;
        let lock = take_lock(storage.as_ref())?;
        let writer = ReplicaWriter::begin(&database)?;
        let mut state = ReplicaState::load(storage.as_ref())?.unwrap_or_default();
        finish_exchange(&database, &mut state)?;
        state.leader = Some(url.to_owned());
        let journal = FollowedJournal::open(&storage, FOLDER)?;
        let gate = Arc::new(RwLock::new(()));
        follow(&database, settings);
        if let Some(inner) = database.follow(None) {
            database.follow(Some(Arc::new(GatedRows { gate: Arc::clone(&gate), inner })));
        }
        let replica = Replica {
            database,
            storage,
            leader,
            writer,
            gate,
            sequence: AtomicU64::new(journal.last().0),
            seen: Mutex::new(LeaderPosition {
                position: journal.position().unwrap_or_default(),
                bytes_max: PART_BYTES,
                ..LeaderPosition::default()
            }),
            journal: Mutex::new(journal),
            state: Mutex::new(state),
            installed: Mutex::default(),
            fetched: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            joined: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            lock: Mutex::new(Some(lock)),
        };
        Ok(replica)
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The follower's state: which database and epoch it follows, and its role.
    #[must_use]
    pub fn knows(&self) -> ReplicaState {
        self.state().clone()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ReplicaState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, FollowedJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn installed(&self) -> MutexGuard<'_, HashMap<String, TableHead>> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, LeaderPosition> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_seen(&self) -> LeaderPosition {
        self.seen().clone()
    }

    /// Changes what the database knows of itself, durably.
    pub(super) fn change_state(&self, change: impl FnOnce(&mut ReplicaState)) -> Result<()> {
        let mut state = self.state();
        let mut next = state.clone();
        change(&mut next);
        next.store(self.storage.as_ref())?;
        *state = next;
        Ok(())
    }

    pub(super) fn asker(&self) -> FollowerIdentity {
        let state = self.state();
        let follower = if state.is_whole { state.follower.clone() } else { String::new() };
        FollowerIdentity { follower, database: state.database.clone(), epoch: state.epoch, end: None }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    pub(super) fn count_fetched(&self, bytes: usize) {
        self.fetched.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Steps that are under way end soon, with an error. What asks the leader once this has stopped isn't cancelled when it stops again.
    pub fn stop(&self) {
        if !self.stopped.swap(true, Ordering::AcqRel) {
            self.leader.cancel();
        }
    }

    /// Lets another part of this process capture and write. No step is made after it.
    pub fn release(&self) {
        self.stop();
        self.writer.release();
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn set_runs(&self, runs: bool) {
        self.runs.store(runs, Ordering::Release);
    }

    pub(super) fn runs(&self) -> bool {
        self.runs.load(Ordering::Acquire)
    }

    pub(super) fn set_joined(&self, joined: bool) {
        self.joined.store(joined, Ordering::Release);
    }

    pub(super) fn is_joined(&self) -> bool {
        self.joined.load(Ordering::Acquire)
    }

    pub(super) fn note_position(&self, journal: &FollowedJournal) {
        self.sequence.store(journal.last().0, Ordering::Release);
        self.seen().position = journal.position().unwrap_or_default();
    }

    /// Nanoseconds since this copy last had all that the leader had; `None` if it never had since the start.
    #[must_use]
    pub fn lag(&self) -> Option<Duration> {
        self.seen().current.map(|current| current.elapsed())
    }

    /// Asks for what comes next of the journal, and keeps it.
    pub(super) fn follow_journal(&self) -> Result<CopyStep> {
        // The lock isn't held while the leader answers.
        let position = self.journal().position().unwrap_or_default();
        let (sent, bytes_max) = (Instant::now(), self.seen().bytes_max);
        let part = self.leader.journal(&self.asker(), position, bytes_max)?;
        if part.epoch != self.state().epoch {
            self.set_joined(false);
            return Err(Error::Leader { reason: format!("it is in epoch {} now", part.epoch) });
        }
        let mut journal = self.journal();
        if journal.position().unwrap_or_default() != position || self.is_stopped() {
            return Ok(CopyStep::Idle);
        }
        let step = self.take_part(&mut journal, &part, bytes_max).inspect_err(|error| {
            if matches!(error, Error::OtherLeader { .. } | Error::Damaged { .. }) {
                // Nothing is confirmed until the leader has said that what is here is its own.
                self.set_joined(false);
            }
        })?;
        self.note_position(&journal);
        let mut seen = self.seen();
        (seen.end, seen.sequence, seen.oldest) = (part.end, part.sequence, part.oldest);
        if seen.position == part.end {
            // It was all when the leader answered, which was no earlier.
            seen.current = Some(sent + Duration::from_nanos(part.waited_ns).min(sent.elapsed()));
        }
        Ok(step)
    }

    fn take_part(&self, journal: &mut FollowedJournal, part: &JournalPart, bytes_max: usize) -> Result<CopyStep> {
        Ok(match part.kind {
            PartKind::Bytes if part.bytes.is_empty() => CopyStep::Idle,
            PartKind::Bytes => {
                let appended = journal.append(&part.bytes)?;
                self.seen().bytes_max = next_bytes_max(bytes_max, part.bytes.len(), appended.bytes);
                CopyStep::Took(appended.has_layouts)
            }
            PartKind::Next(number) => {
                journal.next(number)?;
                CopyStep::Took(false)
            }
            PartKind::Gone(_) => CopyStep::Gone,
            PartKind::Ahead => return Err(other_history(journal.position().unwrap_or_default())),
        })
    }

    /// Brings tables to the leader's commits, and removes journal files that are no longer needed. Returns whether all
    /// commits are installed.
    pub(super) fn follow_tables(&self) -> Result<bool> {
        let started = Instant::now();
        let leader = self.ask(|leader| leader.state(&self.asker()))?;
        self.check_leader(&leader)?;
        let are_there = self.copy_tables(&leader)?;
        if are_there {
            self.seen().tables_current = Some(started);
        }
        let mut journal = self.journal();
        journal.list(&leader.catalog);
        journal.release(leader.oldest, |table, sequence, latest| is_stored(&self.database, table, sequence, latest))?;
        Ok(are_there)
    }

    /// One round of all steps, on this thread: what the threads of a [`Follower`](super::Follower) do. Gives whether everything that the leader had
    /// is here.
    ///
    /// # Errors
    /// Those of the leader, and of the writes.
    pub fn step(&self) -> Result<bool> {
        if !self.is_joined() {
            self.join(None)?;
        }
        loop {
            match self.follow_journal()? {
                CopyStep::Gone => self.exchange()?,
                CopyStep::Took(_) => {}
                CopyStep::Idle => break,
            }
            if self.has_seen().has_all() {
                // The position is sent once more, so that the leader knows it.
                self.say_position()?;
                break;
            }
        }
        let are_there = self.follow_tables()?;
        Ok(are_there && self.has_seen().has_all())
    }

    /// Tells the leader what is here, without waiting for more.
    fn say_position(&self) -> Result<()> {
        let position = self.journal().position().unwrap_or_default();
        self.leader.journal(&self.asker(), position, 0).map(drop)
    }

    /// Sends a request to the leader, and repeats it once if there is no answer, so that one lost request doesn't end a
    /// transfer of many.
    pub(super) fn ask<T>(&self, request: impl Fn(&dyn Leader) -> Result<T>) -> Result<T> {
        let mut pause = Duration::from_millis(1);
        for _ in 0..REQUESTS_MAX {
            match request(self.leader.as_ref()) {
                Err(Error::Leader { .. }) if !self.is_stopped() => std::thread::sleep(pause),
                answered => return answered,
            }
            pause *= 2;
        }
        request(self.leader.as_ref())
    }

    pub(super) fn check_leader(&self, leader: &LeaderState) -> Result<()> {
        leader.heads.iter().try_for_each(TableHead::check)?;
        let state = self.state();
        if leader.database == state.database && leader.epoch == state.epoch {
            return Ok(());
        }
        self.set_joined(false);
        Err(Error::Leader { reason: format!("it is in epoch {} of database {} now", leader.epoch, leader.database) })
    }
}

/// Whether a table's own files have its batches up to a number and a time.
pub(super) fn is_stored(database: &Database, table: &str, sequence: u64, latest: i64) -> bool {
    let has = captured_of(database, &table.to_lowercase());
    sequence <= has.sequence && latest <= has.cut
}

/// Batches of the journal behind a number, and the first and last of them.
pub(super) fn batches_behind(storage: &dyn Storage, sequence: u64) -> Result<Option<(u64, u64, u64)>> {
    let mut range: Option<(u64, u64, u64)> = None;
    for number in journal::numbers(storage)? {
        journal::each_batch(storage, number, &mut |_, batch, _| {
            if batch > sequence {
                let (count, first, _) = range.unwrap_or((0, batch, batch));
                range = Some((count + 1, first.min(batch), batch));
            }
        })?;
    }
    Ok(range)
}
