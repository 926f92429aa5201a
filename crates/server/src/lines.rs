//! Line protocol into rows: what HTTP and TCP have in common.

use std::sync::Arc;

use splay_capture::line::{LineDecoder, LineSettings};
use splay_capture::{AckClass, Append};

use crate::ingest::Ingest;

/// Bytes of rows that one connection decodes before it hands them over.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Refused lines of which the reasons are kept for the sender.
const SHOWN_MAX: usize = 5;

/// Decodes one stream, and notes what it refuses.
#[derive(Debug)]
pub(crate) struct Lines {
    decoder: LineDecoder,
    ingest: Arc<dyn Ingest>,
    way: &'static str,
    ack: AckClass,
    shown: Vec<String>,
    /// Refused lines that were noted.
    noted: u64,
}

impl Lines {
    pub(crate) fn new(ingest: Arc<dyn Ingest>, way: &'static str, ack: AckClass, settings: LineSettings) -> Lines {
        let tables = Arc::clone(&ingest);
        let lookup = Box::new(move |table: &str| tables.spec(table).ok().flatten());
        let settings = LineSettings { batch_bytes_max: BATCH_BYTES_MAX, ..settings };
        Lines { decoder: LineDecoder::with_lookup(settings, lookup), ingest, way, ack, shown: Vec::new(), noted: 0 }
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

    /// Takes what is left as a last line.
    pub(crate) fn finish<E>(&mut self, now: i64, mut sink: impl FnMut(Append) -> Result<(), E>) -> Result<(), E> {
        loop {
            let is_done = self.decoder.finish(now);
            self.take(&mut sink)?;
            if is_done {
                return Ok(());
            }
        }
    }

    /// Lines refused so far, and why the first few were.
    pub(crate) fn refused(&self) -> (u64, &[String]) {
        (self.decoder.refused(), &self.shown)
    }

    fn take<E>(&mut self, sink: &mut impl FnMut(Append) -> Result<(), E>) -> Result<(), E> {
        for error in self.decoder.take_errors() {
            let reason = error.to_string();
            if self.shown.len() < SHOWN_MAX {
                self.shown.push(reason.clone());
            }
            self.ingest.reject(self.way, reason, &error.sample);
            self.noted += 1;
        }
        // Of very many the decoder keeps no reasons.
        let more = self.decoder.refused() - self.noted;
        if more > 0 {
            self.ingest.reject_more(self.way, more);
            self.noted += more;
        }
        let append = |rows: splay_capture::line::LineRows| Append {
            table: rows.table,
            rows: rows.rows,
            spec: Some(rows.spec),
            producer: None,
            ack: Some(self.ack),
        };
        self.decoder.take().into_iter().map(append).try_for_each(sink)
    }
}
