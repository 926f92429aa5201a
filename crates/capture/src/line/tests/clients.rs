//! What clients send, as recorded from them.

use super::*;

/// questdb 6.0.0 from PyPI: `Buffer(protocol_version).row(…)`, the bytes of the buffer.
const TEXT: &[u8] =
    b"trades,symbol=BTC\\ USD,side=buy price=39269.98,n=5i,ok=t,s=\"a\\\"b\\\\c\\\nd\",ts=7t 1646762637710419000\n\
                      t2,a=x 5\n";
const BINARY: &[u8] = b"trades,symbol=BTC\\ USD,side=buy price==\x10\xc3\xf5(\\\xbf,\xe3@,n=5i,ok=t,s=\"a\\\"b\\\\c\\\nd\",ts=7t \
                        1646762637710419000n\n\
                        t2,a=x 5n\n\
                        t3 arr==\x0e\n\x01\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x04@,n=9n 5t\n\
                        t4 arr==\x0e\n\x02\x02\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x04@\
                        \x00\x00\x00\x00\x00\x00\x08@\x00\x00\x00\x00\x00\x00\x10@ 5t\n";

#[test]
fn the_official_questdb_client_is_read_in_all_protocol_versions() {
    let (text, errors) = decode(TEXT);
    assert_eq!(errors, []);
    let (binary, errors) = decode(BINARY);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].reason.to_string().contains("several dimensions"));
    for batches in [&text, &binary] {
        let trades = &batches[0].rows;
        assert_eq!(column(trades, "time"), ["1646762637710419000"]);
        assert_eq!(column(trades, "symbol"), ["BTC USD"]);
        assert_eq!(column(trades, "price"), ["39269.98"]);
        assert_eq!(column(trades, "s"), ["a\"b\\c\nd"]);
        assert_eq!(column(trades, "ts"), ["7000"]);
        assert_eq!(column(&batches[1].rows, "time"), ["5"]);
    }
    assert_eq!(column(&binary[2].rows, "arr"), ["[1.0, 2.5]"]);
    assert_eq!(column(&binary[2].rows, "time"), ["5000"]);
}

/// Cryptofeed `backends/quest.py`, its own formats filled in.
#[test]
fn cryptofeeds_questdb_back_end_is_read() {
    let trades = table(
        "trades-COINBASE,symbol=BTC-USD,side=buy,type=None price=39269.98,amount=0.011,id=288345i,receipt_timestamp=1646762637710419t \
         1646762637709000000\n\
         trades-COINBASE,symbol=BTC-USD,side=sell,type=None price=39270.0,amount=1.0,receipt_timestamp=1646762637710420t \
         1646762637709000001\n",
    );
    assert_eq!(trades.table, "trades-COINBASE");
    assert_eq!(column(&trades.rows, "id"), ["288345", "-"]);
    assert_eq!(column(&trades.rows, "receipt_timestamp"), ["1646762637710419000", "1646762637710420000"]);
    let candles = table(
        "candles-BINANCE,symbol=BTC-USDT,interval=1m start=1646762580.0,stop=1646762639.9,open=1.5,close=2,high=2.5,low=1.0,\
         volume=10.25,timestamp=1646762639999000064i,receipt_timestamp=1646762640000000t 1646762640123456000\n",
    );
    assert_eq!(column(&candles.rows, "timestamp"), ["1646762639999000064"]);
    let funding = table(
        "funding-X,symbol=BTC mark_price=1.5,rate=1e-05,next_funding_time=None,predicted_rate=None,receipt_timestamp=1t 5\n",
    );
    assert_eq!(names(&funding.rows), ["time", "symbol", "mark_price", "rate", "receipt_timestamp"]);
}

/// Cryptofeed `backends/influxdb.py`: one line for each request, without a line feed.
#[test]
fn cryptofeeds_influxdb_back_end_is_read() {
    let settings = LineSettings { precision: super::super::Precision::Microseconds, ..LineSettings::default() };
    let line = "trades-COINBASE,symbol=BTC-USD side=\"buy\",price=39269.98,amount=0.011,id=\"288345\",type=\"None\",\
                timestamp=1646762637.709,receipt_timestamp=1646762637.710419 1646762637710419";
    let (batches, errors) = decode_with(settings, line.as_bytes());
    assert_eq!(errors, []);
    assert_eq!(column(&batches[0].rows, "time"), ["1646762637710419000"]);
    assert_eq!(column(&batches[0].rows, "timestamp"), ["1646762637.709"]);
}
