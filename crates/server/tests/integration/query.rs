//! Statements over HTTP.

use std::io::{Cursor, Write};
use std::time::{Duration, Instant};

use arrow::ipc::reader::StreamReader;
use serde_json::json;

use crate::support::{Served, TRADES, connect};

/// A statement that takes longer than any test waits.
pub const LONG: &str = "select sum(a.price * b.price * c.price) from trade a, trade b, trade c";

#[test]
fn an_answer_comes_in_every_format() {
    let served = Served::new();
    let sql = "select sym, count(*) as n, max(price) as high from trade group by sym order by sym";
    let json = served.query(sql).json();
    assert_eq!(json["columns"][0], serde_json::json!({ "name": "sym", "type": "symbol" }));
    assert_eq!(json["rows"], serde_json::json!([["AIG", TRADES / 2, 32766.0], ["IBM", TRADES / 2, 32767.0]]));
    assert_eq!(json["row_count"], 2);

    let csv = served.post("/query?format=csv", &[], sql.as_bytes());
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
    assert_eq!(csv.text(), "sym,n,high\nAIG,16384,32766.0\nIBM,16384,32767.0\n");

    let lines = served.post("/query", &[("accept", "application/x-ndjson")], sql.as_bytes());
    assert_eq!(lines.text().lines().next(), Some(r#"{"sym":"AIG","n":16384,"high":32766.0}"#));

    let arrow = served.post("/query", &[("accept", "application/vnd.apache.arrow.stream")], sql.as_bytes());
    let batches: Vec<_> = StreamReader::try_new(Cursor::new(arrow.body), None).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
}

#[test]
fn whole_tables_come_whole() {
    let served = Served::new();
    let csv = served.post("/query?format=csv", &[], b"select * from trade");
    assert!(csv.whole);
    assert_eq!(csv.text().lines().count() as i64, TRADES + 1);
    let json = served.query("select time, price from trade").json();
    assert_eq!(json["rows"].as_array().unwrap().len() as i64, TRADES);
    assert_eq!(json["rows"][0][0], "2026-01-01T00:00:00Z");
    let arrow = served.post("/query?format=arrow", &[], b"select * from trade");
    let batches = StreamReader::try_new(Cursor::new(arrow.body), None).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows() as i64).sum::<i64>(), TRADES);
}

#[test]
fn an_empty_answer_still_has_its_columns() {
    let served = Served::new();
    let sql = "select sym, price from trade where price < 0";
    assert_eq!(served.query(sql).json()["rows"], serde_json::json!([]));
    assert_eq!(served.query(sql).json()["columns"][1]["name"], "price");
    assert_eq!(served.post("/query?format=csv", &[], sql.as_bytes()).text(), "sym,price\n");
    assert_eq!(served.post("/query?format=ndjson", &[], sql.as_bytes()).text(), "");
    let arrow = served.post("/query?format=arrow", &[], sql.as_bytes());
    assert_eq!(StreamReader::try_new(Cursor::new(arrow.body), None).unwrap().count(), 0);
}

#[test]
fn statements_come_in_every_form() {
    let served = Served::new();
    let count = |answer: crate::support::Answer| answer.json()["rows"][0][0].as_i64();
    assert_eq!(count(served.get("/query?query=select%20count(*)%20from%20trade")), Some(TRADES));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(count(served.post("/query", &form, b"query=select+count(*)+from+trade%3B")), Some(TRADES));
    // What InfluxDB's clients do before they write, by URL and by form.
    let json = [("content-type", "application/json")];
    for answer in [
        served.post("/query?q=CREATE+DATABASE+%22ticks%22&db=", &json, b""),
        served.post("/query", &form, b"q=create%20database%20ticks"),
    ] {
        assert_eq!((answer.status, answer.json()), (200, json!({ "results": [{ "statement_id": 0 }] })));
    }
    assert_eq!(served.post("/query", &form, b"q=show+databases").code(), "unsupported");
    assert_eq!(served.post("/query", &json, b"").code(), "bad_request");
    // As `curl -d` sends it.
    assert_eq!(count(served.post("/query", &form, b"select count(*) from trade;")), Some(TRADES));
    let json = [("content-type", "application/json")];
    let body = br#"{"sql": "select count(*) from trade where sym = $sym and price < $most", "params": {"sym": "IBM", "most": 10}}"#;
    assert_eq!(count(served.post("/query", &json, body)), Some(5));
    let body = br#"{"sql": "select count(*) from trade where sym = $1 and price < $2", "params": ["IBM", 10.5]}"#;
    assert_eq!(count(served.post("/query", &json, body)), Some(5));
    let url = "/query?query=select%20count(*)%20from%20trade%20where%20sym%20%3D%20%241&params=%5B%22IBM%22%5D";
    assert_eq!(count(served.get(url)), Some(TRADES / 2));
    // A whole number without a sign keeps its digits: as a float it equals its neighbour.
    let body =
        br#"{"sql": "select count(*) from trade where $1 > 9223372036854775808", "params": [9223372036854775809]}"#;
    assert_eq!(count(served.post("/query", &json, body)), Some(TRADES));
}

