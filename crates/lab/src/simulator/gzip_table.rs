//! A gzip file of bar-separated lines with a header and a trailer, compressed by a thread of its own.
//!
//! Invariants:
//! - Blocks reach the thread in order and have fixed boundaries, so the bytes do not depend on timing.
//! - At most [`BLOCKS_MAX`] blocks wait, so a slow disk slows the simulator instead of filling the memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::WrittenFile;
use super::decimal::push_whole;
use crate::{Error, Result};

/// Text is handed over in blocks of about this many bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks that may wait for the compressing thread.
const BLOCKS_MAX: usize = 4;
/// The fastest: compression is most of the time a day takes.
const GZIP_LEVEL: u32 = 1;

/// A table file under construction.
#[derive(Debug)]
pub(crate) struct GzipTable {
    path: PathBuf,
    columns: usize,
    rows: u64,
    block: Vec<u8>,
    worker: Option<Worker>,
}

#[derive(Debug)]
struct Worker {
    blocks: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

impl GzipTable {
    /// Creates the file and writes its header line.
    pub(crate) fn create(path: &Path, header: &str) -> Result<Self> {
        let file = File::create(path).map_err(Error::io(path, "create"))?;
        let (blocks, received) = sync_channel(BLOCKS_MAX);
        let thread = thread::spawn(move || compress(file, &received));
        let mut block = Vec::with_capacity(BLOCK_BYTES + 1_024);
        block.extend_from_slice(header.as_bytes());
        block.push(b'\n');
        let columns = header.split('|').count();
        Ok(Self { path: path.to_path_buf(), columns, rows: 0, block, worker: Some(Worker { blocks, thread }) })
    }

    /// Adds the line that `write` appends.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        write(&mut self.block);
        self.rows += 1;
        if self.block.len() < BLOCK_BYTES { Ok(()) } else { self.hand_over() }
    }

    /// Writes the trailer `END|<date>|<rows>`, padded with blanks to the header's columns, and closes the file.
    pub(crate) fn finish(mut self, date: &str) -> Result<WrittenFile> {
        self.block.extend_from_slice(b"END|");
        self.block.extend_from_slice(date.as_bytes());
        self.block.push(b'|');
        push_whole(&mut self.block, self.rows);
        self.block.extend(std::iter::repeat_n(b'|', self.columns.saturating_sub(3)));
        self.block.push(b'\n');
        self.hand_over()?;
        self.join()?;
        Ok(WrittenFile { path: self.path, rows: self.rows })
    }

    fn hand_over(&mut self) -> Result<()> {
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK_BYTES + 1_024));
        let sent = self.worker.as_ref().is_some_and(|worker| worker.blocks.send(block).is_ok());
        // The thread ends early only with an error, which joining it brings.
        if sent { Ok(()) } else { self.join() }
    }

    fn join(&mut self) -> Result<()> {
        let Some(Worker { blocks, thread }) = self.worker.take() else {
            return Ok(());
        };
        drop(blocks);
        let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map_err(Error::io(&self.path, "write"))
    }
}

fn compress(file: File, blocks: &Receiver<Vec<u8>>) -> io::Result<()> {
    let mut encoder = GzEncoder::new(BufWriter::new(file), Compression::new(GZIP_LEVEL));
    for block in blocks {
        encoder.write_all(&block)?;
    }
    encoder.finish()?.flush()
}
