//! `DROP TABLE`, `DROP VIEW` and `DROP MATERIALIZED VIEW`.
//!
//! - A table or view that views read isn't dropped, unless `CASCADE` drops these as well.
//! - All that a statement names is looked for, and what can't be dropped refused, before the first is dropped.
//! - Each is dropped by a change of its own, before everything that it reads. Invariant: whenever this is
//!   interrupted, no view is left whose source doesn't exist.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use splay_engine::Stop;
use splay_store::{Database, Table, View, names_instead, refuse_drop_of_read};

use super::{ChangeOutcome, table_to_change};
use crate::error::{Error, Result, fault};
use crate::lock_retry::patiently;
use crate::token_reader::TokenReader;
use crate::views;

/// What is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    View,
    Materialized,
}

/// Tables, or views of one kind, that are dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DropStatement {
    pub(crate) kind: Kind,
    pub(crate) names: Vec<String>,
    pub(crate) if_exists: bool,
    /// Whether the views that read it go as well.
    pub(crate) cascades: bool,
}

/// A statement that drops something, if this is one.
pub(super) fn read(words: &mut TokenReader<'_>) -> Result<Option<DropStatement>> {
    let kinds = [
        (Kind::Table, &["drop", "table"][..]),
        (Kind::View, &["drop", "view"]),
        (Kind::Materialized, &["drop", "materialized", "view"]),
    ];
    let Some((kind, _)) = kinds.into_iter().find(|(_, begin)| words.take(begin)) else { return Ok(None) };
    let if_exists = words.take(&["if", "exists"]);
    let names = words.list(TokenReader::table)?;
    let cascades = words.take(&["cascade"]);
    if !cascades {
        words.take(&["restrict"]);
    }
    Ok(Some(DropStatement { kind, names, if_exists, cascades }))
}

/// What was dropped.
#[derive(Debug)]
pub(super) struct DropOutcome {
    pub(super) changed: ChangeOutcome,
    /// The views that were dropped, too, in this order; none without `CASCADE`.
    readers: Option<Vec<String>>,
}

impl DropOutcome {
    /// The row of a change, and with `CASCADE` the names of the dropped views.
    pub(super) fn row(&self) -> Result<RecordBatch> {
        let row = self.changed.row()?;
        let Some(readers) = &self.readers else { return Ok(row) };
        let names = (!readers.is_empty()).then(|| readers.join(", "));
        let schema = row.schema();
        let columns = schema.fields().iter().map(|field| field.name().as_str()).zip(row.columns().iter().cloned());
        let names = ("dropped", Arc::new(StringArray::from(vec![names])) as ArrayRef);
        super::of_columns(columns.chain([names]))
    }
}

/// Drops tables or views.
pub(super) fn run(database: &Database, statement: &DropStatement, stop: Stop<'_>) -> Result<DropOutcome> {
    let mut readers = statement.cascades.then(Vec::new);
    let changed = match statement.kind {
        Kind::Table => drop_tables(database, statement, readers.as_mut(), stop)?,
        Kind::View | Kind::Materialized => drop_views(database, statement, readers.as_mut(), stop)?,
    };
    Ok(DropOutcome { changed, readers })
}

fn drop_tables(
    database: &Database,
    statement: &DropStatement,
    readers: Option<&mut Vec<String>>,
    stop: Stop<'_>,
) -> Result<ChangeOutcome> {
    let mut changed = ChangeOutcome { what: "DROP TABLE", rows: 0, commit: None };
    let mut tables: Vec<Table> = Vec::new();
    for name in &statement.names {
        match table_to_change(database, name) {
            Err(Error::Store(splay_store::Error::NoSuchTable { .. })) if statement.if_exists => {}
            found => {
                let table = found?;
                // A name may stand twice.
                if tables.iter().all(|other| other.name() != table.name()) {
                    tables.push(table);
                }
            }
        }
    }
    for table in &tables {
        if statement.cascades {
            table.refuse_drop()?;
            refuse_unclear(database, table)?;
        } else {
            table.refuse_drop_of_read(|view| views::reads(&view.query, table.name()))?;
        }
    }
    if let Some(readers) = readers {
        let names: Vec<String> = tables.iter().map(|table| table.name().to_owned()).collect();
        drop_readers(database, &names, readers, stop)?;
    }
    for table in tables {
        let dropped = patiently(stop, || table.drop_unread(|view| views::reads(&view.query, table.name())))?;
        changed.rows += dropped.removed;
        changed.commit = Some(dropped.epoch);
    }
    Ok(changed)
}

/// Refuses to drop the views that read a table, where others name it in a way that may mean something else: these would have to go as well.
fn refuse_unclear(database: &Database, table: &Table) -> Result<()> {
    let views = database.views()?;
    let clear = readers(&views, &[table.name().to_owned()]);
    let is_unclear = |view: &&View| views::reads(&view.query, table.name()) && !clear.contains(view);
    let unclear: Vec<&str> = views.iter().filter(is_unclear).map(|view| view.name.as_str()).collect();
    match unclear.is_empty() {
        true => Ok(()),
        false => fault(format!(
            "{:?} may be a column or a query of a WITH in {}, or the table: CASCADE drops only what surely reads it; drop them first",
            table.name(),
            unclear.join(", ")
        )),
    }
}

