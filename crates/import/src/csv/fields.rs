//! Where fields and records end: RFC 4180 quotes, any single-byte delimiter, LF or CRLF.
//!
//! - A quote opens a quoted field only as the field's first byte; elsewhere it is an ordinary character.
//! - A record ends at a line feed outside quotes.

use std::borrow::Cow;

use super::numbers::{self, load8};
use super::times;

/// A field as it lies in its buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvField<'a> {
    pub text: Cow<'a, [u8]>,
    pub quoted: bool,
    /// Position of the delimiter or of the record's line feed, or the buffer's length.
    pub end: usize,
    /// Line feeds inside the quotes.
    pub newlines: u64,
}

#[inline(always)]
fn has_byte(word: u64, byte: u8) -> u64 {
    let zeroes = word ^ (u64::from(byte) * 0x0101_0101_0101_0101);
    zeroes.wrapping_sub(0x0101_0101_0101_0101) & !zeroes & 0x8080_8080_8080_8080
}

/// Position of the next delimiter or line feed at or after `at`, or the buffer's length.
#[inline(always)]
pub(crate) fn plain_end(bytes: &[u8], mut at: usize, delimiter: u8) -> usize {
    while let Some(word) = load8(bytes, at) {
        let matches = has_byte(word, delimiter) | has_byte(word, b'\n');
        if matches != 0 {
            return at + (matches.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    bytes[at.min(bytes.len())..].iter().position(|&b| b == delimiter || b == b'\n').map_or(bytes.len(), |n| at + n)
}

/// The field at `at`. The reason, when text follows a closing quote or a quote is never closed.
pub(crate) fn field(bytes: &[u8], at: usize, delimiter: u8) -> Result<CsvField<'_>, &'static str> {
    if bytes.get(at) != Some(&b'"') {
        let end = plain_end(bytes, at, delimiter);
        let mut text = &bytes[at.min(end)..end];
        if bytes.get(end) != Some(&delimiter) {
            text = text.strip_suffix(b"\r").unwrap_or(text);
        }
        return Ok(CsvField { text: Cow::Borrowed(text), quoted: false, end, newlines: 0 });
    }
    let mut unescaped: Option<Vec<u8>> = None;
    let mut from = at + 1;
    let close = loop {
        let close = from + memchr::memchr(b'"', &bytes[from..]).ok_or("a quote is opened and never closed")?;
        let piece = &bytes[from..close];
        if bytes.get(close + 1) == Some(&b'"') {
            unescaped.get_or_insert_default().extend_from_slice(&bytes[from..=close]);
            from = close + 2;
            continue;
        }
        if let Some(text) = &mut unescaped {
            text.extend_from_slice(piece);
        }
        break close;
    };
    let newlines = memchr::memchr_iter(b'\n', &bytes[at..close]).count() as u64;
    let mut end = close + 1;
    if bytes.get(end) == Some(&b'\r') && matches!(bytes.get(end + 1), Some(b'\n') | None) {
        end += 1;
    }
    if bytes.get(end).is_some_and(|&b| b != delimiter && b != b'\n') {
        return Err("text follows a closing quote");
    }
    let text = unescaped.map_or(Cow::Borrowed(&bytes[at + 1..close]), Cow::Owned);
    Ok(CsvField { text, quoted: true, end, newlines })
}

/// Position of the line feed that ends the record at `at`, or `None` when the buffer ends first.
pub(crate) fn record_end(bytes: &[u8], at: usize, delimiter: u8) -> Option<usize> {
    let line = at + memchr::memchr(b'\n', &bytes[at..])?;
    if memchr::memchr(b'"', &bytes[at..line]).is_none() {
        return Some(line);
    }
    let mut at = at;
    loop {
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                at += memchr::memchr(b'"', &bytes[at..])? + 1;
                if bytes.get(at) != Some(&b'"') {
                    break;
                }
                at += 1;
            }
        }
        at += memchr::memchr2(delimiter, b'\n', &bytes[at..])?;
        if bytes[at] == b'\n' {
            return Some(at);
        }
        at += 1;
    }
}

/// Position after the last whole record of `bytes`, 0 when there is none.
pub(crate) fn last_record_end(bytes: &[u8], delimiter: u8) -> usize {
    if memchr::memchr(b'"', bytes).is_none() {
        return memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    }
    let mut at = 0;
    while let Some(end) = record_end(bytes, at, delimiter) {
        at = end + 1;
    }
    at
}

/// All fields of the record at `at`, and the position after it.
pub(crate) fn record(bytes: &[u8], at: usize, delimiter: u8) -> Result<(Vec<CsvField<'_>>, usize), &'static str> {
    let mut fields = Vec::new();
    let mut at = at;
    loop {
        let field = field(bytes, at, delimiter)?;
        let end = field.end;
        fields.push(field);
        if bytes.get(end) == Some(&delimiter) {
            at = end + 1;
        } else {
            return Ok((fields, (end + 1).min(bytes.len())));
        }
    }
}

/// Whether a field holds a number or a time.
pub(crate) fn is_value(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    numbers::float(text, 0).is_some() || times::written(text).is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let (fields, _) = record(line.as_bytes(), 0, b',').unwrap();
        fields.iter().map(|f| String::from_utf8(f.text.to_vec()).unwrap()).collect()
    }

    #[test]
    fn quotes_follow_rfc_4180() {
        assert_eq!(texts("a,\"b,\"\"c\"\"\n d\",\r\nnext"), ["a", "b,\"c\"\n d", ""]);
        assert_eq!(texts("5\" disk,x"), ["5\" disk", "x"]);
        assert_eq!(texts("\"\"\r\n"), [""]);
        assert!(record(b"\"a\"b,c\n", 0, b',').is_err());
        assert!(record(b"\"a,c\n", 0, b',').is_err());
    }

    #[test]
    fn records_end_at_line_feeds_outside_quotes() {
        let text = b"a,\"x\ny\",c\nb,\"\"\"\n\",d\npart";
        assert_eq!(record_end(text, 0, b','), Some(9));
        assert_eq!(last_record_end(text, b','), text.len() - 4);
        assert_eq!(last_record_end(b"a,5\" x\nb\n", b','), 9);
        assert_eq!(last_record_end(b"\"a\nb", b','), 0);
    }
}
