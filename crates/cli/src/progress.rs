//! Progress on a terminal; nothing where standard error is none.

use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use splay_sql::Progress;

use crate::rows::{Rows, Source, process_bytes};
use crate::size::{HumanBytes, Thousands};

/// How long a statement runs before a line tells how far it is.
const STATEMENT_DELAY: Duration = Duration::from_secs(1);

/// How often that line is written anew.
const STATEMENT_INTERVAL: Duration = Duration::from_millis(200);

/// A bar over bytes, with rate and time left.
pub fn bytes(total: u64, what: &str) -> ProgressBar {
    bar(total, "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {prefix} {eta} left").with_message(what.to_owned())
}

/// A count of rows, with rate.
pub fn rows(what: &str) -> ProgressBar {
    bar(0, "{msg} {human_pos} rows {per_sec}").with_message(what.to_owned())
}

/// A bar over tests, with a message behind it.
pub fn tests(total: usize) -> ProgressBar {
    bar(total as u64, "{bar:30} {pos}/{len} {wide_msg}")
}

fn bar(total: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(8));
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// When the line of a statement's progress goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// With the first rows, since they are written as they come, below the line.
    FirstRows,
    /// With the last ones.
    LastRows,
}

/// A line on standard error that tells how far a statement is, once it has run for a second. It goes when it is dropped, at the latest.
pub struct StatementLine {
    progress: Arc<Progress>,
    /// The thread that writes it, which ends when the sender is dropped.
    writer: Cell<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl StatementLine {
    /// The line of a statement that is about to begin.
    pub fn of(source: &Source) -> StatementLine {
        let progress = Arc::new(Progress::default());
        let is_here = matches!(source, Source::Local(_));
        let writer = std::io::stderr().is_terminal().then(|| writer(Arc::clone(&progress), is_here));
        StatementLine { progress, writer: Cell::new(writer.flatten()) }
    }

    /// What the statement is to tell.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The statement's rows, of which the first or the last end the line.
    pub fn over<'a>(&'a self, rows: Rows<'a>, end: LineEnd) -> Rows<'a> {
        let Rows { schema, mut batches } = rows;
        let watched = std::iter::from_fn(move || {
            let next = batches.next();
            if end == LineEnd::FirstRows || !matches!(next, Some(Ok(_))) {
                self.end();
            }
            next
        });
        Rows { schema, batches: Box::new(watched) }
    }

    fn end(&self) {
        if let Some((sender, thread)) = self.writer.take() {
            drop(sender);
            // It doesn't panic; if it did, the answer would still be one.
            let _ = thread.join();
        }
    }
}

impl Drop for StatementLine {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts the thread of a line. Without one there is no line.
fn writer(progress: Arc<Progress>, is_here: bool) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (sender, receiver) = channel();
    let start = Instant::now();
    let write = move || {
        if receiver.recv_timeout(STATEMENT_DELAY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let line = bar(0, "{wide_msg}");
        loop {
            let memory = if is_here { process_bytes("RssAnon:") } else { None };
            line.set_message(status_text(start.elapsed(), &progress, memory));
            line.tick();
            if receiver.recv_timeout(STATEMENT_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        line.finish_and_clear();
    };
    let thread = std::thread::Builder::new().name("splay-progress".to_owned()).spawn(write).ok()?;
    Some((sender, thread))
}

/// How far a statement is, in words.
fn status_text(elapsed: Duration, progress: &Progress, memory_bytes: Option<u64>) -> String {
    let mut parts = vec![match elapsed.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }];
    let (rows, total) = (progress.rows(), progress.total());
    if rows < total {
        let share = u128::from(rows) * 100 / u128::from(total);
        parts.push(format!("{share} % of {} rows read", Thousands(total)));
    } else if rows > 0 {
        parts.push(format!("{} rows read", Thousands(rows)));
    }
    parts.extend(memory_bytes.map(|bytes| format!("{} of memory", HumanBytes(bytes))));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_of_rows_as_far_as_they_are_known() {
        let progress = Progress::default();
        let at = |seconds| Duration::from_secs(seconds);
        assert_eq!(status_text(at(2), &progress, None), "2 s");
        assert_eq!(status_text(at(2), &progress, Some(1_200_000_000)), "2 s, 1.20 GB of memory");
        progress.set(41_000, 120_000);
        assert_eq!(status_text(at(59), &progress, None), "59 s, 34 % of 120,000 rows read");
        progress.set(120_000, 120_000);
        assert_eq!(status_text(at(60), &progress, Some(5_000)), "1 min 0 s, 120,000 rows read, 5.0 kB of memory");
        progress.set(7, 0);
        assert_eq!(status_text(at(125), &progress, None), "2 min 5 s, 7 rows read");
        progress.set(u64::MAX - 1, u64::MAX);
        assert!(status_text(at(1), &progress, None).contains("99 %"));
    }
}
