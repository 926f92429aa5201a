//! Records on their way from the thread that reads them to the thread that makes rows of them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::decode::Record;

/// A message of a mailbox, which counts its bytes.
pub trait MessageSize {
    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize;
}

/// Bytes that a record takes beside its key and its payload.
pub const OVERHEAD: usize = 128;

/// A record that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Its number within the partition.
    pub offset: u64,
    /// Nanoseconds since 1970.
    pub time_ns: Option<i128>,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value; none of a tombstone.
    pub payload: Option<Vec<u8>>,
}

impl From<&Record<'_>> for OwnedRecord {
    fn from(record: &Record<'_>) -> OwnedRecord {
        let Record { offset, time_ns, key, payload } = *record;
        OwnedRecord { offset, time_ns, key: key.map(<[u8]>::to_vec), payload: payload.map(<[u8]>::to_vec) }
    }
}

impl MessageSize for OwnedRecord {
    fn bytes(&self) -> usize {
        OVERHEAD + self.key.as_ref().map_or(0, Vec::len) + self.payload.as_ref().map_or(0, Vec::len)
    }
}

#[derive(Debug)]
struct MailboxState<T> {
    messages: VecDeque<T>,
    bytes: usize,
    is_closed: bool,
}

/// A queue that counts its bytes, so that the thread that fills it can stop in time.
#[derive(Debug)]
pub struct Mailbox<T> {
    state: Mutex<MailboxState<T>>,
    changed: Condvar,
    released: Condvar,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        let state = MailboxState { messages: VecDeque::new(), bytes: 0, is_closed: false };
        Mailbox { state: Mutex::new(state), changed: Condvar::new(), released: Condvar::new() }
    }
}

impl<T: MessageSize> Mailbox<T> {
    fn state(&self) -> MutexGuard<'_, MailboxState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds records, wakes the thread that takes them once, and returns the bytes that are in the mailbox then.
    pub fn push(&self, messages: impl IntoIterator<Item = T>) -> usize {
        let mut state = self.state();
        for message in messages {
            state.bytes += message.bytes();
            state.messages.push_back(message);
        }
        self.changed.notify_one();
        state.bytes
    }

    /// Bytes of the records in it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Takes all records, and waits for the first one at most so long. None once the mailbox is closed: the rest isn't to be processed.
    #[must_use]
    pub fn take(&self, time: Duration) -> Option<VecDeque<T>> {
        let state = self.state();
        let waits = |state: &mut MailboxState<T>| state.messages.is_empty() && !state.is_closed;
        let (mut state, _) =
            self.changed.wait_timeout_while(state, time, waits).unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return None;
        }
        Some(std::mem::take(&mut state.messages))
    }

    /// Waits until it has fewer than `bytes_max` bytes, at most so long, and returns whether that is so.
    #[must_use]
    pub fn has_room(&self, bytes_max: usize, time: Duration) -> bool {
        let state = self.state();
        let is_full = |state: &mut MailboxState<T>| state.bytes >= bytes_max && !state.is_closed;
        let waited = self.released.wait_timeout_while(state, time, is_full);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes < bytes_max
    }

    /// Counts the bytes of records that were taken and processed as free again.
    pub fn release(&self, bytes: usize) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.released.notify_all();
    }

    /// Closes it: nothing is taken any more.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
        self.released.notify_all();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_they_are_released() {
        let mailbox = Mailbox::default();
        let message = |offset| OwnedRecord { offset, time_ns: None, key: None, payload: Some(vec![0; 72]) };
        mailbox.push([message(1)]);
        assert_eq!(mailbox.push([message(2)]), 400);
        let batch = mailbox.take(Duration::ZERO).unwrap();
        assert_eq!((batch.len(), mailbox.bytes()), (2, 400));
        assert!(!mailbox.has_room(400, Duration::ZERO) && mailbox.has_room(401, Duration::ZERO));
        batch.iter().for_each(|message| mailbox.release(message.bytes()));
        assert_eq!(mailbox.bytes(), 0);
        assert!(mailbox.take(Duration::ZERO).unwrap().is_empty());
        mailbox.push([message(3)]);
        mailbox.close();
        assert!(mailbox.take(Duration::from_secs(60)).is_none());
    }
}
