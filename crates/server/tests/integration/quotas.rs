//! Quotas of roles: what each way in refuses or slows down, by which words, and that no row is lost or doubled by it.

use std::io::Write;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use serde_json::json;
use tonic::{Code, Request};

use crate::flight::{messages, with_channel};
use crate::postgres::{Client, code};
use crate::query::{LARGE, LONG};
use crate::subscribe::{Socket, upgrade_status};
use crate::support::{Answer, connect, eventually, request, trades};
use crate::users::{Desk, with_token};

/// A desk with PostgreSQL's wire.
fn desk(settings: &str) -> Desk {
    Desk::with(&format!("postgres.address = \"127.0.0.1:0\"\n{settings}"))
}

fn client(desk: &Desk, user: &str, password: &str) -> Client {
    let mut client = Client::open(&desk.served, &format!("user\0{user}\0"));
    assert_eq!(client.read().unwrap().0, 'R');
    client.send(b'p', &[password.as_bytes(), b"\0"].concat());
    client.set_up();
    client
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

fn is_refused(answer: &Answer, status: u16, code: &str, quota: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
    assert!(answer.text().contains(&format!("quota {quota}")), "{}", answer.text());
}

/// What `/metrics` says of a quota.
fn refusals(desk: &Desk, quota: &str) -> u64 {
    let (metrics, name) =
        (desk.get("/metrics", &desk.admin), format!("splay_quota_refusals_total{{quota=\"{quota}\"}} "));
    metrics.text().lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
}

#[test]
fn answers_have_the_rows_of_the_quota_or_none() {
    let desk = desk("");
    desk.run("alter role desk set (statement_rows_max = 100)");
    let quota = "statement_rows_max of role desk";
    is_refused(&desk.query(&desk.reader, "select * from trade"), 422, "rows", quota);
    assert_eq!(desk.query(&desk.reader, "select * from trade limit 100").status, 200);
    let mut reader = client(&desk, "reader", "a word");
    assert_eq!(reader.fails("select * from trade"), "54000");
    assert_eq!(reader.fails("copy trade to stdout"), "54000");
    assert_eq!(code(&reader.query("select * from trade limit 100")), None);
    with_channel(&desk.served, |channel| async {
        let mut client = FlightSqlServiceClient::new(channel);
        client.set_token(desk.reader.clone());
        let info = client.execute("select * from trade".to_owned(), None).await.unwrap();
        let ticket = with_token(&client, &info);
        let refused = client.inner_mut().do_get(ticket).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().contains(quota), "{}", refused.message());
    });
    assert_eq!(refusals(&desk, "statement_rows_max"), 4);
    // Nobody else is held to it, and from the next statement on nobody is.
    assert_eq!(desk.query(&desk.admin, "select * from trade").status, 200);
    desk.run("alter role desk reset (statement_rows_max)");
    assert_eq!(desk.query(&desk.reader, "select * from trade").status, 200);
    assert_eq!(code(&reader.query("select * from trade")), None);
}

#[test]
fn the_widest_of_his_roles_holds_and_never_above_the_server() {
    let desk = desk("limits.statement_rows_max = 200\n");
    let answer_text = || desk.query(&desk.reader, "select * from trade").text().to_owned();
    desk.run("alter role desk set (statement_rows_max = 50)");
    desk.run("alter user reader set (statement_rows_max = 10)");
    assert!(answer_text().contains("more than 50 rows") && answer_text().contains("of role desk"), "{}", answer_text());
    desk.run("alter user reader set (statement_rows_max = 60)");
    assert!(
        answer_text().contains("more than 60 rows") && answer_text().contains("of role reader"),
        "{}",
        answer_text()
    );
    desk.run("alter user reader set (statement_rows_max = 1000000)");
    assert!(answer_text().contains("more than 200 rows") && !answer_text().contains("quota"), "{}", answer_text());
    // A superuser has none, whatever his roles have.
    desk.run("alter user admin set (statement_rows_max = 1)");
    assert_eq!(desk.query(&desk.admin, "select * from trade limit 2").status, 200);
}

#[test]
fn statements_have_the_memory_and_the_time_of_the_quota() {
    let desk = desk("");
    desk.run("alter role desk set (statement_bytes_max = '1M', statement_seconds_max = 1)");
    let large = "select max(length(repeat(cast(sym as varchar), 200))) as n from trade";
    let memory = "statement_bytes_max of role desk";
    is_refused(&desk.query(&desk.reader, large), 422, "memory", memory);
    is_refused(&desk.query(&desk.reader, LONG), 422, "time", "statement_seconds_max of role desk");
    let mut reader = client(&desk, "reader", "a word");
    assert_eq!((reader.fails(large), reader.fails(LONG)), ("53200".to_owned(), "57014".to_owned()));
    assert_eq!(desk.query(&desk.admin, large).status, 200);
    let counted = || (refusals(&desk, "statement_bytes_max"), refusals(&desk, "statement_seconds_max"));
    eventually("all are counted", || counted() == (2, 2));
}

