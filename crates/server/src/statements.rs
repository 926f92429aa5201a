//! Statements under limits: how many at a time, and memory, time and rows of each.
//!
//! - A statement runs on a thread of its own, which also encodes the answer, so that the network's threads never
//!   block.
//! - At most [`PIECES_WAITING`] encoded pieces wait for the client. A client that disconnects is noticed within
//!   [`LOOK_AROUND`], and the statement stops.
//! - The first piece is sent with the first rows: a failure before them is reported before a byte is sent.
//! - Slots keep short statements, long ones and slow clients out of each other's way: see
//!   [`statement_slots`](crate::statement_slots).
//! - The caller's quotas may narrow the limits (`quotas.rs`). A statement beyond the caller's `statements_max` is
//!   refused at once.
//! - A tick plan checks for cancellation and for its deadline between blocks of rows. If a block takes long (a sort
//!   of all rows), its client gets the timeout in time, and its slot stays occupied until the block ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::Stream;
use splay_sql::{
    Answer, AnswerMemory, ChangeDescription, NamedStatement, Parameters, Session, StatementChange, StatementStats,
    Stop, WaitOutcome,
};
use splay_store::Quota;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::audit::{Action, Actor, AuditedOperation};
use crate::callers::Caller;
use crate::changes::IntoJournal;
use crate::ingest::Ingest;
use crate::metrics::{GaugeGuard, Metrics};
use crate::priority_semaphore::Priority;
use crate::problem::{Code, Outcome, Problem, too_many_rows};
use crate::quotas::{Allowance, UsageSlot};
use crate::settings::{Limits, Log};
use crate::statement_slots::{QueueFull, StatementSlot, StatementSlots};

/// Encoded pieces that wait for the client.
const PIECES_WAITING: usize = 4;

/// How often a statement looks whether its client is still there.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// Rows that are encoded at once.
const PIECE_ROWS: usize = 8192;

/// Rows of a batch that are encoded at once, which have at most so many bytes unless one row has more.
fn piece_rows(batch: &RecordBatch, bytes_max: u64) -> usize {
    let rows = bytes_max / splay_sql::widest_row_bytes(batch).max(1);
    usize::try_from(rows).unwrap_or(PIECE_ROWS).clamp(1, PIECE_ROWS)
}

/// Makes pieces of a format of an answer's batches. Runs on the statement's thread.
pub(crate) trait Encode: Send + Sync + 'static {
    /// An encoded piece of the answer.
    type Piece: Send + 'static;

    /// Bytes of rows that are encoded at once: as many as the memory for an answer has room for, with the pieces that wait.
    fn piece_bytes(&self) -> u64 {
        1 << 20
    }

    /// Whether an answer of these columns can be encoded. Asked of a statement with `RETURNING` before it changes anything.
    fn check(&self, _: &SchemaRef) -> Outcome<()> {
        Ok(())
    }

    /// Encodes the head of the answer. All pieces count against the statement's memory until they are sent.
    fn start(&mut self, schema: &SchemaRef, memory: &AnswerMemory) -> Outcome<Vec<Self::Piece>>;

    /// Rows.
    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<Self::Piece>>;

    /// Encodes the result of a change, behind the rows of `RETURNING` and before the end.
    fn change_result(&mut self, _: StatementChange) -> Vec<Self::Piece> {
        Vec::new()
    }

    /// Encodes the end, behind the rows.
    fn end(&mut self, stats: &StatementStats) -> Outcome<Vec<Self::Piece>>;
}

/// Runs statements. Clones share the limits.
#[derive(Debug, Clone)]
pub(crate) struct Statements {
    session: Session,
    /// The caller, for the audit log.
    who: Actor,
    /// The caller's quotas.
    allowance: Allowance,
    priority: Priority,
    shared: Arc<StatementState>,
}

#[derive(Debug)]
struct StatementState {
    limits: Limits,
    log: Log,
    places: Arc<StatementSlots>,
    metrics: Arc<Metrics>,
}

