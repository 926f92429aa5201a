//! The right that a changing statement needs.

use splay_store::{Permission, Privilege, Rights};

use super::drop::DropStatement;
use super::statement::Statement;
use crate::error::{Error, Result, denied};
use crate::guard::Guard;
use crate::session::Session;

/// Refuses a statement that the session's rights don't allow.
///
/// # Errors
/// [`splay_store::Error::NoSuchTable`] for a table that may not be known, [`splay_store::Error::Denied`] for one that may.
pub(crate) fn check(session: &Session, statement: &Statement) -> Result<()> {
    let Some(guard) = &session.caller().guard else { return Ok(()) };
    let guard = guard.as_ref();
    match statement {
        Statement::Insert { into, columns, conflict, returning, .. } => {
            let table = &into.table;
            needs_columns(session, guard, table, Privilege::Insert, columns.as_deref())?;
            if returning.is_some() {
                // Columns without the right don't exist when its items are planned.
                table_permission(session, guard, table, Privilege::Select)?;
            }
            let updated = conflict.as_ref().map(|conflict| conflict.set.iter().map(|(column, _)| column.clone()));
            match updated.map(Iterator::collect::<Vec<_>>) {
                Some(updated) if !updated.is_empty() => {
                    needs_columns(session, guard, table, Privilege::Update, Some(&updated))?;
                    // Its values are computed from the stored row.
                    needs(session, guard, table, Privilege::Select)
                }
                _ => Ok(()),
            }
        }
        Statement::CopyFrom { table, columns, .. } => {
            needs_columns(session, guard, table, Privilege::Insert, columns.as_deref())
        }
        Statement::Delete { rows, .. } => {
            let table = &rows.table;
            reads(session, guard, table)?;
            needs(session, guard, table, Privilege::Delete)
        }
        Statement::Update { rows, set, .. } => {
            let table = &rows.table;
            let columns: Vec<String> = set.iter().map(|(column, _)| column.clone()).collect();
            reads(session, guard, table)?;
            needs_columns(session, guard, table, Privilege::Update, Some(&columns))
        }
        Statement::Truncate { tables } => {
            tables.iter().try_for_each(|table| needs(session, guard, table, Privilege::Truncate))
        }
        Statement::Refresh { view } => {
            if !guard.rights().sees(view) {
                return Err(session.no_such_table(view));
            }
            let may = guard.rights().may(Privilege::Maintain, view);
            may.then_some(()).ok_or_else(|| denied(format!("for materialized view {view}")))
        }
        Statement::Create { .. } | Statement::CreateView { replaces: false, .. } => {
            let may = guard.rights().may_create();
            may.then_some(()).ok_or_else(|| denied("to create tables and views: grant CREATE on the database"))
        }
        Statement::CreateView { .. } => Err(denied("to replace a view: that is for superusers")),
        Statement::CreateMaterialized(_) => Err(denied("to create a materialized view: that is for superusers")),
        Statement::Drop(DropStatement { names, .. }) => {
            names.iter().try_for_each(|name| for_superusers(session, guard, name))
        }
        Statement::Alter { table: name, .. }
        | Statement::RenameView { view: name, .. }
        | Statement::SetView { view: name, .. } => for_superusers(session, guard, name),
        // Statements about users and roles check the rights themselves.
        Statement::Access(_) => Ok(()),
    }
}

/// Refuses to alter or drop a table or view.
fn for_superusers(session: &Session, guard: &Guard, name: &str) -> Result<()> {
    match guard.rights().sees(name) {
        true => Err(denied(format!("to alter or drop {name}: that is for superusers"))),
        false => Err(session.no_such_table(name)),
    }
}

/// Refuses a change of a table without the right to it, or if policies hide rows of it.
fn needs(session: &Session, guard: &Guard, table: &str, privilege: Privilege) -> Result<()> {
    table_permission(session, guard, table, privilege)?;
    match guard.rights().may(privilege, table) {
        true => Ok(()),
        false => Err(denied(format!("to {} all columns of table {table}", privilege.as_str()))),
    }
}

/// Like [`needs`], for a privilege on some or all columns.
pub(crate) fn needs_columns(
    session: &Session,
    guard: &Guard,
    table: &str,
    privilege: Privilege,
    columns: Option<&[String]>,
) -> Result<()> {
    let Some(columns) = columns else { return needs(session, guard, table, privilege) };
    let permission = table_permission(session, guard, table, privilege)?;
    match columns.iter().find(|column| !permission.covers(column)) {
        None => Ok(()),
        Some(column) => Err(denied(format!("to {} column {column} of table {table}", privilege.as_str()))),
    }
}

/// Refuses a change of rows of a table that can't be read: its condition and its values depend on them, and they are found by their time.
fn reads(session: &Session, guard: &Guard, table: &str) -> Result<()> {
    let permission = table_permission(session, guard, table, Privilege::Select)?;
    // For a view or another object that is no table, the change itself gives the error.
    let Ok(readable) = session.table(table) else { return Ok(()) };
    let stored = readable.stored()?;
    let spec = stored.spec();
    match spec.has_hidden_time() || permission.covers(&spec.time) {
        true => Ok(()),
        false => Err(denied(format!("to SELECT column {} of table {table}, by which its rows are found", spec.time))),
    }
}

fn table_permission(session: &Session, guard: &Guard, table: &str, privilege: Privilege) -> Result<Permission> {
    if !guard.sees(table) {
        return Err(session.no_such_table(table));
    }
    refuse_hidden_rows(guard.rights(), table)?;
    match guard.rights().permission(privilege, table) {
        Permission::None => Err(denied(format!("to {} in table {table}", privilege.as_str()))),
        permission => Ok(permission),
    }
}

/// A caller who doesn't see all rows of a table can't change any: row counts and key conflicts would reveal the others.
fn refuse_hidden_rows(rights: &Rights, table: &str) -> Result<(), Error> {
    match rights.has_row_condition(table) {
        true => Err(denied(format!("to change table {table}: policies hide rows of it, which needs BYPASSRLS"))),
        false => Ok(()),
    }
}
