//! Which format a file has, by content first and name second.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field};
use splay_store::{ColumnSpec, ColumnType};

use crate::csv::preamble::after_lines;
use crate::decompress::Stream;
use crate::error::{Error, Result};
use crate::exact::natural_type;
use crate::input::InputFile;
use crate::json;
use crate::plan::ImportSettings;

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
            "json" => Format::Json,
            _ => return Err(format!("{text:?} is not a format; there are csv, tsv, psv, json, parquet, arrow, dbn")),
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
}

/// Batches of a binary file, each with the share of the file read so far (0 to 1).
pub(crate) type Batches = Box<dyn Iterator<Item = Result<(RecordBatch, f64)>>>;

const HEAD_BYTES: usize = 1 << 16;

/// The format of a file, by the settings as far as they name it.
///
/// # Errors
/// [`Error::Unsupported`] for a file of another kind, [`Error::Setting`] for a setting of delimited text and a file that is none.
pub(crate) fn detect(file: &InputFile, settings: &ImportSettings) -> Result<DetectedFormat> {
    let format = detect_format(file, settings)?;
    let setting = match (format, settings.delimiter) {
        (DetectedFormat::Text(_), Some(delimiter)) => return Ok(DetectedFormat::Text(delimiter.byte())),
        (DetectedFormat::Text(_), None) => return Ok(format),
        (_, Some(_)) => "delimiter",
        (_, None) if settings.skip_lines.is_some() => "skip_lines",
        (_, None) => return Ok(format),
    };
    let reason = format!("{} is not delimited text; --format csv reads it as such", file.name);
    Err(Error::Setting { setting, reason })
}

fn detect_format(file: &InputFile, settings: &ImportSettings) -> Result<DetectedFormat> {
    let leaf = file.leaf().to_ascii_lowercase();
    let plain = leaf.trim_end_matches(".zst").trim_end_matches(".gz");
    if plain.ends_with(".dbz") {
        return Err(Error::unsupported(&file.name, "is legacy DBZ; convert it with the dbn command line tool"));
    }
    if plain.ends_with(".frag") {
        return Err(Error::unsupported(
            &file.name,
            "is a DBN fragment without metadata, so its version and symbols are unknown; join it with its metadata by the dbn command line tool",
        ));
    }
    match settings.format {
        Some(Format::Csv) => return Ok(DetectedFormat::Text(b',')),
        Some(Format::Tsv) => return Ok(DetectedFormat::Text(b'\t')),
        Some(Format::Psv) => return Ok(DetectedFormat::Text(b'|')),
        Some(Format::Parquet) => return Ok(DetectedFormat::Parquet),
        Some(Format::Arrow) => return Ok(DetectedFormat::Arrow),
        Some(Format::Dbn) => return Ok(DetectedFormat::Dbn),
        Some(Format::Json) => return Ok(DetectedFormat::Json),
        None => {}
    }
    let mut head = vec![0u8; HEAD_BYTES];
    let got = Stream::open(file, Arc::new(AtomicU64::new(0)))?.read_full(&mut head)?;
    head.truncate(got);
    let named = |ends: &[&str]| ends.iter().any(|end| plain.ends_with(end));
    if head.starts_with(b"PAR1") || named(&[".parquet", ".pq"]) {
        return Ok(DetectedFormat::Parquet);
    }
    if head.starts_with(b"ARROW1") || head.starts_with(&[0xff; 4]) || named(&[".arrow", ".arrows", ".feather", ".ipc"])
    {
        return Ok(DetectedFormat::Arrow);
    }
    if head.starts_with(b"DBN") && head.get(3).is_some_and(|v| *v < b' ') || named(&[".dbn"]) {
        return Ok(DetectedFormat::Dbn);
    }
    if named(&[".json", ".jsonl", ".ndjson"]) || !named(&[".csv", ".tsv", ".psv"]) && json::looks_like_json(&head) {
        return Ok(DetectedFormat::Json);
    }
    if is_web_page(&head) {
        let reason = "is a web page, perhaps the answer of a server that had no such file; download it again";
        return Err(Error::unsupported(&file.name, reason));
    }
    if named(&[".tsv", ".tab"]) {
        return Ok(DetectedFormat::Text(b'\t'));
    }
    if named(&[".psv"]) {
        return Ok(DetectedFormat::Text(b'|'));
    }
    if head.contains(&0) && !is_utf16(&head) && !named(&[".csv", ".txt"]) {
        let reason = "is of no format that is read: there are csv, tsv, psv, json, parquet, arrow and dbn, each also compressed by gzip or \
                      zstd, and zip files of these; --format names one for a file that has it";
        return Err(Error::unsupported(&file.name, reason));
    }
    if has_times_before_objects(&head) {
        let reason = "has a time before the JSON object on each line, as recordings of feeds have; in Python splay.feeds reads those of \
                      Binance";
        return Err(Error::unsupported(&file.name, reason));
    }
    let table = &head[after_lines(&head, settings.skip_lines.unwrap_or(0))..];
    Ok(DetectedFormat::Text(crate::sniff::delimiter(table)))
}

