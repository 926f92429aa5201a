//! Times of day of digits alone, `093000` or `0930`: the values of a column tell how all of them are read.
//!
//! - Hours, minutes and seconds have two digits each; the first zero of an hour may be missing.
//! - Five digits alone may as well count the seconds of a day, and other numbers of digits its milliseconds: these aren't read without a pattern.

use std::fmt;

use super::times;

/// The parts of a compact time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactClock {
    HourMinute,
    HourMinuteSecond,
}

impl CompactClock {
    /// The form with as many digits as a text has before its point.
    fn of(text: &[u8]) -> Option<CompactClock> {
        match memchr::memchr(b'.', text).unwrap_or(text.len()) {
            3 | 4 => Some(CompactClock::HourMinute),
            5 | 6 => Some(CompactClock::HourMinuteSecond),
            _ => None,
        }
    }

    /// Nanoseconds since midnight. Seconds may have a fraction.
    pub fn nanos(self, text: &[u8]) -> Option<i64> {
        if CompactClock::of(text) != Some(self) {
            return None;
        }
        match self {
            CompactClock::HourMinute => {
                let seconds: Vec<u8> = [text, b"00"].concat();
                times::clock(&seconds, 0)
            }
            CompactClock::HourMinuteSecond => {
                let point = memchr::memchr(b'.', text).unwrap_or(text.len());
                let fraction = match text.get(point + 1..) {
                    None => 0,
                    Some(digits) => times::fraction(digits, 9).filter(|(_, count)| *count == digits.len())?.0,
                };
                Some(times::clock(&text[..point], 0)? + fraction)
            }
        }
    }
}

impl fmt::Display for CompactClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompactClock::HourMinute => "HHMM",
            CompactClock::HourMinuteSecond => "HHMMSS",
        })
    }
}

/// What the values of a column have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompactClocks {
    form: Option<CompactClock>,
    /// Whether any value has six digits before its point.
    has_six_digits: bool,
    /// The first value that isn't of the form of those before.
    other: Option<Vec<u8>>,
}

impl CompactClocks {
    pub fn add(&mut self, text: &[u8]) {
        if self.other.is_some() {
            return;
        }
        let form = self.form.or_else(|| CompactClock::of(text));
        match form.filter(|form| form.nanos(text).is_some()) {
            Some(form) => {
                self.form = Some(form);
                self.has_six_digits |= memchr::memchr(b'.', text).unwrap_or(text.len()) == 6;
            }
            None => self.other = Some(text.to_vec()),
        }
    }

    /// The form of all values, if there is no other way to read them.
    pub fn form(&self) -> Option<CompactClock> {
        let is_sure = |form: &CompactClock| *form == CompactClock::HourMinute || self.has_six_digits;
        self.form.filter(is_sure).filter(|_| self.other.is_none())
    }

    /// The first value that isn't of the form of those before.
    pub fn other(&self) -> Option<&[u8]> {
        self.other.as_deref()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn form(texts: &[&str]) -> Option<String> {
        let mut clocks = CompactClocks::default();
        texts.iter().for_each(|text| clocks.add(text.as_bytes()));
        clocks.form().map(|form| form.to_string())
    }

    #[test]
    fn a_form_is_that_of_all_values() {
        for (texts, expected) in [
            (&["093000", "160001"][..], Some("HHMMSS")),
            (&["93000", "160001"], Some("HHMMSS")),
            (&["93000.25", "160001"], Some("HHMMSS")),
            (&["0930", "1600"], Some("HHMM")),
            (&["930", "1600"], Some("HHMM")),
            (&["930"], Some("HHMM")),
            (&["34200"], None),
            (&["34200000"], None),
            (&["93000", "960000"], None),
            (&["0930", "093000"], None),
            (&["0970"], None),
            (&["2400"], None),
            (&["9"], None),
            (&["-930"], None),
            (&["930.5"], None),
            (&["093000."], Some("HHMMSS")),
            (&["0930:0"], None),
            (&[], None),
        ] {
            assert_eq!(form(texts).as_deref(), expected, "{texts:?}");
        }
    }

    #[test]
    fn values_are_nanoseconds_since_midnight() {
        let second = 1_000_000_000;
        assert_eq!(CompactClock::HourMinute.nanos(b"930"), Some(34_200 * second));
        assert_eq!(CompactClock::HourMinuteSecond.nanos(b"93000.5"), Some(34_200 * second + second / 2));
        assert_eq!(CompactClock::HourMinuteSecond.nanos(b"0930"), None);
    }
}
