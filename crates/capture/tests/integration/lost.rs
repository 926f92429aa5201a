//! The journal accounts for itself: a file that is gone, and a bit that has changed, are told, listed until the operator accepts
//! them, and cost no batch but those whose bytes they are.
//!
//! Before, a start was normal whichever journal files were deleted, and one changed bit in the newest dropped every batch behind it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray};
use splay_capture::{
    AckClass, Append, Capture, CaptureSettings, Error, FollowSettings, JournalLoss, JournalReport, LossKind, Producer,
    RecoveryStatus, SkippedBatch, SubscribeRequest, SubscriptionStart, back_up, follow,
};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Backup, Database};

use crate::rows::{SECOND, START, TestClock, all, batch, row, settings, spec};

/// Batches of a test, each of one row, whose number is its own.
const BATCHES: i64 = 24;

fn open(folder: &Path, segment_bytes: u64) -> (Capture, RecoveryStatus) {
    let settings = CaptureSettings { journal_segment_bytes: segment_bytes, ..settings() };
    let database = Database::open_or_create(folder).unwrap();
    Capture::open_with(database, settings, TestClock::at(START + 100 * SECOND)).unwrap()
}

fn send(capture: &Capture, id: i64) -> splay_capture::Result<splay_capture::Ack> {
    let producer = Some(Producer::new(format!("p{}", id % 2), id as u64 + 1));
    let rows = batch(&[row("A", START + id * SECOND, id)]);
    capture.append(Append {
        spec: Some(spec("UTC")),
        producer,
        ack: Some(AckClass::Disk),
        ..Append::new("trade", rows)
    })
}

fn send_all(capture: &Capture, ids: std::ops::Range<i64>) {
    for id in ids {
        send(capture, id).unwrap();
    }
}

fn ids(capture: &Capture) -> BTreeSet<i64> {
    let rows = all(capture.database());
    let ids: BTreeSet<i64> = rows.iter().map(|(_, row)| row.id).collect();
    assert_eq!(ids.len(), rows.len(), "each once");
    ids
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// What a killed process leaves behind that had all its batches acknowledged.
fn killed(to: &Path, segment_bytes: u64) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("db");
    let (capture, recovered) = open(&folder, segment_bytes);
    assert_eq!(recovered, RecoveryStatus::default());
    send_all(&capture, 0..BATCHES);
    copy_all(&folder, to);
    capture.close().unwrap();
}

fn journal_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(".journal")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "jnl")).collect();
    files.sort();
    files
}

fn kinds(losses: &[JournalLoss]) -> Vec<LossKind> {
    losses.iter().map(|loss| loss.kind).collect()
}

/// What is restored from a backup.
fn backed_up(database: &Database) -> Database {
    let (at, to) = (FaultStorage::new(), FaultStorage::new());
    back_up(database, Arc::new(at.clone())).unwrap();
    let backup = Backup::read(&at).unwrap().unwrap();
    backup.restore(&at, &to).unwrap();
    Database::open_on(Arc::new(to)).unwrap()
}

