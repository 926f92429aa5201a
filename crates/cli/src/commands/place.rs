//! A database that is named by its folder or by the address of its server, and what of it is read.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use splay_capture::FollowSettings;
use splay_import::FileOpener;
use splay_server::client::{Client, HttpAnswer};
use splay_sql::{Session, SessionSettings, creates_table};
use splay_store::Database;

use crate::args::{AskArguments, JournalArguments, PlaceArguments};
use crate::print::note;
use crate::rows::Source;

/// The variable that holds a token.
const TOKEN: &str = "SPLAY_TOKEN";

/// Opens a database to read all its acknowledged rows, those of its journal among them.
pub fn open_to_read(path: &Path, journal: &JournalArguments) -> splay_store::Result<Database> {
    let database = Database::open(path)?;
    if !journal.no_journal {
        splay_capture::follow(&database, FollowSettings { bytes_max: journal.journal_memory.0 as u64 });
    }
    Ok(database)
}

/// Where the statements of `splay sql` and `splay shell` are run.
pub fn source(arguments: &AskArguments, measure_memory: bool) -> Result<Source> {
    if let Some(client) = client(&arguments.place)? {
        if arguments.threads.is_some() || arguments.memory.is_some() || arguments.journal.no_journal {
            bail!("--threads, --memory and --no-journal are for a database of this machine, not for a server");
        }
        return Ok(Source::Server(client));
    }
    let mut settings = SessionSettings::default();
    settings.memory_bytes = arguments.memory.as_ref().map_or(settings.memory_bytes, |bytes| bytes.0);
    settings.threads = arguments.threads.unwrap_or(settings.threads).max(1);
    settings.measure_memory = measure_memory;
    settings.files = Some(Arc::new(FileOpener));
    refuse_other_places(&arguments.place.place)?;
    let database = open_to_read(Path::new(&arguments.place.place), &arguments.journal)?;
    Ok(Source::Local(Session::new(database, settings)?))
}

/// Refuses a file, and the address of a server without `http://`, where the folder of a database is named.
fn refuse_other_places(place: &str) -> Result<()> {
    let path = Path::new(place);
    if path.is_file() {
        bail!("{place} is a file, and a database is a folder; any database reads the file by FROM '{place}'");
    }
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    if !path.exists() && place.rsplit_once(':').is_some_and(|(host, port)| !host.contains('/') && is_port(port)) {
        bail!("there is no folder {place}; a server's address begins with http:// or https://: http://{place}");
    }
    Ok(())
}

/// Makes the database of a folder that is absent or empty for a `CREATE TABLE`. Any other statement needs a table, or asks for one that a wrong
/// folder doesn't have.
///
/// # Errors
/// If the folder holds something else.
pub fn create_for(arguments: &PlaceArguments, statement: &str) -> Result<()> {
    let path = Path::new(&arguments.place);
    if is_address(arguments) || !creates_table(statement) {
        return Ok(());
    }
    refuse_other_places(&arguments.place)?;
    if let Err(splay_store::Error::NotADatabase { .. }) = Database::open(path) {
        Database::create(path)?;
        note!("created the database {}", path.display());
    }
    Ok(())
}

fn is_address(arguments: &PlaceArguments) -> bool {
    arguments.place.starts_with("http://") || arguments.place.starts_with("https://")
}

/// A client of the server, if an address was given.
pub fn client(arguments: &PlaceArguments) -> Result<Option<Client>> {
    if !is_address(arguments) {
        return Ok(None);
    }
    let token = token(arguments.token_file.as_deref())?;
    Ok(Some(Client::new(&arguments.place, token, arguments.authority.as_deref())?))
}

/// A token for a server, of a file or of the variable.
pub fn token(file: Option<&Path>) -> Result<Option<String>> {
    let Some(file) = file else { return Ok(std::env::var(TOKEN).ok()) };
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    Ok(Some(text.trim().to_owned()))
}

/// A thread's worth of network.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the network")
}

/// What a server answered, or why it refused.
pub fn json(answer: &HttpAnswer) -> Result<Value> {
    match serde_json::from_slice(&answer.body) {
        Ok(body) if answer.status < 300 => Ok(body),
        _ => Err(json_error(answer)),
    }
}

/// Why a server refused.
pub fn json_error(answer: &HttpAnswer) -> anyhow::Error {
    let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
    match body.as_ref().and_then(|body| body["error"].as_str()) {
        Some(error) => anyhow!("{error}"),
        None => anyhow!("this isn't an answer of a SplayDB server: status {}", answer.status),
    }
}
