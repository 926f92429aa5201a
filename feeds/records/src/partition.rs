//! Sends the records of one sequence, a partition or a feed, to the server in batches.
//!
//! These hold at any time, whatever fails and whenever the process is killed:
//!
//! - `position` is the number of the producer's last message that the server is known to have. All records before it are stored or are
//!   dead letters; the server stores it with the rows.
//! - A message has the records from `position` up to its own number, and names both numbers. The server takes it only if its last message
//!   has the number `position`. So each record is in exactly one message that the server takes, whoever else sends, and however batches
//!   are cut after a start.
//! - If its answer is lost, a message is sent again unchanged. The server recognises a repeat by its number, and has its rows.
//! - A record that is no row is a dead letter before a message with a higher number is sent.
//!
//! [`Feed::unsent`] returns the records that weren't sent when a feed has to restart, for sources that can't be read again.
//!
//! If the server refuses rows, the message is cut in halves until the record that doesn't fit is alone.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use crate::dead_letters::{DeadLetter, DeadLetters};
use crate::decode::{Decode, DecodeFailure, Record};
use crate::mailbox::OwnedRecord;
use crate::metrics::Counts;
use crate::server::{QueryFailure, Reply, RowsMessage, Sink};
use crate::settings::{BatchSettings, OnError};

/// The first and the longest pause before a call is made again.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// Why a partition's feed ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedEnd {
    /// The server has another position, or the table other columns, than the feed assumed. The feed has to begin again at the server's position.
    Restart(String),
    /// The process ends.
    Stopped,
    /// A person has to do something.
    Failed(String),
}

/// The fixed settings of a partition's feed.
#[derive(Debug)]
pub struct Partition<'a> {
    /// The table.
    pub table: &'a str,
    /// The topic, or the feed.
    pub topic: &'a str,
    /// The partition's number, where there are such.
    pub partition: Option<i32>,
    /// The name under which the server keeps its position.
    pub producer: &'a str,
    /// Limits of a batch.
    pub batch: BatchSettings,
    /// The treatment of bad records.
    pub on_error: OnError,
    /// Consecutive bad records that the feed skips; one more ends it.
    pub in_a_row_max: u64,
}

impl Partition<'_> {
    /// The origin of records, for messages.
    fn place(&self) -> String {
        match self.partition {
            Some(partition) => format!("partition {partition} of topic {:?}", self.topic),
            None => format!("feed {:?}", self.topic),
        }
    }
}

/// A record whose rows are in the buffer, with the ends of its rows, its payload and its key there.
#[derive(Debug, Clone, Copy)]
struct BufferedRecord {
    offset: u64,
    time_ns: Option<i128>,
    rows_end: usize,
    payload_end: usize,
    key_end: usize,
}

/// The feed of a partition.
pub struct Feed<'a, S, D: ?Sized, R> {
    partition: Partition<'a>,
    sink: &'a S,
    dead: &'a D,
    counts: &'a Counts,
    decoder: R,
    /// The number of the last message that the server has; 0 for none.
    position: u64,
    /// The offset after the last record that was taken.
    next: u64,
    buffered: Vec<BufferedRecord>,
    /// Payloads of the buffered records, in case they become dead letters or are given back, and their keys.
    payloads: Vec<u8>,
    keys: Vec<u8>,
    /// The arrival of the first record that waits: its row is to be sent, or the position after a dead letter.
    since: Option<Instant>,
    /// Records that couldn't be decoded since the last one that gave a row.
    undecodable_in_a_row: u64,
    /// Records that the server has refused since it took the last row.
    refused_in_a_row: u64,
    /// Records that a flush couldn't send, and the one after them that was to be taken.
    unsent: Vec<OwnedRecord>,
}

/// A step at which a record turns out to be no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailedStep {
    /// The record can't be decoded. Records before it may still be in the buffer.
    Decoding,
    /// The server refuses its rows. All records before it were sent.
    Storing,
}

/// Consecutive records of a batch, and the number of the message that sends them.
#[derive(Debug, Clone, Copy)]
struct BatchPart {
    first: usize,
    end: usize,
    sequence: u64,
}

/// A batch on its way.
struct PendingBatch {
    rows: RecordBatch,
    buffered: Vec<BufferedRecord>,
    payloads: Vec<u8>,
    keys: Vec<u8>,
}

