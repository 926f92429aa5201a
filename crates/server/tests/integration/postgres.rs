//! PostgreSQL's wire protocol, byte by byte. What its clients make of it: python/tests/test_postgres.py.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use splay_store::{Database, LoadOptions, Secret};

use crate::support::{Served, TRADES, connect, eventually, trades, trades_spec};

/// A server that speaks it, with these settings.
pub fn served(text: &str) -> Served {
    Served::with(&format!("postgres.address = \"127.0.0.1:0\"\n{text}"))
}

fn packet(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len() + 4).unwrap().to_be_bytes(), body].concat()
}

pub struct Client {
    stream: TcpStream,
    /// Process and secret, by which statements are cancelled.
    key: Vec<u8>,
}

/// A message of the server.
pub type Reply = (char, Vec<u8>);

impl Client {
    /// Sends a first packet of version 3.0 with these settings.
    pub fn open(served: &Served, settings: &str) -> Client {
        let mut client = Client { stream: connect(served.postgres()), key: Vec::new() };
        client.write(&packet(&[b"\0\x03\0\0", settings.as_bytes(), b"\0"].concat()));
        client
    }

    /// A session that was set up.
    fn new(served: &Served) -> Client {
        let mut client = Client::open(served, "user\0somebody\0");
        client.set_up();
        client
    }

    pub fn set_up(&mut self) {
        for (kind, body) in self.until_ready() {
            match kind {
                'K' => self.key = body,
                'E' => panic!("{}", String::from_utf8_lossy(&body)),
                _ => {}
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn send(&mut self, kind: u8, body: &[u8]) {
        self.write(&[&[kind][..], &packet(body)].concat());
    }

    /// The next message; none at the end of the connection.
    pub fn read(&mut self) -> Option<Reply> {
        let mut head = [0; 5];
        match self.stream.read_exact(&mut head) {
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => return None,
            read => read.unwrap(),
        }
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        self.stream.read_exact(&mut body).unwrap();
        Some((char::from(head[0]), body))
    }

    pub fn until_ready(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        loop {
            let reply = self.read().unwrap_or_else(|| panic!("the connection is over after {replies:?}"));
            replies.push(reply);
            if replies.last().unwrap().0 == 'Z' {
                return replies;
            }
        }
    }

    pub fn query(&mut self, text: &str) -> Vec<Reply> {
        self.send(b'Q', &[text.as_bytes(), b"\0"].concat());
        self.until_ready()
    }

    /// What kinds of messages a query is answered with.
    fn kinds(&mut self, text: &str) -> String {
        self.query(text).iter().map(|(kind, _)| *kind).collect()
    }

    /// SQLSTATE of the failure of a query.
    pub fn fails(&mut self, text: &str) -> String {
        code(&self.query(text)).unwrap_or_else(|| panic!("{text} didn't fail"))
    }

    /// The failure with which the server ends the connection.
    pub fn end(&mut self) -> Option<String> {
        let mut replies = Vec::new();
        while let Some(reply) = self.read() {
            replies.push(reply);
        }
        code(&replies)
    }
}

fn field(body: &[u8], kind: u8) -> Option<String> {
    let value = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&kind))?;
    Some(String::from_utf8(value[1..].to_vec()).unwrap())
}

/// SQLSTATE of the first failure among replies.
pub fn code(replies: &[Reply]) -> Option<String> {
    replies.iter().find(|(kind, _)| *kind == 'E').and_then(|(_, body)| field(body, b'C'))
}

/// The values of the rows among replies, as text.
pub fn rows(replies: &[Reply]) -> Vec<Vec<Option<String>>> {
    let of = |body: &[u8]| {
        let (mut values, mut at) = (Vec::new(), 2);
        while at < body.len() {
            let length = i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
            at += 4;
            values.push(usize::try_from(length).ok().map(|length| {
                at += length;
                String::from_utf8(body[at - length..at].to_vec()).unwrap()
            }));
        }
        values
    };
    replies.iter().filter(|(kind, _)| *kind == 'D').map(|(_, body)| of(body)).collect()
}

#[test]
fn statements_of_a_text_are_answered_one_after_the_other() {
    let served = served("");
    let mut client = Client::new(&served);
    let replies =
        client.query("select time, sym, price from trade where price < 2 order by price; select 1 where false");
    let kinds: String = replies.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, "TDDCTCZ");
    let expected = [["2026-01-01 00:00:00+00", "AIG", "0"], ["2026-01-01 00:00:00+00", "IBM", "1"]];
    assert_eq!(rows(&replies), expected.map(|row| row.map(|value| Some(value.to_owned())).to_vec()));
    assert_eq!(replies[3].1, b"SELECT 2\0");
    assert_eq!(client.kinds(""), "IZ");
    assert_eq!(client.kinds(" -- nothing\n; ;"), "IZ");
    assert_eq!(client.kinds("select 1; select nothing; select 2"), "TDCEZ");
    assert_eq!(rows(&client.query("select count(*) from trade")), [[Some(TRADES.to_string())]]);
}

