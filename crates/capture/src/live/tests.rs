//! Layers while rows come in, are read, joined and written down at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, AsArray, DictionaryArray, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampNanosecondType};
use proptest::prelude::*;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Selection, Settings, TableSpec};

use super::LiveTable;
use crate::append::{AckClass, Append};
use crate::capture::Capture;
use crate::settings::CaptureSettings;

const SECOND: i64 = 1_000_000_000;
const START: i64 = (20_000 * 86_400 + 43_200) * SECOND;

/// Rows with these times and numbers from `first` on; the symbol goes by the number.
fn rows(times: &[i64], first: i64) -> RecordBatch {
    let ids: Vec<i64> = (first..).take(times.len()).collect();
    let symbols: DictionaryArray<Int32Type> = ids.iter().map(|id| ["A", "B", "C"][*id as usize % 3]).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("time", Arc::new(TimestampNanosecondArray::from(times.to_vec()).with_timezone("UTC"))),
        ("symbol", Arc::new(symbols)),
        ("id", Arc::new(Int64Array::from(ids))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn capture() -> Capture {
    let database = Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap();
    let settings = CaptureSettings {
        automatic: false,
        default_ack: AckClass::Process,
        late_s: 1,
        future_s: 1 << 32,
        ..CaptureSettings::default()
    };
    let capture = Capture::open(database, settings).unwrap().0;
    // The tests say when layers are joined.
    capture.shared.layer_compaction.stop();
    capture
}

/// Symbol, time and number of each row, as readers get them.
fn read(database: &Database) -> Vec<(String, i64, i64)> {
    let snapshot = database.table("t").unwrap().snapshot().unwrap();
    let spec: &TableSpec = snapshot.spec();
    let (pieces, _) = snapshot.select(&Selection::default()).unwrap();
    let mut all_rows = Vec::new();
    for piece in pieces {
        let rows = piece.segment.read(spec, &[0, 1, 2], piece.rows.clone()).unwrap();
        let symbols = rows.column(1).as_dictionary::<Int32Type>();
        let texts = symbols.values().as_string::<i32>();
        let times = rows.column(0).as_primitive::<TimestampNanosecondType>().values();
        let ids = rows.column(2).as_primitive::<Int64Type>().values();
        for row in 0..rows.num_rows() {
            all_rows.push((texts.value(symbols.keys().value(row) as usize).to_owned(), times[row], ids[row]));
        }
    }
    // Within each symbol the order is the table's; symbols follow each other segment by segment.
    all_rows.sort_by(|one, other| one.0.cmp(&other.0));
    all_rows
}

fn ordered(mut rows: Vec<(String, i64, i64)>) -> Vec<(String, i64, i64)> {
    rows.sort_by(|one, other| (&one.0, one.1, one.2).cmp(&(&other.0, other.1, other.2)));
    rows
}

fn layers(live: &LiveTable) -> Vec<u64> {
    live.states().current.layers.values().flatten().map(|layer| layer.rows()).collect()
}

#[test]
fn readers_join_small_layers_and_leave_large_ones() {
    let capture = capture();
    let mut id = 0;
    let mut add = |count: i64| {
        let times: Vec<i64> = (id..id + count).map(|at| START + at).collect();
        capture.append(Append::new("t", rows(&times, id))).unwrap();
        id += count;
        let live = capture.live("t").unwrap().unwrap();
        live.organise().unwrap();
        live
    };
    for _ in 0..7 {
        add(100);
    }
    assert_eq!(layers(&add(100)), [800], "eight of a size, joined by who adds the last");
    for _ in 0..6 {
        add(1_000);
    }
    let live = add(1_000);
    assert_eq!(layers(&live), [800, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000], "more than a reader joins");
    assert!(live.join_layers().unwrap());
    assert_eq!(layers(&live), [7_800]);
    assert!(!live.join_layers().unwrap(), "nothing else to join");
    assert_eq!(read(capture.database()).len(), 7_800);
}

#[test]
fn layers_that_late_rows_changed_stay_as_they_are() {
    let capture = capture();
    for step in 0..8 {
        let times: Vec<i64> = (0..1_000).map(|at| START + step * SECOND + at).collect();
        capture.append(Append::new("t", rows(&times, step * 1_000))).unwrap();
        capture.live("t").unwrap().unwrap().organise().unwrap();
    }
    let live = capture.live("t").unwrap().unwrap();
    let before = Arc::clone(&live.states().current.layers);
    let (date, parts) = super::layers::alike(&before).unwrap();
    let joined = super::layers::joined(&live.spec(), date, &parts).unwrap();
    // Belongs before all others of its symbol.
    capture.append(Append::new("t", rows(&[START - SECOND], 8_000))).unwrap();
    live.organise().unwrap();
    let after = Arc::clone(&live.states().current.layers);
    assert!(super::layers::replaced(&after, date, &parts, joined.as_ref()).is_none());
    assert!(super::layers::replaced(&before, date, &parts, joined.as_ref()).is_some());
    assert_eq!(read(capture.database()).len(), 8_001);
}

/// What happens to a table next.
#[derive(Debug, Clone)]
enum Step {
    /// So many rows that are late by up to so much.
    Append(usize, i64),
    Read,
    Join,
    Begin,
    Commit,
    GiveUp,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (prop::sample::select(vec![1_usize, 40, 700, 3_000]), prop::sample::select(vec![1, SECOND, 5 * SECOND]))
            .prop_map(|(count, late)| Step::Append(count, late)),
        4 => Just(Step::Read),
        3 => Just(Step::Join),
        1 => Just(Step::Begin),
        1 => Just(Step::Commit),
        1 => Just(Step::GiveUp),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn any_steps_leave_each_row_once_and_in_order(steps in steps()) {
        let capture = capture();
        let (mut expected, mut now, mut down) = (Vec::new(), START, None);
        capture.append(Append::new("t", rows(&[START], 0))).unwrap();
        expected.push(("A".to_owned(), START, 0));
        let live = capture.live("t").unwrap().unwrap();
        for step in steps {
            match step {
                Step::Append(count, late) => {
                    let first = expected.len() as i64;
                    let times: Vec<i64> =
                        (0..count as i64).map(|at| now + at - at * 7_919 % late).collect();
                    now += SECOND / 2;
                    capture.append(Append::new("t", rows(&times, first))).unwrap();
                    for (id, time) in (first..).zip(times) {
                        expected.push((["A", "B", "C"][id as usize % 3].to_owned(), time, id));
                    }
                }
                Step::Read => prop_assert_eq!(read(capture.database()), ordered(expected.clone())),
                Step::Join => drop(live.join_layers().unwrap()),
                Step::Begin if down.is_none() => down = Some(live.begin_write_down(|latest| latest - SECOND).unwrap()),
                Step::Begin => {}
                Step::Commit => if let Some(down) = down.take() {
                    capture.database().write_down("t", down.captured, &down.rows).unwrap();
                    prop_assert_eq!(read(capture.database()), ordered(expected.clone()));
                    live.finish_write_down();
                }
                Step::GiveUp => if down.take().is_some() {
                    live.give_up_write_down();
                }
            }
        }
        prop_assert_eq!(read(capture.database()), ordered(expected));
    }
}

/// Also where the test fails: threads that go on would hang it.
struct StopsAtEnd<'a>(&'a AtomicBool);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn each_row_is_there_once_while_all_of_it_happens_at_once() {
    let capture = capture();
    capture.append(Append::new("t", rows(&[START], 0))).unwrap();
    let (stop, database) = (AtomicBool::new(false), capture.database());
    std::thread::scope(|scope| {
        let stops = StopsAtEnd(&stop);
        let looks = scope.spawn(|| {
            let (mut last, mut looks) = (0, 0);
            while !stop.load(Ordering::SeqCst) {
                let rows = read(database);
                assert_eq!(rows, ordered(rows.clone()), "in order");
                let mut ids: Vec<i64> = rows.iter().map(|row| row.2).collect();
                ids.sort_unstable();
                assert!(ids.iter().copied().eq(0..ids.len() as i64), "each row once, none before those it came behind");
                assert!(ids.len() >= last, "rows don't go away");
                (last, looks) = (ids.len(), looks + 1);
            }
            looks
        });
        scope.spawn(|| {
            let live = capture.live("t").unwrap().unwrap();
            while !stop.load(Ordering::SeqCst) {
                live.join_layers().unwrap();
            }
        });
        let mut id = 1;
        for step in 0..300_i64 {
            let count = [1, 300, 900][step as usize % 3];
            let times: Vec<i64> = (0..count).map(|at| START + step * SECOND - at * 7_919 % (3 * SECOND)).collect();
            capture.append(Append::new("t", rows(&times, id))).unwrap();
            id += count;
            if step % 25 == 24 {
                capture.write_down(Some("t")).unwrap();
            }
        }
        drop(stops);
        assert!(looks.join().unwrap() > 0);
    });
    assert_eq!(read(database).len(), 300 / 3 * 1_201 + 1);
    capture.close().unwrap();
}
