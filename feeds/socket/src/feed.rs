//! A feed at work: a thread that reads, and one that makes rows of messages and sends them.
//!
//! Each table of a feed is a producer of the server, new in each run, and its messages are numbered from one: a batch whose answer is lost is sent
//! again under its number and stored once. Nothing can be read again here, so a batch that has to begin anew, because the server is another one
//! or the table has other columns, is decoded again from its messages.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use splay_records::columns::Column;
use splay_records::dead_letters::{DeadLetter, DeadLetters};
use splay_records::decode::Record;
use splay_records::mailbox::{Letter, Mailbox, Weight};
use splay_records::metrics::Counts;
use splay_records::partition::{Ended, Feed, Partition};
use splay_records::server::{Message, Reply, Server, Sink, Untold};
use splay_records::settings::OnError;
use splay_records::stop::Stop;

use crate::counts::{FeedCounts, Seldom};
use crate::dead::FeedDeadLetters;
use crate::inlet::Arrival;
use crate::recipe::{Decoder, Recipe, Route, Router};
use crate::sequence::Sequence;
use crate::settings::{FeedSettings, Settings, TableSettings};

/// The longest wait before the server is asked again.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How long nothing to do is waited for.
const IDLE: Duration = Duration::from_millis(100);

/// What outlives a table's feed.
#[derive(Debug)]
pub struct Outlet<'a> {
    server: &'a Server,
    settings: &'a TableSettings,
    stop: &'a Stop,
    /// `feed/table`, for counts and dead letters.
    name: String,
    producer: String,
    counts: Arc<Counts>,
    sequence: Arc<Mutex<Sequence>>,
    /// The columns that rows are made for.
    columns: Mutex<Vec<Column>>,
}

impl Outlet<'_> {
    fn columns(&self) -> Result<Vec<Column>, Untold> {
        self.server.columns(&self.settings.name, self.settings.create.as_ref())
    }
}

impl Sink for Outlet<'_> {
    fn write(&self, message: &Message<'_>) -> Reply {
        self.server.write(message, self.settings.create.as_ref())
    }

    fn last(&self, producer: &str) -> Result<Option<u64>, Untold> {
        self.server.last(producer)
    }

    fn is_current(&self) -> Result<bool, Untold> {
        Ok(self.columns()? == *self.columns.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wait(&self, time: Duration) -> bool {
        self.stop.wait(time)
    }
}

/// A table's feed, and how many of its messages were numbered.
struct Lane<'a> {
    feed: Feed<'a, Outlet<'a>, FeedDeadLetters, Decoder>,
    next: u64,
}

/// What makes rows of a feed's messages.
#[derive(Debug)]
pub struct Worker<'a> {
    settings: &'a FeedSettings,
    router: Router,
    outlets: Vec<Outlet<'a>>,
    dead: &'a FeedDeadLetters,
    counts: Arc<FeedCounts>,
    stop: &'a Stop,
    is_refused: &'a AtomicBool,
    seldom: Seldom,
}

/// What a worker is given.
#[derive(Debug)]
pub struct Given<'a> {
    /// All settings.
    pub all: &'a Settings,
    /// Those of the feed.
    pub feed: &'a FeedSettings,
    /// The server.
    pub server: &'a Server,
    /// Where messages go that are no rows.
    pub dead: &'a FeedDeadLetters,
    /// The counts of a table, by its name.
    pub tables: &'a splay_records::metrics::Metrics,
    /// What no other run has.
    pub run: &'a str,
    /// The end.
    pub stop: &'a Stop,
    /// Told to who reads when the venue refuses what was asked for.
    pub is_refused: &'a AtomicBool,
}

