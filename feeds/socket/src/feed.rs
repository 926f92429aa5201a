//! The worker of a feed: makes rows of the messages that another thread reads, and sends them.
//!
//! Each table of a feed is a producer of the server, new in each run, with messages numbered from one. A batch whose answer is lost is sent
//! again under its number, and stored once. A socket can't be read again. So if a batch has to be made anew, because the server has another
//! position or the table other columns, it is decoded again from its messages.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use splay_records::columns::Column;
use splay_records::dead_letters::{DeadLetter, DeadLetters};
use splay_records::decode::Record;
use splay_records::mailbox::{Mailbox, MessageSize, OwnedRecord};
use splay_records::metrics::Counts;
use splay_records::partition::{Feed, FeedEnd, Partition};
use splay_records::server::{QueryFailure, Reply, RowsMessage, Server, Sink};
use splay_records::settings::OnError;
use splay_records::stop::StopSignal;

use crate::arrival_queue::Arrival;
use crate::counts::{FeedCounts, LogRateLimit};
use crate::dead_letters::FeedDeadLetters;
use crate::gap_detector::GapDetector;
use crate::recipe::{Decoder, Recipe, Route, Router};
use crate::settings::{FeedSettings, Settings, TableSettings};

/// The longest wait before the server is tried again.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The longest wait for a message before the worker looks at the clock and at the end of the process.
const IDLE: Duration = Duration::from_millis(100);

/// The server as the feed of one table sees it. It outlives a feed that restarts.
#[derive(Debug)]
pub struct TableSink<'a> {
    server: &'a Server,
    settings: &'a TableSettings,
    stop: &'a StopSignal,
    /// `feed/table`, for counts and dead letters.
    name: String,
    producer: String,
    counts: Arc<Counts>,
    gaps: Arc<Mutex<GapDetector>>,
    /// The columns that rows are made for.
    columns: Mutex<Vec<Column>>,
}

impl TableSink<'_> {
    fn columns(&self) -> Result<Vec<Column>, QueryFailure> {
        self.server.columns(&self.settings.name, self.settings.create.as_ref())
    }
}

impl Sink for TableSink<'_> {
    fn write(&self, message: &RowsMessage<'_>) -> Reply {
        self.server.write(message, self.settings.create.as_ref())
    }

    fn last(&self, producer: &str) -> Result<Option<u64>, QueryFailure> {
        self.server.last(producer)
    }

    fn is_current(&self) -> Result<bool, QueryFailure> {
        Ok(self.columns()? == *self.columns.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wait(&self, time: Duration) -> bool {
        self.stop.wait(time)
    }
}

/// A table's feed, and the number of its next message.
struct TableFeed<'a> {
    feed: Feed<'a, TableSink<'a>, FeedDeadLetters, Decoder>,
    next: u64,
}

/// Makes rows of a feed's messages.
#[derive(Debug)]
pub struct Worker<'a> {
    settings: &'a FeedSettings,
    router: Router,
    sinks: Vec<TableSink<'a>>,
    dead: &'a FeedDeadLetters,
    counts: Arc<FeedCounts>,
    stop: &'a StopSignal,
    is_refused: &'a AtomicBool,
    /// Messages that were to be decoded again, and were lost by the end of the process.
    lost: AtomicUsize,
    log_limit: LogRateLimit,
}

/// The parts of a worker.
#[derive(Debug)]
pub struct WorkerContext<'a> {
    /// All settings.
    pub all: &'a Settings,
    /// The settings of the feed.
    pub feed: &'a FeedSettings,
    /// The server.
    pub server: &'a Server,
    /// The store of messages that are no rows.
    pub dead: &'a FeedDeadLetters,
    /// The counts of a table, by its name.
    pub tables: &'a splay_records::metrics::Metrics,
    /// A text that no other run has.
    pub run: &'a str,
    /// The end of the process.
    pub stop: &'a StopSignal,
    /// Tells the reading thread that the venue refuses the subscription.
    pub is_refused: &'a AtomicBool,
}

