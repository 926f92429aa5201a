//! Rows in the formats of `COPY`: decoded into columns, and encoded.
//!
//! - Text and CSV become text columns, which are converted to the table's types like those of `INSERT`; binary values
//!   are decoded like placeholders.
//! - A line with a wrong number of values, or a truncated one, is refused with its number.

use std::borrow::Cow;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::Field;
use bytes::Buf;
use splay_sql::{ScalarValue, StreamFormat, StreamKind};

use super::types::Type;
use super::values;

/// The beginning of binary data.
pub(super) const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 65_536;

type Rows<'a> = Box<dyn Iterator<Item = Result<RecordBatch, String>> + 'a>;

/// The rows that a client has sent, in batches. Nothing comes behind a failure.
pub(super) fn rows<'a>(bytes: &'a [u8], fields: &'a [Field], format: &'a StreamFormat) -> Rows<'a> {
    match format.kind {
        StreamKind::Binary => {
            let mut rows = BinaryRows { rest: bytes, row: 0, has_begun: false, has_ended: false, fields };
            Box::new(batches(move || rows.batch()))
        }
        _ => {
            let mut lines = CopyLines { rest: bytes, line: 0, has_header: format.has_header, fields, format };
            Box::new(batches(move || lines.batch()))
        }
    }
}

fn batches(
    mut next: impl FnMut() -> Result<Option<RecordBatch>, String>,
) -> impl Iterator<Item = Result<RecordBatch, String>> {
    let mut has_ended = false;
    std::iter::from_fn(move || {
        let batch = if has_ended { None } else { next().transpose() };
        has_ended = !matches!(batch, Some(Ok(_)));
        batch
    })
}

/// A batch of columns under the names of the fields.
fn batch(fields: &[Field], columns: Vec<ArrayRef>) -> Result<RecordBatch, String> {
    let named = fields.iter().zip(columns).map(|(field, column)| (field.name(), column, true));
    RecordBatch::try_from_iter_with_nullable(named).map_err(|error| error.to_string())
}

/// Rows of text or CSV.
struct CopyLines<'a> {
    rest: &'a [u8],
    /// Lines that were read.
    line: usize,
    has_header: bool,
    fields: &'a [Field],
    format: &'a StreamFormat,
}

