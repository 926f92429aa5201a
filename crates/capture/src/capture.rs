//! Capture of a database: accepts rows, acknowledges them, reports its state, and closes in order.

mod leader;
mod open;
mod quarantine;
mod tables;
mod write_down;

use std::sync::{Arc, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use splay_store::{Database, TableSpec};

use crate::append::{Ack, AckClass, Append, Producer};
use crate::capture_state::CaptureState;
use crate::clock::seconds;
use crate::conform::conform;
use crate::error::{Error, Result};
use crate::journal::{self, JournalLoss, JournalWriter};
use crate::live::LiveTable;
use crate::queue::{AckCallback, PendingBatch};
use crate::receipt::ClockReading;
use crate::refusals::RefusedInput;
use crate::replica::ReplicaState;
use crate::settings::CaptureSettings;
use crate::status::{DedupeStatus, Status, TableStatus};
use crate::{report, size_estimate};
use quarantine::split_ahead;

/// One process's capture of a database. Clones share it.
#[derive(Debug, Clone)]
pub struct Capture {
    pub(crate) shared: Arc<CaptureState>,
}

impl Capture {
    /// The database. Snapshots of it have the live rows, too.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.shared.database
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &CaptureSettings {
        &self.shared.settings
    }

    /// Takes rows and waits for the requested acknowledgement.
    ///
    /// # Errors
    /// [`Error::Full`] where sending again helps; [`Error::Rejected`] and [`Error::NoSuchTable`] where it doesn't;
    /// [`Error::Closed`] and [`Error::Failed`] if nothing is taken any more. After an error no row of the batch is there, but for
    /// `Failed`, where only the next start knows.
    pub fn append(&self, append: Append) -> Result<Ack> {
        self.append_together(vec![append])
    }

    /// Takes rows for one or several tables, all of them or none, and waits: see [`Capture::submit_together`].
    ///
    /// # Errors
    /// As [`Capture::submit_together`].
    pub fn append_together(&self, appends: Vec<Append>) -> Result<Ack> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.submit_together(appends, move |result| drop(sender.send(result)))?;
        receiver.recv().unwrap_or(Err(Error::Closed))
    }

    /// Takes rows; another thread calls `done` at the requested acknowledgement. Waits only while the queue is full.
    ///
    /// # Errors
    /// As [`Capture::append`]; `done` isn't called then.
    pub fn submit(&self, append: Append, done: impl FnOnce(Result<Ack>) + Send + 'static) -> Result<()> {
        self.submit_together(vec![append], done)
    }

    /// Accepts rows for one or several tables atomically: after any failure, a start finds all of them or none. `done`
    /// is told once, of the rows of all. Of the appends one may name a producer, and the last says what the
    /// acknowledgement shall mean.
    ///
    /// # Errors
    /// As [`Capture::append`], also if the rows would make more tables or columns at once than `new_tables_max` and
    /// `new_columns_max` say; `done` isn't called then.
    pub fn submit_together(
        &self,
        mut appends: Vec<Append>,
        done: impl FnOnce(Result<Ack>) + Send + 'static,
    ) -> Result<()> {
        let shared = &self.shared;
        shared.check()?;
        let Some(last) = appends.last() else { return Err(Error::rejected("", "there are no rows")) };
        let class = last.ack.unwrap_or(shared.settings.default_ack);
        let producer = appends.iter_mut().find_map(|append| append.producer.take());
        let number = producer.clone();
        let submitted = self.submit_of(appends, producer, class, Box::new(done));
        match (&submitted, &number) {
            // Or a later one of this producer finds room, and this one is taken for a repeat when it comes again.
            (Err(Error::Full { .. } | Error::Unreplicated { .. }), Some(number)) => {
                shared.retransmit_guard().turn_away(number)
            }
            (Err(Error::Rejected { .. } | Error::NoSuchTable { .. }), Some(number)) => {
                shared.retransmit_guard().forget(number)
            }
            _ => {}
        }
        submitted
    }

    fn submit_of(
        &self,
        mut appends: Vec<Append>,
        producer: Option<Producer>,
        class: AckClass,
        done: AckCallback,
    ) -> Result<()> {
        let shared = &self.shared;
        if producer.as_ref().is_some_and(|p| p.name.is_empty() || p.name.len() > journal::PRODUCER_BYTES_MAX) {
            return Err(Error::rejected(&appends[0].table, "the name of a producer has 1 to 256 bytes"));
        }
        shared.check_room()?;
        if class == AckClass::Replica {
            shared.replicas.check()?;
        }
        // Until the rows are in the queue their tables keep their names.
        let _names = shared.table_names.read().unwrap_or_else(PoisonError::into_inner);
        // Parts of one table follow each other, in their order.
        appends.sort_by_key(|append| append.table.to_lowercase());
        let (live_tables, mut new_tables) = self.live_tables_for(&appends)?;
        let reading = shared.receipt.read();
        // By the clock as read: one that was ahead by mistake leaves receive times ahead, which say nothing of the time of rows.
        let latest = reading.clock.saturating_add(seconds(shared.settings.future_s));
        let (mut near, mut far) = (Vec::with_capacity(appends.len()), Vec::new());
        let (mut count, mut quarantined) = (0, 0);
        for (append, live) in appends.into_iter().zip(live_tables) {
            let spec = live.spec();
            shared.check_length(&spec.name, size_estimate::bytes(&spec, &append.rows))?;
            let rows = conform(&spec, &append.rows)?;
            let (rows, ahead) = split_ahead(&spec, &rows, latest)?;
            count += rows.num_rows() as u64;
            if let Some(ahead) = ahead {
                quarantined += ahead.num_rows() as u64;
                let quarantine = self.quarantine(&spec, &mut new_tables)?;
                let ahead = conform(&quarantine.spec(), &ahead)?;
                far.push(self.waiting(quarantine, &ahead, reading, class)?);
            }
            near.push(self.waiting(live, &rows, reading, class)?);
        }
        if quarantined > 0 {
            tracing::warn!(rows = quarantined, "rows are too far ahead of the clock and go to quarantine");
        }
        // The rows for the quarantine count only together with the rest of the message.
        let mut together = far;
        together.append(&mut near);
        if let Some((last, others)) = together.split_last_mut() {
            others.iter_mut().for_each(|other| other.is_joined = true);
            (last.counted, last.quarantined, last.producer) = (count + quarantined, quarantined, producer);
            last.done = Some(done);
        }
        shared.queue.push(together, shared.settings.queue_bytes_max)
    }

    fn waiting(
        &self,
        live: Arc<LiveTable>,
        rows: &RecordBatch,
        reading: ClockReading,
        class: AckClass,
    ) -> Result<PendingBatch> {
        let mut waiting = PendingBatch::new(live, rows, reading, class);
        let in_memory = usize::try_from(waiting.live_bytes).unwrap_or(usize::MAX);
        self.shared.check_length(&waiting.spec.name, in_memory)?;
        waiting.digests = self.shared.dedupe.digests(&waiting.spec, &waiting.rows)?;
        Ok(waiting)
    }

    /// The definition of a table; `None` if there is none.
    ///
    /// # Errors
    /// Those of the store.
    pub fn spec(&self, table: &str) -> Result<Option<Arc<TableSpec>>> {
        Ok(self.live(table)?.map(|live| live.spec()))
    }

    /// Number of the newest batch that readers see.
    pub(crate) fn sequence(&self) -> u64 {
        self.shared.counters.sequence.get()
    }

    /// The batches after a number, read from the journal up to its present end.
    ///
    /// # Errors
    /// [`Error::Gone`] if the journal no longer has them all.
    pub(crate) fn journal_behind(&self, table: &str, after: u64) -> Result<journal::JournalCursor> {
        let files = self.journal().files();
        let left_out = &self.shared.numbers_left_out;
        let oldest = files.first().map_or(0, |file| file.first);
        let oldest = if oldest == left_out.end { left_out.start } else { oldest };
        let next = after.saturating_add(1);
        if next < oldest {
            return Err(Error::Gone { table: table.to_owned(), after, oldest });
        }
        Ok(journal::JournalCursor::new(self.shared.database.raw_storage(), &files, after))
    }

    /// The state of replication, if the database has ever had a follower.
    pub(crate) fn replica(&self) -> MutexGuard<'_, Option<ReplicaState>> {
        self.shared.replica.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, JournalWriter> {
        self.shared.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time for rows without one, in nanoseconds since the epoch: the receive time, or the clock's time if receive times are so far
    /// ahead of the clock that the rows would go to quarantine.
    #[must_use]
    pub fn row_time(&self) -> i64 {
        let ClockReading { clock, received } = self.shared.receipt.read();
        let is_far = received.saturating_sub(clock) > seconds(self.shared.settings.future_s);
        if is_far { clock } else { received }
    }

    /// Whether capture has failed and takes nothing more.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.shared.failed().is_some()
    }

    /// Losses of the journal that the operator hasn't accepted. They don't change while capture is open.
    #[must_use]
    pub fn journal_losses(&self) -> &[JournalLoss] {
        &self.shared.losses
    }

    /// Whether rows are refused for lack of disk space, or the last batch found no room in the journal.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.shared.disk.is_full()
    }

    /// Why rows are refused for lack of room on the disk, if they are.
    #[must_use]
    pub fn full_reason(&self) -> Option<String> {
        self.is_full().then(|| self.shared.disk.reason())
    }

    /// Counters and state, for operators.
    #[must_use]
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let counters = &shared.counters;
        let mut tables: Vec<TableStatus> = shared.all_live().iter().map(|live| shared.table_status(live)).collect();
        let producers_lock = shared.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let (producers, producers_latest) = report::latest(&producers_lock);
        drop(producers_lock);
        tables.sort_by(|one, other| one.table.cmp(&other.table));
        let sum = |of: fn(&DedupeStatus) -> u64| tables.iter().filter_map(|table| table.dedupe.as_ref()).map(of).sum();
        Status {
            duplicate_rows: sum(|dedupe| dedupe.duplicate_rows),
            uncompared_rows: sum(|dedupe| dedupe.uncompared_rows),
            tables,
            sequence: counters.sequence.get(),
            batches: counters.batches.get(),
            rows: counters.rows.get(),
            duplicates: counters.duplicates.get(),
            quarantined: counters.quarantined.get(),
            rejected: counters.rejected.get(),
            journal_bytes: counters.journal_bytes.get(),
            groups: counters.groups.get(),
            syncs: counters.syncs.get(),
            queue_bytes: shared.queue.bytes() as u64,
            write_downs: counters.write_downs.get(),
            write_downs_failed: counters.write_downs_failed.get(),
            subscribers: shared.subscribers.count(),
            subscriber_lags: shared.subscribers.status(),
            producers,
            producers_latest,
            full: self.is_full(),
            journal_losses: shared.losses.clone(),
            disk: shared.disk.status(),
            clock: shared.receipt.status(),
            failed: shared.failed().map(|error| error.to_string()),
        }
    }

    /// The number of the last batch of a producer that was taken, so that it knows where to go on; `None` if it is not known.
    /// That batch is on disk when this returns.
    ///
    /// # Errors
    /// [`Error::Failed`] if the journal can't be synced.
    pub fn last_of(&self, producer: &str) -> Result<Option<u64>> {
        let producers = self.shared.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let last = producers.get(producer).map(|(last, _)| *last);
        // A number that the next power cut takes back would make the producer pass over rows that are lost.
        let synced = if last.is_some() { self.journal().sync() } else { Ok(()) };
        drop(producers);
        if let Err(Error::Failed { reason }) = &synced {
            self.shared.fail(reason.clone());
        }
        synced.map(|()| last)
    }

    /// Notes that a producer's batch was turned away before it came here, and comes again: later ones wait for it.
    pub fn turn_away(&self, producer: &Producer) {
        self.shared.retransmit_guard().turn_away(producer);
    }

    /// A producer gives up its numbers up to one that found no room: later ones wait for them no longer, and they count as repeats once a later
    /// one is stored. Gives whether any were waited for.
    #[must_use]
    pub fn give_up(&self, producer: &str, through: u64) -> bool {
        self.shared.retransmit_guard().settle(producer, through)
    }

    /// Notes that something that came by `way` was refused: counts it, and writes it to the log of refusals soon.
    pub fn reject(&self, way: &'static str, reason: impl Into<String>, message: &[u8]) {
        let reason = reason.into();
        tracing::debug!(way, %reason, "refused");
        self.shared.counters.rejected.add(1);
        self.shared.refusals.note(self.shared.clock.now(), way, &reason, message);
    }

    /// Counts further refusals whose input isn't stored.
    pub fn reject_more(&self, way: &'static str, count: u64) {
        self.shared.counters.rejected.add(count);
        let reason = format!("{count} more were refused at once");
        self.shared.refusals.note(self.shared.clock.now(), way, &reason, b"");
    }

    /// The newest refusals, oldest first.
    #[must_use]
    pub fn rejected(&self) -> Vec<RefusedInput> {
        self.shared.refusals.newest()
    }

    /// Takes nothing more, syncs the journal and ends the threads. Live rows stay in the journal, and are back after the next
    /// start. Called twice it does nothing.
    ///
    /// # Errors
    /// [`Error::Failed`] if the journal had failed.
    pub fn close(&self) -> Result<()> {
        self.shared.queue.close(Error::Closed);
        self.shared.maintenance.stop();
        self.shared.layer_compaction.stop();
        let threads = std::mem::take(&mut *self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            drop(thread.join());
        }
        if let Err(error) = self.journal().close() {
            tracing::warn!(%error, "the journal's catalog doesn't say that capture ended in good order");
        }
        self.shared.subscribers.close();
        self.shared.database.capture(None);
        if let Some(followed) = self.shared.followed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.shared.database.follow(Some(followed));
        }
        for live in self.tables().values() {
            live.table().attach(None);
        }
        for (table, _) in self.shared.database.damaged() {
            if let Ok(table) = self.shared.database.table(&table) {
                table.withhold(None);
            }
        }
        drop(self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        match self.shared.failed() {
            Some(error @ Error::Failed { .. }) => Err(error),
            _ => Ok(()),
        }
    }
}
