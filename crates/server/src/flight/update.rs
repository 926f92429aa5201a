//! Statements that change something: their right, their number of rows, and the tickets of those that were sent as queries.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt64Type};
use bytes::Bytes;
use lru::LruCache;
use splay_sql::{AnswerMemory, Parameters, StatementChange, StatementStats};

use crate::callers::Caller;
use crate::http::HttpState;
use crate::ingest::Ingest;
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;
use crate::statements::Encode;

/// Tickets of changes that are remembered.
const TICKETS_MAX: usize = 1 << 16;

/// Where the rows of a statement that changes something go; none for one that reads.
///
/// # Errors
/// [`Code::Forbidden`] for who may not; [`Code::Unsupported`] on a server that only reads.
pub(super) fn ingest_of(shared: &HttpState, caller: &Caller, text: &str) -> Outcome<Option<Arc<dyn Ingest>>> {
    if !splay_sql::is_change(text) {
        return Ok(None);
    }
    caller.check(Role::Write)?;
    let ingest = shared.appends.as_ref().map(|appends| Arc::clone(appends.ingest()));
    ingest.map(Some).ok_or_else(|| Problem::new(Code::Unsupported, "this server only reads"))
}

/// Runs a statement that changes something, and gives the number of rows.
pub(super) async fn run(shared: &HttpState, caller: &Caller, text: &str, parameters: Parameters) -> Outcome<i64> {
    let none =
        || Problem::new(Code::Request, "an update changes something; this statement only reads: send it as a query");
    let ingest = ingest_of(shared, caller, text)?.ok_or_else(none)?;
    if splay_sql::gives_token(text) {
        return Err(Problem::new(
            Code::Unsupported,
            "an update answers with a number, and no token: send it as a query",
        ));
    }
    let statements = shared.statements(caller).await?;
    let mut pieces = statements.run_for("flight", text.to_owned(), parameters, RowCount, Some(ingest)).await?;
    let mut rows = 0;
    while let Some(piece) = pieces.next().await {
        match piece? {
            CountedRows::Told(told) => rows += told,
            CountedRows::All(all) => rows = all,
        }
    }
    Ok(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// Rows that a change tells of.
enum CountedRows {
    /// In its answer, a row for each change.
    Told(u64),
    /// All that it changed, where its answer has the rows of `RETURNING`.
    All(u64),
}

/// Reads how many rows a statement has changed.
struct RowCount;

impl Encode for RowCount {
    type Piece = CountedRows;

    fn start(&mut self, _: &SchemaRef, _: &AnswerMemory) -> Outcome<Vec<CountedRows>> {
        Ok(Vec::new())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<CountedRows>> {
        let rows = batch.column_by_name("rows").and_then(|rows| rows.as_primitive_opt::<UInt64Type>());
        Ok(rows.map(|rows| CountedRows::Told(rows.iter().flatten().sum())).into_iter().collect())
    }

    fn change_result(&mut self, change: StatementChange) -> Vec<CountedRows> {
        vec![CountedRows::All(change.rows)]
    }

    fn end(&mut self, _: &StatementStats) -> Outcome<Vec<CountedRows>> {
        Ok(Vec::new())
    }
}

/// The names of tickets whose statement has changed something: it runs once, however often its ticket is sent.
#[derive(Debug)]
pub(super) struct SpentTickets(Mutex<LruCache<Bytes, ()>>);

impl Default for SpentTickets {
    fn default() -> SpentTickets {
        SpentTickets(Mutex::new(LruCache::new(NonZeroUsize::new(TICKETS_MAX).unwrap_or(NonZeroUsize::MIN))))
    }
}

impl SpentTickets {
    /// Remembers a ticket.
    ///
    /// # Errors
    /// [`Code::Request`] for one that was sent before, or has no name.
    pub(super) fn spend(&self, name: &Bytes) -> Outcome<()> {
        if name.is_empty() {
            return Err(Problem::new(
                Code::Request,
                "a ticket of a statement that changes something comes from GetFlightInfo",
            ));
        }
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A copy: the ticket's bytes have the statement, too.
        match spent.put(Bytes::copy_from_slice(name), ()) {
            None => Ok(()),
            Some(()) => Err(Problem::new(
                Code::Request,
                "this ticket was fetched before, and one of a statement that changes something counts once: send the statement again",
            )),
        }
    }
}
