//! Appends checked against the caller's rights at the time when the rows arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use splay_capture::{RefusedInput, Status};
use splay_store::TableSpec;

use crate::audit::Counts;
use crate::callers::{Caller, Callers};
use crate::ingest::{
    Append, Ingest, IngestCallback, IngestError, IngestFigure, Producer, SubscribeRequest, Subscription,
};
use crate::problem::Problem;
use crate::settings::Role;

/// Capture within the rights of a caller.
#[derive(Debug)]
pub(crate) struct GuardedIngest {
    ingest: Arc<dyn Ingest>,
    callers: Callers,
    caller: Caller,
    excess: ExcessRule,
    /// Whether the last rows were counted for a quota.
    is_counted: AtomicBool,
}

/// The treatment of rows beyond a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExcessRule {
    /// Messages beyond the quota are refused, to be sent again.
    Refused,
    /// Messages beyond the quota are taken, and their sender waits before the next ones. For protocols without answers, and for streams.
    Paced,
}

fn store_error(error: splay_store::Error) -> IngestError {
    IngestError::Store(Arc::new(error))
}

fn refusal(problem: Problem) -> IngestError {
    store_error(splay_store::Error::Denied { about: format!("to send rows: {}", problem.message) })
}

impl GuardedIngest {
    pub(crate) fn new(ingest: Arc<dyn Ingest>, callers: Callers, caller: Caller, excess: ExcessRule) -> GuardedIngest {
        let is_counted = AtomicBool::new(caller.allowance().counts_rows());
        GuardedIngest { ingest, callers, caller, excess, is_counted }
    }

    fn caller(&self) -> Result<Caller, IngestError> {
        let caller = self.callers.still(&self.caller).map_err(refusal)?;
        caller.check(Role::Write).map_err(refusal)?;
        Ok(caller)
    }
}

impl GuardedIngest {
    /// Refuses rows beyond a quota. Later ones of their producer wait for them, or these would be taken for repeats.
    fn turned_away(&self, appends: &[Append], problem: Problem, counts: &Counts) -> IngestError {
        counts.refused();
        if let Some(producer) = appends.iter().find_map(|append| append.producer.as_ref()) {
            self.ingest.turn_away(producer);
        }
        let after = Duration::from_secs(problem.retry_seconds());
        IngestError::TooFast { reason: problem.message, after }
    }
}

impl Ingest for GuardedIngest {
    fn submit(&self, appends: Vec<Append>, done: IngestCallback) -> Result<(), IngestError> {
        let caller = self.caller()?;
        if caller.rights().is_some() {
            for append in &appends {
                let is_there = self.ingest.spec(&append.table)?.is_some();
                caller.check_rows(&append.table, is_there).map_err(store_error)?;
            }
        }
        let counts = caller.who().rows(&appends)?;
        let allowance = caller.allowance();
        // Relaxed: a quota that is new counts from the next rows on.
        self.is_counted.store(allowance.counts_rows(), Ordering::Relaxed);
        let rows: u64 = appends.iter().map(|append| append.rows.num_rows() as u64).sum();
        match self.excess {
            ExcessRule::Paced => allowance.charge_rows(rows),
            ExcessRule::Refused => {
                allowance.take_rows(rows).map_err(|problem| self.turned_away(&appends, problem, &counts))?
            }
        }
        let done = allowance.until_done(rows, counts.counting(done));
        self.ingest.submit(appends, done).inspect_err(|_| {
            counts.refused();
            allowance.give_back(rows);
        })
    }

    fn may_pause(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    fn pause(&self) -> Duration {
        self.caller().map_or(Duration::ZERO, |caller| caller.allowance().pause())
    }

    fn turn_away(&self, producer: &Producer) {
        self.ingest.turn_away(producer);
    }

    fn spec(&self, table: &str) -> Result<Option<TableSpec>, IngestError> {
        // Rights are checked first: the error for rows that don't fit shows the table's columns.
        self.caller()?.check_rows(table, true).map_err(store_error)?;
        self.ingest.spec(table)
    }

    fn subscribe(&self, _request: SubscribeRequest) -> Result<Box<dyn Subscription>, IngestError> {
        Err(store_error(splay_store::Error::Denied { about: "to follow a table in this way".to_owned() }))
    }

    fn reject(&self, way: &'static str, reason: String, sample: &[u8]) {
        self.ingest.reject(way, reason, sample);
    }

    fn reject_more(&self, way: &'static str, count: u64) {
        self.ingest.reject_more(way, count);
    }

    fn is_ready(&self) -> bool {
        self.ingest.is_ready()
    }

    fn is_full(&self) -> bool {
        self.ingest.is_full()
    }

    fn full_reason(&self) -> Option<String> {
        self.ingest.full_reason()
    }

    fn row_time(&self) -> i64 {
        self.ingest.row_time()
    }

    fn status(&self) -> Status {
        Status::default()
    }

    fn last_of(&self, producer: &str) -> Result<Option<u64>, IngestError> {
        self.ingest.last_of(producer)
    }

    fn give_up(&self, producer: &str, through: u64) -> bool {
        self.ingest.give_up(producer, through)
    }

    fn rejected(&self) -> Vec<RefusedInput> {
        Vec::new()
    }

    fn figures(&self) -> Vec<IngestFigure> {
        Vec::new()
    }

    /// Whoever sends rows doesn't close capture.
    fn close(&self) -> Result<(), IngestError> {
        Ok(())
    }
}
