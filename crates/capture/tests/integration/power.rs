//! Any history of batches, write-downs, rolls, compactions, backups, starts and power cuts, the cuts one after the other: what was acknowledged as
//! `disk`, and what a start has found, is there, once, with its values; other batches are there as a whole or not at all; what was gone stays gone.
//!
//! A storage that notes writes and syncs gives what a cut may leave: of all that wasn't synced any part, in any order. `SPLAY_POWER_HISTORIES` says how
//! many histories are tried, `SPLAY_POWER_SEED` with which they begin, `SPLAY_POWER_IMAGES` how many images of each cut.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{
    AckClass, Append, Capture, CaptureSettings, FollowSettings, LossKind, Producer, Result, back_up, follow,
};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Backup, CompactOptions, Database, Selection, Settings, TableSpec};

use crate::rows::{DAY, Row, SECOND, START, TestClock, batch, read, row, settings, spec};

const TABLES: [&str; 2] = ["trade", "quote"];

/// Rows of a batch begin at this many times its number.
const ROWS_MAX: i64 = 8;

/// Power cuts of a history.
const CUTS: u64 = 4;

/// What is known of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It was sent: it is there as a whole or not at all.
    Sent,
    /// The same, and it is in the journal before all that is sent later.
    Written,
    /// It is there whatever comes.
    Durable,
    /// It was not there after a start, and nobody sends it again.
    Gone,
}

#[derive(Debug, Clone)]
struct Sent {
    table: usize,
    rows: Vec<Row>,
    /// Producer and number, of batches that are sent again until they are acknowledged as `disk`.
    producer: Option<(usize, u64)>,
    fate: Fate,
}

/// All that was sent.
#[derive(Debug, Clone, Default)]
struct Model {
    batches: Vec<Sent>,
    numbers: [u64; 2],
}

struct History {
    random: ChaCha8Rng,
    settings: CaptureSettings,
    clock: Arc<TestClock>,
    what: String,
}

