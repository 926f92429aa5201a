//! The threads of a follower: one copies the journal and never waits for files, one fetches files.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use splay_store::priority;
use splay_store::storage::Storage;

use super::copy::CopyStep;
use super::promote::NOT_WHOLE;
use super::{Position, Replica, Role};
use crate::error::{Error, Result};

/// The wait after a first failure, and after many.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Settings of a follower.
#[derive(Debug, Clone)]
pub struct FollowerSettings {
    /// How often commits of tables are requested from the leader. Default a second. They are also requested when the journal names new tables or
    /// columns.
    pub tables_interval: Duration,
    /// Where the database is backed up if it has rows that the leader lacks. Default none: then such a database refuses to follow.
    pub aside: Option<Arc<dyn Storage>>,
}

impl Default for FollowerSettings {
    fn default() -> FollowerSettings {
        FollowerSettings { tables_interval: Duration::from_secs(1), aside: None }
    }
}

/// The state of a follower.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FollowerStatus {
    /// The leader's address.
    pub leader: String,
    /// The epoch.
    pub epoch: u64,
    /// Nanoseconds since it last had everything that the leader had; none if it hasn't caught up since the start.
    pub lag_ns: Option<u64>,
    /// The same for tables, views, users and roles, which are requested from time to time.
    pub tables_lag_ns: Option<u64>,
    /// Where its journal ends, and the leader's when it was last asked.
    pub position: Position,
    /// See `position`.
    pub leader_position: Position,
    /// The last batch that it has, and the last that the leader had.
    pub sequence: u64,
    /// See `sequence`.
    pub leader_sequence: u64,
    /// Whether it is a whole copy, which may be promoted.
    pub is_whole: bool,
    /// Whether the leader has answered the last request.
    pub is_connected: bool,
    /// Bytes of tables' files that were fetched since the start.
    pub fetched_bytes: u64,
    /// Why it doesn't go on, if it doesn't.
    pub error: Option<String>,
}