/// Whether text is UTF-16: by its mark, or as every second of its first bytes is zero.
pub(crate) fn is_utf16(head: &[u8]) -> bool {
    let (pairs, _) = head.as_chunks::<2>();
    let has_zero_at =
        |place: usize| pairs.len() > 1 && pairs.iter().take(64).all(|pair| pair[place] == 0 && pair[1 - place] != 0);
    head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) || has_zero_at(0) || has_zero_at(1)
}

/// Whether the first line is a whole number, a space and a JSON object.
fn has_times_before_objects(head: &[u8]) -> bool {
    let digits = head.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && head[digits..].starts_with(b" {\"")
}

fn is_web_page(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |with: &str| head.get(..with.len()).is_some_and(|text| text.eq_ignore_ascii_case(with.as_bytes()));
    begins("<!doctype html") || begins("<html")
}

/// The columns of a binary file as it would be a table by itself, and its time column when the format has one. Columns that `type_setting` gives a
/// type have that one.
pub(crate) fn natural_columns(
    file: &InputFile,
    kind: DetectedFormat,
    type_setting: &dyn Fn(&str) -> Option<ColumnType>,
) -> Result<(Vec<ColumnSpec>, Option<String>)> {
    match kind {
        DetectedFormat::Dbn => guarded(file, || crate::dbn::columns(file)),
        DetectedFormat::Parquet | DetectedFormat::Arrow => {
            let schema = guarded(file, || crate::columnar::schema(file, kind))?;
            let columns = schema.fields().iter().map(|field| {
                let column_type = type_setting(field.name()).or_else(|| natural_type(field.data_type()));
                Ok(ColumnSpec::new(field.name(), column_type.ok_or_else(|| no_type(file, field))?))
            });
            Ok((columns.collect::<Result<_>>()?, None))
        }
        DetectedFormat::Text(_) | DetectedFormat::Json => Ok((Vec::new(), None)),
    }
}

fn no_type(file: &InputFile, field: &Field) -> Error {
    let name = field.name();
    Error::unsupported(
        &file.name,
        match field.data_type() {
            DataType::Null => {
                format!("column {name} has no value and no type; name one, as in --type {name}=float64")
            }
            other => format!("column {name} has type {other}, which no column type holds"),
        },
    )
}

/// The batches of a binary file in its own schema.
pub(crate) fn batches(file: &InputFile, kind: DetectedFormat) -> Result<Batches> {
    let batches = guarded(file, || match kind {
        DetectedFormat::Dbn => crate::dbn::batches(file),
        _ => crate::columnar::batches(file, kind),
    })?;
    Ok(guarded_batches(file, batches))
}

/// Batches whose decoder may panic.
pub(crate) fn guarded_batches(file: &InputFile, batches: Batches) -> Batches {
    Box::new(GuardedBatches { file: file.clone(), batches: Some(batches) })
}

/// Runs a decoder of another library. A panic on damaged bytes becomes an error.
pub(crate) fn guarded<T>(file: &InputFile, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Error::damaged(&file.name, "the decoder gave up: the file is damaged")))
}

struct GuardedBatches {
    file: InputFile,
    batches: Option<Batches>,
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
