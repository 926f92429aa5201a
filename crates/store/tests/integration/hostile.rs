//! Files whose checksums are right and whose content is anything: reading gives an error or rows, never a panic.
//!
//! Checksums find what a disk did. A database that comes from somebody else may hold any bytes with sums that fit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, Error, Result, Selection, Tier};

use crate::damage::{base, questions, summaries};
use crate::model::{go_on, open, read_snapshot, rng};
use crate::random::plain;

const LOG: &str = "trade/manifest/000001.log";
const HEAD: &str = "trade/manifest/HEAD";
const LOG_HEADER: usize = 16;
const INDEX_HEADER: usize = 64;
const INDEX_ENTRY: usize = 32;
const CHECKSUM_BLOCK: usize = 64 * 1024;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

/// Numbers at which arithmetic goes wrong.
fn awkward(rng: &mut ChaCha8Rng) -> u64 {
    let near = [0, 1, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX, 1 << 40, 1024];
    near.choose(rng).unwrap().wrapping_add(rng.random_range(0..3)).wrapping_sub(1)
}

/// A few changes of any kind.
fn edit(rng: &mut ChaCha8Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.random_range(0..bytes.len());
        let length = rng.random_range(1..=64).min(bytes.len() - at);
        match rng.random_range(0..8) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = rng.random_range(0..=255),
            2 | 3 => {
                let number = awkward(rng).to_le_bytes();
                let width = (bytes.len() - at / 4 * 4).min(if rng.random_bool(0.5) { 4 } else { 8 });
                bytes[at / 4 * 4..][..width].copy_from_slice(&number[..width]);
            }
            4 => bytes.truncate(at),
            5 => drop(bytes.splice(at..at, std::iter::repeat_n(rng.random_range(0..=255), length))),
            6 => drop(bytes.drain(at..at + length)),
            _ => {
                let to = rng.random_range(0..=bytes.len() - length);
                bytes.copy_within(at..at + length, to);
            }
        }
    }
}

/// The commits of the log.
fn commits(storage: &FaultStorage) -> Vec<Value> {
    let (log, mut at, mut commits) = (storage.read(LOG).unwrap(), LOG_HEADER, Vec::new());
    while at < log.len() {
        let end = at + 8 + u32_at(&log, at) as usize;
        commits.push(serde_json::from_slice(&log[at + 8..end]).unwrap());
        at = end;
    }
    commits
}

/// Writes a log of these records, and the HEAD that names it.
fn put_log(storage: &FaultStorage, records: &[Vec<u8>]) {
    let mut log = storage.read(LOG).unwrap()[..LOG_HEADER].to_vec();
    for record in records {
        log.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
        log.extend(crc32c::crc32c(record).to_le_bytes());
        log.extend(record);
    }
    let length = (log.len() as u64).to_le_bytes();
    storage.damage(LOG, |bytes| *bytes = log).unwrap();
    let seal = |bytes: &mut Vec<u8>| {
        bytes[20..28].copy_from_slice(&length);
        // Without a name or with one: the sum is the last.
        let end = bytes.len() - 4;
        let sum = crc32c::crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
    };
    storage.damage(HEAD, seal).unwrap();
}

/// Makes the sums of an index fit its content, after its segment has these block checksums.
fn seal_index(index: &mut [u8], checksums: &[u8]) -> String {
    let sections = u32_at(index, 12) as usize;
    let table_end = INDEX_HEADER + sections * INDEX_ENTRY;
    for entry in (INDEX_HEADER..table_end).step_by(INDEX_ENTRY) {
        let (kind, offset, length) = (u32_at(index, entry), u64_at(index, entry + 8), u64_at(index, entry + 16));
        if let Some(content) = offset.checked_add(length).and_then(|end| index.get_mut(offset..end)) {
            if kind == 1 && length == checksums.len() {
                content.copy_from_slice(checksums);
            }
            let sum = crc32c::crc32c(content).to_le_bytes();
            index[entry + 24..entry + 28].copy_from_slice(&sum);
        }
    }
    let sum = crc32c::crc32c(&index[..table_end]).to_le_bytes();
    index[table_end..table_end + 4].copy_from_slice(&sum);
    blake3::hash(&index[..table_end + 4]).to_hex().to_string()
}

