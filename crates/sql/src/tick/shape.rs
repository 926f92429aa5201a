//! The shape of a statement: its text without the literals that only select rows.
//!
//! Statements of one shape share a plan. Numbers and texts that something is compared with are lifted out; everything
//! else, such as a bucket's width, stays in the shape. A list of literals of one kind is lifted as a whole, so
//! statements share a shape for lists of any length, and the planned statement stays short. Cost: one pass over the
//! text, without a parser.

use std::collections::HashMap;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;

use crate::lifted_literals::LIFTED;
use crate::long_numbers::is_long;

/// Longest shape.
pub(super) const SHAPE_BYTES_MAX: usize = 256 << 10;

/// Up to this many literals, each new one is compared with all before it.
const LITERALS_COMPARED: usize = 32;

/// A statement with its literals lifted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    /// The key that all statements of this shape share.
    pub key: String,
    /// The lifted literals, in the order of the text.
    pub literals: Vec<ScalarValue>,
}

/// The context before a literal, which decides whether the literal is lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LiteralContext {
    /// Behind any other token literals aren't lifted.
    Other,
    /// `rows`, `range` or `groups`, behind which `between` bounds a window's frame.
    FrameUnits,
    /// A comparison.
    Comparison,
    /// `between`.
    Between,
    /// A literal that was lifted behind `between`.
    LowerBound,
    /// The `and` of a `between`.
    AndOfBetween,
    /// `in`.
    In,
    /// `in (`, or a comma in such a list.
    InList,
    /// A literal that was lifted in a list.
    ListItem,
}

/// The shape of a text; `None` if the text contains something that makes lifting unsafe, such as a text with a prefix. Comments count as blanks.
pub(super) fn shape(text: &str) -> Option<Shape> {
    let bytes = text.as_bytes();
    // These bytes separate the parts of keys.
    if bytes.iter().any(|byte| (1..=3).contains(byte)) {
        return None;
    }
    let mut shape = Shape { key: String::with_capacity(text.len().min(SHAPE_BYTES_MAX)), literals: Vec::new() };
    let mut seen = HashMap::new();
    let mut before = LiteralContext::Other;
    let mut at = 0;
    while at < bytes.len() {
        if shape.key.len() > SHAPE_BYTES_MAX {
            return None;
        }
        let byte = bytes[at];
        if let Some(end) = blank_end(text, at)? {
            if !shape.key.ends_with(' ') {
                shape.key.push(' ');
            }
            at = end;
            continue;
        }
        if byte == b'('
            && before == LiteralContext::In
            && let Some((end, list)) = list_of_literals(text, at + 1)
        {
            match list {
                Some(list) => {
                    shape.key.push('(');
                    take(&mut shape, &mut seen, LiteralContext::InList, &text[at..end], list);
                    shape.key.push(')');
                }
                // The types of the items decide how they are compared.
                None => shape.key.push_str(&text[at..end]),
            }
            before = LiteralContext::Other;
            at = end;
            continue;
        }
        match byte {
            b'\'' => {
                let (end, value) = text_literal(text, at)?;
                before = take(&mut shape, &mut seen, before, &text[at..end], ScalarValue::Utf8(Some(value)));
                at = end;
            }
            b'"' => {
                let end = at + 1 + text[at + 1..].find('"')? + 1;
                shape.key.push_str(&text[at..end]);
                before = LiteralContext::Other;
                at = end;
            }
            b'0'..=b'9' => {
                let end = number_end(bytes, at);
                let literal = &text[at..end];
                // An operation on two numbers is computed before it is planned.
                let is_operand = behind_blanks(&text[end..])?.starts_with(['+', '-', '*']);
                before = match number(literal).filter(|_| !is_operand) {
                    Some(value) => take(&mut shape, &mut seen, before, literal, value),
                    None => {
                        shape.key.push_str(literal);
                        LiteralContext::Other
                    }
                };
                at = end;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let end = word_end(bytes, at);
                // A text with a prefix, such as `e'\n'`, is read differently from plain text.
                if bytes.get(end) == Some(&b'\'') {
                    return None;
                }
                let word = &text[at..end];
                if let Some((literal_end, value)) = typed_literal(text, word, end) {
                    before = take(&mut shape, &mut seen, before, &text[at..literal_end], value?);
                    at = literal_end;
                    continue;
                }
                before = after_word(word, before);
                shape.key.push_str(word);
                at = end;
            }
            b'$' | b'@' | b'#' | b'`' | b'\\' => {
                // Parameters keep their names; any other word that begins like this makes lifting unsafe.
                let end = word_end(bytes, at + 1);
                if byte != b'$' || end == at + 1 || bytes.get(end) == Some(&b'$') {
                    return None;
                }
                shape.key.push_str(&text[at..end]);
                before = LiteralContext::Other;
                at = end;
            }
            _ => {
                let width = text[at..].chars().next().map_or(1, char::len_utf8);
                shape.key.push_str(&text[at..at + width]);
                before = after_sign(byte, before);
                at += width;
            }
        }
    }
    Some(shape)
}

