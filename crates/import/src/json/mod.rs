//! JSON: an object on each line, or an array of objects.
//!
//! - Objects become rows through the columns of delimited text (`csv/`): a value is read as the same text in a CSV field would be, so that
//!   numbers keep every digit and texts that are numbers or times become such.
//! - A list of numbers fills a column of levels; other lists and objects are kept as text, as they are written.
//! - Bare `NaN` and `Infinity` are taken, as Python writes them.

pub(crate) mod blocks;
pub(crate) mod parse;
mod rows;
pub(crate) mod scan;

use crate::sniff::Sample;
use scan::{JsonValue, ObjectFields};

/// Whether a file begins as JSON of objects does.
pub(crate) fn looks_like_json(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let next = |of: &[u8]| of.trim_ascii_start().first().copied();
    match head.first() {
        Some(b'{') => matches!(next(&head[1..]), Some(b'"' | b'}') | None),
        Some(b'[') => matches!(next(&head[1..]), Some(b'{' | b']') | None),
        _ => false,
    }
}

/// Looks at the first objects of a file.
pub(crate) fn add_sample(sample: &mut Sample, bytes: &[u8], rows_max: usize) {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    if bytes.first() != Some(&b'[') {
        let lines = bytes.split(|byte| *byte == b'\n');
        for line in lines.map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
            if sample.rows >= rows_max {
                return;
            }
            add_object(sample, line);
        }
        return;
    }
    let mut at = 0;
    while sample.rows < rows_max
        && let Some(start) = memchr::memchr(b'{', &bytes[at..]).map(|offset| at + offset)
        && let Some(end) = scan::object_end(bytes, start)
    {
        add_object(sample, &bytes[start..end]);
        at = end;
    }
}

/// The load itself names what is wrong with a malformed one.
fn add_object(sample: &mut Sample, object: &[u8]) {
    let Ok(fields) = ObjectFields::new(object).collect::<Result<Vec<_>, _>>() else { return };
    sample.rows += 1;
    for (name, value) in fields {
        let name = String::from_utf8_lossy(&name);
        match value {
            JsonValue::Null => sample.add_value(&name, b"", false),
            JsonValue::Text(text) => sample.add_value(&name, &text, false),
            JsonValue::Word(word) => sample.add_value(&name, word, false),
            JsonValue::Nested(nested) => {
                let items = scan::numbers(nested).map(|numbers| numbers.len());
                sample.add_nested(&name, nested, items);
            }
        }
    }
}
