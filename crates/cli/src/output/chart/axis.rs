//! The axis along which points stand: instants, times of day, numbers, or the numbers of rows.
//!
//! - Where a label stands, a round value lies: the full hour in the zone of the column, the first of a month, a multiple of 0.5.
//! - The smallest steps whose labels have room are taken. Below labels of a time of day stand the dates, below those of days the years.

use arrow::array::timezone::Tz;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Timelike};

use super::scale::{round_step, written};

/// Blanks between two labels, at least.
const BETWEEN: usize = 2;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// What stands along the axis.
#[derive(Debug, Clone, Copy)]
pub enum AxisKind {
    /// Nanoseconds since 1970, shown in a zone if they are instants.
    Times(Option<Tz>),
    /// Nanoseconds since midnight.
    TimesOfDay,
    Numbers,
}

/// The axis. Places on it are counted from its base, so that nanoseconds are kept.
#[derive(Debug, Clone)]
pub struct Axis {
    pub kind: AxisKind,
    pub base: i64,
    /// What stands at its end: a zone, or the name of a column.
    pub name: String,
}

/// Labels of an axis.
#[derive(Debug, Default, PartialEq)]
pub struct Labels {
    /// By column of the chart.
    pub upper: Vec<(usize, String)>,
    /// The same for what changes less often: the date, or the year.
    pub lower: Vec<(usize, String)>,
}

/// The distance between labels.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LabelStep {
    Nanoseconds(i64),
    Days(i64),
    Months(i64),
    Number(f64),
}

/// How a time is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TimeForm {
    Clock { with_seconds: bool, decimals: usize },
    Day,
    Month,
    Year,
}

impl Axis {
    /// Labels of a chart in whose columns points stand at the same distances. `bounds` are where its columns begin, and where the last ends.
    pub fn labels(&self, bounds: &[f64]) -> Labels {
        let (begins, ends) = (&bounds[..bounds.len() - 1], &bounds[1..]);
        let columns: Vec<(usize, f64, f64)> =
            begins.iter().zip(ends).enumerate().map(|(column, (begin, end))| (column, *begin, *end)).collect();
        self.fitting(&columns, columns.len(), true)
    }

    /// Labels of points by their columns, which may stand at any distance, such as over a night.
    pub fn labels_of_points(&self, points: &[(usize, f64)], width: usize) -> Labels {
        let before = std::iter::once(f64::NEG_INFINITY).chain(points.iter().map(|(_, x)| *x));
        let columns: Vec<(usize, f64, f64)> =
            points.iter().zip(before).map(|((column, x), before)| (*column, before, *x)).collect();
        self.fitting(&columns, width, false)
    }

    /// The labels of the smallest step for which there is room. A label stands in a column within which a round value lies, and is that value
    /// where `is_round`, else that of the column's end.
    fn fitting(&self, columns: &[(usize, f64, f64)], width: usize, is_round: bool) -> Labels {
        let Some(((_, _, low), (_, _, high))) = columns.first().zip(columns.last()) else { return Labels::default() };
        let mut best = Labels::default();
        for step in self.steps(*low, *high, width) {
            let begins = |(_, before, at): &&(usize, f64, f64)| self.bucket(step, *before) != self.bucket(step, *at);
            let at: Vec<(usize, f64)> = columns.iter().filter(begins).map(|(column, _, at)| (*column, *at)).collect();
            best = self.written(step, &at, columns, is_round);
            let widest = best.upper.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
            if best.upper.len() * (widest + BETWEEN) <= width {
                break;
            }
        }
        best
    }

    /// Steps that may do, the smallest first.
    #[expect(clippy::cast_precision_loss, reason = "a width in characters")]
    fn steps(&self, low: f64, high: f64, width: usize) -> Vec<LabelStep> {
        if matches!(self.kind, AxisKind::Numbers) {
            let least = round_step((high / 2.0 - low / 2.0) / width.max(1) as f64 * 2.0);
            let least = if least.is_finite() && least > 0.0 { least } else { 1.0 };
            return std::iter::successors(Some(least), |step| Some(round_step(step * 2.0)))
                .take(12)
                .map(LabelStep::Number)
                .collect();
        }
        let decimal = (0..9).flat_map(|power| [1, 2, 5].map(|times| times * 10_i64.pow(power)));
        let sixties = [1, 2, 5, 10, 15, 30];
        let clock = decimal
            .chain(sixties.map(|times| times * SECOND))
            .chain(sixties.map(|times| times * MINUTE))
            .chain([1, 2, 3, 6, 12].map(|times| times * HOUR));
        let years = [1, 2, 5, 10, 20, 50, 100, 200, 500].map(|times| LabelStep::Months(12 * times));
        let days = [1, 2, 7].map(LabelStep::Days).into_iter().chain([1, 3, 6].map(LabelStep::Months)).chain(years);
        let days = days.filter(|_| !matches!(self.kind, AxisKind::TimesOfDay));
        clock.map(LabelStep::Nanoseconds).chain(days).collect()
    }

