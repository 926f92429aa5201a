//! Object storage: stores the segments of the tier `object`, and reads parts of them.
//!
//! - An [`ObjectStore`] stores objects: bytes under a key, written once, as a whole, and never changed. The scheme of
//!   a URL selects the kind of store ([`register`]); folders and NFS mounts (`file:///…`) are built in.
//! - An [`ObjectTier`] is a store as a database uses it: it retries transient failures, and caches blocks up to a
//!   limit.
//! - Bytes are used only after a check against the checksums of the segment's index, which stays on the local disk.
//! - One database writes to a URL: the one whose mark was put there first (`owner.rs`).
//!
//! Reasons: docs/adr/0072-cold-dates-are-objects.md. Names of objects: docs/format/objects.md.

mod blocks;
pub mod fault;
mod folder;
mod owner;
mod prefetch;
mod registry;
mod remote;
mod retry;
mod settings;
mod tier;

use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;

pub use crate::error::ObjectFault;
pub use folder::FolderStore;
pub(crate) use prefetch::later;
pub use registry::{OpenStore, register};
pub(crate) use registry::{open, shown, validate_url};
pub(crate) use remote::RemoteFile;
pub use retry::Retry;
pub use settings::ObjectSettings;
pub(crate) use tier::ObjectPlace;
pub use tier::{ObjectTier, ObjectTraffic};

/// A failure of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ObjectError {
    /// The kind of failure.
    pub fault: ObjectFault,
    /// The store's words, without secrets.
    pub reason: String,
}

impl ObjectError {
    /// A failure with the store's words.
    pub fn new(fault: ObjectFault, reason: impl Into<String>) -> ObjectError {
        ObjectError { fault, reason: reason.into() }
    }
}

/// Result of a store's call.
pub type ObjectResult<T> = Result<T, ObjectError>;

/// An object as a list has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectEntry {
    /// Its key.
    pub key: String,
    /// Its length.
    pub bytes: u64,
}

/// A store of objects.
///
/// - Keys are relative, of parts with `/` between them; no part is empty, `.` or `..`.
/// - Calls block, and may be made by many threads at a time. Each makes one attempt; the caller decides whether to
///   retry.
/// - An object exists completely or not at all, and survives a power cut once [`ObjectStore::put_if_absent`] has
///   returned.
/// - The text of a failure contains no secret.
///
/// Two implementations are here: [`FolderStore`], and [`FaultStore`](fault::FaultStore) for tests; S3, Google Cloud Storage and Azure are in
/// the workspace `stores/`.
pub trait ObjectStore: Debug + Send + Sync {
    /// Makes an object, unless there is one of the key. Of several who try at once, one succeeds.
    ///
    /// # Errors
    /// [`ObjectFault::Exists`], with which nothing has changed. After another failure the object may be there.
    fn put_if_absent(&self, key: &str, bytes: Bytes) -> ObjectResult<()>;

    /// A part of an object. Who calls checks the length of what comes.
    ///
    /// # Errors
    /// [`ObjectFault::Absent`].
    fn read(&self, key: &str, range: Range<u64>) -> ObjectResult<Bytes>;

    /// The length of an object.
    ///
    /// # Errors
    /// [`ObjectFault::Absent`].
    fn length(&self, key: &str) -> ObjectResult<u64>;

    /// The objects whose keys begin with a prefix, which ends with `/`; also leftovers of uploads that failed.
    ///
    /// # Errors
    /// As the store says. A prefix that nothing has gives an empty list.
    fn list(&self, prefix: &str) -> ObjectResult<Vec<ObjectEntry>>;

    /// Removes an object. One that isn't there is no failure.
    ///
    /// # Errors
    /// As the store says.
    fn delete(&self, key: &str) -> ObjectResult<()>;
}
