//! Messages of venues, as their documentation shows them, by the recipes of docs/guide/feeds.md; and messages that are damaged.

use std::sync::LazyLock;

use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, Int32Type, TimestampNanosecondType};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::counts::FeedCounts;
use crate::settings::Settings;

const GUIDE: &str = include_str!("../../../../docs/guide/feeds.md");

const TRADE: &str = r#"{"stream":"bnbbtc@trade","data":{"e":"trade","E":1672515782136,"s":"BNBBTC","t":12345,"p":"0.001","q":"100","T":1672515782136,"m":true,"M":true}}"#;
const TICKER: &str = r#"{"stream":"bnbusdt@bookTicker","data":{"u":400900217,"s":"BNBUSDT","b":"25.35190000","B":"31.21000000","a":"25.36520000","A":"40.66000000"}}"#;
const MATCH: &str = r#"{"type":"match","trade_id":10,"sequence":50,"maker_order_id":"ac928c66-ca53-498f-9c13-a110027a60e8","taker_order_id":"132fb6ae-456b-4654-b4e0-d681ac05cea1","time":"2014-11-07T08:19:27.028459Z","product_id":"BTC-USD","size":"5.23512","price":"400.23","side":"sell"}"#;
const KRAKEN: &str = r#"{"channel":"trade","type":"update","data":[{"symbol":"MATIC/USD","side":"sell","price":0.5117,"qty":40.0,"ord_type":"market","trade_id":4665906,"timestamp":"2023-09-25T07:49:37.708706Z"},{"symbol":"MATIC/USD","side":"buy","price":0.5118,"qty":1e-8,"ord_type":"limit","trade_id":4665907,"timestamp":"2023-09-25T07:49:38.1Z"}]}"#;

/// The settings of the guide that have a feed of this name.
fn guide(feed: &str) -> FeedSettings {
    let blocks = GUIDE.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap());
    let name_line = format!("name = \"{feed}\"");
    let text = blocks.into_iter().find(|block| block.contains(&name_line)).unwrap();
    let head = "name = 'x'\n[server]\nurl = 'http://x'\n[dead_letters]\nfile = 'd'\n";
    let text = if text.contains("[server]") { text.to_owned() } else { format!("{head}{text}") };
    Settings::parse(&text).unwrap().feeds.into_iter().find(|feed_settings| feed_settings.name == feed).unwrap()
}

/// The columns that a table of settings is made with.
fn columns(table: &TableSettings) -> Vec<Column> {
    let create = table.create.as_ref().unwrap();
    let column = |text: &str| {
        let (name, kind) = text.split_once(':').unwrap();
        Column { name: name.to_owned(), kind: kind.parse().unwrap(), unit: None, is_time: name == create.time }
    };
    create.types.split(',').map(column).collect()
}

struct RoutedFeed {
    router: Router,
    feed: FeedSettings,
    decoders: Vec<Decoder>,
    counts: Arc<FeedCounts>,
    next: u64,
}

impl RoutedFeed {
    fn new(feed: FeedSettings) -> RoutedFeed {
        let counts = Arc::new(FeedCounts::default());
        let decoder = |table: &TableSettings| {
            let gaps = Arc::new(Mutex::new(GapDetector::new(table.name.clone(), Arc::clone(&counts))));
            Decoder::new(Recipe::new(&feed.name, table, &columns(table)).unwrap(), gaps)
        };
        let decoders = feed.tables.iter().map(decoder).collect();
        RoutedFeed { router: Router::new(&feed).unwrap(), feed, decoders, counts, next: 0 }
    }

    /// Routes a message and adds it to its table, which it names.
    fn add(&mut self, key: Option<&str>, text: &[u8]) -> Result<String, String> {
        let key = key.map(str::as_bytes);
        match self.router.route(key, text)? {
            Route::Table(place) => {
                let record = Record { offset: self.next, time_ns: Some(1_500), key, payload: Some(text) };
                self.next += 1;
                match self.decoders[place].add(&record) {
                    Ok(rows) => Ok(format!("{} {rows}", self.feed.tables[place].name)),
                    Err(DecodeFailure::Invalid(reason) | DecodeFailure::Unavailable(reason)) => Err(reason),
                    Err(DecodeFailure::OtherColumns) => Err("other".to_owned()),
                }
            }
            other => Ok(format!("{other:?}")),
        }
    }

    fn rows(&mut self, place: usize) -> RecordBatch {
        self.decoders[place].take().unwrap()
    }
}

fn texts(rows: &RecordBatch, name: &str) -> Vec<String> {
    let column = rows.column_by_name(name).unwrap().as_dictionary::<Int32Type>();
    let values = column.values().as_string::<i32>();
    column.keys().iter().map(|key| values.value(usize::try_from(key.unwrap()).unwrap()).to_owned()).collect()
}

fn floats(rows: &RecordBatch, name: &str) -> Vec<f64> {
    rows.column_by_name(name).unwrap().as_primitive::<Float64Type>().values().to_vec()
}

