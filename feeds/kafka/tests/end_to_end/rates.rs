//! Rows per second of each format.

use std::sync::Arc;
use std::time::Instant;

use apache_avro::types::Value as Avro;
use apache_avro::writer::datum::GenericDatumWriter;
use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use serde_json::json;
use splay_kafka::server::stream;

use crate::broker::produce;
use crate::processes::{Feed, eventually};
use crate::registry::Registry;
use crate::{DAY, together};

const TYPES: &str = "time:timestamp,sym:symbol,price:float64,size:int64,id:int64";
const TRADE: &str = r#"{"type": "record", "name": "Trade", "fields": [
    {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "sym", "type": "string"},
    {"name": "price", "type": "double"}, {"name": "size", "type": "long"}, {"name": "id", "type": "long"}]}"#;

/// Rows of an Arrow record.
const ROWS: i64 = 1_000;

fn symbol(id: i64) -> String {
    format!("S{:03}", id % 500)
}

#[expect(clippy::cast_precision_loss, reason = "prices")]
fn price(id: i64) -> f64 {
    100.0 + (id % 1_000) as f64 / 4.0
}

fn json_records(count: i64) -> Vec<Vec<u8>> {
    let day = i64::try_from(DAY).unwrap();
    let record = |id: i64| {
        let (time, symbol, price, size) = (day + id / 100, symbol(id), price(id), id % 900);
        format!("{{\"time\":{time},\"sym\":\"{symbol}\",\"price\":{price},\"size\":{size},\"id\":{id}}}").into_bytes()
    };
    (0..count).map(record).collect()
}

fn avro_records(count: i64) -> Vec<Vec<u8>> {
    let day = i64::try_from(DAY).unwrap();
    let schema = apache_avro::Schema::parse_str(TRADE).unwrap();
    let writer = GenericDatumWriter::builder(&schema).build().unwrap();
    let record = |id: i64| {
        let fields = vec![
            ("time".to_owned(), Avro::TimestampMillis(day + id / 100)),
            ("sym".to_owned(), Avro::String(symbol(id))),
            ("price".to_owned(), Avro::Double(price(id))),
            ("size".to_owned(), Avro::Long(id % 900)),
            ("id".to_owned(), Avro::Long(id)),
        ];
        [vec![0, 0, 0, 0, 1], writer.write_value_to_vec(Avro::Record(fields)).unwrap()].concat()
    };
    (0..count).map(record).collect()
}

fn arrow_records(count: i64) -> Vec<Vec<u8>> {
    let day = i64::try_from(DAY).unwrap();
    let record = |number: i64| {
        let ids = number * ROWS..(number + 1) * ROWS;
        let times = ids.clone().map(|id| day + id / 100);
        let rows = RecordBatch::try_from_iter([
            ("time", Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC")) as _),
            ("sym", Arc::new(StringArray::from_iter_values(ids.clone().map(symbol))) as _),
            ("price", Arc::new(Float64Array::from_iter_values(ids.clone().map(price))) as _),
            ("size", Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id % 900))) as _),
            ("id", Arc::new(Int64Array::from_iter_values(ids)) as _),
        ]);
        stream(&rows.unwrap()).unwrap()
    };
    (0..count / ROWS).map(record).collect()
}

#[test]
#[ignore = "measures: make bench-kafka"]
fn rows_a_second() {
    let rows: i64 = std::env::var("SPLAY_KAFKA_ROWS").map_or(2_000_000, |rows| rows.parse().unwrap());
    let rows = rows / ROWS * ROWS;
    let folder = tempfile::tempdir().unwrap();
    let Some((broker, server)) = together(folder.path()) else { return };
    let answers = [("/schemas/ids/1".to_owned(), json!({ "schema": TRADE }))];
    let registry = Registry::start(answers.into());
    let formats: [(&str, fn(i64) -> Vec<Vec<u8>>); 3] =
        [("json", json_records), ("avro", avro_records), ("arrow", arrow_records)];
    for (format, records) in formats {
        let records = records(rows);
        let bytes: usize = records.iter().map(Vec::len).sum();
        let placed = records.iter().enumerate().map(|(place, record)| ((place % 3) as i32, record.as_slice()));
        produce(&broker.producer(), format, placed);
        drop(records);
        let settings = format!(
            "name = \"rate\"\non_error = \"stop\"\n[server]\nurl = \"{}\"\n[kafka]\nbrokers = \"{}\"\n[registry]\nurl = \"{}\"\n\
             [[topic]]\nname = \"{format}\"\ntable = \"{format}\"\nformat = \"{format}\"\ntime_unit = \"ms\"\n\
             create = {{ types = \"{TYPES}\", time = \"time\", symbol = \"sym\" }}\n",
            server.url(),
            broker.address(),
            registry.url
        );
        let mut feed = Feed::new(folder.path(), &settings);
        let begin = Instant::now();
        feed.start();
        let count = || server.number(&format!("select count(*) from {format}"));
        eventually("all rows are there", || count() >= rows.unsigned_abs());
        let seconds = begin.elapsed().as_secs_f64();
        assert!(feed.stop(), "{}", feed.log());
        let sums = server.row(&format!("select count(*), sum(id) from {format}")).unwrap();
        assert_eq!((sums[0].as_i64(), sums[1].as_i64()), (Some(rows), Some(rows * (rows - 1) / 2)));
        #[expect(clippy::cast_precision_loss, reason = "rates")]
        let (rate, bytes) = (rows as f64 / seconds, bytes as f64 / rows as f64);
        println!("{format:5} {rows} rows, {bytes:.1} bytes a row, {seconds:.1} s, {rate:.0} rows a second");
    }
}
