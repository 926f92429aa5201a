//! Values that columns take, and values that they refuse.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal128Type, Int64Type, TimestampNanosecondType};

use super::*;

fn column(kind: &str, unit: Option<Unit>) -> Column {
    Column { name: "c".to_owned(), kind: kind.parse().unwrap(), unit, is_time: false }
}

fn of<'a>(kind: &str, cell: Cell<'a>) -> Result<Value<'a>, String> {
    column(kind, None).value(cell)
}

fn text(text: &str) -> Cell<'_> {
    Cell::Text(text.into())
}

#[test]
fn types_are_read_back_from_their_names() {
    for name in [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
        "date",
        "time",
        "timestamp",
        "symbol",
        "text",
        "decimal(18,4)",
        "levels(20)",
    ] {
        assert_eq!(name.parse::<ColumnType>().unwrap().to_string(), name);
    }
    for name in ["", "int", "decimal(39,1)", "decimal(5)", "levels(0)", "levels(2000)", "struct"] {
        assert!(name.parse::<ColumnType>().is_err(), "{name}");
    }
}

#[test]
fn whole_numbers_are_exact() {
    let whole = |number| Ok(Value::Whole(number));
    assert_eq!(of("int64", Cell::Number("9007199254740993")), whole(9_007_199_254_740_993));
    assert_eq!(of("uint64", Cell::Number("18446744073709551615")), whole(u64::MAX.into()));
    assert_eq!(of("int64", text("-5")), whole(-5));
    assert_eq!(of("int32", Cell::Number("1e3")), whole(1_000));
    assert_eq!(of("int8", Cell::Float(-3.0)), whole(-3));
    assert_eq!(of("int16", Cell::Decimal(50, 1)), whole(5));
    for cell in [
        Cell::Number("1.5"),
        Cell::Number("128"),
        text(""),
        text("0x1"),
        Cell::Float(f64::NAN),
        Cell::Bool(true),
        Cell::Decimal(55, 1),
    ] {
        assert!(of("int8", cell.clone()).is_err(), "{cell:?}");
    }
    assert!(of("int64", Cell::Float(2_f64.powi(63))).is_err());
    assert_eq!(of("uint8", Cell::Number("-1")).unwrap_err(), "c: -1 is no uint8");
}

#[test]
fn floats_are_the_nearest_of_a_text_and_exact_of_numbers() {
    assert_eq!(of("float64", Cell::Number("180.1")), Ok(Value::Float(180.1)));
    assert_eq!(of("float32", Cell::Number("180.1")), Ok(Value::Float(f64::from(180.1_f32))));
    assert_eq!(of("float64", Cell::Whole(1 << 53)), Ok(Value::Float(2_f64.powi(53))));
    assert!(of("float64", Cell::Whole((1 << 53) + 1)).is_err());
    assert!(of("float32", Cell::Float(180.1)).is_err());
    assert_eq!(of("float64", Cell::Decimal(18_010, 2)), Ok(Value::Float(180.1)));
    assert!(of("float64", text("many")).is_err());
}

/// They were stored as infinite.
#[test]
fn numbers_beyond_the_range_of_a_float_are_refused() {
    assert_eq!(of("float64", Cell::Number("1e400")).unwrap_err(), "c: 1e400 is no float64");
    for (kind, cell) in [
        ("float64", text("-1e400")),
        ("float32", Cell::Number("1e39")),
        ("float32", text("-4e38")),
        ("float32", Cell::Decimal(1, -39)),
    ] {
        assert!(of(kind, cell.clone()).is_err(), "{kind} {cell:?}");
    }
    assert_eq!(of("float32", Cell::Number("3.4e38")), Ok(Value::Float(f64::from(3.4e38_f32))));
    assert_eq!(of("float64", text("-inf")), Ok(Value::Float(f64::NEG_INFINITY)));
}

