//! Changes of a database that are interrupted at every step by the tests of crashes and faults.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    ColumnSpec, ColumnType, CompactOptions, Database, LoadOptions, OnConflict, Removal, Replace, Result, Retention,
    Selection, Settings, Table, Tier, of_dates,
};

use crate::definitions;
use crate::duplicates;
use crate::encryption;
use crate::model::{self, Model, Row, go_on, open};

type Change = Box<dyn Fn(&Database) -> Result<()>>;

/// A change, what was there before and what is there after it.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) base: FaultStorage,
    pub(crate) old: Option<Model>,
    /// None if there is no table then.
    pub(crate) new: Option<Model>,
    change: Change,
}

impl Scenario {
    /// Opens the database and changes it. Everything is closed when it returns.
    pub(crate) fn run(&self, storage: &FaultStorage) -> Result<()> {
        (self.change)(&open(storage)?)
    }

    /// How many operations the change takes, and how many of them until it stands.
    pub(crate) fn operations(&self) -> (u64, u64) {
        let storage = self.base.copy();
        self.run(&storage).unwrap();
        let new = self.new.as_ref().map(Model::batch);
        assert_eq!(model::read(&storage).unwrap(), new, "{}", self.name);
        let total = storage.operations();
        let stands = |n: &u64| {
            let storage = self.base.copy();
            storage.stop_after(Some(*n));
            let _ = self.run(&storage);
            model::read(&storage).unwrap() == new
        };
        (total, (0..=total).find(stands).unwrap())
    }
}

fn loading(rows: &[Row], options: LoadOptions) -> Change {
    let rows = rows.to_vec();
    Box::new(move |database| model::load(database, &rows, options.clone()).map(|_| ()))
}

pub(crate) fn options() -> LoadOptions {
    LoadOptions { threads: 1, ..LoadOptions::default() }
}

/// A database with one load of these rows.
pub(crate) fn loaded(rows: &[Row]) -> FaultStorage {
    let storage = FaultStorage::new();
    model::load(&open(&storage).unwrap(), rows, options()).unwrap();
    storage.copy()
}

fn load(name: &'static str, before: Vec<Row>, incoming: Vec<Row>, options: LoadOptions) -> Scenario {
    let old = Model::new(before);
    let (base, new) = (loaded(&old.rows), old.plus(&incoming));
    Scenario { name, base, old: Some(old), new: Some(new), change: loading(&incoming, options) }
}

/// The database and its first table.
pub(crate) fn creation() -> Scenario {
    let rows = model::rows(1, 60, 0..2, 4);
    let (base, new) = (FaultStorage::new(), Some(Model::new(rows.clone())));
    Scenario { name: "creation", base, old: None, new, change: loading(&rows, options()) }
}

pub(crate) fn merge() -> Scenario {
    load("merge", model::rows(2, 80, 0..1, 4), model::rows(3, 50, 0..1, 4), options())
}

/// Rows behind all that the partition has.
pub(crate) fn append() -> Scenario {
    let mut behind = model::rows(5, 50, 0..1, 4);
    behind.iter_mut().for_each(|row| (row.sym, row.time) = (Some("ÖMV"), row.time + 100_000_000_000));
    load("append", model::rows(4, 80, 0..1, 4), behind, options())
}

pub(crate) fn two_partitions() -> Scenario {
    load("two partitions", model::rows(6, 80, 0..2, 4), model::rows(7, 60, 0..3, 4), options())
}

/// More rows than the load may hold, so that they are set aside and merged.
pub(crate) fn spill() -> Scenario {
    let options = LoadOptions { memory_bytes: 1 << 20, ..options() };
    load("spill", model::rows(8, 40, 0..2, 4), model::rows(9, 2500, 0..2, 700), options)
}

/// A partition of several segments, for compaction.
fn fragments() -> (FaultStorage, Model) {
    let mut model = Model::new(model::rows(10, 60, 0..2, 4));
    let storage = loaded(&model.rows);
    for step in 1..4_i64 {
        let mut behind = model::rows(10 + step.unsigned_abs(), 30, 0..2, 4);
        behind.iter_mut().for_each(|row| (row.sym, row.time) = (Some("ÖMV"), row.time + step * 100_000_000_000));
        model = model.plus(&behind);
        model::load(&open(&storage).unwrap(), &behind, options()).unwrap();
    }
    (storage.copy(), model)
}

