//! The file of dead letters: each record once, whatever a crash leaves.

use super::*;

fn letter(offset: u64, payload: &[u8]) -> DeadLetter<'_> {
    DeadLetter { topic: "t", partition: Some(1), offset, key: None, payload, reason: "why" }
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_record_is_there_once_and_what_a_crash_cut_off_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dead.jsonl");
    let file = DeadLetterFile::open(&path, |_, _, _| true).unwrap();
    assert!(DeadLetterFile::open(&path, |_, _, _| true).unwrap_err().contains("another feed has it"));
    file.write(&letter(4, b"a\nb")).unwrap();
    file.write(&letter(5, &[0xff])).unwrap();
    drop(file);
    let whole = std::fs::read(&path).unwrap();
    for cut in 1..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        // Records before the position won't come again.
        let file =
            DeadLetterFile::open(&path, |topic, partition, offset| (topic, partition) == ("t", Some(1)) && offset >= 4)
                .unwrap();
        file.write(&letter(4, b"a\nb")).unwrap();
        file.write(&letter(5, &[0xff])).unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), whole, "{cut}");
    }
    let letters = lines(&path);
    assert_eq!((letters[0]["value"].as_str(), letters[1]["value_base64"].as_str()), (Some("a\nb"), Some("/w==")));
}

/// The line and all behind it were cut off as the rest of a crash.
#[test]
fn a_file_with_a_line_beyond_the_limit_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dead.jsonl");
    let file = DeadLetterFile::open(&path, |_, _, _| true).unwrap();
    file.write(&letter(4, b"short")).unwrap();
    file.write(&letter(5, &[b'x'; 400])).unwrap();
    file.write(&letter(6, b"short")).unwrap();
    drop(file);
    let whole = std::fs::read(&path).unwrap();
    let refusal = DeadLetterFile::open_with(&path, |_, _, _| true, 300).unwrap_err();
    assert!(refusal.contains("begins a line of more than 300 bytes"), "{refusal}");
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    DeadLetterFile::open_with(&path, |_, _, _| true, 600).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}

#[test]
fn a_file_of_something_else_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    std::fs::write(&path, "not ours\n").unwrap();
    assert!(DeadLetterFile::open(&path, |_, _, _| true).unwrap_err().contains("byte 0 begins no line of dead letters"));
    assert_eq!(std::fs::read(&path).unwrap(), b"not ours\n");
}

#[test]
fn a_feed_without_partitions_is_named_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dead.jsonl");
    let file = DeadLetterFile::open(&path, |_, _, _| false).unwrap();
    file.write(&DeadLetter { topic: "venue/trade", partition: None, ..letter(3, b"x") }).unwrap();
    assert_eq!(file.bytes(), std::fs::metadata(&path).unwrap().len());
    drop(file);
    assert_eq!(lines(&path)[0]["feed"].as_str(), Some("venue/trade"));
    DeadLetterFile::open(&path, |_, _, _| false).unwrap();
}
