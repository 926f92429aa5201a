//! Files in place as tick plans: the rows that DataFusion gives for the same files, of every type, format and limit.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int8Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray, Time64NanosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt16Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use splay_import::FileOpener;
use splay_sql::{Parameters, Session, SessionSettings};
use splay_store::Database;

use crate::both::{Both, cells};
use crate::generated::{Numbers, all_rows, statement};

/// Rows of a row group or batch, so that files have many of them.
const GROUP_ROWS: usize = 700;

fn write_parquet(path: &Path, rows: &RecordBatch) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(GROUP_ROWS)).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

fn groups(rows: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let starts = (0..rows.num_rows()).step_by(GROUP_ROWS);
    starts.map(|start| rows.slice(start, GROUP_ROWS.min(rows.num_rows() - start)))
}

fn write_arrow(path: &Path, rows: &RecordBatch, codec: Option<CompressionType>) {
    let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
    let mut writer = FileWriter::try_new_with_options(File::create(path).unwrap(), &rows.schema(), options).unwrap();
    groups(rows).for_each(|group| writer.write(&group).unwrap());
    writer.finish().unwrap();
}

fn write_stream(path: &Path, rows: &RecordBatch) {
    let mut writer = StreamWriter::try_new(File::create(path).unwrap(), &rows.schema()).unwrap();
    groups(rows).for_each(|group| writer.write(&group).unwrap());
    writer.finish().unwrap();
}

fn write_csv(path: &Path, rows: &RecordBatch) {
    let mut writer = arrow::csv::Writer::new(File::create(path).unwrap());
    groups(rows).for_each(|group| writer.write(&group).unwrap());
}

fn session(folder: &Path, settings: SessionSettings) -> Session {
    let database = Database::open_or_create(folder.join("db")).unwrap();
    Session::new(database, SessionSettings { files: Some(Arc::new(FileOpener)), ..settings }).unwrap()
}

fn both(folder: &Path, threads: usize, memory_bytes: usize) -> Both {
    let settings = SessionSettings { threads, memory_bytes, ..SessionSettings::default() };
    let other = SessionSettings { tick_plans: false, ..settings.clone() };
    Both { tick: session(folder, settings), other: session(folder, other) }
}

#[test]
fn generated_statements_over_files_give_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut names = Vec::new();
    for (spec, rows) in all_rows() {
        write_parquet(&folder.join(format!("{}.parquet", spec.name)), &rows);
        write_arrow(&folder.join(format!("{}.arrow", spec.name)), &rows, None);
        write_arrow(&folder.join(format!("{}.lz4.arrow", spec.name)), &rows, Some(CompressionType::LZ4_FRAME));
        write_stream(&folder.join(format!("{}.arrows", spec.name)), &rows);
        write_csv(&folder.join(format!("{}.csv", spec.name)), &rows);
        names.push(spec.name);
    }
    for (seed, extension) in ["parquet", "arrow", "lz4.arrow", "arrows", "csv"].into_iter().enumerate() {
        let both = both(folder, 2, 1 << 30);
        let mut numbers = Numbers(seed as u64 + 40);
        let mut ticks = 0;
        for _ in 0..200 {
            let mut text = statement(&mut numbers);
            // DataFusion leaves open which of several rows of one instant is the one before.
            if ["asof", "window join", "horizon"].iter().any(|join| text.contains(join)) {
                continue;
            }
            for name in &names {
                for word in ["from", "join"] {
                    let path = folder.join(format!("{name}.{extension}"));
                    text = text.replace(&format!("{word} {name}"), &format!("{word} '{}'", path.display()));
                }
            }
            ticks += usize::from(both.compare(&text).unwrap_or_else(|error| panic!("{extension}: {error}")));
        }
        assert!(ticks > 25, "{extension}: {ticks} tick plans");
    }
}

