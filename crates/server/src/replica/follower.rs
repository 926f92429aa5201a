//! A server's database that follows a leader: it answers statements and accepts no rows, until it is promoted. From
//! then on it captures, in the same process and on the same addresses.
//!
//! - Promotion raises the epoch durably, releases the follower's locks, and recovers the journal as a start after a
//!   crash does.
//! - A promoted copy leads after a restart too, even if its settings still name its former leader, unless that has a
//!   later epoch.
//! - The former leader is told of the promotion until it has answered.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use splay_capture::{
    Capture, CaptureSettings, Error, FollowSettings, Follower, FollowerIdentity, FollowerSettings, Leader,
    RefusedInput, Replica, ReplicaState, Role, Status,
};
use splay_store::storage::Storage;
use splay_store::{Database, TableSpec};

use super::HttpLeader;
use crate::ingest::{
    Append, Clock, Ingest, IngestCallback, IngestError, IngestFigure, Producer, Replication, SubscribeRequest,
    Subscription, SystemClock, figure,
};

/// Interval at which a leader that hasn't learnt of the promotion is notified again.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// See the module's text.
#[derive(Debug)]
pub struct FollowerIngest {
    database: Database,
    leader: Arc<HttpLeader>,
    settings: CaptureSettings,
    standing: RwLock<ReplicationRole>,
    /// Is locked during a promotion.
    promotion: Mutex<()>,
    /// Ends the thread that tells the leader before.
    telling: Mutex<Option<Sender<()>>>,
}

#[derive(Debug, Clone)]
enum ReplicationRole {
    Follows(Arc<Follower>),
    Leads(Capture),
    /// It was promoted and couldn't capture.
    Ended(IngestError),
}

impl FollowerIngest {
    /// Follows a leader with the database in a folder, which is created like the leader's if there is none. What the database has and the leader
    /// lacks is put `aside` first.
    ///
    /// # Errors
    /// [`Error::Diverged`] and [`Error::OtherLeader`] for a database that can't follow it; [`Error::Leader`] if there is no database yet and the leader
    /// doesn't answer; [`Error::Locked`]; those of reading.
    pub fn start(
        folder: &Path,
        leader: HttpLeader,
        aside: Option<Arc<dyn Storage>>,
        settings: CaptureSettings,
    ) -> Result<(Database, FollowerIngest), Error> {
        let leader = Arc::new(leader);
        let database = match Database::open(folder) {
            Err(splay_store::Error::NotADatabase { .. }) => {
                Database::create_like(folder, &leader.state(&FollowerIdentity::default())?.settings)?
            }
            opened => opened?,
        };
        let standing = match splay_capture::role(&database)? {
            Some(state) if leads(&state, &leader) => {
                tracing::warn!(epoch = state.epoch, leader = leader.url(), "this copy was promoted, and leads");
                ReplicationRole::Leads(Capture::open(database.clone(), settings.clone())?.0)
            }
            _ => ReplicationRole::Follows(Arc::new(follow(&database, &leader, aside, &settings)?)),
        };
        database.look_at_tables()?;
        let (promotion, telling) = (Mutex::default(), Mutex::default());
        let follower = FollowerIngest {
            database: database.clone(),
            leader,
            settings,
            standing: RwLock::new(standing),
            promotion,
            telling,
        };
        follower.tell();
        Ok((database, follower))
    }

