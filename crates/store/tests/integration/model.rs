//! The plain truth that the store is compared with: a table as a list of rows, sorted.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray,
    TimestampNanosecondArray, new_null_array,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::Int32Type;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    ColumnSpec, ColumnType, Database, Error, LoadOptions, Reference, Removal, Result, Selection, Settings, TableSpec,
};

/// An observer that lets everything go on.
pub(crate) fn go_on(_bytes: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub(crate) const DAY: i64 = 86_400_000_000_000;

/// One row of the table `trade`.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) time: i64,
    pub(crate) sym: Option<&'static str>,
    pub(crate) price: f64,
    pub(crate) size: Option<i32>,
    pub(crate) note: Option<String>,
}

/// What a table should hold.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) spec: TableSpec,
    /// In order of arrival.
    pub(crate) rows: Vec<Row>,
}

pub(crate) fn trade() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("price", ColumnType::Float64),
        ColumnSpec::new("size", ColumnType::Int32),
        ColumnSpec::new("note", ColumnType::Text),
    ];
    TableSpec::new("trade", columns, "time", Some("sym"))
}

/// The same as a reference table: each symbol once at a time from which on its row is in effect.
pub(crate) fn keyed() -> TableSpec {
    let reference = Reference { key: vec!["sym".to_owned(), "time".to_owned()], effective: Some("time".to_owned()) };
    TableSpec::of_reference("trade", trade().columns, reference)
}

/// Rows with a symbol, of which none has the symbol and time of another.
pub(crate) fn keyed_rows(seed: u64, count: usize, days: std::ops::Range<i64>) -> Vec<Row> {
    let mut seen = std::collections::HashSet::new();
    let mut rows = rows(seed, count, days, 4);
    rows.retain(|row| row.sym.is_some() && seen.insert((row.sym, row.time)));
    rows
}

pub(crate) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Random rows of the given days, with ties, nulls and no order. `note_bytes` makes them wide.
pub(crate) fn rows(seed: u64, count: usize, days: std::ops::Range<i64>, note_bytes: usize) -> Vec<Row> {
    let mut rng = rng(seed);
    let symbols = [None, Some("AAPL"), Some("IBM"), Some("MSFT"), Some("ÖMV")];
    let row = |_| Row {
        time: rng.random_range(days.clone()) * DAY + rng.random_range(0..50) * 1_000_000_000,
        sym: symbols[rng.random_range(0..symbols.len())],
        price: f64::from(rng.random_range(0..10_000)) / 100.0,
        size: rng.random_bool(0.8).then(|| rng.random_range(-5..1000)),
        note: rng.random_bool(0.7).then(|| format!("{:0note_bytes$}", rng.random_range(0..1000))),
    };
    (0..count).map(row).collect()
}

/// Rows as a batch of the table `trade`, in the given order.
pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    let symbols: DictionaryArray<Int32Type> = rows.iter().map(|row| row.sym).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.time)).with_timezone("UTC")),
        Arc::new(symbols),
        Arc::new(rows.iter().map(|row| row.price).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.size).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|row| row.note.as_deref()).collect::<StringArray>()),
    ];
    RecordBatch::try_new(trade().arrow(), columns).unwrap()
}

impl Model {
    pub(crate) fn new(rows: Vec<Row>) -> Model {
        Model { spec: trade(), rows }
    }

    pub(crate) fn keyed(rows: Vec<Row>) -> Model {
        Model { spec: keyed(), rows }
    }

    /// With these rows in the place of those that have their keys.
    pub(crate) fn upserted(&self, rows: &[Row]) -> Model {
        let same = |old: &Row| rows.iter().any(|new| (new.sym, new.time) == (old.sym, old.time));
        self.without(same).plus(rows)
    }

    pub(crate) fn plus(&self, rows: &[Row]) -> Model {
        Model { spec: self.spec.clone(), rows: [&self.rows[..], rows].concat() }
    }

    /// All rows as the store shall give them: by partition, symbol (null first), time, arrival.
    pub(crate) fn batch(&self) -> RecordBatch {
        let mut sorted = self.rows.clone();
        // A reference table has one partition.
        let partition =
            |row: &Row| if self.spec.reference.is_some() { 0 } else { self.spec.partition.first(row.date()) };
        sorted.sort_by_key(|row| (partition(row), row.sym, row.time));
        fit(&self.spec, &batch(&sorted))
    }
}