#[test]
fn what_is_wrong_with_a_statement_is_said_with_a_code() {
    let served = Served::new();
    for (sql, status, code) in [
        ("selec 1", 400, "statement"),
        ("select nothing from trade", 400, "statement"),
        ("select * from quote", 404, "not_found"),
        ("create table t (a nonsense)", 400, "statement"),
        ("drop table quote", 404, "not_found"),
        ("insert into trade values (1)", 400, "statement"),
        ("set a.b = 1", 403, "read_only"),
        ("copy trade to '/tmp/x.parquet'", 400, "statement"),
        ("create external table t stored as csv location '/etc/passwd'", 400, "statement"),
        ("select count(*) from trade where sym = $1", 400, "statement"),
        ("", 400, "bad_request"),
    ] {
        let answer = served.query(sql);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{sql}: {}", answer.text());
        assert_eq!(answer.json()["retryable"], false);
    }
    // Files are not tables, and no function reads one.
    for sql in [
        "select * from '/etc/passwd'",
        "select * from read_csv('/etc/passwd')",
        "select * from \"/etc/passwd.csv\"",
        "copy trade from '/etc/passwd'",
        "copy trade (sym) from '/etc/passwd'",
    ] {
        let answer = served.query(sql);
        assert!(answer.status == 400 || answer.status == 404, "{sql}: {}", answer.text());
        assert!(!answer.text().contains("root:"), "{sql}");
    }
    assert_eq!(served.get("/query?query=select%201&format=xml").code(), "bad_request");
    assert_eq!(served.post("/query", &[("content-type", "application/json")], b"{\"sql\": 1}").code(), "bad_request");
    assert_eq!(served.post("/query", &[("content-type", "text/plain")], b"\xff\xfe").code(), "bad_request");
}

/// A value that can't be computed was answered as a fault of the server, with 500.
#[test]
fn a_value_that_can_not_be_computed_is_the_statements_matter() {
    let served = Served::new();
    for sql in [
        "select 1 / 0",
        "select 1 % (price - price)::bigint from trade",
        "select interval 'soon'",
        "select cast('soon' as interval)",
        "select cast(sym as timestamp) from trade",
        "select cast(300 as tinyint)",
        "select price from trade order by price limit -1",
    ] {
        let answer = served.query(sql);
        assert!((400..500).contains(&answer.status), "{sql}: {} {}", answer.status, answer.text());
        assert!(["execution", "statement"].contains(&answer.code().as_str()), "{sql}: {}", answer.text());
    }
}

/// Nothing told of a full disk but the refusals themselves.
#[test]
fn a_full_disk_is_told_to_who_asks_whether_the_server_is_ready() {
    let served = Served::new();
    served.ingest.be_full_later(1);
    let ready = || (served.get("/ready").status, served.get("/ready").json()["status"].as_str().map(str::to_owned));
    assert_eq!(ready(), (200, Some("full".to_owned())));
    assert_eq!(served.get("/ready").json()["reason"], "there is no room for rows");
    assert_eq!(served.post("/write", &[], b"trade a=1 1").status, 503);
    assert_eq!(ready(), (200, Some("ready".to_owned())));
}

