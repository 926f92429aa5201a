//! Subscriptions over WebSocket.

use std::io::{Cursor, Read, Write};
use std::net::{SocketAddr, TcpStream};

use arrow::ipc::reader::StreamReader;
use serde_json::{Value, json};

use crate::support::{Served, TRADES, connect, eventually};

const OPEN: &str = "GET /subscribe HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n\
                    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// What an upgrade is answered with.
pub fn upgrade_status(address: SocketAddr, headers: &[(&str, &str)]) -> u16 {
    let mut stream = connect(address);
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(stream, "{OPEN}host: {address}\r\n{extra}\r\n").unwrap();
    head(&mut stream).split(' ').nth(1).unwrap().parse().unwrap()
}

fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

pub struct Socket(TcpStream);

pub enum Frame {
    Text(Value),
    Binary(Vec<u8>),
    Close(u16),
}

impl Socket {
    fn open(served: &Served, ask: &Value) -> Socket {
        Socket::open_with(served, "", ask)
    }

    /// Opens one with lines of headers, each with its end.
    pub fn open_with(served: &Served, headers: &str, ask: &Value) -> Socket {
        let mut stream = connect(served.http());
        write!(stream, "{OPEN}{headers}host: {}\r\n\r\n", served.http()).unwrap();
        assert!(head(&mut stream).starts_with("HTTP/1.1 101"));
        let mut socket = Socket(stream);
        socket.send(1, ask.to_string().as_bytes());
        socket
    }

    fn send(&mut self, kind: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            small @ 0..126 => frame.push(0x80 | u8::try_from(small).unwrap()),
            large => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&u16::try_from(large).unwrap().to_be_bytes());
            }
        }
        // A mask of zeros leaves the payload as it is.
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.0.write_all(&frame).unwrap();
    }

    pub fn frame(&mut self) -> Frame {
        let mut start = [0; 2];
        self.0.read_exact(&mut start).unwrap();
        let length = match start[1] {
            126 => {
                let mut length = [0; 2];
                self.0.read_exact(&mut length).unwrap();
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.0.read_exact(&mut length).unwrap();
                u64::from_be_bytes(length)
            }
            small => u64::from(small),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut payload).unwrap();
        match start[0] & 0x0f {
            1 => Frame::Text(serde_json::from_slice(&payload).unwrap()),
            2 => Frame::Binary(payload),
            8 => Frame::Close(u16::from_be_bytes([payload[0], payload[1]])),
            other => panic!("frame {other}"),
        }
    }

    pub fn text(&mut self) -> Value {
        match self.frame() {
            Frame::Text(text) => text,
            Frame::Binary(_) | Frame::Close(_) => panic!("no text"),
        }
    }
}

fn write_lines(served: &Served, price: u32) {
    let line = format!("trade,sym=IBM price={price} {price}\n");
    assert_eq!(served.post("/write", &[], line.as_bytes()).status, 204);
}

#[test]
fn a_snapshot_comes_first_then_what_is_new() {
    let served = Served::new();
    write_lines(&served, 1);
    write_lines(&served, 2);
    let mut socket = Socket::open(&served, &json!({ "table": "trade", "format": "json" }));
    assert_eq!(socket.text(), json!({ "subscribed": "trade" }));
    let snapshot = socket.text();
    assert_eq!((&snapshot["kind"], &snapshot["sequence"]), (&json!("snapshot"), &json!(2)));
    assert_eq!(snapshot["more"], false);
    assert_eq!(snapshot["rows"][1]["sym"], "IBM");
    assert_eq!(snapshot["rows"][1]["time"], "1970-01-01T00:00:00.000000002Z");
    assert_eq!(snapshot["rows"][1]["price"], 2.0);
    write_lines(&served, 3);
    let delta = socket.text();
    assert_eq!(
        (&delta["kind"], &delta["sequence"], &delta["rows"][0]["price"]),
        (&json!("delta"), &json!(3), &json!(3.0))
    );
}

#[test]
fn arrow_frames_say_what_they_are() {
    let served = Served::new();
    write_lines(&served, 1);
    let mut socket = Socket::open(&served, &json!({ "table": "trade" }));
    socket.text();
    let Frame::Binary(frame) = socket.frame() else { panic!("no binary frame") };
    let mut reader = StreamReader::try_new(Cursor::new(frame), None).unwrap();
    assert_eq!(reader.schema().metadata()["splay.sequence"], "1");
    assert_eq!(reader.schema().metadata()["splay.kind"], "snapshot");
    assert_eq!(reader.next().unwrap().unwrap().num_rows(), 1);
}

#[test]
fn a_subscription_is_resumed_without_loss_or_repeat() {
    let served = Served::new();
    (1..=5).for_each(|price| write_lines(&served, price));
    let mut socket = Socket::open(&served, &json!({ "table": "trade", "format": "json", "after": 3 }));
    socket.text();
    assert_eq!(socket.text()["sequence"], 4);
    assert_eq!(socket.text()["sequence"], 5);
    let mut expired = Socket::open(&served, &json!({ "table": "trade", "after": 0 }));
    assert_eq!(expired.text()["code"], "gone");
}

