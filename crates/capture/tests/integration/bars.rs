//! Live bars are those of a plain loop over the same rows, however late these come.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{
    Append, Bars, BarsRequest, Capture, Error, Pace, Replay, ReplayRequest, ReplaySpeed, ReplayView, SlowPolicy,
    StoredBarRows, SubscribeRequest, Subscriber, SubscriptionStart, Update, UpdateKind,
};
use splay_store::{ColumnSpec, ColumnType, Database, Dates, TableSpec};

use crate::rows::{DAY, SECOND, START, TestClock, settings};

const LATE: i64 = 10 * SECOND;

#[derive(Debug, Clone)]
struct Trade {
    symbol: Option<&'static str>,
    time: i64,
    price: Option<f64>,
    size: Option<i64>,
}

/// open, high, low, close, volume, vwap, count.
type Plain = ([Option<f64>; 4], Option<i64>, Option<f64>, u64);
type Key = (Option<String>, i64);

fn spec(zone: &str) -> TableSpec {
    let columns = vec![
        ColumnSpec::new("ts", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("price", ColumnType::Float64),
        ColumnSpec::new("size", ColumnType::Int64),
        ColumnSpec::new("note", ColumnType::Int64),
    ];
    TableSpec::new("trade", columns, "ts", Some("sym")).with_time_zone(zone)
}

fn batch(trades: &[Trade]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        (
            "ts",
            Arc::new(TimestampNanosecondArray::from_iter_values(trades.iter().map(|t| t.time)).with_timezone("UTC"))
                as Arc<dyn Array>,
            false,
        ),
        ("sym", Arc::new(trades.iter().map(|t| t.symbol).collect::<DictionaryArray<Int32Type>>()), true),
        ("price", Arc::new(trades.iter().map(|t| t.price).collect::<Float64Array>()), true),
        ("size", Arc::new(trades.iter().map(|t| t.size).collect::<Int64Array>()), true),
    ])
    .unwrap()
}

fn send(capture: &Capture, zone: &str, trades: &[Trade]) {
    capture.append(Append { spec: Some(spec(zone)), ..Append::new("trade", batch(trades)) }).unwrap();
}

/// Bars by a plain loop over the rows in order of time, then of arrival.
fn plain(trades: &[Trade], every: i64) -> BTreeMap<Key, Plain> {
    let mut groups: BTreeMap<Key, Vec<&Trade>> = BTreeMap::new();
    for trade in trades {
        let bucket = trade.time.div_euclid(every) * every;
        groups.entry((trade.symbol.map(str::to_owned), bucket)).or_default().push(trade);
    }
    let bar = |mut trades: Vec<&Trade>| -> Plain {
        trades.sort_by_key(|trade| trade.time);
        let prices = || trades.iter().filter_map(|trade| trade.price);
        let sizes = || trades.iter().filter_map(|trade| trade.size);
        let pairs = || trades.iter().filter_map(|trade| Some((trade.price?, trade.size? as f64)));
        let weight: f64 = pairs().map(|(_, size)| size).sum();
        let turnover: f64 = pairs().map(|(price, size)| price * size).sum();
        let vwap = (weight != 0.0).then(|| turnover / weight);
        let (high, low) = (prices().max_by(f64::total_cmp), prices().min_by(f64::total_cmp));
        let volume = sizes().next().map(|_| sizes().sum());
        ([trades[0].price, high, low, trades[trades.len() - 1].price], volume, vwap, trades.len() as u64)
    };
    groups.into_iter().map(|(key, trades)| (key, bar(trades))).collect()
}

/// What a subscriber of bars has, by the updates that it was given.
#[derive(Default)]
struct Seen {
    bars: BTreeMap<Key, Plain>,
    finals: HashSet<Key>,
    updates: usize,
}

