//! From an exchange's description to its trading days.
//!
//! - A date is closed if a rule or a one-off says so, or if the exchange doesn't trade on that weekday.
//! - A one-off outranks all rules of its date. Among rules, closed outranks changed hours.
//! - Times are minutes since local midnight of the trading date; those of the evening before are negative.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use chrono::{Datelike, NaiveDate, TimeDelta, TimeZone, Weekday};
use chrono_tz::Tz;

use crate::calendar::{Session, SpecialDay, SpecialDayKind, TradingDay};
use crate::rules::Rule;

/// A time of day as minutes since midnight.
pub(crate) const fn at(hour: i32, minute: i32) -> i32 {
    hour * 60 + minute
}

/// A time of the evening before.
pub(crate) const fn evening_before(hour: i32, minute: i32) -> i32 {
    at(hour, minute) - 24 * 60
}

/// What a rule or a one-off does to a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Closed,
    ClosesAt(i32),
    OpensAt(i32),
    /// A regular day, whatever the rules say.
    Regular,
}

/// A rule and what it does to the dates of its years.
#[derive(Debug)]
pub(crate) struct Holiday {
    pub name: &'static str,
    pub rule: Rule,
    pub years: RangeInclusive<i32>,
    pub effect: Effect,
}

/// What happened on one date alone.
#[derive(Debug)]
pub(crate) struct OneOff {
    pub date: NaiveDate,
    pub name: &'static str,
    pub effect: Effect,
}

/// The hours from a date on: sessions as pairs of opening and close.
#[derive(Debug)]
pub(crate) struct Hours {
    pub since: NaiveDate,
    pub sessions: &'static [(i32, i32)],
}

/// An exchange, as its notices describe it.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub title: &'static str,
    pub zone: Tz,
    /// The first and the last date that the rules hold for.
    pub dates: RangeInclusive<NaiveDate>,
    pub weekend: &'static [Weekday],
    /// Where a trading date begins: zero at midnight, negative on the evening before.
    pub day_start: i32,
    /// In ascending order.
    pub hours: &'static [Hours],
    pub holidays: &'static [Holiday],
    pub one_offs: &'static [OneOff],
}

/// What an exchange does on its dates, each in order.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    pub days: Vec<TradingDay>,
    pub sessions: Vec<Session>,
    pub special_days: Vec<SpecialDay>,
}

impl SpecialDayKind {
    fn of(effect: Effect) -> Option<SpecialDayKind> {
        match effect {
            Effect::Closed => Some(SpecialDayKind::Closed),
            Effect::ClosesAt(_) => Some(SpecialDayKind::EarlyClose),
            Effect::OpensAt(_) => Some(SpecialDayKind::LateOpen),
            Effect::Regular => None,
        }
    }
}

impl Exchange {
    pub(crate) fn schedule(&self) -> Schedule {
        let changes = self.changes();
        let Schedule { mut days, mut sessions, mut special_days } = Schedule::default();
        for date in self.dates.start().iter_days().take_while(|date| date <= self.dates.end()) {
            if self.weekend.contains(&date.weekday()) {
                continue;
            }
            let change = changes.get(&date).copied();
            let kind = change.and_then(|(_, effect)| SpecialDayKind::of(effect));
            if let (Some(kind), Some((name, _))) = (kind, change) {
                special_days.push(SpecialDay { date, name: Cow::Borrowed(name), kind });
            }
            if kind == Some(SpecialDayKind::Closed) {
                continue;
            }
            let first = sessions.len();
            self.add_sessions(date, change.map(|(_, effect)| effect), &mut sessions);
            let (Some(open), Some(close)) = (sessions.get(first), sessions.last()) else { continue };
            days.push(TradingDay {
                date,
                open: open.open,
                close: close.close,
                early_close: kind == Some(SpecialDayKind::EarlyClose),
                late_open: kind == Some(SpecialDayKind::LateOpen),
                note: kind.and(change).map(|(name, _)| Cow::Borrowed(name)),
                sessions: first..sessions.len(),
            });
        }
        Schedule { days, sessions, special_days }
    }

    fn changes(&self) -> BTreeMap<NaiveDate, (&'static str, Effect)> {
        let mut changes: BTreeMap<NaiveDate, (&'static str, Effect)> = BTreeMap::new();
        // A year more at both ends, since a weekend may move a date across New Year.
        for year in self.dates.start().year() - 1..=self.dates.end().year() + 1 {
            for holiday in self.holidays.iter().filter(|holiday| holiday.years.contains(&year)) {
                let Some(date) = holiday.rule.of(year) else { continue };
                let change = changes.entry(date).or_insert((holiday.name, holiday.effect));
                if holiday.effect == Effect::Closed {
                    *change = (holiday.name, Effect::Closed);
                }
            }
        }
        changes.extend(self.one_offs.iter().map(|one_off| (one_off.date, (one_off.name, one_off.effect))));
        changes
    }

    /// Adds those of a date, cut where the date opens late or closes early.
    fn add_sessions(&self, date: NaiveDate, effect: Option<Effect>, sessions: &mut Vec<Session>) {
        let hours = self.hours.iter().rev().find(|hours| hours.since <= date).map_or(&[][..], |hours| hours.sessions);
        let (first, last) = match effect {
            Some(Effect::ClosesAt(minutes)) => (i32::MIN, minutes),
            Some(Effect::OpensAt(minutes)) => (minutes, i32::MAX),
            _ => (i32::MIN, i32::MAX),
        };
        for (open, close) in hours {
            let (open, close) = ((*open).max(first), (*close).min(last));
            if let (true, Some(open), Some(close)) = (open < close, self.instant(date, open), self.instant(date, close))
            {
                sessions.push(Session { date, open, close });
            }
        }
    }

    /// Nanoseconds since the epoch of a local time; the earlier one of two, or the first one behind a gap.
    pub(crate) fn instant(&self, date: NaiveDate, minutes: i32) -> Option<i64> {
        let local = date.and_time(chrono::NaiveTime::MIN) + TimeDelta::minutes(i64::from(minutes));
        let earliest = self.zone.from_local_datetime(&local).earliest();
        let earliest = earliest.or_else(|| self.zone.from_local_datetime(&(local + TimeDelta::hours(1))).earliest());
        earliest?.timestamp_nanos_opt()
    }
}
