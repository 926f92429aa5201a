//! Running statements: with the slots, memory and time of every other protocol, cancelled by key, stopped if their
//! client disconnects.

use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::Schema;
use splay_sql::{Parameters, statements};

use super::commands::Command;
use super::connection::{Connection, End, Transaction, show_columns};
use super::encode::{AnswerPiece, ChangeEncoder, Rows};
use super::refusal::Refusal;
use super::replies::Replies;
use super::types;
use crate::cancellation::{self, CancellationToken};
use crate::ingest::Ingest;
use crate::problem::Outcome;
use crate::settings::Role;
use crate::statements::{Encode, EncodedAnswer};

/// Bytes of a connection that are read while a statement of it runs.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// A statement that runs.
#[derive(Debug)]
pub(super) struct RunningStatement {
    pieces: EncodedAnswer<AnswerPiece>,
    cancelled: CancellationToken,
    /// When the client wants it to end.
    deadline: Option<Instant>,
}

/// The outcome of a statement: the connection may be over, or the statement refused.
pub(super) type StatementResult<T> = Result<Result<T, Refusal>, End>;

pub(super) fn not_alone() -> Refusal {
    Refusal::new(
        "0A000",
        "a statement that changes something is sent alone, without BEGIN and COMMIT in its text: several in one text would be one transaction, \
         and here each change is committed by itself",
    )
}

/// Rows of a statement that were sent.
#[derive(Debug, Default)]
struct SentRows {
    rows: u64,
    /// With which a statement ends that changed something.
    tag: Option<String>,
}

/// The tag with which a statement ends that changed so many rows.
pub(super) fn tag(what: &str, rows: u64) -> String {
    match what {
        "INSERT" => format!("INSERT 0 {rows}"),
        "DELETE" | "UPDATE" | "COPY" => format!("{what} {rows}"),
        "TRUNCATE" => "TRUNCATE TABLE".to_owned(),
        other => other.to_owned(),
    }
}

impl Connection {
    /// Answers the statements of a text, one after the other; none behind one that fails.
    pub(super) async fn query(&mut self, text: &str) -> Result<(), End> {
        if let Err(refusal) = super::check_text(text) {
            self.refuse(&refusal, "", 0);
            return Ok(());
        }
        let (mut texts, rest) = statements::split(text);
        if !statements::is_blank(rest) {
            texts.push(rest.trim());
        }
        if texts.is_empty() {
            self.replies.plain(b'I');
            return Ok(());
        }
        let alone = texts.len() == 1;
        for statement in texts {
            if let Err(refusal) = self.simple(statement, alone).await? {
                let before = statement.as_ptr() as usize - text.as_ptr() as usize;
                self.refuse(&refusal, statement, text[..before].chars().count());
                break;
            }
            self.send_some().await?;
        }
        // The unnamed ones are of the statement before.
        self.prepared.remove("");
        self.portals.remove("");
        Ok(())
    }