#[test]
fn failures_have_codes_and_places() {
    let served = served("limits.statement_rows_max = 1000");
    let mut client = Client::new(&served);
    for (text, expected) in [
        ("selec 1", "42601"),
        ("select * from nowhere", "42P01"),
        ("select nothing from trade", "42703"),
        ("select sym from trade a, trade b", "42702"),
        ("select sym, price from trade group by sym", "42803"),
        ("select true + 1", "42804"),
        ("select 'a'::int", "22P02"),
        ("select '2026-13-45'::timestamp", "22007"),
        ("select 'foo'::date", "22007"),
        ("select has_table_privilege('nowhere', 'select')", "42P01"),
        ("select nothing(1)", "42883"),
        ("select 1/0", "22012"),
        ("select * from trade", "54000"),
        ("set work_mem = 1", "42704"),
        ("set client_encoding = latin1", "22023"),
        ("savepoint a", "25P01"),
        ("declare c cursor for select 1", "25P01"),
        ("select 1; insert into trade values (1)", "0A000"),
        ("deallocate nothing", "26000"),
    ] {
        assert_eq!(client.fails(text), expected, "{text}");
    }
    for (text, place) in [
        ("select 1; select (1 from trade", "21"),
        ("select 'nope', nope from trade", "16"),
        ("select 1; select 1 from Nowhere", "25"),
        ("select nofun(1)", "8"),
    ] {
        let replies = client.query(text);
        let (_, body) = replies.iter().find(|(kind, _)| *kind == 'E').unwrap();
        let (severity, found) = (field(body, b'S'), field(body, b'P'));
        assert_eq!((severity.as_deref(), found.as_deref()), (Some("ERROR"), Some(place)), "{text} {body:?}");
    }
}

#[test]
fn connections_beyond_the_limit_may_still_cancel() {
    let served = served("limits.postgres_client_connections_max = 1");
    let mut client = Client::new(&served);
    client.send(b'Q', b"select count(*) from trade a, trade b, trade c where a.price + b.price + c.price < 0\0");
    eventually("it runs", || served.get("/metrics").text().contains("splay_statements_running 1"));
    let mut cancelling = connect(served.postgres());
    cancelling.write_all(&packet(&[&80_877_102_u32.to_be_bytes()[..], &client.key].concat())).unwrap();
    assert_eq!(code(&client.until_ready()).as_deref(), Some("57014"));
}

