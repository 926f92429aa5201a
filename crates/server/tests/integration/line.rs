//! Line protocol over TCP.

use std::io::{Read, Write};

use crate::support::{Served, connect, eventually, request};

#[test]
fn lines_are_stored_as_they_come() {
    let served = Served::new();
    let mut stream = connect(served.line());
    stream.write_all(b"trade,sym=IBM price=1 1\ntrade,sym=I").unwrap();
    // While the connection is open and a line is half sent.
    eventually("the first line", || served.ingest.rows("trade") == 1);
    stream.write_all(b"BM price=2 2\n").unwrap();
    eventually("the second line", || served.ingest.rows("trade") == 2);
    stream.write_all(&b"trade,sym=IBM price=3 3\n".repeat(20_000)).unwrap();
    drop(stream);
    eventually("all lines", || served.ingest.rows("trade") == 20_002);
}

#[test]
fn a_bad_line_does_not_end_the_stream() {
    let served = Served::new();
    let mut stream = connect(served.line());
    stream.write_all(b"nonsense\ntrade,sym=IBM price=1 1\n\xff\xfe\x00\ntrade,sym=IBM price=1 2\n").unwrap();
    drop(stream);
    eventually("the good lines", || served.ingest.rows("trade") == 2);
    eventually("the bad lines", || served.ingest.rejected().len() == 2);
}

#[test]
fn a_full_disk_is_waited_for() {
    let served = Served::new();
    served.ingest.be_full(3);
    let mut stream = connect(served.line());
    stream.write_all(b"trade,sym=IBM price=1 1\n").unwrap();
    eventually("the line", || served.ingest.rows("trade") == 1);
}

#[test]
fn rows_for_which_the_journal_has_no_room_are_kept_until_it_has() {
    let served = Served::new();
    served.ingest.be_full_later(3);
    let mut stream = connect(served.line());
    for (line, rows) in [("trade,sym=IBM price=1 1\n", 1), ("trade,sym=IBM price=1 2\nquote,sym=IBM bid=1 2\n", 2)] {
        stream.write_all(line.as_bytes()).unwrap();
        eventually("the lines", || served.ingest.rows("trade") == rows);
    }
    // Also when nobody is there any more who could send them again.
    served.ingest.be_full_later(3);
    stream.write_all(b"trade,sym=IBM price=1 3\nquote,sym=IBM bid=1 3\n").unwrap();
    drop(stream);
    eventually("the last lines", || (served.ingest.rows("trade"), served.ingest.rows("quote")) == (3, 2));
    assert_eq!(served.ingest.rejected(), [""; 0]);
}

#[test]
fn a_server_that_stops_takes_what_came() {
    let mut served = Served::new();
    let mut stream = connect(served.line());
    stream.write_all(b"trade,sym=IBM price=1 1\n").unwrap();
    eventually("the line", || served.ingest.rows("trade") == 1);
    served.stop();
    assert_eq!(stream.read(&mut [0; 10]).unwrap_or(0), 0);
}

#[test]
fn a_line_that_was_cut_off_is_no_row() {
    let served = Served::new();
    for cut in ["trade,sym=IB", "trade,sym=IBM price=12", "trade,sym=IBM price=12 1"] {
        let mut stream = connect(served.line());
        stream.write_all(format!("trade,sym=IBM price=1 1\n{cut}").as_bytes()).unwrap();
    }
    eventually("the whole lines", || served.ingest.rows("trade") == 3);
    eventually("the connections are over", || {
        served.get("/metrics").text().contains("splay_connections{listener=\"line\"} 0")
    });
    assert_eq!(served.ingest.rows("trade"), 3);
}

/// The browser of a page of any origin stored both lines: the request's head was refused line by line, its body was taken.
#[test]
fn what_a_web_page_sends_is_closed_before_a_line_of_it_is_taken() {
    let served = Served::new();
    let lines = "trade,sym=IBM price=1 1\ntrade,sym=IBM price=2 2\n";
    let head = |method: &str| {
        let address = served.line();
        format!("{method} /{} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://example.com\r\n\r\n", "x".repeat(100_000))
    };
    let handshake = b"\x16\x03\x01\x00\xf0\x01\n".as_slice();
    for opening in [head("POST").as_bytes(), head("OPTIONS").as_bytes(), b"GET / HTTP/1.1\r\n\r\n", handshake] {
        for piece in [1 << 20, 1_000, 7] {
            let mut stream = connect(served.line());
            let sent = [opening, lines.as_bytes()].concat();
            // The server may have closed it before all of it is sent.
            let _ = sent.chunks(piece).try_for_each(|piece| stream.write_all(piece));
            assert_eq!(stream.read(&mut [0; 10]).unwrap_or(0), 0);
        }
    }
    eventually("they are counted", || {
        served.get("/metrics").text().contains("splay_requests_total{way=\"line\",outcome=\"foreign\"} 12")
    });
    assert_eq!(served.ingest.rows("trade"), 0);
    let rejected = served.ingest.rejected();
    assert_eq!(rejected.len(), 12, "{rejected:?}");
    assert!(rejected.iter().all(|reason| reason.starts_with("line: the connection opens with ")), "{rejected:?}");
    // A table of capital letters is none of that.
    connect(served.line()).write_all(b"TRADE price=1 1\nPOST /=1 2\n").unwrap();
    eventually("the lines", || (served.ingest.rows("TRADE"), served.ingest.rows("POST")) == (1, 1));
}

/// 300 silent connections for line protocol had all places of their address: each request over HTTP was reset.
#[test]
fn connections_for_lines_have_places_of_their_own() {
    let served = Served::with("limits.client_connections_max = 2\nlimits.line_client_connections_max = 6");
    let silent: Vec<_> = (0..6).map(|_| connect(served.line())).collect();
    eventually("one too many is closed", || {
        let refused = "splay_connections_refused_total{listener=\"line\"}";
        drop(connect(served.line()));
        request(served.http(), "GET", "/metrics", &[], b"").text().contains(refused)
    });
    assert_eq!(served.get("/health").status, 200);
    drop(silent);
    eventually("places come back", || {
        let _ = connect(served.line()).write_all(b"trade,sym=IBM price=1 1\n");
        served.ingest.rows("trade") > 0
    });
}
