//! Rows that come again: left out once, whatever happens between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{
    AckClass, Append, Capture, CaptureSettings, DedupeSettings, Error, Producer, Result, SubscribeRequest,
    SubscriptionStart,
};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Bounds, CompactOptions, Database, Dates, LoadOptions, Removal, Selection, Settings};

use crate::rows::{DAY, Row, SECOND, START, TestClock, all, batch, in_order, row, settings, spec};

fn by(key: &str, window_s: u64, keys_max: usize) -> CaptureSettings {
    let dedupe = DedupeSettings { key: key.to_owned(), window_s, keys_max };
    CaptureSettings { dedupe: BTreeMap::from([("Trade".to_owned(), dedupe)]), ..settings() }
}

fn open(database: &Database, settings: CaptureSettings, now: i64) -> Result<Capture> {
    Ok(Capture::open_with(database.clone(), settings, TestClock::at(now))?.0)
}

fn in_memory() -> (FaultStorage, Database) {
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    (storage, database)
}

fn trade(rows: &[Row]) -> Append {
    Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(rows)) }
}

/// Rows taken, and rows left out.
fn send(capture: &Capture, rows: &[Row]) -> (u64, u64) {
    let ack = capture.append(trade(rows)).unwrap();
    (ack.rows, ack.duplicate_rows)
}

fn ids(database: &Database) -> Vec<i64> {
    let mut ids: Vec<i64> = match database.table("trade") {
        Ok(_) => all(database).into_iter().map(|(_, row)| row.id).collect(),
        Err(_) => Vec::new(),
    };
    ids.sort_unstable();
    ids
}

fn delete(database: &Database, time: Bounds<i64>) -> splay_store::Result<u64> {
    let table = database.table("trade")?;
    let spec = table.stored()?.spec().clone();
    Ok(table.delete(Removal::of(&spec, Selection { time, ..Selection::default() })?)?.removed)
}

/// What a table has to have, by looking at all of its rows each time.
struct Oracle {
    is_exact: bool,
    window: i64,
    dates: Dates,
    rows: Vec<Row>,
}

impl Oracle {
    fn key(&mut self, row: &Row) -> (i32, Option<String>, i64, i64) {
        let date = self.dates.of(row.time);
        (date, row.symbol.clone(), row.id, if self.is_exact { row.time } else { 0 })
    }

    /// Takes a batch; gives how many rows are left out.
    fn take(&mut self, batch: &[Row], clock: i64) -> u64 {
        let latest = self.rows.iter().map(|row| row.time).max().unwrap_or(i64::MIN);
        let from = latest.min(clock).saturating_sub(self.window);
        let mut left_out = 0;
        for row in batch {
            let key = self.key(row);
            let compared_rows: Vec<Row> = self.rows.iter().filter(|row| row.time >= from).cloned().collect();
            if row.time >= from && compared_rows.iter().any(|row| self.key(row) == key) {
                left_out += 1;
            } else {
                self.rows.push(row.clone());
            }
        }
        left_out
    }
}

#[test]
fn any_history_keeps_each_row_of_the_window_once() {
    let histories: u64 = std::env::var("SPLAY_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for seed in 0..histories {
        history(seed);
    }
}