#[test]
fn metrics_tell_what_ran_statements_and_what_they_read() {
    let served = Served::new();
    assert_eq!(served.query("select count(*), max(price) from trade").status, 200);
    assert_eq!(served.query("select random() from trade limit 1").status, 200);
    let metrics = served.get("/metrics").text().to_owned();
    for line in [
        "splay_statements_run_by_total{run_by=\"tick_plan\"} 1",
        "splay_statements_run_by_total{run_by=\"datafusion\"} 1",
        "splay_tick_plans_refused_total 0",
        "splay_blocks_total{outcome=\"skipped\"}",
        "splay_rows_scanned_total ",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
}

/// 897 tables were 5.7 MB of metrics.
#[test]
fn metrics_name_so_many_tables_and_no_more() {
    let served = Served::new();
    let lines: String = (0..300).map(|table| format!("t{table} a=1 1\n")).collect();
    assert_eq!(served.post("/write", &[], lines.as_bytes()).status, 204);
    let metrics = served.get("/metrics").text().to_owned();
    let of_tables = metrics.lines().filter(|line| line.starts_with("splay_live_batches{")).count();
    assert_eq!(of_tables, 101, "a hundred tables and the others");
    assert!(metrics.contains("splay_live_batches{table=\"_other\"} 200"));
}

#[test]
fn limits_hold() {
    let served = Served::with("limits.statement_rows_max = 100\nlimits.statement_seconds_max = 1");
    let rows = served.query("select * from trade");
    assert_eq!((rows.status, rows.code().as_str()), (422, "rows"));
    let start = Instant::now();
    let time = served.query(LONG);
    assert_eq!((time.status, time.code().as_str()), (422, "time"), "{}", time.text());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let served = Served::with("limits.statement_bytes_max = 100000");
    let memory = served.query("select count(*) from trade a join trade b on a.price = b.price + 1");
    assert_eq!((memory.status, memory.code().as_str()), (422, "memory"), "{}", memory.text());
}

#[test]
fn a_statement_stops_when_its_client_goes_away() {
    let served = Served::with("limits.statements_max = 1\nlimits.statement_seconds_max = 600");
    let running = || {
        let text = served.get("/metrics").text().to_owned();
        text.lines().find_map(|line| line.strip_prefix("splay_statements_running ")?.parse::<i64>().ok()).unwrap()
    };
    let sql = LONG;
    let mut stream = connect(served.http());
    write!(stream, "POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{sql}", sql.len()).unwrap();
    crate::support::eventually("it runs", || running() == 1);
    drop(stream);
    let start = Instant::now();
    crate::support::eventually("it stopped", || running() == 0);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // Its place is free again.
    assert_eq!(served.query("select 1").status, 200);
}

/// A statement whose answer is larger than anything that lies between server and client.
pub const LARGE: &str = "select a.price, b.price as other from trade a, trade b";

#[test]
fn a_statement_stops_when_its_client_leaves_in_the_middle_of_the_answer() {
    for format in ["json", "ndjson", "csv", "arrow"] {
        let served = Served::with("limits.statements_max = 1\nlimits.statement_seconds_max = 600");
        let mut stream = connect(served.http());
        let (path, length) = (format!("/query?format={format}"), LARGE.len());
        write!(stream, "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{LARGE}").unwrap();
        let mut some = vec![0; 100_000];
        std::io::Read::read_exact(&mut stream, &mut some).unwrap();
        assert!(some.starts_with(b"HTTP/1.1 200"));
        drop(stream);
        let metric_line = "splay_statements_total{way=\"http\",outcome=\"left\"} 1";
        crate::support::eventually("it stopped", || served.get("/metrics").text().contains(metric_line));
        assert_eq!(served.query("select 1").status, 200, "its place is free again");
    }
}

#[test]
fn an_answer_that_is_read_too_slowly_breaks_off() {
    let served = Served::with("limits.statement_seconds_max = 1");
    let mut stream = connect(served.http());
    let length = LARGE.len();
    write!(stream, "POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{LARGE}").unwrap();
    let ended = "splay_statements_total{way=\"http\",outcome=\"time\"} 1";
    crate::support::eventually("its time is over", || served.get("/metrics").text().contains(ended));
    let answer = crate::support::read_answer(stream);
    assert_eq!((answer.status, answer.whole), (200, false), "no client takes a part for the whole");
}

#[test]
fn what_a_statement_may_hold_is_bounded_and_nothing_else_suffers() {
    let served = Served::with("limits.statement_bytes_max = 100000");
    for sql in [
        "select array_agg(price) from trade",
        "select count(*) from trade a join trade b on a.price = b.price + 1",
        "select count(distinct price) from trade",
    ] {
        let answer = served.query(sql);
        assert_eq!((answer.status, answer.code().as_str()), (422, "memory"), "{sql}: {}", answer.text());
    }
    assert_eq!(served.query("select count(*) from trade").json()["rows"][0][0], TRADES);
}

#[test]
fn what_all_statements_may_hold_is_bounded_too() {
    let served = Served::with("limits.statements_bytes_max = 4000000");
    let answer = served.query("select length(repeat('x', 3000000))");
    assert_eq!((answer.status, answer.code().as_str()), (503, "busy"), "{}", answer.text());
    assert!(answer.text().contains("all statements together"), "{}", answer.text());
    assert_eq!(served.query("select length(repeat('x', 1000000))").json()["rows"][0][0], 1_000_000);
    assert_eq!(served.query("select count(*) from trade").json()["rows"][0][0], TRADES);
}

#[test]
fn more_statements_than_may_wait_are_refused_as_busy() {
    let served =
        Served::with("limits.statements_max = 1\nlimits.statements_waiting_max = 0\nlimits.statement_seconds_max = 5");
    // One that has moved to the long place, and one in the short place.
    let mut all = Vec::new();
    crate::support::eventually("both run", || {
        all.push(begin(&served, "/query", LONG));
        figure(&served, "splay_statements_running") == 2
    });
    let answer = served.query("select 1");
    assert_eq!((answer.status, answer.code().as_str()), (503, "busy"));
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.json()["retryable"], true);
}

