//! Topics by the beginning of their names, with what Cryptofeed's back end for Kafka writes (2.4, `TradeKafka`): a topic for each exchange and
//! symbol.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};

use crate::broker::{Broker, produce};
use crate::processes::{Feed, Server, eventually};
use crate::{DAY, together};

const TYPES: &str = "time:timestamp,received:timestamp,exchange:symbol,symbol:symbol,side:symbol,amount:float64,price:decimal(20,8),id:text";

fn settings(broker: &Broker, server: &Server) -> String {
    format!(
        "name = \"crypto\"\n[server]\nurl = \"{}\"\n[kafka]\nbrokers = \"{}\"\n[dead_letters]\nfile = \"dead.jsonl\"\n\
         [[topic]]\nname = \"trades-*\"\ntable = \"trade\"\nformat = \"json\"\ntime_unit = \"s\"\nstart = \"latest\"\n\
         create = {{ types = \"{TYPES}\", time = \"time\", symbol = \"symbol\" }}\n\
         [topic.columns]\ntime = \"timestamp\"\nreceived = \"receipt_timestamp\"\nexchange = \"exchange\"\nsymbol = \"symbol\"\n\
         side = \"side\"\namount = \"amount\"\nprice = \"price\"\nid = \"id\"\n",
        server.url(),
        broker.address()
    )
}

/// `Trade.to_dict` by `json.dumpb`, with floats or texts for numbers.
fn trade(id: u64, exchange: &str, is_text: bool) -> String {
    let second = DAY / 1_000 + id;
    let (price, id) = match is_text {
        true => (format!("\"{}.00000001\"", 16_000 + id), format!("\"{id}\"")),
        false => (format!("{}.5", 16_000 + id), "null".to_owned()),
    };
    format!(
        "{{\"exchange\":\"{exchange}\",\"symbol\":\"BTC-USD\",\"side\":\"buy\",\"amount\":0.00012,\"price\":{price},\"id\":{id},\
         \"type\":null,\"timestamp\":{second}.123456,\"receipt_timestamp\":{second}.2345678}}"
    )
}

#[test]
fn topics_of_cryptofeed_are_read_by_the_beginning_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let Some((broker, server)) = together(folder.path()) else { return };
    let producer = broker.producer();
    let send = |exchange: &str, ids: std::ops::Range<u64>, is_text: bool| {
        let texts: Vec<String> = ids.map(|id| trade(id, exchange, is_text)).collect();
        produce(&producer, &format!("trades-{exchange}-BTC-USD"), texts.iter().map(|text| (0, text.as_bytes())));
    };
    send("COINBASE", 0..10, false);
    let mut feed = Feed::new(folder.path(), &settings(&broker, &server));
    feed.start();
    let last = |topic: &str| {
        let answer = server.http.get(&format!("/api/v1/write?producer=kafka%2Fcrypto%2F{topic}%2F0"));
        answer.ok().and_then(|answer| answer.json["sequence"].as_u64())
    };
    // The feed begins behind what there is, and does so after a kill, before its first row.
    eventually("the beginning is stored", || last("trades-COINBASE-BTC-USD") == Some(10));
    feed.kill();
    send("COINBASE", 10..20, true);
    // A topic that has come to a feed that was there before is read from its first record.
    send("KRAKEN", 20..25, false);
    feed.start();
    eventually("all rows are there", || server.number("select count(*) from trade") >= 15);
    assert!(feed.stop(), "{}", feed.log());
    let row = server.row("select count(*), count(distinct exchange), sum(price)::text, max(time)::text, max(received)::text, count(id) from trade");
    let row: Vec<String> =
        row.unwrap().iter().map(|value| value.as_str().map_or(value.to_string(), str::to_owned)).collect();
    // Ten prices with a hundred millionth, five with a half.
    let sum = (10..25).map(|id| 16_000 + id).sum::<u64>() + 2;
    assert_eq!(row[..3], ["15", "2", &format!("{sum}.50000010")]);
    assert!(row[3].contains("00:00:24.123456") && row[4].contains("00:00:24.2345678"), "{row:?}");
    assert_eq!(row[5], "10");
    assert!(feed.dead().is_empty());
}

#[test]
fn dead_letters_in_a_topic_say_where_they_are_from() {
    let folder = tempfile::tempdir().unwrap();
    let Some((broker, server)) = together(folder.path()) else { return };
    let settings = settings(&broker, &server).replace("file = \"dead.jsonl\"", "topic = \"trades-dead\"");
    let settings = settings.replace("start = \"latest\"", "start = \"earliest\"");
    let texts = [trade(0, "A", false), "no JSON".to_owned(), trade(1, "A", false)];
    produce(&broker.producer(), "trades-A", texts.iter().map(|text| (0, text.as_bytes())));
    let mut feed = Feed::new(folder.path(), &settings);
    feed.start();
    eventually("all rows are there", || server.number("select count(*) from trade") == 2);
    assert!(feed.stop(), "{}", feed.log());
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address()).set("group.id", "test").set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().unwrap();
    consumer.subscribe(&["trades-dead"]).unwrap();
    let mut letters = Vec::new();
    eventually("the dead letter is there", || {
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { return false };
        let headers = message.headers().unwrap();
        letters = headers.iter().map(|header| String::from_utf8(header.value.unwrap().to_vec()).unwrap()).collect();
        letters.push(String::from_utf8(message.payload().unwrap().to_vec()).unwrap());
        true
    });
    assert_eq!(letters[..3], ["trades-A", "0", "1"]);
    assert!(letters[3].starts_with("expected ident at line 1") && letters[4] == "no JSON", "{letters:?}");
}
