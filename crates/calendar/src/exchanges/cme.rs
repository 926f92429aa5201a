//! CME Group: equity index futures on Globex (E-mini S&P 500, Nasdaq-100, Dow), 17:00 on the evening before to 16:00 in Chicago.
//!
//! On most US holidays Globex trades until noon. CME books these trades for the next trading date; here, the shortened session has
//! the date of the holiday, as a table has whose dates begin at 17:00.
//!
//! Sources: CME Group's yearly "Globex Holiday Schedule" and its trading hours page, which replaced it in 2023; CME Group notice of
//! September 2015 (close moved from 16:15 to 16:00 from 2015-09-21, the halt of 15:15 to 15:30 kept) and of June 2021 (the halt ended
//! with trading date 2021-06-28); press releases of 2018-12-02 and 2024-12-30 on days of mourning. Before 2016 both hours and holiday
//! closes were others, so the calendar begins there.
//!
//! Good Friday is closed unless the Employment Situation report is published on it, when Globex trades until 8:15.

use std::ops::RangeInclusive;

use chrono::{NaiveDate, Weekday};
use chrono_tz::Tz;

use super::SATURDAY_AND_SUNDAY;
use crate::rules::Rule::{self, AfterNth, Easter, Fixed, Last, MondayToThursday, Nth};
use crate::rules::{Weekend, date};
use crate::schedule::{Effect, Exchange, Holiday, Hours, OneOff, at, evening_before};

const ALL_YEARS: RangeInclusive<i32> = 2015..=2031;
const NOON: Effect = Effect::ClosesAt(at(12, 0));
const QUARTER_PAST_NOON: Effect = Effect::ClosesAt(at(12, 15));

pub(crate) static CME: Exchange = Exchange {
    name: "CME",
    aliases: &["XCME", "CME_EQUITY"],
    title: "CME equity index futures on Globex",
    zone: Tz::America__Chicago,
    dates: date(2016, 1, 1)..=date(2030, 12, 31),
    weekend: SATURDAY_AND_SUNDAY,
    day_start: evening_before(17, 0),
    hours: &[
        Hours { since: date(2016, 1, 1), sessions: &[(evening_before(17, 0), at(15, 15)), (at(15, 30), at(16, 0))] },
        Hours { since: date(2021, 6, 28), sessions: &[(evening_before(17, 0), at(16, 0))] },
    ],
    holidays: &[
        holiday("New Year's Day", Fixed(1, 1, Weekend::SundayToMonday), Effect::Closed),
        holiday("Good Friday", Easter(-2), Effect::Closed),
        holiday("Christmas Day", Fixed(12, 25, Weekend::Nearest), Effect::Closed),
        holiday("Martin Luther King Jr. Day", Nth(1, Weekday::Mon, 3), NOON),
        holiday("Presidents' Day", Nth(2, Weekday::Mon, 3), NOON),
        holiday("Memorial Day", Last(5, Weekday::Mon), NOON),
        Holiday { name: "Juneteenth", rule: Fixed(6, 19, Weekend::Nearest), years: 2022..=2031, effect: NOON },
        holiday("Independence Day", Fixed(7, 4, Weekend::Nearest), NOON),
        holiday("Labor Day", Nth(9, Weekday::Mon, 1), NOON),
        holiday("Thanksgiving Day", Nth(11, Weekday::Thu, 4), NOON),
        holiday("the day before Independence Day", MondayToThursday(7, 3), QUARTER_PAST_NOON),
        holiday("the day after Thanksgiving", AfterNth(11, Weekday::Thu, 4, 1), QUARTER_PAST_NOON),
        holiday("Christmas Eve", MondayToThursday(12, 24), QUARTER_PAST_NOON),
    ],
    one_offs: &[
        one_off(date(2018, 12, 5), "mourning for President George H. W. Bush", at(8, 30)),
        one_off(date(2021, 4, 2), "Good Friday with the employment report", at(8, 15)),
        one_off(date(2023, 4, 7), "Good Friday with the employment report", at(8, 15)),
        one_off(date(2025, 1, 9), "mourning for President Carter", at(8, 30)),
        one_off(date(2026, 4, 3), "Good Friday with the employment report", at(8, 15)),
    ],
};

const fn holiday(name: &'static str, rule: Rule, effect: Effect) -> Holiday {
    Holiday { name, rule, years: ALL_YEARS, effect }
}

const fn one_off(date: NaiveDate, name: &'static str, close: i32) -> OneOff {
    OneOff { date, name, effect: Effect::ClosesAt(close) }
}
