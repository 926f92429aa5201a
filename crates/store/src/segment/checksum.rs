//! Checksums of a file's 64 KiB blocks: made while it is written, checked at first touch.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::buffer::{Buffer, ScalarBuffer};
use bytes::Bytes;

use crate::encryption::{EncryptionKeys, Sealed};
use crate::error::{Error, Result};
use crate::index::CRC_BLOCK_BYTES;
use crate::object::{self, RemoteFile};
use crate::storage::{ByteObserver, MappedBytes};

/// Collects the checksum of each block of a file as it is written.
#[derive(Debug, Default)]
pub(crate) struct BlockChecksums {
    finished: Vec<u32>,
    current: u32,
    filled: usize,
    bytes: u64,
}

impl ByteObserver for BlockChecksums {
    fn observe(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CRC_BLOCK_BYTES - self.filled));
            self.current = crc32c::crc32c_append(self.current, now);
            self.filled += now.len();
            bytes = later;
            if self.filled == CRC_BLOCK_BYTES {
                self.finish_block();
            }
        }
    }
}

impl BlockChecksums {
    fn finish_block(&mut self) {
        self.finished.push(self.current);
        (self.current, self.filled) = (0, 0);
    }

    /// The checksums, and the file's length.
    pub(crate) fn finish(mut self) -> (Vec<u32>, u64) {
        if self.filled > 0 {
            self.finish_block();
        }
        (self.finished, self.bytes)
    }
}

/// The checksums of bytes in memory.
pub(crate) fn of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(CRC_BLOCK_BYTES).map(crc32c::crc32c).collect()
}