    /// The nanoseconds of a place.
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    fn nanoseconds(&self, x: f64) -> i64 {
        self.base.saturating_add(x.floor() as i64)
    }

    /// What a clock on the wall shows at a place.
    fn clock(&self, x: f64) -> NaiveDateTime {
        let instant = DateTime::from_timestamp_nanos(self.nanoseconds(x));
        match self.kind {
            AxisKind::Times(Some(zone)) => zone.from_utc_datetime(&instant.naive_utc()).naive_local(),
            _ => instant.naive_utc(),
        }
    }

    /// The number of the stretch between two round values in which a place lies.
    fn bucket(&self, step: LabelStep, x: f64) -> i128 {
        if x == f64::NEG_INFINITY {
            return i128::MIN;
        }
        match step {
            LabelStep::Nanoseconds(length) => wall_nanoseconds(self.clock(x)).div_euclid(i128::from(length)),
            // Weeks begin on Monday, as day 1 of the calendar did.
            LabelStep::Days(count) => i128::from(i64::from(self.clock(x).num_days_from_ce() - 1).div_euclid(count)),
            LabelStep::Months(count) => i128::from(months(self.clock(x)).div_euclid(count)),
            LabelStep::Number(length) => number(x / length),
        }
    }

    fn written(&self, step: LabelStep, at: &[(usize, f64)], columns: &[(usize, f64, f64)], is_round: bool) -> Labels {
        if let LabelStep::Number(length) = step {
            let value = |x: f64| if is_round { (x / length).floor() * length } else { x };
            let upper = at.iter().map(|(column, x)| (*column, written(value(*x), length))).collect();
            return Labels { upper, lower: Vec::new() };
        }
        let clock = |x: f64| if is_round { floor(step, self.clock(x)) } else { self.clock(x) };
        let clocks: Vec<(usize, NaiveDateTime)> = at.iter().map(|(column, x)| (*column, clock(*x))).collect();
        let form = form_of(step, &clocks);
        let lower = match form {
            _ if matches!(self.kind, AxisKind::TimesOfDay) => None,
            TimeForm::Clock { .. } => Some("%Y-%m-%d"),
            TimeForm::Day => Some("%Y"),
            TimeForm::Month | TimeForm::Year => None,
        };
        let mut changes: Vec<(usize, String)> = Vec::new();
        if let Some(pattern) = lower {
            for (column, _, x) in columns {
                let label = self.clock(*x).format(pattern).to_string();
                if changes.last().is_none_or(|(_, last)| *last != label) {
                    changes.push((*column, label));
                }
            }
        }
        let upper = clocks.into_iter().map(|(column, clock)| (column, shown(clock, form))).collect();
        Labels { upper, lower: changes }
    }
}

fn wall_nanoseconds(clock: NaiveDateTime) -> i128 {
    let seconds = i128::from(clock.and_utc().timestamp());
    seconds * i128::from(SECOND) + i128::from(clock.nanosecond())
}

/// The round time on the wall below one.
#[expect(clippy::cast_possible_truncation, reason = "a part of a day, a year, a month")]
fn floor(step: LabelStep, clock: NaiveDateTime) -> NaiveDateTime {
    let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN);
    match step {
        LabelStep::Nanoseconds(length) => {
            clock - TimeDelta::nanoseconds(wall_nanoseconds(clock).rem_euclid(i128::from(length)) as i64)
        }
        LabelStep::Days(count) => {
            let above = (i64::from(clock.num_days_from_ce()) - 1).rem_euclid(count);
            midnight(clock.date() - TimeDelta::days(above))
        }
        LabelStep::Months(count) => {
            let months = months(clock).div_euclid(count) * count;
            let (year, month) = (months.div_euclid(12) as i32, months.rem_euclid(12) as u32 + 1);
            NaiveDate::from_ymd_opt(year, month, 1).map_or(clock, midnight)
        }
        LabelStep::Number(_) => clock,
    }
}

fn months(clock: NaiveDateTime) -> i64 {
    i64::from(clock.year()) * 12 + i64::from(clock.month0())
}

#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
fn number(x: f64) -> i128 {
    x.floor() as i128
}

/// The shortest form that distinguishes times at this distance.
fn form_of(step: LabelStep, clocks: &[(usize, NaiveDateTime)]) -> TimeForm {
    match step {
        LabelStep::Days(_) => TimeForm::Day,
        LabelStep::Months(count) if count < 12 => TimeForm::Month,
        LabelStep::Months(_) => TimeForm::Year,
        LabelStep::Nanoseconds(_) | LabelStep::Number(_) => {
            let divides = |unit: u32| clocks.iter().all(|(_, clock)| clock.nanosecond() % unit == 0);
            let decimals =
                [(1_000_000_000, 0), (1_000_000, 3), (1_000, 6)].into_iter().find(|(unit, _)| divides(*unit));
            let decimals = decimals.map_or(9, |(_, decimals)| decimals);
            let with_seconds = decimals > 0 || clocks.iter().any(|(_, clock)| clock.second() != 0);
            TimeForm::Clock { with_seconds, decimals }
        }
    }
}

