//! A replay gives a day's rows in order of time, cut the same way each time, when they are due.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampNanosecondType};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{
    Append, Capture, CaptureSettings, Clock, Error, Pace, Replay, ReplayRequest, ReplaySource, ReplaySpeed, ReplayView,
    SubscriptionStart, Update, UpdateKind,
};
use splay_store::{CompactOptions, Database, TableSpec, Tier};

use crate::rows::{DAY, Row, SECOND, START, TestClock, batch, row, settings, spec};

const DATE: &str = "2024-03-10";

/// All of everything.
fn whole() -> ReplayView {
    ReplayView { tables: None, symbols: None, columns: None, from: SubscriptionStart::Now }
}

fn fast(tables: &[&str]) -> ReplayRequest {
    let tables = tables.iter().map(|table| (*table).to_owned()).collect();
    ReplayRequest { speed: ReplaySpeed::Max, ..ReplayRequest::new(tables, DATE) }
}

fn named(table: &str) -> TableSpec {
    TableSpec { name: table.to_owned(), ..spec("UTC") }
}

fn send(capture: &Capture, table: &str, rows: &[Row]) {
    capture.append(Append { spec: Some(named(table)), ..Append::new(table, batch(rows)) }).unwrap();
}

fn rows(update: &Update) -> Vec<Row> {
    let times = update.rows.column_by_name("time").unwrap().as_primitive::<TimestampNanosecondType>();
    let symbols = update.rows.column_by_name("sym").unwrap().as_dictionary::<Int32Type>();
    let texts = symbols.values().as_string::<i32>();
    let ids = update.rows.column_by_name("id").unwrap().as_primitive::<Int64Type>();
    let text = |row: usize| if symbols.is_null(row) { "" } else { texts.value(symbols.keys().value(row) as usize) };
    (0..update.rows.num_rows()).map(|at| self::row(text(at), times.value(at), ids.value(at))).collect()
}

/// Everything that comes, up to the end: table, sequence number and rows of each update.
fn drain(replay: &mut Replay) -> Vec<(String, u64, Vec<Row>)> {
    let mut all = Vec::new();
    loop {
        let Some(update) = replay.next(Duration::ZERO).unwrap() else { continue };
        if update.kind == UpdateKind::End {
            assert!(matches!(replay.next(Duration::ZERO), Err(Error::Closed)));
            return all;
        }
        all.push((update.table.to_string(), update.sequence, rows(&update)));
    }
}

fn begin(database: &Database, request: &ReplayRequest, view: &ReplayView) -> Replay {
    Replay::begin(database, request, view, Pace::new(TestClock::at(0))).unwrap()
}

/// Random rows of two tables, with ties, in any order, some on disk, some in memory.
fn captured(folder: &std::path::Path, seed: u64) -> (Capture, Vec<(usize, Row)>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let database = Database::open_or_create(folder).unwrap();
    let capture = Capture::open_with(database, settings(), TestClock::at(START + DAY)).unwrap().0;
    let mut all: Vec<(usize, Row)> = Vec::new();
    for step in 0..40 {
        let table = random.random_range(0..2);
        let size = random.random_range(1..60);
        let chunk: Vec<Row> = (0..size)
            .map(|at| {
                let symbol = ["A", "B", "", "LONGER"][random.random_range(0..4)];
                let time = START + random.random_range(0..2_000) * 1_000_000;
                row(symbol, time, (all.len() + at) as i64)
            })
            .collect();
        send(&capture, ["trade", "quote"][table], &chunk);
        all.extend(chunk.into_iter().map(|row| (table, row)));
        if step % 13 == 12 {
            capture.write_down(None).unwrap();
        }
    }
    (capture, all)
}

