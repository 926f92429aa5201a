//! Columns that get another name while rows are captured: every row that was acknowledged is under the new name, none is lost, doubled or null
//! there, and rows under the old name are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Field, Int64Type, Schema};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{
    AckClass, Append, Capture, CaptureSettings, DedupeSettings, Error, FollowSettings, Result, SubscribeRequest,
    SubscriptionStart, UpdateKind, follow,
};
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Selection, Settings};

use crate::name_changes::{AFTER, BEFORE, ROWS, batch_of, created, keeping, of_batches, open, reopened, small};
use crate::rows::{DAY, Row, START, batch, row, spec};

/// Rows whose numbers are in a column of a name.
fn named(rows: &[Row], name: &str) -> RecordBatch {
    let rows = batch(rows);
    let schema = rows.schema();
    let fields = schema.fields().iter().map(|field| match field.name().as_str() {
        "id" => Arc::new(Field::new(name, field.data_type().clone(), true)),
        _ => Arc::clone(field),
    });
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), rows.columns().to_vec()).unwrap()
}

/// Sends a batch with the numbers in `id`, for a table that rows make.
fn send(capture: &Capture, number: i64) -> Result<()> {
    let rows = Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(&batch_of(number))) };
    capture.append(rows).map(drop)
}

fn send_as(capture: &Capture, number: i64, name: &str) -> Result<()> {
    capture.append(Append::new("trade", named(&batch_of(number), name))).map(drop)
}

fn rename(database: &Database, from: &str, to: &str) -> Result<()> {
    Ok(database.table("trade")?.rename_column(from, to)?)
}

/// The name of the column with the numbers, and all of these; a null is -1.
fn found(database: &Database) -> Option<(String, Vec<i64>)> {
    let snapshot = match database.table("trade").and_then(|table| table.snapshot()) {
        Err(splay_store::Error::NoSuchTable { .. }) => return None,
        snapshot => snapshot.unwrap(),
    };
    let spec = snapshot.spec();
    assert_eq!(spec.columns.len(), 3, "no other column: {:?}", spec.columns);
    let mut ids = Vec::new();
    for piece in snapshot.select(&Selection::default()).unwrap().0 {
        for batch in piece.segment.batches(spec, &[2], piece.rows.clone(), 100).unwrap() {
            ids.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().iter().map(|id| id.unwrap_or(-1)));
        }
    }
    ids.sort_unstable();
    Some((spec.columns[2].name.clone(), ids))
}

fn all_as(name: &str, batches: i64) -> Option<(String, Vec<i64>)> {
    Some((name.to_owned(), of_batches(0..batches)))
}

/// Gives a copy the journal of a database, and none of its commits.
fn take_journal(copy: &FaultStorage, of: &FaultStorage) {
    let files = |storage: &FaultStorage| -> Vec<String> {
        storage.paths().into_iter().filter(|path| path.starts_with(".journal/") && !path.ends_with("lock")).collect()
    };
    files(copy).iter().for_each(|path| copy.remove(path).unwrap());
    for path in files(of) {
        let mut file = copy.create(&path).unwrap();
        file.write(&of.read(&path).unwrap()).unwrap();
        file.sync().unwrap();
    }
}

