//! Settings of a database, kept in `splay.toml` in its folder.

use serde::{Deserialize, Serialize};

use crate::encryption::EncryptionSettings;
use crate::error::{Error, Result};
use crate::object;

/// Version of the folder's layout.
pub(crate) const LAYOUT_VERSION: u32 = 1;

/// Name of the settings' file.
pub(crate) const FILE: &str = "splay.toml";

/// Settings of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Version of the folder's layout; written by `create`, not for editing.
    pub layout: u32,
    /// Whether mapped data is checked against its checksums when a process first touches it. Costs some 0.1 ns a byte, once.
    /// Default true. What describes the data is checked in any case.
    pub verify_on_read: bool,
    /// Bytes of rows in memory that make a segment. Larger segments make fewer files, smaller ones less memory in a load.
    /// Default 256 MiB, at least 1 MiB.
    pub segment_bytes: u64,
    /// Seconds for which files stay on disk after a commit removed or replaced them, so that the commit can be undone and the table
    /// read as it was. They take their room that long. Default 86,400, a day; 0 keeps none.
    pub history_s: u64,
    /// The object store of the remote tier.
    #[serde(skip_serializing_if = "TierSettings::is_default")]
    pub tier: TierSettings,
    /// The source of the keys that segments of the compressed tiers are encrypted with. Without it they aren't encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<EncryptionSettings>,
}

/// Settings of tiers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TierSettings {
    /// The store of the tier `object`; without it no rows can be there.
    pub object: Option<ObjectSettings>,
}

impl TierSettings {
    fn is_default(&self) -> bool {
        *self == TierSettings::default()
    }
}

/// Settings of the tier `object`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectSettings {
    /// The URL of the object store: `file:///mnt/cold/market`, in builds with the cloud stores also `s3://bucket/market` and others. Keys come from
    /// the environment and are never stored.
    pub url: String,
    /// Bytes of memory for blocks of objects that were read last. Default 256 MiB, at least 16 MiB.
    #[serde(default = "ObjectSettings::default_cache_bytes")]
    pub cache_bytes: u64,
    /// Seconds for which a request that failed is made again. Default 30.
    #[serde(default = "ObjectSettings::default_retry_s")]
    pub retry_s: u64,
}

impl ObjectSettings {
    /// Objects below a URL, with defaults for the rest.
    pub fn new(url: impl Into<String>) -> ObjectSettings {
        ObjectSettings { url: url.into(), cache_bytes: Self::default_cache_bytes(), retry_s: Self::default_retry_s() }
    }

    fn default_cache_bytes() -> u64 {
        256 << 20
    }

    fn default_retry_s() -> u64 {
        30
    }

    fn validate(&self) -> Result<()> {
        object::validate_url(&self.url).map_err(|reason| Error::Setting { setting: "tier.object.url", reason })?;
        if self.cache_bytes < CACHE_BYTES_MIN {
            let reason = format!("{} is less than 16 MiB", self.cache_bytes);
            return Err(Error::Setting { setting: "tier.object.cache_bytes", reason });
        }
        Ok(())
    }

    fn to_toml(&self) -> String {
        // The URL is written as a string of TOML, because it may contain any character.
        let url = toml::Value::String(self.url.clone());
        format!("\n[tier.object]\nurl = {url}\ncache_bytes = {}\nretry_s = {}\n", self.cache_bytes, self.retry_s)
    }
}

/// Least bytes of the cache: a thread's request takes up to a quarter of it.
const CACHE_BYTES_MIN: u64 = 16 << 20;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            layout: LAYOUT_VERSION,
            verify_on_read: true,
            segment_bytes: 256 << 20,
            history_s: 86_400,
            tier: TierSettings::default(),
            encryption: None,
        }
    }
}

impl Settings {
    pub(crate) fn parse(bytes: &[u8], path: &std::path::Path) -> Result<Settings> {
        let text = String::from_utf8_lossy(bytes);
        let settings: Settings = toml::from_str(&text)
            .map_err(|error| Error::Setting { setting: FILE, reason: format!("{}: {error}", path.display()) })?;
        if settings.layout > LAYOUT_VERSION {
            return Err(Error::FormatVersion {
                path: path.to_path_buf(),
                found: settings.layout,
                supported: LAYOUT_VERSION,
            });
        }
        settings.validate()?;
        Ok(settings)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.segment_bytes < 1 << 20 {
            let reason = format!("{} is less than 1 MiB", self.segment_bytes);
            return Err(Error::Setting { setting: "segment_bytes", reason });
        }
        self.encryption.as_ref().map_or(Ok(()), EncryptionSettings::validate)?;
        self.tier.object.as_ref().map_or(Ok(()), ObjectSettings::validate)
    }

    pub(crate) fn to_toml(&self) -> String {
        let own = format!(
            "# Settings of this SplayDB database; docs/reference/settings.md says what they do.\n\
             layout = {}\nverify_on_read = {}\nsegment_bytes = {}\nhistory_s = {}\n",
            self.layout, self.verify_on_read, self.segment_bytes, self.history_s
        );
        let object = self.tier.object.as_ref().map_or_else(String::new, ObjectSettings::to_toml);
        own + &object + &self.encryption.as_ref().map_or_else(String::new, EncryptionSettings::to_toml)
    }
}
