//! Calendars that are given row by row, as a table has them.
//!
//! A row is a session of a date, or says that the date has none. Rows are the whole truth: no rule adds a holiday, and a date between the first
//! and the last that has no row isn't traded on.
//!
//! Rows know no zone. Which instants a calendar covers follows from them: up to where the date before the first one, and the one after the last,
//! may have a session, by the earliest opening and the latest close that any date has, and an hour for clocks that change.

use std::borrow::Cow;
use std::ops::Range;

use chrono::{NaiveDate, NaiveTime};
use chrono_tz::Tz;

use crate::calendar::{Calendar, Session, SpecialDay, SpecialDayKind, TradingDay};
use crate::error::{Error, Result};

const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;

/// A session of a date, or a date without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The trading date.
    pub date: NaiveDate,
    /// The session's first instant; none on a date without trading.
    pub open: Option<i64>,
    /// The first instant behind it.
    pub close: Option<i64>,
    /// `regular`, `early close` or `half day`, `late open`, `closed` or `holiday`. None stands for regular, and without times for closed.
    pub kind: Option<String>,
    /// Why the date is another than usual.
    pub note: Option<String>,
}

/// The entry of a date.
enum DateEntry {
    Closed,
    Session(Session, Option<SpecialDayKind>),
}

impl Calendar {
    /// A calendar of rows, in any order.
    ///
    /// # Errors
    /// [`Error::Rows`] says which row can't be, or which two can't be together.
    pub fn of_rows(name: &str, mut rows: Vec<Row>) -> Result<Calendar> {
        let refused = |reason: String| Error::Rows { calendar: name.to_owned(), reason };
        rows.sort_by_key(|row| (row.date, row.open));
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Err(refused("it has no rows".to_owned()));
        };
        let covered = first.date..=last.date;
        let mut sessions: Vec<Session> = Vec::new();
        let mut days: Vec<TradingDay> = Vec::new();
        let mut special_days: Vec<SpecialDay> = Vec::new();
        for of_date in rows.chunk_by(|a, b| a.date == b.date) {
            let (first, date) = (sessions.len(), of_date[0].date);
            let (mut kind, mut is_closed) = (None, false);
            for row in of_date {
                match entry(row).map_err(refused)? {
                    DateEntry::Closed => is_closed = true,
                    DateEntry::Session(session, of_session) => {
                        if let Some(before) = sessions.last().filter(|before| before.close > session.open) {
                            return Err(refused(overlap(before, &session)));
                        }
                        sessions.push(session);
                        kind = kind.or(of_session);
                    }
                }
            }
            match is_closed {
                true if first < sessions.len() => {
                    return Err(refused(format!("{date} has a row without a session, and another with one")));
                }
                true => kind = Some(SpecialDayKind::Closed),
                false => {}
            }
            let note = of_date.iter().find_map(|row| row.note.clone().filter(|note| !note.is_empty()));
            if let Some(kind) = kind {
                let name = note.clone().unwrap_or_else(|| kind.text().to_owned());
                special_days.push(SpecialDay { date, name: Cow::Owned(name), kind });
            }
            if let (Some(open), Some(close)) = (sessions.get(first), sessions.last()) {
                days.push(TradingDay {
                    date,
                    open: open.open,
                    close: close.close,
                    early_close: kind == Some(SpecialDayKind::EarlyClose),
                    late_open: kind == Some(SpecialDayKind::LateOpen),
                    note: note.map(Cow::Owned),
                    sessions: first..sessions.len(),
                });
            }
        }
        let instants = instants(&sessions, *covered.start(), *covered.end());
        let instants = instants.ok_or_else(|| refused("none of its dates has a session".to_owned()))?;
        Ok(Calendar {
            name: Cow::Owned(name.to_owned()),
            aliases: &[],
            title: Cow::Borrowed("a table of this database"),
            zone: Tz::UTC,
            covered,
            days,
            sessions,
            special_days,
            instants,
        })
    }
}