#[test]
fn captured_rows_are_under_the_new_name() {
    let (storage, database) = created();
    let capture = open(&database, keeping()).unwrap();
    (0..3).for_each(|number| send(&capture, number).unwrap());
    capture.write_down(None).unwrap();
    (3..5).for_each(|number| send(&capture, number).unwrap());
    let handle = database.table("trade").unwrap();
    let earlier = handle.snapshot().unwrap();
    rename(&database, "id", "number").unwrap();
    assert_eq!(found(&database), all_as("number", 5));
    // Who has a snapshot goes on with the old name.
    assert_eq!((earlier.spec().columns[2].name.as_str(), earlier.rows()), ("id", 15));
    let refused = send(&capture, 5).unwrap_err().to_string();
    assert!(refused.contains("\"id\" is called \"number\" now"), "{refused}");
    send_as(&capture, 5, "Number").unwrap();
    assert_eq!(found(&database), all_as("number", 6));
    // Once more, and back again: the rows in the journal have had three names.
    rename(&database, "number", "serial").unwrap();
    send_as(&capture, 6, "serial").unwrap();
    rename(&database, "serial", "id").unwrap();
    send(&capture, 7).unwrap();
    assert_eq!(found(&database), all_as("id", 8));
    // The column that orders the rows, and the symbols.
    rename(&database, "time", "at").unwrap();
    rename(&database, "sym", "symbol").unwrap();
    let refused = send(&capture, 8).unwrap_err();
    assert!(matches!(refused, Error::Rejected { .. }), "{refused}");
    assert_eq!(found(&database), all_as("id", 8));
    for (from, to) in [("at", "time"), ("symbol", "sym")] {
        rename(&database, from, to).unwrap();
    }
    send(&capture, 8).unwrap();
    let reader = reopened(&storage);
    follow(&reader, FollowSettings::default());
    assert_eq!(found(&reader), all_as("id", 9));
    let killed = storage.copy();
    drop(capture);
    let again = reopened(&killed);
    let capture = open(&again, keeping()).unwrap();
    assert_eq!(found(&again), all_as("id", 9));
    capture.write_down(None).unwrap();
    assert_eq!(found(&again), all_as("id", 9));
    capture.close().unwrap();
}

#[test]
fn what_cannot_be_renamed_is_refused_and_rows_go_on() {
    let (_, database) = created();
    let dedupe = DedupeSettings { key: "time, sym, id".to_owned(), window_s: 60, keys_max: 1_000 };
    let with_key = CaptureSettings { dedupe: BTreeMap::from([("Trade".to_owned(), dedupe)]), ..small() };
    let capture = open(&database, with_key).unwrap();
    send(&capture, 0).unwrap();
    let live = || capture.status().tables[0].live_rows;
    let before = live();
    for (from, to, part) in [
        ("ID", "number", "the key of duplicates"),
        ("id", "sym", "two columns are named"),
        ("id", "a\"b", "double quotes"),
        ("nothing", "x", "nothing"),
    ] {
        let refused = rename(&database, from, to).unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
        assert_eq!(live(), before, "nothing was written down for it");
    }
    send(&capture, 1).unwrap();
    assert_eq!(found(&database), all_as("id", 2));
    capture.close().unwrap();
}

/// Duplicates are found by all columns, whatever these are called.
#[test]
fn duplicates_are_found_behind_a_rename() {
    let (_, database) = created();
    let dedupe = DedupeSettings { key: "exact".to_owned(), window_s: 600, keys_max: 1_000 };
    let exact = CaptureSettings { dedupe: BTreeMap::from([("trade".to_owned(), dedupe)]), ..small() };
    let capture = open(&database, exact).unwrap();
    send(&capture, 0).unwrap();
    rename(&database, "id", "number").unwrap();
    let again = capture.append(Append::new("trade", named(&batch_of(0), "number"))).unwrap();
    assert_eq!((again.rows, again.duplicate_rows), (0, ROWS as u64));
    send_as(&capture, 1, "number").unwrap();
    assert_eq!(found(&database), all_as("number", 2));
    capture.close().unwrap();
}

/// A subscription ends; one that goes on behind the last batch has all that came under the new name, also what the journal has under the old one.
#[test]
fn a_subscription_ends_and_goes_on_under_the_new_name() {
    let (_, database) = created();
    let capture = open(&database, keeping()).unwrap();
    send(&capture, 0).unwrap();
    let request = SubscribeRequest { from: SubscriptionStart::After(0), ..SubscribeRequest::new("trade") };
    let mut subscriber = capture.subscribe(request.clone()).unwrap();
    assert_eq!(subscriber.next(Duration::from_secs(10)).unwrap().unwrap().rows.schema().field(2).name(), "id");
    send(&capture, 1).unwrap();
    rename(&database, "id", "number").unwrap();
    let ended = subscriber.next(Duration::from_secs(10)).unwrap_err().to_string();
    assert!(ended.contains("the column \"id\" has another name now, which ends the subscription"), "{ended}");
    send_as(&capture, 2, "number").unwrap();
    for symbols in [None, Some(vec!["A".to_owned(), "B".to_owned()])] {
        let request = SubscribeRequest { symbols, columns: Some(vec!["number".to_owned()]), ..request.clone() };
        let mut subscriber = capture.subscribe(request).unwrap();
        let mut ids = Vec::new();
        while ids.len() < 3 * ROWS as usize {
            let update = subscriber.next(Duration::from_secs(10)).unwrap().unwrap();
            assert_eq!(update.kind, UpdateKind::Delta);
            ids.extend(update.rows.column(0).as_primitive::<Int64Type>().iter().map(|id| id.unwrap_or(-1)));
        }
        ids.sort_unstable();
        assert_eq!(ids, of_batches(0..3));
    }
    capture.close().unwrap();
}

