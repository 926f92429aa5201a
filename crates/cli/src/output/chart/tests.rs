//! Whole charts.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray, Time64NanosecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::datatypes::Schema;

use super::*;

const PLAIN: CharacterStyle = CharacterStyle { is_ascii: false, has_colors: false };

/// 2019-10-07 09:30 in New York.
const OPEN_SECONDS: i64 = 1_570_455_000;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn drawn_of(batches: &[RecordBatch], size: (usize, usize), look: CharacterStyle) -> String {
    let schema = batches[0].schema();
    let drawing = Drawing::of(&schema).unwrap();
    let frame = ChartOptions { size, look, bars_max: 40 };
    draw(&drawing, &schema, batches.iter().cloned().map(Ok), frame).unwrap()
}

fn drawn(columns: Vec<(&str, ArrayRef)>) -> String {
    drawn_of(&[batch(columns)], (40, 11), PLAIN)
}

fn minutes(count: i64, zone: &str) -> ArrayRef {
    let instants = (0..count).map(|minute| OPEN_SECONDS + 60 * minute);
    Arc::new(TimestampSecondArray::from_iter_values(instants).with_timezone(zone))
}

fn floats_of(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn texts_of(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// Candles of some minutes, up and down.
fn bars(count: i64) -> Vec<(&'static str, ArrayRef)> {
    let open: Vec<f64> = (0..count).map(|minute| 100.0 + f64::from(i32::try_from(minute * 7 % 11).unwrap())).collect();
    let close: Vec<f64> = (0..count).map(|minute| 100.0 + f64::from(i32::try_from(minute * 5 % 11).unwrap())).collect();
    let ends = |pick: fn(f64, f64) -> f64, room: f64| -> Vec<f64> {
        open.iter().zip(&close).map(|(open, close)| pick(*open, *close) + room).collect()
    };
    vec![
        ("bar", minutes(count, "America/New_York")),
        ("open", floats_of(&open)),
        ("high", floats_of(&ends(f64::max, 1.0))),
        ("low", floats_of(&ends(f64::min, -1.0))),
        ("close", floats_of(&close)),
    ]
}

#[test]
fn candles_have_axes_labels_and_notes() {
    let mut columns = bars(12);
    columns.push(("volume", Arc::new(Int64Array::from_iter_values(0..12))));
    let lines = [
        "     █ up  ▒ down",
        "110 ┤     ▄  ▒  ╷     ╷",
        "    │  ╷  █  ▒  █     ▒     ╷  ▒",
        "105 ┤  ▒  █  ▒  █     ╵  ▒  █  ▒  ▄",
        "    │  ╵  █  ▒     ▄     ▒  █  ▒  ▀",
        "    │╷    ╵        ▀     ▒  █  ▒     ╷",
        "100 ┤▀                      ╵  ╵     ▀",
        "    └┬─────────────┬──────────────┬─────",
        "   09:30         09:35          09:40",
        "     2019-10-07         America/New_York",
        "12 rows, volume not drawn",
    ];
    assert_eq!(drawn(columns).lines().collect::<Vec<_>>(), lines);
}

#[test]
fn candles_of_many_rows_are_few() {
    let text = drawn(bars(1_000));
    assert!(text.ends_with("1,000 rows, 29 to a candle\n"), "{text}");
}

#[test]
fn candles_of_one_symbol_are_named_and_those_of_several_refused() {
    let mut columns = bars(2);
    columns.push(("sym", texts_of(&[Some("AAPL"), Some("AAPL")])));
    assert!(drawn(columns.clone()).lines().next().unwrap().contains("AAPL"));
    columns.pop();
    columns.push(("sym", texts_of(&[Some("AAPL"), Some("IBM")])));
    assert_eq!(
        drawn(columns),
        "2 rows: candles of more than one sym are not drawn in one chart; ask for one, such as AAPL\n"
    );
}

#[test]
fn lines_have_gaps_where_values_are_missing() {
    let values = [1.0, 2.0, f64::NAN, 4.0, 3.0, 2.5, 2.0, f64::INFINITY, 1.0, 1.5];
    let prices =
        Arc::new(values.iter().enumerate().map(|(row, value)| (row != 4).then_some(*value)).collect::<Float64Array>());
    let lines = [
        "   ─ price",
        "4 ┤            ⠁",
        "  │",
        "  │                    ⢀",
        "2 ┤    ⡀                ⠉⠒⠤⣀",
        "  │  ⡠⠊                                ⣀",
        "  │⡠⠊                              ⢀⠤⠒⠉",
        "  └┬───────┬───────┬───────┬───────┬────",
        " 13:30   13:32   13:34   13:36   13:38",
        "   2019-10-07                        UTC",
        "10 rows, 1 infinite value not drawn",
    ];
    let text = drawn(vec![("time", minutes(10, "UTC")), ("price", prices)]);
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn a_text_tells_lines_apart_and_further_ones_are_counted() {
    let symbols = ["A", "B", "C", "D", "E", "F", "G", "H"].map(Some);
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let text = drawn(vec![("time", minutes(8, "UTC")), ("sym", texts_of(&symbols)), ("p", floats_of(&values))]);
    assert!(text.ends_with("8 rows, 2 further lines not drawn\n"), "{text}");
    let two = [Some("A"), None, Some("A"), None];
    let columns = vec![
        ("time", minutes(4, "UTC")),
        ("sym", texts_of(&two)),
        ("bid", floats_of(&[1.0, 5.0, 2.0, 6.0])),
        ("ask", floats_of(&[2.0, 6.0, 3.0, 7.0])),
    ];
    let legend = drawn_of(&[batch(columns.clone())], (60, 12), PLAIN).lines().next().unwrap().trim().to_owned();
    assert_eq!(legend, "* A bid  + A ask  o null bid  x null ask");
    let colored = drawn_of(&[batch(columns)], (60, 12), CharacterStyle { is_ascii: false, has_colors: true });
    assert!(colored.contains("\x1b[36m─ A bid") && colored.contains("\x1b[35m─ null ask"), "{colored:?}");
}

#[test]
fn numbers_alone_go_along_the_first_or_along_the_rows() {
    let strikes = Decimal128Array::from(vec![9_500, 10_000, 10_500]).with_precision_and_scale(9, 2).unwrap();
    let smile = drawn(vec![("strike", Arc::new(strikes)), ("iv", floats_of(&[0.25, 0.2, 0.22]))]);
    assert!(smile.contains("─ iv") && smile.contains("100") && smile.contains("strike"), "{smile}");
    let rows = drawn(vec![("n", Arc::new(Int64Array::from(vec![3, 1, 2])))]);
    assert!(rows.contains("─ n") && rows.contains("row\n"), "{rows}");
}

#[test]
fn one_row_none_and_nothing_to_draw_are_all_told() {
    let one = drawn(vec![("time", minutes(1, "UTC")), ("price", floats_of(&[5.0]))]);
    assert!(one.contains("13:30") && one.contains("1 row\n"), "{one}");
    assert_eq!(one.chars().filter(|sign| ('\u{2801}'..='\u{28ff}').contains(sign)).count(), 1, "{one}");
    let none = batch(vec![("time", minutes(0, "UTC")), ("price", floats_of(&[]))]);
    assert_eq!(drawn_of(&[none], (40, 10), PLAIN), "0 rows: there is nothing to draw\n");
    let nulls: ArrayRef = Arc::new(Float64Array::from(vec![None, None]));
    assert_eq!(drawn(vec![("time", minutes(2, "UTC")), ("price", nulls)]), "2 rows: there is nothing to draw\n");
    let infinite = drawn(vec![("time", minutes(2, "UTC")), ("price", floats_of(&[f64::INFINITY, f64::NEG_INFINITY]))]);
    assert_eq!(infinite, "2 rows, 2 infinite values not drawn: there is nothing to draw\n");
    let timeless = Arc::new(TimestampNanosecondArray::from(vec![None, Some(0)]));
    let text = drawn(vec![("time", timeless), ("price", floats_of(&[5.0, 5.0]))]);
    assert!(text.ends_with("2 rows, 1 without a time not drawn\n"), "{text}");
    let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
    assert_eq!(Drawing::of(&empty.schema()), None);
}

#[test]
fn all_kinds_of_times_make_an_axis() {
    let price = || ("price", floats_of(&[1.0, 2.0, 3.0]));
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![18_000, 18_010, 18_020]));
    let text = drawn(vec![("day", dates), price()]);
    assert!(text.contains("04-22") && text.contains("2019"), "{text}");
    let hour = 3_600_000_000_000;
    let times: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![8 * hour, 9 * hour, 10 * hour]));
    let text = drawn(vec![("at", times), price()]);
    assert!(text.contains("09:00") && !text.contains("1970"), "{text}");
    // The farthest that nanoseconds reach.
    let ends: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![i64::MIN, 0, i64::MAX]));
    let text = drawn(vec![("time", ends), price()]);
    assert!(text.contains("2000") || text.contains("not drawn"), "{text}");
    // Seconds that nanoseconds don't reach have no place.
    let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX, 0, 60]));
    assert!(drawn(vec![("time", far), price()]).ends_with("3 rows, 1 without a time not drawn\n"));
}