/// Columns of every type that the engine reads from files, with nulls, extremes, ties, NaN and both zeros.
fn of_every_type() -> RecordBatch {
    let count = 5_000i64;
    let scattered = |row: i64, below: i64| (row.wrapping_mul(6_364_136_223_846_793_005) >> 33).rem_euclid(below);
    let some = |row: i64, value: i64| (scattered(row + 7, 19) > 0).then_some(value);
    let all = move || 0..count;
    let float = |row: i64| match scattered(row, 50) {
        0 => f64::NAN,
        1 => -0.0,
        2 => f64::INFINITY,
        value => (value - 20) as f64 / 4.0,
    };
    let small = |row: i64| some(row, scattered(row, 200) - 100);
    let texts = |row: i64| some(row, scattered(row, 40)).map(|text| format!("t{text}"));
    let day = 86_400;
    RecordBatch::try_from_iter([
        ("row", Arc::new(Int64Array::from_iter_values(all())) as ArrayRef),
        ("i8", Arc::new(all().map(|row| small(row).map(|value| i8::try_from(value).unwrap())).collect::<Int8Array>())),
        (
            "u16",
            Arc::new(all().map(|row| some(row, scattered(row, 9)).map(|value| value as u16)).collect::<UInt16Array>()),
        ),
        ("i64", Arc::new(all().map(|row| small(row).map(|value| value << 54)).collect::<Int64Array>())),
        (
            "u64",
            Arc::new(
                all()
                    .map(|row| some(row, scattered(row, 9)).map(|value| u64::MAX - value as u64))
                    .collect::<UInt64Array>(),
            ),
        ),
        ("f32", Arc::new(all().map(|row| some(row, 0).map(|_| float(row) as f32)).collect::<Float32Array>())),
        ("f64", Arc::new(all().map(|row| some(row, 0).map(|_| float(row + 3))).collect::<Float64Array>())),
        (
            "amount",
            Arc::new(
                all()
                    .map(|row| small(row).map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(12, 2)
                    .unwrap(),
            ),
        ),
        (
            "firm",
            Arc::new(all().map(|row| some(row, scattered(row, 2)).map(|value| value > 0)).collect::<BooleanArray>()),
        ),
        ("day", Arc::new(all().map(|row| small(row).map(|value| value as i32)).collect::<Date32Array>())),
        (
            "clock",
            Arc::new(
                all().map(|row| some(row, scattered(row, day) * 1_000_000_000)).collect::<Time64NanosecondArray>(),
            ),
        ),
        ("s", Arc::new(all().map(|row| small(row).map(|value| value * day)).collect::<TimestampSecondArray>())),
        (
            "us",
            Arc::new(
                all()
                    .map(|row| small(row).map(|value| value * 60_000_000))
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("UTC"),
            ),
        ),
        (
            "ns",
            Arc::new(
                all()
                    .map(|row| small(row).map(|value| value * 1_000_000_007))
                    .collect::<TimestampNanosecondArray>()
                    .with_timezone("UTC"),
            ),
        ),
        ("text", Arc::new(all().map(texts).collect::<StringArray>())),
        (
            "code",
            Arc::new(
                all()
                    .map(texts)
                    .collect::<Vec<_>>()
                    .iter()
                    .map(Option::as_deref)
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
    ])
    .unwrap()
}

#[test]
fn columns_of_every_type_give_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, rows) = (folder.path(), of_every_type());
    write_parquet(&folder.join("all.parquet"), &rows);
    write_arrow(&folder.join("all.arrow"), &rows, Some(CompressionType::ZSTD));
    let both = both(folder, 2, 1 << 30);
    let mut missing = Vec::new();
    for file in ["all.parquet", "all.arrow"] {
        let f = format!("'{}'", folder.join(file).display());
        for field in rows.schema().fields() {
            let x = field.name();
            for text in [
                format!("select count({x}), count(distinct {x}), min({x}), max({x}) from {f}"),
                format!("select {x}, count(*), sum(\"row\") from {f} group by {x}"),
                format!("select {x}, \"row\" from {f} where {x} is null or \"row\" < 9"),
                format!(
                    "select \"row\" from {f} where {x} = (select max({x}) from {f}) or {x} < (select min({x}) from {f} where \"row\" > 4000)"
                ),
                format!("select \"row\", {x} from {f} order by {x} desc nulls last, \"row\" limit 20"),
                format!("select {x}, \"row\" from {f} where \"row\" between 1500 and 1520 order by 2"),
                format!(
                    "select count(*) from {f} a join {f} b on a.{x} = b.{x} where a.\"row\" < 50 and b.\"row\" < 90"
                ),
                format!(
                    "select \"row\", lag({x}) over (order by \"row\"), row_number() over (partition by {x} order by \"row\") from {f}"
                ),
                format!("select first({x} order by \"row\"), last({x} order by \"row\") from {f} group by \"row\" % 7"),
                format!("select distinct {x} from {f} where {x} is not null"),
                format!("select {x} from {f} where \"row\" < 40 union all select {x} from {f} where \"row\" > 4990"),
            ] {
                if !both.compare(&text).unwrap() {
                    missing.push(format!("{text}: {:?}", both.reason(&text)));
                }
            }
            // By DataFusion, whatever the rows are of.
            for text in [
                format!("select coalesce({x}, (select min({x}) from {f})), count(*) from {f} group by 1"),
                format!("select first({x}) from {f}"),
                format!("select {x} from {f}"),
            ] {
                assert_eq!(both.compare(&text), Ok(false), "{text}");
            }
        }
    }
    assert!(missing.is_empty(), "without a tick plan: {missing:#?}");
}

#[test]
fn conditions_pass_row_groups_over_without_losing_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, rows) = (folder.path(), of_every_type());
    write_parquet(&folder.join("all.parquet"), &rows);
    let both = both(folder, 2, 1 << 30);
    let f = format!("'{}'", folder.join("all.parquet").display());
    for condition in [
        "\"row\" = 701",
        "\"row\" >= 4999",
        "4200 <= \"row\"",
        "\"row\" < 0",
        "\"row\" > 699 and \"row\" <= 700 and text is not null",
        "\"row\" <> 5 and \"row\" < 10",
        "not (\"row\" > 2)",
        "\"row\" between 1399 and 1400 or \"row\" = 3",
        "\"row\" = null",
        "\"row\" < 2.5",
        "u64 > 18446744073709551610",
        "amount <= -0.99",
        "f64 > 1e300",
        "f32 = 'NaN'",
        "text = 't7'",
        "text >= 't39' and code < 't5'",
        "us < timestamp '1970-01-01 00:00:00' and s = timestamp '1969-12-31'",
        "day = date '1970-01-02'",
        "firm = true and \"row\" = 4321",
        "\"row\" = (select max(\"row\") from F)",
    ] {
        let text = format!("select \"row\", text from F where {condition} order by 1").replace('F', &f);
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        let text = format!("select count(*), max(clock) from F where {condition}").replace('F', &f);
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
}

