//! Consumers: from the positions that the server has to threads that make rows, one for each partition.
//!
//! In a [session](crate::session) one thread polls librdkafka and puts records into the mailboxes of the partitions, each of which has a share of
//! the memory. A partition whose mailbox is full is paused, and the others continue. If the server has another position of a partition than the
//! session assumes, the whole session ends and another begins with a new consumer, which has no records that the old one had fetched.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;
use rdkafka::{Offset, TopicPartitionList};
use splay_records::dead_letters::{DeadLetterFile, DeadLetters, NoDeadLetters};

use crate::columns::Column;
use crate::dead_letters::DeadLetterTopic;
use crate::http_client;
use crate::metrics::Metrics;
use crate::partition::FeedEnd;
use crate::registry::{Registry, Schemas};
use crate::server::{QueryFailure, Server};
use crate::session::Session;
use crate::settings::{OnGap, OnLostPosition, Settings, Start, TopicSettings};
use crate::stop::StopSignal;

/// The longest wait for an answer of the brokers.
const BROKERS: Duration = Duration::from_secs(10);

/// After a session that lasted longer than this, the next wait is the first one again.
const LONG: Duration = Duration::from_secs(60);

/// Partitions that a process reads.
const PARTITIONS_MAX: usize = 4_096;

/// Takes statistics, log lines and errors of librdkafka.
pub(crate) struct FeedContext {
    metrics: Arc<Metrics>,
}

impl ClientContext for FeedContext {
    fn stats(&self, statistics: Statistics) {
        for (topic, of_topic) in statistics.topics {
            for (partition, of_partition) in of_topic.partitions {
                // Records of transactions count once these are committed.
                let end = if of_partition.ls_offset >= 0 { of_partition.ls_offset } else { of_partition.hi_offset };
                if let Ok(end) = u64::try_from(end) {
                    self.metrics.set_end(&topic, partition, end);
                }
            }
        }
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::error!(facility, "{text}");
            }
            RDKafkaLogLevel::Warning => tracing::warn!(facility, "{text}"),
            _ => tracing::debug!(facility, "{text}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, reason, "Kafka");
    }
}

impl ConsumerContext for FeedContext {}

pub(crate) type FeedConsumer = BaseConsumer<FeedContext>;

/// A partition, and where it is read from.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    /// The topic's place in the settings.
    pub(crate) topic: usize,
    /// Its settings, with the name of this topic.
    pub(crate) settings: Arc<TopicSettings>,
    pub(crate) partition: i32,
    pub(crate) producer: String,
    /// The number of the last message; 0 for none.
    pub(crate) position: u64,
    /// The first offset that is read.
    pub(crate) next: u64,
}

/// Everything that outlives a session.
#[derive(Debug)]
pub struct Feeds {
    pub(crate) settings: Settings,
    pub(crate) server: Arc<Server>,
    pub(crate) schemas: Option<Arc<dyn Schemas>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: Arc<StopSignal>,
}

impl Feeds {
    /// The feeds of the settings. Doesn't connect yet.
    ///
    /// # Errors
    /// Secrets that aren't there, properties that librdkafka doesn't take.
    pub fn new(settings: Settings, metrics: Arc<Metrics>, stop: Arc<StopSignal>) -> Result<Feeds, String> {
        let server = Arc::new(Server::new(&settings.server).map_err(|error| format!("server: {error}"))?);
        let registry = settings.registry.as_ref().map(Registry::new).transpose();
        let registry = registry.map_err(|error| format!("registry: {error}"))?;
        let schemas = registry.map(|registry| Arc::new(registry) as Arc<dyn Schemas>);
        let feeds = Feeds { settings, server, schemas, metrics, stop };
        feeds.consumer(1).map_err(|error| format!("kafka: {error}"))?;
        Ok(feeds)
    }

