//! Tables that are dropped or renamed while rows are captured into them: every row that was acknowledged before is in the table that had the
//! name then, every later one is in the next, and none is lost, doubled or brought back by a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{
    AckClass, Append, Capture, CaptureSettings, DedupeSettings, Error, FollowSettings, JournalReport, Result,
    SubscribeRequest, follow,
};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, LoadOptions, Selection, Settings, TableSpec};

use crate::name_changes::{AFTER, BEFORE, ROWS, batch_of, created, keeping, of_batches, open, reopened, small};
use crate::rows::{Row, batch, read, settings, spec};

fn trade(rows: &[Row]) -> Append {
    Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(rows)) }
}

fn send(capture: &Capture, number: i64) -> Result<()> {
    capture.append(trade(&batch_of(number))).map(drop)
}

/// Numbers of a table's rows; `None` if there is no such table.
fn ids(database: &Database, table: &str) -> Option<Vec<i64>> {
    let snapshot = match database.table(table).and_then(|table| table.snapshot()) {
        Err(splay_store::Error::NoSuchTable { .. }) => return None,
        snapshot => snapshot.unwrap(),
    };
    let mut ids: Vec<i64> = read(&snapshot, &Selection::default()).into_iter().map(|(_, row)| row.id).collect();
    ids.sort_unstable();
    Some(ids)
}

fn drop_trade(database: &Database) -> Result<()> {
    Ok(database.table("trade")?.drop_table().map(drop)?)
}

fn rename_trade(database: &Database) -> Result<()> {
    Ok(database.table("trade")?.rename("tape", |_| false).map(drop)?)
}

/// Undoes the last commit of a table that was dropped.
fn undo_drop(database: &Database) {
    let dropped = database.dropped_table("trade").unwrap();
    let commit = dropped.commits(1).unwrap()[0].clone();
    assert_eq!(commit.operation, "drop");
    dropped.undo(commit.commit).unwrap();
}

#[test]
fn a_dropped_table_has_its_captured_rows_and_later_ones_make_another() {
    let (storage, database) = created();
    let capture = open(&database, keeping()).unwrap();
    (0..3).for_each(|number| send(&capture, number).unwrap());
    capture.write_down(None).unwrap();
    (3..5).for_each(|number| send(&capture, number).unwrap());
    let handle = database.table("trade").unwrap();
    drop_trade(&database).unwrap();
    assert_eq!((database.tables().unwrap(), ids(&database, "trade")), (Vec::new(), None));
    assert!(matches!(handle.snapshot(), Err(splay_store::Error::NoSuchTable { .. })));
    assert!(capture.status().tables.is_empty());
    // All rows come back, those that were in memory as well, and others come in behind them.
    undo_drop(&database);
    assert_eq!(ids(&database, "trade"), Some(of_batches(0..5)));
    send(&capture, 5).unwrap();
    assert_eq!(ids(&database, "trade"), Some(of_batches(0..6)));
    drop_trade(&database).unwrap();
    // Rows under the name make another table, and handles that were there before see it.
    send(&capture, 6).unwrap();
    assert_eq!(ids(&database, "trade"), Some(of_batches(6..7)));
    assert_eq!(handle.snapshot().unwrap().rows(), ROWS as u64);
    let reader = reopened(&storage);
    follow(&reader, FollowSettings::default());
    assert_eq!(ids(&reader, "trade"), Some(of_batches(6..7)));
    let killed = storage.copy();
    drop(capture);
    let again = reopened(&killed);
    let capture = open(&again, keeping()).unwrap();
    assert_eq!(ids(&again, "trade"), Some(of_batches(6..7)));
    capture.write_down(None).unwrap();
    drop_trade(&again).unwrap();
    capture.close().unwrap();
    let again = reopened(&killed);
    let capture = open(&again, keeping()).unwrap();
    assert_eq!(ids(&again, "trade"), None, "no start brings rows of a dropped table back");
    capture.close().unwrap();
}

