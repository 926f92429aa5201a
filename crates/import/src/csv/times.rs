//! Dates, times of day and instants out of text, exactly to the nanosecond.
//!
//! - A fraction finer than a nanosecond is refused unless it is zeros.
//! - Local times in a gap of their zone are refused; ambiguous ones take the first of the two instants.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone, Timelike};
use chrono_tz::Tz;
use splay_store::CivilDate;

use super::compact_clock::CompactClock;

const DAY_NS: i64 = 86_400_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;

/// What a number in a time field counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpochUnit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl EpochUnit {
    /// Digits of a fraction down to the nanosecond.
    fn fraction_digits(self) -> usize {
        match self {
            EpochUnit::Seconds => 9,
            EpochUnit::Millis => 6,
            EpochUnit::Micros => 3,
            EpochUnit::Nanos => 0,
        }
    }

    /// A whole number of these as nanoseconds.
    pub fn nanos(self, whole: i64) -> Option<i64> {
        let digits = u32::try_from(self.fraction_digits()).ok()?;
        whole.checked_mul(10i64.pow(digits))
    }

    /// The unit in which a number is an instant of the years 1990 to 2100, if any.
    pub fn guess(whole: i128) -> Option<EpochUnit> {
        let units = [EpochUnit::Seconds, EpochUnit::Millis, EpochUnit::Micros, EpochUnit::Nanos];
        let mut low = 631_152_000i128;
        for unit in units {
            if (low..low * 65 / 10).contains(&whole) {
                return Some(unit);
            }
            low *= 1000;
        }
        None
    }
}

impl std::fmt::Display for EpochUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EpochUnit::Seconds => "seconds",
            EpochUnit::Millis => "milliseconds",
            EpochUnit::Micros => "microseconds",
            EpochUnit::Nanos => "nanoseconds",
        })
    }
}

/// How a time is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TimeSpelling {
    /// Date and time in one of the usual ISO-like ways.
    Written,
    /// Like [`TimeSpelling::Written`], or a number since the epoch whose unit follows from its size.
    Any,
    /// A number since 1970-01-01T00:00:00Z.
    Epoch(EpochUnit),
    /// A number since midnight; the date comes from elsewhere.
    SinceMidnight(EpochUnit),
    /// Digits `HHMMSS` and then a fraction of this many digits; the date comes from elsewhere.
    Clock(u32),
    /// Digits without a separator, in one form; the date comes from elsewhere.
    Compact(CompactClock),
    /// `HH:MM:SS.fraction`; the date comes from elsewhere.
    ClockText,
    /// Patterns of chrono's `strftime`, tried in turn.
    Patterns(Vec<String>),
    /// The same for times of day; the date comes from elsewhere.
    ClockPatterns(Vec<String>),
}

impl TimeSpelling {
    pub fn needs_date(&self) -> bool {
        matches!(
            self,
            TimeSpelling::SinceMidnight(_)
                | TimeSpelling::Clock(_)
                | TimeSpelling::Compact(_)
                | TimeSpelling::ClockText
                | TimeSpelling::ClockPatterns(_)
        )
    }
}

/// The zone of local times, with the last offset remembered.
#[derive(Debug, Clone)]
pub(crate) enum LocalZone {
    Fixed(i64),
    Named { zone: Tz, from: i64, until: i64, offset: i64 },
}

impl LocalZone {
    pub const UTC: LocalZone = LocalZone::Fixed(0);

    /// Reads `UTC`, `-05:00`, `+0530` or an IANA name.
    pub fn parse(text: &str) -> Option<LocalZone> {
        if matches!(text, "UTC" | "Z" | "GMT" | "Etc/UTC") {
            return Some(LocalZone::UTC);
        }
        if text.starts_with(['+', '-']) {
            let (seconds, end) = offset(text.as_bytes())?;
            return (end == text.len()).then_some(LocalZone::Fixed(seconds * 1_000_000_000));
        }
        let zone: Tz = text.parse().ok()?;
        Some(LocalZone::Named { zone, from: 0, until: 0, offset: 0 })
    }

