//! What the command makes of folders without a database, of files and addresses in their place, and of rows, dates and commits that aren't there.
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

/// Regression: `splay load http://127.0.0.1:7750 trade trades.csv` loaded into the folder `http:`.
#[test]
fn an_address_is_no_folder() {
    let folder = folder("sql-address");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("trades.csv"), "time,sym,price\n2024-03-01 10:00:00,A,1.5\n").unwrap();
    let run = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_splay")).current_dir(&folder).args(arguments).output().unwrap();
        (done.status.success(), String::from_utf8(done.stderr).unwrap())
    };
    let (is_done, said) = run(&["load", "market", "trade", "trades.csv"]);
    assert!(is_done, "{said}");
    let server = "http://127.0.0.1:17750";
    let refused: &[&[&str]] = &[
        &["load", server, "trade", "trades.csv"],
        &["load", server, "trade", "trades.csv", "--dry-run"],
        &["tables", server],
        &["describe", server, "trade"],
        &["verify", server],
        &["serve", server],
        &["roll", server],
        &["compact", server, "trade"],
        &["maintain", server],
        &["loads", "ftp://host", "trade"],
        &["undo", "ftp://host", "trade", "1"],
        &["delete", server, "trade", "--date", "2024-03-01"],
        &["alter", server, "trade", "rename", "quote"],
        &["journal", "inspect", server],
        &["audit", "verify", server],
        &["backup", server, "copy"],
        &["backup", "market", "https://host/copy"],
        &["backup", "--verify", server],
        &["restore", server, "copy"],
        &["export", server, "trade", "--to", "files"],
        &["export", "market", "trade", "--to", "s3://bucket/files"],
        &["export", "market", "trade", "--to", "s3://bucket/files", "--format", "csv"],
        &["gen", "taq", "--out", "s3://bucket/taq"],
        &["sql", "ftp://host", "select 1"],
        &["sql", "ftp://host", CREATE],
    ];
    for arguments in refused {
        let (is_done, said) = run(arguments);
        assert!(!is_done && said.contains("is an address, and this takes a folder"), "{arguments:?}: {said}");
        assert!(said.contains("`splay sql`") && said.contains("`splay undo`"), "{arguments:?}: {said}");
    }
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["market", "trades.csv"]);
}

#[test]
fn a_file_and_an_address_without_its_scheme_are_no_folders() {
    let folder = folder("sql-file");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("t.csv");
    std::fs::write(&file, "time,price\n2024-03-04,1\n").unwrap();
    for text in ["select 1", CREATE] {
        let (is_done, _, said) = sql(&file, text);
        assert!(!is_done && said.contains("is a file, and a database is a folder"), "{said}");
        let (is_done, _, said) = sql(Path::new("127.0.0.1:7750"), text);
        assert!(!is_done && said.contains("http://127.0.0.1:7750"), "{said}");
        assert!(!Path::new("127.0.0.1:7750").exists());
    }
}

/// What another command prints.
fn splay(arguments: &[&str]) -> (bool, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_splay")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.success(), text(done.stdout), text(done.stderr))
}

#[test]
fn dates_are_those_of_the_rows_and_refusals_say_why() {
    let folder = folder("sql-dates");
    let text = "create table bar (time timestamp, sym symbol) partition by year; \
                insert into bar values ('2017-09-05 10:00', 'A'), ('2023-09-06 11:00', 'B'); \
                create table venue (mic symbol primary key, name text)";
    let (is_done, _, said) = sql(&folder, text);
    assert!(is_done, "{said}");
    let database = folder.to_str().unwrap();
    let (_, listed, said) = splay(&["tables", database]);
    assert!(listed.contains("2017-09-05 to 2023-09-06"), "{listed}{said}");
    let (is_done, _, said) = splay(&["delete", database, "venue", "--date", "2024-03-04"]);
    assert!(!is_done && said.contains("venue is a reference table, which has no dates"), "{said}");
    let (_, deleted, said) = splay(&["delete", database, "bar", "--symbols", "a"]);
    assert!(deleted.contains("no row matches; nothing has changed (ibm and IBM are two symbols)"), "{deleted}{said}");
    let (is_done, _, said) = splay(&["delete", database, "bar", "--date", "2024-03-09..2024-03-01"]);
    assert!(!is_done && said.contains("ends before it begins: write 2024-03-01..2024-03-09"), "{said}");
    let (is_done, _, said) = splay(&["undo", database, "bar", "99"]);
    assert!(!is_done && said.contains("there is none of that number: the last is"), "{said}");
    let (is_done, _, said) = sql(&folder, "select * from bar at time '2001-01-01'");
    assert!(
        !is_done && said.contains("can be read as it was after commits") && said.contains("not before them"),
        "{said}"
    );
    let file = folder.with_extension("txt");
    std::fs::write(&file, "x").unwrap();
    let (is_done, _, said) = splay(&["export", database, "bar", "--to", file.to_str().unwrap()]);
    assert!(!is_done && said.contains("is a file: --to names a folder"), "{said}");
}

#[test]
fn an_undo_without_rows_says_what_is_back() {
    let folder = folder("sql-undo");
    let database = folder.to_str().unwrap();
    let undone = |statement: &str, commit: &str, outcome: &str| {
        let (is_done, _, said) = sql(&folder, statement);
        assert!(is_done, "{statement}: {said}");
        let (_, told, said) = splay(&["undo", database, "bar", commit]);
        assert!(told.contains(&format!("commit {commit} undone by")) && told.contains(outcome), "{told}{said}");
    };
    undone("create table bar (time timestamp, price float64)", "1", "no row came back, and none went");
    undone("alter table bar drop column price", "3", "column price is back");
    undone("drop table bar", "5", "the table is back, which has no rows");
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
