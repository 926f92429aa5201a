//! Compares values with what PostgreSQL 16 sends for them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{Float64Type, Int32Type};

use super::*;

fn written(column: ArrayRef, row: usize, is_binary: bool) -> Vec<u8> {
    let mut out = CountedBuffer::default();
    let cells = Cells::of(&column).unwrap();
    assert!(!cells.is_null(row));
    if is_binary { cells.write_binary(&mut out, row) } else { cells.write_text(&mut out, row) }.unwrap();
    out.take().to_vec()
}

fn text(column: impl Array + 'static, row: usize) -> String {
    String::from_utf8(written(Arc::new(column), row, false)).unwrap()
}

#[test]
fn values_are_written_as_text() {
    let floats = Float64Array::from(vec![1.5, 0.1, 1e300, 1e-7, -0.0, f64::NAN, f64::NEG_INFINITY, 123_456_789.0]);
    let expected = ["1.5", "0.1", "1e300", "1e-7", "-0", "NaN", "-Infinity", "123456789"];
    for (row, expected) in expected.iter().enumerate() {
        assert_eq!(text(floats.clone(), row), *expected);
    }
    assert_eq!(text(Float32Array::from(vec![0.1]), 0), "0.1");
    assert_eq!(text(UInt64Array::from(vec![u64::MAX]), 0), "18446744073709551615");
    assert_eq!(text(Int8Array::from(vec![-128]), 0), "-128");
    assert_eq!(text(BooleanArray::from(vec![true]), 0), "t");
    let decimals = Decimal128Array::from(vec![-12_345]).with_precision_and_scale(10, 4).unwrap();
    assert_eq!(text(decimals, 0), "-1.2345");
    assert_eq!(text(BinaryArray::from(vec![&b"\x00\xff"[..]]), 0), "\\x00ff");
    let times = TimestampNanosecondArray::from(vec![-1, 1_767_364_200_123_456_789]);
    assert_eq!(text(times.clone(), 0), "1969-12-31 23:59:59.999999");
    assert_eq!(text(times.with_timezone("UTC"), 1), "2026-01-02 14:30:00.123456+00");
    let symbols: DictionaryArray<Int32Type> = vec!["AIG", "IBM"].into_iter().collect();
    assert_eq!(text(symbols, 1), "IBM");
    let texts = ListArray::from_nested_iter::<StringBuilder, _, _, _>([Some(vec![Some("a\"b\\"), None, Some("")])]);
    assert_eq!(text(texts, 0), "{\"a\\\"b\\\\\",NULL,\"\"}");
}

#[test]
fn lists_hold_their_own_items_only() {
    let lists = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(
        (0..3).map(|i| Some(vec![Some(f64::from(i)), None])),
        2,
    );
    let lists: ArrayRef = Arc::new(lists);
    assert_eq!(written(lists.slice(1, 2), 1, false), b"{2,NULL}");
    let binary = written(lists.slice(1, 1), 0, true);
    let mut expected = vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 2, 189, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 8];
    expected.extend(1f64.to_be_bytes());
    expected.extend([255; 4]);
    assert_eq!(binary, expected);
}

#[test]
fn values_are_written_in_binary() {
    let time = TimestampNanosecondArray::from(vec![946_684_800_000_001_999]);
    assert_eq!(written(Arc::new(time), 0, true), 1i64.to_be_bytes());
    assert_eq!(written(Arc::new(Date32Array::from(vec![10_956])), 0, true), (-1i32).to_be_bytes());
    assert_eq!(written(Arc::new(UInt8Array::from(vec![255])), 0, true), 255i16.to_be_bytes());
    // (value at scale 4): groups, weight, sign, digits behind the point, then the groups.
    let cases: [(i128, &[i16]); 6] = [
        (0, &[0, 0, 0, 4]),
        (12_345, &[2, 0, 0, 4, 1, 2345]),
        (-5, &[1, -1, 0x4000, 4, 5]),
        (10_000 * 10_000, &[1, 1, 0, 4, 1]),
        (123_456_789_000, &[3, 1, 0, 4, 1234, 5678, 9000]),
        (10_000, &[1, 0, 0, 4, 1]),
    ];
    for (value, expected) in cases {
        let decimals = Decimal128Array::from(vec![value]).with_precision_and_scale(38, 4).unwrap();
        let expected: Vec<u8> = expected.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(written(Arc::new(decimals), 0, true), expected, "{value}");
    }
    let two = Decimal128Array::from(vec![125]).with_precision_and_scale(5, 2).unwrap();
    let expected: Vec<u8> = [2i16, 0, 0, 2, 1, 2500].iter().flat_map(|word| word.to_be_bytes()).collect();
    assert_eq!(written(Arc::new(two), 0, true), expected);
}

#[test]
fn a_text_that_clients_would_cut_is_refused() {
    let column: ArrayRef = Arc::new(StringArray::from(vec!["a\0b"]));
    let cells = Cells::of(&column).unwrap();
    assert!(cells.write_text(&mut CountedBuffer::default(), 0).is_err());
    assert!(cells.write_binary(&mut CountedBuffer::default(), 0).is_err());
}