/// Bytes of a slow statement's text that are logged.
const LOGGED_TEXT_BYTES: usize = 4096;

/// An answer on its way. Dropping it stops the statement.
#[derive(Debug)]
pub(crate) struct EncodedAnswer<P> {
    receiver: mpsc::Receiver<PieceMessage<P>>,
    deadline: Instant,
    bounds: RequestBounds,
    ended: bool,
}

/// The limits of a request's statement.
#[derive(Debug, Clone)]
struct RequestBounds {
    shared: Arc<StatementState>,
    allowance: Allowance,
}

impl RequestBounds {
    fn limit(&self, quota: Quota) -> u64 {
        let limits = &self.shared.limits;
        match quota {
            Quota::StatementBytesMax => limits.statement_bytes_max as u64,
            Quota::StatementSecondsMax => limits.statement_seconds_max,
            Quota::StatementRowsMax => limits.statement_rows_max,
            Quota::StatementsMax | Quota::SubscriptionsMax | Quota::RowsPerSecondMax | Quota::StatementPriority => {
                u64::MAX
            }
        }
    }

    fn bound(&self, quota: Quota) -> u64 {
        self.allowance.bound(quota, self.limit(quota))
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.bound(Quota::StatementSecondsMax))
    }

    /// A problem with the name of the quota that it comes of, if it does.
    fn name_quota(&self, problem: Problem) -> Problem {
        self.allowance.name_quota(problem, |quota| self.limit(quota))
    }
}

/// A slot, and one of the statements that the caller may run at a time.
struct Admission {
    place: Arc<StatementSlot>,
    slot: UsageSlot,
}

/// A message of a statement's thread. A thread that ends without its last message has broken off.
#[derive(Debug)]
enum PieceMessage<P> {
    Piece(P),
    End,
    Failed(Problem),
}

