//! Rules that give a date for each year: fixed dates, nth weekdays, days around Easter, and where a weekend moves them.

use chrono::{Datelike, NaiveDate, TimeDelta, Weekday};

/// A date that is written in code.
///
/// # Panics
/// If there is no such date.
#[must_use]
pub const fn date(year: i32, month: u32, day: u32) -> NaiveDate {
    match NaiveDate::from_ymd_opt(year, month, day) {
        Some(date) => date,
        None => panic!("a date in code exists"),
    }
}

/// Which date of a year.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// A month and day.
    Fixed(u32, u32, Weekend),
    /// A month and day, in years in which it is a Monday, Tuesday, Wednesday or Thursday.
    MondayToThursday(u32, u32),
    /// The nth weekday of a month.
    Nth(u32, Weekday, u8),
    /// A number of days after the nth weekday of a month.
    AfterNth(u32, Weekday, u8, i64),
    /// The last weekday of a month.
    Last(u32, Weekday),
    /// A number of days after Easter Sunday.
    Easter(i64),
}

/// What becomes of a fixed date on a weekend.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Weekend {
    /// It stays there, and has no effect.
    Stays,
    /// A Sunday's moves to Monday, a Saturday's stays.
    SundayToMonday,
    /// A Saturday's moves to Friday, a Sunday's to Monday.
    Nearest,
    /// Both move to Monday.
    NextMonday,
    /// Both move two days on, for two holidays in a row.
    TwoDaysOn,
    /// Both move to the Friday before.
    FridayBefore,
}

impl Rule {
    /// The date of a year. Years are those of calendars, within chrono's range.
    pub(crate) fn of(self, year: i32) -> Option<NaiveDate> {
        match self {
            Rule::Fixed(month, day, weekend) => {
                let date = NaiveDate::from_ymd_opt(year, month, day)?;
                Some(date + TimeDelta::days(weekend.shift(date.weekday())))
            }
            Rule::MondayToThursday(month, day) => NaiveDate::from_ymd_opt(year, month, day)
                .filter(|date| date.weekday().num_days_from_monday() <= Weekday::Thu.num_days_from_monday()),
            Rule::Nth(month, weekday, n) => NaiveDate::from_weekday_of_month_opt(year, month, weekday, n),
            Rule::AfterNth(month, weekday, n, days) => {
                Some(NaiveDate::from_weekday_of_month_opt(year, month, weekday, n)? + TimeDelta::days(days))
            }
            Rule::Last(month, weekday) => {
                (4..=5).rev().find_map(|n| NaiveDate::from_weekday_of_month_opt(year, month, weekday, n))
            }
            Rule::Easter(days) => Some(easter(year)? + TimeDelta::days(days)),
        }
    }
}

impl Weekend {
    fn shift(self, weekday: Weekday) -> i64 {
        match (self, weekday) {
            (Weekend::Nearest, Weekday::Sat) | (Weekend::FridayBefore, Weekday::Sat) => -1,
            (Weekend::FridayBefore, Weekday::Sun) => -2,
            (Weekend::SundayToMonday | Weekend::Nearest | Weekend::NextMonday, Weekday::Sun) => 1,
            (Weekend::NextMonday, Weekday::Sat) | (Weekend::TwoDaysOn, Weekday::Sat | Weekday::Sun) => 2,
            _ => 0,
        }
    }
}

/// Easter Sunday of the Gregorian calendar, by the anonymous algorithm ("Meeus, Jones, Butcher").
fn easter(year: i32) -> Option<NaiveDate> {
    let (century, in_century) = (year / 100, year % 100);
    let golden = year % 19;
    let skipped = (century - (century + 8) / 25 + 1) / 3;
    let epact = (19 * golden + century - century / 4 - skipped + 15) % 30;
    let weekday = (32 + 2 * (century % 4) + 2 * (in_century / 4) - epact - in_century % 4) % 7;
    let late = (golden + 11 * epact + 22 * weekday) / 451;
    let days = epact + weekday - 7 * late + 114;
    NaiveDate::from_ymd_opt(year, u32::try_from(days / 31).ok()?, u32::try_from(days % 31 + 1).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn easter_falls_where_almanacs_have_it() {
        for expected in [
            date(2000, 4, 23),
            date(2005, 3, 27),
            date(2008, 3, 23),
            date(2011, 4, 24),
            date(2016, 3, 27),
            date(2019, 4, 21),
            date(2024, 3, 31),
            date(2025, 4, 20),
            date(2026, 4, 5),
            date(2038, 4, 25),
        ] {
            assert_eq!(easter(expected.year()), Some(expected));
        }
    }

    #[test]
    fn holidays_on_a_weekend_move_as_their_exchange_moves_them() {
        let of = |year, weekend| Rule::Fixed(12, 25, weekend).of(year).unwrap();
        // Christmas 2021 was a Saturday, 2022 a Sunday, 2023 a Monday.
        for (weekend, saturday, sunday) in [
            (Weekend::Stays, 25, 25),
            (Weekend::SundayToMonday, 25, 26),
            (Weekend::Nearest, 24, 26),
            (Weekend::NextMonday, 27, 26),
            (Weekend::TwoDaysOn, 27, 27),
            (Weekend::FridayBefore, 24, 23),
        ] {
            assert_eq!((of(2021, weekend).day(), of(2022, weekend).day()), (saturday, sunday), "{weekend:?}");
            assert_eq!(of(2023, weekend), date(2023, 12, 25));
        }
    }

    #[test]
    fn the_last_weekday_may_be_the_fourth_or_the_fifth() {
        assert_eq!(Rule::Last(5, Weekday::Mon).of(2023), Some(date(2023, 5, 29)));
        assert_eq!(Rule::Last(5, Weekday::Mon).of(2021), Some(date(2021, 5, 31)));
        // In 2013 November began with a Friday: the day after the fourth Thursday is the fifth Friday.
        assert_eq!(Rule::AfterNth(11, Weekday::Thu, 4, 1).of(2013), Some(date(2013, 11, 29)));
    }
}
