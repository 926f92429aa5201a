//! The object store of a database, in `splay.toml`.

use serde::{Deserialize, Serialize};

use super::validate_url;
use crate::error::{Error, Result};

/// Least bytes of the cache: a thread's request takes up to a quarter of it.
const CACHE_BYTES_MIN: u64 = 16 << 20;

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

    pub(crate) fn validate(&self) -> Result<()> {
        validate_url(&self.url).map_err(|reason| Error::Setting { setting: "tier.object.url", reason })?;
        if self.cache_bytes < CACHE_BYTES_MIN {
            let reason = format!("{} is less than 16 MiB", self.cache_bytes);
            return Err(Error::Setting { setting: "tier.object.cache_bytes", reason });
        }
        Ok(())
    }

    pub(crate) fn to_toml(&self) -> String {
        // The URL is written as a string of TOML, because it may contain any character.
        let url = toml::Value::String(self.url.clone());
        format!("\n[tier.object]\nurl = {url}\ncache_bytes = {}\nretry_s = {}\n", self.cache_bytes, self.retry_s)
    }
}
