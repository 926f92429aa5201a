//! The leader's record of its followers: how far its journal is synced, how far each follower has it, and the
//! acknowledgements that wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use splay_store::{Database, HeadCache, TableHead};

use super::Position;
use crate::error::{Error, Result};
use crate::journal::SyncListener;
use crate::measure::{Histogram, Latency};

/// Followers that are tracked separately. Beyond this the one that was silent for longest is forgotten.
const FOLLOWERS_MAX: usize = 64;

/// Syncs whose time is kept until followers have what was synced.
const SYNCS_MAX: usize = 4_096;

/// Called once enough followers have a batch, or once the leader stops waiting for them.
type ReplicaCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// See the module's text.
pub(crate) struct Replicas {
    state: Mutex<AckState>,
    moved: Condvar,
    /// Number of followers that must have a batch.
    needed: usize,
    patience: Duration,
    lag: Histogram,
    heads: Mutex<HeadCache>,
}

#[derive(Default)]
struct AckState {
    durable: Position,
    followers: BTreeMap<String, FollowerPosition>,
    waiting: VecDeque<PendingAck>,
    synced: VecDeque<(Position, Instant)>,
    closed: Option<Error>,
    acknowledged: u64,
    unconfirmed: u64,
}

struct FollowerPosition {
    position: Position,
    at: Instant,
}

struct PendingAck {
    position: Position,
    since: Instant,
    done: ReplicaCallback,
}

/// A follower as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FollowerView {
    /// Its name.
    pub follower: String,
    /// How much of the journal it has on its disk.
    pub position: Position,
    /// Milliseconds since its last request.
    pub silent_ms: u64,
    /// Whether it counts as connected.
    pub is_connected: bool,
}

/// The state of replication, as its leader reports it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReplicationStatus {
    /// The epoch that the database is in.
    pub epoch: u64,
    /// A higher epoch that another copy has announced. If there is one, this copy accepts no more rows.
    pub fenced: Option<u64>,
    /// How far the journal is synced.
    pub durable: Position,
    /// Followers that have sent requests.
    pub followers: Vec<FollowerView>,
    /// Batches that wait for followers.
    pub waiting: u64,
    /// Batches acknowledged as `replica`, and batches that followers didn't confirm in time.
    pub acknowledged: u64,
    /// See `acknowledged`.
    pub unconfirmed: u64,
    /// Time from a sync here until enough followers have confirmed the same bytes, one measurement per sync.
    pub lag: Latency,
}

impl std::fmt::Debug for Replicas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replicas").field("needed", &self.needed).finish_non_exhaustive()
    }
}

impl Replicas {
    pub(crate) fn new(needed: usize, patience: Duration) -> Arc<Replicas> {
        let (state, moved) = (Mutex::default(), Condvar::new());
        let (lag, heads) = (Histogram::default(), Mutex::default());
        Arc::new(Replicas { state, moved, needed: needed.max(1), patience, lag, heads })
    }

    /// Commits of all tables.
    pub(crate) fn heads(&self, database: &Database) -> Result<Vec<TableHead>> {
        let mut cache = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(database.table_heads_with(&mut cache)?)
    }

    fn state(&self) -> MutexGuard<'_, AckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the journal is synced.
    pub(crate) fn durable(&self) -> Position {
        self.state().durable
    }

    /// Waits until the journal is synced beyond a place, or for a time. Gives how far it is.
    pub(crate) fn wait_beyond(&self, position: Position, patience: Duration) -> Position {
        let until = Instant::now() + patience;
        let mut state = self.state();
        while state.durable <= position && state.closed.is_none() {
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            state = self.moved.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.durable
    }

    /// A follower has all before a place on its disk. Places that the journal doesn't have say nothing.
    pub(crate) fn confirm(&self, follower: &str, position: Position) {
        let now = Instant::now();
        let mut state = self.state();
        if position > state.durable {
            return;
        }
        let seen = state.followers.entry(follower.to_owned()).or_insert(FollowerPosition { position, at: now });
        // One that comes back may have less: then it says so.
        (seen.position, seen.at) = (position, now);
        if state.followers.len() > FOLLOWERS_MAX {
            let oldest = state.followers.iter().min_by_key(|(_, seen)| seen.at).map(|(name, _)| name.clone());
            oldest.and_then(|name| state.followers.remove(&name));
        }
        let Some(reached) = state.reached(self.needed) else { return };
        while state.synced.front().is_some_and(|(position, _)| *position <= reached) {
            let Some((_, at)) = state.synced.pop_front() else { break };
            self.lag.note(i64::try_from(now.duration_since(at).as_nanos()).unwrap_or(i64::MAX), 1);
        }
        let count = state.waiting.iter().take_while(|waiting| waiting.position <= reached).count();
        let done: Vec<PendingAck> = state.waiting.drain(..count).collect();
        state.acknowledged += done.len() as u64;
        drop(state);
        done.into_iter().for_each(|waiting| (waiting.done)(Ok(())));
    }

    /// Tells `done` once enough followers have all before a place.
    pub(crate) fn wait(&self, position: Position, done: ReplicaCallback) {
        let mut state = self.state();
        let is_there = state.reached(self.needed).is_some_and(|reached| position <= reached);
        let answer = match &state.closed {
            Some(error) => Err(error.clone()),
            None if is_there => Ok(()),
            None => {
                state.waiting.push_back(PendingAck { position, since: Instant::now(), done });
                return;
            }
        };
        state.acknowledged += u64::from(answer.is_ok());
        drop(state);
        done(answer);
    }

    /// Refuses rows that would wait for followers of whom there are too few.
    pub(crate) fn check(&self) -> Result<()> {
        let state = self.state();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        let there = state.followers.values().filter(|seen| seen.at.elapsed() < self.patience).count();
        if there >= self.needed {
            return Ok(());
        }
        let needed = self.needed;
        Err(Error::Unreplicated {
            reason: format!("{there} followers are connected, and {needed} have to have the rows"),
        })
    }

    /// Whether a follower asks for the journal.
    pub(crate) fn are_there(&self) -> bool {
        self.state().followers.values().any(|seen| seen.at.elapsed() < self.patience)
    }

    /// When the first that waits has waited for long enough.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.state().waiting.front().map(|waiting| waiting.since + self.patience)
    }

