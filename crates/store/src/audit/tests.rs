//! A whole chain verifies, a changed one doesn't, and a log continues after crashes and full disks.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};

use proptest::prelude::*;

use super::append::ChainWriter;
use super::recovery::DAY_NS;
use super::*;
use crate::storage::fault::FaultStorage;
use crate::storage::{LocalStorage, Storage};

const NOW: i64 = 1_795_824_000_000_000_000;

fn key() -> AuditKey {
    AuditKey::of("a key of more than thirty-two bytes of text").unwrap()
}

fn small() -> AuditSettings {
    AuditSettings { file_bytes_max: 2000, keep_days: 0 }
}

fn event(number: u64) -> AuditEvent {
    AuditEvent {
        user: "ann".to_owned(),
        role: "user",
        wire: "http",
        statement: format!("select {number}"),
        rows: Some(number),
        milliseconds: Some(0.25),
        outcome: "ok",
        ..AuditEvent::new("statement", NOW)
    }
}

fn open(storage: &FaultStorage, settings: AuditSettings, key: Option<AuditKey>) -> Result<ChainWriter, crate::Error> {
    ChainWriter::open(Arc::new(storage.clone()), settings, key, NOW)
}

fn write(chain: &mut ChainWriter, numbers: std::ops::Range<u64>) {
    for number in numbers {
        chain.append(&[event(number)], NOW).unwrap();
    }
    chain.write_head(NOW).unwrap();
}

/// A log of some files.
fn log(key: Option<AuditKey>) -> FaultStorage {
    let storage = FaultStorage::new();
    write(&mut open(&storage, small(), key).unwrap(), 0..20);
    storage
}

fn check(storage: &FaultStorage, key: Option<&AuditKey>) -> Verification {
    verify(storage, key, None).unwrap()
}

fn problem_text(storage: &FaultStorage, key: Option<&AuditKey>) -> String {
    let verification = check(storage, key);
    verification.problems.iter().map(|problem| format!("{}: {}\n", problem.file, problem.what)).collect()
}

fn files_of(storage: &FaultStorage) -> Vec<String> {
    storage.list("").unwrap().into_iter().map(|entry| entry.name).filter(|name| name.starts_with("audit-")).collect()
}

