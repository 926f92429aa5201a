//! Power cuts and failures at every operation: what was acknowledged as `disk` is there once, and nothing is there that nobody
//! sent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{
    AckClass, Append, Capture, CaptureSettings, Error, FollowSettings, Producer, Result, SubscribeRequest,
    SubscriptionStart, follow,
};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Settings};

use crate::rows::{DAY, Row, SECOND, START, TestClock, all, batch, row, settings, spec};

/// Rows of each batch.
const ROWS: i64 = 3;

fn small() -> CaptureSettings {
    CaptureSettings { journal_segment_bytes: 700, journal_keep_bytes: 0, late_s: 1, ..settings() }
}

fn rows_of(number: i64) -> Vec<Row> {
    let time = |at: i64| START + (number * 31 % 17 + at) * SECOND;
    (0..ROWS).map(|at| row(["A", "B"][at as usize % 2], time(at), number * ROWS + at)).collect()
}

/// A day of capture on any storage. Notes the batches that were sent and those that were acknowledged.
fn day(storage: &FaultStorage, sent: &mut i64, acknowledged: &mut Vec<i64>) -> Result<()> {
    let database = match Database::open_on(Arc::new(storage.clone())) {
        Ok(database) => database,
        Err(_) => Database::create_on(Arc::new(storage.clone()), &Settings::default())?,
    };
    for start in 0..2 {
        // Amid the rows, so that a roll leaves some of a batch in memory.
        let clock = TestClock::at(START + (8 + start) * SECOND);
        let capture = Capture::open_with(database.clone(), small(), clock)?.0;
        let result = (|| {
            for step in 0..9 {
                let number = *sent;
                *sent += 1;
                let producer = Some(Producer::new("feed".to_owned(), number as u64 + 1));
                let rows = batch(&rows_of(number));
                capture.append(Append { spec: Some(spec("UTC")), producer, ..Append::new("trade", rows) })?;
                acknowledged.push(number);
                if step == 3 {
                    capture.write_down(None)?;
                }
                if step == 6 {
                    capture.roll(Some(START + 3 * DAY))?;
                }
            }
            Ok(())
        })();
        let closed = capture.close();
        result.and(closed)?;
    }
    Ok(())
}

/// Numbers of rows as a process sees them that only reads; `None` if whole frames stand behind a broken one at the journal's end, as a power
/// cut may leave them: what a start cuts off, a reader doesn't pass over.
fn read_beside(storage: &FaultStorage, what: &str) -> Option<Vec<i64>> {
    let database = Database::open_on(Arc::new(storage.clone())).unwrap();
    follow(&database, FollowSettings::default());
    let table = match database.table("trade") {
        Ok(table) => table,
        Err(splay_store::Error::NoSuchTable { .. }) => return Some(Vec::new()),
        Err(error) => panic!("{what}: {error}"),
    };
    match table.snapshot() {
        Err(error) if error.to_string().contains("as others stand behind it") => None,
        Err(error) => panic!("{what}: {error}"),
        Ok(snapshot) => {
            let rows = crate::rows::read(&snapshot, &splay_store::Selection::default());
            let mut ids: Vec<i64> = rows.into_iter().map(|(_, row)| row.id).collect();
            ids.sort_unstable();
            Some(ids)
        }
    }
}

