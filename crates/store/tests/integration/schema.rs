//! What may be stored, and how a table may change: everything else is refused whole.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    ColumnBounds, ColumnSpec, ColumnType, Database, Error, LoadOptions, Selection, Settings, Source, TableSpec, Tier,
    ValueKind, WriteDownPosition, sortable,
};

use crate::model::{self, Model, batch, load, open, read_table, trade};
use crate::scenario;

fn new_database() -> Database {
    Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap()
}

fn types() -> Vec<ColumnType> {
    let names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 decimal(9,2) decimal(12,2) \
                 decimal(12,4) decimal(9,4) date time timestamp symbol text levels(3)";
    names.split_whitespace().map(|name| name.parse().unwrap()).collect()
}

/// Small values and the ends of a type, as text that Arrow casts from; null in between.
fn samples(column_type: &ColumnType) -> ArrayRef {
    let ends: Vec<Option<&str>> = match column_type {
        ColumnType::Int8 => vec![Some("-128"), None, Some("127")],
        ColumnType::Int16 => vec![Some("-32768"), None, Some("32767")],
        ColumnType::Int32 => vec![Some("-2147483648"), None, Some("2147483647")],
        ColumnType::UInt8 => vec![Some("0"), None, Some("255")],
        ColumnType::UInt16 => vec![Some("1"), None, Some("65535")],
        ColumnType::UInt32 => vec![Some("1"), None, Some("4294967295")],
        ColumnType::Float32 => vec![Some("-0.5"), None, Some("16777216")],
        ColumnType::Decimal { scale: 2, .. } => vec![Some("-1234567.89"), None, Some("9999999.99")],
        ColumnType::Decimal { scale: 4, .. } => vec![Some("-12345.6789"), None, Some("0.0001")],
        ColumnType::Symbol => vec![Some("IBM"), None, Some("")],
        _ => vec![None, None, None],
    };
    cast(&StringArray::from(ends), &column_type.arrow()).unwrap()
}

fn table_of(value: &ColumnType) -> TableSpec {
    let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp), ColumnSpec::new("value", value.clone())];
    TableSpec::new("t", columns, "time", None)
}

fn three_rows(database: &Database, spec: &TableSpec, value: ArrayRef, format: Tier) {
    let time = Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3]).with_timezone("UTC"));
    let mut load = database.load(spec, LoadOptions { tier: Some(format), ..LoadOptions::default() }).unwrap();
    load.append(&RecordBatch::try_new(spec.arrow(), vec![time, value]).unwrap()).unwrap();
    load.commit().unwrap();
}

#[test]
fn a_wider_column_has_equal_values_and_a_lossy_one_is_refused() {
    let mut widened = 0;
    for (from, to) in types().iter().flat_map(|from| types().into_iter().map(move |to| (from.clone(), to))) {
        if matches!(
            (&from, &to),
            (ColumnType::Int64 | ColumnType::UInt64, ColumnType::Float64) | (ColumnType::Text, ColumnType::Symbol)
        ) {
            // Depends on the values.
            continue;
        }
        for format in Tier::LOCAL {
            let database = new_database();
            let values =
                if from.widens_to(&to) { samples(&from) } else { arrow::array::new_null_array(&from.arrow(), 3) };
            three_rows(&database, &table_of(&from), Arc::clone(&values), format);
            let table = database.table("t").unwrap();
            let result = table.widen_column("VALUE", to.clone());
            if !from.widens_to(&to) {
                assert!(matches!(result, Err(Error::Schema { .. })), "{from} to {to}");
                continue;
            }
            result.unwrap();
            let column = Arc::clone(read_table(&database, "t").unwrap().column(1));
            assert_eq!(column.data_type(), &to.arrow());
            assert_eq!(&cast(&column, &from.arrow()).unwrap(), &values, "{from} to {to}: {column:?}");
            assert_eq!(column.null_count(), 1);
            // Rows of the new type beside those of the old one.
            three_rows(&database, &table_of(&to), Arc::clone(&column), format);
            assert_eq!(read_table(&database, "t").unwrap().num_rows(), 6);
            widened += 1;
        }
    }
    assert_eq!(widened, Tier::LOCAL.len() * 33, "pairs that widen, in each tier");
}

