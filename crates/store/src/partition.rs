//! Partitions: their periods, the time of day at which their dates begin, and their names. `dates.rs` computes the
//! date of a timestamp.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use chrono::{Datelike, Months, NaiveDate, TimeDelta};
use serde::{Deserialize, Serialize};

/// Nanoseconds of a day of 24 hours.
pub(crate) const NS_PER_DAY: i64 = 86_400_000_000_000;
const NS_PER_MINUTE: i64 = 60_000_000_000;

/// When the dates of a table begin, by the clock of its zone: at midnight, or on the evening before, as trading dates of futures do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DayStart {
    /// Minutes since midnight of the day before; 0 for midnight.
    minutes: u16,
}

impl DayStart {
    /// Whether dates are those of the zone's calendar.
    #[must_use]
    pub fn is_midnight(&self) -> bool {
        self.minutes == 0
    }

    /// Whether a time of day, in seconds since midnight, belongs to the next date.
    #[must_use]
    pub fn is_next_date(&self, seconds_of_day: u32) -> bool {
        !self.is_midnight() && seconds_of_day >= u32::from(self.minutes) * 60
    }

    /// Nanoseconds from the start of a date to its midnight.
    #[must_use]
    pub fn lead(self) -> i64 {
        match self.minutes {
            0 => 0,
            minutes => NS_PER_DAY - i64::from(minutes) * NS_PER_MINUTE,
        }
    }
}

impl FromStr for DayStart {
    type Err = String;

    fn from_str(text: &str) -> Result<DayStart, String> {
        let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let wrong = || format!("a day starts at 00:00, or at 12:00 to 23:59 of the day before, not at {text:?}");
        let (hour, minute) =
            text.split_once(':').filter(|(hour, minute)| digits(hour) && digits(minute)).ok_or_else(wrong)?;
        let (hour, minute): (u16, u16) = (hour.parse().map_err(|_| wrong())?, minute.parse().map_err(|_| wrong())?);
        match (hour, minute) {
            (0, 0) | (12..=23, 0..=59) => Ok(DayStart { minutes: hour * 60 + minute }),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for DayStart {
    type Error = String;

    fn try_from(text: String) -> Result<DayStart, String> {
        text.parse()
    }
}

impl From<DayStart> for String {
    fn from(start: DayStart) -> String {
        start.to_string()
    }
}

impl Display for DayStart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.minutes / 60, self.minutes % 60)
    }
}

/// The time that a partition of a table spans. Tables with few rows per date, such as daily bars, have longer periods:
/// the overhead per partition and symbol is the same for one row as for thousands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// A date. The default.
    #[default]
    Day,
    /// A month of the calendar.
    Month,
    /// A year of the calendar.
    Year,
    /// All time: the table has one partition.
    All,
}

/// The first date of the only partition of a table without periods, in days since 1970-01-01: before that of every instant.
pub(crate) const FIRST_OF_ALL: i32 = -109_572;
/// The last date of that partition.
pub(crate) const LAST_OF_ALL: i32 = 109_572;

impl Period {
    /// All, from the shortest.
    pub const ALL: [Period; 4] = [Period::Day, Period::Month, Period::Year, Period::All];

    /// Whether it is the default, the only one that older releases support.
    #[must_use]
    pub fn is_day(&self) -> bool {
        *self == Period::Day
    }

    /// The first date of the period that a date is in, which names its partition. Days since 1970-01-01.
    #[must_use]
    pub fn first(self, day: i32) -> i32 {
        let first = match self {
            Period::Day => return day,
            Period::Month => date(day).with_day(1),
            Period::Year => date(day).with_ordinal(1),
            Period::All => return FIRST_OF_ALL,
        };
        first.map_or(day, days)
    }

    /// The last date of the period that a date is in.
    #[must_use]
    pub fn last(self, day: i32) -> i32 {
        let months = match self {
            Period::Day => return day,
            Period::Month => 1,
            Period::Year => 12,
            Period::All => return LAST_OF_ALL,
        };
        let next = date(self.first(day)).checked_add_months(Months::new(months));
        next.map_or(day, |next| days(next) - 1)
    }

    /// The name of a partition, given its first date.
    #[must_use]
    pub fn name_of(self, first: i32) -> String {
        match self {
            Period::Day => date(first).to_string(),
            Period::Month => date(first).format("%Y-%m").to_string(),
            Period::Year => date(first).format("%Y").to_string(),
            Period::All => "all".to_owned(),
        }
    }

    /// The name of a folder with exported rows, given the partition's first date.
    #[must_use]
    pub fn export_folder(self, first: i32) -> String {
        match self {
            Period::Day => folder(first),
            Period::Month => format!("month={}", self.name_of(first)),
            Period::Year => format!("year={}", self.name_of(first)),
            Period::All => "all".to_owned(),
        }
    }
}

impl Display for Period {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Period::Day => "day",
            Period::Month => "month",
            Period::Year => "year",
            Period::All => "all",
        })
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Period, String> {
        let named = Period::ALL.into_iter().find(|period| text.eq_ignore_ascii_case(&period.to_string()));
        named.ok_or_else(|| format!("{text:?} is no period of partitions: day, month, year or all"))
    }
}

/// Days since 1970-01-01.
#[must_use]
pub fn days(date: NaiveDate) -> i32 {
    date.signed_duration_since(NaiveDate::default()).num_days().try_into().unwrap_or(i32::MAX)
}

/// The calendar date of a number of days since 1970-01-01; beyond what a calendar date can be, the first or the last one.
#[must_use]
pub fn date(days: i32) -> NaiveDate {
    let date = NaiveDate::default().checked_add_signed(TimeDelta::days(i64::from(days)));
    date.unwrap_or(if days < 0 { NaiveDate::MIN } else { NaiveDate::MAX })
}

/// Name of a partition's folder, given its first date.
pub(crate) fn folder(days: i32) -> String {
    format!("date={}", date(days))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_day_starts_at_midnight_or_on_the_evening_before() {
        for text in ["00:00", "12:00", "17:00", "23:59"] {
            assert_eq!(text.parse::<DayStart>().unwrap().to_string(), text);
        }
        for text in
            ["", "17", "17:0", "7:00", "24:00", "17:60", "06:00", "11:59", "00:01", "+1:00", "17:00:00", "1７:00"]
        {
            assert!(text.parse::<DayStart>().is_err(), "{text}");
        }
    }
}