impl Seen {
    fn take(&mut self, update: &Update) {
        if matches!(update.kind, UpdateKind::Snapshot { first: true, .. }) {
            (self.bars, self.finals) = Default::default();
        }
        self.updates += 1;
        let rows = &update.rows;
        let column = |name: &str| rows.column_by_name(name).unwrap_or_else(|| panic!("no {name}"));
        let symbols = column("sym").as_dictionary::<Int32Type>();
        let texts = symbols.values().as_string::<i32>();
        let mut keys = HashSet::new();
        for row in 0..rows.num_rows() {
            let float = |name: &str| {
                let values = column(name).as_primitive::<Float64Type>();
                values.is_valid(row).then(|| values.value(row))
            };
            let symbol = symbols.is_valid(row).then(|| texts.value(symbols.keys().value(row) as usize).to_owned());
            let key = (symbol, column("ts").as_primitive::<TimestampNanosecondType>().value(row));
            assert!(keys.insert(key.clone()), "a bar twice in one update");
            let volumes = column("volume").as_primitive::<Int64Type>();
            let bar = (
                [float("open"), float("high"), float("low"), float("close")],
                volumes.is_valid(row).then(|| volumes.value(row)),
                float("vwap"),
                column("count").as_primitive::<UInt64Type>().value(row),
            );
            if column("final").as_boolean().value(row) {
                self.finals.insert(key.clone());
            } else {
                assert!(!self.finals.contains(&key), "{key:?} was final");
            }
            let before = self.bars.insert(key.clone(), bar);
            let again = before.is_some_and(|before| format!("{before:?}") == format!("{bar:?}"));
            assert!(!again || self.finals.contains(&key), "{key:?} didn't change");
        }
    }
}

fn is_close(one: &Plain, other: &Plain) -> bool {
    let near = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => {
            (one - other).abs() <= 1e-9 * one.abs().max(1.0) || (one.is_nan() && other.is_nan())
        }
        (one, other) => one == other,
    };
    let same = |one: Option<f64>, other: Option<f64>| one.map(f64::to_bits) == other.map(f64::to_bits);
    (0..4).all(|at| same(one.0[at], other.0[at])) && one.1 == other.1 && near(one.2, other.2) && one.3 == other.3
}

fn request(every: i64) -> BarsRequest {
    BarsRequest { every_ns: every, price: "price".to_owned(), size: Some("SIZE".to_owned()), late_ns: LATE }
}

struct Following {
    subscriber: Subscriber,
    bars: Bars,
    seen: Seen,
}

impl Following {
    fn new(capture: &Capture, every: i64, from: SubscriptionStart, slow: SlowPolicy) -> Following {
        let spec = capture.spec("trade").unwrap().unwrap();
        let columns = Some(request(every).columns(&spec));
        let tells = from == SubscriptionStart::Snapshot;
        let request_rows = SubscribeRequest {
            columns,
            from: SubscriptionStart::Snapshot,
            queue_bytes_max: 1,
            slow,
            ..SubscribeRequest::new("trade")
        };
        let rows = StoredBarRows::new(capture.database().clone(), "trade");
        let bars = Bars::new(&spec, request(every), Some(Box::new(rows)), tells).unwrap();
        Following { subscriber: capture.subscribe(request_rows).unwrap(), bars, seen: Seen::default() }
    }

    /// Takes what waits.
    fn go_on(&mut self) {
        while let Some(update) = self.subscriber.next(Duration::ZERO).unwrap() {
            for update in self.bars.take(&update, 0).unwrap() {
                self.seen.take(&update);
            }
        }
    }
}

#[test]
fn bars_are_those_of_a_plain_loop() {
    let histories: u64 = std::env::var("SPLAY_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for seed in 0..histories {
        history(seed);
    }
}

