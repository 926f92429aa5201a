//! Statements over encrypted dates give what they give over mapped ones.

use splay_sql::Parameters;
use splay_store::{CompactOptions, Database, Tier};

use crate::both::{both, cells};
use crate::generated::{Numbers, database, filter, statement};

/// The same rows, encrypted.
fn encrypted(tier: Tier) -> (tempfile::TempDir, Database) {
    let (folder, database) = database(tier);
    drop(database);
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "test AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    std::fs::write(folder.path().join("db/splay.toml"), format!("[encryption]\nkey_file = {keys:?}\n")).unwrap();
    let database = Database::open(folder.path().join("db")).unwrap();
    for name in database.tables().unwrap() {
        let table = database.table(&name).unwrap();
        let options = CompactOptions { tier: Some(tier), ..CompactOptions::default() };
        table.compact(&options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        let snapshot = table.stored().unwrap();
        let segments = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
        assert!(segments.into_iter().all(|segment| segment.entry().key.as_deref() == Some("test")));
    }
    (folder, database)
}

#[test]
fn statements_over_encrypted_dates_answer_as_over_mapped_ones() {
    let (_plain, mapped) = database(Tier::Mapped);
    let mapped = both(&mapped, 2).other;
    for (seed, tier) in [(1, Tier::Fast), (2, Tier::Small), (3, Tier::Dense)] {
        let (_folder, database) = encrypted(tier);
        let encrypted = both(&database, 2);
        let mut numbers = Numbers(seed);
        let mut ticks = 0;
        for at in 0..45 {
            let text = match at % 3 {
                0 => format!("select * from quote{}", filter(&mut numbers)),
                _ => statement(&mut numbers),
            };
            ticks += usize::from(encrypted.compare(&text).unwrap_or_else(|error| panic!("{tier:?}: {error}")));
            if at % 3 == 0 {
                let answer = |session: &splay_sql::Session| {
                    cells(&session.sql(&text, Parameters::None).unwrap().batches().unwrap())
                };
                let (one, other) = (answer(&encrypted.tick), answer(&mapped));
                assert_eq!(one.len(), other.len(), "{tier:?} {text}");
                let is_equal = one.iter().flatten().zip(other.iter().flatten()).all(|(one, other)| one.matches(other));
                assert!(is_equal, "{tier:?} {text}");
            }
        }
        assert!(ticks > 15, "{tier:?}: {ticks} tick plans");
    }
}
