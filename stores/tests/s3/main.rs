//! Against a real S3 server, which the tests start, through a proxy that is slow, cuts, refuses and goes away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use arrow::array::{DictionaryArray, Float64Array, RecordBatch, TimestampNanosecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::Int32Type;
use bytes::Bytes;
use splay_store::object::{ObjectEntry, ObjectFault, ObjectStore, ObjectTier, Retry};
use splay_store::storage::LocalStorage;
use splay_store::{
    ColumnSpec, ColumnType, CompactOptions, Database, Error, LoadOptions, Result, Selection, TableSpec, Tier,
};
use splay_stores::CloudStore;

use server::{BUCKET, Proxy, Server};

const DAY: i64 = 86_400_000_000_000;
const ROWS: i64 = 200_000;
const DAYS: i64 = 2;

fn store(at: std::net::SocketAddr, prefix: &str) -> CloudStore {
    let endpoint = format!("http://{at}");
    let options = [
        ("aws_endpoint", endpoint.as_str()),
        ("aws_allow_http", "true"),
        ("aws_region", "us-east-1"),
        ("aws_access_key_id", "tests"),
        ("aws_secret_access_key", "a-secret-of-tests"),
        // Each request has a connection of its own, which the proxy counts.
        ("pool_max_idle_per_host", "0"),
        ("timeout", "20 seconds"),
    ];
    splay_stores::open_with(&format!("s3://{BUCKET}/{prefix}"), &options).unwrap()
}

fn tier(store: CloudStore) -> Arc<ObjectTier> {
    let retry =
        Retry { first_pause: Duration::from_millis(1), longest_pause: Duration::from_millis(20), ..Retry::default() };
    Arc::new(ObjectTier::new(Arc::new(store), "s3://ticks/market", 64 << 20, retry))
}

#[test]
fn a_store_keeps_its_contract() {
    let Some(server) = Server::start() else { return };
    let store = store(server.address, "some/prefix");
    let content = Bytes::from((0..100_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    store.put_if_absent("trade/one", content.clone()).unwrap();
    let again = store.put_if_absent("trade/one", Bytes::from_static(b"other")).unwrap_err();
    assert_eq!(again.fault, ObjectFault::Exists, "{again}");
    assert_eq!(store.length("trade/one"), Ok(400_000));
    for (start, end) in [(0, 1), (0, 400_000), (399_999, 400_000), (65_536, 131_072)] {
        let expected = &content[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()];
        assert_eq!(store.read("trade/one", start..end).unwrap(), expected);
    }
    assert_eq!(store.length("trade/two").unwrap_err().fault, ObjectFault::Absent);
    assert_eq!(store.read("trade/two", 0..1).unwrap_err().fault, ObjectFault::Absent);
    store.put_if_absent("trade/date=2024-01-01/ä b", Bytes::from_static(b"x")).unwrap();
    store.put_if_absent("trade.other/one", Bytes::from_static(b"y")).unwrap();
    let mut entries = store.list("trade/").unwrap();
    entries.sort();
    let entry = |key: &str, bytes| ObjectEntry { key: key.to_owned(), bytes };
    assert_eq!(entries, [entry("trade/date=2024-01-01/ä b", 1), entry("trade/one", 400_000)]);
    assert_eq!(store.list("quote/").unwrap(), []);
    store.delete("trade/one").unwrap();
    store.delete("trade/one").unwrap();
    assert_eq!(store.length("trade/one").unwrap_err().fault, ObjectFault::Absent);
    // Of many who make one at once, one succeeds.
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8_u8)
            .map(|number| {
                let store = &store;
                scope.spawn(move || store.put_if_absent("mark", Bytes::from(vec![number; 10])).map(|()| number))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<u8> = done.iter().filter_map(|done| done.as_ref().ok().copied()).collect();
    assert_eq!(winners.len(), 1, "{done:?}");
    assert_eq!(store.read("mark", 0..10).unwrap(), vec![winners[0]; 10]);
}

fn spec() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("price", ColumnType::Float64),
        ColumnSpec::new("size", ColumnType::Float64),
    ];
    TableSpec::new("trade", columns, "time", Some("sym"))
}

fn batch() -> RecordBatch {
    let symbols = ["AAPL", "IBM", "MSFT"];
    let count = ROWS * DAYS;
    // Without a pattern that an encoding would find.
    let hash = |row: i64| {
        let mixed = row.wrapping_mul(6_364_136_223_846_793_005);
        (mixed ^ (mixed >> 29)).wrapping_mul(1_442_695_040_888_963_407) >> 34 & 0xfff_ffff
    };
    let times = (0..count).map(|row| row % DAYS * DAY + row * 1000);
    let symbol: DictionaryArray<Int32Type> =
        (0..count).map(|row| symbols[usize::try_from(row / DAYS % 3).unwrap()]).collect();
    let columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC")),
        Arc::new(symbol),
        Arc::new(Float64Array::from_iter_values((0..count).map(|row| hash(row) as f64 / 100.0))),
        Arc::new(Float64Array::from_iter_values((0..count).map(|row| hash(row + 7) as f64))),
    ];
    RecordBatch::try_new(spec().arrow(), columns).unwrap()
}

