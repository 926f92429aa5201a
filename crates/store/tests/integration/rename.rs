//! Tables that get other names: one of two names at any instant, the rows, the commits and what is kept of them under it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    Backup, BackupWriter, ColumnSpec, ColumnType, CompactOptions, Database, Error, LoadOptions, Result, Selection,
    Table, TableSpec, View, WriteDownPosition,
};

use crate::crash::image;
use crate::model::{self, Model, Row, expected_paths, go_on, load, open, read_snapshot, read_table, smaller};
use crate::scenario::loaded;

fn database(storage: &FaultStorage) -> Database {
    open(storage).unwrap()
}

fn rename(database: &Database, from: &str, to: &str) -> Result<u64> {
    database.table(from)?.rename(to, |_| false)
}

fn stored(table: &Table) -> RecordBatch {
    read_snapshot(&table.stored().unwrap(), &Selection::default()).unwrap()
}

fn view(name: &str, query: &str, materialized: Option<&str>) -> View {
    let (columns, materialized) = (Vec::new(), materialized.map(str::to_owned));
    View { materialized, ..View::new(name, columns, query) }
}

fn error_text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

/// Makes a table of the model's columns under another name.
fn load_as(database: &Database, name: &str, rows: &[Row]) -> u64 {
    let spec = TableSpec { name: name.to_owned(), ..model::trade() };
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&model::batch(rows)).unwrap();
    load.commit().unwrap().epoch
}

#[test]
fn a_power_cut_leaves_all_rows_under_one_of_the_two_names() {
    let rows = model::rows(1, 70, 0..3, 4);
    let expected = Model::new(rows.clone()).batch();
    let base = loaded(&rows);
    let whole = base.copy();
    rename(&database(&whole), "trade", "tape").unwrap();
    let (total, mut images) = (whole.operations(), 0);
    for n in 0..=total {
        let storage = base.copy();
        storage.stop_after(Some(n));
        let done = rename(&database(&storage), "trade", "tape").is_ok();
        for seed in 0..64 {
            let what = format!("power cut after {n} of {total} operations, seed {seed}");
            let image = image(&storage, seed);
            let reopened = database(&image);
            let names = reopened.tables().unwrap();
            assert!(names == ["tape"] || (!done && names == ["trade"]), "{what}: {names:?}");
            let other = if names == ["tape"] { "trade" } else { "tape" };
            assert!(matches!(reopened.table(other), Err(Error::NoSuchTable { .. })), "{what}");
            assert_eq!(read_table(&reopened, &names[0]).unwrap(), expected, "{what}");
            assert!(reopened.table(&names[0]).unwrap().verify(&mut go_on).unwrap().is_empty(), "{what}");
            rename(&reopened, &names[0], other).unwrap();
            assert_eq!(read_table(&reopened, other).unwrap(), expected, "{what}, and once more");
            assert_eq!(image.paths(), expected_paths(&image), "{what}");
            images += 1;
        }
    }
    println!("{images} images of {total} operations");
}

#[test]
fn readers_go_on_and_others_see_the_new_name() {
    let rows = model::rows(2, 90, 0..3, 4);
    let (storage, expected) = (loaded(&rows), Model::new(rows.clone()).batch());
    let (writer, reader) = (database(&storage), database(&storage));
    let table = reader.table("Trade").unwrap();
    let before = table.snapshot().unwrap();
    assert_eq!(rename(&writer, "TRADE", "tape").unwrap(), 2);
    // No file was opened before.
    assert_eq!(read_snapshot(&before, &Selection::default()).unwrap(), expected);
    assert!(matches!(table.snapshot(), Err(Error::NoSuchTable { .. })));
    for database in [&writer, &reader, &database(&storage)] {
        assert_eq!(database.tables().unwrap(), ["tape"]);
        assert!(matches!(database.table("trade"), Err(Error::NoSuchTable { .. })));
        let table = database.table("Tape").unwrap();
        assert_eq!((table.name(), table.folder()), ("tape", "trade"));
        assert_eq!((stored(&table), table.stored().unwrap().spec().name.as_str()), (expected.clone(), "tape"));
    }
    // A case is changed, and a name comes back.
    rename(&writer, "tape", "Tape").unwrap();
    assert_eq!(reader.table("TAPE").unwrap().stored().unwrap().spec().name, "Tape");
    assert_eq!(reader.tables().unwrap(), ["Tape"]);
    rename(&writer, "tape", "trade").unwrap();
    assert_eq!(stored(&table), expected, "the handle of before");
    assert!(matches!(reader.table("tape").and_then(|table| table.stored()), Err(Error::NoSuchTable { .. })));
}