/// Sends a statement and reads nothing of its answer.
fn begin(served: &Served, path: &str, sql: &str) -> std::net::TcpStream {
    let mut stream = connect(served.http());
    let length = sql.len();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{sql}").unwrap();
    stream
}

/// A number of `/metrics` without labels.
fn figure(served: &Served, name: &str) -> i64 {
    let text = served.get("/metrics").text().to_owned();
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    number.unwrap_or_else(|| panic!("{name} in {text}"))
}

/// `select 1` waited 57 s behind long statements.
#[test]
fn a_short_statement_gets_through_while_a_long_one_holds_the_only_place() {
    let served = Served::with("limits.statements_max = 1\nlimits.statement_seconds_max = 600");
    let _long = begin(&served, "/query", LONG);
    crate::support::eventually("it runs", || figure(&served, "splay_statements_running") == 1);
    for _ in 0..3 {
        assert_eq!(served.query("select 1").status, 200);
    }
    crate::support::eventually("the long one still runs", || figure(&served, "splay_statements_running") == 1);
}

#[test]
fn a_statement_that_finds_no_long_place_is_begun_anew_in_one() {
    let served = Served::with("limits.statements_max = 1\nlimits.statement_seconds_max = 600");
    let long = begin(&served, "/query", LONG);
    crate::support::eventually("it runs", || figure(&served, "splay_statements_running") == 1);
    // Long enough to leave its short place, and with an answer that is known.
    let sql = "select count(*) as n from trade a, (select * from trade limit 8000) b where a.price + b.price >= 0";
    let other = begin(&served, "/query?format=csv", sql);
    crate::support::eventually("both run", || figure(&served, "splay_statements_running") == 2);
    // Which waits for the short place.
    assert_eq!(served.query("select 1").status, 200);
    crate::support::eventually("it was stopped", || figure(&served, "splay_statements_restarted_total") == 1);
    crate::support::eventually("it waits", || figure(&served, "splay_statements_waiting") == 1);
    drop(long);
    let answer = crate::support::read_answer(other);
    assert_eq!((answer.status, answer.whole), (200, true));
    assert_eq!(answer.text().lines().nth(1), Some((TRADES * 8_000).to_string().as_str()));
}