impl<'a> Worker<'a> {
    /// The worker of a feed. Asks nobody yet.
    ///
    /// # Errors
    /// Paths that are none.
    pub fn new(given: &Given<'a>) -> Result<Worker<'a>, String> {
        let Given { all, feed, server, dead, tables, run, stop, is_refused } = *given;
        let counts = Arc::clone(&dead.counts);
        let outlet = |(place, settings): (usize, &'a TableSettings)| {
            let name = format!("{}/{}", feed.name, settings.name);
            let sequence = Sequence::new(name.clone(), Arc::clone(&counts));
            Outlet {
                server,
                settings,
                stop,
                producer: all.producer(&feed.name, place, &settings.name, run),
                counts: tables.counts(&name),
                name,
                sequence: Arc::new(Mutex::new(sequence)),
                columns: Mutex::default(),
            }
        };
        let outlets = feed.tables.iter().enumerate().map(outlet).collect();
        let (router, seldom) = (Router::new(feed)?, Seldom::default());
        Ok(Worker { settings: feed, router, outlets, dead, counts, stop, is_refused, seldom })
    }

    /// Makes rows of what comes until reading has ended and all is sent.
    ///
    /// # Errors
    /// What a person has to do something about; how many messages are lost by it.
    pub fn run(&'a self, mailbox: &Mailbox<Arrival>, is_over: &AtomicBool) -> Result<(), String> {
        let (mut lanes, mut waiting) = (Vec::new(), VecDeque::new());
        let ended = self.work(&mut lanes, &mut waiting, mailbox, is_over);
        if ended.is_ok() {
            return Ok(());
        }
        // Who reads ends before it is counted what waits.
        self.stop.set();
        while !is_over.load(Ordering::SeqCst) {
            std::thread::sleep(IDLE);
        }
        let unsent: usize = lanes.iter_mut().map(|lane: &mut Lane<'_>| lane.feed.unsent().len()).sum();
        let lost = unsent + waiting.len() + mailbox.take(Duration::ZERO).map_or(0, |rest| rest.len());
        let reason = match ended {
            Err(Ended::Failed(reason) | Ended::Anew(reason)) => reason,
            _ => "the process ends, and the server doesn't answer".to_owned(),
        };
        if lost > 0 {
            tracing::error!(feed = self.settings.name, lost, "messages are lost");
        }
        Err(format!("feed {:?}: {reason}; {lost} messages are lost", self.settings.name))
    }

    fn work(
        &'a self,
        lanes: &mut Vec<Lane<'a>>,
        waiting: &mut VecDeque<Arrival>,
        mailbox: &Mailbox<Arrival>,
        is_over: &AtomicBool,
    ) -> Result<(), Ended> {
        for outlet in &self.outlets {
            lanes.push(self.open(outlet, true, 0)?);
        }
        loop {
            // Looked at before the mailbox: what came before reading ended is in it then.
            let is_last = is_over.load(Ordering::SeqCst);
            let now = Instant::now();
            let due = lanes.iter().filter_map(|lane| lane.feed.due_in(now)).min().unwrap_or(IDLE).min(IDLE);
            waiting.extend(mailbox.take(if is_last { Duration::ZERO } else { due }).unwrap_or_default());
            while let Some(arrival) = waiting.pop_front() {
                mailbox.release(arrival.bytes());
                self.take(lanes, &arrival)?;
            }
            for (place, lane) in lanes.iter_mut().enumerate() {
                let sent = if is_last { lane.feed.flush() } else { lane.feed.tick(Instant::now()) };
                self.go_on(&self.outlets[place], lane, sent, VecDeque::new())?;
            }
            let is_all_sent = lanes.iter().all(|lane| lane.feed.due_in(now).is_none());
            if is_last && is_all_sent {
                return Ok(());
            }
        }
    }

    /// Takes a message into its table.
    fn take(&'a self, lanes: &mut [Lane<'a>], arrival: &Arrival) -> Result<(), Ended> {
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
                tracing::error!(feed = self.settings.name, message, "the venue refuses what was asked for");
                self.is_refused.store(true, Ordering::SeqCst);
                return Ok(());
            }
            Ok(Route::Unknown) => return self.bad(arrival, "no table takes it, and ignore has no such message"),
            Err(reason) => return self.bad(arrival, &reason),
        };
        let lane = &mut lanes[place];
        let record = Record { offset: lane.next, time_ns: Some(*time_ns), key: key.as_deref(), payload: Some(payload) };
        lane.next += 1;
        let taken = lane.feed.take(&record, Instant::now());
        self.go_on(&self.outlets[place], lane, taken, VecDeque::new())
    }

    /// A message that no table takes.
    fn bad(&self, arrival: &Arrival, reason: &str) -> Result<(), Ended> {
        self.counts.bad.add(1);
        if self.seldom.is_due() {
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
                return Err(Ended::Stopped);
            }
        }
        Ok(())
    }

    /// Goes on with a lane whose feed has to begin anew: what it hasn't sent is decoded again, and numbered on from what the server has.
    fn go_on(
        &'a self,
        outlet: &'a Outlet<'a>,
        lane: &mut Lane<'a>,
        mut ended: Result<(), Ended>,
        mut rest: VecDeque<Letter>,
    ) -> Result<(), Ended> {
        loop {
            match ended {
                Err(Ended::Anew(reason)) => {
                    tracing::warn!(of = outlet.name, reason, "asks the server anew, and sends again what it hasn't");
                    lane.feed.unsent().into_iter().rev().for_each(|letter| rest.push_front(letter));
                    let before = lane.feed.position();
                    let lane_next = lane.next;
                    match self.open(outlet, false, before) {
                        Ok(opened) => *lane = Lane { next: lane_next, ..opened },
                        // What waits is counted as lost where it is: in the old feed there is nothing any more.
                        Err(ended) => return Err(self.lost(rest.len(), ended)),
                    }
                }
                other if rest.is_empty() => return other,
                Err(other) => return Err(self.lost(rest.len(), other)),
                Ok(()) => {}
            }
            ended = Ok(());
            while let (Ok(()), Some(letter)) = (&ended, rest.pop_front()) {
                let Letter { offset, time_ns, key, payload } = &letter;
                let record =
                    Record { offset: *offset, time_ns: *time_ns, key: key.as_deref(), payload: payload.as_deref() };
                ended = lane.feed.take(&record, Instant::now());
            }
            if ended.is_ok() {
                return Ok(());
            }
        }
    }

    fn lost(&self, lost: usize, ended: Ended) -> Ended {
        tracing::error!(feed = self.settings.name, lost, "messages are lost that were to be sent again");
        ended
    }

    /// Opens a table's feed from what the server has.
    fn open(&'a self, outlet: &'a Outlet<'a>, is_first: bool, before: u64) -> Result<Lane<'a>, Ended> {
        let Outlet { settings, name, producer, counts, .. } = outlet;
        let (columns, recipe) = self.until_told(is_first, || {
            let columns = outlet.columns()?;
            let recipe = Recipe::new(&self.settings.name, settings, &columns).map_err(Untold::Never)?;
            Ok((columns, recipe))
        })?;
        let last = self.until_told(is_first, || outlet.server.last(producer))?.unwrap_or(0);
        if last < before {
            let forgotten = before - last;
            tracing::error!(of = name, forgotten, "the server doesn't have messages that it had acknowledged");
        }
        *outlet.columns.lock().unwrap_or_else(PoisonError::into_inner) = columns;
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
        let decoder = Decoder::new(recipe, Arc::clone(&outlet.sequence));
        Ok(Lane { feed: Feed::new(partition, outlet, self.dead, counts, decoder, (last, last)), next: last })
    }

    /// Asks the server until it tells. At the start, what it won't tell is a fault of the settings.
    fn until_told<T>(&self, is_first: bool, ask: impl Fn() -> Result<T, Untold>) -> Result<T, Ended> {
        let mut wait = Duration::from_millis(200);
        loop {
            match ask() {
                Ok(told) => return Ok(told),
                Err(Untold::Never(reason)) if is_first => return Err(Ended::Failed(reason)),
                Err(Untold::Never(reason) | Untold::Later(reason)) => {
                    tracing::warn!(feed = self.settings.name, reason, "waits for the server");
                }
            }
            if !self.stop.wait(wait) {
                return Err(Ended::Stopped);
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }
}
