//! The extended protocol: prepares statements, binds values, describes and reads portals in parts.
//!
//! - The running statement itself describes its portal: it starts when its columns are requested, so it is planned
//!   once.
//! - Values without a type get the type that the statement requires in their place, or else are text.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use bytes::Bytes;
use splay_sql::{CopyStream, Parameters, ScalarValue, statements};

use super::commands::Command;
use super::connection::{Connection, End, show_columns};
use super::cursors::CursorCommand;
use super::encode::{AnswerPiece, COLUMNS_MAX, Rows, split_rows, too_many_columns};
use super::messages::{Bind, ClientMessage, Target};
use super::refusal::Refusal;
use super::replies::{Column, format};
use super::statement::{RunningStatement, StatementResult, tag};
use super::types::{self, Type};
use super::{check_name, check_text, values};
use crate::settings::Role;

/// Bytes of the texts of a connection's prepared statements.
const PREPARED_BYTES_MAX: usize = 16 << 20;

/// Portals of a connection.
const PORTALS_MAX: usize = 64;

/// Portals of a connection whose statements run: each waits in a place.
const RUNNING_MAX: usize = 8;

/// Items of all arrays of a portal.
const ITEMS_MAX: usize = 1 << 18;

/// Placeholders of a statement, as in PostgreSQL.
const PLACEHOLDERS_MAX: usize = 65_535;

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct PreparedStatement {
    text: String,
    kind: PreparedKind,
    /// Types that the client has given to placeholders; 0 for none.
    types: Vec<u32>,
    /// How many placeholders it has.
    placeholders: usize,
    /// The description of its parameters and columns, once it was requested.
    described: OnceLock<StatementDescription>,
    /// Whether the client has received the description of its columns.
    has_columns_sent: AtomicBool,
}

#[derive(Debug)]
enum PreparedKind {
    Empty,
    Command(Command),
    Change {
        /// Whether it answers with rows, by `RETURNING`.
        returns_rows: bool,
    },
    Copy(CopyStream),
    Read,
}

#[derive(Debug, Clone)]
struct StatementDescription {
    columns: Vec<Column>,
    /// Types of placeholders.
    types: Vec<u32>,
}

/// A prepared statement with its values.
#[derive(Debug)]
pub(crate) struct Portal {
    prepared: Arc<PreparedStatement>,
    values: Vec<ScalarValue>,
    value_bytes: usize,
    formats: Vec<i16>,
    /// The columns of its answer, once it runs.
    columns: Vec<Column>,
    /// The command tag at its end, if it changed rows.
    tag: Option<String>,
    /// Whether `DECLARE` made it: formats are those of `FETCH`.
    is_cursor: bool,
    state: PortalState,
}

impl PreparedStatement {
    /// A statement that reads, without placeholders of its own.
    fn query(text: &str) -> PreparedStatement {
        PreparedStatement {
            text: text.to_owned(),
            kind: PreparedKind::Read,
            types: Vec::new(),
            placeholders: 0,
            described: OnceLock::new(),
            has_columns_sent: AtomicBool::new(false),
        }
    }
}

impl Portal {
    fn new(prepared: Arc<PreparedStatement>, values: Vec<ScalarValue>, formats: Vec<i16>) -> Portal {
        let value_bytes = values.iter().map(ScalarValue::size).sum::<usize>() + formats.len() * 2;
        Portal {
            prepared,
            values,
            value_bytes,
            formats,
            columns: Vec::new(),
            tag: None,
            is_cursor: false,
            state: PortalState::New,
        }
    }

