//! The leader's answers to its followers.

use std::time::{Duration, Instant};

use splay_store::storage::Storage;

use super::Capture;
use crate::error::{Error, Result};
use crate::journal::{self, Catalog, Position};
use crate::replica::{
    FollowerIdentity, JournalEnd, JournalPart, Leader, LeaderState, PartKind, ReplicaState, ReplicationStatus,
};

/// How long a follower waits for more.
const WAIT: Duration = Duration::from_millis(1_000);

/// Most bytes of one answer: as long as the longest frame, and what stands beside it.
const BYTES_MAX: usize = journal::FRAME_BYTES_MAX + (1 << 20);

impl Capture {
    /// The state of the followers, as the leader sees it.
    #[must_use]
    pub fn replication(&self) -> ReplicationStatus {
        let state = self.replica().clone().unwrap_or_default();
        let (epoch, fenced) = (state.epoch, state.fenced);
        ReplicationStatus { epoch, fenced, ..self.shared.replicas.status() }
    }

    /// The epoch of another database that was promoted, if this one has learnt of it: it takes no rows any more then.
    #[must_use]
    pub fn fenced(&self) -> Option<u64> {
        self.replica().as_ref().and_then(|state| state.fenced)
    }

    /// Refuses changes of tables, views, users and roles once another copy was promoted.
    ///
    /// # Errors
    /// [`Error::Fenced`].
    pub fn check_changes(&self) -> Result<()> {
        self.fenced().map_or(Ok(()), |epoch| Err(Error::Fenced { epoch }))
    }

    /// The identity under which this copy, after its promotion, notifies its former leader; `None` once the leader has answered.
    #[must_use]
    pub fn successor(&self) -> Option<FollowerIdentity> {
        let replica_state = self.replica();
        let state =
            replica_state.as_ref().filter(|state| state.leader.is_some() && !state.is_told && state.epoch > 1)?;
        Some(FollowerIdentity { database: state.database.clone(), epoch: state.epoch, ..FollowerIdentity::default() })
    }

    /// Stores that the former leader knows of the new epoch.
    ///
    /// # Errors
    /// Those of the write.
    pub fn note_former_leader_informed(&self) -> Result<()> {
        let mut replica_state = self.replica();
        let Some(state) = replica_state.as_mut() else { return Ok(()) };
        state.is_told = true;
        state.store(self.shared.database.raw_storage().as_ref())
    }

    /// Says who this database is to an asker who may know of it, and hears from it which epoch there is.
    fn answer(&self, asker: &FollowerIdentity) -> Result<ReplicaState> {
        let mut replica_state = self.replica();
        let mut state = match replica_state.as_ref() {
            Some(state) => state.clone(),
            None => {
                let new = ReplicaState::new();
                new.store(self.shared.database.raw_storage().as_ref())?;
                replica_state.insert(new).clone()
            }
        };
        if !asker.database.is_empty() && asker.database != state.database {
            return Err(Error::OtherLeader {
                reason: "it is another database than the one that was followed".to_owned(),
            });
        }
        let highest = asker.epoch.max(state.fenced.unwrap_or(0));
        if asker.epoch > state.epoch && !asker.database.is_empty() && state.fenced != Some(highest) {
            state.fenced = Some(highest);
            // Before anybody hears of it, so that no start forgets it.
            state.store(self.shared.database.raw_storage().as_ref())?;
            *replica_state = Some(state.clone());
            tracing::error!(epoch = highest, "another copy of this database was promoted: no more rows are taken here");
            self.shared.fence(highest);
        }
        match state.fenced {
            Some(epoch) => Err(Error::Fenced { epoch }),
            None => Ok(state),
        }
    }

