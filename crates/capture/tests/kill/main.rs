//! kill -9 at random moments under four producers: every acknowledged row is there, once, and none that nobody sent.
//!
//! The test starts itself as another process, which captures and tells what was acknowledged, and kills that. `SPLAY_KILLS` sets
//! how often.
//!
//! A program of its own: a process that is being started holds for a moment the locks of all others' databases.
#![allow(clippy::unwrap_used, missing_docs, clippy::cast_possible_truncation)]

#[path = "../integration/rows.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod rows;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{AckClass, Append, Capture, CaptureSettings, FollowSettings, Producer, follow};
use splay_store::Database;

use rows::{SECOND, START, all, batch, row, spec};

const PRODUCERS: i64 = 4;

/// Numbers of rows of a producer begin at this many times its number.
const SHARE: i64 = 1_000_000_000;

/// Small enough that rows are written down and journal files change all the time.
fn settings() -> CaptureSettings {
    CaptureSettings {
        journal_segment_bytes: 20_000,
        journal_keep_bytes: 0,
        live_rows_max: 300,
        late_s: 0,
        // All dates of the rows have ended: they are rolled as well.
        roll_delay_s: 0,
        ..CaptureSettings::default()
    }
}

/// Rows of a producer's batch: one to four of them.
fn size(number: i64) -> i64 {
    1 + number % 4
}

