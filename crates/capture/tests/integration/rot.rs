//! Any damage to any file of a captured database: it is told, or makes no difference; never a panic, never a wrong row, never a missing one
//! without a word.
//!
//! Bits and bytes that change, ends that are cut off or grow, blocks that are zero, elsewhere, or another file's; files that are gone or another's.
//! `SPLAY_DAMAGES` says how many are tried, `SPLAY_DAMAGE_SEED` with which they begin: each is made of its number alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{AckClass, Append, Capture, CaptureSettings, FollowSettings, Producer, follow};
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{CompactOptions, Database, Selection, Settings, TableSpec, Tier};

use crate::rows::{DAY, Row, SECOND, START, TestClock, batch, read, row, settings, spec};

const TABLES: [&str; 2] = ["trade", "quote"];
const ROWS: i64 = 20;

fn small() -> CaptureSettings {
    CaptureSettings { journal_segment_bytes: 4_000, journal_keep_bytes: 3_000, late_s: 1, ..settings() }
}

fn clock() -> Arc<TestClock> {
    TestClock::at(START + 10 * DAY)
}

/// A database, and what its tables hold.
struct Base {
    storage: FaultStorage,
    rows: [Vec<Row>; 2],
    /// Whether the process that wrote it was killed: of its newest journal file nobody has noted the length.
    is_killed: bool,
}

fn base(is_killed: bool) -> Base {
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    let capture = Capture::open_with(database.clone(), small(), clock()).unwrap().0;
    let mut rows = [Vec::new(), Vec::new()];
    for number in 0..24_i64 {
        let place = usize::try_from(number % 3 / 2).unwrap();
        let made: Vec<Row> = (0..ROWS)
            .map(|at| {
                row(
                    ["A", "B", "", "LONG"][(at % 4) as usize],
                    START + number / 6 * DAY + at * 7 % 5 * SECOND,
                    number * ROWS + at,
                )
            })
            .collect();
        let spec = Some(TableSpec { name: TABLES[place].to_owned(), ..spec("UTC") });
        let producer = Some(Producer::new("feed".to_owned(), number as u64 + 1));
        let ack = Some(AckClass::Disk);
        capture.append(Append { spec, producer, ack, ..Append::new(TABLES[place], batch(&made)) }).unwrap();
        rows[place].extend(made);
        match number {
            5 | 11 | 17 => drop(capture.write_down(None).unwrap()),
            12 => {
                let table = database.table("trade").unwrap();
                let date = table.stored().unwrap().partitions()[0].date;
                let options =
                    CompactOptions { tier: Some(Tier::Small), before: Some(date + 1), ..CompactOptions::default() };
                table.compact(&options, &mut |_| ControlFlow::Continue(())).unwrap();
            }
            _ => {}
        }
    }
    let killed = storage.copy();
    capture.close().unwrap();
    rows.iter_mut().for_each(|rows| rows.sort_by_key(|row| row.id));
    Base { storage: if is_killed { killed } else { storage.copy() }, rows, is_killed }
}

fn set(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What kind of file a path is.
fn kind(path: &str) -> &str {
    match path.rsplit('/').next().unwrap() {
        "HEAD" => "HEAD",
        "catalog" => "catalog",
        name => name.rsplit('.').next().unwrap(),
    }
}

/// Changes a file. Gives what was done; nothing if that changed nothing.
fn damage(storage: &FaultStorage, path: &str, paths: &[String], random: &mut ChaCha8Rng) -> Option<String> {
    let before = storage.read(path).unwrap();
    let (mut bytes, length) = (before.clone(), before.len());
    let at = random.random_range(0..length.max(1));
    let other = storage.read(&paths[random.random_range(0..paths.len())]).unwrap();
    let what: u32 = random.random_range(0..11);
    let description = match what {
        0 | 1 if length > 0 => {
            let bit = random.random_range(0..8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
        2 if length > 0 => {
            bytes[at] = random.random();
            format!("byte {at}")
        }
        3 => {
            bytes.truncate(at);
            format!("cut to {} bytes", bytes.len())
        }
        4 => {
            let more: u32 = random.random_range(1..600);
            let factor = [0, 31][random.random_range(0..2)];
            bytes.extend((0..more).map(|at| (at * factor % 251) as u8));
            format!("{more} bytes more")
        }
        5..=8 if length > 1 => {
            let size = [16, 64, 512, 4096][random.random_range(0..4)].min(length / 2);
            let (to, from) = (random.random_range(0..=length - size), random.random_range(0..=length - size));
            match what {
                5 => bytes[to..to + size].fill(0),
                6 => bytes.copy_within(from..from + size, to),
                7 => {
                    let (one, two) = (before[to..to + size].to_vec(), before[from..from + size].to_vec());
                    bytes[to..to + size].copy_from_slice(&two);
                    bytes[from..from + size].copy_from_slice(&one);
                }
                _ if other.len() >= size => bytes[to..to + size].copy_from_slice(&other[..size]),
                _ => return None,
            }
            format!("{size} bytes at {to}, by way {what} from {from}")
        }
        9 => {
            bytes = other;
            "another file".to_owned()
        }
        _ => {
            storage.remove(path).unwrap();
            return Some("removed".to_owned());
        }
    };
    if bytes == before {
        return None;
    }
    storage.damage(path, |old| *old = bytes).unwrap();
    Some(description)
}

/// What came of a damage.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Told,
    Harmless,
    /// The end of a killed process' newest journal file was cut at the end of a batch: nothing says that there was more.
    CutBetweenBatches,
}

/// Rows of a table as they have to be, or an error that tells, or rows that are missing.
fn sound(database: &Database, table: usize, rows: &[Row], what: &str) -> Result<bool, String> {
    let message = |error: splay_store::Error| error.to_string();
    let snapshot = database.table(TABLES[table]).map_err(message)?.snapshot().map_err(message)?;
    let read = catch_unwind(AssertUnwindSafe(|| try_read(&snapshot))).unwrap_or_else(|_| panic!("{what}: a panic"));
    let mut stored_rows = read?;
    stored_rows.sort_by_key(|row| row.id);
    let sent_rows: BTreeMap<i64, &Row> = rows.iter().map(|row| (row.id, row)).collect();
    let ids: BTreeSet<i64> = stored_rows.iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), stored_rows.len(), "{what}: {} has rows twice", TABLES[table]);
    assert!(
        stored_rows.iter().all(|row| sent_rows.get(&row.id) == Some(&row)),
        "{what}: {} has a row that nobody sent",
        TABLES[table]
    );
    Ok(stored_rows.len() == rows.len())
}

