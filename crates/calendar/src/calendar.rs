//! A calendar: trading days and sessions, and queries over them.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, LazyLock};

use chrono::NaiveDate;
use chrono_tz::Tz;

use crate::error::{Error, Result};
use crate::exchanges;
use crate::schedule::{Exchange, Schedule};

/// A date on which an exchange trades.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TradingDay {
    /// The trading date.
    pub date: NaiveDate,
    /// When its first session opens, which may be on the evening before.
    pub open: i64,
    /// When its last session closes.
    pub close: i64,
    /// Whether it closes before its usual time.
    pub early_close: bool,
    /// Whether it opens after its usual time.
    pub late_open: bool,
    /// Why its hours differ.
    pub note: Option<Cow<'static, str>>,
    pub(crate) sessions: Range<usize>,
}

/// A date that differs from others of its weekday: a holiday, or a day of other hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialDay {
    /// The date.
    pub date: NaiveDate,
    /// The holiday or event, such as `Christmas Day`.
    pub name: Cow<'static, str>,
    /// Whether trading is closed, or has other hours.
    pub kind: SpecialDayKind,
}

/// What is special about a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialDayKind {
    /// There is no trading.
    Closed,
    /// Trading ends before its usual time.
    EarlyClose,
    /// Trading begins after its usual time.
    LateOpen,
}

impl SpecialDayKind {
    /// The name that tables have for it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            SpecialDayKind::Closed => "closed",
            SpecialDayKind::EarlyClose => "early close",
            SpecialDayKind::LateOpen => "late open",
        }
    }
}

/// A time in which an exchange trades without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// The trading date that it belongs to.
    pub date: NaiveDate,
    /// Its first instant.
    pub open: i64,
    /// The first instant behind it.
    pub close: i64,
}

/// The trading days of an exchange.
#[derive(Debug)]
pub struct Calendar {
    pub(crate) name: Cow<'static, str>,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) title: Cow<'static, str>,
    pub(crate) zone: Tz,
    /// The dates that its rules hold for.
    pub(crate) covered: RangeInclusive<NaiveDate>,
    pub(crate) days: Vec<TradingDay>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) special_days: Vec<SpecialDay>,
    /// The instants whose trading dates are covered.
    pub(crate) instants: Range<i64>,
}

static CALENDARS: [LazyLock<Arc<Calendar>>; exchanges::COUNT] = [
    LazyLock::new(|| Calendar::of(&exchanges::NYSE)),
    LazyLock::new(|| Calendar::of(&exchanges::CME)),
    LazyLock::new(|| Calendar::of(&exchanges::LSE)),
    LazyLock::new(|| Calendar::of(&exchanges::EUREX)),
    LazyLock::new(|| Calendar::of(&exchanges::ALWAYS)),
];

impl Calendar {
    /// The calendar of a name or of a market identifier code, without regard to case.
    ///
    /// # Errors
    /// [`Error::Unknown`] lists the names that there are.
    pub fn named(name: &str) -> Result<Arc<Calendar>> {
        let is_it = |exchange: &Exchange| {
            exchange.name.eq_ignore_ascii_case(name)
                || exchange.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
        };
        let position = exchanges::ALL.iter().position(|exchange| is_it(exchange));
        match position.and_then(|position| CALENDARS.get(position)) {
            Some(calendar) => Ok(Arc::clone(calendar)),
            None => Err(Error::Unknown { name: name.to_owned(), available: Calendar::names().join(", ") }),
        }
    }