#[test]
fn decimals_are_exact_and_within_their_digits() {
    assert_eq!(of("decimal(6,2)", Cell::Number("180.5")), Ok(Value::Whole(18_050)));
    assert_eq!(of("decimal(6,2)", Cell::Decimal(180_500, 3)), Ok(Value::Whole(18_050)));
    assert_eq!(of("decimal(6,2)", text("-9999.99")), Ok(Value::Whole(-999_999)));
    for cell in [Cell::Number("0.001"), Cell::Number("10000"), Cell::Float(0.5)] {
        assert!(of("decimal(6,2)", cell).is_err());
    }
}

#[test]
fn instants_are_texts_or_numbers_of_a_unit() {
    let at = |unit, cell| column("timestamp", unit).value(cell);
    let nanoseconds = Ok(Value::Whole(1_767_364_200_123_000_000));
    assert_eq!(at(None, text("2026-01-02T14:30:00.123Z")), nanoseconds);
    assert_eq!(at(Some(Unit::Ms), Cell::Number("1767364200123")), nanoseconds);
    assert_eq!(at(Some(Unit::S), Cell::Number("1767364200.123")), nanoseconds);
    assert_eq!(at(Some(Unit::S), Cell::Float(1_767_364_200.123)), nanoseconds);
    assert_eq!(at(Some(Unit::Us), text("1767364200123000")), nanoseconds);
    assert_eq!(at(None, Cell::Instant(1_767_364_200_123_000_000)), nanoseconds);
    let error = at(None, Cell::Number("1767364200123")).unwrap_err();
    assert_eq!(error, "c: 1767364200123 is a number without a unit: say which by time_unit");
    for cell in [text("2026-01-02"), text("soon"), Cell::Number("1e30"), Cell::Number("0.5"), Cell::Date(1)] {
        assert!(at(Some(Unit::Ns), cell.clone()).is_err(), "{cell:?}");
    }
}

#[test]
fn other_values_are_taken_or_refused_by_name() {
    assert_eq!(of("date", text("1970-01-11")), Ok(Value::Whole(10)));
    assert_eq!(of("time", text("00:00:01")), Ok(Value::Whole(1_000_000_000)));
    assert!(of("time", Cell::TimeOfDay(-1)).is_err());
    assert_eq!(of("symbol", Cell::Number("600519")), Ok(Value::Text("600519".into())));
    assert!(of("symbol", Cell::Number("1.0")).is_err());
    assert_eq!(of("bool", text("true")), Ok(Value::Bool(true)));
    assert!(of("bool", Cell::Whole(1)).is_err());
    let levels = Cell::Floats(vec![Some(1.0), None]);
    assert_eq!(of("levels(3)", levels.clone()), Ok(Value::Levels(vec![Some(1.0), None, None])));
    assert!(of("levels(1)", levels).is_err());
    assert_eq!(of("text", Cell::Other("an object")).unwrap_err(), "c: an object is no text");
    let time = Column { is_time: true, ..column("timestamp", None) };
    assert_eq!(time.value(Cell::Null).unwrap_err(), "c: every row needs a time");
}

#[test]
fn rows_have_the_tables_types_and_none_are_left() {
    let columns: Vec<Column> =
        [("time", "timestamp"), ("size", "int64"), ("price", "decimal(10,2)"), ("book", "levels(2)")]
            .into_iter()
            .map(|(name, kind)| Column { name: name.to_owned(), is_time: name == "time", ..column(kind, None) })
            .collect();
    let mut rows = Rows::new(&columns);
    for number in 0..3 {
        let book = if number == 1 { Value::Null } else { Value::Levels(vec![Some(1.5), None]) };
        rows.push(&[Value::Whole(number), Value::Null, Value::Whole(-number), book]);
    }
    let batch = rows.take().unwrap();
    assert!(rows.is_empty() && rows.take().unwrap().num_rows() == 0);
    assert_eq!(batch.column(0).as_primitive::<TimestampNanosecondType>().values(), &[0, 1, 2]);
    assert_eq!(batch.column(1).as_primitive::<Int64Type>().null_count(), 3);
    assert_eq!(batch.column(2).as_primitive::<Decimal128Type>().values(), &[0, -1, -2]);
    assert_eq!((batch.column(3).null_count(), batch.column(3).len()), (1, 3));
}