    async fn simple(&mut self, statement: &str, alone: bool) -> StatementResult<()> {
        let command = Command::of(statement);
        let checked = command.and_then(|command| self.check_transaction(command.as_ref()).map(|()| command));
        let executed = match checked {
            Ok(Some(Command::Cursor(cursor))) => return self.cursor(&cursor, (Vec::new(), &[]), true).await,
            Ok(Some(command)) => return self.show_checked(&command, true).await,
            Ok(None) => self.execute_statement(statement),
            Err(refusal) => Err(refusal),
        };
        let executed = match executed {
            Ok(executed) => executed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let statement = executed.as_deref().unwrap_or(statement);
        if splay_sql::is_change(statement) {
            match splay_sql::copy_stream(statement) {
                Ok(Some(copy)) => return self.copy(copy, alone).await,
                Ok(None) => {}
                Err(error) => return Ok(Err(Refusal::new("42601", error.to_string()))),
            }
            if !alone {
                return Ok(Err(not_alone()));
            }
            if splay_sql::gives_token(statement) {
                return self.make_token(statement).await;
            }
            if splay_sql::returns_rows(statement) {
                return self.change_with_rows(statement).await;
            }
            return self.change(statement, Parameters::None).await;
        }
        let sent = self.send_answer(statement, Rows::new(Vec::new(), None), |replies, schema| {
            replies.columns(&types::columns(schema), &[]);
        });
        Ok(sent.await?.map(|count| self.replies.complete(&format!("SELECT {count}"))))
    }

    /// Runs a statement that reads and sends its answer, whose columns `begin` tells; how many rows it had.
    pub(super) async fn send_answer(
        &mut self,
        statement: &str,
        encode: impl Encode<Piece = AnswerPiece>,
        begin: impl Fn(&mut Replies, &Schema),
    ) -> StatementResult<u64> {
        Ok(self.send_rows(statement, encode, None, begin).await?.map(|sent| sent.rows))
    }

    async fn send_rows(
        &mut self,
        statement: &str,
        encode: impl Encode<Piece = AnswerPiece>,
        ingest: Option<Arc<dyn Ingest>>,
        begin: impl Fn(&mut Replies, &Schema),
    ) -> StatementResult<SentRows> {
        let mut started = match self.start(statement, Parameters::None, encode, ingest).await? {
            Ok(started) => started,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut sent = SentRows::default();
        loop {
            match self.next_piece(&mut started).await? {
                Ok(Some(AnswerPiece::Columns(schema))) => begin(&mut self.replies, &schema),
                Ok(Some(AnswerPiece::Rows { bytes, rows })) => {
                    sent.rows += rows;
                    self.send(bytes).await?;
                }
                Ok(Some(AnswerPiece::Changed { what, rows, .. })) => sent.tag = Some(tag(&what, rows)),
                Ok(None) => return Ok(Ok(sent)),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
    }

    /// Like [`Connection::show`]. The statement of a `PREPARE` is planned first, so that its errors are reported.
    pub(super) async fn show_checked(&mut self, command: &Command, with_columns: bool) -> StatementResult<()> {
        if let Command::Prepare(statement) = command {
            let statements = match self.check(Role::Read) {
                Ok(()) => self.statements().await,
                Err(refusal) => Err(refusal),
            };
            let checked = match statements {
                Ok(statements) => statements.check_named(statement.clone()).await.map_err(Refusal::from),
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) = checked {
                return Ok(Err(refusal));
            }
        }
        Ok(self.show(command, with_columns))
    }

    /// Does what a command says and tells its answer.
    fn show(&mut self, command: &Command, with_columns: bool) -> Result<(), Refusal> {
        let tag = self.tag(command);
        let value_shown = self.command(command)?;
        if let (Some(value_shown), Some(columns)) = (value_shown, show_columns(command)) {
            if with_columns {
                self.replies.columns(&columns, &[]);
            }
            self.replies.row(&[Some(&value_shown)]);
        }
        self.replies.complete(tag);
        Ok(())
    }

    /// Runs a statement that changes something.
    pub(super) async fn change(&mut self, text: &str, parameters: Parameters) -> StatementResult<()> {
        let ingest = match self.ingest() {
            // A bound statement has no rows by then.
            Ok(_) if splay_sql::gives_token(text) => {
                let text = "a token in the extended protocol, which answers no statement of that kind with rows:";
                return Ok(Err(Refusal::unsupported(text)));
            }
            Ok(ingest) => ingest,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut started = match self.start(text, parameters, ChangeEncoder, Some(ingest)).await? {
            Ok(started) => started,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut done = None;
        loop {
            match self.next_piece(&mut started).await? {
                Ok(Some(AnswerPiece::Changed { what, rows, dropped })) => done = Some((what, rows, dropped)),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let (what, rows, dropped) = done.unwrap_or_default();
        if let Some(views) = dropped.filter(|_| self.parameters.wants_notices()) {
            self.replies.notice(&format!("drop cascades to views: {views}"));
        }
        self.replies.complete(&tag(&what, rows));
        Ok(Ok(()))
    }

    /// Runs a statement that changes something and answers with rows.
    async fn change_with_rows(&mut self, text: &str) -> StatementResult<()> {
        let ingest = match self.ingest() {
            Ok(ingest) => ingest,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let sent = self.send_rows(text, Rows::new(Vec::new(), None), Some(ingest), |replies, schema| {
            replies.columns(&types::columns(schema), &[]);
        });
        Ok(sent.await?.map(|sent| self.replies.complete(&sent.tag.unwrap_or_default())))
    }

    /// Makes a token, and shows it this once.
    async fn make_token(&mut self, text: &str) -> StatementResult<()> {
        let ingest = match self.ingest() {
            Ok(ingest) => ingest,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let sent = self.send_rows(text, Rows::new(Vec::new(), None), Some(ingest), |replies, schema| {
            replies.columns(&types::columns(schema), &[]);
        });
        Ok(sent.await?.map(|_| self.replies.complete("CREATE TOKEN")))
    }

    /// The sink of the rows that a statement inserts, if it may.
    pub(super) fn ingest(&mut self) -> Result<Arc<dyn Ingest>, Refusal> {
        // A change may read as well: INSERT … SELECT, conditions.
        self.check(Role::Read)?;
        self.check(Role::Write)?;
        if self.transaction != Transaction::None {
            return Err(Refusal::new(
                "25001",
                "a statement that changes something can't run between BEGIN and COMMIT, because ROLLBACK couldn't take it back: connect with \
                 autocommit",
            ));
        }
        if self.parameters.is_read_only() {
            return Err(Refusal::new("25006", "the connection only reads: default_transaction_read_only is on"));
        }
        let appends = self.front.shared.appends.as_ref();
        let ingest = appends.map(|appends| Arc::clone(appends.ingest()));
        ingest.ok_or_else(|| Refusal::new("25006", "this server only reads"))
    }

    /// Starts a statement.
    pub(super) async fn start<E: Encode<Piece = AnswerPiece>>(
        &mut self,
        text: &str,
        parameters: Parameters,
        encode: E,
        ingest: Option<Arc<dyn Ingest>>,
    ) -> StatementResult<RunningStatement> {
        if let Err(refusal) = self.check(Role::Read)
            && ingest.is_none()
        {
            return Ok(Err(refusal));
        }
        let statements = match self.statements().await {
            Ok(statements) => statements,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let text = text.trim().trim_end_matches(';').to_owned();
        let deadline = self.parameters.statement_timeout().map(|timeout| Instant::now() + timeout);
        let mut cancelled = self.front.running.begin(self.key.clone());
        let begun = statements.run_for("postgres", text, parameters, encode, ingest);
        let started = self.unless_ended(&mut cancelled, deadline, begun).await?;
        Ok(started.map(|pieces| RunningStatement { pieces, cancelled, deadline }))
    }

    /// The next part of an answer; none at its end.
    pub(super) async fn next_piece(&mut self, started: &mut RunningStatement) -> StatementResult<Option<AnswerPiece>> {
        let RunningStatement { pieces, cancelled, deadline } = started;
        let next = async { pieces.next().await.transpose() };
        let piece = self.unless_ended(cancelled, *deadline, next).await?;
        if let Ok(None) = piece {
            self.front.shared.metrics.request("postgres", "ok");
        }
        Ok(piece)
    }

    /// Waits for something of a statement, unless it is cancelled, its time is over or its client leaves.
    async fn unless_ended<T>(
        &mut self,
        cancelled: &mut CancellationToken,
        deadline: Option<Instant>,
        waited: impl Future<Output = Outcome<T>>,
    ) -> StatementResult<T> {
        let timed_out = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        let (mut waited, mut timed_out) = (std::pin::pin!(waited), std::pin::pin!(timed_out));
        let metrics = Arc::clone(&self.front.shared.metrics);
        let refuse = |outcome: &'static str, refusal: Refusal| {
            metrics.request("postgres", outcome);
            Ok(Err(refusal))
        };
        loop {
            tokio::select! {
                outcome = &mut waited => {
                    return match outcome {
                        Ok(value) => Ok(Ok(value)),
                        Err(problem) => refuse(problem.code.as_str(), problem.into()),
                    };
                }
                () = cancelled.wait() => return refuse("cancelled", cancellation::problem().into()),
                () = &mut timed_out => {
                    return refuse("time", Refusal::new("57014", "canceling statement due to statement timeout"));
                }
                read = self.reader.fill(), if !self.reader.has_ended() && self.reader.waiting() < READ_AHEAD_BYTES => {
                    // One that has sent more before it closed its side is answered.
                    if read? == 0 && self.reader.waiting() == 0 {
                        return Err(End::Gone);
                    }
                }
            }
        }
    }
}