/// Their manifests look alike: one log, of one length, with one commit.
#[test]
fn tables_change_places() {
    let (first, second) = (model::rows(3, 60, 0..2, 4), model::rows(4, 60, 0..2, 4));
    let storage = FaultStorage::new();
    let (writer, reader) = (database(&storage), database(&storage));
    load_as(&writer, "one", &first);
    load_as(&writer, "two", &second);
    let (one, two) = (reader.table("one").unwrap(), reader.table("two").unwrap());
    let (first, second) = (Model::new(first).batch(), Model::new(second).batch());
    assert_eq!((stored(&one), stored(&two)), (first.clone(), second.clone()));
    rename(&writer, "one", "three").unwrap();
    rename(&writer, "two", "one").unwrap();
    rename(&writer, "three", "two").unwrap();
    for database in [&writer, &reader, &database(&storage)] {
        assert_eq!(read_table(database, "one").unwrap(), second);
        assert_eq!(read_table(database, "two").unwrap(), first);
        assert_eq!(database.tables().unwrap(), ["one", "two"]);
    }
    assert_eq!((stored(&one), stored(&two)), (second.clone(), first), "handles are of names");
    let past = one.at_commit(1).unwrap();
    assert_eq!((read_snapshot(&past, &Selection::default()).unwrap(), past.spec().name.as_str()), (second, "one"));
    one.delete(smaller(300)).unwrap();
    assert_eq!(two.stored().unwrap().rows(), 60, "the other one has all its rows");
    for table in ["one", "two"] {
        assert!(writer.table(table).unwrap().verify(&mut go_on).unwrap().is_empty());
    }
}

#[test]
fn a_table_of_the_old_name_is_another_one() {
    let (first, second, third) =
        (model::rows(5, 50, 0..2, 4), model::rows(6, 40, 0..2, 4), model::rows(7, 30, 0..2, 4));
    let storage = loaded(&first);
    let database = database(&storage);
    rename(&database, "trade", "first").unwrap();
    load(&database, &second, LoadOptions::default()).unwrap();
    rename(&database, "trade", "second").unwrap();
    load(&database, &third, LoadOptions::default()).unwrap();
    assert_eq!(database.tables().unwrap(), ["first", "second", "trade"]);
    let folders = ["first", "second", "trade"].map(|table| database.table(table).unwrap().folder().to_owned());
    assert_eq!(folders, ["trade", "trade~1", "trade~2"]);
    for (table, rows) in [("first", first), ("second", second), ("trade", third)] {
        assert_eq!(read_table(&open(&storage).unwrap(), table).unwrap(), Model::new(rows).batch());
    }
    assert_eq!(storage.paths(), expected_paths(&storage));
    let wrong = TableSpec { name: "trade~1".to_owned(), ..model::trade() };
    assert!(matches!(database.load(&wrong, LoadOptions::default()), Err(Error::Name { .. })), "no name for a table");
    assert!(error_text(rename(&database, "first", "trade~3")).contains("only A-Z"));
}

#[test]
fn names_that_are_taken_are_refused() {
    let storage = loaded(&model::rows(8, 20, 0..1, 4));
    let database = database(&storage);
    load_as(&database, "quote", &model::rows(9, 20, 0..1, 4));
    database.create_view(view("bars", "select 1", None), false).unwrap();
    database.create_view(view("kept", "select price from quote", Some("quote")), false).unwrap();
    load_as(&database, "other.rows", &model::rows(9, 5, 0..1, 4));
    for (from, to, why) in [
        ("trade", "Quote", "a table has this name"),
        ("trade", "trade", "a table has this name"),
        ("trade", "BARS", "a view has this name"),
        ("trade", "Kept.Rows", "the rows of a materialized view"),
        ("trade", "a b", "only A-Z"),
        ("trade", "", "1 to 128 bytes"),
        ("trade", ".hidden", "begin with a dot"),
        ("trade", "views.json", "a file of the database"),
        ("nothing", "something", "no table \"nothing\""),
        ("quote", "quotes", "is read by the view kept"),
        ("trade", "Quote_Quarantine", "reserved"),
    ] {
        let error_text = error_text(rename(&database, from, to));
        assert!(error_text.contains(why), "{from} to {to}: {error_text}");
    }
    assert!(error_text(database.create_view(view("x_quarantine", "select 1", None), false)).contains("reserved"));
    assert!(error_text(database.rename_view("bars", "x_quarantine", |_| false)).contains("reserved"));
    let read = database.table("trade").unwrap().rename("trades", |view| view.name == "bars");
    assert!(error_text(read).contains("is read by the view bars: drop it, and create it again over \"trades\""));
    let read = database.table("quote").unwrap().rename("trades", |view| view.name == "bars");
    assert!(error_text(read).contains("the views bars, kept: drop them"));
    assert_eq!(database.tables().unwrap(), ["other.rows", "quote", "trade"], "nothing has changed");
    assert_eq!(database.table("trade").unwrap().stored().unwrap().epoch(), 1);
    rename(&database, "other.rows", "plain").unwrap();
    database.drop_view("kept", |_| false).unwrap();
    rename(&database, "trade", "kept.rows").unwrap();
    // And the other way round.
    let conflict = database.create_view(view("kept", "select price from quote", Some("quote")), false);
    assert!(error_text(conflict).contains("a name that is taken"));
}

