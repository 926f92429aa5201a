//! `time_bucket` and `xbar` against plain loops, the laws of bucket starts, and the order they keep.

use std::sync::Arc;

use arrow::datatypes::IntervalMonthDayNano;
use chrono_tz::Tz;
use datafusion::logical_expr::col;

use super::{Random, SHAPES, Trade, context, context_with, random_trades, rows, table_of};
use crate::grid::{DAY_NS, DefaultOrigin, Grid};
use crate::zone::ZonedGrid;

const MINUTE_NS: i64 = 60_000_000_000;

#[test]
fn fixed_buckets_equal_exact_floor_division() {
    let mut random = Random(1);
    for _ in 0..20_000 {
        let width = 1 + (random.next() >> (1 + random.below(62))) as i64;
        let origin = random.next() as i64;
        let t = random.next() as i64;
        let grid = Grid::new(IntervalMonthDayNano::new(0, 0, width), Some(origin), DefaultOrigin::Epoch).unwrap();
        let (wide, o) = (i128::from(width), i128::from(origin));
        let start = (i128::from(t) - o).div_euclid(wide) * wide + o;
        match grid.bucket(t) {
            Some(bucket) => {
                assert_eq!(i128::from(bucket.start), start);
                assert_eq!(i128::from(bucket.end), (start + wide).min(i128::from(i64::MAX)));
            }
            // Only where the start or the distance to the origin does not fit.
            None => assert!(start < i128::from(i64::MIN) + wide, "width {width}, origin {origin}, t {t}"),
        }
    }
}

#[test]
fn month_buckets_tile_time() {
    let mut random = Random(2);
    for _ in 0..5_000 {
        let months = 1 + random.below(30) as i32;
        let t = random.next() as i64 / 2;
        let origin = random.next() as i64 / 8;
        let grid = Grid::new(IntervalMonthDayNano::new(months, 0, 0), Some(origin), DefaultOrigin::Epoch).unwrap();
        let bucket = grid.bucket(t).unwrap();
        assert!(bucket.start <= t && t < bucket.end, "{months} months, origin {origin}, t {t}");
        assert_eq!(grid.bucket(bucket.start), Some(bucket));
        assert_eq!(grid.bucket(bucket.end).unwrap().start, bucket.end);
    }
}

/// Starts do not exceed their times, are in their own bucket, never go back, and change where the bucket says it ends.
fn check_laws(grid: &ZonedGrid, times: impl Iterator<Item = i64>) {
    let mut before: Option<(i64, i64, i64)> = None;
    for t in times {
        let bucket = grid.bucket(t).unwrap();
        assert!(bucket.start <= t && t < bucket.end, "{grid:?}: {t} is outside of {bucket:?}");
        assert_eq!(grid.bucket(bucket.start).unwrap().start, bucket.start, "{grid:?}: start of {t} moves");
        if let Some((t_before, start, end)) = before {
            assert!(bucket.start >= start, "{grid:?}: the start goes back between {t_before} and {t}");
            assert_eq!(bucket.start == start, t < end, "{grid:?}: {t_before} and {t} disagree on the end {end}");
        }
        before = Some((t, bucket.start, bucket.end));
    }
}

