//! Streams of a file's decompressed bytes: plain, gzip (concatenated members too), zstd and zip members.
//!
//! - The on-disk bytes are counted and, unless the digest is known, hashed while they pass.
//! - A stream that ends early is an error, never a short file.

use std::io::{self, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use flate2::read::{DeflateDecoder, MultiGzDecoder};

use crate::error::{Error, Result};
use crate::input::{InputFile, cached_digest, new_hasher, raw, remember};

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

struct HashingReader {
    inner: Box<dyn Read + Send>,
    count: Arc<AtomicU64>,
    hasher: Option<SharedHasher>,
}

/// A hasher and how many bytes it has seen.
type SharedHasher = Arc<Mutex<(blake3::Hasher, u64)>>;

impl Read for HashingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        if let Some(hasher) = self.hasher.as_ref().and_then(|h| h.lock().ok()).as_mut() {
            hasher.0.update(&buffer[..n]);
            hasher.1 += n as u64;
        }
        Ok(n)
    }
}

/// Checks a zip member's length and CRC at its end.
struct MemberCheck {
    inner: Box<dyn Read + Send>,
    crc: flate2::Crc,
    size: u64,
    crc32: u32,
    seen: u64,
}

impl Read for MemberCheck {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let n = self.inner.read(buffer)?;
        self.crc.update(&buffer[..n]);
        self.seen += n as u64;
        if self.seen > self.size || n == 0 && self.seen < self.size {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the zip member is not as long as the zip file says",
            ));
        }
        if n == 0 && self.crc.sum() != self.crc32 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the zip member's checksum is wrong"));
        }
        Ok(n)
    }
}

/// A stream of a file's decompressed bytes.
pub(crate) struct DecompressedStream {
    file: InputFile,
    reader: Box<dyn Read + Send>,
    hasher: Option<SharedHasher>,
    count: Arc<AtomicU64>,
}

impl DecompressedStream {
    /// Opens a file. `count` is raised by the on-disk bytes as they are read.
    pub fn open(file: &InputFile, count: Arc<AtomicU64>) -> Result<DecompressedStream> {
        let hasher = cached_digest(file).is_none().then(|| Arc::new(Mutex::new((new_hasher(file), 0))));
        let tap =
            HashingReader { inner: raw(file)?, count: Arc::clone(&count), hasher: hasher.as_ref().map(Arc::clone) };
        let mut reader: Box<dyn Read + Send> = Box::new(tap);
        let wrong = Error::io("read", &file.path);
        if let Some(member) = &file.member {
            if member.deflated {
                reader = Box::new(DeflateDecoder::new(BufReader::with_capacity(1 << 17, reader)));
            }
            let (size, crc32) = (member.size, member.crc32);
            reader = Box::new(MemberCheck { inner: reader, crc: flate2::Crc::new(), size, crc32, seen: 0 });
        }
        let mut head = [0u8; 4];
        let got = read_full(&mut reader, &mut head).map_err(|e| damaged(&file.name, &e))?;
        let head = head[..got].to_vec();
        let leaf = file.leaf().to_ascii_lowercase();
        let (gzip, zstandard) = (head.starts_with(GZIP_MAGIC), head.starts_with(ZSTD_MAGIC));
        if (leaf.ends_with(".gz") && !gzip) || (leaf.ends_with(".zst") && !zstandard) {
            return Err(Error::damaged(
                &file.name,
                "is named as a compressed file but doesn't begin as one; it may be cut short",
            ));
        }
        let whole = io::Cursor::new(head).chain(reader);
        let reader: Box<dyn Read + Send> = if gzip {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 17, whole)))
        } else if zstandard {
            Box::new(zstd::stream::read::Decoder::new(whole).map_err(wrong)?)
        } else {
            Box::new(whole)
        };
        Ok(DecompressedStream { file: file.clone(), reader, hasher, count })
    }

    /// Fills `buffer` as far as the file reaches.
    pub fn read_full(&mut self, buffer: &mut [u8]) -> Result<usize> {
        read_full(&mut self.reader, buffer).map_err(|e| damaged(&self.file.name, &e))
    }

    /// The first bytes of the stream, at most `count` of them. What reads on gets them, too.
    pub fn head(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut head = vec![0u8; count];
        let got = self.read_full(&mut head)?;
        head.truncate(got);
        let rest = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = Box::new(io::Cursor::new(head.clone()).chain(rest));
        Ok(head)
    }

    /// On-disk bytes read so far, over all files that share the counter.
    pub fn bytes_read(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The file's digest; call it after the last byte. Reads the file again when a decompressor left bytes unread.
    pub fn digest(&self) -> Result<String> {
        if let Some(hasher) = self.hasher.as_ref().and_then(|h| h.lock().ok())
            && hasher.1 == self.file.bytes
        {
            return Ok(remember(&self.file, &hasher.0));
        }
        crate::input::digest(&self.file)
    }
}

impl Read for DecompressedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

pub(crate) fn damaged(file: &str, source: &io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::damaged(file, format!("the compressed data ends early: {source}")),
        _ => Error::damaged(file, format!("can't be read: {source}")),
    }
}