fn lines_of(storage: &FaultStorage, path: &str) -> Vec<Vec<u8>> {
    let bytes = storage.read(path).unwrap();
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn set_lines(storage: &FaultStorage, path: &str, lines: &[Vec<u8>]) {
    storage.damage(path, |bytes| *bytes = lines.concat()).unwrap();
}

#[test]
fn a_whole_log_is_sound_and_goes_on() {
    for key in [None, Some(key())] {
        let storage = log(key.clone());
        let files = files_of(&storage).len();
        assert!(files > 3, "{files} files");
        let verification = check(&storage, key.as_ref());
        assert!(verification.is_sound(), "{verification:?}");
        assert_eq!(
            (verification.first, verification.files, verification.records),
            (1, files as u64, 20 + files as u64)
        );
        assert_eq!(verification.head, verification.last.as_ref().map(|last| last.n));
        // The same chain goes on.
        write(&mut open(&storage, small(), key.clone()).unwrap(), 20..22);
        let later = verify(&storage, key.as_ref(), verification.last.as_ref()).unwrap();
        assert!(later.is_sound() && later.records >= verification.records + 2, "{later:?}");
    }
}

#[test]
fn records_are_json_with_what_happened() {
    let storage = log(None);
    let mut statements = Vec::new();
    let filter =
        AuditFilter { kind: Some("statement".to_owned()), user: Some("ANN".to_owned()), ..AuditFilter::default() };
    let others = read::<crate::Error>(&storage, &filter, &mut |_, record| {
        assert_eq!(record["time"], "2026-11-28T00:00:00.000000000Z");
        assert_eq!((&record["outcome"], &record["milliseconds"]), (&"ok".into(), &0.25.into()));
        statements.push(record["statement"].as_str().unwrap().to_owned());
        Ok(())
    });
    assert_eq!(others.unwrap(), 0);
    assert_eq!(statements, (0..20).map(|number| format!("select {number}")).collect::<Vec<_>>());
    let none = AuditFilter { since: Some(NOW + 1), ..AuditFilter::default() };
    read::<crate::Error>(&storage, &none, &mut |_, _| panic!("nothing is as late")).unwrap();
    let none = AuditFilter { until: Some(NOW), ..AuditFilter::default() };
    read::<crate::Error>(&storage, &none, &mut |_, _| panic!("nothing is as early")).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Each byte of records and head, changed to any other.
    #[test]
    fn a_byte_that_was_changed_is_told(at in any::<prop::sample::Index>(), change in 1u8.., keyed in any::<bool>()) {
        let key = keyed.then(key);
        let storage = log(key.clone());
        let mut files = files_of(&storage);
        files.push(head::FILE.to_owned());
        let lengths: Vec<usize> = files.iter().map(|file| storage.read(file).unwrap().len()).collect();
        let mut at = at.index(lengths.iter().sum());
        let file = lengths.iter().position(|length| { let here = at < *length; if !here { at -= length; } here }).unwrap();
        storage.damage(&files[file], |bytes| bytes[at] ^= change).unwrap();
        let verification = check(&storage, key.as_ref());
        prop_assert!(verification.problem_count > 0, "byte {at} of {}", files[file]);
        // It goes on, and what was wrong stays so.
        write(&mut open(&storage, small(), key.clone()).unwrap(), 0..1);
        prop_assert!(check(&storage, key.as_ref()).problem_count > 0);
    }

    /// Bytes of anybody, among them numbers that no record has.
    #[test]
    fn any_bytes_are_read_and_gone_on_from(n in prop_oneof![Just(u64::MAX), any::<u64>()], bytes in any::<Vec<u8>>()) {
        let storage = log(None);
        let last = files_of(&storage).pop().unwrap();
        let mut position = chain::ChainPosition { n: n.wrapping_sub(1), digest: "ab".repeat(32) };
        let mut lines = Vec::new();
        let opening = chain::FileOpening { version: 1, chain: String::new(), is_first: n % 2 == 0, key: None };
        let of_log = chain::LogRecord { file: Some(opening), ..chain::LogRecord::default() };
        chain::push(&mut lines, &mut position, &event(1), &of_log, seal::Seal::Plain);
        lines.extend_from_slice(&bytes);
        storage.damage(&last, |file| *file = lines).unwrap();
        prop_assert!(check(&storage, None).problem_count > 0);
        let mut chain = open(&storage, small(), None).unwrap();
        let _ = chain.append(&[event(1)], NOW);
    }

    /// A line that was taken out, doubled or exchanged with another one.
    #[test]
    fn a_line_in_another_place_is_told(one in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(), how in 0..3) {
        let storage = log(None);
        let files = files_of(&storage);
        let mut all: Vec<(String, Vec<u8>)> =
            files.iter().flat_map(|file| lines_of(&storage, file).into_iter().map(|line| (file.clone(), line))).collect();
        let (one, other) = (one.index(all.len()), other.index(all.len()));
        prop_assume!(how > 0 || one != other);
        match how {
            0 => {
                let line = all[one].1.clone();
                all[one].1 = std::mem::replace(&mut all[other].1, line);
            }
            1 => drop(all.remove(one)),
            _ => {
                let line = (all[other].0.clone(), all[one].1.clone());
                all.insert(other, line);
            }
        }
        for file in &files {
            let lines: Vec<Vec<u8>> = all.iter().filter(|(of, _)| of == file).map(|(_, line)| line.clone()).collect();
            set_lines(&storage, file, &lines);
        }
        prop_assert!(check(&storage, None).problem_count > 0);
    }

    /// A power cut at any operation: what was told to be durable is there, and the chain is whole once it goes on.
    #[test]
    fn a_power_cut_leaves_a_chain_that_goes_on(
        stop in 0u64..90,
        seed in any::<u64>(),
        keyed in any::<bool>(),
        goes_on in any::<bool>(),
    ) {
        let key = keyed.then(key);
        // A new one, or one that had no key before.
        let storage = if goes_on { log(None) } else { FaultStorage::new() };
        storage.stop_after(Some(stop));
        let mut durable = 0;
        if let Ok(mut chain) = open(&storage, small(), key.clone()) {
            durable = chain.last();
            for number in 0..12 {
                if chain.append(&[event(number), event(number)], NOW).is_err() || (number % 3 == 0 && chain.sync().is_err()) {
                    break;
                }
                if number % 3 == 0 {
                    durable = chain.last();
                }
                if number % 5 == 4 && chain.write_head(NOW).is_err() {
                    break;
                }
            }
        }
        let mut state = seed | 1;
        let mut choose = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % bound.max(1)
        };
        let storage = storage.crash(&mut choose);
        let mut chain = open(&storage, small(), key.clone()).unwrap();
        prop_assert!(chain.last() >= durable);
        write(&mut chain, 0..3);
        drop(chain);
        let verification = check(&storage, key.as_ref());
        prop_assert!(verification.is_sound(), "{verification:?}");
    }
}

