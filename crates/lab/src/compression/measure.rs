//! Measures one scheme on one column.
//!
//! - Writing is encoding and writing the file, which isn't synced. Reading is reading the file and decoding it.
//! - Before a file is read its pages are dropped from the page cache, where the system allows it. The result says whether they were gone: a
//!   file system in memory has nothing else.
//! - What is decoded is compared with the column, bit for bit, before a time counts.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::column::Column;
use super::memory::Peak;
use super::scheme::Scheme;
use crate::{Error, Result};

/// Blocks that are read at random.
const BLOCKS: usize = 32;

/// What was measured.
#[derive(Debug, Clone, Default)]
pub struct CodecMeasurement {
    pub write: Duration,
    pub read: Duration,
    pub block: Option<Duration>,
    pub bytes: u64,
    pub memory: Option<u64>,
    pub is_cold: bool,
    /// The column as it was decoded last.
    pub decoded: Vec<ArrayRef>,
}

/// Measures a scheme; times are means of `times` runs.
///
/// # Errors
/// [`Error::Unsupported`] if it can't hold the column, [`Error::Mismatch`] if it gives back another.
pub fn measure(
    scheme: &dyn Scheme,
    column: &Column,
    file: &Path,
    times: u32,
    random: &mut ChaCha8Rng,
    release_memory: fn(),
) -> Result<CodecMeasurement> {
    let mut measured = CodecMeasurement { is_cold: true, ..CodecMeasurement::default() };
    for _ in 0..times.max(1) {
        remove(file)?;
        // What the last run decoded isn't to be in the way of this one.
        measured.decoded.clear();
        release_memory();
        let peak = Peak::start();
        let start = Instant::now();
        let bytes = scheme.encode(column)?;
        std::fs::write(file, &bytes).map_err(Error::io(file, "write"))?;
        measured.write += start.elapsed();
        measured.bytes = bytes.len() as u64;
        drop(bytes);
        measured.is_cold &= dropped_from_cache(file)?;
        let start = Instant::now();
        let bytes = std::fs::read(file).map_err(Error::io(file, "read"))?;
        measured.decoded = scheme.decode(&bytes, column.data_type())?;
        measured.read += start.elapsed();
        measured.memory = measured.memory.max(peak.growth());
        compare(scheme, column, &measured.decoded)?;
    }
    measured.write /= times.max(1);
    measured.read /= times.max(1);
    measured.block = blocks(scheme, column, file, random)?;
    remove(file)?;
    Ok(measured)
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(file, "remove")(error)),
        _ => Ok(()),
    }
}

/// Compares what was decoded with the column.
fn compare(scheme: &dyn Scheme, column: &Column, decoded: &[ArrayRef]) -> Result<()> {
    let mismatch =
        |row| Err(Error::Mismatch { scheme: scheme.id().name.clone(), column: column.name().to_owned(), row });
    let mut start = 0;
    for piece in decoded {
        if start + piece.len() > column.rows() {
            return mismatch(column.rows());
        }
        let expected = column.values().slice(start, piece.len());
        if piece.to_data() != expected.to_data() {
            let same = |row: &usize| piece.slice(*row, 1).to_data() == expected.slice(*row, 1).to_data();
            return mismatch(start + (0..piece.len()).take_while(same).count());
        }
        start += piece.len();
    }
    if start == column.rows() { Ok(()) } else { mismatch(start) }
}

/// The time to read a block, the mean over some at random. The file was read before, so that it is in the page cache.
fn blocks(scheme: &dyn Scheme, column: &Column, path: &Path, random: &mut ChaCha8Rng) -> Result<Option<Duration>> {
    let file = File::open(path).map_err(Error::io(path, "open"))?;
    let length = file.metadata().map_err(Error::io(path, "look at"))?.len();
    let mut reader = scheme.open(&file, length, column.data_type())?;
    if reader.blocks() == 0 {
        return Ok(None);
    }
    let places: Vec<usize> = (0..BLOCKS).map(|_| random.random_range(0..reader.blocks())).collect();
    let start = Instant::now();
    for place in &places {
        std::hint::black_box(reader.read(*place)?);
    }
    Ok(Some(start.elapsed() / u32::try_from(BLOCKS).unwrap_or(1)))
}

/// Drops the pages of a file from the page cache, and says whether it has none of them.
pub fn dropped_from_cache(path: &Path) -> Result<bool> {
    let file = File::open(path).map_err(Error::io(path, "open"))?;
    // Only pages that are on the device are dropped.
    file.sync_data().map_err(Error::io(path, "sync"))?;
    // SAFETY: takes numbers alone, and the descriptor is open.
    let advised = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    Ok(advised == 0 && !is_in_cache(&file))
}

/// Whether a page of a file is in the page cache.
fn is_in_cache(file: &File) -> bool {
    // SAFETY: the file is ours, and nobody cuts it while it is mapped.
    let Ok(map) = (unsafe { memmap2::Mmap::map(file) }) else { return true };
    let pages = map.len().div_ceil(4_096);
    let mut resident = vec![0_u8; pages];
    // SAFETY: the map has this address and length, and there is a byte for each of its pages, which have at least 4,096 bytes.
    let status = unsafe { libc::mincore(map.as_ptr().cast_mut().cast(), map.len(), resident.as_mut_ptr()) };
    status != 0 || resident.iter().any(|page| page & 1 == 1)
}
