//! S3, Google Cloud Storage and Azure as object stores of SplayDB, over the crate `object_store`.
//!
//! ```no_run
//! // Once, when the program starts: databases whose splay.toml has such a URL are opened with it.
//! splay_stores::register();
//! let database = splay_store::Database::open("market")?;
//! # Ok::<(), splay_store::Error>(())
//! ```
//!
//! - Keys, regions and endpoints come from the environment, by the names that the vendors' own tools use. No message contains them.
//! - A call makes one attempt. The caller has retries and a deadline ([`splay_store::object::Retry`]).
//! - Calls block. They run on two threads of a runtime of their own, so that any thread may make them, also one of another runtime.

use std::future::Future;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, OnceLock, mpsc};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig};
use splay_store::object::{ObjectEntry, ObjectError, ObjectFault, ObjectResult, ObjectStore};
use tokio::runtime::Runtime;

/// The schemes of the URLs of these stores.
pub const SCHEMES: &[&str] = &["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl"];

/// Time for one request with its answer: 360 MB at 3 MB/s, which is more than most segments have.
const REQUEST_TIMEOUT: &str = "120 seconds";

/// Time for a connection to open.
const CONNECT_TIMEOUT: &str = "10 seconds";

/// Registers these stores for the databases of the process.
pub fn register() {
    splay_store::object::register(SCHEMES, |url| open(url).map(|store| Arc::new(store) as Arc<dyn ObjectStore>));
}

/// The store of a URL: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`. Makes no request.
///
/// # Errors
/// The reason: an unknown scheme, or a setting that the environment lacks.
pub fn open(url: &str) -> Result<CloudStore, String> {
    open_with(url, &[])
}

/// The same with options that override the environment: names of its variables in small letters, such as `aws_endpoint`.
///
/// # Errors
/// As [`open`]; an unknown option.
pub fn open_with(url: &str, options: &[(&str, &str)]) -> Result<CloudStore, String> {
    let (scheme, rest) = url.split_once("://").ok_or("it is no URL")?;
    let prefix = rest.split_once('/').map_or("", |(_, prefix)| prefix);
    let prefix = Path::parse(prefix.trim_matches('/')).map_err(|error| error.to_string())?;
    let message = |error: object_store::Error| without_secrets(&error.to_string());
    /// All builders have the same methods, and no trait for them.
    macro_rules! build {
        ($builder:expr, $key:ident) => {{
            let mut builder = $builder.with_url(url);
            for (key, value) in [("timeout", REQUEST_TIMEOUT), ("connect_timeout", CONNECT_TIMEOUT)] {
                let key = $key::from_str(key).map_err(message)?;
                if builder.get_config_value(&key).is_none_or(|value| value.is_empty()) {
                    builder = builder.with_config(key, value);
                }
            }
            for (key, value) in options {
                builder = builder.with_config($key::from_str(key).map_err(message)?, *value);
            }
            // The caller makes further attempts.
            let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
            Arc::new(builder.with_retry(retry).build().map_err(message)?)
        }};
    }
    let store: Arc<dyn object_store::ObjectStore> = match scheme {
        "s3" | "s3a" => build!(AmazonS3Builder::from_env(), AmazonS3ConfigKey),
        "gs" => build!(GoogleCloudStorageBuilder::from_env(), GoogleConfigKey),
        "az" | "azure" | "abfs" | "abfss" | "adl" => build!(MicrosoftAzureBuilder::from_env(), AzureConfigKey),
        other => return Err(format!("there is no object store for {other}://")),
    };
    Ok(CloudStore { store, prefix })
}

/// Objects below a prefix of a bucket or container.
#[derive(Debug)]
pub struct CloudStore {
    store: Arc<dyn object_store::ObjectStore>,
    prefix: Path,
}

impl CloudStore {
    /// Any store of the crate `object_store`.
    ///
    /// # Errors
    /// A prefix that no key can begin with.
    pub fn new(store: Arc<dyn object_store::ObjectStore>, prefix: &str) -> Result<CloudStore, String> {
        Ok(CloudStore { store, prefix: Path::parse(prefix).map_err(|error| error.to_string())? })
    }

    fn path(&self, key: &str) -> ObjectResult<Path> {
        let whole = if self.prefix.as_ref().is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) };
        Path::parse(whole).map_err(|error| ObjectError::new(ObjectFault::Lasting, error.to_string()))
    }
}