fn read(database: &Database, columns: &[usize]) -> Result<RecordBatch> {
    let snapshot = database.table("trade")?.snapshot()?;
    let (pieces, _) = snapshot.select(&Selection::default())?;
    let parts: Vec<RecordBatch> = pieces
        .iter()
        .map(|piece| piece.segment.read(snapshot.spec(), columns, piece.rows.clone()))
        .collect::<Result<_>>()?;
    Ok(concat_batches(&Arc::new(snapshot.spec().arrow().project(columns)?), &parts)?)
}

/// A database whose rows move to S3 over a bad line, and are read from there over a slow one.
#[test]
fn a_database_lives_with_s3_over_bad_lines() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(server.address);
    let faults = &proxy.faults;
    let folder = tempfile::tempdir().unwrap();
    let open = |prefix: &str| {
        Database::open_with(Arc::new(LocalStorage::new(folder.path())), Some(tier(store(proxy.address, prefix))))
            .unwrap()
    };
    drop(Database::create(folder.path()).unwrap());
    let database = open("market");
    let mut load = database.load(&spec(), LoadOptions::default()).unwrap();
    load.append(&batch()).unwrap();
    load.commit().unwrap();
    let all = [0, 1, 2, 3];
    let expected = read(&database, &all).unwrap();

    faults.cut_each.store(5, SeqCst);
    faults.refuse_each.store(3, SeqCst);
    let options = CompactOptions { tier: Some(Tier::Object), ..CompactOptions::default() };
    let table = database.table("trade").unwrap();
    let moved = table.compact(&options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(moved.partitions, 2);
    table.forget(true).unwrap();
    assert_eq!(read(&open("market"), &all).unwrap(), expected, "over a bad line");
    assert!(table.verify(&mut |_| std::ops::ControlFlow::Continue(())).unwrap().is_empty());

    faults.cut_each.store(0, SeqCst);
    faults.refuse_each.store(0, SeqCst);
    faults.latency_ms.store(20, SeqCst);
    for columns in [&all[2..3], &all[2..], &all] {
        let database = open("market");
        let (before, begun) = (faults.requests.load(SeqCst), std::time::Instant::now());
        let rows = read(&database, columns).unwrap();
        let (requests, time) = (faults.requests.load(SeqCst) - before, begun.elapsed());
        println!("{} columns of 2 dates over 20 ms: {requests} requests, {time:?}", columns.len());
        assert!(requests <= 3 * 2 * columns.len() as u64, "{requests} requests");
        assert_eq!(rows, expected.project(columns).unwrap());
        let before = faults.requests.load(SeqCst);
        read(&database, columns).unwrap();
        assert_eq!(faults.requests.load(SeqCst), before, "from memory");
    }

    // Away for a while, and for good.
    faults.latency_ms.store(0, SeqCst);
    faults.away.store(true, SeqCst);
    let away = Arc::clone(faults);
    let back = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        away.away.store(false, SeqCst);
    });
    assert_eq!(read(&open("market"), &all).unwrap(), expected);
    back.join().unwrap();
    faults.away.store(true, SeqCst);
    let error = read(&open("market"), &all).unwrap_err();
    let Error::Object { object, fault: ObjectFault::Passing, reason, .. } = &error else { panic!("{error}") };
    assert!(object.starts_with("s3://ticks/market/trade/date="), "{error}");
    assert!(!reason.contains("a-secret-of-tests"), "{error}");
    faults.away.store(false, SeqCst);

    // Another database finds the mark of this one.
    let other = tempfile::tempdir().unwrap();
    drop(Database::create(other.path()).unwrap());
    let other =
        Database::open_with(Arc::new(LocalStorage::new(other.path())), Some(tier(store(proxy.address, "market"))))
            .unwrap();
    assert!(matches!(other.claim_objects(), Err(Error::Refused { .. })));
    assert_eq!(read(&open("market"), &all).unwrap(), expected);
}
