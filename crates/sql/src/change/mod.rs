//! Statements that change tables, or users and roles (`access/`): `INSERT`, `DELETE`, `UPDATE`, `TRUNCATE`, `CREATE
//! TABLE`, `DROP TABLE`, `ALTER TABLE`, `CREATE VIEW`, `DROP VIEW`, `ALTER VIEW`, those of materialized views, and
//! `COPY … FROM`.
//!
//! - Each is one atomic commit of the store. Queries and conditions within them are planned like those of statements
//!   that read.
//! - They run only through [`Session::change`]; all other methods refuse them.
//! - `EXPLAIN` of one only reads (`explain.rs`).
//! - The answer is one row: the operation, the number of rows, and the number of the commit. With `RETURNING` it is the rows that were
//!   inserted, changed or deleted.

mod changed_rows;
mod condition;
mod copy;
mod copy_stream;
mod drop;
mod explain;
mod fit;
mod joined;
mod materialized;
mod placeholders;
mod queries;
mod reference_insert;
mod returning;
mod rights;
mod run;
mod statement;
mod users;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{Field, SchemaRef};
use splay_engine::Stop;
use splay_store::{Database, LoadOptions, Permission, Privilege, Table, TableSpec};

pub use self::copy::{CopyTo, copy_to};
pub use self::copy_stream::{CopyStream, StreamFormat, StreamKind, copy_stream};
pub(crate) use self::explain::ExplainedChange;
pub use self::materialized::RefreshOutcome;
pub use self::placeholders::ChangeDescription;
use self::returning::ReturnedRows;
pub use self::run::rename_table;
pub(crate) use self::statement::Statement;
use crate::access::AccessStatement;
use crate::answer::{Answer, StatementChange};
use crate::error::{Error, Result, fault};
use crate::lock_retry::patiently;
use crate::parameters::Parameters;
use crate::session::Session;

/// A table that a statement changes.
///
/// # Errors
/// [`Error::Statement`] for a view; [`Error::Store`] if there is neither.
fn table_to_change(database: &Database, name: &str) -> Result<Table> {
    match database.table(name) {
        Err(error @ splay_store::Error::NoSuchTable { .. }) => match database.view(name)? {
            Some(view) => {
                let drop = if view.materialized.is_some() { "DROP MATERIALIZED VIEW" } else { "DROP VIEW" };
                fault(format!("{} is a view: its rows are those of its query, and {drop} drops it", view.name))
            }
            None => Err(error.into()),
        },
        found => Ok(found?),
    }
}

/// Where rows go that a statement inserts.
pub trait InsertRows: Sync {
    /// Takes rows for a table that exists, in its columns and types, whole or not at all.
    ///
    /// # Errors
    /// Why they aren't taken.
    fn insert(&self, spec: &TableSpec, rows: &mut dyn Iterator<Item = Result<RecordBatch>>) -> Result<InsertOutcome>;

    /// Whether whoever asked can take an answer of these columns, of a statement with `RETURNING`. Asked before it changes anything.
    ///
    /// # Errors
    /// Why not.
    fn admit_columns(&self, _: &SchemaRef) -> Result<()> {
        Ok(())
    }

    /// Whether it may have so many rows. Asked while nothing is committed.
    ///
    /// # Errors
    /// Why not.
    fn admit_rows(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// What became of rows that a statement inserts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InsertOutcome {
    /// Number of the commit, if there is one already.
    pub commit: Option<u64>,
    /// Rows that were left out as duplicates of others.
    pub duplicates: u64,
}

/// Rows go to the table's files at once.
#[derive(Debug)]
pub struct IntoFiles<'a>(pub &'a Database);

impl InsertRows for IntoFiles<'_> {
    fn insert(&self, spec: &TableSpec, rows: &mut dyn Iterator<Item = Result<RecordBatch>>) -> Result<InsertOutcome> {
        // Not before there are rows: who reads them may take long, and holds no lock meanwhile.
        let Some(first) = rows.next().transpose()? else { return Ok(InsertOutcome::default()) };
        let mut load = patiently(Stop::NEVER, || self.0.load(spec, LoadOptions::default()))?;
        load.append(&first)?;
        for batch in rows {
            load.append(&batch?)?;
        }
        Ok(InsertOutcome { commit: Some(load.commit()?.epoch), duplicates: 0 })
    }
}

/// What a statement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChangeOutcome {
    /// In capitals, as it begins.
    what: &'static str,
    rows: u64,
    commit: Option<u64>,
}

impl ChangeOutcome {
    fn row(&self) -> Result<RecordBatch> {
        let columns: [(&str, ArrayRef); 3] = [
            ("statement", Arc::new(StringArray::from(vec![self.what]))),
            ("rows", Arc::new(UInt64Array::from(vec![self.rows]))),
            ("commit", Arc::new(UInt64Array::from(vec![self.commit]))),
        ];
        of_columns(columns.into_iter())
    }
}

fn changed_answer(mut answer: Answer, changed: &ChangeOutcome, returns_rows: bool) -> Answer {
    let change = StatementChange { statement: changed.what, rows: changed.rows, returns_rows };
    answer.change = Some(change);
    answer
}

fn of_columns<'a>(columns: impl Iterator<Item = (&'a str, ArrayRef)>) -> Result<RecordBatch> {
    let row = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
    row.map_err(|error| Error::Internal { message: error.to_string() })
}

