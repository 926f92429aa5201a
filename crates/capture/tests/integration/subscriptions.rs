//! Subscribers get everything once, in order, from wherever they begin.

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use splay_capture::{
    Append, Capture, CaptureSettings, Error, From, SlowPolicy, SubscribeRequest, Subscriber, UpdateKind,
};
use splay_store::Database;

use crate::rows::{DAY, SECOND, START, TestClock, batch, row, settings, spec};

fn send(capture: &Capture, ids: std::ops::Range<i64>) {
    for id in ids {
        let rows = batch(&[row(["A", "B"][id as usize % 2], START + id * SECOND, id)]);
        capture.append(Append { spec: Some(spec("UTC")), ..Append::new("trade", rows) }).unwrap();
    }
}

/// What waits: the numbers of the rows, and the last sequence number. A snapshot replaces what came before.
fn drain(subscriber: &mut Subscriber) -> (Vec<i64>, u64) {
    let (mut ids, mut last) = (Vec::new(), 0);
    while let Some(update) = subscriber.next(Duration::ZERO).unwrap() {
        if matches!(update.kind, UpdateKind::Snapshot { first: true, .. }) {
            ids.clear();
        }
        let column = update.rows.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec();
        ids.extend(column);
        last = update.sequence;
    }
    (ids, last)
}

fn open(folder: &std::path::Path) -> Capture {
    let database = Database::open_or_create(folder).unwrap();
    let settings = CaptureSettings { journal_segment_bytes: 2_000, ..settings() };
    Capture::open_with(database, settings, TestClock::at(START + DAY)).unwrap().0
}

#[test]
fn a_snapshot_and_what_follows_have_every_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let capture = open(folder.path());
    send(&capture, 0..10);
    capture.write_down(None).unwrap();
    send(&capture, 10..20);
    let request = SubscribeRequest { from: From::Snapshot, ..SubscribeRequest::new("trade") };
    let mut everything = capture.subscribe(request.clone()).unwrap();
    let symbols = Some(vec!["B".to_owned()]);
    let columns = Some(vec!["id".to_owned()]);
    let mut some = capture.subscribe(SubscribeRequest { symbols, columns, ..request }).unwrap();
    let mut now = capture.subscribe(SubscribeRequest::new("trade")).unwrap();
    send(&capture, 20..30);
    let mut ids = drain(&mut everything).0;
    ids.sort_unstable();
    assert_eq!(ids, (0..30).collect::<Vec<_>>());
    let mut ids = drain(&mut some).0;
    ids.sort_unstable();
    assert_eq!(ids, (0..30).filter(|id| id % 2 == 1).collect::<Vec<_>>());
    assert_eq!(drain(&mut now).0, (20..30).collect::<Vec<_>>());
    assert_eq!(capture.status().subscribers, 3);
    drop(now);
    assert_eq!(capture.status().subscribers, 2);
    capture.close().unwrap();
    assert!(matches!(everything.next(Duration::ZERO), Err(Error::Closed)));
}

#[test]
fn a_subscriber_goes_on_after_a_break_also_over_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let capture = open(folder.path());
    send(&capture, 0..50);
    let (mut ids, last) = {
        let mut subscriber =
            capture.subscribe(SubscribeRequest { from: From::After(0), ..SubscribeRequest::new("trade") });
        drain(subscriber.as_mut().unwrap())
    };
    send(&capture, 50..120);
    capture.close().unwrap();
    drop(capture);
    let capture = open(folder.path());
    let request = SubscribeRequest { from: From::After(last), ..SubscribeRequest::new("trade") };
    let mut subscriber = capture.subscribe(request).unwrap();
    send(&capture, 120..130);
    ids.extend(drain(&mut subscriber).0);
    assert_eq!(ids, (0..130).collect::<Vec<_>>());
    capture.close().unwrap();
}

#[test]
fn a_slow_subscriber_gets_what_it_asked_for_and_slows_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let capture = open(folder.path());
    send(&capture, 0..5);
    let slow = |slow: SlowPolicy| {
        let request = SubscribeRequest { queue_bytes_max: 1, slow, ..SubscribeRequest::new("trade") };
        capture.subscribe(request).unwrap()
    };
    let (mut again, mut later, mut ended) =
        (slow(SlowPolicy::Snapshot), slow(SlowPolicy::CatchUp), slow(SlowPolicy::Disconnect));
    send(&capture, 5..600);
    let mut ids = drain(&mut again).0;
    ids.sort_unstable();
    assert_eq!(ids, (0..600).collect::<Vec<_>>(), "a new snapshot has everything");
    assert_eq!(drain(&mut later).0, (5..600).collect::<Vec<_>>());
    let error = loop {
        match ended.next(Duration::ZERO) {
            Ok(Some(_)) => {}
            other => break other.unwrap_err(),
        }
    };
    assert!(matches!(error, Error::Gone { .. }), "{error}");
    capture.close().unwrap();
}
