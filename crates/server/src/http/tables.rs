//! `/tables`: the tables that the caller may see.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde_json::{Value, json};
use splay_sql::Session;
use splay_store::{Permission, Privilege, Rights};

use super::Server;
use crate::blocking::on_thread;
use crate::callers::Caller;
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;

/// `GET /tables`
pub(super) async fn list(State(server): Server, headers: HeaderMap) -> Outcome<Json<Value>> {
    let caller = server.caller(&headers, Role::Read).await?;
    let session = server.statements(&caller).await?.session().clone();
    let tables = on_thread(move || {
        let mut names = session.database().tables()?;
        names.retain(|name| session.sees(name));
        names.iter().map(|name| describe_or_damage(&session, &caller, name)).collect::<Outcome<Vec<_>>>()
    });
    Ok(Json(Value::Array(tables.await??)))
}

/// `GET /tables/NAME`
pub(super) async fn one(State(server): Server, Path(table): Path<String>, headers: HeaderMap) -> Outcome<Json<Value>> {
    let caller = server.caller(&headers, Role::Read).await?;
    let session = server.statements(&caller).await?.session().clone();
    let described = on_thread(move || describe(&session, &caller, &table));
    Ok(Json(described.await??))
}

/// A table that is damaged doesn't hide the others.
fn describe_or_damage(session: &Session, caller: &Caller, name: &str) -> Outcome<Value> {
    match describe(session, caller, name) {
        Err(problem) if problem.code == Code::Corrupt => Ok(json!({ "name": name, "error": problem.message })),
        described => described,
    }
}

fn describe(session: &Session, caller: &Caller, name: &str) -> Outcome<Value> {
    let snapshot = session.table(name)?.snapshot().map_err(Problem::from)?;
    let spec = snapshot.spec();
    let visible = session.known_columns(name, &spec.shown_arrow());
    let is_known = |column: &str| visible.index_of(column).is_ok();
    let columns = spec
        .shown_columns()
        .iter()
        .filter(|column| is_known(&column.name))
        .map(|column| json!({ "name": column.name, "type": column.column_type.to_string() }));
    // Rows of a reference table have none.
    let dated = snapshot.partitions().iter().filter(|_| spec.reference.is_none());
    let dates = dated.map(|partition| splay_store::date(partition.date).to_string());
    let mut described = json!({
        "name": spec.name,
        "columns": columns.collect::<Vec<_>>(),
        "time": (!spec.has_hidden_time() && is_known(&spec.time)).then_some(&spec.time),
        "key": spec.reference.as_ref().map(|reference| &reference.key).filter(|key| key.iter().all(|key| is_known(key))),
        "effective": spec.reference.as_ref().and_then(|reference| reference.effective.as_ref()).filter(|name| is_known(name)),
        "symbol": spec.symbol.as_ref().filter(|name| is_known(name)),
        "time_zone": spec.time_zone,
        "day_start": spec.day_start.to_string(),
        "rows": snapshot.rows(),
        "bytes": snapshot.bytes(),
        "partitions": snapshot.partitions().len(),
        "first_date": dates.clone().min(),
        "last_date": dates.max(),
    });
    if caller.rights().is_some_and(|rights| !reads_all(rights, name)) {
        for number in ["rows", "bytes", "partitions", "first_date", "last_date"] {
            described[number] = Value::Null;
        }
    }
    Ok(described)
}

/// Whether a caller reads all rows and columns of a table. To others its sizes would reveal what they don't see.
pub(super) fn reads_all(rights: &Rights, table: &str) -> bool {
    rights.permission(Privilege::Select, table) == Permission::All && !rights.has_row_condition(table)
}
