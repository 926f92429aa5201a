//! Values of fields and the columns that they make.

use super::*;

/// Type and text of the one value.
fn value(text: &str) -> (DataType, String) {
    let batch = table(&format!("t v={text} 1\n"));
    (batch.rows.column(1).data_type().clone(), column(&batch.rows, "v").remove(0))
}

fn float(text: &str) -> f64 {
    let batch = table(&format!("t v={text} 1\n"));
    batch.rows.column(1).as_primitive::<Float64Type>().value(0)
}

#[test]
fn floats_are_read_to_the_bit() {
    for text in [
        "0",
        "1",
        "-1",
        "1.5",
        "-0.0",
        "5.",
        ".5",
        "1e5",
        "1E-5",
        "-1.25e+3",
        "39269.98",
        "0.011",
        "9007199254740993",
        "123456789012345678901234567890",
        "0.1234567890123456789",
        "1e-330",
        "1e308",
        "2.2250738585072014e-308",
        "0.00000000000000000000000000001",
    ] {
        assert_eq!(float(text).to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
    }
    let (batches, errors) = decode(b"t v=NaN,w=1 1\nt v=2 2\n");
    assert_eq!((column(&batches[0].rows, "v"), errors.len()), (vec!["-".to_owned(), "2.0".to_owned()], 0));
    assert_eq!(float("-Infinity"), f64::NEG_INFINITY);
    assert_eq!(float("Infinity"), f64::INFINITY);
}

#[test]
fn integers_have_a_suffix_and_64_bits() {
    assert_eq!(value("42i"), (DataType::Int64, "42".to_owned()));
    assert_eq!(value("-9223372036854775808i").1, "-9223372036854775808");
    assert_eq!(value("00000000000000000000007i").1, "7");
    assert_eq!(value("18446744073709551615u"), (DataType::UInt64, "18446744073709551615".to_owned()));
    assert!(reason(b"t v=9223372036854775808i").contains("out of range"));
    assert!(reason(b"t v=18446744073709551616u").contains("out of range"));
    assert!(reason(b"t v=-1u").contains("not a value"));
    assert!(reason(b"t v=1.5i").contains("not a value"));
}

#[test]
fn booleans_have_many_spellings() {
    for text in ["t", "T", "true", "True", "TRUE"] {
        assert_eq!(value(text), (DataType::Boolean, "true".to_owned()));
    }
    for text in ["f", "F", "false", "False", "FALSE"] {
        assert_eq!(value(text), (DataType::Boolean, "false".to_owned()));
    }
}

#[test]
fn timestamps_are_micro_or_nanoseconds() {
    assert!(matches!(value("5t").0, DataType::Timestamp(_, _)));
    assert_eq!(value("5t").1, "5000");
    assert_eq!(value("-5n").1, "-5");
    assert!(reason(b"t v=9223372036854775807t").contains("out of range"));
    assert!(reason(b"t v=1,v2=2,v3=5t,v4=6n,v3=1.5t").contains("not a value"));
}

#[test]
fn tags_are_symbols_and_text_is_text() {
    let symbol = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let batch = table("t,s=a x=\"b\" 1\nt,s=c x=\"d\" 2\nt,s=a x=\"b\" 3\n");
    assert_eq!(batch.rows.column(1).data_type(), &symbol);
    assert_eq!(batch.rows.column(1).as_dictionary::<Int32Type>().values().len(), 2);
    assert_eq!(column(&batch.rows, "s"), ["a", "c", "a"]);
    assert_eq!(batch.rows.column(2).data_type(), &DataType::Utf8);
}

#[test]
fn nothing_none_and_null_are_null() {
    let batch = table("t,s=,r=None a=1,b=,c=None,d=null 1\nt,s=x a=,b=2 2\n");
    assert_eq!(names(&batch.rows), ["time", "r", "a", "s", "b"]);
    assert_eq!(column(&batch.rows, "s"), ["-", "x"]);
    // As QuestDB does: a tag is text whatever it says.
    assert_eq!(column(&batch.rows, "r"), ["None", "-"]);
    assert_eq!(column(&batch.rows, "a"), ["1.0", "-"]);
}

#[test]
fn columns_take_other_numbers_that_they_hold_exactly() {
    let (batches, errors) = decode(
        b"t f=1.5,i=1i,u=1u 1\nt f=2i,i=2.0,u=2i 2\nt f=3u,i=3u 3\nt f=9007199254740993i 4\nt i=1.5 5\nt u=-1i 6\nt i=1e300 7\n",
    );
    assert_eq!(column(&batches[0].rows, "f"), ["1.5", "2.0", "3.0"]);
    assert_eq!(column(&batches[0].rows, "i"), ["1", "2", "3"]);
    assert_eq!(column(&batches[0].rows, "u"), ["1", "2", "-"]);
    let reasons: Vec<String> = errors.iter().map(|error| error.reason.to_string()).collect();
    assert_eq!(
        reasons,
        [
            "column \"f\" holds floats, not an integer",
            "column \"i\" holds integers, not a float",
            "column \"u\" holds unsigned integers, not an integer",
            "column \"i\" holds integers, not a float",
        ]
    );
}

#[test]
fn values_of_another_type_are_refused_with_their_line() {
    let (batches, errors) =
        decode(b"t,s=a f=1.5,b=t,x=\"y\" 1\nt,s=b f=\"text\" 2\nt b=1 3\nt x=1.5 4\nt,f=tag x=\"z\" 5\n");
    assert_eq!(batches[0].lines, 1);
    let reasons: Vec<String> = errors.iter().map(|error| error.reason.to_string()).collect();
    assert_eq!(
        reasons,
        [
            "column \"f\" holds floats, not text",
            "column \"b\" holds booleans, not a float",
            "column \"x\" holds text, not a float",
            "column \"f\" holds floats, not text",
        ]
    );
}

#[test]
fn ids_that_are_no_integers_become_text() {
    // Cryptofeed's TradeQuest writes `id=<id>i` whatever the id is.
    let batch = table("t id=3f1e-aa01i 1\nt id=55i 2\nt id=\"x\" 3\nt id=abc1i 4\n");
    assert_eq!(column(&batch.rows, "id"), ["3f1e-aa01", "55", "x", "abc1"]);
    let (batches, errors) = decode(b"t id=55i 1\nt id=3f1e-aa01i 2\n");
    assert_eq!((batches[0].lines, errors.len()), (1, 1));
}

#[test]
fn kinds_that_tables_lack_are_refused_by_name() {
    assert!(reason(b"t v=0x123i").contains("long256"));
    assert!(reason(b"t v=1.5d").contains("decimal"));
    assert!(reason(b"t v==\x17\x02\x02\x30\x39 1").contains("decimal"));
    assert!(reason(b"t v=hello").contains("double quotes"));
    assert!(reason(b"t v==\x0f1").contains("type 14 or 16"));
}

fn binary_float(value: f64) -> Vec<u8> {
    [&b"=\x10"[..], &value.to_le_bytes()].concat()
}

fn binary_array(dimensions: &[u32], values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![b'=', 14, 10, u8::try_from(dimensions.len()).unwrap()];
    dimensions.iter().for_each(|dimension| bytes.extend(dimension.to_le_bytes()));
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes
}

#[test]
fn binary_floats_may_hold_any_byte() {
    let values = [1.5, f64::from_bits(0x0a0a_0a0a_0a0a_0a0a), f64::from_bits(0x2c20_3d5c_2200_0a0d), f64::MAX];
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend([&b"t,s=x v="[..], &binary_float(value), b",w=", &binary_float(-value), b" 7n\n"].concat());
    }
    let (batches, errors) = decode(&bytes);
    assert_eq!(errors, []);
    let got = batches[0].rows.column(2).as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits());
    assert_eq!(got.collect::<Vec<_>>(), values.map(f64::to_bits));
    assert!(reason(b"t v==\x10\x00\x00").contains("a whole binary value"));
}

