//! What the command says of a journal that has lost something, until the operator accepts it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that isn't there yet.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(std::fs::remove_dir_all(&folder));
    folder
}

/// Whether it went well, and what it said.
fn splay(arguments: &[&str], input: &str) -> (bool, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_splay"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let output = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(output).unwrap())
}

/// A database with some captured batches.
fn captured(name: &str) -> PathBuf {
    let database = folder(name);
    // Each batch has another symbol than the one before.
    let line = |n: i64| format!("{},{},{n}\n", 1_767_364_200_000_000_000 + n, ["AIG", "IBM"][usize::from(n % 40 > 20)]);
    let lines: String = (1..=400).map(line).collect();
    let path = database.to_str().unwrap();
    let types = ["--type", "time=timestamp", "--type", "sym=symbol", "--type", "price=float64"];
    let write = ["tick", "write", path, "trade", "--format", "csv", "--batch-rows", "20", "--producer", "feed"];
    let (is_done, output) = splay(&[&write[..], &types].concat(), &format!("time,sym,price\n{lines}"));
    assert!(is_done, "{output}");
    database
}

fn newest(database: &Path) -> PathBuf {
    let entries = std::fs::read_dir(database.join(".journal")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "jnl")).max().unwrap()
}

#[test]
fn damage_is_shown_and_accepted() {
    let database = captured("damage");
    let path = database.to_str().unwrap();
    let (is_sound, output) = splay(&["verify", path], "");
    assert!(is_sound && output.contains("journal: 1 file,"), "{output}");
    let (_, output) = splay(&["journal", "inspect", path], "");
    assert!(
        output.contains("catalog   sound") && output.contains("00000001.jnl") && output.contains("400"),
        "{output}"
    );
    let file = newest(&database);
    let mut bytes = std::fs::read(&file).unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 4;
    std::fs::write(&file, bytes).unwrap();

    let (is_sound, output) = splay(&["verify", path], "");
    assert!(!is_sound && output.contains("00000001.jnl is damaged from byte"), "{output}");
    let (_, output) = splay(&["journal", "inspect", path], "");
    assert!(output.contains("lost, and not listed yet"), "{output}");
    let (is_started, output) = splay(&["roll", path], "");
    assert!(is_started && output.contains("the journal has lost something: 00000001.jnl is damaged"), "{output}");
    let (_, output) = splay(&["tick", "status", path], "");
    assert!(output.contains("1 loss of the journal"), "{output}");
    let (_, output) = splay(&["journal", "inspect", path, "--format", "json"], "");
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (&report["losses"][0]["kind"], &report["losses_found"]),
        (&"damaged".into(), &serde_json::json!([])),
        "{report}"
    );
    assert!(!splay(&["verify", path], "").0);
    let (is_done, output) = splay(&["journal", "accept", path], "");
    assert!(is_done && output.contains("accepted 1 loss"), "{output}");
    let (is_sound, output) = splay(&["verify", path], "");
    assert!(is_sound, "{output}");
    // Readers pass over it, too. The batch's rows are in the table's files.
    let (_, output) = splay(&["sql", path, "select count(*) from trade", "--format", "csv"], "");
    assert!(output.contains("400"), "{output}");
}