#[test]
fn a_repeatable_read_sees_what_its_first_statement_saw() {
    let served = served("");
    let database = Database::open(served.folder.path()).unwrap();
    let grow = |first: i64| {
        let mut load = database.load(&trades_spec(), LoadOptions::default()).unwrap();
        load.append(&trades(first, 10)).unwrap();
        load.commit().unwrap();
    };
    let (mut client, mut other) = (Client::new(&served), Client::new(&served));
    let count = |client: &mut Client| rows(&client.query("select count(*) from trade"))[0][0].clone().unwrap();
    let shown = |client: &mut Client| rows(&client.query("show transaction_isolation"))[0][0].clone().unwrap();
    client.query("begin isolation level repeatable read read only");
    assert_eq!(shown(&mut client), "repeatable read");
    grow(TRADES);
    // It begins with its first statement that reads, of whatever.
    client.query("select 1");
    grow(TRADES + 10);
    assert_eq!(count(&mut client), (TRADES + 10).to_string());
    assert_eq!(count(&mut other), (TRADES + 20).to_string());
    client.query("savepoint a");
    assert_eq!(client.fails("select nothing from trade"), "42703");
    client.query("rollback to A");
    assert_eq!(count(&mut client), (TRADES + 10).to_string());
    assert_eq!(client.fails("set transaction isolation level read committed"), "25001");
    client.query("rollback");
    assert_eq!(count(&mut client), (TRADES + 20).to_string());
    client.query("set session characteristics as transaction isolation level repeatable read");
    client.query("begin; select 1");
    grow(TRADES + 20);
    assert_eq!(count(&mut client), (TRADES + 20).to_string());
    client.query("commit");
    client.query("begin; set transaction isolation level read committed; select 1");
    grow(TRADES + 30);
    assert_eq!((count(&mut client), shown(&mut client)), ((TRADES + 40).to_string(), "read committed".to_owned()));
    client.query("commit");
    // Outside of a transaction it says nothing.
    let replies = client.query("set transaction isolation level read committed");
    assert_eq!(replies.iter().map(|(kind, _)| *kind).collect::<String>(), "NCZ");
    assert_eq!(shown(&mut client), "repeatable read");
}

#[test]
fn transactions_hold_reads_and_refuse_what_could_not_be_taken_back() {
    let served = served("");
    let mut client = Client::new(&served);
    let state = |replies: &[Reply]| replies.last().unwrap().1[0];
    assert_eq!(state(&client.query("begin")), b'T');
    assert_eq!(state(&client.query("select 1")), b'T');
    assert_eq!(client.fails("insert into trade values (now(), 'IBM', 1)"), "25001");
    assert_eq!(client.fails("select 1"), "25P02");
    let replies = client.query("commit");
    assert_eq!((replies[0].1.as_slice(), state(&replies)), (&b"ROLLBACK\0"[..], b'I'));
    client.query("begin; savepoint a; savepoint b");
    assert_eq!(client.fails("select nothing"), "42703");
    assert_eq!(state(&client.query("rollback to a")), b'T');
    assert_eq!(client.fails("release b"), "3B001");
    client.query("rollback");
    assert_eq!(client.fails("begin isolation level serializable"), "0A000");
    client.query("set default_transaction_read_only = on");
    assert_eq!(client.fails("insert into trade values (now(), 'IBM', 1)"), "25006");
    client.query("reset all");
    let replies = client.query("insert into trade values (now(), 'IBM', 1)");
    assert_eq!(replies[0], ('C', b"INSERT 0 1\0".to_vec()));
    assert_eq!(served.ingest.rows("trade"), 1);
}