impl<P: Send + 'static> EncodedAnswer<P> {
    /// The next piece; none at the end. After an error nothing comes.
    pub(crate) async fn next(&mut self) -> Option<Outcome<P>> {
        if self.ended {
            return None;
        }
        // The thread looks at the time itself, unless it can't.
        let patience = self.deadline + LOOK_AROUND * 3;
        let last = match tokio::time::timeout_at(patience.into(), self.receiver.recv()).await {
            Ok(Some(PieceMessage::Piece(piece))) => return Some(Ok(piece)),
            Ok(Some(PieceMessage::End)) => None,
            Ok(Some(PieceMessage::Failed(problem))) => Some(Err(problem)),
            Ok(None) if Instant::now() < self.deadline => Some(Err(broke_off())),
            Ok(None) | Err(_) => Some(Err(self.bounds.name_quota(out_of_time()))),
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

impl Statements {
    pub(crate) fn new(session: Session, limits: Limits, log: Log, metrics: Arc<Metrics>) -> Statements {
        let places = StatementSlots::new(limits.statements_max, limits.statements_waiting_max, Arc::clone(&metrics));
        let (who, allowance, priority) = Default::default();
        Statements {
            session,
            who,
            allowance,
            priority,
            shared: Arc::new(StatementState { limits, log, places, metrics }),
        }
    }

    /// The same places for statements of another session.
    pub(crate) fn in_session(&self, session: Session) -> Statements {
        Statements { session, ..self.clone() }
    }

    /// The same for a caller's statements.
    pub(crate) fn by(self, caller: &Caller) -> Statements {
        Statements { who: caller.who(), allowance: caller.allowance(), priority: caller.priority(), ..self }
    }

    /// The caller's quotas.
    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance.clone()
    }

    fn bounds(&self) -> RequestBounds {
        RequestBounds { shared: Arc::clone(&self.shared), allowance: self.allowance.clone() }
    }

    /// Begins what isn't a statement of [`Statements::run_for`] for the audit log.
    ///
    /// # Errors
    /// As [`Actor::begin`].
    pub(crate) async fn begin(&self, action: Action<'_>) -> Outcome<AuditedOperation> {
        self.who.begin(action).await
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Starts a statement. Returns when it has a place, not when it has rows. With `ingest` it may change tables: rows that it inserts are
    /// captured.
    ///
    /// # Errors
    /// [`Code::Busy`]. What is wrong with the statement comes as the first piece.
    pub(crate) async fn run_for<E: Encode>(
        &self,
        way: &'static str,
        text: String,
        parameters: Parameters,
        encode: E,
        ingest: Option<Arc<dyn Ingest>>,
    ) -> Outcome<EncodedAnswer<E::Piece>> {
        let start = Instant::now();
        let mut begun = self.who.begin(Action::statement(&text, ingest.is_some())).await?;
        let Admission { place, slot } = match self.admit(way, start).await {
            Ok(admitted) => admitted,
            Err(problem) => {
                begun.note(&problem);
                begun.end(problem.code.as_str(), None);
                return Err(problem);
            }
        };
        let (outlet, receiver) = mpsc::channel(PIECES_WAITING);
        let (session, shared) = (self.session.clone(), Arc::clone(&self.shared));
        let bounds = self.bounds();
        let statement_bounds = bounds.clone();
        let deadline = start + bounds.time();
        let handle = Handle::current();
        self.session.spawn_blocking(move || {
            let _counted = GaugeGuard::new(shared.metrics.statements_running.clone());
            tracing::debug!(way, statement = %splay_sql::without_secrets(&text), "statement");
            let metrics = Arc::clone(&shared.metrics);
            let patience = shared.places.patience;
            let bounds = &statement_bounds;
            let (rows, changed, cost) = (0, None, None);
            let mut run = StatementRun {
                handle,
                outlet,
                deadline,
                bounds,
                metrics,
                place,
                patience,
                rows,
                changed,
                cost,
                ingest,
            };
            let ended = run.run(&session, &text, &parameters, encode);
            let ended = ended.map_err(|problem| problem.map(|problem| bounds.name_quota(problem)));
            if let Err(Some(problem)) = &ended {
                bounds.allowance.count(problem);
                begun.note(problem);
            }
            shared.metrics.rows_out.inc_by(run.rows);
            let outcome = match &ended {
                Ok(()) => "ok",
                Err(None) => "left",
                Err(Some(problem)) => problem.code.as_str(),
            };
            shared.metrics.statement(way, outcome, start);
            begun.end_patiently(outcome, run.changed.or(Some(run.rows)));
            let milliseconds = start.elapsed().as_secs_f64() * 1e3;
            tracing::info!(way, user = session.user(), outcome, rows = run.rows, milliseconds, "statement ended");
            let cost = run.cost.take();
            if let Some(cost) = &cost {
                shared.metrics.statement_cost(&cost.stats);
            }
            if milliseconds >= shared.log.slow_statement_milliseconds as f64 {
                shared.log_slow(&session, way, &text, &parameters, milliseconds, &cost.unwrap_or_default());
            }
            // Whoever hears the last word may begin another.
            drop(slot);
            // A client that never hears the last word takes the answer for broken off.
            let _ = match ended {
                Ok(()) => run.send(PieceMessage::End),
                Err(Some(problem)) => run.send(PieceMessage::Failed(problem)),
                Err(None) => Ok(()),
            };
        });
        Ok(EncodedAnswer { receiver, deadline, bounds, ended: false })
    }

    /// Describes the answer of a statement, without running it.
    pub(crate) async fn describe(&self, text: String) -> Outcome<splay_sql::Description> {
        self.with_session(move |session, stop| session.describe_until(&text, stop)).await
    }

    /// Does something with the session, in a place: plans without running, or takes rows.
    pub(crate) async fn with_session<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Session, Stop<'_>) -> splay_sql::Result<T> + Send + 'static,
    ) -> Outcome<T> {
        let Admission { place, slot } = self.admit("describe", Instant::now()).await?;
        let bounds = self.bounds();
        let session = self.session.clone();
        let (sender, receiver) = oneshot::channel();
        let deadline = Instant::now() + bounds.time();
        self.session.spawn_blocking(move || {
            let _place = place;
            let is_over = || sender.is_closed() || Instant::now() >= deadline;
            let done = act(&session, Stop::when(&is_over));
            drop(slot);
            let _ = sender.send(done);
        });
        let done = match tokio::time::timeout(bounds.time(), receiver).await {
            Ok(Ok(done)) => done.map_err(Problem::from),
            Ok(Err(_)) => Err(broke_off()),
            Err(_) => Err(out_of_time()),
        };
        done.map_err(|problem| bounds.name_quota(problem)).inspect_err(|problem| bounds.allowance.count(problem))
    }

    /// Describes the parameters and the answer of a statement that changes something, without running it.
    pub(crate) async fn describe_change(&self, text: String) -> Outcome<ChangeDescription> {
        self.with_session(move |session, stop| session.describe_change(&text, stop)).await
    }

    /// Tells the faults of a statement that `PREPARE` keeps.
    pub(crate) async fn check_named(&self, statement: NamedStatement) -> Outcome<()> {
        self.with_session(move |session, stop| session.check_named(&statement, stop)).await
    }

    /// Waits for a slot, if the caller may run one more statement.
    async fn admit(&self, way: &'static str, start: Instant) -> Outcome<Admission> {
        let shared = &self.shared;
        let problem = match self.allowance.statement() {
            Err(problem) => problem,
            Ok(slot) => match tokio::time::timeout(self.bounds().time(), shared.places.begin(self.priority)).await {
                Ok(Ok(place)) => return Ok(Admission { place, slot }),
                Ok(Err(QueueFull)) => too_many(),
                Err(_) => no_free_slot(),
            },
        };
        shared.metrics.statement(way, problem.code.as_str(), start);
        Err(problem)
    }
}

fn too_many() -> Problem {
    Problem::new(Code::Busy, "too many statements at once")
}

fn no_free_slot() -> Problem {
    Problem::new(Code::Busy, "no other statement ended in time")
}

fn broke_off() -> Problem {
    Problem::new(Code::Internal, "the statement broke off; this is a fault of SplayDB")
}

fn out_of_time() -> Problem {
    Problem::new(Code::Time, "the statement needs more time than it may have")
}

/// One statement on its thread.
struct StatementRun<'a, P> {
    handle: Handle,
    outlet: mpsc::Sender<PieceMessage<P>>,
    deadline: Instant,
    bounds: &'a RequestBounds,
    metrics: Arc<Metrics>,
    place: Arc<StatementSlot>,
    /// How long a client that reads nothing keeps the place.
    patience: Duration,
    rows: u64,
    /// Rows that it has changed, if it changes some.
    changed: Option<u64>,
    /// Its cost, once it was planned.
    cost: Option<Cost>,
    /// The sink of the rows that it inserts; `None` if it may only read.
    ingest: Option<Arc<dyn Ingest>>,
}