#[test]
fn rows_of_a_materialized_view_keep_their_name() {
    let storage = loaded(&model::rows(8, 20, 0..1, 4));
    let database = database(&storage);
    load_as(&database, "kept.rows", &model::rows(9, 5, 0..1, 4));
    rename(&database, "kept.rows", "other").unwrap();
    let materialized = view("kept", "select price from trade", Some("trade"));
    database.create_view(materialized.clone(), false).unwrap();
    let spec = TableSpec { name: "kept.rows".to_owned(), ..model::trade() };
    database.keep_view(&materialized, &spec, None, &[]).unwrap().unwrap().commit().unwrap();
    assert!(error_text(rename(&database, "kept.rows", "mine")).contains("keeps the rows of the materialized view"));
    database.drop_materialized(&materialized, |_| false).unwrap();
    assert_eq!(database.tables().unwrap(), ["other", "trade"]);
}

#[test]
fn commits_of_before_are_read_and_undone() {
    let (first, second) = (model::rows(10, 80, 0..3, 4), model::rows(11, 40, 0..3, 4));
    let storage = loaded(&first);
    let database = database(&storage);
    load(&database, &second, LoadOptions::default()).unwrap();
    database.table("trade").unwrap().delete(smaller(300)).unwrap();
    rename(&database, "trade", "tape").unwrap();
    let tape = database.table("tape").unwrap();
    let (one, all) = (Model::new(first.clone()), Model::new(first).plus(&second));
    for (commit, model) in [(1, &one), (2, &all)] {
        let past = tape.at_commit(commit).unwrap();
        assert_eq!(past.spec().name, "tape");
        assert_eq!(read_snapshot(&past, &Selection::default()).unwrap(), model.batch());
    }
    let operations: Vec<&str> = tape.commits(10).unwrap().iter().map(|commit| commit.operation).collect();
    assert_eq!(operations, ["schema", "delete", "load", "load"]);
    assert!(matches!(tape.undo(4), Err(Error::CannotUndo { .. })), "it is given the name of before instead");
    tape.undo(3).unwrap();
    assert_eq!(stored(&tape), all.batch());
    tape.undo(2).unwrap();
    assert_eq!(tape.stored().unwrap().rows(), 80);
    tape.compact(&CompactOptions::default(), &mut go_on).unwrap();
    tape.add_column(ColumnSpec::new("venue", ColumnType::Symbol)).unwrap();
    tape.forget(true).unwrap();
    assert!(tape.verify(&mut go_on).unwrap().is_empty());
    assert_eq!(storage.paths(), expected_paths(&storage));
}

#[test]
fn dropped_tables_come_back_beside_others() {
    let (first, second) = (model::rows(12, 50, 0..2, 4), model::rows(13, 40, 0..2, 4));
    let storage = loaded(&first);
    let database = database(&storage);
    load_as(&database, "new", &second);
    let dropped = database.table("trade").unwrap().drop_table().unwrap();
    let dropped_table = database.dropped_table("trade").unwrap();
    rename(&database, "new", "trade").unwrap();
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(second.clone()).batch());
    let refused = error_text(dropped_table.undo(dropped));
    assert!(refused.contains("another table has its name now"), "{refused}");
    // Of two that were dropped under a name the last one is meant.
    let later = database.table("trade").unwrap().drop_table().unwrap();
    assert_eq!(database.tables().unwrap(), Vec::<String>::new());
    let last = database.dropped_table("TRADE").unwrap();
    assert_eq!((last.folder(), last.commits(1).unwrap()[0].commit), ("new", later));
    last.undo(later).unwrap();
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(second).batch());
    rename(&database, "trade", "new").unwrap();
    dropped_table.undo(dropped).unwrap();
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(first).batch());
    assert_eq!(open(&storage).unwrap().tables().unwrap(), ["new", "trade"]);
}