/// Of types that no table has, columns stay out of the way of statements that don't name them.
#[test]
fn columns_of_other_types_are_read_by_datafusion_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>((0..50).map(|row| Some((0..row % 3).map(Some))));
    let x: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    let point: ArrayRef =
        Arc::new(StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int64, true)), Arc::clone(&x))]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..50).map(|row: u8| [row])));
    let rows = RecordBatch::try_from_iter([("x", x), ("list", Arc::new(list)), ("point", point), ("bytes", bytes)]);
    let rows = rows.unwrap();
    write_parquet(&folder.join("f.parquet"), &rows);
    write_arrow(&folder.join("f.arrow"), &rows, None);
    let both = both(folder, 2, 1 << 30);
    for file in ["f.parquet", "f.arrow"] {
        let f = format!("'{}'", folder.join(file).display());
        for (text, is_tick) in [
            (format!("select sum(x) from {f} where x % 3 > 0"), true),
            (format!("select count(*) from {f} a join {f} b on a.x = b.x + 1"), true),
            (format!("select max(array_length(list)) from {f}"), false),
            (format!("select sum(point.x) from {f}"), false),
            (format!("select count(distinct bytes) from {f} where x in (select point.x from {f})"), false),
            (format!("select * from {f} order by x limit 3"), false),
        ] {
            assert_eq!(both.compare(&text), Ok(is_tick), "{text}: {:?}", both.reason(&text));
        }
    }
}