/// The cost of a statement.
#[derive(Debug, Default)]
struct Cost {
    stats: StatementStats,
    /// Why the engine refused its tick plan.
    refusal: Option<String>,
}

impl Cost {
    fn of(answer: &Answer) -> Cost {
        Cost { stats: answer.stats(), refusal: answer.refusal().map(str::to_owned) }
    }
}

impl StatementState {
    /// Logs a slow statement with what it cost and, where that wasn't a tick plan, why.
    fn log_slow(
        &self,
        session: &Session,
        way: &'static str,
        text: &str,
        parameters: &Parameters,
        milliseconds: f64,
        cost: &Cost,
    ) {
        let Cost { stats, refusal } = cost;
        let reason = refusal.clone().or_else(|| session.why_no_tick_plan(text, parameters));
        let text = &*splay_sql::without_secrets(text);
        let shown = text.floor_char_boundary(LOGGED_TEXT_BYTES.min(text.len()));
        tracing::warn!(
            way,
            user = session.user(),
            milliseconds,
            planning_milliseconds = stats.planning.as_secs_f64() * 1e3,
            rows = stats.rows_returned,
            rows_scanned = stats.rows_scanned,
            bytes_scanned = stats.bytes_scanned,
            peak_memory_bytes = stats.peak_memory_bytes,
            blocks = stats.selection.blocks.selected,
            blocks_total = stats.selection.blocks.total,
            run_by = stats.run_by.as_str(),
            no_tick_plan_because_of = reason.unwrap_or_default(),
            statement = if self.log.slow_statement_text { &text[..shown] } else { "" },
            "slow statement"
        );
    }
}

