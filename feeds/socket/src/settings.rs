//! The settings: a TOML file with sources, tables and the server (docs/guide/feeds.md).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use splay_records::settings::{
    BatchSettings, CreateSettings, MetricsSettings, PRODUCER_BYTES_MAX, ServerSettings, bytes, is_loopback,
};
use splay_records::times::Unit;

/// All settings of the program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The program's name, a part of its producers' names.
    pub name: String,
    /// The server that rows are sent to.
    pub server: ServerSettings,
    /// The file of messages that are no rows.
    pub dead_letters: DeadLetterSettings,
    /// The log's numbers and the page for Prometheus.
    #[serde(default)]
    pub metrics: MetricsSettings,
    /// The feeds.
    #[serde(rename = "feed")]
    pub feeds: Vec<FeedSettings>,
}

/// The file of messages that are no rows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterSettings {
    /// A file of JSON lines.
    pub file: PathBuf,
    /// Bytes that it may have. Further messages are counted and logged.
    #[serde(default = "gibibyte", deserialize_with = "bytes")]
    pub bytes_max: usize,
}

/// A feed: a venue that is connected to, or a place where senders connect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedSettings {
    /// Its name.
    pub name: String,
    /// A WebSocket to connect to: `wss://host/path`.
    pub url: Option<String>,
    /// A place to listen at: `tcp://`, `udp://`, `zmq://` with an address of loopback, `unix:` with a path.
    pub listen: Option<ListenAddress>,
    /// Messages that are sent once the WebSocket is open: subscriptions.
    #[serde(default)]
    pub send: Vec<String>,
    /// Seconds between two pings; 0 for none.
    #[serde(default = "fifteen")]
    pub ping_seconds: u64,
    /// A message that is sent with each ping, for venues that ask for one.
    pub ping_text: Option<String>,
    /// Seconds without anything, answers to pings included, after which a connection is ended; 0 for never.
    #[serde(default = "sixty")]
    pub silent_seconds_max: u64,
    /// Seconds without a message after which a connection is ended; 0 for never.
    #[serde(default)]
    pub quiet_seconds_max: u64,
    /// The longest wait before the next attempt to connect.
    #[serde(default = "sixty")]
    pub retry_seconds_max: u64,
    /// Certificates of authorities, as PEM; else those that browsers know.
    pub ca_file: Option<PathBuf>,
    /// Senders that are connected at a time.
    #[serde(default = "thirty_two")]
    pub connections_max: usize,
    /// Bytes of a message.
    #[serde(default = "mebibyte", deserialize_with = "bytes")]
    pub message_bytes_max: usize,
    /// Bytes of messages that wait in this process.
    #[serde(default = "sixty_four_mebibytes", deserialize_with = "bytes")]
    pub memory_bytes_max: usize,
    /// The treatment of messages beyond `memory_bytes_max`.
    pub when_full: Option<WhenFull>,
    /// Messages that are no rows: acknowledgements, heartbeats.
    #[serde(default)]
    pub ignore: Vec<Pattern>,
    /// Messages by which a venue refuses a subscription.
    #[serde(default)]
    pub fail: Vec<Pattern>,
    /// The tables that messages are rows of.
    #[serde(rename = "table")]
    pub tables: Vec<TableSettings>,
}

/// The treatment of messages beyond `memory_bytes_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// Nothing is read until there is room: the sender waits, or closes the connection.
    Wait,
    /// Messages are read, counted, and dropped.
    Drop,
}

/// Paths, and the texts that the values there may be. A message fits if all do.
pub type Pattern = BTreeMap<String, Texts>;

/// Texts that a value may be; `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum TextOrTexts {
            Bool(bool),
            Whole(i64),
            Text(String),
            Many(Vec<String>),
        }
        Ok(Texts(match TextOrTexts::deserialize(deserializer)? {
            TextOrTexts::Bool(value) => vec![value.to_string()],
            TextOrTexts::Whole(number) => vec![number.to_string()],
            TextOrTexts::Text(text) => vec![text],
            TextOrTexts::Many(texts) => texts,
        }))
    }
}