impl<'a> CopyLines<'a> {
    fn batch(&mut self) -> Result<Option<RecordBatch>, String> {
        let mut columns: Vec<StringBuilder> = self.fields.iter().map(|_| StringBuilder::new()).collect();
        let (mut rows, mut values) = (0, Vec::with_capacity(self.fields.len()));
        while rows < BATCH_ROWS && !self.rest.is_empty() {
            let begin = self.line + 1;
            let is_end = match self.format.kind {
                StreamKind::Csv => self.csv_line(&mut values),
                _ => self.text_line(&mut values),
            }
            .map_err(|reason| format!("line {begin}: {reason}"))?;
            if is_end {
                self.rest = &[];
                break;
            }
            if std::mem::take(&mut self.has_header) {
                continue;
            }
            // PostgreSQL takes an empty line for a row of one value.
            if values.len() != self.fields.len() {
                return Err(format!("line {begin}: {}", self.wrong_count(values.len())));
            }
            for (column, value) in columns.iter_mut().zip(&values) {
                let text = value.as_deref().map(std::str::from_utf8).transpose();
                column.append_option(text.map_err(|_| format!("line {begin}: the text is not UTF-8"))?);
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let columns = columns.iter_mut().map(|column| std::sync::Arc::new(column.finish()) as ArrayRef);
        batch(self.fields, columns.collect()).map(Some)
    }

    /// The error for a line with another number of values.
    fn wrong_count(&self, values: usize) -> String {
        match self.fields.get(values) {
            Some(missing) => format!("missing data for column {:?}", missing.name()),
            None => "extra data after last expected column".to_owned(),
        }
    }

    /// A line without its end.
    fn take_line(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (line, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        self.line += 1;
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// The values of the next line; whether it is the mark of the end.
    fn text_line(&mut self, values: &mut Vec<Option<Cow<'a, [u8]>>>) -> Result<bool, String> {
        let line = self.take_line();
        if line == b"\\." {
            return Ok(true);
        }
        values.clear();
        let (mut start, mut at, mut has_escapes) = (0, 0, false);
        loop {
            let byte = line.get(at).copied();
            if byte == Some(b'\\') {
                (at, has_escapes) = (at + 2, true);
                continue;
            }
            if byte.is_some_and(|byte| byte != self.format.delimiter) {
                at += 1;
                continue;
            }
            let value = &line[start..at.min(line.len())];
            values.push(if value == self.format.null.as_bytes() {
                None
            } else if has_escapes {
                Some(Cow::Owned(without_backslashes(value)?))
            } else {
                Some(Cow::Borrowed(value))
            });
            if values.len() > self.fields.len() {
                return Ok(false);
            }
            if at >= line.len() {
                return Ok(false);
            }
            (start, at, has_escapes) = (at + 1, at + 1, false);
        }
    }

    /// The same of CSV, whose values may have ends of lines in them.
    fn csv_line(&mut self, values: &mut Vec<Option<Cow<'a, [u8]>>>) -> Result<bool, String> {
        values.clear();
        let bytes = self.rest;
        let (quote, delimiter) = (self.format.quote, self.format.delimiter);
        self.line += 1;
        if let Some(rest) = bytes.strip_prefix(b"\\.")
            && matches!(rest, [] | [b'\n' | b'\r', ..])
        {
            return Ok(true);
        }
        let mut at = 0;
        loop {
            let (mut value, mut start, mut is_quoted) = (Cow::Borrowed(&bytes[at..at]), at, false);
            // Parts in quotes and outside of them alternate.
            let is_line_end = loop {
                let part = bytes[at..].iter().position(|byte| *byte == quote || *byte == delimiter || *byte == b'\n');
                let end = part.map_or(bytes.len(), |part| at + part);
                append(&mut value, &bytes[start..end]);
                at = end;
                if bytes.get(at) != Some(&quote) {
                    break bytes[start..end].ends_with(b"\r");
                }
                is_quoted = true;
                at = self.read_quoted(bytes, at + 1, &mut value)?;
                start = at;
            };
            let is_last = bytes.get(at) != Some(&delimiter);
            if is_last && is_line_end {
                value = Cow::Owned(value[..value.len() - 1].to_vec());
            }
            values.push((is_quoted || *value != *self.format.null.as_bytes()).then_some(value));
            at += 1;
            if is_last || values.len() > self.fields.len() {
                self.rest = bytes.get(at..).unwrap_or_default();
                return Ok(false);
            }
        }
    }

    /// Appends what stands up to the end of a quote; where that is.
    fn read_quoted(&mut self, bytes: &'a [u8], mut at: usize, value: &mut Cow<'a, [u8]>) -> Result<usize, String> {
        let quote = self.format.quote;
        loop {
            let Some(length) = bytes[at..].iter().position(|byte| *byte == quote) else {
                return Err("unterminated CSV quoted field".to_owned());
            };
            let part = &bytes[at..at + length];
            self.line += part.iter().filter(|byte| **byte == b'\n').count();
            append(value, part);
            at += length + 1;
            if bytes.get(at) != Some(&quote) {
                return Ok(at);
            }
            append(value, &[quote]);
            at += 1;
        }
    }
}

fn append<'a>(value: &mut Cow<'a, [u8]>, part: &[u8]) {
    if !part.is_empty() {
        value.to_mut().extend_from_slice(part);
    }
}

/// A value of text without its backslashes.
fn without_backslashes(value: &[u8]) -> Result<Vec<u8>, String> {
    let (mut plain, mut at) = (Vec::with_capacity(value.len()), 0);
    while at < value.len() {
        if value[at] != b'\\' {
            plain.push(value[at]);
            at += 1;
            continue;
        }
        let Some(next) = value.get(at + 1) else { return Err("a backslash at the end".to_owned()) };
        at += 2;
        let digits = |from: usize, most: usize, is_digit: fn(&u8) -> bool| {
            value[from..].iter().take(most).take_while(|byte| is_digit(byte)).count()
        };
        let number = |from: usize, count: usize, radix: u32| {
            let text = std::str::from_utf8(&value[from..from + count]).unwrap_or_default();
            u32::from_str_radix(text, radix).unwrap_or(0).to_le_bytes()[0]
        };
        plain.push(match next {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let count = digits(at - 1, 3, |byte| matches!(byte, b'0'..=b'7'));
                at += count - 1;
                number(at - count, count, 8)
            }
            b'x' if value.get(at).is_some_and(u8::is_ascii_hexdigit) => {
                let count = digits(at, 2, u8::is_ascii_hexdigit);
                at += count;
                number(at - count, count, 16)
            }
            other => *other,
        });
    }
    Ok(plain)
}

/// A value of text with backslashes before what has a meaning; `None` if there is none.
pub(super) fn with_backslashes(value: &[u8], delimiter: u8) -> Option<Vec<u8>> {
    let has_meaning = |byte: &u8| matches!(byte, b'\\' | b'\n' | b'\r' | b'\t' | 8 | 11 | 12) || *byte == delimiter;
    value.iter().any(has_meaning).then(|| {
        let mut written = Vec::with_capacity(value.len() + 8);
        for byte in value {
            match byte {
                b'\n' => written.extend(b"\\n"),
                b'\r' => written.extend(b"\\r"),
                b'\t' => written.extend(b"\\t"),
                8 => written.extend(b"\\b"),
                11 => written.extend(b"\\v"),
                12 => written.extend(b"\\f"),
                byte if has_meaning(byte) => written.extend([b'\\', *byte]),
                byte => written.push(*byte),
            }
        }
        written
    })
}

/// A value of CSV, in quotes where it needs them, also so that it can't be taken for null.
pub(super) fn in_quotes(value: &[u8], format: &StreamFormat) -> Option<Vec<u8>> {
    let has_meaning = |byte: &u8| *byte == format.delimiter || *byte == format.quote || matches!(byte, b'\n' | b'\r');
    (value.iter().any(has_meaning) || value == format.null.as_bytes() || value == b"\\.").then(|| {
        let mut written = vec![format.quote];
        for byte in value {
            if *byte == format.quote {
                written.push(format.quote);
            }
            written.push(*byte);
        }
        written.push(format.quote);
        written
    })
}

/// Rows of the binary format.
struct BinaryRows<'a> {
    rest: &'a [u8],
    row: usize,
    has_begun: bool,
    has_ended: bool,
    fields: &'a [Field],
}

impl<'a> BinaryRows<'a> {
    fn batch(&mut self) -> Result<Option<RecordBatch>, String> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.header()?;
        }
        let types: Vec<Type> = self.fields.iter().map(|field| Type::of(field.data_type())).collect();
        let mut columns: Vec<Vec<ScalarValue>> = vec![Vec::new(); self.fields.len()];
        let mut rows = 0;
        while rows < BATCH_ROWS && !self.has_ended {
            self.row += 1;
            let row = self.row;
            let at_row = |reason: String| format!("row {row}: {reason}");
            // Clients may leave the trailer out, as ADBC's driver does: then the message of the end is the end, as in PostgreSQL.
            let count =
                if self.rest.is_empty() { -1 } else { self.rest.try_get_i16().map_err(|_| at_row(truncated()))? };
            if count == -1 {
                self.has_ended = true;
                break;
            }
            if usize::try_from(count) != Ok(self.fields.len()) {
                return Err(at_row(format!("row field count is {count}, expected {}", self.fields.len())));
            }
            for (at, (column, of)) in columns.iter_mut().zip(&types).enumerate() {
                let value = self.value().map_err(at_row)?;
                let value = values::value(at + 1, of.oid, 1, value);
                column.push(value.map_err(|refusal| at_row(refusal.message))?);
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = columns.into_iter().map(|column| array(column)).collect::<Result<Vec<_>, _>>()?;
        batch(self.fields, arrays).map(Some)
    }

    fn header(&mut self) -> Result<(), String> {
        let Some(rest) = self.rest.strip_prefix(SIGNATURE) else {
            return Err("COPY file signature not recognized".to_owned());
        };
        self.rest = rest;
        let flags = self.rest.try_get_u32().map_err(|_| truncated())?;
        let extension = self.rest.try_get_u32().map_err(|_| truncated())?;
        if flags != 0 {
            return Err(format!("unrecognized flags {flags:#x} in the header"));
        }
        let extension = usize::try_from(extension).unwrap_or(usize::MAX);
        self.rest = self.rest.get(extension..).ok_or_else(truncated)?;
        Ok(())
    }

    fn value(&mut self) -> Result<Option<&'a [u8]>, String> {
        let length = self.rest.try_get_i32().map_err(|_| truncated())?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| format!("a value of {length} bytes"))?;
        let (value, rest) = self.rest.split_at_checked(length).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(Some(value))
    }
}

