//! The settings: a TOML file with topics, tables and the server (docs/guide/kafka.md).
//!
//! Secrets aren't in it: it names the environment variables that hold them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
pub use splay_records::settings::{
    Access, AckClass, BatchSettings, CreateSettings, MetricsSettings, OnError, ServerSettings, UnknownFields,
};
use splay_records::settings::{PRODUCER_BYTES_MAX, bytes, is_loopback};

use crate::times::Unit;

/// Properties of librdkafka that would break what the program promises.
const RESERVED: [&str; 9] = [
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "group.id",
    "metadata.broker.list",
    "queued.max.messages.kbytes",
    "statistics.interval.ms",
];

/// Parts of names of properties that are secrets.
const SECRET: [&str; 5] = ["password", "secret", "key.pem", "oauthbearer.config", "username:password"];

/// All settings of a feed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The feed's name, a part of its producers' names: with another one, all is read anew.
    pub name: String,
    /// The treatment of a record that is no row.
    #[serde(default)]
    pub on_error: OnError,
    /// The server that rows are sent to.
    pub server: ServerSettings,
    /// The brokers.
    pub kafka: KafkaSettings,
    /// The registry of Avro's schemas.
    pub registry: Option<Access>,
    /// The file or topic of records that are no rows.
    #[serde(default)]
    pub dead_letters: DeadLetterSettings,
    /// The log's numbers and the page for Prometheus.
    #[serde(default)]
    pub metrics: MetricsSettings,
    /// The topics.
    #[serde(rename = "topic")]
    pub topics: Vec<TopicSettings>,
}

/// The brokers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaSettings {
    /// Brokers to begin with: `a:9092,b:9092`.
    pub brokers: String,
    /// The group under which positions are told to Kafka, for those who watch lags; else `splay-kafka-NAME`.
    pub group: Option<String>,
    /// Bytes of records that wait in this process, of all partitions together.
    #[serde(default = "quarter_gibibyte", deserialize_with = "bytes")]
    pub memory_bytes_max: usize,
    /// Properties of librdkafka: security, timeouts.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Properties whose values are in environment variables, by the variables' names.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
}

/// The file or topic of records that are no rows.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterSettings {
    /// A file of JSON lines.
    pub file: Option<PathBuf>,
    /// A topic.
    pub topic: Option<String>,
    /// Consecutive bad records of a partition after which the feed ends, since the settings are more likely wrong than the records.
    #[serde(default = "DeadLetterSettings::in_a_row_max")]
    pub in_a_row_max: ConsecutiveBadRecordsMax,
}

/// Consecutive bad records of a partition after which the feed ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct ConsecutiveBadRecordsMax(pub u64);

impl Default for ConsecutiveBadRecordsMax {
    fn default() -> ConsecutiveBadRecordsMax {
        ConsecutiveBadRecordsMax(1_000)
    }
}

impl DeadLetterSettings {
    fn in_a_row_max() -> ConsecutiveBadRecordsMax {
        ConsecutiveBadRecordsMax::default()
    }
}

/// A topic.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicSettings {
    /// Its name; with `*` at the end all topics whose names begin so.
    pub name: String,
    /// The table that its records are rows of.
    pub table: String,
    /// The format of its records.
    pub format: Format,
    /// The partitions; else all.
    #[serde(default)]
    pub partitions: Vec<i32>,
    /// The start of a partition of which the server has nothing.
    #[serde(default)]
    pub start: Start,
    /// The treatment of a partition that was read before and that the server doesn't know.
    #[serde(default)]
    pub forgotten: OnLostPosition,
    /// The treatment of records that are gone from Kafka before they were read.
    #[serde(default)]
    pub on_gap: OnGap,
    /// Columns and where their values come from; else fields of the columns' names.
    #[serde(default)]
    pub columns: BTreeMap<String, Source>,
    /// The unit of numbers in timestamp columns.
    pub time_unit: Option<Unit>,
    /// The same by column.
    #[serde(default)]
    pub units: BTreeMap<String, Unit>,
    /// The treatment of fields that no column takes.
    #[serde(default)]
    pub unknown_fields: UnknownFields,
    /// The table to make if there is none.
    pub create: Option<CreateSettings>,
    /// Limits of a batch.
    #[serde(default)]
    pub batch: BatchSettings,
}

/// The format of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An object.
    Json,
    /// A datum of Avro in Confluent's framing.
    Avro,
    /// An Arrow IPC stream.
    Arrow,
}

/// The start of a partition of which the server has nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At its first record.
    #[default]
    Earliest,
    /// Behind its last record.
    Latest,
}

/// The treatment of a partition of which the group has a position and the server has none: it is another database, or has forgotten the producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLostPosition {
    /// The feed stops and says so.
    #[default]
    Stop,
    /// It goes on from the group's position.
    Group,
    /// It begins anew, as `start` says.
    Start,
}

/// The treatment of records that are gone from Kafka before they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnGap {
    /// The feed stops and says how many.
    #[default]
    Stop,
    /// It says how many, and goes on with the first that is there.
    Skip,
}

/// The source of a column's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A field, by its path: `data.price`.
    Field(String),
    /// `$key`: the record's key, as text.
    Key,
    /// `$timestamp`: the record's time.
    RecordTime,
    /// `$offset`
    Offset,
    /// `$partition`
    Partition,
    /// `$topic`
    Topic,
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(match text.as_str() {
            "$key" => Source::Key,
            "$timestamp" => Source::RecordTime,
            "$offset" => Source::Offset,
            "$partition" => Source::Partition,
            "$topic" => Source::Topic,
            other if other.starts_with('$') || other.is_empty() => {
                return Err(serde::de::Error::custom(format!(
                    "{other:?} is no source of a column; there are fields, $key, $timestamp, $offset, $partition, $topic"
                )));
            }
            field => Source::Field(field.to_owned()),
        })
    }
}