/// The other process: four producers that go on behind the numbers given, until it is killed.
#[test]
fn a_child_captures_until_it_is_killed() {
    let Ok(folder) = std::env::var("SPLAY_KILL_FOLDER") else { return };
    let starts: Vec<i64> =
        std::env::var("SPLAY_KILL_STARTS").unwrap().split(',').map(|text| text.parse().unwrap()).collect();
    let database = Database::open_or_create(&folder).unwrap();
    let capture = Capture::open(database, settings()).unwrap().0;
    std::thread::scope(|scope| {
        for (producer, start) in (0..PRODUCERS).zip(starts) {
            let capture = &capture;
            scope.spawn(move || {
                for number in start.. {
                    let class = if producer % 2 == 0 { AckClass::Disk } else { AckClass::Process };
                    let rows: Vec<_> = (0..size(number))
                        .map(|at| {
                            let symbol = ["A", "B", "C"][usize::try_from((number + at) % 3).unwrap()];
                            // Some of them late.
                            let time = START + (number - number * 7 % 11) * SECOND;
                            row(symbol, time, producer * SHARE + number * 4 + at)
                        })
                        .collect();
                    let append = Append {
                        spec: Some(spec("UTC")),
                        producer: Some(Producer::new(format!("p{producer}"), number as u64 + 1)),
                        ack: Some(class),
                        ..Append::new("trade", batch(&rows))
                    };
                    let result = capture.append(append);
                    let line = match result {
                        Ok(_) => format!("ack {producer} {number}\n"),
                        Err(error) => format!("error {error}\n"),
                    };
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Captures in another process and kills it after `meanwhile`, which is told what has been acknowledged up to now. Gives the last
/// acknowledged number of each producer.
fn kill_one(
    folder: &Path,
    starts: &BTreeMap<i64, i64>,
    meanwhile: impl FnOnce(&Mutex<BTreeMap<i64, i64>>),
) -> BTreeMap<i64, i64> {
    let starts: Vec<String> =
        (0..PRODUCERS).map(|producer| starts.get(&producer).map_or(0, |last| last + 1).to_string()).collect();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_child_captures_until_it_is_killed", "--exact", "--nocapture"])
        .env("SPLAY_KILL_FOLDER", folder)
        .env("SPLAY_KILL_STARTS", starts.join(","))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let last = Arc::new(Mutex::new(BTreeMap::new()));
    let shared = Arc::clone(&last);
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            assert!(!line.starts_with("error"), "{line}");
            let mut words = line.split(' ');
            // The harness writes a line of its own before the first of ours.
            if let Some(("ack", producer, number)) = words
                .next()
                .map(|word| word.rsplit("...").next().unwrap_or(word))
                .zip(words.next())
                .zip(words.next())
                .map(|((a, b), c)| (a, b, c))
            {
                shared.lock().unwrap().insert(producer.parse().unwrap(), number.parse().unwrap());
            }
        }
    });
    meanwhile(&last);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    let last = last.lock().unwrap().clone();
    last
}

/// Checks that rows are those of whole batches, each once, among them all acknowledged ones. Gives the number of batches by producer.
fn check(database: &Database, acknowledged: &BTreeMap<i64, i64>, what: &str) -> Vec<i64> {
    let mut stored: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    if database.table("trade").is_ok() {
        for (_, row) in all(database) {
            stored.entry(row.id / SHARE).or_default().push(row.id % SHARE);
        }
    }
    let mut batches = Vec::new();
    for producer in 0..PRODUCERS {
        let mut ids = stored.remove(&producer).unwrap_or_default();
        ids.sort_unstable();
        // Whole batches, one behind the other.
        let next = ids.last().map_or(0, |last| last / 4 + 1);
        let expected: Vec<i64> =
            (0..next).flat_map(|number| (0..size(number)).map(move |at| number * 4 + at)).collect();
        assert_eq!(ids, expected, "{what}, producer {producer}");
        let last = acknowledged.get(&producer).copied().unwrap_or(-1);
        assert!(next > last, "{what}, producer {producer}: {last} was acknowledged, {next} is missing");
        batches.push(next);
    }
    batches
}

#[test]
fn a_killed_process_loses_doubles_and_invents_nothing() {
    let kills: u64 = std::env::var("SPLAY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(50);
    let mut random = ChaCha8Rng::seed_from_u64(99);
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<i64, i64> = BTreeMap::new();
    let mut total: i64 = 0;
    for cycle in 0..kills {
        let after = Duration::from_millis(random.random_range(5..120));
        let last = kill_one(folder.path(), &acknowledged, |_| std::thread::sleep(after));
        acknowledged.extend(last);
        if !folder.path().join("splay.toml").exists() {
            continue;
        }
        let database = Database::open(folder.path()).unwrap();
        follow(&database, FollowSettings::default());
        let at_rest = check(&database, &acknowledged, &format!("cycle {cycle}, at rest"));
        let (capture, recovered) = Capture::open(database.clone(), settings()).unwrap();
        assert_eq!(recovered.losses, [], "cycle {cycle}");
        let batches = check(&database, &acknowledged, &format!("cycle {cycle}"));
        assert_eq!(batches, at_rest, "cycle {cycle}: a reader saw others than came back");
        total = batches.iter().map(|next| (0..*next).map(size).sum::<i64>()).sum();
        for (producer, next) in (0..PRODUCERS).zip(batches) {
            let last = acknowledged.get(&producer).copied().unwrap_or(-1);
            assert!(next <= last + 2, "cycle {cycle}, producer {producer}: {next} was not sent");
        }
        capture.close().unwrap();
    }
    assert!(acknowledged.len() == PRODUCERS as usize, "nothing was captured");
    let stored = Database::open(folder.path()).unwrap().table("trade").unwrap().stored().unwrap();
    assert!(
        stored.rows() > 0 && stored.epoch() > kills / 10,
        "{} commits wrote {} rows down",
        stored.epoch(),
        stored.rows()
    );
    println!("{kills} kills, {} rows, {} of them written down by {} commits", total, stored.rows(), stored.epoch());
}

/// Rows are written down, rolled and joined and journal files removed while others read.
#[test]
fn readers_of_other_processes_see_all_that_was_acknowledged_and_never_less_than_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    let (mut before, mut looks, mut commits) = (vec![0; PRODUCERS as usize], 0, 0);
    let kills: u64 = std::env::var("SPLAY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(50) / 10;
    let follower = Database::create(folder.path()).unwrap();
    follow(&follower, FollowSettings::default());
    for cycle in 0..kills {
        let last = kill_one(folder.path(), &acknowledged.clone(), |acks| {
            let enough = before.iter().sum::<i64>() + 2_000;
            while before.iter().sum::<i64>() < enough {
                looks += 1;
                let mut now = acknowledged.clone();
                now.extend(acks.lock().unwrap().clone());
                let what = format!("cycle {cycle}, look {looks}");
                let other = Database::open(folder.path()).unwrap();
                follow(&other, FollowSettings::default());
                // One that has followed from the beginning, then one that comes now: it sees no less.
                for database in [&follower, &other] {
                    let batches = check(database, &now, &what);
                    assert!(
                        batches.iter().zip(&before).all(|(now, before)| now >= before),
                        "{what}: fewer than before"
                    );
                    before = batches;
                }
            }
        });
        acknowledged.extend(last);
        before = check(&follower, &acknowledged, &format!("cycle {cycle}, killed"));
        commits = follower.table("trade").unwrap().stored().unwrap().epoch();
    }
    assert!(commits > kills, "{commits} commits");
    println!("{looks} looks over {kills} kills and {commits} commits, {} batches", before.iter().sum::<i64>());
}