/// Messages that are rows of a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSettings {
    /// The table's name.
    pub name: String,
    /// The pattern of its messages; else all that no other table takes.
    #[serde(default)]
    pub when: Pattern,
    /// The path of the row or of the array of rows; else the message is the row.
    pub rows: Option<String>,
    /// Columns and where their values come from.
    pub columns: BTreeMap<String, Source>,
    /// Columns whose values are always the same.
    #[serde(default)]
    pub constants: BTreeMap<String, String>,
    /// Texts that stand for others, by column: `side = { b = "buy", s = "sell" }`.
    #[serde(default)]
    pub values: BTreeMap<String, BTreeMap<String, String>>,
    /// The unit of numbers in timestamp columns.
    pub time_unit: Option<Unit>,
    /// The same by column.
    #[serde(default)]
    pub units: BTreeMap<String, Unit>,
    /// The venue's numbers, of which none may be missing.
    pub sequence: Option<SequenceSettings>,
    /// The table to make if there is none.
    pub create: Option<CreateSettings>,
    /// Limits of a batch.
    #[serde(default)]
    pub batch: BatchSettings,
}

/// The venue's numbers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceSettings {
    /// The path of a row's number.
    pub field: String,
    /// The paths of the values that tell the series of numbers apart, such as the symbol.
    #[serde(default)]
    pub by: Vec<String>,
}

/// The source of a column's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A path from the row: `data.price`, `0`.
    Row(String),
    /// `^path`: a path from the message.
    Message(String),
    /// `$received`: the time of the message's arrival.
    Received,
    /// `$feed`: the feed's name.
    Feed,
    /// `$key`: the key that ZeroMQ sends before the message.
    Key,
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(match (text.as_str(), text.strip_prefix('^')) {
            ("$received", _) => Source::Received,
            ("$feed", _) => Source::Feed,
            ("$key", _) => Source::Key,
            (other, _) if other.starts_with('$') || other.is_empty() || other == "^" => {
                return Err(serde::de::Error::custom(format!(
                    "{other:?} is no source of a column; there are paths, $received, $feed, $key"
                )));
            }
            (_, Some(path)) => Source::Message(path.to_owned()),
            (path, None) => Source::Row(path.to_owned()),
        })
    }
}

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// Objects of JSON behind each other.
    Tcp(SocketAddr),
    /// An object in each datagram.
    Udp(SocketAddr),
    /// Messages of publishers of ZeroMQ.
    Zmq(SocketAddr),
    /// As TCP, for programs of one machine.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(ListenAddress::Unix(PathBuf::from(path)));
        }
        let wrong =
            || format!("{text:?} is no place to listen at: tcp://127.0.0.1:PORT, udp://…, zmq://… or unix:PATH");
        let (kind, address) = text.split_once("://").ok_or_else(wrong)?;
        let address: SocketAddr = address.parse().map_err(|_| wrong())?;
        match kind {
            "tcp" => Ok(ListenAddress::Tcp(address)),
            "udp" => Ok(ListenAddress::Udp(address)),
            "zmq" => Ok(ListenAddress::Zmq(address)),
            _ => Err(wrong()),
        }
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ListenAddress, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn fifteen() -> u64 {
    15
}

fn sixty() -> u64 {
    60
}

fn thirty_two() -> usize {
    32
}

fn mebibyte() -> usize {
    1 << 20
}

fn sixty_four_mebibytes() -> usize {
    64 << 20
}

fn gibibyte() -> usize {
    1 << 30
}

impl Settings {
    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// The fault of the settings.
    pub fn read(file: &Path) -> Result<Settings, String> {
        let with_file = |error: String| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| with_file(error.to_string()))?;
        let mut settings = Settings::parse(&text).map_err(with_file)?;
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let mut files = vec![&mut settings.dead_letters.file];
        files.extend(settings.server.ca_file.as_mut());
        for feed in &mut settings.feeds {
            files.extend(feed.ca_file.as_mut());
            if let Some(ListenAddress::Unix(path)) = &mut feed.listen {
                files.push(path);
            }
        }
        files.into_iter().for_each(|path| *path = folder.join(&*path));
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

