//! Clients that mean no good, or are broken.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::support::{Served, connect, eventually, read_answer};

#[test]
fn oversized_bodies_are_refused_before_they_are_read() {
    let served = Served::with("limits.message_bytes_max = 100000");
    let mut stream = connect(served.http());
    // Announced, and never sent.
    write!(stream, "POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n").unwrap();
    let answer = read_answer(stream);
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
    // Not announced.
    let mut stream = connect(served.http());
    write!(stream, "POST /write HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = [b'x'; 1000];
    for _ in 0..200 {
        let _ =
            write!(stream, "3e8\r\n").and_then(|()| stream.write_all(&chunk)).and_then(|()| stream.write_all(b"\r\n"));
    }
    assert_eq!(read_answer(stream).status, 413);
}

#[test]
fn what_unpacks_too_far_is_refused() {
    let served = Served::with("limits.message_bytes_max = 1000000");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..64).for_each(|_| encoder.write_all(&zeros).unwrap());
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 100_000);
    for path in ["/write", "/query", "/api/v1/write?table=trade"] {
        assert_eq!(served.post(path, &[("content-encoding", "gzip")], &bomb).status, 413, "{path}");
    }
    assert_eq!(served.post("/query", &[("content-encoding", "gzip")], b"not gzip").code(), "bad_request");
    assert_eq!(served.post("/query", &[("content-encoding", "br")], b"x").code(), "bad_request");
}

#[test]
fn bad_heads_are_answered_or_closed_and_nothing_else_suffers() {
    let served = Served::new();
    let many_headers = format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(10_000));
    let long_header = format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let long_path = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "y".repeat(200_000));
    for bytes in [
        &b"\r\n\r\n\r\n"[..],
        b"nonsense\r\n\r\n",
        b"\x00\x01\x02\x03\xff\xff\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /query HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        many_headers.as_bytes(),
        long_header.as_bytes(),
        long_path.as_bytes(),
    ] {
        let mut stream = connect(served.http());
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.read_to_end(&mut Vec::new());
        assert_eq!(served.get("/health").status, 200);
    }
    // The other listeners get the same.
    for address in [served.flight(), served.line()] {
        let mut stream = connect(address);
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n\x00\xff");
        drop(stream);
        let mut stream = connect(address);
        let _ = stream.write_all(&[0xff; 100_000]);
    }
    assert_eq!(served.query("select 1").status, 200);
}

#[test]
fn slow_senders_are_cut_off() {
    let served = Served::with("limits.head_seconds_max = 1\nlimits.body_seconds_max = 1");
    let start = Instant::now();
    let (http, flight) = (served.http(), served.flight());
    let closed = |bytes: &[u8], address| {
        let mut stream = connect(address);
        stream.write_all(bytes).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    };
    std::thread::scope(|scope| {
        for bytes in [&b""[..], b"G", b"GET /health HTTP/1.1\r\nhost: lo"] {
            scope.spawn(move || closed(bytes, http));
        }
        for bytes in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
            scope.spawn(move || closed(bytes, flight));
        }
        scope.spawn(move || {
            let mut stream = connect(http);
            write!(stream, "POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nsel").unwrap();
            let answer = read_answer(stream);
            assert_eq!((answer.status, answer.code().as_str()), (408, "too_slow"));
        });
    });
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    eventually("their places are free", || {
        let text = served.get("/metrics").text().to_owned();
        text.contains("splay_connections{listener=\"flight\"} 0")
            && text.contains("splay_connections{listener=\"http\"} 1")
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_and_places_come_back() {
    let served = Served::with("limits.client_connections_max = 8");
    let connections: Vec<_> = (0..8).map(|_| connect(served.http())).collect();
    eventually("a connection too many is closed", || {
        let mut stream = connect(served.http());
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.is_empty()
    });
    drop(connections);
    eventually("places come back", || {
        let mut stream = connect(served.http());
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.starts_with(b"HTTP/1.1 200")
    });
}

#[test]
fn connections_for_http_and_flight_have_one_limit() {
    let served = Served::with("limits.connections_max = 6");
    let _held: Vec<_> = (0..6).map(|number| connect([served.http(), served.flight()][number % 2])).collect();
    // Kept, so that there is one too many whoever is taken first.
    let mut probes = Vec::new();
    eventually("a connection too many is closed", || {
        let mut stream = connect(served.http());
        let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
        let is_closed = matches!(stream.read(&mut [0; 10]), Ok(0)) || stream.write_all(b"\n").is_err();
        probes.push(stream);
        is_closed
    });
}

#[test]
fn hostile_statements_leave_the_server_alive() {
    let served = Served::with("limits.statement_seconds_max = 2\nlimits.statement_bytes_max = 50000000");
    let deep = format!("select {}1{}", "(".repeat(5000), ")".repeat(5000));
    let nested = format!("select {} 1", "not ".repeat(5000));
    let long = format!(
        "select count(*) from trade where sym in ({})",
        (0..20_000).map(|i| format!("'{i}'")).collect::<Vec<_>>().join(",")
    );
    for sql in [
        deep.as_str(),
        &nested,
        &long,
        "select repeat('x', 2000000000)",
        "select count(*) from generate_series(1, 1000000000000)",
        "with recursive r as (select 1 as n union all select n + 1 from r) select max(n) from r",
        "select regexp_match(repeat('a', 100000), '(a+)+$')",
    ] {
        let answer = served.query(sql);
        assert!(answer.status >= 200, "{}", sql.chars().take(60).collect::<String>());
        assert_eq!(served.get("/health").status, 200);
    }
    assert_eq!(served.query("select count(*) from trade").status, 200);
}