#[test]
fn a_renamed_table_is_dropped_and_made_anew_by_its_name() {
    let rows = model::rows(14, 50, 0..2, 4);
    let storage = loaded(&rows);
    let database = database(&storage);
    rename(&database, "trade", "tape").unwrap();
    let dropped = database.table("tape").unwrap().drop_table().unwrap();
    assert!(matches!(database.dropped_table("trade"), Err(Error::NoSuchTable { .. })));
    database.dropped_table("tape").unwrap().undo(dropped).unwrap();
    assert_eq!(read_table(&open(&storage).unwrap(), "tape").unwrap(), Model::new(rows.clone()).batch());
    database.table("tape").unwrap().drop_table().unwrap();
    load_as(&database, "tape", &rows[..10]);
    let tape = database.table("tape").unwrap();
    assert_eq!((tape.folder(), tape.stored().unwrap().rows()), ("trade", 10), "its commits go on");
    assert_eq!(read_snapshot(&tape.at_commit(1).unwrap(), &Selection::default()).unwrap(), Model::new(rows).batch());
}

/// What the journal has under a name is of the table that had it when the rows came.
#[test]
fn captured_rows_stay_with_the_table_that_took_them() {
    let storage = loaded(&model::rows(15, 20, 0..1, 4));
    let database = database(&storage);
    let captured = |sequence, cut| WriteDownPosition { sequence, cut };
    let of = |table: &str| database.table(table).unwrap().stored().unwrap().captured();
    database.write_down("trade", captured(7, 1_000), &[]).unwrap();
    assert_eq!(database.former("trade").unwrap(), None);
    rename(&database, "trade", "tape").unwrap();
    assert_eq!(database.former("Trade").unwrap(), Some(captured(7, 1_000)));
    assert_eq!((of("tape"), database.former("tape").unwrap()), (captured(7, 1_000), None));
    // Rows that come in under the new name are none of the old one.
    database.write_down("tape", captured(9, 2_000), &[]).unwrap();
    assert_eq!(database.former("trade").unwrap(), Some(captured(7, 1_000)));
    load(&database, &model::rows(16, 20, 0..1, 4), LoadOptions::default()).unwrap();
    assert_eq!(of("trade"), captured(7, 1_000), "made anew");
    database.write_down("trade", captured(12, 1_500), &[]).unwrap();
    rename(&database, "trade", "old").unwrap();
    load_as(&database, "new", &model::rows(17, 20, 0..1, 4));
    assert_eq!(of("new"), WriteDownPosition::default());
    rename(&database, "new", "TRADE").unwrap();
    assert_eq!(of("trade"), captured(12, 1_500), "renamed");
    let dropped = database.table("trade").unwrap().drop_table().unwrap();
    assert_eq!(database.former("trade").unwrap(), Some(captured(12, 1_500)));
    database.dropped_table("trade").unwrap().undo(dropped).unwrap();
    assert_eq!(of("trade"), captured(12, 1_500));
    // A new log has it, too.
    for number in 0.. {
        let column = ColumnSpec::new(format!("{number:0100}"), ColumnType::Bool);
        database.table("tape").unwrap().add_column(column).unwrap();
        if storage.paths().iter().any(|path| path == "trade/manifest/000002.log") {
            break;
        }
    }
    let again = open(&storage).unwrap();
    assert_eq!(again.tables().unwrap(), ["TRADE", "old", "tape"]);
    assert_eq!(again.former("trade").unwrap(), Some(captured(12, 1_500)));
    assert_eq!(again.table("tape").unwrap().stored().unwrap().captured(), captured(9, 2_000));
}

/// A damaged manifest says no name; the other tables have theirs.
#[test]
fn a_damaged_table_keeps_no_other_from_being_found() {
    let rows = model::rows(18, 30, 0..1, 4);
    let storage = loaded(&rows);
    let database = database(&storage);
    rename(&database, "trade", "tape").unwrap();
    load(&database, &rows, LoadOptions::default()).unwrap();
    let head = storage.read("trade/manifest/HEAD").unwrap();
    for at in 0..head.len() {
        let damaged = storage.copy();
        damaged.damage("trade/manifest/HEAD", |bytes| bytes[at] ^= 1).unwrap();
        let database = open(&damaged).unwrap();
        assert_eq!(read_table(&database, "trade").unwrap(), Model::new(rows.clone()).batch(), "byte {at}");
        assert_eq!(database.tables().unwrap(), ["trade"], "byte {at}");
        load_as(&database, "third", &rows);
    }
    for length in 0..head.len() {
        let damaged = storage.copy();
        damaged.damage("trade/manifest/HEAD", |bytes| bytes.truncate(length)).unwrap();
        assert!(open(&damaged).unwrap().table("tape").and_then(|table| table.stored()).is_err(), "{length} bytes");
    }
    // The log of one that is called otherwise.
    let damaged = storage.copy();
    damaged.damage("trade/manifest/000001.log", |bytes| bytes[40] ^= 1).unwrap();
    let database = open(&damaged).unwrap();
    assert_eq!(database.tables().unwrap(), ["tape", "trade"]);
    assert!(matches!(database.table("tape").unwrap().stored(), Err(Error::Corrupt { .. })));
    database.look_at_tables().unwrap();
    assert_eq!(database.damaged().len(), 1);
    assert!(matches!(rename(&database, "trade", "tape"), Err(Error::Name { .. })), "it has its name still");
}