#[test]
fn a_renamed_table_has_its_captured_rows_and_tables_change_places() {
    let (storage, database) = created();
    let capture = open(&database, keeping()).unwrap();
    (0..4).for_each(|number| send(&capture, number).unwrap());
    let handle = database.table("trade").unwrap();
    rename_trade(&database).unwrap();
    assert!(matches!(handle.snapshot(), Err(splay_store::Error::NoSuchTable { .. })));
    send(&capture, 4).unwrap();
    capture.append(Append::new("tape", batch(&batch_of(5)))).unwrap();
    let tape = || of_batches(0..4).into_iter().chain(of_batches(5..6)).collect::<Vec<i64>>();
    assert_eq!((ids(&database, "trade"), ids(&database, "tape")), (Some(of_batches(4..5)), Some(tape())));
    assert_eq!(handle.snapshot().unwrap().rows(), ROWS as u64, "the table of the name, whichever it is");
    // They change places.
    let rename = |from: &str, to: &str| database.table(from).unwrap().rename(to, |_| false).unwrap();
    rename("tape", "spare");
    rename("trade", "tape");
    rename("spare", "trade");
    send(&capture, 6).unwrap();
    let trade: Vec<i64> = tape().into_iter().chain(of_batches(6..7)).collect();
    let found = |database: &Database| (ids(database, "trade"), ids(database, "tape"));
    assert_eq!(found(&database), (Some(trade.clone()), Some(of_batches(4..5))));
    assert_eq!(handle.snapshot().unwrap().rows(), trade.len() as u64);
    let reader = reopened(&storage);
    follow(&reader, FollowSettings::default());
    assert_eq!(found(&reader), (Some(trade.clone()), Some(of_batches(4..5))));
    let killed = storage.copy();
    drop(capture);
    let again = reopened(&killed);
    let capture = open(&again, keeping()).unwrap();
    assert_eq!(found(&again), (Some(trade), Some(of_batches(4..5))));
    assert_eq!(again.tables().unwrap(), ["tape", "trade"]);
    capture.close().unwrap();
}

#[test]
fn rows_for_a_dropped_table_are_refused_where_rows_make_no_tables() {
    let (_, database) = created();
    let capture = open(&database, CaptureSettings { create_tables: false, ..keeping() }).unwrap();
    database.load(&spec("UTC"), LoadOptions::default()).unwrap().commit().unwrap();
    send(&capture, 0).unwrap();
    drop_trade(&database).unwrap();
    assert!(matches!(send(&capture, 1), Err(Error::NoSuchTable { .. })));
    capture.close().unwrap();
    // A statement's rows make none in any case.
    let capture = open(&database, keeping()).unwrap();
    let append = Append { must_exist: true, ..trade(&batch_of(1)) };
    assert!(matches!(capture.append(append), Err(Error::NoSuchTable { .. })));
    assert_eq!(database.tables().unwrap(), Vec::<String>::new());
}

#[test]
fn a_subscription_ends_with_its_table() {
    let (_, database) = created();
    let capture = open(&database, keeping()).unwrap();
    for change in [drop_trade, rename_trade] {
        send(&capture, 0).unwrap();
        let mut subscriber = capture.subscribe(SubscribeRequest::new("trade")).unwrap();
        send(&capture, 1).unwrap();
        assert!(subscriber.next(Duration::from_secs(10)).unwrap().is_some());
        change(&database).unwrap();
        // Rows of the next table of the name aren't for it.
        send(&capture, 2).unwrap();
        let ended = subscriber.next(Duration::from_secs(10)).unwrap_err().to_string();
        assert!(ended.contains("was dropped or has another name"), "{ended}");
    }
}

/// The journal's last batch may have no rows: its number has to be recorded all the same.
#[test]
fn duplicates_alone_bring_no_table_back() {
    let (storage, database) = created();
    let dedupe = DedupeSettings { key: "time, sym, id".to_owned(), window_s: 60, keys_max: 1_000 };
    let settings = || CaptureSettings { dedupe: BTreeMap::from([("trade".to_owned(), dedupe.clone())]), ..small() };
    let capture = open(&database, settings()).unwrap();
    send(&capture, 0).unwrap();
    capture.write_down(None).unwrap();
    let again = capture.append(trade(&batch_of(0))).unwrap();
    assert_eq!((again.rows, again.duplicate_rows), (0, ROWS as u64));
    drop_trade(&database).unwrap();
    let killed = storage.copy();
    let opened = open(&reopened(&killed), settings()).unwrap();
    assert_eq!(opened.database().tables().unwrap(), Vec::<String>::new());
    // What a dropped table had is no duplicate in the next one, nor what another table had.
    assert_eq!(capture.append(trade(&batch_of(0))).unwrap().rows, ROWS as u64);
    rename_trade(&database).unwrap();
    assert_eq!(capture.append(trade(&batch_of(0))).unwrap().rows, ROWS as u64);
    // The journal lets go of the rows of tables that are gone.
    drop_trade(&database).unwrap();
    for number in 0..20 {
        capture.append(Append::new("tape", batch(&batch_of(number)))).unwrap();
    }
    capture.write_down(None).unwrap();
    let report = JournalReport::of(&database).unwrap();
    let tables: Vec<&str> = report.files.iter().flat_map(|file| &file.tables).map(|of| of.table.as_str()).collect();
    assert!(!tables.contains(&"trade"), "{tables:?}");
}