fn truncated() -> String {
    "unexpected end of the data".to_owned()
}

/// A column of values. Those of numbers have the digits that each of them has.
fn array(values: Vec<ScalarValue>) -> Result<ArrayRef, String> {
    let is_decimal = |value: &ScalarValue| matches!(value, ScalarValue::Decimal128(_, _, _) | ScalarValue::Float64(_));
    let first = values.first().map(ScalarValue::data_type);
    let is_mixed = values.iter().any(|value| Some(value.data_type()) != first);
    if is_mixed && values.iter().all(is_decimal) {
        let texts = values.iter().map(|value| if value.is_null() { None } else { Some(value.to_string()) });
        return Ok(std::sync::Arc::new(texts.collect::<arrow::array::StringArray>()));
    }
    ScalarValue::iter_to_array(values).map_err(|error| error.to_string())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::DataType;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn format(kind: StreamKind) -> StreamFormat {
        let (delimiter, null) = if kind == StreamKind::Csv { (b',', "") } else { (b'\t', "\\N") };
        StreamFormat { kind, delimiter, null: null.to_owned(), has_header: false, quote: b'"' }
    }

    fn fields() -> Vec<Field> {
        ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true)).to_vec()
    }

    fn texts(bytes: &[u8], format: &StreamFormat) -> Result<Vec<Vec<Option<String>>>, String> {
        let (mut decoded, fields) = (Vec::new(), fields());
        for batch in rows(bytes, &fields, format) {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let columns = batch.columns().iter().map(|column| column.as_string::<i32>());
                decoded.push(columns.map(|column| column.iter().nth(row).flatten().map(str::to_owned)).collect());
            }
        }
        Ok(decoded)
    }

    fn some(rows: &[[Option<&str>; 2]]) -> Vec<Vec<Option<String>>> {
        rows.iter().map(|row| row.iter().map(|value| value.map(str::to_owned)).collect()).collect()
    }

    #[test]
    fn text_is_read_as_postgresql_writes_it() {
        let text = "IBM\t1.5\r\n\\N\ta\\tb\\\\\\n\\x41\\101\\q\n\t\\\\N\n";
        let expected = some(&[[Some("IBM"), Some("1.5")], [None, Some("a\tb\\\nAAq")], [Some(""), Some("\\N")]]);
        assert_eq!(texts(text.as_bytes(), &format(StreamKind::Text)).unwrap(), expected);
        assert_eq!(texts(b"a\tb\n\\.\nx", &format(StreamKind::Text)).unwrap(), some(&[[Some("a"), Some("b")]]));
        assert_eq!(texts(b"", &format(StreamKind::Text)).unwrap(), some(&[]));
        let header = StreamFormat { has_header: true, ..format(StreamKind::Text) };
        assert_eq!(texts(b"x\ty\na\tb", &header).unwrap(), some(&[[Some("a"), Some("b")]]));
    }

    #[test]
    fn csv_is_read_as_postgresql_writes_it() {
        let text = "IBM,1.5\r\n,\"\"\r\n\"a,\"\"b\"\"\nc\",x\"y\"z\r\n";
        let expected = some(&[[Some("IBM"), Some("1.5")], [None, Some("")], [Some("a,\"b\"\nc"), Some("xyz")]]);
        assert_eq!(texts(text.as_bytes(), &format(StreamKind::Csv)).unwrap(), expected);
        let other = StreamFormat { delimiter: b'|', quote: b'\'', null: "-".to_owned(), ..format(StreamKind::Csv) };
        assert_eq!(texts(b"'-'|-\n|'it''s'", &other).unwrap(), some(&[[Some("-"), None], [Some(""), Some("it's")]]));
    }

    #[test]
    fn binary_rows_end_with_a_trailer_or_without() {
        let rows = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01a\xff\xff\xff\xff";
        for end in [&b""[..], b"\xff\xff"] {
            let decoded = texts(&[&rows[..], end].concat(), &format(StreamKind::Binary)).unwrap();
            assert_eq!(decoded, some(&[[Some("a"), None]]));
        }
        assert_eq!(texts(&rows[..19], &format(StreamKind::Binary)).unwrap(), some(&[]));
    }

    #[test]
    fn lines_that_do_not_fit_are_named() {
        for (kind, text, expected) in [
            (StreamKind::Text, &b"a\tb\na\n"[..], "line 2: missing data for column \"b\""),
            (StreamKind::Text, b"a\tb\tc\n", "line 1: extra data"),
            (StreamKind::Text, b"a\tb\\\n", "line 1: a backslash"),
            (StreamKind::Text, b"a\t\xff\n", "line 1: the text is not UTF-8"),
            (StreamKind::Csv, b"\"a\nb\",c\nd\n", "line 3: missing data"),
            (StreamKind::Csv, b"a,\"b\n", "line 1: unterminated"),
            (StreamKind::Binary, b"PGCOPY", "signature"),
            (StreamKind::Binary, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0", "row 1: unexpected end"),
            (StreamKind::Binary, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03", "field count is 3"),
            (StreamKind::Binary, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x09", "unexpected end"),
        ] {
            let message = texts(text, &format(kind)).unwrap_err();
            assert!(message.contains(expected), "{}: {message}", text.escape_ascii());
        }
    }

    /// Whatever was written is read again, and bytes of no meaning end nothing but the statement.
    #[test]
    fn values_come_back_and_random_bytes_are_refused_or_read() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let letters = ["a", "\\", "\n", "\r", "\t", ",", "\"", "N", ".", "é", "\u{8}", "x41", " "];
        for _ in 0..20_000 {
            let kind = [StreamKind::Text, StreamKind::Csv][random.random_range(0..2)];
            let format = format(kind);
            let mut value = || {
                let length = random.random_range(0..5);
                random
                    .random_bool(0.9)
                    .then(|| (0..length).map(|_| letters[random.random_range(0..letters.len())]).collect::<String>())
            };
            let row = vec![value(), value()];
            let written = row.iter().map(|value| match value {
                None => format.null.clone().into_bytes(),
                Some(value) if kind == StreamKind::Csv => {
                    in_quotes(value.as_bytes(), &format).unwrap_or_else(|| value.clone().into())
                }
                Some(value) => with_backslashes(value.as_bytes(), b'\t').unwrap_or_else(|| value.clone().into()),
            });
            let mut line = written.collect::<Vec<_>>().join(&format.delimiter);
            line.push(b'\n');
            assert_eq!(texts(&line, &format).unwrap(), vec![row], "{}", line.escape_ascii());
            let bytes: Vec<u8> =
                (0..random.random_range(0..12)).map(|_| b"a\\\n\r\t,\"N.\xff\0x"[random.random_range(0..12)]).collect();
            let _ = texts(&bytes, &format);
            let binary = [SIGNATURE, &bytes].concat();
            let _ = texts(&binary, &self::format(StreamKind::Binary));
        }
    }
}