    /// A cursor over the rows of a query.
    pub(super) fn cursor(query: &str, values: Vec<ScalarValue>) -> Portal {
        Portal { is_cursor: true, ..Portal::new(Arc::new(PreparedStatement::query(query)), values, Vec::new()) }
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(super) fn formats(&self) -> &[i16] {
        &self.formats
    }
}

#[derive(Debug)]
enum PortalState {
    New,
    /// Its columns are known, and these rows came and weren't sent.
    Runs {
        started: Box<RunningStatement>,
        rows: Bytes,
        count: u64,
    },
    Ended,
}

/// A failure with the text of the statement.
type StatementFailure = (Refusal, String);

impl Connection {
    /// Answers a message of the extended protocol.
    pub(super) async fn answer_extended(
        &mut self,
        message: ClientMessage,
    ) -> Result<Result<(), StatementFailure>, End> {
        let prepared = match &message {
            ClientMessage::Bind(bind) => self.prepared.get(&bind.statement).cloned(),
            ClientMessage::Describe(Target::Statement(name)) => self.prepared.get(name).cloned(),
            ClientMessage::Describe(Target::Portal(name)) | ClientMessage::Execute { portal: name, .. } => {
                self.portals.get(name).map(|portal| Arc::clone(&portal.prepared))
            }
            _ => None,
        };
        let mut parsed = None;
        let answered = match message {
            ClientMessage::Parse { name, text, types } => {
                let answered = self.parse(name, &text, types);
                parsed = answered.is_err().then_some(text);
                Ok(answered)
            }
            ClientMessage::Bind(bind) => self.bind(bind).await,
            ClientMessage::Describe(Target::Statement(name)) => self.describe_statement(&name).await,
            ClientMessage::Describe(Target::Portal(name)) => self.describe_portal(&name).await,
            ClientMessage::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            ClientMessage::Close(target) => {
                match target {
                    Target::Statement(name) => drop(self.prepared.remove(&name)),
                    Target::Portal(name) => drop(self.portals.remove(&name)),
                }
                self.replies.plain(b'3');
                Ok(Ok(()))
            }
            _ => Ok(Ok(())),
        };
        self.send_some().await?;
        let text = || parsed.or_else(|| prepared.map(|prepared| prepared.text.clone())).unwrap_or_default();
        Ok(answered?.map_err(|refusal| (refusal, text())))
    }