/// Opens what is left and checks it; sends again what wasn't acknowledged, and checks once more.
fn check(storage: &FaultStorage, sent: i64, acknowledged: &[i64], what: &str) {
    let Ok(database) = Database::open_on(Arc::new(storage.clone())) else {
        assert!(acknowledged.is_empty(), "{what}: the database is gone");
        return;
    };
    let read = read_beside(storage, what);
    let opened = Capture::open_with(database.clone(), small(), TestClock::at(START + 12 * SECOND));
    let (capture, recovered) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    // Whole batches may stand behind a broken one that was on its way to the disk; nothing else is told of.
    let is_false = |loss: &splay_capture::JournalLoss| loss.kind != splay_capture::LossKind::Torn;
    assert!(!recovered.losses.iter().any(is_false), "{what}: {:?}", recovered.losses);
    let ids = || -> Vec<i64> {
        let mut ids: Vec<i64> = match database.table("trade") {
            Ok(_) => all(&database).into_iter().map(|(_, row)| row.id).collect(),
            Err(_) => Vec::new(),
        };
        ids.sort_unstable();
        ids
    };
    let stored_ids = ids();
    assert!(read.is_none_or(|read| read == stored_ids), "{what}: who only reads saw others");
    let distinct: BTreeSet<i64> = stored_ids.iter().copied().collect();
    assert_eq!(stored_ids.len(), distinct.len(), "{what}: a row is there twice");
    for number in 0..sent {
        let there = (0..ROWS).filter(|at| distinct.contains(&(number * ROWS + at))).count() as i64;
        assert!(there == 0 || there == ROWS, "{what}: a part of batch {number}");
        assert!(
            there == ROWS || !acknowledged.contains(&number),
            "{what}: batch {number} was acknowledged and is lost"
        );
    }
    assert!(stored_ids.iter().all(|id| *id < sent * ROWS), "{what}: a row that nobody sent");
    // A sender goes on where its last acknowledgement left it.
    let next = acknowledged.last().map_or(0, |last| last + 1);
    for number in next..sent {
        let producer = Some(Producer::new("feed".to_owned(), number as u64 + 1));
        let append = Append { spec: Some(spec("UTC")), producer, ..Append::new("trade", batch(&rows_of(number))) };
        capture.append(append).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    assert_eq!(ids(), (0..sent * ROWS).collect::<Vec<_>>(), "{what}: after sending again");
    capture.close().unwrap();
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_that_was_acknowledged() {
    let storage = FaultStorage::new();
    let (mut sent, mut acknowledged) = (0, Vec::new());
    day(&storage, &mut sent, &mut acknowledged).unwrap();
    let operations = storage.operations();
    assert_eq!((sent, acknowledged.len()), (18, 18));
    check(&storage.copy(), sent, &acknowledged, "no cut");
    let images: u64 = std::env::var("SPLAY_CRASH_IMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for operation in 0..operations + 3 {
        let storage = FaultStorage::new();
        storage.stop_after(Some(operation));
        let (mut sent, mut acknowledged) = (0, Vec::new());
        drop(day(&storage, &mut sent, &mut acknowledged));
        storage.stop_after(None);
        for image in 0..images {
            let crashed = storage.crash(&mut |bound| match image {
                0 => 0,
                1 => bound - 1,
                _ => random.random_range(0..bound),
            });
            check(&crashed, sent, &acknowledged, &format!("operation {operation}, image {image}"));
        }
    }
}

#[test]
fn a_failure_of_any_operation_is_told_and_loses_nothing() {
    let storage = FaultStorage::new();
    day(&storage, &mut 0, &mut Vec::new()).unwrap();
    for operation in 0..storage.operations() {
        let storage = FaultStorage::new();
        storage.fail_at(Some(operation));
        let (mut sent, mut acknowledged) = (0, Vec::new());
        drop(day(&storage, &mut sent, &mut acknowledged));
        storage.fail_at(None);
        // The process ends, the machine goes on.
        check(&storage.copy(), sent, &acknowledged, &format!("failure of operation {operation}"));
    }
}

/// A look that fails is no torn end, no missing file and no table without rows.
#[test]
fn a_failure_of_any_look_at_files_is_told_and_loses_nothing() {
    let storage = FaultStorage::new();
    day(&storage, &mut 0, &mut Vec::new()).unwrap();
    for read in 0..storage.reads() {
        let storage = FaultStorage::new();
        storage.fail_read_at(Some(read));
        let (mut sent, mut acknowledged) = (0, Vec::new());
        drop(day(&storage, &mut sent, &mut acknowledged));
        storage.fail_read_at(None);
        check(&storage.copy(), sent, &acknowledged, &format!("failure of look {read}"));
    }
}

/// The process goes on: it answers, and takes rows, whatever look failed while it wrote rows down or rolled.
#[test]
fn a_look_that_fails_while_rows_go_to_disk_is_got_over_without_a_start() {
    let work = |storage: &FaultStorage, fail: Option<u64>| -> u64 {
        let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
        let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + DAY)).unwrap().0;
        let send = |number: i64| {
            let rows = batch(&rows_of(number));
            capture.append(Append { spec: Some(spec("UTC")), ..Append::new("trade", rows) }).unwrap();
        };
        (0..3).for_each(send);
        capture.write_down(None).unwrap();
        (3..6).for_each(send);
        let before = storage.reads();
        storage.fail_read_at(fail);
        let down = capture.write_down(None);
        let rolled = capture.roll(Some(START + 3 * DAY));
        storage.fail_read_at(None);
        let looks = storage.reads() - before;
        let what = format!("look {fail:?} of {looks}: {down:?}, {rolled:?}");
        let ids = || all(&database).into_iter().map(|(_, row)| row.id).collect::<BTreeSet<_>>();
        assert_eq!((all(&database).len(), ids().len()), (18, 18), "{what}");
        send(6);
        capture.write_down(None).unwrap_or_else(|error| panic!("{what}: {error}"));
        capture.roll(Some(START + 3 * DAY)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((all(&database).len(), ids().len()), (21, 21), "{what}");
        capture.close().unwrap();
        looks
    };
    let looks = work(&FaultStorage::new(), None);
    assert!(looks > 10, "{looks}");
    for look in 0..looks {
        work(&FaultStorage::new(), Some(look));
    }
}

#[test]
fn a_start_that_fails_at_any_call_is_told_and_the_next_one_finds_all() {
    let whole = FaultStorage::new();
    let (mut sent, mut acknowledged) = (0, Vec::new());
    day(&whole, &mut sent, &mut acknowledged).unwrap();
    // Torn in the middle of the last frame, which nobody was told of.
    let file = whole.paths().into_iter().filter(|path| path.ends_with(".jnl")).next_back().unwrap();
    whole.damage(&file, |bytes| bytes.extend_from_slice(&[1, 2, 3])).unwrap();
    let start = |storage: &FaultStorage| -> Result<()> {
        let database = Database::open_on(Arc::new(storage.clone()))?;
        Capture::open_with(database, small(), TestClock::at(START + 12 * SECOND))?.0.close()
    };
    let counted = whole.copy();
    start(&counted).unwrap();
    let mut failed = 0;
    for (calls, fail) in [
        (counted.reads(), FaultStorage::fail_read_at as fn(&FaultStorage, Option<u64>)),
        (counted.operations(), FaultStorage::fail_at),
    ] {
        assert!(calls > 5);
        for call in 0..calls {
            let storage = whole.copy();
            fail(&storage, Some(call));
            failed += usize::from(start(&storage).is_err());
            fail(&storage, None);
            check(&storage.copy(), sent, &acknowledged, &format!("start with a failure of call {call} of {calls}"));
        }
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn with_each_nth_call_failing_nothing_is_lost() {
    let mut accepted = 0;
    for each in 2..120 {
        let storage = FaultStorage::new();
        storage.fail_each(Some(each));
        let (mut most, mut acknowledged) = (0, Vec::new());
        for _ in 0..6 {
            // A sender goes on where its last acknowledgement left it.
            let mut sent = acknowledged.last().map_or(0, |last| last + 1);
            drop(day(&storage, &mut sent, &mut acknowledged));
            most = most.max(sent);
        }
        storage.fail_each(None);
        accepted += acknowledged.len();
        check(&storage.copy(), most, &acknowledged, &format!("each {each}th call"));
    }
    assert!(accepted > 1_000, "{accepted}");
}

/// Which bytes a failed sync has left on the disk nobody knows, and a second one would say that all is well.
#[test]
fn a_sync_that_fails_ends_capture_and_is_not_tried_again() {
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + DAY)).unwrap().0;
    let send = |number: i64| {
        let rows = batch(&rows_of(number));
        let ack = Some(AckClass::Disk);
        capture.append(Append { spec: Some(spec("UTC")), ack, ..Append::new("trade", rows) })
    };
    send(0).unwrap();
    // Behind the write of the next group.
    storage.fail_at(Some(1));
    assert!(matches!(send(1), Err(Error::Failed { .. })));
    storage.fail_at(None);
    let operations = storage.operations();
    for _ in 0..3 {
        assert!(matches!(send(1), Err(Error::Failed { .. })), "nothing is taken any more");
    }
    assert!(matches!(capture.write_down(None), Err(Error::Failed { .. })));
    assert!(capture.status().failed.is_some());
    assert!(all(&database).len() as i64 >= ROWS, "reads go on");
    assert!(matches!(capture.close(), Err(Error::Failed { .. })));
    assert_eq!(storage.operations(), operations, "nothing is written or synced any more");
    drop((capture, database));
    for whole in [false, true] {
        let crashed = storage.crash(&mut |bound| if whole { bound - 1 } else { 0 });
        let database = Database::open_on(Arc::new(crashed)).unwrap();
        let (capture, _) = Capture::open_with(database.clone(), small(), TestClock::at(START + DAY)).unwrap();
        let rows = all(&database).len() as i64;
        assert!(rows == ROWS || rows == 2 * ROWS, "the first batch, and perhaps the second: {rows}");
        capture.close().unwrap();
    }
}

/// A producer sends on without waiting. If the second of its batches finds the room that the first, which is longer, did not, the first
/// isn't taken for a repeat when it comes again.
#[test]
fn a_batch_for_which_there_was_no_room_is_no_repeat_behind_one_for_which_there_was() {
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + DAY)).unwrap().0;
    let send = |number: u64, rows: i64| {
        let rows: Vec<Row> = (0..rows).map(|at| row("A", START + at, number as i64 * 1_000 + at)).collect();
        let producer = Some(Producer::new("feed".to_owned(), number));
        capture.append(Append { spec: Some(spec("UTC")), producer, ..Append::new("trade", batch(&rows)) })
    };
    send(1, 1).unwrap();
    storage.capacity(Some(storage.used() + 1_000));
    assert!(matches!(send(2, 500), Err(Error::Full { .. })));
    assert!(matches!(send(3, 1), Err(Error::Full { .. })), "has room, and comes behind one that has none");
    storage.capacity(None);
    for number in 2..4 {
        assert!(!send(number, 500).unwrap().duplicate);
    }
    assert!(send(2, 500).unwrap().duplicate);
    // However often a later one comes, the missing one is named, until it is given up.
    storage.capacity(Some(storage.used() + 1_000));
    assert!(matches!(send(4, 500), Err(Error::Full { .. })));
    for _ in 0..3 {
        let refused = send(5, 1).unwrap_err();
        assert!(matches!(refused, Error::Full { .. }) && refused.to_string().contains("number 4 of"), "{refused}");
    }
    assert!(!capture.give_up("feed", 3) && capture.give_up("feed", 4));
    assert!(!send(5, 1).unwrap().duplicate);
    assert_eq!(all(&database).len(), 1_002);
    // Neither is one that was turned away before it came here.
    capture.turn_away(&Producer::new("feed".to_owned(), 6));
    assert!(send(7, 1).unwrap_err().to_string().contains("number 6 of"));
    assert!(!send(6, 1).unwrap().duplicate && !send(7, 1).unwrap().duplicate);
    // One that was stored before is waited for by nobody.
    capture.turn_away(&Producer::new("feed".to_owned(), 7));
    assert!(!send(8, 1).unwrap().duplicate);
    assert_eq!(all(&database).len(), 1_005);
    capture.close().unwrap();
}