#[test]
fn arrays_of_floats_become_lists_of_the_first_ones_length() {
    let lines = [
        [b"t v=", &binary_array(&[3], &[1.0, 2.0, 3.0])[..], b" 1\n"].concat(),
        [b"t v=", &binary_array(&[1], &[4.0])[..], b",w==\x0e\x21 2\n"].concat(),
        b"t a=3i 3\n".to_vec(),
        [b"t v=", &binary_array(&[4], &[1.0; 4])[..], b" 4\n"].concat(),
        [b"t v=", &binary_array(&[2, 2], &[1.0; 4])[..], b" 5\n"].concat(),
        [b"t x=", &binary_array(&[0], &[])[..], b" 6\n"].concat(),
        b"t v==\x0e\x06\x01\x01\x00\x00\x00aaaaaaaa 7\n".to_vec(),
        b"t v==\x0e\x0a\x01\xff\xff\xff\xff\n".to_vec(),
        b"t a=8i 8\n".to_vec(),
    ];
    let (batches, errors) = decode(&lines.concat());
    assert_eq!(column(&batches[0].rows, "v"), ["[1.0, 2.0, 3.0]", "[4.0, -, -]", "-", "-"]);
    assert_eq!(column(&batches[0].rows, "a"), ["-", "-", "3", "8"]);
    let reasons: Vec<String> = errors.iter().map(|error| error.reason.to_string()).collect();
    assert_eq!(
        reasons,
        [
            "column \"v\" holds arrays, not a longer array",
            "an array of several dimensions can't be stored; send one array for each row of it",
            "expected an array of 1 to 1,024 items",
            "an array of anything but floats can't be stored; send floats",
            "longer than 65536 bytes",
        ]
    );
}

#[test]
fn unsigned_and_integer_columns_are_arrows_own() {
    let batch = table("t i=1i,u=2u 1\nt 1=3 2\n");
    assert_eq!(batch.rows.column(1).as_primitive::<Int64Type>().value(0), 1);
    assert_eq!(batch.rows.column(2).as_primitive::<UInt64Type>().value(0), 2);
    assert!(batch.rows.column(1).is_null(1));
}
