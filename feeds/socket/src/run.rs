//! All feeds of the program, each with its two threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use splay_records::dead_letters::DeadLetterFile;
use splay_records::mailbox::Mailbox;
use splay_records::server::Server;
use splay_records::stop::StopSignal;

use crate::arrival_queue::ArrivalQueue;
use crate::counts::{AllCounts, LogRateLimit};
use crate::dead_letters::FeedDeadLetters;
use crate::feed::{Worker, WorkerContext};
use crate::listen::Listener;
use crate::recipe::Router;
use crate::settings::{FeedSettings, Settings};
use crate::websocket::VenueConnection;

/// Time for the other feeds to send their rows once one has ended.
const GRACE: Duration = Duration::from_secs(20);

/// The source of a feed's messages.
enum MessageSource<'a> {
    Venue(VenueConnection<'a>),
    Senders(Listener),
}

/// Everything that the program's threads share.
#[derive(Debug)]
pub struct Program {
    settings: Settings,
    server: Server,
    counts: Arc<AllCounts>,
    stop: Arc<StopSignal>,
}

impl Program {
    /// The feeds of the settings. Doesn't connect yet.
    ///
    /// # Errors
    /// Secrets and certificates that aren't there; paths and addresses that are none.
    pub fn new(settings: Settings, counts: Arc<AllCounts>, stop: Arc<StopSignal>) -> Result<Program, String> {
        let server = Server::new(&settings.server).map_err(|error| format!("server: {error}"))?;
        let is_refused = AtomicBool::new(false);
        for feed in &settings.feeds {
            let with_feed = |reason| format!("feed {:?}: {reason}", feed.name);
            Router::new(feed).map_err(with_feed)?;
            if let Some(url) = &feed.url {
                VenueConnection::new(feed, url, &is_refused).map_err(with_feed)?;
            }
        }
        Ok(Program { settings, server, counts, stop })
    }

    /// Works until the stop signal is set.
    ///
    /// # Errors
    /// A failure that a person has to end. All feeds end then.
    pub fn run(&self) -> Result<(), String> {
        let file = DeadLetterFile::open(&self.settings.dead_letters.file, |_, _, _| false);
        let file = Arc::new(file.map_err(|reason| format!("dead letters: {reason}"))?);
        let refused: Vec<AtomicBool> = self.settings.feeds.iter().map(|_| AtomicBool::new(false)).collect();
        let mut sources = Vec::new();
        for (feed, is_refused) in self.settings.feeds.iter().zip(&refused) {
            let with_feed = |reason| format!("feed {:?}: {reason}", feed.name);
            sources.push(open_source(feed, is_refused).map_err(with_feed)?);
        }
        let run = run();
        let ended: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let feeds = self.settings.feeds.iter().zip(&refused).zip(sources);
            let threads: Vec<_> = feeds
                .map(|((feed, is_refused), source)| {
                    let (file, run) = (Arc::clone(&file), &run);
                    scope.spawn(move || {
                        let ended = self.feed(feed, &source, is_refused, file, run);
                        // A feed that can't go on ends the others, so that the failure is noticed.
                        self.end();
                        ended
                    })
                })
                .collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|ended| ended.unwrap_or_else(|_| Err("a feed's thread broke off".to_owned()))).collect()
        });
        ended.into_iter().collect()
    }

    /// Ends all feeds; after a while also those whose server doesn't answer.
    fn end(&self) {
        self.stop.set();
        let stop = Arc::clone(&self.stop);
        std::thread::spawn(move || {
            std::thread::sleep(GRACE);
            stop.urge();
        });
    }

    fn feed(
        &self,
        feed: &FeedSettings,
        source: &MessageSource<'_>,
        is_refused: &AtomicBool,
        file: Arc<DeadLetterFile>,
        run: &str,
    ) -> Result<(), String> {
        let counts = self.counts.feed(&feed.name);
        let bytes_max = self.settings.dead_letters.bytes_max as u64;
        let dead = FeedDeadLetters { file, bytes_max, counts: Arc::clone(&counts), log_limit: LogRateLimit::default() };
        let (mailbox, is_over) = (Mailbox::default(), AtomicBool::new(false));
        let context = WorkerContext {
            all: &self.settings,
            feed,
            server: &self.server,
            dead: &dead,
            tables: &self.counts.tables,
            run,
            stop: &self.stop,
            is_refused,
        };
        let worker = Worker::new(&context)?;
        let queue = ArrivalQueue {
            feed: &feed.name,
            mailbox: &mailbox,
            bytes_max: feed.memory_bytes_max,
            when_full: feed.when_full(),
            counts: &counts,
            stop: &self.stop,
            log_limit: LogRateLimit::default(),
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let read = guarded("reads", || match source {
                    MessageSource::Venue(venue) => venue.run(&queue),
                    MessageSource::Senders(listener) => listener.run(feed, &queue),
                });
                self.stop.set();
                is_over.store(true, Ordering::SeqCst);
                read
            });
            let worked = guarded("makes rows", || worker.run(&mailbox, &is_over)).flatten();
            // Without a worker nothing is to be read.
            self.stop.set();
            let read = reader.join().unwrap_or_else(|_| Err("the thread that reads broke off".to_owned()));
            worked.and(read)
        })
    }
}

/// Runs the work of a thread. A panic is an error, so that the feed's other thread ends, too.
fn guarded<T>(work_name: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| format!("the thread that {work_name} broke off"))
}

fn open_source<'a>(feed: &'a FeedSettings, is_refused: &'a AtomicBool) -> Result<MessageSource<'a>, String> {
    match (&feed.url, &feed.listen) {
        (Some(url), _) => Ok(MessageSource::Venue(VenueConnection::new(feed, url, is_refused)?)),
        (None, Some(place)) => {
            let listener = Listener::bind(place)?;
            match listener.address() {
                Some(address) => tracing::info!(feed = feed.name, %address, "listens"),
                None => tracing::info!(feed = feed.name, ?place, "listens"),
            }
            Ok(MessageSource::Senders(listener))
        }
        (None, None) => Err("give url, or listen".to_owned()),
    }
}

/// A text that no other run has: when it began, and the process.
fn run() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", since.as_nanos(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_ends_with_an_error() {
        assert_eq!(guarded("reads", || 7), Ok(7));
        let work = || -> u32 { panic!("a bug") };
        assert_eq!(guarded("reads", work), Err("the thread that reads broke off".to_owned()));
    }
}
