//! Lines become the rows they say, or are refused with their number.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Date32Type, Decimal128Type, Int8Type, Int32Type, Int64Type, Time64NanosecondType};
use arrow::datatypes::{Float32Type, Float64Type, TimestampNanosecondType, UInt64Type};
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;
use splay_store::ColumnType;

use super::*;

fn spec() -> TableSpec {
    let columns = [
        ("time", ColumnType::Timestamp),
        ("sym", ColumnType::Symbol),
        ("price", ColumnType::Float64),
        ("size", ColumnType::Int8),
        ("id", ColumnType::UInt64),
        ("is_open", ColumnType::Bool),
        ("fee", ColumnType::Decimal { precision: 5, scale: 2 }),
        ("day", ColumnType::Date),
        ("at", ColumnType::Time),
        ("note", ColumnType::Text),
        ("bids", ColumnType::Levels { size: 2 }),
        ("rate", ColumnType::Float32),
    ];
    let columns = columns.into_iter().map(|(name, column_type)| ColumnSpec::new(name, column_type)).collect();
    TableSpec::new("trade", columns, "time", Some("sym"))
}

fn decode(settings: TextSettings, block: &str) -> TextRows {
    TextDecoder::new(&spec(), &[], settings).unwrap().decode(block.as_bytes(), 1).unwrap()
}

fn csv(columns: &str, block: &str) -> TextRows {
    let columns = header(columns.as_bytes()).unwrap();
    decode(TextSettings { columns, ..TextSettings::new(TextFormat::Csv) }, block)
}

fn ndjson(block: &str) -> TextRows {
    decode(TextSettings::new(TextFormat::Ndjson), block)
}

fn shown(rows: &TextRows, column: &str) -> Vec<String> {
    let column = rows.rows.column_by_name(column).unwrap();
    let one = |row| if column.is_null(row) { "null".to_owned() } else { array_value_to_string(column, row).unwrap() };
    (0..column.len()).map(one).collect()
}

fn reasons(rows: &TextRows) -> Vec<String> {
    assert_eq!(rows.errors.len() as u64, rows.refused);
    rows.errors.iter().map(ToString::to_string).collect()
}

fn check_every_type(rows: &TextRows) {
    assert_eq!(reasons(rows), [""; 0]);
    let all = &rows.rows;
    let column = |name: &str| all.column_by_name(name).unwrap();
    assert_eq!(column("time").as_primitive::<TimestampNanosecondType>().values(), &[1_700_000_000_000_000_001]);
    assert_eq!(shown(rows, "sym"), ["BRK.A"]);
    assert!(matches!(column("sym").data_type(), arrow::datatypes::DataType::Dictionary(_, _)));
    assert_eq!(column("price").as_primitive::<Float64Type>().values(), &[0.1]);
    assert_eq!(column("size").as_primitive::<Int8Type>().values(), &[-128]);
    assert_eq!(column("id").as_primitive::<UInt64Type>().values(), &[u64::MAX]);
    assert!(column("is_open").as_boolean().value(0));
    assert_eq!(column("fee").as_primitive::<Decimal128Type>().values(), &[-12_340]);
    assert_eq!(column("day").as_primitive::<Date32Type>().values(), &[19_675]);
    assert_eq!(column("at").as_primitive::<Time64NanosecondType>().values(), &[34_200_000_000_500]);
    assert_eq!(shown(rows, "note"), ["a, \"b\""]);
    assert_eq!(shown(rows, "bids"), ["[1.5, ]"]);
    assert_eq!(column("rate").as_primitive::<Float32Type>().values(), &[0.1]);
}

#[test]
fn every_type_is_read_from_comma_separated_values() {
    let rows = csv(
        "time,sym,price,size,id,is_open,fee,day,at,note,bids,rate",
        "1700000000000000001,BRK.A,0.1,-128,18446744073709551615,true,-123.40,2023-11-14,09:30:00.0000005,\"a, \"\"b\"\"\",\"[1.5]\",0.1\r\n",
    );
    check_every_type(&rows);
}

#[test]
fn every_type_is_read_from_objects() {
    let rows = ndjson(
        r#"{"TIME":"2023-11-14T22:13:20.000000001Z","sym":"BRK.A","price":"0.1","size":-128,"id":18446744073709551615,"is_open":true,"fee":-123.4,"day":"2023-11-14","at":"09:30:00.0000005","note":"a, \"b\"","bids":[1.5,null],"rate":0.1}"#,
    );
    check_every_type(&rows);
}