/// Makes every sum and digest fit what the files hold now.
fn seal(storage: &FaultStorage) {
    let mut commits = commits(storage);
    for file in commits.iter_mut().filter_map(|commit| commit["add"].as_array_mut()).flatten() {
        let path = format!("trade/{}", file["path"].as_str().unwrap());
        let segment = storage.read(&path).unwrap();
        let checksums: Vec<u8> =
            segment.chunks(CHECKSUM_BLOCK).flat_map(|block| crc32c::crc32c(block).to_le_bytes()).collect();
        file["bytes"] = segment.len().into();
        file["digest"] = blake3::hash(&checksums).to_hex().to_string().into();
        let index = format!("{}.index", path.rsplit_once('.').unwrap().0);
        storage.damage(&index, |bytes| file["index_digest"] = seal_index(bytes, &checksums).into()).unwrap();
        file["index_bytes"] = storage.read(&index).unwrap().len().into();
    }
    let records: Vec<Vec<u8>> = commits.iter().map(|commit| serde_json::to_vec(commit).unwrap()).collect();
    put_log(storage, &records);
}

/// All that can be asked. Values are rendered, so that text is looked at.
fn read_all(storage: &FaultStorage) -> Result<()> {
    let database = Database::open_on(Arc::new(storage.clone()))?;
    let table = database.table("trade")?;
    let snapshot = table.snapshot()?;
    let _ = (snapshot.rows(), snapshot.bytes(), snapshot.sources().count());
    let mut outcome = summaries(&database).map(|_| ());
    for question in questions() {
        outcome = outcome.and(read_snapshot(&snapshot, &question.selection).map(|rows| drop(plain(&rows))));
    }
    outcome = outcome.and(table.verify(&mut go_on).map(|_| ()));
    outcome
}

/// Changes a sound database by `change` many times over; says how often reading failed and how often it didn't.
fn survives(rounds: u64, change: impl Fn(&mut ChaCha8Rng, &FaultStorage)) -> (usize, usize) {
    let (storage, _) = base(1);
    seal(&storage);
    read_all(&storage).unwrap();
    let (mut refused, mut read) = (0, 0);
    for seed in 0..rounds {
        let (changed, mut rng) = (storage.copy(), rng(seed));
        change(&mut rng, &changed);
        match catch_unwind(AssertUnwindSafe(|| read_all(&changed))) {
            Ok(Ok(())) => read += 1,
            Ok(Err(_)) => refused += 1,
            Err(panic) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(panic)
            }
        }
    }
    println!("{refused} refused, {read} read");
    assert!(refused > 0 && read > 0, "{refused} refused, {read} read");
    (refused, read)
}

fn files(storage: &FaultStorage, extension: &str) -> Vec<String> {
    storage.paths().into_iter().filter(|path| path.ends_with(extension)).collect()
}

/// The places of a document that hold no list and no object.
fn leaves(value: &Value, at: &str, paths: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| leaves(item, &format!("{at}/{i}"), paths));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, item)| leaves(item, &format!("{at}/{name}"), paths)),
        _ => paths.push(at.to_owned()),
    }
}

#[test]
fn any_manifest_is_refused_or_read() {
    survives(1500, |rng, storage| {
        let mut commits = commits(storage);
        let changed = rng.random_range(0..commits.len());
        if rng.random_bool(0.5) {
            let mut records: Vec<Vec<u8>> = commits.iter().map(|commit| serde_json::to_vec(commit).unwrap()).collect();
            edit(rng, &mut records[changed]);
            return put_log(storage, &records);
        }
        let mut places = Vec::new();
        leaves(&commits[changed], "", &mut places);
        let values: [Value; 8] = [
            Value::Null,
            (-1).into(),
            0.into(),
            awkward(rng).into(),
            i64::MIN.into(),
            "".into(),
            "date=../../x".into(),
            "float32".into(),
        ];
        *commits[changed].pointer_mut(places.choose(rng).unwrap()).unwrap() = values.choose(rng).unwrap().clone();
        let records: Vec<Vec<u8>> = commits.iter().map(|commit| serde_json::to_vec(commit).unwrap()).collect();
        put_log(storage, &records);
    });
}

