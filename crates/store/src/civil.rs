//! Years, months and days of the civil calendar, which is the Gregorian one without an end on either side.
//!
//! Days are counted from 1970-01-01. Years begin in March, so that the day that leap years add is the last one of a year
//! (Howard Hinnant, [chrono-Compatible Low-Level Date Algorithms](https://howardhinnant.github.io/date_algorithms.html)).

/// Days of four centuries, after which the calendar repeats itself.
const ERA: i64 = 146_097;

/// Days from 0000-03-01 to 1970-01-01.
const TO_1970: i64 = 719_468;

const LENGTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A day of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilDate {
    /// The year; 0 is the one before year 1.
    pub year: i64,
    /// The month, from 1 on.
    pub month: i64,
    /// The day of the month, from 1 on.
    pub day: i64,
}

impl CivilDate {
    /// The date of a day since 1970-01-01.
    #[inline]
    #[must_use]
    pub fn of(day: i64) -> CivilDate {
        let day = day + TO_1970;
        let (era, day) = (day.div_euclid(ERA), day.rem_euclid(ERA));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        // From March.
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        CivilDate { year: year + era * 400 + i64::from(month <= 2), month, day }
    }

    /// The days from 1970-01-01 to a date; `None` if the calendar has no such date.
    #[inline]
    #[must_use]
    pub fn days(self) -> Option<i64> {
        if !(1..=self.month_length()?).contains(&self.day) {
            return None;
        }
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
        let month = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let day_of_year = (153 * month + 2) / 5 + self.day - 1;
        Some(era * ERA + year * 365 + year / 4 - year / 100 + day_of_year - TO_1970)
    }

    /// Months since the beginning of year 0.
    #[inline]
    #[must_use]
    pub fn months(self) -> i64 {
        self.year * 12 + self.month - 1
    }

    /// The same day so many months later, or the last one of a shorter month.
    #[inline]
    #[must_use]
    pub fn months_later(self, months: i64) -> CivilDate {
        let months = self.months() + months;
        let of_month = CivilDate { year: months.div_euclid(12), month: months.rem_euclid(12) + 1, day: self.day };
        CivilDate { day: of_month.month_length().map_or(self.day, |length| length.min(self.day)), ..of_month }
    }

    /// Days of the month; `None` if there is no such month.
    #[inline]
    fn month_length(self) -> Option<i64> {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let length = LENGTHS.get(usize::try_from(self.month - 1).ok()?)?;
        Some(length + i64::from(is_leap && self.month == 2))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use chrono::{Datelike, Months, NaiveDate};

    use super::*;

    #[test]
    fn dates_are_those_of_chrono() {
        for day in (-800_000..800_000).step_by(97).chain(-800..800).chain(10_900..11_100) {
            let date = NaiveDate::from_epoch_days(day).unwrap();
            let civil = CivilDate::of(i64::from(day));
            assert_eq!(
                (civil.year, civil.month, civil.day),
                (date.year().into(), date.month().into(), date.day().into())
            );
            assert_eq!(civil.days(), Some(i64::from(day)));
            for months in [1, 12, 13, 47, 1_200] {
                let later = date.checked_add_months(Months::new(months)).unwrap();
                assert_eq!(civil.months_later(i64::from(months)).days(), Some(later.to_epoch_days().into()));
                let earlier = date.checked_sub_months(Months::new(months)).unwrap();
                assert_eq!(civil.months_later(-i64::from(months)).days(), Some(earlier.to_epoch_days().into()));
            }
        }
    }

    #[test]
    fn other_dates_are_none() {
        let days = |year, month, day| CivilDate { year, month, day }.days();
        assert_eq!(days(2024, 2, 29), Some(19_782));
        for (year, month, day) in
            [(2023, 2, 29), (1900, 2, 29), (2024, 0, 1), (2024, 13, 1), (2024, 4, 31), (2024, 1, 0)]
        {
            assert_eq!(days(year, month, day), None);
        }
    }
}
