//! Records of each format, sound, wrong and damaged.

use apache_avro::Schema;
use apache_avro::types::Value as Avro;
use arrow::array::{AsArray, DictionaryArray, Int64Array, StringArray, TimestampNanosecondArray};
use arrow::datatypes::{Float64Type, Int8Type, Int32Type, Int64Type, TimestampNanosecondType};
use proptest::prelude::*;

use super::*;
use crate::registry::{ParsedSchema, SchemaError};
use crate::settings::Settings;

const COLUMNS: [(&str, &str); 6] = [
    ("time", "timestamp"),
    ("sym", "symbol"),
    ("price", "float64"),
    ("size", "int64"),
    ("paid", "decimal(38,4)"),
    ("book", "levels(3)"),
];

fn table() -> Vec<Column> {
    let column = |(name, kind): (&str, &str)| Column {
        name: name.to_owned(),
        kind: kind.parse().unwrap(),
        unit: None,
        is_time: name == "time",
    };
    COLUMNS.into_iter().map(column).collect()
}

fn topic(format: &str, more: &str) -> TopicSettings {
    let text = format!(
        "name = 'f'\n[server]\nurl = 'http://x'\n[kafka]\nbrokers = 'x'\n[registry]\nurl = 'http://x'\n[dead_letters]\nfile = 'd'\n\
         [[topic]]\nname = 'trades'\ntable = 'trade'\nformat = '{format}'\n{more}"
    );
    Settings::parse(&text).unwrap().topics.remove(0)
}

fn record(payload: &[u8]) -> Record<'_> {
    Record { offset: 7, time_ns: Some(1_500_000_000), key: Some(b"IBM"), payload: Some(payload) }
}

fn decoder(format: &str, more: &str) -> Decoder {
    Decoder::new(&topic(format, more), &table(), 3, Some(Arc::new(FixedSchemas))).unwrap()
}

