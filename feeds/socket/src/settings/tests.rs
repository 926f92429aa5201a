//! Settings that are taken, and those that would let others in or break a promise.

use super::*;

const SOUND: &str = r#"
name = "desk"
[server]
url = "http://127.0.0.1:7750"
[dead_letters]
file = "dead.jsonl"
[[feed]]
name = "venue"
url = "wss://venue.example/ws"
send = ['{"subscribe": "trades"}']
ignore = [{ type = ["ack", "heartbeat"] }, { id = 1, ok = true }]
[[feed.table]]
name = "trade"
when = { type = "trade*" }
columns = { time = "t", sym = "^s", price = "0", received = "$received" }
constants = { venue = "v" }
"#;

fn refused(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from));
    Settings::parse(&SOUND.replace(from, to)).unwrap_err()
}

#[test]
fn sound_settings_are_taken() {
    let settings = Settings::parse(SOUND).unwrap();
    let feed = &settings.feeds[0];
    assert_eq!(feed.ignore[0]["type"], Texts(vec!["ack".to_owned(), "heartbeat".to_owned()]));
    assert_eq!((&feed.ignore[1]["id"].0[0], &feed.ignore[1]["ok"].0[0]), (&"1".to_owned(), &"true".to_owned()));
    let columns = &feed.tables[0].columns;
    assert_eq!(columns["time"], Source::Row("t".to_owned()));
    assert_eq!((&columns["sym"], &columns["received"]), (&Source::Message("s".to_owned()), &Source::Received));
    assert_eq!((feed.when_full(), feed.memory_bytes_max, feed.message_bytes_max), (WhenFull::Wait, 64 << 20, 1 << 20));
    assert_eq!(settings.producer("venue", 0, "trade", "r"), "feed/desk/venue/0.trade/r");
}

#[test]
fn only_this_machine_may_send() {
    let url = "url = \"wss://venue.example/ws\"\nsend = ['{\"subscribe\": \"trades\"}']";
    let at = |place: &str| Settings::parse(&SOUND.replace(url, &format!("listen = \"{place}\"")));
    for place in ["tcp://127.0.0.1:9000", "udp://[::1]:9000", "zmq://127.8.0.1:9000", "unix:/run/feed.sock"] {
        at(place).unwrap();
    }
    for place in ["tcp://0.0.0.0:9000", "udp://10.0.0.1:9000", "zmq://[::]:9000"] {
        let reason = at(place).unwrap_err();
        assert!(reason.contains("is reached by others") && reason.contains("no token"), "{reason}");
    }
    for place in ["tcp://localhost:9000", "9000", "http://127.0.0.1:1", "unix:", "tcp://127.0.0.1"] {
        assert!(at(place).unwrap_err().contains("is no place to listen at"), "{place}");
    }
    assert_eq!(at("udp://127.0.0.1:1").unwrap().feeds[0].when_full(), WhenFull::Drop);
    let public = refused("[dead_letters]", "[metrics]\nlisten = \"0.0.0.0:9\"\n[dead_letters]");
    assert!(public.contains("loopback"), "{public}");
}

#[test]
fn contradictory_settings_are_refused() {
    for (from, to, reason) in [
        ("wss://venue", "https://venue", "neither with ws://"),
        ("wss://venue", "wss://user:secret@venue", "has a user in it"),
        ("url = \"wss", "listen = \"tcp://127.0.0.1:1\"\nurl = \"wss", "give url, or listen"),
        ("url = \"wss://venue.example/ws\"", "listen = \"tcp://127.0.0.1:1\"", "are for a url"),
        ("name = \"venue\"", "name = \"a/b\"", "without /"),
        ("http://127", "ftp://127", "server.url"),
        ("\"$received\"", "\"$nothing\"", "no source of a column"),
        ("constants = { venue", "constants = { price", "in columns and in constants"),
        ("constants", "values = { side = { a = \"b\" } }\nconstants", "no column \"side\""),
        ("constants", "batch = { rows = 0 }\nconstants", "a batch has one row"),
        ("url = \"wss", "message_bytes_max = \"17M\"\nurl = \"wss", "message_bytes_max"),
        ("url = \"wss", "memory_bytes_max = 1\nurl = \"wss", "1M at least"),
        ("url = \"wss", "reconnect = true\nurl = \"wss", "unknown field"),
        ("file = \"dead.jsonl\"", "", "missing field `file`"),
        ("name = \"venue\"", &format!("name = \"{}\"", "x".repeat(250)), "too long"),
    ] {
        let message = refused(from, to);
        assert!(message.contains(reason), "{message}");
    }
    assert!(!refused("wss://venue", "wss://user:secret@venue").contains("secret"));
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("feed.toml");
    std::fs::write(&file, SOUND.replace("url = \"wss", "ca_file = \"ca.pem\"\nurl = \"wss")).unwrap();
    let settings = Settings::read(&file).unwrap();
    assert_eq!(settings.dead_letters.file, folder.path().join("dead.jsonl"));
    assert_eq!(settings.feeds[0].ca_file, Some(folder.path().join("ca.pem")));
}
