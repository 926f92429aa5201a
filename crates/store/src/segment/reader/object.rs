//! Segments in the object store: opened by their local index; the object's footer is read with the first column.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{CheckedFile, DataFile, OpenSegment, Segment, SegmentContent};
use crate::error::{Error, Result};
use crate::manifest::FileEntry;
use crate::object::{self, ObjectTier, RemoteFile};
use crate::segment::checksum::{self, BlockChecksums};
use crate::segment::parquet::ParquetFile;
use crate::storage::{ByteObserver, MappedBytes, Storage};

impl Segment {
    /// The object that has the bytes, with its store. A file in its place, as a restored backup has it, is read instead.
    pub(super) fn object(&self, storage: &dyn Storage) -> Result<Option<(&Arc<ObjectTier>, &str)>> {
        let (Some(key), Some(objects)) = (&self.entry.object, &self.objects) else { return Ok(None) };
        match storage.identity(&self.path()) {
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(Some((objects.get()?, key))),
            Err(error) => Err(error),
        }
    }

    /// Checks every byte of an object, and of the index.
    pub(super) fn verify_object(&self, tier: &Arc<ObjectTier>, key: &str) -> Result<()> {
        let checksums = checksums_of_object(tier, key, &self.entry)?;
        self.verify_index(&checksums)
    }

    /// Checks the index of a segment in the object store, without a look at the object.
    pub(crate) fn verify_sidecar(&self) -> Result<()> {
        let Some(storage) = &self.storage else { return Ok(()) };
        let (index, _) = self.open_index(storage.as_ref())?;
        let checksums = index.checksums()?;
        if checksum::digest(&checksums) != self.entry.digest {
            let shown = storage.display_path(&self.index_path());
            return Err(Error::corrupt(shown, 0, "the digest in the manifest", "another"));
        }
        self.verify_index(&checksums)
    }

    /// Opens a segment in the object store by its index alone.
    pub(super) fn open_object(
        &self,
        storage: &dyn Storage,
        tier: &Arc<ObjectTier>,
        key: &str,
    ) -> Result<SegmentContent> {
        let whole = || {
            let mut bytes = Vec::new();
            tier.read_through(key, self.entry.bytes, &mut |part| {
                bytes.extend_from_slice(part);
                Ok(())
            })?;
            Ok(MappedBytes::from(Bytes::from(bytes)))
        };
        let (index, checksums, index_bytes) = self.sound_index(storage, &whole)?;
        let length = usize::try_from(self.entry.bytes).unwrap_or(usize::MAX);
        let remote = RemoteFile::new(Arc::clone(tier), key, length);
        let file = CheckedFile::remote(remote, tier.shown(key), checksums)?;
        Ok(SegmentContent {
            index,
            file: Arc::new(DataFile { opened: OnceLock::new(), remote: Some(Arc::new(file)) }),
            index_bytes,
        })
    }

    /// Opens a segment's object in the background, so that a reader of many segments waits for one round trip.
    pub fn open_ahead(self: &Arc<Segment>) {
        let is_remote = |open: &SegmentContent| open.file.remote.is_some() && open.file.opened.get().is_none();
        if self.opened.get().is_some_and(is_remote) {
            let segment = Arc::clone(self);
            // An error is ignored here: the reader of the same bytes gets it again.
            object::later(move || drop(segment.file().map(drop)));
        }
    }

    /// The rows' file, opened.
    pub(super) fn file(&self) -> Result<&OpenSegment> {
        let data = self.opened()?.file.as_ref();
        if let Some(opened) = data.opened.get() {
            return Ok(opened);
        }
        let Some(remote) = &data.remote else { return Err(Error::Poisoned) };
        let opened = OpenSegment::Parquet(ParquetFile::open(Arc::clone(remote), self.entry.rows, &self.keys)?);
        Ok(data.opened.get_or_init(|| opened))
    }
}

/// The checksums of an object's blocks, all of which are read. It has the length and the digest of the manifest.
pub(crate) fn checksums_of_object(tier: &ObjectTier, key: &str, entry: &FileEntry) -> Result<Vec<u32>> {
    let shown = tier.shown(key);
    let Some(length) = tier.length(key)? else {
        return Err(Error::corrupt(shown, 0, format!("an object of {} bytes", entry.bytes), "none"));
    };
    if length != entry.bytes {
        return Err(Error::corrupt(shown, length, format!("{} bytes", entry.bytes), format!("{length} bytes")));
    }
    let mut checksums = BlockChecksums::default();
    tier.read_through(key, length, &mut |part| {
        checksums.observe(part);
        Ok(())
    })?;
    let (checksums, _) = checksums.finish();
    if checksum::digest(&checksums) != entry.digest {
        return Err(Error::corrupt(shown, 0, "the digest in the manifest", "another"));
    }
    Ok(checksums)
}