fn shown(clock: NaiveDateTime, form: TimeForm) -> String {
    let pattern = match form {
        TimeForm::Clock { with_seconds: false, .. } => "%H:%M",
        TimeForm::Clock { decimals: 0, .. } => "%H:%M:%S",
        TimeForm::Clock { decimals: 3, .. } => "%H:%M:%S%.3f",
        TimeForm::Clock { decimals: 6, .. } => "%H:%M:%S%.6f",
        TimeForm::Clock { .. } => "%H:%M:%S%.9f",
        TimeForm::Day => "%m-%d",
        TimeForm::Month => "%Y-%m",
        TimeForm::Year => "%Y",
    };
    clock.format(pattern).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(begin: &str, zone: Option<&str>) -> Axis {
        let begin: DateTime<chrono::Utc> = begin.parse().unwrap();
        let kind = AxisKind::Times(zone.map(|zone| zone.parse().unwrap()));
        Axis { kind, base: begin.timestamp_nanos_opt().unwrap(), name: String::new() }
    }

    /// Labels of a chart of `width` columns over some seconds.
    fn over(axis: &Axis, seconds: f64, width: u32) -> (Vec<String>, Vec<String>) {
        let column = seconds * 1e9 / f64::from(width - 1);
        let bounds: Vec<f64> = (0..=width).map(|bound| (f64::from(bound) - 0.5) * column).collect();
        let labels = axis.labels(&bounds);
        let texts = |labels: Vec<(usize, String)>| labels.into_iter().map(|(_, label)| label).collect();
        (texts(labels.upper), texts(labels.lower))
    }

    #[test]
    fn labels_are_round_in_the_zone() {
        let day = axis("2019-10-07T13:30:00Z", Some("America/New_York"));
        let (upper, lower) = over(&day, 6.5 * 3600.0, 80);
        assert_eq!(upper, ["10:00", "11:00", "12:00", "13:00", "14:00", "15:00", "16:00"]);
        assert_eq!(lower, ["2019-10-07"]);
        // Half an hour beside the hours of Greenwich.
        let (upper, _) = over(&axis("2019-10-07T00:30:00Z", Some("Asia/Kolkata")), 3.0 * 3600.0, 30);
        assert_eq!(upper, ["06:00", "07:00", "08:00", "09:00"]);
    }

    #[test]
    fn steps_go_from_nanoseconds_to_centuries() {
        let begin = axis("2019-12-30T23:00:00Z", Some("UTC"));
        let first = |seconds: f64| {
            let (upper, lower) = over(&begin, seconds, 60);
            (upper[1].clone(), lower.last().cloned().unwrap_or_default())
        };
        assert_eq!(first(1e-8).0, "23:00:00.000000005");
        assert_eq!(first(0.001).0, "23:00:00.000500");
        assert_eq!(first(60.0), ("23:00:15".to_owned(), "2019-12-30".to_owned()));
        assert_eq!(first(86_400.0 * 2.0), ("06:00".to_owned(), "2020-01-01".to_owned()));
        assert_eq!(first(86_400.0 * 40.0), ("01-13".to_owned(), "2020".to_owned()));
        assert_eq!(first(86_400.0 * 900.0), ("2020-07".to_owned(), String::new()));
        assert_eq!(first(86_400.0 * 365.0 * 90.0), ("2030".to_owned(), String::new()));
    }

    #[test]
    fn points_at_any_distance_have_their_own_times() {
        let day = axis("2019-10-07T13:30:00Z", None);
        // Two days of three bars; the night takes no room.
        let points = [0.0, 60.0, 120.0, 86_400.0, 86_460.0, 86_520.0];
        let points: Vec<(usize, f64)> = points.iter().enumerate().map(|(place, x)| (place * 10, x * 1e9)).collect();
        let labels = day.labels_of_points(&points, 60);
        let texts: Vec<&str> = labels.upper.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(texts, ["13:30", "13:31", "13:32", "13:30", "13:31", "13:32"]);
        assert_eq!(labels.lower, [(0, "2019-10-07".to_owned()), (30, "2019-10-08".to_owned())]);
    }

    #[test]
    fn numbers_have_round_labels() {
        let axis = Axis { kind: AxisKind::Numbers, base: 0, name: String::new() };
        let bounds: Vec<f64> = (0..=50).map(|bound| 95.0 + (f64::from(bound) - 0.5) * 0.2).collect();
        let labels = axis.labels(&bounds);
        let texts: Vec<&str> = labels.upper.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(texts, ["95", "96", "97", "98", "99", "100", "101", "102", "103", "104"]);
        assert_eq!(labels.upper[1].0, 5);
    }
}
