//! The program against a venue on loopback and a real server, each of which fails on the way.
//!
//! The server's program is named by the variable `SPLAY`. Where it isn't there, the tests say so and pass; with `SPLAY_FEEDS_REQUIRED` they fail.
#![allow(clippy::unwrap_used, clippy::explicit_write, missing_docs)]

#[path = "../../../records/testing/processes.rs"]
mod processes;
mod tls;
mod venue;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::processes::{Feed, Server, eventually, free_port, splay};
use crate::venue::{Network, Venue, listen, say};

/// The program that is tested.
const PROGRAM: &str = "splay-feed";

const TYPES: &str = "time:timestamp,sym:symbol,side:symbol,price:float64,id:int64,received:timestamp";

/// 2024-01-02 in milliseconds.
const DAY: u64 = 1_704_153_600_000;

/// The server, if it can be had.
fn server(folder: &std::path::Path) -> Option<Server> {
    match splay() {
        Ok(program) => Some(Server::new(program, folder)),
        Err(reason) if std::env::var_os("SPLAY_FEEDS_REQUIRED").is_some() => panic!("{reason}"),
        Err(reason) => {
            // Past the capture of outputs of tests that pass.
            writeln!(std::io::stderr(), "skipped: {reason}").unwrap();
            None
        }
    }
}

/// Settings of a feed, and the port of its metrics.
fn settings(server: &str, place: &str, more: &str) -> (String, u16) {
    let port = free_port();
    let text = format!(
        "name = \"test\"\n[server]\nurl = \"{server}\"\n[metrics]\nlisten = \"127.0.0.1:{port}\"\nlog_seconds = 1\n\
         [dead_letters]\nfile = \"dead.jsonl\"\n[[feed]]\nname = \"venue\"\n{place}\n{more}\n\
         ignore = [{{ ok = true }}]\nfail = [{{ ok = false }}]\n\
         [[feed.table]]\nname = \"trade\"\nwhen = {{ type = \"trade\" }}\nrows = \"data\"\ntime_unit = \"ms\"\n\
         create = {{ types = \"{TYPES}\", time = \"time\", symbol = \"sym\" }}\nbatch = {{ rows = 70, milliseconds = 20 }}\n\
         sequence = {{ field = \"i\", by = [\"s\"] }}\nvalues = {{ side = {{ b = \"buy\", s = \"sell\" }} }}\n\
         columns = {{ time = \"t\", sym = \"s\", side = \"^side\", price = \"p\", id = \"i\", received = \"$received\" }}\n"
    );
    (text, port)
}

fn of_venue(server: &str, venue: &Venue, more: &str) -> (String, u16) {
    let place = format!("url = \"{}\"\nsend = ['{{\"subscribe\": \"trades\"}}']", venue.url());
    settings(server, &place, more)
}

fn trade(id: usize) -> String {
    format!(
        r#"{{"type": "trade", "side": "b", "data": [{{"t": {}, "s": "IBM", "p": "{}.25", "i": {id}}}]}}"#,
        DAY + id as u64,
        100 + id % 50
    )
}

/// A number of the metrics' page.
fn metric(port: u16, name: &str) -> u64 {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return 0 };
    let mut page = String::new();
    if write!(stream, "GET /metrics HTTP/1.1\r\n\r\n").and_then(|()| stream.read_to_string(&mut page)).is_err() {
        return 0;
    }
    let begin = format!("splay_feed_{name}_total{{");
    let lines = page.lines().filter(|line| line.starts_with(&begin));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The rows that are stored after one more start of the server, which has only its disk.
fn stored(server: &mut Server) -> [u64; 3] {
    server.kill();
    server.start();
    let row = server.row("select count(*), count(distinct id), sum(id) from trade").unwrap_or_default();
    [0, 1, 2].map(|place| row.get(place).and_then(serde_json::Value::as_u64).unwrap_or(0))
}

