//! Rows over HTTP.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::ipc::writer::StreamWriter;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::{Served, request, trades};

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn arrow_streams_are_stored_and_acknowledged() {
    let served = Served::new();
    let body = stream(&[trades(0, 10), trades(10, 5)]);
    let answer = served.post("/api/v1/write?table=trade&ack=process", &[], &body);
    assert_eq!(
        answer.json(),
        serde_json::json!({
            "sequence": 1, "class": "process", "rows": 15, "duplicate": false, "quarantined": 0, "duplicate_rows": 0
        })
    );
    assert_eq!(served.ingest.rows("trade"), 15);
    assert_eq!(served.post("/api/v1/write?table=trade", &[], &body).json()["class"], "disk");
    let packed = served.post("/api/v1/write?table=trade", &[("content-encoding", "gzip")], &gzip(&body));
    assert_eq!(packed.json()["rows"], 15);
    assert_eq!(served.ingest.rows("trade"), 45);
}

#[test]
fn a_message_sent_twice_is_stored_once() {
    let served = Served::new();
    let body = stream(&[trades(0, 10)]);
    let path = "/api/v1/write?table=trade&producer=feed&sequence=7";
    assert_eq!(served.post(path, &[], &body).json()["duplicate"], false);
    assert_eq!(served.post(path, &[], &body).json()["duplicate"], true);
    assert_eq!(served.ingest.rows("trade"), 10);
    assert_eq!(served.post("/api/v1/write?table=trade&producer=feed", &[], &body).code(), "bad_request");
}

#[test]
fn a_message_that_follows_on_another_number_than_the_last_is_refused() {
    let served = Served::new();
    let (body, line) = (stream(&[trades(0, 10)]), b"time,sym\n2026-01-02T14:30:00Z,A\n");
    let write = |more: &str| served.post(&format!("/api/v1/write?table=trade&producer=feed&{more}"), &[], &body);
    let csv =
        |more: &str| served.post(&format!("/api/v1/write?table=trade&producer=feed&format=csv&{more}"), &[], line);
    assert_eq!(write("sequence=15&previous=0").json()["duplicate"], false);
    let late = write("sequence=20&previous=9");
    assert_eq!((late.status, late.code().as_str()), (409, "conflict"));
    assert_eq!(late.json()["retryable"], false);
    assert!(late.text().contains("the last number of producer \\\"feed\\\" is 15"), "{}", late.text());
    assert_eq!(csv("sequence=20&previous=9").code(), "conflict");
    assert_eq!(write("sequence=15&previous=0").json()["duplicate"], true);
    assert_eq!(csv("sequence=25&previous=15").json()["duplicate"], false);
    assert_eq!(served.ingest.rows("trade"), 11);
    assert_eq!(served.post("/api/v1/write?table=trade&previous=15", &[], &body).code(), "bad_request");
}

#[test]
fn what_can_not_be_stored_is_refused() {
    let served = Served::new();
    let body = stream(&[trades(0, 10)]);
    for (path, body, status, code) in [
        ("/api/v1/write", &body[..], 400, "bad_request"),
        ("/api/v1/write?table=../etc", &body, 400, "rejected"),
        ("/api/v1/write?table=trade&ack=soon", &body, 400, "bad_request"),
        ("/api/v1/write?table=trade&tabel=x", &body, 400, "bad_request"),
        ("/api/v1/write?table=trade", b"", 400, "bad_request"),
        ("/api/v1/write?table=trade", b"not arrow at all", 400, "bad_request"),
        ("/api/v1/write?table=trade", &body[..body.len() / 2], 400, "bad_request"),
    ] {
        let answer = served.post(path, &[], body);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path}: {}", answer.text());
    }
    let answer = served.post("/api/v1/write?table=trade", &[], &stream(&[trades(0, 1).project(&[1, 2]).unwrap()]));
    assert_eq!(answer.code(), "rejected");
    served.ingest.be_full(1);
    let full = served.post("/api/v1/write?table=trade", &[], &body);
    assert_eq!((full.status, full.code().as_str()), (503, "full"));
    assert_eq!(full.json()["retryable"], true);
    assert_eq!(served.ingest.rows("trade"), 0);
}