/// Before, a batch for which there was no room in memory, and which never reached the queue, was taken for a repeat when it came again.
#[test]
fn a_batch_for_which_there_was_no_memory_is_no_repeat_behind_one_for_which_there_was() {
    let database = Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap();
    let settings = CaptureSettings { live_bytes_max: 100, ..small() };
    let capture = Capture::open_with(database.clone(), settings, TestClock::at(START + DAY)).unwrap().0;
    let send = |number: u64| {
        let rows: Vec<Row> = (0..10).map(|at| row("A", START + at, number as i64 * 1_000 + at)).collect();
        let producer = Some(Producer::new("feed".to_owned(), number));
        capture.append(Append { spec: Some(spec("UTC")), producer, ..Append::new("trade", batch(&rows)) })
    };
    send(1).unwrap();
    assert!(matches!(send(2), Err(Error::Full { .. })));
    capture.write_down(None).unwrap();
    assert!(matches!(send(3), Err(Error::Full { .. })), "has room, and comes behind one that had none");
    assert!(!send(2).unwrap().duplicate);
    capture.write_down(None).unwrap();
    assert!(!send(3).unwrap().duplicate);
    assert_eq!(all(&database).len(), 30);
    capture.close().unwrap();
}

/// Before, each of the later batches passed at its second attempt, and the first was then acknowledged as a repeat and its rows lost.
#[test]
fn batches_that_are_sent_again_in_any_order_are_all_stored() {
    let database = Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap();
    let settings = CaptureSettings { live_bytes_max: 100, ..small() };
    let capture = Capture::open_with(database.clone(), settings, TestClock::at(START + DAY)).unwrap().0;
    let send = |number: u64| {
        capture.write_down(None).unwrap();
        let producer = Some(Producer::new("feed".to_owned(), number));
        let rows = (0..10).map(|at| row("A", START + at, number as i64 * 1_000 + at)).collect::<Vec<Row>>();
        capture.append(Append { spec: Some(spec("UTC")), producer, ..Append::new("trade", batch(&rows)) })
    };
    send(1).unwrap();
    let full = |number: u64| {
        let producer = Some(Producer::new("feed".to_owned(), number));
        let rows = batch(&[row("A", START, 1)]);
        let refused = capture.append(Append { spec: Some(spec("UTC")), producer, ..Append::new("trade", rows) });
        assert!(matches!(refused, Err(Error::Full { .. })));
    };
    (2..7).for_each(full);
    // Of a second process that goes through the same numbers from the greatest on, again and again.
    let mut missing: Vec<u64> = (2..9).rev().collect();
    for _ in 0..7 {
        missing.retain(|number| match send(*number) {
            Ok(ack) => {
                assert!(!ack.duplicate, "{number}");
                false
            }
            Err(error) => {
                assert!(matches!(error, Error::Full { .. }), "{error}");
                true
            }
        });
    }
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(all(&database).len(), 80);
    // A refusal for good is no reason to wait.
    full(9);
    capture.write_down(None).unwrap();
    let producer = Some(Producer::new("feed".to_owned(), 9));
    let nameless = Append { producer, ..Append::new("trade", RecordBatch::new_empty(Arc::new(Schema::empty()))) };
    assert!(matches!(capture.append(nameless), Err(Error::Rejected { .. })));
    assert!(!send(10).unwrap().duplicate);
    capture.close().unwrap();
}

