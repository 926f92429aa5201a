//! London Stock Exchange: continuous trading of the order book, 8:00 to 16:30 in London, without the closing auction.
//!
//! Sources: the Exchange's "Business days" page and its yearly Stock Exchange Notice on Christmas and New Year (markets close from
//! 12:30 on the last business day before Christmas and before New Year); the Banking and Financial Dealings Act 1971 and the royal
//! proclamations under it, listed as "UK bank holidays" for England on gov.uk.

use std::ops::RangeInclusive;

use chrono::{NaiveDate, Weekday};
use chrono_tz::Tz;

use super::SATURDAY_AND_SUNDAY;
use crate::rules::Rule::{self, Easter, Fixed, Last, Nth};
use crate::rules::{Weekend, date};
use crate::schedule::{Effect, Exchange, Holiday, Hours, OneOff, at};

const ALL_YEARS: RangeInclusive<i32> = 1999..=2031;
const HALF_DAY: Effect = Effect::ClosesAt(at(12, 30));

pub(crate) static LSE: Exchange = Exchange {
    name: "LSE",
    aliases: &["XLON"],
    title: "London Stock Exchange, continuous trading",
    zone: Tz::Europe__London,
    dates: date(2000, 1, 1)..=date(2030, 12, 31),
    weekend: SATURDAY_AND_SUNDAY,
    day_start: 0,
    hours: &[Hours { since: date(2000, 1, 1), sessions: &[(at(8, 0), at(16, 30))] }],
    holidays: &[
        holiday("New Year's Day", Fixed(1, 1, Weekend::NextMonday), Effect::Closed),
        holiday("Good Friday", Easter(-2), Effect::Closed),
        holiday("Easter Monday", Easter(1), Effect::Closed),
        holiday("Early May bank holiday", Nth(5, Weekday::Mon, 1), Effect::Closed),
        holiday("Spring bank holiday", Last(5, Weekday::Mon), Effect::Closed),
        holiday("Summer bank holiday", Last(8, Weekday::Mon), Effect::Closed),
        holiday("Christmas Day", Fixed(12, 25, Weekend::TwoDaysOn), Effect::Closed),
        holiday("Boxing Day", Fixed(12, 26, Weekend::TwoDaysOn), Effect::Closed),
        holiday("Christmas Eve", Fixed(12, 24, Weekend::FridayBefore), HALF_DAY),
        holiday("New Year's Eve", Fixed(12, 31, Weekend::FridayBefore), HALF_DAY),
    ],
    one_offs: &[
        one_off(date(2002, 5, 27), "Spring bank holiday, moved to June 4", Effect::Regular),
        one_off(date(2002, 6, 3), "the Golden Jubilee", Effect::Closed),
        one_off(date(2002, 6, 4), "Spring bank holiday", Effect::Closed),
        one_off(date(2011, 4, 29), "the wedding of Prince William", Effect::Closed),
        one_off(date(2012, 5, 28), "Spring bank holiday, moved to June 4", Effect::Regular),
        one_off(date(2012, 6, 4), "Spring bank holiday", Effect::Closed),
        one_off(date(2012, 6, 5), "the Diamond Jubilee", Effect::Closed),
        one_off(date(2020, 5, 4), "Early May bank holiday, moved to May 8", Effect::Regular),
        one_off(date(2020, 5, 8), "Early May bank holiday, 75 years after the war", Effect::Closed),
        one_off(date(2022, 5, 30), "Spring bank holiday, moved to June 2", Effect::Regular),
        one_off(date(2022, 6, 2), "Spring bank holiday", Effect::Closed),
        one_off(date(2022, 6, 3), "the Platinum Jubilee", Effect::Closed),
        one_off(date(2022, 9, 19), "the funeral of Queen Elizabeth II", Effect::Closed),
        one_off(date(2023, 5, 8), "the coronation of King Charles III", Effect::Closed),
    ],
};

const fn holiday(name: &'static str, rule: Rule, effect: Effect) -> Holiday {
    Holiday { name, rule, years: ALL_YEARS, effect }
}

const fn one_off(date: NaiveDate, name: &'static str, effect: Effect) -> OneOff {
    OneOff { date, name, effect }
}
