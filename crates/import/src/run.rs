//! The pipeline: one thread reads and cuts, several parse, the caller's thread receives in order.
//!
//! ```text
//! reader ──jobs──► parsers ──one reply each──┐
//!    └────────queue, in input order──────────┴──► caller's sink
//! ```
//!
//! Both channels are bounded, so at most a few blocks per thread are in memory, whatever the file's size.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use splay_store::TableSpec;

use crate::binary::batches;
use crate::csv::parse::{self, MalformedRow, ParsedBlock, RecordLayout};
use crate::csv::{fields, preamble};
use crate::decompress::DecompressedStream;
use crate::error::{Error, Result, excerpt};
use crate::fit::Fitter;
use crate::format::DetectedFormat;
use crate::input::digest;
use crate::json::{self, parse::JsonForm};
use crate::plan::{Import, ReaderKind};
use crate::report::{Block, FileReport, ImportReport, Quarantine};
use crate::settings::OnError;
use crate::text_blocks::{BlockBoundary, TextBlock, TextBlocks};
use crate::text_file_format::{TextFileFormat, TrailerRule};

/// A block for a parser and where its result goes.
struct Job {
    layout: Arc<RecordLayout>,
    block: TextBlock,
    cut: BlockBoundary,
    reply: SyncSender<Result<ParsedBlock, String>>,
}

/// What the caller's thread receives, in input order.
enum Item {
    /// A file begins; its header and what stands before it took this many lines.
    Start {
        lines: u64,
    },
    Text {
        reply: Receiver<Result<ParsedBlock, String>>,
        bytes_read: u64,
    },
    Batch {
        batch: RecordBatch,
        faults: Vec<MalformedRow>,
        bytes_read: u64,
    },
    End {
        digest: String,
    },
    Failed(Error),
}

impl Import {
    /// Reads everything and calls `sink` with batches in input order: file by file, row by row. Parsing runs on
    /// `settings.threads` threads besides a reading one; `sink` runs on the calling thread.
    ///
    /// # Errors
    /// The sink's own, or the first [`Error`]; batches handed out before it are sound.
    pub fn run<E: From<Error>>(
        self,
        sink: &mut dyn FnMut(Block) -> std::result::Result<(), E>,
    ) -> std::result::Result<ImportReport, E> {
        if !self.has_virtual_dates() {
            return self.run_as_read(sink);
        }
        let (spec, names) = (self.spec().clone(), self.files.iter().map(|file| file.name.clone()).collect::<Vec<_>>());
        let (mut file, mut before) = (0, 0);
        self.run_as_read(&mut |block: Block| {
            if block.file != file {
                (file, before) = (block.file, 0);
            }
            let name = names.get(file).map(String::as_str).unwrap_or_default();
            let batch = spec.take_dates(&block.batch).map_err(|error| other_date(error, &spec, name, before))?;
            before += batch.num_rows() as u64;
            sink(Block { batch, ..block })
        })
    }

