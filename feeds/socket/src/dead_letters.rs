//! Dead letters of all feeds: a file that doesn't grow beyond its limit.

use std::sync::Arc;

use splay_records::dead_letters::{DeadLetter, DeadLetterFile, DeadLetters};

use crate::counts::{FeedCounts, LogRateLimit};

/// The file as a feed sees it.
#[derive(Debug)]
pub struct FeedDeadLetters {
    /// The file.
    pub file: Arc<DeadLetterFile>,
    /// Bytes that it may have.
    pub bytes_max: u64,
    /// The feed's counts.
    pub counts: Arc<FeedCounts>,
    /// Limits the lines about dropped ones.
    pub log_limit: LogRateLimit,
}

impl DeadLetters for FeedDeadLetters {
    fn write(&self, letter: &DeadLetter<'_>) -> Result<(), String> {
        if self.file.bytes() < self.bytes_max {
            return self.file.write(letter);
        }
        self.counts.dead_dropped.add(1);
        if self.log_limit.is_due() {
            let (feed, reason) = (letter.topic, letter.reason);
            tracing::error!(feed, reason, "dead_letters.bytes_max is reached: drops dead letters");
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn letters_beyond_the_limit_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead.jsonl");
        let file = Arc::new(DeadLetterFile::open(&path, |_, _, _| false).unwrap());
        let dead = FeedDeadLetters { file, bytes_max: 100, counts: Arc::default(), log_limit: LogRateLimit::default() };
        let letter =
            DeadLetter { topic: "f", partition: None, offset: 0, key: None, payload: &[b'x'; 80], reason: "why" };
        (0..3).for_each(|_| dead.write(&letter).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
        assert_eq!(dead.counts.dead_dropped.get(), 2);
    }
}