/// DataFusion runs what has no room in memory, and says in the same words what is wrong with a file.
#[test]
fn statements_without_room_for_the_columns_run_by_datafusion() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, rows) = (folder.path(), of_every_type());
    write_parquet(&folder.join("all.parquet"), &rows);
    write_arrow(&folder.join("all.arrow"), &rows, None);
    write_csv(&folder.join("all.csv"), &rows);
    let both = both(folder, 1, 100_000);
    for file in ["all.parquet", "all.arrow", "all.csv"] {
        let text = format!("select max(\"row\"), count(text), sum(f64) from '{}'", folder.join(file).display());
        assert_eq!(both.compare(&text), Ok(false), "{text}");
    }
}

#[test]
fn first_rows_are_those_of_the_first_group() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, rows) = (folder.path(), of_every_type());
    write_parquet(&folder.join("all.parquet"), &rows);
    write_arrow(&folder.join("all.arrow"), &rows, None);
    write_csv(&folder.join("all.csv"), &rows);
    let session = session(folder, SessionSettings { threads: 2, ..SessionSettings::default() });
    for file in ["all.parquet", "all.arrow", "all.csv"] {
        let f = format!("'{}'", folder.join(file).display());
        for (limit, expected) in [
            ("limit 3", 0..3),
            ("limit 3 offset 699", 699..702),
            ("limit 0", 0..0),
            ("limit 9 offset 4995", 4995..5000),
        ] {
            let mut answer = session.sql(&format!("select \"row\", text from {f} {limit}"), Parameters::None).unwrap();
            let found = cells(&answer.batches().unwrap()).len();
            assert!(answer.is_tick_plan() && answer.refusal().is_none(), "{file} {limit}");
            assert_eq!(found, expected.len(), "{file} {limit}");
            let mut answer = session
                .sql(
                    &format!("select min(\"row\"), max(\"row\") from (select \"row\" from {f} {limit})"),
                    Parameters::None,
                )
                .unwrap();
            let of = arrow::util::pretty::pretty_format_batches(&answer.batches().unwrap()).unwrap().to_string();
            if !expected.is_empty() {
                assert!(
                    of.contains(&format!("| {} ", expected.start)) && of.contains(&format!("| {} ", expected.end - 1)),
                    "{file} {limit} {of}"
                );
            }
        }
    }
}

/// What was decoded is kept while a file stays as it is, and not longer: also if it is written again with the same length and time.
#[test]
fn files_that_are_written_again_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows = |first: i64| {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 3_000));
        RecordBatch::try_from_iter([("x", column)]).unwrap()
    };
    let write = |first: i64| {
        write_parquet(&folder.join("f.parquet"), &rows(first));
        write_arrow(&folder.join("f.arrow"), &rows(first), None);
        write_csv(&folder.join("f.csv"), &rows(first));
    };
    let session = session(folder, SessionSettings { threads: 2, ..SessionSettings::default() });
    let least = |file: &str| {
        let text = format!("select min(x) from '{}'", folder.join(file).display());
        let mut answer = session.sql(&text, Parameters::None).unwrap();
        let batches = answer.batches().unwrap();
        assert!(answer.is_tick_plan() && answer.refusal().is_none());
        batches[0].column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0)
    };
    for first in [1_000, 2_000, 3_000] {
        let times = |file: &str| {
            let metadata = std::fs::metadata(folder.join(file)).ok()?;
            Some(std::fs::FileTimes::new().set_modified(metadata.modified().unwrap()))
        };
        let before: Vec<_> = ["f.parquet", "f.arrow", "f.csv"].map(|file| (file, times(file))).into();
        write(first);
        for (file, times) in before {
            if let Some(times) = times {
                File::options().write(true).open(folder.join(file)).unwrap().set_times(times).unwrap();
            }
            assert_eq!(least(file), first, "{file}");
        }
        // Columns are kept of files that weren't written lately.
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        for file in ["f.parquet", "f.arrow", "f.csv"] {
            assert_eq!((least(file), least(file)), (first, first), "{file}");
        }
    }
}