#[test]
fn zoned_buckets_keep_their_laws_around_clock_changes() {
    let zones: [Tz; 7] = [
        chrono_tz::America::New_York,
        chrono_tz::Europe::London,
        chrono_tz::Australia::Lord_Howe,
        chrono_tz::America::Sao_Paulo,
        chrono_tz::America::Havana,
        chrono_tz::Asia::Kolkata,
        chrono_tz::Pacific::Apia,
    ];
    // 2013-03-10T07:00Z, 2013-03-31T01:00Z, 2013-04-06T15:00Z, 2013-10-20T03:00Z, 2013-11-03T05:00Z, 2011-12-30T10:00Z.
    let changes = [1_362_898_800, 1_364_691_600, 1_365_260_400, 1_382_238_000, 1_383_454_800, 1_325_239_200];
    let widths_minutes = [1, 15, 30, 45, 60, 90, 120, 150, 240, 420, 1440, 2 * 1440, 7 * 1440, 10 * 1440];
    for zone in zones {
        for width in widths_minutes {
            for offset in [0, 17, 60] {
                let origin = Some(i64::from(offset) * MINUTE_NS);
                let interval = IntervalMonthDayNano::new(0, 0, width * MINUTE_NS);
                let grid = Grid::new(interval, origin, DefaultOrigin::Epoch).unwrap();
                let zoned = ZonedGrid { grid, zone };
                for change in changes {
                    let around = (-36 * 12..36 * 12).map(|step| change * 1_000_000_000 + step * 5 * MINUTE_NS);
                    check_laws(&zoned, around);
                }
            }
        }
        for months in [1, 3, 12] {
            let grid = Grid::new(IntervalMonthDayNano::new(months, 0, 0), None, DefaultOrigin::Epoch).unwrap();
            check_laws(&ZonedGrid { grid, zone }, (0..800).map(|day| 15_000 * DAY_NS + day * DAY_NS + 7 * MINUTE_NS));
        }
    }
}