fn set(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn any_history_with_power_cuts_keeps_what_was_acknowledged() {
    let (first, images) = (set("SPLAY_POWER_SEED", 1), set("SPLAY_POWER_IMAGES", 4));
    let mut tried = 0;
    for seed in first..first + set("SPLAY_POWER_HISTORIES", 40) {
        tried += History::new(seed).run(images);
    }
    println!("{tried} images of power cuts");
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let settings = CaptureSettings {
            late_s: random.random_range(0..3),
            journal_segment_bytes: 1 << random.random_range(8..13),
            journal_keep_bytes: [0, 2_000][random.random_range(0..2)],
            // Nothing is synced but what asks for it, in half of the histories.
            sync_interval_ms: [1_000, 1 << 40][random.random_range(0..2)],
            future_s: 100 * 86_400,
            ..settings()
        };
        History { random, settings, clock: TestClock::at(START + DAY / 2), what: format!("seed {seed}") }
    }

    /// Gives the number of images.
    fn run(&mut self, images: u64) -> u64 {
        let mut storage = FaultStorage::new();
        Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
        let mut model = Model::default();
        let (mut capture, mut tried) = (Some(self.open(&storage).unwrap().1), 0);
        let seed = self.what.clone();
        for cut in 0..CUTS {
            storage.stop_after(Some(self.random.random_range(0..150)));
            self.live(&storage, &mut model, capture.take());
            storage.stop_after(None);
            for image in 0..images {
                self.what = format!("{seed}, cut {cut}, image {image}");
                let crash_image = self.image(&storage, image);
                let mut after = model.clone();
                let opened = self.check(&crash_image, &mut after);
                tried += 1;
                if image + 1 < images {
                    self.send_again(&opened, &mut after);
                    self.compare(opened.database(), &mut after, false);
                    opened.close().unwrap_or_else(|error| panic!("{}: {error}", self.what));
                } else {
                    (storage, model, capture) = (crash_image, after, Some(opened));
                    break;
                }
            }
        }
        tried
    }

    fn open(&self, storage: &FaultStorage) -> Result<(splay_capture::RecoveryStatus, Capture)> {
        let database = Database::open_on(Arc::new(storage.clone()))?;
        let clock = Arc::clone(&self.clock);
        let (capture, recovered) = Capture::open_with(database, self.settings.clone(), clock)?;
        Ok((recovered, capture))
    }

    /// What a cut leaves, now and then of a start that was cut as well.
    fn image(&mut self, storage: &FaultStorage, image: u64) -> FaultStorage {
        let mut crash_image = self.crash(storage, image);
        while self.random.random_range(0..5) == 0 {
            crash_image.stop_after(Some(self.random.random_range(0..25)));
            drop(self.open(&crash_image));
            crash_image.stop_after(None);
            crash_image = self.crash(&crash_image, image);
        }
        crash_image
    }

    fn crash(&mut self, storage: &FaultStorage, image: u64) -> FaultStorage {
        let leaning = [0.5, 0.05, 0.95, 0.3][self.random.random_range(0..4)];
        let kind = if image < 2 { self.random.random_range(0..4) } else { 2 };
        storage.crash(&mut |bound| match kind {
            0 => 0,
            1 => bound - 1,
            _ if bound == 2 => usize::from(self.random.random_bool(leaning)),
            _ => self.random.random_range(0..bound),
        })
    }

    /// Does this and that until the power is cut, or a while. Then nothing reaches the storage any more.
    fn live(&mut self, storage: &FaultStorage, model: &mut Model, capture: Option<Capture>) {
        let mut capture = capture;
        if let Some(running) = &capture {
            // What a producer sends later isn't taken before what it sent first.
            drop(self.try_again(running, model));
        }
        for _ in 0..self.random.random_range(5..60) {
            let Some(running) = &capture else {
                match self.open(storage) {
                    Ok((_, opened)) => capture = Some(opened),
                    Err(_) => break,
                }
                continue;
            };
            let is_done = match self.random.random_range(0..24) {
                0 => running.write_down(None).is_ok(),
                1 => running.roll(Some(START + self.random.random_range(0..4) * DAY)).is_ok(),
                2 => compact(storage, self.random.random_range(0..TABLES.len())).is_ok(),
                3 => self.back_up(running, model).is_ok(),
                4 => {
                    let closed = running.close();
                    capture = None;
                    closed.is_ok()
                }
                5 => {
                    self.clock.0.fetch_add(self.random.random_range(0..DAY / 4), Ordering::SeqCst);
                    true
                }
                _ => self.send(running, model).is_ok(),
            };
            if !is_done {
                break;
            }
        }
        storage.stop_after(Some(0));
        if let Some(running) = capture {
            drop(running.close());
        }
    }

    fn send(&mut self, capture: &Capture, model: &mut Model) -> Result<()> {
        let number = model.batches.len() as i64;
        let now = self.clock.0.fetch_add(self.random.random_range(0..3 * SECOND), Ordering::SeqCst);
        let spread = [1, SECOND, 60 * SECOND, 2 * DAY][self.random.random_range(0..4)];
        let rows: Vec<Row> = (0..self.random.random_range(1..=ROWS_MAX))
            .map(|at| {
                let symbol = ["A", "B", "", "LONG"][self.random.random_range(0..4)];
                row(symbol, now - self.random.random_range(0..spread), number * ROWS_MAX + at)
            })
            .collect();
        let producer = self.random.random_bool(0.5).then(|| {
            let name = self.random.random_range(0..2);
            model.numbers[name] += 1;
            (name, model.numbers[name])
        });
        let table = self.random.random_range(0..TABLES.len());
        let mut classes = [AckClass::Disk, AckClass::Process, AckClass::Memory].into_iter();
        let class =
            if producer.is_some() { AckClass::Disk } else { classes.nth(self.random.random_range(0..3)).unwrap() };
        model.batches.push(Sent { table, rows, producer, fate: Fate::Sent });
        let place = model.batches.len() - 1;
        let result = append(capture, &model.batches[place], class);
        if result.is_ok() {
            acknowledged(model, place, class);
        }
        result.map(drop)
    }

    /// A backup has all batches that were in the journal before it, each once.
    fn back_up(&self, capture: &Capture, model: &Model) -> Result<()> {
        let (at, to) = (FaultStorage::new(), FaultStorage::new());
        back_up(capture.database(), Arc::new(at.clone()))?;
        let backup = Backup::read(&at).unwrap().unwrap();
        backup.restore(&at, &to).unwrap();
        let mut promised = model.clone();
        for batch in &mut promised.batches {
            if batch.fate == Fate::Written {
                batch.fate = Fate::Durable;
            }
        }
        let restored = self.check(&to, &mut promised);
        restored.close().unwrap();
        Ok(())
    }

    /// Starts on what is left, compares it with what was sent, and notes what is there and what isn't.
    fn check(&self, crash_image: &FaultStorage, model: &mut Model) -> Capture {
        let what = &self.what;
        let beside = read_beside(crash_image, what);
        let (recovered, capture) = self.open(crash_image).unwrap_or_else(|error| panic!("{what}: {error}"));
        // Whole batches may stand behind a broken one that was on its way to the disk; nothing else is told of.
        let is_false = |loss: &splay_capture::JournalLoss| loss.kind != LossKind::Torn;
        assert!(!recovered.losses.iter().any(is_false), "{what}: {:?}", recovered.losses);
        let stored_rows = self.compare(capture.database(), model, true);
        assert!(beside.is_none_or(|beside| beside == stored_rows), "{what}: who only reads saw others");
        capture
    }

    /// Compares what is there with what was sent; with `note`, what became of batches is known from now on.
    fn compare(&self, database: &Database, model: &mut Model, note: bool) -> BTreeMap<i64, (usize, Row)> {
        let (what, stored_rows) = (&self.what, rows_of(database, &self.what));
        let mut whole = 0;
        for (number, sent) in model.batches.iter_mut().enumerate() {
            let there =
                sent.rows.iter().filter(|row| stored_rows.get(&row.id) == Some(&(sent.table, (*row).clone()))).count();
            assert!(there == 0 || there == sent.rows.len(), "{what}: a part of batch {number}: {there} of {sent:?}");
            assert!(there > 0 || sent.fate != Fate::Durable, "{what}: batch {number} is lost: {sent:?}");
            assert!(there == 0 || sent.fate != Fate::Gone, "{what}: batch {number} is there again: {sent:?}");
            whole += there;
            if note {
                sent.fate = match (there > 0, sent.producer) {
                    (true, _) => Fate::Durable,
                    (false, Some(_)) => Fate::Sent,
                    (false, None) => Fate::Gone,
                };
            }
        }
        assert_eq!(whole, stored_rows.len(), "{what}: a row that nobody sent, or with other values");
        stored_rows
    }

    /// Producers go on where their last acknowledgement left them.
    fn send_again(&self, capture: &Capture, model: &mut Model) {
        self.try_again(capture, model).unwrap_or_else(|error| panic!("{}, again: {error}", self.what));
    }

    fn try_again(&self, capture: &Capture, model: &mut Model) -> Result<()> {
        for place in 0..model.batches.len() {
            if model.batches[place].producer.is_some() && model.batches[place].fate == Fate::Sent {
                let ack = append(capture, &model.batches[place], AckClass::Disk)?;
                assert!(!ack.duplicate, "{}: batch {place} isn't there and is taken for a repeat", self.what);
                acknowledged(model, place, AckClass::Disk);
            }
        }
        Ok(())
    }
}