/// Tables are created, given columns and rolled by commits of their own, whose syncs may fail as well.
#[test]
fn after_any_failure_capture_goes_on_with_all_tables_or_says_that_it_has_failed() {
    let work = |fail: Option<u64>, what: fn(&Capture) -> Result<()>| -> (u64, bool) {
        let storage = FaultStorage::new();
        let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
        let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + DAY)).unwrap().0;
        let send = |number| {
            let rows = batch(&rows_of(number));
            capture.append(Append { spec: Some(spec("UTC")), ..Append::new("trade", rows) }).map(drop)
        };
        for number in 0..2 {
            send(number).unwrap();
            capture.write_down(None).unwrap();
        }
        let before = storage.operations();
        storage.fail_at(fail);
        let done = what(&capture);
        storage.fail_at(None);
        let operations = storage.operations() - before;
        let failed = capture.is_failed();
        let says = format!("operation {fail:?} of {operations}: {done:?}");
        for again in [send(2), what(&capture), capture.roll(Some(START + 3 * DAY)).map(drop)] {
            assert_eq!(matches!(again, Err(Error::Failed { .. })), failed, "{says}, then {again:?}");
            assert_eq!(again.is_err(), failed, "{says}, then {again:?}");
        }
        assert_eq!(all(&database).len(), if failed { 6 } else { 9 }, "{says}");
        drop(capture.close());
        (operations, failed)
    };
    let other = |capture: &Capture| {
        let spec = splay_store::TableSpec { name: "other".to_owned(), ..spec("UTC") };
        capture.append(Append { spec: Some(spec), ..Append::new("other", batch(&rows_of(5))) }).map(drop)
    };
    let column = |capture: &Capture| {
        let rows = batch(&rows_of(5)[..2]);
        let spec = splay_store::TableSpec { name: "other".to_owned(), ..spec("UTC") };
        capture.append(Append { spec: Some(spec), ..Append::new("other", rows.clone()) })?;
        let with_more = RecordBatch::try_from_iter(
            rows.schema()
                .fields()
                .iter()
                .zip(rows.columns())
                .map(|(field, column)| (field.name().clone(), column.clone()))
                .chain([("more".to_owned(), rows.column_by_name("id").unwrap().clone())]),
        );
        capture.append(Append::new("other", with_more.unwrap())).map(drop)
    };
    let roll = |capture: &Capture| capture.roll(Some(START + 3 * DAY)).map(drop);
    for what in [other as fn(&Capture) -> Result<()>, column, roll] {
        let (operations, _) = work(None, what);
        let failed = (0..operations).filter(|at| work(Some(*at), what).1).count();
        assert!(failed >= 2 && failed < operations as usize, "{failed} of {operations}");
    }
}

