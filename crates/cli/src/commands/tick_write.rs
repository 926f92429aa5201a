//! `splay tick write`: rows on standard input, line by line, into a server or into a database.
//!
//! - Lines are numbered from the first. With a producer's name, lines up to the last number that was stored under it are passed
//!   over, so that the same input may be sent again after a break.
//! - What waits is bounded: standard input isn't read while a batch is on its way.

mod lines;
mod sink;

use std::io::{IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use splay_capture::text::{TextFormat, header};

use crate::args::TickWriteArguments;
use crate::print::{note, say};
use crate::size::{Counted, Thousands};
use lines::{Block, PendingLines};
use sink::{BlockOutcome, Sink};

/// Bytes of a batch.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Bytes of one read, and reads that wait.
const READ_BYTES: usize = 64 << 10;
const READS_WAITING: usize = 16;

/// Refused lines that are shown.
const SHOWN_MAX: u64 = 20;

/// What became of the lines.
#[derive(Debug, Default)]
struct Total {
    stored: u64,
    refused: u64,
    quarantined: u64,
    duplicates: u64,
    /// Lines that were stored before.
    passed_over: u64,
    /// The last line of which it is known what became of it.
    line: u64,
}

pub fn run(arguments: &TickWriteArguments) -> Result<()> {
    if std::io::stdin().is_terminal() {
        note!("splay: rows are read from standard input; end it with Ctrl-D");
    }
    let mut input = Input::start(Duration::from_millis(arguments.linger_ms), arguments.batch_rows as usize)?;
    let columns = match arguments.format {
        TextFormat::Csv if arguments.columns.is_empty() => match input.first_line()? {
            Some(line) => header(&line)?,
            None => Vec::new(),
        },
        _ => arguments.columns.clone(),
    };
    let mut total = Total::default();
    let sink = Sink::open(arguments, columns)?;
    let sent = send(&mut input, &sink, &mut total);
    let closed = sink.close();
    let summary = total.summary(&arguments.table, arguments.ack);
    sent.with_context(|| format!("{summary}, up to line {}; then", Thousands(total.line)))?;
    closed?;
    say!("{summary}")?;
    Ok(())
}

fn send(input: &mut Input, sink: &Sink, total: &mut Total) -> Result<()> {
    let last = sink.last_line()?;
    while let Some(mut block) = input.next()? {
        total.passed_over += block.pass_over(last);
        let behind = block.first_line + block.lines;
        if block.lines > 0 {
            total.add(&sink.store(&block)?);
        }
        total.line = behind.saturating_sub(1);
    }
    Ok(())
}

impl Total {
    fn add(&mut self, stored: &BlockOutcome) {
        for (line, reason) in &stored.errors {
            self.refused += 1;
            if self.refused <= SHOWN_MAX {
                note!("splay: line {line}: {reason}");
            }
        }
        self.refused += stored.refused - stored.errors.len() as u64;
        self.stored += stored.rows;
        self.quarantined += stored.quarantined;
        self.duplicates += stored.duplicates;
    }

    fn summary(&self, table: &str, ack: splay_capture::AckClass) -> String {
        let mut text = format!("stored {} in {table} ({ack})", Counted(self.stored, "row"));
        if self.quarantined > 0 {
            text.push_str(&format!(", {} of these in quarantine", Thousands(self.quarantined)));
        }
        text.push_str(&format!(", refused {}", Counted(self.refused, "line")));
        if self.duplicates > 0 {
            text.push_str(&format!(", left out {}", Counted(self.duplicates, "duplicate row")));
        }
        if self.passed_over > 0 {
            text.push_str(&format!(", passed over {} stored before", Counted(self.passed_over, "line")));
        }
        text
    }
}

/// Standard input, read by a thread, in blocks of whole lines.
struct Input {
    chunks: Receiver<std::io::Result<Vec<u8>>>,
    lines: PendingLines,
    linger: Duration,
    batch_rows: usize,
    is_over: bool,
}

impl Input {
    fn start(linger: Duration, batch_rows: usize) -> Result<Input> {
        let (sender, chunks) = sync_channel(READS_WAITING);
        let thread = std::thread::Builder::new().name("input".to_owned());
        thread.spawn(move || read(&mut std::io::stdin().lock(), &sender)).context("start a thread")?;
        Ok(Input { chunks, lines: PendingLines::default(), linger, batch_rows, is_over: false })
    }

    /// The first line that isn't empty, if there is any.
    fn first_line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(block) = self.lines.take(1) {
                if !block.bytes.trim_ascii().is_empty() {
                    return Ok(Some(block.bytes));
                }
            } else if self.is_over {
                return Ok(None);
            } else {
                self.wait(None)?;
            }
        }
    }

    /// The next lines: when there are enough, when the first has waited for long enough, or when there are no more.
    fn next(&mut self) -> Result<Option<Block>> {
        let mut until = None;
        loop {
            let is_full = self.lines.count() >= self.batch_rows || self.lines.bytes() >= BLOCK_BYTES_MAX;
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            if is_full || is_late || self.is_over {
                return Ok(self.lines.take(self.batch_rows));
            }
            if self.lines.count() > 0 {
                until.get_or_insert_with(|| Instant::now() + self.linger);
            }
            self.wait(until)?;
        }
    }

    /// Takes what comes, waiting until a time.
    fn wait(&mut self, until: Option<Instant>) -> Result<()> {
        let came = match until {
            None => self.chunks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.chunks.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        match came {
            Ok(chunk) => self.lines.push(&chunk.context("read standard input")?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                self.lines.end();
                self.is_over = true;
            }
        }
        Ok(())
    }
}

fn read(input: &mut impl Read, chunks: &SyncSender<std::io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let chunk = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => Ok(buffer[..bytes].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_last = chunk.is_err();
        if chunks.send(chunk).is_err() || is_last {
            return;
        }
    }
}
