//! Bytes of a stream, cut anywhere, into lines.
//!
//! - What lies whole in the bytes at hand is read where it lies; only a line that is cut is copied, into `carry`.
//! - `carry` begins with the beginning of a line and is looked at again only when what that line waits for has come.
//! - Behind a bad line the stream goes on at the next line feed that is not within a value; behind one that is bad for its quotes, at the first line
//!   feed within the quotes, so that a quote left open costs its own line.

use super::batch::LineBatch;
pub use super::batch::TableLookup;
use super::error::{LineError, LineRefusal, MissingInput, Reason, SAMPLE_BYTES_MAX, ScanStop};
use super::row::{LineKind, line};
use super::scan::LineText;
use super::settings::LineSettings;
use super::table::LineRows;

/// Reads a stream of lines into batches of rows, see the [module](super).
///
/// Timestamps are nanoseconds since 1970; the clock is the caller's.
#[derive(Debug)]
pub struct LineDecoder {
    settings: LineSettings,
    batch: LineBatch,
    carry: Vec<u8>,
    need: MissingInput,
    /// Bytes of the carry that were looked at; what its line waits for comes behind them.
    looked: usize,
    /// Bytes up to the next line feed belong to a line that was refused.
    skipping: bool,
    full: bool,
    /// Lines and bytes of the stream that are dealt with.
    line: u64,
    offset: u64,
    accepted: u64,
    refused: u64,
    errors: Vec<LineError>,
}

/// How far a piece of the stream was read.
struct ReadProgress {
    used: usize,
    full: bool,
}

impl LineDecoder {
    /// A decoder for one stream that knows of no table.
    #[must_use]
    pub fn new(settings: LineSettings) -> LineDecoder {
        LineDecoder::build(settings, None)
    }

    /// A decoder that asks for each table it meets whether it exists. Of a table that does, values take the columns' types
    /// where they fit exactly, and the time column is the table's.
    #[must_use]
    pub fn with_lookup(settings: LineSettings, lookup: TableLookup) -> LineDecoder {
        LineDecoder::build(settings, Some(lookup))
    }

    fn build(settings: LineSettings, lookup: Option<TableLookup>) -> LineDecoder {
        let settings = settings.bounded();
        LineDecoder {
            batch: LineBatch::new(&settings, lookup),
            settings,
            carry: Vec::new(),
            need: MissingInput::LineFeed,
            looked: 0,
            skipping: false,
            full: false,
            line: 0,
            offset: 0,
            accepted: 0,
            refused: 0,
            errors: Vec::new(),
        }
    }

    /// Reads bytes and gives how many of them were read: all, unless the batch is full. Lines without a timestamp get the
    /// time `now`.
    ///
    /// A full batch has to be taken, and the rest pushed, even if nothing is left of it, since whole lines may wait:
    ///
    /// ```
    /// # use splay_capture::line::{LineDecoder, LineSettings};
    /// # let mut decoder = LineDecoder::new(LineSettings { rows_max: 2, ..LineSettings::default() });
    /// # let bytes = b"t a=1\nt a=2\nt a=3\nt a=4\n";
    /// # let (now, mut lines) = (0, 0);
    /// let mut used = 0;
    /// loop {
    ///     used += decoder.push(&bytes[used..], now);
    ///     if !decoder.is_full() {
    ///         break;
    ///     }
    ///     for batch in decoder.take() {
    ///         lines += batch.lines;
    ///     }
    /// }
    /// # assert_eq!(used, bytes.len());
    /// # lines += decoder.take().iter().map(|batch| batch.lines).sum::<u64>();
    /// assert_eq!(lines, 4);
    /// ```
    #[must_use]
    pub fn push(&mut self, bytes: &[u8], now: i64) -> usize {
        let mut used = 0;
        if self.looked < self.carry.len() && !self.full {
            self.drain_carry(false, now);
        }
        while used < bytes.len() && !self.full {
            let rest = &bytes[used..];
            if self.skipping {
                used += self.skip(rest);
            } else if self.carry.is_empty() {
                let read = self.lines(rest, false, now);
                used += read.used;
                self.full = read.full;
                if !read.full && !self.skipping {
                    self.carry.extend_from_slice(&bytes[used..]);
                    self.looked = self.carry.len();
                    used = bytes.len();
                }
            } else {
                used += self.extend_carry(rest);
                self.drain_carry(false, now);
            }
        }
        used
    }

