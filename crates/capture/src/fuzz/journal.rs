//! The journal after a start: damage is told and passed over, or cut off, and what is given was written, once, in its order.
//!
//! The first byte says what the rest is:
//! - a journal file as it is;
//! - contents of frames, which get their lengths and checksums here, behind a sound header;
//! - changes to a journal of two files that the journal's writer wrote: to bytes, and to whole frames.

use std::sync::{Arc, LazyLock};

use splay_mutate::Bytes;
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{ColumnSpec, ColumnType, TableSpec};

use super::batches;
use crate::codec;
use crate::error::{Error, Result};
use crate::journal::{self, FOLDER, JournalContent, JournalWriter, Producers, RowsToWrite, format};

/// Most changes to the sound journal.
const CHANGES_MAX: usize = 4;

/// A batch as it is compared: number, table, rows as bytes.
pub(crate) type BatchContent = (u64, String, Vec<u8>);

/// The target.
pub fn journal(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.below(4) {
        0 => drop(recover(&[bytes.rest().to_vec()])),
        1 => drop(recover(&[framed(&mut bytes)])),
        _ => changed(&mut bytes),
    }
}

/// A file of frames with any content.
fn framed(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut file = format::header(1, 1).to_vec();
    if !bytes.one_in(8) {
        SOUND.files[0].frames[..2].iter().for_each(|frame| file.extend_from_slice(frame));
    }
    while !bytes.is_empty() {
        // Some are sound frames, so that those behind them are reached.
        if bytes.one_in(4) {
            let frames = &SOUND.files[0].frames;
            file.extend_from_slice(&frames[bytes.below(frames.len())]);
        } else {
            let length = usize::from(bytes.byte());
            file.extend_from_slice(&frame(bytes.take(length)));
        }
    }
    file
}

/// A content with its length and checksum.
fn frame(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], &crc32c::crc32c(content).to_le_bytes(), content].concat()
}

/// The sound journal, changed: each batch at most once, none changed, in their order, messages whole.
fn changed(bytes: &mut Bytes<'_>) {
    let mut files: Vec<Vec<u8>> = SOUND.files.iter().map(SoundFile::bytes).collect();
    let count = bytes.below(CHANGES_MAX + 1);
    for _ in 0..count {
        let file = bytes.below(files.len());
        change(&mut files[file], &SOUND.files[file].frames, bytes);
    }
    let Some(replayed) = recover(&files) else { return };
    for (number, file) in SOUND.files.iter().enumerate() {
        let of_file: Vec<&BatchContent> = replayed.iter().filter(|batch| file.holds(batch.0)).collect();
        let mut written = file.batches.iter();
        assert!(of_file.iter().all(|batch| written.any(|other| other == *batch)), "file {number}: {of_file:?}");
        assert!(of_file.len() == file.batches.len() || files[number] != file.bytes(), "file {number} is whole");
    }
    let holds = |number: u64| replayed.iter().any(|batch| batch.0 == number);
    for together in [[2, 3].as_slice(), &[5, 6, 7]] {
        assert!(together.windows(2).all(|two| holds(two[0]) == holds(two[1])), "a part of a message: {together:?}");
    }
    assert!(replayed.iter().all(|batch| SOUND.files.iter().any(|file| file.holds(batch.0))), "a batch is invented");
}

/// Changes a file, which had these frames when it was sound.
fn change(file: &mut Vec<u8>, sound: &[Vec<u8>], bytes: &mut Bytes<'_>) {
    let what = bytes.below(10);
    let at = bytes.place(file.len().max(1)).min(file.len());
    let (mut frames, tail) = split(file);
    let (one, other) = (bytes.place(frames.len()), bytes.place(frames.len()));
    match what {
        0 if at < file.len() => file[at] ^= bytes.byte() | 1,
        1 => file.truncate(at),
        2 => file.insert(at, bytes.byte()),
        3 if at < file.len() => drop(file.remove(at)),
        4 => file.extend(std::iter::repeat_n(0, bytes.below(64))),
        5 => file.extend_from_slice(bytes.take(16)),
        // A whole frame twice, gone, elsewhere, or there as it once was.
        6 if !frames.is_empty() => {
            let copy = frames[one].clone();
            frames.insert(other, copy);
            *file = join(file, &frames, &tail);
        }
        7 if !frames.is_empty() => {
            frames.remove(one);
            *file = join(file, &frames, &tail);
        }
        8 if !frames.is_empty() => {
            frames.swap(one, other);
            *file = join(file, &frames, &tail);
        }
        _ => {
            frames.insert(one, sound[bytes.below(sound.len())].clone());
            *file = join(file, &frames, &tail);
        }
    }
}

