//! Instants, dates and times of day as texts and numbers.

use jiff::civil;

/// The unit of a number in a timestamp column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl Unit {
    /// The decimal digits between this unit and the nanosecond.
    #[must_use]
    pub fn digits(self) -> i32 {
        match self {
            Unit::S => 9,
            Unit::Ms => 6,
            Unit::Us => 3,
            Unit::Ns => 0,
        }
    }
}

/// Nanoseconds since 1970 of an ISO 8601 text, in UTC unless it says otherwise.
#[must_use]
pub fn instant(text: &str) -> Option<i128> {
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(instant.as_nanosecond());
    }
    // A date alone is no instant. Of a text with a time zone and no offset the parser takes the local time and drops the zone.
    if text.len() < "2026-01-02T03".len() || text.contains('[') {
        return None;
    }
    let local: civil::DateTime = text.parse().ok()?;
    Some(jiff::tz::TimeZone::UTC.to_timestamp(local).ok()?.as_nanosecond())
}

/// Days since 1970 of a text such as `2026-01-02`.
#[must_use]
pub fn date(text: &str) -> Option<i32> {
    if text.len() != "2026-01-02".len() {
        return None;
    }
    let date: civil::Date = text.parse().ok()?;
    let days = date.since((jiff::Unit::Day, civil::date(1970, 1, 1))).ok()?.get_days();
    Some(days)
}

/// Nanoseconds since midnight of a text such as `09:30:00.5`.
#[must_use]
pub fn time_of_day(text: &str) -> Option<i64> {
    // The parser would drop a date, an offset and a time zone.
    if text.contains(|character: char| !(character.is_ascii_digit() || matches!(character, ':' | '.' | ','))) {
        return None;
    }
    let time: civil::Time = text.parse().ok()?;
    let seconds = i64::from(time.hour()) * 3_600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    Some(seconds * 1_000_000_000 + i64::from(time.subsec_nanosecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_to_the_nanosecond() {
        let nanoseconds = Some(1_767_364_200_123_456_789);
        assert_eq!(instant("2026-01-02T14:30:00.123456789Z"), nanoseconds);
        assert_eq!(instant("2026-01-02 14:30:00.123456789"), nanoseconds);
        assert_eq!(instant("2026-01-02T09:30:00.123456789-05:00"), nanoseconds);
        assert_eq!(instant("2026-01-02T09:30:00.123456789-05:00[America/New_York]"), nanoseconds);
        for text in [
            "2026-01-02",
            "14:30",
            "",
            "2026-13-01T00:00:00Z",
            "now",
            "1767364200",
            "2026-01-02T09:30:00[America/New_York]",
        ] {
            assert_eq!(instant(text), None, "{text}");
        }
        assert_eq!(date("1970-01-02"), Some(1));
        assert_eq!(date("1969-12-31"), Some(-1));
        assert_eq!(date("2026-02-30"), None);
        assert_eq!(date("2026-01-02T00:00:00"), None);
        assert_eq!(time_of_day("09:30:00.5"), Some(34_200_500_000_000));
        for text in ["25:00:00", "", "2026-01-02T09:30:00", "09:30:00-05:00", "09:30[America/New_York]"] {
            assert_eq!(time_of_day(text), None, "{text}");
        }
    }
}