#[test]
fn a_backup_after_a_rename_copies_the_manifest_alone() {
    let rows = model::rows(19, 60, 0..3, 4);
    let storage = loaded(&rows);
    let (database, at) = (database(&storage), FaultStorage::new());
    let back_up = || {
        let mut backup = BackupWriter::begin(Arc::new(at.clone()), 0).unwrap();
        backup.put_tables(&database, &database.commits().unwrap()).unwrap();
        backup.finish().unwrap()
    };
    back_up();
    rename(&database, "trade", "tape").unwrap();
    let report = back_up();
    assert_eq!(report.new_files, 2, "HEAD and the log");
    let (backup, to) = (Backup::read(&at).unwrap().unwrap(), FaultStorage::new());
    backup.verify(&at).unwrap();
    backup.restore(&at, &to).unwrap();
    let restored = open(&to).unwrap();
    assert_eq!(restored.tables().unwrap(), ["tape"]);
    assert_eq!(read_table(&restored, "tape").unwrap(), Model::new(rows).batch());
}

#[test]
fn a_folder_that_was_copied_by_hand_is_a_table_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let rows = model::rows(20, 30, 0..1, 4);
    load_as(&database, "trade", &rows);
    let mut open = vec![std::path::PathBuf::from("trade")];
    let (root, copy) = (folder.path().join("db"), folder.path().join("db/copy"));
    while let Some(path) = open.pop() {
        let to = copy.join(path.strip_prefix("trade").unwrap());
        if root.join(&path).is_dir() {
            std::fs::create_dir(&to).unwrap();
            open.extend(
                std::fs::read_dir(root.join(&path)).unwrap().map(|entry| path.join(entry.unwrap().file_name())),
            );
        } else {
            std::fs::copy(root.join(&path), to).unwrap();
        }
    }
    assert_eq!(database.tables().unwrap(), ["copy", "trade"]);
    let table = database.table("copy").unwrap();
    assert_eq!(table.stored().unwrap().spec().name, "copy");
    table.add_column(ColumnSpec::new("venue", ColumnType::Symbol)).unwrap();
    rename(&database, "copy", "third").unwrap();
    assert_eq!(database.tables().unwrap(), ["third", "trade"]);
    assert_eq!(read_table(&database, "trade").unwrap(), Model::new(rows).batch());
}

#[test]
fn views_get_other_names() {
    let storage = loaded(&model::rows(21, 20, 0..1, 4));
    let database = database(&storage);
    let query = "select price from trade";
    database.create_view(view("bars", query, None), false).unwrap();
    database.create_view(view("kept", query, Some("trade")), false).unwrap();
    database.create_view(view("above", "select * from bars", None), false).unwrap();
    let none = |_: &View| false;
    for (from, to, why) in [
        ("nothing", "x", "no view \"nothing\"; this database has above, bars, kept"),
        ("kept", "x", "is a materialized view"),
        ("bars", "Trade", "a table has this name"),
        ("bars", "ABOVE", "a view has this name"),
        ("bars", "kept.rows", "the rows of a materialized view"),
        ("bars", "a b", "only A-Z"),
    ] {
        let error_text = error_text(database.rename_view(from, to, none));
        assert!(error_text.contains(why), "{from} to {to}: {error_text}");
    }
    let read = database.rename_view("bars", "candles", |view| view.query.contains("bars"));
    assert!(error_text(read).contains("is read by other views, which name it: above"));
    database.rename_view("BARS", "candles", none).unwrap();
    database.rename_view("candles", "Candles", none).unwrap();
    let names: Vec<String> = open(&storage).unwrap().views().unwrap().iter().map(|view| view.name.clone()).collect();
    assert_eq!(names, ["Candles", "above", "kept"]);
    assert_eq!(database.view("candles").unwrap().unwrap().query, query);
}