/// Starts, and checks that readers and backups have what it has, and that what is lost is told once, listed until it is accepted, and then no more. Gives the rows and the losses.
fn start_and_check(folder: &Path, segment_bytes: u64, what: &str) -> (BTreeSet<i64>, Vec<JournalLoss>) {
    let before = JournalReport::of(&Database::open(folder).unwrap()).unwrap();
    assert!(!before.is_sound(), "{what}: {before:?}");
    let (capture, recovered) = open(folder, segment_bytes);
    assert_eq!(recovered.losses, before.losses_found, "{what}");
    assert_eq!(capture.status().journal_losses, recovered.losses, "{what}");
    let rows = ids(&capture);
    let by = |others: &Database| all(others).into_iter().map(|(_, row)| row.id).collect::<BTreeSet<i64>>();
    let reader = Database::open(folder).unwrap();
    follow(&reader, FollowSettings::default());
    assert_eq!(by(&reader), rows, "{what}: who reads passes over it");
    let backed_up = backed_up(capture.database());
    let restored = Capture::open_with(backed_up, settings(), TestClock::at(START + 100 * SECOND)).unwrap().0;
    assert_eq!((ids(&restored), restored.status().journal_losses), (rows.clone(), recovered.losses.clone()), "{what}");
    restored.close().unwrap();
    assert!(!send(&capture, 200).unwrap().duplicate, "{what}");
    assert!(matches!(JournalReport::accept(capture.database()), Err(Error::Locked { .. })), "{what}");
    capture.close().unwrap();
    drop(capture);

    let (capture, again) = open(folder, segment_bytes);
    assert_eq!(again.losses, [], "{what}: told once");
    assert_eq!(capture.status().journal_losses, recovered.losses, "{what}: listed");
    let with_more: BTreeSet<i64> = rows.iter().copied().chain([200]).collect();
    assert_eq!(ids(&capture), with_more, "{what}");
    capture.close().unwrap();
    drop(capture);
    let database = Database::open(folder).unwrap();
    assert!(!JournalReport::of(&database).unwrap().is_sound(), "{what}");
    assert_eq!(JournalReport::accept(&database).unwrap(), recovered.losses, "{what}");
    assert!(JournalReport::of(&database).unwrap().is_sound(), "{what}");

    let (capture, last) = open(folder, segment_bytes);
    assert_eq!((last.losses.len(), capture.journal_losses().len()), (0, 0), "{what}: accepted");
    assert_eq!(ids(&capture), with_more, "{what}");
    capture.close().unwrap();
    (rows, recovered.losses)
}

#[test]
fn files_that_are_gone_are_told() {
    let temporary = tempfile::tempdir().unwrap();
    let whole = temporary.path().join("whole");
    killed(&whole, 900);
    let files = journal_files(&whole);
    assert!(files.len() >= 4, "{files:?}");
    let report = JournalReport::of(&Database::open(&whole).unwrap()).unwrap();
    assert!(report.is_sound() && report.has_catalog, "{report:?}");
    let of_file = |place: usize| report.files[place].first_sequence..=report.files[place].last_sequence;
    let last = files.len() - 1;
    let cases = [("oldest", vec![0]), ("middle", vec![1]), ("two", vec![1, 2]), ("newest", vec![last])];
    for (what, missing) in cases.into_iter().chain([("all", (0..=last).collect())]) {
        let folder = temporary.path().join(what);
        copy_all(&whole, &folder);
        missing.iter().for_each(|place| {
            std::fs::remove_file(folder.join(".journal").join(files[*place].file_name().unwrap())).unwrap()
        });
        let (rows, losses) = start_and_check(&folder, 900, what);
        assert_eq!(kinds(&losses), [LossKind::Missing], "{what}");
        assert_eq!(losses[0].files, (missing[0] as u64 + 1, missing[missing.len() - 1] as u64 + 1), "{what}");
        let is_gone = |id: &i64| missing.iter().any(|place| of_file(*place).contains(&(*id as u64 + 1)));
        let expected: BTreeSet<i64> = (0..BATCHES).filter(|id| !is_gone(id)).collect();
        assert_eq!(rows, expected, "{what}");
    }
}

#[test]
fn a_journal_that_is_gone_is_told_and_so_is_its_catalog() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("db");
    let (capture, _) = open(&folder, 1 << 20);
    send_all(&capture, 0..BATCHES);
    capture.write_down(None).unwrap();
    capture.close().unwrap();
    drop(capture);
    let whole = temporary.path().join("whole");
    copy_all(&folder, &whole);
    std::fs::remove_dir_all(folder.join(".journal")).unwrap();
    let (_, losses) = start_and_check(&folder, 1 << 20, "the folder");
    assert_eq!(kinds(&losses), [LossKind::Gone]);
    for what in ["removed", "damaged"] {
        let folder = temporary.path().join(what);
        copy_all(&whole, &folder);
        let catalog = folder.join(".journal/catalog");
        if what == "removed" {
            std::fs::remove_file(&catalog).unwrap();
        } else {
            let mut bytes = std::fs::read(&catalog).unwrap();
            bytes[20] ^= 1;
            std::fs::write(&catalog, bytes).unwrap();
        }
        let (rows, losses) = start_and_check(&folder, 1 << 20, what);
        assert_eq!(kinds(&losses), [LossKind::Catalog], "{what}");
        assert_eq!(rows, (0..BATCHES).collect(), "{what}: it costs no row");
    }
}

