//! Formats of files, and the decoders of other libraries, which may panic on damaged bytes.

use arrow::array::RecordBatch;

use crate::error::{Error, Result};
use crate::input::InputFile;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Comma-separated text (semicolons too when no format is forced).
    Csv,
    /// Tab-separated text.
    Tsv,
    /// Pipe-separated text.
    Psv,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
    /// Databento Binary Encoding, versions 1 to 3.
    Dbn,
    /// Nasdaq TotalView-ITCH 5.0.
    Itch,
    /// JSON: an object on each line, or an array of objects.
    Json,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "csv" => Format::Csv,
            "tsv" => Format::Tsv,
            "psv" => Format::Psv,
            "parquet" => Format::Parquet,
            "arrow" => Format::Arrow,
            "dbn" => Format::Dbn,
            "itch" => Format::Itch,
            "json" => Format::Json,
            _ => {
                return Err(format!(
                    "{text:?} is not a format; there are csv, tsv, psv, json, parquet, arrow, dbn, itch"
                ));
            }
        })
    }
}

/// A format with what is needed to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetectedFormat {
    Text(u8),
    Json,
    Parquet,
    Arrow,
    Dbn,
    Itch,
}

/// Batches of a binary file, each with the share of the file read so far (0 to 1).
pub(crate) type FileBatches = Box<dyn Iterator<Item = Result<(RecordBatch, f64)>>>;

/// The batches of a decoder, each with the file's bytes that are read by then, up to the first that isn't there or is an error.
pub(crate) fn batches_until_the_end(
    file: &InputFile,
    mut next: impl FnMut() -> Result<Option<(RecordBatch, u64)>> + 'static,
) -> FileBatches {
    let (mut is_done, bytes) = (false, file.bytes);
    Box::new(std::iter::from_fn(move || {
        if is_done {
            return None;
        }
        let batch = next();
        is_done = !matches!(batch, Ok(Some(_)));
        #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
        let share = |read: u64| read as f64 / f64::max(bytes as f64, 1.0);
        batch.transpose().map(|batch| batch.map(|(batch, read)| (batch, share(read))))
    }))
}

/// Batches whose decoder may panic.
pub(crate) fn guarded_batches(file: &InputFile, batches: FileBatches) -> FileBatches {
    Box::new(GuardedBatches { file: file.clone(), batches: Some(batches) })
}

/// Runs a decoder of another library. A panic on damaged bytes becomes an error.
pub(crate) fn guarded<T>(file: &InputFile, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Error::damaged(&file.name, "the decoder gave up: the file is damaged")))
}

struct GuardedBatches {
    file: InputFile,
    batches: Option<FileBatches>,
}

impl Iterator for GuardedBatches {
    type Item = Result<(RecordBatch, f64)>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batches = self.batches.take()?;
        let next = guarded(&self.file, || Ok(batches.next()));
        match next {
            Ok(Some(Ok(batch))) => {
                self.batches = Some(batches);
                Some(Ok(batch))
            }
            Ok(other) => other,
            Err(error) => Some(Err(error)),
        }
    }
}