fn compacting(name: &'static str, format: Option<Tier>) -> Scenario {
    let (base, model) = fragments();
    let change = move |database: &Database| {
        database
            .table("trade")?
            .compact(&CompactOptions { tier: format, ..CompactOptions::default() }, &mut go_on)
            .map(|_| ())
    };
    Scenario { name, base, old: Some(model.clone()), new: Some(model), change: Box::new(change) }
}

pub(crate) fn compaction() -> Scenario {
    compacting("compaction", None)
}

pub(crate) fn compaction_to_fast() -> Scenario {
    compacting("compaction to the tier fast", Some(Tier::Fast))
}

pub(crate) fn compaction_to_small() -> Scenario {
    compacting("compaction to the tier small", Some(Tier::Small))
}

pub(crate) fn compaction_to_dense() -> Scenario {
    compacting("compaction to the tier dense", Some(Tier::Dense))
}

/// Dates of a database with keys become encrypted ones.
pub(crate) fn compaction_to_encrypted() -> Scenario {
    let Scenario { old, new, .. } = compacting("", None);
    let storage = FaultStorage::new();
    let settings = Settings { encryption: Some(encryption::settings()), ..Settings::default() };
    let database = Database::create_on(Arc::new(storage.clone()), &settings).unwrap();
    loading(&old.as_ref().unwrap().rows, options())(&database).unwrap();
    drop(database);
    let change = |database: &Database| {
        let options = CompactOptions { tier: Some(Tier::Fast), ..CompactOptions::default() };
        database.table("trade")?.compact(&options, &mut go_on).map(drop)
    };
    Scenario { name: "compaction to encrypted dates", base: storage.copy(), old, new, change: Box::new(change) }
}

/// Dense dates become mapped ones.
pub(crate) fn compaction_from_dense() -> Scenario {
    let Scenario { base, old, new, .. } = compacting("", None);
    let to = |database: &Database, tier| {
        let options = CompactOptions { tier: Some(tier), ..CompactOptions::default() };
        database.table("trade")?.compact(&options, &mut go_on).map(drop)
    };
    let database = open(&base).unwrap();
    to(&database, Tier::Dense).unwrap();
    drop(database);
    let change = move |database: &Database| to(database, Tier::Mapped);
    Scenario { name: "compaction of the tier dense", base: base.copy(), old, new, change: Box::new(change) }
}

pub(crate) fn add_column() -> Scenario {
    let old = Model::new(model::rows(20, 50, 0..2, 4));
    let mut new = old.clone();
    new.spec.columns.push(ColumnSpec::new("venue", ColumnType::Symbol));
    let change =
        |database: &Database| database.table("trade")?.add_column(ColumnSpec::new("venue", ColumnType::Symbol));
    Scenario { name: "add column", base: loaded(&old.rows), old: Some(old), new: Some(new), change: Box::new(change) }
}

pub(crate) fn widen_column() -> Scenario {
    let old = Model::new(model::rows(21, 50, 0..2, 4));
    let mut new = old.clone();
    new.spec.columns[3].column_type = ColumnType::Int64;
    let change = |database: &Database| database.table("trade")?.widen_column("size", ColumnType::Int64);
    Scenario { name: "widen column", base: loaded(&old.rows), old: Some(old), new: Some(new), change: Box::new(change) }
}

/// A change of the table `trade`.
pub(crate) fn changing(
    name: &'static str,
    old: Model,
    new: Option<Model>,
    change: impl Fn(&Table) -> Result<()> + 'static,
) -> Scenario {
    let base = loaded(&old.rows);
    Scenario { name, base, old: Some(old), new, change: Box::new(move |database| change(&database.table("trade")?)) }
}

impl Scenario {
    /// A change of a database that has a history.
    pub(crate) fn of(
        name: &'static str,
        base: &FaultStorage,
        (old, new): (Option<Model>, Option<Model>),
        change: impl Fn(&Database) -> Result<()> + 'static,
    ) -> Scenario {
        Scenario { name, base: base.copy(), old, new, change: Box::new(change) }
    }
}

pub(crate) fn delete() -> Scenario {
    let old = Model::new(model::rows(30, 90, 0..3, 4));
    let new = old.without(|row| row.is_smaller(300));
    changing("delete", old, Some(new), |table| table.delete(model::smaller(300)).map(drop))
}