#[test]
fn what_was_changed_is_named() {
    let storage = log(None);
    let files = files_of(&storage);
    let mut lines = lines_of(&storage, &files[1]);
    let first = lines[0].clone();
    lines[1] = String::from_utf8(lines[1].clone()).unwrap().replace("ann", "bob").into_bytes();
    set_lines(&storage, &files[1], &lines);
    let number = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).unwrap()["n"].as_u64().unwrap();
    let changed = number(&first) + 1;
    assert_eq!(problem_text(&storage, None), format!("{}: record {changed} was changed\n", files[1]));

    let storage = log(None);
    storage.remove(&files[1]).unwrap();
    let next = number(&lines_of(&storage, &files[2])[0]);
    let missing = format!("{}: records {} to {} are missing\n", files[2], number(&first), next - 1);
    assert_eq!(problem_text(&storage, None), missing);

    let storage = log(None);
    storage.remove(&files[0]).unwrap();
    let missing = "are missing, and no record says that they were removed because of their age";
    assert!(problem_text(&storage, None).contains(missing), "{}", problem_text(&storage, None));

    let storage = log(None);
    let last = files.last().unwrap();
    let mut lines = lines_of(&storage, last);
    lines.pop();
    set_lines(&storage, last, &lines);
    assert!(problem_text(&storage, None).contains("the end was cut off"), "{}", problem_text(&storage, None));

    let storage = log(None);
    for file in &files {
        storage.remove(file).unwrap();
    }
    assert!(problem_text(&storage, None).contains("the end was cut off"));
    storage.remove(head::FILE).unwrap();
    assert!(check(&storage, None).is_sound(), "nothing is left that could tell");
    let expected: ExpectedRecord = "3:00112233445566778899aabbccddeeff".parse().unwrap();
    let verification = verify(&storage, None, Some(&expected)).unwrap();
    assert_eq!(verification.problems[0].what, "record 3, which was asked for, isn't there");

    let storage = log(None);
    storage.remove(head::FILE).unwrap();
    let mut lines = lines_of(&storage, last);
    lines.pop();
    set_lines(&storage, last, &lines);
    assert!(problem_text(&storage, None).contains("head.json: it is missing"));
    // A start makes another head, and its record says so for good.
    write(&mut open(&storage, small(), None).unwrap(), 0..1);
    assert!(problem_text(&storage, None).contains("says what a start has found: head.json was missing"));
}

