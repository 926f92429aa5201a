//! `/tables/NAME/storage`: a table's size on disk, by partition and by column, and its loads.
//!
//! Lists are bounded: the newest [`PARTITIONS_MAX`] partitions, the latest [`LOADS_MAX`] loads, and columns of the
//! newest partition in each tier, whose files are examined.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde_json::{Value, json};
use splay_store::{Partition, Segment, Table, TableSnapshot, Tier};

use super::Server;
use super::tables::reads_all;
use crate::blocking::on_thread;
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;

/// Partitions that are listed.
const PARTITIONS_MAX: usize = 1000;

/// Loads that are listed.
const LOADS_MAX: usize = 100;

/// `GET /tables/NAME/storage`
pub(super) async fn storage(
    State(server): Server,
    Path(table): Path<String>,
    headers: HeaderMap,
) -> Outcome<Json<Value>> {
    let caller = server.caller(&headers, Role::Read).await?;
    let session = server.statements(&caller).await?.session().clone();
    let described = on_thread(move || {
        let snapshot_table = session.table(&table)?;
        if caller.rights().is_some_and(|rights| !reads_all(rights, &table)) {
            let reason = format!("the sizes of table {table:?} tell of rows and columns that you may not read");
            return Err(Problem::new(Code::Forbidden, reason));
        }
        describe(&snapshot_table)
    });
    Ok(Json(described.await??))
}

fn describe(table: &Table) -> Outcome<Value> {
    let snapshot = table.snapshot().map_err(Problem::from)?;
    let spec = snapshot.spec();
    let has_dates = spec.reference.is_none();
    let newest = snapshot.partitions().iter().rev().take(PARTITIONS_MAX);
    Ok(json!({
        "name": spec.name,
        "period": spec.partition.to_string(),
        "commits": snapshot.epoch(),
        "partition_count": snapshot.partitions().len(),
        "partitions": newest.map(|partition| describe_partition(partition, has_dates)).collect::<Vec<_>>(),
        "columns": columns(&snapshot)?,
        "load_count": snapshot.sources().count(),
        "loads": loads(&snapshot),
    }))
}

/// Rows in memory are in no tier, and have no index.
fn is_stored(segment: &Segment) -> bool {
    segment.entry().index_bytes > 0
}

fn describe_partition(partition: &Partition, has_dates: bool) -> Value {
    let stored = || partition.segments.iter().filter(|segment| is_stored(segment));
    let live = partition.segments.iter().filter(|segment| !is_stored(segment));
    let mut tiers: Vec<Tier> = stored().map(|segment| segment.entry().tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let entries = || partition.segments.iter().map(|segment| segment.entry()).filter(|entry| entry.rows > 0);
    json!({
        "date": has_dates.then(|| splay_store::date(partition.date).to_string()),
        "tiers": tiers.iter().map(|tier| tier.name()).collect::<Vec<_>>(),
        "rows": partition.rows(),
        "live_rows": live.map(|segment| segment.rows()).sum::<u64>(),
        "segments": stored().count(),
        "bytes": stored().map(|segment| segment.entry().bytes + segment.entry().index_bytes).sum::<u64>(),
        "time_min": entries().map(|entry| entry.time_min).min().filter(|_| has_dates),
        "time_max": entries().map(|entry| entry.time_max).max().filter(|_| has_dates),
    })
}

/// The storage of each column in the newest partition of each tier.
fn columns(snapshot: &TableSnapshot) -> Outcome<Vec<Value>> {
    let mut newest: BTreeMap<Tier, &Partition> = BTreeMap::new();
    for partition in snapshot.partitions() {
        for segment in partition.segments.iter().filter(|segment| is_stored(segment)) {
            newest.insert(segment.entry().tier, partition);
        }
    }
    let mut columns = Vec::new();
    for (tier, partition) in newest {
        let of_tier = partition.segments.iter().filter(|segment| is_stored(segment) && segment.entry().tier == tier);
        for segment in of_tier {
            for column in segment.storage(snapshot.spec())? {
                columns.push(json!({
                    "tier": tier.name(),
                    "column": column.column,
                    "rows": segment.rows(),
                    "bytes": column.bytes,
                    "plain_bytes": column.plain_bytes,
                    "encoding": column.encoding,
                }));
            }
        }
    }
    Ok(columns)
}

/// The latest loads, with the names of their files but not the folders.
fn loads(snapshot: &TableSnapshot) -> Vec<Value> {
    let mut sources: Vec<_> = snapshot.sources().collect();
    sources.sort_by(|(one, early), (other, late)| late.cmp(early).then_with(|| one.name.cmp(&other.name)));
    let load = |(source, commit): &&(splay_store::Source, u64)| {
        let name = source.name.rsplit(['/', '\\']).next().unwrap_or_default();
        json!({ "name": name, "rows": source.rows, "commit": commit })
    };
    sources.iter().take(LOADS_MAX).map(load).collect()
}
