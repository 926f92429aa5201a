//! Numbers of producers that found no room: later numbers of such a producer are refused until the missing one is
//! stored.
//!
//! A producer's numbers ascend, and a number at or below its last one is a repeat. If one batch found no room and a
//! later one was stored, the first would be taken for a repeat at its second attempt: acknowledged, and its rows
//! lost. So each later number is refused, at every attempt, until the missing one is stored, is refused for good, or
//! is given up by its producer; meanwhile the refused numbers are missing too. It doesn't matter whether memory was
//! short, in which case the batch never reaches the queue, or the disk.
//!
//! A batch that names the number it follows on needs none of this: it is refused unless that is the producer's last
//! number.
//!
//! Memory is bounded. Beyond it the producer that has waited longest is forgotten, which is logged as an error.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::append::Producer;

/// Numbers that are remembered, of all producers together.
const NUMBERS_MAX: usize = 1 << 19;

/// Names that are remembered.
const NAMES_MAX: usize = 1 << 16;

/// Missing numbers by the name of their producer.
#[derive(Debug, Default)]
pub(crate) struct RetransmitGuard {
    producers: HashMap<String, MissingBatches>,
    /// Names by when they began to wait.
    by_age: BTreeMap<u64, String>,
    numbers: usize,
    next_age: u64,
}

/// Numbers of one producer that have to come again.
#[derive(Debug)]
struct MissingBatches {
    numbers: BTreeSet<u64>,
    age: u64,
}

impl RetransmitGuard {
    /// A batch found no room.
    pub(crate) fn turn_away(&mut self, producer: &Producer) {
        if producer.previous.is_some() {
            return;
        }
        if !self.producers.contains_key(&producer.name) {
            self.by_age.insert(self.next_age, producer.name.clone());
            let missing = MissingBatches { numbers: BTreeSet::new(), age: self.next_age };
            self.producers.insert(producer.name.clone(), missing);
            self.next_age += 1;
        }
        let is_new = |missing: &mut MissingBatches| missing.numbers.insert(producer.sequence);
        if self.producers.get_mut(&producer.name).is_some_and(is_new) {
            self.numbers += 1;
        }
        while self.numbers > NUMBERS_MAX || self.producers.len() > NAMES_MAX {
            let Some((_, name)) = self.by_age.pop_first() else { return };
            tracing::error!(
                producer = name,
                "too many producers wait to send again: this one's missing numbers are forgotten"
            );
            self.numbers -= self.producers.remove(&name).map_or(0, |missing| missing.numbers.len());
        }
    }

    /// The missing number that a batch has to wait for, if it is behind one. It is missing then, too. `last` is the producer's last number that
    /// was stored. A batch that waits for none is missing no longer: it is written now, or turned away anew.
    pub(crate) fn missing_before(&mut self, producer: &Producer, last: Option<u64>) -> Option<u64> {
        if let Some(last) = last {
            self.settle(&producer.name, last);
        }
        if producer.previous.is_some() {
            return None;
        }
        let first = *self.producers.get(&producer.name)?.numbers.first()?;
        if producer.sequence > first {
            self.turn_away(producer);
            return Some(first);
        }
        self.forget(producer);
        None
    }

    /// A batch won't come again: it was refused for good.
    pub(crate) fn forget(&mut self, producer: &Producer) {
        self.remove(&producer.name, |numbers| numbers.remove(&producer.sequence));
    }

    /// A producer's numbers up to one are missing no longer. Gives whether any were.
    pub(crate) fn settle(&mut self, name: &str, through: u64) -> bool {
        self.remove(name, |numbers| {
            let before = numbers.len();
            *numbers = through.checked_add(1).map_or_else(BTreeSet::new, |from| numbers.split_off(&from));
            numbers.len() < before
        })
    }

    fn remove(&mut self, name: &str, work: impl FnOnce(&mut BTreeSet<u64>) -> bool) -> bool {
        let Some(missing) = self.producers.get_mut(name) else { return false };
        let before = missing.numbers.len();
        let done = work(&mut missing.numbers);
        self.numbers -= before - missing.numbers.len();
        if missing.numbers.is_empty() {
            self.by_age.remove(&missing.age);
            self.producers.remove(name);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(sequence: u64) -> Producer {
        Producer::new("feed".to_owned(), sequence)
    }

    #[test]
    fn batches_behind_one_that_found_no_room_wait_for_it_however_often_they_come() {
        let mut guard = RetransmitGuard::default();
        assert_eq!(guard.missing_before(&batch(1), None), None);
        guard.turn_away(&batch(7));
        let other = Producer::new("other".to_owned(), 9);
        assert_eq!(guard.missing_before(&other, None), None);
        for number in [8, 10, 8, 8, 10] {
            assert_eq!(guard.missing_before(&batch(number), Some(6)), Some(7));
        }
        assert_eq!(guard.missing_before(&batch(3), Some(6)), None, "a repeat changes nothing");
        assert_eq!(guard.missing_before(&batch(7), Some(6)), None);
        assert_eq!(guard.missing_before(&batch(10), Some(7)), Some(8), "which was refused as well");
        assert_eq!(guard.missing_before(&batch(8), Some(7)), None);
        assert_eq!(guard.missing_before(&batch(10), Some(8)), None);
        assert!(guard.producers.is_empty() && guard.by_age.is_empty() && guard.numbers == 0);
    }

    /// Regression: a feed that was restarted cut its batches at other rows, and then waited for a number that no sender would send.
    #[test]
    fn a_batch_that_says_what_it_follows_on_waits_for_none_and_none_for_it() {
        let mut guard = RetransmitGuard::default();
        let following = |sequence| Producer { previous: Some(6), ..batch(sequence) };
        guard.turn_away(&following(7));
        assert_eq!(guard.missing_before(&batch(9), Some(6)), None);
        guard.turn_away(&batch(8));
        assert_eq!(guard.missing_before(&following(9), Some(6)), None);
        assert_eq!(guard.missing_before(&batch(9), Some(6)), Some(8));
    }

    #[test]
    fn numbers_that_are_stored_given_up_or_refused_for_good_are_waited_for_no_longer() {
        let mut guard = RetransmitGuard::default();
        for number in [7, 8, 9, 12] {
            guard.turn_away(&batch(number));
        }
        guard.forget(&batch(7));
        assert_eq!(guard.missing_before(&batch(9), Some(6)), Some(8));
        assert_eq!(guard.missing_before(&batch(12), Some(8)), Some(9), "8 came by another way");
        assert!(guard.settle("feed", 11) && !guard.settle("feed", 11));
        assert_eq!(guard.missing_before(&batch(13), Some(8)), Some(12));
        assert!(guard.settle("feed", u64::MAX));
        assert!(guard.producers.is_empty() && guard.by_age.is_empty() && guard.numbers == 0);
    }

    #[test]
    fn so_many_are_remembered_and_the_oldest_goes_first() {
        let mut guard = RetransmitGuard::default();
        let named = |number: usize| Producer::new(format!("feed{number}"), 1);
        (0..=NAMES_MAX).for_each(|number| guard.turn_away(&named(number)));
        assert_eq!((guard.producers.len(), guard.by_age.len(), guard.numbers), (NAMES_MAX, NAMES_MAX, NAMES_MAX));
        assert!(!guard.settle("feed0", 1) && guard.settle("feed1", 1));
    }
}
