//! What `splay sql` makes of a folder without a database.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that isn't there yet.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(std::fs::remove_dir_all(&folder));
    folder
}

/// Whether it went well, its rows, and what it said besides.
fn sql(folder: &Path, text: &str) -> (bool, String, String) {
    let arguments = ["sql", folder.to_str().unwrap(), text, "--format", "table"];
    let done = Command::new(env!("CARGO_BIN_EXE_splay")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.success(), text(done.stdout), text(done.stderr))
}

const CREATE: &str = "create table trade (time timestamp, sym symbol, price double)";

#[test]
fn create_table_makes_the_database_of_an_absent_or_empty_folder() {
    for (name, is_there) in [("sql-absent", false), ("sql-empty", true)] {
        let folder = folder(name);
        if is_there {
            std::fs::create_dir_all(&folder).unwrap();
        }
        let text = format!(
            "/* the first */ {CREATE}; insert into trade values ('2024-03-01 10:00', 'A', 1.5); select sym from trade"
        );
        let (is_done, rows, said) = sql(&folder, &text);
        assert!(is_done && rows.contains("| A"), "{rows}{said}");
        assert!(said.contains("created the database"), "{said}");
        // What is there stays.
        let (is_done, _, said) = sql(&folder, "create table if not exists trade (time timestamp)");
        assert!(is_done && !said.contains("created the database"), "{said}");
        let (is_done, rows, said) = sql(&folder, "select count(*) from trade");
        assert!(is_done && rows.contains("| 1"), "{rows}{said}");
    }
}

#[test]
fn other_statements_make_no_database_and_the_error_names_the_ways() {
    let folder = folder("sql-none");
    let others = [
        "select 1",
        "insert into trade values ('2024-03-01 10:00', 'A', 1.5)",
        "create view v as select 1",
        "create table trade (time timestamp, price nonsense)",
        "select 1; create table trade (time timestamp)",
    ];
    for text in others {
        let (is_done, _, said) = sql(&folder, text);
        assert!(!is_done && said.contains("is not a SplayDB database"), "{text}: {said}");
        for way in ["splay load", "splay serve", "create table", "splay.open"] {
            assert!(said.contains(way), "{text}: {said}");
        }
        assert!(!folder.exists(), "{text}");
    }
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    let folder = folder("sql-other");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("notes.txt"), "x").unwrap();
    let (is_done, _, said) = sql(&folder, CREATE);
    assert!(!is_done && said.contains("notes.txt") && said.contains("empty folder"), "{said}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}
