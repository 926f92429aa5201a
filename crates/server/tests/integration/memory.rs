//! Capture in memory: rows in vectors, acks at once.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use splay_server::ingest::{
    Ack, AckClass, Append, FigureFold, Ingest, IngestCallback, IngestError, IngestFigure, SubscribeRequest,
    Subscription, SubscriptionStart, Update, UpdateKind,
};
use splay_store::TableSpec;

use crate::support::trades_spec;

#[derive(Debug, Default)]
pub struct MemoryIngest {
    state: Mutex<MemoryIngestState>,
}

#[derive(Debug, Default)]
struct MemoryIngestState {
    tables: HashMap<String, Vec<(u64, RecordBatch)>>,
    producers: HashMap<String, u64>,
    subscribers: Vec<(String, SyncSender<Update>)>,
    rejected: Vec<String>,
    sequence: u64,
    messages: u64,
    quarantined: u64,
    full: u32,
    full_later: u32,
    closed: bool,
}

impl MemoryIngest {
    pub fn rows(&self, table: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.tables.get(table).map_or(0, |batches| batches.iter().map(|(_, batch)| batch.num_rows()).sum())
    }

    pub fn rejected(&self) -> Vec<String> {
        self.state.lock().unwrap().rejected.clone()
    }

    /// Messages that were taken, each of which may have rows for several tables.
    pub fn messages(&self) -> u64 {
        self.state.lock().unwrap().messages
    }

    /// Says of the next appends that so many of their rows are in quarantine.
    pub fn quarantine(&self, rows: u64) {
        self.state.lock().unwrap().quarantined = rows;
    }

    /// Refuses the next appends as if the disk were full.
    pub fn be_full(&self, times: u32) {
        self.state.lock().unwrap().full = times;
    }

    /// Takes the next appends and then finds no room for them, as when the journal is written.
    pub fn be_full_later(&self, times: u32) {
        self.state.lock().unwrap().full_later = times;
    }

    pub fn is_closed(&self) -> bool {
        self.state.lock().unwrap().closed
    }
}

impl Ingest for MemoryIngest {
    fn submit(&self, mut appends: Vec<Append>, done: IngestCallback) -> Result<(), IngestError> {
        let mut state = self.state.lock().unwrap();
        if state.closed {
            return Err(IngestError::Closed);
        }
        if state.full > 0 {
            state.full -= 1;
            return Err(IngestError::Full { reason: "the disk is full".to_owned() });
        }
        if state.full_later > 0 {
            state.full_later -= 1;
            drop(state);
            done(Err(IngestError::Full { reason: "the disk is full".to_owned() }));
            return Ok(());
        }
        if let Some(append) = appends.iter().find(|append| append.rows.column_by_name("time").is_none()) {
            let reason = "there is no column \"time\"".to_owned();
            drop(state);
            done(Err(IngestError::Rejected { table: append.table.clone(), reason }));
            return Ok(());
        }
        let mut ack = Ack {
            sequence: state.sequence,
            class: appends.last().unwrap().ack.unwrap_or(AckClass::Disk),
            rows: appends.iter().map(|append| append.rows.num_rows() as u64).sum(),
            duplicate: false,
            quarantined: state.quarantined,
            duplicate_rows: 0,
        };
        if let Some(producer) = appends.iter_mut().find_map(|append| append.producer.take()) {
            let last = state.producers.entry(producer.name.clone()).or_default();
            if producer.sequence <= *last {
                ack.duplicate = true;
                drop(state);
                done(Ok(ack));
                return Ok(());
            }
            if let Some(previous) = producer.previous.filter(|previous| previous != last) {
                let last = *last;
                drop(state);
                done(Err(IngestError::OutOfTurn { producer: producer.name, previous, last }));
                return Ok(());
            }
            *last = producer.sequence;
        }
        state.messages += 1;
        for append in appends {
            state.sequence += 1;
            ack.sequence = state.sequence;
            let update = Update {
                table: Arc::from(append.table.as_str()),
                sequence: ack.sequence,
                kind: UpdateKind::Delta,
                rows: append.rows.clone(),
            };
            state.subscribers.retain(|(table, queue)| {
                *table != append.table || !matches!(queue.try_send(update.clone()), Err(TrySendError::Disconnected(_)))
            });
            state.tables.entry(append.table).or_default().push((ack.sequence, append.rows));
        }
        drop(state);
        done(Ok(ack));
        Ok(())
    }

    fn spec(&self, table: &str) -> Result<Option<TableSpec>, IngestError> {
        let spec = || TableSpec { name: table.to_owned(), ..trades_spec() };
        Ok(self.state.lock().unwrap().tables.contains_key(table).then(spec))
    }

    fn subscribe(&self, request: SubscribeRequest) -> Result<Box<dyn Subscription>, IngestError> {
        let mut state = self.state.lock().unwrap();
        let batches = state.tables.get(&request.table);
        let batches = batches.ok_or_else(|| IngestError::NoSuchTable { table: request.table.clone() })?;
        let (sender, receiver) = sync_channel(1024);
        match request.from {
            SubscriptionStart::Now => {}
            SubscriptionStart::Snapshot => {
                let all = batches.iter().map(|(_, batch)| batch);
                let rows = concat_batches(&batches[0].1.schema(), all).unwrap();
                sender
                    .send(Update {
                        table: Arc::from(request.table.as_str()),
                        sequence: state.sequence,
                        kind: UpdateKind::Snapshot { first: true, more: false },
                        rows,
                    })
                    .unwrap();
            }
            SubscriptionStart::After(sequence) if sequence == 0 => {
                return Err(IngestError::Gone { table: request.table, after: 0, oldest: 1 });
            }
            SubscriptionStart::After(sequence) => {
                for (number, rows) in batches.iter().filter(|(number, _)| *number > sequence) {
                    let table = Arc::from(request.table.as_str());
                    let update = Update { table, sequence: *number, kind: UpdateKind::Delta, rows: rows.clone() };
                    sender.send(update).unwrap();
                }
            }
        }
        state.subscribers.push((request.table, sender));
        Ok(Box::new(MemorySubscription { receiver }))
    }

    fn reject(&self, way: &'static str, reason: String, _sample: &[u8]) {
        self.state.lock().unwrap().rejected.push(format!("{way}: {reason}"));
    }

    fn last_of(&self, producer: &str) -> Result<Option<u64>, IngestError> {
        Ok(self.state.lock().unwrap().producers.get(producer).copied())
    }

    fn give_up(&self, producer: &str, through: u64) -> bool {
        (producer, through) == ("feed", 7)
    }

    fn is_ready(&self) -> bool {
        !self.is_closed()
    }

    fn is_full(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.full + state.full_later > 0
    }

    fn figures(&self) -> Vec<IngestFigure> {
        let state = self.state.lock().unwrap();
        let figure = |(table, batches): (&String, &Vec<_>)| IngestFigure {
            name: "live_batches",
            help: "Batches in memory",
            is_counter: false,
            table: Some(table.clone()),
            value: batches.len() as u64,
            of_several: FigureFold::Sum,
        };
        state.tables.iter().map(figure).collect()
    }

    fn close(&self) -> Result<(), IngestError> {
        self.state.lock().unwrap().closed = true;
        Ok(())
    }
}

struct MemorySubscription {
    receiver: Receiver<Update>,
}

impl Subscription for MemorySubscription {
    fn next(&mut self, timeout: Duration) -> Result<Option<Update>, IngestError> {
        match self.receiver.recv_timeout(timeout) {
            Ok(update) => Ok(Some(update)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(IngestError::Closed),
        }
    }
}