#[test]
fn each_message_is_stored_once_though_venue_and_server_fail() {
    const COUNT: usize = 6_000;
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = server(folder.path()) else { return };
    let next = Arc::new(AtomicUsize::new(1));
    let of_venue_thread = Arc::clone(&next);
    let venue = Venue::start(move |number, socket| {
        say(socket, "{\"ok\": true}");
        // An acknowledgement is no row, and no gap either.
        say(socket, "{\"type\": \"trade\", \"side\": \"b\", \"da");
        say(socket, "{\"type\": \"quote\"}");
        loop {
            let id = of_venue_thread.load(Ordering::SeqCst);
            if id > COUNT {
                return listen(socket);
            }
            if !say(socket, &trade(id)) {
                return;
            }
            of_venue_thread.fetch_add(1, Ordering::SeqCst);
            if id == 2_000 {
                of_venue_thread.fetch_add(10, Ordering::SeqCst);
            }
            // Breaks off, with what it has sent.
            if number < 2 && id == 1_000 * (number + 1) {
                socket.flush().unwrap();
                socket.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
                return listen(socket);
            }
            if id.is_multiple_of(100) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    });
    let (text, port) = of_venue(&server.url(), &venue, "");
    let mut feed = Feed::new(folder.path(), &text);
    feed.start();
    for rows in [500, 3_000] {
        eventually("rows come in", || server.number("select count(*) from trade") >= rows);
        server.kill();
        server.start();
    }
    eventually("all is sent", || next.load(Ordering::SeqCst) > COUNT && metric(port, "records") == COUNT as u64 - 10);
    assert_eq!((metric(port, "gaps"), metric(port, "missing_numbers"), metric(port, "bad_messages")), (1, 10, 6));
    assert!(feed.stop(), "{}", feed.log());
    let sum: usize = (1..=COUNT).filter(|id| !(2_001..=2_010).contains(id)).sum();
    assert_eq!(stored(&mut server), [COUNT as u64 - 10, COUNT as u64 - 10, sum as u64]);
    assert_eq!(venue.subscriptions.lock().unwrap().as_slice(), ["{\"subscribe\": \"trades\"}"; 3]);
    let dead = feed.dead();
    assert_eq!(dead.len(), 6);
    assert!(dead[1]["reason"].as_str().unwrap().contains("no table takes it"), "{dead:?}");
    assert!(feed.log().contains("numbers are missing"), "{}", feed.log());
    let row = server.row("select count(*) from trade where side = 'buy' and received > time and price > 100").unwrap();
    assert_eq!(row[0].as_u64(), Some(COUNT as u64 - 10));
}

#[test]
fn a_batch_whose_answer_is_lost_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = server(folder.path()) else { return };
    let venue = Venue::start(|_, socket| {
        (1..=700).for_each(|id| assert!(say(socket, &trade(id))));
        listen(socket);
    });
    let network = Network::start(server.url().trim_start_matches("http://").parse().unwrap());
    let (text, port) = of_venue(&format!("http://{}", network.address), &venue, "");
    let mut feed = Feed::new(folder.path(), &text);
    feed.start();
    eventually("all is acknowledged", || metric(port, "rows") == 700);
    let metrics = (metric(port, "repeats"), metric(port, "retries"), network.lost.load(Ordering::SeqCst));
    assert!(metrics.0 >= 5 && metrics.1 >= metrics.0 && metrics.2 >= 5, "{metrics:?}");
    assert!(feed.stop(), "{}", feed.log());
    assert_eq!(stored(&mut server), [700, 700, 700 * 701 / 2]);
}

#[test]
fn a_flood_is_dropped_and_counted_while_the_server_is_away() {
    const COUNT: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = server(folder.path()) else { return };
    server.kill();
    let venue = Venue::start(|_, socket| {
        (1..=20_000).for_each(|id| assert!(say(socket, &trade(id))));
        listen(socket);
    });
    let (text, port) = of_venue(&server.url(), &venue, "when_full = \"drop\"\nmemory_bytes_max = \"1M\"");
    let mut feed = Feed::new(folder.path(), &text);
    feed.start();
    eventually("all is read", || metric(port, "messages") == COUNT);
    let dropped = metric(port, "dropped_messages");
    assert!(dropped > 0 && dropped < COUNT, "{dropped}");
    server.start();
    eventually("what waited is stored", || metric(port, "rows") == COUNT - dropped);
    assert!(feed.stop(), "{}", feed.log());
    assert_eq!(stored(&mut server)[..2], [COUNT - dropped; 2]);
    assert!(feed.log().contains("drops messages"), "{}", feed.log());
}

#[test]
fn a_venue_waits_while_the_server_is_away_and_nothing_is_lost() {
    const COUNT: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = server(folder.path()) else { return };
    server.kill();
    let is_all_said = Arc::new(AtomicBool::new(false));
    let of_venue_thread = Arc::clone(&is_all_said);
    let venue = Venue::start(move |_, socket| {
        // More than the sockets' buffers hold: the venue has to wait.
        let note = "x".repeat(2_000);
        for id in 1..=20_000 {
            assert!(say(socket, &trade(id).replacen('{', &format!("{{\"note\": \"{note}\", "), 1)));
        }
        of_venue_thread.store(true, Ordering::SeqCst);
        listen(socket);
    });
    let (text, port) = of_venue(&server.url(), &venue, "memory_bytes_max = \"1M\"\nsilent_seconds_max = 0");
    let mut feed = Feed::new(folder.path(), &text);
    feed.start();
    eventually("the memory is full", || feed.log().contains("reads nothing until there is room"));
    assert!(!is_all_said.load(Ordering::SeqCst));
    server.start();
    eventually("all is stored", || metric(port, "rows") == COUNT);
    assert!(feed.stop(), "{}", feed.log());
    assert_eq!((stored(&mut server)[0], metric(port, "dropped_messages")), (COUNT, 0));
}