/// Whoever may write all files and knows no key makes the chain anew; with a key nobody can.
#[test]
fn a_chain_with_a_key_is_made_by_its_key_alone() {
    let (key, other) = (key(), AuditKey::of("another key of more than thirty-two bytes").unwrap());
    let forged = log(None);
    assert!(check(&forged, None).is_sound());
    assert!(
        problem_text(&forged, Some(&key)).contains("sealed without the key"),
        "{}",
        problem_text(&forged, Some(&key))
    );
    let forged = log(Some(other.clone()));
    assert!(
        problem_text(&forged, Some(&key)).contains("sealed with another key"),
        "{}",
        problem_text(&forged, Some(&key))
    );

    let storage = log(Some(key.clone()));
    let unchecked = check(&storage, None);
    assert!(!unchecked.is_sound() && unchecked.problem_count == 0 && unchecked.unchecked == unchecked.records);
    // A cut end with a head that was made without the key, from what the records say.
    let files = files_of(&storage);
    let last = files.last().unwrap();
    let mut lines = lines_of(&storage, last);
    let cut = chain::LinkedLine::of(lines.pop().unwrap().strip_suffix(b"\n").unwrap()).unwrap();
    set_lines(&storage, last, &lines);
    let position = chain::ChainPosition { n: cut.link.n - 1, digest: cut.link.before };
    let chain_name = {
        let first = lines_of(&storage, &files[0]).remove(0);
        serde_json::from_slice::<serde_json::Value>(&first).unwrap()["file"]["chain"].as_str().unwrap().to_owned()
    };
    head::LogHead::write(&storage, (&chain_name, &position), Some(&other), NOW).unwrap();
    assert!(problem_text(&storage, Some(&key)).contains("head.json: it is sealed with another key"));
    head::LogHead::write(&storage, (&chain_name, &position), None, NOW).unwrap();
    assert!(problem_text(&storage, Some(&key)).contains("head.json: it is sealed without the key"));
    // The key's owner could; and the digest of a record is none of a head.
    head::LogHead::write(&storage, (&chain_name, &position), Some(&key), NOW).unwrap();
    assert!(check(&storage, Some(&key)).is_sound());
    assert!(AuditKey::of("short").is_err());
    assert!(!format!("{key:?}").contains("thirty"));
}

/// Neither the next start takes a head that was made without the key for an end that was cut off.
#[test]
fn a_start_does_not_seal_what_others_have_cut_off() {
    let key = key();
    for forged in [None, Some(AuditKey::of("another key of more than thirty-two bytes").unwrap())] {
        for before in [0, 3, 100] {
            let storage = log(Some(key.clone()));
            let files = files_of(&storage);
            let last = files.last().unwrap();
            let mut lines = lines_of(&storage, last);
            lines.truncate(lines.len() - 1);
            set_lines(&storage, last, &lines);
            let cut = chain::LinkedLine::of(lines.last().unwrap().strip_suffix(b"\n").unwrap()).unwrap();
            let position = chain::ChainPosition { n: cut.link.n.saturating_sub(before), digest: cut.sealed.digest };
            let head::StoredHead::Some(log_head, _) = head::LogHead::read(&storage).unwrap() else { panic!("no head") };
            head::LogHead::write(&storage, (&log_head.chain, &position), forged.as_ref(), NOW).unwrap();
            write(&mut open(&storage, small(), Some(key.clone())).unwrap(), 0..2);
            let problem_text = problem_text(&storage, Some(&key));
            assert!(problem_text.contains("head.json was sealed in another way"), "{problem_text}");
        }
    }
}

#[test]
fn a_key_that_comes_later_begins_another_file_of_the_chain() {
    let storage = log(None);
    let before = check(&storage, None);
    write(&mut open(&storage, small(), Some(key())).unwrap(), 20..21);
    let verification = check(&storage, Some(&key()));
    assert!(verification.is_sound(), "{verification:?}");
    assert_eq!(verification.records - verification.keyed, before.records);
    // From then on nothing is taken that was made without.
    write(&mut open(&storage, small(), None).unwrap(), 21..22);
    assert!(
        problem_text(&storage, Some(&key())).contains("sealed without the key, behind one that was sealed with it")
    );
}