    /// The instant of a local time, both in nanoseconds.
    ///
    /// # Errors
    /// The reason, when the local time doesn't exist.
    #[inline]
    pub fn instant(&mut self, local: i64) -> Result<i64, &'static str> {
        let shift = match self {
            LocalZone::Fixed(shift) => *shift,
            LocalZone::Named { from, until, offset, .. } if *from <= local && local < *until => *offset,
            LocalZone::Named { .. } => self.look_up(local)?,
        };
        local.checked_sub(shift).ok_or(OUT_OF_RANGE)
    }

    fn look_up(&mut self, local: i64) -> Result<i64, &'static str> {
        let LocalZone::Named { zone, from, until, offset } = self else { return Ok(0) };
        let at = |local: i64| zone.offset_from_local_datetime(&DateTime::from_timestamp_nanos(local).naive_utc());
        let shift = at(local).earliest().ok_or("the local time was skipped by the change to summer time")?;
        let shift = i64::from(shift.fix().local_minus_utc()) * 1_000_000_000;
        let hour = local.div_euclid(HOUR_NS).saturating_mul(HOUR_NS);
        let end = hour.saturating_add(HOUR_NS);
        let single = |local: i64| at(local).single().map(|o| i64::from(o.fix().local_minus_utc()) * 1_000_000_000);
        if single(hour) == Some(shift) && single(end - 1) == Some(shift) {
            (*from, *until, *offset) = (hour, end, shift);
        }
        Ok(shift)
    }
}

pub(crate) const OUT_OF_RANGE: &str = "the time is outside the years 1677 to 2262";

/// Days since 1970-01-01; `None` for a day that isn't.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    CivilDate { year, month, day }.days()
}

/// `count` digits from `at`.
#[inline]
fn fixed(text: &[u8], at: usize, count: usize) -> Option<i64> {
    let mut value = 0i64;
    for &byte in text.get(at..at + count)? {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
    }
    Some(value)
}

/// Days since 1970-01-01 of `2024-01-31`, `2024/01/31`, `2024.01.31`, `20240131`, `2024-1-5` or `2024/1/5` at the beginning of the text, and
/// its length.
fn date_prefix(text: &[u8]) -> Option<(i64, usize)> {
    let year = fixed(text, 0, 4)?;
    match text.get(4)? {
        separator @ (b'-' | b'/' | b'.') if text.get(7) == Some(separator) && fixed(text, 8, 2).is_some() => {
            Some((days(year, fixed(text, 5, 2)?, fixed(text, 8, 2)?)?, 10))
        }
        // Numbers with points between them aren't dates: they may be versions.
        separator @ (b'-' | b'/') => short_date(text, year, *separator),
        _ => Some((days(year, fixed(text, 4, 2)?, fixed(text, 6, 2)?)?, 8)),
    }
}

/// The same where the month or the day has one digit.
fn short_date(text: &[u8], year: i64, separator: u8) -> Option<(i64, usize)> {
    let digits = |at: usize| text.iter().skip(at).take(3).take_while(|byte| byte.is_ascii_digit()).count();
    let month = digits(5);
    let at = 5 + month + 1;
    let day = digits(at);
    let is_date = (1..=2).contains(&month) && (1..=2).contains(&day) && text.get(at - 1) == Some(&separator);
    is_date.then(|| Some((days(year, fixed(text, 5, month)?, fixed(text, at, day)?)?, at + day)))?
}

/// A date in a field of its own, in days since 1970-01-01.
pub(crate) fn date(text: &[u8]) -> Option<i32> {
    let (days, end) = date_prefix(text)?;
    if end == text.len() {
        return i32::try_from(days).ok();
    }
    // A time of midnight is a date too: exports of daily bars write it.
    let (nanos, rest) = clock_prefix(text.get(end + 1..)?)?;
    let zone = &text[end + 1 + rest..];
    (matches!(text[end], b' ' | b'T') && nanos == 0 && matches!(zone, b"" | b"Z")).then(|| i32::try_from(days).ok())?
}