#[test]
fn text_is_stored_line_by_line_and_once() {
    let served = Served::new();
    let path = "/api/v1/write?table=trade&types=time:timestamp,sym:symbol,price:float64&producer=file";
    let body = b"time,sym,price\n1,IBM,1.5\nnonsense\n2,AIG,2\n";
    let report = served.post(path, &[("content-type", "text/csv; charset=utf-8")], body).json();
    assert_eq!(
        (report["rows"].as_u64(), report["refused"].as_u64(), report["last_line"].as_u64()),
        (Some(2), Some(1), Some(4))
    );
    assert_eq!(report["errors"], serde_json::json!([{ "line": 3, "reason": "it has 1 fields, not 3" }]));
    assert_eq!(served.ingest.rejected(), ["text: table \"trade\": line 3: it has 1 fields, not 3"]);
    assert_eq!(served.post(path, &[("content-type", "text/csv")], &gzip(body)).code(), "bad_request");
    let packed = [("content-type", "text/csv"), ("content-encoding", "gzip")];
    assert_eq!(served.post(path, &packed, &gzip(body)).json()["duplicate"], true);
    let rest = "/api/v1/write?table=trade&format=ndjson&producer=file&line=5&unit=ms";
    assert_eq!(served.post(rest, &[], b"{\"time\": 3, \"sym\": null}").json()["last_line"], 5);
    assert_eq!(served.ingest.rows("trade"), 3);
    let last = |name: &str| served.get(&format!("/api/v1/write?producer={name}")).json()["sequence"].as_u64();
    assert_eq!((last("file"), last("other")), (Some(5), None));
}

#[test]
fn a_table_is_what_the_sender_says_or_the_rows_are_refused() {
    let served = Served::new();
    let body = stream(&[trades(0, 10)]);
    let code = |query: &str| served.post(&format!("/api/v1/write?table=trade&{query}"), &[], &body).code();
    assert_eq!(code("create=false"), "not_found");
    assert_eq!(code("time=price"), "rejected");
    assert_eq!(code("time_zone=Mars"), "rejected");
    assert_eq!(code("columns=a"), "bad_request");
    assert_eq!(served.ingest.rows("trade"), 0);
    assert_eq!(served.post("/api/v1/write?table=trade&time=time&symbol=sym", &[], &body).status, 200);
    assert_eq!(served.post("/api/v1/write?table=trade&create=false", &[], &body).status, 200);
    assert_eq!(code("symbol=price"), "rejected");
    assert_eq!(served.ingest.rows("trade"), 20);
}

#[test]
fn line_protocol_comes_by_both_of_influxdb_s_paths() {
    let served = Served::new();
    let lines = b"trade,sym=IBM price=1.5 1\ntrade,sym=AIG price=2 2\nquote,sym=AIG price=3 3\n";
    let answer = served.post("/api/v2/write?org=o&bucket=b&precision=us", &[("authorization", "Token any")], lines);
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.text());
    let answer = served.post("/write?db=d&precision=n", &[("content-encoding", "gzip")], &gzip(lines));
    assert_eq!(answer.status, 204);
    assert_eq!((served.ingest.rows("trade"), served.ingest.rows("quote")), (4, 2));
    // More than the decoder holds at once, and no line feed at the end.
    let many = "trade,sym=IBM price=1 5\n".repeat(100_000);
    assert_eq!(served.post("/write", &[], many.trim_end().as_bytes()).status, 204);
    assert_eq!(served.ingest.rows("trade"), 100_004);
}

/// Without a line feed at its end a body was two batches, and beyond 65,536 rows several; after a kill some of them stood alone.
#[test]
fn a_body_of_lines_is_one_message_whatever_its_size_and_tables() {
    let served = Served::new();
    let many = "trade,sym=IBM price=1 5\nquote,sym=IBM bid=1 5\n".repeat(50_000);
    let bodies = ["trade a=1 1\ntrade a=2 2", "trade a=1 1\nquote a=2 2\nother a=1 1\n", &many, many.trim_end()];
    for (sent, body) in bodies.iter().enumerate() {
        let answer = served.post("/write", &[], body.as_bytes());
        let lines = body.lines().count().to_string();
        assert_eq!((answer.status, &answer.headers["splay-rows"]), (204, &lines));
        assert_eq!(served.ingest.messages(), sent as u64 + 1);
    }
    // Its parts are lines for the same tables: what the first made of a column, the others bring.
    let turn = format!("{}new,tag=B a=1i,b=2 2\nnew,later=A,tag=B a=1.5 3\n", "new,tag=A a=1 1\n".repeat(70_000));
    let answer = served.post("/write", &[], turn.as_bytes());
    assert_eq!((answer.status, answer.headers["splay-rows"].as_str()), (204, "70002"), "{}", answer.text());
    // None of it is stored if there is no room.
    served.ingest.be_full_later(1);
    let answer = served.post("/write", &[], b"late a=1 1\nlater a=1 1\n");
    assert_eq!((answer.status, answer.json()["retryable"].as_bool()), (503, Some(true)));
    assert_eq!((served.ingest.rows("late"), served.ingest.rows("later")), (0, 0));
}