    /// Like [`Import::run`], with the rows as they are read: for a table whose date follows from the time, they may have a column of dates.
    pub(crate) fn run_as_read<E: From<Error>>(
        self,
        sink: &mut dyn FnMut(Block) -> std::result::Result<(), E>,
    ) -> std::result::Result<ImportReport, E> {
        let (queue, items) = sync_channel::<Item>(self.threads + 2);
        let (jobs, work) = sync_channel::<Job>(self.threads);
        let work = Mutex::new(work);
        let stop = self.on_error == OnError::Stop;
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| parse_jobs(&work, stop));
            }
            let import = &self;
            scope.spawn(move || import.read_all(&jobs, &queue));
            // Leaving drops the queue, which stops the reader, which stops the parsers.
            Collector::new(import, items).collect(sink)
        })
    }

    /// The reading thread. Send errors mean that the caller has left.
    fn read_all(&self, jobs: &SyncSender<Job>, queue: &SyncSender<Item>) {
        let count = Arc::new(AtomicU64::new(0));
        let mut bytes_before = 0;
        for file in 0..self.files.len() {
            let outcome = match &self.reading {
                ReaderKind::Text(format) => self.read_text(file, format, &count, jobs, queue),
                ReaderKind::Binary(kind) => self.read_binary(file, *kind, bytes_before, queue),
            };
            bytes_before += self.files[file].bytes;
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    queue.send(Item::Failed(error)).unwrap_or_default();
                    return;
                }
            }
        }
    }

    /// Reads a text file. False when the caller has left.
    fn read_text(
        &self,
        file: usize,
        format: &TextFileFormat,
        count: &Arc<AtomicU64>,
        jobs: &SyncSender<Job>,
        queue: &SyncSender<Item>,
    ) -> Result<bool> {
        let input = &self.files[file];
        let mut stream = DecompressedStream::open(input, Arc::clone(count))?;
        let skipped = match format.json {
            true => 0,
            false => {
                let head = stream.head(preamble::HEAD_BYTES)?;
                preamble::lines_before(&head, format.delimiter, format.header, format.skip_lines)
            }
        };
        let mut blocks =
            TextBlocks::new(&mut stream, &input.name, BlockBoundary::Records(format.delimiter), self.block_bytes)?;
        blocks.skip_lines(skipped)?;
        let mut lines = skipped;
        let mut is_empty = false;
        let layout = if format.json {
            is_empty = !blocks.look_for_array()?;
            Some(format.layout(&self.rows, input, None)?)
        } else if format.header {
            match blocks.header()? {
                Some((names, header_lines)) => {
                    lines += header_lines;
                    Some(format.layout(&self.rows, input, Some(&names))?)
                }
                None => {
                    is_empty = true;
                    None
                }
            }
        } else {
            Some(format.layout(&self.rows, input, None)?)
        };
        if queue.send(Item::Start { lines }).is_err() {
            return Ok(false);
        }
        if let Some(layout) = layout.filter(|_| !is_empty) {
            let layout = Arc::new(layout);
            while let Some(block) = blocks.next_block()? {
                let (reply, result) = sync_channel(1);
                let job = Job { layout: Arc::clone(&layout), block, cut: blocks.cut(), reply };
                let item = Item::Text { reply: result, bytes_read: blocks.bytes_read() };
                if jobs.send(job).is_err() || queue.send(item).is_err() {
                    return Ok(false);
                }
            }
        }
        let digest = stream.digest()?;
        Ok(queue.send(Item::End { digest }).is_ok())
    }

    fn read_binary(
        &self,
        file: usize,
        kind: DetectedFormat,
        bytes_before: u64,
        queue: &SyncSender<Item>,
    ) -> Result<bool> {
        let input = &self.files[file];
        let mut fitter = Fitter::new(&self.rows, input, &self.times, self.on_error != OnError::Stop);
        if queue.send(Item::Start { lines: 0 }).is_err() {
            return Ok(false);
        }
        for batch in batches(input, kind)? {
            let (mut batch, share) = batch?;
            if let Some(clock) = &self.clock {
                let misfit =
                    |reason| Error::Misfit { file: input.name.clone(), table: self.spec().name.clone(), reason };
                batch = clock.join(&batch).map_err(misfit)?;
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::cast_sign_loss,
                reason = "for a progress bar"
            )]
            let bytes_read = bytes_before + (share.clamp(0.0, 1.0) * input.bytes as f64) as u64;
            let (batch, faults) = fitter.fit(&batch)?;
            let any = batch.num_rows() > 0 || !faults.is_empty();
            if any && queue.send(Item::Batch { batch, faults, bytes_read }).is_err() {
                return Ok(false);
            }
        }
        let digest = digest(input)?;
        Ok(queue.send(Item::End { digest }).is_ok())
    }
}

/// A row with another date than that of its time; rows before its batch are counted.
fn other_date(error: splay_store::Error, spec: &TableSpec, file: &str, before: u64) -> Error {
    let reason = match error {
        splay_store::Error::Row { row, reason, .. } => format!("its row {} {reason}", before + row + 1),
        other => other.to_string(),
    };
    Error::Misfit { file: file.to_owned(), table: spec.name.clone(), reason }
}

fn parse_jobs(work: &Mutex<Receiver<Job>>, stop: bool) {
    loop {
        let Ok(Ok(job)) = work.lock().map(|work| work.recv()) else { return };
        let block = &job.block;
        let text = &block.bytes[..block.len];
        let parsed = match job.cut {
            BlockBoundary::Records(_) => parse::parse(&job.layout, &block.bytes, block.len, stop),
            BlockBoundary::Lines => json::parse::parse(&job.layout, text, JsonForm::Lines, stop),
            BlockBoundary::Objects => {
                let form = JsonForm::Array { first: block.first, last: block.last };
                json::parse::parse(&job.layout, text, form, stop)
            }
        };
        // The caller may have left.
        job.reply.send(parsed).unwrap_or_default();
    }
}

/// The receiving side: puts line numbers right, keeps count, checks trailers.
struct Collector<'a> {
    import: &'a Import,
    items: Receiver<Item>,
    quarantine: Option<Quarantine>,
    trailer_rule: Option<&'a TrailerRule>,
    report: ImportReport,
    file: usize,
    lines: u64,
    rows: u64,
    faults: u64,
    trailer: Option<Vec<u8>>,
}