/// The end of the blank or comment that begins at `at`, if one does. Outside, `None` for a comment that has another one in it, or no end.
fn blank_end(text: &str, at: usize) -> Option<Option<usize>> {
    let rest = &text[at..];
    if rest.starts_with([' ', '\t', '\n', '\r']) {
        return Some(Some(at + 1));
    }
    if rest.starts_with("--") {
        return Some(Some(rest.find('\n').map_or(text.len(), |end| at + end + 1)));
    }
    if let Some(comment) = rest.strip_prefix("/*") {
        let end = comment.find("*/")?;
        return (!comment[..end].contains("/*")).then_some(Some(at + end + 4));
    }
    Some(None)
}

/// The text after leading blanks and comments. `None` as for [`shape`].
pub(super) fn behind_blanks(text: &str) -> Option<&str> {
    behind_blanks_at(text, 0).map(|at| &text[at..])
}

/// Lifts a literal, or leaves it in the shape.
///
/// `seen` has the number of each literal by its spelling.
fn take<'t>(
    shape: &mut Shape,
    seen: &mut HashMap<&'t str, usize>,
    before: LiteralContext,
    written: &'t str,
    value: ScalarValue,
) -> LiteralContext {
    let after = match before {
        LiteralContext::Comparison => LiteralContext::Other,
        LiteralContext::Between => LiteralContext::LowerBound,
        LiteralContext::AndOfBetween => LiteralContext::Other,
        LiteralContext::InList => LiteralContext::ListItem,
        _ => {
            shape.key.push_str(written);
            return LiteralContext::Other;
        }
    };
    let kind = match &value {
        ScalarValue::List(list) => kind(&list.value_type()).to_ascii_uppercase(),
        value => kind(&value.data_type()),
    };
    // Equal literals are one parameter, so that expressions which are equal stay so.
    // Of a long list only those that are written alike, for it is looked through for each of them.
    let position = if shape.literals.len() < LITERALS_COMPARED {
        shape.literals.iter().position(|literal| *literal == value)
    } else {
        seen.get(written).copied()
    };
    let number = position.unwrap_or(shape.literals.len());
    if position.is_none() {
        seen.insert(written, number);
        shape.literals.push(value);
    }
    shape.key.push_str(&format!("\u{1}{kind}{number}\u{1}"));
    after
}

/// A letter for the type of a literal.
fn kind(data_type: &DataType) -> char {
    match data_type {
        DataType::Utf8 => 't',
        DataType::Int64 => 'i',
        DataType::Date32 => 'd',
        DataType::Timestamp(_, None) => 's',
        DataType::Timestamp(_, Some(_)) => 'z',
        _ => 'f',
    }
}

/// The list of literals that begins after the bracket at `at`, and the position after its end. No list, if they are of
/// several kinds.
fn list_of_literals(text: &str, mut at: usize) -> Option<(usize, Option<ScalarValue>)> {
    let mut values: Vec<ScalarValue> = Vec::new();
    let mut is_mixed = false;
    loop {
        at = behind_blanks_at(text, at)?;
        let (end, value) = literal(text, at)?;
        is_mixed |= values.first().is_some_and(|first| kind(&first.data_type()) != kind(&value.data_type()));
        values.push(value);
        at = behind_blanks_at(text, end)?;
        match text.as_bytes().get(at)? {
            b',' => at += 1,
            b')' => break,
            _ => return None,
        }
    }
    if is_mixed {
        return Some((at + 1, None));
    }
    let data_type = values.first()?.data_type();
    Some((at + 1, Some(ScalarValue::List(ScalarValue::new_list(&values, &data_type, true)))))
}

/// The end and the value of the literal at `at`.
fn literal(text: &str, at: usize) -> Option<(usize, ScalarValue)> {
    let bytes = text.as_bytes();
    match bytes.get(at)? {
        b'\'' => text_literal(text, at).map(|(end, value)| (end, ScalarValue::Utf8(Some(value)))),
        b'-' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
            let end = number_end(bytes, at + 1);
            Some((end, number(&text[at + 1..end])?.arithmetic_negate().ok()?))
        }
        b'0'..=b'9' => {
            let end = number_end(bytes, at);
            Some((end, number(&text[at..end])?))
        }
        b'a'..=b'z' | b'A'..=b'Z' => {
            let end = word_end(bytes, at);
            let (end, value) = typed_literal(text, &text[at..end], end)?;
            Some((end, value?))
        }
        _ => None,
    }
}