#[test]
fn a_torn_record_is_cut_off_and_told_of() {
    for key in [None, Some(key())] {
        let storage = log(key.clone());
        let sound = check(&storage, key.as_ref()).last.unwrap();
        let last = files_of(&storage).pop().unwrap();
        storage.damage(&last, |bytes| bytes.extend_from_slice(b"{\"n\":27,\"time\":\"2026-")).unwrap();
        let torn = check(&storage, key.as_ref());
        assert_eq!((torn.problem_count, torn.torn_bytes), (0, 21), "a write may be under way");
        drop(open(&storage, small(), key.clone()).unwrap());
        let verification = verify(&storage, key.as_ref(), Some(&sound)).unwrap();
        assert!(verification.is_sound() && verification.torn_bytes == 0, "{verification:?}");
        let mut seen = Vec::new();
        let recovered = AuditFilter { kind: Some("recovered".to_owned()), ..AuditFilter::default() };
        read::<crate::Error>(&storage, &recovered, &mut |_, record| {
            seen.push(record["torn"]["bytes"].as_u64());
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [Some(21)]);
    }
}

#[test]
fn damage_stays_where_it_is_and_the_log_goes_on() {
    let storage = log(None);
    let last = files_of(&storage).pop().unwrap();
    let before = storage.read(&last).unwrap();
    storage.damage(&last, |bytes| bytes[40] ^= 1).unwrap();
    let damaged = storage.read(&last).unwrap();
    let mut chain = open(&storage, small(), None).unwrap();
    write(&mut chain, 0..1);
    assert_eq!(storage.read(&last).unwrap(), damaged);
    assert!(check(&storage, None).problem_count > 0);
    // Put right, it is a whole one but for the numbers that nobody has.
    storage.damage(&last, |bytes| bytes.clone_from(&before)).unwrap();
    let problems = problem_text(&storage, None);
    assert!(problems.contains("missing") || problems.contains("doesn't follow"), "{problems}");
}

#[test]
fn old_files_are_removed_and_a_record_says_so() {
    let storage = FaultStorage::new();
    let settings = AuditSettings { keep_days: 2, ..AuditSettings::default() };
    let mut chain = ChainWriter::open(Arc::new(storage.clone()), settings, None, NOW).unwrap();
    let mut counts = BTreeMap::new();
    for day in 0..6 {
        let now = NOW + day * DAY_NS;
        chain.append(&[AuditEvent { time: now, ..event(1) }], now).unwrap();
        chain.write_head(now).unwrap();
        counts.insert(day, files_of(&storage).len());
    }
    // A file of a day, and those of the two days before; the one of the third, whose last records may be younger than two days.
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [1, 2, 3, 3, 3, 3]);
    let verification = check(&storage, None);
    assert!(
        verification.is_sound() && verification.removed_through == Some(verification.first - 1),
        "{verification:?}"
    );
    // Without the record it was somebody else.
    let first = files_of(&storage).remove(0);
    storage.remove(&first).unwrap();
    assert!(check(&storage, None).problem_count > 0);
}

#[test]
fn one_process_writes_at_a_time() {
    let storage = FaultStorage::new();
    let chain = open(&storage, small(), None).unwrap();
    assert!(matches!(open(&storage, small(), None), Err(crate::Error::Locked { .. })));
    drop(chain);
    open(&storage, small(), None).unwrap();
}

/// A log with its thread.
fn running(storage: &FaultStorage) -> AuditLog {
    let time = AtomicI64::new(NOW);
    let clock: AuditClock = Arc::new(move || time.fetch_add(1, Ordering::Relaxed));
    AuditLog::open(Arc::new(storage.clone()), AuditSettings::default(), None, clock).unwrap()
}

fn recorded(log: &AuditLog, number: u64) -> Result<u64, RecordFailure> {
    let (sender, receiver) = mpsc::channel();
    log.record(event(number), Some(Box::new(move |done| sender.send(done).unwrap())));
    receiver.recv().unwrap()
}

