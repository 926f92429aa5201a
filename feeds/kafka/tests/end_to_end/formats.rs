//! Avro by a registry, and Arrow, through a stop of the feed.

use std::collections::BTreeMap;
use std::sync::Arc;

use apache_avro::types::Value as Avro;
use apache_avro::writer::datum::GenericDatumWriter;
use arrow::array::{Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use serde_json::json;
use splay_kafka::server::stream;

use crate::broker::produce;
use crate::processes::{Feed, eventually};
use crate::registry::Registry;
use crate::{DAY, settings, together};

const QUOTE: &str = r#"{"type": "record", "name": "Last", "namespace": "px", "fields": [{"name": "last", "type": ["null", "double"]}]}"#;
const TRADE: &str = r#"{"type": "record", "name": "Trade", "fields": [
    {"name": "sym", "type": "string"}, {"name": "px", "type": "px.Last"},
    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "qty", "type": "long"}, {"name": "venue", "type": {"type": "enum", "name": "Venue", "symbols": ["A", "B"]}},
    {"name": "id", "type": "long"}]}"#;

const SUMS: &str = "select count(*), count(distinct id), sum(id), sum(size), count(price) from trade";

fn sums(server: &crate::Server) -> Vec<u64> {
    server.row(SUMS).unwrap_or_default().iter().map(|value| value.as_u64().unwrap_or(0)).collect()
}

fn expected(count: u64) -> Vec<u64> {
    vec![
        count,
        count,
        (0..count).sum(),
        (0..count).map(|id| id % 900).sum(),
        (0..count).filter(|id| id % 10 != 0).count() as u64,
    ]
}

#[test]
fn avro_is_read_by_the_registrys_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let Some((broker, server)) = together(folder.path()) else { return };
    let references = json!([{ "name": "px.Last", "subject": "last/value", "version": 3 }]);
    let registry = Registry::start(BTreeMap::from([
        ("/schemas/ids/258".to_owned(), json!({ "schema": TRADE, "references": references })),
        ("/subjects/last%2Fvalue/versions/3".to_owned(), json!({ "schema": QUOTE, "id": 1 })),
    ]));
    let more = format!("[registry]\nurl = \"{}\"\n", registry.url);
    let mut feed = Feed::new(folder.path(), &settings(&broker, &server, &more, "avro"));
    // Written by the schema as one, and read by its parts.
    let schema = apache_avro::Schema::parse_str(&TRADE.replace("\"px.Last\"", QUOTE)).unwrap();
    let datum = |id: u64| {
        let price = match id % 10 {
            0 => Avro::Union(0, Box::new(Avro::Null)),
            _ => Avro::Union(1, Box::new(Avro::Double(100.25))),
        };
        let id = i64::try_from(id).unwrap();
        let fields = vec![
            ("sym".to_owned(), Avro::String(format!("S{}", id % 7))),
            ("px".to_owned(), Avro::Record(vec![("last".to_owned(), price)])),
            ("ts".to_owned(), Avro::TimestampMillis(i64::try_from(DAY).unwrap() + id)),
            ("qty".to_owned(), Avro::Long(id % 900)),
            ("venue".to_owned(), Avro::Enum(1, "B".to_owned())),
            ("id".to_owned(), Avro::Long(id)),
        ];
        let writer = GenericDatumWriter::builder(&schema).build().unwrap();
        let datum = writer.write_value_to_vec(Avro::Record(fields)).unwrap();
        [vec![0, 0, 0, 1, 2], datum].concat()
    };
    let producer = broker.producer();
    let send = |ids: std::ops::Range<u64>| {
        let records: Vec<Vec<u8>> = ids.map(datum).collect();
        produce(
            &producer,
            "trades",
            records.iter().enumerate().map(|(place, bytes)| (place as i32 % 3, bytes.as_slice())),
        );
    };
    send(0..5_000);
    produce(
        &producer,
        "trades",
        [(0, &b"\0\0\0\0\x07abc"[..]), (0, b"{\"id\": 1}"), (1, b"\0\0\0\x01\x02\x0a")].into_iter(),
    );
    feed.start();
    eventually("the first rows are there", || sums(&server) == expected(5_000));
    assert!(feed.stop(), "{}", feed.log());
    send(5_000..9_000);
    feed.start();
    eventually("all rows are there", || sums(&server) == expected(9_000));
    assert!(feed.stop(), "{}", feed.log());
    let mut reasons: Vec<String> =
        feed.dead().iter().map(|letter| letter["reason"].as_str().unwrap().to_owned()).collect();
    reasons.sort();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons[0].starts_with("it doesn't begin as Confluent's Avro does"), "{reasons:?}");
    assert!(reasons[1].starts_with("schema 7: the registry answers 404"), "{reasons:?}");
    assert_eq!(reasons[2], "the datum ends too early");
}

#[test]
fn arrow_streams_are_rows_of_any_number() {
    let folder = tempfile::tempdir().unwrap();
    let Some((broker, server)) = together(folder.path()) else { return };
    let settings = settings(&broker, &server, "", "arrow").replace("price = \"px.last\"", "price = \"px\"");
    let mut feed = Feed::new(folder.path(), &settings);
    let batch = |ids: std::ops::Range<u64>, is_narrow: bool| {
        let ids: Vec<i64> = ids.map(|id| i64::try_from(id).unwrap()).collect();
        let times = ids.iter().map(|id| i64::try_from(DAY).unwrap() + id);
        let sizes: arrow::array::ArrayRef = match is_narrow {
            true => Arc::new(ids.iter().map(|id| Some(i32::try_from(id % 900).unwrap())).collect::<Int32Array>()),
            false => Arc::new(ids.iter().map(|id| Some(id % 900)).collect::<Int64Array>()),
        };
        RecordBatch::try_from_iter([
            ("sym", Arc::new(ids.iter().map(|id| Some(format!("S{}", id % 7))).collect::<StringArray>()) as _),
            ("ts", Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC")) as _),
            ("px", Arc::new(ids.iter().map(|id| (id % 10 != 0).then_some(100.25)).collect::<Float64Array>()) as _),
            ("qty", sizes),
            ("id", Arc::new(Int64Array::from(ids)) as _),
        ])
        .unwrap()
    };
    let producer = broker.producer();
    let records: Vec<Vec<u8>> =
        (0..90).map(|number| stream(&batch(number * 100..number * 100 + 100, number % 4 == 3)).unwrap()).collect();
    let lacks = stream(&batch(0..3, false).project(&[0, 2, 3, 4]).unwrap()).unwrap();
    produce(&producer, "trades", records.iter().enumerate().map(|(place, bytes)| (place as i32 % 3, bytes.as_slice())));
    produce(&producer, "trades", [(0, &records[0][..200]), (0, lacks.as_slice())].into_iter());
    feed.start();
    eventually("all rows are there", || sums(&server) == expected(9_000));
    eventually("all letters are there", || feed.dead().len() == 2);
    assert!(feed.stop(), "{}", feed.log());
    let dead = feed.dead();
    assert!(dead[0]["reason"].as_str().unwrap().starts_with("not a sound Arrow stream"), "{dead:?}");
    assert_eq!(dead[1]["reason"].as_str().unwrap(), "time: every row needs a time");
    assert!(dead[0]["value_base64"].is_string());
}