/// The position of the next token behind blanks and comments. `None` as for [`shape`].
fn behind_blanks_at(text: &str, mut at: usize) -> Option<usize> {
    while let Some(end) = blank_end(text, at)? {
        at = end;
    }
    Some(at)
}

fn after_word(word: &str, before: LiteralContext) -> LiteralContext {
    let is = |other: &str| word.eq_ignore_ascii_case(other);
    if is("rows") || is("range") || is("groups") {
        LiteralContext::FrameUnits
    } else if is("between") && before == LiteralContext::FrameUnits {
        LiteralContext::Other
    } else if is("between") {
        LiteralContext::Between
    } else if is("and") && before == LiteralContext::LowerBound {
        LiteralContext::AndOfBetween
    } else if is("in") {
        LiteralContext::In
    } else {
        LiteralContext::Other
    }
}

fn after_sign(sign: u8, before: LiteralContext) -> LiteralContext {
    match sign {
        b'=' | b'<' | b'>' => LiteralContext::Comparison,
        b'(' if before == LiteralContext::In => LiteralContext::InList,
        b',' if before == LiteralContext::ListItem => LiteralContext::InList,
        _ => LiteralContext::Other,
    }
}

/// The statement with a parameter in place of each lifted literal.
pub(super) fn with_parameters(shape: &Shape) -> String {
    let mut text = String::with_capacity(shape.key.len() + 16 * shape.literals.len());
    // Every second part is a mark: a kind and a number.
    for (place, part) in shape.key.split('\u{1}').enumerate() {
        if place % 2 == 0 {
            text.push_str(part);
        } else {
            text.push('$');
            text.push_str(LIFTED);
            text.push_str(&part[1..]);
        }
    }
    text
}

/// The end and the value of the text literal that begins at `start`.
fn text_literal(text: &str, start: usize) -> Option<(usize, String)> {
    let mut value = String::new();
    let mut at = start + 1;
    loop {
        let quote = at + text[at..].find('\'')?;
        value.push_str(&text[at..quote]);
        if text.as_bytes().get(quote + 1) != Some(&b'\'') {
            return Some((quote + 1, value));
        }
        value.push('\'');
        at = quote + 2;
    }
}

/// A date or a timestamp: a word, then a text. The value is `None` if the text is neither.
fn typed_literal(text: &str, word: &str, word_end: usize) -> Option<(usize, Option<ScalarValue>)> {
    let data_type = if word.eq_ignore_ascii_case("date") {
        DataType::Date32
    } else if word.eq_ignore_ascii_case("timestamptz") {
        // An instant, also beside a time with the label of a zone, where a time without one is that zone's local time.
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
    } else if word.eq_ignore_ascii_case("timestamp") {
        // A time without a zone label; an offset in the text is applied.
        DataType::Timestamp(TimeUnit::Nanosecond, None)
    } else {
        return None;
    };
    let start = word_end + text[word_end..].len() - text[word_end..].trim_start().len();
    if text.as_bytes().get(start) != Some(&b'\'') {
        return None;
    }
    let (end, value) = text_literal(text, start)?;
    Some((end, ScalarValue::Utf8(Some(value)).cast_to(&data_type).ok()))
}

fn word_end(bytes: &[u8], start: usize) -> usize {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    start + bytes[start..].iter().take_while(|byte| is_word(byte)).count()
}

/// The end of a number: digits, a point, an exponent, and any letters that follow, which would make it no number.
fn number_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        let in_exponent = matches!(byte, b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E') && at > start;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || in_exponent {
            at += 1;
        } else {
            break;
        }
    }
    at
}