/// Subscribers get batches before these are on disk. The numbers of those that a power cut took once went to others, which who resumed
/// behind them never got.
#[test]
fn a_subscriber_that_saw_what_a_power_cut_took_misses_nothing_afterwards() {
    let storage = FaultStorage::new();
    // One file: the end of each is synced.
    let settings = || CaptureSettings { sync_interval_ms: 1 << 40, journal_segment_bytes: 1 << 20, ..small() };
    let open = |storage: &FaultStorage| {
        let database = match Database::open_on(Arc::new(storage.clone())) {
            Ok(database) => database,
            Err(_) => Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap(),
        };
        Capture::open_with(database, settings(), TestClock::at(START + DAY)).unwrap().0
    };
    let send = |capture: &Capture, number: i64, ack: AckClass| {
        let (rows, ack) = (batch(&rows_of(number)), Some(ack));
        capture.append(Append { spec: Some(spec("UTC")), ack, ..Append::new("trade", rows) }).unwrap()
    };
    let request = |from: SubscriptionStart| SubscribeRequest { from, ..SubscribeRequest::new("trade") };
    let capture = open(&storage);
    send(&capture, 0, AckClass::Disk);
    let mut subscriber = capture.subscribe(request(SubscriptionStart::Now)).unwrap();
    for number in 1..4 {
        send(&capture, number, AckClass::Process);
    }
    let mut last = 0;
    for _ in 1..4 {
        last = subscriber.next(Duration::from_secs(60)).unwrap().unwrap().sequence;
    }
    let crashed = storage.crash(&mut |_| 0);
    capture.close().unwrap();
    let capture = open(&crashed);
    assert_eq!(all(capture.database()).len() as i64, ROWS, "what wasn't synced is gone");
    let numbers: Vec<u64> = (4..6).map(|number| send(&capture, number, AckClass::Process).sequence).collect();
    let mut subscriber = capture.subscribe(request(SubscriptionStart::After(last))).unwrap();
    let seen: Vec<u64> = (0..2).map(|_| subscriber.next(Duration::from_secs(60)).unwrap().unwrap().sequence).collect();
    assert_eq!(seen, numbers, "{last}");
    capture.close().unwrap();
}