fn entry(row: &Row) -> std::result::Result<DateEntry, String> {
    let date = row.date;
    let kind_text = row.kind.as_deref().map(str::trim).filter(|kind| !kind.is_empty());
    let kind = match kind_text.map(str::to_lowercase).as_deref() {
        None | Some("regular") => None,
        Some("early close" | "half day") => Some(SpecialDayKind::EarlyClose),
        Some("late open") => Some(SpecialDayKind::LateOpen),
        Some("closed" | "holiday") => Some(SpecialDayKind::Closed),
        Some(other) => {
            return Err(format!(
                "{date} has the kind {other:?}; there are regular, early close (or half day), late open, and closed (or holiday)"
            ));
        }
    };
    match (row.open, row.close, kind) {
        (None, None, None | Some(SpecialDayKind::Closed)) if kind_text.is_none() || kind.is_some() => {
            Ok(DateEntry::Closed)
        }
        (None, None, _) => Err(format!("{date} is given as {} and has no session", kind_text.unwrap_or_default())),
        (Some(_), None, Some(SpecialDayKind::EarlyClose)) => Err(format!("the half day {date} has no close")),
        (Some(_), None, _) => Err(format!("{date} has an opening and no close")),
        (None, Some(_), _) => Err(format!("{date} has a close and no opening")),
        (Some(_), Some(_), Some(SpecialDayKind::Closed)) => {
            Err(format!("{date} is given as {} and has a session", kind_text.unwrap_or_default()))
        }
        (Some(open), Some(close), _) if close <= open => {
            Err(format!("the session of {date} that opens at {} closes at {}", text(open), text(close)))
        }
        (Some(open), Some(close), _) if !is_near(date, open) || !is_near(date, close) => {
            Err(format!("the session from {} to {} is days away from its date {date}", text(open), text(close)))
        }
        (Some(open), Some(close), kind) => Ok(DateEntry::Session(Session { date, open, close }, kind)),
    }
}

/// Whether an instant is within three days of a date: sessions of an evening before, and those that go on into the next date, are.
fn is_near(date: NaiveDate, instant: i64) -> bool {
    midnight(date).is_some_and(|midnight| (-2 * DAY_NS..3 * DAY_NS).contains(&instant.saturating_sub(midnight)))
}

fn overlap(before: &Session, session: &Session) -> String {
    let times = |session: &Session| format!("{} ({} to {})", session.date, text(session.open), text(session.close));
    format!("sessions of {} and {} overlap, or aren't in the order of their dates", times(before), times(session))
}

fn text(instant: i64) -> String {
    chrono::DateTime::from_timestamp_nanos(instant).to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}

fn midnight(date: NaiveDate) -> Option<i64> {
    date.and_time(NaiveTime::MIN).and_utc().timestamp_nanos_opt()
}

