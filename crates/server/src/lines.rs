//! Decodes line protocol into rows: the part that HTTP and TCP share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use splay_capture::line::{LineDecoder, LineRows, LineSettings};
use splay_capture::{AckClass, Append};
use splay_store::TableSpec;

use crate::ingest::Ingest;
use crate::problem::{Code, Outcome, Problem};

/// Bytes of rows that one connection decodes before it hands them over.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Refused lines of which the reasons are kept for the sender.
const SHOWN_MAX: usize = 5;

/// Tables that earlier parts of a message made or widened, by lower-case name: its later parts are lines for these.
type PlannedTables = Arc<Mutex<HashMap<String, TableSpec>>>;

/// Decodes one stream, and notes what it refuses.
#[derive(Debug)]
pub(crate) struct LineStream {
    decoder: LineDecoder,
    ingest: Arc<dyn Ingest>,
    way: &'static str,
    ack: AckClass,
    planned: PlannedTables,
    shown: Vec<String>,
    /// Refused lines that were noted.
    noted: u64,
}

impl LineStream {
    pub(crate) fn new(ingest: Arc<dyn Ingest>, way: &'static str, ack: AckClass, settings: LineSettings) -> LineStream {
        let (tables, planned) = (Arc::clone(&ingest), PlannedTables::default());
        let earlier = Arc::clone(&planned);
        let lookup = Box::new(move |table: &str| {
            let earlier = earlier.lock().unwrap_or_else(PoisonError::into_inner).get(&table.to_lowercase()).cloned();
            earlier.or_else(|| tables.spec(table).ok().flatten())
        });
        let settings = LineSettings { batch_bytes_max: BATCH_BYTES_MAX, ..settings };
        let decoder = LineDecoder::with_lookup(settings, lookup);
        LineStream { decoder, ingest, way, ack, planned, shown: Vec::new(), noted: 0 }
    }

    /// Takes a whole message received at `now`, and gives its rows, which belong together. Its last line needs no line feed.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if the rows take more than `bytes_max` in the columns of their tables, nulls counted as values.
    pub(crate) fn message(&mut self, bytes: &[u8], now: i64, bytes_max: usize) -> Outcome<Vec<Append>> {
        let (mut appends, mut extents) = (Vec::new(), HashMap::new());
        let mut used = 0;
        loop {
            used += self.decoder.push(&bytes[used..], now);
            if !self.decoder.is_full() && self.decoder.finish(now) {
                break;
            }
            self.take_part(&mut appends, &mut extents, bytes_max)?;
        }
        self.take_part(&mut appends, &mut extents, bytes_max)?;
        Ok(appends)
    }

    /// Takes what was decoded of a message. `extents` are rows and the width of a row of each table.
    fn take_part(
        &mut self,
        appends: &mut Vec<Append>,
        extents: &mut HashMap<String, (usize, usize)>,
        bytes_max: usize,
    ) -> Outcome<()> {
        self.note_refused();
        for part in self.decoder.take() {
            let rows = part.rows.num_rows();
            let name = part.table.to_lowercase();
            let (all, width) = extents.entry(name.clone()).or_default();
            *all += rows;
            *width = (*width).max(part.stored_bytes / rows.max(1));
            self.planned.lock().unwrap_or_else(PoisonError::into_inner).insert(name, part.spec.clone());
            appends.push(self.append(part));
        }
        let bytes =
            extents.values().fold(0, |sum: usize, (rows, width)| sum.saturating_add(rows.saturating_mul(*width)));
        if bytes > bytes_max {
            let text = format!(
                "the rows take more than {bytes_max} bytes in all columns of their tables (limits.rows_bytes_max): send fewer at once"
            );
            return Err(Problem::new(Code::TooLarge, text));
        }
        Ok(())
    }

    /// Takes bytes received at `now`, and gives the rows that they brought to `sink`, by table.
    pub(crate) fn push<E>(
        &mut self,
        bytes: &[u8],
        now: i64,
        mut sink: impl FnMut(Append) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut used = 0;
        loop {
            used += self.decoder.push(&bytes[used..], now);
            let is_full = self.decoder.is_full();
            self.take(&mut sink)?;
            if !is_full {
                return Ok(());
            }
        }
    }

    /// Lines refused so far, and why the first few were.
    pub(crate) fn refused(&self) -> (u64, &[String]) {
        (self.decoder.refused(), &self.shown)
    }

    fn take<E>(&mut self, sink: &mut impl FnMut(Append) -> Result<(), E>) -> Result<(), E> {
        self.note_refused();
        let batches = self.decoder.take();
        batches.into_iter().map(|rows| self.append(rows)).try_for_each(sink)
    }

    fn note_refused(&mut self) {
        for error in self.decoder.take_errors() {
            let reason = error.to_string();
            if self.shown.len() < SHOWN_MAX {
                self.shown.push(reason.clone());
            }
            self.ingest.reject(self.way, reason, &error.sample);
            self.noted += 1;
        }
        // The decoder keeps the reasons of only some refused lines.
        let more = self.decoder.refused() - self.noted;
        if more > 0 {
            self.ingest.reject_more(self.way, more);
            self.noted += more;
        }
    }

    fn append(&self, rows: LineRows) -> Append {
        Append { spec: Some(rows.spec), ack: Some(self.ack), ..Append::new(rows.table, rows.rows) }
    }
}
