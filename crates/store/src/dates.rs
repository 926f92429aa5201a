//! Dates of timestamps in a time zone, and the timestamp at which a date begins there.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use chrono::{DateTime, LocalResult, NaiveTime, Offset, TimeDelta, TimeZone};
use chrono_tz::Tz;

use crate::partition::{DayStart, FIRST_OF_ALL, LAST_OF_ALL, NS_PER_DAY, Period, date};

/// Finds the dates of instants, or the first dates of their partitions. Remembers the last one's bounds, since neighbours mostly share one.
#[derive(Debug)]
pub struct Dates {
    zone: Tz,
    period: Period,
    /// Nanoseconds from the start of a date to its midnight.
    lead: i64,
    date: i32,
    start: i64,
    end: i64,
    /// The spans of the zone around the last instant.
    spans: Arc<[ClockSpan]>,
    /// The span that the last instant is in.
    span: ClockSpan,
}

/// Instants between which a zone's clock keeps its distance from UTC.
#[derive(Debug, Clone, Copy, Default)]
struct ClockSpan {
    start: i64,
    end: i64,
    /// Nanoseconds by which the clock is ahead of UTC.
    offset: i64,
}

impl ClockSpan {
    fn contains(&self, instant: i64) -> bool {
        (self.start..self.end).contains(&instant)
    }
}

impl Dates {
    /// The dates of a time zone.
    #[must_use]
    pub fn new(zone: Tz) -> Dates {
        let (spans, span) = (Arc::default(), ClockSpan::default());
        Dates { zone, period: Period::Day, lead: 0, date: 0, start: 0, end: 0, spans, span }
    }

    /// The same dates, beginning at a time of day other than midnight.
    #[must_use]
    pub fn starting_at(self, start: DayStart) -> Dates {
        Dates { lead: start.lead(), start: 0, end: 0, ..self }
    }

    /// The first dates of the periods that these dates are in.
    #[must_use]
    pub fn by(self, period: Period) -> Dates {
        Dates { period, start: 0, end: 0, ..self }
    }

    /// Days since 1970-01-01 of an instant given in nanoseconds since the epoch.
    pub fn of(&mut self, instant: i64) -> i32 {
        if instant < self.start || instant >= self.end {
            self.locate(instant);
        }
        self.date
    }

    /// Whether all timestamps from one to another surely have the same date; false if that can't be decided without
    /// computing each.
    pub fn is_one(&mut self, from: i64, to: i64) -> bool {
        self.of(from);
        from >= self.start && to < self.end && from <= to
    }

    #[expect(clippy::cast_possible_truncation, reason = "an i64 of nanoseconds spans 213,504 days")]
    fn locate(&mut self, instant: i64) {
        if !self.span.contains(instant) {
            self.span = self.span_of(instant);
        }
        // The clock of dates, on which one begins at midnight.
        let ahead = self.span.offset + self.lead;
        let day = match instant.checked_add(ahead) {
            Some(local) => local.div_euclid(NS_PER_DAY) as i32,
            None => (i128::from(instant) + i128::from(ahead)).div_euclid(i128::from(NS_PER_DAY)) as i32,
        };
        let begin = |day: i32| {
            let begin = i128::from(day) * i128::from(NS_PER_DAY) - i128::from(ahead);
            begin.clamp(i128::from(self.span.start), i128::from(self.span.end)) as i64
        };
        self.date = self.period.first(day);
        (self.start, self.end) = (begin(self.date), begin(self.period.last(day).saturating_add(1)));
    }

    fn span_of(&mut self, instant: i64) -> ClockSpan {
        let lookup = |spans: &[ClockSpan]| spans.get(spans.partition_point(|span| span.end <= instant)).copied();
        if let Some(span) = lookup(&self.spans).filter(|span| span.contains(instant)) {
            return span;
        }
        self.spans = spans(self.zone, instant.div_euclid(NS_OF_SPANS));
        // The end of the last one can't be an instant.
        lookup(&self.spans).unwrap_or(ClockSpan { start: instant, end: instant, offset: offset(self.zone, instant) })
    }
}