/// Senders that wait for each acknowledgement: of each, the first rows are in the table that had the name before.
#[test]
fn rows_that_come_in_meanwhile_are_in_one_table() {
    let (_, database) = created();
    let capture = open(&database, small()).unwrap();
    send(&capture, 1_000_000).unwrap();
    let (next, is_over) = (AtomicI64::new(0), std::sync::atomic::AtomicBool::new(false));
    let sent: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut own = Vec::new();
                    while !is_over.load(Ordering::SeqCst) {
                        let number = next.fetch_add(1, Ordering::SeqCst);
                        let append = Append { ack: Some(AckClass::Process), ..trade(&batch_of(number)) };
                        capture.append(append).unwrap();
                        own.push(number);
                    }
                    own
                })
            })
            .collect();
        for change in 0..6 {
            let wait_for = next.load(Ordering::SeqCst) + 40;
            while next.load(Ordering::SeqCst) < wait_for {
                std::thread::yield_now();
            }
            let table = database.table("trade").unwrap();
            table.rename(&format!("tape{change}"), |_| false).unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    let mut all: Vec<i64> = Vec::new();
    let mut table_of = BTreeMap::new();
    for (place, table) in (0..6).map(|change| format!("tape{change}")).chain(["trade".to_owned()]).enumerate() {
        let rows = ids(&database, &table).unwrap_or_default();
        table_of.extend(rows.iter().map(|id| (id / ROWS, place)));
        all.extend(rows);
    }
    let mut expected: Vec<i64> =
        sent.iter().flatten().chain(&[1_000_000]).flat_map(|number| of_batches(*number..number + 1)).collect();
    (all.sort_unstable(), expected.sort_unstable());
    assert_eq!(all, expected, "each row once");
    for own in &sent {
        let places: Vec<usize> = own.iter().map(|number| table_of[number]).collect();
        assert!(places.is_sorted(), "a sender's later rows are in later tables: {places:?}");
    }
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

/// Rows, a change of their table, rows; with a server that goes on, or one that is stopped for it.
fn life(
    storage: &FaultStorage,
    change: fn(&Database) -> Result<()>,
    is_stopped: bool,
    progress: &mut Progress,
) -> Result<()> {
    let database = match Database::open_on(Arc::new(storage.clone())) {
        Ok(database) => database,
        Err(_) => Database::create_on(Arc::new(storage.clone()), &Settings::default())?,
    };
    let send_all = |capture: &Capture, count: i64, progress: &mut Progress| -> Result<()> {
        for at in 0..count {
            progress.sent += 1;
            send(capture, progress.sent - 1)?;
            progress.acknowledged += 1;
            if at == 1 {
                capture.write_down(None)?;
            }
        }
        Ok(())
    };
    let mut capture = open(&database, small())?;
    let lived = (|| {
        send_all(&capture, BEFORE, progress)?;
        if is_stopped {
            // As a command does in the place of a server that doesn't run.
            capture.close()?;
            capture = open(&database, small())?;
            capture.write_down(None)?;
            capture.close()?;
        }
        progress.is_changing = true;
        change(&database)?;
        progress.is_changed = true;
        if is_stopped {
            capture = open(&database, small())?;
        }
        send_all(&capture, AFTER, progress)
    })();
    let closed = capture.close();
    lived.and(closed)
}

/// Numbers of both tables' rows as a process sees them that only reads; `None` if it can't pass over a torn end.
fn read_beside(storage: &FaultStorage, what: &str) -> Option<[Option<Vec<i64>>; 2]> {
    let database = reopened(storage);
    follow(&database, FollowSettings::default());
    let mut found = [None, None];
    for (found, name) in found.iter_mut().zip(["trade", "tape"]) {
        match database.table(name).and_then(|table| table.snapshot()) {
            Err(splay_store::Error::NoSuchTable { .. }) => {}
            Err(error) if error.to_string().contains("as others stand behind it") => return None,
            Err(error) => panic!("{what}: {error}"),
            Ok(snapshot) => {
                let rows = read(&snapshot, &Selection::default());
                let mut ids: Vec<i64> = rows.into_iter().map(|(_, row)| row.id).collect();
                ids.sort_unstable();
                *found = Some(ids);
            }
        }
    }
    Some(found)
}

/// Opens what is left and checks it.
fn check(storage: &FaultStorage, progress: &Progress, renames: bool, what: &str) {
    let Ok(database) = Database::open_on(Arc::new(storage.clone())) else {
        assert_eq!(progress.acknowledged, 0, "{what}: the database is gone");
        return;
    };
    let beside = read_beside(storage, what);
    let capture = open(&database, small()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = [ids(&database, "trade"), ids(&database, "tape")];
    assert!(beside.is_none_or(|beside| beside == found), "{what}: who only reads saw others");
    let what = &format!("{what}: {progress:?}, found {found:?}");
    for table in found.iter().flatten() {
        assert_eq!(table.iter().collect::<BTreeSet<_>>().len(), table.len(), "{what}: a row is there twice");
        assert!(table.iter().all(|id| *id < progress.sent * ROWS), "{what}: a row that nobody sent");
    }
    let has = |table: &Option<Vec<i64>>, batches: std::ops::Range<i64>| -> bool {
        of_batches(batches).iter().all(|id| table.as_ref().is_some_and(|table| table.contains(id)))
    };
    let is_old =
        |table: &Option<Vec<i64>>| table.as_ref().is_some_and(|table| table.iter().any(|id| *id < BEFORE * ROWS));
    let is_new =
        |table: &Option<Vec<i64>>| table.as_ref().is_some_and(|table| table.iter().any(|id| *id >= BEFORE * ROWS));
    let [first, second] = &found;
    assert!(!is_new(second), "{what}: later rows aren't in the renamed table");
    assert!(!(is_old(first) && is_new(first)), "{what}: one table has the rows of both");
    let old = progress.acknowledged.min(BEFORE);
    if !progress.is_changing {
        assert!(has(first, 0..old) && second.is_none(), "{what}: an acknowledged row is lost");
    } else if !progress.is_changed {
        let is_before = has(first, 0..BEFORE) && second.is_none();
        let is_after = first.is_none() && if renames { has(second, 0..BEFORE) } else { second.is_none() };
        assert!(is_before || is_after, "{what}: neither before the change nor behind it");
    } else {
        assert!(!is_old(first), "{what}: rows are back");
        assert!(
            !renames || second.as_ref() == Some(&of_batches(0..BEFORE)),
            "{what}: the renamed table has all its rows"
        );
        assert!(
            progress.acknowledged == BEFORE || has(first, BEFORE..progress.acknowledged),
            "{what}: a later row is lost"
        );
    }
    if progress.is_changing && !renames && first.is_none() {
        undo_drop(&database);
        assert_eq!(ids(&database, "trade"), Some(of_batches(0..BEFORE)), "{what}: undone");
    }
    // What comes now is there as well.
    let (before, number) = (ids(&database, "trade").unwrap_or_default(), progress.sent);
    send(&capture, number).unwrap_or_else(|error| panic!("{what}: {error}"));
    let after: Vec<i64> = before.into_iter().chain(of_batches(number..number + 1)).collect();
    assert_eq!(ids(&database, "trade"), Some(after), "{what}: after more rows");
    capture.close().unwrap();
}

const CHANGES: [(fn(&Database) -> Result<()>, bool); 2] = [(drop_trade, false), (rename_trade, true)];

fn each_life(mut act: impl FnMut(fn(&Database) -> Result<()>, bool, bool)) {
    for (change, renames) in CHANGES {
        for is_stopped in [false, true] {
            act(change, renames, is_stopped);
        }
    }
}

#[test]
fn a_power_cut_at_any_operation_leaves_the_table_with_all_rows_or_without_its_name() {
    let images: u64 = std::env::var("SPLAY_CRASH_IMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut random = ChaCha8Rng::seed_from_u64(11);
    each_life(|change, renames, is_stopped| {
        let whole = FaultStorage::new();
        let mut progress = Progress::default();
        life(&whole, change, is_stopped, &mut progress).unwrap();
        assert_eq!((progress.acknowledged, progress.is_changed), (BEFORE + AFTER, true));
        check(&whole.copy(), &progress, renames, "no cut");
        for operation in 0..whole.operations() + 3 {
            let storage = FaultStorage::new();
            storage.stop_after(Some(operation));
            let mut progress = Progress::default();
            drop(life(&storage, change, is_stopped, &mut progress));
            storage.stop_after(None);
            for image in 0..images {
                let crashed = storage.crash(&mut |bound| match image {
                    0 => 0,
                    1 => bound - 1,
                    _ => random.random_range(0..bound),
                });
                let what = format!("renames {renames}, stopped {is_stopped}, operation {operation}, image {image}");
                check(&crashed, &progress, renames, &what);
            }
        }
    });
}

#[test]
fn a_failure_of_any_operation_or_look_leaves_the_table_with_all_rows_or_without_its_name() {
    each_life(|change, renames, is_stopped| {
        let whole = FaultStorage::new();
        life(&whole, change, is_stopped, &mut Progress::default()).unwrap();
        let fails: [(u64, fn(&FaultStorage, Option<u64>)); 2] =
            [(whole.operations(), FaultStorage::fail_at), (whole.reads(), FaultStorage::fail_read_at)];
        for (calls, fail) in fails {
            for call in 0..calls {
                let storage = FaultStorage::new();
                fail(&storage, Some(call));
                let mut progress = Progress::default();
                drop(life(&storage, change, is_stopped, &mut progress));
                fail(&storage, None);
                let what = format!("renames {renames}, stopped {is_stopped}, failure of call {call} of {calls}");
                check(&storage.copy(), &progress, renames, &what);
            }
        }
    });
}

/// The process goes on where the change failed: the table takes rows, and the change is made once it can be.
#[test]
fn a_change_that_fails_is_made_later() {
    for (change, _) in CHANGES {
        let mut looks = u64::MAX;
        let mut look = 0;
        while look < looks {
            let (storage, database) = created();
            let capture = open(&database, small()).unwrap();
            (0..3).for_each(|number| send(&capture, number).unwrap());
            let before = storage.reads();
            storage.fail_read_at((looks != u64::MAX).then_some(look));
            let changed = change(&database);
            storage.fail_read_at(None);
            if looks == u64::MAX {
                changed.unwrap();
                looks = storage.reads() - before;
                assert!(looks > 3, "{looks}");
                continue;
            }
            let what = format!("look {look} of {looks}: {changed:?}");
            if changed.is_err() {
                assert_eq!(ids(&database, "trade"), Some(of_batches(0..3)), "{what}");
                send(&capture, 3).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(ids(&database, "trade"), Some(of_batches(0..4)), "{what}");
                change(&database).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            assert_eq!(ids(&database, "trade"), None, "{what}");
            send(&capture, 4).unwrap();
            assert_eq!(ids(&database, "trade"), Some(of_batches(4..5)), "{what}");
            capture.close().unwrap();
            look += 1;
        }
    }
}

/// A table that was dropped and made anew by a statement, which takes no rows, doesn't keep the journal's files.
#[test]
fn the_journal_lets_go_of_rows_of_a_table_that_was_made_anew() {
    let (_, database) = created();
    let capture =
        open(&database, CaptureSettings { journal_keep_bytes: 0, journal_segment_bytes: 700, ..settings() }).unwrap();
    send(&capture, 0).unwrap();
    drop_trade(&database).unwrap();
    database.load(&spec("UTC"), LoadOptions::default()).unwrap().commit().unwrap();
    let other = TableSpec { name: "other".to_owned(), ..spec("UTC") };
    for number in 0..20 {
        capture.append(Append { spec: Some(other.clone()), ..Append::new("other", batch(&batch_of(number))) }).unwrap();
    }
    capture.write_down(None).unwrap();
    let report = JournalReport::of(&database).unwrap();
    let tables: Vec<&str> = report.files.iter().flat_map(|file| &file.tables).map(|of| of.table.as_str()).collect();
    assert!(!tables.contains(&"trade"), "{tables:?}");
    capture.close().unwrap();
}