    fn validate(&self) -> Result<(), String> {
        check_name(&self.name)?;
        let mut names = BTreeSet::new();
        for feed in &self.feeds {
            if !names.insert(&feed.name) {
                return Err(format!("feed {:?} is there twice", feed.name));
            }
            feed.validate().map_err(|reason| format!("feed {:?}: {reason}", feed.name))?;
            for (place, table) in feed.tables.iter().enumerate() {
                let longest = self.producer(&feed.name, place, &table.name, &"x".repeat(32));
                if longest.len() > PRODUCER_BYTES_MAX {
                    return Err(format!("the producer's name {longest:?} is too long: shorten names"));
                }
            }
        }
        if self.feeds.is_empty() {
            return Err("there is no [[feed]]".to_owned());
        }
        if let Some(listen) = self.metrics.listen.filter(|listen| !is_loopback(listen.ip())) {
            return Err(format!("metrics.listen: {listen} is reached by others; give an address of loopback"));
        }
        let url = &self.server.url;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err("server.url begins neither with http:// nor with https://".to_owned());
        }
        if url.contains('@') {
            return Err("server.url has a user in it: give user and password_env".to_owned());
        }
        Ok(())
    }

    /// The name under which the server keeps the numbers of a table's messages in a run.
    #[must_use]
    pub fn producer(&self, feed: &str, place: usize, table: &str, run: &str) -> String {
        format!("feed/{}/{feed}/{place}.{table}/{run}", self.name)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('/') {
        Err("name: one or more characters, without /".to_owned())
    } else {
        Ok(())
    }
}

impl FeedSettings {
    /// The treatment of messages beyond `memory_bytes_max`.
    #[must_use]
    pub fn when_full(&self) -> WhenFull {
        self.when_full.unwrap_or(match self.listen {
            // A sender that isn't read drops messages by itself, uncounted.
            Some(ListenAddress::Udp(_) | ListenAddress::Zmq(_)) => WhenFull::Drop,
            _ => WhenFull::Wait,
        })
    }

    fn validate(&self) -> Result<(), String> {
        check_name(&self.name)?;
        match (&self.url, &self.listen) {
            (Some(url), None) => check_url(url)?,
            (None, Some(ListenAddress::Tcp(address) | ListenAddress::Udp(address) | ListenAddress::Zmq(address))) => {
                if !is_loopback(address.ip()) {
                    return Err(format!(
                        "listen: {address} is reached by others, and these senders give no token by which they are known; listen on \
                         loopback, and let others in by an SSH tunnel or a Unix socket"
                    ));
                }
            }
            (None, Some(ListenAddress::Unix(_))) => {}
            _ => return Err("give url, or listen".to_owned()),
        }
        if self.listen.is_some() && !(self.send.is_empty() && self.ping_text.is_none() && self.ca_file.is_none()) {
            return Err("send, ping_text and ca_file are for a url".to_owned());
        }
        if self.tables.is_empty() {
            return Err("there is no [[feed.table]]".to_owned());
        }
        if self.message_bytes_max == 0 || self.message_bytes_max > 16 << 20 {
            return Err("message_bytes_max: 1 to 16M".to_owned());
        }
        if self.memory_bytes_max < 1 << 20 || self.connections_max == 0 {
            return Err("memory_bytes_max: 1M at least; connections_max: 1 at least".to_owned());
        }
        self.tables
            .iter()
            .try_for_each(|table| table.validate().map_err(|reason| format!("table {:?}: {reason}", table.name)))
    }
}

fn check_url(url: &str) -> Result<(), String> {
    if !url.starts_with("ws://") && !url.starts_with("wss://") {
        return Err("url begins neither with ws:// nor with wss://".to_owned());
    }
    // Addresses are in errors and in the log.
    if url.contains('@') { Err("url has a user in it".to_owned()) } else { Ok(()) }
}

impl TableSettings {
    fn validate(&self) -> Result<(), String> {
        let BatchSettings { rows, bytes, .. } = self.batch;
        if rows == 0 || bytes == 0 || bytes > 32 << 20 {
            return Err("a batch has one row and one byte at least, and at most 32M bytes".to_owned());
        }
        if let Some(twice) = self.constants.keys().find(|name| self.columns.contains_key(*name)) {
            return Err(format!("column {twice:?} is in columns and in constants"));
        }
        let is_missing = |name: &&String| !self.columns.contains_key(*name);
        if let Some(unknown) = self.units.keys().chain(self.values.keys()).find(is_missing) {
            return Err(format!("units, values: columns has no column {unknown:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