/// Nanoseconds for which spans are computed together: some eleven years.
const NS_OF_SPANS: i64 = 4_096 * NS_PER_DAY;

/// The spans of a zone in the n-th eleven years since 1970. Clocks are looked at once a day.
fn spans(zone: Tz, number: i64) -> Arc<[ClockSpan]> {
    static CACHE: LazyLock<Mutex<HashMap<(Tz, i64), Arc<[ClockSpan]>>>> = LazyLock::new(Mutex::default);
    let mut cached = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(cached.entry((zone, number)).or_insert_with(|| {
        let (first, end) = (number.saturating_mul(NS_OF_SPANS), (number + 1).saturating_mul(NS_OF_SPANS));
        let mut spans = Vec::new();
        let mut span = ClockSpan { start: first, end: first, offset: offset(zone, first) };
        while span.end < end {
            let next = span.end.saturating_add(NS_PER_DAY).min(end);
            // The last instant before the next look.
            if offset(zone, next - 1) == span.offset {
                span.end = next;
                continue;
            }
            let (mut same, mut other) = (span.end.max(span.start + 1) - 1, next - 1);
            while other - same > 1 {
                let middle = same + (other - same) / 2;
                if offset(zone, middle) == span.offset { same = middle } else { other = middle }
            }
            spans.push(ClockSpan { end: other, ..span });
            span = ClockSpan { start: other, end: other, offset: offset(zone, other) };
        }
        spans.push(span);
        spans.into()
    }))
}

/// Nanoseconds by which a zone's clock is ahead of UTC.
fn offset(zone: Tz, instant: i64) -> i64 {
    let utc = DateTime::from_timestamp_nanos(instant).naive_utc();
    i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()) * 1_000_000_000
}

