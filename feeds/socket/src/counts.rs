//! Counters of each feed, beside those of its tables.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use splay_records::metrics::{Count, Metrics};

/// The least time between two lines of the log that say the same.
const SAME_MESSAGE_PAUSE: Duration = Duration::from_secs(10);

/// Limits how often a line of the log is repeated: the counts have every event.
#[derive(Debug, Default)]
pub struct LogRateLimit(Mutex<Option<Instant>>);

impl LogRateLimit {
    /// Whether a line may be written now.
    pub fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= SAME_MESSAGE_PAUSE);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

/// Counters of a feed since the start.
#[derive(Debug, Default)]
pub struct FeedCounts {
    /// Messages that came.
    pub messages: Count,
    /// Bytes of them.
    pub bytes: Count,
    /// Messages that are no rows, as settings say.
    pub ignored: Count,
    /// Messages by which the venue refuses something.
    pub failed: Count,
    /// Bytes that are no message, and messages that no pattern matches: dead letters.
    pub bad: Count,
    /// Messages that found no room.
    pub dropped: Count,
    /// Dead letters that found no room.
    pub dead_dropped: Count,
    /// Datagrams that the operating system dropped.
    pub system_dropped: Count,
    /// Connections that were made.
    pub connections: Count,
    /// Connections that ended.
    pub disconnections: Count,
    /// Attempts to connect that failed.
    pub refusals: Count,
    /// Gaps in the venue's numbers.
    pub gaps: Count,
    /// Numbers that are missing in them.
    pub missing_numbers: Count,
    /// Numbers that weren't higher than the one before.
    pub repeated_numbers: Count,
}

impl FeedCounts {
    fn all(&self) -> [(&'static str, &'static str, &Count); 14] {
        [
            ("messages", "Messages that came.", &self.messages),
            ("message_bytes", "Bytes of the messages that came.", &self.bytes),
            ("ignored_messages", "Messages that are no rows, as settings say.", &self.ignored),
            ("failed_messages", "Messages by which the venue refuses something.", &self.failed),
            ("bad_messages", "Messages that no table takes.", &self.bad),
            ("dropped_messages", "Messages that found no room.", &self.dropped),
            ("dropped_dead_letters", "Dead letters that found no room.", &self.dead_dropped),
            ("system_dropped", "Datagrams that the operating system dropped.", &self.system_dropped),
            ("connections", "Connections that were made.", &self.connections),
            ("disconnections", "Connections that ended.", &self.disconnections),
            ("refusals", "Connections that could not be made or taken.", &self.refusals),
            ("gaps", "Gaps in the venue's numbers.", &self.gaps),
            ("missing_numbers", "Numbers that are missing in gaps.", &self.missing_numbers),
            ("repeated_numbers", "Numbers that were not higher than the one before.", &self.repeated_numbers),
        ]
    }
}

/// All numbers of the program.
#[derive(Debug)]
pub struct AllCounts {
    /// The counts of tables.
    pub tables: Metrics,
    feeds: BTreeMap<String, Arc<FeedCounts>>,
}

impl AllCounts {
    /// The counts of feeds of these names.
    pub fn new<'a>(feeds: impl Iterator<Item = &'a str>) -> AllCounts {
        let feeds = feeds.map(|name| (name.to_owned(), Arc::default())).collect();
        AllCounts { tables: Metrics::new("splay_feed", "feed"), feeds }
    }

    /// The counts of a feed.
    #[must_use]
    pub fn feed(&self, name: &str) -> Arc<FeedCounts> {
        self.feeds.get(name).map(Arc::clone).unwrap_or_default()
    }

    /// A line for the log.
    #[must_use]
    pub fn line(&self) -> String {
        let sum = |of: fn(&FeedCounts) -> &Count| self.feeds.values().map(|counts| of(counts).get()).sum::<u64>();
        let dropped = sum(|counts| &counts.dropped) + sum(|counts| &counts.system_dropped);
        format!(
            "messages={} {} bad={} dropped={dropped} missing={}",
            sum(|counts| &counts.messages),
            self.tables.line(),
            sum(|counts| &counts.bad),
            sum(|counts| &counts.missing_numbers),
        )
    }

    /// The page for Prometheus.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = self.tables.page();
        for (place, (name, help, _)) in FeedCounts::default().all().into_iter().enumerate() {
            let values = self.feeds.iter().map(|(feed, counts)| (feed.as_str(), counts.all()[place].2.get()));
            self.tables.write(&mut page, (name, "counter", help), values);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_numbers_of_tables_and_of_feeds() {
        let counts = AllCounts::new(["a", "b"].into_iter());
        counts.feed("b").dropped.add(3);
        counts.tables.counts("b/trade").rows.add(2);
        let page = counts.page();
        assert!(page.contains("\nsplay_feed_dropped_messages_total{feed=\"b\"} 3\n"), "{page}");
        assert!(page.contains("\nsplay_feed_rows_total{feed=\"b/trade\"} 2\n"), "{page}");
        assert_eq!(
            counts.line(),
            "messages=0 records=0 rows=2 record_bytes=0 dead_letters=0 retries=0 bad=0 dropped=3 missing=0"
        );
    }
}
