//! A log and its thread, which writes the waiting records together and syncs them once for all callers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::append::ChainWriter;
use super::event::AuditEvent;
use super::queue::{AuditQueue, QueuedEvent};
use super::seal::AuditKey;
use super::{AuditClock, AuditSettings, AuditStatus, RecordFailure};
use crate::error::{Error, Result};
use crate::storage::Storage;

/// Bytes of events that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// How often the head is written, and records without a waiting caller are synced.
const HEAD_INTERVAL: Duration = Duration::from_secs(1);

/// Is called with the number of a record once it is durable, or with the reason why it isn't. Runs on the log's thread, or on the thread that
/// records.
pub type RecordCallback = Box<dyn FnOnce(Result<u64, RecordFailure>) + Send>;

/// A log that is written.
#[derive(Debug)]
pub struct AuditLog {
    shared: Arc<LogState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct LogState {
    queue: AuditQueue,
    status: Mutex<AuditStatus>,
}

impl LogState {
    fn status(&self) -> MutexGuard<'_, AuditStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditLog {
    /// Goes on with the log in a folder, or begins one.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process writes there; [`Error::Io`].
    pub fn open(
        storage: Arc<dyn Storage>,
        settings: AuditSettings,
        key: Option<AuditKey>,
        clock: AuditClock,
    ) -> Result<AuditLog> {
        let chain = ChainWriter::open(storage, settings, key, clock())?;
        let shared = Arc::<LogState>::default();
        shared.status().last = chain.last();
        let mut thread = LogThread { chain, shared: Arc::clone(&shared), clock, lost: 0, failed: None };
        thread.tell();
        let spawned = std::thread::Builder::new().name("splay-audit".to_owned()).spawn(move || thread.run());
        let spawned = spawned.map_err(Error::io("start a thread for", "the audit log"))?;
        Ok(AuditLog { shared, thread: Mutex::new(Some(spawned)) })
    }

    /// Hands an event over, and doesn't wait: an event for which there is no room is lost, and counted.
    pub fn record(&self, event: AuditEvent, done: Option<RecordCallback>) {
        self.record_within(event, done, Duration::ZERO);
    }

    /// Like `record`, but waits for room in the queue for at most `patience`.
    pub fn record_within(&self, event: AuditEvent, done: Option<RecordCallback>, patience: Duration) {
        let waiting = QueuedEvent { event: event.truncated(), done };
        if let Err((lost, done)) = self.shared.queue.push(waiting, patience) {
            self.shared.status().lost += 1;
            if let Some(done) = done {
                done(Err(lost));
            }
        }
    }

    /// The log's status.
    #[must_use]
    pub fn status(&self) -> AuditStatus {
        let waiting_bytes = self.shared.queue.bytes() as u64;
        AuditStatus { waiting_bytes, ..self.shared.status().clone() }
    }

    /// Writes what waits, and ends. Done again it does nothing.
    pub fn close(&self) {
        self.shared.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread of the audit log has failed");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.close();
    }
}

struct LogThread {
    chain: ChainWriter,
    shared: Arc<LogState>,
    clock: AuditClock,
    /// Records that were lost and that no record tells of.
    lost: u64,
    /// Why nothing is written any more.
    failed: Option<Arc<str>>,
}

impl Drop for LogThread {
    /// Nobody waits for a thread that isn't there.
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl LogThread {
    fn run(&mut self) {
        let mut headed = Instant::now();
        loop {
            let (mut events, is_closed) = self.shared.queue.take(HEAD_INTERVAL);
            while !events.is_empty() {
                let rest = events.split_off(part(&events));
                self.write(events);
                events = rest;
            }
            if is_closed || headed.elapsed() >= HEAD_INTERVAL {
                self.write_head();
                headed = Instant::now();
            }
            if is_closed {
                return;
            }
        }
    }

    fn write(&mut self, waiting: Vec<QueuedEvent>) {
        let now = (self.clock)();
        let count = waiting.len() as u64;
        let (mut events, mut dones) = (Vec::with_capacity(waiting.len() + 1), Vec::with_capacity(waiting.len()));
        if self.lost > 0 {
            let about = format!("{} records before this one couldn't be written", self.lost);
            events.push(AuditEvent { about, ..AuditEvent::new("lost", now) });
        }
        for one in waiting {
            events.push(one.event);
            dones.push(one.done);
        }
        let is_waited_for = dones.iter().any(Option::is_some);
        let written = self.try_write(&events, is_waited_for, now);
        let first = self.chain.last().saturating_add(1).saturating_sub(count);
        match &written {
            Ok(()) => {
                self.lost = 0;
                self.shared.status().records += count;
            }
            Err(_) => {
                self.lost += count;
                self.shared.status().lost += count;
            }
        }
        self.tell();
        for (number, done) in dones.into_iter().enumerate() {
            if let Some(done) = done {
                done(
                    written.clone().map(|()| first + number as u64).map_err(|reason| RecordFailure::Failed { reason }),
                );
            }
        }
    }

    fn try_write(&mut self, events: &[AuditEvent], is_waited_for: bool, now: i64) -> Result<(), Arc<str>> {
        if let Some(reason) = &self.failed {
            return Err(Arc::clone(reason));
        }
        let appended = self.chain.append(events, now);
        let written = appended.and_then(|()| if is_waited_for { self.chain.sync() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.shared.status().error = None;
                Ok(())
            }
            Err(error) => Err(self.note(&error)),
        }
    }

    fn write_head(&mut self) {
        if self.failed.is_some() {
            return;
        }
        let now = (self.clock)();
        if let Err(error) = self.chain.write_head(now) {
            self.note(&error);
        }
        self.tell();
    }

    /// Records a failure in the status. If it left unknown what is on disk, the log ends here.
    fn note(&mut self, error: &Error) -> Arc<str> {
        let reason: Arc<str> = error.to_string().into();
        if error.leaves_disk_unknown() {
            self.failed = Some(Arc::clone(&reason));
        }
        let mut status = self.shared.status();
        if status.error.is_none() {
            tracing::error!(%reason, "the audit log can't be written");
        }
        status.error = Some(reason.to_string());
        status.is_failed = self.failed.is_some();
        reason
    }

    fn tell(&mut self) {
        let mut status = self.shared.status();
        status.last = self.chain.last();
        status.file_bytes = self.chain.file_bytes();
    }
}

/// How many of these events are written at once.
fn part(events: &[QueuedEvent]) -> usize {
    let mut bytes = 0;
    let fits = |waiting: &&QueuedEvent| {
        bytes += waiting.event.bytes();
        bytes <= WRITE_BYTES
    };
    events.iter().take_while(fits).count().max(1)
}