/// A date after a pattern of chrono's `strftime`.
pub(crate) fn date_by_pattern(text: &str, pattern: &str) -> Option<i32> {
    let date = NaiveDate::parse_from_str(text, pattern).ok()?;
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

/// Nanoseconds since midnight of `HH:MM[:SS[.fraction]]`, with `AM` or `PM` behind it or not, and its length. Ten hours and more have two
/// digits.
fn clock_prefix(text: &[u8]) -> Option<(i64, usize)> {
    let (nanos, end) = match text.get(1) {
        Some(b':') => {
            let mut padded = [b'0'; 32];
            let length = text.len().min(31);
            padded[1..=length].copy_from_slice(&text[..length]);
            clock_of_24_hours(&padded[..=length]).map(|(nanos, end)| (nanos, end - 1))?
        }
        _ => clock_of_24_hours(text)?,
    };
    let rest = &text[end..];
    let half = rest.strip_prefix(b" ").unwrap_or(rest);
    let (Some(first), Some(b'm' | b'M')) = (half.first(), half.get(1)) else { return Some((nanos, end)) };
    let after_noon = match first {
        b'a' | b'A' => false,
        b'p' | b'P' => true,
        _ => return Some((nanos, end)),
    };
    let hour = nanos / HOUR_NS;
    if !(1..=12).contains(&hour) {
        return None;
    }
    let nanos = nanos - if hour == 12 { 12 * HOUR_NS } else { 0 } + if after_noon { 12 * HOUR_NS } else { 0 };
    Some((nanos, end + rest.len() - half.len() + 2))
}

/// Nanoseconds since midnight of `HH:MM[:SS[.fraction]]`, and its length.
fn clock_of_24_hours(text: &[u8]) -> Option<(i64, usize)> {
    let (hour, minute) = (fixed(text, 0, 2)?, fixed(text, 3, 2)?);
    if text.get(2) != Some(&b':') || hour > 23 || minute > 59 {
        return None;
    }
    let seconds = (hour * 60 + minute) * 60;
    if text.get(5) != Some(&b':') {
        return Some((seconds * 1_000_000_000, 5));
    }
    let second = fixed(text, 6, 2)?;
    if second > 59 {
        return None;
    }
    let whole = (seconds + second) * 1_000_000_000;
    if !matches!(text.get(8), Some(b'.' | b',')) {
        return Some((whole, 8));
    }
    let (nanos, count) = fraction(&text[9..], 9)?;
    (count > 0).then_some((whole + nanos, 9 + count))
}

/// The digits of a fraction as a number of `width` digits, and how many digits there are in the text.
pub(crate) fn fraction(text: &[u8], width: usize) -> Option<(i64, usize)> {
    let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let digits = text[..count].iter().chain(std::iter::repeat(&b'0')).take(width);
    let value = digits.fold(0i64, |value, &byte| value * 10 + i64::from(byte - b'0'));
    (count <= width || text[width..count].iter().all(|&b| b == b'0')).then_some((value, count))
}

/// Seconds east of Greenwich of `Z`, `+02`, `+0200` or `+02:00`, and its length.
fn offset(text: &[u8]) -> Option<(i64, usize)> {
    let sign = match text.first()? {
        b'Z' => return Some((0, 1)),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = fixed(text, 1, 2)?;
    let (minutes, end) = match text.get(3) {
        Some(b':') => (fixed(text, 4, 2)?, 6),
        Some(b'0'..=b'9') => (fixed(text, 3, 2)?, 5),
        _ => (0, 3),
    };
    (hours < 24 && minutes < 60).then_some((sign * (hours * 3600 + minutes * 60), end))
}

/// A date and time in one of the usual ways: nanoseconds since the epoch as if in UTC, and the offset if one is written
/// (in seconds). Between date and time may be `T`, a space or kdb+'s `D`.
pub(crate) fn written(text: &[u8]) -> Option<(i64, Option<i64>)> {
    let (day, end) = date_prefix(text)?;
    if end == text.len() {
        return Some((at_clock(day, 0)?, None));
    }
    if !matches!(text[end], b'T' | b' ' | b'D' | b't') {
        return None;
    }
    let rest = &text[end + 1..];
    let (clock, used) = clock_prefix(rest)?;
    let zone = &rest[used..];
    let zone = zone.strip_prefix(b" ").unwrap_or(zone);
    let zone = if zone.eq_ignore_ascii_case(b"utc") { b"Z" } else { zone };
    let local = at_clock(day, clock)?;
    if zone.is_empty() {
        return Some((local, None));
    }
    let (seconds, used) = offset(zone)?;
    (used == zone.len()).then_some((local, Some(seconds)))
}

/// A plain decimal number as nanoseconds.
pub(crate) fn count(text: &[u8], unit: EpochUnit) -> Option<i64> {
    let (negative, text) = match text.first()? {
        b'-' => (true, &text[1..]),
        _ => (false, text),
    };
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let whole = &text[..point];
    if whole.is_empty() || whole.len() > 19 || !whole.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let width = unit.fraction_digits();
    let mut value = i64::try_from(whole.iter().fold(0i128, |v, &b| v * 10 + i128::from(b - b'0'))).ok()?;
    value = value.checked_mul(10i64.pow(u32::try_from(width).ok()?))?;
    if point < text.len() {
        let (nanos, used) = fraction(&text[point + 1..], width)?;
        if point + 1 + used != text.len() {
            return None;
        }
        value = value.checked_add(nanos)?;
    }
    Some(if negative { -value } else { value })
}

/// Digits `HHMMSS` and a fraction of `digits` digits, leading zeros optional, as nanoseconds since midnight.
pub(crate) fn clock(text: &[u8], digits: u32) -> Option<i64> {
    if text.is_empty() || text.len() > 6 + digits as usize || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = text.iter().fold(0i64, |v, &b| v * 10 + i64::from(b - b'0'));
    let parts = 10i64.pow(digits);
    let (clock, fraction) = (value / parts, value % parts);
    let (hour, minute, second) = (clock / 10_000, clock / 100 % 100, clock % 100);
    (hour < 24 && minute < 60 && second < 60)
        .then(|| ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction * 10i64.pow(9 - digits))
}

/// A time of day in nanoseconds since midnight.
pub(crate) fn time_of_day(text: &[u8], spelling: &TimeSpelling) -> Option<i64> {
    let nanos = match spelling {
        TimeSpelling::SinceMidnight(unit) => count(text, *unit)?,
        TimeSpelling::Clock(digits) => clock(text, *digits)?,
        TimeSpelling::Compact(form) => form.nanos(text)?,
        TimeSpelling::ClockPatterns(patterns) => clock_by_patterns(text, patterns)?,
        _ => {
            let (nanos, end) = clock_prefix(text)?;
            if end != text.len() {
                return None;
            }
            nanos
        }
    };
    (0..DAY_NS).contains(&nanos).then_some(nanos)
}

fn clock_by_patterns(text: &[u8], patterns: &[String]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let exact = patterns.iter().find_map(|pattern| NaiveTime::parse_from_str(text, pattern).ok());
    let time = exact.or_else(|| patterns.iter().find_map(|pattern| with_zeros(text, pattern)))?;
    // A leap second is no time of day that a column has.
    let nanos = i64::from(time.nanosecond());
    (nanos < 1_000_000_000).then(|| i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + nanos)
}

/// A time of day whose zeros in front are missing, by a pattern of digits alone: `93000` by `%H%M%S`.
fn with_zeros(text: &str, pattern: &str) -> Option<NaiveTime> {
    const PARTS: [(&str, usize); 6] = [("%H", 2), ("%M", 2), ("%S", 2), ("%3f", 3), ("%6f", 6), ("%9f", 9)];
    let (mut rest, mut width) = (pattern, 0);
    while !rest.is_empty() {
        let part = PARTS.iter().find_map(|(part, digits)| Some((rest.strip_prefix(part)?, digits)));
        let (behind, digits) = part?;
        (rest, width) = (behind, width + digits);
    }
    let is_short = (1..width).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_short.then(|| NaiveTime::parse_from_str(&format!("{text:0>width$}"), pattern).ok())?
}

/// Whether formats read a text as a time of day whose zeros in front may be missing.
pub(crate) fn is_clock_by_formats(text: &[u8], formats: &[String]) -> bool {
    clock_by_patterns(text, formats).is_some()
}

/// Formats of times of day that aren't read by themselves.
const CLOCK_FORMATS: [&str; 9] =
    ["%H%M%S", "%H%M", "%H%M%S%3f", "%H%M%S%6f", "%H%M%S%9f", "%H:%M:%S %Z", "%H:%M:%S%.f %Z", "%H:%M %Z", "%Hh%M"];

/// The likeliest format that reads a text as a time of day.
pub(crate) fn clock_format(text: &[u8]) -> Option<&'static str> {
    CLOCK_FORMATS.into_iter().find(|format| is_clock_by_formats(text, &[(*format).to_owned()]))
}

/// Formats of dates and instants that aren't read by themselves, besides those of [`DayFirstDate`].
const INSTANT_FORMATS: [&str; 17] = [
    "%Y%m%d%H%M%S",
    "%Y%m%d%H%M%S%3f",
    "%Y%m%d%H%M%S%6f",
    "%Y%m%d %H%M%S",
    "%Y%m%d %H%M%S%3f",
    "%Y%m%d %H%M%S%6f",
    "%Y%m%d-%H:%M:%S%.f",
    "%d-%b-%Y",
    "%d-%b-%Y %H:%M:%S",
    "%d-%b-%Y %H:%M:%S%.f",
    "%d-%b-%Y %H:%M",
    "%d %b %Y",
    "%d %b %Y %H:%M:%S",
    "%d %b %Y %H:%M:%S%.f",
    "%b %d, %Y",
    "%b %d, %Y %H:%M:%S",
    "%b %d, %Y %H:%M:%S%.f",
];

/// The format of dates or instants that all values of a column have.
#[derive(Debug, Clone)]
pub(crate) struct InstantFormats {
    left: Vec<&'static str>,
    is_tried: bool,
}

impl Default for InstantFormats {
    fn default() -> InstantFormats {
        InstantFormats { left: INSTANT_FORMATS.to_vec(), is_tried: false }
    }
}

impl InstantFormats {
    pub fn add(&mut self, text: &[u8]) {
        self.is_tried = true;
        self.left.retain(|format| {
            // A pattern's blank may stand for nothing, and no blank for one.
            let has_same_blanks = text.contains(&b' ') == format.contains(' ');
            let [instant, date, _] = by_formats(text, &[(*format).to_owned()]);
            has_same_blanks && (instant || date)
        });
    }

    /// The first that reads all values, if there is any value.
    pub fn first(&self) -> Option<&'static str> {
        self.left.first().copied().filter(|_| self.is_tried)
    }
}