    /// Reads until the stop signal is set.
    ///
    /// # Errors
    /// A failure that a person has to end.
    pub fn run(&self) -> Result<(), String> {
        let mut wait = Duration::from_millis(200);
        loop {
            let began = Instant::now();
            match self.session() {
                Err(FeedEnd::Stopped) | Ok(()) => return Ok(()),
                Err(FeedEnd::Failed(reason)) => return Err(reason),
                Err(FeedEnd::Restart(reason)) => tracing::warn!(reason, "asks the server anew for all positions"),
            }
            wait = if began.elapsed() > LONG {
                Duration::from_millis(200)
            } else {
                (wait * 2).min(Duration::from_secs(10))
            };
            if self.stop.is_set() || !self.stop.wait(wait) {
                return Ok(());
            }
        }
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let kafka = &self.settings.kafka;
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &kafka.brokers).set("client.id", "splay-kafka");
        kafka.properties.iter().for_each(|(name, value)| {
            config.set(name, value);
        });
        for (name, variable) in &kafka.secrets {
            config.set(name, http_client::secret(variable)?);
        }
        Ok(config)
    }

    fn consumer(&self, partitions: usize) -> Result<FeedConsumer, String> {
        let mut config = self.config()?;
        // A quarter of the memory is librdkafka's, the rest the mailboxes'.
        let kilobytes = (self.settings.kafka.memory_bytes_max / 4 / partitions.max(1) / 1024).max(64);
        config
            .set("group.id", self.settings.group())
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("statistics.interval.ms", "5000")
            .set("queued.max.messages.kbytes", kilobytes.to_string());
        config
            .create_with_context(FeedContext { metrics: Arc::clone(&self.metrics) })
            .map_err(|error| error.to_string())
    }

    /// One consumer from its start to its end.
    fn session(&self) -> Result<(), FeedEnd> {
        let tables = self.tables()?;
        let asking = self.consumer(1).map_err(FeedEnd::Failed)?;
        let assignments = self.assignments(&asking)?;
        drop(asking);
        let dead = self.dead_letters(&assignments)?;
        let consumer = self.consumer(assignments.len()).map_err(FeedEnd::Failed)?;
        let mut list = TopicPartitionList::new();
        for assignment in &assignments {
            let topic = &assignment.settings.name;
            let offset = Offset::Offset(i64::try_from(assignment.next).unwrap_or(i64::MAX));
            list.add_partition_offset(topic, assignment.partition, offset)
                .map_err(|error| FeedEnd::Failed(error.to_string()))?;
            self.metrics.set_position(topic, assignment.partition, assignment.position);
        }
        consumer.assign(&list).map_err(|error| FeedEnd::Failed(error.to_string()))?;
        tracing::info!(partitions = assignments.len(), "reads");
        let session = Session {
            feeds: self,
            assignments: &assignments,
            tables: &tables,
            dead: dead.as_ref(),
            consumer: &consumer,
            share: (self.settings.kafka.memory_bytes_max * 3 / 4 / assignments.len().max(1)).max(64 << 10),
            is_over: AtomicBool::new(false),
        };
        session.run()
    }

    /// The columns of each topic's table.
    fn tables(&self) -> Result<Vec<Vec<Column>>, FeedEnd> {
        let columns =
            |topic: &TopicSettings| self.retry_query(|| self.server.columns(&topic.table, topic.create.as_ref()));
        self.settings.topics.iter().map(columns).collect()
    }

    /// Asks the server until it answers.
    fn retry_query<T>(&self, ask: impl Fn() -> Result<T, QueryFailure>) -> Result<T, FeedEnd> {
        let mut wait = Duration::from_millis(200);
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(QueryFailure::Permanent(reason)) => return Err(FeedEnd::Failed(reason)),
                Err(QueryFailure::Temporary(reason)) => tracing::warn!(reason, "waits for the server"),
            }
            if self.stop.is_set() || !self.stop.wait(wait) {
                return Err(FeedEnd::Stopped);
            }
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }

    /// Asks the brokers until they answer.
    fn retry_brokers<T>(&self, ask: impl Fn() -> Result<T, String>) -> Result<T, FeedEnd> {
        self.retry_query(|| ask().map_err(|reason| QueryFailure::Temporary(format!("Kafka: {reason}"))))
    }

    /// The partitions of all topics, and where each is read from.
    fn assignments(&self, asking: &FeedConsumer) -> Result<Vec<Assignment>, FeedEnd> {
        let mut assignments: Vec<Assignment> = Vec::new();
        for (place, topic) in self.settings.topics.iter().enumerate() {
            let topics = self.retry_brokers(|| self.topics(asking, topic))?;
            let is_assigned = |name: &String| assignments.iter().any(|one| one.settings.name == *name);
            if let Some((name, _)) = topics.iter().find(|(name, _)| is_assigned(name)) {
                return Err(FeedEnd::Failed(format!(
                    "topic {name:?} is of two [[topic]]: the position of a partition is one"
                )));
            }
            let count: usize = topics.iter().map(|(_, partitions)| partitions.len()).sum();
            if assignments.len() + count > PARTITIONS_MAX {
                return Err(FeedEnd::Failed(format!("more than {PARTITIONS_MAX} partitions in one process")));
            }
            let mut starts = Vec::with_capacity(count);
            for (name, partitions) in topics {
                if let Some(missing) = topic.partitions.iter().find(|partition| !partitions.contains(partition)) {
                    return Err(FeedEnd::Failed(format!("topic {name:?} has no partition {missing}")));
                }
                let settings = Arc::new(TopicSettings { name, ..topic.clone() });
                starts.extend(self.partition_starts(asking, &settings, &partitions)?);
            }
            // The partitions and topics that were added to a feed that has read others are read from their first record.
            let is_known = starts.iter().any(|(_, start)| start.last.is_some());
            let start = if is_known { Start::Earliest } else { topic.start };
            for (mut assignment, partition_start) in starts {
                let name = assignment.settings.name.clone();
                let failed =
                    |reason| FeedEnd::Failed(format!("partition {} of topic {name:?}: {reason}", assignment.partition));
                assignment.next = partition_start.next(topic, start).map_err(failed)?;
                assignments.push(Assignment { topic: place, ..assignment });
            }
        }
        Ok(assignments)
    }

    /// The topics that the settings name, by name or prefix, with the partitions that are read.
    pub(crate) fn topics(
        &self,
        asking: &FeedConsumer,
        topic: &TopicSettings,
    ) -> Result<Vec<(String, Vec<i32>)>, String> {
        let mut topics = match topic.name.strip_suffix('*') {
            None => vec![(topic.name.clone(), partitions(asking, &topic.name)?)],
            Some(prefix) => {
                let metadata = asking.fetch_metadata(None, BROKERS).map_err(|error| error.to_string())?;
                let names = metadata.topics().iter().map(|entry| entry.name());
                let dead = self.settings.dead_letters.topic.as_deref();
                let is_meant = |name: &&str| name.starts_with(prefix) && !name.starts_with("__") && Some(*name) != dead;
                let mut names: Vec<&str> = names.filter(is_meant).collect();
                names.sort_unstable();
                let topics = names.into_iter().map(|name| Ok((name.to_owned(), partitions(asking, name)?)));
                topics.collect::<Result<Vec<_>, String>>()?
            }
        };
        if topics.is_empty() {
            return Err(format!("no topic is of the name {:?}", topic.name));
        }
        for (_, partitions) in topics.iter_mut().filter(|_| !topic.partitions.is_empty()) {
            partitions.retain(|partition| topic.partitions.contains(partition));
        }
        Ok(topics)
    }

    /// The starts of a topic's partitions.
    fn partition_starts(
        &self,
        asking: &FeedConsumer,
        settings: &Arc<TopicSettings>,
        partitions: &[i32],
    ) -> Result<Vec<(Assignment, PartitionStart)>, FeedEnd> {
        let name = &settings.name;
        let group = self.retry_brokers(|| committed(asking, name, partitions))?;
        let mut starts = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let (first, end) = self.retry_brokers(|| ends(asking, name, *partition))?;
            let producer = self.settings.checked_producer(name, *partition).map_err(FeedEnd::Failed)?;
            let last = self.retry_query(|| self.server.last(&producer))?;
            let start = PartitionStart { first, end, last, group: group.get(partition).copied() };
            let settings = Arc::clone(settings);
            let (partition, position) = (*partition, last.unwrap_or(0));
            starts.push((Assignment { topic: 0, settings, partition, producer, position, next: position }, start));
        }
        Ok(starts)
    }

    fn dead_letters(&self, assignments: &[Assignment]) -> Result<Box<dyn DeadLetters>, FeedEnd> {
        let settings = &self.settings.dead_letters;
        let failed = |reason| FeedEnd::Failed(format!("dead letters: {reason}"));
        if let Some(file) = &settings.file {
            let may_come_again = |topic: &str, partition: Option<i32>, offset: u64| {
                let is_of = |one: &&Assignment| Some(one.partition) == partition && one.settings.name == topic;
                assignments.iter().find(is_of).is_some_and(|one| offset >= one.position)
            };
            return Ok(Box::new(DeadLetterFile::open(file, may_come_again).map_err(failed)?));
        }
        match &settings.topic {
            Some(topic) => {
                let config = self.config().map_err(FeedEnd::Failed)?;
                Ok(Box::new(DeadLetterTopic::new(topic, config).map_err(failed)?))
            }
            None => Ok(Box::new(NoDeadLetters)),
        }
    }
}

