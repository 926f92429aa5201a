use chrono::{DateTime, TimeDelta, Timelike};

use super::*;
use crate::rules::date;

fn calendar(name: &str) -> Arc<Calendar> {
    Calendar::named(name).unwrap()
}

fn ns(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt().unwrap()
}

/// The local opening and closing time of a date, if it trades.
fn hours(name: &str, day: NaiveDate) -> Option<(String, String)> {
    let calendar = calendar(name);
    let days = calendar.days(day, day).unwrap();
    let local = |ns| DateTime::from_timestamp_nanos(ns).with_timezone(&calendar.zone()).format("%d %H:%M").to_string();
    days.first().map(|day| (local(day.open), local(day.close)))
}

fn closes(name: &str, day: NaiveDate) -> Option<String> {
    hours(name, day).map(|(_, close)| close[3..].to_owned())
}

#[test]
fn nyse_closes_on_the_days_that_its_notices_name() {
    for day in [
        date(2000, 1, 17),
        date(2001, 9, 11),
        date(2001, 9, 14),
        date(2004, 6, 11),
        date(2004, 12, 24),
        date(2007, 1, 2),
        date(2010, 12, 24),
        date(2012, 10, 29),
        date(2012, 10, 30),
        date(2018, 12, 5),
        date(2021, 12, 24),
        date(2022, 6, 20),
        date(2025, 1, 9),
        date(2026, 7, 3),
        date(2027, 6, 18),
    ] {
        assert_eq!(hours("NYSE", day), None, "{day}");
    }
    for day in [date(2001, 9, 10), date(2010, 12, 31), date(2021, 6, 18), date(2021, 12, 31), date(2022, 1, 3)] {
        assert_eq!(closes("NYSE", day).as_deref(), Some("16:00"), "{day}");
    }
}

#[test]
fn nyse_has_half_days_before_and_after_holidays() {
    for day in [
        date(2002, 7, 5),
        date(2003, 12, 26),
        date(2012, 7, 3),
        date(2013, 7, 3),
        date(2013, 11, 29),
        date(2023, 7, 3),
        date(2024, 12, 24),
        date(2025, 7, 3),
        date(2025, 11, 28),
    ] {
        assert_eq!(closes("NYSE", day).as_deref(), Some("13:00"), "{day}");
    }
    assert_eq!(closes("NYSE", date(2002, 7, 3)).as_deref(), Some("16:00"));
    assert_eq!(closes("NYSE", date(2021, 7, 2)).as_deref(), Some("16:00"));
    assert_eq!(hours("NYSE", date(2002, 9, 11)).unwrap().0, "11 12:00");
}

#[test]
fn cme_opens_on_the_evening_before_and_trades_on_holidays_until_noon() {
    assert_eq!(hours("CME", date(2024, 3, 11)), Some(("10 17:00".to_owned(), "11 16:00".to_owned())));
    assert_eq!(hours("CME", date(2024, 1, 15)), Some(("14 17:00".to_owned(), "15 12:00".to_owned())));
    for (day, close) in [
        (date(2018, 12, 5), Some("08:30")),
        (date(2025, 1, 9), Some("08:30")),
        (date(2021, 4, 2), Some("08:15")),
        (date(2022, 4, 15), None),
        (date(2023, 4, 7), Some("08:15")),
        (date(2024, 3, 29), None),
        (date(2024, 7, 3), Some("12:15")),
        (date(2024, 7, 4), Some("12:00")),
        (date(2021, 12, 24), None),
        (date(2022, 6, 20), Some("12:00")),
        (date(2023, 1, 2), None),
        (date(2022, 12, 30), Some("16:00")),
    ] {
        assert_eq!(closes("CME", day).as_deref(), close, "{day}");
    }
}

#[test]
fn cme_had_a_halt_in_the_afternoon_until_june_2021() {
    let cme = calendar("CME");
    let mut search = cme.search();
    for (time, expected) in [
        ("2021-06-25T20:14:59Z", Some(date(2021, 6, 25))),
        ("2021-06-25T20:15:00Z", None),
        ("2021-06-25T20:30:00Z", Some(date(2021, 6, 25))),
        ("2021-06-25T21:00:00Z", None),
        ("2021-06-27T21:59:59Z", None),
        ("2021-06-27T22:00:00Z", Some(date(2021, 6, 28))),
        ("2021-06-28T20:20:00Z", Some(date(2021, 6, 28))),
    ] {
        assert_eq!(search.session(ns(time)).unwrap().map(|session| session.date), expected, "{time}");
    }
    // An early close ends before the halt, which leaves one session.
    let thanksgiving = &cme.days(date(2020, 11, 26), date(2020, 11, 26)).unwrap()[0];
    assert_eq!(cme.sessions(thanksgiving).len(), 1);
    let day = &cme.days(date(2020, 11, 25), date(2020, 11, 25)).unwrap()[0];
    assert_eq!(cme.sessions(day).len(), 2);
}

