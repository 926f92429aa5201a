//! Values of fields: text forms of both protocols, and the binary forms of QuestDB's protocol versions 2 and 3.
//!
//! Sources: InfluxDB line protocol reference, "Data types and format"; questdb-rs 7.2 `ingress/buffer/ilp.rs`,
//! `ingress/ndarr.rs` and `ingress/decimal.rs` for what its clients send; QuestDB `LineTcpParser.java` for suffixes.

use super::error::{LineRefusal, MissingInput, Reason, ScanResult, ScanStop, excerpt, expected, refused_value};
use super::number::digits;
use super::scan::{LineText, Name};
use super::settings::Precision;

/// Binary forms: the byte behind the second `=`.
const BINARY_ARRAY: u8 = 14;
const BINARY_FLOAT: u8 = 16;
const BINARY_DECIMAL: u8 = 23;

/// Types of an array's items.
const ITEM_FLOAT: u8 = 10;
const ITEM_NULL: u8 = 33;

/// A field's value as it is written in the line.
#[derive(Debug, Clone, Copy)]
pub(super) enum LineValue<'a> {
    /// Nothing, as in `a=,b=1`.
    Null,
    Float(f64),
    /// An integer, and its sign and digits.
    Int(i64, &'a [u8]),
    UInt(u64, &'a [u8]),
    Bool(bool),
    /// Nanoseconds since 1970.
    Time(i64),
    Text(Name<'a>),
    /// Text with the suffix of an integer that isn't one, without the suffix: trade ids of some venues.
    Id(&'a [u8]),
    /// Little-endian floats.
    Levels(&'a [u8]),
}

impl LineValue<'_> {
    /// The kind of the value, for errors.
    pub fn kind(&self) -> &'static str {
        match self {
            LineValue::Null => "null",
            LineValue::Float(_) => "a float",
            LineValue::Int(..) => "an integer",
            LineValue::UInt(..) => "an unsigned integer",
            LineValue::Bool(_) => "a boolean",
            LineValue::Time(_) => "a timestamp",
            LineValue::Text(_) | LineValue::Id(_) => "text",
            LineValue::Levels(_) => "an array",
        }
    }
}

/// The value at `at` and the position behind it, which the caller checks to be a separator.
#[inline(always)]
pub(super) fn value<'a>(text: &LineText<'a>, at: usize) -> ScanResult<(LineValue<'a>, usize)> {
    match text.byte(at)? {
        b'0'..=b'9' | b'-' | b'.' | b'+' => number(text, at),
        b'"' => {
            let (name, end) = text.quoted(at + 1)?;
            match text.byte(end)? {
                b',' | b' ' | b'\n' | b'\r' => Ok((LineValue::Text(name), end)),
                _ => Err(text_behind_quote(name.raw, at, end)),
            }
        }
        b'=' => binary(text, at + 1).map(without_nan),
        b',' | b' ' | b'\n' | b'\r' => Ok((LineValue::Null, at)),
        _ => word(text, at).map(without_nan),
    }
}

/// NaN is what QuestDB's clients send where there is no value: its null.
fn without_nan<'a>(parsed: (LineValue<'a>, usize)) -> (LineValue<'a>, usize) {
    match parsed {
        (LineValue::Float(value), end) if value.is_nan() => (LineValue::Null, end),
        other => other,
    }
}

/// A quote that ends a text with line feeds is likely the beginning of another line's text: the fault is then where the
/// text began, so that only its own line is lost.
#[cold]
fn text_behind_quote(raw: &[u8], at: usize, end: usize) -> ScanStop {
    let at = if memchr::memchr(b'\n', raw).is_some() { at } else { end };
    let reason = Reason::Syntax { expected: "a comma, a space or the line's end behind the quote" };
    ScanStop::Refused(Box::new(LineRefusal { reason, at, resume: at, whole: false, quotes: true }))
}

#[inline(always)]
fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\n' | b'\r')
}

#[inline(always)]
fn number<'a>(text: &LineText<'a>, at: usize) -> ScanResult<(LineValue<'a>, usize)> {
    let negative = text.bytes[at] == b'-';
    let from = at + usize::from(negative);
    let digits = digits(text.bytes, from);
    let last = text.byte(digits.end)?;
    if is_separator(last) {
        return match digits.float(negative) {
            Some(float) => Ok((LineValue::Float(float), digits.end)),
            None => word(text, at),
        };
    }
    if digits.point || digits.count == 0 || !is_separator(text.byte(digits.end + 1)?) {
        return word(text, at);
    }
    let written = &text.bytes[at..digits.end];
    let end = digits.end + 1;
    let signed = digits.signed(&text.bytes[from..digits.end], negative);
    let value = match last {
        b'i' => signed.map(|value| LineValue::Int(value, written)),
        b'u' if !negative => {
            digits.unsigned(&text.bytes[from..digits.end]).map(|value| LineValue::UInt(value, written))
        }
        b't' => signed.and_then(|value| Precision::Microseconds.nanoseconds(value)).map(LineValue::Time),
        b'n' => signed.map(LineValue::Time),
        _ => return word(text, at),
    };
    match value {
        Some(value) => Ok((value, end)),
        None => Err(refused_value(Reason::OutOfRange { text: excerpt(written) }, at, end)),
    }
}

