//! Where lines go: to a server, which reads them, or into the journal of a database that nothing else captures into.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use splay_capture::text::{TextDecoder, TextSettings};
use splay_capture::{Append, Capture, CaptureSettings, Producer, TableOptions};
use splay_server::client::{Client, HttpAnswer};
use splay_store::{Database, TableSpec};
use tokio::runtime::Runtime;

use super::lines::Block;
use crate::args::TickWriteArguments;
use crate::commands::place;

/// Waits between two tries.
const WAIT_FIRST: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What became of a block.
#[derive(Debug, Default)]
pub struct BlockOutcome {
    pub rows: u64,
    pub quarantined: u64,
    /// Left out as duplicates of others.
    pub duplicates: u64,
    pub refused: u64,
    /// The first refused lines, with their reasons.
    pub errors: Vec<(u64, String)>,
}

/// Where lines go.
pub struct Sink {
    /// The producer of the lines. If no name is given, one of this process alone, so that lines that are sent again are stored once.
    producer: String,
    is_named: bool,
    target: Target,
}

enum Target {
    Server(Box<Server>),
    Local(Box<Local>),
}

struct Server {
    client: Client,
    runtime: Runtime,
    /// Parameters of each request.
    query: String,
    retry: Duration,
}

struct Local {
    capture: Capture,
    spec: TableSpec,
    decoder: TextDecoder,
    ack: splay_capture::AckClass,
}

impl Sink {
    pub fn open(arguments: &TickWriteArguments, columns: Vec<String>) -> Result<Sink> {
        let target = match place::client(&arguments.place)? {
            Some(client) => Target::Server(Box::new(Server::new(arguments, client, &columns)?)),
            None => Target::Local(Box::new(Local::open(arguments, columns)?)),
        };
        let own = || {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            format!("tick-write-{}-{}", std::process::id(), since.as_nanos())
        };
        let (producer, is_named) = (arguments.producer.clone().unwrap_or_else(own), arguments.producer.is_some());
        Ok(Sink { producer, is_named, target })
    }

    /// The last line that was stored before; 0 for none.
    pub fn last_line(&self) -> Result<u64> {
        if !self.is_named {
            return Ok(0);
        }
        match &self.target {
            Target::Server(server) => server.last_line(&self.producer),
            Target::Local(local) => Ok(local.capture.last_of(&self.producer)?.unwrap_or(0)),
        }
    }

    pub fn store(&self, block: &Block) -> Result<BlockOutcome> {
        match &self.target {
            Target::Server(server) => server.store(&self.producer, block),
            Target::Local(local) => local.store(&self.producer, block),
        }
    }

    pub fn close(self) -> Result<()> {
        match self.target {
            Target::Server(_) => Ok(()),
            Target::Local(local) => local.close(),
        }
    }
}

impl Server {
    fn new(arguments: &TickWriteArguments, client: Client, columns: &[String]) -> Result<Server> {
        let types: Vec<String> =
            arguments.shape.types.iter().map(|(column, column_type)| format!("{column}:{column_type}")).collect();
        let header: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.replace('"', "\"\""))).collect();
        let format = match arguments.format {
            splay_capture::text::TextFormat::Csv => "csv",
            splay_capture::text::TextFormat::Ndjson => "ndjson",
        };
        let mut query = String::new();
        for (name, value) in [
            ("table", Some(arguments.table.clone())),
            ("format", Some(format.to_owned())),
            ("ack", Some(arguments.ack.to_string())),
            ("unit", Some(arguments.unit.to_string())),
            ("columns", (!header.is_empty()).then(|| header.join(","))),
            ("types", (!types.is_empty()).then(|| types.join(","))),
            ("time", arguments.shape.time.clone()),
            ("symbol", arguments.shape.symbol.clone()),
            ("time_zone", arguments.shape.time_zone.clone()),
            ("day_start", arguments.shape.day_start.map(|start| start.to_string())),
        ] {
            if let Some(value) = value {
                query.push_str(&format!("{name}={}&", encoded(&value)));
            }
        }
        Ok(Server { client, runtime: place::runtime()?, query, retry: Duration::from_secs(arguments.retry_seconds) })
    }

    fn last_line(&self, producer: &str) -> Result<u64> {
        let path = format!("/api/v1/write?producer={}", encoded(producer));
        let reply = place::json(&self.runtime.block_on(self.client.get(&path))?)?;
        Ok(reply["sequence"].as_u64().unwrap_or(0))
    }

    fn store(&self, producer: &str, block: &Block) -> Result<BlockOutcome> {
        let path = format!("/api/v1/write?{}line={}&producer={}", self.query, block.first_line, encoded(producer));
        let reply = self.post_until_answered(&path, &block.bytes)?;
        let number = |name: &str| reply[name].as_u64().unwrap_or(0);
        let errors = reply["errors"].as_array().into_iter().flatten();
        let error = |error: &Value| {
            (error["line"].as_u64().unwrap_or(0), error["reason"].as_str().unwrap_or_default().to_owned())
        };
        Ok(BlockOutcome {
            rows: number("rows"),
            quarantined: number("quarantined"),
            duplicates: number("duplicate_rows"),
            refused: number("refused"),
            errors: errors.map(error).collect(),
        })
    }

    /// Sends until it is known what became of it: the number of the last line tells a repeat.
    fn post_until_answered(&self, path: &str, body: &[u8]) -> Result<Value> {
        let (start, mut wait) = (Instant::now(), WAIT_FIRST);
        loop {
            let answered = self.runtime.block_on(self.client.post(path, body.to_vec().into()));
            let why = match answered {
                Ok(answer) if !is_retryable(&answer) => return place::json(&answer),
                Ok(answer) => place::json(&answer).err(),
                Err(error) => Some(error.into()),
            };
            if start.elapsed() + wait > self.retry {
                return Err(why.unwrap_or_else(|| anyhow!("the server has no room")));
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(WAIT_MAX);
        }
    }
}