impl PendingBatch {
    fn rows_of(&self, part: BatchPart) -> RecordBatch {
        let start = self.rows_before(part.first);
        self.rows.slice(start, self.rows_before(part.end) - start)
    }

    fn rows_before(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |last| self.buffered[last].rows_end)
    }

    fn payload(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |last| self.buffered[last].payload_end);
        &self.payloads[start..self.buffered[place].payload_end]
    }

    /// The key of a record; an empty one counts as none.
    fn key(&self, place: usize) -> Option<&[u8]> {
        let start = place.checked_sub(1).map_or(0, |last| self.buffered[last].key_end);
        Some(&self.keys[start..self.buffered[place].key_end]).filter(|key| !key.is_empty())
    }

    /// The records from a place on.
    fn owned_records(&self, first: usize) -> Vec<OwnedRecord> {
        let owned = |(place, record): (usize, &BufferedRecord)| OwnedRecord {
            offset: record.offset,
            time_ns: record.time_ns,
            key: self.key(place).map(<[u8]>::to_vec),
            // Only a tombstone is empty here: no decoder makes a row of an empty record.
            payload: Some(self.payload(place)).filter(|payload| !payload.is_empty()).map(<[u8]>::to_vec),
        };
        self.buffered.iter().enumerate().skip(first).map(owned).collect()
    }
}

