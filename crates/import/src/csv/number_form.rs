//! Numbers with signs between groups of digits, or with another sign than a point before the fraction.

use std::borrow::Cow;

/// How numbers are written, as in `1,234.5`, `1.234,5` and `1234,5` for 1234.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberForm {
    group: Option<u8>,
    point: u8,
}

/// U+00A0 and the narrow U+202F.
const NO_BREAK_SPACES: [char; 2] = ['\u{a0}', '\u{202f}'];

impl NumberForm {
    /// The forms that hints name.
    pub(crate) const USUAL: [NumberForm; 2] =
        [NumberForm { group: Some(b','), point: b'.' }, NumberForm { group: Some(b'.'), point: b',' }];

    /// The number with a point and without groups; `None` if it isn't written so. Groups have three digits, and either all are marked or none. Blanks
    /// between groups may be such that no line breaks at, as French spreadsheets write them.
    pub(crate) fn plain<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.group == Some(b' ') && !text.is_ascii() {
            let text = std::str::from_utf8(text).ok()?.replace(NO_BREAK_SPACES, " ");
            return self.of_ascii(text.as_bytes()).map(|number| Cow::Owned(number.into_owned()));
        }
        self.of_ascii(text)
    }

    fn of_ascii<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
        let end = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let point = text[..end].iter().position(|byte| *byte == self.point).unwrap_or(end);
        let whole = text.get(sign..point)?;
        let is_group = |byte: &u8| Some(*byte) == self.group;
        let is_fine = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        let fraction = &text[(point + 1).min(end)..end];
        if !is_fine(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        if !whole.iter().any(is_group) {
            if !is_fine(whole) {
                return None;
            }
            if point == end || self.point == b'.' {
                return Some(Cow::Borrowed(text));
            }
        }
        let mut groups = whole.split(is_group);
        let first = groups.next()?;
        let is_grouped = whole.len() > first.len();
        if !is_fine(first) || is_grouped && !(1..=3).contains(&first.len()) {
            return None;
        }
        let mut number = text[..sign].to_vec();
        number.extend_from_slice(first);
        for group in groups {
            if group.len() != 3 || !is_fine(group) {
                return None;
            }
            number.extend_from_slice(group);
        }
        if point < end {
            number.push(b'.');
            number.extend_from_slice(fraction);
        }
        number.extend_from_slice(&text[end..]);
        Some(Cow::Owned(number))
    }
}

impl std::str::FromStr for NumberForm {
    type Err = String;

    fn from_str(text: &str) -> Result<NumberForm, String> {
        let wrong = || format!("{text:?} doesn't say how 1234.5 is written, as 1,234.5 or 1.234,5 or 1234,5 do");
        let text = text.replace(NO_BREAK_SPACES, " ");
        let others: Vec<(usize, u8)> = text.bytes().enumerate().filter(|(_, byte)| !byte.is_ascii_digit()).collect();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let is_sign = |byte: u8| byte.is_ascii_punctuation() && !matches!(byte, b'-' | b'+' | b'"') || byte == b' ';
        let (group, point) = match others.as_slice() {
            [(4, point)] => (None, *point),
            [(1, group), (5, point)] if group != point => (Some(*group), *point),
            _ => return Err(wrong()),
        };
        if digits != "12345" || !is_sign(point) || group.is_some_and(|group| !is_sign(group)) {
            return Err(wrong());
        }
        Ok(NumberForm { group, point })
    }
}

impl std::fmt::Display for NumberForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group {
            Some(group) => write!(f, "1{}234{}5", char::from(group), char::from(self.point)),
            None => write!(f, "1234{}5", char::from(self.point)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_example_is_written() {
        for (form, text, expected) in [
            ("1,234.5", "1,234,567.25", Some("1234567.25")),
            ("1,234.5", "-1,234", Some("-1234")),
            ("1,234.5", "12.5", Some("12.5")),
            ("1,234.5", "1234567", Some("1234567")),
            ("1,234.5", "1,23", None),
            ("1,234.5", "1234,567", None),
            ("1,234.5", "1,234,56.7", None),
            ("1,234.5", ",5", None),
            ("1.234,5", "1.234,50", Some("1234.50")),
            ("1.234,5", "-0,5", Some("-0.5")),
            ("1.234,5", "12.5", None),
            ("1.234,5", "1.234", Some("1234")),
            ("1234,5", "1234,5e3", Some("1234.5e3")),
            ("1234,5", "1.5", None),
            ("1 234,5", "1 234,5", Some("1234.5")),
            ("1'234.5", "9'876'543", Some("9876543")),
            ("1 234,5", "1\u{a0}234\u{a0}567,5", Some("1234567.5")),
            ("1 234,5", "-1\u{202f}234", Some("-1234")),
            ("1\u{202f}234,5", "1 234,5", Some("1234.5")),
            ("1 234,5", "1\u{2009}234,5", None),
            ("1,234.5", "", None),
            ("1,234.5", "-", None),
            ("1,234.5", "abc", None),
        ] {
            let form: NumberForm = form.parse().unwrap();
            let plain = form.plain(text.as_bytes()).map(|text| String::from_utf8(text.into_owned()).unwrap());
            assert_eq!(plain.as_deref(), expected, "{form} {text}");
        }
        for text in ["", "1234", "1,234", "1,234,5", "12,34.5", "1234.56", "1a234.5", "5432.1"] {
            assert!(text.parse::<NumberForm>().is_err(), "{text}");
        }
    }
}
