//! Every line that both the crate influxdb-line-protocol and we accept gives the same row.
//!
//! Left out, since we decide otherwise on purpose: lines with equal names (the crate keeps both).

use influxdb_line_protocol::{FieldValue, ParsedLine, parse_lines};
use proptest::prelude::*;

use super::*;

/// Name and text of each value in the line, in order.
fn values(line: &ParsedLine<'_>) -> Vec<(String, String)> {
    let tags = line.series.tag_set.iter().flatten().map(|(name, value)| (name.to_string(), value.to_string()));
    let fields = line.field_set.iter().map(|(name, value)| {
        let value = match value {
            FieldValue::I64(value) => value.to_string(),
            FieldValue::U64(value) => value.to_string(),
            FieldValue::F64(value) => value.to_bits().to_string(),
            FieldValue::String(value) => value.to_string(),
            FieldValue::Boolean(value) => value.to_string(),
        };
        (name.to_string(), value)
    });
    tags.chain(fields).collect()
}

fn compare(text: &str) -> bool {
    let Some(Ok(parsed)) = parse_lines(text).next() else { return false };
    let values = values(&parsed);
    let mut seen = std::collections::HashSet::new();
    if !values.iter().all(|(name, _)| seen.insert(name.to_ascii_lowercase())) || seen.contains("time") {
        return false;
    }
    let (batches, errors) = decode(text.as_bytes());
    if !errors.is_empty() {
        return false;
    }
    let batch = &batches[0];
    if splay_store::validate_name("table", &parsed.series.measurement).is_ok() {
        assert_eq!(parsed.series.measurement, batch.table.as_str(), "{text:?}");
    }
    assert_eq!(batch.lines, 1, "{text:?}");
    assert_eq!(column(&batch.rows, "time"), [parsed.timestamp.unwrap_or(NOW).to_string()], "{text:?}");
    for (name, value) in &values {
        let array = batch.rows.column_by_name(name).unwrap_or_else(|| panic!("{name:?} is missing: {text:?}"));
        let got = match array.data_type() {
            DataType::Float64 => array.as_primitive::<Float64Type>().value(0).to_bits().to_string(),
            _ => column(&batch.rows, name).remove(0),
        };
        assert_eq!(&got, value, "{name:?} of {text:?}");
    }
    assert_eq!(batch.rows.num_columns(), values.len() + 1, "{text:?}");
    true
}

#[test]
fn known_lines_agree() {
    for text in [
        "trades,symbol=BTC-USD,side=buy price=39269.98,amount=0.011 1646762637710419000",
        "m,t\\ 1=a\\,b,x=y\\=z f\\ 1=\"a\\\"b\\\\c\\d\",g=1i,h=2u,i=t,j=False,k=-1.5e-7 -5",
        "a\\ b\\,c d=1",
        "m,tag=val=ue f=1 1",
        "m f=\"line\nfeed\" 7",
        "m,p=C:\\dir\\ x f=1",
        "  m   f=1   5  ",
    ] {
        assert!(compare(text), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn plausible_lines_agree(
        measurement in r#"[a-z]([a-z0-9_.-]|\\[ ,\\a]){0,6}"#,
        tags in proptest::collection::vec((r#"[a-z]([a-z0-9]|\\[ ,=\\q]){0,4}"#, r#"([a-z0-9=:/"-]|\\[ ,=\\q]){1,6}"#), 0..4),
        fields in proptest::collection::vec((
            r#"[a-z]([a-z0-9]|\\[ ,=\\q]){0,4}"#,
            prop_oneof![
                r#""([a-z ,=\n]|\\["\\q]){0,8}""#,
                "-?[0-9]{1,22}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
                "-?[0-9]{1,19}i", "[0-9]{1,20}u", "t|T|true|True|TRUE|f|F|false|False|FALSE",
            ],
        ), 1..5),
        time in proptest::option::of("-?[0-9]{1,18}"),
    ) {
        let tags: String = tags.iter().map(|(name, value)| format!(",{name}={value}")).collect();
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let time = time.map_or(String::new(), |time| format!(" {time}"));
        compare(&format!("{measurement}{tags} {}{time}", fields.join(",")));
    }

    #[test]
    fn lines_of_marks_agree(text in r#"[a-c](,[a-c]=[a-c\\= ,]{1,4}){0,2} [a-c]="?[a-c0-9\\", =]{0,8}"?( [0-9 ]{0,3})?"#) {
        compare(&text);
    }
}