#[test]
fn prepared_statements_are_described_bound_and_read_in_parts() {
    let served = served("");
    let mut client = Client::new(&served);
    client.send(b'P', b"s\0select price, sym from trade where price < $1 order by price\0\0\0");
    client.send(b'D', b"Ss\0");
    client.send(b'B', &[b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x08", &5f64.to_be_bytes()[..], b"\0\x02\0\x01\0\0"].concat());
    client.send(b'E', b"p\0\0\0\0\x02");
    client.send(b'E', b"p\0\0\0\0\0");
    client.send(b'S', b"");
    let replies = client.until_ready();
    let kinds: String = replies.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, "1tT2DDsDDDCZ");
    assert_eq!(replies[1].1, [0, 1, 0, 0, 2, 189], "a float of 64 bits");
    let first = [&[0, 2, 0, 0, 0, 8][..], &0f64.to_be_bytes(), &[0, 0, 0, 3], b"AIG"].concat();
    assert_eq!(replies[4].1, first);
    assert_eq!(replies[10].1, b"SELECT 3\0");
    // Without a transaction the portal is gone after Sync; the statement stays.
    client.send(b'E', b"p\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(code(&client.until_ready()).as_deref(), Some("34000"));
    client.query("begin");
    for (message, kinds) in [
        ((b'B', &b"p\0s\0\0\0\0\x01\0\0\0\x012\0\0"[..]), "2Z"),
        ((b'D', b"Pp\0"), "TZ"),
        ((b'E', b"p\0\0\0\0\x01"), "DsZ"),
        ((b'E', b"p\0\0\0\0\x01"), "DsZ"),
        ((b'E', b"p\0\0\0\0\x01"), "CZ"),
        ((b'C', b"Pp\0"), "3Z"),
    ] {
        client.send(message.0, message.1);
        client.send(b'S', b"");
        let replies: String = client.until_ready().iter().map(|(kind, _)| *kind).collect();
        assert_eq!(replies, kinds, "{}", char::from(message.0));
    }
}

#[test]
fn changes_give_rows_by_returning() {
    let served = served("limits.statement_rows_max = 16");
    let mut client = Client::new(&served);
    let replies = client.query(
        "insert into trade values ('2026-02-01 09:30', 'KO', 1), ('2026-02-01 09:31', 'IBM', 2.5) returning sym, price * 2 as twice",
    );
    let kinds: String = replies.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, "TDDCZ");
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(rows(&replies), [[text("KO"), text("2")], [text("IBM"), text("5")]]);
    assert_eq!(replies[3].1, b"INSERT 0 2\0");
    // Its columns are described before it runs, and its rows are read in parts.
    client.send(b'P', b"d\0delete from trade where sym = 'IBM' and price < $1 returning price, sym\0\0\0");
    client.send(b'D', b"Sd\0");
    client.send(b'S', b"");
    let replies = client.until_ready();
    assert_eq!(replies.iter().map(|(kind, _)| *kind).collect::<String>(), "1tTZ");
    assert_eq!(replies[1].1, [0, 1, 0, 0, 2, 189], "a float of 64 bits");
    let left = |client: &mut Client| rows(&client.query("select count(*) from trade where sym = 'IBM' and price < 6"));
    assert_eq!(left(&mut client), [[text("3")]]);
    client.send(b'B', b"p\0d\0\0\0\0\x01\0\0\0\x016\0\0");
    client.send(b'D', b"Pp\0");
    client.send(b'E', b"p\0\0\0\0\x02");
    client.send(b'E', b"p\0\0\0\0\0");
    client.send(b'E', b"p\0\0\0\0\0");
    client.send(b'S', b"");
    let replies = client.until_ready();
    assert_eq!(replies.iter().map(|(kind, _)| *kind).collect::<String>(), "2TDDsDCEZ");
    assert_eq!(rows(&replies), [[text("1"), text("IBM")], [text("3"), text("IBM")], [text("5"), text("IBM")]]);
    assert_eq!((replies[6].1.as_slice(), code(&replies).as_deref()), (&b"DELETE 3\0"[..], Some("55000")));
    assert_eq!(left(&mut client), [[text("0")]]);
    // No rows, too many, and none that could be described: nothing is changed where it is refused.
    assert_eq!(client.kinds("update trade set price = 0 where sym = 'none' returning price"), "TCZ");
    assert_eq!(client.fails("update trade set price = 0 where sym = 'AIG' returning price"), "54000");
    assert_eq!(client.fails("update trade set price = 0 returning nope"), "42703");
    client.send(b'P', b"u\0update trade set price = -1 where price < 30 returning $1\0\0\0");
    client.send(b'B', b"q\0u\0\0\0\0\x01\0\0\0\x016\0\x01\0\x01");
    client.send(b'E', b"q\0\0\0\0\0");
    client.send(b'S', b"");
    let replies = client.until_ready();
    let count = rows(&client.query("select count(*) from trade where price < 0"));
    assert_eq!((code(&replies).is_some(), count), (true, vec![vec![text("0")]]));
    // Over HTTP.
    let answer = served
        .query("update trade set price = -price where price between 8 and 11 and sym = 'IBM' returning sym, price");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        answer.text().contains("IBM") && answer.text().contains("-9") && answer.text().contains("-11"),
        "{}",
        answer.text()
    );
}

