//! A segment's object, read by ranges.
//!
//! - A range is widened to whole blocks of 64 KiB, each of which is checked against the index before it is used or
//!   cached.
//! - A round trip takes as long as a megabyte. So the first request in a *stretch* (the pages of a column in a row
//!   group, or the end of the file, which describes all columns) reads a megabyte, and the next ones sixteen: a
//!   stretch of up to 17 MiB that is read from its start costs at most two requests, most cost one.
//! - Threads that need blocks of one stretch wait for the same request.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use super::ObjectTier;
use crate::error::{Error, Result};
use crate::index::CRC_BLOCK_BYTES;

/// Bytes of the first request of a stretch.
const FIRST_BYTES: usize = 1 << 20;

/// Bytes of each later request of a stretch.
const NEXT_BYTES: usize = 16 << 20;

/// Bytes at the end of a file that are read when it is opened: its footer and lists of pages.
const END_BYTES: usize = 256 << 10;

/// A request reads at most this share of the cache ahead of the requested bytes.
const CACHE_SHARE: usize = 4;

/// An object that is read by ranges.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    tier: Arc<ObjectTier>,
    key: Arc<str>,
    length: usize,
    /// Until the file's layout is known, its end is one stretch.
    end: FileRange,
    stretches: OnceLock<Vec<FileRange>>,
}

/// Bytes that are mostly read together.
#[derive(Debug)]
struct FileRange {
    bytes: Range<usize>,
    /// Requests so far. Held while one is made.
    requests: Mutex<usize>,
}

impl FileRange {
    fn new(bytes: Range<usize>) -> FileRange {
        FileRange { bytes, requests: Mutex::new(0) }
    }
}

