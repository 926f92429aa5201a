//! The first offsets of partitions.

use super::*;

fn topic(more: &str) -> TopicSettings {
    let text = format!(
        "name = 'f'\non_error = 'stop'\n[server]\nurl = 'http://x'\n[kafka]\nbrokers = 'x'\n[[topic]]\nname = 't'\ntable = 't'\nformat = 'json'\n{more}"
    );
    Settings::parse(&text).unwrap().topics.remove(0)
}

#[test]
fn a_partition_begins_where_the_server_is() {
    let begin = PartitionStart { first: 10, end: 90, last: Some(40), group: Some(30) };
    assert_eq!(begin.next(&topic(""), topic("").start), Ok(40));
    assert_eq!(PartitionStart { last: Some(10), ..begin }.next(&topic(""), topic("").start), Ok(10));
    assert_eq!(PartitionStart { last: Some(90), ..begin }.next(&topic(""), topic("").start), Ok(90));
    let new = PartitionStart { last: None, group: None, ..begin };
    assert_eq!(new.next(&topic(""), topic("").start), Ok(10));
    assert_eq!(new.next(&topic("start = 'latest'"), topic("start = 'latest'").start), Ok(90));
}

#[test]
fn starts_that_would_lose_or_double_rows_are_refused() {
    let begin = PartitionStart { first: 10, end: 90, last: None, group: Some(30) };
    assert!(begin.next(&topic(""), topic("").start).unwrap_err().contains("is it the right database?"));
    assert_eq!(begin.next(&topic("forgotten = 'group'"), topic("forgotten = 'group'").start), Ok(30));
    assert_eq!(begin.next(&topic("forgotten = 'start'"), topic("forgotten = 'start'").start), Ok(10));
    let gap = PartitionStart { last: Some(5), ..begin };
    assert!(gap.next(&topic(""), topic("").start).unwrap_err().starts_with("records 5 to 9 are gone from Kafka"));
    assert_eq!(gap.next(&topic("on_gap = 'skip'"), topic("on_gap = 'skip'").start), Ok(10));
    assert!(
        PartitionStart { last: Some(91), ..begin }.next(&topic(""), topic("").start).unwrap_err().contains("made anew")
    );
}

#[test]
fn librdkafka_takes_what_it_is_told() {
    let text = "name = 'f'\non_error = 'stop'\n[server]\nurl = 'http://x'\n[kafka]\nbrokers = 'x:1'\nproperties = { 'security.protocol' = 'SASL_SSL', \
                'sasl.mechanism' = 'SCRAM-SHA-512', 'sasl.username' = 'u' }\nsecrets = { 'sasl.password' = 'PATH' }\n\
                [[topic]]\nname = 't'\ntable = 't'\nformat = 'json'";
    let feeds = |text: &str| {
        let metrics = Arc::new(Metrics::new("splay_kafka", "topic"));
        Feeds::new(Settings::parse(text).unwrap(), metrics, Arc::default())
    };
    assert!(feeds(text).is_ok());
    let error = feeds(&text.replace("SCRAM-SHA-512", "SCRUM")).unwrap_err();
    assert!(error.contains("SASL mechanism: SCRUM"), "{error}");
    assert!(feeds(&text.replace("PATH", "SPLAY_NO_SUCH_VARIABLE")).unwrap_err().contains("SPLAY_NO_SUCH_VARIABLE"));
}

#[test]
fn waits_end_once_they_are_to() {
    let stop = StopSignal::default();
    assert!(stop.wait(Duration::ZERO));
    assert!(!stop.wait_unless(Duration::from_secs(600), || true));
    stop.set();
    assert!(stop.is_set() && stop.wait(Duration::ZERO));
    stop.urge();
    assert!(!stop.wait(Duration::from_secs(600)));
}
