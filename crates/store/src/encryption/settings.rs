//! The table `[encryption]` of `splay.toml`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The place of a database's keys: a file or a variable of the environment, never the database's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptionSettings {
    /// Absolute path of a file with a key in each line: its id, a space, 16 or 32 bytes in hexadecimal digits or base64. The first
    /// key is for new files, the others for files that were written under them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Name of a variable of the environment with such lines, or with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Whether new files are encrypted. Default true; `false` keeps encrypted files readable while compactions write them in plain.
    #[serde(default = "EncryptionSettings::default_encrypt")]
    pub encrypt: bool,
}

impl EncryptionSettings {
    /// Keys in a file.
    pub fn of_file(path: impl Into<PathBuf>) -> EncryptionSettings {
        EncryptionSettings { key_file: Some(path.into()), key_env: None, encrypt: true }
    }

    fn default_encrypt() -> bool {
        true
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let refuse = |setting, reason: &str| Err(Error::Setting { setting, reason: reason.to_owned() });
        match (&self.key_file, &self.key_env) {
            (Some(_), Some(_)) => refuse("encryption", "it has both key_file and key_env; keys come from one place"),
            (None, None) => refuse("encryption", "it has neither key_file nor key_env"),
            (Some(path), None) if !path.is_absolute() => refuse(
                "encryption.key_file",
                "the path isn't absolute, so that it would depend on who opens the database",
            ),
            _ => Ok(()),
        }
    }

    pub(crate) fn to_toml(&self) -> String {
        let text = toml::to_string(self).unwrap_or_default();
        format!("\n[encryption]\n{text}")
    }
}
