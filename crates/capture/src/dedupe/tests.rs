//! Windows against a list of rows, with groups and messages that aren't written.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_store::{ColumnSpec, ColumnType, RowDigest, TableSpec};

use super::window::DedupeWindow;
use crate::dedupe_rules::DedupeRules;
use crate::settings::CaptureSettings;
use crate::settings::DedupeSettings;

const SECOND: i64 = 1_000_000_000;

fn window(keys_max: usize) -> DedupeWindow {
    let own = DedupeSettings { key: "id".to_owned(), window_s: 10, keys_max };
    let settings = CaptureSettings { dedupe: BTreeMap::from([("t".to_owned(), own)]), ..CaptureSettings::default() };
    let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp), ColumnSpec::new("id", ColumnType::Int64)];
    let spec = Arc::new(TableSpec::new("t", columns, "time", None));
    DedupeWindow::new(&DedupeRules::new(&settings).unwrap().all()[0], spec, ("t".into(), 1), i64::MIN, 0).unwrap()
}

fn key(id: u8) -> RowDigest {
    [id; 16]
}

/// Of many rows of few keys none is left out that isn't there, and none stays that could be compared.
#[test]
fn a_row_is_left_out_if_and_only_if_one_of_the_window_has_its_key() {
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let keys_max = [3, 20, 1_000][random.random_range(0..3)];
        let mut window = window(keys_max);
        let (mut rows, mut now): (Vec<(u8, i64)>, i64) = (Vec::new(), 0);
        for _ in 0..random.random_range(1..40) {
            let mut group = rows.clone();
            for _ in 0..random.random_range(1..4) {
                now += random.random_range(0..5 * SECOND);
                let message: Vec<(Option<u8>, i64)> = (0..random.random_range(0..12))
                    .map(|_| {
                        let id = random.random_bool(0.9).then(|| random.random_range(0..40));
                        (id, now + random.random_range(-15..3) * SECOND + random.random_range(0..3))
                    })
                    .collect();
                let mut after = group.clone();
                window.begin_message(now);
                for (id, time) in &message {
                    let from = window.compared_from();
                    let is_known = |id: &u8| after.iter().any(|(other, at)| other == id && *at >= from);
                    let expected = !(*time >= from && id.as_ref().is_some_and(is_known));
                    let is_new = window.new_rows(&[id.map(key)], &[*time]);
                    assert_eq!(is_new, [expected], "seed {seed}");
                    if expected {
                        after.push((id.unwrap_or(u8::MAX), *time));
                    }
                }
                // The window ends where it says, unless there are too many keys.
                let latest = group.iter().map(|(_, time)| *time).max().unwrap_or(i64::MIN);
                let from = latest.min(now).saturating_sub(10 * SECOND);
                let is_whole = window.compared_from() == from;
                assert!(keys_max < 1_000 || is_whole, "seed {seed}");
                if random.random_bool(0.2) {
                    window.forget_message();
                } else {
                    group = after;
                }
            }
            if random.random_bool(0.2) {
                window.forget_group();
            } else {
                window.take_group();
                rows = group;
            }
            assert!(window.keys() <= keys_max, "seed {seed}");
        }
    }
}

#[test]
fn keys_take_the_memory_that_is_said() {
    let mut window = window(1 << 20);
    let (_, bytes) = splay_mutate::peak(|| {
        window.begin_message(0);
        for group in 0..100_i64 {
            window.begin_message(group);
            for id in 0..1_000_i64 {
                let mut key = RowDigest::default();
                key[..8].copy_from_slice(&(group * 1_000 + id).to_le_bytes());
                window.new_rows(&[Some(key)], &[group * 1_000 + id]);
            }
            window.take_group();
        }
    });
    assert_eq!(window.keys(), 100_000);
    // A table that grows is there twice for a moment.
    assert!(bytes < 15_000_000, "{bytes}");
}