#[test]
fn a_full_disk_refuses_rows_and_takes_them_once_there_is_room() {
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    let capture = Capture::open_with(database.clone(), small(), TestClock::at(START + DAY)).unwrap().0;
    let send = |number: i64| {
        capture.append(Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(&rows_of(number))) })
    };
    let mut accepted = 0;
    for room in [0, 100, 1_000, 3_000, 0, 50] {
        send(accepted).unwrap();
        accepted += 1;
        assert!(!capture.status().full);
        storage.capacity(Some(storage.used() + room));
        let refused = loop {
            match send(accepted) {
                Ok(_) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert!(refused.is_retryable(), "{refused}");
        assert!(capture.is_full() && capture.status().full);
        // Reads go on.
        assert_eq!(all(&database).len() as i64, accepted * ROWS);
        let down = capture.write_down(None);
        assert!(down.is_ok() || down.unwrap_err().is_retryable());
        assert_eq!(all(&database).len() as i64, accepted * ROWS);
        storage.capacity(None);
    }
    // Dates end, too: a roll finds no room or some, and is done once there is enough.
    let ended = Some(START + 3 * DAY);
    for room in [0, 50, 500, 2_000] {
        for _ in 0..3 {
            send(accepted).unwrap();
            accepted += 1;
        }
        storage.capacity(Some(storage.used() + room));
        let rolled = capture.roll(ended);
        assert!(rolled.as_ref().err().is_none_or(Error::is_retryable), "{rolled:?}");
        assert!(room > 0 || rolled.is_err());
        assert_eq!(all(&database).len() as i64, accepted * ROWS);
        storage.capacity(None);
        capture.roll(ended).unwrap();
        assert_eq!(all(&database).len() as i64, accepted * ROWS);
        assert_eq!(capture.status().tables[0].live_rows, 0, "all are of a date that has ended");
        assert!(
            database.table("trade").unwrap().stored().unwrap().partitions().iter().all(|one| one.segments.len() == 1)
        );
    }
    send(accepted).unwrap();
    accepted += 1;
    let mut ids: Vec<i64> = all(&database).into_iter().map(|(_, row)| row.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..accepted * ROWS).collect::<Vec<_>>());
    capture.close().unwrap();
    check(&storage.copy(), accepted, &(0..accepted).collect::<Vec<_>>(), "after the disk was full");
}

