//! A server on a free port, and clients that are no larger than the tests need.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow::array::{DictionaryArray, Float64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::Int32Type;
use splay_server::settings::Settings;
use splay_server::{Addresses, Server};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec};
use tokio::sync::oneshot;

use crate::memory::MemoryIngest;

/// Rows of the table `trade`, a power of two larger than a piece of an answer.
pub const TRADES: i64 = 32_768;

pub fn trades_spec() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("price", ColumnType::Float64),
    ];
    TableSpec::new("trade", columns, "time", Some("sym"))
}

/// Trades at `first` nanoseconds of 2026 and each nanosecond after.
pub fn trades(first: i64, rows: i64) -> RecordBatch {
    let times = (first..first + rows).map(|i| 1_767_225_600_000_000_000 + i);
    let symbols: Vec<_> = (first..first + rows).map(|i| if i % 2 == 0 { "AIG" } else { "IBM" }).collect();
    RecordBatch::try_new(
        trades_spec().arrow(),
        vec![
            Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC")),
            Arc::new(symbols.into_iter().collect::<DictionaryArray<Int32Type>>()),
            Arc::new(Float64Array::from_iter_values((first..first + rows).map(|i| i as f64))),
        ],
    )
    .unwrap()
}

pub struct Served {
    pub addresses: Addresses,
    pub ingest: Arc<MemoryIngest>,
    pub folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn new() -> Served {
        Served::with("")
    }

    /// A server with these settings besides free ports.
    pub fn with(text: &str) -> Served {
        let ports =
            "http.address = \"127.0.0.1:0\"\nflight.address = \"127.0.0.1:0\"\nline.address = \"127.0.0.1:0\"\n";
        let settings = Settings::parse(&format!("{ports}{text}")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let database = Database::create(folder.path()).unwrap();
        let mut load = database.load(&trades_spec(), LoadOptions::default()).unwrap();
        load.append(&trades(0, TRADES)).unwrap();
        load.commit().unwrap();
        let ingest = Arc::new(MemoryIngest::default());
        let (stop, stopped) = oneshot::channel();
        let (sender, bound) = std::sync::mpsc::channel();
        let ingest_of_server = Arc::clone(&ingest);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let server = Server::bind(settings, database, Some(ingest_of_server)).await.unwrap();
                sender.send(server.addresses()).unwrap();
                server.run(async { drop(stopped.await) }).await;
            });
            runtime.shutdown_background();
        });
        let addresses = bound.recv().unwrap();
        Served { addresses, ingest, folder, stop: Some(stop), thread: Some(thread) }
    }

    pub fn http(&self) -> SocketAddr {
        self.addresses.http.unwrap()
    }

    pub fn flight(&self) -> SocketAddr {
        self.addresses.flight.unwrap()
    }

    pub fn postgres(&self) -> SocketAddr {
        self.addresses.postgres.unwrap()
    }

    pub fn line(&self) -> SocketAddr {
        self.addresses.line.unwrap()
    }

    pub fn get(&self, path: &str) -> Answer {
        request(self.http(), "GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        request(self.http(), "POST", path, headers, body)
    }

    /// The answer of a statement sent as text.
    pub fn query(&self, sql: &str) -> Answer {
        self.post("/query", &[("content-type", "text/plain")], sql.as_bytes())
    }

    /// Stops the server and waits for it.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    /// Whether the body came to its end.
    pub whole: bool,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap().to_owned()
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

pub fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut stream = connect(address);
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    // A server that refuses by the head may close before the body is sent.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    read_answer(stream)
}

pub fn read_answer(stream: TcpStream) -> Answer {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}")).parse().unwrap();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let (mut body, mut whole) = (Vec::new(), true);
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        whole = loop {
            let mut size = String::new();
            if reader.read_line(&mut size).unwrap_or(0) == 0 {
                break false;
            }
            let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            if reader.read_exact(&mut chunk).is_err() {
                break false;
            }
            if size == 0 {
                break true;
            }
            body.extend_from_slice(&chunk[..size]);
        };
    } else {
        let _ = reader.read_to_end(&mut body);
    }
    Answer { status, headers, body, whole }
}

/// Waits for something that happens on another thread.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}
