//! A connection after startup: reads messages, answers them, and has the settings and the transaction state.

use std::collections::HashMap;
use std::time::Instant;

use bytes::Bytes;
use splay_sql::{NamedStatement, NamedStatements};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

use super::commands::{Command, Modes};
use super::extended::{Portal, PreparedStatement};
use super::messages::{ClientMessage, Reader};
use super::parameters::Parameters;
use super::refusal::Refusal;
use super::replies::{Column, Replies};
use super::transaction_reads::TransactionReads;
use super::types::Type;
use super::{PostgresFront, Wire};
use crate::callers::Caller;
use crate::listen::stopped;
use crate::settings::Role;
use crate::statements::Statements;

/// Bytes of replies that are kept back before they are sent.
const REPLIES_BYTES_MAX: usize = 64 << 10;

/// Savepoints of a transaction.
const SAVEPOINTS_MAX: usize = 1000;

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client has left, or can't be reached.
    Gone,
    /// The client gets a final error.
    Refused(Refusal),
}

impl From<std::io::Error> for End {
    fn from(_: std::io::Error) -> End {
        End::Gone
    }
}

/// The state of a connection's transaction, as its client is told after each statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transaction {
    None,
    Open,
    /// A statement in it failed: nothing runs before its end.
    Failed,
}

/// A session of a client.
pub(crate) struct Connection {
    pub(super) front: PostgresFront,
    pub(super) reader: Reader<ReadHalf<Box<dyn Wire>>>,
    writer: WriteHalf<Box<dyn Wire>>,
    pub(super) replies: Replies,
    pub(super) parameters: Parameters,
    /// The caller, with his rights at the last check.
    caller: Caller,
    /// By which its statements are cancelled.
    pub(super) key: Bytes,
    pub(super) transaction: Transaction,
    savepoints: Vec<String>,
    /// Whether a statement has run in the transaction: its level is settled by then.
    has_read: bool,
    /// The snapshots of the transaction, if all its statements see the same state.
    reads: TransactionReads,
    pub(super) prepared: HashMap<String, std::sync::Arc<PreparedStatement>>,
    /// Statements of `PREPARE`.
    named: NamedStatements,
    pub(super) portals: HashMap<String, Portal>,
    /// After a failure messages are ignored up to the next `Sync`.
    skips: bool,
}

impl Connection {
    pub(super) fn new(
        front: PostgresFront,
        reader: Reader<Box<dyn Wire>>,
        parameters: Parameters,
        caller: Caller,
    ) -> Connection {
        let mut writer = None;
        let reader = reader.map(|stream| {
            let (read, write) = tokio::io::split(stream);
            writer = Some(write);
            read
        });
        let Some(writer) = writer else { unreachable!("the stream was split") };
        Connection {
            front,
            reader,
            writer,
            replies: Replies::default(),
            parameters,
            caller,
            key: Bytes::new(),
            transaction: Transaction::None,
            savepoints: Vec::new(),
            has_read: false,
            reads: TransactionReads::default(),
            prepared: HashMap::new(),
            named: NamedStatements::default(),
            portals: HashMap::new(),
            skips: false,
        }
    }

    /// Whether its client may do what needs a role, by what is so now: users, rights and tokens may have been changed.
    pub(super) fn check(&mut self, role: Role) -> Result<(), Refusal> {
        self.caller = self.front.shared.callers.still(&self.caller)?;
        Ok(self.caller.check(role)?)
    }

    /// Statements with the rights that the client has now.
    pub(super) async fn statements(&mut self) -> Result<Statements, Refusal> {
        self.caller = self.front.shared.callers.still(&self.caller)?;
        let mut session = self.front.shared.callers.session(&self.caller, self.front.statements.session()).await?;
        if self.transaction != Transaction::None {
            self.has_read = true;
            if self.parameters.repeats_reads() {
                session = self.reads.session(session).await?;
            }
        }
        Ok(self.front.statements.in_session(session).by(&self.caller))
    }

