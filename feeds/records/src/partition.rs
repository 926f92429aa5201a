//! The records of one sequence, a partition or a feed, batch by batch, into the server.
//!
//! What holds at any time, whatever fails and whenever the process is killed:
//!
//! - `position` is the number of the producer's last message, as far as it is known here. All records before it are stored or are dead
//!   letters; the server stores it with the rows.
//! - A message takes the records from `position` up to its own number, and says both. The server takes it only if its last message has the
//!   number `position`: so each record is in one message that is taken, whoever else sends, and however batches are cut after a start.
//! - A message whose answer is lost is sent again as it was. A number that the server has is a repeat, and its rows are stored.
//! - A record that is no row is a dead letter before a message that passes it is sent.
//!
//! Records that weren't sent when a feed has to restart are given back by [`Feed::unsent`], for those that can't be read again.
//!
//! If the server refuses rows, the message is cut in halves until the record is alone that doesn't fit.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use crate::dead_letters::{DeadLetter, DeadLetters};
use crate::decode::{Decode, DecodeFailure, Record};
use crate::mailbox::OwnedRecord;
use crate::metrics::Counts;
use crate::server::{QueryFailure, Reply, RowsMessage, Sink};
use crate::settings::{BatchSettings, OnError};

/// The first and the longest wait before the same is sent again.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// Why a partition's feed ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedEnd {
    /// The server has another position, or the table other columns, than the feed assumed. The feed has to begin again from what the server says.
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
    /// How large batches are.
    pub batch: BatchSettings,
    /// What is done about bad records.
    pub on_error: OnError,
    /// How many of them behind each other are too many.
    pub in_a_row_max: u64,
}

impl Partition<'_> {
    /// Says where a record is from.
    fn place(&self) -> String {
        match self.partition {
            Some(partition) => format!("partition {partition} of topic {:?}", self.topic),
            None => format!("feed {:?}", self.topic),
        }
    }
}

/// A record whose rows are in the buffer: its number, and where its rows, its payload and its key end there.
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
    /// The offset behind the last record that was looked at.
    next: u64,
    buffered: Vec<BufferedRecord>,
    /// What the records hold, should they become dead letters, and their keys.
    payloads: Vec<u8>,
    keys: Vec<u8>,
    /// Since when something waits: rows, or a position behind dead letters.
    since: Option<Instant>,
    bad_in_a_row: u64,
    /// Records of a batch that was given up for a restart.
    unsent: Vec<OwnedRecord>,
}

/// A part of a batch: some of its records, and the number of the message that they are.
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

    /// A key of no bytes is taken for none.
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
            // A tombstone has none; a record of no bytes would have been bad.
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
        let (since, bad_in_a_row) = (None, 0);
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
            bad_in_a_row,
            unsent,
        }
    }

    /// The offset up to which the server has all.
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

    /// Records that were taken and aren't stored, once the feed has ended: those of the batch on its way, and those that wait.
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
        records
    }

    /// Tells the server where the feed begins, so that it begins there after the next start, too.
    ///
    /// # Errors
    /// As [`FeedEnd`] says.
    pub fn begin(&mut self) -> Result<(), FeedEnd> {
        if self.next > self.position { self.flush() } else { Ok(()) }
    }

    /// How long a record may be waited for before [`Feed::tick`] has something to do.
    #[must_use]
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        self.since.map(|since| self.partition.batch.wait().saturating_sub(now.saturating_duration_since(since)))
    }

    /// Sends what has waited long enough.
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
        let mut wait = WAITS.0;
        loop {
            match self.decoder.add(record) {
                Ok(_) => break,
                Err(DecodeFailure::OtherColumns) => self.flush()?,
                Err(DecodeFailure::Invalid(reason)) => {
                    let payload = record.payload.unwrap_or_default();
                    self.bad(record.offset, record.key, payload, reason, true)?;
                    self.next = record.offset + 1;
                    self.since.get_or_insert(now);
                    return Ok(());
                }
                Err(DecodeFailure::Unavailable(reason)) => self.pause(&reason, &mut wait, None)?,
            }
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
        if self.decoder.rows() >= batch.rows || payload_end >= batch.bytes || self.buffered.len() >= batch.rows {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what waits.
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
        // The rest of the parts, the next one last.
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

    /// Sends a part until it is clear what becomes of it. Gives its halves if they have to go by themselves.
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
                        self.bad_in_a_row = 0;
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

    /// What is done about a part that the server refuses: its halves, or a dead letter.
    fn refused(
        &mut self,
        batch: &PendingBatch,
        part: BatchPart,
        reason: String,
    ) -> Result<Option<(BatchPart, BatchPart)>, FeedEnd> {
        // It may be the repeat of one that was stored, and whose answer was lost, into a table that has changed since.
        let last = self.query(|sink, producer| sink.last(producer))?.unwrap_or(0);
        if last != self.position {
            return Err(FeedEnd::Restart(format!(
                "the server has {last} and refuses what follows on {}: {reason}",
                self.position
            )));
        }
        match part.end - part.first {
            // A position alone doesn't fit: nothing of it is the records' fault.
            0 => Err(FeedEnd::Failed(reason)),
            1 => {
                if !self.query(|sink, _| sink.is_current())? {
                    return Err(FeedEnd::Restart(format!(
                        "the columns of table {:?} have changed",
                        self.partition.table
                    )));
                }
                let record = batch.buffered[part.first];
                // Behind it there may be bad records, whose dead letters are written.
                self.bad(record.offset, batch.key(part.first), batch.payload(part.first), reason, false)?;
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

    /// A record that is no row.
    fn bad(
        &mut self,
        offset: u64,
        key: Option<&[u8]>,
        payload: &[u8],
        reason: String,
        is_before_batch: bool,
    ) -> Result<(), FeedEnd> {
        let Partition { topic, partition, on_error, in_a_row_max, .. } = self.partition;
        let place = self.partition.place();
        let description = || format!("record {offset} of {place}: {reason}");
        if on_error == OnError::Stop {
            // What comes before it is sent first; a batch on its way has been.
            if is_before_batch {
                self.flush()?;
            }
            return Err(FeedEnd::Failed(description()));
        }
        self.bad_in_a_row += 1;
        if self.bad_in_a_row > in_a_row_max {
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

    /// Waits before the same is tried again.
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