impl<'a> Collector<'a> {
    fn new(import: &'a Import, items: Receiver<Item>) -> Collector<'a> {
        let quarantine = match &import.on_error {
            OnError::Stop => None,
            OnError::Quarantine { path } => Some(Quarantine::new(path)),
        };
        let trailer_rule = match &import.reading {
            ReaderKind::Text(format) => format.trailer.as_ref(),
            ReaderKind::Binary(_) => None,
        };
        let report = ImportReport::default();
        Collector {
            import,
            items,
            quarantine,
            trailer_rule,
            report,
            file: 0,
            lines: 0,
            rows: 0,
            faults: 0,
            trailer: None,
        }
    }

    fn collect<E: From<Error>>(
        mut self,
        sink: &mut dyn FnMut(Block) -> std::result::Result<(), E>,
    ) -> std::result::Result<ImportReport, E> {
        while self.file < self.import.files.len() {
            let file = self.file;
            match self.items.recv().map_err(|_| self.gave_up())? {
                Item::Failed(error) => return Err(error.into()),
                Item::Start { lines } => {
                    (self.lines, self.rows, self.faults, self.trailer) = (lines, 0, 0, None);
                }
                Item::Batch { batch, faults, bytes_read } => {
                    self.set_aside(faults)?;
                    self.rows += batch.num_rows() as u64;
                    if batch.num_rows() > 0 {
                        sink(Block { batch, file, bytes_read })?;
                    }
                }
                Item::Text { reply, bytes_read } => {
                    let parsed = reply.recv().map_err(|_| self.gave_up())?;
                    let parsed = parsed.map_err(|reason| Error::damaged(self.name(), reason))?;
                    let batches = self.take(parsed)?;
                    for batch in batches {
                        sink(Block { batch, file, bytes_read })?;
                    }
                }
                Item::End { digest } => self.end(digest)?,
            }
        }
        if let Some(quarantine) = self.quarantine.take() {
            self.report.quarantined = quarantine.finish()?;
        }
        Ok(self.report)
    }

    fn name(&self) -> &'a str {
        self.import.files.get(self.file).map(|f| f.name.as_str()).unwrap_or_default()
    }

    fn gave_up(&self) -> Error {
        Error::damaged(self.name(), "a reading thread gave up")
    }

    /// Takes the counts and faults of a block; gives its batches.
    fn take(&mut self, parsed: ParsedBlock) -> Result<Vec<RecordBatch>> {
        self.set_aside(parsed.faults)?;
        if parsed.beyond_trailer || (self.trailer.is_some() && parsed.rows > 0) {
            return Err(self.cut_short("rows follow the line that should be the last"));
        }
        self.trailer = parsed.trailer.or(self.trailer.take());
        self.lines += parsed.lines;
        self.rows += parsed.rows;
        Ok(parsed.batches)
    }

    /// Puts rows into quarantine, or ends at the first.
    fn set_aside(&mut self, faults: Vec<MalformedRow>) -> Result<()> {
        let name = self.name();
        for fault in faults {
            let line = self.lines + fault.line + 1;
            match &mut self.quarantine {
                Some(quarantine) => quarantine.add(name, line, &fault.column, &fault.reason, &fault.text)?,
                None => {
                    return Err(Error::Row {
                        file: name.to_owned(),
                        line,
                        column: fault.column,
                        reason: fault.reason,
                        excerpt: excerpt(&fault.text),
                    });
                }
            }
            self.faults += 1;
        }
        Ok(())
    }

    fn cut_short(&self, reason: impl Into<String>) -> Error {
        Error::Trailer { file: self.name().to_owned(), reason: reason.into() }
    }

    fn end(&mut self, digest: String) -> Result<()> {
        if let Some(rule) = self.trailer_rule {
            self.check_trailer(rule)?;
        }
        let input = &self.import.files[self.file];
        self.report.files.push(FileReport { name: input.name.clone(), digest, rows: self.rows, bytes: input.bytes });
        self.report.rows += self.rows;
        self.report.bytes += input.bytes;
        self.file += 1;
        Ok(())
    }

    /// The trailer may count the rows alone, or its own line and the header's with them.
    fn check_trailer(&self, rule: &TrailerRule) -> Result<()> {
        let Some(trailer) = &self.trailer else {
            return Err(self.cut_short(format!("its last line doesn't begin with {:?}", rule.prefix)));
        };
        let Some(place) = rule.rows_field else { return Ok(()) };
        let delimiter = match &self.import.reading {
            ReaderKind::Text(format) => format.delimiter,
            ReaderKind::Binary(_) => b',',
        };
        let counted = fields::record(trailer, 0, delimiter).ok().and_then(|(fields, _)| {
            let text = fields.get(place)?.text.trim_ascii().to_vec();
            String::from_utf8(text).ok()?.parse::<u64>().ok()
        });
        let seen = self.rows + self.faults;
        match counted {
            Some(counted) if !(seen..=seen + 2).contains(&counted) => {
                Err(self.cut_short(format!("its last line counts {counted} rows, and {seen} were read")))
            }
            _ => Ok(()),
        }
    }
}
