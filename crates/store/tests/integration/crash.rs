//! A power cut at every operation of every change leaves the old rows or the new ones, and a database that goes on working.

use rand::Rng;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Lifecycle, Retention, Tier, TierRule};

use crate::definitions;
use crate::model::{self, Model, open, rng};
use crate::scenario::{self, Scenario, assert_usable, matching_model, next_load};

/// A way of choosing what survives: everything, nothing, or random with a leaning.
pub(crate) fn image(storage: &FaultStorage, seed: u64) -> FaultStorage {
    let mut random = rng(seed);
    let leaning = [0.5, 0.1, 0.9, 0.3][usize::try_from(seed % 4).unwrap()];
    match seed % 16 {
        0 => storage.crash(&mut |_| 0),
        1 => storage.crash(&mut |bound| bound - 1),
        _ => storage.crash(&mut |bound| {
            if bound == 2 { usize::from(random.random_bool(leaning)) } else { random.random_range(0..bound) }
        }),
    }
}

/// Possible remains of each operation that a test checks: as many as it says, or so many that a kind of commit has the number that the environment
/// wants in all.
fn images_of_each(images: u64, operations: u64) -> u64 {
    let wanted: u64 = std::env::var("SPLAY_COMMIT_IMAGES").map_or(0, |count| count.parse().unwrap());
    images.max(wanted.div_ceil(operations))
}

/// Cuts the power at every operation, and checks `images` possible remains of each, or more.
fn survives(scenario: &Scenario, images: u64) {
    let (total, _) = scenario.operations();
    let images = images_of_each(images, total + 1);
    let (old, new) = (scenario.old.as_ref(), scenario.new.as_ref());
    for n in 0..=total {
        let storage = scenario.base.copy();
        storage.stop_after(Some(n));
        let done = scenario.run(&storage).is_ok();
        for seed in 0..images {
            let what = format!("{}, power cut after {n} of {total} operations, seed {seed}", scenario.name);
            let image = image(&storage, seed);
            let model =
                if done { matching_model(&image, &[new], &what) } else { matching_model(&image, &[old, new], &what) };
            assert_usable(&image, model, &what);
        }
    }
    println!("{}: {} images of {total} operations", scenario.name, (total + 1) * images);
}

#[test]
fn creation_survives_a_power_cut() {
    survives(&scenario::creation(), 32);
}

#[test]
fn a_merging_load_survives_a_power_cut() {
    survives(&scenario::merge(), 48);
}

#[test]
fn an_appending_load_survives_a_power_cut() {
    survives(&scenario::append(), 48);
}

#[test]
fn a_load_of_several_partitions_survives_a_power_cut() {
    survives(&scenario::two_partitions(), 32);
}

#[test]
fn a_load_that_sets_rows_aside_survives_a_power_cut() {
    survives(&scenario::spill(), 8);
}

#[test]
fn compaction_survives_a_power_cut() {
    survives(&scenario::compaction(), 32);
}

#[test]
fn a_move_to_another_tier_survives_a_power_cut() {
    survives(&scenario::compaction_to_fast(), 32);
    survives(&scenario::compaction_to_small(), 32);
    survives(&scenario::compaction_to_dense(), 32);
    survives(&scenario::compaction_to_encrypted(), 32);
    survives(&scenario::compaction_from_dense(), 32);
}

#[test]
fn a_new_column_survives_a_power_cut() {
    survives(&scenario::add_column(), 64);
}

#[test]
fn a_wider_column_survives_a_power_cut() {
    survives(&scenario::widen_column(), 64);
}

#[test]
fn a_column_of_another_type_survives_a_power_cut() {
    survives(&scenario::retype_column(), 64);
}

#[test]
fn changes_of_rows_survive_a_power_cut() {
    scenario::changes().iter().for_each(|scenario| survives(scenario, 24));
}

#[test]
fn drops_and_new_partitions_survive_a_power_cut() {
    definitions::all().iter().for_each(|scenario| survives(scenario, 32));
}