/// What a start cut off is no dead end.
#[test]
fn what_was_set_aside_is_read_and_loaded() {
    let database = captured("aside");
    let path = database.to_str().unwrap();
    let file = newest(&database);
    let name = "00000001.jnl.torn";
    // All of the file, of which the journal has nothing afterwards.
    std::fs::copy(&file, database.join(".journal").join(name)).unwrap();
    std::fs::remove_file(&file).unwrap();
    let (_, output) = splay(&["journal", "recover", path, "--from", name], "");
    assert!(output.contains("20 whole batches") && output.contains("\"feed\""), "{output}");
    let out = folder("aside_out");
    let (is_done, output) = splay(&["journal", "recover", path, "--from", name, "--to", out.to_str().unwrap()], "");
    assert!(is_done && output.contains("wrote 400 rows of trade"), "{output}");
    let arrow = out.join("trade.1.arrow");
    let other = folder("aside_loaded");
    let load = ["load", other.to_str().unwrap(), "trade", arrow.to_str().unwrap(), "--time", "time", "--symbol", "sym"];
    let (is_done, output) = splay(&load, "");
    assert!(is_done, "{output}");
    let (_, output) = splay(&["sql", other.to_str().unwrap(), "select sum(price) from trade", "--format", "csv"], "");
    assert!(output.contains("80200"), "{output}");
    // Rows that were written down before aren't stored again.
    let (is_done, output) = splay(&["journal", "recover", path, "--from", name, "--store"], "");
    assert!(is_done && output.contains("stored 0 rows of 0 batches"), "{output}");
    assert_eq!(output.matches("later rows of trade were written down").count(), 20, "{output}");
    let (_, output) = splay(&["sql", path, "select count(*), sum(price) from trade", "--format", "csv"], "");
    assert!(output.contains("400,80200"), "{output}");
    // Also without its header, and the frames that describe its tables.
    let bytes = std::fs::read(database.join(".journal").join(name)).unwrap();
    let tail = database.join(".journal/tail.torn");
    std::fs::write(&tail, &bytes[bytes.len() / 2..]).unwrap();
    let (_, output) = splay(&["journal", "recover", path, "--from", tail.to_str().unwrap()], "");
    assert!(output.contains("whole batches") && !output.contains("\n0 whole"), "{output}");
}

/// Before, `/ready` said `ready`.
#[test]
fn a_server_that_misses_a_journal_file_says_so() {
    let database = captured("missing");
    let path = database.to_str().unwrap();
    std::fs::remove_file(newest(&database)).unwrap();
    let (is_sound, output) = splay(&["verify", path], "");
    assert!(!is_sound && output.contains("00000001.jnl is missing"), "{output}");
    let mut server = Command::new(env!("CARGO_BIN_EXE_splay"))
        .args(["serve", path, "--http", "127.0.0.1:0", "--flight", "off", "--line", "off"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| Some(line.unwrap().split_once("http://")?.1.to_owned())).unwrap();
    let get = |what: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET {what} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let (ready, metrics, (is_accepted, output)) =
        (get("/ready"), get("/metrics"), splay(&["journal", "accept", path], ""));
    let (is_sound, while_running) = splay(&["verify", path], "");
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(
        ready.contains("200 OK") && ready.contains("degraded") && ready.contains("\"journal_losses\":1"),
        "{ready}"
    );
    assert!(metrics.contains("splay_capture_journal_losses{} 1"), "{metrics}");
    assert!(!is_accepted && output.contains("stop the server first"), "{output}");
    assert!(!is_sound && while_running.contains("is missing"), "{while_running}");
}

/// Segments that are linked are the database's own files; the next backup takes them over, and what is restored is a copy.
#[test]
fn a_backup_of_links_shares_its_segments_with_the_database() {
    use std::os::unix::fs::MetadataExt;

    let database = captured("linked");
    let path = database.to_str().unwrap();
    assert!(splay(&["roll", path], "").0);
    let (backup, again) = (folder("linked_backup"), folder("linked_restored"));
    let (is_done, output) = splay(&["backup", path, backup.to_str().unwrap(), "--link"], "");
    assert!(is_done && output.contains("of the new files are the database's own"), "{output}");
    let segments = |folder: &Path| -> Vec<u64> {
        let dates = std::fs::read_dir(folder.join("trade")).unwrap().map(|entry| entry.unwrap().path());
        let dates = dates.filter(|date| date.file_name().unwrap().to_str().unwrap().starts_with("date="));
        let files = dates.flat_map(|date| std::fs::read_dir(date).unwrap());
        let mut numbers: Vec<u64> = files.map(|file| file.unwrap().metadata().unwrap().ino()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert!(!segments(&database).is_empty());
    assert_eq!(segments(&database), segments(&backup.join("000001")));
    let (is_done, output) = splay(&["backup", path, backup.to_str().unwrap()], "");
    assert!(is_done && output.contains("backup 2"), "{output}");
    assert_eq!(segments(&database), segments(&backup.join("000002")), "taken over");
    assert!(splay(&["restore", backup.to_str().unwrap(), again.to_str().unwrap()], "").0);
    assert!(segments(&again).iter().all(|number| !segments(&database).contains(number)));
    let copies = folder("copied_backup");
    assert!(splay(&["backup", path, copies.to_str().unwrap()], "").0);
    assert!(segments(&copies.join("000001")).iter().all(|number| !segments(&database).contains(number)));
}