#[test]
fn after_a_failure_messages_are_skipped_up_to_sync() {
    let served = served("");
    let mut client = Client::new(&served);
    client.send(b'P', b"\0select nothing from trade\0\0\0");
    client.send(b'B', b"\0\0\0\0\0\0\0\0");
    client.send(b'E', b"\0\0\0\0\0");
    client.send(b'P', b"\0select 1\0\0\0");
    client.send(b'S', b"");
    let kinds: String = client.until_ready().iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, "12EZ");
    client.send(b'Q', b"select '\xff'\0");
    assert_eq!(code(&client.until_ready()).as_deref(), Some("22021"));
    // Text that is not UTF-8, a value too few, a type that there is none of.
    for (kind, body, expected) in [
        (b'P', &b"\0select '\xff'\0\0\0"[..], "22021"),
        (b'B', b"\0nothing\0\0\0\0\0\0\0", "26000"),
        (b'D', b"Pnothing\0", "34000"),
        (b'P', b"\0select 1; select 2\0\0\0", "42601"),
    ] {
        client.send(kind, body);
        client.send(b'S', b"");
        assert_eq!(code(&client.until_ready()).as_deref(), Some(expected));
    }
    client.send(b'P', b"one\0select $1\0\0\0");
    client.send(b'B', b"\0one\0\0\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(code(&client.until_ready()).as_deref(), Some("08P01"));
}

#[test]
fn what_is_no_session_is_refused_before_anything_is_taken() {
    let served = served("");
    let ended = |bytes: &[u8]| {
        let mut client = Client { stream: connect(served.postgres()), key: Vec::new() };
        client.write(bytes);
        client.end()
    };
    assert_eq!(ended(&packet(b"\0\x02\0\0user\0a\0\0")).as_deref(), Some("0A000"));
    assert_eq!(ended(b"POST / HTTP/1.1\r\nhost: localhost\r\n\r\n").as_deref(), Some("08P01"));
    assert_eq!(ended(&[0xff; 64]).as_deref(), Some("08P01"));
    assert_eq!(ended(&packet(b"\0\x03\0\0user")).as_deref(), Some("08P01"));
    assert_eq!(ended(&packet(b"\0\x03\0\0user\0a\0work_mem\x001\0\0")).as_deref(), Some("42704"));
    assert_eq!(ended(&packet(b"\0\x03\0\0user\0a\0replication\0true\0\0")).as_deref(), Some("0A000"));
    assert_eq!(ended(&packet(&[0, 0, 0])).as_deref(), Some("08P01"));
    // TLS isn't spoken here, and a session without it is set up all the same.
    let mut client = Client { stream: connect(served.postgres()), key: Vec::new() };
    client.write(&packet(&80_877_103u32.to_be_bytes()));
    let mut answer = [0];
    client.stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
    client.write(&packet(b"\0\x03\0\x02user\0a\0_pq_.something\0on\0\0"));
    let replies = client.until_ready();
    assert_eq!(replies[0], ('v', b"\0\x03\0\0\0\0\0\x01_pq_.something\0".to_vec()), "version 3.0 it is");
    assert_eq!(client.kinds("select 1"), "TDCZ");
}

#[test]
fn messages_beyond_the_limit_end_the_connection_before_they_are_read() {
    let served = served("limits.message_bytes_max = 100000");
    for (kind, length) in [(b'Q', 200_000u32), (b'Q', 3), (b'B', 0x7fff_ffff), (b'Q', 0x8000_0000), (b'?', 4)] {
        let mut client = Client::new(&served);
        client.write(&[&[kind][..], &length.to_be_bytes()].concat());
        assert_eq!(client.end().as_deref(), Some("08P01"), "{length}");
    }
}