#[test]
fn a_bad_line_is_refused_with_its_number_and_the_others_are_taken() {
    let rows =
        csv("time,sym,size", "1,A,1\n\n2,A,200\n3,A\n4,\"A,1\n,A,1\n5,B\"B,1\n6,\"B\"C,1\nsoon,A,1\n7,,\n8,\"\",2");
    assert_eq!(
        reasons(&rows),
        [
            "line 3: size: \"200\" is no int8",
            "line 4: it has 2 fields, not 3",
            "line 5: a quote isn't closed within the line",
            "line 6: it has no time",
            "line 7: a field that isn't quoted contains a quote",
            "line 8: a closing quote is followed by neither a comma nor the end of the line",
            "line 9: time: \"soon\" is no timestamp",
        ]
    );
    assert_eq!(rows.errors[0].sample, b"2,A,200");
    assert_eq!((rows.last_line, rows.refused), (11, 7));
    assert_eq!(shown(&rows, "sym"), ["A", "null", ""]);
    assert_eq!(shown(&rows, "size"), ["1", "null", "2"]);
}

#[test]
fn objects_that_do_not_fit_are_refused() {
    let rows = ndjson(concat!(
        "{\"time\":1,\"price\":1}\n",
        "{\"time\":2,\"prise\":1}\n",
        "{\"time\":3} {\"time\":4}\n",
        "[5]\n",
        "{\"time\":6,\"price\":{}}\n",
        "{\"time\":7,\"price\":true}\n",
        "{\"time\":8,\"size\":1.5}\n",
        "{\"time\":9,\"bids\":[1,2,3]}\n",
        "{\"time\":10,\"sym\":[\"A\"]}\n",
        "{\"time\":11,\"Time\":12}\n",
        "{\"price\":1}\n",
        "{\"time\":null}\n",
        "{\"time\":13,\"fee\":1.005}\n",
        "{\"time\":14,\"fee\":1000}\n",
        "{\"time\":15,\"sym\":5,\"fee\":\"1.10\"}",
    ));
    let refusals = reasons(&rows);
    assert_eq!(refusals.len(), 13, "{refusals:?}");
    assert_eq!(refusals[0], "line 2: table \"trade\" has no column \"prise\"; name its type to add it");
    assert!(refusals[1].starts_with("line 3: it is no object of JSON: trailing characters"));
    assert!(refusals[2].starts_with("line 4: it is no object of JSON: "));
    assert_eq!(
        refusals[3..],
        [
            "line 5: price: an object is no float64",
            "line 6: price: a boolean is no float64",
            "line 7: size: \"1.5\" is no int8",
            "line 8: bids: 3 levels are more than 2",
            "line 9: sym: an array is no symbol",
            "line 10: two fields have the name \"time\"",
            "line 11: it has no time",
            "line 12: it has no time",
            "line 13: fee: \"1.005\" is no decimal(5,2)",
            "line 14: fee: \"1000\" is no decimal(5,2)",
        ]
    );
}

#[test]
fn times_are_numbers_of_a_unit_or_written_out() {
    let at = |unit: &str, text: &str| {
        let time_unit = unit.parse().unwrap();
        let columns = vec!["time".to_owned()];
        let rows = decode(TextSettings { columns, time_unit, ..TextSettings::new(TextFormat::Csv) }, text);
        let times = rows.rows.column(0).as_primitive::<TimestampNanosecondType>();
        (!times.is_empty()).then(|| times.value(0))
    };
    for (unit, text, expected) in [
        ("ns", "17", Some(17)),
        ("ns", "-17", Some(-17)),
        ("us", "17", Some(17_000)),
        ("ms", "1.5", Some(1_500_000)),
        ("s", "1700000000.123456789", Some(1_700_000_000_123_456_789)),
        ("s", "1700000000.1234567891", None),
        ("s", "9223372036.854775808", None),
        ("ns", "1.5", None),
        ("ns", "99999999999999999999", None),
        ("ns", "1970-01-01T00:00:01Z", Some(1_000_000_000)),
        ("ns", "1970-01-01 00:00:01", Some(1_000_000_000)),
        ("ns", "1970-01-01T01:00:00.5+01:00", Some(500_000_000)),
        ("ns", "1600-01-01T00:00:00Z", None),
        ("ns", ".", None),
        ("ns", "-", None),
    ] {
        assert_eq!(at(unit, text), expected, "{text} {unit}");
        assert_eq!(unit.parse::<TimeUnit>().unwrap().to_string(), unit);
    }
}