/// Whole frames of a file, and what stands behind them.
pub(crate) fn split(file: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut frames = Vec::new();
    let mut rest = file.get(format::HEADER_BYTES..).unwrap_or_default();
    while let Some((_, length)) = format::content(rest) {
        frames.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    (frames, rest.to_vec())
}

fn join(file: &[u8], frames: &[Vec<u8>], tail: &[u8]) -> Vec<u8> {
    [&file[..format::HEADER_BYTES.min(file.len())], &frames.concat(), tail].concat()
}

/// The batches that a start reads from files; `None` if it reports damage. The files can be continued afterwards.
pub(crate) fn recover(files: &[Vec<u8>]) -> Option<Vec<BatchContent>> {
    let storage = stored(files);
    let (mut content, replayed) = match replay(&storage) {
        Ok(replayed) => replayed,
        Err(Error::Damaged { .. }) => return None,
        Err(other) => panic!("{other}"),
    };
    assert!(replayed.windows(2).all(|two| two[0].0 < two[1].0), "numbers don't rise");
    assert!(replayed.iter().all(|batch| batch.0 < content.next_sequence));
    assert!(content.settle(&storage).is_ok());
    assert_eq!(read(&storage, &content, &replayed), replayed);
    let (again, same) = replay(&storage).unwrap_or_else(|error| panic!("after it was recovered: {error}"));
    assert_eq!((again.torn, &same, again.next_sequence), (None, &replayed, content.next_sequence));
    assert_eq!(again.losses, [], "told twice");
    // Rows behind it come back behind it.
    let next = content.next_sequence;
    write(&storage, content, &[(next, false)]);
    let (_, more) = replay(&storage).unwrap_or_else(|error| panic!("after more was written: {error}"));
    assert_eq!(more[..replayed.len()], replayed);
    assert_eq!(more[replayed.len()..].iter().map(|batch| batch.0).collect::<Vec<_>>(), [next]);
    Some(replayed)
}

/// Reads as subscribers do. Where batches are lost they get an error, and go on behind the loss.
fn read(storage: &FaultStorage, content: &JournalContent, replayed: &[BatchContent]) -> Vec<BatchContent> {
    let mut read: Vec<BatchContent> = Vec::new();
    let mut after = 0;
    loop {
        let before = after;
        let was_read = journal::read(Arc::new(storage.clone()), &content.files, after, |batch| {
            read.push(content_of(&batch));
            Ok(())
        });
        match was_read {
            Ok(()) => return read,
            Err(Error::Damaged { .. }) => {}
            Err(ref other) => panic!("{other}"),
        }
        let last = read.last().map_or(0, |batch| batch.0);
        let next = replayed.iter().find(|batch| batch.0 > last).map_or(u64::MAX - 1, |batch| batch.0);
        after = next - 1;
        assert!(after > before, "what is there behind batch {before} can't be read: {was_read:?}");
    }
}

pub(crate) fn replay(storage: &FaultStorage) -> Result<(JournalContent, Vec<BatchContent>)> {
    let mut replayed = Vec::new();
    let content = journal::replay(
        storage,
        &Vec::new,
        |_, _, _| true,
        |batch| {
            replayed.push(content_of(&batch));
            Ok(())
        },
    )?;
    Ok((content, replayed))
}

fn content_of(batch: &journal::JournalBatch) -> BatchContent {
    let mut rows = Vec::new();
    codec::encode(&batch.rows, &mut rows);
    (batch.sequence, batch.spec.name.clone(), rows)
}

/// Files in memory, numbered from 1.
pub(crate) fn stored(files: &[Vec<u8>]) -> FaultStorage {
    let storage = FaultStorage::new();
    let written = storage.create_dir(FOLDER).and_then(|()| {
        for (number, bytes) in (1..).zip(files) {
            let mut file = storage.create(&format!("{FOLDER}/{number:08}.jnl"))?;
            file.write(bytes)?;
            file.sync()?;
        }
        Ok(())
    });
    assert!(written.is_ok(), "{written:?}");
    storage
}

/// A journal that the journal's writer wrote.
pub(crate) struct SoundJournal {
    pub(crate) files: Vec<SoundFile>,
}

pub(crate) struct SoundFile {
    header: Vec<u8>,
    pub(crate) frames: Vec<Vec<u8>>,
    batches: Vec<BatchContent>,
}

impl SoundFile {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.header.clone(), self.frames.concat()].concat()
    }

    fn holds(&self, sequence: u64) -> bool {
        self.batches.iter().any(|batch| batch.0 == sequence)
    }
}