/// The reason why a record is bad.
fn bad(decoder: &mut Decoder, payload: &[u8]) -> String {
    match decoder.add(&record(payload)).unwrap_err() {
        DecodeFailure::Invalid(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_object_is_a_row_by_the_names_of_the_columns() {
    let mut decoder = decoder("json", "time_unit = 'ms'");
    let text = br#"{"Time": 5, "SYM": "I\u0042M", "x": {"y": [1]}, "price": "1.5", "size": 9007199254740993, "paid": 12345678901234567890.1234, "book": [1, "2.5", null]}"#;
    assert_eq!(decoder.add(&record(text)), Ok(1));
    assert_eq!(decoder.add(&record(b"{\"time\": \"1970-01-01T00:00:01\"}")), Ok(1));
    let rows = decoder.take().unwrap();
    assert_eq!(rows.column(0).as_primitive::<TimestampNanosecondType>().values(), &[5_000_000, 1_000_000_000]);
    let symbols = rows.column(1).as_dictionary::<Int32Type>();
    assert_eq!(symbols.values().as_string::<i32>().value(0), "IBM");
    assert_eq!(rows.column(2).as_primitive::<Float64Type>().value(0), 1.5);
    assert_eq!(rows.column(3).as_primitive::<Int64Type>().value(0), 9_007_199_254_740_993);
    assert_eq!(
        rows.column(4).as_primitive::<arrow::datatypes::Decimal128Type>().value(0),
        123_456_789_012_345_678_901_234
    );
    assert_eq!(rows.column(5).as_fixed_size_list().value(0).as_primitive::<Float64Type>().values()[..2], [1.0, 2.5]);
    assert_eq!((rows.num_rows(), decoder.rows()), (2, 0));
}

#[test]
fn columns_come_from_paths_and_from_what_kafka_says() {
    let columns = "[topic.columns]\ntime = '$timestamp'\nsym = '$key'\nprice = 'data.px.last'\nsize = '$offset'";
    let mut decoder = decoder("json", columns);
    assert_eq!(decoder.add(&record(b"{\"data\": {\"px\": {\"last\": 2.5}}}")), Ok(1));
    assert_eq!(decoder.add(&record(b"{\"data\": {\"px\": null}}")), Ok(1));
    let rows = decoder.take().unwrap();
    assert_eq!(rows.num_columns(), 4);
    let number = |name: &str| Arc::clone(rows.column_by_name(name).unwrap());
    assert_eq!(number("time").as_primitive::<TimestampNanosecondType>().values(), &[1_500_000_000, 1_500_000_000]);
    assert_eq!(number("size").as_primitive::<Int64Type>().values(), &[7, 7]);
    assert_eq!((number("price").null_count(), number("sym").null_count()), (1, 0));
}

#[test]
fn bad_objects_are_refused_with_the_reason_and_leave_nothing() {
    let mut strict = decoder("json", "time_unit = 'ns'\nunknown_fields = 'refuse'");
    for (text, reason) in [
        ("{\"time\": 1, \"size\": 1.5}", "size: 1.5 is no int64"),
        ("{\"size\": 1}", "time: every row needs a time"),
        ("{\"time\": 1, \"side\": \"B\"}", "no column takes the field \"side\""),
        ("{\"time\": 1, \"size\": 1, \"SIZE\": 2}", "the field \"SIZE\" is there twice"),
        ("{\"time\": 1} x", "trailing characters"),
        ("{\"time\": 1", "EOF"),
        ("[{\"time\": 1}]", "expected an object"),
        ("{\"time\": 1, \"book\": [1, 2, 3, 4]}", "4 levels are more than 3"),
        ("{\"time\": 1, \"book\": [1, []]}", "an array with items that are no numbers is no levels(3)"),
        ("\u{0}", "expected value"),
    ] {
        let refusal = bad(&mut strict, text.as_bytes());
        assert!(refusal.contains(reason), "{text}: {refusal}");
    }
    assert_eq!(strict.add(&Record { payload: None, ..record(b"") }), Ok(0));
    assert_eq!((strict.rows(), strict.take().unwrap().num_rows()), (0, 0));
}

#[test]
fn settings_that_do_not_fit_the_table_are_refused() {
    let refused = |columns: &str| Decoder::new(&topic("json", columns), &table(), 0, None).unwrap_err();
    assert!(refused("[topic.columns]\ntime = 't'\nvenue = 'v'").contains("no column \"venue\"; it has time, sym"));
    assert!(refused("[topic.columns]\nsym = 's'").contains("nothing is given for the time \"time\""));
    assert!(refused("[topic.columns]\ntime = 'a..b'").contains("no name of a field"));
}

/// Schema 1 is a trade, 2 names itself, 3 isn't there, 4 can't be had now.
#[derive(Debug)]
struct FixedSchemas;

const TRADE: &str = r#"{"type": "record", "name": "Trade", "fields": [
    {"name": "note", "type": {"type": "map", "values": "bytes"}},
    {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "sym", "type": ["null", "string"]},
    {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "id", "type": {"type": "fixed", "name": "Id", "size": 3}}]}},
    {"name": "again", "type": "Inner"},
    {"name": "price", "type": "double"},
    {"name": "size", "type": "int"},
    {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}},
    {"name": "book", "type": {"type": "array", "items": ["double", "null"]}}]}"#;

impl Schemas for FixedSchemas {
    fn schema(&self, id: u32) -> Result<Arc<ParsedSchema>, SchemaError> {
        let text = match id {
            1 => TRADE,
            2 => r#"{"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}"#,
            3 => return Err(SchemaError::None("not there".to_owned())),
            _ => return Err(SchemaError::Later("no answer".to_owned())),
        };
        Ok(Arc::new(ParsedSchema { root: Schema::parse_str(text).unwrap(), named: Vec::new() }))
    }
}

fn datum(size: i32, symbol: Option<&str>, paid: i64, book: &[Option<f64>]) -> Vec<u8> {
    let inner = || Avro::Record(vec![("id".to_owned(), Avro::Fixed(3, vec![1, 2, 3]))]);
    let item = |item: &Option<f64>| match item {
        Some(number) => Avro::Union(0, Box::new(Avro::Double(*number))),
        None => Avro::Union(1, Box::new(Avro::Null)),
    };
    let fields = vec![
        ("note".to_owned(), Avro::Map([("a".to_owned(), Avro::Bytes(vec![9; 200]))].into())),
        ("time".to_owned(), Avro::TimestampMicros(1_000)),
        (
            "sym".to_owned(),
            symbol.map_or_else(
                || Avro::Union(0, Box::new(Avro::Null)),
                |text| Avro::Union(1, Box::new(Avro::String(text.to_owned()))),
            ),
        ),
        ("inner".to_owned(), inner()),
        ("again".to_owned(), inner()),
        ("price".to_owned(), Avro::Double(1.25)),
        ("size".to_owned(), Avro::Int(size)),
        ("paid".to_owned(), Avro::Decimal(apache_avro::Decimal::from(paid.to_be_bytes()))),
        ("book".to_owned(), Avro::Array(book.iter().map(item).collect())),
    ];
    let schema = Schema::parse_str(TRADE).unwrap();
    let mut bytes = vec![0, 0, 0, 0, 1];
    let writer = apache_avro::writer::datum::GenericDatumWriter::builder(&schema).build().unwrap();
    bytes.extend(writer.write_value_to_vec(Avro::Record(fields)).unwrap());
    bytes
}