#[test]
fn whole_numbers_become_floats_and_texts_symbols_if_nothing_is_lost() {
    use arrow::array::{Int64Array, UInt64Array};
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("XNAS"), None, Some("")]));
    let small: ArrayRef = Arc::new(Int64Array::from(vec![Some(-3), None, Some(1 << 60)]));
    let large: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MAX)]));
    let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1), None, Some((1 << 53) + 1)]));
    for (values, from, to, is_fine) in [
        (texts, ColumnType::Text, ColumnType::Symbol, true),
        (small, ColumnType::Int64, ColumnType::Float64, true),
        (large, ColumnType::Int64, ColumnType::Float64, false),
        (unsigned, ColumnType::UInt64, ColumnType::Float64, false),
    ] {
        for tier in Tier::LOCAL {
            let database = new_database();
            three_rows(&database, &table_of(&from), Arc::clone(&values), tier);
            three_rows(&database, &table_of(&from), Arc::clone(&values), tier);
            let table = database.table("t").unwrap();
            let before = table.snapshot().unwrap();
            let result = table.widen_column("VALUE", to.clone());
            let column = Arc::clone(read_table(&database, "t").unwrap().column(1));
            if !is_fine {
                let reason = result.unwrap_err().to_string();
                assert!(reason.contains("which no float64 is equal to"), "{reason}");
                assert_eq!((column.data_type(), table.stored().unwrap().epoch()), (&from.arrow(), 2));
                continue;
            }
            result.unwrap();
            assert_eq!(column.data_type(), &to.arrow());
            let twice = arrow::compute::concat(&[&values, &values]).unwrap();
            let times = arrow::array::UInt32Array::from(vec![0, 3, 1, 4, 2, 5]);
            let expected = arrow::compute::take(&twice, &times, None).unwrap();
            assert_eq!(&cast(&column, &from.arrow()).unwrap(), &expected, "{from} to {to}");
            let stored = table.stored().unwrap();
            let mut segments = stored.partitions().iter().flat_map(|partition| partition.segments.iter());
            assert!(segments.all(|segment| segment.entry().tier == tier));
            assert_eq!(before.spec().columns[1].column_type, from, "a snapshot stays as it was");
            // What came before can be undone, and read as it was.
            let first = table.at_commit(1).unwrap();
            assert_eq!((first.rows(), &first.spec().columns[1].column_type), (3, &from));
            table.undo(2).unwrap();
            assert_eq!(
                cast(read_table(&database, "t").unwrap().column(1), &from.arrow()).unwrap().as_ref(),
                values.as_ref()
            );
            // Rows of the new type beside those.
            three_rows(&database, &table_of(&to), cast(&values, &to.arrow()).unwrap(), tier);
            assert_eq!(read_table(&database, "t").unwrap().num_rows(), 6);
        }
    }
}

/// Bounds in the new type were compared with summaries in the old one, and rows were left out.
#[test]
fn bounds_on_a_wider_column_leave_out_no_row() {
    let database = new_database();
    three_rows(&database, &table_of(&ColumnType::Int32), samples(&ColumnType::Int32), Tier::Mapped);
    let table = database.table("t").unwrap();
    table.widen_column("value", ColumnType::Float64).unwrap();
    let bits = |value: f64| sortable(ValueKind::Float, value.to_bits());
    for bounds in [(bits(2_147_483_647.0), bits(1e300)), (bits(-1e300), bits(-2_147_483_648.0))] {
        let columns = vec![ColumnBounds { column: "value".to_owned(), kind: ValueKind::Float, bounds }];
        let selection = Selection { columns, ..Selection::default() };
        let (pieces, _) = table.snapshot().unwrap().select(&selection).unwrap();
        assert_eq!(pieces.len(), 1, "{bounds:?}");
    }
}

#[test]
fn a_new_column_is_null_in_old_rows() {
    for format in Tier::LOCAL {
        for added in types() {
            let database = new_database();
            load(&database, &model::rows(1, 50, 0..2, 4), LoadOptions { tier: Some(format), ..LoadOptions::default() })
                .unwrap();
            let table = database.table("trade").unwrap();
            table.add_column(ColumnSpec::new("new", added.clone())).unwrap();
            let column = Arc::clone(read_table(&database, "trade").unwrap().column(5));
            assert_eq!((column.data_type(), column.logical_null_count()), (&added.arrow(), 50));
            let snapshot = table.snapshot().unwrap();
            let alone = snapshot.partitions()[0].segments[0].read(snapshot.spec(), &[5], 0..3).unwrap();
            assert_eq!((alone.num_rows(), alone.num_columns()), (3, 1));
            table.add_column(ColumnSpec::new("NEW", added.clone())).unwrap_err();
            // A merge with rows that have it.
            load(&database, &model::rows(2, 50, 0..2, 4), LoadOptions::default()).unwrap();
            assert_eq!(read_table(&database, "trade").unwrap().num_rows(), 100);
        }
    }
}

