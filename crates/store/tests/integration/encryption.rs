//! Encrypted tiers: keys that come, change, are missing and go; what the files show, and what others may do with them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use splay_store::object::fault::FaultStore;
use splay_store::object::{ObjectTier, Retry};
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    Backup, BackupWriter, CompactOptions, Database, EncryptionSettings, Error, LoadOptions, Publish, ReplicaWriter,
    Settings, Table, Tier, ValueKind,
};

use crate::model::{self, Model, go_on};

/// Settings with the keys `second`, for new files, and `first`.
pub(crate) fn settings() -> EncryptionSettings {
    EncryptionSettings::of_file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/keys.txt"))
}

const FIRST: &str = "first 000102030405060708090a0b0c0d0e0f\n";
const SECOND: &str = "second ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n";

/// A folder with a database, and a list of keys beside it.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new(keys: &str) -> World {
        let world = World { folder: tempfile::tempdir().unwrap() };
        drop(Database::create(world.path()).unwrap());
        world.set_keys(keys);
        world.set(&format!("[encryption]\nkey_file = {:?}\n", world.keys()));
        world
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("db")
    }

    fn keys(&self) -> PathBuf {
        self.folder.path().join("keys")
    }

    fn set_keys(&self, keys: &str) {
        std::fs::write(self.keys(), keys).unwrap();
    }

    /// Puts a text behind the default settings.
    fn set(&self, text: &str) {
        std::fs::write(self.path().join("splay.toml"), text).unwrap();
    }

    fn open(&self) -> Database {
        Database::open(self.path()).unwrap()
    }

    fn table(&self) -> Table {
        self.open().table("trade").unwrap()
    }
}

fn to(tier: Tier) -> CompactOptions {
    CompactOptions { tier: Some(tier), ..CompactOptions::default() }
}

fn load(database: &Database, rows: &[model::Row], tier: Tier) {
    model::load(database, rows, LoadOptions { tier: Some(tier), ..LoadOptions::default() }).unwrap();
}

fn used(table: &Table) -> BTreeSet<Option<String>> {
    let snapshot = table.stored().unwrap();
    let segments = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
    segments.map(|segment| segment.entry().key.clone()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { paths.extend(files(&path)) } else { paths.push(path) }
    }
    paths.sort();
    paths
}

fn version(world: &World) -> u8 {
    std::fs::read(world.path().join("trade/manifest/HEAD")).unwrap()[8]
}

fn rows(database: &Database) -> arrow::array::RecordBatch {
    model::read_table(database, "trade").unwrap()
}

#[test]
fn a_table_changes_its_key_and_gives_it_up() {
    let world = World::new(FIRST);
    let model = Model::new(model::rows(1, 900, 0..4, 5));
    for (day, tier) in (0_i32..).zip([Tier::Mapped, Tier::Fast, Tier::Small, Tier::Dense]) {
        let of_day: Vec<_> = model.rows.iter().filter(|row| row.date() == day).cloned().collect();
        load(&world.open(), &of_day, tier);
    }
    let first = Some("first".to_owned());
    assert_eq!(used(&world.table()), [None, first.clone()].into(), "mapped dates are in plain");
    assert_eq!((rows(&world.open()), version(&world)), (model.batch(), 9));
    assert!(world.table().verify(&mut go_on).unwrap().is_empty());
    // What a deletion took comes back by other names of the same files.
    world.table().delete(model::smaller(500)).unwrap();
    assert_ne!(rows(&world.open()), model.batch());
    world.table().undo(world.table().stored().unwrap().epoch()).unwrap();
    assert_eq!(rows(&world.open()), model.batch());
    assert!(world.table().verify(&mut go_on).unwrap().is_empty());

    // Another key for new files. Those under the first are read as before, until someone asks for the newest key.
    world.set_keys(&format!("{SECOND}{FIRST}"));
    assert_eq!(world.table().compact(&CompactOptions::default(), &mut go_on).unwrap().partitions, 0);
    assert_eq!(rows(&world.open()), model.batch());
    let second = Some("second".to_owned());
    assert_eq!(world.table().compact(&to(Tier::Fast), &mut go_on).unwrap().partitions, 4);
    assert_eq!(world.table().compact(&to(Tier::Fast), &mut go_on).unwrap().partitions, 0);
    assert_eq!(used(&world.table()), [second.clone()].into());
    world.set_keys(SECOND);
    assert_eq!(rows(&world.open()), model.batch(), "the first key isn't needed any more");

    // Files in plain again, under the settings that say so. Older releases read them once nothing encrypted is kept.
    world.set(&format!("[encryption]\nkey_file = {:?}\nencrypt = false\n", world.keys()));
    world.table().compact(&to(Tier::Small), &mut go_on).unwrap();
    assert_eq!(used(&world.table()), [None].into());
    assert_eq!(version(&world), 9, "encrypted files are kept");
    world.table().forget(true).unwrap();
    assert!(version(&world) < 9);
    world.set("");
    assert_eq!(rows(&world.open()), model.batch());
}