/// Sixteen answers that nobody read held every place for a minute.
#[test]
fn answers_that_nobody_reads_hold_no_place_and_go_on_when_they_are_read() {
    let served = Served::with("limits.statements_max = 1\nlimits.statement_seconds_max = 600");
    let rows = 200 * TRADES;
    let large = "select a.price from trade a, (select 1 from trade limit 200) b";
    let mut unread = Vec::new();
    for number in 1..4 {
        unread.push(begin(&served, "/query?format=csv", large));
        let stalled = || figure(&served, "splay_statements_stalled_total") >= number;
        crate::support::eventually("it has given its place back", stalled);
    }
    assert_eq!(served.query("select 1").status, 200);
    for stream in unread {
        let answer = crate::support::read_answer(stream);
        assert_eq!((answer.status, answer.whole), (200, true));
        assert_eq!(answer.text().lines().count() as i64, rows + 1);
    }
    crate::support::eventually("nobody waits", || figure(&served, "splay_statements_waiting") == 0);
}

#[test]
fn answers_that_nobody_reads_end_where_too_many_wait() {
    let served = Served::with(
        "limits.statements_max = 1\nlimits.statements_waiting_max = 0\nlimits.statement_seconds_max = 600",
    );
    let stream = begin(&served, "/query", LARGE);
    let ended = "splay_statements_total{way=\"http\",outcome=\"time\"} 1";
    crate::support::eventually("it ends", || served.get("/metrics").text().contains(ended));
    let answer = crate::support::read_answer(stream);
    assert_eq!((answer.status, answer.whole), (200, false));
}

/// Before, one damaged table hid all others from `/tables`, and nothing told of it but statements.
#[test]
fn a_damaged_table_is_told_and_the_rest_is_served() {
    let served = Served::new();
    assert_eq!(served.get("/ready").json()["status"], "ready");
    std::fs::remove_file(served.folder.path().join("trade/manifest/HEAD")).unwrap();
    let answer = served.query("select count(*) from trade");
    assert_eq!((answer.status, answer.code().as_str()), (500, "corrupt"));
    let ready = served.get("/ready");
    assert_eq!(
        (ready.status, &ready.json()["status"], &ready.json()["damaged_tables"]),
        (200, &"degraded".into(), &1.into())
    );
    let tables = served.get("/tables").json();
    assert_eq!(tables[0]["name"], "trade");
    assert!(tables[0]["error"].is_string() && tables[0]["rows"].is_null(), "{tables}");
    assert_eq!(served.query("select 1").status, 200);
}

#[test]
fn tables_health_and_metrics_are_told() {
    let served = Served::new();
    let tables = served.get("/tables").json();
    assert_eq!(tables[0]["name"], "trade");
    assert_eq!(tables[0]["rows"], TRADES);
    assert_eq!(tables[0]["first_date"], "2026-01-01");
    assert_eq!(served.get("/tables/trade").json()["columns"][1]["type"], "symbol");
    assert_eq!(served.get("/tables/quote").code(), "not_found");
    assert_eq!(served.get("/health").json()["status"], "pass");
    assert_eq!(served.get("/ready").status, 200);
    served.query("select 1");
    let metrics = served.get("/metrics");
    assert!(metrics.headers["content-type"].starts_with("application/openmetrics-text"));
    let text = metrics.text();
    assert!(text.ends_with("# EOF\n"));
    assert!(text.contains("splay_statements_total{way=\"http\",outcome=\"ok\"} 1"), "{text}");
    assert_eq!(served.get("/nothing").code(), "not_found");
    assert_eq!(served.post("/tables", &[], b"").status, 405);
}

/// Before, what was made of a row counted nowhere: one of 115 MB took 297.
#[test]
fn the_encoding_of_an_answer_counts_against_the_memory_of_its_statement() {
    let served = Served::with("[limits]\nstatement_bytes_max = 16777216\n");
    let sql = |times: u32| format!("select string_agg(x, '') from (select repeat(chr(1), {times}) as x from trade)");
    for format in ["json", "ndjson"] {
        let path = format!("/query?format={format}");
        assert_eq!(served.post(&path, &[], sql(1).as_bytes()).status, 200, "{format}");
        // Six bytes for each character.
        let refused = served.post(&path, &[], sql(60).as_bytes());
        assert_eq!((refused.status, refused.code().as_str()), (422, "memory"), "{format}: {}", refused.text());
    }
}

#[test]
fn a_pattern_that_cant_be_compiled_is_no_fault_of_the_server() {
    let served = Served::new();
    let refused = served.query("select count(*) from trade where sym ~ '(((a{1,100}){1,100}){1,100}){1,100}'");
    assert_eq!((refused.status, refused.code().as_str()), (422, "execution"), "{}", refused.text());
}