/// The instants that are covered; none without sessions.
fn instants(sessions: &[Session], first: NaiveDate, last: NaiveDate) -> Option<Range<i64>> {
    let since = |session: &Session, instant: i64| midnight(session.date).map(|midnight| instant - midnight);
    let earliest = sessions.iter().filter_map(|session| since(session, session.open)).min()?;
    let latest = sessions.iter().filter_map(|session| since(session, session.close)).max()?;
    let (opened, closed) = (sessions.first()?.open, sessions.last()?.close);
    let start = midnight(first)?.saturating_add(latest - DAY_NS + HOUR_NS).min(opened);
    let end = midnight(last)?.saturating_add(earliest + DAY_NS - HOUR_NS).max(closed);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date;

    fn instant(text: &str) -> i64 {
        chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt().unwrap()
    }

    /// `date open close kind`, with `-` for what isn't there.
    fn row(text: &str) -> Row {
        let words: Vec<&str> = text.splitn(4, ' ').collect();
        let word_at = |at: usize| words.get(at).filter(|word| **word != "-");
        Row {
            date: words[0].parse().unwrap(),
            open: word_at(1).map(|time| instant(time)),
            close: word_at(2).map(|time| instant(time)),
            kind: word_at(3).map(|kind| (*kind).to_owned()),
            note: None,
        }
    }

    fn calendar(rows: &[&str]) -> Result<Calendar> {
        Calendar::of_rows("tokyo", rows.iter().map(|text| row(text)).collect())
    }

    fn reason(rows: &[&str]) -> String {
        match calendar(rows) {
            Err(Error::Rows { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_are_sessions_half_days_and_holidays() {
        let tokyo = calendar(&[
            "2024-12-30 2024-12-30T00:00:00Z 2024-12-30T02:30:00Z half day",
            "2024-12-27 2024-12-27T03:30:00Z 2024-12-27T06:00:00Z",
            "2024-12-27 2024-12-27T00:00:00Z 2024-12-27T02:30:00Z regular",
            "2024-12-31 - - holiday",
            "2025-01-01 - -",
            "2025-01-01 - - closed",
        ])
        .unwrap();
        let (from, to) = (date(2024, 12, 27), date(2025, 1, 1));
        let days = tokyo.days(from, to).unwrap();
        assert_eq!(days.iter().map(|day| day.date).collect::<Vec<_>>(), [from, date(2024, 12, 30)]);
        assert_eq!(tokyo.sessions(&days[0]).len(), 2);
        assert!(days[1].early_close && !days[0].early_close);
        let special = tokyo.special_days(from, to).unwrap();
        let kinds: Vec<_> = special.iter().map(|day| (day.name.as_ref(), day.kind)).collect();
        use SpecialDayKind::{Closed, EarlyClose};
        assert_eq!(kinds, [("early close", EarlyClose), ("closed", Closed), ("closed", Closed)]);
        // A date between the first and the last without a row isn't traded on.
        assert_eq!(tokyo.is_trading_day(date(2024, 12, 28)), Ok(false));
        assert!(matches!(tokyo.is_trading_day(date(2025, 1, 2)), Err(Error::NotCovered { .. })));
    }

    /// The earliest opening is at 22:00 of the evening before, the latest close at 21:00: the evening of the last date is another's.
    #[test]
    fn instants_at_which_other_dates_may_trade_are_not_covered() {
        let futures = calendar(&[
            "2024-03-08 2024-03-07T23:00:00Z 2024-03-08T22:00:00Z",
            "2024-03-11 2024-03-10T22:00:00Z 2024-03-11T21:00:00Z",
            "2024-03-12 - -",
        ])
        .unwrap();
        let in_session = |text: &str| futures.search().session(instant(text)).map(|session| session.is_some());
        assert_eq!(in_session("2024-03-07T23:00:00Z"), Ok(true));
        assert!(in_session("2024-03-07T22:59:59Z").is_err());
        assert_eq!(in_session("2024-03-09T12:00:00Z"), Ok(false));
        assert_eq!(in_session("2024-03-12T20:59:59Z"), Ok(false));
        assert!(in_session("2024-03-12T21:00:00Z").is_err());
    }

    #[test]
    fn rows_that_cannot_be_are_named() {
        for (rows, expected) in [
            (&[][..], "no rows"),
            (&["2024-01-01 - - holiday"], "none of its dates has a session"),
            (&["2024-12-30 2024-12-30T00:00:00Z - half day"], "the half day 2024-12-30 has no close"),
            (&["2024-12-30 2024-12-30T00:00:00Z -"], "has an opening and no close"),
            (&["2024-12-30 - 2024-12-30T00:00:00Z"], "has a close and no opening"),
            (&["2024-12-30 - - half day"], "given as half day and has no session"),
            (&["2024-12-30 - - regular"], "given as regular and has no session"),
            (&["2024-12-30 2024-12-30T00:00:00Z 2024-12-30T02:30:00Z closed"], "given as closed and has a session"),
            (&["2024-12-30 2024-12-30T00:00:00Z 2024-12-30T02:30:00Z lunch"], "\"lunch\"; there are regular"),
            (&["2024-12-30 2024-12-30T02:30:00Z 2024-12-30T02:30:00Z"], "closes at 2024-12-30T02:30:00Z"),
            (&["2024-12-30 2023-12-30T00:00:00Z 2023-12-30T02:30:00Z"], "days away from its date 2024-12-30"),
            (
                &["2024-12-30 - - closed", "2024-12-30 2024-12-30T00:00:00Z 2024-12-30T02:30:00Z"],
                "and another with one",
            ),
            (
                &[
                    "2024-12-30 2024-12-30T00:00:00Z 2024-12-30T02:30:00Z",
                    "2024-12-30 2024-12-30T02:00:00Z 2024-12-30T06:00:00Z",
                ],
                "sessions of 2024-12-30 (2024-12-30T00:00:00Z to 2024-12-30T02:30:00Z) and 2024-12-30",
            ),
            (
                &[
                    "2024-12-30 2024-12-31T04:00:00Z 2024-12-31T05:30:00Z",
                    "2024-12-31 2024-12-31T00:00:00Z 2024-12-31T02:30:00Z",
                ],
                "aren't in the order of their dates",
            ),
        ] {
            let reason = reason(rows);
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
