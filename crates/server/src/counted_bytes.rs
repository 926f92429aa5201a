//! Memory of encoded answers: counted against the statement until it is sent.

use std::io::{Error, ErrorKind, Write};

use bytes::Bytes;
use splay_sql::{AnswerMemory, AnswerMemoryPart};

use crate::problem::{Outcome, Problem};

/// Bytes of a buffer when it begins to be counted.
const FIRST_BYTES: usize = 16 << 10;

/// A buffer that grows as far as the statement's memory allows.
#[derive(Debug, Default)]
pub(crate) struct CountedBuffer {
    bytes: Vec<u8>,
    memory: Option<AnswerMemory>,
    part: Option<AnswerMemoryPart>,
    refused: Option<splay_sql::Error>,
}

impl CountedBuffer {
    /// From now on bytes are of this memory.
    pub(crate) fn within(&mut self, memory: &AnswerMemory) {
        self.memory = Some(memory.clone());
    }

    /// Bytes that were written and not taken.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Forgets what was written behind so many bytes.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
    }

    /// Takes the bytes that were written; they count until they are dropped.
    pub(crate) fn take(&mut self) -> Bytes {
        let (bytes, part) = (std::mem::take(&mut self.bytes), self.part.take());
        match part {
            Some(part) => counted(bytes, part),
            None => bytes.into(),
        }
    }

    /// Why no more memory was granted, if that is the cause; otherwise the other failure.
    pub(crate) fn problem(&mut self, other: impl FnOnce() -> Problem) -> Problem {
        self.refused.take().map_or_else(other, Problem::from)
    }

    fn grow(&mut self, more: usize) -> Result<(), splay_sql::Error> {
        let needed = self.bytes.len().saturating_add(more);
        let Some(memory) = self.memory.as_ref().filter(|_| needed > self.bytes.capacity()) else { return Ok(()) };
        let part = self.part.get_or_insert_with(|| memory.part());
        let capacity = needed.max(self.bytes.capacity().saturating_mul(2)).max(FIRST_BYTES);
        // While it is copied it is there twice.
        part.resize(capacity.saturating_add(self.bytes.capacity()))?;
        self.bytes.reserve_exact(capacity - self.bytes.len());
        part.resize(self.bytes.capacity())
    }
}

impl Write for CountedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Err(error) = self.grow(bytes.len()) {
            let out_of_memory = Error::new(ErrorKind::OutOfMemory, error.to_string());
            self.refused = Some(error);
            return Err(out_of_memory);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct CountedBytes<T> {
    bytes: T,
    _part: AnswerMemoryPart,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for CountedBytes<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// The same bytes, which count until they are dropped.
pub(crate) fn counted<T: AsRef<[u8]> + Send + 'static>(bytes: T, part: AnswerMemoryPart) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes, _part: part })
}

/// A part of the memory for bytes that are made at once.
pub(crate) fn part(memory: &AnswerMemory, bytes: u64) -> Outcome<AnswerMemoryPart> {
    let part = memory.part();
    part.resize(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    Ok(part)
}
