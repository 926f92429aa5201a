//! Counters of the program, as a line of the log and as a page for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A number that grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Its value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of a topic or a table since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Records that were read.
    pub records: Count,
    /// Bytes of them.
    pub bytes: Count,
    /// Rows that the server has taken, or had before.
    pub rows: Count,
    /// Messages that the server has taken.
    pub batches: Count,
    /// Messages of these that the server had before.
    pub repeats: Count,
    /// Records without a value.
    pub tombstones: Count,
    /// Records that went to the dead letters.
    pub dead: Count,
    /// Waits before a call was made again.
    pub retries: Count,
    /// Messages that didn't follow on the server's last one.
    pub conflicts: Count,
    /// Rows in quarantine.
    pub quarantined: Count,
    /// Rows that the server left out as duplicates.
    pub duplicate_rows: Count,
}

impl Counts {
    fn all(&self) -> [(&'static str, &'static str, u64); 11] {
        [
            ("records", "Records that were read.", self.records.get()),
            ("record_bytes", "Bytes of the records that were read.", self.bytes.get()),
            ("rows", "Rows that the server has taken.", self.rows.get()),
            ("batches", "Messages that the server has taken.", self.batches.get()),
            ("repeats", "Messages that the server had taken before.", self.repeats.get()),
            ("tombstones", "Records without a value.", self.tombstones.get()),
            ("dead_letters", "Records that are no rows.", self.dead.get()),
            ("retries", "Waits before the same was tried again.", self.retries.get()),
            ("conflicts", "Messages that did not follow on the server's last one.", self.conflicts.get()),
            ("quarantined_rows", "Rows whose time is too far ahead.", self.quarantined.get()),
            ("duplicate_rows", "Rows that the server left out as duplicates.", self.duplicate_rows.get()),
        ]
    }
}

/// The progress of a partition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// The offset up to which the server has all.
    pub position: u64,
    /// The offset behind the last record in Kafka, as far as it is known.
    pub end: Option<u64>,
}

/// All numbers of a program.
#[derive(Debug)]
pub struct Metrics {
    /// The beginning of Prometheus' names.
    prefix: &'static str,
    /// The label that names the topic or the feed.
    label: &'static str,
    topics: Mutex<BTreeMap<String, Arc<Counts>>>,
    progress: Mutex<BTreeMap<(String, i32), Progress>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// No numbers yet. Names for Prometheus begin with `prefix`; `label` is the label that names the topic or the feed.
    #[must_use]
    pub fn new(prefix: &'static str, label: &'static str) -> Metrics {
        Metrics { prefix, label, topics: Mutex::default(), progress: Mutex::default() }
    }

    /// Writes a number with its help and type, and a value for each name.
    pub fn write<'a>(
        &self,
        page: &mut String,
        (name, kind, help): (&str, &str, &str),
        values: impl Iterator<Item = (&'a str, u64)>,
    ) {
        let Metrics { prefix, label, .. } = self;
        let end = if kind == "counter" { "_total" } else { "" };
        writeln!(page, "# HELP {prefix}_{name}{end} {help}\n# TYPE {prefix}_{name}{end} {kind}").ok();
        for (of, value) in values {
            writeln!(page, "{prefix}_{name}{end}{{{label}=\"{}\"}} {value}", quoted(of)).ok();
        }
    }

    /// The counts of a topic.
    #[must_use]
    pub fn counts(&self, topic: &str) -> Arc<Counts> {
        Arc::clone(lock(&self.topics).entry(topic.to_owned()).or_default())
    }

    /// Sets the offset up to which the server has a partition.
    pub fn set_position(&self, topic: &str, partition: i32, position: u64) {
        lock(&self.progress).entry((topic.to_owned(), partition)).or_default().position = position;
    }

    /// Sets the offset after the last record of a partition.
    pub fn set_end(&self, topic: &str, partition: i32, end: u64) {
        if let Some(progress) = lock(&self.progress).get_mut(&(topic.to_owned(), partition)) {
            progress.end = Some(end);
        }
    }

    /// The progress of each partition.
    #[must_use]
    pub fn progress(&self) -> Vec<((String, i32), Progress)> {
        lock(&self.progress).iter().map(|(key, progress)| (key.clone(), *progress)).collect()
    }

