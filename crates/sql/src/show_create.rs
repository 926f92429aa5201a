//! `SHOW CREATE TABLE`, `SHOW CREATE VIEW` and `SHOW CREATE MATERIALIZED VIEW`: the statement that recreates the
//! object.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use splay_store::{Database, Permission, Privilege, Table, View};

use crate::caller::Caller;
use crate::create_text;
use crate::error::{Error, Result, denied, fault};
use crate::guard::Guard;
use crate::token_reader::TokenReader;

/// A `SHOW CREATE` statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShowCreate {
    kind: Kind,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A table, or a view of either kind.
    Table,
    /// A view of either kind.
    View,
    MaterializedView,
}

impl ShowCreate {
    /// Parses such a statement; `None` for any other.
    ///
    /// # Errors
    /// [`Error::Statement`] if no table or view of the database is named.
    pub(crate) fn of(text: &str) -> Result<Option<ShowCreate>> {
        // Most statements end here, after their first word.
        let start = text.trim_start();
        let begins = |word: &str| start.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
        if !["show", "--", "/*"].into_iter().any(begins) {
            return Ok(None);
        }
        let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize() else {
            return Ok(None);
        };
        let mut words = TokenReader::of(&tokens);
        let kind = if words.take(&["show", "create", "table"]) {
            Kind::Table
        } else if words.take(&["show", "create", "view"]) {
            Kind::View
        } else if words.take(&["show", "create", "materialized", "view"]) {
            Kind::MaterializedView
        } else {
            return Ok(None);
        };
        let name = name(&mut words)?;
        words.end()?;
        Ok(Some(ShowCreate { kind, name }))
    }

    /// The columns of the row.
    pub(crate) fn schema() -> SchemaRef {
        Arc::new(Schema::new(["name", "statement"].map(|name| Field::new(name, DataType::Utf8, true)).to_vec()))
    }

    /// `SHOW CREATE TABLE` of a table or a view.
    pub(crate) fn of_name(name: &str) -> ShowCreate {
        ShowCreate { kind: Kind::Table, name: name.to_owned() }
    }

    /// The row.
    pub(crate) fn row(&self, database: &Database, caller: &Caller) -> Result<RecordBatch> {
        let (name, statement) = self.name_and_statement(database, caller)?;
        let columns = [name, statement].map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef);
        let row = RecordBatch::try_new(ShowCreate::schema(), columns.to_vec());
        row.map_err(|error| Error::Internal { message: error.to_string() })
    }

    /// The statement.
    pub(crate) fn statement(&self, database: &Database, caller: &Caller) -> Result<String> {
        Ok(self.name_and_statement(database, caller)?.1)
    }

    /// The name and the statement.
    fn name_and_statement(&self, database: &Database, caller: &Caller) -> Result<(String, String)> {
        let name = self.name.as_str();
        if !caller.sees(name) {
            return Err(caller.no_such_table(database, name));
        }
        match database.table(name) {
            Ok(table) => self.of_table(&table, database, caller),
            Err(splay_store::Error::NoSuchTable { .. }) => match database.view(name)? {
                Some(view) => self.of_view(&view, database, caller),
                None => Err(caller.no_such_table(database, name)),
            },
            Err(error) => Err(error.into()),
        }
    }

    fn of_table(&self, table: &Table, database: &Database, caller: &Caller) -> Result<(String, String)> {
        let name = table.name();
        let read = |guard: &Guard| guard.rights().permission(Privilege::Select, name);
        let permission = caller.veil().map_or(Permission::All, read);
        let snapshot = table.snapshot()?;
        let text = create_text::of_table(snapshot.spec(), &|column| permission.covers(column));
        let Some(text) = text else { return Err(caller.no_such_table(database, name)) };
        if self.kind != Kind::Table {
            return fault(format!("{name:?} is a table: SHOW CREATE TABLE shows its statement"));
        }
        Ok((snapshot.spec().name.clone(), text))
    }

    fn of_view(&self, view: &View, database: &Database, caller: &Caller) -> Result<(String, String)> {
        let name = &view.name;
        if caller.guard.is_some() {
            let is_read = caller.veil().is_none_or(|guard| guard.reads_view(view));
            return Err(match is_read {
                true => denied(format!("to see the query of view {name}: superusers may")),
                false => caller.no_such_table(database, name),
            });
        }
        if self.kind == Kind::MaterializedView && view.materialized.is_none() {
            return fault(format!("{name:?} is a view whose rows aren't kept: SHOW CREATE VIEW shows its statement"));
        }
        let rows = database.rows_of_view(view)?;
        Ok((name.clone(), create_text::of_view(view, rows.as_ref().map(|rows| rows.spec()))))
    }
}

/// A table or a view, perhaps with the only schema that such have.
fn name(words: &mut TokenReader<'_>) -> Result<String> {
    let mut names = vec![words.name("a table or a view")?];
    while words.peek() == Some(&Token::Period) {
        words.step();
        names.push(words.name("a table or a view")?);
    }
    let name = names.pop().unwrap_or_default();
    let schema: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    match schema.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["public"] | ["splay", "public"] => Ok(name),
        _ => fault(format!("SHOW CREATE shows tables and views of the schema public, and {} is none", names.join("."))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_told_from_other_statements() {
        let shown = |kind, name: &str| Some(ShowCreate { kind, name: name.to_owned() });
        for (text, expected) in [
            ("show create table Trade", shown(Kind::Table, "Trade")),
            ("-- how\nSHOW CREATE TABLE \"a \"\"b\";", shown(Kind::Table, "a \"b")),
            ("show create view splay.Public.bars", shown(Kind::View, "bars")),
            ("show create materialized view public.bars", shown(Kind::MaterializedView, "bars")),
            ("show tables", None),
            ("show create function f", None),
            ("create table show (a int)", None),
            ("select 'show create table t'", None),
        ] {
            assert_eq!(ShowCreate::of(text).unwrap(), expected, "{text}");
        }
        for (text, part) in [
            ("show create table", "expected a table or a view, found the end"),
            ("show create table t u", "u is not expected"),
            ("show create table information_schema.tables", "of the schema public, and information_schema is none"),
        ] {
            assert!(ShowCreate::of(text).unwrap_err().to_string().contains(part), "{text}");
        }
    }
}