/// The instant at which a date begins in a time zone; `None` where a clock that is put back passes its start twice, and beyond what an instant can
/// be.
#[must_use]
pub fn start_of_date(zone: Tz, start: DayStart, day: i32) -> Option<i64> {
    // Instants reach no further, nor does a calendar much.
    if !(FIRST_OF_ALL..=LAST_OF_ALL).contains(&day) {
        return None;
    }
    let begin = date(day).and_time(NaiveTime::MIN).checked_sub_signed(TimeDelta::nanoseconds(start.lead()))?;
    match zone.from_local_datetime(&begin) {
        LocalResult::Single(begin) => begin.timestamp_nanos_opt(),
        LocalResult::Ambiguous(_, _) => None,
        // A clock that is put forward skips it.
        LocalResult::None => {
            let around = begin.and_utc().timestamp_nanos_opt()?;
            let (mut low, mut high) = (around.checked_sub(2 * NS_PER_DAY)?, around.checked_add(2 * NS_PER_DAY)?);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if Dates::new(zone).starting_at(start).of(middle) < day { low = middle } else { high = middle }
            }
            Some(high)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::partition::days;

    fn ns(text: &str) -> i64 {
        DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt().unwrap()
    }

    fn date_in(zone: &str, text: &str) -> String {
        date(Dates::new(zone.parse().unwrap()).of(ns(text))).to_string()
    }

    #[test]
    fn a_date_is_taken_in_the_tables_zone() {
        assert_eq!(date_in("UTC", "2013-10-08T03:59:59Z"), "2013-10-08");
        assert_eq!(date_in("America/New_York", "2013-10-08T03:59:59Z"), "2013-10-07");
        assert_eq!(date_in("America/New_York", "2013-10-08T04:00:00Z"), "2013-10-08");
        assert_eq!(date_in("UTC", "1969-12-31T23:59:59.999999999Z"), "1969-12-31");
    }

    #[test]
    fn remembered_bounds_give_the_same_dates_as_fresh_ones() {
        // Days of 23 and 25 hours, a day whose midnight is skipped, one whose first minute is left and entered again, and a date
        // line that was moved.
        for (zone, start) in [
            ("America/New_York", "2013-03-09T00:00:00Z"),
            ("America/New_York", "2013-11-02T00:00:00Z"),
            ("America/Sao_Paulo", "2017-10-14T00:00:00Z"),
            ("America/St_Johns", "2010-11-06T00:00:00Z"),
            ("Pacific/Apia", "2011-12-28T00:00:00Z"),
            ("UTC", "1970-01-01T00:00:00Z"),
        ] {
            let mut dates = Dates::new(zone.parse().unwrap());
            for step in 0..400 {
                let instant = ns(start) + step * 900_000_000_001;
                let local = DateTime::from_timestamp_nanos(instant).with_timezone(&zone.parse::<Tz>().unwrap());
                assert_eq!(date(dates.of(instant)), local.date_naive(), "{zone} {instant}");
            }
        }
    }

    #[test]
    fn dates_of_all_zones_are_those_of_their_clocks() {
        let mut random = 1_u64;
        for zone in chrono_tz::TZ_VARIANTS.into_iter().step_by(17) {
            let mut dates = Dates::new(zone);
            for _ in 0..3_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // From 1890 to 2260, and as rows of a symbol come: a day apart.
                let day = ((random >> 33) % 135_000).cast_signed() - 29_000;
                let of_day = (random >> 7).cast_signed() % NS_PER_DAY;
                for step in 0..3 {
                    let instant = (day + step) * NS_PER_DAY + of_day;
                    let local = DateTime::from_timestamp_nanos(instant).with_timezone(&zone);
                    assert_eq!(date(dates.of(instant)), local.date_naive(), "{zone} {local}");
                }
            }
        }
    }

    #[test]
    fn a_minute_of_tomorrow_may_come_before_the_last_hour_of_today() {
        // In St. John's clocks went back at 00:01, to 23:01 of the day before.
        let mut dates = Dates::new("America/St_Johns".parse().unwrap());
        for (time, expected) in [
            ("2010-11-07T02:29:00Z", "2010-11-06"),
            ("2010-11-07T02:30:30Z", "2010-11-07"),
            ("2010-11-07T02:31:30Z", "2010-11-06"),
            ("2010-11-07T02:30:30Z", "2010-11-07"),
            ("2010-11-07T03:30:00Z", "2010-11-07"),
        ] {
            assert_eq!(date(dates.of(ns(time))).to_string(), expected, "{time}");
        }
    }

    #[test]
    fn a_date_begins_with_its_first_instant() {
        for zone in
            ["UTC", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu"]
        {
            let zone: Tz = zone.parse().unwrap();
            let (mut dates, mut unknown) = (Dates::new(zone), 0);
            for day in days("2005-01-01".parse().unwrap())..days("2013-01-01".parse().unwrap()) {
                let evening: DayStart = "17:30".parse().unwrap();
                if let Some(start) = start_of_date(zone, evening, day) {
                    let mut dates = Dates::new(zone).starting_at(evening);
                    assert!(dates.of(start) >= day && dates.of(start - 1) < day, "{zone} {}", date(day));
                }
                match start_of_date(zone, DayStart::default(), day) {
                    Some(start) => {
                        assert!(dates.of(start) >= day && dates.of(start - 1) < day, "{zone} {}", date(day));
                        // Apia left one date out.
                        assert!(dates.of(start) == day || date(day).to_string() == "2011-12-30", "{zone}");
                    }
                    None => unknown += 1,
                }
            }
            assert!(unknown < 20, "{zone} {unknown}");
        }
        for day in [i32::MIN, i32::MAX, i32::MAX / 20_000] {
            assert_eq!(start_of_date(Tz::UTC, DayStart::default(), day), None);
            assert!(Period::ALL.iter().all(|period| period.first(day) <= period.last(day)));
        }
    }

    #[test]
    fn a_date_may_begin_on_the_evening_before() {
        let of = |time| {
            let mut dates = Dates::new(Tz::America__Chicago).starting_at("17:00".parse().unwrap());
            date(dates.of(ns(time))).to_string()
        };
        for (time, expected) in [
            ("2024-03-08T22:59:59.999999999Z", "2024-03-08"),
            ("2024-03-08T23:00:00Z", "2024-03-09"),
            // On 10 March clocks went forward: Sunday evening began an hour earlier in UTC.
            ("2024-03-10T21:59:59Z", "2024-03-10"),
            ("2024-03-10T22:00:00Z", "2024-03-11"),
            ("2024-03-11T21:59:59Z", "2024-03-11"),
            // On 3 November they went back.
            ("2024-11-01T21:59:59Z", "2024-11-01"),
            ("2024-11-01T22:00:00Z", "2024-11-02"),
            ("2024-11-03T22:59:59Z", "2024-11-03"),
            ("2024-11-03T23:00:00Z", "2024-11-04"),
        ] {
            assert_eq!(of(time), expected, "{time}");
        }
    }

    #[test]
    fn remembered_bounds_of_days_that_start_in_the_evening_give_what_a_clock_says() {
        for (zone, first) in [
            ("America/Chicago", "2024-03-08T00:00:00Z"),
            ("America/Chicago", "2024-11-01T00:00:00Z"),
            // Half an hour of daylight saving, a clock change at midnight, a date that was left out, and no zone at all.
            ("Australia/Lord_Howe", "2024-04-05T00:00:00Z"),
            ("America/Sao_Paulo", "2017-10-14T00:00:00Z"),
            ("Pacific/Apia", "2011-12-28T00:00:00Z"),
            ("UTC", "1969-12-30T00:00:00Z"),
        ] {
            let zone: Tz = zone.parse().unwrap();
            for start in ["17:00", "23:59", "12:00", "18:07", "00:00"] {
                let start: DayStart = start.parse().unwrap();
                let mut dates = Dates::new(zone).starting_at(start);
                for step in 0..700_i64 {
                    // Now and then an hour back, as rows come that are late.
                    let instant = ns(first) + step * 613_000_000_001 - (step % 5) * 3_600_000_000_000;
                    let local = DateTime::from_timestamp_nanos(instant).with_timezone(&zone);
                    let next = start.is_next_date(chrono::Timelike::num_seconds_from_midnight(&local));
                    let expected = local.date_naive() + TimeDelta::days(i64::from(next));
                    assert_eq!(date(dates.of(instant)), expected, "{zone} {start} {local}");
                }
            }
        }
    }

    #[test]
    fn the_ends_of_time_have_dates() {
        for zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
            let mut dates = Dates::new(zone.parse().unwrap());
            assert_eq!(
                date(dates.of(i64::MIN)).to_string(),
                "1677-09-21".replace("21", if zone == "America/New_York" { "20" } else { "21" })
            );
            assert_eq!(
                date(dates.of(i64::MAX)).to_string(),
                if zone == "Asia/Tokyo" { "2262-04-12" } else { "2262-04-11" }
            );
        }
    }

    #[test]
    fn a_partition_is_named_by_the_first_date_of_its_period() {
        let day = |text: &str| days(text.parse().unwrap());
        for (period, first, last, name) in [
            (Period::Day, "2024-02-29", "2024-02-29", "2024-02-29"),
            (Period::Month, "2024-02-01", "2024-02-29", "2024-02"),
            (Period::Year, "2024-01-01", "2024-12-31", "2024"),
        ] {
            let of = day("2024-02-29");
            assert_eq!((period.first(of), period.last(of)), (day(first), day(last)), "{period}");
            assert_eq!((period.first(day(first)), period.last(day(last))), (day(first), day(last)), "{period}");
            assert_eq!(period.name_of(period.first(of)), name);
            assert_eq!(period.to_string().to_uppercase().parse(), Ok(period));
        }
        let mut months = Dates::new("America/New_York".parse().unwrap()).by(Period::Month);
        assert_eq!(date(months.of(ns("2024-03-01T04:59:59Z"))).to_string(), "2024-02-01");
        assert_eq!(date(months.of(ns("2024-03-01T05:00:00Z"))).to_string(), "2024-03-01");
        assert!("week".parse::<Period>().is_err());
        let mut all = Dates::new(Tz::UTC).by(Period::All);
        assert_eq!(all.of(i64::MIN), all.of(i64::MAX));
        for instant in [i64::MIN, i64::MAX] {
            let of = Dates::new("Asia/Tokyo".parse().unwrap()).of(instant);
            assert!(Period::All.first(of) <= of && of <= Period::All.last(of));
        }
    }
}
