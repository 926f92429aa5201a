//! A consumer at work: one thread that polls, and one for each partition.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use splay_records::dead_letters::DeadLetters;

use crate::columns::Column;
use crate::decode::{Decoder, Record};
use crate::kafka::{Assignment, FeedConsumer, Feeds};
use crate::mailbox::{Mailbox, MessageSize, OwnedRecord};
use crate::partition::{Feed, FeedEnd, Partition};
use crate::server::{QueryFailure, Reply, RowsMessage, Server, Sink};
use crate::settings::{BatchSettings, TopicSettings};
use crate::stop::StopSignal;

/// Time between two checks of the topics' partitions and the tables' columns.
const LOOK: Duration = Duration::from_secs(60);

/// Time between two commits of positions to Kafka.
const COMMIT: Duration = Duration::from_secs(5);

/// Time between two checks of the partitions' threads.
const TURN: Duration = Duration::from_millis(20);

/// The most records that are polled before they are put into mailboxes.
const POLLED_MAX: usize = 256;

/// Stack of a partition's thread.
const STACK: usize = 1 << 20;

/// A partition's thread as the polling thread sees it.
struct PartitionWorker<'s> {
    assignment: &'s Assignment,
    mailbox: Arc<Mailbox<OwnedRecord>>,
    /// Records that were polled and aren't in the mailbox yet.
    polled: Vec<OwnedRecord>,
    thread: Option<ScopedJoinHandle<'s, Result<(), FeedEnd>>>,
    is_paused: bool,
}

/// A consumer at work.
pub(crate) struct Session<'a> {
    pub(crate) feeds: &'a Feeds,
    pub(crate) assignments: &'a [Assignment],
    pub(crate) tables: &'a [Vec<Column>],
    pub(crate) dead: &'a dyn DeadLetters,
    pub(crate) consumer: &'a FeedConsumer,
    /// Bytes that a partition's mailbox may hold.
    pub(crate) share: usize,
    /// Whether one of its threads has ended it.
    pub(crate) is_over: AtomicBool,
}

/// The server as the feed of one partition sees it.
struct PartitionSink<'a> {
    server: &'a Server,
    topic: &'a TopicSettings,
    columns: &'a [Column],
    stop: &'a StopSignal,
    is_over: &'a AtomicBool,
}

impl Sink for PartitionSink<'_> {
    fn write(&self, message: &RowsMessage<'_>) -> Reply {
        self.server.write(message, self.topic.create.as_ref())
    }

    fn last(&self, producer: &str) -> Result<Option<u64>, QueryFailure> {
        self.server.last(producer)
    }

    fn is_current(&self) -> Result<bool, QueryFailure> {
        Ok(self.server.columns(&self.topic.table, self.topic.create.as_ref())? == self.columns)
    }

    fn wait(&self, time: Duration) -> bool {
        self.stop.wait_unless(time, || self.is_over.load(Ordering::SeqCst))
    }
}

