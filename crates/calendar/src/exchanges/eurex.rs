//! Eurex: European index futures (EURO STOXX 50 and its like), the main hours of 8:00 to 22:00 in Frankfurt.
//!
//! The hours for Asia before 8:00, which benchmark futures have had since 2018-12-10, aren't part of the session.
//! Products of single countries, German ones among them, have holidays beside these.
//!
//! Sources: Eurex "Holiday regulations" (days without trading in any derivative) and "Trading calendar" of each year; Eurex press
//! releases of 2005-07-06 (close at 22:00) and of April 2006 (open at 8:00); circular 092/20 on the last trading day of a year.

use std::ops::RangeInclusive;

use chrono_tz::Tz;

use super::SATURDAY_AND_SUNDAY;
use crate::rules::Rule::{self, Easter, Fixed};
use crate::rules::{Weekend, date};
use crate::schedule::{Effect, Exchange, Holiday, Hours, at};

const ALL_YEARS: RangeInclusive<i32> = 2015..=2031;

pub(crate) static EUREX: Exchange = Exchange {
    name: "EUREX",
    aliases: &["XEUR"],
    title: "Eurex European index futures, main hours",
    zone: Tz::Europe__Berlin,
    dates: date(2016, 1, 1)..=date(2030, 12, 31),
    weekend: SATURDAY_AND_SUNDAY,
    day_start: 0,
    hours: &[Hours { since: date(2016, 1, 1), sessions: &[(at(8, 0), at(22, 0))] }],
    holidays: &[
        closed("New Year's Day", Fixed(1, 1, Weekend::Stays)),
        closed("Good Friday", Easter(-2)),
        closed("Easter Monday", Easter(1)),
        closed("Labour Day", Fixed(5, 1, Weekend::Stays)),
        closed("Christmas Eve", Fixed(12, 24, Weekend::Stays)),
        closed("Christmas Day", Fixed(12, 25, Weekend::Stays)),
        closed("Boxing Day", Fixed(12, 26, Weekend::Stays)),
        closed("New Year's Eve", Fixed(12, 31, Weekend::Stays)),
    ],
    one_offs: &[],
};

const fn closed(name: &'static str, rule: Rule) -> Holiday {
    Holiday { name, rule, years: ALL_YEARS, effect: Effect::Closed }
}