    /// Tells those that have waited for long enough.
    pub(crate) fn expire(&self) {
        let mut state = self.state();
        let late = state.waiting.iter().take_while(|waiting| waiting.since.elapsed() >= self.patience).count();
        let late: Vec<PendingAck> = state.waiting.drain(..late).collect();
        state.unconfirmed += late.len() as u64;
        drop(state);
        late.into_iter().for_each(|waiting| (waiting.done)(Err(Error::Unconfirmed)));
    }

    /// Ends all waits, with this error.
    pub(crate) fn close(&self, error: &Error) {
        let mut state = self.state();
        state.closed.get_or_insert(error.clone());
        let all = std::mem::take(&mut state.waiting);
        state.unconfirmed += all.len() as u64;
        drop(state);
        self.moved.notify_all();
        all.into_iter().for_each(|waiting| (waiting.done)(Err(error.clone())));
    }

    /// The state of the followers; the caller adds the epoch.
    pub(crate) fn status(&self) -> ReplicationStatus {
        let state = self.state();
        let followers = state.followers.iter().map(|(follower, seen)| FollowerView {
            follower: follower.clone(),
            position: seen.position,
            silent_ms: u64::try_from(seen.at.elapsed().as_millis()).unwrap_or(u64::MAX),
            is_connected: seen.at.elapsed() < self.patience,
        });
        ReplicationStatus {
            durable: state.durable,
            followers: followers.collect(),
            waiting: state.waiting.len() as u64,
            acknowledged: state.acknowledged,
            unconfirmed: state.unconfirmed,
            lag: self.lag.read(),
            ..ReplicationStatus::default()
        }
    }
}

impl SyncListener for Replicas {
    fn synced(&self, position: Position) {
        let mut state = self.state();
        if position > state.durable {
            state.durable = position;
            if !state.followers.is_empty() && state.synced.len() < SYNCS_MAX {
                state.synced.push_back((position, Instant::now()));
            }
            drop(state);
            self.moved.notify_all();
        }
    }
}

impl AckState {
    /// The place that so many followers have reached.
    fn reached(&self, needed: usize) -> Option<Position> {
        let mut places: Vec<Position> = self.followers.values().map(|seen| seen.position).collect();
        places.sort_unstable_by(|one, other| other.cmp(one));
        places.get(needed - 1).copied()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn at(offset: u64) -> Position {
        Position { file: 1, offset }
    }

    fn waits(replicas: &Replicas, offset: u64) -> Receiver<Result<()>> {
        let (sender, receiver) = channel();
        replicas.wait(at(offset), Box::new(move |result| drop(sender.send(result))));
        receiver
    }

    #[test]
    fn a_batch_is_acknowledged_once_as_many_followers_have_it_as_are_needed() {
        let replicas = Replicas::new(2, Duration::from_secs(3_600));
        replicas.synced(at(300));
        assert!(matches!(replicas.check(), Err(Error::Unreplicated { .. })));
        replicas.confirm("one", at(10));
        replicas.confirm("other", at(10));
        replicas.check().unwrap();
        let (first, second) = (waits(&replicas, 100), waits(&replicas, 200));
        replicas.confirm("one", at(300));
        assert!(first.try_recv().is_err());
        replicas.confirm("other", at(150));
        first.try_recv().unwrap().unwrap();
        assert!(second.try_recv().is_err());
        replicas.confirm("other", at(9_999));
        assert!(second.try_recv().is_err(), "the journal doesn't reach as far");
        replicas.confirm("other", at(200));
        second.try_recv().unwrap().unwrap();
        waits(&replicas, 200).try_recv().unwrap().unwrap();
    }

    #[test]
    fn who_waits_is_told_when_it_takes_too_long_or_ends() {
        let replicas = Replicas::new(1, Duration::ZERO);
        replicas.synced(at(300));
        let late = waits(&replicas, 100);
        replicas.expire();
        assert!(matches!(late.try_recv().unwrap(), Err(Error::Unconfirmed)));
        let ended = waits(&replicas, 100);
        replicas.close(&Error::Fenced { epoch: 2 });
        assert!(matches!(ended.try_recv().unwrap(), Err(Error::Fenced { epoch: 2 })));
        assert!(matches!(waits(&replicas, 100).try_recv().unwrap(), Err(Error::Fenced { epoch: 2 })));
    }
}