impl Session<'_> {
    /// Works until the stop signal is set, or a partition can't continue.
    pub(crate) fn run(&self) -> Result<(), FeedEnd> {
        let news = Mutex::new(None);
        std::thread::scope(|scope| {
            let mut workers = Vec::with_capacity(self.assignments.len());
            let mut ended = Ok(());
            for assignment in self.assignments {
                match self.start(scope, assignment) {
                    Ok(worker) => workers.push(worker),
                    Err(error) => ended = Err(FeedEnd::Failed(format!("a thread can't be started: {error}"))),
                }
            }
            let watched = Builder::new().name("watch".to_owned()).spawn_scoped(scope, || self.watch(&news));
            if ended.is_ok() {
                ended = match watched {
                    Ok(_) => self.poll(&mut workers, &news),
                    Err(error) => Err(FeedEnd::Failed(format!("a thread can't be started: {error}"))),
                };
            }
            if !self.feeds.stop.is_set() {
                self.is_over.store(true, Ordering::SeqCst);
            }
            let ended = self.join(&mut workers, ended);
            self.is_over.store(true, Ordering::SeqCst);
            self.commit(CommitMode::Sync);
            ended
        })
    }

    fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        assignment: &'s Assignment,
    ) -> std::io::Result<PartitionWorker<'s>> {
        let mailbox = Arc::new(Mailbox::default());
        let of_thread = Arc::clone(&mailbox);
        let thread = Builder::new()
            .name(format!("partition {}", assignment.partition))
            .stack_size(STACK)
            .spawn_scoped(scope, move || self.feed(assignment, &of_thread))?;
        Ok(PartitionWorker { assignment, mailbox, polled: Vec::new(), thread: Some(thread), is_paused: false })
    }

    /// Ends all threads. A failure that a person has to end takes precedence.
    fn join(&self, workers: &mut [PartitionWorker<'_>], mut ended: Result<(), FeedEnd>) -> Result<(), FeedEnd> {
        workers.iter().for_each(|worker| worker.mailbox.close());
        for thread in workers.iter_mut().filter_map(|worker| worker.thread.take()) {
            let of_thread =
                thread.join().unwrap_or_else(|_| Err(FeedEnd::Failed("a partition's thread broke off".to_owned())));
            ended = match (ended, of_thread) {
                (Err(FeedEnd::Failed(reason)), _) | (_, Err(FeedEnd::Failed(reason))) => Err(FeedEnd::Failed(reason)),
                (Ok(()) | Err(FeedEnd::Stopped), of_thread @ Err(FeedEnd::Restart(_))) => of_thread,
                (ended, _) => ended,
            };
        }
        ended
    }

    /// Gives records to the partitions until the stop signal is set, a partition's thread has ended, or a change makes a restart necessary.
    fn poll(&self, workers: &mut [PartitionWorker<'_>], news: &Mutex<Option<String>>) -> Result<(), FeedEnd> {
        let mut places: HashMap<String, HashMap<i32, usize>> = HashMap::new();
        for (place, worker) in workers.iter().enumerate() {
            let topic = worker.assignment.settings.name.clone();
            places.entry(topic).or_default().insert(worker.assignment.partition, place);
        }
        let (mut turn, mut committed, mut polled) = (Instant::now(), Instant::now(), 0);
        loop {
            match self.consumer.poll(if polled == 0 { TURN } else { Duration::ZERO }) {
                Some(Ok(message)) => {
                    let place = places.get(message.topic()).and_then(|topic| topic.get(&message.partition()));
                    if let Some(place) = place {
                        workers[*place].polled.push(owned_record(&message)?);
                        polled += 1;
                    }
                    if polled < POLLED_MAX {
                        continue;
                    }
                }
                Some(Err(error)) => handle_error(&error)?,
                None => {}
            }
            if polled > 0 {
                workers
                    .iter_mut()
                    .filter(|worker| !worker.polled.is_empty())
                    .try_for_each(|worker| self.deliver(worker))?;
                polled = 0;
            }
            if turn.elapsed() < TURN {
                continue;
            }
            turn = Instant::now();
            if self.feeds.stop.is_set()
                || workers.iter().any(|worker| worker.thread.as_ref().is_none_or(ScopedJoinHandle::is_finished))
            {
                return Ok(());
            }
            if let Some(reason) = news.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(FeedEnd::Restart(reason));
            }
            self.resume(workers)?;
            if committed.elapsed() >= COMMIT {
                committed = Instant::now();
                self.commit(CommitMode::Async);
            }
        }
    }

    /// Puts the polled records of a partition into its mailbox, and pauses the partition if the mailbox is full.
    fn deliver(&self, worker: &mut PartitionWorker<'_>) -> Result<(), FeedEnd> {
        if worker.mailbox.push(worker.polled.drain(..)) > self.share && !worker.is_paused {
            let list = self.list_of(worker)?;
            self.consumer
                .pause(&list)
                .map_err(|error| FeedEnd::Restart(format!("a partition can't be paused: {error}")))?;
            worker.is_paused = true;
        }
        Ok(())
    }

    fn resume(&self, workers: &mut [PartitionWorker<'_>]) -> Result<(), FeedEnd> {
        for worker in workers.iter_mut().filter(|worker| worker.is_paused && worker.mailbox.bytes() <= self.share / 2) {
            let list = self.list_of(worker)?;
            self.consumer
                .resume(&list)
                .map_err(|error| FeedEnd::Restart(format!("a partition can't be resumed: {error}")))?;
            worker.is_paused = false;
        }
        Ok(())
    }

    fn list_of(&self, worker: &PartitionWorker<'_>) -> Result<TopicPartitionList, FeedEnd> {
        let mut list = TopicPartitionList::new();
        list.add_partition(&worker.assignment.settings.name, worker.assignment.partition);
        Ok(list)
    }

    /// Commits the positions to Kafka, for tools that watch lags. The feed itself reads them from the server, so nothing is lost if this fails.
    fn commit(&self, mode: CommitMode) {
        let mut list = TopicPartitionList::new();
        for ((topic, partition), progress) in self.feeds.metrics.progress() {
            let position = i64::try_from(progress.position).unwrap_or(0);
            let is_ours = |one: &Assignment| one.partition == partition && one.settings.name == topic;
            if position > 0 && self.assignments.iter().any(is_ours) {
                list.add_partition_offset(&topic, partition, Offset::Offset(position)).ok();
            }
        }
        if list.count() > 0
            && let Err(error) = self.consumer.commit(&list, mode)
        {
            tracing::warn!(%error, "Kafka doesn't take the positions that lags are measured by");
        }
    }

    /// Checks at intervals whether topics have more partitions, or tables other columns.
    fn watch(&self, news: &Mutex<Option<String>>) {
        let is_over = || self.is_over.load(Ordering::SeqCst) || self.feeds.stop.is_set();
        while self.feeds.stop.wait_unless(LOOK, is_over) && !is_over() {
            for (place, topic) in self.feeds.settings.topics.iter().enumerate() {
                let of_topic = self.assignments.iter().filter(|one| one.topic == place);
                let assigned: BTreeSet<(&str, i32)> =
                    of_topic.map(|one| (one.settings.name.as_str(), one.partition)).collect();
                let has_changed = self.feeds.topics(self.consumer, topic).is_ok_and(|topics| {
                    let all = |(name, partitions): &(String, Vec<i32>)| {
                        partitions.len() == assigned.iter().filter(|(topic, _)| topic == name).count()
                    };
                    !topics.iter().all(all)
                });
                let change = if has_changed {
                    Some(format!("topic {:?} has other partitions", topic.name))
                } else {
                    let columns = self.feeds.server.columns(&topic.table, topic.create.as_ref());
                    let has_changed = columns.is_ok_and(|columns| columns != self.tables[place]);
                    has_changed.then(|| format!("the columns of table {:?} have changed", topic.table))
                };
                if change.is_some() {
                    *news.lock().unwrap_or_else(PoisonError::into_inner) = change;
                    return;
                }
            }
        }
    }

    /// A partition's thread.
    fn feed(&self, assignment: &Assignment, mailbox: &Mailbox<OwnedRecord>) -> Result<(), FeedEnd> {
        let (feeds, topic) = (self.feeds, assignment.settings.as_ref());
        let columns = &self.tables[assignment.topic];
        let schemas = feeds.schemas.clone();
        let decoder = Decoder::new(topic, columns, assignment.partition, schemas);
        let decoder = decoder.map_err(|error| FeedEnd::Failed(format!("topic {:?}: {error}", topic.name)))?;
        let (stop, is_over) = (feeds.stop.as_ref(), &self.is_over);
        let sink = PartitionSink { server: &feeds.server, topic, columns, stop, is_over };
        let partition = Partition {
            table: &topic.table,
            topic: &topic.name,
            partition: Some(assignment.partition),
            producer: &assignment.producer,
            // Records that were decoded wait beside those of the mailbox, and not more of them.
            batch: BatchSettings { bytes: topic.batch.bytes.min(self.share), ..topic.batch },
            on_error: feeds.settings.on_error,
            in_a_row_max: feeds.settings.dead_letters.in_a_row_max.0,
        };
        let counts = feeds.metrics.counts(&topic.name);
        let at = (assignment.position, assignment.next);
        let mut feed = Feed::new(partition, &sink, self.dead, &counts, decoder, at);
        let fed = self.feed_all(&mut feed, mailbox);
        feeds.metrics.set_position(&topic.name, assignment.partition, feed.position());
        fed
    }

    fn feed_all(
        &self,
        feed: &mut Feed<'_, PartitionSink<'_>, dyn DeadLetters + '_, Decoder>,
        mailbox: &Mailbox<OwnedRecord>,
    ) -> Result<(), FeedEnd> {
        feed.begin()?;
        let is_to_end = || self.feeds.stop.is_set() || self.is_over.load(Ordering::SeqCst);
        let idle = Duration::from_millis(500);
        while !is_to_end() {
            let wait = feed.due_in(Instant::now()).unwrap_or(idle).min(idle);
            let Some(records) = mailbox.take(wait) else { break };
            for owned in records {
                if is_to_end() {
                    break;
                }
                let OwnedRecord { offset, time_ns, key, payload } = &owned;
                let record =
                    Record { offset: *offset, time_ns: *time_ns, key: key.as_deref(), payload: payload.as_deref() };
                feed.take(&record, Instant::now())?;
                mailbox.release(owned.bytes());
            }
            feed.tick(Instant::now())?;
            self.feeds.metrics.set_position(feed.topic(), feed.partition().unwrap_or(0), feed.position());
        }
        // The rows that wait are sent if the process ends by the stop signal.
        if self.feeds.stop.is_set() { feed.flush() } else { Ok(()) }
    }
}

/// A record that owns its bytes.
fn owned_record(message: &BorrowedMessage<'_>) -> Result<OwnedRecord, FeedEnd> {
    let offset = message.offset();
    Ok(OwnedRecord {
        offset: u64::try_from(offset).map_err(|_| FeedEnd::Failed(format!("a record of the offset {offset}")))?,
        time_ns: message.timestamp().to_millis().map(|ms| i128::from(ms) * 1_000_000),
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().map(<[u8]>::to_vec),
    })
}

/// Handles an error of librdkafka, which recovers from most of them by itself.
fn handle_error(error: &KafkaError) -> Result<(), FeedEnd> {
    match error {
        KafkaError::PartitionEOF(_) => Ok(()),
        KafkaError::MessageConsumptionFatal(code) => Err(FeedEnd::Restart(format!("Kafka: {code}"))),
        KafkaError::MessageConsumption(
            code @ (RDKafkaErrorCode::AutoOffsetReset
            | RDKafkaErrorCode::OffsetOutOfRange
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::TopicAuthorizationFailed),
        ) => Err(FeedEnd::Restart(format!("Kafka: {code}"))),
        other => {
            tracing::warn!(error = %other, "Kafka");
            Ok(())
        }
    }
}