#[test]
fn headers_name_columns_once() {
    assert_eq!(header("\u{feff}time,\"a b\", c\r".as_bytes()).unwrap(), ["time", "a b", "c"]);
    assert!(header(b"time,,x").is_err());
    assert!(header(b"\xff").is_err());
    let new = |columns: &[&str]| {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        TextDecoder::new(&spec(), &[], TextSettings { columns, ..TextSettings::new(TextFormat::Csv) }).map(drop)
    };
    assert_eq!(new(&["time", "TIME"]), Err(TextFault::Twice { column: "TIME".to_owned() }));
    assert!(matches!(new(&["time", "other"]), Err(TextFault::NoSuchColumn { .. })));
    assert!(matches!(new(&[]), Err(TextFault::NoHeader { .. })));
}

#[test]
fn columns_may_be_added_and_are_null_before_they_occur() {
    let more = [ColumnSpec::new("venue", ColumnType::Symbol)];
    let decoder = TextDecoder::new(&spec(), &more, TextSettings::new(TextFormat::Ndjson)).unwrap();
    let rows = decoder.decode(b"{\"time\":1}\n{\"time\":2,\"venue\":\"X\"}\n{\"time\":3}\n", 100).unwrap();
    assert_eq!(shown(&rows, "venue"), ["null", "X", "null"]);
    assert_eq!((rows.rows.num_columns(), rows.last_line), (2, 102));
    assert_eq!(decoder.decode(b"", 7).unwrap().last_line, 6);
}

#[test]
fn size_is_bounded() {
    let columns = vec!["time".to_owned(), "note".to_owned()];
    let settings = TextSettings { columns, line_bytes_max: 10, ..TextSettings::new(TextFormat::Csv) };
    let rows = decode(settings, "1,aaaaaaaa\n2,aaaaaaaaa\n");
    assert_eq!(reasons(&rows), ["line 2: it is longer than 10 bytes"]);
    let decoder = TextDecoder::new(&spec(), &[], TextSettings::new(TextFormat::Ndjson)).unwrap();
    let many = vec![b'\n'; CELLS_MAX / 12 + 2];
    assert!(matches!(decoder.decode(&many, 1), Err(TextFault::TooMany { .. })));
    let bad = "x\n".repeat(2 * ERRORS_MAX);
    let rows = decoder.decode(bad.as_bytes(), 1).unwrap();
    assert_eq!((rows.refused, rows.errors.len()), (2 * ERRORS_MAX as u64, ERRORS_MAX));
}

proptest! {
    /// Whatever comes, lines are read or refused, and those that are read give a row each.
    #[test]
    fn any_bytes_are_read_or_refused(block in prop::collection::vec(prop::sample::select(b"1,\"\n\r{}[]:timesy\\.-e\xff ".to_vec()), 0..200)) {
        let lines = block.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count() as u64;
        let columns = vec!["time".to_owned(), "sym".to_owned(), "price".to_owned()];
        for settings in [TextSettings { columns, ..TextSettings::new(TextFormat::Csv) }, TextSettings::new(TextFormat::Ndjson)] {
            let rows = TextDecoder::new(&spec(), &[], settings).unwrap().decode(&block, 1).unwrap();
            prop_assert_eq!(rows.rows.num_rows() as u64 + rows.refused, lines);
        }
    }

    /// What a writer of CSV quotes is read back.
    #[test]
    fn quoted_texts_come_back(texts in prop::collection::vec("[a\", ]{0,6}", 1..5)) {
        let line = texts.iter().map(|text| format!("\"{}\"", text.replace('"', "\"\""))).collect::<Vec<_>>().join(",");
        let fields = csv::fields(&line).unwrap();
        prop_assert_eq!(fields.iter().map(|field| field.text.to_string()).collect::<Vec<_>>(), texts);
    }

    /// Whole numbers survive as they are, or are refused.
    #[test]
    fn whole_numbers_are_exact(number in any::<i64>()) {
        let more = [ColumnSpec::new("n", ColumnType::Int64), ColumnSpec::new("small", ColumnType::Int32)];
        let decoder = TextDecoder::new(&spec(), &more, TextSettings::new(TextFormat::Ndjson)).unwrap();
        let rows = decoder.decode(format!("{{\"time\":1,\"n\":{number}}}\n{{\"time\":1,\"small\":{number}}}").as_bytes(), 1).unwrap();
        prop_assert_eq!(rows.rows.column_by_name("n").unwrap().as_primitive::<Int64Type>().value(0), number);
        match i32::try_from(number) {
            Ok(small) => prop_assert_eq!(rows.rows.column_by_name("small").unwrap().as_primitive::<Int32Type>().value(1), small),
            Err(_) => prop_assert_eq!(rows.refused, 1),
        }
    }
}
