//! An object store with the retries, the cache and the mark of one database.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::blocks::BlockCache;
use super::{ObjectEntry, ObjectError, ObjectFault, ObjectResult, ObjectSettings, ObjectStore, Retry, open, shown};
use crate::error::{Error, Result};

/// Bytes that are read at once of an object that is read whole.
const PART_BYTES: u64 = 8 << 20;

/// The object store of a database, with the cache of its blocks.
#[derive(Debug)]
pub struct ObjectTier {
    store: Arc<dyn ObjectStore>,
    /// Without secrets, for messages.
    url: String,
    retry: Retry,
    pub(super) cache: BlockCache,
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// Requests to a store, and bytes read from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectTraffic {
    /// Requests for parts of objects, those that were made again among them.
    pub requests: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Bytes of the cache.
    pub cache_bytes: u64,
}

impl ObjectTier {
    /// A store that takes part in a database under a URL, which is for messages.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, url: &str, cache_bytes: u64, retry: Retry) -> ObjectTier {
        let cache = BlockCache::new(usize::try_from(cache_bytes).unwrap_or(usize::MAX));
        let (requests, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        ObjectTier { store, url: shown(url), retry, cache, requests, bytes }
    }

    fn open(settings: &ObjectSettings) -> Result<ObjectTier, String> {
        let deadline = std::time::Duration::from_secs(settings.retry_s);
        let retry = Retry { deadline, ..Retry::default() };
        Ok(ObjectTier::new(open(&settings.url)?, &settings.url, settings.cache_bytes, retry))
    }

    /// Its URL, without secrets.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Requests and bytes of this process so far.
    #[must_use]
    pub fn traffic(&self) -> ObjectTraffic {
        ObjectTraffic {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            cache_bytes: self.cache.bytes() as u64,
        }
    }

    /// An object's name for messages.
    pub(crate) fn shown(&self, key: &str) -> PathBuf {
        format!("{}/{key}", self.url).into()
    }

    /// Makes an object. Gives whether this call made it: if not, there is one, which an attempt may have made whose answer was lost.
    pub(crate) fn put(&self, key: &str, bytes: &Bytes) -> Result<bool> {
        match self.retry.run(|| self.store.put_if_absent(key, bytes.clone())) {
            Ok(()) => Ok(true),
            Err(error) if error.fault == ObjectFault::Exists => Ok(false),
            Err(error) => Err(self.object_error("write", key, error)),
        }
    }

    /// A part of an object, all of it.
    pub(crate) fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.retry.run(|| self.read_once(key, &range)).map_err(|error| self.object_error("read", key, error))
    }

    fn read_once(&self, key: &str, range: &Range<u64>) -> ObjectResult<Bytes> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let part = self.store.read(key, range.clone())?;
        self.bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
        let expected = range.end.saturating_sub(range.start);
        if part.len() as u64 == expected {
            return Ok(part);
        }
        let reason = format!("{} of {expected} bytes came", part.len());
        Err(ObjectError::new(ObjectFault::Passing, reason))
    }

    /// All bytes of an object, which has this length, part by part.
    pub(crate) fn read_through(&self, key: &str, length: u64, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut start = 0;
        while start < length {
            let end = (start + PART_BYTES).min(length);
            take(&self.read(key, start..end)?)?;
            start = end;
        }
        Ok(())
    }

    /// The length of an object; `None` if there is none.
    pub(crate) fn length(&self, key: &str) -> Result<Option<u64>> {
        match self.retry.run(|| self.store.length(key)) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.fault == ObjectFault::Absent => Ok(None),
            Err(error) => Err(self.object_error("look for", key, error)),
        }
    }

    /// The length of an object that was made just now. A store may need a moment until all its machines know.
    pub(crate) fn length_of_new(&self, key: &str) -> Result<u64> {
        let length = || {
            self.store.length(key).map_err(|error| match error.fault {
                ObjectFault::Absent => ObjectError::new(ObjectFault::Passing, error.reason),
                _ => error,
            })
        };
        self.retry.run(length).map_err(|error| self.object_error("look for", key, error))
    }

    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<ObjectEntry>> {
        self.retry.run(|| self.store.list(prefix)).map_err(|error| self.object_error("list", prefix, error))
    }

    pub(crate) fn delete(&self, key: &str) -> Result<()> {
        self.retry.run(|| self.store.delete(key)).map_err(|error| self.object_error("remove", key, error))
    }

    fn object_error(&self, act: &'static str, key: &str, error: ObjectError) -> Error {
        let object = self.shown(key).display().to_string();
        Error::Object { act, object, fault: error.fault, reason: error.reason }
    }
}

/// A database's store, or why it has none.
#[derive(Debug)]
pub(crate) struct ObjectPlace(std::result::Result<Arc<ObjectTier>, String>);

impl ObjectPlace {
    /// The store that the settings name. That it can't be opened hinders only what needs it.
    pub(crate) fn of(settings: Option<&ObjectSettings>) -> ObjectPlace {
        ObjectPlace(match settings {
            Some(settings) => ObjectTier::open(settings).map(Arc::new),
            None => Err("the database has no object store: splay.toml has no [tier.object] with a url".to_owned()),
        })
    }

    pub(crate) fn on(tier: Arc<ObjectTier>) -> ObjectPlace {
        ObjectPlace(Ok(tier))
    }

    pub(crate) fn get(&self) -> Result<&Arc<ObjectTier>> {
        self.0.as_ref().map_err(|reason| Error::Setting { setting: "tier.object.url", reason: reason.clone() })
    }
}
