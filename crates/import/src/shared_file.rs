//! An open file that several threads read, each from its own position. It stays the file that it was, also if its path names another one by then.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use splay_store::FileState;

/// A file and a position in it. Clones share the file, and have a position each.
#[derive(Debug, Clone)]
pub(crate) struct SharedFile {
    file: Arc<File>,
    length: u64,
    position: u64,
}

impl SharedFile {
    pub(crate) fn new(file: File) -> io::Result<SharedFile> {
        let length = file.metadata()?.len();
        Ok(SharedFile { file: Arc::new(file), length, position: 0 })
    }

    /// What tells now whether the file was written again.
    pub(crate) fn state(&self) -> Option<FileState> {
        self.file.metadata().ok().map(|metadata| FileState::of(&metadata))
    }
}

impl Read for SharedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for SharedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for SharedFile {
    type T = io::BufReader<SharedFile>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(io::BufReader::new(SharedFile { position: start, ..self.clone() }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // The length is a file's claim.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(format!("{length} bytes from {start} on, in a file of {}", self.length)));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}
