//! Settings that are taken, and settings that would break a promise.

use std::time::Duration;

use super::*;
use crate::http_client::HttpClient;

const SOUND: &str = r#"
name = "desk"
[server]
url = "http://127.0.0.1:7750"
[kafka]
brokers = "a:9092"
memory_bytes_max = "64M"
properties = { "security.protocol" = "SASL_SSL" }
secrets = { "sasl.password" = "KAFKA_PASSWORD" }
[dead_letters]
file = "dead.jsonl"
[[topic]]
name = "trades"
table = "trade"
format = "json"
columns = { time = "$timestamp", price = "data.px" }
"#;

fn refused(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from));
    Settings::parse(&SOUND.replace(from, to)).unwrap_err()
}

#[test]
fn sound_settings_are_taken() {
    let settings = Settings::parse(SOUND).unwrap();
    assert_eq!(settings.kafka.memory_bytes_max, 64 << 20);
    assert_eq!(settings.producer("trades", 3), "kafka/desk/trades/3");
    assert_eq!(settings.group(), "splay-kafka-desk");
    assert_eq!(settings.topics[0].columns["price"], Source::Field("data.px".to_owned()));
    assert_eq!(settings.topics[0].batch, BatchSettings::default());
    assert_eq!(
        (settings.on_error, settings.dead_letters.in_a_row_max),
        (OnError::Skip, ConsecutiveBadRecordsMax(1_000))
    );
}

#[test]
fn settings_that_would_break_a_promise_are_refused() {
    for (from, to, reason) in [
        ("name = \"desk\"", "name = \"a/b\"", "without /"),
        ("name = \"desk\"", "name = \"desk\"\nspeed = 1", "unknown field `speed`"),
        ("[dead_letters]\nfile = \"dead.jsonl\"", "", "or on_error = \"stop\""),
        ("file = \"dead.jsonl\"", "topic = \"trades\"", "is read by this feed"),
        ("\"security.protocol\" = \"SASL_SSL\"", "\"sasl.password\" = \"x\"", "is a secret"),
        ("\"security.protocol\" = \"SASL_SSL\"", "\"auto.offset.reset\" = \"latest\"", "is set by splay-kafka"),
        ("\"64M\"", "\"64X\"", "is no size"),
        ("\"64M\"", "1000", "1M at least"),
        ("format = \"json\"", "format = \"avro\"", "needs a [registry]"),
        ("\"$timestamp\"", "\"$time\"", "is no source of a column"),
        ("http://127", "127", "neither with http://"),
        ("http://127", "http://ann:secret@127", "server.url has a user in it"),
        ("name = \"trades\"", "name = \"tr*des\"", "one * behind it"),
        ("format = \"json\"", "format = \"json\"\nbatch = { rows = 0 }", "one row"),
        ("format = \"json\"", "format = \"json\"\nbatch = { bytes = \"64M\" }", "at most 32M"),
        ("[dead_letters]", "[metrics]\nlisten = \"0.0.0.0:9464\"\n[dead_letters]", "reached by others"),
        ("[[topic]]", "[[topic]]\nname = \"trades\"\ntable = \"x\"\nformat = \"json\"\n[[topic]]", "is there twice"),
    ] {
        let message = refused(from, to);
        assert!(message.contains(reason), "{to}: {message}");
    }
    let long = format!("name = \"{}\"", "x".repeat(240));
    assert!(refused("name = \"desk\"", &long).contains("longer than 256 bytes"));
}

#[test]
fn secrets_are_in_no_text_of_the_settings() {
    let client = HttpClient::new(
        &Access {
            url: "http://x".to_owned(),
            token_env: Some("PATH".to_owned()),
            user: None,
            password_env: None,
            ca_file: None,
        },
        Duration::from_secs(1),
    );
    let path = std::env::var("PATH").unwrap();
    assert!(!format!("{:?}", client.unwrap()).contains(&path));
    assert!(crate::http_client::secret("SPLAY_NO_SUCH_VARIABLE").unwrap_err().contains("SPLAY_NO_SUCH_VARIABLE"));
}

#[test]
fn the_guides_examples_are_sound() {
    let guide = include_str!("../../../../docs/guide/kafka.md");
    let blocks = guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let (head, _) = SOUND.split_once("[[topic]]").unwrap();
    let mut topics = Vec::new();
    for block in blocks {
        let whole = if block.starts_with("name") { block.to_owned() } else { format!("{head}{block}") };
        topics.extend(Settings::parse(&whole).unwrap().topics.into_iter().map(|topic| topic.name));
    }
    assert_eq!(topics, ["trades", "trades-*", "quotes"]);
}
