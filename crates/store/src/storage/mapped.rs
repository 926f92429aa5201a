//! The mapped bytes of a file, and read-ahead hints.

use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Advice, Mmap};

use super::unreadable::WatchedMapping;
use crate::error::Result;

/// Most bytes that one hint asks for.
const HINT_BYTES_MAX: usize = 16 << 20;

/// A mapped file. Clones share the mapping.
#[derive(Debug, Clone)]
pub struct MappedBytes {
    bytes: Bytes,
    /// `None` for bytes that are in memory.
    map: Option<Arc<Region>>,
    is_read_in_places: bool,
}

/// A mapping that is watched for pages that can't be read. It is unmapped behind its watch.
#[derive(Debug)]
struct Region {
    watched: WatchedMapping,
    map: Mmap,
}

/// Keeps the mapping alive for slices of its bytes.
struct MappingOwner(Arc<Region>);

impl AsRef<[u8]> for MappingOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

impl MappedBytes {
    /// A mapping of a file on disk.
    pub(crate) fn of_file(map: Mmap, path: &Path) -> Result<MappedBytes> {
        let map = Arc::new(Region { watched: WatchedMapping::new(&map, path)?, map });
        let bytes = Bytes::from_owner(MappingOwner(Arc::clone(&map)));
        Ok(MappedBytes { bytes, map: Some(map), is_read_in_places: false })
    }

    /// Has the system read nothing around what is touched: a few places of the file are read, and each is requested first. Otherwise it may read
    /// megabytes around each.
    #[must_use]
    pub(crate) fn read_in_places(mut self) -> MappedBytes {
        if let Some(map) = &self.map {
            // Advice that isn't taken changes nothing.
            self.is_read_in_places = map.map.advise(Advice::Random).is_ok();
        }
        self
    }

    /// Whether the system reads only what is requested or touched.
    pub(crate) fn is_read_in_places(&self) -> bool {
        self.is_read_in_places
    }

    /// Offset of the first page that couldn't be read, if there is one: there are zeros now from there on. Look when the bytes have been
    /// read.
    #[must_use]
    pub fn unreadable_at(&self) -> Option<u64> {
        self.map.as_ref().and_then(|region| region.watched.failed())
    }

    /// The bytes; slices of them keep the mapping.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Requests some bytes from the system in one go, without waiting, at most the first `HINT_BYTES_MAX`. Otherwise
    /// they are read on first touch, in small pieces, each of which blocks. Costs a few microseconds, so it is for
    /// ranges that are probably not cached.
    pub fn read_ahead(&self, range: Range<usize>) {
        let end = range.end.min(self.bytes.len()).min(range.start.saturating_add(HINT_BYTES_MAX));
        if let Some(map) = &self.map
            && range.start < end
        {
            // A hint that isn't taken changes nothing.
            let _ = map.map.advise_range(Advice::WillNeed, range.start, end - range.start);
        }
    }
}

impl From<Bytes> for MappedBytes {
    fn from(bytes: Bytes) -> MappedBytes {
        MappedBytes { bytes, map: None, is_read_in_places: false }
    }
}

impl Deref for MappedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{LocalStorage, Storage};

    #[test]
    fn any_range_may_be_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..100_000u32).map(|byte| byte.to_le_bytes()[0]).collect();
        std::fs::write(folder.path().join("file"), &content).unwrap();
        std::fs::write(folder.path().join("empty"), b"").unwrap();
        let storage = LocalStorage::new(folder.path());
        for (name, expected) in [("file", content.as_slice()), ("empty", b"")] {
            let mapped = storage.map(name).unwrap();
            for (start, end) in
                [(0, 0), (0, 1), (4095, 4097), (5000, 100_000), (99_999, 200_000), (7, 3), (usize::MAX - 1, usize::MAX)]
            {
                mapped.read_ahead(start..end);
            }
            assert_eq!(&mapped[..], expected);
            let slice = mapped.bytes().slice(..expected.len() / 2);
            drop(mapped);
            assert_eq!(&slice[..], &expected[..expected.len() / 2]);
        }
    }
}
