//! New York Stock Exchange: the core session, 9:30 to 16:00 in New York. Nasdaq and the other exchanges of US shares share it.
//!
//! Sources: NYSE Rule 7.2 (holidays) and 7.34 (sessions), formerly Rules 51 and 52; the yearly "NYSE Group Announces Holiday and
//! Early Closings Calendar"; the exchange's list of special closings; its notices of 2001-09-11, 2004-06-08, 2006-12-28,
//! 2012-10-28, 2018-12-01 and 2024-12-30 on closings, of 2021-10-14 on Juneteenth.
//!
//! Left out, as halts within a session: the extension to 16:15 on 2009-07-02, interruptions by failures and circuit breakers.

use std::ops::RangeInclusive;

use chrono::Weekday;
use chrono_tz::Tz;

use super::SATURDAY_AND_SUNDAY;
use crate::rules::Rule::{self, AfterNth, Easter, Fixed, Last, MondayToThursday, Nth};
use crate::rules::{Weekend, date};
use crate::schedule::{Effect, Exchange, Holiday, Hours, OneOff, at};

const ALL_YEARS: RangeInclusive<i32> = 2000..=2031;
const HALF_DAY: Effect = Effect::ClosesAt(at(13, 0));

pub(crate) static NYSE: Exchange = Exchange {
    name: "NYSE",
    aliases: &["XNYS", "NASDAQ", "XNAS"],
    title: "US shares (NYSE and Nasdaq), core session",
    zone: Tz::America__New_York,
    dates: date(2000, 1, 1)..=date(2030, 12, 31),
    weekend: SATURDAY_AND_SUNDAY,
    day_start: 0,
    hours: &[Hours { since: date(2000, 1, 1), sessions: &[(at(9, 30), at(16, 0))] }],
    holidays: &[
        closed("New Year's Day", Fixed(1, 1, Weekend::SundayToMonday), ALL_YEARS),
        closed("Martin Luther King Jr. Day", Nth(1, Weekday::Mon, 3), ALL_YEARS),
        closed("Washington's Birthday", Nth(2, Weekday::Mon, 3), ALL_YEARS),
        closed("Good Friday", Easter(-2), ALL_YEARS),
        closed("Memorial Day", Last(5, Weekday::Mon), ALL_YEARS),
        closed("Juneteenth", Fixed(6, 19, Weekend::Nearest), 2022..=2031),
        closed("Independence Day", Fixed(7, 4, Weekend::Nearest), ALL_YEARS),
        closed("Labor Day", Nth(9, Weekday::Mon, 1), ALL_YEARS),
        closed("Thanksgiving Day", Nth(11, Weekday::Thu, 4), ALL_YEARS),
        closed("Christmas Day", Fixed(12, 25, Weekend::Nearest), ALL_YEARS),
        half_day("the day before Independence Day", MondayToThursday(7, 3)),
        half_day("the day after Thanksgiving", AfterNth(11, Weekday::Thu, 4, 1)),
        half_day("Christmas Eve", MondayToThursday(12, 24)),
    ],
    one_offs: &[
        one_off(date(2001, 9, 11), "the attacks of September 11", Effect::Closed),
        one_off(date(2001, 9, 12), "the attacks of September 11", Effect::Closed),
        one_off(date(2001, 9, 13), "the attacks of September 11", Effect::Closed),
        one_off(date(2001, 9, 14), "the attacks of September 11", Effect::Closed),
        one_off(date(2001, 9, 17), "silence for the victims of September 11", Effect::OpensAt(at(9, 33))),
        one_off(date(2001, 10, 8), "silence for the troops", Effect::OpensAt(at(9, 31))),
        // Until 2012 the half day was July 5 where that was a Friday.
        one_off(date(2002, 7, 3), "a full day", Effect::Regular),
        one_off(date(2002, 7, 5), "the day after Independence Day", HALF_DAY),
        one_off(date(2002, 9, 11), "the anniversary of September 11", Effect::OpensAt(at(12, 0))),
        one_off(date(2003, 3, 20), "silence for the troops", Effect::OpensAt(at(9, 32))),
        one_off(date(2003, 12, 26), "the day after Christmas", HALF_DAY),
        one_off(date(2004, 6, 7), "silence for President Reagan", Effect::OpensAt(at(9, 32))),
        one_off(date(2004, 6, 11), "mourning for President Reagan", Effect::Closed),
        one_off(date(2005, 6, 1), "a failure of communications", Effect::ClosesAt(at(15, 56))),
        one_off(date(2006, 12, 27), "silence for President Ford", Effect::OpensAt(at(9, 32))),
        one_off(date(2007, 1, 2), "mourning for President Ford", Effect::Closed),
        one_off(date(2012, 10, 29), "Hurricane Sandy", Effect::Closed),
        one_off(date(2012, 10, 30), "Hurricane Sandy", Effect::Closed),
        one_off(date(2018, 12, 5), "mourning for President George H. W. Bush", Effect::Closed),
        one_off(date(2025, 1, 9), "mourning for President Carter", Effect::Closed),
    ],
};

const fn closed(name: &'static str, rule: Rule, years: RangeInclusive<i32>) -> Holiday {
    Holiday { name, rule, years, effect: Effect::Closed }
}

const fn half_day(name: &'static str, rule: Rule) -> Holiday {
    Holiday { name, rule, years: ALL_YEARS, effect: HALF_DAY }
}

const fn one_off(date: chrono::NaiveDate, name: &'static str, effect: Effect) -> OneOff {
    OneOff { date, name, effect }
}