#[test]
fn silent_venues_and_refusals_are_connected_to_anew() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = server(folder.path()) else { return };
    let is_over = Arc::new(AtomicBool::new(false));
    let of_venue_thread = Arc::clone(&is_over);
    let venue = Venue::start(move |number, socket| match number {
        // Neither reads nor writes: no ping is answered.
        0 => {
            while !of_venue_thread.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
        1 => {
            say(socket, "{\"ok\": false, \"why\": \"no such channel\"}");
            listen(socket);
        }
        // Answers pings, and has nothing to say.
        2 => listen(socket),
        _ => {
            // A message that is too large ends the connection, not the feed.
            say(socket, &trade(number).replace("IBM", &"x".repeat(3_000)));
            say(socket, &trade(number));
            listen(socket);
        }
    });
    let more = "ping_seconds = 1\nsilent_seconds_max = 2\nquiet_seconds_max = 4\nretry_seconds_max = 1\nmessage_bytes_max = 2000";
    let (text, port) = of_venue(&server.url(), &venue, more);
    let mut feed = Feed::new(folder.path(), &text);
    feed.start();
    eventually("it connects five times", || metric(port, "connections") >= 5);
    is_over.store(true, Ordering::SeqCst);
    let log = feed.log();
    for reason in [
        "nothing has come for 2 s",
        "no such channel",
        "the venue refuses",
        "no message has come for 4 s",
        "Message too long",
    ] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
    assert!(feed.stop(), "{}", feed.log());
    stored(&mut server);
}

#[test]
fn messages_are_decoded_and_numbered_again_for_another_server() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = server(folder.path()) else { return };
    let listen = free_port();
    let (text, port) = settings(&server.url(), &format!("listen = \"tcp://127.0.0.1:{listen}\""), "");
    // With `create` the server would add the column that rows bring.
    let text: String =
        text.lines().filter(|line| !line.starts_with("create")).map(|line| format!("{line}\n")).collect();
    let change = |server: &Server, statement: &str| {
        let answer = server.http.post("/query", "text/plain", statement.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{:?}", answer.json);
    };
    let columns = "time timestamp, sym symbol, side symbol, price double, received timestamp";
    change(&server, &format!("create table trade ({columns}, id bigint)"));
    let mut feed = Feed::new(folder.path(), &text);
    feed.start();
    eventually("it listens", || TcpStream::connect(("127.0.0.1", listen)).is_ok());
    let mut sender = TcpStream::connect(("127.0.0.1", listen)).unwrap();
    let mut send =
        |ids: std::ops::Range<usize>| sender.write_all(ids.map(trade).collect::<String>().as_bytes()).unwrap();
    send(1..501);
    eventually("they are stored", || metric(port, "rows") == 500);
    // As a follower that has nothing yet, or an empty database by mistake.
    server.kill();
    std::fs::remove_dir_all(folder.path().join("db")).unwrap();
    server.start();
    change(&server, &format!("create table trade ({columns}, id text)"));
    send(501..701);
    eventually("all are stored", || metric(port, "rows") == 700);
    let log = feed.log();
    assert!(log.contains("doesn't have messages that it had acknowledged") && log.contains("forgotten=500"), "{log}");
    assert!(feed.stop(), "{}", feed.log());
    assert_eq!(feed.dead().len(), 0);
    assert_eq!(server.number("select count(distinct id) from trade where side = 'buy'"), 200);
    assert_eq!(server.number("select count(*) from trade"), 200);
}

#[test]
fn objects_over_tcp_are_rows_and_the_end_tells_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = server(folder.path()) else { return };
    let listen = free_port();
    let (text, port) = settings(&server.url(), &format!("listen = \"tcp://127.0.0.1:{listen}\""), "");
    let mut feed = Feed::new(folder.path(), &text);
    feed.start();
    eventually("it listens", || TcpStream::connect(("127.0.0.1", listen)).is_ok());
    let mut sender = TcpStream::connect(("127.0.0.1", listen)).unwrap();
    let all: String = (1..=1_000).map(trade).collect();
    sender.write_all(format!("{all}noise\n{}", trade(1_001).replace("\"b\"", "\"x\"")).as_bytes()).unwrap();
    eventually("all is stored", || metric(port, "rows") == 1_000 && feed.dead().len() == 2);
    // The process is told to end while the server is away: what waits is counted, and the exit says so.
    server.kill();
    sender.write_all((1_002..=1_011).map(trade).collect::<String>().as_bytes()).unwrap();
    eventually("they have come", || metric(port, "messages") == 1_012);
    assert!(!feed.stop());
    assert!(feed.log().contains("10 messages are lost"), "{}", feed.log());
    assert_eq!(stored(&mut server), [1_000, 1_000, 500_500]);
}
