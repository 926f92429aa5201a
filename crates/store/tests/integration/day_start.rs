//! Tables whose dates begin on the evening before: rows are found by date and by time around clock changes, in whatever order they came.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampNanosecondType};
use chrono::{DateTime, NaiveDate, TimeDelta, Timelike};
use chrono_tz::Tz;
use rand::seq::SliceRandom;
use splay_store::{Bounds, ColumnSpec, ColumnType, Database, LoadOptions, Removal, Selection, TableSpec, days};

use crate::model::{go_on, rng};

const MINUTE: i64 = 60_000_000_000;

fn spec() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("n", ColumnType::Int64),
    ];
    TableSpec::new("es", columns, "time", Some("sym"))
        .with_time_zone("America/Chicago")
        .with_day_start("17:00".parse().unwrap())
}

/// Nanoseconds of an instant.
fn ns(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt().unwrap()
}

/// The trading date by the wall clock alone.
fn trading_date(time: i64) -> NaiveDate {
    let local = DateTime::from_timestamp_nanos(time).with_timezone(&Tz::America__Chicago);
    local.date_naive() + TimeDelta::days(i64::from(local.hour() >= 17))
}

fn load(database: &Database, times: &[i64]) {
    let spec = spec();
    let batch = arrow::array::RecordBatch::try_new(
        spec.arrow(),
        vec![
            std::sync::Arc::new(arrow::array::TimestampNanosecondArray::from(times.to_vec()).with_timezone("UTC")),
            arrow::compute::cast(
                &arrow::array::StringArray::from_iter_values(
                    times.iter().map(|time| format!("S{}", time / MINUTE % 3)),
                ),
                &ColumnType::Symbol.arrow(),
            )
            .unwrap(),
            std::sync::Arc::new(arrow::array::Int64Array::from(times.to_vec())),
        ],
    );
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&batch.unwrap()).unwrap();
    load.commit().unwrap();
}

/// The times of the rows that a selection keeps and that are within its bounds, in order.
fn read(database: &Database, selection: &Selection) -> Vec<i64> {
    let snapshot = database.table("es").unwrap().snapshot().unwrap();
    let rows = crate::model::read_snapshot(&snapshot, selection).unwrap();
    let times = rows.column(0).as_primitive::<TimestampNanosecondType>();
    assert_eq!(times.values(), rows.column(2).as_primitive::<Int64Type>().values());
    let mut times: Vec<i64> = times.values().iter().copied().filter(|time| selection.time.contains(*time)).collect();
    times.sort_unstable();
    times
}

/// Rows of a week around a clock change, and those at, right before and right after each boundary.
fn times_of(week: &str) -> Vec<i64> {
    let start = ns(week);
    let mut times: Vec<i64> = (0..8 * 24 * 12).map(|step| start + step * 5 * MINUTE).collect();
    for day in 0..8 {
        let boundary = start + day * 24 * 60 * MINUTE;
        times.extend([22, 23].iter().flat_map(|hour| {
            let boundary = boundary + hour * 60 * MINUTE;
            [boundary - 1, boundary + 1]
        }));
    }
    times
}

#[test]
fn rows_are_in_the_trading_date_that_the_clock_says() {
    for (seed, week) in [(1, "2024-03-07T00:00:00Z"), (2, "2024-10-31T00:00:00Z"), (3, "2024-07-01T00:00:00Z")] {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::create(folder.path()).unwrap();
        let mut times = times_of(week);
        times.shuffle(&mut rng(seed));
        // Late rows come into dates that have segments already.
        for part in times.chunks(times.len() / 3 + 1) {
            load(&database, part);
        }
        times.sort_unstable();
        let mut expected: BTreeMap<NaiveDate, Vec<i64>> = BTreeMap::new();
        for time in &times {
            expected.entry(trading_date(*time)).or_default().push(*time);
        }
        let snapshot = database.table("es").unwrap().snapshot().unwrap();
        let dates: Vec<i32> = snapshot.partitions().iter().map(|partition| partition.date).collect();
        assert_eq!(dates, expected.keys().map(|date| days(*date)).collect::<Vec<_>>(), "{week}");
        for (date, rows) in &expected {
            let one = Bounds { min: days(*date), max: days(*date) };
            let selection = Selection { date: one, ..Selection::default() };
            assert_eq!(&read(&database, &selection), rows, "{date}");
        }
        for window in times.chunks(97) {
            let time = Bounds { min: window[0], max: window[window.len() - 1] };
            assert_eq!(read(&database, &Selection { time, ..Selection::default() }), window);
        }
        assert!(database.table("es").unwrap().verify(&mut go_on).unwrap().is_empty());
    }
}

#[test]
fn a_trading_date_is_removed_with_its_evening() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let times = times_of("2024-03-07T00:00:00Z");
    load(&database, &times);
    let date = NaiveDate::from_ymd_opt(2024, 3, 11).unwrap();
    let one = Bounds { min: days(date), max: days(date) };
    // With a bound of time, rows are looked at one by one.
    let time = Bounds { min: ns("2024-03-10T22:30:00Z"), max: i64::MAX };
    let removal = Removal::of(&spec(), Selection { date: one, time, ..Selection::default() }).unwrap();
    database.table("es").unwrap().delete(removal).unwrap();
    let mut remaining: Vec<i64> = times.into_iter().filter(|at| trading_date(*at) != date || *at < time.min).collect();
    remaining.sort_unstable();
    assert_eq!(read(&database, &Selection::default()), remaining);
}

#[test]
fn a_table_keeps_the_start_of_its_days() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    load(&database, &[ns("2024-03-07T00:00:00Z")]);
    for other in [spec().with_day_start("16:00".parse().unwrap()), spec().with_day_start("00:00".parse().unwrap())] {
        let refused = database.load(&other, LoadOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("America/Chicago from 17:00 of the day before, not in America/Chicago"), "{refused}");
    }
    let again = Database::open(folder.path()).unwrap();
    let stored = again.table("es").unwrap().stored().unwrap();
    assert_eq!(stored.spec().dates_in(), "America/Chicago from 17:00 of the day before");
}