/// Places in a file of which each is in another batch's frame, and the batch.
fn places(bytes: &[u8], first: i64, count: i64) -> Vec<(usize, i64)> {
    (first..first + count)
        .map(|id| {
            let needle = (START + id * SECOND).to_le_bytes();
            // The last time it stands in its frame, among the rows.
            let place = bytes.windows(8).rposition(|window| window == needle).unwrap();
            (place, id)
        })
        .collect()
}

#[test]
fn a_changed_bit_costs_the_batch_that_it_is_in_wherever_it_is() {
    let temporary = tempfile::tempdir().unwrap();
    for (case, segment_bytes) in [("one file", 1 << 20), ("files", 900)] {
        let whole = temporary.path().join(case);
        killed(&whole, segment_bytes);
        let report = JournalReport::of(&Database::open(&whole).unwrap()).unwrap();
        for file in &report.files {
            let bytes = std::fs::read(whole.join(".journal").join(&file.file)).unwrap();
            let count = i64::try_from(file.last_sequence + 1 - file.first_sequence).unwrap();
            for (place, id) in places(&bytes, file.first_sequence as i64 - 1, count) {
                let what = format!("{case}, {}, batch {id}", file.file);
                let folder = temporary.path().join(&what);
                copy_all(&whole, &folder);
                let mut damaged = bytes.clone();
                damaged[place] ^= 0x20;
                std::fs::write(folder.join(".journal").join(&file.file), &damaged).unwrap();
                let (rows, losses) = start_and_check(&folder, segment_bytes, &what);
                assert_eq!(rows, (0..BATCHES).filter(|other| *other != id).collect(), "{what}");
                assert_eq!(kinds(&losses), [LossKind::Damaged], "{what}");
                let (first, last) = losses[0].sequences.unwrap();
                assert_eq!(first, id as u64 + 1, "{what}");
                assert!(last.is_none_or(|last| last == id as u64 + 1), "{what}: {losses:?}");
                // What is damaged is kept as it is.
                let set_aside_bytes =
                    std::fs::read(folder.join(".journal").join(losses[0].salvage_file.as_ref().unwrap())).unwrap();
                assert!(
                    set_aside_bytes
                        .windows(8)
                        .any(|window| damaged[place / 8 * 8..].starts_with(window)
                            || window == &damaged[place..place + 8]),
                    "{what}"
                );
                std::fs::remove_dir_all(&folder).unwrap();
            }
        }
    }
}

/// Without the description of their table all rows of a file would be lost by one bit.
#[test]
fn a_changed_bit_in_the_description_of_a_table_costs_no_batch() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("db");
    killed(&folder, 1 << 20);
    let file = journal_files(&folder).pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let place = bytes.windows(6).position(|window| window == b"\"trade").unwrap();
    bytes[place + 3] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (capture, recovered) = open(&folder, 1 << 20);
    assert_eq!((kinds(&recovered.losses), recovered.losses[0].sequences), (vec![LossKind::Damaged], None));
    assert_eq!(ids(&capture), (0..BATCHES).collect());
    // The table has other columns at the next start.
    let more = RecordBatch::try_from_iter([
        ("time", Arc::new(TimestampNanosecondArray::from(vec![START]).with_timezone("UTC")) as ArrayRef),
        ("more", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
    ]);
    capture.append(Append::new("trade", more.unwrap())).unwrap();
    capture.close().unwrap();
    drop(capture);
    let (capture, recovered) = open(&folder, 1 << 20);
    assert_eq!((recovered.losses, recovered.rows), (Vec::new(), BATCHES as u64 + 1));
    capture.close().unwrap();
}

