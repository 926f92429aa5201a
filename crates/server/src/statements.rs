//! Statements under limits: so many at a time, each with so much memory, time and rows.
//!
//! - A statement runs on a thread of its own, which encodes the answer too: nothing long happens on the network's threads.
//! - At most [`PIECES_WAITING`] encoded pieces wait for the client. A client that goes away is noticed within
//!   [`LOOK_AROUND`], and the statement stops.
//! - The first piece comes with the first rows: what fails before them fails before a byte is sent.
//! - A statement that runs as a tick plan looks for both between blocks of rows. Where a block takes long (a sort of all rows),
//!   its client is told that the time is over, and its place is taken until the block ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::Stream;
use splay_sql::{Parameters, Session, StatementStats, Stop, Waited};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::metrics::{Counted, Metrics};
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Limits;

/// Encoded pieces that wait for the client.
const PIECES_WAITING: usize = 4;

/// How often a statement looks whether its client is still there.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// Rows that are encoded at once.
const PIECE_ROWS: usize = 8192;

/// Makes pieces of a format of an answer's batches. Runs on the statement's thread.
pub(crate) trait Encode: Send + 'static {
    /// What is sent.
    type Piece: Send + 'static;

    /// What comes before the rows.
    fn start(&mut self, schema: &SchemaRef) -> Outcome<Vec<Self::Piece>>;

    /// Rows.
    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<Self::Piece>>;

    /// What comes behind the rows.
    fn end(&mut self, stats: &StatementStats) -> Outcome<Vec<Self::Piece>>;
}

/// Runs statements. Clones share the limits.
#[derive(Debug, Clone)]
pub(crate) struct Statements {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    session: Session,
    limits: Limits,
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    metrics: Arc<Metrics>,
}

/// An answer on its way. Dropping it stops the statement.
#[derive(Debug)]
pub(crate) struct Pieces<P> {
    receiver: mpsc::Receiver<Message<P>>,
    deadline: Instant,
    ended: bool,
}

/// What a statement's thread says. One that ends without the last word has broken off.
#[derive(Debug)]
enum Message<P> {
    Piece(P),
    End,
    Failed(Problem),
}

impl<P: Send + 'static> Pieces<P> {
    /// The next piece; none at the end. After an error nothing comes.
    pub(crate) async fn next(&mut self) -> Option<Outcome<P>> {
        if self.ended {
            return None;
        }
        // The thread looks at the time itself, unless it can't.
        let patience = self.deadline + LOOK_AROUND * 3;
        let last = match tokio::time::timeout_at(patience.into(), self.receiver.recv()).await {
            Ok(Some(Message::Piece(piece))) => return Some(Ok(piece)),
            Ok(Some(Message::End)) => None,
            Ok(Some(Message::Failed(problem))) => Some(Err(problem)),
            Ok(None) if Instant::now() < self.deadline => Some(Err(broke_off())),
            Ok(None) | Err(_) => Some(Err(out_of_time())),
        };
        self.ended = true;
        self.receiver.close();
        last
    }

    /// The pieces as a stream.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Outcome<P>> + Send + 'static {
        futures::stream::unfold(self, |mut pieces| async move { pieces.next().await.map(|piece| (piece, pieces)) })
    }
}

/// Counts one that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Statements {
    pub(crate) fn new(session: Session, limits: Limits, metrics: Arc<Metrics>) -> Statements {
        let running = Arc::new(Semaphore::new(limits.statements_max));
        Statements { shared: Arc::new(Shared { session, limits, running, waiting: AtomicUsize::new(0), metrics }) }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.shared.session
    }

    /// Starts a statement. Returns when it has a place, not when it has rows.
    ///
    /// # Errors
    /// [`Code::Busy`]. What is wrong with the statement comes as the first piece.
    pub(crate) async fn run<E: Encode>(
        &self,
        way: &'static str,
        text: String,
        parameters: Parameters,
        encode: E,
    ) -> Outcome<Pieces<E::Piece>> {
        let start = Instant::now();
        let permit = self.place(way, start).await?;
        let (outlet, receiver) = mpsc::channel(PIECES_WAITING);
        let shared = Arc::clone(&self.shared);
        let deadline = start + shared.limits.statement();
        let handle = Handle::current();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let _counted = Counted::new(shared.metrics.statements_running.clone());
            tracing::debug!(way, statement = text, "statement");
            let mut run = Run { handle, outlet, deadline, limits: &shared.limits, rows: 0 };
            let ended = run.run(&shared.session, &text, parameters, encode);
            shared.metrics.rows_out.inc_by(run.rows);
            let outcome = match &ended {
                Ok(()) => "ok",
                Err(None) => "left",
                Err(Some(problem)) => problem.code.as_str(),
            };
            shared.metrics.statement(way, outcome, start);
            let milliseconds = start.elapsed().as_secs_f64() * 1e3;
            tracing::info!(way, outcome, rows = run.rows, milliseconds, "statement ended");
            // A client that never hears the last word takes the answer for broken off.
            let _ = match ended {
                Ok(()) => run.send(Message::End),
                Err(Some(problem)) => run.send(Message::Failed(problem)),
                Err(None) => Ok(()),
            };
        });
        Ok(Pieces { receiver, deadline, ended: false })
    }

    /// What a statement would give, without running it.
    pub(crate) async fn describe(&self, text: String) -> Outcome<splay_sql::Description> {
        let permit = self.place("describe", Instant::now()).await?;
        let session = self.shared.session.clone();
        let (sender, receiver) = oneshot::channel();
        let deadline = Instant::now() + self.shared.limits.statement();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let is_over = || sender.is_closed() || Instant::now() >= deadline;
            let described = session.describe_until(&text, Stop::when(&is_over));
            let _ = sender.send(described);
        });
        match tokio::time::timeout(self.shared.limits.statement(), receiver).await {
            Ok(Ok(described)) => described.map_err(Problem::from),
            Ok(Err(_)) => Err(broke_off()),
            Err(_) => Err(out_of_time()),
        }
    }

    /// Waits for a place.
    async fn place(&self, way: &'static str, start: Instant) -> Outcome<OwnedSemaphorePermit> {
        let shared = &self.shared;
        if let Ok(permit) = Arc::clone(&shared.running).try_acquire_owned() {
            return Ok(permit);
        }
        let busy = |text| {
            shared.metrics.statement(way, Code::Busy.as_str(), start);
            Problem::new(Code::Busy, text)
        };
        let before = shared.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(&shared.waiting);
        if before >= shared.limits.statements_waiting_max {
            return Err(busy("too many statements at once"));
        }
        let acquired = Arc::clone(&shared.running).acquire_owned();
        match tokio::time::timeout(shared.limits.statement(), acquired).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy("no other statement ended in time")),
        }
    }
}