/// A quarantine keeps its columns and gets the new one.
#[test]
fn rows_for_the_quarantine_go_on() {
    let (_, database) = created();
    let capture = open(&database, keeping()).unwrap();
    let far = |id: i64| vec![row("A", START + 10 * DAY, id)];
    send(&capture, 0).unwrap();
    let first = Append::new("trade", batch(&far(100)));
    assert_eq!(capture.append(first).unwrap().quarantined, 1);
    rename(&database, "id", "number").unwrap();
    let second = Append::new("trade", named(&far(101), "number"));
    assert_eq!(capture.append(second).unwrap().quarantined, 1);
    let quarantine = database.table("trade_quarantine").unwrap().snapshot().unwrap();
    let names: Vec<&str> = quarantine.spec().columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!((quarantine.rows(), names), (2, vec!["time", "sym", "id", "number"]));
    capture.close().unwrap();
}

/// Senders that wait for each acknowledgement, and take the new name once the old one is refused.
#[test]
fn rows_that_come_in_meanwhile_have_one_column() {
    let (_, database) = created();
    let capture = open(&database, small()).unwrap();
    send(&capture, 0).unwrap();
    let (next, is_over) = (AtomicI64::new(1), std::sync::atomic::AtomicBool::new(false));
    let names: Vec<String> = std::iter::once("id".to_owned()).chain((0..6).map(|n| format!("id{n}"))).collect();
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut name = 0;
                    while !is_over.load(Ordering::SeqCst) {
                        let number = next.fetch_add(1, Ordering::SeqCst);
                        loop {
                            let rows = named(&batch_of(number), &names[name]);
                            let append = Append { ack: Some(AckClass::Process), ..Append::new("trade", rows) };
                            match capture.append(append) {
                                Ok(_) => break,
                                Err(Error::Rejected { reason, .. }) if reason.contains("is called") => name += 1,
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                })
            })
            .collect();
        for pair in names.windows(2) {
            let wait_for = next.load(Ordering::SeqCst) + 40;
            while next.load(Ordering::SeqCst) < wait_for {
                std::thread::yield_now();
            }
            rename(&database, &pair[0], &pair[1]).unwrap();
            let (name, ids) = found(&database).unwrap();
            assert_eq!((&name, ids.first()), (&pair[1], Some(&0)), "no row without a number");
        }
        is_over.store(true, Ordering::SeqCst);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
    assert_eq!(found(&database), all_as("id5", next.load(Ordering::SeqCst)));
    capture.close().unwrap();
}

/// A copy has the journal before the commits: who reads it sees all rows under the old name, and once it is promoted it has the new one.
#[test]
fn a_copy_with_the_journal_alone_has_all_rows() {
    let (storage, database) = created();
    let capture = open(&database, keeping()).unwrap();
    (0..2).for_each(|number| send(&capture, number).unwrap());
    capture.write_down(None).unwrap();
    send(&capture, 2).unwrap();
    let behind = storage.copy();
    rename(&database, "id", "number").unwrap();
    send_as(&capture, 3, "number").unwrap();
    rename(&database, "number", "serial").unwrap();
    send_as(&capture, 4, "serial").unwrap();
    capture.close().unwrap();
    take_journal(&behind, &storage);
    let reader = reopened(&behind);
    follow(&reader, FollowSettings::default());
    assert_eq!(found(&reader), all_as("id", 5));
    let promoted = reopened(&behind);
    let capture = open(&promoted, keeping()).unwrap();
    assert_eq!(found(&promoted), all_as("serial", 5));
    assert_eq!(found(&reader), all_as("serial", 5));
    send_as(&capture, 5, "serial").unwrap();
    capture.write_down(None).unwrap();
    assert_eq!(found(&promoted), all_as("serial", 6));
    let killed = behind.copy();
    drop(capture);
    let again = reopened(&killed);
    let capture = open(&again, keeping()).unwrap();
    assert_eq!(found(&again), all_as("serial", 6));
    capture.close().unwrap();
}