#[test]
fn rows_come_in_order_of_time_whatever_files_they_are_in_and_cut_the_same_way() {
    for seed in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let (capture, all) = captured(folder.path(), seed);
        // Stable: rows of one time, table and symbol stay in order of arrival.
        let mut expected = all.clone();
        expected.sort_by(|(table, one), (of, other)| {
            (one.time, table, &one.symbol, one.id).cmp(&(other.time, of, &other.symbol, other.id))
        });
        let request = fast(&["trade", "quote"]);
        let updates = drain(&mut begin(capture.database(), &request, &whole()));
        let flat: Vec<(usize, Row)> = updates
            .iter()
            .flat_map(|(table, _, rows)| rows.iter().map(move |row| (usize::from(table == "quote"), row.clone())))
            .collect();
        assert_eq!(flat, expected, "seed {seed}");
        let numbers: Vec<u64> = updates.iter().map(|(_, sequence, _)| *sequence).collect();
        assert_eq!(numbers, (1..=updates.len() as u64).collect::<Vec<_>>());
        for (_, _, rows) in &updates {
            let stretch = |row: &Row| row.time / 10_000_000;
            assert_eq!(stretch(&rows[0]), stretch(&rows[rows.len() - 1]));
        }
        for pair in updates.windows(2) {
            let stretch = |of: &(String, u64, Vec<Row>)| of.2[0].time / 10_000_000;
            assert!(pair[0].0 != pair[1].0 || stretch(&pair[0]) != stretch(&pair[1]), "they belong together");
        }
        // On disk, joined, in the other format: the same updates.
        capture.write_down(None).unwrap();
        assert_eq!(drain(&mut begin(capture.database(), &request, &whole())), updates, "seed {seed}");
        for table in ["trade", "quote"] {
            let options = CompactOptions { tier: Some(Tier::Small), ..CompactOptions::default() };
            let table = capture.database().table(table).unwrap();
            table.compact(&options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        }
        assert_eq!(drain(&mut begin(capture.database(), &request, &whole())), updates, "seed {seed}");
        // Behind any of them it goes on with the next.
        let after = updates.len() as u64 / 3;
        let view = ReplayView { from: SubscriptionStart::After(after), ..whole() };
        assert_eq!(drain(&mut begin(capture.database(), &request, &view)), updates[after as usize..]);
        // One table of it has the numbers that it has among the others.
        let view = ReplayView { tables: Some(vec!["QUOTE".to_owned()]), ..whole() };
        let quotes: Vec<_> = updates.iter().filter(|(table, _, _)| table == "quote").cloned().collect();
        assert_eq!(drain(&mut begin(capture.database(), &request, &view)), quotes);
        // Symbols of a view leave rows out and keep the numbers.
        let view = ReplayView { symbols: Some(vec!["B".to_owned()]), ..whole() };
        let is_b = |row: &Row| row.symbol.as_deref() == Some("B");
        let of_b = |(table, sequence, rows): &(String, u64, Vec<Row>)| {
            let rows: Vec<Row> = rows.iter().filter(|row| is_b(row)).cloned().collect();
            (!rows.is_empty()).then(|| (table.clone(), *sequence, rows))
        };
        let expected: Vec<_> = updates.iter().filter_map(of_b).collect();
        assert_eq!(drain(&mut begin(capture.database(), &request, &view)), expected);
        // Symbols of the request count among themselves.
        let request = ReplayRequest { symbols: Some(vec!["B".to_owned()]), ..request };
        let alone = drain(&mut begin(capture.database(), &request, &whole()));
        let rows =
            |updates: &[(String, u64, Vec<Row>)]| -> Vec<Row> { updates.iter().flat_map(|of| of.2.clone()).collect() };
        assert_eq!(rows(&alone), rows(&expected));
        assert_eq!(alone.last().map(|of| of.1), Some(alone.len() as u64));
        capture.close().unwrap();
    }
}