impl<'a> Worker<'a> {
    /// The worker of a feed. Doesn't connect yet.
    ///
    /// # Errors
    /// Paths that are none.
    pub fn new(context: &WorkerContext<'a>) -> Result<Worker<'a>, String> {
        let WorkerContext { all, feed, server, dead, tables, run, stop, is_refused } = *context;
        let counts = Arc::clone(&dead.counts);
        let sink = |(place, settings): (usize, &'a TableSettings)| {
            let name = format!("{}/{}", feed.name, settings.name);
            let gaps = GapDetector::new(name.clone(), Arc::clone(&counts));
            TableSink {
                server,
                settings,
                stop,
                producer: all.producer(&feed.name, place, &settings.name, run),
                counts: tables.counts(&name),
                name,
                gaps: Arc::new(Mutex::new(gaps)),
                columns: Mutex::default(),
            }
        };
        let sinks = feed.tables.iter().enumerate().map(sink).collect();
        let (router, lost, log_limit) = (Router::new(feed)?, AtomicUsize::new(0), LogRateLimit::default());
        Ok(Worker { settings: feed, router, sinks, dead, counts, stop, is_refused, lost, log_limit })
    }

    /// Makes rows of the messages until reading has ended and all rows are sent.
    ///
    /// # Errors
    /// A failure that a person has to end, with the number of messages that are lost by it.
    pub fn run(&'a self, mailbox: &Mailbox<Arrival>, is_over: &AtomicBool) -> Result<(), String> {
        let (mut table_feeds, mut waiting) = (Vec::new(), VecDeque::new());
        let ended = self.work(&mut table_feeds, &mut waiting, mailbox, is_over);
        if ended.is_ok() {
            return Ok(());
        }
        // The reading thread is stopped before the waiting messages are counted.
        self.stop.set();
        while !is_over.load(Ordering::SeqCst) {
            std::thread::sleep(IDLE);
        }
        let unsent: usize =
            table_feeds.iter_mut().map(|table_feed: &mut TableFeed<'_>| table_feed.feed.unsent().len()).sum();
        let again = self.lost.load(Ordering::SeqCst);
        let lost = unsent + again + waiting.len() + mailbox.take(Duration::ZERO).map_or(0, |rest| rest.len());
        let reason = match ended {
            Err(FeedEnd::Failed(reason) | FeedEnd::Restart(reason)) => reason,
            _ => "the process ends, and the server doesn't answer".to_owned(),
        };
        if lost > 0 {
            tracing::error!(feed = self.settings.name, lost, "messages are lost");
        }
        Err(format!("feed {:?}: {reason}; {lost} messages are lost", self.settings.name))
    }

    fn work(
        &'a self,
        table_feeds: &mut Vec<TableFeed<'a>>,
        waiting: &mut VecDeque<Arrival>,
        mailbox: &Mailbox<Arrival>,
        is_over: &AtomicBool,
    ) -> Result<(), FeedEnd> {
        for sink in &self.sinks {
            table_feeds.push(self.open(sink, true, 0)?);
        }
        loop {
            // Read before the mailbox, which then has all messages that came before reading ended.
            let is_last = is_over.load(Ordering::SeqCst);
            let now = Instant::now();
            let due =
                table_feeds.iter().filter_map(|table_feed| table_feed.feed.due_in(now)).min().unwrap_or(IDLE).min(IDLE);
            waiting.extend(mailbox.take(if is_last { Duration::ZERO } else { due }).unwrap_or_default());
            while let Some(arrival) = waiting.pop_front() {
                mailbox.release(arrival.bytes());
                self.take(table_feeds, &arrival)?;
            }
            for (place, table_feed) in table_feeds.iter_mut().enumerate() {
                let sent = if is_last { table_feed.feed.flush() } else { table_feed.feed.tick(Instant::now()) };
                self.go_on(&self.sinks[place], table_feed, sent, VecDeque::new())?;
            }
            let is_all_sent = table_feeds.iter().all(|table_feed| table_feed.feed.due_in(now).is_none());
            if is_last && is_all_sent {
                return Ok(());
            }
        }
    }

    /// Takes a message into its table.
    fn take(&'a self, table_feeds: &mut [TableFeed<'a>], arrival: &Arrival) -> Result<(), FeedEnd> {
        let Arrival { time_ns, key, payload, fault } = arrival;
        let route = match fault {
            Some(reason) => Err(reason.clone()),
            None => self.router.route(key.as_deref(), payload),
        };
        let place = match route {
            Ok(Route::Table(place)) => place,
            Ok(Route::Ignored) => {
                self.counts.ignored.add(1);
                return Ok(());
            }
            Ok(Route::Failed) => {
                self.counts.failed.add(1);
                let message = String::from_utf8_lossy(&payload[..payload.len().min(400)]).into_owned();
                tracing::error!(feed = self.settings.name, message, "the venue refuses a subscription");
                self.is_refused.store(true, Ordering::SeqCst);
                return Ok(());
            }
            Ok(Route::Unknown) => return self.bad(arrival, "no table takes it, and ignore has no such message"),
            Err(reason) => return self.bad(arrival, &reason),
        };
        let table_feed = &mut table_feeds[place];
        let record =
            Record { offset: table_feed.next, time_ns: Some(*time_ns), key: key.as_deref(), payload: Some(payload) };
        table_feed.next += 1;
        let outcome = table_feed.feed.take(&record, Instant::now());
        self.go_on(&self.sinks[place], table_feed, outcome, VecDeque::new())
    }

    /// A message that no table takes.
    fn bad(&self, arrival: &Arrival, reason: &str) -> Result<(), FeedEnd> {
        self.counts.bad.add(1);
        if self.log_limit.is_due() {
            tracing::warn!(feed = self.settings.name, reason, "a message is no row: it is among the dead letters");
        }
        let letter = DeadLetter {
            topic: &self.settings.name,
            partition: None,
            offset: self.counts.bad.get(),
            key: arrival.key.as_deref(),
            payload: &arrival.payload,
            reason,
        };
        while let Err(error) = self.dead.write(&letter) {
            tracing::warn!(feed = self.settings.name, error, "a dead letter can't be written");
            if !self.stop.wait(WAIT_MAX) {
                self.counts.dead_dropped.add(1);
                return Err(FeedEnd::Stopped);
            }
        }
        Ok(())
    }

    /// Continues with a table whose feed has to begin anew: decodes its unsent messages again, and sends them after the server's position.
    fn go_on(
        &'a self,
        sink: &'a TableSink<'a>,
        table_feed: &mut TableFeed<'a>,
        mut ended: Result<(), FeedEnd>,
        mut rest: VecDeque<OwnedRecord>,
    ) -> Result<(), FeedEnd> {
        loop {
            match ended {
                Err(FeedEnd::Restart(reason)) => {
                    tracing::warn!(of = sink.name, reason, "asks the server anew, and sends again what it hasn't");
                    table_feed.feed.unsent().into_iter().rev().for_each(|record| rest.push_front(record));
                    let before = table_feed.feed.position();
                    match self.open(sink, false, before) {
                        Ok(opened) => table_feed.feed = opened.feed,
                        Err(ended) => return Err(self.lose(rest.len(), ended)),
                    }
                }
                other if rest.is_empty() => return other,
                Err(other) => return Err(self.lose(rest.len(), other)),
                Ok(()) => {}
            }
            ended = Ok(());
            while let (Ok(()), Some(unsent)) = (&ended, rest.pop_front()) {
                let OwnedRecord { offset, time_ns, key, payload } = &unsent;
                let record =
                    Record { offset: *offset, time_ns: *time_ns, key: key.as_deref(), payload: payload.as_deref() };
                ended = table_feed.feed.take(&record, Instant::now());
            }
            if ended.is_ok() {
                return Ok(());
            }
        }
    }

    /// Counts messages that are in no feed any more.
    fn lose(&self, messages: usize, ended: FeedEnd) -> FeedEnd {
        self.lost.fetch_add(messages, Ordering::SeqCst);
        ended
    }

    /// Opens a table's feed from what the server has.
    fn open(&'a self, sink: &'a TableSink<'a>, is_first: bool, before: u64) -> Result<TableFeed<'a>, FeedEnd> {
        let TableSink { settings, name, producer, counts, .. } = sink;
        let (columns, recipe) = self.retry_query(is_first, || {
            let columns = sink.columns()?;
            let recipe = Recipe::new(&self.settings.name, settings, &columns).map_err(QueryFailure::Permanent)?;
            Ok((columns, recipe))
        })?;
        let last = self.retry_query(is_first, || sink.server.last(producer))?.unwrap_or(0);
        if last < before {
            let forgotten = before - last;
            tracing::error!(of = name, forgotten, "the server doesn't have messages that it had acknowledged");
        }
        *sink.columns.lock().unwrap_or_else(PoisonError::into_inner) = columns;
        let partition = Partition {
            table: &settings.name,
            topic: name,
            partition: None,
            producer,
            batch: settings.batch,
            on_error: OnError::Skip,
            // A venue goes on, whatever it sends: the dead letters have it, and their file has a limit.
            in_a_row_max: u64::MAX,
        };
        let decoder = Decoder::new(recipe, Arc::clone(&sink.gaps));
        Ok(TableFeed { feed: Feed::new(partition, sink, self.dead, counts, decoder, (last, last)), next: last })
    }

    /// Asks the server until it answers. At the start, a permanent failure is a fault of the settings.
    fn retry_query<T>(&self, is_first: bool, ask: impl Fn() -> Result<T, QueryFailure>) -> Result<T, FeedEnd> {
        let mut wait = Duration::from_millis(200);
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(QueryFailure::Permanent(reason)) if is_first => return Err(FeedEnd::Failed(reason)),
                Err(QueryFailure::Permanent(reason) | QueryFailure::Temporary(reason)) => {
                    tracing::warn!(feed = self.settings.name, reason, "waits for the server");
                }
            }
            if !self.stop.wait(wait) {
                return Err(FeedEnd::Stopped);
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }
}