#[test]
fn whoever_has_not_the_key_is_told_its_id_and_nothing_else() {
    let world = World::new(FIRST);
    let model = Model::new(model::rows(2, 500, 0..1, 5));
    load(&world.open(), &model.rows, Tier::Small);
    let refused = |text: &str| {
        let error = model::read_table(&world.open(), "trade").unwrap_err();
        let Error::Encrypted { key, .. } = &error else { panic!("{error}") };
        assert!(key == "first" && error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains("0001020304") && !error.is_damage(), "{error}");
        let problems = world.table().verify(&mut go_on).map(|problems| problems.len());
        assert!(!matches!(problems, Ok(0)), "{problems:?}");
        // What needs no file's content works.
        assert_eq!(world.table().stored().unwrap().rows(), model.rows.len() as u64);
    };
    world.set_keys(SECOND);
    refused("none of this id");
    world.set_keys("first 000102030405060708090a0b0c0d0eff");
    refused("another one");
    world.set_keys("first 0001020304");
    refused("isn't 16 or 32 bytes");
    // Nothing is written in plain because keys are lost.
    let more = model::rows(3, 10, 1..2, 5);
    let options = LoadOptions { tier: Some(Tier::Fast), ..LoadOptions::default() };
    let error = model::load(&world.open(), &more, options).unwrap_err();
    assert!(matches!(error, Error::Setting { setting: "encryption", .. }), "{error}");
    std::fs::remove_file(world.keys()).unwrap();
    refused("No such file");
    world.set("");
    refused("splay.toml names no keys");
    world.set_keys(FIRST);
    world.set(&format!("[encryption]\nkey_file = {:?}\n", world.keys()));
    assert_eq!(rows(&world.open()), model.batch());
    for text in ["key_file = \"keys\"", "key_file = \"/k\"\nkey_env = \"K\"", "", "key = \"00\""] {
        world.set(&format!("[encryption]\n{text}\n"));
        let error = Database::open(world.path()).unwrap_err();
        assert!(matches!(error, Error::Setting { .. }), "{error}");
    }
}

#[test]
fn files_show_no_values_and_stand_for_no_others() {
    let world = World::new(FIRST);
    let mut all = model::rows(4, 3000, 0..2, 5);
    all.iter_mut().for_each(|row| row.sym = row.sym.map(|_| "QUITESECRET"));
    load(&world.open(), &all, Tier::Fast);
    let expected = Model::new(all).batch();
    let stored = files(&world.path().join("trade"));
    let of = |ending: &str| -> Vec<PathBuf> {
        stored.iter().filter(|path| path.to_string_lossy().ends_with(ending)).cloned().collect()
    };
    let (data, indexes) = (of(".parquet"), of(".index"));
    assert_eq!((data.len(), indexes.len()), (2, 2));
    for path in data.iter().chain(&indexes) {
        let bytes = std::fs::read(path).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"QUITESECRET"), "{}", path.display());
        assert!(bytes.windows(5).any(|window| window == b"first"), "the key's id is told");
    }
    // The index serves as one in plain does.
    let snapshot = world.table().snapshot().unwrap();
    let segment = &snapshot.partitions()[0].segments[0];
    assert_eq!(segment.index().unwrap().by_block("price").unwrap().unwrap().kind(), ValueKind::Float);
    drop(snapshot);

    // Files of one date in the place of those of another are refused.
    for (one, other) in [(&data[0], &data[1]), (&indexes[0], &indexes[1])] {
        let (first, second) = (std::fs::read(one).unwrap(), std::fs::read(other).unwrap());
        std::fs::write(one, &second).unwrap();
        std::fs::write(other, &first).unwrap();
        // A lost index is made anew of the segment; other rows never come.
        if let Ok(rows) = model::read_table(&world.open(), "trade") {
            assert_eq!(rows, expected);
        }
        assert!(!world.table().verify(&mut go_on).unwrap().is_empty());
        std::fs::write(one, first).unwrap();
        std::fs::write(other, second).unwrap();
    }
    std::fs::remove_file(&indexes[0]).unwrap();
    assert_eq!(rows(&world.open()), expected, "the index is made anew");
}