/// A write that finds no room leaves part of its bytes. The file is cut to its whole frames, and the cut must be on disk before anything
/// names the file's length.
#[test]
fn the_cut_of_a_write_without_room_is_synced_before_the_files_length_is_named() {
    for closes in [true, false] {
        let storage = FaultStorage::new();
        let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
        let capture = Capture::open_with(database, small(), TestClock::at(START + DAY)).unwrap().0;
        let send = |rows: std::ops::Range<i64>| {
            let rows: Vec<Row> = rows.map(|id| row("A", START + id, id)).collect();
            capture.append(Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(&rows)) })
        };
        storage.capacity(Some(storage.used() + 5_000));
        assert!(send(0..1_000).unwrap_err().is_retryable());
        storage.capacity(None);
        let mut accepted = 0;
        if closes {
            capture.close().unwrap();
        } else {
            // Enough for the next file, which names the length of the first.
            while storage.paths().iter().filter(|path| path.starts_with(".journal/0")).count() < 3 {
                send(accepted..accepted + 1).unwrap();
                accepted += 1;
            }
        }
        let crashed = storage.crash(&mut |bound| bound - 1);
        let database = Database::open_on(Arc::new(crashed)).unwrap();
        let (capture, recovered) = Capture::open_with(database.clone(), small(), TestClock::at(START + DAY)).unwrap();
        assert!(recovered.losses.is_empty(), "closes {closes}: {recovered}");
        assert_eq!(all(&database).len() as i64, accepted);
        capture.close().unwrap();
    }
}
