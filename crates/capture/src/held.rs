//! Producers that were told to send a batch again: what they had sent behind it must not come before it.
//!
//! A producer's numbers rise, and a number up to its last is a repeat. If a batch found no room, and one behind it, which was under way
//! already, did, the first would be taken for a repeat when it comes again. So those behind are told to come again as well, each of
//! them once: a producer that goes on without the batch is let go on. It is the same whether there was no room in memory, where a batch
//! isn't even put into the queue, or on disk.

use std::collections::HashMap;

use crate::append::Producer;

/// By name of the producer.
#[derive(Debug, Default)]
pub(crate) struct Held(HashMap<String, Turned>);

/// Numbers that found no room.
#[derive(Debug, Clone, Copy)]
struct Turned {
    /// The lowest.
    lowest: u64,
    /// The greatest that was told to come again.
    told: u64,
}

impl Held {
    /// Producers that are remembered.
    const MAX: usize = 1 << 16;

    /// A batch found no room.
    pub(crate) fn turn_away(&mut self, producer: &Producer) {
        if self.0.len() >= Held::MAX && !self.0.contains_key(&producer.name) {
            self.0.clear();
        }
        let number = producer.sequence;
        let turned = self.0.entry(producer.name.clone()).or_insert(Turned { lowest: number, told: number });
        turned.lowest = turned.lowest.min(number);
        turned.told = turned.told.max(number);
    }

    /// Whether a batch has to come again because one before it has to. Forgets the producer if that one has come, or won't.
    pub(crate) fn is_behind(&mut self, producer: &Producer) -> bool {
        let Some(turned) = self.0.get_mut(&producer.name) else { return false };
        if producer.sequence > turned.told {
            turned.told = producer.sequence;
            return true;
        }
        // Those before it say nothing of it: they are repeats.
        if producer.sequence >= turned.lowest {
            self.0.remove(&producer.name);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(sequence: u64) -> Producer {
        Producer { name: "feed".to_owned(), sequence }
    }

    #[test]
    fn batches_behind_one_that_found_no_room_come_again_too() {
        let mut held = Held::default();
        assert!(!held.is_behind(&batch(1)));
        held.turn_away(&batch(7));
        assert!(!held.is_behind(&Producer { name: "other".to_owned(), sequence: 9 }));
        assert!(held.is_behind(&batch(8)) && held.is_behind(&batch(9)));
        assert!(!held.is_behind(&batch(3)) && held.is_behind(&batch(10)), "a repeat changes nothing");
        for number in 7..11 {
            assert!(!held.is_behind(&batch(number)), "in order, as they come again");
        }
    }

    #[test]
    fn a_producer_that_goes_on_without_it_is_let_go_on() {
        let mut held = Held::default();
        held.turn_away(&batch(7));
        assert!(held.is_behind(&batch(8)));
        assert!(!held.is_behind(&batch(8)), "it knows of 7");
        held.turn_away(&batch(9));
        held.turn_away(&batch(10));
        assert!(held.is_behind(&batch(20)));
        assert!(!held.is_behind(&batch(20)));
        assert!(held.0.is_empty());
    }
}
