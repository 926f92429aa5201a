//! Files that are encrypted as a whole: a header that holds the wrapped key, and blocks that are decrypted independently.
//!
//! The key is the file's own, so that the number of a block is its nonce. Each block authenticates the header's digest,
//! its own number and whether it is the last: no block can be omitted, exchanged or cut off.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use super::keys::{EncryptionKeys, FileKey, NONCE_BYTES, TAG_BYTES};
use crate::error::{Error, Result};
use crate::little_endian::u32_at;

const MAGIC: &[u8; 8] = b"SPLAYENC";
const VERSION: u32 = 1;
/// Magic bytes, version, length of the wrapped key.
const HEADER_BYTES: usize = 16;
/// Most bytes of a wrapped key.
const MATERIAL_BYTES_MAX: usize = 1 << 16;
/// Bytes of a block before encryption, all but the last.
const BLOCK_BYTES: usize = 16 << 10;
const SEALED_BYTES: usize = BLOCK_BYTES + TAG_BYTES;

/// How the bytes of a file are found in its sealed form.
#[derive(Debug)]
pub(crate) struct Sealed {
    key: FileKey,
    /// Digest of the header.
    digest: [u8; 32],
    /// Bytes of the header, and of the whole file.
    header: usize,
    end: usize,
}

fn header_of(key: &FileKey) -> Vec<u8> {
    let material = key.material();
    let mut header = Vec::with_capacity(HEADER_BYTES + material.len());
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&u32::try_from(material.len()).unwrap_or(u32::MAX).to_le_bytes());
    header.extend_from_slice(material);
    header
}

fn nonce(block: usize) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..8].copy_from_slice(&(block as u64).to_le_bytes());
    nonce
}

fn aad(digest: &[u8; 32], block: usize, is_last: bool) -> [u8; 41] {
    let mut aad = [0; 41];
    aad[..32].copy_from_slice(digest);
    aad[32..40].copy_from_slice(&(block as u64).to_le_bytes());
    aad[40] = u8::from(is_last);
    aad
}

impl Sealed {
    /// Reads the header of a file of so many bytes, of which `first` are the first ones, [`Sealed::HEADER_BYTES_MAX`] or all.
    pub(crate) fn open(first: &[u8], length: usize, keys: &EncryptionKeys, path: &Path) -> Result<Sealed> {
        let wrong = |expected: &str, found: String| Error::corrupt(path, 0, expected, found);
        let fixed = first.get(..HEADER_BYTES).ok_or_else(|| wrong("a header", format!("{length} bytes")))?;
        if !fixed.starts_with(MAGIC) {
            return Err(wrong("SPLAYENC", "other bytes".to_owned()));
        }
        let version = u32_at(fixed, 8);
        if version > VERSION {
            return Err(Error::FormatVersion { path: path.to_path_buf(), found: version, supported: VERSION });
        }
        let header = HEADER_BYTES.saturating_add(u32_at(fixed, 12) as usize);
        let bytes =
            first.get(..header).ok_or_else(|| wrong("a wrapped key", "one beyond the file's end".to_owned()))?;
        let key = keys.unwrap(&bytes[HEADER_BYTES..], path)?;
        let last = length.saturating_sub(header) % SEALED_BYTES;
        // There is a block even if there are no bytes.
        if length == header || last > 0 && last < TAG_BYTES {
            return Err(wrong("whole blocks", format!("{length} bytes")));
        }
        Ok(Sealed { key, digest: *blake3::hash(bytes).as_bytes(), header, end: length })
    }

    /// Most bytes of a header.
    pub(crate) const HEADER_BYTES_MAX: usize = HEADER_BYTES + MATERIAL_BYTES_MAX;

    fn blocks(&self) -> usize {
        (self.end - self.header).div_ceil(SEALED_BYTES)
    }

    /// Bytes before encryption.
    pub(crate) fn len(&self) -> usize {
        self.end - self.header - self.blocks() * TAG_BYTES
    }

    /// The encrypted blocks that hold a range of the plain bytes. The range must be within them.
    pub(crate) fn place(&self, range: &Range<usize>) -> Range<usize> {
        let at = |block: usize| self.header + block * SEALED_BYTES;
        at(range.start / BLOCK_BYTES)..at(range.end.div_ceil(BLOCK_BYTES)).min(self.end)
    }

    /// A range of the bytes before encryption. `blocks` are those at [`Sealed::place`].
    pub(crate) fn read(&self, range: &Range<usize>, blocks: &[u8], path: &Path) -> Result<Vec<u8>> {
        let first = range.start / BLOCK_BYTES;
        let mut plain = Vec::with_capacity(blocks.len());
        for (at, block) in blocks.chunks(SEALED_BYTES).enumerate() {
            let number = first + at;
            let start = plain.len();
            plain.extend_from_slice(block);
            let aad = aad(&self.digest, number, number + 1 == self.blocks());
            if !self.key.open(nonce(number), &aad, &mut plain[start..]) {
                let offset = (self.header + number * SEALED_BYTES) as u64;
                return Err(Error::corrupt(path, offset, "a block that its key authenticates", "another"));
            }
            plain.truncate(plain.len() - TAG_BYTES);
        }
        let skipped = range.start - first * BLOCK_BYTES;
        plain.truncate(skipped + range.len());
        plain.drain(..skipped);
        Ok(plain)
    }
}

/// Encrypts what is written to it, block by block. [`SealingWrite::finish`] writes the last one.
pub(crate) struct SealingWrite<W> {
    sink: W,
    key: FileKey,
    digest: [u8; 32],
    block: Vec<u8>,
    blocks: usize,
}

impl<W: Write> SealingWrite<W> {
    pub(crate) fn new(mut sink: W, key: &FileKey) -> std::io::Result<SealingWrite<W>> {
        let header = header_of(key);
        sink.write_all(&header)?;
        let digest = *blake3::hash(&header).as_bytes();
        Ok(SealingWrite { sink, key: key.clone(), digest, block: Vec::with_capacity(SEALED_BYTES), blocks: 0 })
    }

    fn put(&mut self, is_last: bool) -> std::io::Result<()> {
        self.key.seal(nonce(self.blocks), &aad(&self.digest, self.blocks, is_last), &mut self.block)?;
        self.sink.write_all(&self.block)?;
        self.blocks += 1;
        self.block.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> std::io::Result<()> {
        self.put(true)?;
        self.sink.flush()
    }
}

impl<W: Write> Write for SealingWrite<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // A full block waits until more comes, for the last one is sealed as such.
        if self.block.len() == BLOCK_BYTES && !bytes.is_empty() {
            self.put(false)?;
        }
        let length = bytes.len().min(BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Bytes in sealed form.
pub(crate) fn seal(bytes: &[u8], key: &FileKey) -> std::io::Result<Vec<u8>> {
    let mut sealed = Vec::new();
    let mut writer = SealingWrite::new(&mut sealed, key)?;
    writer.write_all(bytes)?;
    writer.finish()?;
    Ok(sealed)
}

/// The bytes that a sealed form holds.
pub(crate) fn open(bytes: &[u8], keys: &EncryptionKeys, path: &Path) -> Result<Vec<u8>> {
    let first = &bytes[..bytes.len().min(Sealed::HEADER_BYTES_MAX)];
    let sealed = Sealed::open(first, bytes.len(), keys, path)?;
    sealed.read(&(0..sealed.len()), &bytes[sealed.header..], path)
}

/// The digest of a sealed index that the manifest stores.
pub(crate) fn digest(sealed: &[u8]) -> String {
    blake3::hash(sealed).to_hex().to_string()
}