/// The offsets that decide where the reading of a partition starts.
#[derive(Debug, Clone, Copy)]
pub struct PartitionStart {
    /// The first offset that Kafka has.
    pub first: u64,
    /// The offset behind the last.
    pub end: u64,
    /// The last number that the server has.
    pub last: Option<u64>,
    /// The position that was committed to Kafka.
    pub group: Option<u64>,
}

impl PartitionStart {
    /// The first offset that is to be read.
    ///
    /// # Errors
    /// A decision that a person has to make.
    pub fn next(&self, topic: &TopicSettings, start: Start) -> Result<u64, String> {
        let start = match start {
            Start::Earliest => self.first,
            Start::Latest => self.end,
        };
        let next = match (self.last, self.group.filter(|group| *group > 0)) {
            (Some(last), _) => last,
            (None, None) => return Ok(start),
            (None, Some(group)) => match topic.forgotten {
                OnLostPosition::Start => return Ok(start),
                OnLostPosition::Group => group,
                OnLostPosition::Stop => {
                    return Err(format!(
                        "it was stored up to {group}, as Kafka knows, and the server knows nothing of it: is it the right database? \
                         forgotten = \"group\" goes on from there, \"start\" reads anew"
                    ));
                }
            },
        };
        if next > self.end {
            return Err(format!(
                "the server has it up to {next}, and it ends at {}: was the topic made anew? Give the feed another name",
                self.end
            ));
        }
        if next >= self.first {
            return Ok(next);
        }
        let gap = format!("records {next} to {} are gone from Kafka and were never read", self.first - 1);
        match topic.on_gap {
            OnGap::Stop => Err(format!("{gap}; on_gap = \"skip\" goes on behind them")),
            OnGap::Skip => {
                tracing::error!(topic = topic.name, "{gap}");
                Ok(self.first)
            }
        }
    }
}