/// A copy may have several commits less than its journal needs, in whatever batch the columns appear.
#[test]
fn a_copy_gets_the_columns_of_later_batches() {
    let (storage, database) = created();
    let capture = open(&database, keeping()).unwrap();
    send(&capture, 0).unwrap();
    let behind = storage.copy();
    let wider = || {
        let rows = named(&batch_of(1), "more");
        let ids = Arc::clone(rows.column_by_name("more").unwrap());
        let schema = rows.schema();
        let columns = schema.fields().iter().map(|field| field.name().clone()).zip(rows.columns().to_vec());
        RecordBatch::try_from_iter(columns.chain([("id".to_owned(), ids)])).unwrap()
    };
    capture.append(Append::new("trade", wider())).unwrap();
    capture.close().unwrap();
    take_journal(&behind, &storage);
    let promoted = reopened(&behind);
    let capture = open(&promoted, keeping()).unwrap();
    let snapshot = promoted.table("trade").unwrap().snapshot().unwrap();
    let place = snapshot.spec().position("more").unwrap();
    let mut ids: Vec<i64> = Vec::new();
    for piece in snapshot.select(&Selection::default()).unwrap().0 {
        for batch in piece.segment.batches(snapshot.spec(), &[place], piece.rows.clone(), 100).unwrap() {
            ids.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().iter().flatten());
        }
    }
    ids.sort_unstable();
    assert_eq!((snapshot.rows(), ids), (2 * ROWS as u64, of_batches(1..2)));
    capture.close().unwrap();
}

/// How far a life came.
#[derive(Debug, Default)]
struct Progress {
    sent: i64,
    acknowledged: i64,
    is_changing: bool,
    is_changed: bool,
}

/// Rows, another name for their column, rows under it; with a server that goes on, or one that is stopped for it.
fn life(storage: &FaultStorage, is_stopped: bool, progress: &mut Progress) -> Result<()> {
    let database = match Database::open_on(Arc::new(storage.clone())) {
        Ok(database) => database,
        Err(_) => Database::create_on(Arc::new(storage.clone()), &Settings::default())?,
    };
    let mut capture = open(&database, small())?;
    let lived = (|| -> Result<()> {
        for number in 0..BEFORE {
            progress.sent += 1;
            send(&capture, number)?;
            progress.acknowledged += 1;
            if number == 1 {
                capture.write_down(None)?;
            }
        }
        if is_stopped {
            // As a command does in the place of a server that doesn't run.
            capture.close()?;
            capture = open(&database, small())?;
            capture.write_down(None)?;
            capture.close()?;
        }
        progress.is_changing = true;
        rename(&database, "id", "number")?;
        progress.is_changed = true;
        if is_stopped {
            capture = open(&database, small())?;
        }
        for number in BEFORE..BEFORE + AFTER {
            progress.sent += 1;
            send_as(&capture, number, "number")?;
            progress.acknowledged += 1;
        }
        Ok(())
    })();
    let closed = capture.close();
    lived.and(closed)
}

