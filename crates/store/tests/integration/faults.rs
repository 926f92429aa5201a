//! Operations that fail once, and disks that fill up: the call says so, and the rows are the old ones or the new ones.

use std::io::ErrorKind;

use splay_store::{Error, LoadOptions};

use crate::model::{self, Model, load, open};
use crate::scenario::{self, Scenario, assert_usable, matching_model};

fn survives_each_fault(scenario: &Scenario) {
    let (total, stands) = scenario.operations();
    let (old, new) = (scenario.old.as_ref(), scenario.new.as_ref());
    for n in 0..total {
        let what = format!("{}, operation {n} of {total} fails", scenario.name);
        let storage = scenario.base.copy();
        storage.fail_at(Some(n));
        let result = scenario.run(&storage);
        storage.fail_at(None);
        let candidates = match result {
            // A clean-up may fail unseen.
            Ok(()) => vec![new],
            Err(error) => {
                assert!(matches!(error, Error::Io { .. }), "{what}: {error:?}");
                assert!(error.to_string().contains("injected fault"), "{what}: {error}");
                // Only the last step, HEAD's sync, may fail when the change stands already.
                if n >= stands { vec![new] } else { vec![old] }
            }
        };
        let model = matching_model(&storage, &candidates, &what);
        assert_usable(&storage, model, &what);
    }
    println!("{}: {total} faults", scenario.name);
}

#[test]
fn each_operation_may_fail_once() {
    scenario::all().iter().for_each(survives_each_fault);
}

/// A file that can't be read for once is neither missing nor empty.
#[test]
fn each_look_may_fail_once() {
    for scenario in scenario::all() {
        let counted = scenario.base.copy();
        let before = counted.reads();
        scenario.run(&counted).unwrap();
        let total = counted.reads() - before;
        let (old, new) = (scenario.old.as_ref(), scenario.new.as_ref());
        for n in 0..total {
            let what = format!("{}, look {n} of {total} fails", scenario.name);
            let storage = scenario.base.copy();
            storage.fail_read_at(Some(n));
            let result = scenario.run(&storage);
            storage.fail_read_at(None);
            let candidates = match result {
                Ok(()) => vec![new],
                Err(error) => {
                    assert!(error.to_string().contains("injected fault"), "{what}: {error}");
                    // What is looked at behind a commit doesn't take it back.
                    vec![old, new]
                }
            };
            let model = matching_model(&storage, &candidates, &what);
            assert_usable(&storage, model, &what);
        }
        println!("{}: {total} looks", scenario.name);
    }
}

#[test]
fn a_full_disk_is_named_and_nothing_is_lost() {
    for scenario in scenario::all() {
        let storage = scenario.base.copy();
        let before = storage.used();
        scenario.run(&storage).unwrap();
        let mut refused = 0;
        let levels = [0, 1, 20, 50, 100, 300, 700, 1000, 2000, 4000, 8000, 20_000, 100_000, 1_000_000];
        for room in levels {
            let what = format!("{}, {room} bytes free", scenario.name);
            let storage = scenario.base.copy();
            storage.capacity(Some(before + room));
            let result = scenario.run(&storage);
            let candidates = match result {
                Ok(()) => vec![scenario.new.as_ref()],
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::StorageFull => {
                    refused += 1;
                    vec![scenario.old.as_ref()]
                }
                Err(error) => panic!("{what}: {error:?}"),
            };
            matching_model(&storage, &candidates, &format!("{what}, still full"));
            storage.capacity(None);
            let model = matching_model(&storage, &candidates, &what);
            assert_usable(&storage, model, &what);
        }
        assert!(refused > 2, "{}: only {refused} of {} levels were too small", scenario.name, levels.len());
    }
}

/// A full disk or a refused file leaves the writer usable; what it failed to sync or to rename doesn't.
#[test]
fn only_an_unknown_outcome_stops_a_writer() {
    let (first, second) = (model::rows(1, 60, 0..1, 4), model::rows(2, 30, 0..1, 4));
    let base = scenario::loaded(&first);
    let (mut went_on, mut stopped) = (0, 0);
    for n in 0.. {
        let storage = base.copy();
        let database = open(&storage).unwrap();
        storage.fail_at(Some(n));
        let failed = load(&database, &second, LoadOptions::default());
        storage.fail_at(None);
        if storage.operations() <= n {
            break;
        }
        let Err(Error::Io { act, path, .. }) = failed else { continue };
        let what = format!("{act} {} fails as operation {n}", path.display());
        let again = load(&database, &second, LoadOptions::default());
        let of_manifest = path.starts_with("trade/manifest");
        match again {
            Ok(_) => {
                assert!(!of_manifest || !matches!(act, "sync" | "rename"), "{what}, and the writer went on");
                let expected = Model::new(first.clone()).plus(&second);
                assert_eq!(model::read(&storage).unwrap(), Some(expected.batch()), "{what}");
                went_on += usize::from(of_manifest);
            }
            Err(Error::Poisoned) => {
                assert!(matches!(act, "sync" | "rename"), "{what}, and the writer stopped");
                stopped += 1;
            }
            Err(error) => panic!("{what}, then {error}"),
        }
    }
    assert!(went_on >= 3 && stopped >= 3, "{went_on} went on, {stopped} stopped");
}