/// Each column was a commit of its own: 3,900 of them took 80 s.
#[test]
fn columns_are_added_by_one_commit_all_or_none() {
    let database = new_database();
    load(&database, &model::rows(1, 10, 0..1, 4), LoadOptions::default()).unwrap();
    let table = database.table("trade").unwrap();
    let before = table.snapshot().unwrap();
    let column = |name: &str| ColumnSpec::new(name, ColumnType::Float64);
    for names in [["a", "A"], ["a", "price"]] {
        table.add_columns(names.map(column).to_vec()).unwrap_err();
    }
    assert_eq!(table.snapshot().unwrap().epoch(), before.epoch());
    table.add_columns((0..500).map(|i| column(&format!("c{i}"))).collect()).unwrap();
    let after = table.snapshot().unwrap();
    assert_eq!(after.epoch(), before.epoch() + 1);
    assert_eq!(after.spec().columns.len(), before.spec().columns.len() + 500);
}

#[test]
fn a_load_may_bring_a_new_column_and_lack_an_old_one() {
    let database = new_database();
    load(&database, &model::rows(1, 30, 0..1, 4), LoadOptions::default()).unwrap();
    let mut spec = trade();
    spec.columns.remove(4);
    spec.columns.insert(0, ColumnSpec::new("Extra", ColumnType::Int64));
    let rows = batch(&model::rows(2, 30, 0..1, 4));
    let mut columns: Vec<ArrayRef> = rows.columns()[..4].to_vec();
    columns.insert(0, Arc::new(Int64Array::from_iter_values(0..30)));
    let mut loading = database.load(&spec, LoadOptions::default()).unwrap();
    loading.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
    loading.commit().unwrap();
    let all = read_table(&database, "trade").unwrap();
    assert_eq!(all.column_by_name("Extra").unwrap().null_count(), 30);
    assert_eq!(all.num_rows(), 60);
}

#[test]
fn a_conflicting_load_is_refused_whole() {
    let before = Model::new(model::rows(1, 30, 0..1, 4));
    let storage = scenario::loaded(&before.rows);
    let database = open(&storage).unwrap();
    type Edit = fn(&mut TableSpec);
    let edits: [(&str, Edit); 6] = [
        ("float64", |spec| spec.columns[2].column_type = ColumnType::Int64),
        ("time column", |spec| {
            spec.columns.push(ColumnSpec::new("other", ColumnType::Timestamp));
            spec.time = "other".to_owned();
        }),
        ("symbol column", |spec| spec.symbol = None),
        ("America/New_York", |spec| spec.time_zone = "America/New_York".to_owned()),
        ("differ only in case", |spec| spec.columns.push(ColumnSpec::new("PRICE", ColumnType::Float64))),
        ("levels(0)", |spec| spec.columns.push(ColumnSpec::new("bids", ColumnType::Levels { size: 0 }))),
    ];
    for (reason, edit) in edits {
        let mut spec = trade();
        edit(&mut spec);
        let error = database.load(&spec, LoadOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Schema { .. }) && error.to_string().contains(reason), "{error}");
    }
    scenario::assert_usable(&storage, Some(&before), "after refusals");
}

#[test]
fn a_bad_batch_is_refused_and_the_load_goes_on() {
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let rows = model::rows(1, 10, 0..1, 4);
    let mut loading = database.load(&trade(), LoadOptions::default()).unwrap();
    loading.append(&batch(&rows)).unwrap();

    let replace = |name: &str, array: ArrayRef| {
        let good = batch(&rows);
        let with = |field: &Arc<Field>, old: &ArrayRef| {
            if field.name() == name { Arc::clone(&array) } else { Arc::clone(old) }
        };
        let columns: Vec<ArrayRef> =
            good.schema().fields().iter().zip(good.columns()).map(|(f, c)| with(f, c)).collect();
        let field =
            |(field, column): (&Arc<Field>, &ArrayRef)| Field::new(field.name(), column.data_type().clone(), true);
        let schema = Schema::new(good.schema().fields().iter().zip(&columns).map(field).collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    };
    let times: TimestampNanosecondArray = (0..10).map(|row| (row != 7).then_some(row)).collect();
    let error = loading.append(&replace("time", Arc::new(times.with_timezone("UTC")))).unwrap_err();
    assert!(matches!(error, Error::Row { row: 7, .. }), "{error:?}");
    let naive = TimestampNanosecondArray::from_iter_values(0..10);
    assert!(matches!(loading.append(&replace("time", Arc::new(naive))).unwrap_err(), Error::Schema { .. }));
    let text = StringArray::from_iter_values((0..10).map(|_| "1"));
    let error = loading.append(&replace("price", Arc::new(text))).unwrap_err();
    assert!(error.to_string().contains("price") && error.to_string().contains("Utf8"), "{error}");
    let extra = RecordBatch::try_from_iter([
        ("time", Arc::clone(batch(&rows).column(0))),
        ("unknown", Arc::new(Float64Array::from(vec![0.0; 10])) as ArrayRef),
    ]);
    assert!(loading.append(&extra.unwrap()).unwrap_err().to_string().contains("unknown"));
    let timeless = batch(&rows).project(&[1, 2]).unwrap();
    assert!(loading.append(&timeless).unwrap_err().to_string().contains("lacks the column"));

    loading.commit().unwrap();
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(rows).batch());
}