/// Every row of a table in order, or `None` if there is no table or no database.
pub(crate) fn read(storage: &FaultStorage) -> Result<Option<RecordBatch>> {
    let database = match Database::open_on(Arc::new(storage.clone())) {
        Ok(database) => database,
        Err(Error::NotADatabase { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    match database.table("trade") {
        Ok(_) => read_table(&database, "trade").map(Some),
        Err(Error::NoSuchTable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn read_table(database: &Database, table: &str) -> Result<RecordBatch> {
    read_snapshot(&database.table(table)?.snapshot()?, &Selection::default())
}

/// The rows whose size is less than a bound.
pub(crate) fn smaller(bound: i32) -> Removal {
    let columns = vec![3];
    Removal::matching(Selection::default(), columns, move |rows| {
        let sizes = rows.column(0).as_primitive::<Int32Type>();
        Ok(sizes.iter().map(|size| size.map(|size| size < bound)).collect::<BooleanArray>())
    })
}

impl Row {
    pub(crate) fn is_smaller(&self, bound: i32) -> bool {
        self.size.is_some_and(|size| size < bound)
    }

    pub(crate) fn date(&self) -> i32 {
        i32::try_from(self.time.div_euclid(DAY)).unwrap()
    }
}

impl Model {
    /// Without the rows that go.
    pub(crate) fn without(&self, goes: impl Fn(&Row) -> bool) -> Model {
        Model { spec: self.spec.clone(), rows: self.rows.iter().filter(|row| !goes(row)).cloned().collect() }
    }
}

/// All rows of the pieces that are selected.
pub(crate) fn read_snapshot(snapshot: &splay_store::TableSnapshot, selection: &Selection) -> Result<RecordBatch> {
    let all: Vec<usize> = (0..snapshot.spec().columns.len()).collect();
    let (pieces, stats) = snapshot.select(selection)?;
    let read = |piece: &splay_store::SegmentRows| piece.segment.read(snapshot.spec(), &all, piece.rows.clone());
    let parts = pieces.iter().map(read).collect::<Result<Vec<_>>>()?;
    let rows = concat_batches(&snapshot.spec().arrow(), &parts).unwrap();
    assert_eq!(rows.num_rows() as u64, stats.rows.selected);
    Ok(rows)
}

/// Opens or creates a database on storage.
pub(crate) fn open(storage: &FaultStorage) -> Result<Database> {
    match Database::open_on(Arc::new(storage.clone())) {
        Err(Error::NotADatabase { .. }) => Database::create_on(Arc::new(storage.clone()), &Settings::default()),
        other => other,
    }
}

/// Loads rows in batches of at most 700.
pub(crate) fn load(database: &Database, rows: &[Row], options: LoadOptions) -> Result<splay_store::LoadReport> {
    let mut load = database.load(&trade_of(database)?, options)?;
    for part in rows.chunks(700) {
        load.append(&fit(load.spec(), &batch(part)))?;
    }
    load.commit()
}

/// The table's own schema, or that of `trade` if there is none yet.
fn trade_of(database: &Database) -> Result<TableSpec> {
    match database.table("trade") {
        Ok(table) => Ok(table.snapshot()?.spec().clone()),
        Err(Error::NoSuchTable { .. }) => Ok(trade()),
        Err(error) => Err(error),
    }
}

/// The rows of a batch in the types of a table that was changed since.
pub(crate) fn fit(spec: &TableSpec, rows: &RecordBatch) -> RecordBatch {
    let schema = spec.arrow();
    let column = |(column, field): (&ColumnSpec, &Arc<arrow::datatypes::Field>)| {
        let mut names = [&column.name].into_iter().chain(&column.formerly);
        match names.find_map(|name| rows.column_by_name(name)) {
            Some(column) => cast(column, field.data_type()).unwrap(),
            None => new_null_array(field.data_type(), rows.num_rows()),
        }
    };
    let columns = spec.columns.iter().zip(schema.fields()).map(column).collect();
    RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
}

/// The files that a database consists of.
pub(crate) fn expected_paths(storage: &FaultStorage) -> Vec<String> {
    let database = Database::open_on(Arc::new(storage.clone())).unwrap();
    let mut paths: Vec<String> = ["splay.toml", "readers.lock"].map(str::to_owned).to_vec();
    for table in database.tables().unwrap() {
        let snapshot = database.table(&table).unwrap().snapshot().unwrap();
        let folder = snapshot.folder();
        let segments = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
        for entry in segments.map(|segment| segment.entry()).chain(snapshot.undo_files()) {
            paths.extend(entry.object.is_none().then(|| format!("{folder}/{}", entry.path)));
            paths.push(format!("{folder}/{}", entry.index_path()));
        }
        let head = storage.read(&format!("{folder}/manifest/HEAD")).unwrap();
        let log = u64::from_le_bytes(head[12..20].try_into().unwrap());
        paths.extend(["HEAD", "CREATED", &format!("{log:06}.log")].map(|file| format!("{folder}/manifest/{file}")));
    }
    // Of databases that have written objects.
    paths.extend(storage.paths().into_iter().filter(|path| path == "objects.json"));
    paths.sort();
    paths
}