proptest! {
    /// A datum that apache-avro writes is read unchanged.
    #[test]
    fn avro_is_read_as_it_was_written(
        size in any::<i32>(),
        symbol in proptest::option::of("[a-zü]{0,80}"),
        paid in any::<i64>(),
        book in prop::collection::vec(proptest::option::of(-1e9..1e9), 0..4),
    ) {
        let mut decoder = decoder("avro", "");
        prop_assert_eq!(decoder.add(&record(&datum(size, symbol.as_deref(), paid, &book))), Ok(1));
        let rows = decoder.take().unwrap();
        prop_assert_eq!(rows.column(0).as_primitive::<TimestampNanosecondType>().value(0), 1_000_000);
        let symbols = rows.column(1).as_dictionary::<Int32Type>();
        let first_symbol = symbols.key(0).map(|key| symbols.values().as_string::<i32>().value(key).to_owned());
        prop_assert_eq!(first_symbol, symbol);
        prop_assert_eq!(rows.column(3).as_primitive::<Int64Type>().value(0), i64::from(size));
        prop_assert_eq!(rows.column(4).as_primitive::<arrow::datatypes::Decimal128Type>().value(0), i128::from(paid));
        let levels = rows.column(5).as_fixed_size_list().value(0);
        let levels: Vec<Option<f64>> = levels.as_primitive::<Float64Type>().iter().collect();
        let mut expected = book;
        expected.resize(3, None);
        prop_assert_eq!(levels, expected);
    }

    /// Any bytes are rows or a reason, and never more.
    #[test]
    fn damaged_records_are_bad_and_break_nothing(
        format in proptest::sample::select(vec!["avro", "arrow", "json"]),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = match format {
            "avro" => datum(5, Some("IBM"), 1_000, &[Some(1.0), None]),
            "arrow" => crate::server::stream(&batch(3)).unwrap(),
            _ => b"{\"time\": 1, \"sym\": \"IBM\", \"book\": [1, 2], \"x\": {\"y\": 1e5}}".to_vec(),
        };
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if is_cut {
            bytes.truncate(end.index(bytes.len()));
        }
        let mut decoder = decoder(format, "time_unit = 'ns'");
        match decoder.add(&record(&bytes)) {
            Ok(rows) => prop_assert_eq!(decoder.take().unwrap().num_rows(), rows),
            Err(_) => prop_assert_eq!(decoder.rows(), 0),
        }
    }
}

#[test]
fn bad_avro_is_refused_with_the_reason() {
    let mut avro = decoder("avro", "");
    let whole = datum(5, Some("IBM"), 1_000, &[]);
    assert!(bad(&mut avro, b"\0\0\0").contains("Confluent"));
    assert!(bad(&mut avro, b"{\"time\": 1}").contains("Confluent"));
    assert_eq!(bad(&mut avro, b"\0\0\0\0\x03"), "schema 3: not there");
    assert!(bad(&mut avro, b"\0\0\0\0\x02").contains("names itself"));
    assert_eq!(bad(&mut avro, &whole[..whole.len() - 1]), "the datum ends too early");
    assert_eq!(bad(&mut avro, &[&whole[..], b"x"].concat()), "1 bytes are left behind the datum");
    // A map of so many items, or of one as long.
    assert!(bad(&mut avro, b"\0\0\0\0\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01").contains("items"));
    assert_eq!(bad(&mut avro, b"\0\0\0\0\x01\x02\xfe\xff\xff\xff\x0f"), "the datum ends too early");
    let later = avro.add(&record(b"\0\0\0\0\x09"));
    assert_eq!(later, Err(DecodeFailure::Unavailable("schema 9: no answer".to_owned())));
    let mut strict = decoder("avro", "unknown_fields = 'refuse'");
    assert!(bad(&mut strict, &whole).contains("no column takes the field \"note\""));
}