impl RemoteFile {
    pub(crate) fn new(tier: Arc<ObjectTier>, key: &str, length: usize) -> RemoteFile {
        let end = FileRange::new(length.saturating_sub(END_BYTES)..length);
        RemoteFile { tier, key: key.into(), length, end, stretches: OnceLock::new() }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Sets which bytes are the pages of a column in a row group. The file's own description may be wrong: it only decides how much is read at
    /// once.
    pub(crate) fn set_stretches(&self, columns: impl Iterator<Item = Range<usize>>) {
        let mut all: Vec<Range<usize>> =
            columns.filter(|bytes| bytes.start < bytes.end && bytes.end <= self.length).collect();
        all.sort_by_key(|bytes| bytes.start);
        let behind = all.iter().map(|bytes| bytes.end).max().unwrap_or(0);
        all.push(behind..self.length);
        let _ = self.stretches.set(all.into_iter().map(FileRange::new).collect());
    }

    fn stretch(&self, at: usize) -> &FileRange {
        let stretch_list = self.stretches.get().map_or(&[][..], Vec::as_slice);
        let last = stretch_list[..stretch_list.partition_point(|stretch| stretch.bytes.start <= at)].last();
        last.unwrap_or(&self.end)
    }

    /// Whether a range, which lies within the file, is here.
    pub(crate) fn is_here(&self, range: &Range<usize>) -> bool {
        let blocks = range.start / CRC_BLOCK_BYTES..range.end.div_ceil(CRC_BLOCK_BYTES);
        self.tier.cache.get(&self.key, blocks).iter().all(Option::is_some)
    }

    /// Reads a range within the file. `check` verifies the checksum of a block.
    pub(crate) fn read(&self, range: Range<usize>, check: &dyn Fn(usize, &[u8]) -> Result<()>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let blocks = range.start / CRC_BLOCK_BYTES..(range.end - 1) / CRC_BLOCK_BYTES + 1;
        let mut cached = self.tier.cache.get(&self.key, blocks.clone());
        if let Some(parts) = all_of(&cached) {
            return Ok(self.concat(&range, blocks.start, &parts));
        }
        let stretch = self.stretch(range.start);
        let mut requests = stretch.requests.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have read them meanwhile.
        cached = self.tier.cache.get(&self.key, blocks.clone());
        if let Some(first) = cached.iter().position(Option::is_none) {
            let widened_range = self.request_range(blocks.start + first..blocks.end, stretch, *requests);
            *requests += 1;
            let bytes = self.fetch(widened_range.clone(), check)?;
            for (block, part) in (widened_range.start / CRC_BLOCK_BYTES..).zip(bytes.chunks(CRC_BLOCK_BYTES)) {
                self.tier.cache.put(&self.key, block, part);
            }
            if widened_range.start <= range.start {
                return Ok(bytes.slice(range.start - widened_range.start..range.end - widened_range.start));
            }
            for block in blocks.start + first..blocks.end {
                let start = block * CRC_BLOCK_BYTES - widened_range.start;
                cached[block - blocks.start] = Some(bytes.slice(start..(start + CRC_BLOCK_BYTES).min(bytes.len())));
            }
        }
        Ok(self.concat(&range, blocks.start, &all_of(&cached).unwrap_or_default()))
    }

    /// The bytes to ask for, where blocks are missing.
    fn request_range(&self, missing: Range<usize>, stretch: &FileRange, requests: usize) -> Range<usize> {
        let (mut start, mut end) = (missing.start * CRC_BLOCK_BYTES, missing.end * CRC_BLOCK_BYTES);
        let most = if requests == 0 { FIRST_BYTES } else { NEXT_BYTES }.min(self.tier.cache.bytes_max() / CACHE_SHARE);
        // Part of a block can't be checked.
        let most = most / CRC_BLOCK_BYTES * CRC_BLOCK_BYTES;
        let stretch_end = stretch.bytes.end.next_multiple_of(CRC_BLOCK_BYTES);
        end = end.max(stretch_end.min(start.saturating_add(most)));
        // The request ends at the first cached block.
        let next_cached = self.tier.cache.first_cached(&self.key, missing.end..end / CRC_BLOCK_BYTES);
        end = next_cached.map_or(end, |block| block * CRC_BLOCK_BYTES);
        if std::ptr::eq(stretch, &self.end) {
            // A file is opened from its end on backwards.
            start = start.min(stretch.bytes.start / CRC_BLOCK_BYTES * CRC_BLOCK_BYTES);
        }
        start..end.min(self.length)
    }

    /// Reads whole blocks and checks each. Bytes that were damaged in transit are requested once more.
    fn fetch(&self, bytes: Range<usize>, check: &dyn Fn(usize, &[u8]) -> Result<()>) -> Result<Bytes> {
        let read = || -> Result<Bytes> {
            let part = self.tier.read(&self.key, bytes.start as u64..bytes.end as u64)?;
            for (block, content) in (bytes.start / CRC_BLOCK_BYTES..).zip(part.chunks(CRC_BLOCK_BYTES)) {
                check(block, content)?;
            }
            Ok(part)
        };
        match read() {
            Err(error @ Error::Corrupt { .. }) => {
                tracing::warn!(%error, "blocks of an object are read once more");
                read()
            }
            done => done,
        }
    }

    /// A range of adjacent blocks, from block `first` on.
    fn concat(&self, range: &Range<usize>, first: usize, blocks: &[Bytes]) -> Bytes {
        let (start, end) = (range.start - first * CRC_BLOCK_BYTES, range.end - first * CRC_BLOCK_BYTES);
        if let [one] = blocks {
            return one.slice(start..end);
        }
        let mut all = Vec::with_capacity(range.len());
        for (number, block) in blocks.iter().enumerate() {
            let at = number * CRC_BLOCK_BYTES;
            all.extend_from_slice(&block[start.saturating_sub(at).min(block.len())..(end - at).min(block.len())]);
        }
        all.into()
    }
}

/// The blocks, if none is missing.
fn all_of(blocks: &[Option<Bytes>]) -> Option<Vec<Bytes>> {
    blocks.iter().cloned().collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::fault::FaultStore;
    use super::super::{ObjectStore, Retry};
    use super::*;

    fn object(length: usize, cache_bytes: u64) -> (Vec<u8>, FaultStore, RemoteFile) {
        let content: Vec<u8> = (0..length).map(|at| (at * 31 % 251).to_le_bytes()[0]).collect();
        let store = FaultStore::new();
        store.put_if_absent("one", content.clone().into()).unwrap();
        let tier = ObjectTier::new(Arc::new(store.clone()), "memory://", cache_bytes, Retry::default());
        (content, store, RemoteFile::new(Arc::new(tier), "one", length))
    }

    #[test]
    fn any_range_is_what_was_written_whatever_the_cache_holds() {
        for (length, cache_bytes) in
            [(1, 1 << 20), (70_000, 0), (900_000, 100_000), (900_000, 300_000), (3_000_000, 4 << 20)]
        {
            let (content, _, file) = object(length, cache_bytes);
            let check = |block: usize, bytes: &[u8]| {
                assert_eq!(bytes, &content[block * CRC_BLOCK_BYTES..block * CRC_BLOCK_BYTES + bytes.len()]);
                Ok(())
            };
            file.set_stretches([0..length / 3, length / 3..length / 2, 5..length * 9].into_iter());
            for step in 0..200 {
                let start = step * 7919 % length;
                let end = (start + step * step * 13 % (length / 3 + 1)).min(length);
                assert_eq!(file.read(start..end, &check).unwrap(), content[start..end], "{start}..{end}");
            }
            assert!(file.tier.traffic().cache_bytes <= cache_bytes);
        }
    }

    #[test]
    fn a_stretch_costs_few_requests_in_whatever_pieces_it_is_read() {
        let length = 8 << 20;
        let (content, store, file) = object(length, 64 << 20);
        let check = |_: usize, _: &[u8]| Ok(());
        file.read(length - 8..length, &check).unwrap();
        file.read(length - 100_000..length - 8, &check).unwrap();
        assert_eq!(store.reads(), 1, "the end is read at once");
        file.set_stretches([0..6 << 20, 6 << 20..7 << 20].into_iter());
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (file, content) = (&file, &content);
                scope.spawn(move || {
                    for piece in (thread..(6 << 20) / 10_000).step_by(4) {
                        let range = piece * 10_000..(piece + 1) * 10_000;
                        assert_eq!(file.read(range.clone(), &|_, _| Ok(())).unwrap(), content[range]);
                    }
                });
            }
        });
        // Threads may begin anywhere in the first megabyte.
        assert!(store.reads() <= 4, "{} requests", store.reads());
        let before = store.reads();
        file.read(6 << 20..7 << 20, &check).unwrap();
        assert_eq!(store.reads(), before + 1);
    }

    #[test]
    fn blocks_that_were_changed_on_their_way_are_read_again() {
        let (content, store, file) = object(200_000, 1 << 20);
        let sound = |block: usize, bytes: &[u8]| match *bytes == content[block * CRC_BLOCK_BYTES..][..bytes.len()] {
            true => Ok(()),
            false => Err(Error::corrupt("one", 0, "sound", "other")),
        };
        store.flip_in_next_read();
        assert_eq!(file.read(10..99, &sound).unwrap(), content[10..99]);
        assert_eq!(store.reads(), 2);
        store.damage("one", 150_000);
        assert_eq!(
            file.read(140_000..160_000, &sound).unwrap(),
            content[140_000..160_000],
            "what was read before is kept"
        );
        let tier = Arc::new(ObjectTier::new(Arc::new(store.clone()), "memory://", 1 << 20, Retry::default()));
        let file = RemoteFile::new(tier, "one", 200_000);
        assert!(file.read(140_000..160_000, &sound).unwrap_err().is_damage());
    }
}
