//! Messages on their way from the threads that read sockets to the thread that makes rows of them, in bounded memory.
//!
//! Beyond the limit a feed either reads nothing until there is room, or drops the messages that come and counts them. The message that a thread
//! holds when the process ends is counted as dropped, too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use splay_records::mailbox::{Mailbox, MessageSize, OVERHEAD};
use splay_records::stop::StopSignal;

use crate::counts::{FeedCounts, LogRateLimit};
use crate::settings::WhenFull;

/// A message as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The time of its arrival, in nanoseconds since 1970.
    pub time_ns: i128,
    /// The key that ZeroMQ sends before it.
    pub key: Option<Vec<u8>>,
    /// Its content.
    pub payload: Vec<u8>,
    /// The reason why these bytes are no message, if they are none.
    pub fault: Option<String>,
}

impl Arrival {
    /// A message that has come now.
    #[must_use]
    pub fn now(payload: Vec<u8>) -> Arrival {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Arrival { time_ns: since.as_nanos().cast_signed(), key: None, payload, fault: None }
    }

    /// Bytes that are no message, and why.
    #[must_use]
    pub fn fault(payload: Vec<u8>, reason: String) -> Arrival {
        Arrival { fault: Some(reason), ..Arrival::now(payload) }
    }
}

impl MessageSize for Arrival {
    fn bytes(&self) -> usize {
        let fault = self.fault.as_ref().map_or(0, String::len);
        OVERHEAD + self.payload.len() + self.key.as_ref().map_or(0, Vec::len) + fault
    }
}

/// The queue from the threads that read a feed's sockets to the thread that makes rows.
#[derive(Debug)]
pub struct ArrivalQueue<'a> {
    /// The feed's name.
    pub feed: &'a str,
    /// The messages that wait.
    pub mailbox: &'a Mailbox<Arrival>,
    /// Bytes that may wait.
    pub bytes_max: usize,
    /// The treatment of messages beyond the limit.
    pub when_full: WhenFull,
    /// The feed's counts.
    pub counts: &'a FeedCounts,
    /// The end of the process.
    pub stop: &'a StopSignal,
    /// Limits the lines of the log about messages that were dropped.
    pub log_limit: LogRateLimit,
}

impl ArrivalQueue<'_> {
    /// Adds a message, or drops it as the settings say. False if no more are to be read.
    pub fn put(&self, arrival: Arrival) -> bool {
        self.counts.messages.add(1);
        self.counts.bytes.add(arrival.payload.len() as u64);
        while !self.mailbox.has_room(self.bytes_max, self.patience()) {
            if self.when_full == WhenFull::Drop || self.stop.is_set() {
                self.counts.dropped.add(1);
                if self.log_limit.is_due() {
                    let dropped = self.counts.dropped.get();
                    tracing::error!(feed = self.feed, dropped, "memory_bytes_max is full: drops messages");
                }
                return !self.stop.is_set();
            }
            if self.log_limit.is_due() {
                tracing::warn!(feed = self.feed, "memory_bytes_max is full: reads nothing until there is room");
            }
        }
        self.mailbox.push([arrival]);
        !self.stop.is_set()
    }

    fn patience(&self) -> Duration {
        match self.when_full {
            WhenFull::Drop => Duration::ZERO,
            WhenFull::Wait => Duration::from_millis(200),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn messages_without_room_are_counted_or_wait() {
        let (mailbox, counts, stop) = (Mailbox::default(), FeedCounts::default(), Arc::new(StopSignal::default()));
        let mut queue = ArrivalQueue {
            feed: "f",
            mailbox: &mailbox,
            bytes_max: 300,
            when_full: WhenFull::Drop,
            counts: &counts,
            stop: &stop,
            log_limit: LogRateLimit::default(),
        };
        // One that begins below the limit is taken whole: the limit is exceeded by one message at most.
        for _ in 0..5 {
            assert!(queue.put(Arrival::now(vec![0; 100])));
        }
        assert_eq!((counts.messages.get(), counts.dropped.get(), mailbox.bytes()), (5, 3, 456));
        queue.when_full = WhenFull::Wait;
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.put(Arrival::now(vec![0; 100])));
            let arrivals = mailbox.take(Duration::from_secs(60)).unwrap();
            arrivals.iter().for_each(|arrival| mailbox.release(arrival.bytes()));
            assert!(waits.join().unwrap());
        });
        assert_eq!((counts.dropped.get(), mailbox.bytes()), (3, 228));
        queue.bytes_max = 100;
        stop.set();
        assert!(!queue.put(Arrival::now(vec![0; 100])));
        assert_eq!(counts.dropped.get(), 4);
    }
}