#[test]
fn encrypted_dates_are_published_backed_up_and_moved_as_what_they_are() {
    let world = World::new(SECOND);
    let model = Model::new(model::rows(5, 800, 0..3, 5));
    load(&world.open(), &model.rows, Tier::Small);
    // A Delta table leaves them out.
    world.table().set_publish(Some(Publish::Delta)).unwrap();
    let report = world.table().publish().unwrap();
    assert_eq!((report.files, report.left_out.len()), (0, 3));

    // Objects are encrypted as the files are, and come back.
    let store = FaultStore::new();
    let retry = Retry { attempts_max: 1, ..Retry::default() };
    let tier = || Arc::new(ObjectTier::new(Arc::new(store.clone()), "memory://cold", 64 << 20, retry.clone()));
    let open = || {
        let storage = splay_store::storage::LocalStorage::new(world.path());
        Database::open_with(Arc::new(storage), Some(tier())).unwrap()
    };
    open().table("trade").unwrap().compact(&to(Tier::Object), &mut go_on).unwrap();
    assert_eq!(rows(&open()), model.batch());
    assert_eq!(used(&open().table("trade").unwrap()), [Some("second".to_owned())].into());
    open().table("trade").unwrap().compact(&to(Tier::Fast), &mut go_on).unwrap();
    assert_eq!(rows(&world.open()), model.batch());
    assert!(world.table().verify(&mut go_on).unwrap().is_empty());
}

#[test]
fn settings_come_back_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let encryption = Some(EncryptionSettings { encrypt: false, ..EncryptionSettings::of_file("/k \"quoted\"") });
    let settings = Settings { encryption, ..Settings::default() };
    let storage = Arc::new(splay_store::storage::LocalStorage::new(folder.path()));
    assert_eq!(Database::create_on(storage, &settings).unwrap().settings(), &settings);
}

#[test]
fn backups_need_no_key_and_followers_say_which_they_lack() {
    let world = World::new(FIRST);
    let model = Model::new(model::rows(6, 600, 0..3, 5));
    load(&world.open(), &model.rows, Tier::Dense);

    // A backup copies what it can't read.
    world.set_keys(SECOND);
    let at = Arc::new(FaultStorage::new());
    let database = world.open();
    let mut backup = BackupWriter::begin(Arc::clone(&at) as Arc<dyn Storage>, 0).unwrap();
    backup.put_tables(&database, &database.commits().unwrap()).unwrap();
    backup.finish().unwrap();
    world.set_keys(FIRST);
    let backup = Backup::read(at.as_ref()).unwrap().unwrap();
    backup.verify(at.as_ref()).unwrap();
    let restored = FaultStorage::new();
    backup.restore(at.as_ref(), &restored).unwrap();
    assert_eq!(rows(&model::open(&restored).unwrap()), model.batch());

    // A follower has the leader's settings, and checks what comes.
    let leader = world.open();
    let follower =
        Database::create_like(world.folder.path().join("follower"), &leader.settings_text().unwrap()).unwrap();
    let install = |follower: &Database| -> Result<(), Error> {
        let writer = ReplicaWriter::begin(follower)?;
        for head in leader.table_heads()? {
            assert!(head.encrypted);
            let log = format!("{}/manifest/{:06}.log", head.folder, head.log);
            let log = leader.read_for_follower(&log, 0, usize::try_from(head.length).unwrap())?;
            let commit = writer.commit(&head, 0, &log)?.unwrap();
            for segment in writer.lacking(&commit, true)? {
                writer.put(&segment, &mut |path, offset| leader.read_for_follower(path, offset, 1000))?;
            }
            writer.install(&commit)?;
            assert!(writer.has(&head)?);
        }
        Ok(())
    };
    world.set_keys(SECOND);
    drop(follower);
    let open = || Database::open(world.folder.path().join("follower")).unwrap();
    let error = install(&open()).unwrap_err();
    assert!(matches!(&error, Error::Encrypted { key, .. } if key == "first"), "{error}");
    world.set_keys(FIRST);
    install(&open()).unwrap();
    assert_eq!(rows(&open()), model.batch());
}