fn try_read(snapshot: &splay_store::TableSnapshot) -> Result<Vec<Row>, String> {
    let message = |error: splay_store::Error| error.to_string();
    for piece in snapshot.select(&Selection::default()).map_err(message)?.0 {
        let columns: Vec<usize> = (0..snapshot.spec().columns.len()).collect();
        for batch in piece.segment.batches(snapshot.spec(), &columns, piece.rows.clone(), 100).map_err(message)? {
            batch.map_err(message)?;
        }
    }
    Ok(read(snapshot, &Selection::default()).into_iter().map(|(_, row)| row).collect())
}

/// Looks at all tables of a database: whether anything was told, and whether a row is missing.
fn look(database: &Database, base: &Base, what: &str) -> (bool, bool) {
    let (mut is_told, mut is_short) = (false, false);
    for (table, rows) in base.rows.iter().enumerate() {
        match sound(database, table, rows, what) {
            Ok(whole) => is_short |= !whole,
            Err(_) => is_told = true,
        }
    }
    (is_told, is_short)
}

fn outcome(storage: &FaultStorage, base: &Base, is_newest: bool, what: &str) -> Outcome {
    let Ok(database) = Database::open_on(Arc::new(storage.clone())) else { return Outcome::Told };
    follow(&database, FollowSettings::default());
    let (mut is_told, is_short) = look(&database, base, what);
    let may_be_short = base.is_killed && is_newest && !what.contains(", removed");
    assert!(is_told || !is_short || may_be_short, "{what}: who only reads misses rows, and nothing tells");
    for table in TABLES {
        let verified = database.table(table).and_then(|table| table.verify(&mut |_| ControlFlow::Continue(())));
        is_told |= verified.is_err() || verified.is_ok_and(|problems| !problems.is_empty());
    }
    drop(database);
    let Ok(database) = Database::open_on(Arc::new(storage.clone())) else { return Outcome::Told };
    let Ok((capture, recovered)) = Capture::open_with(database.clone(), small(), clock()) else { return Outcome::Told };
    let is_reported =
        !recovered.losses.is_empty() || recovered.torn.is_some() || !capture.status().journal_losses.is_empty();
    let (has_errors, is_short) = look(&database, base, what);
    assert!(has_errors || is_reported || !is_short || may_be_short, "{what}: a start misses rows, and nothing tells");
    let is_silent = is_short && !has_errors && !is_reported;
    // It goes on, if it is whole: what is written next is there beside what was.
    if !has_errors
        && capture
            .append(Append { spec: Some(spec("UTC")), ..Append::new("trade", batch(&[row("A", START, 1_000_000)])) })
            .is_ok()
    {
        drop(capture.write_down(None));
    }
    drop(capture.close());
    match (is_told || has_errors || is_reported, is_silent) {
        (_, true) => Outcome::CutBetweenBatches,
        (true, _) => Outcome::Told,
        _ => Outcome::Harmless,
    }
}

#[test]
fn any_damage_is_told_or_makes_no_difference() {
    let (first, count) = (set("SPLAY_DAMAGE_SEED", 1), set("SPLAY_DAMAGES", 600));
    let bases = [base(false), base(true)];
    let mut counts: BTreeMap<(String, Outcome), u64> = BTreeMap::new();
    for number in first..first + count {
        let mut random = ChaCha8Rng::seed_from_u64(number);
        let base = &bases[random.random_range(0..2)];
        let storage = base.storage.copy();
        let paths: Vec<String> = storage.paths().into_iter().filter(|path| !path.ends_with("lock")).collect();
        let kinds: BTreeSet<&str> = paths.iter().map(|path| kind(path)).collect();
        let damaged_kind = *kinds.iter().nth(random.random_range(0..kinds.len())).unwrap();
        let of_kind: Vec<&String> = paths.iter().filter(|path| kind(path) == damaged_kind).collect();
        let path = of_kind[random.random_range(0..of_kind.len())];
        let is_newest = damaged_kind == "jnl" && of_kind.last() == Some(&path);
        let Some(done) = damage(&storage, path, &paths, &mut random) else { continue };
        let what = format!("damage {number}: {path}, {done}, killed {}", base.is_killed);
        let outcome =
            catch_unwind(AssertUnwindSafe(|| outcome(&storage, base, is_newest, &what))).unwrap_or_else(|panic| {
                eprintln!("{what}");
                std::panic::resume_unwind(panic)
            });
        *counts.entry((damaged_kind.to_owned(), outcome)).or_default() += 1;
    }
    println!("{counts:?}");
}