impl<'a, S: Sink, D: DeadLetters + ?Sized, R: Decode> Feed<'a, S, D, R> {
    /// A feed whose last message had the number `position`, and whose first record is at `next` or behind it.
    pub fn new(
        partition: Partition<'a>,
        sink: &'a S,
        dead: &'a D,
        counts: &'a Counts,
        decoder: R,
        (position, next): (u64, u64),
    ) -> Feed<'a, S, D, R> {
        let (buffered, payloads, keys, unsent) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (since, undecodable_in_a_row, refused_in_a_row) = (None, 0, 0);
        Feed {
            partition,
            sink,
            dead,
            counts,
            decoder,
            position,
            next,
            buffered,
            payloads,
            keys,
            since,
            undecodable_in_a_row,
            refused_in_a_row,
            unsent,
        }
    }

    /// The offset up to which the server has all records.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.partition.topic
    }

    /// The partition's number, where there are such.
    #[must_use]
    pub fn partition(&self) -> Option<i32> {
        self.partition.partition
    }

    /// The records that were taken and aren't stored when the feed has ended, in their order.
    #[must_use]
    pub fn unsent(&mut self) -> Vec<OwnedRecord> {
        let waiting = PendingBatch {
            rows: RecordBatch::new_empty(Schema::empty().into()),
            buffered: std::mem::take(&mut self.buffered),
            payloads: std::mem::take(&mut self.payloads),
            keys: std::mem::take(&mut self.keys),
        };
        let mut records = std::mem::take(&mut self.unsent);
        records.extend(waiting.owned_records(0));
        records.sort_by_key(|record| record.offset);
        records
    }

    /// Stores the feed's first position on the server, so that it begins there after the next start, too.
    ///
    /// # Errors
    /// As [`FeedEnd`] says.
    pub fn begin(&mut self) -> Result<(), FeedEnd> {
        if self.next > self.position { self.flush() } else { Ok(()) }
    }

    /// Time until [`Feed::tick`] has something to send; none if nothing waits.
    #[must_use]
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        self.since.map(|since| self.partition.batch.wait().saturating_sub(now.saturating_duration_since(since)))
    }

    /// Sends the rows that wait, if the first of them has waited long enough.
    ///
    /// # Errors
    /// As [`FeedEnd`] says.
    pub fn tick(&mut self, now: Instant) -> Result<(), FeedEnd> {
        if self.due_in(now).is_some_and(|wait| wait.is_zero()) { self.flush() } else { Ok(()) }
    }

    /// Takes the next record. One that was taken before is left out.
    ///
    /// # Errors
    /// As [`FeedEnd`] says.
    pub fn take(&mut self, record: &Record<'_>, now: Instant) -> Result<(), FeedEnd> {
        if record.offset < self.next {
            return Ok(());
        }
        self.counts.records.add(1);
        self.counts.bytes.add(record.payload.map_or(0, <[u8]>::len) as u64);
        let is_decoded = self.decode(record).inspect_err(|_| self.unsent.push(OwnedRecord::from(record)))?;
        if !is_decoded {
            self.next = record.offset + 1;
            self.since.get_or_insert(now);
            return Ok(());
        }
        if record.payload.is_none() {
            self.counts.tombstones.add(1);
        }
        self.next = record.offset + 1;
        self.since.get_or_insert(now);
        self.payloads.extend_from_slice(record.payload.unwrap_or_default());
        self.keys.extend_from_slice(record.key.unwrap_or_default());
        let (payload_end, key_end) = (self.payloads.len(), self.keys.len());
        self.buffered.push(BufferedRecord {
            offset: record.offset,
            time_ns: record.time_ns,
            rows_end: self.decoder.rows(),
            payload_end,
            key_end,
        });
        let batch = self.partition.batch;
        let bytes = self.decoder.bytes().max(payload_end + key_end);
        if self.decoder.rows() >= batch.rows || self.buffered.len() >= batch.rows || bytes >= batch.bytes {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds a record's rows to those that wait. False if it is no row, and a dead letter now.
    fn decode(&mut self, record: &Record<'_>) -> Result<bool, FeedEnd> {
        let mut wait = WAITS.0;
        loop {
            match self.decoder.add(record) {
                Ok(rows) => {
                    if rows > 0 {
                        self.undecodable_in_a_row = 0;
                    }
                    return Ok(true);
                }
                Err(DecodeFailure::OtherColumns) => self.flush()?,
                Err(DecodeFailure::Invalid(reason)) => {
                    let payload = record.payload.unwrap_or_default();
                    self.bad(record.offset, record.key, payload, reason, FailedStep::Decoding)?;
                    return Ok(false);
                }
                // Rows before the record don't wait with it.
                Err(DecodeFailure::Unavailable(reason)) => {
                    self.flush()?;
                    self.pause(&reason, &mut wait, None)?;
                }
            }
        }
    }

    /// Sends the rows that wait.
    ///
    /// # Errors
    /// As [`FeedEnd`] says.
    pub fn flush(&mut self) -> Result<(), FeedEnd> {
        self.since = None;
        if self.next <= self.position {
            return Ok(());
        }
        let rows = self.decoder.take().map_err(FeedEnd::Failed)?;
        let (buffered, payloads) = (std::mem::take(&mut self.buffered), std::mem::take(&mut self.payloads));
        let batch = PendingBatch { rows, buffered, payloads, keys: std::mem::take(&mut self.keys) };
        // The parts that are still to be sent, the next one last.
        let mut parts = vec![BatchPart { first: 0, end: batch.buffered.len(), sequence: self.next }];
        while let Some(part) = parts.pop() {
            match self.send(&batch, part) {
                Ok(None) => {}
                Ok(Some((first_half, second_half))) => parts.extend([second_half, first_half]),
                Err(ended) => {
                    self.unsent = batch.owned_records(part.first);
                    return Err(ended);
                }
            }
        }
        Ok(())
    }

    /// Sends a part until the server has taken or refused it. Returns its halves if they have to be sent by themselves.
    fn send(&mut self, batch: &PendingBatch, part: BatchPart) -> Result<Option<(BatchPart, BatchPart)>, FeedEnd> {
        let rows = batch.rows_of(part);
        let mut wait = WAITS.0;
        loop {
            let message = RowsMessage {
                table: self.partition.table,
                producer: self.partition.producer,
                previous: self.position,
                sequence: part.sequence,
                rows: &rows,
            };
            match self.sink.write(&message) {
                Reply::Stored { is_repeat, quarantined, duplicate_rows } => {
                    self.counts.rows.add(rows.num_rows() as u64);
                    self.counts.batches.add(1);
                    self.counts.repeats.add(is_repeat.into());
                    self.counts.quarantined.add(quarantined);
                    self.counts.duplicate_rows.add(duplicate_rows);
                    self.position = part.sequence;
                    if rows.num_rows() > 0 {
                        self.refused_in_a_row = 0;
                    }
                    return Ok(None);
                }
                Reply::Retry { reason, after } => self.pause(&reason, &mut wait, after)?,
                Reply::Conflict(reason) => {
                    self.counts.conflicts.add(1);
                    return Err(FeedEnd::Restart(reason));
                }
                Reply::Failed(reason) => return Err(FeedEnd::Failed(reason)),
                Reply::Rejected(reason) | Reply::TooLarge(reason) => return self.refused(batch, part, reason),
            }
        }
    }

    /// Halves a part that the server refuses, or makes its only record a dead letter.
    fn refused(
        &mut self,
        batch: &PendingBatch,
        part: BatchPart,
        reason: String,
    ) -> Result<Option<(BatchPart, BatchPart)>, FeedEnd> {
        // The part may be stored already if its answer was lost; the table has changed since then.
        let last = self.query(|sink, producer| sink.last(producer))?.unwrap_or(0);
        if last != self.position {
            return Err(FeedEnd::Restart(format!(
                "the server has {last} and refuses what follows on {}: {reason}",
                self.position
            )));
        }
        match part.end - part.first {
            // The server refuses a position without rows, for which no record is to blame.
            0 => Err(FeedEnd::Failed(reason)),
            1 => {
                if !self.query(|sink, _| sink.is_current())? {
                    return Err(FeedEnd::Restart(format!(
                        "the columns of table {:?} have changed",
                        self.partition.table
                    )));
                }
                let record = batch.buffered[part.first];
                self.bad(record.offset, batch.key(part.first), batch.payload(part.first), reason, FailedStep::Storing)?;
                self.since.get_or_insert_with(Instant::now);
                Ok(None)
            }
            count => {
                let middle = part.first + count / 2;
                let first_half = BatchPart { end: middle, sequence: batch.buffered[middle - 1].offset + 1, ..part };
                Ok(Some((first_half, BatchPart { first: middle, ..part })))
            }
        }
    }

    /// Makes a record that is no row a dead letter, or ends the feed.
    fn bad(
        &mut self,
        offset: u64,
        key: Option<&[u8]>,
        payload: &[u8],
        reason: String,
        step: FailedStep,
    ) -> Result<(), FeedEnd> {
        let Partition { topic, partition, on_error, in_a_row_max, .. } = self.partition;
        let place = self.partition.place();
        let description = || format!("record {offset} of {place}: {reason}");
        if on_error == OnError::Stop {
            if step == FailedStep::Decoding {
                self.flush()?;
            }
            return Err(FeedEnd::Failed(description()));
        }
        let in_a_row = match step {
            FailedStep::Decoding => &mut self.undecodable_in_a_row,
            FailedStep::Storing => &mut self.refused_in_a_row,
        };
        *in_a_row += 1;
        if *in_a_row > in_a_row_max {
            let description = description();
            return Err(FeedEnd::Failed(format!(
                "{in_a_row_max} records behind each other were bad; the next is {description}"
            )));
        }
        let letter = DeadLetter { topic, partition, offset, key, payload, reason: &reason };
        let mut wait = WAITS.0;
        while let Err(error) = self.dead.write(&letter) {
            self.pause(&format!("a dead letter can't be written: {error}"), &mut wait, None)?;
        }
        self.counts.dead.add(1);
        Ok(())
    }

    /// Asks the server until it answers.
    fn query<T>(&self, ask: impl Fn(&S, &str) -> Result<T, QueryFailure>) -> Result<T, FeedEnd> {
        let mut wait = WAITS.0;
        loop {
            match ask(self.sink, self.partition.producer) {
                Ok(answer) => return Ok(answer),
                Err(QueryFailure::Temporary(reason) | QueryFailure::Permanent(reason)) => {
                    self.pause(&reason, &mut wait, None)?
                }
            }
        }
    }

    /// Waits before a call is made again.
    fn pause(&self, reason: &str, wait: &mut Duration, after: Option<Duration>) -> Result<(), FeedEnd> {
        self.counts.retries.add(1);
        if *wait >= Duration::from_millis(400) {
            tracing::warn!(of = self.partition.place(), reason, "tries again");
        }
        let time = after.map_or(*wait, |after| after.max(*wait)).min(WAITS.1);
        *wait = (*wait * 2).min(WAITS.1);
        if self.sink.wait(time) { Ok(()) } else { Err(FeedEnd::Stopped) }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
