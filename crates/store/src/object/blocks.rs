//! A cache of recently read blocks of objects, bounded in bytes. It contains only checked blocks.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lru::LruCache;

/// Bytes that an entry takes besides its block's.
const ENTRY_BYTES: usize = 128;

/// A block of an object.
type BlockKey = (Arc<str>, usize);

/// The least recently used blocks go first.
#[derive(Debug)]
pub(crate) struct BlockCache {
    lru: Mutex<BlockLru>,
    bytes_max: usize,
}

#[derive(Debug)]
struct BlockLru {
    blocks: LruCache<BlockKey, Bytes>,
    bytes: usize,
}

impl BlockCache {
    pub(crate) fn new(bytes_max: usize) -> BlockCache {
        BlockCache { lru: Mutex::new(BlockLru { blocks: LruCache::unbounded(), bytes: 0 }), bytes_max }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes that it takes now.
    pub(crate) fn bytes(&self) -> usize {
        self.lru.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// The first of some blocks that is here; using it is another matter.
    pub(crate) fn first_cached(&self, object: &Arc<str>, mut blocks: std::ops::Range<usize>) -> Option<usize> {
        let lru = self.lru.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.find(|block| lru.blocks.contains(&(Arc::clone(object), *block)))
    }

    /// The requested blocks that are in the cache.
    pub(crate) fn get(&self, object: &Arc<str>, blocks: std::ops::Range<usize>) -> Vec<Option<Bytes>> {
        let mut lru = self.lru.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.map(|block| lru.blocks.get(&(Arc::clone(object), block)).cloned()).collect()
    }

    /// Keeps a copy of a block, which holds nothing else in memory.
    pub(crate) fn put(&self, object: &Arc<str>, block: usize, bytes: &[u8]) {
        let size = bytes.len() + ENTRY_BYTES;
        if size > self.bytes_max {
            return;
        }
        let copy = Bytes::copy_from_slice(bytes);
        let mut lru = self.lru.lock().unwrap_or_else(PoisonError::into_inner);
        lru.bytes += size;
        if let Some(before) = lru.blocks.put((Arc::clone(object), block), copy) {
            lru.bytes -= before.len() + ENTRY_BYTES;
        }
        while lru.bytes > self.bytes_max {
            let Some((_, evicted)) = lru.blocks.pop_lru() else { break };
            lru.bytes -= evicted.len() + ENTRY_BYTES;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_newest_blocks_within_its_bound() {
        let cache = BlockCache::new(10 * (1000 + ENTRY_BYTES));
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        for block in 0..15 {
            cache.put(&one, block, &[u8::try_from(block).unwrap(); 1000]);
            assert!(cache.bytes() <= cache.bytes_max());
        }
        let blocks = cache.get(&one, 0..15);
        assert_eq!(blocks.iter().position(Option::is_some), Some(5));
        assert!(blocks[5..].iter().zip(5..).all(|(block, number)| block.as_ref().unwrap()[0] == number));
        assert!(cache.get(&other, 5..6)[0].is_none());
        cache.put(&one, 14, &[9; 1000]);
        assert_eq!(cache.bytes(), cache.bytes_max(), "a block counts once");
        cache.put(&one, 99, &vec![0; 100_000]);
        assert!(cache.get(&one, 99..100)[0].is_none(), "too large for it");
    }
}