#[test]
fn a_stretch_of_the_day_comes_with_what_was_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, all) = captured(folder.path(), 7);
    let (from, to) = (START + SECOND / 2, START + SECOND);
    for (low, high) in [("00:00:00.5", "00:00:01"), ("2024-03-10T00:00:00.5Z", "2024-03-09T19:00:01-05:00")] {
        let request = ReplayRequest { from: Some(low.to_owned()), to: Some(high.to_owned()), ..fast(&["trade"]) };
        let view = ReplayView { from: SubscriptionStart::Snapshot, ..whole() };
        let mut replay = begin(capture.database(), &request, &view);
        let first = replay.next(Duration::ZERO).unwrap().unwrap();
        assert_eq!((first.kind, first.sequence), (UpdateKind::Snapshot { first: true, more: false }, 0));
        let mut before: Vec<Row> =
            all.iter().filter(|(table, row)| *table == 0 && row.time < from).map(|(_, row)| row.clone()).collect();
        before.sort_by(|one, other| (&one.symbol, one.time, one.id).cmp(&(&other.symbol, other.time, other.id)));
        assert_eq!(rows(&first), before, "in the table's order");
        let replayed_rows: Vec<Row> = drain(&mut replay).into_iter().flat_map(|(_, _, rows)| rows).collect();
        let mut expected: Vec<Row> = all
            .iter()
            .filter(|(table, row)| *table == 0 && (from..to).contains(&row.time))
            .map(|of| of.1.clone())
            .collect();
        expected.sort_by(|one, other| (one.time, &one.symbol, one.id).cmp(&(other.time, &other.symbol, other.id)));
        assert_eq!(replayed_rows, expected);
    }
    // A day begins with nothing.
    let view = ReplayView { from: SubscriptionStart::Snapshot, ..whole() };
    let first = begin(capture.database(), &fast(&["trade"]), &view).next(Duration::ZERO).unwrap().unwrap();
    assert_eq!((first.kind, first.rows.num_rows()), (UpdateKind::Snapshot { first: true, more: false }, 0));
    capture.close().unwrap();
}

#[test]
fn updates_come_when_they_are_due() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_or_create(folder.path()).unwrap();
    let (capture, _) = Capture::open_with(database, settings(), TestClock::at(START + DAY)).unwrap();
    send(&capture, "trade", &[row("A", START, 0), row("B", START + 20 * SECOND, 1), row("A", START + 60 * SECOND, 2)]);
    let clock = TestClock::at(1_000);
    let pace = Pace::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let request = ReplayRequest { speed: ReplaySpeed::Times(10.0), ..fast(&["trade"]) };
    let mut replay = Replay::begin(capture.database(), &request, &whole(), pace.clone()).unwrap();
    let next = |replay: &mut Replay| replay.next(Duration::ZERO).unwrap().map(|update| update.sequence);
    assert_eq!((next(&mut replay), next(&mut replay)), (Some(1), None));
    clock.0.store(1_000 + 2 * SECOND - 1, Ordering::SeqCst);
    assert_eq!(next(&mut replay), None, "a nanosecond too early");
    // Who comes later to the same replay gets at once what was due, and then goes along.
    let mut late = Replay::begin(capture.database(), &request, &whole(), pace).unwrap();
    assert_eq!((next(&mut late), next(&mut late)), (Some(1), None));
    clock.0.store(1_000 + 2 * SECOND, Ordering::SeqCst);
    assert_eq!((next(&mut replay), next(&mut replay)), (Some(2), None));
    assert_eq!((next(&mut late), next(&mut late)), (Some(2), None));
    clock.0.store(1_000 + 6 * SECOND, Ordering::SeqCst);
    assert_eq!((next(&mut replay), next(&mut late)), (Some(3), Some(3)));
    // One that is resumed goes on from there, without waiting for what it has.
    let view = ReplayView { from: SubscriptionStart::After(2), ..whole() };
    let pace = Pace::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let mut resumed = Replay::begin(capture.database(), &request, &view, pace).unwrap();
    assert_eq!(next(&mut resumed), Some(3));
    capture.close().unwrap();
}