fn drop_views(
    database: &Database,
    statement: &DropStatement,
    dropped: Option<&mut Vec<String>>,
    stop: Stop<'_>,
) -> Result<ChangeOutcome> {
    let is_materialized = statement.kind == Kind::Materialized;
    let what = if is_materialized { "DROP MATERIALIZED VIEW" } else { "DROP VIEW" };
    let mut found: Vec<View> = Vec::new();
    for name in &statement.names {
        match database.view(name)? {
            Some(view) => {
                refuse_other_kind(&view, is_materialized)?;
                if !found.contains(&view) {
                    found.push(view);
                }
            }
            None if statement.if_exists => {}
            None => return no_view(database, is_materialized, name),
        }
    }
    let names: Vec<String> = found.iter().flat_map(relations).collect();
    match dropped {
        Some(dropped) => {
            drop_readers(database, &names, dropped, stop)?;
            dropped.retain(|name| found.iter().all(|view| view.name != *name));
        }
        None => {
            let others: Vec<View> = database.views()?.iter().filter(|view| !found.contains(view)).cloned().collect();
            for view in &found {
                let names = relations(view);
                refuse_drop_of_read("view", &others, &view.name, |other| is_reader(other, &names))?;
            }
        }
    }
    let reading = readers(&found, &names);
    for view in reading.iter().chain(found.iter().filter(|view| !reading.contains(view))) {
        drop_one(database, view, stop)?;
    }
    Ok(ChangeOutcome { what, rows: 0, commit: None })
}

fn refuse_other_kind(view: &View, is_materialized: bool) -> Result<()> {
    match (is_materialized, view.materialized.is_some()) {
        (false, true) => fault(format!("{:?} is a materialized view: DROP MATERIALIZED VIEW drops it", view.name)),
        (true, false) => fault(format!("{:?} is a view whose rows aren't kept: DROP VIEW drops it", view.name)),
        _ => Ok(()),
    }
}

fn no_view<T>(database: &Database, is_materialized: bool, name: &str) -> Result<T> {
    if is_materialized {
        return fault(format!("no materialized view {name:?}"));
    }
    let views = database.views()?;
    let names: Vec<&str> = views.iter().map(|view| view.name.as_str()).collect();
    fault(format!("no view {name:?}; {}", names_instead(name, &names)))
}

/// Drops a view that no other one reads.
fn drop_one(database: &Database, view: &View, stop: Stop<'_>) -> Result<()> {
    let relations = relations(view);
    let reads = |other: &View| is_reader(other, &relations);
    patiently(stop, || match view.materialized {
        Some(_) => database.drop_materialized(view, reads),
        None => database.drop_view(&view.name, reads),
    })
    .map(|_| ())
}

/// Drops the views that read something, straight or through others, and adds their names.
fn drop_readers(database: &Database, names: &[String], dropped: &mut Vec<String>, stop: Stop<'_>) -> Result<()> {
    // Looked for anew each time: others may create views meanwhile.
    while let Some(view) = readers(&database.views()?, names).into_iter().next() {
        drop_one(database, &view, stop)?;
        dropped.push(view.name);
    }
    Ok(())
}

/// The views that read something, straight or through others, each before those that it reads.
fn readers(views: &[View], names: &[String]) -> Vec<View> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    add_readers(views, names, &mut seen, &mut found);
    found
}

fn add_readers<'a>(views: &'a [View], names: &[String], seen: &mut HashSet<&'a str>, found: &mut Vec<View>) {
    for view in views.iter().filter(|view| is_reader(view, names)) {
        if seen.insert(&view.name) {
            add_readers(views, &relations(view), seen, found);
            found.push(view.clone());
        }
    }
}

/// What a query may name to read a view: the view, and the table that keeps its rows.
fn relations(view: &View) -> Vec<String> {
    [Some(view.name.clone()), view.rows_table()].into_iter().flatten().collect()
}

fn is_reader(view: &View, names: &[String]) -> bool {
    names.iter().any(|name| views::reads_relation(&view.query, name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn views_come_before_those_that_they_read() {
        let view = |name: &str, query: &str| View::new(name, Vec::new(), query);
        let mut kept = view("kept", "select time, size from trade");
        kept.materialized = Some("trade".to_owned());
        let views = [
            view("a", "select * from C join b using (x)"),
            view("b", "select * from trade"),
            view("c", "select * from splay.public.b where size > 1"),
            view("of_rows", "select * from \"kept.rows\""),
            view("other", "select trade, x from quote where trade in (1, trade)"),
            view("within", "with trade as (select 1) select * from trade"),
            kept,
        ];
        let of = |name: &str| {
            let found = readers(&views, &[name.to_owned()]);
            found.iter().map(|view| view.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("TRADE"), "a c b of_rows kept");
        assert_eq!(of("b"), "a c");
        assert_eq!(of("kept.rows"), "of_rows");
        assert_eq!(of("a"), "");
        assert_eq!(of("quote"), "other");
    }
}