pub(crate) static SOUND: LazyLock<SoundJournal> = LazyLock::new(|| {
    let storage = stored(&[]);
    let Ok((mut begin, _)) = replay(&storage) else { panic!("there is nothing yet") };
    assert!(begin.settle(&storage).is_ok());
    // The second file begins where the first is full.
    write(
        &storage,
        begin,
        &[(1, false), (2, true), (3, false), (4, false), (5, true), (6, true), (7, false), (8, false)],
    );
    let Ok((content, replayed)) = replay(&storage) else { panic!("a sound journal is read") };
    let file = |number: usize| {
        let first = content.files[number].first;
        let end = content.files.get(number + 1).map_or(u64::MAX, |next| next.first);
        let bytes = storage.read(&format!("{FOLDER}/{:08}.jnl", number + 1)).unwrap_or_default();
        let (frames, tail) = split(&bytes);
        assert!(tail.is_empty());
        let replayed = replayed.iter().filter(|batch| (first..end).contains(&batch.0)).cloned().collect();
        SoundFile { header: bytes[..format::HEADER_BYTES].to_vec(), frames, batches: replayed }
    };
    assert_eq!((content.files.len(), replayed.len()), (2, 8));
    SoundJournal { files: vec![file(0), file(1)] }
});

/// Writes batches of several tables, with distinct rows, as the tickerplant does. Each batch has a number, and a flag whether it counts only
/// together with the next.
fn write(storage: &FaultStorage, content: JournalContent, batches: &[(u64, bool)]) {
    let mut producers = Producers::new();
    producers.insert("feed".to_owned(), (content.next_sequence, 7));
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let next = content.next_sequence;
    let begun = JournalWriter::begin(storage, content, next, &producers, 1_500);
    let mut writer = begun.unwrap_or_else(|error| panic!("{error}"));
    for together in batches.split_inclusive(|(_, is_joined)| !is_joined) {
        let first = together[0].0;
        let rows: Vec<(Arc<TableSpec>, Vec<u8>)> = together.iter().map(|(number, _)| batch(*number)).collect();
        let mut entries = Vec::new();
        for ((number, is_joined), (spec, rows)) in together.iter().zip(&rows) {
            let producer = if number % 2 == 0 { ("feed", *number) } else { ("", 0) };
            let (sequence, is_joined, received, times) = (*number, *is_joined, 17, (0, 99));
            entries.push(RowsToWrite { spec, sequence, received, times, producer, is_joined, rows });
        }
        let written = writer.next_file_if_full(first, &producers).and_then(|()| writer.write(&entries));
        assert!(written.is_ok(), "{written:?}");
    }
    assert!(writer.sync().is_ok());
}

/// A batch of one of three tables, of which one is another after some time.
fn batch(number: u64) -> (Arc<TableSpec>, Vec<u8>) {
    let column = |name: &str, column_type| ColumnSpec::new(name, column_type);
    let mut columns = vec![column("time", ColumnType::Timestamp), column("sym", ColumnType::Symbol)];
    let name = ["trade", "quote"][usize::from(number.is_multiple_of(3))];
    if number > 3 {
        columns.push(column("note", ColumnType::Text));
    }
    let spec = TableSpec::new(name, columns, "time", Some("sym"));
    let seed: Vec<u8> = (0..96).map(|at| (number * 7 + at * 5).to_le_bytes()[0]).collect();
    let mut rows = Vec::new();
    codec::encode(&batches::rows_of(&spec, &mut Bytes::new(&seed)), &mut rows);
    (Arc::new(spec), rows)
}

#[cfg(test)]
mod tests {
    use splay_mutate::{Random, Run};

    #[test]
    fn a_damaged_journal_is_told_or_cut_and_gives_nothing_twice() {
        let mut random = Random::new(11);
        let mut samples: Vec<Vec<u8>> = (0..64).map(|_| (0..24).map(|_| random.byte()).collect()).collect();
        samples.extend(super::SOUND.files.iter().map(|file| [vec![0], file.bytes()].concat()));
        Run { inputs: 10_000, memory: super::super::MEMORY, ..Run::default() }.feed(&samples, super::journal);
    }
}