#[tokio::test]
async fn columns_agree_with_single_values_in_every_shape() {
    let trades = random_trades(4, 250);
    for shape in SHAPES {
        let context = context_with(&trades, shape);
        for place in ["", ", 'America/New_York'", ", TIMESTAMP '1970-01-01T00:00:20'"] {
            let sql =
                format!("SELECT row_number, time_bucket(INTERVAL '1 minute', ts{place}) FROM t ORDER BY row_number");
            let expected: Vec<String> = trades
                .iter()
                .zip(0..)
                .map(|(trade, row)| {
                    let origin = if place.contains("20") { 20_000_000_000 } else { 0 };
                    let start = (trade.ts - origin).div_euclid(MINUTE_NS) * MINUTE_NS + origin;
                    let start = chrono::DateTime::from_timestamp_nanos(start);
                    format!("{row} {}", start.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
                })
                .collect();
            assert_eq!(rows(&context, &sql).await.unwrap(), expected, "{place}, shape {shape:?}");
        }
    }
}

#[tokio::test]
async fn xbar_equals_a_plain_loop() {
    let context = context(4, 7);
    let mut random = Random(8);
    for _ in 0..200 {
        let (width, x) = (random.below(50) as i64, random.next() as i64 / 4);
        let expected = if width == 0 { x } else { x.div_euclid(width) * width };
        let whole = rows(&context, &format!("SELECT xbar({width}, {x})")).await.unwrap();
        assert_eq!(whole, [expected.to_string()]);
        // Cents: the level of a price is an exact matter of whole cents.
        let (step, cents) = (1 + random.below(99), random.below(1_000_000));
        let sql = format!("SELECT xbar({step} / 100.0, {cents} / 100.0) * 100");
        let level: f64 = rows(&context, &sql).await.unwrap()[0].parse().unwrap();
        assert!((level - (cents / step * step) as f64).abs() < 1e-6, "{sql} gave {level}");
    }
}

/// A table that is declared to be in the order of `keys`.
async fn plan_of(keys: &[&str], sql: &str) -> String {
    let context = context(1, 8192);
    let order = keys.iter().map(|key| col(*key).sort(true, false)).collect();
    let table = table_of(&random_trades(1, 100), 1, 8192).with_sort_order(vec![order]);
    context.register_table("t", Arc::new(table)).unwrap();
    rows(&context, &format!("EXPLAIN {sql}")).await.unwrap().join("\n")
}

#[tokio::test]
async fn a_group_by_bucket_over_ordered_rows_needs_no_sort() {
    for (keys, group) in [
        (&["ts"][..], "time_bucket(INTERVAL '1 minute', ts)"),
        (&["ts"][..], "time_bucket(INTERVAL '1 day', ts, 'America/New_York')"),
        (&["ts"][..], "xbar(INTERVAL '1 minute', ts)"),
        (&["sym", "ts"][..], "sym, time_bucket(INTERVAL '1 minute', ts)"),
    ] {
        let plan = plan_of(keys, &format!("SELECT {group}, count(*) FROM t GROUP BY {group} ORDER BY {group}")).await;
        assert!(plan.contains("ordering_mode=Sorted"), "{group}: {plan}");
        assert!(!plan.contains("SortExec"), "{group}: {plan}");
    }
}

#[tokio::test]
async fn a_width_from_a_column_claims_no_order() {
    let sql = "SELECT time_bucket(arrow_cast(size, 'Duration(Second)'), ts) AS b FROM t ORDER BY b";
    assert!(plan_of(&["ts"], sql).await.contains("SortExec"));
}

#[tokio::test]
async fn a_filter_on_buckets_becomes_a_range_of_times() {
    let sql = "SELECT count(*) FROM t WHERE time_bucket(INTERVAL '1 minute', ts) = TIMESTAMP '1970-01-01T00:01:00Z'";
    let plan = plan_of(&["ts"], sql).await;
    assert!(!plan.contains("time_bucket"), "{plan}");
    assert!(plan.contains("ts@") && plan.contains(">=") && plan.contains("< "), "{plan}");
}

#[tokio::test]
async fn null_and_empty_columns() {
    let trades = vec![Trade { sym: "A", ts: -1, price: None, size: None }];
    let context = context_with(&trades, (4, 7));
    let one = rows(&context, "SELECT time_bucket(INTERVAL '1 hour', ts), xbar(5.0, price), xbar(5, size) FROM t").await;
    assert_eq!(one.unwrap(), ["1969-12-31T23:00:00Z NULL NULL"]);
    let none =
        rows(&context, "SELECT time_bucket(INTERVAL '1 hour', ts), xbar(5, size) FROM t WHERE ts > 0::timestamp").await;
    assert_eq!(none.unwrap(), Vec::<String>::new());
}

/// Where buckets are said to be made of others, the bucket of a time is that of the start of its bucket there.
#[test]
fn buckets_that_are_made_of_others_hold_whole_ones() {
    use crate::time_bucket::Timeline;
    let zones = [
        chrono_tz::America::New_York,
        chrono_tz::Australia::Lord_Howe,
        chrono_tz::America::Havana,
        chrono_tz::Asia::Kolkata,
    ];
    let changes = [1_362_898_800, 1_364_691_600, 1_365_260_400, 1_382_238_000, 1_383_454_800];
    let intervals = [
        (0, 0, 1),
        (0, 0, 20),
        (0, 0, 60),
        (0, 0, 300),
        (0, 0, 420),
        (0, 0, 1800),
        (0, 0, 3600),
        (0, 0, 5400),
        (0, 1, 0),
        (0, 7, 0),
        (1, 0, 0),
        (3, 0, 0),
    ];
    let grids: Vec<Grid> = intervals
        .iter()
        .map(|(months, days, seconds)| {
            let interval = IntervalMonthDayNano::new(*months, *days, seconds * 1_000_000_000);
            Grid::new(interval, None, DefaultOrigin::Epoch).unwrap()
        })
        .collect();
    let mut timelines: Vec<Timeline> = grids.iter().map(|grid| Timeline::Even(*grid)).collect();
    for zone in zones {
        timelines.extend(grids.iter().map(|grid| Timeline::Zoned(ZonedGrid { grid: *grid, zone })));
    }
    let mut made = 0;
    for coarse in &timelines {
        for fine in timelines.iter().filter(|fine| coarse.is_made_of(fine, 0)) {
            made += 1;
            for change in changes {
                for step in -300..300 {
                    let t = change * 1_000_000_000 + step * 7 * MINUTE_NS + 13;
                    let start = fine.bucket(t).unwrap().start;
                    assert_eq!(coarse.bucket(t), coarse.bucket(start), "{coarse:?} of {fine:?} at {t}");
                }
            }
        }
    }
    assert!(made > 200, "{made}");
}