#[test]
fn missing_numbers_are_told_by_producer() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("db");
    killed(&folder, 1 << 20);
    let file = journal_files(&folder).pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let (place, _) = places(&bytes, 10, 1)[0];
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (_, losses) = start_and_check(&folder, 1 << 20, "batch 10");
    // Of p1, whose numbers are even, none is lost; p0 is told once.
    let of_p0: Vec<_> = losses[0].producers.iter().filter(|missing| missing.producer == "p0").collect();
    assert_eq!((of_p0.len(), of_p0[0].after, of_p0[0].before), (1, 9, 13));
}

#[test]
fn an_older_file_that_was_cut_or_exchanged_is_told() {
    let temporary = tempfile::tempdir().unwrap();
    let whole = temporary.path().join("whole");
    killed(&whole, 900);
    let files = journal_files(&whole);
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_owned()).collect();
    let cut = temporary.path().join("cut");
    copy_all(&whole, &cut);
    let bytes = std::fs::read(&files[1]).unwrap();
    std::fs::write(cut.join(".journal").join(&names[1]), &bytes[..bytes.len() / 2]).unwrap();
    let (rows, losses) = start_and_check(&cut, 900, "cut");
    assert_eq!(kinds(&losses), [LossKind::Damaged]);
    assert!(rows.len() < BATCHES as usize && rows.contains(&(BATCHES - 1)), "{rows:?}");
    let exchanged = temporary.path().join("exchanged");
    copy_all(&whole, &exchanged);
    std::fs::copy(&files[0], exchanged.join(".journal").join(&names[1])).unwrap();
    let (rows, losses) = start_and_check(&exchanged, 900, "exchanged");
    assert_eq!(kinds(&losses), [LossKind::Missing]);
    assert_eq!(losses[0].files, (2, 2));
    assert!(rows.contains(&0) && rows.contains(&(BATCHES - 1)), "{rows:?}");
    // Of another database: each of its frames is sound.
    let other = temporary.path().join("other");
    let (capture, _) = open(&other, 900);
    send_all(&capture, 100..100 + BATCHES);
    capture.close().unwrap();
    let of_other = temporary.path().join("of_other");
    copy_all(&whole, &of_other);
    std::fs::copy(&journal_files(&other)[1], of_other.join(".journal").join(&names[1])).unwrap();
    let (_, losses) = start_and_check(&of_other, 900, "of another database");
    assert!(!losses.is_empty());
}

/// What a process says that only reads: the number of rows, or why it gives none.
fn read_only(folder: &Path) -> Result<usize, String> {
    let database = Database::open(folder).unwrap();
    follow(&database, FollowSettings::default());
    let snapshot = database.table("trade").and_then(|table| table.snapshot());
    snapshot.map(|snapshot| usize::try_from(snapshot.rows()).unwrap()).map_err(|error| error.to_string())
}

/// Before, a reader that found a journal file gone gave the rows of the others without a word.
#[test]
fn who_only_reads_is_told_of_files_that_are_gone_cut_or_exchanged_until_a_start_has_told() {
    let temporary = tempfile::tempdir().unwrap();
    let whole = temporary.path().join("whole");
    killed(&whole, 900);
    assert_eq!(read_only(&whole), Ok(BATCHES as usize));
    let files = journal_files(&whole);
    let name = |file: &Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    let broken = |what: &str, change: &dyn Fn(&Path)| {
        let folder = temporary.path().join(what);
        copy_all(&whole, &folder);
        change(&folder.join(".journal"));
        let error = read_only(&folder).unwrap_err();
        assert!(error.contains(".journal"), "{what}: {error}");
        let (capture, _) = open(&folder, 900);
        let remaining = ids(&capture).len();
        capture.close().unwrap();
        drop(capture);
        assert!(remaining < BATCHES as usize, "{what}");
        assert_eq!(read_only(&folder), Ok(remaining), "{what}: a start has told");
    };
    for (place, file) in files.iter().enumerate() {
        broken(&format!("gone{place}"), &|journal| std::fs::remove_file(journal.join(name(file))).unwrap());
    }
    broken("exchanged", &|journal| drop(std::fs::copy(journal.join(name(&files[0])), journal.join(name(&files[1])))));
    broken("cut", &|journal| {
        let file = journal.join(name(&files[1]));
        let bytes = std::fs::read(&file).unwrap();
        // In the last rows.
        std::fs::write(&file, &bytes[..bytes.len() - 20]).unwrap();
    });
    // One that has been read before is told by the same reader, too.
    let folder = temporary.path().join("later");
    copy_all(&whole, &folder);
    let database = Database::open(&folder).unwrap();
    follow(&database, FollowSettings::default());
    assert_eq!(all(&database).len(), BATCHES as usize);
    std::fs::remove_file(folder.join(".journal").join(name(files.last().unwrap()))).unwrap();
    assert!(database.table("trade").unwrap().snapshot().is_err());
}

