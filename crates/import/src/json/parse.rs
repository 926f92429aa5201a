//! A block of JSON objects into record batches.

use std::collections::HashMap;

use super::scan::{self, JsonValue, ObjectFields};
use crate::csv::parse::{BlockBuilder, MalformedRow, ParsedBlock, RecordLayout, RowFault, rows_max};

/// Bytes of a short object, from which the first rows of a block are counted.
const OBJECT_BYTES: usize = 64;

/// What stands around the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonForm {
    /// One on each line.
    Lines,
    /// Commas between them, brackets around them; whether the block is the file's first or last.
    Array { first: bool, last: bool },
}

/// Parses a block. With `stop`, at the first malformed object.
///
/// # Errors
/// The reason, when the columns don't make a batch, or an array isn't closed.
pub(crate) fn parse(layout: &RecordLayout, bytes: &[u8], form: JsonForm, stop: bool) -> Result<ParsedBlock, String> {
    let rows_max = rows_max(layout);
    let builder = BlockBuilder::new(layout, (bytes.len() / OBJECT_BYTES + 1).min(rows_max));
    let places = layout.names.iter().enumerate().map(|(place, name)| (name.as_bytes(), place)).collect();
    let mut objects = Objects { layout, builder, places, parsed: ParsedBlock::default(), rows_max };
    match form {
        JsonForm::Lines => objects.lines(bytes, stop)?,
        JsonForm::Array { first, last } => objects.array(bytes, first, last, stop)?,
    }
    objects.builder.flush()?;
    objects.parsed.batches = objects.builder.take_batches();
    Ok(objects.parsed)
}

struct Objects<'a> {
    layout: &'a RecordLayout,
    builder: BlockBuilder<'a>,
    /// Place of each field by its name.
    places: HashMap<&'a [u8], usize>,
    parsed: ParsedBlock,
    rows_max: usize,
}

impl<'a> Objects<'a> {
    fn lines(&mut self, bytes: &[u8], stop: bool) -> Result<(), String> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let object = line.trim_ascii();
            if !object.is_empty() && !self.take(object)? && stop {
                break;
            }
            self.parsed.lines += 1;
        }
        Ok(())
    }

    /// The objects of a piece of an array. Between two is a comma, so that a piece that isn't the first begins with one.
    fn array(&mut self, bytes: &[u8], first: bool, last: bool, stop: bool) -> Result<(), String> {
        let mut at = 0;
        let mut before = if first { PreviousToken::Nothing } else { PreviousToken::Object };
        loop {
            let space = bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.count_lines(&bytes[at..at + space]);
            at += space;
            let Some(byte) = bytes.get(at) else { break };
            match (byte, before) {
                (b'[', PreviousToken::Nothing) => before = PreviousToken::Open,
                (b']', PreviousToken::Open | PreviousToken::Object) => before = PreviousToken::Close,
                (b',', PreviousToken::Object) => before = PreviousToken::Comma,
                (b'{', PreviousToken::Open | PreviousToken::Comma) => {
                    let end = scan::object_end(bytes, at).ok_or("ends within an object; the file may be cut short")?;
                    let fine = self.take(&bytes[at..end])?;
                    if !fine && stop {
                        return Ok(());
                    }
                    self.count_lines(&bytes[at..end]);
                    (at, before) = (end, PreviousToken::Object);
                    continue;
                }
                _ => {
                    self.fault(
                        None,
                        "isn't what an array of JSON objects has here".to_owned(),
                        rest_of_line(&bytes[at..]),
                    );
                    if stop {
                        return Ok(());
                    }
                    let skipped = memchr::memchr(b'{', &bytes[at + 1..]).map_or(bytes.len() - at, |next| next + 1);
                    self.count_lines(&bytes[at..at + skipped]);
                    (at, before) = (at + skipped, PreviousToken::Comma);
                    continue;
                }
            }
            at += 1;
        }
        if last && before != PreviousToken::Close {
            return Err("the array isn't closed; the file may be cut short".to_owned());
        }
        Ok(())
    }

    fn count_lines(&mut self, bytes: &[u8]) {
        self.parsed.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
    }

    /// Takes an object in; false if it is malformed.
    fn take(&mut self, object: &[u8]) -> Result<bool, String> {
        if let Err((place, reason)) = self.object(object) {
            self.builder.roll_back();
            self.fault(place, reason, object);
            return Ok(false);
        }
        self.parsed.rows += 1;
        if self.builder.rows >= self.rows_max {
            self.builder.flush()?;
        }
        Ok(true)
    }

    fn fault(&mut self, place: Option<usize>, reason: String, text: &[u8]) {
        let column = place.and_then(|place| self.layout.names.get(place)).cloned().unwrap_or_default();
        self.parsed.faults.push(MalformedRow { line: self.parsed.lines, column, reason, text: text.to_vec() });
    }

    fn object(&mut self, object: &[u8]) -> Result<(), RowFault> {
        self.builder.begin();
        let mut next = 0;
        for field in ObjectFields::new(object) {
            let (name, value) = field.map_err(|reason| (None, reason))?;
            // Objects mostly have their fields in one order.
            let expected = self.layout.names.get(next).is_some_and(|own| own.as_bytes() == name.as_ref());
            let place = if expected { Some(next) } else { self.place(&name) };
            let Some(place) = place else {
                let name = String::from_utf8_lossy(&name).into_owned();
                return Err((
                    None,
                    format!(
                        "the field {name:?} isn't among the columns; --type {name}=TYPE makes it one of a new table"
                    ),
                ));
            };
            next = place + 1;
            match value {
                JsonValue::Null => self.builder.null(place)?,
                JsonValue::Text(text) => self.builder.text(place, &text)?,
                JsonValue::Word(word) => self.builder.word(place, word)?,
                JsonValue::Nested(nested) => self.builder.nested(place, nested)?,
            }
        }
        self.builder.end()
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        self.places.get(name).copied().or_else(|| {
            let name = std::str::from_utf8(name).ok()?;
            self.layout.names.iter().position(|own| crate::column_names::same_name(own, name))
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PreviousToken {
    Nothing,
    Open,
    Object,
    Comma,
    Close,
}

fn rest_of_line(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())]
}
