//! Subscribers get everything once, in order, from wherever they begin.

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use splay_capture::{
    Append, Capture, CaptureSettings, Error, SlowPolicy, SubscribeRequest, Subscriber, SubscriptionStart, UpdateKind,
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
    let request = SubscribeRequest { from: SubscriptionStart::Snapshot, ..SubscribeRequest::new("trade") };
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
            capture.subscribe(SubscribeRequest { from: SubscriptionStart::After(0), ..SubscribeRequest::new("trade") });
        drain(subscriber.as_mut().unwrap())
    };
    send(&capture, 50..120);
    capture.close().unwrap();
    drop(capture);
    let capture = open(folder.path());
    let request = SubscribeRequest { from: SubscriptionStart::After(last), ..SubscribeRequest::new("trade") };
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
    let mut row_count = 0;
    let error = loop {
        match ended.next(Duration::ZERO) {
            Ok(Some(update)) => row_count += update.rows.num_rows(),
            other => break other.unwrap_err(),
        }
    };
    let Error::Slow { after, .. } = error else { panic!("{error}") };
    // It goes on behind what it was given.
    let request = SubscribeRequest { from: SubscriptionStart::After(after), ..SubscribeRequest::new("trade") };
    let rest = drain(&mut capture.subscribe(request).unwrap()).0;
    assert_eq!((row_count + rest.len(), rest.last()), (595, Some(&599)));
    capture.close().unwrap();
}

#[test]
fn what_waits_for_a_slow_subscriber_is_dropped_for_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let capture = open(folder.path());
    send(&capture, 0..5);
    let request = SubscribeRequest { queue_bytes_max: 1, ..SubscribeRequest::new("trade") };
    let mut slow = capture.subscribe(request).unwrap();
    send(&capture, 5..600);
    let mut update = slow.next(Duration::ZERO).unwrap().unwrap();
    let mut rows = 0;
    assert!(matches!(update.kind, UpdateKind::Snapshot { first: true, .. }), "{:?}", update.kind);
    while let UpdateKind::Snapshot { more, .. } = update.kind {
        rows += update.rows.num_rows();
        assert_eq!(update.sequence, 600);
        if !more {
            break;
        }
        update = slow.next(Duration::ZERO).unwrap().unwrap();
    }
    assert_eq!(rows, 600);
    send(&capture, 600..610);
    assert_eq!(drain(&mut slow), ((600..610).collect::<Vec<_>>(), 610));
    capture.close().unwrap();
}

#[test]
fn catching_up_goes_on_while_more_comes_and_falls_behind_again() {
    let folder = tempfile::tempdir().unwrap();
    let capture = open(folder.path());
    send(&capture, 0..1);
    let slow = SlowPolicy::CatchUp;
    let request = SubscribeRequest { queue_bytes_max: 1, slow, ..SubscribeRequest::new("trade") };
    let mut later = capture.subscribe(request).unwrap();
    let (mut seen, mut sent) = (Vec::new(), 1);
    for _ in 0..6 {
        send(&capture, sent..sent + 400);
        sent += 400;
        // A part of what waits, so that the queue fills again while the journal is read.
        for _ in 0..150 {
            let update = later.next(Duration::ZERO).unwrap().unwrap();
            seen.extend(update.rows.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec());
        }
    }
    seen.extend(drain(&mut later).0);
    assert_eq!(seen, (1..sent).collect::<Vec<_>>());
    capture.close().unwrap();
}

#[test]
fn who_catches_up_with_what_the_journal_no_longer_has_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_or_create(folder.path()).unwrap();
    let settings = CaptureSettings { journal_segment_bytes: 2_000, journal_keep_bytes: 0, ..settings() };
    let (capture, _) = Capture::open_with(database, settings, TestClock::at(START + DAY)).unwrap();
    send(&capture, 0..1);
    let request = |slow| SubscribeRequest { queue_bytes_max: 1, slow, ..SubscribeRequest::new("trade") };
    let mut began = capture.subscribe(request(SlowPolicy::CatchUp)).unwrap();
    let mut late = capture.subscribe(request(SlowPolicy::CatchUp)).unwrap();
    send(&capture, 1..600);
    // The first is in the middle of the journal when its files go; the other one only begins then.
    let mut ids = 0;
    while ids < 500 {
        ids = began.next(Duration::ZERO).unwrap().unwrap().sequence;
    }
    capture.write_down(None).unwrap();
    send(&capture, 600..601);
    for subscriber in [&mut began, &mut late] {
        let error = loop {
            match subscriber.next(Duration::ZERO) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("rows were passed over"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Gone { .. }), "{error}");
    }
    capture.close().unwrap();
}

#[test]
fn no_row_is_missed_by_who_subscribes_while_rows_come() {
    let folder = tempfile::tempdir().unwrap();
    let capture = open(folder.path());
    send(&capture, 0..1);
    let total = 3_000;
    let sender = {
        let capture = capture.clone();
        std::thread::spawn(move || send(&capture, 1..total))
    };
    let mut subscribers = Vec::new();
    while !sender.is_finished() {
        let request = SubscribeRequest { from: SubscriptionStart::Snapshot, ..SubscribeRequest::new("trade") };
        subscribers.push(capture.subscribe(request).unwrap());
        // Few enough that publishing stays cheap.
        if subscribers.len() > 64 {
            let mut subscriber = subscribers.remove(0);
            let (ids, last) = drain(&mut subscriber);
            assert_eq!(ids.len() as u64, last, "each row of each batch so far");
        }
    }
    sender.join().unwrap();
    for mut subscriber in subscribers {
        let (mut ids, _) = drain(&mut subscriber);
        ids.sort_unstable();
        assert_eq!(ids, (0..total).collect::<Vec<_>>());
    }
    capture.close().unwrap();
}