fn is_retryable(answer: &HttpAnswer) -> bool {
    answer.status >= 300 && serde_json::from_slice::<Value>(&answer.body).is_ok_and(|body| body["retryable"] == true)
}

/// A value as it stands in an address.
fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

impl Local {
    fn open(arguments: &TickWriteArguments, columns: Vec<String>) -> Result<Local> {
        let database = Database::open_or_create(&arguments.place.place)?;
        let table_options = TableOptions {
            time: arguments.shape.time.clone(),
            symbol: arguments.shape.symbol.clone(),
            time_zone: arguments.shape.time_zone.clone(),
            day_start: arguments.shape.day_start,
            types: arguments.shape.types.clone(),
        };
        splay_store::validate_name("table", &arguments.table)?;
        let (capture, _) = Capture::open(database, CaptureSettings::default())
            .context("where a server captures into the database, give its address instead of the folder")?;
        let spec = match capture.spec(&arguments.table)? {
            Some(spec) => {
                table_options.check(&spec)?;
                TableSpec::clone(&spec)
            }
            None if table_options.types.is_empty() => {
                bail!("there is no table {:?}; to make it, name its columns with --type COLUMN=TYPE", arguments.table)
            }
            None => table_options.table(&arguments.table)?,
        };
        let settings = TextSettings { columns, time_unit: arguments.unit, ..TextSettings::new(arguments.format) };
        let decoder = TextDecoder::new(&spec, &table_options.more(&spec), settings)?;
        Ok(Local { capture, spec, decoder, ack: arguments.ack })
    }

    fn store(&self, producer: &str, block: &Block) -> Result<BlockOutcome> {
        let decoded = self.decoder.decode(&block.bytes, block.first_line)?;
        let mut stored = BlockOutcome { refused: decoded.refused, ..BlockOutcome::default() };
        for error in decoded.errors {
            self.capture.reject("text", format!("table {:?}: {error}", self.spec.name), &error.sample);
            stored.errors.push((error.line, error.reason));
        }
        if decoded.rows.num_rows() > 0 {
            let producer = Producer::new(producer.to_owned(), decoded.last_line);
            let ack = self.capture.append(Append {
                spec: Some(self.spec.clone()),
                producer: Some(producer),
                ack: Some(self.ack),
                ..Append::new(self.spec.name.clone(), decoded.rows)
            })?;
            (stored.rows, stored.quarantined, stored.duplicates) = (ack.rows, ack.quarantined, ack.duplicate_rows);
        }
        Ok(stored)
    }

    /// Writes the rows down, so that who opens the database sees them.
    fn close(self) -> Result<()> {
        let written = self.capture.write_down(None);
        self.capture.close()?;
        written
            .context("the rows are safe in the journal; a server, or `splay roll`, writes them to the table's files")?;
        Ok(())
    }
}