#[test]
fn a_recorded_replay_has_the_batches_as_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::at(START + 10 * SECOND);
    let database = Database::open_or_create(folder.path()).unwrap();
    let small = CaptureSettings { journal_segment_bytes: 1_500, ..settings() };
    let (capture, _) = Capture::open_with(database, small, Arc::clone(&clock) as _).unwrap();
    let mut sent = Vec::new();
    for id in 0..60i64 {
        let table = ["trade", "quote"][id as usize % 2];
        // Each a little earlier than the one before: late rows come late.
        let chunk = [row("A", START + (200 - id) * 1_000_000, id), row("B", START, 1_000 + id)];
        send(&capture, table, &chunk);
        sent.push((table.to_owned(), id as u64 + 1, chunk.to_vec()));
        clock.0.fetch_add(SECOND, Ordering::SeqCst);
    }
    let request = ReplayRequest { source: ReplaySource::Recorded, ..fast(&["trade", "quote"]) };
    let updates =
        |database: &Database, request: &ReplayRequest, view: &ReplayView| drain(&mut begin(database, request, view));
    assert_eq!(updates(capture.database(), &request, &whole()), sent);
    assert_eq!(
        updates(capture.database(), &request, &ReplayView { from: SubscriptionStart::After(41), ..whole() }),
        sent[41..]
    );
    // Write-downs change nothing of what was recorded.
    capture.write_down(None).unwrap();
    assert_eq!(updates(capture.database(), &request, &whole()), sent);
    // Instants are those of receipt.
    let from = Some("00:00:30".to_owned());
    let some = ReplayRequest { from, to: Some("00:00:40".to_owned()), ..request.clone() };
    assert_eq!(updates(capture.database(), &some, &whole()), sent[20..30]);
    let another = ReplayRequest { date: Some("2024-03-11".to_owned()), ..request.clone() };
    assert!(updates(capture.database(), &another, &whole()).is_empty());
    let any = ReplayRequest { date: None, ..request.clone() };
    // By a process that doesn't capture, while one does and after.
    let other = Database::open(folder.path()).unwrap();
    assert_eq!(updates(&other, &any, &whole()), sent);
    capture.close().unwrap();
    assert_eq!(updates(&other, &any, &whole()), sent);
    // At its own pace.
    let clock = TestClock::at(0);
    let pace = Pace::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let request = ReplayRequest { speed: ReplaySpeed::Times(0.5), ..request };
    let mut replay = Replay::begin(&other, &request, &whole(), pace).unwrap();
    let mut next = || replay.next(Duration::ZERO).unwrap().map(|update| update.sequence);
    assert_eq!((next(), next()), (Some(1), None));
    clock.0.store(2 * SECOND - 1, Ordering::SeqCst);
    assert_eq!(next(), None);
    clock.0.store(2 * SECOND, Ordering::SeqCst);
    assert_eq!((next(), next()), (Some(2), None));
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, _) = captured(folder.path(), 1);
    let refused = |request: ReplayRequest, view: ReplayView| {
        Replay::begin(capture.database(), &request, &view, Pace::new(TestClock::at(0))).unwrap_err()
    };
    let view = whole();
    assert!(matches!(refused(fast(&["nothing"]), view.clone()), Error::NoSuchTable { .. }));
    let only = |tables: &[&str]| Some(tables.iter().map(|table| (*table).to_owned()).collect());
    let other = ReplayView { tables: only(&["quote"]), ..view.clone() };
    assert!(matches!(refused(fast(&["trade"]), other), Error::NoSuchTable { .. }));
    let some = |text: &str| Some(text.to_owned());
    for request in [
        fast(&[]),
        fast(&["trade", "TRADE"]),
        ReplayRequest { date: None, ..fast(&["trade"]) },
        ReplayRequest { date: some("yesterday"), ..fast(&["trade"]) },
        ReplayRequest { from: some("noon"), ..fast(&["trade"]) },
        ReplayRequest { to: some("25:00"), ..fast(&["trade"]) },
        ReplayRequest { from: some("2300-01-01T00:00:00Z"), ..fast(&["trade"]) },
        ReplayRequest { batch_ns: 0, ..fast(&["trade"]) },
        ReplayRequest { speed: ReplaySpeed::Times(0.0), ..fast(&["trade"]) },
        ReplayRequest { speed: ReplaySpeed::Times(f64::NAN), ..fast(&["trade"]) },
    ] {
        let error = refused(request.clone(), view.clone());
        assert!(matches!(error, Error::Rejected { .. }), "{request:?}: {error}");
    }
    let wrong = ReplayView { columns: only(&["nothing"]), ..view };
    assert!(matches!(refused(fast(&["trade"]), wrong), Error::Rejected { .. }));
    capture.close().unwrap();
}
