//! Whatever comes in, in whatever batches and loads, is given back in the order (date, symbol, time, arrival), bit by bit.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use splay_store::storage::fault::FaultStorage;
use splay_store::{CompactOptions, Database, LoadOptions, Settings, TableSpec, Tier};

use crate::model::{go_on, rng};
use crate::random::{self, in_order, plain};

/// Compares a table with the rows in order: everything, and random ranges of random columns.
fn assert_holds(rng: &mut ChaCha8Rng, database: &Database, expected: &RecordBatch, dates: &[i32], what: &str) {
    let snapshot = database.table("t").unwrap().snapshot().unwrap();
    assert_eq!(snapshot.rows(), expected.num_rows() as u64, "{what}: rows");
    let mut start = 0;
    for partition in snapshot.partitions() {
        for segment in partition.segments.iter() {
            let rows = usize::try_from(segment.rows()).unwrap();
            assert!(rows > 0 && dates[start..start + rows].iter().all(|date| *date == partition.date), "{what}: dates");
            let all: Vec<usize> = (0..expected.num_columns()).collect();
            // Parts first, so that they are read from a file that was just opened.
            for _ in 0..3 {
                let from = rng.random_range(0..=rows);
                let to = rng.random_range(from..=rows);
                let columns: Vec<usize> = all.iter().copied().filter(|_| rng.random_bool(0.5)).collect();
                let part = segment.read(snapshot.spec(), &columns, from as u64..to as u64).unwrap();
                let expected_rows = expected.slice(start + from, to - from).project(&columns).unwrap();
                assert_eq!(plain(&part), expected_rows, "{what}: rows {from}..{to} of columns {columns:?}");
            }
            let size = [1, 7, 100, 8192][rng.random_range(if rows > 500 { 2..4 } else { 0..4 })];
            let parts = segment.batches(snapshot.spec(), &all, 0..segment.rows(), size).unwrap();
            let parts: Vec<RecordBatch> = parts.map(|part| plain(&part.unwrap())).collect();
            assert!(parts.iter().all(|part| part.num_rows() <= size), "{what}: size of batches");
            let actual = concat_batches(&expected.schema(), &parts).unwrap();
            assert_eq!(actual, expected.slice(start, rows), "{what}: a segment of {}", partition.date);
            segment.verify(snapshot.spec()).unwrap();
            start += rows;
        }
    }
    assert!(snapshot.partitions().is_sorted_by_key(|partition| partition.date), "{what}: order of partitions");
}

fn random_options(rng: &mut ChaCha8Rng) -> LoadOptions {
    let format = [Tier::Mapped, Tier::Dense, Tier::Fast, Tier::Small][rng.random_range(0..4)];
    let memory_bytes = if rng.random_bool(0.6) { 1 << 20 } else { 1 << 30 };
    LoadOptions { memory_bytes, tier: Some(format), threads: rng.random_range(1..3), ..LoadOptions::default() }
}

fn load(database: &Database, spec: &TableSpec, batches: &[RecordBatch], options: LoadOptions) {
    let mut load = database.load(spec, options).unwrap();
    batches.iter().for_each(|batch| load.append(batch).unwrap());
    load.commit().unwrap();
}

fn compare(seed: u64) {
    let mut rng = rng(seed);
    let with_symbol = rng.random_bool(0.8);
    let spec = random::spec(&mut rng, with_symbol);
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage), &Settings::default()).unwrap();
    let (large, extremes) = (rng.random_bool(0.25), rng.random_bool(0.3));
    let mut arrived = Vec::new();
    for step in 0..rng.random_range(1..4) {
        let mut batches = Vec::new();
        for _ in 0..rng.random_range(1..5) {
            let rows = if large { rng.random_range(3000..9000) } else { [0, 1, 2, 7, 40, 300][rng.random_range(0..6)] };
            batches.push(random::batch(&mut rng, &spec, rows, extremes));
        }
        load(&database, &spec, &batches, random_options(&mut rng));
        arrived.extend(batches);
        let (expected, dates) = in_order(&spec, &arrived);
        assert_holds(&mut rng, &database, &expected, &dates, &format!("seed {seed}, after load {step}"));
    }
    let (expected, dates) = in_order(&spec, &arrived);
    for format in [None, Some(Tier::Small), Some(Tier::Dense), Some(Tier::Fast), Some(Tier::Mapped)] {
        let memory_bytes = if rng.random_bool(0.5) { 1 << 20 } else { 0 };
        database
            .table("t")
            .unwrap()
            .compact(&CompactOptions { tier: format, memory_bytes, ..CompactOptions::default() }, &mut go_on)
            .unwrap();
        let what = format!("seed {seed}, compacted to {format:?}");
        assert_holds(&mut rng, &database, &expected, &dates, &what);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, rng_seed: RngSeed::Fixed(0x0E0), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn rows_come_back_in_order_and_unchanged(seed in any::<u64>()) {
        compare(seed);
    }
}

/// More runs than are merged at once, of a partition that exists.
#[test]
fn a_load_of_very_many_runs_is_in_order() {
    let mut rng = rng(77);
    let storage = FaultStorage::new();
    let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    let spec = random::spec(&mut rng, true);
    let options = LoadOptions { memory_bytes: 1 << 20, ..LoadOptions::default() };
    let mut arrived = vec![random::batch(&mut rng, &spec, 500, false)];
    load(&database, &spec, &arrived, options.clone());
    let row_bytes = arrived[0].get_array_memory_size() / 500;
    let mut loading = database.load(&spec, options).unwrap();
    let (mut runs, mut merged) = (0, false);
    for _ in 0..90 {
        let batch = random::batch(&mut rng, &spec, (800 << 10) / row_bytes, false);
        loading.append(&batch).unwrap();
        arrived.push(batch);
        let now = storage.paths().iter().filter(|path| path.starts_with(".spill/")).count();
        (runs, merged) = (now, merged || now < runs);
    }
    assert!(merged, "no runs were merged on the way");
    loading.commit().unwrap();
    let (expected, dates) = in_order(&spec, &arrived);
    assert_holds(&mut rng, &database, &expected, &dates, "after many runs");
}