/// That way in had no number, so that a retry stored the rows twice.
#[test]
fn lines_that_are_sent_again_with_their_number_are_stored_once() {
    let served = Served::new();
    let lines = b"trade,sym=IBM price=1 1\nquote,sym=IBM bid=1 1";
    let counts_of = |answer: crate::support::Answer| {
        assert_eq!(answer.status, 204, "{}", answer.text());
        (answer.headers["splay-duplicate"].clone(), answer.headers["splay-rows"].clone())
    };
    let counts = |duplicate: &str, rows: &str| (duplicate.to_owned(), rows.to_owned());
    let by_url = "/api/v2/write?producer=feed&sequence=1";
    assert_eq!(counts_of(served.post(by_url, &[], lines)), counts("0", "2"));
    assert_eq!(counts_of(served.post(by_url, &[], lines)), counts("1", "2"));
    let numbered = |number| [("splay-producer", "feed"), ("splay-sequence", number)];
    assert_eq!(counts_of(served.post("/write?db=d", &numbered("1"), lines)), counts("1", "2"));
    assert_eq!(counts_of(served.post("/write?db=d", &numbered("2"), lines)), counts("0", "2"));
    assert_eq!((served.ingest.rows("trade"), served.ingest.rows("quote")), (2, 2));
    assert_eq!(served.get("/api/v1/write?producer=feed").json()["sequence"], 2);
    for headers in [&numbered("2")[..1], &numbered("two")[..]] {
        assert_eq!(served.post("/write", headers, lines).status, 400);
    }
}

#[test]
fn a_producer_gives_up_messages_that_found_no_room() {
    let served = Served::new();
    let give_up = |query: &str| request(served.http(), "DELETE", &format!("/api/v1/write?{query}"), &[], b"");
    let expected = |was_missing| serde_json::json!({ "producer": "feed", "sequence": 7, "was_missing": was_missing });
    assert_eq!(give_up("producer=feed&sequence=7").json(), expected(true));
    assert_eq!(give_up("producer=feed&sequence=8").json()["was_missing"], false);
    assert_eq!(give_up("producer=feed").code(), "bad_request");
}

/// Rows too far ahead of the clock went to quarantine behind a 204 that said nothing.
#[test]
fn a_sender_of_lines_is_told_of_rows_in_quarantine() {
    let served = Served::new();
    served.ingest.quarantine(3);
    let answer = served.post("/write", &[], b"trade,sym=IBM price=1 1\n");
    assert_eq!((answer.status, answer.headers["splay-quarantined"].as_str()), (204, "3"));
    let answer = served.post("/write", &[], b"# nothing");
    assert_eq!((answer.status, answer.headers["splay-rows"].as_str()), (204, "0"));
}

/// 2.2 MB of rows that name one of many columns each took 2.4 GB of memory.
#[test]
fn rows_that_take_too_much_in_the_columns_of_their_tables_are_refused() {
    let served = Served::with("limits.rows_bytes_max = 20000000");
    let wide: Vec<String> = (0..1000).map(|column| format!("c{column}=1")).collect();
    let sparse = |rows: usize| format!("t {} 1\n{}", wide.join(","), "t c7=1 2\n".repeat(rows));
    let answer = served.post("/write", &[], sparse(3_000).as_bytes());
    assert_eq!((answer.status, answer.json()["code"].as_str()), (413, Some("request too large")), "{}", answer.text());
    assert!(answer.text().contains("limits.rows_bytes_max"), "{}", answer.text());
    assert_eq!(served.ingest.messages(), 0);
    assert_eq!(served.post("/write", &[], sparse(2_000).as_bytes()).status, 204);
}

#[test]
fn bad_lines_are_named_and_good_ones_stored() {
    let served = Served::new();
    let answer = served.post("/api/v2/write", &[], b"trade,sym=IBM price=1.5 1\nnonsense\ntrade,sym=IBM price=2 2\n");
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["code"], "invalid");
    assert!(answer.json()["message"].as_str().unwrap().starts_with("partial write: refused 1 line: line 2, byte "));
    assert!(answer.headers["x-influxdb-error"].starts_with("partial write"));
    assert_eq!(served.ingest.rows("trade"), 2);
    assert!(served.ingest.rejected()[0].starts_with("influx: line 2, byte "));
    assert_eq!(served.post("/write?precision=fortnight", &[], b"").status, 400);
}

#[test]
fn ping_answers_as_influxdb_does() {
    let served = Served::new();
    let answer = served.get("/ping");
    assert_eq!(answer.status, 204);
    assert!(answer.headers.contains_key("x-influxdb-version"));
}

#[test]
fn a_server_that_stops_closes_capture_and_takes_no_more() {
    let mut served = Served::new();
    served.post("/write", &[], b"trade,sym=IBM price=1.5 1\n");
    served.stop();
    assert!(served.ingest.is_closed());
    assert!(std::net::TcpStream::connect(served.http()).is_err());
}