/// The partitions of a topic.
fn partitions(consumer: &FeedConsumer, topic: &str) -> Result<Vec<i32>, String> {
    let metadata = consumer.fetch_metadata(Some(topic), BROKERS).map_err(|error| error.to_string())?;
    let topic_metadata = metadata.topics().iter().find(|topic_metadata| topic_metadata.name() == topic);
    let topic_metadata = topic_metadata.ok_or_else(|| format!("no word of topic {topic:?}"))?;
    if let Some(error) = topic_metadata.error() {
        return Err(format!("topic {topic:?}: {}", RDKafkaErrorCode::from(error)));
    }
    let mut partitions: Vec<i32> = topic_metadata.partitions().iter().map(|partition| partition.id()).collect();
    partitions.sort_unstable();
    if partitions.is_empty() { Err(format!("topic {topic:?} has no partitions")) } else { Ok(partitions) }
}

/// The first offset of a partition, and the one behind the last.
fn ends(consumer: &FeedConsumer, topic: &str, partition: i32) -> Result<(u64, u64), String> {
    let (low, high) = consumer.fetch_watermarks(topic, partition, BROKERS).map_err(|error| error.to_string())?;
    let whole = |offset: i64| u64::try_from(offset).map_err(|_| format!("{topic:?} begins at {offset}"));
    Ok((whole(low)?, whole(high)?))
}

/// Positions that were committed to Kafka before.
fn committed(consumer: &FeedConsumer, topic: &str, partitions: &[i32]) -> Result<HashMap<i32, u64>, String> {
    let mut list = TopicPartitionList::new();
    partitions.iter().for_each(|partition| {
        list.add_partition(topic, *partition);
    });
    let offsets = consumer.committed_offsets(list, BROKERS).map_err(|error| error.to_string())?;
    let elements = offsets.elements();
    let offset = |offset: Offset| offset.to_raw().and_then(|raw| u64::try_from(raw).ok());
    Ok(elements.iter().filter_map(|one| Some((one.partition(), offset(one.offset())?))).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