pub(crate) fn delete_a_date() -> Scenario {
    let old = Model::new(model::rows(31, 90, 0..3, 4));
    let new = old.without(|row| row.date() == 1);
    changing("delete a date", old, Some(new), |table| {
        let removal = Removal::of(table.snapshot()?.spec(), of_dates(1, 1))?;
        table.delete(removal).map(drop)
    })
}

pub(crate) fn replace(by: Replace) -> Scenario {
    let (old, incoming) = (Model::new(model::rows(32, 90, 0..3, 4)), model::rows(33, 8, 1..3, 4));
    let goes = |row: &Row| {
        let of_date = |new: &&Row| new.date() == row.date() && (by == Replace::Dates || new.sym == row.sym);
        incoming.iter().any(|new| of_date(&new))
    };
    let (new, base) = (old.without(goes).plus(&incoming), loaded(&old.rows));
    let change = loading(&incoming, LoadOptions { replace: by, ..options() });
    Scenario {
        name: if by == Replace::Dates { "replace dates" } else { "replace symbols" },
        base,
        old: Some(old),
        new: Some(new),
        change,
    }
}

/// A load that leaves out what is stored already, in memory or with rows set aside.
pub(crate) fn dedupe(name: &'static str, note_bytes: usize, memory_bytes: usize) -> Scenario {
    let count = if note_bytes > 0 { 1500 } else { 60 };
    let old = Model::new(duplicates::alike(38, count, 0..3, note_bytes));
    let incoming = duplicates::alike(39, count, 1..3, note_bytes);
    let dedupe = duplicates::by("exact");
    let (new, base) = (old.plus(&duplicates::fresh(&old.rows, &incoming, &dedupe)), loaded(&old.rows));
    let options = LoadOptions { memory_bytes, dedupe: Some(dedupe), ..options() };
    Scenario { name, base, old: Some(old), new: Some(new), change: loading(&incoming, options) }
}

pub(crate) fn expire() -> Scenario {
    let old = Model::new(model::rows(34, 90, 0..4, 4));
    let new = old.without(|row| row.date() < 2);
    changing("expire", old, Some(new), |table| table.expire(Retention { days: Some(2), bytes: None }, false).map(drop))
}

/// Files that a deletion removed come back, and what a later load brought stays.
pub(crate) fn undo() -> Scenario {
    let (first, later) = (model::rows(35, 90, 0..3, 4), model::rows(36, 30, 0..1, 4));
    let base = loaded(&first);
    let table = open(&base).unwrap().table("trade").unwrap();
    table.delete(model::smaller(300)).unwrap();
    model::load(&open(&base).unwrap(), &later, options()).unwrap();
    let old = Model::new(first.clone()).without(|row| row.is_smaller(300)).plus(&later);
    let new = Model::new(first).plus(&later);
    let change = |database: &Database| database.table("trade")?.undo(2).map(drop);
    Scenario { name: "undo", base: base.copy(), old: Some(old), new: Some(new), change: Box::new(change) }
}

/// The files that a deletion kept go.
pub(crate) fn forget() -> Scenario {
    let old = Model::new(model::rows(37, 90, 0..3, 4));
    let base = loaded(&old.rows);
    open(&base).unwrap().table("trade").unwrap().delete(model::smaller(300)).unwrap();
    let new = old.without(|row| row.is_smaller(300));
    let change = |database: &Database| database.table("trade")?.forget(true).map(drop);
    Scenario { name: "forget", base: base.copy(), old: Some(new.clone()), new: Some(new), change: Box::new(change) }
}

/// A database whose one table was called `trade` and isn't any more.
fn renamed(rows: &[Row]) -> FaultStorage {
    let base = loaded(rows);
    open(&base).unwrap().table("trade").unwrap().rename("tape", |_| false).unwrap();
    base.copy()
}

/// A table gets a name, and a table is made whose name another one's folder has.
pub(crate) fn names() -> Vec<Scenario> {
    let (first, second) = (model::rows(45, 70, 0..2, 4), model::rows(46, 50, 0..2, 4));
    let rename = |database: &Database| database.table("tape")?.rename("trade", |_| false).map(drop);
    let (of_first, of_second) = (Model::new(first.clone()), Model::new(second.clone()));
    let base = renamed(&first);
    vec![
        Scenario { name: "rename", base: base.copy(), old: None, new: Some(of_first), change: Box::new(rename) },
        Scenario {
            name: "creation beside a renamed table",
            base,
            old: None,
            new: Some(of_second),
            change: loading(&second, options()),
        },
    ]
}