#[test]
fn so_many_statements_run_at_a_time_over_all_ways_in() {
    let desk = desk("limits.statement_seconds_max = 600\n");
    desk.run("alter role desk set (statements_max = 1)");
    // A client that reads nothing keeps its statement.
    let mut stream = connect(desk.served.http());
    let (authorization, length) = (bearer(&desk.reader), LARGE.len());
    write!(stream, "POST /query HTTP/1.1\r\nhost: localhost\r\n{authorization}content-length: {length}\r\n\r\n{LARGE}")
        .unwrap();
    std::io::Read::read_exact(&mut stream, &mut [0; 1000]).unwrap();
    let refused = desk.query(&desk.reader, "select 1");
    is_refused(&refused, 503, "busy", "statements_max of role desk is 1");
    assert_eq!((refused.headers["retry-after"].as_str(), &refused.json()["retryable"]), ("1", &json!(true)));
    assert_eq!(refused.json()["quota"], "statements_max of role desk");
    let mut reader = client(&desk, "reader", "a word");
    assert_eq!(reader.fails("select 1"), "53300");
    with_channel(&desk.served, |channel| async {
        let mut client = FlightSqlServiceClient::new(channel);
        client.set_token(desk.reader.clone());
        // What runs has a place, not what is described.
        let info = client.execute("select 1".to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let refused = client.do_get(ticket).await.err().expect("refused");
        assert!(refused.to_string().contains("statements_max of role desk"));
    });
    // Others have theirs, and one that has ended is none.
    assert_eq!(desk.query(&desk.admin, "select 1").status, 200);
    drop(stream);
    eventually("its statement ended", || desk.query(&desk.reader, "select 1").status == 200);
    for _ in 0..20 {
        assert_eq!(code(&reader.query("select 1")), None, "whoever has the answer may ask again");
    }
    assert!(refusals(&desk, "statements_max") >= 3);
}

#[test]
fn so_many_subscriptions_run_at_a_time() {
    let mut desk = desk("audit.log = \"changes\"\n");
    desk.run("alter role desk set (subscriptions_max = 1)");
    let ask = json!({ "table": "trade", "format": "json" });
    let follow = |token: &str| Socket::open_with(&desk.served, &bearer(token), &ask);
    let mut first = follow(&desk.reader);
    assert_eq!(first.text(), json!({ "subscribed": "trade" }));
    let authorization = format!("Bearer {}", desk.reader);
    let headers = [("authorization", authorization.as_str())];
    assert_eq!(upgrade_status(desk.served.http(), &headers), 503);
    with_channel(&desk.served, |channel| async {
        let mut request = Request::new(futures::stream::empty::<arrow_flight::FlightData>());
        request.metadata_mut().insert("authorization", authorization.parse().unwrap());
        let refused = FlightServiceClient::new(channel).do_exchange(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(refused.message().contains("quota subscriptions_max of role desk is 1"), "{}", refused.message());
    });
    assert_eq!(follow(&desk.admin).text(), json!({ "subscribed": "trade" }));
    assert_eq!(refusals(&desk, "subscriptions_max"), 2);
    drop(first);
    eventually("a place comes back", || upgrade_status(desk.served.http(), &headers) == 101);
    desk.served.stop();
    let folder = splay_store::audit::folder_of(desk.served.folder.path());
    let storage = splay_store::storage::LocalStorage::new(folder);
    let (mut denied, filter) = (0, splay_store::audit::AuditFilter::default());
    splay_store::audit::read::<splay_store::Error>(&storage, &filter, &mut |_, record| {
        denied += u64::from(record["kind"] == "denied" && record["about"] == "quota subscriptions_max of role desk");
        Ok(())
    })
    .unwrap();
    assert!(denied >= 2);
}

/// Lines for the table, whose writer has the quota of a row a second: so many are paid for as many seconds.
const ROWS: usize = 1000;

fn lines(count: usize) -> Vec<u8> {
    b"trade,sym=IBM price=1 1\n".repeat(count)
}

#[test]
fn rows_beyond_the_rate_are_refused_whole_and_may_come_again() {
    let desk = desk("");
    desk.run("alter user writer set (rows_per_second_max = 1)");
    let before = desk.served.ingest.rows("trade");
    let stored = || desk.served.ingest.rows("trade") - before;
    // More than there are in a second: whoever comes behind pays.
    assert_eq!(desk.post("/write", &desk.writer, &lines(ROWS)).status, 204);
    let quota = "rows_per_second_max of role writer is 1";
    let refused = desk.post("/write", &desk.writer, &lines(1));
    assert_eq!(refused.status, 503, "{}", refused.text());
    let after: usize = refused.headers["retry-after"].parse().unwrap();
    assert!((1..=ROWS).contains(&after), "{after}");
    assert!(refused.text().contains(quota) && refused.json()["retryable"] == true, "{}", refused.text());
    let authorization = format!("Bearer {}", desk.writer);
    let headers = [("authorization", authorization.as_str()), ("content-type", "text/csv")];
    let text =
        || request(desk.served.http(), "POST", "/api/v1/write?table=trade", &headers, b"time,sym,price\n1,IBM,1\n");
    is_refused(&text(), 503, "busy", quota);
    let insert = "insert into trade values ('2024-03-04 09:30:00', 'IBM', 1)";
    is_refused(&desk.query(&desk.writer, insert), 503, "busy", quota);
    let mut writer = client(&desk, "writer", &desk.writer);
    assert_eq!(writer.fails(insert), "53300");
    writer.send(b'Q', b"copy trade from stdin\0");
    assert_eq!(writer.read().unwrap().0, 'G');
    writer.send(b'd', b"2024-03-04 09:30:00\tIBM\t1\n");
    writer.send(b'c', b"");
    assert_eq!(code(&writer.until_ready()).as_deref(), Some("53300"));
    assert_eq!(stored(), ROWS);
    assert_eq!(refusals(&desk, "rows_per_second_max"), 5);
    // Of others nothing is refused, and with a wider quota what was refused is taken, once.
    assert_eq!(desk.post("/write", &desk.admin, &lines(2)).status, 204);
    desk.run("alter user writer reset all");
    assert_eq!(desk.post("/write", &desk.writer, &lines(1)).status, 204);
    assert_eq!((text().status, desk.query(&desk.writer, insert).status), (200, 200));
    assert_eq!(code(&writer.query(insert)), None);
    assert_eq!(stored(), ROWS + 5 + 1);
}

#[test]
fn rows_that_found_no_room_are_given_back() {
    let desk = desk("");
    desk.run("alter user writer set (rows_per_second_max = 1)");
    let before = desk.served.ingest.rows("trade");
    for later in [false, true] {
        if later {
            desk.served.ingest.be_full_later(1)
        } else {
            desk.served.ingest.be_full(1)
        }
        let full = desk.post("/write", &desk.writer, &lines(ROWS));
        assert!(full.status == 503 && full.text().contains("no room"), "{}", full.text());
    }
    assert_eq!(desk.post("/write", &desk.writer, &lines(ROWS)).status, 204, "the quota isn't used up");
    assert_eq!(desk.served.ingest.rows("trade") - before, ROWS);
}

#[test]
fn streams_are_taken_more_slowly_and_lose_nothing() {
    let desk = desk("auth.anonymous = \"guest\"\n");
    for statement in [
        "create role guest set (rows_per_second_max = 1)",
        "grant insert on trade to guest",
        "alter user writer set (rows_per_second_max = 1)",
    ] {
        desk.run(statement);
    }
    let before = desk.served.ingest.rows("trade");
    let stored = || desk.served.ingest.rows("trade") - before;
    let mut stream = connect(desk.served.line());
    stream.write_all(&lines(ROWS)).unwrap();
    eventually("the first lines", || stored() >= ROWS / 10);
    stream.write_all(&lines(1)).unwrap();
    // Flight: the second batch is waited with, and acknowledged in its turn.
    let authorization = format!("Bearer {}", desk.writer);
    let lines_stored = with_channel(&desk.served, |channel| async {
        let batches = vec![(trades(0, 1000), json!({})), (trades(0, 1), json!({}))];
        let mut request = Request::new(futures::stream::iter(messages(batches)));
        request.metadata_mut().insert("authorization", authorization.parse().unwrap());
        let mut acks = FlightServiceClient::new(channel).do_put(request).await.unwrap().into_inner();
        assert!(acks.message().await.unwrap().is_some());
        let lines_stored = stored() - 1000;
        assert_eq!(desk.query(&desk.admin, "alter user writer reset (rows_per_second_max)").status, 200);
        assert!(acks.message().await.unwrap().is_some());
        assert!(acks.message().await.unwrap().is_none());
        lines_stored
    });
    assert!(lines_stored <= ROWS, "the last line waits");
    desk.run("alter role guest reset all");
    eventually("all lines", || stored() == ROWS + 1 + 1000 + 1);
    assert!(desk.served.ingest.rejected().is_empty());
    drop(stream);
    assert_eq!(refusals(&desk, "rows_per_second_max"), 0);
}