impl ObjectStore for CloudStore {
    fn put_if_absent(&self, key: &str, bytes: Bytes) -> ObjectResult<()> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        wait(async move { store.put_opts(&path, PutPayload::from(bytes), options).await.map(drop) })
    }

    fn read(&self, key: &str, range: Range<u64>) -> ObjectResult<Bytes> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        wait(async move { store.get_range(&path, range).await })
    }

    fn length(&self, key: &str) -> ObjectResult<u64> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        wait(async move { store.head(&path).await.map(|object| object.size) })
    }

    fn list(&self, prefix: &str) -> ObjectResult<Vec<ObjectEntry>> {
        let (store, path) = (Arc::clone(&self.store), self.path(prefix.trim_end_matches('/'))?);
        let objects: Vec<_> = wait(async move { store.list(Some(&path)).try_collect().await })?;
        let own = self.prefix.as_ref();
        let key = |object: object_store::ObjectMeta| {
            let key = object.location.as_ref().strip_prefix(own)?.trim_start_matches('/').to_owned();
            Some(ObjectEntry { key, bytes: object.size })
        };
        Ok(objects.into_iter().filter_map(key).collect())
    }

    fn delete(&self, key: &str) -> ObjectResult<()> {
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        match wait(async move { store.delete(&path).await }) {
            Err(error) if error.fault == ObjectFault::Absent => Ok(()),
            outcome => outcome,
        }
    }
}

/// Runs a request on the runtime and waits for it. The calling thread may belong to another runtime, which can't run a second one.
fn wait<T: Send + 'static>(request: impl Future<Output = object_store::Result<T>> + Send + 'static) -> ObjectResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        // The thread below waits for as long as this sender lives.
        let _ = sender.send(request.await);
    });
    match receiver.recv() {
        Ok(answer) => answer.map_err(object_error),
        Err(_) => Err(ObjectError::new(ObjectFault::Lasting, "the request broke off")),
    }
}

fn runtime() -> ObjectResult<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let start = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("object-store").enable_all().build().map_err(|error| error.to_string())
    };
    RUNTIME.get_or_init(start).as_ref().map_err(|reason| ObjectError::new(ObjectFault::Lasting, reason.clone()))
}

/// S3's code for an upload that met another request for the same key. There may be no object of the key.
const CONFLICT_CODE: &str = "ConditionalRequestConflict";

fn object_error(error: object_store::Error) -> ObjectError {
    use object_store::Error as E;
    let fault = match &error {
        E::NotFound { .. } => ObjectFault::Absent,
        E::AlreadyExists { source, .. } if source.to_string().contains(CONFLICT_CODE) => ObjectFault::Passing,
        E::AlreadyExists { .. } | E::Precondition { .. } => ObjectFault::Exists,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => ObjectFault::Denied,
        // A connection that broke, a time-out, a status of the server.
        E::Generic { .. } => ObjectFault::Passing,
        _ => ObjectFault::Lasting,
    };
    ObjectError::new(fault, without_secrets(&error.to_string()))
}

/// A text without the parameters of its URLs, which may be signatures.
fn without_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut hidden = false;
    for sign in text.chars() {
        hidden &= !(sign.is_whitespace() || matches!(sign, '"' | '\'' | ')' | '>' | ','));
        if !hidden {
            out.push(sign);
        }
        if sign == '?' && !hidden {
            hidden = true;
            out.push('…');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_urls_are_in_no_message() {
        let text = "error sending request for url (https://a.example/b/c?sig=secret&x=1): refused";
        assert_eq!(without_secrets(text), "error sending request for url (https://a.example/b/c?…): refused");
        assert_eq!(without_secrets("what? no"), "what?… no");
    }

    #[test]
    fn faults_tell_whether_an_object_is_there() {
        let exists = |source: &str| {
            let (path, source) = ("a/b".to_owned(), source.to_owned().into());
            object_error(object_store::Error::AlreadyExists { path, source }).fault
        };
        assert_eq!(exists("412 Precondition Failed"), ObjectFault::Exists);
        assert_eq!(exists("409 Conflict: <Error><Code>BlobAlreadyExists</Code></Error>"), ObjectFault::Exists);
        // The upload didn't happen, and neither did the other request's if that was a deletion.
        let conflict = "409 Conflict: <Error><Code>ConditionalRequestConflict</Code></Error>";
        assert_eq!(exists(conflict), ObjectFault::Passing);
    }

    #[test]
    fn a_url_without_a_store_is_refused_by_name() {
        assert!(open("ftp://host/x").unwrap_err().contains("no object store for ftp://"));
        assert!(open("bucket").unwrap_err().contains("no URL"));
    }
}
