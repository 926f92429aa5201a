//! A database that is named by its folder or by the address of its server, and what of it is read.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use splay_capture::FollowSettings;
use splay_server::client::{Answer, Client};
use splay_store::Database;

use crate::args::{JournalArguments, PlaceArguments};

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

/// A client of the server, if an address was given.
pub fn client(arguments: &PlaceArguments) -> Result<Option<Client>> {
    if !arguments.place.starts_with("http://") && !arguments.place.starts_with("https://") {
        return Ok(None);
    }
    let token = match &arguments.token_file {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
            Some(text.trim().to_owned())
        }
        None => std::env::var(TOKEN).ok(),
    };
    Ok(Some(Client::new(&arguments.place, token, arguments.authority.as_deref())?))
}

/// A thread's worth of network.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the network")
}

/// What a server answered, or why it refused.
pub fn json(answer: &Answer) -> Result<Value> {
    let told: Result<Value, _> = serde_json::from_slice(&answer.body);
    match told {
        Ok(told) if answer.status < 300 => Ok(told),
        Ok(told) if told["error"].is_string() => Err(anyhow!("{}", told["error"].as_str().unwrap_or_default())),
        _ => Err(anyhow!("this is no answer of a SplayDB server: status {}", answer.status)),
    }
}