fn batch(rows: i64) -> RecordBatch {
    let times = TimestampNanosecondArray::from_iter_values(0..rows).with_timezone("UTC");
    let symbols: StringArray = (0..rows).map(|row| Some(format!("S{row}"))).collect();
    let sizes = Int64Array::from_iter_values(0..rows);
    RecordBatch::try_from_iter([
        ("TIME", Arc::new(times) as _),
        ("sym", Arc::new(symbols) as _),
        ("n", Arc::new(sizes) as _),
    ])
    .unwrap()
}

#[test]
fn arrow_has_the_tables_columns_and_what_kafka_says() {
    let columns = "[topic.columns]\ntime = 'TIME'\nsize = 'n'\nsym = '$key'";
    let mut arrow = decoder("arrow", columns);
    assert_eq!(arrow.add(&record(&crate::server::stream(&batch(3)).unwrap())), Ok(3));
    assert_eq!(arrow.add(&record(&crate::server::stream(&batch(2)).unwrap())), Ok(2));
    // Of other types: what waits has to go first.
    let sizes = arrow::compute::cast(batch(1).column(2), &arrow::datatypes::DataType::Int32).unwrap();
    let other = RecordBatch::try_from_iter([("TIME", Arc::clone(batch(1).column(0))), ("n", sizes)]).unwrap();
    let other = crate::server::stream(&other).unwrap();
    assert_eq!(arrow.add(&record(&other)), Err(DecodeFailure::OtherColumns));
    let rows = arrow.take().unwrap();
    assert_eq!((rows.num_rows(), rows.num_columns()), (5, 3));
    assert!(rows.column_by_name("size").is_some() && rows.column_by_name("n").is_none());
    assert_eq!(arrow.add(&record(&other)), Ok(1));
    assert!(bad(&mut arrow, b"").contains("not a sound Arrow stream"));
    let bytes = arrow::array::BinaryArray::from_iter_values([b"x"]);
    let other =
        RecordBatch::try_from_iter([("TIME", Arc::clone(batch(1).column(0))), ("n", Arc::new(bytes) as _)]).unwrap();
    assert_eq!(bad(&mut arrow, &crate::server::stream(&other).unwrap()), "size: no column holds Binary");
}

/// Each column counted the bytes of all columns, so that records of many columns were refused.
#[test]
fn records_of_many_columns_count_each_byte_once() {
    let mut arrow = decoder("arrow", "");
    let narrow = batch(20_000);
    let mut columns = vec![("time".to_owned(), Arc::clone(narrow.column(0)))];
    columns.extend((0..40).map(|number| (format!("level {number}"), Arc::clone(narrow.column(2)))));
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    assert_eq!(arrow.add(&record(&crate::server::stream(&rows).unwrap())), Ok(20_000));
    assert!((41 * 160_000..42 * 160_000).contains(&arrow.bytes()), "{}", arrow.bytes());
    arrow.take().unwrap();
    assert_eq!(arrow.bytes(), 0);
}

/// The limit was looked at once a message was unpacked.
#[test]
fn records_that_unpack_to_too_much_are_refused_before() {
    // 72 MB in fewer rows than a record may have.
    let numbers: arrow::array::ArrayRef = Arc::new(Int64Array::from_value(0, 3_000_000));
    let columns = ["time", "size", "price"].map(|name| (name, Arc::clone(&numbers)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let options = arrow::ipc::writer::IpcWriteOptions::default()
        .try_with_compression(Some(arrow::ipc::CompressionType::ZSTD))
        .unwrap();
    let mut writer =
        arrow::ipc::writer::StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    assert_eq!(bad(&mut decoder("arrow", ""), &bytes), "more than 4194304 rows or 67108864 bytes in a record");
}

/// Their keys ended at 127 when those of several records came together.
#[test]
fn dictionaries_of_many_records_fit_together() {
    let mut arrow = decoder("arrow", "");
    for first in [0, 100, 200] {
        let symbols: Vec<String> = (first..first + 100).map(|symbol| format!("S{symbol}")).collect();
        let symbols: DictionaryArray<Int8Type> = symbols.iter().map(String::as_str).collect();
        let rows =
            RecordBatch::try_from_iter([("time", Arc::clone(batch(100).column(0))), ("sym", Arc::new(symbols) as _)]);
        assert_eq!(arrow.add(&record(&crate::server::stream(&rows.unwrap()).unwrap())), Ok(100));
    }
    let rows = arrow.take().unwrap();
    let symbols = rows.column(1).as_dictionary::<Int32Type>();
    let last = symbols.values().as_string::<i32>().value(symbols.key(299).unwrap());
    assert_eq!((rows.num_rows(), last), (300, "S299"));
}