    /// A part of the journal, with a time to wait.
    fn part(&self, asker: &FollowerIdentity, after: Position, bytes_max: usize, wait: Duration) -> Result<JournalPart> {
        let state = self.answer(asker)?;
        let replicas = &self.shared.replicas;
        // A copy that isn't whole yet asks without a name: it confirms nothing. Nor does one of another epoch, whose bytes may be others.
        if !asker.follower.is_empty() && asker.epoch == state.epoch {
            replicas.confirm(&asker.follower, after);
        }
        let (storage, begun) = (self.shared.database.raw_storage(), Instant::now());
        // A follower that asks for no bytes only reports its position.
        let end = if bytes_max == 0 { replicas.durable() } else { replicas.wait_beyond(after, wait) };
        let waited_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let oldest = journal::numbers(storage.as_ref())?.first().copied().unwrap_or(end.file);
        let (kind, bytes) = read(storage.as_ref(), after, end, bytes_max.min(BYTES_MAX))?;
        let kind = if kind == PartKind::Gone(0) { PartKind::Gone(oldest) } else { kind };
        Ok(JournalPart { epoch: state.epoch, kind, end, sequence: self.sequence(), oldest, waited_ns, bytes })
    }
}

/// Whether a file of the journal has the bytes that another copy's has up to its end. One that has gone isn't compared.
fn is_beginning(storage: &dyn Storage, end: JournalEnd, durable: Position) -> Result<bool> {
    if end.position > durable {
        return Ok(false);
    }
    let bytes = match storage.read(&journal::path(end.position.file)) {
        Err(error) if error.is_not_found() => return Ok(true),
        read => read?,
    };
    let before = bytes.get(..usize::try_from(end.position.offset).unwrap_or(usize::MAX));
    Ok(before.is_some_and(|before| crc32c::crc32c(before) == end.crc))
}

/// Bytes of the journal after a place; it is synced up to `end`.
fn read(storage: &dyn Storage, after: Position, end: Position, bytes_max: usize) -> Result<(PartKind, Vec<u8>)> {
    if after > end {
        return Ok((PartKind::Ahead, Vec::new()));
    }
    let path = journal::path(after.file);
    let length = match storage.identity(&path) {
        Ok(_) if after.file == end.file => end.offset,
        Ok(file) => file.length,
        Err(error) if error.is_not_found() => return Ok((PartKind::Gone(0), Vec::new())),
        Err(error) => return Err(error.into()),
    };
    if after.offset > length {
        return Ok((PartKind::Ahead, Vec::new()));
    }
    if after.offset == length && after.file < end.file {
        let numbers = journal::numbers(storage)?;
        let next = numbers.into_iter().find(|number| *number > after.file).unwrap_or(end.file);
        return Ok((PartKind::Next(next), Vec::new()));
    }
    let bytes = usize::try_from(length - after.offset).unwrap_or(usize::MAX).min(bytes_max);
    match storage.read_at(&path, after.offset, bytes) {
        Err(error) if error.is_not_found() => Ok((PartKind::Gone(0), Vec::new())),
        read => Ok((PartKind::Bytes, read?)),
    }
}

impl Leader for Capture {
    fn state(&self, asker: &FollowerIdentity) -> Result<LeaderState> {
        let state = self.answer(asker)?;
        let (database, storage) = (&self.shared.database, self.shared.database.raw_storage());
        let heads = self.shared.replicas.heads(database)?;
        // Behind the commits: who was to see no table that these have sees none in a copy either.
        let (views, access) = (database.views_text()?, database.access_text()?);
        // Behind the commits: what these name is in the journal up to there.
        let durable = self.shared.replicas.durable();
        let catalog = match Catalog::load(storage.as_ref())? {
            journal::CatalogContent::Sound(catalog) => catalog,
            journal::CatalogContent::Absent | journal::CatalogContent::Damaged => Catalog::default(),
        };
        let oldest = journal::numbers(storage.as_ref())?.first().copied().unwrap_or(durable.file);
        Ok(LeaderState {
            database: state.database,
            epoch: state.epoch,
            heads,
            views,
            access,
            settings: database.settings_text()?,
            durable,
            oldest,
            catalog,
            forks: state.forks,
            is_beginning: asker.end.map_or(Ok(true), |end| is_beginning(storage.as_ref(), end, durable))?,
        })
    }

    fn journal(&self, asker: &FollowerIdentity, after: Position, bytes_max: usize) -> Result<JournalPart> {
        self.part(asker, after, bytes_max, WAIT)
    }

    fn file(&self, asker: &FollowerIdentity, path: &str, offset: u64, bytes_max: usize) -> Result<Vec<u8>> {
        self.answer(asker)?;
        Ok(self.shared.database.read_for_follower(path, offset, bytes_max.min(BYTES_MAX))?)
    }
}