#[test]
fn london_moves_bank_holidays_and_closes_early_before_christmas() {
    for (day, close) in [
        (date(2002, 5, 27), Some("16:30")),
        (date(2002, 6, 3), None),
        (date(2011, 4, 29), None),
        (date(2016, 12, 23), Some("12:30")),
        (date(2016, 12, 27), None),
        (date(2017, 12, 29), Some("12:30")),
        (date(2020, 5, 4), Some("16:30")),
        (date(2020, 5, 8), None),
        (date(2020, 12, 28), None),
        (date(2021, 12, 28), None),
        (date(2022, 1, 3), None),
        (date(2022, 9, 19), None),
        (date(2023, 5, 8), None),
        (date(2023, 12, 22), Some("12:30")),
    ] {
        assert_eq!(closes("LSE", day).as_deref(), close, "{day}");
    }
}

#[test]
fn eurex_does_not_trade_on_christmas_eve() {
    for day in [date(2018, 5, 1), date(2019, 12, 24), date(2020, 12, 31), date(2021, 4, 5)] {
        assert_eq!(hours("EUREX", day), None, "{day}");
    }
    assert_eq!(closes("EUREX", date(2020, 12, 30)).as_deref(), Some("22:00"));
    assert_eq!(closes("EUREX", date(2021, 12, 27)).as_deref(), Some("22:00"));
}

#[test]
fn sessions_follow_the_clock_of_their_zone() {
    // New York changed its clocks on 10 March 2024, London on 31 March.
    for (name, day, open) in [
        ("NYSE", date(2024, 3, 8), "2024-03-08T14:30:00Z"),
        ("NYSE", date(2024, 3, 11), "2024-03-11T13:30:00Z"),
        ("LSE", date(2024, 3, 28), "2024-03-28T08:00:00Z"),
        ("LSE", date(2024, 4, 2), "2024-04-02T07:00:00Z"),
        ("CME", date(2024, 3, 11), "2024-03-10T22:00:00Z"),
        ("24x7", date(2024, 3, 10), "2024-03-10T00:00:00Z"),
    ] {
        assert_eq!(calendar(name).days(day, day).unwrap()[0].open, ns(open), "{name} {day}");
    }
}

#[test]
fn all_sessions_are_in_order_and_on_whole_minutes() {
    for name in Calendar::names() {
        let calendar = calendar(name);
        let sessions = calendar.all_sessions();
        assert!(sessions.iter().all(|session| session.open < session.close), "{name}");
        assert!(
            sessions.windows(2).all(|pair| pair[0].close <= pair[1].open && pair[0].date <= pair[1].date),
            "{name}"
        );
        assert!(sessions.iter().all(|session| DateTime::from_timestamp_nanos(session.open).second() == 0));
        let of_days: usize = calendar.days.iter().map(|day| calendar.sessions(day).len()).sum();
        assert_eq!(of_days, sessions.len(), "{name}");
    }
}

#[test]
fn a_search_that_remembers_gives_what_a_fresh_one_gives() {
    for name in ["NYSE", "CME", "24x7"] {
        let calendar = calendar(name);
        let mut search = calendar.search();
        let start = ns("2021-06-20T00:00:00Z");
        // Forwards by odd steps, and back again every few steps.
        for step in 0..4_000_i64 {
            let instant = start + step * 611_000_000_007 - (step % 7) * 5_000_000_000_000;
            let plain =
                calendar.all_sessions().iter().find(|session| session.open <= instant && instant < session.close);
            assert_eq!(search.session(instant).unwrap(), plain, "{name} {instant}");
        }
    }
}

