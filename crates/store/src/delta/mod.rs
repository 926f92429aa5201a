//! Publishes a table's Parquet segments as a Delta table for other engines: the files stay in place, and a log beside
//! them lists the current ones.
//!
//! - The log, `TABLE/_delta_log/`, follows from the manifest and is never ahead of it: a publication holds the
//!   writer's lock, and begins after a durable HEAD. It can be removed; the next publication writes it anew.
//! - A publication computes the difference between the log's last version and the manifest, and adds it as one
//!   version. So a publication that is repeated, or follows a crash, adds only what is missing.
//! - A version appears atomically: its file gets its name when it is complete and durable, and never replaces
//!   another.
//! - A date is in the Delta table with all its rows or with none. Dates with mapped segments or objects aren't in it.
//! - No other program may write there: the protocol requires a feature of writers that none has, because a `VACUUM`
//!   would remove all files that the Delta log doesn't name, which are most of a table.
//!
//! Bytes: docs/format/delta.md. Choices: docs/adr/0079-tables-are-published-as-delta-tables.md.

mod action;
mod checkpoint;
mod log;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use action::{Add, DeltaAction, DeltaTransaction, Metadata, Protocol, Remove};
use log::DeltaLog;
pub(crate) use types::{check_names, is_outdated};

use crate::database::Table;
use crate::error::Result;
use crate::manifest::{FileEntry, TableState};
use crate::partition::date;
use crate::schema::TableSpec;
use crate::tier::Tier;
use crate::write::{Writer, now};

/// The state of the Delta table after a publication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishReport {
    /// Folder of the Delta table.
    pub path: std::path::PathBuf,
    /// The Delta table's last version.
    pub version: u64,
    /// Whether this publication made it. It made none if nothing had changed.
    pub is_new: bool,
    /// The commit of the table that it shows.
    pub epoch: u64,
    /// Files that the version has.
    pub files: usize,
    /// Rows of these.
    pub rows: u64,
    /// Files that this publication added and removed.
    pub changed: (usize, usize),
    /// First dates of the partitions that the version hasn't, as they are in the tier `mapped` or `object`.
    pub left_out: Vec<i32>,
}

impl Table {
    /// Brings the Delta table of a table that is to be published ([`TableSpec::publish`]) up to its last commit. If the
    /// table is no longer published, or was dropped, all files are removed from the Delta table.
    ///
    /// # Errors
    /// [`Error::Schema`](crate::Error::Schema) for a table that isn't to be published, and for a segment that isn't in the form that others read,
    /// with the way out; [`Error::Locked`](crate::Error::Locked) while another writer is at work;
    /// [`Error::Corrupt`](crate::Error::Corrupt) for a log that can't be read. The Delta table is as it was.
    pub fn publish(&self) -> Result<PublishReport> {
        let writer = Writer::of(self)?;
        let published = publish(&writer);
        published.inspect_err(|error| {
            writer.poison_after(error);
        })
    }
}

/// The files that a Delta table shall have, and the partitions that it hasn't.
struct TargetFiles<'a> {
    files: BTreeMap<&'a str, &'a FileEntry>,
    dates: BTreeSet<i32>,
    left_out: Vec<i32>,
}