    /// Tells the client that it may begin.
    pub(super) async fn greet(mut self, replies: Replies, process: u32) -> Option<Connection> {
        let mut secret = [0u8; 4];
        getrandom::fill(&mut secret).ok()?;
        self.replies = replies;
        self.key = Bytes::copy_from_slice(&[process.to_be_bytes(), secret].concat());
        for (name, value) in self.parameters.reported_values() {
            self.replies.parameter(name, value);
        }
        self.replies.key(process, u32::from_be_bytes(secret));
        self.ready().await.ok()?;
        Some(self)
    }

    /// Answers messages until the client leaves, or the server stops.
    pub(crate) async fn run(mut self: Box<Connection>) {
        let refusal = loop {
            let answered = match self.next_message().await {
                Ok((_, Ok(ClientMessage::Terminate))) => return,
                // On the heap, so that a connection that waits doesn't keep room for it.
                Ok((_, Ok(message))) => Box::pin(self.answer(message)).await,
                Ok((_, Err(refusal))) if refusal.is_fatal => Err(End::Refused(refusal)),
                Ok((b'Q', Err(refusal))) if !self.skips => {
                    self.refuse(&refusal, "", 0);
                    self.ready().await
                }
                Ok((_, Err(_))) if self.skips => Ok(()),
                Ok((_, Err(refusal))) => self.fail(&refusal, "").await,
                Err(end) => Err(end),
            };
            match answered {
                // Messages that wait are no reason to keep a thread of the network from others.
                Ok(()) => tokio::task::yield_now().await,
                Err(End::Refused(refusal)) => break refusal,
                Err(End::Gone) => return,
            }
        };
        tracing::debug!(code = refusal.code, message = refusal.message, "a connection is ended");
        self.replies.refusal(&refusal, "", 0);
        let _ = self.flush().await;
        let _ = self.writer.shutdown().await;
    }

    async fn answer(&mut self, message: ClientMessage) -> Result<(), End> {
        match message {
            ClientMessage::Sync => {
                self.skips = false;
                if self.transaction == Transaction::None {
                    self.portals.clear();
                }
                self.ready().await
            }
            _ if self.skips => Ok(()),
            ClientMessage::Query(text) => {
                self.query(&text).await?;
                self.ready().await
            }
            ClientMessage::Flush => self.flush().await,
            ClientMessage::CopyData(_)
            | ClientMessage::CopyDone
            | ClientMessage::CopyFail(_)
            | ClientMessage::Terminate => Ok(()),
            message => match self.answer_extended(message).await? {
                Ok(()) => Ok(()),
                Err((refusal, text)) => self.fail(&refusal, &text).await,
            },
        }
    }

    /// Tells of a failure of the extended protocol.
    async fn fail(&mut self, refusal: &Refusal, text: &str) -> Result<(), End> {
        self.refuse(refusal, text, 0);
        self.skips = true;
        self.flush().await
    }

    /// Reports a failure, which also fails the transaction, if any. The statement begins after `before` characters of its text.
    pub(super) fn refuse(&mut self, refusal: &Refusal, text: &str, before: usize) {
        self.replies.refusal(refusal, text, before);
        if self.transaction == Transaction::Open {
            self.transaction = Transaction::Failed;
        }
    }

    pub(super) async fn ready(&mut self) -> Result<(), End> {
        self.replies.ready(match self.transaction {
            Transaction::None => b'I',
            Transaction::Open => b'T',
            Transaction::Failed => b'E',
        });
        self.flush().await
    }

