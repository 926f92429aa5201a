//! Records that are no rows: lines of a file, with where they are from and why.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// A line longer than this is none of ours.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// A record that is no row.
#[derive(Debug, Clone, Copy)]
pub struct DeadLetter<'a> {
    /// What it is of: a topic, or a feed that has no partitions.
    pub topic: &'a str,
    /// Its partition, where there are such.
    pub partition: Option<i32>,
    /// Its number within the partition or feed.
    pub offset: u64,
    /// Its key, where it is known.
    pub key: Option<&'a [u8]>,
    /// What it holds.
    pub payload: &'a [u8],
    /// What is wrong with it.
    pub reason: &'a str,
}

/// Where dead letters go.
pub trait DeadLetters: Send + Sync {
    /// Writes one, so that it survives what happens next.
    ///
    /// # Errors
    /// Why it isn't written, or may not be.
    fn write(&self, letter: &DeadLetter<'_>) -> Result<(), String>;
}

/// None, where the feed stops before the first.
#[derive(Debug)]
pub struct NoDeadLetters;

impl DeadLetters for NoDeadLetters {
    fn write(&self, _: &DeadLetter<'_>) -> Result<(), String> {
        Err("there is no place for dead letters".to_owned())
    }
}

/// A file of JSON lines. A record is in it once: one that is read again after a start is known.
#[derive(Debug)]
pub struct DeadLetterFile {
    path: PathBuf,
    state: Mutex<FileState>,
}

#[derive(Debug)]
struct FileState {
    file: File,
    /// Where the last whole line ends.
    end: u64,
    /// Digests would do; there are as many as there are bad records behind the positions of their partitions.
    written: HashSet<(String, Option<i32>, u64)>,
}

impl DeadLetterFile {
    /// Opens or makes the file, and learns which records are in it behind the positions of their partitions, as `is_behind` says of topic,
    /// partition and offset. A line that a crash has cut off is removed.
    ///
    /// # Errors
    /// What the operating system says; lines that are none of ours.
    pub fn open(path: &Path, is_behind: impl Fn(&str, Option<i32>, u64) -> bool) -> Result<DeadLetterFile, String> {
        let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = opened.map_err(|error| with_path(&error))?;
        // Two feeds with one file would cut each other's lines.
        file.try_lock().map_err(|error| with_path(&format!("another feed has it: {error}")))?;
        let (mut end, mut written) = (0, HashSet::new());
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read =
                reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(|error| with_path(&error))?;
            if read == 0 || line.last() != Some(&b'\n') {
                break;
            }
            let letter: serde_json::Value = serde_json::from_slice(&line)
                .map_err(|error| with_path(&format!("byte {end} begins no line of dead letters: {error}")))?;
            let topic = letter["topic"].as_str().or(letter["feed"].as_str());
            let (Some(topic), Some(offset)) = (topic, letter["offset"].as_u64()) else {
                return Err(with_path(&format!("byte {end} begins no line of dead letters")));
            };
            let partition =
                letter["partition"].as_i64().map(i32::try_from).transpose().map_err(|error| with_path(&error))?;
            if is_behind(topic, partition, offset) {
                written.insert((topic.to_owned(), partition, offset));
            }
            end += read as u64;
        }
        drop(reader);
        file.set_len(end).and_then(|()| file.sync_all()).map_err(|error| with_path(&error))?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| with_path(&error))?;
        }
        Ok(DeadLetterFile { path: path.to_owned(), state: Mutex::new(FileState { file, end, written }) })
    }
}

impl DeadLetterFile {
    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).end
    }
}

impl DeadLetters for DeadLetterFile {
    fn write(&self, letter: &DeadLetter<'_>) -> Result<(), String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.written.contains(&(letter.topic.to_owned(), letter.partition, letter.offset)) {
            return Ok(());
        }
        let mut line = json(letter).to_string();
        line.push('\n');
        let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", self.path.display());
        // What an attempt left that failed midway.
        let end = state.end;
        if state.file.seek(SeekFrom::End(0)).map_err(|error| with_path(&error))? != end {
            state.file.set_len(end).map_err(|error| with_path(&error))?;
        }
        state
            .file
            .write_all(line.as_bytes())
            .and_then(|()| state.file.sync_data())
            .map_err(|error| with_path(&error))?;
        state.end += line.len() as u64;
        Ok(())
    }
}

/// A letter as JSON. What is no text is in base64.
fn json(letter: &DeadLetter<'_>) -> serde_json::Value {
    let mut line = match letter.partition {
        Some(partition) => json!({ "topic": letter.topic, "partition": partition }),
        None => json!({ "feed": letter.topic }),
    };
    line["offset"] = json!(letter.offset);
    line["reason"] = json!(letter.reason);
    let mut add = |name: &str, bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => line[name] = json!(text),
        Err(_) => line[format!("{name}_base64")] = json!(STANDARD.encode(bytes)),
    };
    add("value", letter.payload);
    if let Some(key) = letter.key {
        add("key", key);
    }
    line
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