fn history(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let zone = ["UTC", "America/New_York", "Asia/Kolkata"][random.random_range(0..3)];
    let every = [SECOND, 60 * SECOND, 3_600 * SECOND, 7 * 3_600 * SECOND, DAY][random.random_range(0..5)];
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_or_create(folder.path()).unwrap();
    let (capture, _) = Capture::open_with(database, settings(), TestClock::at(START + 400 * DAY)).unwrap();
    let mut trades: Vec<Trade> = Vec::new();
    let mut followers: Vec<(Following, usize, SubscriptionStart, SlowPolicy)> = Vec::new();
    let mut now = START + random.random_range(0..DAY);
    for _ in 0..random.random_range(5..40) {
        let first = trades.len();
        let spread = [1, SECOND, 30 * SECOND, 2 * 3_600 * SECOND, 3 * DAY][random.random_range(0..5)];
        for _ in 0..[1, 1, 3, 40, 300][random.random_range(0..5)] {
            let symbol = [Some("A"), Some("B"), None, Some("LONGER")][random.random_range(0..4)];
            // Coarse, so that there are ties.
            let time = (now - random.random_range(0..spread)) / 1_000 * 1_000;
            let price = [None, Some(f64::NAN)]
                .into_iter()
                .chain((1..40).map(|price| Some(f64::from(price) / 4.0)))
                .nth(random.random_range(0..41))
                .unwrap();
            let size = (random.random_range(0..10) > 0).then(|| random.random_range(-2..50));
            trades.push(Trade { symbol, time, price, size });
        }
        now += [SECOND, 40 * SECOND, 3_600 * SECOND, DAY / 3][random.random_range(0..4)];
        send(&capture, zone, &trades[first..]);
        match random.random_range(0..6) {
            0 => drop(capture.write_down(None).unwrap()),
            1 if followers.len() < 4 => {
                let from = [SubscriptionStart::Snapshot, SubscriptionStart::Snapshot, SubscriptionStart::Now]
                    [random.random_range(0..3)];
                let slow = [SlowPolicy::Snapshot, SlowPolicy::CatchUp][random.random_range(0..2)];
                followers.push((Following::new(&capture, every, from, slow), trades.len(), from, slow));
            }
            _ => {}
        }
        for (follower, ..) in &mut followers {
            if random.random_range(0..3) > 0 {
                follower.go_on();
            }
        }
    }
    let expected = plain(&trades, every);
    for (follower, began, from, slow) in &mut followers {
        follower.go_on();
        let seen = &follower.seen.bars;
        for (key, bar) in seen {
            let right = &expected[key];
            assert!(is_close(bar, right), "seed {seed}, {key:?}: {bar:?}, not {right:?}");
        }
        if *slow == SlowPolicy::Snapshot {
            // What was dropped may be of other dates than the snapshot that came instead.
            continue;
        }
        // All that changed since was told, and with a snapshot all of the newest date then.
        let mut dates = Dates::new(zone.parse().unwrap());
        let newest = trades[..*began].iter().map(|trade| dates.of(trade.time)).max();
        for (number, trade) in trades.iter().enumerate() {
            let is_due =
                number >= *began || (*from == SubscriptionStart::Snapshot && Some(dates.of(trade.time)) == newest);
            let key = (trade.symbol.map(str::to_owned), trade.time.div_euclid(every) * every);
            assert!(!is_due || seen.contains_key(&key), "seed {seed}: {key:?} is missing");
        }
    }
    capture.close().unwrap();
}

fn trade(symbol: &'static str, time: i64, price: f64, size: i64) -> Trade {
    Trade { symbol: Some(symbol), time, price: Some(price), size: Some(size) }
}

#[test]
fn only_bars_that_changed_are_told_and_final_ones_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_or_create(folder.path()).unwrap();
    let (capture, _) = Capture::open_with(database, settings(), TestClock::at(START + DAY)).unwrap();
    let minute = 60 * SECOND;
    send(&capture, "UTC", &[trade("A", START, 1.0, 1), trade("B", START + 1, 2.0, 1)]);
    let mut following = Following::new(&capture, minute, SubscriptionStart::Snapshot, SlowPolicy::CatchUp);
    following.go_on();
    let key = |symbol: &str, bucket: i64| (Some(symbol.to_owned()), START + bucket * minute);
    assert_eq!(following.seen.bars.len(), 2);
    following.seen = Seen::default();
    send(&capture, "UTC", &[trade("A", START + minute, 3.0, 1)]);
    following.go_on();
    assert_eq!(following.seen.bars.keys().cloned().collect::<Vec<_>>(), [key("A", 1)], "rows may be 10 s late");
    // Ten seconds behind the end of the first minute: both its bars are final, though one symbol was silent.
    following.seen = Seen::default();
    send(&capture, "UTC", &[trade("A", START + minute + LATE, 3.5, 1)]);
    following.go_on();
    let (seen, finals) = (&following.seen.bars, &following.seen.finals);
    assert_eq!(seen.keys().cloned().collect::<Vec<_>>(), [key("A", 0), key("A", 1), key("B", 0)]);
    assert_eq!(*finals, HashSet::from([key("A", 0), key("B", 0)]));
    // A row that is later still amends the final bar, of which all rows count.
    following.seen = Seen::default();
    send(&capture, "UTC", &[trade("B", START, 9.0, 3)]);
    following.go_on();
    assert_eq!(following.seen.bars.keys().cloned().collect::<Vec<_>>(), [key("B", 0)]);
    let bar = following.seen.bars[&key("B", 0)];
    assert_eq!(bar, ([Some(9.0), Some(9.0), Some(2.0), Some(2.0)], Some(4), Some(29.0 / 4.0), 2));
    assert!(following.seen.finals.contains(&key("B", 0)));
    capture.close().unwrap();
}