#[test]
fn changes_of_reference_tables_survive_a_power_cut() {
    scenario::of_reference().iter().for_each(|scenario| survives(scenario, 48));
}

#[test]
fn the_end_of_kept_files_survives_a_power_cut() {
    survives(&scenario::forget(), 48);
}

#[test]
fn names_of_tables_survive_a_power_cut() {
    scenario::names().iter().for_each(|scenario| survives(scenario, 48));
}

/// Retention and tiers are those of before or those of after.
#[test]
fn a_change_of_the_lifecycle_survives_a_power_cut() {
    let model = Model::new(model::rows(57, 90, 0..3, 4));
    let base = scenario::loaded(&model.rows);
    let change = |lifecycle: &mut Lifecycle| {
        lifecycle.retention = Retention { days: Some(30), bytes: Some(1 << 30) };
        lifecycle.tiers = vec![TierRule { after: 5, tier: Tier::Fast }];
    };
    let run = |storage: &FaultStorage| open(storage)?.table("trade")?.change_lifecycle(change);
    let lifecycle = |storage: &FaultStorage| {
        let table = open(storage).unwrap().table("trade").unwrap();
        table.stored().unwrap().spec().lifecycle()
    };
    let (old, changed) = (lifecycle(&base), base.copy());
    run(&changed).unwrap();
    let (new, total) = (lifecycle(&changed), changed.operations());
    assert_ne!(old, new);
    let images = images_of_each(48, total + 1);
    for n in 0..=total {
        let storage = base.copy();
        storage.stop_after(Some(n));
        let done = run(&storage).is_ok();
        for seed in 0..images {
            let what = format!("power cut after {n} of {total} operations, seed {seed}");
            let image = image(&storage, seed);
            let found = lifecycle(&image);
            assert!(found == new || !done && found == old, "{what}: {found:?}");
            assert_usable(&image, Some(&model), &what);
        }
    }
    println!("lifecycle: {} images of {total} operations", (total + 1) * images);
}

#[test]
fn the_replacement_of_the_log_survives_a_power_cut() {
    survives(&scenario::log_replacement(), 48);
}

/// The process dies, another one writes, and then the power is cut: HEAD's new name may have been in the cache alone when the
/// second writer swept the files of the old one.
#[test]
fn a_dead_writer_and_a_power_cut_together_lose_nothing() {
    let plain = [scenario::creation(), scenario::merge(), scenario::compaction()];
    for scenario in plain.into_iter().chain(scenario::names()).chain(definitions::all()) {
        let (total, _) = scenario.operations();
        let mut images = 0;
        for n in 0..=total {
            for m in 0.. {
                let storage = scenario.base.copy();
                storage.stop_after(Some(n));
                let done = scenario.run(&storage).is_ok();
                storage.stop_after(Some(m));
                let (rows, second) = next_load(&storage);
                storage.stop_after(None);
                let followed =
                    |model: Option<&Model>| model.map_or_else(|| Model::new(rows.clone()), |model| model.plus(&rows));
                let (old, new) = (scenario.old.as_ref(), scenario.new.as_ref());
                let (old_next, new_next) = (followed(old), followed(new));
                let candidates = match (done, second.is_ok()) {
                    (true, true) => vec![Some(&new_next)],
                    (false, true) => vec![Some(&old_next), Some(&new_next)],
                    (true, false) => vec![new, Some(&new_next)],
                    (false, false) => vec![old, new, Some(&old_next), Some(&new_next)],
                };
                for seed in 0..3 {
                    let what = format!("{}, death after {n}, power cut after {m} more, seed {seed}", scenario.name);
                    matching_model(&image(&storage, seed * 5), &candidates, &what);
                    images += 1;
                }
                if second.is_ok() {
                    break;
                }
            }
        }
        println!("{}: {images} images of a death and a power cut", scenario.name);
    }
}
