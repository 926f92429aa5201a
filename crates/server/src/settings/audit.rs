//! Settings of the audit log.

use std::path::PathBuf;

use serde::Deserialize;
use splay_store::audit::AuditKey;

use crate::error::{Error, Result};

/// Least and most bytes from which on a file of the log is followed by another one.
const FILE_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 30;

/// The audit log: who asked and changed what.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// The events that are recorded. Default none.
    pub log: AuditLevel,
    /// The treatment of an operation whose record can't be written. Default: it is refused.
    pub when_full: WhenFull,
    /// The folder of the log. Default: `.audit` in the folder of the database.
    pub folder: Option<PathBuf>,
    /// Bytes from which on a file is followed by another one; each day begins one, too. Default 64 MiB.
    pub file_bytes_max: u64,
    /// Days after which files are removed; 0: never. Default 365.
    pub keep_days: u32,
    /// A file with the key of the digests. Without it nobody can make a valid chain anew. Default none.
    pub key_file: Option<PathBuf>,
    /// The key itself, which no settings file has: the command takes it from its environment.
    #[serde(skip)]
    pub key: Option<AuditKey>,
}

impl Default for Audit {
    fn default() -> Audit {
        Audit {
            log: AuditLevel::None,
            when_full: WhenFull::Refuse,
            folder: None,
            file_bytes_max: 64 << 20,
            keep_days: 365,
            key_file: None,
            key: None,
        }
    }
}

/// The events that are recorded. Each level includes the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditLevel {
    /// Nothing.
    #[default]
    None,
    /// Sign-ins and refusals, changes, rows that come in, and what was forbidden.
    Changes,
    /// Statements that read, and subscriptions.
    Statements,
}

/// The treatment of an operation whose record can't be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It is refused.
    #[default]
    Refuse,
    /// It is done, and counted.
    GoOn,
}

impl Audit {
    pub(super) fn validate(&self) -> Result<()> {
        if !FILE_BYTES.contains(&self.file_bytes_max) {
            let reason = format!("{} is not between 1 MiB and 1 GiB", self.file_bytes_max);
            return Err(Error::Setting { setting: "audit.file_bytes_max".to_owned(), reason });
        }
        if self.key.is_some() && self.key_file.is_some() {
            let reason = "there is a key from the environment, too: name one of them".to_owned();
            return Err(Error::Setting { setting: "audit.key_file".to_owned(), reason });
        }
        Ok(())
    }

    /// Files of settings, whose relative paths are taken from the folder of these.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.folder.iter_mut().chain(&mut self.key_file)
    }

    /// The key, if there is one.
    pub(crate) fn read_key(&self) -> Result<Option<AuditKey>> {
        let Some(path) = &self.key_file else { return Ok(self.key.clone()) };
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        let wrong = |error: splay_store::Error| Error::Setting {
            setting: path.display().to_string(),
            reason: error.to_string(),
        };
        AuditKey::of(&text).map(Some).map_err(wrong)
    }
}
