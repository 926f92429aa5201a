//! `/tables`: what there is.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde_json::{Value, json};
use splay_store::Database;

use super::{Server, on_thread};
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;

/// `GET /tables`
pub(super) async fn list(State(server): Server, headers: HeaderMap) -> Outcome<Json<Value>> {
    server.tokens.check(&headers, Role::Read)?;
    let database = server.statements.session().database().clone();
    let tables = on_thread(move || {
        let names = database.tables()?;
        names.iter().map(|name| describe_or_damage(&database, name)).collect::<Outcome<Vec<_>>>()
    });
    Ok(Json(Value::Array(tables.await??)))
}

/// `GET /tables/NAME`
pub(super) async fn one(State(server): Server, Path(table): Path<String>, headers: HeaderMap) -> Outcome<Json<Value>> {
    server.tokens.check(&headers, Role::Read)?;
    let database = server.statements.session().database().clone();
    Ok(Json(on_thread(move || describe(&database, &table)).await??))
}

/// A table that is damaged doesn't hide the others.
fn describe_or_damage(database: &Database, name: &str) -> Outcome<Value> {
    match describe(database, name) {
        Err(problem) if problem.code == Code::Corrupt => Ok(json!({ "name": name, "error": problem.message })),
        described => described,
    }
}

fn describe(database: &Database, name: &str) -> Outcome<Value> {
    let snapshot = database.table(name).and_then(|table| table.snapshot()).map_err(Problem::from)?;
    let spec = snapshot.spec();
    let columns = spec
        .shown_columns()
        .iter()
        .map(|column| json!({ "name": column.name, "type": column.column_type.to_string() }));
    // Rows of a reference table have none.
    let dated = snapshot.partitions().iter().filter(|_| spec.reference.is_none());
    let dates = dated.map(|partition| splay_store::date(partition.date).to_string());
    Ok(json!({
        "name": spec.name,
        "columns": columns.collect::<Vec<_>>(),
        "time": (!spec.has_hidden_time()).then_some(&spec.time),
        "key": spec.reference.as_ref().map(|reference| &reference.key),
        "effective": spec.reference.as_ref().and_then(|reference| reference.effective.as_ref()),
        "symbol": spec.symbol,
        "time_zone": spec.time_zone,
        "day_start": spec.day_start.to_string(),
        "rows": snapshot.rows(),
        "bytes": snapshot.bytes(),
        "partitions": snapshot.partitions().len(),
        "first_date": dates.clone().min(),
        "last_date": dates.max(),
    }))
}
