//! Line protocol over TCP.

use std::io::{Read, Write};

use crate::support::{Served, connect, eventually};

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