#[test]
fn who_only_reads_is_told_that_the_journal_is_gone() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("db");
    let (capture, _) = open(&folder, 900);
    send_all(&capture, 0..BATCHES);
    capture.write_down(None).unwrap();
    capture.close().unwrap();
    drop(capture);
    assert_eq!(read_only(&folder), Ok(BATCHES as usize));
    std::fs::remove_dir_all(folder.join(".journal")).unwrap();
    let error = read_only(&folder).unwrap_err();
    assert!(error.contains("the journal that rows of the tables came from"), "{error}");
}

#[test]
fn a_cut_newest_file_is_told_after_an_orderly_stop() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("db");
    let (capture, _) = open(&folder, 1 << 20);
    send_all(&capture, 0..BATCHES);
    capture.close().unwrap();
    drop(capture);
    let file = journal_files(&folder).pop().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    assert!(read_only(&folder).is_err());
    let (rows, losses) = start_and_check(&folder, 1 << 20, "cut");
    assert_eq!(kinds(&losses), [LossKind::Damaged]);
    assert!(!rows.is_empty() && rows.len() < BATCHES as usize);
}

/// Subscribers that have all that is lost go on; others are told.
#[test]
fn who_catches_up_over_a_loss_is_told_of_it() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("db");
    killed(&folder, 1 << 20);
    let file = journal_files(&folder).pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let (place, _) = places(&bytes, 10, 1)[0];
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (capture, _) = open(&folder, 1 << 20);
    let behind = |after: u64| {
        let request = SubscribeRequest { from: SubscriptionStart::After(after), ..SubscribeRequest::new("trade") };
        let mut subscriber = capture.subscribe(request)?;
        let mut seen = Vec::new();
        while seen.last() != Some(&(BATCHES as u64)) {
            seen.extend(subscriber.next(std::time::Duration::from_secs(60))?.map(|update| update.sequence));
        }
        Ok(seen)
    };
    assert_eq!(behind(11).unwrap(), (12..=BATCHES as u64).collect::<Vec<_>>());
    let result: splay_capture::Result<Vec<u64>> = behind(5);
    assert!(matches!(result, Err(Error::Damaged { .. })), "{result:?}");
    capture.close().unwrap();
    drop(capture);
    // A file that is gone is between two others.
    let folder = temporary.path().join("files");
    killed(&folder, 900);
    let report = JournalReport::of(&Database::open(&folder).unwrap()).unwrap();
    std::fs::remove_file(&journal_files(&folder)[1]).unwrap();
    let (capture, _) = open(&folder, 900);
    let behind = |after: u64| {
        let request = SubscribeRequest { from: SubscriptionStart::After(after), ..SubscribeRequest::new("trade") };
        capture.subscribe(request)?.next(std::time::Duration::from_secs(60))
    };
    let (last, first) = (report.files[0].last_sequence, report.files[2].first_sequence);
    assert_eq!(behind(last - 1).unwrap().unwrap().sequence, last);
    assert!(matches!(behind(last), Err(Error::Damaged { .. })));
    assert_eq!(behind(first - 1).unwrap().unwrap().sequence, first);
    capture.close().unwrap();
}