    /// A line for the log: sums over all topics.
    #[must_use]
    pub fn line(&self) -> String {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for counts in lock(&self.topics).values() {
            counts.all().into_iter().for_each(|(name, _, value)| *sums.entry(name).or_default() += value);
        }
        let shown = ["records", "rows", "record_bytes", "dead_letters", "retries"];
        let mut line: Vec<String> =
            shown.iter().map(|name| format!("{name}={}", sums.get(name).copied().unwrap_or(0))).collect();
        if lock(&self.progress).is_empty() {
            return line.join(" ");
        }
        let lag: u64 = lock(&self.progress).values().filter_map(|at| Some(at.end?.saturating_sub(at.position))).sum();
        line.push(format!("lag={lag}"));
        line.join(" ")
    }

    /// The page for Prometheus.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::new();
        let topics: Vec<_> = lock(&self.topics).iter().map(|(name, counts)| (name.clone(), counts.all())).collect();
        let names = Counts::default().all();
        for (place, (name, help, _)) in names.into_iter().enumerate() {
            let values = topics.iter().map(|(topic, values)| (topic.as_str(), values[place].2));
            self.write(&mut page, (name, "counter", help), values);
        }
        let progress = self.progress();
        if progress.is_empty() {
            return page;
        }
        let Metrics { prefix, label, .. } = self;
        let gauges: [(&str, &str, fn(&Progress) -> Option<u64>); 2] = [
            ("position", "Offset up to which the server has all.", |at| Some(at.position)),
            ("lag", "Records in Kafka that the server has not.", |at| Some(at.end?.saturating_sub(at.position))),
        ];
        for (name, help, value) in gauges {
            writeln!(page, "# HELP {prefix}_{name} {help}\n# TYPE {prefix}_{name} gauge").ok();
            for ((topic, partition), at) in &progress {
                if let Some(value) = value(at) {
                    let topic = quoted(topic);
                    writeln!(page, "{prefix}_{name}{{{label}=\"{topic}\",partition=\"{partition}\"}} {value}").ok();
                }
            }
        }
        page
    }
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Answers Prometheus with `page`, one request after the other, for as long as the process lives.
///
/// # Errors
/// The thread can't be started.
pub fn serve(listener: TcpListener, page: impl Fn() -> String + Send + 'static) -> std::io::Result<()> {
    let answer_all = move || {
        for stream in listener.incoming().flatten() {
            // A client that doesn't read its answer gets nothing.
            answer(stream, &page).ok();
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(answer_all).map(drop)
}

fn answer(mut stream: TcpStream, page: &impl Fn() -> String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..read]);
        if read == 0 || request.len() > 8 << 10 {
            return Ok(());
        }
    }
    let (status, body) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", page())
    } else {
        ("404 Not Found", "the numbers are at /metrics\n".to_owned())
    };
    let length = body.len();
    let kind = "content-type: text/plain; version=0.0.4\r\nconnection: close";
    write!(stream, "HTTP/1.1 {status}\r\n{kind}\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn prometheus_is_told_counts_by_topic_and_lags_by_partition() {
        let metrics = Arc::new(Metrics::new("splay_kafka", "topic"));
        metrics.counts("a\"b").rows.add(7);
        metrics.set_position("a\"b", 3, 90);
        metrics.set_end("a\"b", 3, 100);
        metrics.set_position("other", 0, 5);
        assert_eq!(metrics.line(), "records=0 rows=7 record_bytes=0 dead_letters=0 retries=0 lag=10");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let of_page = Arc::clone(&metrics);
        serve(listener, move || of_page.page()).unwrap();
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let page = ask("/metrics");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains("\nsplay_kafka_rows_total{topic=\"a\\\"b\"} 7\n"), "{page}");
        assert!(page.contains("\nsplay_kafka_lag{topic=\"a\\\"b\",partition=\"3\"} 10\n"), "{page}");
        assert!(!page.contains("lag{topic=\"other\""), "an end that isn't known is no lag: {page}");
        assert!(ask("/").starts_with("HTTP/1.1 404"));
    }
}