/// The outcome of a statement that wasn't refused.
enum Attempt {
    Ended,
    /// It was stopped before it sent anything: all long places are taken.
    Outstayed,
}

impl<P: Send + 'static> StatementRun<'_, P> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// None inside if the client has disconnected.
    fn run<E: Encode<Piece = P>>(
        &mut self,
        session: &Session,
        text: &str,
        parameters: &Parameters,
        mut encode: E,
    ) -> Result<(), Option<Problem>> {
        while let Attempt::Outstayed = self.attempt(session, text, parameters, &mut encode)? {
            self.metrics.statements_restarted.inc();
            self.wait_for_place()?;
        }
        Ok(())
    }

    fn attempt<E: Encode<Piece = P>>(
        &mut self,
        session: &Session,
        text: &str,
        parameters: &Parameters,
        encode: &mut E,
    ) -> Result<Attempt, Option<Problem>> {
        if let Some(ingest) = &self.ingest {
            ingest.check_changes().map_err(Problem::from)?;
            // It isn't begun a second time: that might do it twice.
            let over = || self.outlet.is_closed() || Instant::now() >= self.deadline;
            let check = |columns: &SchemaRef| encode.check(columns);
            let inserted = IntoJournal::new(Arc::clone(ingest), self.bounds.allowance.clone());
            let inserted = inserted.answering(&check, self.bounds.bound(Quota::StatementRowsMax));
            let mut answer = match session.change(text, parameters.clone(), Stop::when(&over), &inserted) {
                Err(splay_sql::Error::Cancelled) => {
                    self.look_around()?;
                    return Err(Some(Problem::from(splay_sql::Error::Cancelled)));
                }
                answer => answer.map_err(|error| inserted.problem(error))?,
            };
            self.changed = answer.change().map(|change| change.rows);
            self.send_answer(&mut answer, encode)?;
            return Ok(Attempt::Ended);
        }
        let over = || self.outlet.is_closed() || Instant::now() >= self.deadline || !self.place.may_go_on();
        let mut answer = match session.sql_until(text, parameters.clone(), Stop::when(&over)) {
            Err(splay_sql::Error::Cancelled) => return self.look_around().map(|()| Attempt::Outstayed),
            answer => answer.map_err(Problem::from)?,
        };
        let attempted = self.send_answer(&mut answer, encode);
        self.cost = Some(Cost::of(&answer));
        attempted
    }

    fn send_answer<E: Encode<Piece = P>>(
        &mut self,
        answer: &mut Answer,
        encode: &mut E,
    ) -> Result<Attempt, Option<Problem>> {
        answer.read_with_checks();
        let mut pieces = Vec::new();
        let mut has_started = false;
        loop {
            match answer.wait(LOOK_AROUND) {
                WaitOutcome::Batch(batch) => {
                    let batch = batch.map_err(Problem::from)?;
                    self.count(&batch)?;
                    self.go_on()?;
                    if !std::mem::replace(&mut has_started, true) {
                        pieces = encode.start(&answer.schema(), &answer.memory())?;
                    }
                    let piece_rows = piece_rows(&batch, encode.piece_bytes());
                    for offset in (0..batch.num_rows()).step_by(piece_rows) {
                        let slice = batch.slice(offset, piece_rows.min(batch.num_rows() - offset));
                        pieces.extend(encode.rows(&slice)?);
                        // Columns may be slices of files, which were read just now.
                        answer.check().map_err(Problem::from)?;
                        self.send_all(&mut pieces)?;
                        self.go_on()?;
                    }
                }
                WaitOutcome::TimedOut => {
                    self.look_around()?;
                    if !has_started && !self.place.may_go_on() {
                        return Ok(Attempt::Outstayed);
                    }
                    self.go_on()?;
                }
                WaitOutcome::End => break,
            }
        }
        if !has_started {
            pieces = encode.start(&answer.schema(), &answer.memory())?;
        }
        if let Some(change) = answer.change().filter(|change| change.returns_rows) {
            pieces.extend(encode.change_result(change));
        }
        pieces.extend(encode.end(&answer.stats())?);
        self.send_all(&mut pieces).map(|()| Attempt::Ended)
    }

    /// Ends the statement if its client has gone, or its time is over.
    fn look_around(&self) -> Result<(), Option<Problem>> {
        if self.outlet.is_closed() {
            return Err(None);
        }
        if Instant::now() >= self.deadline { Err(Some(self.out_of_time())) } else { Ok(()) }
    }

    fn count(&mut self, batch: &RecordBatch) -> Result<(), Problem> {
        self.rows += batch.num_rows() as u64;
        let rows_max = self.bounds.bound(Quota::StatementRowsMax);
        // The rows of a change's answer were counted before the commit.
        let is_checked = self.changed.is_some();
        if self.rows > rows_max && !is_checked { Err(too_many_rows(rows_max)) } else { Ok(()) }
    }

    /// Stands still where the statement may not go on in its place.
    fn go_on(&self) -> Result<(), Option<Problem>> {
        if self.place.may_go_on() { Ok(()) } else { self.wait_for_place() }
    }

    /// Waits for a place in which the statement may stay.
    fn wait_for_place(&self) -> Result<(), Option<Problem>> {
        let waiting = async {
            tokio::select! {
                () = self.outlet.closed() => Err(None),
                waited = tokio::time::timeout_at(self.deadline.into(), self.place.long()) => match waited {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(QueueFull)) => Err(Some(too_many())),
                    Err(_) => Err(Some(no_free_slot())),
                },
            }
        };
        self.handle.block_on(waiting)
    }

    fn out_of_time(&self) -> Problem {
        let seconds = self.bounds.bound(Quota::StatementSecondsMax);
        Problem::new(Code::Time, format!("the statement needs more than its {seconds} seconds"))
    }

    fn send_all(&self, pieces: &mut Vec<P>) -> Result<(), Option<Problem>> {
        pieces.drain(..).try_for_each(|piece| self.send(PieceMessage::Piece(piece)))
    }

    /// Hands a message over. While the client reads nothing, the statement has no place after a while.
    fn send(&self, message: PieceMessage<P>) -> Result<(), Option<Problem>> {
        let message = match self.outlet.try_send(message) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Full(message)) => message,
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(None),
        };
        let soon = self.deadline.min(Instant::now() + self.patience);
        let permit = match self.room_until(soon)? {
            Some(permit) => permit,
            None => {
                self.metrics.statements_stalled.inc();
                self.place.step_aside().map_err(|QueueFull| Some(too_slow()))?;
                self.room_until(self.deadline)?.ok_or_else(|| Some(too_slow()))?
            }
        };
        permit.send(message);
        Ok(())
    }

    /// Waits for room for a message; none if the client reads nothing until then.
    fn room_until(&self, until: Instant) -> Result<Option<mpsc::Permit<'_, PieceMessage<P>>>, Option<Problem>> {
        let waiting = async { tokio::time::timeout_at(until.into(), self.outlet.reserve()).await };
        match self.handle.block_on(waiting) {
            Ok(Ok(permit)) => Ok(Some(permit)),
            Ok(Err(_)) => Err(None),
            Err(_) => Ok(None),
        }
    }
}

fn too_slow() -> Problem {
    Problem::new(Code::Time, "the client took the answer more slowly than a statement may last")
}

/// The first piece of an answer: one that has none has broken off.
pub(crate) fn or_broke_off<P>(first: Option<Outcome<P>>) -> Outcome<P> {
    first.unwrap_or_else(|| Err(broke_off()))
}