/// Changes of rows that are there.
pub(crate) fn changes() -> Vec<Scenario> {
    let replaces = [Replace::Dates, Replace::Symbols].map(replace);
    let deduped = [dedupe("dedupe", 0, 1 << 30), dedupe("dedupe with runs", 900, 1 << 20)];
    [delete(), delete_a_date(), truncate(), update(), expire(), undo()]
        .into_iter()
        .chain(deduped)
        .chain(replaces)
        .collect()
}

/// The rows with twice their size.
fn doubled(rows: RecordBatch) -> Result<RecordBatch> {
    let size = rows.column(3).as_primitive::<Int32Type>();
    let mut columns = rows.columns().to_vec();
    columns[3] = Arc::new(size.unary::<_, Int32Type>(|size| size * 2));
    Ok(RecordBatch::try_new(rows.schema(), columns)?)
}

/// Rows that are changed are behind others of their symbol and time.
pub(crate) fn update() -> Scenario {
    let old = Model::new(model::rows(47, 90, 0..3, 4));
    let mut changed = old.without(|row| !row.is_smaller(300)).rows;
    changed.iter_mut().for_each(|row| row.size = row.size.map(|size| size * 2));
    let new = old.without(|row| row.is_smaller(300)).plus(&changed);
    changing("update", old, Some(new), |table| table.update(model::smaller(300), &mut doubled).map(drop))
}

/// All rows go.
pub(crate) fn truncate() -> Scenario {
    let old = Model::new(model::rows(48, 90, 0..3, 4));
    changing("truncate", old, Some(Model::new(Vec::new())), |table| {
        let removal = Removal::of(table.snapshot()?.spec(), Selection::default())?;
        table.delete(removal).map(drop)
    })
}

fn keyed_base(rows: &[Row]) -> FaultStorage {
    let storage = FaultStorage::new();
    let mut load = open(&storage).unwrap().load(&model::keyed(), options()).unwrap();
    load.append(&model::batch(rows)).unwrap();
    load.commit().unwrap();
    storage.copy()
}

/// Changes of a reference table: its first rows, new ones, new ones in the place of others, an update, a deletion, an undo, all rows
/// replaced.
pub(crate) fn of_reference() -> Vec<Scenario> {
    let old = Model::keyed(model::keyed_rows(40, 120, 0..3));
    let base = keyed_base(&old.rows);
    let (fresh, meeting) = (model::keyed_rows(41, 40, 5..7), model::keyed_rows(42, 60, 0..4));
    let scenario = |name, new: &Model, change: Change| Scenario {
        name,
        base: base.copy(),
        old: Some(old.clone()),
        new: Some(new.clone()),
        change,
    };
    let update = |options: LoadOptions| LoadOptions { on_conflict: OnConflict::Replace, ..options };
    let rows = old.rows.clone();
    let create: Change = Box::new(move |database| {
        let mut load = database.load(&model::keyed(), options())?;
        load.append(&model::batch(&rows))?;
        load.commit().map(drop)
    });
    let creation = Scenario {
        name: "reference table",
        base: FaultStorage::new(),
        old: None,
        new: Some(old.clone()),
        change: create,
    };
    let upserted = old.upserted(&meeting);
    let after = base.copy();
    model::load(&open(&after).unwrap(), &meeting, update(options())).unwrap();
    model::load(&open(&after).unwrap(), &fresh, options()).unwrap();
    let undo = Scenario {
        name: "undo of new rows in the place of others",
        base: after.copy(),
        old: Some(upserted.plus(&fresh)),
        new: Some(old.plus(&fresh)),
        change: Box::new(|database| database.table("trade")?.undo(2).map(drop)),
    };
    let mut changed = old.clone();
    changed.rows.iter_mut().filter(|row| row.is_smaller(300)).for_each(|row| row.size = row.size.map(|size| size * 2));
    let delete = |database: &Database| database.table("trade")?.delete(model::smaller(300)).map(drop);
    let whole = LoadOptions { replace: Replace::Table, ..options() };
    vec![
        creation,
        scenario("rows of new keys", &old.plus(&fresh), loading(&fresh, options())),
        scenario("new rows in the place of others", &upserted, loading(&meeting, update(options()))),
        scenario(
            "update of keyed rows",
            &changed,
            Box::new(|database| database.table("trade")?.update(model::smaller(300), &mut doubled).map(drop)),
        ),
        scenario("deletion of keyed rows", &old.without(|row| row.is_smaller(300)), Box::new(delete)),
        scenario("all rows replaced", &Model::keyed(fresh.clone()), loading(&fresh, whole)),
        undo,
    ]
}