#[test]
fn no_more_is_sent_than_there_is_credit_for() {
    let served = Served::new();
    (1..=5).for_each(|price| write_lines(&served, price));
    let mut socket = Socket::open(&served, &json!({ "table": "trade", "format": "json", "after": 1, "credit": 2 }));
    socket.text();
    assert_eq!((socket.text()["sequence"].clone(), socket.text()["sequence"].clone()), (json!(2), json!(3)));
    socket.0.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    assert!(socket.0.read(&mut [0]).is_err(), "more came than there was credit for");
    socket.0.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    socket.send(1, br#"{"credit": 1}"#);
    assert_eq!(socket.text()["sequence"], 4);
}

#[test]
fn what_is_not_a_subscription_ends_the_socket_with_a_reason() {
    let served = Served::new();
    for (ask, code) in [
        (json!({ "table": "nothing" }), "not_found"),
        (json!({ "tables": "trade" }), "bad_request"),
        (json!([1, 2, 3]), "bad_request"),
    ] {
        let mut socket = Socket::open(&served, &ask);
        assert_eq!(socket.text()["code"], code);
        assert!(matches!(socket.frame(), Frame::Close(1008)));
    }
}

#[test]
fn subscriptions_have_a_limit_and_places_come_back() {
    let served = Served::with("limits.subscriptions_max = 2");
    write_lines(&served, 1);
    let begin = || {
        let mut socket = Socket::open(&served, &json!({ "table": "trade", "format": "json" }));
        let message = socket.text();
        (socket, message)
    };
    let mut sockets: Vec<_> = (0..2).map(|_| begin()).collect();
    assert!(sockets.iter().all(|(_, message)| message["error"].is_null()));
    assert_eq!(upgrade_status(served.http(), &[]), 503, "refused, to be tried again");
    sockets.pop();
    eventually("a place comes back", || upgrade_status(served.http(), &[]) == 101);
}

#[test]
fn subscribers_are_told_that_the_server_stops() {
    let mut served = Served::new();
    write_lines(&served, 1);
    let mut socket = Socket::open(&served, &json!({ "table": "trade", "format": "json", "from": "now" }));
    socket.text();
    served.stop();
    assert_eq!(socket.text()["code"], "closed");
    assert!(matches!(socket.frame(), Frame::Close(1001)));
}

#[test]
fn a_replay_ends_and_is_the_same_each_time() {
    let served = Served::new();
    let replay = |ask: Value| {
        let mut socket = Socket::open(&served, &ask);
        assert_eq!(socket.text(), json!({ "subscribed": "trade" }));
        let mut updates = Vec::new();
        loop {
            match socket.frame() {
                Frame::Text(update) => updates.push(update),
                Frame::Close(code) => break (updates, code),
                Frame::Binary(_) => panic!("no text"),
            }
        }
    };
    let day = json!({ "date": "2026-01-01", "speed": "max" });
    let ask = json!({ "table": "trade", "format": "json", "replay": day });
    let (updates, code) = replay(ask.clone());
    assert_eq!(code, 1000);
    let kinds: Vec<_> = updates.iter().map(|update| update["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["snapshot", "delta", "delta", "delta", "delta", "end"]);
    let prices: Vec<f64> = updates
        .iter()
        .flat_map(|of| of["rows"].as_array().unwrap())
        .map(|row| row["price"].as_f64().unwrap())
        .collect();
    assert_eq!(prices, (0..TRADES).map(|price| price as f64).collect::<Vec<_>>());
    assert_eq!(replay(ask).0, updates);
    let resumed = json!({ "table": "trade", "format": "json", "replay": day, "after": 2, "columns": ["price"] });
    let (rest, _) = replay(resumed);
    assert_eq!(rest.iter().map(|update| update["sequence"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 4, 4]);
    assert_eq!(rest[0]["rows"][0], json!({ "price": 16384.0 }));
    let bars = json!({ "every": "1h", "price": "price" });
    let (bars, _) = replay(json!({ "table": "trade", "format": "json", "replay": day, "bars": bars }));
    let last = &bars[bars.len() - 2]["rows"];
    let bar =
        |at: usize| (&last[at]["sym"], &last[at]["open"], &last[at]["close"], &last[at]["count"], &last[at]["final"]);
    let count = json!(TRADES / 2);
    assert_eq!(bar(0), (&json!("AIG"), &json!(0.0), &json!(32766.0), &count, &json!(true)));
    assert_eq!(bar(1), (&json!("IBM"), &json!(1.0), &json!(32767.0), &count, &json!(true)));
}

#[test]
fn what_cannot_be_replayed_ends_the_socket_with_a_reason() {
    let served = Served::new();
    let day = json!({ "date": "2026-01-01" });
    for (ask, code) in [
        (json!({ "table": "nothing", "replay": day }), "not_found"),
        (json!({ "table": "trade", "replay": { "date": "yesterday" } }), "rejected"),
        (json!({ "table": "trade", "replay": { "speed": 1 } }), "rejected"),
        (json!({ "table": "trade", "replay": { "date": "2026-01-01", "speed": -1 } }), "rejected"),
        (json!({ "table": "trade", "replay": { "date": "2026-01-01", "speed": "slow" } }), "bad_request"),
        (json!({ "table": "trade", "replay": day, "bars": { "every": "1m", "price": "sym" } }), "rejected"),
        (json!({ "tables": ["trade", "quote"] }), "bad_request"),
    ] {
        let mut socket = Socket::open(&served, &ask);
        assert_eq!(socket.text()["code"], code, "{ask}");
        assert!(matches!(socket.frame(), Frame::Close(1008)));
    }
}

#[test]
fn a_replay_that_waits_ends_when_the_server_stops() {
    let mut served = Served::new();
    let replay = json!({ "date": "2026-01-01", "speed": 1e-15, "batch_ms": 0.000001 });
    let mut socket =
        Socket::open(&served, &json!({ "table": "trade", "format": "json", "from": "now", "replay": replay }));
    socket.text();
    assert_eq!(socket.text()["sequence"], 1);
    served.stop();
    assert_eq!(socket.text()["code"], "closed");
    assert!(matches!(socket.frame(), Frame::Close(1001)));
}