    fn parse(&mut self, name: String, text: &str, types: Vec<u32>) -> Result<(), Refusal> {
        check_name(&name)?;
        check_text(text)?;
        if !name.is_empty() && self.prepared.contains_key(&name) {
            return Err(Refusal::new("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        let (mut texts, rest) = statements::split(text);
        if !statements::is_blank(rest) {
            texts.push(rest.trim());
        }
        if texts.len() > 1 {
            return Err(Refusal::new("42601", "cannot insert multiple commands into a prepared statement"));
        }
        let statement = texts.first().copied().unwrap_or_default();
        let executed = self.execute_statement(statement)?;
        let statement = executed.as_deref().unwrap_or(statement);
        let kind = match Command::of(statement)? {
            Some(command) => PreparedKind::Command(command),
            None if statement.is_empty() => PreparedKind::Empty,
            None if splay_sql::is_change(statement) => match splay_sql::copy_stream(statement) {
                Ok(Some(copy)) => PreparedKind::Copy(copy),
                Ok(None) => PreparedKind::Change { returns_rows: splay_sql::returns_rows(statement) },
                Err(error) => return Err(Refusal::new("42601", error.to_string())),
            },
            None => PreparedKind::Read,
        };
        self.check_transaction(if let PreparedKind::Command(command) = &kind { Some(command) } else { None })?;
        let placeholders = statements::placeholders(statement);
        if placeholders > 0 && matches!(kind, PreparedKind::Copy(_)) {
            return Err(Refusal::new("42P02", "COPY has no placeholders: write the values"));
        }
        if placeholders > PLACEHOLDERS_MAX {
            let text = format!("a statement has at most {PLACEHOLDERS_MAX} placeholders, not {placeholders}");
            return Err(Refusal::new("54000", text));
        }
        // One without a name takes the place of the one before.
        let others = || self.prepared.iter().filter(|(other, _)| **other != name);
        let size = |text: &str, types: &[u32]| text.len() + 4 * types.len() + 256;
        let bytes: usize = others().map(|(_, prepared)| size(&prepared.text, &prepared.types)).sum();
        let limits = &self.front.shared.limits;
        if others().count() >= limits.prepared_max || bytes + size(text, &types) > PREPARED_BYTES_MAX {
            return Err(Refusal::new("54000", "the connection has too many prepared statements: DEALLOCATE some"));
        }
        let prepared = PreparedStatement {
            text: statement.to_owned(),
            kind,
            types,
            placeholders,
            described: OnceLock::new(),
            has_columns_sent: AtomicBool::new(false),
        };
        self.prepared.insert(name, Arc::new(prepared));
        self.replies.plain(b'1');
        Ok(())
    }

    fn find_prepared(&self, name: &str) -> Result<Arc<PreparedStatement>, Refusal> {
        let none = || Refusal::new("26000", format!("prepared statement \"{name}\" does not exist"));
        self.prepared.get(name).cloned().ok_or_else(none)
    }

    async fn bind(&mut self, bind: Bind) -> StatementResult<()> {
        let prepared = match self.check_bind(&bind) {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Bind { portal, formats, values: parameter_values, columns, .. } = bind;
        let type_of = |at: usize| prepared.types.get(at).copied().unwrap_or(0);
        let lacks = |(at, value): (usize, &Option<Bytes>)| value.is_some() && matches!(type_of(at), 0 | types::UNKNOWN);
        let described = match matches!(prepared.kind, PreparedKind::Read | PreparedKind::Change { .. })
            && parameter_values.iter().enumerate().any(lacks)
        {
            // One that can't be described says why when it runs.
            true => self.describe_prepared(&prepared).await?.ok(),
            false => prepared.described.get().cloned(),
        };
        let mut items = 0;
        let value = |(at, value): (usize, &Option<Bytes>)| {
            let inferred = described.as_ref().and_then(|described| described.types.get(at)).copied();
            let oid = match type_of(at) {
                0 | types::UNKNOWN => inferred.unwrap_or(types::TEXT),
                oid => oid,
            };
            let value = values::value(at + 1, oid, super::replies::format(&formats, at), value.as_deref())?;
            items += if let ScalarValue::List(list) = &value { list.values().len() } else { 0 };
            match items > ITEMS_MAX {
                true => Err(Refusal::new("54000", format!("the arrays have more than {ITEMS_MAX} items together"))),
                false => Ok(value),
            }
        };
        let values: Vec<_> = match parameter_values.iter().enumerate().map(value).collect() {
            Ok(values) => values,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.portals.insert(portal, Portal::new(prepared, values, columns));
        self.replies.plain(b'2');
        Ok(Ok(()))
    }

    fn check_bind(&self, bind: &Bind) -> Result<Arc<PreparedStatement>, Refusal> {
        check_name(&bind.portal)?;
        let prepared = self.find_prepared(&bind.statement)?;
        self.check_transaction(if let PreparedKind::Command(command) = &prepared.kind { Some(command) } else { None })?;
        self.check_portal(&bind.portal)?;
        let placeholder_count = prepared.placeholders;
        if bind.values.len() != placeholder_count {
            let text = format!(
                "{} values were given, and the statement has {placeholder_count} placeholders",
                bind.values.len()
            );
            return Err(Refusal::new("08P01", text));
        }
        if bind.formats.len() > 1 && bind.formats.len() != bind.values.len() {
            return Err(Refusal::new(
                "08P01",
                format!("{} formats for {} values", bind.formats.len(), bind.values.len()),
            ));
        }
        if let Some(format) = bind.columns.iter().find(|format| !matches!(format, 0 | 1)) {
            return Err(Refusal::new(
                "22023",
                format!("{format} is not a format; there are 0 for text and 1 for binary"),
            ));
        }
        Ok(prepared)
    }

    /// Whether there may be a portal of a name besides those that there are.
    pub(super) fn check_portal(&self, name: &str) -> Result<(), Refusal> {
        if !name.is_empty() && self.portals.contains_key(name) {
            return Err(Refusal::new("42P03", format!("cursor \"{name}\" already exists")));
        }
        let others = || self.portals.iter().filter(|(other, _)| **other != name);
        let bytes: usize = others().map(|(_, portal)| portal.value_bytes + portal.prepared.text.len()).sum();
        if others().count() >= PORTALS_MAX || bytes > self.front.shared.limits.message_bytes_max {
            return Err(Refusal::new("54000", "the connection has too many portals: close some, or send Sync"));
        }
        Ok(())
    }

    /// Describes a prepared statement: the columns of its answer and the values that it takes.
    async fn describe_prepared(&mut self, prepared: &PreparedStatement) -> StatementResult<StatementDescription> {
        if let Some(described) = prepared.described.get() {
            return Ok(Ok(described.clone()));
        }
        let count = prepared.placeholders;
        let declared = |at: usize| prepared.types.get(at).copied().filter(|oid| !matches!(*oid, 0 | types::UNKNOWN));
        let mut types: Vec<u32> = (0..count).map(|at| declared(at).unwrap_or(types::TEXT)).collect();
        let mut inferred: Vec<(String, DataType)> = Vec::new();
        let columns = match &prepared.kind {
            PreparedKind::Read => {
                if let Err(refusal) = self.check(Role::Read) {
                    return Ok(Err(refusal));
                }
                let statements = match self.statements().await {
                    Ok(statements) => statements,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                let described = match statements.describe(prepared.text.clone()).await {
                    Ok(described) => described,
                    Err(problem) => return Ok(Err(problem.into())),
                };
                inferred =
                    described.parameters.into_iter().filter_map(|(name, data_type)| Some((name, data_type?))).collect();
                types::columns(&described.schema)
            }
            PreparedKind::Change { .. } => {
                if let Err(refusal) = self.check(Role::Read).and_then(|()| self.check(Role::Write)) {
                    return Ok(Err(refusal));
                }
                let statements = match self.statements().await {
                    Ok(statements) => statements,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                let described = match statements.describe_change(prepared.text.clone()).await {
                    Ok(described) => described,
                    Err(problem) => return Ok(Err(problem.into())),
                };
                inferred = described.parameters;
                described.schema.map(|schema| types::columns(&schema)).unwrap_or_default()
            }
            PreparedKind::Command(command) => show_columns(command).unwrap_or_default(),
            // Its columns are described with the answer.
            PreparedKind::Copy(_) | PreparedKind::Empty => Vec::new(),
        };
        if columns.len() > COLUMNS_MAX {
            return Ok(Err(too_many_columns().into()));
        }
        for (name, data_type) in inferred {
            let at = name.trim_start_matches('$').parse::<usize>().ok().and_then(|at| at.checked_sub(1));
            if let Some(at) = at.filter(|at| *at < count && declared(*at).is_none()) {
                types[at] = types::of_placeholder(&prepared.text, at + 1, Type::of(&data_type).oid);
            }
        }
        Ok(Ok(prepared.described.get_or_init(|| StatementDescription { columns, types }).clone()))
    }

    async fn describe_statement(&mut self, name: &str) -> StatementResult<()> {
        let prepared = match self.find_prepared(name) {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(Err(refusal)),
        };
        Ok(self.describe_prepared(&prepared).await?.map(|StatementDescription { columns, types }| {
            prepared.has_columns_sent.store(true, Ordering::Relaxed);
            self.replies.placeholders(&types);
            self.tell_columns(&prepared, &columns, &[]);
        }))
    }

    fn tell_columns(&mut self, prepared: &PreparedStatement, columns: &[Column], formats: &[i16]) {
        match &prepared.kind {
            PreparedKind::Read | PreparedKind::Change { returns_rows: true } => self.replies.columns(columns, formats),
            PreparedKind::Command(Command::Show(_)) => self.replies.columns(columns, &[]),
            PreparedKind::Command(Command::Cursor(CursorCommand::Fetch { shows: true, .. })) => {
                self.replies.columns(columns, formats);
            }
            _ => self.replies.plain(b'n'),
        }
    }

    fn take_portal(&mut self, name: &str) -> Result<Portal, Refusal> {
        let none = || Refusal::new("34000", format!("portal \"{name}\" does not exist"));
        self.portals.remove(name).ok_or_else(none)
    }

    async fn describe_portal(&mut self, name: &str) -> StatementResult<()> {
        let mut portal = match self.take_portal(name) {
            Ok(portal) => portal,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let described = match &portal.prepared.kind {
            PreparedKind::Read if portal.is_cursor && matches!(portal.state, PortalState::New) => {
                let prepared = Arc::clone(&portal.prepared);
                self.describe_prepared(&prepared).await?.map(|described| described.columns)
            }
            PreparedKind::Read => self.start_portal(&mut portal).await?,
            // It runs when it is executed, and not when somebody asks for its columns.
            PreparedKind::Change { returns_rows: true } if matches!(portal.state, PortalState::New) => {
                let prepared = Arc::clone(&portal.prepared);
                let described = self.describe_prepared(&prepared).await?;
                prepared.has_columns_sent.fetch_or(described.is_ok(), Ordering::Relaxed);
                described.map(|described| described.columns)
            }
            PreparedKind::Change { returns_rows: true } => Ok(portal.columns.clone()),
            PreparedKind::Command(Command::Cursor(CursorCommand::Fetch { name, shows: true, .. })) => {
                let (name, formats) = (name.clone(), portal.formats.clone());
                self.columns_of_cursor(&name, &formats).await?
            }
            PreparedKind::Command(command) => Ok(show_columns(command).unwrap_or_default()),
            PreparedKind::Change { .. } | PreparedKind::Copy(_) | PreparedKind::Empty => Ok(Vec::new()),
        };
        let runs = matches!(portal.state, PortalState::Runs { .. });
        if let Ok(columns) = &described {
            self.tell_columns(&Arc::clone(&portal.prepared), columns, &portal.formats);
        }
        // One that runs goes on, described again or not.
        if described.is_ok() || runs {
            self.portals.insert(name.to_owned(), portal);
        }
        Ok(described.map(drop))
    }

    /// Starts the statement of a cursor, if it hasn't begun; its rows come in these formats.
    pub(super) async fn begin_with_formats(&mut self, portal: &mut Portal, formats: &[i16]) -> StatementResult<()> {
        if matches!(portal.state, PortalState::New) {
            portal.formats = formats.to_vec();
            return Ok(self.start_portal(portal).await?.map(drop));
        }
        let is_same = (0..portal.columns.len()).all(|at| format(formats, at) == format(&portal.formats, at));
        Ok(match is_same {
            true => Ok(()),
            false => Err(Refusal::unsupported(
                "a cursor whose rows were text so far, and are to be binary, or the other way round:",
            )),
        })
    }

    async fn columns_of_cursor(&mut self, name: &str, formats: &[i16]) -> StatementResult<Vec<Column>> {
        let mut cursor = match self.take_portal(name) {
            Ok(cursor) => cursor,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let begun = self.begin_with_formats(&mut cursor, formats).await?;
        Ok(begun.map(|()| {
            let columns = cursor.columns.clone();
            self.portals.insert(name.to_owned(), cursor);
            columns
        }))
    }

    /// Starts the statement of a portal that answers with rows, and gives its columns.
    async fn start_portal(&mut self, portal: &mut Portal) -> StatementResult<Vec<Column>> {
        if !matches!(portal.state, PortalState::New) {
            return Ok(Ok(portal.columns.clone()));
        }
        let running = self.portals.values().filter(|portal| matches!(portal.state, PortalState::Runs { .. })).count();
        if running >= RUNNING_MAX {
            let text = format!("the connection reads {running} portals at once: read one to its end, or close it");
            return Ok(Err(Refusal::new("54000", text)));
        }
        let ingest = match portal.prepared.kind {
            PreparedKind::Change { .. } => match self.ingest() {
                Ok(ingest) => Some(ingest),
                Err(refusal) => return Ok(Err(refusal)),
            },
            _ => None,
        };
        let described =
            portal.prepared.described.get().filter(|_| portal.prepared.has_columns_sent.load(Ordering::Relaxed));
        let inferred = described.map(|described| described.columns.iter().map(|column| column.data_type.oid).collect());
        let (encode, parameters) = (Rows::new(portal.formats.clone(), inferred), parameters(&portal.values));
        let mut started = match self.start(&portal.prepared.text, parameters, encode, ingest).await? {
            Ok(started) => started,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match self.next_piece(&mut started).await? {
            Ok(Some(AnswerPiece::Columns(schema))) => {
                portal.state = PortalState::Runs { started: Box::new(started), rows: Bytes::new(), count: 0 };
                portal.columns = types::columns(&schema);
                Ok(Ok(portal.columns.clone()))
            }
            Ok(_) => Ok(Err(Refusal::new("XX000", "the statement broke off; this is a fault of SplayDB"))),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    async fn execute(&mut self, name: &str, rows_max: u32) -> StatementResult<()> {
        let mut portal = match self.take_portal(name) {
            Ok(portal) => portal,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let prepared = Arc::clone(&portal.prepared);
        if matches!(
            (&prepared.kind, &portal.state),
            (PreparedKind::Change { .. } | PreparedKind::Copy(_) | PreparedKind::Command(_), PortalState::Ended)
        ) {
            self.portals.insert(name.to_owned(), portal);
            return Ok(Err(Refusal::new("55000", format!("portal \"{name}\" cannot be run: it was run before"))));
        }
        let answered = match &prepared.kind {
            PreparedKind::Empty => {
                self.replies.plain(b'I');
                Ok(())
            }
            PreparedKind::Command(command) => match self.check_transaction(Some(command)) {
                Ok(()) => match command {
                    Command::Cursor(cursor) => {
                        self.cursor(cursor, (portal.values.clone(), &portal.formats), false).await?
                    }
                    command => self.show_checked(command, false).await?,
                },
                Err(refusal) => Err(refusal),
            },
            PreparedKind::Change { returns_rows: false } => match self.check_transaction(None) {
                Ok(()) => self.change(&prepared.text, parameters(&portal.values)).await?,
                Err(refusal) => Err(refusal),
            },
            PreparedKind::Copy(copy) => match self.check_transaction(None) {
                Ok(()) => self.copy(copy.clone(), true).await?,
                Err(refusal) => Err(refusal),
            },
            PreparedKind::Read | PreparedKind::Change { .. } => match self.check_transaction(None) {
                Ok(()) => self.read(&mut portal, u64::from(rows_max)).await?,
                Err(refusal) => Err(refusal),
            },
        };
        let is_over = matches!(&prepared.kind, PreparedKind::Command(Command::End { .. } | Command::Discard));
        if answered.is_ok() && !is_over {
            if !matches!(prepared.kind, PreparedKind::Read | PreparedKind::Change { returns_rows: true }) {
                portal.state = PortalState::Ended;
            }
            self.portals.insert(name.to_owned(), portal);
        }
        Ok(answered)
    }

    /// Sends so many rows of a portal, or all if it is none.
    async fn read(&mut self, portal: &mut Portal, rows_max: u64) -> StatementResult<()> {
        if matches!(portal.state, PortalState::New)
            && let Err(refusal) = self.start_portal(portal).await?
        {
            return Ok(Err(refusal));
        }
        let row_limit = if rows_max == 0 { u64::MAX } else { rows_max };
        Ok(self.read_rows(portal, row_limit, true).await?.map(|(sent, is_over)| match is_over {
            true => {
                let tag = portal.tag.take().unwrap_or_else(|| format!("SELECT {sent}"));
                self.replies.complete(&tag);
            }
            false => self.replies.plain(b's'),
        }))
    }

    /// Takes so many rows of a portal that runs, and sends them if they are to be shown; how many there were, and whether it ended before.
    pub(super) async fn read_rows(
        &mut self,
        portal: &mut Portal,
        row_limit: u64,
        shows: bool,
    ) -> StatementResult<(u64, bool)> {
        let PortalState::Runs { started, rows, count } = &mut portal.state else { return Ok(Ok((0, true))) };
        let (mut sent, mut ended_with) = (0, None);
        loop {
            if *count > 0 {
                let part = (*count).min(row_limit - sent);
                let bytes = if part == *count { std::mem::take(rows) } else { split_rows(rows, part) };
                (sent, *count) = (sent + part, *count - part);
                if shows {
                    self.send(bytes).await?;
                }
            }
            if sent == row_limit {
                return Ok(Ok((sent, false)));
            }
            match self.next_piece(started).await? {
                Ok(Some(AnswerPiece::Rows { bytes, rows: more })) => (*rows, *count) = (bytes, more),
                Ok(Some(AnswerPiece::Changed { what, rows, .. })) => ended_with = Some(tag(&what, rows)),
                Ok(Some(AnswerPiece::Columns(_))) => {}
                Ok(None) => break,
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        (portal.state, portal.tag) = (PortalState::Ended, ended_with);
        Ok(Ok((sent, true)))
    }
}

fn parameters(values: &[ScalarValue]) -> Parameters {
    if values.is_empty() { Parameters::None } else { Parameters::Positional(values.to_vec()) }
}