/// A database that follows, with its threads.
#[derive(Debug)]
pub struct Follower {
    replica: Arc<Replica>,
    shared: Arc<FollowerShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct FollowerShared {
    settings: FollowerSettings,
    state: Mutex<FollowerState>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct FollowerState {
    /// Whether tables shall be looked at now.
    is_due: bool,
    /// Whether files and journal have to be fetched from the begin.
    is_gone: bool,
    is_stopped: bool,
    is_connected: bool,
    error: Option<String>,
}

impl Follower {
    /// Begins to follow.
    ///
    /// # Errors
    /// [`Error::Failed`] if there are no threads.
    pub fn start(replica: Replica, settings: FollowerSettings) -> Result<Follower> {
        let replica = Arc::new(replica);
        let shared = Arc::new(FollowerShared { settings, ..FollowerShared::default() });
        let follower = Follower { replica, shared, threads: Mutex::default() };
        let works: [(&str, fn(&Replica, &FollowerShared)); 2] =
            [("follow-journal", along_journal), ("follow-tables", along_tables)];
        for (name, work) in works {
            let (replica, shared) = (Arc::clone(&follower.replica), Arc::clone(&follower.shared));
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&replica, &shared));
            let thread = thread.map_err(|error| Error::Failed { reason: format!("no thread for {name}: {error}") })?;
            follower.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(follower)
    }

    /// The copy.
    #[must_use]
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Its state.
    #[must_use]
    pub fn status(&self) -> FollowerStatus {
        let (progress, seen) = (self.replica.knows(), self.replica.has_seen());
        let state = self.shared.state();
        FollowerStatus {
            leader: progress.leader.unwrap_or_default(),
            epoch: progress.epoch,
            lag_ns: seen.current.map(since),
            tables_lag_ns: seen.tables_current.map(since),
            position: seen.position,
            leader_position: seen.end,
            sequence: self.replica.sequence(),
            leader_sequence: seen.sequence,
            is_whole: progress.is_whole,
            is_connected: state.is_connected,
            fetched_bytes: self.replica.fetched(),
            error: state.error.clone(),
        }
    }

    /// Ends the threads.
    pub fn stop(&self) {
        self.replica.stop();
        self.shared.state().is_stopped = true;
        self.shared.woken.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Stops, and makes the copy the leader from the next start on. Gives its epoch.
    ///
    /// # Errors
    /// As [`promote`](super::promote).
    pub fn promote(&self) -> Result<u64> {
        let progress = self.replica.knows();
        if progress.role != Role::Follower || !progress.is_whole {
            // Refused without an end to following.
            return Err(Error::NotPromoted { reason: NOT_WHOLE });
        }
        self.stop();
        self.replica.promote()
    }
}

fn since(instant: Instant) -> u64 {
    u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
    }
}

impl FollowerShared {
    fn state(&self) -> MutexGuard<'_, FollowerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is woken, or for a time.
    fn wait(&self, patience: Duration, is_due: impl Fn(&FollowerState) -> bool) {
        let until = Instant::now() + patience;
        let mut state = self.state();
        while !state.is_stopped && !is_due(&state) {
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return;
            }
            state = self.woken.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Records the outcome of a step. Returns whether it succeeded.
    fn note(&self, what: &'static str, done: Result<()>) -> bool {
        let mut state = self.state();
        match done {
            Ok(()) => {
                if let Some(error) = state.error.take() {
                    tracing::info!(%error, "the leader is followed again");
                }
                state.is_connected = true;
                true
            }
            Err(Error::Closed) => false,
            Err(error) => {
                state.is_connected &= !matches!(error, Error::Leader { .. });
                let text = error.to_string();
                if state.error.as_ref() != Some(&text) {
                    tracing::warn!(error = %text, "{what}: tried again");
                }
                state.error = Some(text);
                false
            }
        }
    }
}

/// Follows the journal until it is stopped.
fn along_journal(replica: &Replica, shared: &FollowerShared) {
    // A leader's acknowledgements may wait for it.
    priority::capture();
    let mut pause = RETRY_MIN;
    replica.set_runs(true);
    while !shared.state().is_stopped {
        if shared.state().is_gone {
            shared.wait(RETRY_MAX, |state| !state.is_gone);
            continue;
        }
        let stepped = join(replica, shared).and_then(|()| replica.follow_journal());
        match stepped {
            Ok(step) => {
                pause = RETRY_MIN;
                let mut state = shared.state();
                (state.is_due, state.is_gone) = (state.is_due || step == CopyStep::Took(true), step == CopyStep::Gone);
                if state.is_due || state.is_gone {
                    shared.woken.notify_all();
                }
                drop(state);
                if step != CopyStep::Gone {
                    shared.note("the journal", Ok(()));
                }
            }
            Err(error) => {
                shared.note("the journal", Err(error));
                shared.wait(pause, |_| false);
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
    replica.set_runs(false);
}

fn join(replica: &Replica, shared: &FollowerShared) -> Result<()> {
    if replica.is_joined() { Ok(()) } else { replica.join(shared.settings.aside.as_ref()) }
}

/// Follows the tables until it is stopped.
fn along_tables(replica: &Replica, shared: &FollowerShared) {
    let mut pause = RETRY_MIN;
    while !shared.state().is_stopped {
        if !replica.is_joined() {
            shared.wait(RETRY_MIN, |_| false);
            continue;
        }
        let is_gone = shared.state().is_gone;
        shared.state().is_due = false;
        let done = if is_gone { replica.exchange().map(|()| true) } else { replica.follow_tables() };
        match done {
            Ok(are_there) => {
                pause = RETRY_MIN;
                if is_gone {
                    shared.state().is_gone = false;
                    shared.woken.notify_all();
                }
                let interval = if are_there { shared.settings.tables_interval } else { RETRY_MIN };
                shared.wait(interval, |state| state.is_due || state.is_gone);
            }
            Err(error) => {
                shared.note("the tables", Err(error));
                shared.wait(pause, |_| false);
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
}
