//! Where the values of a JSON object lie, and what kind they are (RFC 8259).

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::csv::numbers;

/// Most lists and objects within each other.
const DEPTH_MAX: u32 = 128;

/// A value as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonValue<'a> {
    Null,
    /// A string without its quotes and escapes.
    Text(Cow<'a, [u8]>),
    /// A number, `true` or `false`.
    Word(&'a [u8]),
    /// A list or an object.
    Nested(&'a [u8]),
}

/// The fields of an object that stands at the beginning of the bytes, in order. Nothing but white space may follow it.
pub(crate) struct ObjectFields<'a> {
    bytes: &'a [u8],
    at: usize,
    state: ScanState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanState {
    Before,
    Within,
    Done,
}

impl<'a> ObjectFields<'a> {
    pub fn new(bytes: &'a [u8]) -> ObjectFields<'a> {
        ObjectFields { bytes, at: 0, state: ScanState::Before }
    }

    fn peek(&mut self) -> Option<u8> {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Takes one of the given bytes.
    fn expect(&mut self, expected: &[u8], name: &str) -> Result<u8, String> {
        match self.peek() {
            Some(byte) if expected.contains(&byte) => {
                self.at += 1;
                Ok(byte)
            }
            Some(byte) => Err(format!("is not a JSON object: {name} expected, {:?} found", char::from(byte))),
            None => Err(format!("is not a JSON object: {name} expected, and it ends")),
        }
    }

    fn field(&mut self) -> Result<Option<(Cow<'a, [u8]>, JsonValue<'a>)>, String> {
        if self.state == ScanState::Before {
            self.expect(b"{", "{")?;
            if self.peek() == Some(b'}') {
                self.at += 1;
                return self.end();
            }
        } else if self.expect(b",}", ", or }")? == b'}' {
            return self.end();
        }
        self.state = ScanState::Within;
        if self.peek() != Some(b'"') {
            self.expect(b"\"", "a name in quotes")?;
        }
        let (name, end) = string(self.bytes, self.at)?;
        self.at = end;
        self.expect(b":", ":")?;
        self.peek();
        let (value, end) = value(self.bytes, self.at)?;
        self.at = end;
        Ok(Some((name, value)))
    }

    fn end(&mut self) -> Result<Option<(Cow<'a, [u8]>, JsonValue<'a>)>, String> {
        match self.peek() {
            None => Ok(None),
            Some(_) => Err("more follows the object in its line".to_owned()),
        }
    }
}

impl<'a> Iterator for ObjectFields<'a> {
    type Item = Result<(Cow<'a, [u8]>, JsonValue<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == ScanState::Done {
            return None;
        }
        let field = self.field();
        if !matches!(field, Ok(Some(_))) {
            self.state = ScanState::Done;
        }
        field.transpose()
    }
}

/// The string whose opening quote is at `at`, and where it ends.
fn string(bytes: &[u8], at: usize) -> Result<(Cow<'_, [u8]>, usize), String> {
    let end = string_end(bytes, at).ok_or("a quote is opened and never closed")?;
    let inner = &bytes[at + 1..end - 1];
    if memchr::memchr(b'\\', inner).is_none() {
        return Ok((Cow::Borrowed(inner), end));
    }
    match serde_json::from_slice::<String>(&bytes[at..end]) {
        Ok(text) => Ok((Cow::Owned(text.into_bytes()), end)),
        Err(error) => Err(format!("a string is wrong: {}", plain(&error))),
    }
}

/// What serde says, without its position in the piece.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.find(" at line").map_or(text.clone(), |at| text[..at].to_owned())
}

fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The value at `at`, and where it ends.
pub(crate) fn value(bytes: &[u8], at: usize) -> Result<(JsonValue<'_>, usize), String> {
    match bytes.get(at) {
        Some(b'"') => string(bytes, at).map(|(text, end)| (JsonValue::Text(text), end)),
        Some(b'{' | b'[') => {
            let end = object_end(bytes, at).ok_or("a list or an object is never closed")?;
            let nested = &bytes[at..end];
            match serde_json::from_slice::<IgnoredAny>(nested) {
                Ok(_) => Ok((JsonValue::Nested(nested), end)),
                Err(error) => Err(format!("a list or an object is wrong: {}", plain(&error))),
            }
        }
        _ => {
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
            let end = at + bytes[at.min(bytes.len())..].iter().take_while(|byte| is_word(byte)).count();
            let word = &bytes[at.min(end)..end];
            match word {
                b"null" => Ok((JsonValue::Null, end)),
                b"true" | b"false" | b"NaN" | b"Infinity" | b"-Infinity" => Ok((JsonValue::Word(word), end)),
                _ if is_number(word) => Ok((JsonValue::Word(word), end)),
                b"" => Err("is not a JSON object: a value is missing".to_owned()),
                _ => Err(format!("{} is not a JSON value", crate::csv::columns::shown(word))),
            }
        }
    }
}

fn is_number(word: &[u8]) -> bool {
    let digits = |of: &[u8]| of.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// Where the object or list that begins at `at` ends; `None` if it doesn't.
pub(crate) fn object_end(bytes: &[u8], at: usize) -> Option<usize> {
    let (mut at, mut depth) = (at, 0u32);
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        if depth > DEPTH_MAX {
            return None;
        }
        at += 1;
    }
}

fn number(text: &[u8]) -> Option<f64> {
    numbers::float(text, 0).filter(|value| !numbers::is_beyond(*value, text))
}

/// The numbers of a list; `None` if it holds anything else. Texts that are numbers are numbers.
pub(crate) fn numbers(nested: &[u8]) -> Option<Vec<Option<f64>>> {
    let inner = nested.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let mut numbers_read = Vec::new();
    if inner.trim_ascii().is_empty() {
        return Some(numbers_read);
    }
    let mut at = 0;
    loop {
        at += inner[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (value, end) = value(inner, at).ok()?;
        numbers_read.push(match value {
            JsonValue::Null => None,
            JsonValue::Word(b"true" | b"false") | JsonValue::Nested(_) => return None,
            JsonValue::Word(word) => Some(number(word)?),
            JsonValue::Text(text) => Some(number(text.trim_ascii())?),
        });
        at = end + inner[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match inner.get(at) {
            None => return Some(numbers_read),
            Some(b',') => at += 1,
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Result<Vec<(String, String)>, String> {
        let shown = |value: JsonValue<'_>| match value {
            JsonValue::Null => "null".to_owned(),
            JsonValue::Text(text) => format!("'{}'", String::from_utf8_lossy(&text)),
            JsonValue::Word(word) | JsonValue::Nested(word) => String::from_utf8_lossy(word).into_owned(),
        };
        ObjectFields::new(text.as_bytes())
            .map(|field| field.map(|(name, value)| (String::from_utf8_lossy(&name).into_owned(), shown(value))))
            .collect()
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let text =
            r#" { "a" : 1.50 , "b\n":"x\"\u00e9","c":null,"d":[1,{"e":"]"}], "f":{} ,"g":-0.1e-7,"h":true,"i":NaN } "#;
        let scanned = fields(text).unwrap();
        let values: Vec<&str> = scanned.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["1.50", "'x\"é'", "null", "[1,{\"e\":\"]\"}]", "{}", "-0.1e-7", "true", "NaN"]);
        assert_eq!(scanned[1].0, "b\n");
        assert_eq!(fields("{}").unwrap(), []);
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{a:1}",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":+1}",
            "{\"a\":.5}",
            "{\"a\":1e}",
            "{\"a\":nul}",
            "{\"a\":\"x}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":[1,]}",
            "{\"a\":1} x",
            "{\"a\":1}{\"a\":2}",
            "[1]",
            "{\"a\":[}",
            "{\"a\":'x'}",
        ] {
            assert!(fields(text).is_err(), "{text}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(fields(&deep).is_err());
    }

    #[test]
    fn lists_of_numbers_are_told_from_others() {
        assert_eq!(numbers(b"[1, \"2.5\" ,null]"), Some(vec![Some(1.0), Some(2.5), None]));
        assert_eq!(numbers(b"[ ]"), Some(vec![]));
        for text in ["[true]", "[[1]]", "[\"x\"]", "{}", "[{}]"] {
            assert_eq!(numbers(text.as_bytes()), None, "{text}");
        }
    }
}