#[test]
fn any_head_is_refused_or_read() {
    survives(300, |rng, storage| {
        let change = |bytes: &mut Vec<u8>| {
            edit(rng, bytes);
            if bytes.len() == 40 {
                let sum = crc32c::crc32c(&bytes[..36]);
                bytes[36..].copy_from_slice(&sum.to_le_bytes());
            }
        };
        storage.damage(HEAD, change).unwrap();
    });
}

#[test]
fn any_index_is_refused_or_read() {
    survives(3000, |rng, storage| {
        let path = files(storage, ".index").choose(rng).unwrap().clone();
        let change = |bytes: &mut Vec<u8>| {
            let table_end = INDEX_HEADER + u32_at(bytes, 12) as usize * INDEX_ENTRY;
            if rng.random_bool(0.3) {
                // Header and table, in place: their length is known from the header.
                let mut part = bytes[16..table_end].to_vec();
                edit(rng, &mut part);
                part.resize(table_end - 16, 0);
                bytes[16..table_end].copy_from_slice(&part);
            } else {
                let entries: Vec<usize> = (INDEX_HEADER..table_end).step_by(INDEX_ENTRY).collect();
                let entry = *entries.choose(rng).unwrap();
                let (offset, length) = (u64_at(bytes, entry + 8), u64_at(bytes, entry + 16));
                let mut part = bytes[offset..offset + length].to_vec();
                edit(rng, &mut part);
                let written = part.len().min(length);
                bytes[offset..offset + written].copy_from_slice(&part[..written]);
                bytes[entry + 16..entry + 24].copy_from_slice(&(written as u64).to_le_bytes());
            }
        };
        storage.damage(&path, change).unwrap();
        seal(storage);
    });
}

fn change_segment(rng: &mut ChaCha8Rng, storage: &FaultStorage, format: Tier) {
    let path = files(storage, format.extension()).choose(rng).unwrap().clone();
    let change = |bytes: &mut Vec<u8>| {
        // Most of what describes the rows stands at the ends.
        let length = bytes.len();
        let part = match rng.random_range(0..4) {
            0 => 0..length.min(1500),
            1 | 2 => length.saturating_sub(3000)..length,
            _ => 0..length,
        };
        let mut changed = bytes[part.clone()].to_vec();
        edit(rng, &mut changed);
        if rng.random_bool(0.7) {
            changed.resize(part.len(), 0);
        }
        bytes.splice(part, changed);
    };
    storage.damage(&path, change).unwrap();
    seal(storage);
}

#[test]
fn any_arrow_segment_is_refused_or_read() {
    survives(3000, |rng, storage| change_segment(rng, storage, Tier::Mapped));
}

#[test]
fn any_parquet_segment_is_refused_or_read() {
    survives(3000, |rng, storage| change_segment(rng, storage, Tier::Small));
}

/// The file's own checksums find what those of its blocks, made anew here, would let pass.
#[test]
fn a_changed_byte_of_a_dense_segment_is_told() {
    let (base, _) = base(5);
    let path = files(&base, Tier::Dense.extension())[0].clone();
    let mut length = 0;
    base.copy().damage(&path, |bytes| length = bytes.len()).unwrap();
    for at in (0..length).step_by(61) {
        let storage = base.copy();
        storage.damage(&path, |bytes| bytes[at] ^= 0x10).unwrap();
        seal(&storage);
        let database = open(&storage).unwrap();
        let error = database
            .table("trade")
            .unwrap()
            .snapshot()
            .and_then(|snapshot| read_snapshot(&snapshot, &Selection::default()));
        let error = error.expect_err("a changed byte");
        assert!(matches!(error, Error::Corrupt { .. }), "byte {at}: {error}");
        assert!(error.to_string().contains(".dense"), "byte {at}: {error}");
    }
}

#[test]
fn any_dense_segment_is_refused_or_read() {
    survives(3000, |rng, storage| change_segment(rng, storage, Tier::Dense));
}