    /// Reads the remaining bytes as the last line, which has no line feed. `false` if the batch is full: call
    /// [`take`](LineDecoder::take) and finish again. Afterwards the decoder is as new, except for its counts.
    #[must_use]
    pub fn finish(&mut self, now: i64) -> bool {
        if self.full {
            return false;
        }
        self.drain_carry(true, now);
        if self.full {
            return false;
        }
        self.skipping = false;
        true
    }

    /// Whether the batch has to be taken before more is read.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Rows since the last [`take`](LineDecoder::take).
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batch.budget.rows
    }

    /// The rows since the last call, by table.
    #[must_use]
    pub fn take(&mut self) -> Vec<LineRows> {
        self.full = false;
        self.batch.take()
    }

    /// The errors since the last call, at most [`errors_max`](LineSettings::errors_max) of them.
    #[must_use]
    pub fn take_errors(&mut self) -> Vec<LineError> {
        std::mem::take(&mut self.errors)
    }

    /// Lines that became rows, over the whole stream.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Lines that were refused, over the whole stream.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes of the cut line that are held.
    #[cfg(test)]
    pub(super) fn carry_bytes(&self) -> usize {
        self.carry.capacity()
    }

    /// Passes over the rest of a refused line.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let used = match memchr::memchr(b'\n', bytes) {
            Some(newline) => {
                self.skipping = false;
                newline + 1
            }
            None => bytes.len(),
        };
        self.offset += used as u64;
        used
    }

    /// Appends bytes to the carry: up to the next line feed, or as many as the carry has, if that is more. So a line
    /// that arrives in many pieces isn't scanned once per piece.
    fn extend_carry(&mut self, bytes: &[u8]) -> usize {
        let line = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |newline| newline + 1);
        let count = line.max(self.carry.len()).min(bytes.len());
        // Never more than a line can have and one piece of it.
        let count = count.min(self.settings.line_bytes_max);
        self.carry.extend_from_slice(&bytes[..count]);
        count
    }

    /// Reads the lines that are whole in the carry.
    fn drain_carry(&mut self, ended: bool, now: i64) {
        let mut carry = std::mem::take(&mut self.carry);
        if ended || self.is_worth_it(&carry) {
            let read = self.lines(&carry, ended, now);
            self.full = read.full;
            carry.drain(..read.used);
        }
        self.looked = if self.full { 0 } else { carry.len() };
        self.carry = carry;
    }

    /// Whether what the carry's line waits for may have come.
    fn is_worth_it(&self, carry: &[u8]) -> bool {
        let new = carry.get(self.looked..).unwrap_or_default();
        carry.len() >= self.settings.line_bytes_max
            || match self.need {
                MissingInput::LineFeed => memchr::memchr(b'\n', new).is_some(),
                MissingInput::Quote(_) => memchr::memchr(b'"', new).is_some(),
                MissingInput::Bytes(_, end) => carry.len() >= end,
            }
    }

    /// Reads lines from the beginning of one on, until the bytes hold no whole line more.
    fn lines(&mut self, bytes: &[u8], ended: bool, now: i64) -> ReadProgress {
        let mut at = 0;
        self.need = MissingInput::LineFeed;
        while at < bytes.len() {
            if !self.batch.has_room() {
                return ReadProgress { used: at, full: true };
            }
            let rest = &bytes[at..];
            let long = rest.len() > self.settings.line_bytes_max;
            let view = if long { &rest[..self.settings.line_bytes_max] } else { rest };
            let text = LineText { bytes: view, ended: ended && !long, lenient: false };
            let used = match line(&text, now, &mut self.batch) {
                Ok((LineKind::Row, used)) => {
                    self.accepted += 1;
                    used
                }
                Ok((LineKind::Empty, used)) => used,
                Err(ScanStop::Full) => return ReadProgress { used: at, full: true },
                Err(ScanStop::More(need)) if view.len() == self.settings.line_bytes_max => self.too_long(need, rest),
                Err(ScanStop::More(need @ MissingInput::Bytes(_, end))) if end > self.settings.line_bytes_max => {
                    self.too_long(need, rest)
                }
                Err(ScanStop::More(need)) => {
                    self.need = need;
                    return ReadProgress { used: at, full: false };
                }
                Err(ScanStop::Refused(refusal)) => match self.again(&text, *refusal, now) {
                    Ok(Some(used)) => used,
                    Ok(None) => return ReadProgress { used: at, full: false },
                    Err(ScanStop::Full) => return ReadProgress { used: at, full: true },
                    Err(ScanStop::Refused(refusal)) => self.refuse(rest, *refusal),
                    Err(ScanStop::More(_)) => rest.len(),
                },
            };
            self.line += 1;
            self.offset += used as u64;
            at += used;
        }
        ReadProgress { used: at, full: false }
    }

    /// Reads a line again whose quotes don't pair, as text that holds quotes: Cryptofeed's InfluxDB back end sends books
    /// as JSON in quotes, and escapes nothing in it. `None`: the line's end has to come first.
    #[cold]
    fn again(&mut self, text: &LineText<'_>, refusal: LineRefusal, now: i64) -> Result<Option<usize>, ScanStop> {
        if !refusal.quotes {
            return Err(ScanStop::Refused(Box::new(refusal)));
        }
        let rest = &text.bytes[refusal.at.min(text.bytes.len())..];
        let end = match memchr::memchr(b'\n', rest) {
            Some(newline) => refusal.at + newline + 1,
            None if text.ended => text.bytes.len(),
            None if text.bytes.len() < self.settings.line_bytes_max => {
                self.need = MissingInput::LineFeed;
                return Ok(None);
            }
            None => return Err(ScanStop::Refused(Box::new(refusal))),
        };
        let text = LineText { bytes: &text.bytes[..end], ended: true, lenient: true };
        match line(&text, now, &mut self.batch) {
            Ok((_, used)) => {
                self.accepted += 1;
                Ok(Some(used))
            }
            Err(ScanStop::Full) => Err(ScanStop::Full),
            // The first reading's reason is the one that the protocol gives.
            Err(_) => Err(ScanStop::Refused(Box::new(refusal))),
        }
    }

    /// Refuses a line that is longer than the limit.
    #[cold]
    fn too_long(&mut self, need: MissingInput, rest: &[u8]) -> usize {
        let line_bytes_max = self.settings.line_bytes_max;
        let too_long = Reason::TooLong { line_bytes_max };
        let (reason, at) = match need {
            MissingInput::Quote(at) => (Reason::UnclosedQuote, at),
            MissingInput::Bytes(from, _) => (too_long, from),
            MissingInput::LineFeed => (too_long, line_bytes_max),
        };
        self.refuse(rest, LineRefusal { reason, at, resume: at, whole: false, quotes: false })
    }

    /// Keeps the error and gives where the next line begins.
    #[cold]
    fn refuse(&mut self, rest: &[u8], refusal: LineRefusal) -> usize {
        let LineRefusal { reason, at, resume, .. } = refusal;
        self.refused += 1;
        if self.errors.len() < self.settings.errors_max {
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            self.errors.push(LineError {
                line: self.line + 1,
                offset: self.offset + at as u64,
                reason,
                sample: rest[..end.min(SAMPLE_BYTES_MAX)].to_vec(),
            });
        }
        let from = resume.min(rest.len());
        match memchr::memchr(b'\n', &rest[from..]) {
            Some(newline) => from + newline + 1,
            None => {
                self.skipping = true;
                rest.len()
            }
        }
    }
}