#[test]
fn bars_become_final_by_the_clock_once_nothing_comes() {
    let table = spec("UTC");
    let mut bars = Bars::new(&table, request(60 * SECOND), None, true).unwrap();
    let update = |sequence, time| Update {
        table: Arc::from("trade"),
        sequence,
        kind: UpdateKind::Delta,
        rows: batch(&[trade("A", time, 1.0, 1)]),
    };
    let now = START + 30 * SECOND;
    assert_eq!(bars.take(&update(1, START), now).unwrap().len(), 1);
    assert!(bars.idle(1, now + LATE).is_empty(), "its minute isn't over");
    assert_eq!(bars.take(&update(2, START + 50 * SECOND), START + 65 * SECOND).unwrap().len(), 1);
    assert!(bars.idle(2, START + 70 * SECOND).is_empty(), "something came five seconds ago");
    let updates = bars.idle(2, START + 75 * SECOND);
    let mut seen = Seen::default();
    updates.iter().for_each(|update| seen.take(update));
    assert_eq!((seen.finals.len(), updates[0].sequence), (1, 2));
    assert!(bars.idle(2, START + 90 * SECOND).is_empty(), "once");
}

#[test]
fn bars_of_a_replay_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_or_create(folder.path()).unwrap();
    let (capture, _) = Capture::open_with(database, settings(), TestClock::at(START + DAY)).unwrap();
    let trades: Vec<Trade> =
        (0..500).map(|i| trade(["A", "B"][i as usize % 2], START + i * SECOND, (i % 7) as f64, i)).collect();
    send(&capture, "UTC", &trades);
    let replay_request =
        ReplayRequest { speed: ReplaySpeed::Max, ..ReplayRequest::new(vec!["trade".to_owned()], "2024-03-10") };
    let columns = Some(request(60 * SECOND).columns(&spec("UTC")));
    let view = ReplayView { tables: None, symbols: None, columns, from: SubscriptionStart::Snapshot };
    let pace = Pace::new(TestClock::at(0));
    let mut replay = Replay::begin(capture.database(), &replay_request, &view, pace).unwrap();
    let mut bars = Bars::new(&spec("UTC"), request(60 * SECOND), None, true).unwrap();
    let (mut seen, mut updates) = (Seen::default(), VecDeque::new());
    loop {
        let Some(update) = replay.next(Duration::ZERO).unwrap() else { continue };
        updates.extend(bars.take(&update, 0).unwrap());
        if update.kind == UpdateKind::End {
            break;
        }
    }
    assert_eq!(updates.back().map(|update| update.kind), Some(UpdateKind::End));
    updates.iter().for_each(|update| seen.take(update));
    let expected = plain(&trades, 60 * SECOND);
    assert_eq!(seen.bars.len(), expected.len());
    assert!(seen.bars.iter().all(|(key, bar)| is_close(bar, &expected[key])));
    assert_eq!(seen.finals.len(), expected.len(), "all are final");
    capture.close().unwrap();
}

#[test]
fn what_bars_cannot_be_made_of_is_refused() {
    let table = spec("UTC");
    let good = request(SECOND);
    for bad in [
        BarsRequest { every_ns: 0, ..good.clone() },
        BarsRequest { every_ns: DAY + 1, ..good.clone() },
        BarsRequest { late_ns: -1, ..good.clone() },
        BarsRequest { price: "nothing".to_owned(), ..good.clone() },
        BarsRequest { price: "sym".to_owned(), ..good.clone() },
        BarsRequest { size: Some("ts".to_owned()), ..good.clone() },
    ] {
        assert!(matches!(Bars::new(&table, bad.clone(), None, true), Err(Error::Rejected { .. })), "{bad:?}");
    }
    assert_eq!(BarsRequest { size: Some("price".to_owned()), ..good }.columns(&table), ["ts", "sym", "price"]);
}
