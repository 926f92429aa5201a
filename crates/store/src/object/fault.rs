//! A store in memory that counts requests and fails on demand, for tests.
//!
//! A kill at the n-th call simulates a process that ends there: this call is carried out or not, its answer is lost,
//! and so are all later calls. The process's operations on its own disk fail as well if [`FaultStore::dies_with`]
//! names the storage.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{ObjectEntry, ObjectError, ObjectFault, ObjectResult, ObjectStore};
use crate::storage::fault::FaultStorage;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call isn't carried out; repeating it may succeed.
    Refused,
    /// The call is carried out, and its answer is lost.
    AnswerLost,
    /// Half of the requested bytes arrive.
    Cut,
    /// The call isn't carried out, nor is any later one.
    KilledBefore,
    /// The call is carried out, and no later one is.
    KilledAfter,
}

#[derive(Debug, Default)]
struct FaultyStoreState {
    objects: BTreeMap<String, Bytes>,
    calls: u64,
    reads: u64,
    read_bytes: u64,
    fault: Option<(u64, Fault)>,
    /// Each n-th call fails by itself.
    fail_each: Option<u64>,
    dead: bool,
    /// Looks for this many objects don't find what is there.
    stale_looks: u64,
    flip: bool,
    storage: Option<FaultStorage>,
}

/// See the module's text. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FaultStore {
    state: Arc<Mutex<FaultyStoreState>>,
}

impl FaultStore {
    /// An empty store without faults.
    #[must_use]
    pub fn new() -> FaultStore {
        FaultStore::default()
    }

    fn state(&self) -> MutexGuard<'_, FaultyStoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls of any kind so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Calls that read parts of objects so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Bytes that they gave.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.state().read_bytes
    }

    /// The `n`-th call from now (the next is 0) fails so.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        let mut state = self.state();
        state.fault = Some((state.calls + n, fault));
    }

    /// Each `n`-th call fails, and succeeds when it is made again; `None` takes it back.
    pub fn fail_each(&self, n: Option<u64>) {
        self.state().fail_each = n;
    }

    /// The next `n` looks for an object don't find it.
    pub fn stale_looks(&self, n: u64) {
        self.state().stale_looks = n;
    }

    /// A bit of what the next read gives is wrong.
    pub fn flip_in_next_read(&self) {
        self.state().flip = true;
    }

    /// Storage of the process that a kill ends.
    pub fn dies_with(&self, storage: &FaultStorage) {
        self.state().storage = Some(storage.clone());
    }

    /// An independent copy of the objects, without faults.
    #[must_use]
    pub fn copy(&self) -> FaultStore {
        let state = FaultyStoreState { objects: self.state().objects.clone(), ..FaultyStoreState::default() };
        FaultStore { state: Arc::new(Mutex::new(state)) }
    }

    /// The keys there are.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    /// Flips a bit of an object, and says whether there is such a byte.
    pub fn damage(&self, key: &str, at: usize) -> bool {
        let mut state = self.state();
        let Some(bytes) = state.objects.get_mut(key) else { return false };
        let mut changed = bytes.to_vec();
        let Some(byte) = changed.get_mut(at) else { return false };
        *byte ^= 4;
        *bytes = changed.into();
        true
    }

    /// Takes the end of an object away.
    pub fn cut(&self, key: &str, length: usize) {
        let mut state = self.state();
        if let Some(bytes) = state.objects.get_mut(key) {
            *bytes = bytes.slice(..length.min(bytes.len()));
        }
    }

    /// Carries a call out, with the fault that it is to have.
    fn call<T>(&self, act: impl FnOnce(&mut FaultyStoreState) -> ObjectResult<T>) -> ObjectResult<(T, Option<Fault>)> {
        let mut state = self.state();
        let process_ended = || ObjectError::new(ObjectFault::Lasting, "the process has ended");
        if state.dead {
            return Err(process_ended());
        }
        let number = state.calls;
        state.calls += 1;
        let by_turn = state.fail_each.filter(|n| number % n == n - 1).map(|_| Fault::Refused);
        let fault = state.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault).or(by_turn);
        if matches!(fault, Some(Fault::KilledBefore | Fault::KilledAfter)) {
            state.dead = true;
            if let Some(storage) = &state.storage {
                storage.stop_after(Some(0));
            }
        }
        let passing = |reason: &str| ObjectError::new(ObjectFault::Passing, reason);
        match fault {
            Some(Fault::Refused) => Err(passing("503 slow down")),
            Some(Fault::KilledBefore) => Err(process_ended()),
            Some(Fault::KilledAfter) => act(&mut state).and_then(|_| Err(process_ended())),
            Some(Fault::AnswerLost) => act(&mut state).and_then(|_| Err(passing("connection reset"))),
            fault => Ok((act(&mut state)?, fault)),
        }
    }
}

fn absent(key: &str) -> ObjectError {
    ObjectError::new(ObjectFault::Absent, format!("there is no {key}"))
}

impl ObjectStore for FaultStore {
    fn put_if_absent(&self, key: &str, bytes: Bytes) -> ObjectResult<()> {
        let put = |state: &mut FaultyStoreState| match state.objects.contains_key(key) {
            true => Err(ObjectError::new(ObjectFault::Exists, format!("there is a {key}"))),
            false => {
                state.objects.insert(key.to_owned(), Bytes::copy_from_slice(&bytes));
                Ok(())
            }
        };
        self.call(put).map(|_| ())
    }

    fn read(&self, key: &str, range: Range<u64>) -> ObjectResult<Bytes> {
        let read = |state: &mut FaultyStoreState| {
            let bytes = state.objects.get(key).ok_or_else(|| absent(key))?;
            let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
            let part = bytes.slice(usize::try_from(range.start).unwrap_or(usize::MAX).min(end)..end);
            state.reads += 1;
            state.read_bytes += part.len() as u64;
            if std::mem::take(&mut state.flip) && !part.is_empty() {
                let mut changed = part.to_vec();
                changed[part.len() / 2] ^= 1;
                return Ok(changed.into());
            }
            Ok(part)
        };
        let (part, fault) = self.call(read)?;
        Ok(if fault == Some(Fault::Cut) { part.slice(..part.len() / 2) } else { part })
    }

    fn length(&self, key: &str) -> ObjectResult<u64> {
        let look = |state: &mut FaultyStoreState| {
            if state.stale_looks > 0 {
                state.stale_looks -= 1;
                return Err(absent(key));
            }
            state.objects.get(key).map(|bytes| bytes.len() as u64).ok_or_else(|| absent(key))
        };
        self.call(look).map(|(length, _)| length)
    }

    fn list(&self, prefix: &str) -> ObjectResult<Vec<ObjectEntry>> {
        let list = |state: &mut FaultyStoreState| {
            let of = state.objects.iter().filter(|(key, _)| key.starts_with(prefix));
            Ok(of.map(|(key, bytes)| ObjectEntry { key: key.clone(), bytes: bytes.len() as u64 }).collect())
        };
        self.call(list).map(|(entries, _)| entries)
    }

    fn delete(&self, key: &str) -> ObjectResult<()> {
        let delete = |state: &mut FaultyStoreState| {
            state.objects.remove(key);
            Ok(())
        };
        self.call(delete).map(|_| ())
    }
}