/// The commit at which a long log is replaced by what it adds up to.
pub(crate) fn log_replacement() -> Scenario {
    let mut old = Model::new(model::rows(22, 20, 0..1, 4));
    let storage = loaded(&old.rows);
    for number in 0.. {
        let column = ColumnSpec::new(format!("{number:0100}"), ColumnType::Bool);
        let (base, mut new) = (storage.copy(), old.clone());
        new.spec.columns.push(column.clone());
        open(&storage).unwrap().table("trade").unwrap().add_column(column.clone()).unwrap();
        if storage.paths().iter().any(|path| path.ends_with("000002.log")) {
            let change = move |database: &Database| database.table("trade")?.add_column(column.clone());
            return Scenario {
                name: "log replacement",
                base,
                old: Some(old),
                new: Some(new),
                change: Box::new(change),
            };
        }
        old = new;
    }
    unreachable!("the log grows without end")
}

/// All of them, by name.
pub(crate) fn all() -> Vec<Scenario> {
    let quick = [
        creation,
        merge,
        append,
        two_partitions,
        compaction,
        compaction_to_fast,
        compaction_to_small,
        add_column,
        widen_column,
        retype_column,
    ];
    let others = [spill(), log_replacement()];
    let made = quick.iter().map(|make| make()).chain(others).chain(definitions::all());
    made.chain(changes()).chain(of_reference()).chain(names()).collect()
}

/// A load that follows on a scenario, on any state of the database.
pub(crate) fn next_load(storage: &FaultStorage) -> (Vec<Row>, Result<()>) {
    // No snapshot is left, whose files the load would have to keep.
    let table = open(storage).and_then(|database| database.table("trade")?.snapshot());
    let is_reference = table.is_ok_and(|table| table.spec().reference.is_some());
    let rows = if is_reference { model::keyed_rows(99, 25, 50..52) } else { model::rows(99, 25, 0..2, 4) };
    let result = open(storage).and_then(|database| loading(&rows, options())(&database));
    (rows, result)
}

/// Checks that a load on this storage works, keeps the rows there are, and leaves no file that nobody names.
pub(crate) fn assert_usable(storage: &FaultStorage, before: Option<&Model>, what: &str) {
    let (rows, result) = next_load(storage);
    result.unwrap_or_else(|error| panic!("{what}: the next load: {error}"));
    let expected = before.map_or_else(|| Model::new(rows.clone()), |model| model.plus(&rows));
    assert_eq!(model::read(storage).unwrap(), Some(expected.batch()), "{what}: after the next load");
    // What was left in the folder of another table goes with the next change of that one.
    let database = open(storage).unwrap();
    for table in database.tables().unwrap() {
        database.table(&table).unwrap().forget(false).unwrap();
    }
    assert_eq!(storage.paths(), model::expected_paths(storage), "{what}: files after the next load");
}

/// Which of the models a storage holds.
pub(crate) fn matching_model<'a>(
    storage: &FaultStorage,
    candidates: &[Option<&'a Model>],
    what: &str,
) -> Option<&'a Model> {
    let stored = model::read(storage).unwrap_or_else(|error| panic!("{what}: {error}"));
    let matches = |model: &&Option<&Model>| model.map(Model::batch) == stored;
    *candidates.iter().find(matches).unwrap_or_else(|| {
        let rows = stored.as_ref().map(arrow::array::RecordBatch::num_rows);
        panic!("{what}: neither old nor new rows, but {rows:?}")
    })
}

/// Storage as a trait object.
pub(crate) fn shared(storage: &FaultStorage) -> Arc<FaultStorage> {
    Arc::new(storage.clone())
}

/// A column of text becomes one of symbols, and its files are written anew.
pub(crate) fn retype_column() -> Scenario {
    let old = Model::new(model::rows(23, 50, 0..2, 4));
    let mut new = old.clone();
    new.spec.columns[4].column_type = ColumnType::Symbol;
    let change = |database: &Database| database.table("trade")?.widen_column("note", ColumnType::Symbol);
    Scenario {
        name: "retype column",
        base: loaded(&old.rows),
        old: Some(old),
        new: Some(new),
        change: Box::new(change),
    }
}
