//! What taking rows costs, and looking at them while they come: `cargo bench -p splay-capture --bench capture`.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::Int32Type;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use splay_capture::{AckClass, Append, Capture, CaptureSettings, DedupeSettings};
use splay_store::{Database, Segment, Selection};

const SYMBOLS: usize = 500;

/// Trades in order of time: `start` numbers the first.
fn trades(start: usize, rows: usize) -> RecordBatch {
    let names: Vec<String> = (0..SYMBOLS).map(|symbol| format!("SYM{symbol:03}")).collect();
    let at = |row: usize| i64::try_from(start + row).unwrap();
    let mixed = |row: usize| (start + row).wrapping_mul(2_654_435_761) >> 7;
    let times = (0..rows).map(|row| 1_700_000_000_000_000_000 + at(row) * 5_000);
    let columns: [(&str, ArrayRef); 5] = [
        ("time", Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC"))),
        (
            "sym",
            Arc::new(
                (0..rows).map(|row| Some(names[mixed(row) % SYMBOLS].as_str())).collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        (
            "side",
            Arc::new(
                (0..rows).map(|row| Some(["buy", "sell"][mixed(row) % 2])).collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        (
            "price",
            Arc::new((0..rows).map(|row| Some(100.0 + (mixed(row) % 1000) as f64 / 8.0)).collect::<Float64Array>()),
        ),
        ("size", Arc::new((0..rows).map(|row| Some((mixed(row) % 100) as f64)).collect::<Float64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn open() -> (tempfile::TempDir, Capture) {
    with(CaptureSettings::default())
}

fn with(settings: CaptureSettings) -> (tempfile::TempDir, Capture) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = Capture::open(database, settings).unwrap().0;
    (folder, capture)
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("capture");
    for (name, rows, class) in [
        ("one row, process", 1, AckClass::Process),
        ("one row, disk", 1, AckClass::Disk),
        ("1,000 rows, process", 1_000, AckClass::Process),
        ("20,000 rows, process", 20_000, AckClass::Process),
    ] {
        let (_folder, capture) = open();
        let mut start = 0;
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    start += rows;
                    Append { ack: Some(class), ..Append::new("trade", trades(start, rows)) }
                },
                |append| capture.append(append).unwrap(),
                BatchSize::PerIteration,
            );
        });
        capture.close().unwrap();
    }
    for (name, key, is_again) in [
        ("20,000 rows, process, compared exactly", "exact", false),
        ("20,000 rows, process, compared by time and symbol", "time,sym", false),
        ("20,000 rows, process, each left out", "exact", true),
    ] {
        let dedupe = DedupeSettings { key: key.to_owned(), ..DedupeSettings::default() };
        let dedupe = BTreeMap::from([("trade".to_owned(), dedupe)]);
        let (_folder, capture) = with(CaptureSettings { dedupe, ..CaptureSettings::default() });
        capture.append(Append::new("trade", trades(0, 20_000))).unwrap();
        let mut start = 0;
        group.throughput(Throughput::Elements(20_000));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    start += if is_again { 0 } else { 20_000 };
                    Append { ack: Some(AckClass::Process), ..Append::new("trade", trades(start, 20_000)) }
                },
                |append| capture.append(append).unwrap(),
                BatchSize::PerIteration,
            );
        });
        capture.close().unwrap();
    }
    for live in [0, 1_000_000] {
        let (_folder, capture) = open();
        let mut start = 0;
        while start < live {
            capture.append(Append::new("trade", trades(start, 50_000))).unwrap();
            start += 50_000;
        }
        let table = {
            capture.append(Append::new("trade", trades(start, 200))).unwrap();
            capture.database().table("trade").unwrap()
        };
        let selection = Selection { symbols: Some(vec!["SYM007".to_owned()]), ..Selection::default() };
        group.throughput(Throughput::Elements(200));
        group.bench_function(format!("look at a symbol behind 200 new rows, {live} live"), |bencher| {
            bencher.iter_batched(
                || {
                    start += 200;
                    let append = Append { ack: Some(AckClass::Process), ..Append::new("trade", trades(start, 200)) };
                    capture.append(append).unwrap();
                },
                |()| black_box(table.snapshot().unwrap().select(&selection).unwrap()),
                BatchSize::PerIteration,
            );
        });
        capture.close().unwrap();
    }
    group.finish();
}

/// Puts rows in the order of the table: a tail as line protocol brings it, and layers into one.
fn layers(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let capture = Capture::open(database, CaptureSettings::default()).unwrap().0;
    capture.append(Append::new("trade", trades(0, 1))).unwrap();
    let spec = capture.spec("trade").unwrap().unwrap();
    let in_memory =
        |batches: &[RecordBatch]| Segment::in_memory(&spec, 19_675, "layer".to_owned(), batches).unwrap().unwrap();
    let mut group = criterion.benchmark_group("layers");
    for (name, producers) in [("a tail of 65,536 rows", 1), ("a tail of two producers", 2)] {
        // Of two producers the batches cover the same times, one after the other.
        let batches: Vec<RecordBatch> =
            (0..16).map(|number| trades(number / producers * producers * 4_096 + number % producers, 4_096)).collect();
        group.throughput(Throughput::Elements(65_536));
        group.bench_function(name, |bencher| bencher.iter(|| in_memory(&batches)));
    }
    let all: Vec<usize> = (0..spec.columns.len()).collect();
    for (name, step) in [("four layers of 262,144 rows", 262_144), ("four layers that overlap a little", 260_000)] {
        let part = |number: usize| in_memory(&[trades(number * step, 262_144)]).read_all(&spec, &all).unwrap();
        let parts: Vec<RecordBatch> = (0..4).map(part).collect();
        group.throughput(Throughput::Elements(1_048_576));
        group.bench_function(name, |bencher| bencher.iter(|| in_memory(&parts)));
    }
    group.finish();
    capture.close().unwrap();
}

criterion_group!(benches, bench, layers);
criterion_main!(benches);
