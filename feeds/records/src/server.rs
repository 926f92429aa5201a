//! The server over HTTP: rows in, the last number of a producer, the columns of a table.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::ipc::writer::StreamWriter;
use serde_json::Value;

use crate::columns::{Column, ColumnType};
use crate::http_client::{HttpClient, HttpResponse, escaped};
use crate::settings::{AckClass, CreateSettings, ServerSettings};

/// Rows with the number that makes them one message, however often they are sent.
#[derive(Debug)]
pub struct RowsMessage<'a> {
    /// The table.
    pub table: &'a str,
    /// The producer's name.
    pub producer: &'a str,
    /// The number that the producer's last message had; 0 for none.
    pub previous: u64,
    /// The message's number: the offset behind its last record.
    pub sequence: u64,
    /// The rows; there may be none, to tell a position.
    pub rows: &'a RecordBatch,
}

/// The outcome of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is stored, now or before.
    Stored {
        /// Whether it was stored before.
        is_repeat: bool,
        /// Rows whose time is too far ahead, which are in the quarantine.
        quarantined: u64,
        /// Rows that were left out by a setting of the table.
        duplicate_rows: u64,
    },
    /// It doesn't follow on the producer's last message.
    Conflict(String),
    /// Its rows don't fit the table, and never will.
    Rejected(String),
    /// It is larger than a message may be.
    TooLarge(String),
    /// The message wasn't stored, or it isn't known whether it was. It has to be sent again.
    Retry {
        /// Why.
        reason: String,
        /// The time that the server asks to wait, if it does.
        after: Option<Duration>,
    },
    /// The server doesn't understand the message.
    Failed(String),
}

/// Why a query to the server has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryFailure {
    /// A later query may have one.
    Temporary(String),
    /// No query will: the address, the token or the table is wrong.
    Permanent(String),
}

/// The server and the process as the feed of a partition needs them.
pub trait Sink {
    /// Sends a message.
    fn write(&self, message: &RowsMessage<'_>) -> Reply;

    /// The last number of a producer; `None` if the server has none.
    ///
    /// # Errors
    /// As [`QueryFailure`] says.
    fn last(&self, producer: &str) -> Result<Option<u64>, QueryFailure>;

    /// Whether the table's columns are still those that rows were made for.
    ///
    /// # Errors
    /// As [`QueryFailure`] says.
    fn is_current(&self) -> Result<bool, QueryFailure>;

    /// Waits. False if the feed is to end, which cuts the wait short.
    fn wait(&self, time: Duration) -> bool;
}

/// The server.
#[derive(Debug)]
pub struct Server {
    http: HttpClient,
    ack: AckClass,
}

impl Server {
    /// The server of settings.
    ///
    /// # Errors
    /// As [`HttpClient::new`].
    pub fn new(settings: &ServerSettings) -> Result<Server, String> {
        let http = HttpClient::new(&settings.access(), Duration::from_secs(settings.timeout_seconds))?;
        Ok(Server { http, ack: settings.ack })
    }

    /// Sends a message. The server makes a table that isn't there, if the settings describe it.
    pub fn write(&self, message: &RowsMessage<'_>, create: Option<&CreateSettings>) -> Reply {
        let body = match stream(message.rows) {
            Ok(body) => body,
            Err(reason) => return Reply::Failed(reason),
        };
        let mut path = format!(
            "/api/v1/write?table={}&producer={}&sequence={}&previous={}&ack={}&create={}",
            escaped(message.table),
            escaped(message.producer),
            message.sequence,
            message.previous,
            match self.ack {
                AckClass::Disk => "disk",
                AckClass::Replica => "replica",
            },
            create.is_some(),
        );
        if let Some(create) = create {
            let zone = create.time_zone.as_ref().map(|zone| ("time_zone", zone));
            let start = create.day_start.as_ref().map(|start| ("day_start", start));
            let required = [("types", &create.types), ("time", &create.time), ("symbol", &create.symbol)];
            for (name, value) in required.into_iter().chain(zone).chain(start) {
                path.push_str(&format!("&{name}={}", escaped(value)));
            }
        }
        match self.http.post(&path, "application/vnd.apache.arrow.stream", &body) {
            Ok(answer) => reply(&answer),
            Err(reason) => Reply::Retry { reason, after: None },
        }
    }

    /// The last number of a producer.
    ///
    /// # Errors
    /// As [`QueryFailure`] says.
    pub fn last(&self, producer: &str) -> Result<Option<u64>, QueryFailure> {
        let answer = self.ask(&format!("/api/v1/write?producer={}", escaped(producer)))?;
        match &answer["sequence"] {
            Value::Null => Ok(None),
            number => match number.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(QueryFailure::Permanent(format!("the server's last number is {number}"))),
            },
        }
    }