#[test]
fn questions_outside_of_the_rules_are_refused_by_name() {
    let cme = calendar("CME");
    let error = cme.days(date(2015, 12, 31), date(2016, 2, 1)).unwrap_err().to_string();
    assert_eq!(error, "the calendar CME covers 2016-01-01 to 2030-12-31, not 2015-12-31");
    assert!(cme.days(date(2030, 12, 1), date(2031, 1, 1)).is_err());
    assert!(cme.days(date(2031, 1, 1), date(2030, 12, 1)).unwrap().is_empty());
    // The first trading date that is covered begins on the evening before.
    assert!(cme.search().session(ns("2015-12-31T22:59:59Z")).is_err());
    assert!(cme.search().session(ns("2015-12-31T23:00:00Z")).is_ok());
    assert!(cme.search().session(ns("2030-12-31T22:59:59Z")).is_ok());
    assert!(cme.search().session(ns("2030-12-31T23:00:00Z")).is_err());
    for instant in [i64::MIN, i64::MAX] {
        assert!(calendar("24x7").search().session(instant).is_err());
    }
    let error = Calendar::named("TSE").unwrap_err().to_string();
    assert_eq!(error, "there is no calendar \"TSE\"; there are NYSE, CME, LSE, EUREX, 24x7");
    assert_eq!(calendar("xnys").name(), "NYSE");
}

#[test]
fn trading_days_are_counted_and_stepped_over() {
    let nyse = calendar("NYSE");
    let (wednesday, thanksgiving, friday) = (date(2024, 11, 27), date(2024, 11, 28), date(2024, 11, 29));
    assert_eq!(nyse.nth_trading_day(wednesday, 1), Ok(friday));
    assert_eq!(nyse.nth_trading_day(thanksgiving, 1), Ok(friday));
    assert_eq!(nyse.nth_trading_day(thanksgiving, -1), Ok(wednesday));
    assert_eq!(nyse.nth_trading_day(friday, -1), Ok(wednesday));
    assert_eq!(nyse.nth_trading_day(wednesday, 2), Ok(date(2024, 12, 2)));
    assert_eq!(nyse.nth_trading_day(thanksgiving, 0), Ok(thanksgiving));
    assert!(nyse.nth_trading_day(date(2030, 12, 31), 1).is_err());
    assert!(nyse.nth_trading_day(date(2000, 1, 3), -1).is_err());
    for far in [i64::MIN, i64::MAX] {
        assert!(nyse.nth_trading_day(wednesday, far).is_err());
    }
    assert_eq!(nyse.trading_days_between(date(2024, 1, 1), date(2025, 1, 1)), Ok(252));
    assert_eq!(nyse.trading_days_between(wednesday, friday), Ok(1));
    assert_eq!(nyse.trading_days_between(friday, wednesday), Ok(-1));
    // Stepping and counting agree from every date on.
    let mut day = date(2012, 1, 1);
    while day < date(2013, 1, 1) {
        let next = nyse.nth_trading_day(day, 1).unwrap();
        let itself = i64::from(nyse.is_trading_day(day).unwrap());
        assert_eq!(nyse.trading_days_between(day, next), Ok(itself), "{day}");
        day += TimeDelta::days(1);
    }
}

#[test]
fn special_days_are_named() {
    let cme = calendar("CME");
    let days = cme.special_days(date(2025, 1, 1), date(2025, 1, 31)).unwrap();
    let actual: Vec<_> = days.iter().map(|day| (day.date, day.name.as_ref(), day.kind)).collect();
    assert_eq!(
        actual,
        [
            (date(2025, 1, 1), "New Year's Day", SpecialDayKind::Closed),
            (date(2025, 1, 9), "mourning for President Carter", SpecialDayKind::EarlyClose),
            (date(2025, 1, 20), "Martin Luther King Jr. Day", SpecialDayKind::EarlyClose),
        ]
    );
    // A holiday that was moved away leaves an ordinary day.
    assert!(calendar("LSE").special_days(date(2020, 5, 4), date(2020, 5, 4)).unwrap().is_empty());
    assert!(cme.special_days(date(2015, 1, 1), date(2025, 1, 31)).is_err());
}

#[test]
fn the_next_session_is_that_behind_a_break() {
    let nyse = calendar("NYSE");
    let next = |time| nyse.search().session_or_next(ns(time)).unwrap().map(|session| session.date);
    assert_eq!(next("2024-11-28T15:00:00Z"), Some(date(2024, 11, 29)));
    assert_eq!(next("2024-11-29T15:00:00Z"), Some(date(2024, 11, 29)));
    assert_eq!(next("2024-11-29T18:00:00Z"), Some(date(2024, 12, 2)));
    assert_eq!(next("2030-12-31T21:00:00Z"), None);
}