/// Whether a statement's answer is more than that it was done: a token, which is shown once. As far as its first words tell.
#[must_use]
pub fn gives_token(text: &str) -> bool {
    // Without a look at the rest of most statements.
    let mut words = crate::statements::without_blanks(text).split_ascii_whitespace();
    let is_next = |word: Option<&str>, of: &[&str]| {
        word.is_some_and(|word| of.iter().any(|other| word.eq_ignore_ascii_case(other)))
    };
    is_next(words.next(), &["create", "alter"]) && is_next(words.next(), &["token"])
}

/// Whether a statement that changes something answers with rows of its own, by `RETURNING`.
#[must_use]
pub fn returns_rows(text: &str) -> bool {
    statement::returns_rows(text)
}

/// Whether a statement is a `CREATE TABLE` without a fault that its words tell.
#[must_use]
pub fn creates_table(text: &str) -> bool {
    matches!(Statement::of(text), Ok(Some(Statement::Create { .. })))
}

/// Whether a statement changes something, as far as its first words tell.
#[must_use]
pub fn is_change(text: &str) -> bool {
    statement::begins(text)
}

impl Session {
    /// Runs a statement that changes tables, and gives one row: `statement`, `rows`, `commit`, and of one with `CASCADE` the views that went as
    /// well, as `dropped`. With `RETURNING` it gives the rows that were inserted, changed or deleted instead, and [`Answer::change`] says how
    /// many. A statement that only reads is run as by [`Session::sql_until`].
    ///
    /// # Errors
    /// [`Error::Statement`] for what isn't supported, by name; [`Error::Store`] and others if it can't be carried out: nothing has changed then.
    pub fn change(
        &self,
        text: &str,
        parameters: Parameters,
        stop: Stop<'_>,
        insert: &dyn InsertRows,
    ) -> Result<Answer> {
        let start = std::time::Instant::now();
        crate::limits::check_text(text)?;
        // As a whole: the statement's parts are planned one by one.
        let text = &*crate::placeholders::number_placeholders(text)?;
        let Some(statement) = Statement::of(text)? else { return self.sql_until(text, parameters, stop) };
        rights::check(self, &statement)?;
        if let Statement::Access(statement) = &statement {
            return self.answer_of_users(statement, start, stop);
        }
        if let Statement::Drop(statement) = &statement {
            let dropped = drop::run(self.database(), statement, stop).map_err(|error| self.redact(error))?;
            return Ok(changed_answer(self.answer_of(vec![dropped.row()?], start), &dropped.changed, false));
        }
        let mut returned = None;
        let changed = run::run(self, statement, &parameters, stop, insert, &mut returned);
        let changed = changed.map_err(|error| self.redact(error))?;
        Ok(match returned {
            None => changed_answer(self.answer_of(vec![changed.row()?], start), &changed, false),
            Some(ReturnedRows { schema, batches, memory }) => {
                changed_answer(self.answer_of_rows(schema, batches, Some(Box::new(memory)), start), &changed, true)
            }
        })
    }

    /// Changes users and roles. The answer says what was done, and is the only place where a new token is shown.
    fn answer_of_users(
        &self,
        statement: &AccessStatement,
        start: std::time::Instant,
        stop: Stop<'_>,
    ) -> Result<Answer> {
        let row = match self.change_users(statement, stop)? {
            None => ChangeOutcome { what: statement.tag(), rows: 0, commit: None }.row()?,
            Some(made) => {
                let text = |text: String| Arc::new(StringArray::from(vec![text])) as ArrayRef;
                let columns = [
                    ("statement", text(statement.tag().to_owned())),
                    ("name", text(made.name)),
                    ("token", text(made.secret.token)),
                ];
                of_columns(columns.into_iter())?
            }
        };
        Ok(self.answer_of(vec![row], start))
    }

    /// The columns that `COPY … FROM STDIN` fills, by name and type, in their order; or with another right those that `COPY … TO STDOUT` reads.
    ///
    /// # Errors
    /// [`Error::Store`] if there is no such table or column, or no right to it.
    pub fn columns_to_copy(&self, table: &str, columns: Option<&[String]>, privilege: Privilege) -> Result<Vec<Field>> {
        let is_read = privilege == Privilege::Select;
        let mut permission = Permission::All;
        if let Some(guard) = &self.caller().guard {
            if !guard.sees(table) {
                return Err(self.no_such_table(table));
            }
            match is_read {
                true => permission = guard.rights().permission(privilege, table),
                false => rights::needs_columns(self, guard, table, privilege, columns)?,
            }
        }
        let table = table_to_change(self.database(), table).map_err(|error| self.redact(error))?;
        let spec = table.snapshot()?.spec().clone();
        let positions = run::copied_positions(&spec, columns)?;
        let schema = spec.shown_arrow();
        let fields = positions.into_iter().map(|position| schema.field(position).clone());
        Ok(fields.filter(|field| permission.covers(field.name())).collect())
    }

    /// Inserts rows from a client, all or none, and returns their number. Their columns are those that the statement
    /// names, as texts or in types that convert to the table's.
    ///
    /// # Errors
    /// As [`Session::change`].
    pub fn copy_rows(
        &self,
        (table, columns): (&str, Option<&[String]>),
        rows: &mut dyn Iterator<Item = Result<RecordBatch>>,
        stop: Stop<'_>,
        insert: &dyn InsertRows,
    ) -> Result<u64> {
        if let Some(guard) = &self.caller().guard {
            rights::needs_columns(self, guard, table, Privilege::Insert, columns)?;
        }
        run::copy_rows(self, (table, columns), rows, stop, insert)
    }
}
