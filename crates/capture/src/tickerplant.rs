//! The tickerplant: takes batches, numbers them, writes them to the journal, makes them visible, and acknowledges
//! them.
//!
//! One thread writes the journal, by group commit. It takes all waiting batches as a group, removes duplicates, and
//! writes the group with one write. Its rows become visible and go to subscribers, and `memory` and `process` are
//! acknowledged. If a sender asked for `disk`, the file is synced, and `disk` is acknowledged. During the sync the
//! next group gathers, so throughput doesn't depend on the time of a sync.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use splay_store::priority;

use crate::append::{Ack, AckClass};
use crate::dedupe::Deduplicator;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::journal::{JournalWriter, Producers, RowsToWrite};
use crate::live::Tail;
use crate::measure::UnsyncedBatches;
use crate::queue::{AckCallback, BatchQueue, PendingBatch};
use crate::receipt::Receipt;
use crate::replica::Replicas;
use crate::retransmit_guard::RetransmitGuard;
use crate::status::Counters;
use crate::subscribers::Subscribers;

/// Bytes of a group.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Longest time between syncs while a follower asks for what is synced.
const FOLLOWED_SYNC_INTERVAL: Duration = Duration::from_millis(10);

/// The state of the journal's thread.
pub(crate) struct Tickerplant {
    pub(crate) queue: Arc<BatchQueue>,
    pub(crate) journal: Arc<Mutex<JournalWriter>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) receipt: Arc<Receipt>,
    /// The last receive time in the journal.
    pub(crate) received: i64,
    /// Locked while a group is written, so that who reads a number finds it in the journal.
    pub(crate) producers: Arc<Mutex<Producers>>,
    pub(crate) producers_max: usize,
    /// Nanoseconds for which a silent producer is remembered.
    pub(crate) producer_memory: i64,
    pub(crate) next_sequence: u64,
    pub(crate) sync_interval: Duration,
    pub(crate) unsynced: UnsyncedBatches,
    /// Producers that were asked to send messages again.
    pub(crate) retransmit_guard: Arc<Mutex<RetransmitGuard>>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) dedupe: Deduplicator,
    /// Followers, for whom some batches wait.
    pub(crate) replicas: Arc<Replicas>,
}

/// An acknowledgement that is due.
struct DueAck {
    class: AckClass,
    ack: Ack,
    done: Option<AckCallback>,
}