fn append(capture: &Capture, sent: &Sent, class: AckClass) -> Result<splay_capture::Ack> {
    let name = TABLES[sent.table].to_owned();
    let producer = sent.producer.map(|(name, sequence)| Producer::new(format!("p{name}"), sequence));
    let spec = Some(TableSpec { name: name.clone(), ..spec("UTC") });
    capture.append(Append { spec, producer, ack: Some(class), ..Append::new(name, batch(&sent.rows)) })
}

/// What stands in the journal before what is on disk is on disk.
fn acknowledged(model: &mut Model, place: usize, class: AckClass) {
    match class {
        AckClass::Memory => {}
        AckClass::Process => model.batches[place].fate = Fate::Written,
        _ => {
            model.batches[place].fate = Fate::Durable;
            model
                .batches
                .iter_mut()
                .filter(|sent| sent.fate == Fate::Written)
                .for_each(|sent| sent.fate = Fate::Durable);
        }
    }
}

fn compact(storage: &FaultStorage, table: usize) -> splay_store::Result<()> {
    match Database::open_on(Arc::new(storage.clone()))?.table(TABLES[table]) {
        Ok(table) => table.compact(&CompactOptions::default(), &mut |_| ControlFlow::Continue(())).map(drop),
        Err(splay_store::Error::NoSuchTable { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Rows of all tables, by their numbers.
fn rows_of(database: &Database, what: &str) -> BTreeMap<i64, (usize, Row)> {
    try_rows_of(database).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn try_rows_of(database: &Database) -> splay_store::Result<BTreeMap<i64, (usize, Row)>> {
    let mut rows = BTreeMap::new();
    for (place, table) in TABLES.iter().enumerate() {
        let table = match database.table(table) {
            Err(splay_store::Error::NoSuchTable { .. }) => continue,
            table => table?,
        };
        for (_, row) in read(&table.snapshot()?, &Selection::default()) {
            let twice = rows.insert(row.id, (place, row));
            assert!(twice.is_none(), "twice: {twice:?}");
        }
    }
    Ok(rows)
}

/// What a process sees that only reads; nothing if whole frames stand behind a broken one, which it doesn't pass over before a start has.
fn read_beside(storage: &FaultStorage, what: &str) -> Option<BTreeMap<i64, (usize, Row)>> {
    let database = Database::open_on(Arc::new(storage.clone())).unwrap_or_else(|error| panic!("{what}: {error}"));
    follow(&database, FollowSettings::default());
    match try_rows_of(&database) {
        Ok(rows) => Some(rows),
        Err(error) if error.to_string().contains("as others stand behind it") => None,
        Err(error) => panic!("{what}: {error}"),
    }
}
