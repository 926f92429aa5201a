//! The parts of a file of settings that all programs have: the server, tables to make, limits of batches.
//!
//! Secrets aren't in it: it names the environment variables that hold them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// The longest name of a producer that the server takes.
pub const PRODUCER_BYTES_MAX: usize = 256;

/// The treatment of a record that is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It goes to the dead letters, and the feed goes on.
    #[default]
    Skip,
    /// The feed stops before it.
    Stop,
}

/// An HTTP server, and the credentials for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Its address: `http://127.0.0.1:8081`.
    pub url: String,
    /// The variable that holds a token.
    pub token_env: Option<String>,
    /// A name, with a password.
    pub user: Option<String>,
    /// The variable that holds the password.
    pub password_env: Option<String>,
    /// Certificates of authorities, as PEM; else those that browsers know.
    pub ca_file: Option<PathBuf>,
}

/// The server that rows are sent to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// The server's HTTP address.
    pub url: String,
    /// See [`Access`].
    pub token_env: Option<String>,
    /// See [`Access`].
    pub user: Option<String>,
    /// See [`Access`].
    pub password_env: Option<String>,
    /// See [`Access`].
    pub ca_file: Option<PathBuf>,
    /// The durability of rows before the feed continues.
    #[serde(default)]
    pub ack: AckClass,
    /// Seconds to wait for an answer before the message is sent again.
    #[serde(default = "sixty")]
    pub timeout_seconds: u64,
}

impl ServerSettings {
    /// Its address and secrets.
    #[must_use]
    pub fn access(&self) -> Access {
        Access {
            url: self.url.clone(),
            token_env: self.token_env.clone(),
            user: self.user.clone(),
            password_env: self.password_env.clone(),
            ca_file: self.ca_file.clone(),
        }
    }
}

/// A class of acknowledgement that survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckClass {
    /// On the server's disk.
    #[default]
    Disk,
    /// On its followers' disks, too.
    Replica,
}

/// The log's numbers and the page for Prometheus.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsSettings {
    /// The address of the page for Prometheus, on loopback.
    pub listen: Option<SocketAddr>,
    /// Seconds between two lines of the log; 0 for none.
    #[serde(default = "ten")]
    pub log_seconds: u64,
}

impl Default for MetricsSettings {
    fn default() -> MetricsSettings {
        MetricsSettings { listen: None, log_seconds: ten() }
    }
}

/// The treatment of fields that no column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownFields {
    /// They are left out.
    #[default]
    Ignore,
    /// Their record is bad.
    Refuse,
}

/// A table to make if there is none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateSettings {
    /// Columns and their types: `time:timestamp,sym:symbol,price:float64`.
    pub types: String,
    /// The column of the time.
    pub time: String,
    /// The column of the symbol; empty for none.
    #[serde(default)]
    pub symbol: String,
    /// The zone of the table's dates.
    pub time_zone: Option<String>,
    /// The time of day at which they begin.
    pub day_start: Option<String>,
}

/// Limits of a batch: the first that is reached counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BatchSettings {
    /// Rows.
    pub rows: usize,
    /// Bytes of the records.
    #[serde(deserialize_with = "bytes")]
    pub bytes: usize,
    /// Milliseconds since the first record came.
    pub milliseconds: u64,
}

impl Default for BatchSettings {
    fn default() -> BatchSettings {
        BatchSettings { rows: 20_000, bytes: 4 << 20, milliseconds: 100 }
    }
}

impl BatchSettings {
    /// The longest time that a record waits.
    #[must_use]
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.milliseconds)
    }
}

fn ten() -> u64 {
    10
}

fn sixty() -> u64 {
    60
}

/// A number of bytes, or a text such as `64M`.
///
/// # Errors
/// A text that is no size.
pub fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberOrText {
        Number(usize),
        Text(String),
    }
    let text = match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Number(number) => return Ok(number),
        NumberOrText::Text(text) => text,
    };
    let wrong = || serde::de::Error::custom(format!("{text:?} is no size; write 67108864 or \"64M\""));
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(wrong()),
    };
    let number: usize = digits.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Whether an address is reached by this machine alone.
#[must_use]
pub fn is_loopback(address: IpAddr) -> bool {
    address.is_loopback()
}