fn times(rows: &RecordBatch, name: &str) -> Vec<i64> {
    rows.column_by_name(name).unwrap().as_primitive::<TimestampNanosecondType>().values().to_vec()
}

#[test]
fn binances_trades_and_best_quotes() {
    let mut tried = RoutedFeed::new(guide("binance"));
    assert_eq!(tried.add(None, br#"{"result":null,"id":1}"#).unwrap(), "Ignored");
    assert_eq!(tried.add(None, br#"{"error":{"code":2,"msg":"Invalid request"},"id":1}"#).unwrap(), "Failed");
    assert_eq!(tried.add(None, TRADE.as_bytes()).unwrap(), "trade 1");
    assert_eq!(tried.add(None, TICKER.as_bytes()).unwrap(), "quote 1");
    assert_eq!(tried.add(None, TRADE.replace("\"t\":12345", "\"t\":12349").as_bytes()).unwrap(), "trade 1");
    assert_eq!((tried.counts.gaps.get(), tried.counts.missing_numbers.get()), (1, 3));
    let rows = tried.rows(0);
    assert_eq!(times(&rows, "ts_event"), [1_672_515_782_136_000_000; 2]);
    assert_eq!(
        (texts(&rows, "symbol"), texts(&rows, "side")),
        (vec!["BNBBTC".to_owned(); 2], vec!["sell".to_owned(); 2])
    );
    assert_eq!((floats(&rows, "price"), floats(&rows, "size")), (vec![0.001; 2], vec![100.0; 2]));
    let ids: Vec<_> = rows.column_by_name("trade_id").unwrap().as_string::<i32>().iter().flatten().collect();
    assert_eq!(ids, ["12345", "12349"]);
    let quotes = tried.rows(1);
    // Binance gives its best quotes no time.
    assert_eq!((times(&quotes, "ts_event"), texts(&quotes, "venue")), (vec![1_500], vec!["binance".to_owned()]));
    assert_eq!((floats(&quotes, "bid_price"), floats(&quotes, "ask_size")), (vec![25.3519], vec![40.66]));
}

#[test]
fn coinbases_matches_have_the_side_of_the_aggressor() {
    let mut tried = RoutedFeed::new(guide("coinbase"));
    for ignored in [
        r#"{"type":"subscriptions","channels":[{"name":"matches","product_ids":["BTC-USD"]}]}"#,
        r#"{"type":"heartbeat","sequence":90,"last_trade_id":20,"product_id":"BTC-USD","time":"2014-11-07T08:19:28.464459Z"}"#,
        &MATCH.replace("\"match\"", "\"last_match\""),
    ] {
        assert_eq!(tried.add(None, ignored.as_bytes()).unwrap(), "Ignored");
    }
    assert_eq!(
        tried
            .add(None, br#"{"type":"error","message":"Failed to subscribe","reason":"BTC-XX is not a valid product"}"#)
            .unwrap(),
        "Failed"
    );
    assert_eq!(tried.add(None, MATCH.as_bytes()).unwrap(), "trade 1");
    let rows = tried.rows(0);
    assert_eq!(times(&rows, "ts_event"), [1_415_348_367_028_459_000]);
    // The message has the side of the maker.
    assert_eq!((texts(&rows, "side"), floats(&rows, "price")), (vec!["buy".to_owned()], vec![400.23]));
}

#[test]
fn krakens_trades_come_several_at_a_time() {
    let mut tried = RoutedFeed::new(guide("kraken"));
    for ignored in [
        r#"{"channel":"status","type":"update","data":[{"version":"2.0.0","system":"online","api_version":"v2","connection_id":8628615390848610222}]}"#,
        r#"{"method":"subscribe","result":{"channel":"trade","snapshot":false,"symbol":"MATIC/USD"},"success":true,"time_in":"2023-09-25T09:04:31.742599Z","time_out":"2023-09-25T09:04:31.742648Z"}"#,
        r#"{"channel":"heartbeat"}"#,
        r#"{"method":"pong","time_in":"2023-09-24T14:10:23.799685Z","time_out":"2023-09-24T14:10:23.799703Z"}"#,
    ] {
        assert_eq!(tried.add(None, ignored.as_bytes()).unwrap(), "Ignored", "{ignored}");
    }
    let refused =
        r#"{"error":"Currency pair not supported FOO/BAR","method":"subscribe","success":false,"symbol":"FOO/BAR"}"#;
    assert_eq!(tried.add(None, refused.as_bytes()).unwrap(), "Failed");
    assert_eq!(tried.add(None, KRAKEN.as_bytes()).unwrap(), "trade 2");
    assert_eq!(tried.counts.gaps.get(), 0);
    let rows = tried.rows(0);
    assert_eq!(times(&rows, "ts_event"), [1_695_628_177_708_706_000, 1_695_628_178_100_000_000]);
    assert_eq!(
        (texts(&rows, "side"), floats(&rows, "size")),
        (vec!["sell".to_owned(), "buy".to_owned()], vec![40.0, 1e-8])
    );
    // One row that is none takes the message with it: it is a dead letter as a whole.
    let bad = KRAKEN.replace("0.5118", "\"x\"");
    assert_eq!(tried.add(None, bad.as_bytes()).unwrap_err(), "price: \"x\" is no float64");
    assert_eq!(tried.rows(0).num_rows(), 0);
}

#[test]
fn rows_may_be_arrays_and_keys_may_say_what_they_are() {
    let text = r#"
name = 'x'
[server]
url = 'http://x'
[dead_letters]
file = 'd'
[[feed]]
name = "bitfinex"
listen = "zmq://127.0.0.1:1"
[[feed.table]]
name = "trade"
when = { "1" = "te" }
rows = "2"
columns = { time = "1", price = "3", sym = "$key", chan = "^0" }
time_unit = "ms"
create = { types = "time:timestamp,price:float64,sym:symbol,chan:int64", time = "time" }
[[feed.table]]
name = "keyed"
when = { "$key" = "*-trades-*" }
rows = "all"
columns = { time = "0", price = "1" }
time_unit = "s"
create = { types = "time:timestamp,price:float64", time = "time" }
"#;
    let feed = Settings::parse(text).unwrap().feeds.remove(0);
    let mut tried = RoutedFeed::new(feed);
    assert_eq!(tried.add(Some("tBTC"), b"[17, \"te\", [401597395, 1574694478808, 0.005, 7245.3]]").unwrap(), "trade 1");
    assert_eq!(tried.add(Some("A-trades-B"), b"{\"all\": [[1, 2], [3, 4], [5, 6]]}").unwrap(), "keyed 3");
    assert_eq!(tried.add(Some("A-trades-B"), b"{\"all\": []}").unwrap(), "keyed 0");
    assert_eq!(tried.add(Some("A-trades-B"), b"{\"all\": [1, 2]}").unwrap(), "keyed 1");
    assert_eq!(tried.add(Some("A-ticker-B"), b"{\"all\": [[1, 2]]}").unwrap(), "Unknown");
    assert!(tried.add(Some("A-trades-B"), b"{\"all\": 7}").unwrap_err().contains("neither an object nor an array"));
    assert!(tried.add(Some("A-trades-B"), b"{}").unwrap_err().contains("no rows where they should be"));
    assert!(tried.add(Some("A-trades-B"), b"{\"all\": [[null, 2]]}").unwrap_err().contains("every row needs a time"));
    let rows = tried.rows(0);
    assert_eq!((texts(&rows, "sym"), floats(&rows, "price")), (vec!["tBTC".to_owned()], vec![7245.3]));
    assert_eq!(times(&tried.rows(1), "time"), [1_000_000_000, 3_000_000_000, 5_000_000_000, 1_000_000_000]);
}

#[test]
fn columns_and_times_must_be_there() {
    let mut feed = guide("kraken");
    let table = columns(&feed.tables[0]);
    feed.tables[0].columns.remove("ts_event");
    assert!(Recipe::new("f", &feed.tables[0], &table).unwrap_err().contains("nothing is given for the time"));
    assert!(Recipe::new("f", &feed.tables[0], &table[..2]).unwrap_err().contains("has no column"));
}

#[test]
fn stars_stand_for_any_characters() {
    for (text, pattern) in [
        ("btc@trade", "*@trade"),
        ("a", "*"),
        ("", "*"),
        ("abc", "a*c"),
        ("abcbc", "a*bc"),
        ("a-b-c", "a*b*c"),
        ("x", "x"),
    ] {
        assert!(is_like(text, pattern), "{text} {pattern}");
    }
    for (text, pattern) in [("btc@trades", "*@trade"), ("a", "a*a"), ("ab", "b*"), ("abc", "a*d*c"), ("xy", "x")] {
        assert!(!is_like(text, pattern), "{text} {pattern}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// Bytes of a message changed, cut or doubled: rows, or a reason. What decodes makes a batch.
    #[test]
    fn damaged_messages_are_rows_or_have_a_reason(
        which in 0_usize..4,
        changes in prop::collection::vec((0_usize..400, prop::sample::select(&b"{}[]\":,.0e-\\ \xff\x00nt"[..])), 1..6),
        cut in 0_usize..800,
    ) {
        let (name, text) = [("binance", TRADE), ("binance", TICKER), ("coinbase", MATCH), ("kraken", KRAKEN)][which];
        let mut bytes = text.as_bytes().to_vec();
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        bytes.truncate(cut);
        static FEEDS: LazyLock<BTreeMap<&str, FeedSettings>> =
            LazyLock::new(|| ["binance", "coinbase", "kraken"].into_iter().map(|name| (name, guide(name))).collect());
        let mut tried = RoutedFeed::new(FEEDS[name].clone());
        if let Ok(outcome) = tried.add(None, &bytes) {
            prop_assert!(outcome != "Other");
        }
        for decoder in &mut tried.decoders {
            let rows = decoder.rows();
            prop_assert_eq!(decoder.take().unwrap().num_rows(), rows);
        }
    }
}