#[test]
fn a_statement_is_cancelled_by_the_key_of_its_connection_alone() {
    let served = served("");
    let mut client = Client::new(&served);
    let endless = "select sum(a.price * b.price) from trade a, trade b, trade c\0";
    client.send(b'Q', endless.as_bytes());
    eventually("it runs", || served.get("/metrics").text().contains("splay_statements_running 1"));
    let cancel = |key: &[u8]| {
        let mut stream = connect(served.postgres());
        stream.write_all(&packet(&[&80_877_102u32.to_be_bytes(), key].concat())).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    };
    let mut other = client.key.clone();
    other[7] ^= 1;
    cancel(&other);
    cancel(b"");
    assert!(served.get("/metrics").text().contains("splay_statements_running 1"));
    cancel(&client.key);
    assert_eq!(code(&client.until_ready()).as_deref(), Some("57014"));
    assert_eq!(client.kinds("select 1"), "TDCZ");
    client.query("set statement_timeout = '50ms'");
    assert_eq!(client.fails(endless.trim_end_matches('\0')), "57014");
    eventually("nothing runs", || served.get("/metrics").text().contains("splay_statements_running 0"));
}

#[test]
fn a_client_that_leaves_or_reads_nothing_holds_no_place() {
    let served = served("limits.statements_max = 1");
    let mut client = Client::new(&served);
    client.send(b'Q', b"select a.time, a.sym, b.price from trade a, trade b\0");
    eventually("it gives its place back", || {
        !served.get("/metrics").text().contains("splay_statements_stalled_total 0")
    });
    assert_eq!(served.query("select count(*) from trade").status, 200);
    drop(client);
    eventually("it has ended", || served.get("/metrics").text().contains("splay_statements_running 0"));
    // One that waits for an answer is noticed, too.
    let mut client = Client::new(&served);
    client.send(b'Q', b"select sum(a.price * b.price) from trade a, trade b, trade c\0");
    eventually("it runs", || served.get("/metrics").text().contains("splay_statements_running 1"));
    drop(client);
    eventually("it has ended", || served.get("/metrics").text().contains("splay_statements_running 0"));
}

#[test]
fn connections_are_bounded_and_silent_ones_end() {
    let served = served(
        "limits.postgres_client_connections_max = 2\nlimits.postgres_idle_seconds_max = 1\nlimits.head_seconds_max = 1",
    );
    let (mut one, _two) = (Client::new(&served), Client::new(&served));
    // Regression: it was closed without a message.
    let mut third = Client::open(&served, "user\0somebody\0");
    let (kind, body) = third.read().unwrap();
    let message = field(&body, b'M').unwrap();
    assert_eq!(
        (kind, field(&body, b'S').as_deref(), field(&body, b'C').as_deref()),
        ('E', Some("FATAL"), Some("53300"))
    );
    assert!(message.contains("2 connections from one address (limits.postgres_client_connections_max)"), "{message}");
    assert!(message.ends_with("try again later"), "{message}");
    assert!(third.read().is_none());
    eventually("one that says nothing is closed", || {
        drop(connect(served.postgres()));
        served.get("/metrics").text().contains("splay_connections_refused_total{listener=\"postgres\"}")
    });
    assert_eq!(one.end().as_deref(), Some("57P05"));
    eventually("places come back", || {
        let mut silent = connect(served.postgres());
        // Closed without a word by one who says nothing, or because there is no place.
        silent.read(&mut [0]).unwrap_or(0) == 0
            && served.get("/metrics").text().contains("splay_connections{listener=\"postgres\"} 0")
    });
}

#[test]
fn a_server_that_stops_tells_its_clients() {
    let mut served = served("");
    let mut client = Client::new(&served);
    served.stop();
    assert_eq!(client.end().as_deref(), Some("57P01"));
}