fn broke_off() -> Problem {
    Problem::new(Code::Internal, "the statement broke off; this is a fault of SplayDB")
}

fn out_of_time() -> Problem {
    Problem::new(Code::Time, "the statement needs more time than it may have")
}

/// One statement on its thread.
struct Run<'a, P> {
    handle: Handle,
    outlet: mpsc::Sender<Message<P>>,
    deadline: Instant,
    limits: &'a Limits,
    rows: u64,
}

impl<P: Send + 'static> Run<'_, P> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// None inside if the client went away.
    fn run<E: Encode<Piece = P>>(
        &mut self,
        session: &Session,
        text: &str,
        parameters: Parameters,
        mut encode: E,
    ) -> Result<(), Option<Problem>> {
        let over = || self.outlet.is_closed() || Instant::now() >= self.deadline;
        let mut answer = match session.sql_until(text, parameters, Stop::when(&over)) {
            Err(splay_sql::Error::Cancelled) if self.outlet.is_closed() => return Err(None),
            Err(splay_sql::Error::Cancelled) => return Err(Some(self.out_of_time())),
            answer => answer.map_err(Problem::from)?,
        };
        answer.read_with_checks();
        let mut pieces = encode.start(&answer.schema())?;
        loop {
            match answer.wait(LOOK_AROUND) {
                Waited::Batch(batch) => {
                    let batch = batch.map_err(Problem::from)?;
                    self.rows += batch.num_rows() as u64;
                    if self.rows > self.limits.statement_rows_max {
                        let text = format!("the answer has more than {} rows", self.limits.statement_rows_max);
                        return Err(Some(Problem::new(Code::Rows, text)));
                    }
                    for offset in (0..batch.num_rows()).step_by(PIECE_ROWS) {
                        let slice = batch.slice(offset, PIECE_ROWS.min(batch.num_rows() - offset));
                        pieces.extend(encode.rows(&slice)?);
                        // Columns may be slices of files, which were read just now.
                        answer.check().map_err(Problem::from)?;
                        self.send_all(&mut pieces)?;
                    }
                }
                Waited::TimedOut => {
                    if self.outlet.is_closed() {
                        return Err(None);
                    }
                    if Instant::now() >= self.deadline {
                        return Err(Some(self.out_of_time()));
                    }
                }
                Waited::End => break,
            }
        }
        pieces.extend(encode.end(&answer.stats())?);
        self.send_all(&mut pieces)
    }

    fn out_of_time(&self) -> Problem {
        let seconds = self.limits.statement_seconds_max;
        Problem::new(Code::Time, format!("the statement needs more than its {seconds} seconds"))
    }

    fn send_all(&self, pieces: &mut Vec<P>) -> Result<(), Option<Problem>> {
        pieces.drain(..).try_for_each(|piece| self.send(Message::Piece(piece)))
    }

    fn send(&self, message: Message<P>) -> Result<(), Option<Problem>> {
        let Err(refused) = self.outlet.try_send(message) else { return Ok(()) };
        let message = match refused {
            mpsc::error::TrySendError::Full(message) => message,
            mpsc::error::TrySendError::Closed(_) => return Err(None),
        };
        let sending = async { tokio::time::timeout_at(self.deadline.into(), self.outlet.send(message)).await };
        match self.handle.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(None),
            Err(_) => {
                let text = "the client took the answer more slowly than a statement may last";
                Err(Some(Problem::new(Code::Time, text)))
            }
        }
    }
}

/// The first piece of an answer: one that has none has broken off.
pub(crate) fn or_broke_off<P>(first: Option<Outcome<P>>) -> Outcome<P> {
    first.unwrap_or_else(|| Err(broke_off()))
}