/// Whether formats read a text as an instant, as a date, as a time of day.
pub(crate) fn by_formats(text: &[u8], formats: &[String]) -> [bool; 3] {
    let Ok(text) = std::str::from_utf8(text) else { return [false; 3] };
    let any = |reads: &dyn Fn(&str) -> bool| formats.iter().any(|format| reads(format));
    [
        any(&|f| DateTime::parse_from_str(text, f).is_ok() || NaiveDateTime::parse_from_str(text, f).is_ok()),
        any(&|f| NaiveDate::parse_from_str(text, f).is_ok()),
        any(&|f| NaiveTime::parse_from_str(text, f).is_ok()),
    ]
}

/// A date whose day or month comes first: `31/01/2024`, `1.31.2024 9:30 PM`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DayFirstDate {
    separator: char,
    /// The greatest first and second number.
    first: i64,
    second: i64,
    /// The format of the time behind it.
    clock: &'static str,
}

impl DayFirstDate {
    pub fn of(text: &[u8]) -> Option<DayFirstDate> {
        let digits = |at: usize| text[at.min(text.len())..].iter().take(4).take_while(|b| b.is_ascii_digit()).count();
        let (length, mut at) = (digits(0), digits(0) + 1);
        let separator = *text.get(length)?;
        let (second, second_at) = (digits(at), at);
        at += second + 1;
        let is_date = (1..=2).contains(&length) && (1..=2).contains(&second) && digits(at) == 4;
        if !is_date || !matches!(separator, b'/' | b'.' | b'-') || text.get(second_at + second) != Some(&separator) {
            return None;
        }
        let (first, second) = (fixed(text, 0, length)?, fixed(text, second_at, second)?);
        let rest = &text[at + 4..];
        let clock = match rest.split_first() {
            None => "",
            Some((b' ', clock)) => {
                let (_, end) = clock_prefix(clock).filter(|(_, end)| *end == clock.len())?;
                let (has_half, has_fraction) = (clock[end - 1].eq_ignore_ascii_case(&b'm'), clock.contains(&b'.'));
                let has_seconds = clock.iter().filter(|byte| **byte == b':').count() == 2;
                match (has_half, has_seconds, has_fraction) {
                    (true, true, true) => " %I:%M:%S%.f %p",
                    (true, true, false) => " %I:%M:%S %p",
                    (true, false, _) => " %I:%M %p",
                    (false, true, true) => " %H:%M:%S%.f",
                    (false, true, false) => " %H:%M:%S",
                    (false, false, _) => " %H:%M",
                }
            }
            Some(_) => return None,
        };
        let is_day = |number: i64| (1..=31).contains(&number);
        (is_day(first) && is_day(second)).then_some(DayFirstDate {
            separator: char::from(separator),
            first,
            second,
            clock,
        })
    }

