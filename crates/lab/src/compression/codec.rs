//! The codecs that compress blocks of bytes, with the numbers that q has for them.

use std::fmt::{Display, Formatter};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use lz4::block::CompressionMode;

use super::lz;
use crate::{Error, Result};

/// A codec of bytes and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// No compression.
    None,
    /// The simple LZ of this crate.
    Lz,
    /// Deflate with a zlib header, level 0 to 9.
    Gzip(u32),
    /// Snappy.
    Snappy,
    /// LZ4 HC, level 0 to 16. The library takes 0 for 9, and levels above 12 for 12.
    Lz4hc(i32),
    /// Zstandard, level -7 to 22. The library takes 0 for 3.
    Zstd(i32),
}

impl Codec {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Lz => "lz",
            Codec::Gzip(_) => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4hc(_) => "lz4hc",
            Codec::Zstd(_) => "zstd",
        }
    }

    /// The number of the algorithm in q.
    #[must_use]
    pub fn algorithm(self) -> i64 {
        match self {
            Codec::None => 0,
            Codec::Lz => 1,
            Codec::Gzip(_) => 2,
            Codec::Snappy => 3,
            Codec::Lz4hc(_) => 4,
            Codec::Zstd(_) => 5,
        }
    }

    /// Its level, where it has levels.
    #[must_use]
    pub fn level(self) -> Option<i64> {
        match self {
            Codec::Gzip(level) => Some(i64::from(level)),
            Codec::Lz4hc(level) | Codec::Zstd(level) => Some(i64::from(level)),
            _ => None,
        }
    }
}

impl Display for Codec {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.level() {
            Some(level) => write!(f, "{} {level}", self.name()),
            None => write!(f, "{}", self.name()),
        }
    }
}

/// Compresses block after block, with one set of tables.
pub struct Compressor {
    codec: Codec,
    deflate: Option<Compress>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// # Errors
    /// [`Error::Codec`] if the level is none.
    pub fn new(codec: Codec) -> Result<Compressor> {
        let deflate = match codec {
            Codec::Gzip(level) => Some(Compress::new(Compression::new(level), true)),
            _ => None,
        };
        let zstd = match codec {
            Codec::Zstd(level) => Some(zstd::bulk::Compressor::new(level).map_err(Error::codec(codec))?),
            _ => None,
        };
        Ok(Compressor { codec, deflate, zstd })
    }

    /// Compresses a block.
    ///
    /// # Errors
    /// [`Error::Codec`].
    pub fn compress(&mut self, block: &[u8]) -> Result<Vec<u8>> {
        let failed = |reason: &dyn Display| Error::Codec { scheme: self.codec.to_string(), reason: reason.to_string() };
        match (self.codec, &mut self.deflate, &mut self.zstd) {
            (Codec::Lz, ..) => Ok(lz::compress(block)),
            (Codec::Snappy, ..) => snap::raw::Encoder::new().compress_vec(block).map_err(|error| failed(&error)),
            (Codec::Lz4hc(level), ..) => {
                let mode = Some(CompressionMode::HIGHCOMPRESSION(level));
                lz4::block::compress(block, mode, false).map_err(|error| failed(&error))
            }
            (Codec::Zstd(_), _, Some(zstd)) => zstd.compress(block).map_err(|error| failed(&error)),
            (Codec::Gzip(_), Some(deflate), _) => {
                deflate.reset();
                let mut output = Vec::with_capacity(block.len() + block.len() / 4 + 256);
                match deflate.compress_vec(block, &mut output, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => Ok(output),
                    Ok(_) => Err(failed(&"the block grows")),
                    Err(error) => Err(failed(&error)),
                }
            }
            _ => Ok(block.to_vec()),
        }
    }
}

/// Decompresses block after block.
pub struct Decompressor {
    codec: Codec,
    inflate: Option<Decompress>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decompressor {
    /// # Errors
    /// [`Error::Codec`] if there is no memory for its tables.
    pub fn new(codec: Codec) -> Result<Decompressor> {
        let inflate = matches!(codec, Codec::Gzip(_)).then(|| Decompress::new(true));
        let zstd = match codec {
            Codec::Zstd(_) => Some(zstd::bulk::Decompressor::new().map_err(Error::codec(codec))?),
            _ => None,
        };
        Ok(Decompressor { codec, inflate, zstd })
    }

    /// The block of `length` bytes that was compressed.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it isn't that.
    pub fn decompress(&mut self, block: &[u8], length: usize) -> Result<Vec<u8>> {
        let bytes = match (self.codec, &mut self.inflate, &mut self.zstd) {
            (Codec::Lz, ..) => return lz::decompress(block, length),
            (Codec::Snappy, ..) => snappy(block, length)?,
            (Codec::Lz4hc(_), ..) => lz4(block, length)?,
            (Codec::Zstd(_), _, Some(zstd)) => zstd.decompress(block, length).map_err(|e| Error::damaged(0, e))?,
            (Codec::Gzip(_), Some(inflate), _) => inflated(inflate, block, length)?,
            _ => block.to_vec(),
        };
        if bytes.len() != length {
            return Err(Error::damaged(0, format!("{} bytes instead of {length}", bytes.len())));
        }
        Ok(bytes)
    }
}

fn snappy(block: &[u8], length: usize) -> Result<Vec<u8>> {
    let header_length = snap::raw::decompress_len(block).map_err(|error| Error::damaged(0, error))?;
    if header_length != length {
        return Err(Error::damaged(0, format!("{header_length} bytes instead of {length}")));
    }
    snap::raw::Decoder::new().decompress_vec(block).map_err(|error| Error::damaged(0, error))
}

fn lz4(block: &[u8], length: usize) -> Result<Vec<u8>> {
    let plain_length = i32::try_from(length).map_err(|error| Error::damaged(0, error))?;
    lz4::block::decompress(block, Some(plain_length)).map_err(|error| Error::damaged(0, error))
}

fn inflated(inflate: &mut Decompress, block: &[u8], length: usize) -> Result<Vec<u8>> {
    inflate.reset(true);
    let mut output = Vec::with_capacity(length + 1);
    match inflate.decompress_vec(block, &mut output, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => Ok(output),
        Ok(_) => Err(Error::damaged(0, "the block has no end")),
        Err(error) => Err(Error::damaged(0, error)),
    }
}