    /// The columns of a table, or those of the table that is to be made.
    ///
    /// # Errors
    /// As [`QueryFailure`] says.
    pub fn columns(&self, table: &str, create: Option<&CreateSettings>) -> Result<Vec<Column>, QueryFailure> {
        match (self.ask(&format!("/tables/{}", escaped(table))), create) {
            (Ok(table), _) => columns_of(&table).map_err(QueryFailure::Permanent),
            (Err(QueryFailure::Permanent(_)), Some(create)) => columns_to_be(create).map_err(QueryFailure::Permanent),
            (Err(failure), _) => Err(failure),
        }
    }

    fn ask(&self, path: &str) -> Result<Value, QueryFailure> {
        let answer = self.http.get(path).map_err(QueryFailure::Temporary)?;
        if answer.status == 200 {
            return Ok(answer.json);
        }
        let reason = format!("the server answers {}: {}", answer.status, reason(&answer));
        match answer.status {
            400 | 401 | 403 | 404 | 405 => Err(QueryFailure::Permanent(reason)),
            _ => Err(QueryFailure::Temporary(reason)),
        }
    }
}

fn reason(answer: &HttpResponse) -> &str {
    answer.json["error"].as_str().unwrap_or("no reason given")
}

/// Interprets the server's answer to a message. If the outcome isn't known, the message is sent again, which loses and doubles nothing.
fn reply(answer: &HttpResponse) -> Reply {
    let (json, reason) = (&answer.json, reason(answer).to_owned());
    if answer.status == 200 {
        let count = |name: &str| json[name].as_u64().unwrap_or(0);
        return match json["duplicate"].as_bool() {
            Some(is_repeat) => {
                Reply::Stored { is_repeat, quarantined: count("quarantined"), duplicate_rows: count("duplicate_rows") }
            }
            None => Reply::Retry { reason: "the answer is none of a SplayDB server".to_owned(), after: None },
        };
    }
    match (answer.status, json["code"].as_str()) {
        (_, Some("conflict")) => Reply::Conflict(reason),
        (_, Some("rejected")) => Reply::Rejected(reason),
        (_, Some("too_large")) => Reply::TooLarge(reason),
        (_, Some("bad_request")) => Reply::Failed(format!("the server doesn't understand the feed: {reason}")),
        (status, _) => {
            Reply::Retry { reason: format!("the server answers {status}: {reason}"), after: answer.retry_after }
        }
    }
}

/// Rows as an Arrow IPC stream.
///
/// # Errors
/// Arrow's.
pub fn stream(rows: &RecordBatch) -> Result<Vec<u8>, String> {
    let written = || -> Result<Vec<u8>, arrow::error::ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::with_capacity(rows.get_array_memory_size()), &rows.schema())?;
        writer.write(rows)?;
        writer.into_inner()
    };
    written().map_err(|error| error.to_string())
}

fn column(name: &str, kind: &str, time: &str) -> Result<Column, String> {
    let kind: ColumnType = kind.parse().map_err(|error| format!("column {name:?}: {error}"))?;
    Ok(Column { name: name.to_owned(), kind, unit: None, is_time: name.eq_ignore_ascii_case(time) })
}

/// The columns of an answer of `/tables/NAME`.
fn columns_of(table: &Value) -> Result<Vec<Column>, String> {
    let Some(time) = table["time"].as_str() else {
        return Err(format!("{} is no table that rows are captured into: it has no time", table["name"]));
    };
    let described = table["columns"].as_array().ok_or("the server's answer has no columns")?;
    let text = |column: &Value, key: &str| column[key].as_str().unwrap_or_default().to_owned();
    described.iter().map(|described| column(&text(described, "name"), &text(described, "type"), time)).collect()
}

/// The columns that `types` names. Commas within brackets belong to a type.
fn columns_to_be(create: &CreateSettings) -> Result<Vec<Column>, String> {
    let (mut columns, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    let ends = create.types.char_indices().filter(|(_, character)| match character {
        '(' => {
            depth += 1;
            false
        }
        ')' => {
            depth -= 1;
            false
        }
        ',' => depth == 0,
        _ => false,
    });
    let ends: Vec<usize> = ends.map(|(place, _)| place).chain([create.types.len()]).collect();
    for end in ends {
        let one = create.types[start..end].trim();
        let (name, kind) = one.rsplit_once(':').ok_or_else(|| format!("types: {one:?} is no name:type"))?;
        columns.push(column(name.trim(), kind.trim(), &create.time)?);
        start = end + 1;
    }
    if columns.iter().any(|column| column.is_time && column.kind == ColumnType::Timestamp) {
        Ok(columns)
    } else {
        Err(format!("types: {:?}, the time, is no timestamp of them", create.time))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