    /// Sends what is to be sent.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        let bytes = std::mem::take(&mut self.replies.bytes).freeze();
        self.write(&bytes).await
    }

    /// Sends rows, or keeps few back.
    pub(super) async fn send(&mut self, rows: Bytes) -> Result<(), End> {
        if self.replies.bytes.len() + rows.len() < REPLIES_BYTES_MAX / 4 {
            self.replies.bytes.extend_from_slice(&rows);
            return Ok(());
        }
        self.flush().await?;
        self.write(&rows).await
    }

    /// Sends replies that have piled up.
    pub(super) async fn send_some(&mut self) -> Result<(), End> {
        if self.replies.bytes.len() < REPLIES_BYTES_MAX { Ok(()) } else { self.flush().await }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), End> {
        if bytes.is_empty() {
            return Ok(());
        }
        let patience = self.front.shared.limits.statement();
        let written = tokio::time::timeout(patience, async {
            self.writer.write_all(bytes).await?;
            self.writer.flush().await
        });
        Ok(written.await.map_err(|_| End::Gone)??)
    }

    /// The kind of the next message, and the message if it is sound.
    pub(super) async fn next_message(&mut self) -> Result<(u8, Result<ClientMessage, Refusal>), End> {
        let limits = &self.front.shared.limits;
        let mut stop = self.front.shared.stop.clone();
        let mut deadline = Instant::now() + limits.postgres_idle();
        let mut has_begun = false;
        loop {
            if let Some((kind, body)) = self.reader.take(limits.message_bytes_max).map_err(End::Refused)? {
                return Ok((kind, ClientMessage::of(kind, body)));
            }
            if self.reader.waiting() > 0 && !std::mem::replace(&mut has_begun, true) {
                deadline = Instant::now() + limits.body();
            }
            tokio::select! {
                read = self.reader.fill() => {
                    if read? == 0 {
                        return Err(End::Gone);
                    }
                }
                () = stopped(&mut stop) => return Err(End::Refused(Refusal::fatal("57P01", "the server is stopping"))),
                () = tokio::time::sleep_until(deadline.into()) => {
                    let text = if has_begun { "a message didn't come in time" } else { "the connection was idle for too long" };
                    return Err(End::Refused(Refusal::fatal("57P05", text)));
                }
            }
        }
    }

    /// Does what a statement about the connection says. What it gives, if it gives something.
    pub(super) fn command(&mut self, command: &Command) -> Result<Option<String>, Refusal> {
        match command {
            Command::Begin(modes) => {
                let begins = self.transaction == Transaction::None;
                self.transaction = Transaction::Open;
                self.parameters.begin();
                let usual = self.parameters.get("default_transaction_isolation").map(str::to_owned)?;
                if let Some(level) = modes.isolation.or(begins.then_some(usual.as_str())) {
                    self.set("transaction_isolation", Some(level), true)?;
                }
                if let Some(value) = modes.read_only() {
                    self.set("transaction_read_only", Some(value), true)?;
                }
            }
            Command::Modes { modes, is_default } => self.set_modes(modes, *is_default)?,
            Command::End { is_commit } => {
                let is_committed = *is_commit && self.transaction != Transaction::Failed;
                self.transaction = Transaction::None;
                self.savepoints.clear();
                self.portals.clear();
                (self.has_read, self.reads) = (false, TransactionReads::default());
                if self.parameters.end(is_committed) {
                    self.report();
                }
                self.set("transaction_read_only", None, false)?;
            }
            Command::Savepoint(name) => {
                super::check_name(name)?;
                self.savepoint(None)?;
                if self.savepoints.len() >= SAVEPOINTS_MAX {
                    return Err(Refusal::new("54000", "the transaction has too many savepoints"));
                }
                self.savepoints.push(name.clone());
            }
            Command::Release(name) => {
                let at = self.savepoint(Some(name))?;
                self.savepoints.truncate(at);
            }
            Command::RollbackTo(name) => {
                let at = self.savepoint(Some(name))?;
                self.savepoints.truncate(at + 1);
                self.transaction = Transaction::Open;
            }
            Command::Set { name, value, is_local } => self.set(name, value.as_deref(), *is_local)?,
            Command::Show(name) => return self.parameters.get(name).map(|value| Some(value.to_owned())),
            Command::ResetAll => self.reset(),
            Command::Prepare(statement) => self.prepare(statement.clone())?,
            Command::Deallocate(None) => self.forget_statements(),
            Command::Deallocate(Some(name)) => {
                let is_named = self.named.run(NamedStatement::Deallocate { name: Some(name.to_lowercase()) }).is_ok();
                if !is_named && self.prepared.remove(name).is_none() {
                    return Err(Refusal::new("26000", format!("prepared statement \"{name}\" does not exist")));
                }
            }
            Command::Discard => {
                self.forget_statements();
                self.portals.clear();
                self.reset();
            }
            // Carried out where rows are sent.
            Command::Cursor(_) | Command::Nothing(_) => {}
        }
        Ok(None)
    }

    /// Keeps a statement of `PREPARE`.
    fn prepare(&mut self, statement: NamedStatement) -> Result<(), Refusal> {
        if let NamedStatement::Prepare { name, .. } = &statement
            && (self.named.has(name) || self.prepared.contains_key(name))
        {
            return Err(Refusal::new("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        self.named.run(statement).map(drop).map_err(|error| Refusal::new("54000", error.to_string()))
    }

    fn forget_statements(&mut self) {
        self.prepared.clear();
        self.named = NamedStatements::default();
    }

    /// The statement that `EXECUTE` names, with its values; `None` for any other.
    pub(super) fn execute_statement(&mut self, text: &str) -> Result<Option<String>, Refusal> {
        let refused = |error: splay_sql::Error| Refusal::new("42601", error.to_string());
        match NamedStatement::of(text).map_err(refused)? {
            Some(statement @ NamedStatement::Execute { .. }) => {
                let NamedStatement::Execute { name, .. } = &statement else { return Ok(None) };
                if !self.named.has(name) {
                    return Err(Refusal::new("26000", format!("prepared statement \"{name}\" does not exist")));
                }
                self.named.run(statement).map_err(refused)
            }
            _ => Ok(None),
        }
    }

    /// The index of the newest savepoint of a name, or of any name. There must be a transaction.
    fn savepoint(&self, name: Option<&str>) -> Result<usize, Refusal> {
        if self.transaction == Transaction::None {
            return Err(Refusal::new("25P01", "savepoints are for transactions: BEGIN one"));
        }
        let Some(name) = name else { return Ok(0) };
        let none = || Refusal::new("3B001", format!("savepoint \"{name}\" does not exist"));
        self.savepoints.iter().rposition(|savepoint| savepoint == name).ok_or_else(none)
    }

    /// Sets what transactions are: this one, or all that follow.
    fn set_modes(&mut self, modes: &Modes, is_default: bool) -> Result<(), Refusal> {
        let (level, reads) = match is_default {
            true => ("default_transaction_isolation", "default_transaction_read_only"),
            false => ("transaction_isolation", "transaction_read_only"),
        };
        if let Some(value) = modes.isolation {
            match is_default || self.transaction != Transaction::None {
                true => self.set(level, Some(value), false)?,
                false => self.replies.notice("SET TRANSACTION is for transactions: BEGIN one"),
            }
        }
        match modes.read_only() {
            Some(value) => self.set(reads, Some(value), false),
            None => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Result<(), Refusal> {
        if self.has_read
            && name.eq_ignore_ascii_case("transaction_isolation")
            && value.is_none_or(|value| !self.parameters.get(name).is_ok_and(|level| level.eq_ignore_ascii_case(value)))
        {
            return Err(Refusal::new(
                "25001",
                "the isolation level of a transaction is set before its first statement",
            ));
        }
        match is_local {
            true => self.parameters.set_local(name, value)?,
            false => self.parameters.set(name, value)?,
        }
        if let Some((name, value)) = self.parameters.report(name) {
            self.replies.parameter(name, value);
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.parameters.reset();
        self.report();
    }

    /// Tells the client of its settings.
    fn report(&mut self) {
        for (name, value) in self.parameters.reported_values() {
            self.replies.parameter(name, value);
        }
    }

    /// Refuses everything but its end in a transaction that has failed.
    pub(super) fn check_transaction(&self, command: Option<&Command>) -> Result<(), Refusal> {
        match (self.transaction, command) {
            (Transaction::Failed, Some(Command::End { .. } | Command::RollbackTo(_)))
            | (Transaction::None | Transaction::Open, _) => Ok(()),
            _ => Err(Refusal::new(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
        }
    }

    /// The tag of a command that is done. A transaction that failed isn't committed.
    pub(super) fn tag(&self, command: &Command) -> &'static str {
        match command {
            Command::End { is_commit: true } if self.transaction == Transaction::Failed => "ROLLBACK",
            command => command.tag(),
        }
    }
}

/// The column of what `SHOW` gives.
pub(super) fn show_columns(command: &Command) -> Option<Vec<Column>> {
    match command {
        Command::Show(name) => Some(vec![Column { name: name.clone(), data_type: Type::TEXT }]),
        _ => None,
    }
}