    fn standing(&self) -> ReplicationRole {
        self.standing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, standing: ReplicationRole) {
        *self.standing.write().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    /// The capture that takes rows, once this is the leader.
    fn capture(&self) -> Result<Capture, IngestError> {
        match self.standing() {
            ReplicationRole::Leads(capture) => Ok(capture),
            ReplicationRole::Ended(error) => Err(error),
            ReplicationRole::Follows(_) => Err(IngestError::Following { leader: self.leader.url().to_owned() }),
        }
    }

    /// Becomes the leader.
    fn lead(&self, follower: &Follower) -> Result<u64, IngestError> {
        let epoch = follower.promote()?;
        follower.replica().release();
        let (capture, recovered) = Capture::open(self.database.clone(), self.settings.clone())?;
        tracing::warn!(epoch, "{recovered}");
        self.set(ReplicationRole::Leads(capture));
        self.tell();
        Ok(epoch)
    }

    /// Tells the leader before that this copy was promoted, on a thread, until it has heard or this ends.
    fn tell(&self) {
        let ReplicationRole::Leads(capture) = self.standing() else { return };
        let (sender, ended) = channel::<()>();
        let leader = Arc::clone(&self.leader);
        leader.resume();
        let work = move || {
            while let Some(asker) = capture.successor() {
                let answer = leader.state(&asker).map(drop);
                if has_heard(&answer, asker.epoch) {
                    tracing::info!(leader = leader.url(), "the leader before has heard of the promotion");
                    if let Err(error) = capture.note_former_leader_informed() {
                        tracing::warn!(%error, "it is told once more after a start");
                    }
                    return;
                }
                tracing::debug!(?answer, "the leader before hasn't heard of the promotion");
                if ended.recv_timeout(TELL_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        match std::thread::Builder::new().name("splay-tell".to_owned()).spawn(work) {
            Ok(_) => *self.telling.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender),
            Err(error) => tracing::warn!(%error, "the leader before isn't told of the promotion"),
        }
    }
}

/// Whether the answer of the leader before says that it knows of an epoch. Others come from elsewhere: from this copy, if it has the address by now, or
/// from another database.
fn has_heard(answer: &Result<(), Error>, epoch: u64) -> bool {
    matches!(answer, Err(Error::Fenced { epoch: known }) if *known >= epoch)
}

/// Whether this copy was promoted over the leader that its settings name, and the leader hasn't been promoted again since.
fn leads(state: &ReplicaState, leader: &HttpLeader) -> bool {
    let was_promoted =
        state.role == Role::Leader && state.fenced.is_none() && state.leader.as_deref() == Some(leader.url());
    if !was_promoted {
        return false;
    }
    let asker =
        FollowerIdentity { database: state.database.clone(), epoch: state.epoch, ..FollowerIdentity::default() };
    !matches!(leader.state(&asker), Ok(leader_state) if leader_state.epoch > state.epoch)
}

fn follow(
    database: &Database,
    leader: &Arc<HttpLeader>,
    aside: Option<Arc<dyn Storage>>,
    settings: &CaptureSettings,
) -> Result<Follower, Error> {
    let memory = FollowSettings { bytes_max: settings.live_bytes_max.saturating_mul(2) };
    let source: Arc<dyn Leader> = Arc::clone(leader) as _;
    let replica = Replica::begin(database.clone(), source, leader.url(), memory)?;
    match replica.join(aside.as_ref()) {
        Ok(()) => {}
        Err(error @ (Error::Diverged { .. } | Error::OtherLeader { .. })) => return Err(error),
        Err(error) => tracing::warn!(%error, "what is here is served until the leader can be followed"),
    }
    Follower::start(replica, FollowerSettings { aside, ..FollowerSettings::default() })
}

impl Ingest for FollowerIngest {
    fn submit(&self, appends: Vec<Append>, done: IngestCallback) -> Result<(), IngestError> {
        Ingest::submit(&self.capture()?, appends, done)
    }

    fn spec(&self, table: &str) -> Result<Option<TableSpec>, IngestError> {
        Ingest::spec(&self.capture()?, table)
    }

    fn subscribe(&self, request: SubscribeRequest) -> Result<Box<dyn Subscription>, IngestError> {
        Ingest::subscribe(&self.capture()?, request)
    }

    fn reject(&self, way: &'static str, reason: String, sample: &[u8]) {
        if let Ok(capture) = self.capture() {
            Ingest::reject(&capture, way, reason, sample);
        }
    }

    fn reject_more(&self, way: &'static str, count: u64) {
        if let Ok(capture) = self.capture() {
            Ingest::reject_more(&capture, way, count);
        }
    }

    fn is_ready(&self) -> bool {
        match self.standing() {
            ReplicationRole::Follows(_) => true,
            ReplicationRole::Leads(capture) => Ingest::is_ready(&capture),
            ReplicationRole::Ended(_) => false,
        }
    }

    fn is_full(&self) -> bool {
        self.capture().is_ok_and(|capture| Ingest::is_full(&capture))
    }

    fn journal_losses(&self) -> usize {
        self.capture().map_or(0, |capture| Ingest::journal_losses(&capture))
    }

    fn full_reason(&self) -> Option<String> {
        self.capture().ok().and_then(|capture| Ingest::full_reason(&capture))
    }

    fn row_time(&self) -> i64 {
        let now = || SystemClock::default().now();
        self.capture().map_or_else(|_| now(), |capture| Ingest::row_time(&capture))
    }

    fn status(&self) -> Status {
        self.capture().map(|capture| Ingest::status(&capture)).unwrap_or_default()
    }

    fn last_of(&self, producer: &str) -> Result<Option<u64>, IngestError> {
        Ingest::last_of(&self.capture()?, producer)
    }

    fn turn_away(&self, producer: &Producer) {
        if let Ok(capture) = self.capture() {
            Ingest::turn_away(&capture, producer);
        }
    }

    fn give_up(&self, producer: &str, through: u64) -> bool {
        self.capture().is_ok_and(|capture| Ingest::give_up(&capture, producer, through))
    }

    fn rejected(&self) -> Vec<RefusedInput> {
        self.capture().map(|capture| Ingest::rejected(&capture)).unwrap_or_default()
    }

    fn figures(&self) -> Vec<IngestFigure> {
        match self.standing() {
            ReplicationRole::Leads(capture) => Ingest::figures(&capture),
            ReplicationRole::Ended(_) => Vec::new(),
            ReplicationRole::Follows(follower) => follower_figures(&follower),
        }
    }

    fn replication(&self) -> Option<Replication> {
        match self.standing() {
            ReplicationRole::Leads(capture) => Ingest::replication(&capture),
            ReplicationRole::Ended(_) => None,
            ReplicationRole::Follows(follower) => Some(Replication::Follower(follower.status())),
        }
    }

    fn leader(&self) -> Option<Arc<dyn Leader>> {
        self.capture().ok().and_then(|capture| Ingest::leader(&capture))
    }

    fn check_changes(&self) -> Result<(), IngestError> {
        Ingest::check_changes(&self.capture()?)
    }

    fn promote(&self) -> Option<Result<u64, IngestError>> {
        let _one = self.promotion.lock().unwrap_or_else(PoisonError::into_inner);
        let ReplicationRole::Follows(follower) = self.standing() else { return None };
        let promoted = self.lead(&follower);
        match &promoted {
            // It wasn't begun.
            Ok(_) | Err(IngestError::Rejected { .. } | IngestError::NotPromoted { .. }) => {}
            Err(error) => {
                tracing::error!(%error, "promotion broke off: start the server again");
                self.set(ReplicationRole::Ended(error.clone()));
            }
        }
        Some(promoted)
    }

    fn close(&self) -> Result<(), IngestError> {
        drop(self.telling.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.leader.cancel();
        match self.standing() {
            ReplicationRole::Follows(follower) => {
                follower.stop();
                Ok(())
            }
            ReplicationRole::Leads(capture) => Ingest::close(&capture),
            ReplicationRole::Ended(error) => Err(error),
        }
    }
}

/// The metrics of a follower.
fn follower_figures(follower: &Follower) -> Vec<IngestFigure> {
    let status = follower.status();
    let gauge = |name, help, value| figure(false, name, help, value);
    let lag = |ns: Option<u64>| ns.map(|ns| ns / 1_000_000);
    let lags = [
        ("follower_lag_milliseconds", "Time since all rows of the leader were here", lag(status.lag_ns)),
        (
            "follower_tables_lag_milliseconds",
            "Time since all commits of the leader were here",
            lag(status.tables_lag_ns),
        ),
    ];
    let mut figures = vec![
        gauge("follower_connected", "Whether the leader answers", u64::from(status.is_connected)),
        gauge("follower_whole", "Whether the copy is whole, so that it may be promoted", u64::from(status.is_whole)),
        gauge("follower_sequence", "Number of the last batch that is here", status.sequence),
        gauge("follower_leader_sequence", "Number of the leader's last batch", status.leader_sequence),
        figure(true, "follower_fetched_bytes", "Bytes of tables' files that were fetched", status.fetched_bytes),
    ];
    figures.extend(lags.into_iter().filter_map(|(name, help, value)| Some(gauge(name, help, value?))));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_before_alone_has_heard() {
        let fenced = |epoch| Err(Error::Fenced { epoch });
        let other = || Err(Error::OtherLeader { reason: "another database".to_owned() });
        let lost = || Err(Error::Leader { reason: "no route".to_owned() });
        assert!(has_heard(&fenced(2), 2) && has_heard(&fenced(3), 2));
        for answer in [fenced(1), other(), lost(), Ok(())] {
            assert!(!has_heard(&answer, 2), "{answer:?}");
        }
    }
}