/// A value that is no plain number: looked at as a whole.
#[inline(never)]
fn word<'a>(text: &LineText<'a>, at: usize) -> ScanResult<(LineValue<'a>, usize)> {
    let mut end = at;
    while !is_separator(text.byte(end)?) {
        end += 1;
    }
    let word = &text.bytes[at..end];
    let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    if is(&["t", "true"]) {
        return Ok((LineValue::Bool(true), end));
    }
    if is(&["f", "false"]) {
        return Ok((LineValue::Bool(false), end));
    }
    if is(&["none", "null", "nil"]) {
        return Ok((LineValue::Null, end));
    }
    if let Ok(float) = fast_float2::parse(word) {
        return Ok((LineValue::Float(float), end));
    }
    let unsupported = |what, instead| Err(refused_value(Reason::Unsupported { what, instead }, at, end));
    match word.split_last() {
        Some((b'i', id)) if id.starts_with(b"0x") || id.starts_with(b"0X") => {
            unsupported("a long256", "send its digits as quoted text")
        }
        Some((b'd', number)) if fast_float2::parse::<f64, _>(number).is_ok() => {
            unsupported("a decimal", "send a float, or quoted text where every digit counts")
        }
        Some((b'i', id)) if is_id(id) => Ok((LineValue::Id(id), end)),
        _ => Err(refused_value(Reason::NotAValue { text: excerpt(word) }, at, end)),
    }
}

fn is_id(id: &[u8]) -> bool {
    id.iter().any(u8::is_ascii_digit) && id.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b':'))
}

/// The binary value whose type is the byte at `at`.
fn binary<'a>(text: &LineText<'a>, at: usize) -> ScanResult<(LineValue<'a>, usize)> {
    match piece(text, at, 1)?[0] {
        BINARY_FLOAT => Ok((LineValue::Float(float(piece(text, at + 1, 8)?)), at + 9)),
        BINARY_ARRAY => array(text, at + 1),
        BINARY_DECIMAL => {
            let length = usize::from(piece(text, at + 1, 2)?[1]);
            piece(text, at + 3, length)?;
            let instead = "send a float, or quoted text where every digit counts";
            Err(refused_value(Reason::Unsupported { what: "a decimal", instead }, at, at + 3 + length))
        }
        _ => Err(expected("a binary value of type 14 or 16", at)),
    }
}

/// An array: type of the items, number of dimensions, their lengths, the items.
fn array<'a>(text: &LineText<'a>, at: usize) -> ScanResult<(LineValue<'a>, usize)> {
    let item = piece(text, at, 1)?[0];
    if item == ITEM_NULL {
        return Ok((LineValue::Null, at + 1));
    }
    let dimensions = usize::from(piece(text, at + 1, 1)?[0]);
    let from = at + 2 + dimensions * 4;
    let lengths = piece(text, at + 2, dimensions * 4)?.chunks_exact(4);
    let items = lengths.map(|length| length.iter().rev().fold(0usize, |n, &byte| n << 8 | usize::from(byte)));
    // Items of all types that the clients send have eight bytes.
    let bytes = piece(text, from, items.fold(8, usize::saturating_mul))?;
    let end = from + bytes.len();
    let (what, instead) = match (item, dimensions) {
        (ITEM_FLOAT, 1) => return Ok((LineValue::Levels(bytes), end)),
        (ITEM_FLOAT, _) => ("an array of several dimensions", "send one array for each row of it"),
        _ => ("an array of anything but floats", "send floats"),
    };
    Err(refused_value(Reason::Unsupported { what, instead }, at, end))
}

/// The given number of bytes at a position.
fn piece<'a>(text: &LineText<'a>, at: usize, length: usize) -> ScanResult<&'a [u8]> {
    let end = at.saturating_add(length);
    match text.bytes.get(at..end) {
        Some(bytes) => Ok(bytes),
        None if text.ended => Err(expected("a whole binary value", at.min(text.bytes.len()))),
        None => Err(ScanStop::More(MissingInput::Bytes(at, end))),
    }
}

/// A little-endian float; the slice has 8 bytes.
pub(super) fn float(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().unwrap_or_default())
}
