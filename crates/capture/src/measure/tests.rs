//! Rows with known faults are found to have just those.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, FixedSizeListBuilder, Float64Array, Float64Builder, Int64Array, RecordBatch,
    TimestampNanosecondArray, UInt32Array,
};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;
use splay_store::{ColumnSpec, ColumnType, TableSpec};

use super::quality::{NAMED_MAX, SERIES_MAX};
use super::*;

/// Rows of symbol, venue, number, bid, ask; at one time.
type Row<'a> = (&'a str, &'a str, Option<i64>, Option<f64>, Option<f64>);

fn spec(columns: &[(&str, ColumnType)]) -> Arc<TableSpec> {
    let columns = columns.iter().map(|(name, kind)| ColumnSpec::new(*name, kind.clone())).collect();
    Arc::new(TableSpec::new("book", columns, "ts_event", Some("symbol")))
}

fn book() -> Arc<TableSpec> {
    spec(&[
        ("ts_event", ColumnType::Timestamp),
        ("symbol", ColumnType::Symbol),
        ("venue", ColumnType::Symbol),
        ("sequence", ColumnType::Int64),
        ("bid_price", ColumnType::Float64),
        ("ask_price", ColumnType::Float64),
    ])
}

fn batch(spec: &TableSpec, rows: &[Row<'_>]) -> RecordBatch {
    let times = TimestampNanosecondArray::from_iter_values(rows.iter().map(|_| 1_000_000)).with_timezone("UTC");
    let texts = |of: fn(&Row<'_>) -> String| rows.iter().map(of).collect::<Vec<_>>();
    let dictionary = |texts: Vec<String>| {
        let texts = texts.iter().map(|text| (!text.is_empty()).then_some(text.as_str()));
        texts.collect::<DictionaryArray<Int32Type>>()
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(times),
        Arc::new(dictionary(texts(|row| row.0.to_owned()))),
        Arc::new(dictionary(texts(|row| row.1.to_owned()))),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.3).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.4).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(spec.arrow(), columns).unwrap()
}

fn numbered<'a>(symbol: &'a str, venue: &'a str, number: i64) -> Row<'a> {
    (symbol, venue, Some(number), None, None)
}

fn meter() -> Arc<Meter> {
    Meters::default().of("book")
}

fn looked(rows: &[Row<'_>]) -> Quality {
    let (meter, spec) = (meter(), book());
    for row in rows.chunks(3) {
        meter.look(&spec, &batch(&spec, row), 2_000_000);
    }
    meter.quality()
}

#[test]
fn gaps_duplicates_and_disorder_are_counted_for_each_symbol_and_venue() {
    let quality = looked(&[
        numbered("A", "X", 1),
        numbered("A", "Y", 100),
        numbered("A", "X", 2),
        numbered("A", "X", 5),
        numbered("A", "Y", 101),
        numbered("A", "X", 5),
        numbered("A", "X", 4),
        numbered("A", "X", 6),
        numbered("", "Y", 7),
        numbered("A", "Y", 103),
        ("A", "X", None, None, None),
        numbered("A", "X", 7),
    ]);
    let of_x = Defects { gaps: 1, missing: 2, duplicates: 1, out_of_order: 1, crossed: 0 };
    let of_y = Defects { gaps: 1, missing: 1, ..Defects::default() };
    assert_eq!((quality.rows, quality.series, quality.unwatched_rows), (12, 3, 0));
    let series = |venue: &str, defects| SeriesQuality { symbol: "A".into(), venue: venue.into(), defects };
    assert_eq!(quality.worst, [series("X", of_x), series("Y", of_y)]);
    assert_eq!(quality.named, quality.worst);
    assert_eq!(quality.defects, Defects { gaps: 2, missing: 3, ..of_x });
}

#[test]
fn a_feed_that_begins_anew_is_followed_after_a_few_rows() {
    let mut rows: Vec<Row<'_>> = (1_000..1_010).map(|number| numbered("A", "X", number)).collect();
    rows.extend((1..=20).map(|number| numbered("A", "X", number)));
    rows.push(numbered("A", "X", 22));
    let defects = looked(&rows).defects;
    assert_eq!(defects, Defects { out_of_order: 16, gaps: 1, missing: 1, ..Defects::default() });
}

#[test]
fn books_are_crossed_if_the_bid_is_above_the_ask() {
    let prices = |bid, ask| ("A", "X", None, bid, ask);
    let nan = Some(f64::NAN);
    let quality = looked(&[
        prices(Some(1.0), Some(2.0)),
        prices(Some(2.0), Some(2.0)),
        prices(Some(3.0), Some(2.0)),
        prices(None, Some(2.0)),
        prices(Some(3.0), None),
        prices(nan, Some(2.0)),
    ]);
    assert_eq!(quality.defects, Defects { crossed: 1, ..Defects::default() });
}

#[test]
fn the_first_of_levels_is_the_best() {
    let levels = |rows: &[Option<[Option<f64>; 2]>]| -> ArrayRef {
        let mut list = FixedSizeListBuilder::new(Float64Builder::new(), 2);
        for row in rows {
            list.values().append_option(row.and_then(|row| row[0]));
            list.values().append_option(row.and_then(|row| row[1]));
            list.append(row.is_some());
        }
        Arc::new(list.finish())
    };
    let spec = spec(&[
        ("ts_event", ColumnType::Timestamp),
        ("symbol", ColumnType::Symbol),
        ("seq", ColumnType::UInt32),
        ("bid", ColumnType::Levels { size: 2 }),
        ("offer", ColumnType::Levels { size: 2 }),
    ]);
    let columns = vec![
        Arc::new(TimestampNanosecondArray::from(vec![1; 4]).with_timezone("UTC")) as ArrayRef,
        Arc::new(vec!["A"; 4].into_iter().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(UInt32Array::from(vec![1, 2, 4, 5])),
        levels(&[Some([Some(2.0), Some(1.0)]), Some([Some(4.0), Some(3.0)]), Some([None, Some(9.0)]), None]),
        levels(&[
            Some([Some(3.0), Some(4.0)]),
            Some([Some(3.0), Some(5.0)]),
            Some([Some(3.0), None]),
            Some([Some(1.0), None]),
        ]),
    ];
    let schema = spec.arrow();
    let columns = columns
        .into_iter()
        .zip(schema.fields())
        .map(|(column, field)| arrow::compute::cast(&column, field.data_type()).unwrap());
    let rows = RecordBatch::try_new(schema.clone(), columns.collect()).unwrap();
    let meter = meter();
    meter.look(&spec, &rows.slice(0, 1), 1);
    meter.look(&spec, &rows.slice(1, 3), 1);
    assert_eq!(meter.quality().defects, Defects { crossed: 1, gaps: 1, missing: 1, ..Defects::default() });
}

#[test]
fn without_numbers_times_tell_the_order() {
    let spec = spec(&[("ts_event", ColumnType::Timestamp), ("symbol", ColumnType::Symbol)]);
    let times = TimestampNanosecondArray::from(vec![5, 1, 6, 2, 7, 1]).with_timezone("UTC");
    let symbols: DictionaryArray<Int32Type> = ["A", "B", "A", "B", "A", "B"].into_iter().collect();
    let rows = RecordBatch::try_new(spec.arrow(), vec![Arc::new(times), Arc::new(symbols)]).unwrap();
    let meter = meter();
    meter.look(&spec, &rows, 10_000_006);
    assert_eq!(meter.quality().defects, Defects { out_of_order: 1, ..Defects::default() });
    assert_eq!(meter.quality().late_rows, 1);
    let received = meter.latencies().received;
    assert_eq!((received.rows(), received.counts[10]), (6, 6), "10 ms are in the bucket up to 10.24 ms");
}

#[test]
fn late_rows_are_counted_also_where_numbers_tell_the_order_and_rows_of_ended_dates_by_the_zone() {
    let of = |zone: &str| {
        let columns = [("time", ColumnType::Timestamp), ("seq", ColumnType::Int64)];
        let columns = columns.iter().map(|(name, kind)| ColumnSpec::new(*name, kind.clone())).collect();
        Arc::new(TableSpec::new("book", columns, "time", None).with_time_zone(zone))
    };
    let hour = 3_600_000_000_000;
    let look = |spec: &Arc<TableSpec>, hours: &[i64], now: i64| {
        let times = TimestampNanosecondArray::from_iter_values(hours.iter().map(|at| at * hour)).with_timezone("UTC");
        let numbers = Int64Array::from_iter_values(1..=hours.len() as i64);
        let rows = RecordBatch::try_new(spec.arrow(), vec![Arc::new(times), Arc::new(numbers)]).unwrap();
        let meter = meter();
        meter.look(spec, &rows, now);
        let quality = meter.quality();
        assert_eq!((quality.defects, quality.rows), (Defects::default(), hours.len() as u64));
        (quality.late_rows, quality.late_day_rows)
    };
    let (utc, new_york) = (of("UTC"), of("America/New_York"));
    assert_eq!(look(&utc, &[30, 23, 24, 31, -1, 31], 31 * hour), (3, 2));
    assert_eq!(look(&utc, &[23], 24 * hour - 1), (0, 0));
    assert_eq!(look(&utc, &[23], 24 * hour), (0, 1));
    assert_eq!(look(&new_york, &[23], 29 * hour - 1), (0, 0), "five hours behind");
    assert_eq!(look(&new_york, &[28, 29], 29 * hour), (0, 1));
    assert_eq!(look(&utc, &[], 29 * hour), (0, 0));
}

#[test]
fn settings_name_columns_or_turn_them_off() {
    let only = |text: &str| {
        let settings: crate::CaptureSettings = toml::from_str(text).unwrap();
        let (meter, spec) =
            (Meters::new(&settings.quality, crate::calendar::TableCalendars::default()).of("Book"), book());
        let row = |symbol, number| (symbol, "X", Some(number), Some(2.0), Some(1.0));
        meter.look(&spec, &batch(&spec, &[row("A", 1), row("B", 3), row("A", 9)]), 1);
        (meter.quality().defects, meter.quality().series)
    };
    let all = Defects { gaps: 1, missing: 7, crossed: 3, ..Defects::default() };
    assert_eq!(only(""), (all, 2));
    assert_eq!(only("[quality.other]\nsequence = \"\""), (all, 2));
    assert_eq!(only("[quality.book]\nsequence = \"\""), (Defects { crossed: 3, ..Defects::default() }, 2));
    assert_eq!(only("[quality.BOOK]\nbid = \"bid_price\"\nask = \"\""), (Defects { crossed: 0, ..all }, 2));
    let by_venue = Defects { gaps: 2, missing: 6, crossed: 3, ..Defects::default() };
    assert_eq!(only("[quality.book]\nsymbol = \"\""), (by_venue, 1));
    // A column that can't be it is logged and passed over.
    assert_eq!(only("[quality.book]\nsequence = \"venue\"").0.gaps, 0);
    assert!(toml::from_str::<crate::CaptureSettings>("[quality.book]\nsequences = \"\"").is_err());
}

#[test]
fn memory_is_bounded_however_many_symbols_come() {
    let names: Vec<String> = (0..SERIES_MAX + 1_000).map(|name| format!("S{name}")).collect();
    let rows = |number: i64| -> Vec<Row<'_>> { names.iter().map(|name| numbered(name, "X", number)).collect() };
    let (meters, spec) = (Meters::default(), book());
    let (one, other) = (meters.of("one"), meters.of("other"));
    one.look(&spec, &batch(&spec, &rows(1)), 1);
    let quality = one.quality();
    assert_eq!((quality.series, quality.unwatched_rows), (SERIES_MAX as u64, 1_000));
    // Only who has series can give room, and does so before its next batch.
    other.look(&spec, &batch(&spec, &rows(1)[..10]), 1);
    assert_eq!((other.quality().series, other.quality().unwatched_rows), (0, 10));
    one.look(&spec, &batch(&spec, &rows(3)[SERIES_MAX - 5..]), 1);
    assert!(one.quality().series <= SERIES_MAX as u64);
    other.look(&spec, &batch(&spec, &rows(1)[..10]), 1);
    assert_eq!(other.quality().series, 10, "the other table gave room");
    let long = "x".repeat(300);
    other.look(
        &spec,
        &batch(&spec, &[numbered(&long, "X", 1), (long.as_str(), "X", Some(5), Some(2.0), Some(1.0))]),
        1,
    );
    assert_eq!(other.quality().defects, Defects { crossed: 1, ..Defects::default() });
    drop(one);
}

#[test]
fn the_first_offenders_have_names_and_the_others_are_in_the_total() {
    let names: Vec<String> = (0..NAMED_MAX + 50).map(|name| format!("S{name:04}")).collect();
    let (meter, spec) = (meter(), book());
    for number in [1, 3, 5] {
        let rows: Vec<Row<'_>> = names.iter().map(|name| numbered(name, "X", number)).collect();
        meter.look(&spec, &batch(&spec, &rows), 1);
    }
    let quality = meter.quality();
    assert_eq!((quality.defects.gaps, quality.named.len(), quality.worst.len()), (300, NAMED_MAX, 10));
    assert_eq!(quality.named[99].symbol, "S0099");
    assert!(quality.named.iter().all(|series| series.defects.gaps == 2));
}

/// What the rows of one series say, by the plainest means.
fn plain(rows: &[(usize, i64)]) -> HashMap<usize, Defects> {
    let (mut last, mut by_series) = (HashMap::<usize, (i64, u32)>::new(), HashMap::<usize, Defects>::new());
    for (series, number) in rows {
        let defects = by_series.entry(*series).or_default();
        let Some((greatest, lower)) = last.get_mut(series) else {
            last.insert(*series, (*number, 0));
            continue;
        };
        match number - *greatest {
            0 => defects.duplicates += 1,
            1 => (*greatest, *lower) = (*number, 0),
            step if step > 1 => {
                defects.gaps += 1;
                defects.missing += (step - 1) as u64;
                (*greatest, *lower) = (*number, 0);
            }
            _ => {
                defects.out_of_order += 1;
                *lower += 1;
                if *lower == 16 {
                    (*greatest, *lower) = (*number, 0);
                }
            }
        }
    }
    by_series
}

proptest! {
    #[test]
    fn any_rows_in_any_batches_are_found_to_have_the_faults_they_have(
        rows in prop::collection::vec((0usize..4, 0i64..40), 1..300),
        size in 1usize..50,
    ) {
        const SERIES: [(&str, &str); 4] = [("A", "X"), ("A", "Y"), ("B", ""), ("", "X")];
        let (meter, spec) = (meter(), book());
        for part in rows.chunks(size) {
            let part: Vec<Row<'_>> = part.iter().map(|(of, number)| numbered(SERIES[*of].0, SERIES[*of].1, *number)).collect();
            meter.look(&spec, &batch(&spec, &part), 1);
        }
        let expected: HashMap<(String, String), Defects> = plain(&rows)
            .into_iter()
            .filter(|(_, defects)| defects.total() > 0)
            .map(|(of, defects)| ((SERIES[of].0.to_owned(), SERIES[of].1.to_owned()), defects))
            .collect();
        let measured = meter.quality().named.into_iter().map(|series| ((series.symbol, series.venue), series.defects)).collect();
        prop_assert_eq!(expected, measured);
    }
}
