//! The registry of object stores by URL scheme.
//!
//! It belongs to the process, because a database is opened in many places by its folder alone, and its settings name
//! the URL.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{FolderStore, ObjectStore};

/// Opens the store of a URL, without a request. A failure is in words that the operator understands.
pub type OpenStore = fn(url: &str) -> Result<Arc<dyn ObjectStore>, String>;

/// By scheme. Those of the standard build aren't in it.
static SCHEMES: Mutex<BTreeMap<&str, OpenStore>> = Mutex::new(BTreeMap::new());

/// Schemes that the workspace `stores/` knows.
const ELSEWHERE: [&str; 8] = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl"];

/// From now on databases that this process opens may be kept in stores of these schemes. To be called when the program starts.
pub fn register(schemes: &'static [&'static str], open: OpenStore) {
    let mut registry = SCHEMES.lock().unwrap_or_else(PoisonError::into_inner);
    registry.extend(schemes.iter().map(|scheme| (*scheme, open)));
}

/// Refuses what is no URL of a store, or has a secret in it.
pub(crate) fn validate_url(url: &str) -> Result<(), String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("it is no URL, such as file:///mnt/cold/market or s3://bucket/market".to_owned());
    };
    if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
        return Err("it has a name or a key in front of an @: keys come from the environment".to_owned());
    }
    if rest.contains(['?', '#']) {
        return Err("it has parameters: keys and options come from the environment".to_owned());
    }
    if rest.split('/').any(|part| part == "." || part == "..") {
        return Err("it has a part . or ..".to_owned());
    }
    match scheme {
        "file" if !rest.starts_with('/') => {
            Err("a folder is named by its whole path: file:///mnt/cold/market".to_owned())
        }
        _ => Ok(()),
    }
}

/// The URL for messages, without the user and password before an `@`.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "a URL".to_owned() };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    format!("{scheme}://{}", rest.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/'))
}

/// Opens the store of a URL.
pub(crate) fn open(url: &str) -> Result<Arc<dyn ObjectStore>, String> {
    validate_url(url)?;
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if scheme == "file" {
        return Ok(Arc::new(FolderStore::new(rest)));
    }
    let registered = SCHEMES.lock().unwrap_or_else(PoisonError::into_inner).get(scheme).copied();
    match registered {
        Some(open) => open(url),
        None if ELSEWHERE.contains(&scheme) => Err(format!(
            "this build has no object store for {scheme}://: the one of the workspace stores/ has it (docs/guide/object-storage.md)"
        )),
        None => Err(format!("there is no object store for {scheme}://")),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn urls_with_secrets_are_refused_and_not_shown() {
        assert!(validate_url("s3://key:secret@bucket/market").unwrap_err().contains("environment"));
        assert!(validate_url("az://c/market?sig=secret").unwrap_err().contains("environment"));
        assert_eq!(shown("s3://key:secret@bucket/market/?x=secret"), "s3://bucket/market");
        for wrong in ["/mnt/cold", "file://mnt/cold", "file:///mnt/../cold"] {
            assert!(validate_url(wrong).is_err(), "{wrong}");
        }
        assert_eq!(validate_url("file:///mnt/cold"), Ok(()));
        assert!(open("s3://bucket/market").unwrap_err().contains("workspace stores/"));
        assert!(open("ftp://host/market").unwrap_err().contains("no object store for ftp://"));
    }
}