#[test]
fn a_source_is_loaded_once_unless_asked_again() {
    let database = new_database();
    let source = Source { name: "trades.csv".to_owned(), digest: "ab".repeat(32), rows: 10 };
    let load = |again| {
        let mut loading = database.load(&trade(), LoadOptions { again, ..LoadOptions::default() })?;
        loading.add_source(source.clone())?;
        loading.append(&batch(&model::rows(1, 10, 0..1, 4)))?;
        loading.commit()
    };
    load(false).unwrap();
    let error = load(false).unwrap_err();
    assert!(matches!(error, Error::AlreadyLoaded { epoch: 1, .. }), "{error:?}");
    load(true).unwrap();
    let snapshot = database.table("trade").unwrap().snapshot().unwrap();
    assert_eq!(snapshot.rows(), 20);
    assert_eq!(snapshot.sources().map(|(source, epoch)| (source.rows, *epoch)).collect::<Vec<_>>(), [(10, 2)]);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let database = new_database();
    let names =
        ["../x", "..", ".", "", "a/b", ".spill", "a\\b", "a b", "é", "splay.toml", "Writer.lock", "readers.lock"];
    for name in names.iter().map(|name| (*name).to_owned()).chain(["x".repeat(129)]) {
        let mut spec = trade();
        spec.name.clone_from(&name);
        let error = database.load(&spec, LoadOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Name { what: "table", .. }), "{name}: {error:?}");
        assert!(matches!(database.table(&name).unwrap_err(), Error::NoSuchTable { .. }), "{name}");
    }
    let mut spec = trade();
    spec.columns[2].name = "pri\nce".to_owned();
    assert!(matches!(database.load(&spec, LoadOptions::default()).unwrap_err(), Error::Name { what: "column", .. }));
    assert!(database.tables().unwrap().is_empty());
}

#[test]
fn a_type_that_arrow_lacks_is_refused() {
    let database = new_database();
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let bad = [
        ColumnType::Levels { size: -1 },
        ColumnType::Levels { size: 0 },
        decimal(0, 0),
        decimal(39, 2),
        decimal(5, 6),
        decimal(5, -1),
    ];
    for column_type in bad {
        assert!(matches!(database.load(&table_of(&column_type), LoadOptions::default()), Err(Error::Schema { .. })));
    }
    load(&database, &model::rows(1, 5, 0..1, 4), LoadOptions::default()).unwrap();
    let table = database.table("trade").unwrap();
    assert!(matches!(table.add_column(ColumnSpec::new("x", decimal(5, 6))), Err(Error::Schema { .. })));
    assert!(matches!(table.widen_column("nothing", ColumnType::Int64), Err(Error::NoSuchColumn { .. })));
    assert!(matches!(table.widen_column("sym", ColumnType::Text), Err(Error::Schema { .. })));
    assert_eq!(
        table.snapshot().unwrap().spec().arrow().field(0).data_type(),
        &DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, Some("UTC".into()))
    );
}

#[test]
fn a_write_down_that_says_less_than_the_table_is_refused_before_anything_is_written() {
    let storage = Arc::new(FaultStorage::new());
    let database = Database::create_on(storage.clone(), &Settings::default()).unwrap();
    three_rows(&database, &table_of(&ColumnType::Bool), Arc::new(BooleanArray::from(vec![true; 3])), Tier::Mapped);
    let position = WriteDownPosition { sequence: 7, cut: 1_000 };
    database.write_down("t", position, &[]).unwrap();
    for less in [
        WriteDownPosition { sequence: 6, ..position },
        WriteDownPosition { cut: 999, ..position },
        WriteDownPosition::default(),
    ] {
        let refused = database.write_down("t", less, &[]);
        assert!(
            matches!(&refused, Err(Error::FellBack { recorded, incoming: is, .. }) if *recorded == position && *is == less)
        );
        let now = Database::open_on(storage.clone()).unwrap().table("t").unwrap().snapshot().unwrap();
        assert_eq!((now.captured(), now.epoch(), now.rows()), (position, 2, 3));
    }
    database.write_down("t", WriteDownPosition { sequence: 8, ..position }, &[]).unwrap();
    assert_eq!(database.table("t").unwrap().snapshot().unwrap().captured().sequence, 8);
}