fn history(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let zone = ["UTC", "America/New_York", "America/St_Johns"][random.random_range(0..3)];
    let is_exact = random.random_bool(0.5);
    let window_s = [5, 60, 2 * 86_400][random.random_range(0..3)];
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::at(START + random.random_range(0..DAY));
    let settings = CaptureSettings {
        late_s: random.random_range(0..20),
        journal_segment_bytes: 1 << random.random_range(8..14),
        journal_keep_bytes: 0,
        future_s: 10 * 86_400,
        ..by(if is_exact { "exact" } else { "id" }, window_s, 1 << 20)
    };
    let start = || {
        let database = Database::open_or_create(folder.path()).unwrap();
        let clock = Arc::clone(&clock);
        (database.clone(), Capture::open_with(database, settings.clone(), clock).unwrap().0)
    };
    let (mut database, mut capture) = start();
    let dates = Dates::new(zone.parse().unwrap());
    let mut oracle = Oracle { is_exact, window: window_s as i64 * SECOND, dates, rows: Vec::new() };
    let mut sent: Vec<Row> = Vec::new();
    for step in 0..random.random_range(5..50) {
        let what = format!("seed {seed}, step {step}");
        match random.random_range(0..24) {
            0 => drop(capture.write_down(None).unwrap()),
            1 => drop(capture.roll(None).unwrap()),
            2 if !oracle.rows.is_empty() => {
                let table = Database::open(folder.path()).unwrap().table("trade").unwrap();
                table.compact(&CompactOptions::default(), &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
            }
            3 => {
                capture.close().unwrap();
                drop(capture);
                (database, capture) = start();
            }
            // What was deleted is new when it comes again.
            4 if !oracle.rows.is_empty() => {
                let middle = oracle.rows[random.random_range(0..oracle.rows.len())].time;
                let deleted_times = Bounds { min: middle - random.random_range(0..20 * SECOND), max: middle };
                let removed = delete(&database, deleted_times).unwrap();
                let before = oracle.rows.len();
                oracle.rows.retain(|row| !deleted_times.contains(row.time));
                assert_eq!(removed as usize, before - oracle.rows.len(), "{what}");
            }
            // Rows that others load count as well.
            5 if !oracle.rows.is_empty() => {
                let loaded = row("A", clock.0.load(Ordering::SeqCst), sent.len() as i64);
                let mut load = database.load(&spec(zone), LoadOptions::default()).unwrap();
                load.append(&in_columns(&loaded)).unwrap();
                load.commit().unwrap();
                (sent.push(loaded.clone()), oracle.rows.push(loaded));
            }
            _ => {
                let now = clock.0.fetch_add(random.random_range(0..10 * SECOND), Ordering::SeqCst);
                let spread = [1, SECOND, 60 * SECOND, 3 * DAY][random.random_range(0..4)];
                let size = [1, 1, 3, 40][random.random_range(0..4)];
                let mut rows = Vec::new();
                for _ in 0..size {
                    if !sent.is_empty() && random.random_bool(0.4) {
                        // Of the latest, as a feed that begins anew; the time isn't the same with each one.
                        let back = random.random_range(0..sent.len().min(60));
                        let mut again = sent[sent.len() - 1 - back].clone();
                        again.time += i64::from(random.random_bool(0.1)) * 1_000;
                        rows.push(again);
                        continue;
                    }
                    let symbol = ["A", "B", "", "Z"][random.random_range(0..4)];
                    // Now and then ahead of the clock.
                    let ahead = i64::from(random.random_bool(0.05)) * 100 * SECOND;
                    let time = (now + ahead - random.random_range(0..spread)) / 1_000 * 1_000;
                    let new = row(symbol, time, sent.len() as i64);
                    (sent.push(new.clone()), rows.push(new));
                }
                let append = Append { spec: Some(spec(zone)), ..Append::new("trade", batch(&rows)) };
                let ack = capture.append(append).unwrap();
                let left_out = oracle.take(&rows, clock.0.load(Ordering::SeqCst));
                assert_eq!(ack.duplicate_rows, left_out, "{what}");
                assert_eq!(ack.rows, rows.len() as u64 - left_out, "{what}");
            }
        }
        if !oracle.rows.is_empty() && random.random_range(0..3) == 0 {
            assert_eq!(sorted(all(&database)), sorted(in_order(&oracle.rows, zone)), "{what}");
        }
    }
    if !oracle.rows.is_empty() {
        assert_eq!(sorted(all(&database)), sorted(in_order(&oracle.rows, zone)), "seed {seed}");
    }
    capture.close().unwrap();
}

/// Loads stand where arrival puts them, which isn't asked here.
fn sorted(mut rows: Vec<(i32, Row)>) -> Vec<(i32, Row)> {
    rows.sort_by(|one, other| {
        (one.0, &one.1.symbol, one.1.time, one.1.id).cmp(&(other.0, &other.1.symbol, other.1.time, other.1.id))
    });
    rows
}

/// A row in the columns of the table.
fn in_columns(row: &Row) -> RecordBatch {
    let rows = batch(std::slice::from_ref(row));
    let columns = ["time", "sym", "id"].map(|name| Arc::clone(rows.column_by_name(name).unwrap()));
    RecordBatch::try_new(spec("UTC").arrow(), columns.to_vec()).unwrap()
}

/// Rows of a feed of which each part is sent twice, the second time a little later and in other batches.
fn parts() -> Vec<Vec<Row>> {
    let of = |id: i64| row(["A", "B"][id as usize % 2], START + (id * 31 % 17) * SECOND, id);
    let firsts: Vec<i64> = (0..8).flat_map(|part| [part * 3, (part - 1).max(0) * 3]).collect();
    firsts.into_iter().map(|first| (first..first + 4).map(of).collect()).collect()
}

/// Sends until something fails. `there` has the numbers of rows of which it is known that they are there.
fn day(storage: &FaultStorage, there: &mut BTreeSet<i64>) -> Result<()> {
    let database = match Database::open_on(Arc::new(storage.clone())) {
        Ok(database) => database,
        Err(_) => Database::create_on(Arc::new(storage.clone()), &Settings::default())?,
    };
    let settings =
        CaptureSettings { journal_segment_bytes: 700, journal_keep_bytes: 0, late_s: 1, ..by("id", 86_400, 1 << 20) };
    for start in 0..2 {
        let capture = open(&database, settings.clone(), START + (20 + start) * SECOND)?;
        let result = (|| {
            for (number, part) in parts().into_iter().enumerate() {
                let producer = (number % 3 == 0).then(|| Producer::new(format!("feed{start}"), number as u64 + 1));
                capture.append(Append { producer, ..trade(&part) })?;
                there.extend(part.iter().map(|row| row.id));
                match number {
                    5 => drop(capture.write_down(None)?),
                    9 => drop(capture.roll(Some(START + 3 * DAY))?),
                    11 => {
                        let deleted_rows: Vec<Row> = parts()[4].clone();
                        for row in deleted_rows {
                            there.retain(|id| START + (id * 31 % 17) * SECOND != row.time);
                            delete(&database, Bounds { min: row.time, max: row.time })?;
                        }
                    }
                    _ => {}
                }
            }
            Ok(())
        })();
        let closed = capture.close();
        result.and(closed)?;
    }
    Ok(())
}

/// Starts on what is left, and sends everything once more, without numbers.
fn check(storage: &FaultStorage, there: &BTreeSet<i64>, what: &str) {
    let Ok(database) = Database::open_on(Arc::new(storage.clone())) else {
        assert!(there.is_empty(), "{what}: the database is gone");
        return;
    };
    let capture = open(&database, by("id", 86_400, 1 << 20), START + 30 * SECOND);
    let capture = capture.unwrap_or_else(|error| panic!("{what}: {error}"));
    let stored_ids = ids(&database);
    let distinct: BTreeSet<i64> = stored_ids.iter().copied().collect();
    assert_eq!(stored_ids.len(), distinct.len(), "{what}: a row is there twice: {stored_ids:?}");
    assert!(there.is_subset(&distinct), "{what}: a row that was acknowledged is lost: {there:?} of {distinct:?}");
    let mut distinct = distinct;
    for part in parts() {
        let new = part.iter().filter(|row| distinct.insert(row.id)).count() as u64;
        let ack = capture.append(trade(&part)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((ack.rows, ack.duplicate_rows), (new, part.len() as u64 - new), "{what}");
    }
    assert_eq!(ids(&database), (0..25).collect::<Vec<_>>(), "{what}: after sending again");
    capture.close().unwrap();
}

#[test]
fn a_power_cut_at_any_operation_neither_loses_a_row_nor_doubles_one() {
    let storage = FaultStorage::new();
    let mut there = BTreeSet::new();
    day(&storage, &mut there).unwrap();
    check(&storage.copy(), &there, "no cut");
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for operation in 0..storage.operations() + 3 {
        let storage = FaultStorage::new();
        storage.stop_after(Some(operation));
        let mut there = BTreeSet::new();
        drop(day(&storage, &mut there));
        storage.stop_after(None);
        for image in 0..2 {
            let crashed = storage.crash(&mut |bound| match (operation + image) % 3 {
                0 => 0,
                1 => bound - 1,
                _ => random.random_range(0..bound),
            });
            check(&crashed, &there, &format!("operation {operation}, image {image}"));
        }
    }
}

#[test]
fn a_failure_of_any_operation_or_look_neither_loses_a_row_nor_doubles_one() {
    let storage = FaultStorage::new();
    day(&storage, &mut BTreeSet::new()).unwrap();
    for operation in 0..storage.operations() {
        let storage = FaultStorage::new();
        storage.fail_at(Some(operation));
        let mut there = BTreeSet::new();
        drop(day(&storage, &mut there));
        storage.fail_at(None);
        check(&storage.copy(), &there, &format!("failure of operation {operation}"));
    }
    for look in 0..storage.reads() {
        let storage = FaultStorage::new();
        storage.fail_read_at(Some(look));
        let mut there = BTreeSet::new();
        drop(day(&storage, &mut there));
        storage.fail_read_at(None);
        check(&storage.copy(), &there, &format!("failure of look {look}"));
    }
}

/// Seen, and not in the journal: it would be lost when it comes again.
#[test]
fn rows_that_found_no_room_in_the_journal_do_not_count_as_seen() {
    let (storage, database) = in_memory();
    storage.free_bytes(Some(u64::MAX));
    let capture = open(&database, by("id", 60, 1 << 20), START + 60 * SECOND).unwrap();
    let rows: Vec<Row> = (0..500).map(|id| row("A", START + id, id)).collect();
    assert_eq!(send(&capture, &rows[..10]), (10, 0));
    storage.capacity(Some(storage.used() + 100));
    for _ in 0..3 {
        let refused = capture.append(trade(&rows)).unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
    }
    assert_eq!(capture.status().duplicate_rows, 0, "nothing was left out of what was refused");
    storage.capacity(None);
    assert_eq!(send(&capture, &rows), (490, 10));
    assert_eq!(send(&capture, &rows), (0, 500));
    assert_eq!((capture.status().duplicate_rows, ids(&database).len()), (510, 500));
    capture.close().unwrap();
}

#[test]
fn two_feeds_of_the_same_rows_at_once_give_each_row_once() {
    let (_, database) = in_memory();
    let capture = open(&database, by("id", 3_600, 1 << 20), START + 3_600 * SECOND).unwrap();
    let rows: Vec<Row> = (0..4_000).map(|id| row(["A", "B", ""][id as usize % 3], START + id * 1_000, id)).collect();
    let (accepted, left_out) = std::thread::scope(|scope| {
        let feed = |name: &'static str, size: usize| {
            let (capture, rows) = (&capture, &rows);
            scope.spawn(move || {
                let (mut accepted, mut left_out) = (0, 0);
                for (number, part) in rows.chunks(size).enumerate() {
                    let producer = Some(Producer::new(name.to_owned(), number as u64));
                    let ack = Some(if size % 2 == 0 { AckClass::Process } else { AckClass::Disk });
                    let acknowledgement = capture.append(Append { producer, ack, ..trade(part) }).unwrap();
                    assert_eq!(acknowledgement.rows + acknowledgement.duplicate_rows, part.len() as u64);
                    (accepted, left_out) = (accepted + acknowledgement.rows, left_out + acknowledgement.duplicate_rows);
                }
                (accepted, left_out)
            })
        };
        let (one, other) = (feed("one", 7), feed("other", 10));
        let (one, other) = (one.join().unwrap(), other.join().unwrap());
        (one.0 + other.0, one.1 + other.1)
    });
    assert_eq!((accepted, left_out), (4_000, 4_000));
    assert_eq!(ids(&database), (0..4_000).collect::<Vec<_>>());
    capture.close().unwrap();
}

#[test]
fn a_message_of_several_batches_is_compared_within_itself() {
    let (_, database) = in_memory();
    let capture = open(&database, by("id", 60, 1 << 20), START + 60 * SECOND).unwrap();
    let of = |first: i64| -> Vec<Row> { (first..first + 4).map(|id| row("A", START + id % 3, id % 6)).collect() };
    let other = Append::new("other", batch(&of(0)));
    let ack = capture.append_together(vec![trade(&of(0)), other.clone(), trade(&of(2)), other]).unwrap();
    assert_eq!((ack.rows, ack.duplicate_rows), (4 + 8 + 2, 2));
    assert_eq!(ids(&database), (0..6).collect::<Vec<_>>());
    // A whole message of duplicates is acknowledged, with its producer's number.
    let producer = Producer::new("feed".to_owned(), 7);
    let again = Append { producer: Some(producer), ..trade(&of(0)) };
    let counts = |append: &Append| {
        let ack = capture.append(append.clone()).unwrap();
        (ack.rows, ack.duplicate_rows, ack.duplicate)
    };
    assert_eq!(counts(&again), (0, 4, false));
    assert_eq!(counts(&again), (4, 0, true), "a repeat isn't looked at");
    assert_eq!(capture.last_of("feed").unwrap(), Some(7));
    capture.close().unwrap();
    let capture = open(&database, by("id", 60, 1 << 20), START + 60 * SECOND).unwrap();
    assert_eq!(capture.last_of("feed").unwrap(), Some(7), "and after a start");
    assert_eq!(ids(&database), (0..6).collect::<Vec<_>>());
    capture.close().unwrap();
}

#[test]
fn subscribers_and_readers_see_only_what_stays() {
    let (_, database) = in_memory();
    let capture = open(&database, by("exact", 60, 1 << 20), START + 60 * SECOND).unwrap();
    let rows: Vec<Row> = (0..6).map(|id| row("A", START + id, id)).collect();
    send(&capture, &rows[..2]);
    let mut now = capture.subscribe(SubscribeRequest::new("trade")).unwrap();
    for part in [&rows[..3], &rows[..2], &rows[1..5]] {
        send(&capture, part);
    }
    let after = SubscribeRequest { from: SubscriptionStart::After(1), ..SubscribeRequest::new("trade") };
    let mut from_journal = capture.subscribe(after).unwrap();
    for subscriber in [&mut now, &mut from_journal] {
        let mut seen = Vec::new();
        while let Some(update) = subscriber.next(Duration::ZERO).unwrap() {
            seen.push(update.rows.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec());
        }
        assert_eq!(seen, [vec![2], vec![3, 4]]);
    }
    let status = capture.status();
    let dedupe = status.tables[0].dedupe.clone().unwrap();
    assert_eq!((status.rows, status.duplicate_rows, dedupe.duplicate_rows, dedupe.keys), (5, 6, 6, 5));
    // The last message found rows up to the third.
    assert_eq!((dedupe.from, dedupe.is_limited), (Some(START + 2 - 60 * SECOND), false));
    capture.close().unwrap();
}

#[test]
fn rows_older_than_the_window_stay_and_are_counted() {
    let (_, database) = in_memory();
    let capture = open(&database, by("id", 10, 1 << 20), START + 3_600 * SECOND).unwrap();
    let at = |second: i64, id: i64| row("A", START + second * SECOND, id);
    assert_eq!(send(&capture, &[at(0, 1), at(100, 2)]), (2, 0));
    assert_eq!(send(&capture, &[at(0, 1), at(89, 3), at(100, 2), at(90, 4)]), (3, 1));
    assert_eq!(send(&capture, &[at(89, 3), at(90, 4)]), (1, 1), "the first moment of the window is in it");
    assert_eq!(capture.status().uncompared_rows, 3);
    assert_eq!(ids(&database), [1, 1, 2, 3, 3, 4]);
    capture.close().unwrap();
    // A row that is ahead doesn't end the window of those that come on time.
    let capture = open(&database, by("id", 10, 1 << 20), START + 101 * SECOND).unwrap();
    assert_eq!(send(&capture, &[at(300, 5), at(101, 6)]), (2, 0));
    assert_eq!(send(&capture, &[at(300, 5), at(101, 6), at(100, 2)]), (0, 3));
    capture.close().unwrap();
}

#[test]
fn a_feed_that_resends_its_last_minute_after_a_start_a_roll_or_a_deletion_is_told() {
    let (_, database) = in_memory();
    let now = START + DAY + 30 * SECOND;
    let rows: Vec<Row> = (0..60).map(|id| row("A", START + DAY - 30 * SECOND + id * SECOND, id)).collect();
    let capture = open(&database, by("id", 60, 1 << 20), now).unwrap();
    assert_eq!(send(&capture, &rows), (60, 0));
    capture.roll(Some(now + DAY)).unwrap();
    assert_eq!(send(&capture, &rows), (0, 60), "rolled");
    capture.close().unwrap();
    let capture = open(&database, by("id", 60, 1 << 20), now).unwrap();
    assert_eq!(send(&capture, &rows), (0, 60), "from files");
    assert_eq!(delete(&database, Bounds { min: rows[50].time, max: i64::MAX }).unwrap(), 10);
    assert_eq!(send(&capture, &rows), (10, 50), "deleted");
    capture.close().unwrap();
    let capture = open(&database, by("id", 60, 1 << 20), now).unwrap();
    assert_eq!(send(&capture, &rows), (0, 60), "from the journal");
    assert_eq!(ids(&database), (0..60).collect::<Vec<_>>());
    capture.close().unwrap();
}

#[test]
fn no_more_keys_are_held_than_may_be_and_it_is_told() {
    let (_, database) = in_memory();
    let capture = open(&database, by("id", 3_600, 100), START + 3_600 * SECOND).unwrap();
    let rows = |ids: std::ops::Range<i64>| -> Vec<Row> { ids.map(|id| row("A", START + id * SECOND, id)).collect() };
    for first in (0..1_000).step_by(50) {
        send(&capture, &rows(first..first + 50));
    }
    let dedupe = || capture.status().tables[0].dedupe.clone().unwrap();
    let dedupe_status = dedupe();
    assert!(dedupe_status.is_limited && dedupe_status.keys <= 100 && dedupe_status.keys > 50, "{dedupe_status:?}");
    let oldest_key = (dedupe_status.from.unwrap() - START + SECOND - 1) / SECOND;
    assert_eq!(send(&capture, &rows(oldest_key..1_000)), (0, (1_000 - oldest_key) as u64), "what is held is compared");
    assert_eq!(send(&capture, &rows(0..50)), (50, 0), "what isn't stays");
    assert_eq!((dedupe().uncompared_rows, ids(&database).len()), (50, 1_050));
    // More than that at once, in any order.
    let many: Vec<Row> = rows(1_000..1_500).into_iter().rev().collect();
    assert_eq!(send(&capture, &many), (500, 0));
    assert!(dedupe().keys <= 100, "{:?}", dedupe());
    capture.close().unwrap();
    // A start holds no more either, and a longer way fits again when there are fewer rows.
    let capture = open(&database, by("id", 3_600, 100), START + 3_600 * SECOND).unwrap();
    let dedupe_status = capture.status().tables[0].dedupe.clone().unwrap();
    assert!(dedupe_status.is_limited && dedupe_status.keys <= 100 && dedupe_status.keys > 50, "{dedupe_status:?}");
    capture.close().unwrap();
    let capture = open(&database, by("id", 3_600, 100), START + 6_000 * SECOND).unwrap();
    assert_eq!(send(&capture, &[row("A", START + 6_000 * SECOND, 1_000_000)]), (1, 0));
    assert!(!capture.status().tables[0].dedupe.clone().unwrap().is_limited);
    capture.close().unwrap();
}

#[test]
fn a_column_that_a_table_gets_later_is_null_in_rows_of_before() {
    let (_, database) = in_memory();
    let capture = open(&database, by("exact", 60, 1 << 20), START + 60 * SECOND).unwrap();
    let old = batch(&[row("A", START, 1), row("A", START, 2)]);
    let with = |price: Option<f64>| {
        let price: ArrayRef = Arc::new(Float64Array::from(vec![price; 2]));
        let mut columns: Vec<(&str, ArrayRef)> =
            ["time", "sym", "id"].map(|name| (name, Arc::clone(old.column_by_name(name).unwrap()))).to_vec();
        columns.push(("price", price));
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap()
    };
    let counts = |rows: &RecordBatch| {
        let ack = capture.append(Append { spec: Some(spec("UTC")), ..Append::new("trade", rows.clone()) }).unwrap();
        (ack.rows, ack.duplicate_rows)
    };
    assert_eq!(counts(&old), (2, 0));
    assert_eq!(counts(&with(None)), (0, 2));
    assert_eq!(counts(&with(Some(1.5))), (2, 0));
    assert_eq!(counts(&with(Some(1.5))), (0, 2));
    assert_eq!(counts(&old), (0, 2));
    capture.write_down(None).unwrap();
    assert_eq!(counts(&with(None)), (0, 2));
    assert_eq!(counts(&with(Some(0.0))), (2, 0));
    assert_eq!(counts(&with(Some(-0.0))), (0, 2));
    capture.close().unwrap();
}

#[test]
fn settings_that_find_no_duplicates_are_refused_at_the_start() {
    let (_, database) = in_memory();
    let refused = |key: &str, window_s: u64, keys_max: usize| -> String {
        match open(&database, by(key, window_s, keys_max), START) {
            Ok(_) => panic!("{key:?} was taken"),
            Err(error) => error.to_string(),
        }
    };
    assert!(refused("id", 0, 1).contains("window_s is 0"), "{}", refused("id", 0, 1));
    assert!(refused("id", 1, 0).contains("keys_max is 0"));
    assert!(refused("id,", 1, 1).contains("list of columns"));
    let two = ["trade", "TRADE"].map(|table| (table.to_owned(), DedupeSettings::default()));
    let twice = CaptureSettings { dedupe: BTreeMap::from(two), ..settings() };
    assert!(open(&database, twice, START).unwrap_err().to_string().contains("named twice"));
    // Of a table that isn't there nothing is known; its first rows are asked.
    let capture = open(&database, by("id,price", 60, 10), START).unwrap();
    let without = capture.append(trade(&[row("A", START, 1)])).unwrap_err();
    assert!(matches!(&without, Error::Rejected { reason, .. } if reason.contains("price")), "{without}");
    assert!(database.table("trade").is_err(), "what is refused makes no table");
    capture.close().unwrap();
    let capture = open(&database, by("id", 60, 10), START).unwrap();
    let rows = [row("A", START, 1)];
    let priced = |rows: &RecordBatch| {
        let mut columns: Vec<(String, ArrayRef)> = vec![("price".to_owned(), Arc::new(Float64Array::from(vec![1.5])))];
        columns.push(("n".to_owned(), Arc::new(Int64Array::from(vec![1]))));
        let all = rows.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        columns.extend(all.into_iter().zip(rows.columns().iter().map(Arc::clone)));
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let append = Append { spec: Some(spec("UTC")), ..Append::new("trade", priced(&batch(&rows))) };
    assert_eq!(capture.append(append).unwrap().rows, 1);
    assert_eq!(send(&capture, &rows), (0, 1));
    capture.close().unwrap();
    for (key, why) in [
        ("other", "other"),
        ("id,price", "\"price\", which is float64"),
        ("time", "the time alone"),
        ("sym", "the symbol alone"),
    ] {
        let message = refused(key, 60, 10);
        assert!(message.contains("dedupe") && message.contains("trade") && message.contains(why), "{message}");
    }
    for key in ["exact", "id", "n,ID", "time,sym"] {
        open(&database, by(key, 60, 10), START).unwrap().close().unwrap();
    }
}
