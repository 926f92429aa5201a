//! Random histories against a list of rows: any mixture of batches in order and late, over dates, write-downs, rolls,
//! compactions, loads by others and starts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{Append, Capture, CaptureSettings};
use splay_store::{Bounds, CompactOptions, Database, Selection};

use crate::rows::{DAY, Row, SECOND, START, TestClock, all, batch, in_order, read, row, settings, spec};

#[test]
fn any_history_gives_the_rows_in_order() {
    let histories: u64 = std::env::var("SPLAY_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for seed in 0..histories {
        history(seed);
    }
}

fn history(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let zone = ["UTC", "America/New_York", "America/St_Johns"][random.random_range(0..3)];
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::at(START + random.random_range(0..DAY));
    let settings = CaptureSettings {
        late_s: random.random_range(0..20),
        journal_segment_bytes: 1 << random.random_range(8..14),
        journal_keep_bytes: 0,
        future_s: 10 * 86_400,
        ..settings()
    };
    let start = || {
        let database = Database::open_or_create(folder.path()).unwrap();
        let clock = Arc::clone(&clock);
        (database.clone(), Capture::open_with(database, settings.clone(), clock).unwrap().0)
    };
    let (mut database, mut capture) = start();
    let mut rows: Vec<Row> = Vec::new();
    let symbols = ["A", "B", "", "LONGER", "Z"];
    for step in 0..random.random_range(5..60) {
        match random.random_range(0..20) {
            0 => drop(capture.write_down(None).unwrap()),
            1 => drop(capture.roll(None).unwrap()),
            2 if !rows.is_empty() => {
                let table = Database::open(folder.path()).unwrap().table("trade").unwrap();
                table.compact(&CompactOptions::default(), &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
            }
            3 => {
                capture.close().unwrap();
                drop(capture);
                (database, capture) = start();
            }
            _ => {
                let now = clock.0.fetch_add(random.random_range(0..30 * SECOND), Ordering::SeqCst);
                if random.random_range(0..30) == 0 {
                    clock.0.fetch_add(DAY, Ordering::SeqCst);
                }
                let spread = [1, SECOND, 60 * SECOND, 3 * DAY][random.random_range(0..4)];
                let size = [1, 1, 3, 40, 1500][random.random_range(0..5)];
                let first = rows.len();
                for _ in 0..size {
                    let symbol = symbols[random.random_range(0..symbols.len())];
                    // Coarse, so that there are ties.
                    let time = (now - random.random_range(0..spread)) / 1_000 * 1_000;
                    rows.push(row(symbol, time, rows.len() as i64));
                }
                let append = Append { spec: Some(spec(zone)), ..Append::new("trade", batch(&rows[first..])) };
                capture.append(append).unwrap();
            }
        }
        if !rows.is_empty() && random.random_range(0..3) == 0 {
            assert_eq!(all(&database), in_order(&rows, zone), "seed {seed}, step {step}");
        }
    }
    if !rows.is_empty() {
        let expected = in_order(&rows, zone);
        assert_eq!(all(&database), expected, "seed {seed}");
        let snapshot = database.table("trade").unwrap().snapshot().unwrap();
        assert_eq!(snapshot.rows(), rows.len() as u64);
        let middle = rows[rows.len() / 2].time;
        let selection = Selection {
            symbols: Some(vec!["A".to_owned(), "Z".to_owned()]),
            time: Bounds { min: middle - 10 * SECOND, max: middle },
            ..Selection::default()
        };
        // A selection keeps every row that is wanted, and may keep more.
        let is_selected =
            |row: &Row| matches!(row.symbol.as_deref(), Some("A" | "Z")) && selection.time.contains(row.time);
        let selected_rows: Vec<_> =
            read(&snapshot, &selection).into_iter().filter(|(_, row)| is_selected(row)).collect();
        assert_eq!(
            selected_rows,
            expected.into_iter().filter(|(_, row)| is_selected(row)).collect::<Vec<_>>(),
            "seed {seed}"
        );
    }
    capture.close().unwrap();
}