#[test]
fn rows_of_several_batches_in_any_order_are_one_line() {
    let columns = |rows: std::ops::Range<i64>| {
        let times = rows.clone().map(|row| (OPEN_SECONDS + row * 60) * 1_000_000_000);
        let prices: Vec<f64> = rows.map(|row| f64::from(i32::try_from(row).unwrap())).collect();
        batch(vec![
            ("time", Arc::new(TimestampNanosecondArray::from_iter_values(times))),
            ("price", floats_of(&prices)),
        ])
    };
    let whole = drawn_of(&[columns(0..100)], (40, 10), PLAIN);
    assert_eq!(drawn_of(&[columns(50..100), columns(0..50)], (40, 10), PLAIN), whole);
}

#[test]
fn bars_are_lists_by_text() {
    let columns = vec![
        ("sym", texts_of(&[Some("AAPL"), Some("IBM"), None])),
        ("trades", Arc::new(Int64Array::from(vec![Some(200), Some(50), None])) as ArrayRef),
        ("yes", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ("vwap", floats_of(&[170.25, 134.5, 1.0])),
    ];
    let lines = [
        "trades",
        "AAPL │██████████████████████████████ 200",
        "IBM  │███████▌ 50",
        "     │",
        "vwap",
        "AAPL │███████████████████████████ 170.25",
        "IBM  │█████████████████████▍ 134.5",
        "     │▏ 1.0",
        "3 rows",
    ];
    assert_eq!(drawn(columns).lines().collect::<Vec<_>>(), lines);
    let keys: Vec<Option<&str>> = vec![Some("x"); 50];
    let many = drawn(vec![("key", texts_of(&keys)), ("n", Arc::new(Int64Array::from_iter_values(0..50)))]);
    assert!(many.ends_with("50 rows, 10 not drawn (--rows 0 draws all)\n"), "{many}");
}

#[test]
fn a_chart_keeps_to_its_size_in_any_terminal() {
    for size in [(0, 0), (1, 3), (20, 8), (33, 9), (300, 90)] {
        for columns in [bars(1), bars(2), bars(70), bars(700)] {
            let of_lines =
                vec![columns[0].clone(), columns[1].clone(), ("a long name of a column", columns[2].1.clone())];
            for columns in [columns, of_lines] {
                let text = drawn_of(&[batch(columns)], size, CharacterStyle { is_ascii: true, has_colors: false });
                let (width, height) = (size.0.max(SIZE_MIN.0), size.1.max(SIZE_MIN.1));
                // The notes may be longer.
                let lines: Vec<&str> = text.lines().collect();
                assert_eq!(lines.len(), height, "{size:?}: {text}");
                assert!(lines[..height - 1].iter().all(|line| line.chars().count() <= width), "{size:?}: {text}");
                assert!(text.is_ascii(), "{text}");
            }
        }
    }
}