    /// What both are; `None` if they are written differently.
    pub fn joined(self, other: &DayFirstDate) -> Option<DayFirstDate> {
        let is_same = self.separator == other.separator && self.clock == other.clock;
        is_same.then(|| DayFirstDate {
            first: self.first.max(other.first),
            second: self.second.max(other.second),
            ..self
        })
    }

    /// The option that reads it; both where the values don't tell the day from the month.
    pub fn options(&self) -> String {
        let (s, clock) = (self.separator, self.clock);
        let day_first = format!("--date-format '%d{s}%m{s}%Y{clock}'");
        let month_first = format!("--date-format '%m{s}%d{s}%Y{clock}'");
        match (self.first > 12, self.second > 12) {
            (true, _) => day_first,
            (_, true) => month_first,
            _ => format!("{day_first} (or %m{s}%d, if the month comes first)"),
        }
    }
}

/// What would read a text that is not a timestamp, as the end of a message.
pub(crate) fn hint(text: &[u8]) -> String {
    let mut formats = InstantFormats::default();
    formats.add(text);
    let other = || formats.first().map(|format| format!("--date-format '{format}'"));
    let options = DayFirstDate::of(text).map(|foreign| foreign.options()).or_else(other);
    options.map_or_else(String::new, |options| format!("; {options}, or formats in a recipe, would read it"))
}