/// The digest of a list of checksums that the manifest stores.
pub(crate) fn digest(checksums: &[u32]) -> String {
    let mut hasher = blake3::Hasher::new();
    for crc in checksums {
        hasher.update(&crc.to_le_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// A bit for each of many things, each set at most once.
#[derive(Debug)]
pub(crate) struct OnceBits {
    words: Vec<AtomicU64>,
}

impl OnceBits {
    pub(crate) fn new(bits: usize) -> OnceBits {
        OnceBits { words: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn get(&self, bit: usize) -> bool {
        // Relaxed: the bit only spares work that may as well be done twice.
        self.words[bit / 64].load(Ordering::Relaxed) & (1 << (bit % 64)) != 0
    }

    pub(crate) fn set(&self, bit: usize) {
        self.words[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
    }
}

/// The place of a file's bytes.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each open file")]
enum ByteSource {
    Mapped(MappedBytes),
    Remote(RemoteFile),
    /// A file that is encrypted as a whole. Offsets are those of its bytes before that.
    Sealed(Arc<CheckedFile>, Sealed),
}

/// A file whose blocks are checked when they are first touched: of a mapped one once, of one in the object store each time that it is fetched.
#[derive(Debug)]
pub(crate) struct CheckedFile {
    source: ByteSource,
    pub(crate) path: PathBuf,
    checksums: ScalarBuffer<u32>,
    checked: OnceBits,
    checks_data: bool,
}

impl CheckedFile {
    /// `checksums` as the index has them. Without `checks_data` only what describes the data is checked, not the data itself.
    pub(crate) fn new(
        bytes: MappedBytes,
        path: PathBuf,
        checksums: ScalarBuffer<u32>,
        checks_data: bool,
    ) -> Result<CheckedFile> {
        CheckedFile::of(ByteSource::Mapped(bytes), path, checksums, checks_data)
    }

    /// A file in the object store. All that comes from there is checked.
    pub(crate) fn remote(file: RemoteFile, path: PathBuf, checksums: ScalarBuffer<u32>) -> Result<CheckedFile> {
        CheckedFile::of(ByteSource::Remote(file), path, checksums, true)
    }

    /// The bytes of a file that is encrypted as a whole, which are decrypted each time that they are read.
    pub(crate) fn sealed(file: Arc<CheckedFile>, keys: &EncryptionKeys) -> Result<CheckedFile> {
        let first = file.bytes(0..file.len().min(Sealed::HEADER_BYTES_MAX))?;
        let sealed = Sealed::open(&first, file.len(), keys, &file.path)?;
        let (path, checks_data) = (file.path.clone(), file.checks_data);
        let (checksums, checked) = (Vec::new().into(), OnceBits::new(0));
        Ok(CheckedFile { source: ByteSource::Sealed(file, sealed), path, checksums, checked, checks_data })
    }

    fn of(source: ByteSource, path: PathBuf, checksums: ScalarBuffer<u32>, checks_data: bool) -> Result<CheckedFile> {
        let length = match &source {
            ByteSource::Mapped(bytes) => bytes.len(),
            ByteSource::Remote(file) => file.length(),
            ByteSource::Sealed(file, _) => file.len(),
        };
        if checksums.len() != length.div_ceil(CRC_BLOCK_BYTES) {
            let expected = format!("{} blocks", checksums.len());
            return Err(Error::corrupt(path, length as u64, expected, format!("{length} bytes")));
        }
        let checked = OnceBits::new(checksums.len());
        Ok(CheckedFile { source, path, checksums, checked, checks_data })
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> usize {
        match &self.source {
            ByteSource::Mapped(bytes) => bytes.len(),
            ByteSource::Remote(file) => file.length(),
            ByteSource::Sealed(_, sealed) => sealed.len(),
        }
    }

    /// The mapped bytes, unless the file is in the object store.
    pub(crate) fn mapped(&self) -> Option<&MappedBytes> {
        match &self.source {
            ByteSource::Mapped(bytes) => Some(bytes),
            ByteSource::Remote(_) => None,
            ByteSource::Sealed(file, _) => file.mapped(),
        }
    }

    /// The file in the object store, if it is there.
    pub(crate) fn as_remote(&self) -> Option<&RemoteFile> {
        match &self.source {
            ByteSource::Mapped(_) => None,
            ByteSource::Remote(file) => Some(file),
            ByteSource::Sealed(file, _) => file.as_remote(),
        }
    }

    /// Asks for the blocks that hold these bytes, without waiting for them.
    pub(crate) fn read_ahead(self: &Arc<CheckedFile>, range: Range<usize>) {
        match &self.source {
            ByteSource::Mapped(_) => self.read_mapped_ahead(range),
            ByteSource::Sealed(file, sealed) if range.end <= sealed.len() => file.read_ahead(sealed.place(&range)),
            ByteSource::Remote(file) if range.end <= file.length() && !file.is_here(&range) => {
                let file = Arc::clone(self);
                // An error is ignored here: the reader of the same bytes gets it again.
                object::later(move || drop(file.bytes(range)));
            }
            ByteSource::Remote(_) | ByteSource::Sealed(..) => {}
        }
    }

    fn read_mapped_ahead(&self, range: Range<usize>) {
        let start = range.start / CRC_BLOCK_BYTES * CRC_BLOCK_BYTES;
        if let ByteSource::Mapped(bytes) = &self.source {
            bytes.read_ahead(start..range.end.next_multiple_of(CRC_BLOCK_BYTES));
        }
    }

    /// Checks the blocks that hold these bytes, unless that was done before. Those in the object store are when they come.
    pub(crate) fn check(&self, range: Range<usize>) -> Result<()> {
        self.check_bounds(&range)?;
        match &self.source {
            ByteSource::Mapped(mapped) => self.check_mapped(mapped, range),
            ByteSource::Remote(_) => Ok(()),
            ByteSource::Sealed(file, sealed) => file.check(sealed.place(&range)),
        }
    }

    fn check_mapped(&self, mapped: &MappedBytes, range: Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let blocks = range.start / CRC_BLOCK_BYTES..(range.end - 1) / CRC_BLOCK_BYTES + 1;
        let mut unchecked = blocks.filter(|block| !self.checked.get(*block)).peekable();
        if unchecked.peek().is_some() && (range.len() > CRC_BLOCK_BYTES || mapped.is_read_in_places()) {
            self.read_mapped_ahead(range);
        }
        for block in unchecked {
            let start = block * CRC_BLOCK_BYTES;
            self.check_block(block, &mapped[start..(start + CRC_BLOCK_BYTES).min(mapped.len())])?;
            self.checked.set(block);
        }
        Ok(())
    }

    fn check_block(&self, block: usize, content: &[u8]) -> Result<()> {
        let (expected, found) = (self.checksums[block], crc32c::crc32c(content));
        if found == expected {
            return Ok(());
        }
        let expected = format!("checksum {expected:08x}");
        Err(Error::corrupt(&self.path, (block * CRC_BLOCK_BYTES) as u64, expected, format!("{found:08x}")))
    }

    /// Bytes that describe data, checked; of a mapped file without a copy.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Result<Bytes> {
        self.read(range, true)
    }

    /// Like [`Self::bytes`], but as a buffer whose capacity is that of the range and not of the whole file.
    pub(crate) fn slice(&self, range: Range<usize>) -> Result<Buffer> {
        self.bytes(range).map(Buffer::from)
    }

    /// Bytes of the data itself; checked unless that is turned off.
    pub(crate) fn data(&self, range: Range<usize>) -> Result<Buffer> {
        self.read(range, self.checks_data).map(Buffer::from)
    }

    fn read(&self, range: Range<usize>, checks: bool) -> Result<Bytes> {
        self.check_bounds(&range)?;
        match &self.source {
            ByteSource::Mapped(mapped) => {
                if checks {
                    self.check_mapped(mapped, range.clone())?;
                }
                Ok(mapped.bytes().slice(range))
            }
            ByteSource::Remote(file) => file.read(range, &|block, content| self.check_block(block, content)),
            ByteSource::Sealed(file, sealed) => {
                let blocks = file.read(sealed.place(&range), checks)?;
                Ok(sealed.read(&range, &blocks, &self.path)?.into())
            }
        }
    }

    fn check_bounds(&self, range: &Range<usize>) -> Result<()> {
        if range.start > range.end || range.end > self.len() {
            let found = format!("bytes {} to {}", range.start, range.end);
            return Err(Error::corrupt(&self.path, range.start as u64, format!("{} bytes", self.len()), found));
        }
        Ok(())
    }
}
