//! Runs statements as a server does: with a deadline, and with all rows read and dropped.

use std::time::{Duration, Instant};

use splay_sql::{Error, Parameters, Session, SessionSettings, Stop, WaitOutcome};
use splay_store::Database;

use crate::counted::peak;

/// Memory of a statement.
pub const MEMORY: usize = 64 << 20;

/// What became of a statement.
#[derive(Debug)]
pub struct Outcome {
    /// Rows, or why there are none.
    pub result: Result<usize, Error>,
    pub time: Duration,
    /// The most bytes that the process held beyond those from before.
    pub memory: usize,
}

pub fn session(database: &Database) -> Session {
    let settings = SessionSettings { memory_bytes: MEMORY, threads: 2, ..SessionSettings::default() };
    Session::new(database.clone(), settings).unwrap()
}

/// Runs a statement to its end or to its deadline.
pub fn run(session: &Session, text: &str, limit: Duration) -> Outcome {
    let start = Instant::now();
    let (result, memory) = peak(|| rows(session, text, start + limit));
    Outcome { result, time: start.elapsed(), memory }
}

fn rows(session: &Session, text: &str, deadline: Instant) -> Result<usize, Error> {
    let is_over = || Instant::now() >= deadline;
    let mut answer = session.sql_until(text, Parameters::None, Stop::when(&is_over))?;
    let mut rows = 0;
    loop {
        match answer.wait(Duration::from_millis(20)) {
            WaitOutcome::Batch(batch) => rows += batch?.num_rows(),
            WaitOutcome::End => return Ok(rows),
            WaitOutcome::TimedOut if is_over() => return Err(Error::Cancelled),
            WaitOutcome::TimedOut => {}
        }
        if is_over() {
            return Err(Error::Cancelled);
        }
    }
}