impl Tickerplant {
    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        priority::capture();
        let mut sync_due: Option<Instant> = None;
        while let Some(group) = self.queue.take(GROUP_BYTES_MAX, self.until(sync_due)) {
            self.replicas.expire();
            if !group.is_empty() {
                self.group(group);
            }
            let is_behind = self.journal().is_behind();
            sync_due = match sync_due {
                _ if !is_behind => {
                    self.note_durable();
                    None
                }
                Some(due) if Instant::now() < due => Some(due),
                Some(_) => {
                    self.sync().ok();
                    None
                }
                None => Some(Instant::now() + self.sync_interval()),
            };
        }
        self.sync().ok();
        self.replicas.close(&self.queue.closed().unwrap_or(Error::Closed));
    }

    /// Until when the thread waits for the next group.
    fn until(&self, sync_due: Option<Instant>) -> Option<Instant> {
        sync_due.into_iter().chain(self.replicas.next_expiry()).min()
    }

    /// Followers get what is synced.
    fn sync_interval(&self) -> Duration {
        if self.replicas.are_there() { self.sync_interval.min(FOLLOWED_SYNC_INTERVAL) } else { self.sync_interval }
    }

    /// Takes a group in.
    fn group(&mut self, group: Vec<Vec<PendingBatch>>) {
        let first_sequence = self.next_sequence;
        let producers = Arc::clone(&self.producers);
        let mut producers = producers.lock().unwrap_or_else(PoisonError::into_inner);
        // Before any producer's number rises: a file begins with the numbers of what was kept.
        let begun = self.journal().next_file_if_full(first_sequence, &producers);
        let (mut fresh, mut due) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        let mut risen: Vec<(String, Option<(u64, i64)>)> = Vec::new();
        self.dedupe.begin(&group);
        for mut together in group {
            if let Some(waiting) = together.iter().find(|waiting| self.is_one_too_many(&mut producers, waiting)) {
                let reason = format!("there are {} producers already", self.producers_max);
                let error = Error::rejected(&waiting.spec.name, reason);
                self.refuse(together, &error);
                continue;
            }
            if let Some(reason) = self.waits_for(&producers, &together) {
                for done in together.into_iter().filter_map(|waiting| waiting.done) {
                    done(Err(Error::Full { reason: reason.clone() }));
                }
                continue;
            }
            let is_repeat = together.iter().any(|waiting| is_repeat(&producers, waiting));
            if let Some(error) =
                together.iter().find_map(|waiting| out_of_turn(&producers, waiting)).filter(|_| !is_repeat)
            {
                self.refuse(together, &error);
                continue;
            }
            let duplicate_rows = match is_repeat {
                true => 0,
                false => match self.dedupe.leave_out(&mut together) {
                    Ok(left_out) => left_out,
                    Err(error) => {
                        self.refuse(together, &error);
                        continue;
                    }
                },
            };
            for mut waiting in together {
                let (class, done) = (waiting.class, waiting.done.take());
                // The last of a message counts the rows of all.
                let duplicate_rows = if waiting.is_joined { 0 } else { duplicate_rows };
                let (rows, quarantined) = (waiting.counted.saturating_sub(duplicate_rows), waiting.quarantined);
                let sequence = if is_repeat { self.next_sequence.saturating_sub(1) } else { self.next_sequence };
                let ack = Ack { sequence, class, rows, duplicate: is_repeat, quarantined, duplicate_rows };
                due.push(DueAck { class, ack, done });
                if !is_repeat {
                    // Senders overtake each other between the clock and here.
                    self.received = self.received.max(waiting.received);
                    waiting.received = self.received;
                    if let Some(producer) = &waiting.producer {
                        let before = producers.insert(producer.name.clone(), (producer.sequence, waiting.received));
                        risen.push((producer.name.clone(), before));
                    }
                    self.next_sequence += 1;
                    fresh.push((sequence, waiting));
                }
            }
        }
        if let Err(error) = begun.and_then(|()| self.write(&fresh)) {
            let is_full = matches!(error, Error::Full { .. });
            let error = if is_full { self.disk.disk_full_error(error) } else { error };
            // Nothing of the group was kept: it never was.
            self.next_sequence = first_sequence;
            self.dedupe.not_written();
            for (name, before) in risen.into_iter().rev() {
                match before {
                    Some(before) => producers.insert(name, before),
                    None => producers.remove(&name),
                };
            }
            drop(producers);
            fresh
                .iter()
                .filter_map(|(_, waiting)| waiting.producer.as_ref())
                .for_each(|producer| self.retransmit_guard().turn_away(producer));
            if is_full {
                self.disk.count_refused(fresh.len() as u64);
            }
            if matches!(error, Error::Failed { .. }) {
                self.queue.close(error.clone());
            }
            for due in due {
                self.answer(due, Err(error.clone()));
            }
            return;
        }
        drop(producers);
        self.dedupe.written();
        if !fresh.is_empty() {
            self.disk.took();
        }
        let mut published = Vec::with_capacity(fresh.len());
        // Readers see the parts of a message in one table all at once.
        for of_table in fresh.chunk_by(|(_, one), (_, other)| Arc::ptr_eq(&one.live, &other.live)) {
            of_table[0].1.live.push(of_table.iter().map(|(sequence, waiting)| Tail {
                sequence: *sequence,
                received: waiting.received,
                rows: waiting.rows.clone(),
                bytes: waiting.live_bytes,
                times: waiting.times,
            }));
            for (sequence, waiting) in of_table {
                self.counters.batches.add(1);
                self.counters.rows.add(waiting.rows.num_rows() as u64);
                self.counters.quarantined.add(waiting.quarantined);
                published.push((
                    Arc::clone(&waiting.live),
                    Arc::clone(&waiting.spec),
                    waiting.rows.clone(),
                    (waiting.received, waiting.clock),
                ));
                // Behind the push: who registers or loses this batch from here on finds it in a snapshot that is taken then.
                self.subscribers.publish(&waiting.spec.name, *sequence, &waiting.rows);
            }
        }
        drop(fresh);
        self.counters.sequence.set(self.next_sequence - 1);
        let visible = self.receipt.now();
        let (disk, now): (Vec<DueAck>, Vec<DueAck>) = due.into_iter().partition(|due| due.class >= AckClass::Disk);
        for due in now {
            self.answer(due, Ok(()));
        }
        for (live, _, rows, (received, _)) in &published {
            let rows = rows.num_rows() as u64;
            live.meter().visible.note(visible.saturating_sub(*received), rows);
            self.unsynced.push(live.meter(), *received, rows);
        }
        if !disk.is_empty() {
            let synced = self.sync();
            for due in disk {
                match &synced {
                    Ok(()) if due.class == AckClass::Replica => self.await_followers(due),
                    synced => self.answer(due, synced.clone()),
                }
            }
        }
        // Nobody waits for this.
        for (live, spec, rows, (_, clock)) in published {
            live.meter().look(&spec, &rows, clock);
        }
    }

    /// All that was written is on disk.
    fn note_durable(&mut self) {
        if !self.unsynced.is_empty() {
            self.unsynced.synced(self.receipt.now());
        }
    }

    /// Whether a batch's producer is new and finds no room, also after those were forgotten who have long been silent.
    fn is_one_too_many(&self, producers: &mut Producers, waiting: &PendingBatch) -> bool {
        let Some(producer) = &waiting.producer else { return false };
        if producers.len() < self.producers_max || producers.contains_key(&producer.name) {
            return false;
        }
        let silent_since = waiting.received.saturating_sub(self.producer_memory);
        producers.retain(|_, (_, at)| *at > silent_since);
        producers.len() >= self.producers_max
    }

    /// Why a message has to come again before it is looked at: one of its producer with a lower number has to come first.
    fn waits_for(&self, producers: &Producers, together: &[PendingBatch]) -> Option<String> {
        let producer = together.iter().find_map(|waiting| waiting.producer.as_ref())?;
        let last = producers.get(&producer.name).map(|(last, _)| *last);
        let missing = self.retransmit_guard().missing_before(producer, last)?;
        Some(format!("number {missing} of producer {:?} found none before and has to come first", producer.name))
    }

    /// Refuses a message that isn't written.
    fn refuse(&self, together: Vec<PendingBatch>, error: &Error) {
        for waiting in together {
            match (&waiting.producer, error) {
                // Or a later one is taken first, and this one for a repeat when it comes again.
                (Some(producer), Error::Full { .. }) => self.retransmit_guard().turn_away(producer),
                (Some(producer), Error::Rejected { .. }) => self.retransmit_guard().forget(producer),
                _ => {}
            }
            if let Some(done) = waiting.done {
                done(Err(error.clone()));
            }
        }
    }

    fn write(&mut self, fresh: &[(u64, PendingBatch)]) -> Result<()> {
        let entries: Vec<RowsToWrite<'_>> = fresh
            .iter()
            .map(|(sequence, waiting)| RowsToWrite {
                spec: &waiting.spec,
                sequence: *sequence,
                received: waiting.received,
                times: waiting.times,
                producer: waiting.producer.as_ref().map_or(("", 0), |p| (p.name.as_str(), p.sequence)),
                is_joined: waiting.is_joined,
                rows: &waiting.bytes,
            })
            .collect();
        let mut journal = self.journal();
        journal.write(&entries)?;
        self.counters.groups.add(1);
        self.counters.journal_bytes.set(journal.bytes());
        Ok(())
    }

    fn journal(&self) -> MutexGuard<'_, JournalWriter> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retransmit_guard(&self) -> MutexGuard<'_, RetransmitGuard> {
        self.retransmit_guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&mut self) -> Result<()> {
        let mut journal = self.journal();
        let synced = journal.sync();
        self.counters.journal_bytes.set(journal.bytes());
        drop(journal);
        match &synced {
            Ok(()) => {
                self.counters.syncs.add(1);
                self.note_durable();
            }
            Err(error) => self.queue.close(error.clone()),
        }
        synced
    }

    /// Answers once followers have what is synced.
    fn await_followers(&self, mut due: DueAck) {
        let Some(done) = due.done.take() else { return };
        let ack = due.ack;
        self.answer(due, Ok(()));
        let position = self.replicas.durable();
        self.replicas.wait(position, Box::new(move |confirmed| done(confirmed.map(|()| ack))));
    }

    fn answer(&self, due: DueAck, result: Result<()>) {
        if due.ack.duplicate {
            self.counters.duplicates.add(1);
        }
        if let Some(done) = due.done {
            done(result.map(|()| due.ack));
        }
    }
}

/// Whether a batch was accepted before. Its acknowledgement follows that of the first, because batches are processed in
/// order.
fn is_repeat(producers: &Producers, waiting: &PendingBatch) -> bool {
    let Some(producer) = &waiting.producer else { return false };
    producers.get(&producer.name).is_some_and(|(last, _)| producer.sequence <= *last)
}

/// Why a batch that isn't a repeat may not be taken: it says what it follows on, and something else came last.
fn out_of_turn(producers: &Producers, waiting: &PendingBatch) -> Option<Error> {
    let producer = waiting.producer.as_ref()?;
    let last = producers.get(&producer.name).map(|(last, _)| *last);
    producer.is_out_of_turn(last).then(|| Error::OutOfTurn {
        producer: producer.name.clone(),
        previous: producer.previous.unwrap_or(0),
        last: last.unwrap_or(0),
    })
}