/// The value of a number as SQL reads it.
fn number(text: &str) -> Option<ScalarValue> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Numbers beyond 64 bits are left to the parser.
        return text.parse().ok().map(|value| ScalarValue::Int64(Some(value)));
    }
    // A decimal may be compared with all of its digits.
    if is_long(text) {
        return None;
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    let value: Option<f64> = if plain { text.parse().ok() } else { None };
    value.map(|value| ScalarValue::Float64(Some(value)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn literals(text: &str) -> Vec<String> {
        shape(text).unwrap().literals.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_compared_with_is_lifted_and_nothing_else() {
        let text = "select a + 1, time_bucket(interval '1 minute', t) from q where s = 'IBM' and p>1.5 limit 3";
        assert_eq!(literals(text), ["IBM", "1.5"]);
        assert_eq!(
            literals("select * from q where s in ('A', 'B''s') and t between 1 and 2 and x = y"),
            ["[A, B's]", "1", "2"]
        );
        assert_eq!(literals("select * from q where date = date '2020-01-01'"), ["2020-01-01"]);
        let [one, other] =
            ["timestamp", "TIMESTAMPTZ"].map(|word| format!("select 1 from q where t < {word} '2020-01-01T00:00:00Z'"));
        assert_eq!(literals(&one), literals(&other));
        assert_eq!(literals("select date '2020-01-01', date(x) from q where t < x + 1"), Vec::<String>::new());
        assert_eq!(literals("select 'a' = 'b', x between 1e3 and y, c1 from q2"), ["b", "1000"]);
        // Numbers that something is computed from stay.
        assert_eq!(literals("select * from q where x = -5 and y = 1 + 2 and z > 6 - z and w < 7 / w"), ["7"]);
        assert!(literals("select sum(p) over (rows between 2 preceding and 3 following) from q").is_empty());
    }

    #[test]
    fn statements_that_differ_in_lifted_literals_alone_have_one_shape() {
        let one = shape("select * from q where s = 'IBM'  and p > 2").unwrap();
        let other = shape("select * from q where s = 'A' and p > 77").unwrap();
        assert_eq!(one.key, other.key);
        assert_ne!(one.key, shape("select * from q where s = 'A' and p > 7.5").unwrap().key);
        assert_ne!(one.key, shape("select * from q where s = 5 and p > 7").unwrap().key);
        let [plain, labelled] =
            ["timestamp", "timestamptz"].map(|word| shape(&format!("select 1 from q where t < {word} '2020-01-01'")));
        assert_ne!(plain.unwrap().key, labelled.unwrap().key);
        assert_ne!(shape("select 1 from q").unwrap().key, shape("select 2 from q").unwrap().key);
    }

    #[test]
    fn lists_are_lifted_as_a_whole() {
        let one = shape("select * from q where s in ('A', 'B''s') and i not in (1, -2)").unwrap();
        let other = shape("select * from q where s in ( 'C' /* , */ ,'D','E') and i not in (3)").unwrap();
        assert_eq!(one.key, other.key);
        assert_eq!(
            with_parameters(&one),
            "select * from q where s in ($splay_lifted_0) and i not in ($splay_lifted_1)"
        );
        assert_eq!(literals("select * from q where s in ('A', 'B') or s in ('A', 'B')"), ["[A, B]"]);
        let dates = "select * from q where date in (date '2020-01-01', date '2020-01-02')";
        assert_eq!(literals(dates), ["[2020-01-01, 2020-01-02]"]);
        // Lists of several kinds are lifted one by one, as far as that goes.
        assert_eq!(literals("select * from q where i in (1, 2.5, x) or i in (select 1)"), ["1", "2.5"]);
        let long: Vec<String> = (0..50_000).map(|number| format!("'S{number}'")).collect();
        let long = shape(&format!("select * from q where s in ({})", long.join(", "))).unwrap();
        assert_eq!((long.key.len() < 100, long.literals.len()), (true, 1));
        assert_eq!(shape(&"x + ".repeat(SHAPE_BYTES_MAX)), None);
    }

    #[test]
    fn doubtful_texts_have_no_shape() {
        for text in
            ["select /* a /* b */ c */ 1", "select /* 1", "select 'a", "select e'\\n'", "select $$a$$", "select \"a"]
        {
            assert_eq!(shape(text), None, "{text}");
        }
    }

    #[test]
    fn comments_are_blanks() {
        let plain = shape("select 1 from q where x = 5 and y - 1 / 2 < 3").unwrap();
        for text in [
            "-- x = 2\nselect 1 from q where x = 5 and y - 1 / 2 < 3",
            "select/**/1 from q /* 'a' -- */ where x = 5 and y - 1 / 2 < 3",
            "select 1 from q where x =--'\n5 and y - 1 / 2 < 3",
        ] {
            let commented = shape(text).unwrap();
            assert_eq!((commented.key.trim(), &commented.literals), (plain.key.as_str(), &plain.literals), "{text}");
        }
        assert_eq!(shape("select 1 -- x = 2").unwrap(), shape("select 1 ").unwrap());
        assert_eq!(shape("select '--', \"/*\"").unwrap().key, "select '--', \"/*\"");
        assert_eq!(behind_blanks(" /* a */ -- b\n select"), Some("select"));
    }

    #[test]
    fn parameters_stand_where_literals_stood() {
        let shape = shape("select * from q where s = 'IBM' and p > 2 and q < $1").unwrap();
        let text = with_parameters(&shape);
        assert_eq!(text, "select * from q where s = $splay_lifted_0 and p > $splay_lifted_1 and q < $1");
    }

    #[test]
    fn equal_literals_are_one_parameter() {
        let shape =
            shape("select case when p > 2 then 1 end from q where p > 2 group by case when p > 2 then 1 end").unwrap();
        assert_eq!(shape.literals.len(), 1);
        assert_eq!(with_parameters(&shape).matches("$splay_lifted_0").count(), 3);
    }
}
