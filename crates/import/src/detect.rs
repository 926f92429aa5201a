//! Which format a file has, by content first and name second.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::csv::preamble::after_lines;
use crate::decompress::DecompressedStream;
use crate::error::{Error, Result};
use crate::format::{DetectedFormat, Format};
use crate::input::InputFile;
use crate::itch;
use crate::json;
use crate::settings::ImportSettings;
use crate::sniff;

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
        Some(Format::Itch) => return Ok(DetectedFormat::Itch),
        Some(Format::Json) => return Ok(DetectedFormat::Json),
        None => {}
    }
    let mut head = vec![0u8; HEAD_BYTES];
    let got = DecompressedStream::open(file, Arc::new(AtomicU64::new(0)))?.read_full(&mut head)?;
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
    if itch::is_itch(&head) {
        return Ok(DetectedFormat::Itch);
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
        let reason = "is of no format that is read: there are csv, tsv, psv, json, parquet, arrow, dbn and itch, each also compressed by gzip or \
                      zstd, and zip files of these; --format names one for a file that has it";
        return Err(Error::unsupported(&file.name, reason));
    }
    if has_times_before_objects(&head) {
        let reason = "has a time before the JSON object on each line, as recordings of feeds have; in Python splay.feeds reads those of \
                      Binance";
        return Err(Error::unsupported(&file.name, reason));
    }
    let table = &head[after_lines(&head, settings.skip_lines.unwrap_or(0))..];
    Ok(DetectedFormat::Text(sniff::delimiter(table)))
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
