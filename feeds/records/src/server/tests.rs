//! Answers of the server, and descriptions of tables.

use serde_json::json;

use super::*;

fn answer(status: u16, json: Value) -> HttpResponse {
    HttpResponse { status, retry_after: Some(Duration::from_secs(3)), json }
}

#[test]
fn only_what_the_server_says_for_good_is_not_sent_again() {
    let of = |status, code: &str| reply(&answer(status, json!({ "error": "why", "code": code })));
    let stored =
        json!({ "sequence": 1, "class": "disk", "rows": 2, "duplicate": true, "quarantined": 1, "duplicate_rows": 2 });
    assert_eq!(reply(&answer(200, stored)), Reply::Stored { is_repeat: true, quarantined: 1, duplicate_rows: 2 });
    assert_eq!(of(409, "conflict"), Reply::Conflict("why".to_owned()));
    assert_eq!(of(400, "rejected"), Reply::Rejected("why".to_owned()));
    assert_eq!(of(413, "too_large"), Reply::TooLarge("why".to_owned()));
    assert!(matches!(of(400, "bad_request"), Reply::Failed(_)));
    for (status, code) in [
        (503, "full"),
        (503, "busy"),
        (503, "closed"),
        (504, "unconfirmed"),
        (408, "too_slow"),
        (500, "internal"),
        (401, "unauthorized"),
        (403, "forbidden"),
        (403, "read_only"),
        (404, "not_found"),
    ] {
        assert!(matches!(of(status, code), Reply::Retry { after: Some(after), .. } if after.as_secs() == 3), "{code}");
    }
    // Of something that stands between, or is another server.
    for other in [answer(200, json!({})), answer(502, Value::Null), answer(302, Value::Null)] {
        assert!(matches!(reply(&other), Reply::Retry { .. }), "{other:?}");
    }
}

fn create(types: &str) -> Result<Vec<Column>, String> {
    let create = CreateSettings {
        types: types.to_owned(),
        time: "time".to_owned(),
        symbol: String::new(),
        time_zone: None,
        day_start: None,
    };
    columns_to_be(&create)
}

#[test]
fn tables_are_described_by_the_server_or_by_the_settings() {
    let columns = create("time:timestamp, price:decimal(18,4),book:levels(20)").unwrap();
    let described = json!({ "name": "t", "time": "time", "columns": [
        { "name": "time", "type": "timestamp" }, { "name": "price", "type": "decimal(18,4)" }, { "name": "book", "type": "levels(20)" }] });
    assert_eq!(columns_of(&described).unwrap(), columns);
    assert!(columns[0].is_time && !columns[1].is_time);
    assert!(
        columns_of(&json!({ "name": "instrument", "time": null, "columns": [] })).unwrap_err().contains("has no time")
    );
    assert!(create("price:float64").unwrap_err().contains("\"time\", the time, is no timestamp"));
    assert!(create("time").unwrap_err().contains("is no name:type"));
}