fn quarter_gibibyte() -> usize {
    256 << 20
}

impl Settings {
    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// The fault of the settings.
    pub fn read(file: &Path) -> Result<Settings, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut settings = Settings::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let files = [&mut settings.dead_letters.file, &mut settings.server.ca_file];
        let of_registry = settings.registry.as_mut().map(|registry| &mut registry.ca_file);
        files.into_iter().chain(of_registry).flatten().for_each(|path| *path = folder.join(&*path));
        Ok(settings)
    }

    /// Settings of a text.
    ///
    /// # Errors
    /// The fault of the settings.
    pub fn parse(text: &str) -> Result<Settings, String> {
        let settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.validate()?;
        Ok(settings)
    }

    /// Checks that the settings are consistent.
    ///
    /// # Errors
    /// The fault of the settings.
    pub fn validate(&self) -> Result<(), String> {
        if self.name.is_empty() || self.name.contains('/') {
            return Err("name: one or more characters, without /".to_owned());
        }
        if self.topics.is_empty() {
            return Err("there is no [[topic]]".to_owned());
        }
        let mut names = BTreeSet::new();
        for topic in &self.topics {
            if !names.insert(&topic.name) {
                return Err(format!("topic {:?} is there twice: the position of a partition is one", topic.name));
            }
            self.validate_topic(topic).map_err(|reason| format!("topic {:?}: {reason}", topic.name))?;
        }
        self.validate_kafka()?;
        self.validate_dead_letters()?;
        if let Some(listen) = self.metrics.listen.filter(|listen| !is_loopback(listen.ip())) {
            return Err(format!("metrics.listen: {listen} is reached by others; give an address of loopback"));
        }
        let places = [("server", Some(self.server.access())), ("registry", self.registry.clone())];
        for (name, access) in places.into_iter().filter_map(|(name, access)| Some((name, access?))) {
            if !access.url.starts_with("http://") && !access.url.starts_with("https://") {
                return Err(format!("{name}.url begins neither with http:// nor with https://"));
            }
            // Addresses are in errors and in the log.
            if access.url.contains('@') {
                return Err(format!("{name}.url has a user in it: give user and password_env"));
            }
        }
        Ok(())
    }

    fn validate_topic(&self, topic: &TopicSettings) -> Result<(), String> {
        if topic.format == Format::Avro && self.registry.is_none() {
            return Err("Avro needs a [registry]".to_owned());
        }
        if topic.batch.rows == 0 || topic.batch.bytes == 0 {
            return Err("a batch has one row and one byte at least".to_owned());
        }
        if topic.batch.bytes > 32 << 20 {
            return Err("a batch has at most 32M bytes: the server takes messages of 64M".to_owned());
        }
        if let Some(unknown) =
            topic.units.keys().find(|name| !topic.columns.is_empty() && !topic.columns.contains_key(*name))
        {
            return Err(format!("units.{unknown}: columns has no such column"));
        }
        if topic.name.trim_end_matches('*').contains('*') || topic.name.ends_with("**") || topic.name.is_empty() {
            return Err("a name, or the beginning of names with one * behind it".to_owned());
        }
        // The longest number of a partition that there is.
        self.checked_producer(&topic.name, i32::MAX).map(drop)
    }

    fn validate_kafka(&self) -> Result<(), String> {
        let kafka = &self.kafka;
        if let Some(name) =
            kafka.properties.keys().chain(kafka.secrets.keys()).find(|name| RESERVED.contains(&name.as_str()))
        {
            return Err(format!("kafka.properties: {name:?} is set by splay-kafka"));
        }
        if let Some(name) = kafka.properties.keys().find(|name| SECRET.iter().any(|part| name.contains(part))) {
            return Err(format!(
                "kafka.properties: {name:?} is a secret: name an environment variable for it in kafka.secrets"
            ));
        }
        if kafka.memory_bytes_max < 1 << 20 {
            return Err("kafka.memory_bytes_max: 1M at least".to_owned());
        }
        Ok(())
    }

    fn validate_dead_letters(&self) -> Result<(), String> {
        match (&self.dead_letters.file, &self.dead_letters.topic, self.on_error) {
            (Some(_), Some(_), _) => Err("dead_letters: a file or a topic".to_owned()),
            (None, None, OnError::Skip) => {
                Err("dead_letters: a file or a topic for records that are no rows, or on_error = \"stop\"".to_owned())
            }
            (_, Some(topic), _) if self.topics.iter().any(|other| other.name == *topic) => {
                Err(format!("dead_letters.topic: {topic:?} is read by this feed"))
            }
            _ => Ok(()),
        }
    }

    /// The name under which the server keeps a partition's position.
    #[must_use]
    pub fn producer(&self, topic: &str, partition: i32) -> String {
        format!("kafka/{}/{topic}/{partition}", self.name)
    }

    /// The same, if the server takes it.
    ///
    /// # Errors
    /// It is too long.
    pub fn checked_producer(&self, topic: &str, partition: i32) -> Result<String, String> {
        let name = self.producer(topic, partition);
        if name.len() > PRODUCER_BYTES_MAX {
            return Err(format!(
                "the producer's name {name:?} is longer than {PRODUCER_BYTES_MAX} bytes: shorten name"
            ));
        }
        Ok(name)
    }

    /// The group under which positions are told to Kafka.
    #[must_use]
    pub fn group(&self) -> String {
        self.kafka.group.clone().unwrap_or_else(|| format!("splay-kafka-{}", self.name))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