#[test]
fn the_password_is_a_token_and_bounds_what_is_done() {
    let [reader, feed, writer] = [(); 3].map(|()| Secret::generate().unwrap());
    let served = served(&format!(
        "[[auth.tokens]]\nname = \"reader\"\nblake3 = \"{}\"\nroles = [\"read\"]\n\
         [[auth.tokens]]\nname = \"feed\"\nblake3 = \"{}\"\nroles = [\"write\"]\n\
         [[auth.tokens]]\nname = \"writer\"\nblake3 = \"{}\"\nroles = [\"read\", \"write\"]\n",
        reader.blake3, feed.blake3, writer.blake3
    ));
    let open = |password: &str| {
        let mut client = Client::open(&served, "user\0somebody\0");
        assert_eq!(client.read().unwrap(), ('R', vec![0, 0, 0, 3]));
        client.send(b'p', &[password.as_bytes(), b"\0"].concat());
        client
    };
    assert_eq!(open("wrong").end().as_deref(), Some("28P01"));
    assert_eq!(open("").end().as_deref(), Some("28P01"));
    let mut client = Client::open(&served, "user\0somebody\0");
    assert_eq!(client.read().unwrap().0, 'R');
    client.send(b'Q', b"select 1\0");
    assert_eq!(client.end().as_deref(), Some("08P01"));
    let mut client = open(&reader.token);
    client.set_up();
    assert_eq!(client.kinds("select 1"), "TDCZ");
    assert_eq!(client.fails("insert into trade values (now(), 'IBM', 1)"), "42501");
    let mut client = open(&feed.token);
    client.set_up();
    assert_eq!(client.fails("select 1"), "42501");
    assert_eq!(client.fails("insert into trade select * exclude (date) from trade"), "42501", "it would read");
    let mut client = open(&writer.token);
    client.set_up();
    assert_eq!(client.kinds("insert into trade values (now(), 'IBM', 1)"), "CZ");
}

/// What is counted by a number, or held for later, costs no more than it has bytes.
#[test]
fn small_and_long_messages_cost_what_they_hold() {
    let served = served("");
    let mut client = Client::new(&served);
    let parse = |name: &str, text: &str| [name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"].concat();
    for (name, text) in [
        ("s", "select $100000000000".to_owned()),
        ("s", "select $65536".to_owned()),
        ("s", format!("select 1 -- {}", "x".repeat(5 << 20))),
        ("s", format!("set {}", "= ".repeat(100_000))),
        (&"n".repeat(2000), "select 1".to_owned()),
    ] {
        client.send(b'P', &parse(name, &text));
        client.send(b'S', b"");
        assert_eq!(code(&client.until_ready()).as_deref(), Some("54000"), "{}", &text[..text.len().min(40)]);
    }
    // Words that would be read one within the other.
    assert_eq!(client.fails(&format!("begin {}", "read only ".repeat(500_000))), "54000");
    assert_eq!(client.kinds(&format!("begin {}", "read only ".repeat(1_000))), "CZ");
    assert_eq!(client.fails(&format!("savepoint {}", "s".repeat(2000))), "54000");
    client.query("rollback");
    // Operators that are as deep as they are long, beside something of the catalogue.
    client.query(&format!("select 'pg_', 1{}", "+1".repeat(1_000_000)));
    client.query(&format!("select 1 from pg_index{}", " union all select 1 from pg_index".repeat(20_000)));
    assert_eq!(client.kinds("select 1"), "TDCZ");
    // A change runs once.
    client.send(b'P', &parse("", "insert into trade values (now(), 'TWICE', 1)"));
    client.send(b'B', b"\0\0\0\0\0\0\0\0");
    client.send(b'E', b"\0\0\0\0\0");
    client.send(b'E', b"\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(code(&client.until_ready()).as_deref(), Some("55000"));
    assert_eq!(client.kinds("select 1"), "TDCZ");
}