/// A date and a time of day as a local time.
pub(crate) fn local(day: i32, time_of_day: i64) -> Option<i64> {
    at_clock(i64::from(day), time_of_day)
}

/// Nanoseconds since the epoch of a time of day. Of the first day that has any, midnight is out of their range.
fn at_clock(day: i64, time_of_day: i64) -> Option<i64> {
    i64::try_from(i128::from(day) * i128::from(DAY_NS) + i128::from(time_of_day)).ok()
}

/// An instant that needs no date from elsewhere.
///
/// # Errors
/// The reason in words.
pub(crate) fn instant(text: &[u8], spelling: &TimeSpelling, zone: &mut LocalZone) -> Result<i64, &'static str> {
    const NO_TIME: &str = "is not a timestamp";
    match spelling {
        TimeSpelling::Written => match written(text).ok_or(NO_TIME)? {
            (local, None) => zone.instant(local),
            (local, Some(seconds)) => local.checked_sub(seconds * 1_000_000_000).ok_or(OUT_OF_RANGE),
        },
        TimeSpelling::Any => {
            if let Ok(instant) = instant(text, &TimeSpelling::Written, zone) {
                return Ok(instant);
            }
            let point = memchr::memchr(b'.', text).unwrap_or(text.len());
            let whole = super::numbers::integer(&text[..point]).ok_or(NO_TIME)?;
            count(text, EpochUnit::guess(whole).ok_or(NO_TIME)?).ok_or(NO_TIME)
        }
        TimeSpelling::Epoch(unit) => count(text, *unit).ok_or("is not a number of the epoch's unit"),
        TimeSpelling::Patterns(patterns) => {
            let text = std::str::from_utf8(text).map_err(|_| "is not UTF-8 text")?;
            for pattern in patterns {
                if let Ok(absolute) = DateTime::parse_from_str(text, pattern) {
                    return absolute.timestamp_nanos_opt().ok_or(OUT_OF_RANGE);
                }
                let parsed = NaiveDateTime::parse_from_str(text, pattern)
                    .ok()
                    .or_else(|| NaiveDate::parse_from_str(text, pattern).ok().and_then(|day| day.and_hms_opt(0, 0, 0)));
                if let Some(parsed) = parsed {
                    return zone.instant(parsed.and_utc().timestamp_nanos_opt().ok_or(OUT_OF_RANGE)?);
                }
            }
            Err(NO_TIME)
        }
        TimeSpelling::SinceMidnight(_)
        | TimeSpelling::Clock(_)
        | TimeSpelling::Compact(_)
        | TimeSpelling::ClockText
        | TimeSpelling::ClockPatterns(_) => Err("needs a date"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn utc(text: &str) -> i64 {
        instant(text.as_bytes(), &TimeSpelling::Written, &mut LocalZone::UTC.clone()).unwrap()
    }

    #[test]
    fn every_usual_spelling_is_the_same_instant() {
        let expected = 1_693_929_601_281_719_000;
        for text in [
            "2023-09-05T16:00:01.281719Z",
            "2023-09-05 16:00:01.281719",
            "2023-09-05 16:00:01.281719000 UTC",
            "20230905 16:00:01.281719",
            "2023/09/05 16:00:01,281719",
            "2023.09.05D16:00:01.281719000",
            "2023-09-05T18:00:01.281719+02:00",
            "2023-09-05T10:30:01.281719-0530",
            "2023-09-05T16:00:01.281719000000Z",
        ] {
            assert_eq!(utc(text), expected, "{text}");
        }
        assert_eq!(count(b"1693929601.281719", EpochUnit::Seconds), Some(expected));
        assert_eq!(count(b"1693929601281719", EpochUnit::Micros), Some(expected));
        assert_eq!(count(b"1693929601281.719", EpochUnit::Millis), Some(expected));
        assert_eq!(EpochUnit::guess(1_693_929_601_281), Some(EpochUnit::Millis));
    }

    #[test]
    fn the_first_and_the_last_instant_are_read() {
        assert_eq!(utc("1677-09-21T00:12:43.145224192Z"), i64::MIN);
        assert_eq!(utc("2262-04-11T23:47:16.854775807Z"), i64::MAX);
        assert_eq!(written(b"1677-09-21"), None);
        assert_eq!(written(b"1677-09-21T00:12:43.145224191Z"), None);
        assert_eq!(written(b"2262-04-11T23:47:16.854775808Z"), None);
    }

    #[test]
    fn fractions_of_milliseconds_are_exact() {
        assert_eq!(count(b"79200613.0668", EpochUnit::Millis), Some(79_200_613_066_800));
        assert_eq!(count(b"0.000001", EpochUnit::Millis), Some(1));
        assert_eq!(count(b"0.0000001", EpochUnit::Millis), None);
    }

    #[test]
    fn clocks_of_digits_are_read_with_and_without_leading_zeros() {
        assert_eq!(clock(b"93000400", 3), Some(34_200_400_000_000));
        assert_eq!(clock(b"093000400", 3), Some(34_200_400_000_000));
        assert_eq!(clock(b"093000123456789", 9), Some(34_200_123_456_789));
        assert_eq!(clock(b"240000000", 3), None);
        assert_eq!(clock(b"126000000", 3), None);
    }

    #[test]
    fn days_that_are_not_are_refused() {
        for text in [
            "2023-02-29",
            "2023-13-01",
            "2023-00-10",
            "20230431",
            "2023-2-29",
            "2023-1.1",
            "2023.1.1",
            "2023-1-111",
            "2023-111-1",
            "2023-1-",
            "",
        ] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
        assert_eq!(date(b"2024-02-29"), Some(19_782));
        assert_eq!(written(b"1500-01-01T00:00:00Z"), None);
    }

    #[test]
    fn parts_of_one_digit_are_read() {
        assert_eq!(date(b"2024-2-29"), Some(19_782));
        assert_eq!(date(b"2024/02/9"), Some(19_762));
        assert_eq!(date(b"2024-12-5"), date(b"2024-12-05"));
        for (text, full) in [
            ("2024-1-5 9:30", "2024-01-05T09:30:00Z"),
            ("2024/1/15 9:30:01.5", "2024-01-15T09:30:01.5Z"),
            ("2024-11-5T16:00:00", "2024-11-05T16:00:00Z"),
            ("2024-1-5", "2024-01-05T00:00:00Z"),
        ] {
            assert_eq!(written(text.as_bytes()).unwrap().0, written(full.as_bytes()).unwrap().0, "{text}");
        }
        assert_eq!(written(b"2024-1-5 123:00"), None);
    }

    #[test]
    fn local_times_follow_their_zone_and_gaps_are_refused() {
        let mut zone = LocalZone::parse("America/New_York").unwrap();
        let local = |text: &str| written(text.as_bytes()).unwrap().0;
        assert_eq!(zone.instant(local("2024-01-02 09:30:00")), Ok(utc("2024-01-02T14:30:00Z")));
        assert_eq!(zone.instant(local("2024-07-02 09:30:00")), Ok(utc("2024-07-02T13:30:00Z")));
        assert!(zone.instant(local("2024-03-10 02:30:00")).unwrap_err().contains("skipped"));
        assert_eq!(zone.instant(local("2024-03-10 03:00:00")), Ok(utc("2024-03-10T07:00:00Z")));
        // Ambiguous: the first.
        assert_eq!(zone.instant(local("2024-11-03 01:30:00")), Ok(utc("2024-11-03T05:30:00Z")));
        assert_eq!(zone.instant(local("2024-11-03 02:00:00")), Ok(utc("2024-11-03T07:00:00Z")));
        assert_eq!(LocalZone::parse("-05:00").unwrap().instant(0), Ok(5 * HOUR_NS));
        assert_eq!(LocalZone::parse("Etc/GMT+5").unwrap().instant(0), Ok(5 * HOUR_NS));
        assert!(LocalZone::parse("Mars/Base").is_none());
    }
}