    /// The names of all calendars.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        exchanges::ALL.iter().map(|exchange| exchange.name).collect()
    }

    fn of(exchange: &'static Exchange) -> Arc<Calendar> {
        let Schedule { days, sessions, special_days } = exchange.schedule();
        let instant = |date: Option<NaiveDate>, otherwise| {
            date.and_then(|date| exchange.instant(date, exchange.day_start)).unwrap_or(otherwise)
        };
        let start = instant(Some(*exchange.dates.start()), i64::MIN);
        let end = instant(exchange.dates.end().succ_opt(), i64::MAX);
        Arc::new(Calendar {
            name: Cow::Borrowed(exchange.name),
            aliases: exchange.aliases,
            title: Cow::Borrowed(exchange.title),
            zone: exchange.zone,
            covered: exchange.dates.clone(),
            days,
            sessions,
            special_days,
            instants: start..end,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Other names that it answers to.
    #[must_use]
    pub fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    /// The market whose sessions it has.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The zone of its dates.
    #[must_use]
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// The dates that its rules hold for.
    #[must_use]
    pub fn covered(&self) -> &RangeInclusive<NaiveDate> {
        &self.covered
    }

    /// All sessions in order.
    pub(crate) fn all_sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The instants that it covers.
    pub(crate) fn instants(&self) -> &Range<i64> {
        &self.instants
    }

    /// The trading days from one date to another, both included.
    ///
    /// # Errors
    /// [`Error::NotCovered`] if the rules don't hold for a date between them. None of a range that ends before it starts.
    pub fn days(&self, from: NaiveDate, to: NaiveDate) -> Result<&[TradingDay]> {
        if from > to {
            return Ok(&[]);
        }
        let from = self.position(from)?;
        self.cover(to)?;
        let to = self.days.partition_point(|day| day.date <= to);
        Ok(&self.days[from..to])
    }

    /// The holidays and the days of other hours from one date to another, both included. Holidays on a weekend aren't among them.
    ///
    /// # Errors
    /// As [`Calendar::days`].
    pub fn special_days(&self, from: NaiveDate, to: NaiveDate) -> Result<&[SpecialDay]> {
        if from > to {
            return Ok(&[]);
        }
        self.cover(from)?;
        self.cover(to)?;
        let from = self.special_days.partition_point(|day| day.date < from);
        let to = self.special_days.partition_point(|day| day.date <= to);
        Ok(&self.special_days[from..to])
    }

    /// The sessions of a trading day of this calendar.
    #[must_use]
    pub fn sessions(&self, day: &TradingDay) -> &[Session] {
        self.sessions.get(day.sessions.clone()).unwrap_or(&[])
    }

    /// Whether it trades on a date.
    ///
    /// # Errors
    /// [`Error::NotCovered`]
    pub fn is_trading_day(&self, date: NaiveDate) -> Result<bool> {
        let position = self.position(date)?;
        Ok(self.days.get(position).is_some_and(|day| day.date == date))
    }

    /// The nth trading day after a date, which itself doesn't count; before it, if `n` is negative. Zero gives the date itself.
    ///
    /// # Errors
    /// [`Error::NotCovered`] also if the rules end before it.
    pub fn nth_trading_day(&self, date: NaiveDate, n: i64) -> Result<NaiveDate> {
        let at_or_after = self.position(date)? as i64;
        let position = match n {
            0 => return Ok(date),
            n if n > 0 => {
                let after = at_or_after + i64::from(self.is_trading_day(date)?);
                after.checked_add(n - 1)
            }
            n => at_or_after.checked_add(n),
        };
        let day = position.and_then(|position| self.days.get(usize::try_from(position).ok()?));
        let request = || format!("trading day {n} after {date}");
        day.map(|day| day.date).ok_or_else(|| self.not_covered(request()))
    }

    /// The number of trading days from a date to before another; negative if that is the earlier one.
    ///
    /// # Errors
    /// [`Error::NotCovered`]
    pub fn trading_days_between(&self, from: NaiveDate, to: NaiveDate) -> Result<i64> {
        Ok(self.position(to)? as i64 - self.position(from)? as i64)
    }

    /// The number of trading days before a date.
    fn position(&self, date: NaiveDate) -> Result<usize> {
        self.cover(date)?;
        Ok(self.days.partition_point(|day| day.date < date))
    }

    fn cover(&self, date: NaiveDate) -> Result<()> {
        if self.covered().contains(&date) { Ok(()) } else { Err(self.not_covered(date.to_string())) }
    }

    pub(crate) fn not_covered(&self, request: String) -> Error {
        let (calendar, dates) = (self.name().to_owned(), self.covered());
        Error::NotCovered { calendar, first: *dates.start(), last: *dates.end(), request }
    }
}

#[cfg(test)]
mod tests;
