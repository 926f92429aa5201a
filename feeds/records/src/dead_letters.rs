//! Dead letters: records that are no rows, as lines of a file, each with its origin and the reason.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// The longest line that is read. A file with a longer one is refused, so that nothing of it is taken for the rest of a crash and cut off.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// A record that is no row.
#[derive(Debug, Clone, Copy)]
pub struct DeadLetter<'a> {
    /// Its topic, or its feed where there are no partitions.
    pub topic: &'a str,
    /// Its partition, where there are such.
    pub partition: Option<i32>,
    /// Its number within the partition or feed.
    pub offset: u64,
    /// Its key, where it is known.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub payload: &'a [u8],
    /// Why it is no row.
    pub reason: &'a str,
}

/// A store of dead letters.
pub trait DeadLetters: Send + Sync {
    /// Writes one durably.
    ///
    /// # Errors
    /// Why it may not be written. It is to be written again then.
    fn write(&self, letter: &DeadLetter<'_>) -> Result<(), String>;
}

/// A store that takes none, for feeds that stop before the first bad record.
#[derive(Debug)]
pub struct NoDeadLetters;

impl DeadLetters for NoDeadLetters {
    fn write(&self, _: &DeadLetter<'_>) -> Result<(), String> {
        Err("there is no place for dead letters".to_owned())
    }
}

/// A file of JSON lines. A record that is read again after a start isn't written a second time.
#[derive(Debug)]
pub struct DeadLetterFile {
    path: PathBuf,
    state: Mutex<FileState>,
}

#[derive(Debug)]
struct FileState {
    file: File,
    /// The end of the last whole line.
    end: u64,
    /// Topic, partition and offset of the records that may be read again: those of the file that aren't before their partition's position.
    written: HashSet<(String, Option<i32>, u64)>,
}

impl DeadLetterFile {
    /// Opens or makes the file, and finds the records in it that may be read again, which `may_come_again` tells from topic, partition and
    /// offset. Removes a last line that a crash has cut off.
    ///
    /// # Errors
    /// Those of the operating system; a line that is no dead letter.
    pub fn open(
        path: &Path,
        may_come_again: impl Fn(&str, Option<i32>, u64) -> bool,
    ) -> Result<DeadLetterFile, String> {
        DeadLetterFile::open_with(path, may_come_again, LINE_BYTES_MAX)
    }

    fn open_with(
        path: &Path,
        may_come_again: impl Fn(&str, Option<i32>, u64) -> bool,
        line_bytes_max: u64,
    ) -> Result<DeadLetterFile, String> {
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
                reader.by_ref().take(line_bytes_max).read_until(b'\n', &mut line).map_err(|error| with_path(&error))?;
            if line.last() != Some(&b'\n') {
                if read as u64 == line_bytes_max {
                    return Err(with_path(&format!("byte {end} begins a line of more than {line_bytes_max} bytes")));
                }
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
            if may_come_again(topic, partition, offset) {
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
        // An attempt that failed may have left a part of a line.
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

/// A letter as JSON. Bytes that are no UTF-8 are in base64.
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