impl<'a> TargetFiles<'a> {
    fn of(state: &'a TableState) -> TargetFiles<'a> {
        let is_shown = state.spec.publish.is_some() && !state.dropped;
        let left_out: BTreeSet<i32> =
            state.files.values().filter(|entry| is_shown && !is_publishable(entry)).map(|entry| entry.date).collect();
        let whole = state.files.values().filter(|entry| is_shown && !left_out.contains(&entry.date));
        let files: BTreeMap<&str, &FileEntry> = whole.map(|entry| (entry.path.as_str(), entry)).collect();
        let dates = files.values().map(|entry| entry.date).collect();
        TargetFiles { files, dates, left_out: left_out.into_iter().collect() }
    }

    /// The partitions that are left out, in ranges between which there are others: `2024-03-06..2024-03-08,2024-03-11`.
    fn left_out(&self) -> String {
        let mut ranges: Vec<(i32, i32)> = Vec::new();
        for day in &self.left_out {
            match ranges.last_mut() {
                Some((_, last)) if self.dates.range(*last..*day).next().is_none() => *last = *day,
                _ => ranges.push((*day, *day)),
            }
        }
        let text = |(first, last): &(i32, i32)| match first == last {
            true => date(*first).to_string(),
            false => format!("{}..{}", date(*first), date(*last)),
        };
        ranges.iter().map(text).collect::<Vec<_>>().join(",")
    }
}

/// Whether a segment is a Parquet file of this database's folder. Who reads the table from outside hasn't the keys of encrypted ones.
pub(crate) fn is_publishable(entry: &FileEntry) -> bool {
    matches!(entry.tier, Tier::Fast | Tier::Small) && entry.object.is_none() && entry.key.is_none()
}

fn publish(writer: &Writer) -> Result<PublishReport> {
    let storage = writer.storage().as_ref();
    let Some(state) = writer.state() else {
        let (table, existing) = (writer.folder().to_owned(), writer.database().tables()?);
        return Err(crate::Error::NoSuchTable { table, existing });
    };
    let log = DeltaLog::open(storage, writer.folder())?;
    if log.version.is_none() && (state.spec.publish.is_none() || state.dropped) {
        let way = format!("`splay alter DATABASE {} publish delta` says that it is to be", state.spec.name);
        return Err(state.spec.error(format!("it isn't published: {way}")));
    }
    let target = TargetFiles::of(state);
    let (actions, changed) = difference(writer, state, &log, &target)?;
    let is_new = !actions.is_empty();
    let mut version = log.version.unwrap_or(0);
    if is_new {
        version = log.next_version();
        log.commit(storage, state.epoch, actions)?;
    }
    Ok(PublishReport {
        path: storage.display_path(writer.folder()),
        version,
        is_new,
        epoch: state.epoch,
        files: target.files.len(),
        rows: target.files.values().map(|entry| entry.rows).sum(),
        changed,
        left_out: target.left_out,
    })
}

/// The actions of the log's next version, none if its last one is up to date; and the numbers of files that they add and remove.
fn difference(
    writer: &Writer,
    state: &TableState,
    log: &DeltaLog,
    target: &TargetFiles<'_>,
) -> Result<(Vec<DeltaAction>, (usize, usize))> {
    let (spec, mut actions) = (&state.spec, Vec::new());
    if log.version.is_none() {
        actions.push(DeltaAction { protocol: Some(Protocol::ours()), ..DeltaAction::default() });
    }
    let is_shown = spec.publish.is_some() && !state.dropped;
    let schema = match &log.metadata {
        Some(former) if !is_shown => former.schema_string.clone(),
        _ => types::schema(spec)?,
    };
    let metadata = metadata(spec, schema, log.metadata.as_ref(), target)?;
    let same_types = log.metadata.as_ref().is_some_and(|former| former.schema_string == metadata.schema_string);
    if log.metadata.as_ref() != Some(&metadata) {
        actions.push(DeltaAction { meta_data: Some(metadata), ..DeltaAction::default() });
    }
    let is_there = |entry: &FileEntry| log.files.get(&entry.path).is_some_and(|add| add.is_of(entry));
    let obsolete: Vec<&Add> = log.files.values().filter(|add| !target.files.contains_key(add.path.as_str())).collect();
    let new: Vec<&FileEntry> = target.files.values().copied().filter(|entry| !is_there(entry)).collect();
    for entry in target.files.values().copied().filter(|entry| !same_types || !is_there(entry)) {
        if let Some(refusal) = types::refusal(spec, &writer.segment(entry))? {
            return Err(spec.error(format!("{} {refusal}", entry.path)));
        }
    }
    let at = now();
    let changed = (new.len(), obsolete.len());
    actions.extend(
        obsolete.into_iter().map(|add| DeltaAction { remove: Some(Remove::of(add, at)), ..DeltaAction::default() }),
    );
    for entry in new {
        let path = format!("{}/{}", writer.folder(), entry.path);
        let modified = writer.storage().identity(&path)?.modified_ns;
        let add = Add::of(entry, modified, types::partition_values(spec, entry.date), types::statistics(spec, entry));
        actions.push(DeltaAction { add: Some(add), ..DeltaAction::default() });
    }
    Ok((actions, changed))
}

/// The description of the Delta table. It keeps its identifier from version to version.
fn metadata(spec: &TableSpec, schema: String, former: Option<&Metadata>, target: &TargetFiles<'_>) -> Result<Metadata> {
    let mut configuration = former.map(|former| former.configuration.clone()).unwrap_or_default();
    configuration.retain(|name, _| !name.starts_with("splay."));
    configuration.insert("splay.table".to_owned(), spec.name.clone());
    if !target.left_out.is_empty() {
        configuration.insert("splay.leftOut".to_owned(), target.left_out());
    }
    let partition_columns = types::partition_values(spec, 0).into_keys().collect();
    let (id, created_time) = match former {
        Some(former) => (former.id.clone(), former.created_time),
        None => (action::random_id()?, Some(now() / 1_000_000)),
    };
    Ok(Metadata {
        id,
        name: Some(spec.name.clone()),
        format: action::DeltaFormat::default(),
        schema_string: schema,
        partition_columns,
        configuration,
        created_time,
    })
}

/// The number of the table's commit that a version shows, under the name by which Delta knows who wrote it.
fn transaction(epoch: u64) -> DeltaAction {
    let version = i64::try_from(epoch).unwrap_or(i64::MAX);
    let txn = DeltaTransaction { app_id: "splay".to_owned(), version, last_updated: Some(now() / 1_000_000) };
    DeltaAction { txn: Some(txn), ..DeltaAction::default() }
}
