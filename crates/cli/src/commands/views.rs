//! What `splay tables` and `splay describe` say of views.

use std::sync::Arc;

use anyhow::{Result, bail};
use splay_import::FileOpener;
use splay_sql::statements::quoted;
use splay_sql::{Session, SessionSettings};
use splay_store::{ColumnType, Database, TableSnapshot, TableSpec, View};

use crate::output;
use crate::print::say;

/// What a table is among the views of its database.
pub fn kind_of_table(spec: &TableSpec, views: &[View]) -> String {
    let keeps = |view: &&View| view.rows_table().is_some_and(|rows| rows.eq_ignore_ascii_case(&spec.name));
    match views.iter().find(keeps) {
        Some(view) => format!("rows of {}", view.name),
        None if spec.reference.is_some() => "reference table".to_owned(),
        None => "table".to_owned(),
    }
}

/// What a view is.
pub fn kind(view: &View) -> &'static str {
    if view.materialized.is_some() { "materialized view" } else { "view" }
}

/// Says what a view is, its columns, and the statement that makes it again.
pub fn describe(database: &Database, view: &View, storage: bool) -> Result<()> {
    if storage {
        match view.rows_table() {
            Some(rows) => bail!("the rows of {} are in the table {rows}: describe that", view.name),
            None => bail!("{} is a view, which keeps no rows", view.name),
        }
    }
    let settings = SessionSettings { files: Some(Arc::new(FileOpener)), ..SessionSettings::default() };
    let session = Session::new(database.clone(), settings)?;
    say!("view       {}", view.name)?;
    match (&view.materialized, view.rows_table()) {
        (Some(table), Some(rows)) => {
            say!("kind       {} of {table}", kind(view))?;
            say!("rows in    {rows}")?;
        }
        _ => say!("kind       {}", kind(view))?,
    }
    if view.is_query_rewrite(database.rows_of_view(view)?.as_ref().map(TableSnapshot::spec)) {
        say!("rewrite    statements over the table read it where it answers them")?;
    }
    say!("")?;
    match session.describe(&format!("SELECT * FROM {}", quoted(&view.name))) {
        Ok(described) => {
            let fields = described.schema.fields().iter();
            let rows: Vec<Vec<String>> =
                fields.map(|field| vec![field.name().clone(), ColumnType::name_of(field.data_type())]).collect();
            say!("{}", output::columns(&["column", "type"], &rows))?;
        }
        // A view that can't be planned, as one whose tables are gone.
        Err(error) => say!("columns    unknown: {error}")?,
    }
    say!("")?;
    say!("{}", session.create_statement(&view.name)?)?;
    Ok(())
}