/// Opens what is left and checks it.
fn check(storage: &FaultStorage, progress: &Progress, what: &str) {
    let Ok(database) = Database::open_on(Arc::new(storage.clone())) else {
        assert_eq!(progress.acknowledged, 0, "{what}: the database is gone");
        return;
    };
    let reader = reopened(storage);
    follow(&reader, FollowSettings::default());
    let beside = match reader.table("trade").and_then(|table| table.snapshot()) {
        // It can't pass over a torn end.
        Err(error) if error.to_string().contains("as others stand behind it") => None,
        _ => Some(found(&reader)),
    };
    let capture = open(&database, small()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found_now = found(&database);
    assert!(beside.is_none_or(|beside| beside == found_now), "{what}: who only reads saw others");
    let what = &format!("{what}: {progress:?}, found {found_now:?}");
    let (name, ids) = found_now.unwrap_or_else(|| ("id".to_owned(), Vec::new()));
    let distinct: BTreeSet<i64> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "{what}: a row is there twice");
    assert!(ids.iter().all(|id| (0..progress.sent * ROWS).contains(id)), "{what}: a row that nobody sent, or a null");
    let lost = of_batches(0..progress.acknowledged).into_iter().find(|id| !distinct.contains(id));
    assert_eq!(lost, None, "{what}: an acknowledged row is lost");
    assert!(name == "number" || name == "id" && !progress.is_changed, "{what}");
    assert!(name == "id" || progress.is_changing, "{what}");
    // What comes now is there as well, and the change is made if it wasn't.
    if name == "id" {
        send(&capture, progress.sent).unwrap_or_else(|error| panic!("{what}: {error}"));
        rename(&database, "id", "number").unwrap_or_else(|error| panic!("{what}: {error}"));
    } else {
        send_as(&capture, progress.sent, "number").unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let all: Vec<i64> = ids.into_iter().chain(of_batches(progress.sent..progress.sent + 1)).collect();
    assert_eq!(found(&database), Some(("number".to_owned(), all)), "{what}: after more rows");
    capture.close().unwrap();
}

#[test]
fn a_power_cut_at_any_operation_leaves_all_rows_under_one_name() {
    let images: u64 = std::env::var("SPLAY_CRASH_IMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut random = ChaCha8Rng::seed_from_u64(17);
    for is_stopped in [false, true] {
        let whole = FaultStorage::new();
        let mut progress = Progress::default();
        life(&whole, is_stopped, &mut progress).unwrap();
        assert_eq!((progress.acknowledged, progress.is_changed), (BEFORE + AFTER, true));
        check(&whole.copy(), &progress, "no cut");
        for operation in 0..whole.operations() + 3 {
            let storage = FaultStorage::new();
            storage.stop_after(Some(operation));
            let mut progress = Progress::default();
            drop(life(&storage, is_stopped, &mut progress));
            storage.stop_after(None);
            for image in 0..images {
                let crashed = storage.crash(&mut |bound| match image {
                    0 => 0,
                    1 => bound - 1,
                    _ => random.random_range(0..bound),
                });
                check(&crashed, &progress, &format!("stopped {is_stopped}, operation {operation}, image {image}"));
            }
        }
    }
}

#[test]
fn a_failure_of_any_operation_or_look_leaves_all_rows_under_one_name() {
    for is_stopped in [false, true] {
        let whole = FaultStorage::new();
        life(&whole, is_stopped, &mut Progress::default()).unwrap();
        let fails: [(u64, fn(&FaultStorage, Option<u64>)); 2] =
            [(whole.operations(), FaultStorage::fail_at), (whole.reads(), FaultStorage::fail_read_at)];
        for (calls, fail) in fails {
            for call in 0..calls {
                let storage = FaultStorage::new();
                fail(&storage, Some(call));
                let mut progress = Progress::default();
                drop(life(&storage, is_stopped, &mut progress));
                fail(&storage, None);
                check(&storage.copy(), &progress, &format!("stopped {is_stopped}, failure of call {call} of {calls}"));
            }
        }
    }
}

/// The process goes on where the change failed: the table takes rows, and the change is made once it can be.
#[test]
fn a_rename_that_fails_is_made_later() {
    let (mut looks, mut look) = (u64::MAX, 0);
    while look < looks {
        let (storage, database) = created();
        let capture = open(&database, small()).unwrap();
        (0..3).for_each(|number| send(&capture, number).unwrap());
        let before = storage.reads();
        storage.fail_read_at((looks != u64::MAX).then_some(look));
        let changed = rename(&database, "id", "number");
        storage.fail_read_at(None);
        if looks == u64::MAX {
            changed.unwrap();
            looks = storage.reads() - before;
            assert!(looks > 3, "{looks}");
            continue;
        }
        let what = format!("look {look} of {looks}: {changed:?}");
        let mut sent = 3;
        if changed.is_err() {
            assert_eq!(found(&database), all_as("id", sent), "{what}");
            send(&capture, sent).unwrap_or_else(|error| panic!("{what}: {error}"));
            sent += 1;
            rename(&database, "id", "number").unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        send_as(&capture, sent, "number").unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(found(&database), all_as("number", sent + 1), "{what}");
        capture.close().unwrap();
        look += 1;
    }
}