/// Sends batches of one row; every other one has a producer, whose numbers are 1, 2, 3 and so on.
fn send_to_some(capture: &Capture, id: i64) -> splay_capture::Ack {
    let producer = (id % 2 == 1).then(|| Producer::new("feed".to_owned(), id as u64 / 2 + 1));
    let (rows, ack) = (batch(&[row("A", START + id * SECOND, id)]), Some(AckClass::Process));
    capture.append(Append { spec: Some(spec("UTC")), producer, ack, ..Append::new("trade", rows) }).unwrap()
}

/// Where a batch's frame begins.
fn frame_of(journal: &[u8], batch: usize) -> usize {
    let (mut at, mut batches) = (32, 0);
    loop {
        let is_batch = journal[at + 8] == 2;
        if is_batch && batches == batch {
            return at;
        }
        batches += usize::from(is_batch);
        at += 8 + u32::from_le_bytes(journal[at..at + 4].try_into().unwrap()) as usize;
    }
}

/// Starts after a power cut that left the frame of one of twelve batches broken.
fn torn_at(folder: &Path, broken: usize) -> (Capture, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let settings = CaptureSettings { sync_interval_ms: 1 << 40, ..settings() };
    let database = Database::open_or_create(temporary.path()).unwrap();
    let capture = Capture::open_with(database, settings, TestClock::at(START + 100 * SECOND)).unwrap().0;
    for id in 0..12 {
        send_to_some(&capture, id);
    }
    copy_all(temporary.path(), folder);
    capture.close().unwrap();
    let file = journal_files(folder).pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let place = frame_of(&bytes, broken) + 20;
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (capture, recovered) = open(folder, 1 << 20);
    assert_eq!(kinds(&recovered.losses), [LossKind::Torn]);
    assert_eq!(ids(&capture), (0..broken as i64).collect());
    (capture, file.with_extension("jnl.torn"))
}

#[test]
fn what_was_set_aside_is_stored_once_however_often() {
    let temporary = tempfile::tempdir().unwrap();
    let (capture, aside) = torn_at(temporary.path(), 4);
    let done = capture.store_set_aside(&aside).unwrap();
    assert_eq!((done.stored, done.rows, done.in_journal, done.left_out.len()), (7, 7, 0, 0));
    let without_it: BTreeSet<i64> = (0..12).filter(|id| *id != 4).collect();
    assert_eq!(ids(&capture), without_it);
    let again = capture.store_set_aside(&aside).unwrap();
    assert_eq!((again.stored, again.in_journal, again.left_out.len()), (0, 0, 7), "{again:?}");
    // A copy of a part of it stores nothing either, and a producer may send all of it once more.
    let copy = temporary.path().join("copy");
    let bytes = std::fs::read(&aside).unwrap();
    std::fs::write(&copy, &bytes[bytes.len() / 2..]).unwrap();
    assert_eq!(capture.store_set_aside(&copy).unwrap().stored, 0);
    assert!(send_to_some(&capture, 5).duplicate && send_to_some(&capture, 11).duplicate);
    capture.write_down(None).unwrap();
    let written = capture.store_set_aside(&aside).unwrap().left_out;
    assert!(written.iter().all(|why| matches!(why, SkippedBatch::Written { .. })), "{written:?}");
    assert_eq!(ids(&capture), without_it);
    capture.close().unwrap();
}

/// The rows of a number that isn't there would be lost: it would be taken for a repeat.
#[test]
fn what_stands_behind_a_producers_missing_number_is_left_out() {
    let temporary = tempfile::tempdir().unwrap();
    let (capture, aside) = torn_at(temporary.path(), 5);
    let done = capture.store_set_aside(&aside).unwrap();
    assert_eq!((done.stored, done.in_journal), (3, 0), "those without a producer");
    let number = |number| SkippedBatch::Number { producer: "feed".to_owned(), number, last: Some(2) };
    assert_eq!(done.left_out, [number(4), number(5), number(6)]);
    for id in [5, 7, 9, 11] {
        assert!(!send_to_some(&capture, id).duplicate, "{id}");
    }
    assert_eq!(ids(&capture), (0..12).collect());
    capture.close().unwrap();
}