#[test]
fn whoever_waits_is_told_when_his_record_is_durable() {
    let storage = FaultStorage::new();
    let log = running(&storage);
    let numbers: Vec<u64> = (0..100).map(|number| recorded(&log, number).unwrap()).collect();
    assert_eq!(numbers, (2..102).collect::<Vec<_>>(), "behind the file's own");
    // As a power cut would leave it.
    let crashed = storage.crash(&mut |_| 0);
    let mut count = 0;
    read::<crate::Error>(&crashed, &AuditFilter::default(), &mut |_, _| {
        count += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(count, 101);
    log.close();
    assert_eq!(recorded(&log, 1), Err(RecordFailure::Closed));
    let status = log.status();
    assert_eq!((status.records, status.lost, status.last), (100, 1, 101));
    assert!(check(&storage, None).is_sound());
}

#[test]
fn records_of_many_threads_are_one_chain() {
    let storage = FaultStorage::new();
    let log = running(&storage);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..50 {
                    if number % 10 == 0 {
                        recorded(log, thread * 100 + number).unwrap();
                    } else {
                        log.record(event(thread * 100 + number), None);
                    }
                }
            });
        }
    });
    log.close();
    let verification = check(&storage, None);
    assert!(verification.is_sound() && verification.records == 401, "{verification:?}");
}

#[test]
fn a_full_disk_loses_records_and_says_how_many() {
    let storage = FaultStorage::new();
    let log = running(&storage);
    recorded(&log, 1).unwrap();
    storage.capacity(Some(storage.used() + 100));
    for number in 0..3 {
        let lost = recorded(&log, number);
        assert!(matches!(lost, Err(RecordFailure::Failed { .. })), "{lost:?}");
    }
    let status = log.status();
    assert!(status.lost == 3 && status.error.is_some() && !status.is_failed, "{status:?}");
    storage.capacity(None);
    recorded(&log, 2).unwrap();
    assert_eq!(log.status().error, None);
    log.close();
    let verification = check(&storage, None);
    assert!(verification.is_sound(), "{verification:?}");
    let mut about = Vec::new();
    let lost = AuditFilter { kind: Some("lost".to_owned()), ..AuditFilter::default() };
    read::<crate::Error>(&storage, &lost, &mut |_, record| {
        about.push(record["about"].as_str().unwrap().to_owned());
        Ok(())
    })
    .unwrap();
    assert_eq!(about, ["3 records before this one couldn't be written"]);
}

#[test]
fn a_sync_that_failed_ends_the_log_until_the_next_start() {
    let storage = FaultStorage::new();
    let log = running(&storage);
    recorded(&log, 1).unwrap();
    // The write, and then the sync.
    storage.stop_after(Some(1));
    assert!(matches!(recorded(&log, 2), Err(RecordFailure::Failed { .. })));
    storage.stop_after(None);
    assert!(matches!(recorded(&log, 3), Err(RecordFailure::Failed { .. })), "it isn't tried again");
    assert!(log.status().is_failed);
    log.close();
    drop(log);
    let log = running(&storage);
    recorded(&log, 4).unwrap();
    log.close();
    assert!(check(&storage, None).is_sound());
}

#[test]
fn texts_are_bounded() {
    let storage = FaultStorage::new();
    let log = running(&storage);
    let long = "ä\u{1}".repeat(1 << 20);
    let event = AuditEvent { statement: long.clone(), user: long.clone(), about: long, ..event(1) };
    let (sender, receiver) = mpsc::channel();
    log.record(event, Some(Box::new(move |done| sender.send(done).unwrap())));
    receiver.recv().unwrap().unwrap();
    log.close();
    let verification = check(&storage, None);
    assert!(verification.is_sound() && log.status().file_bytes < 200 << 10, "{verification:?}");
}

#[test]
fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FOLDER);
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::private(&path).unwrap());
    let log = AuditLog::open(Arc::clone(&storage), AuditSettings::default(), None, Arc::new(|| NOW)).unwrap();
    log.record(event(1), None);
    log.close();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path) & 0o077, 0);
    for entry in std::fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()) & 0o077, 0);
    }
    assert_eq!(folder_of(folder.path()), path);
    assert!(verify(storage.as_ref(), None, None).unwrap().is_sound());
}
