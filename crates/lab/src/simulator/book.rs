//! A limit order book of twenty levels a side, kept around a fair price.
//!
//! Invariants:
//! - bid prices fall strictly, ask prices rise strictly, all are positive, the best bid is below the best ask;
//! - between two snapshots only a few levels change, apart from the shift when the best level goes or a new one comes.

use super::instruments::Instrument;
use super::price::whole_ticks;
use super::random::Random;

/// Levels of a side.
pub(crate) const LEVELS: usize = 20;
/// At most this many levels change at random between two snapshots.
const CHANGES_MAX: u64 = 3;
/// Each doubling of an order's size is half as likely; beyond 2^8 times the least there is nothing.
const SIZE_DOUBLINGS_MAX: u32 = 8;
/// Orders of a size rounded to a hundredth of a coin, in percent.
const ROUND_SIZES_PERCENT: u64 = 10;

/// A side of a book.
///
/// A key is the price in ticks of an ask, the negative price of a bid: both sides are strictly rising keys, the best
/// first, and a price is the absolute value of its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BookSide {
    keys: [i64; LEVELS],
    sizes: [u64; LEVELS],
}

impl BookSide {
    /// A full side whose keys are not below `edge`.
    fn build(edge: i64, instrument: &Instrument, random: &mut Random) -> Self {
        let mut side = Self { keys: [0; LEVELS], sizes: [0; LEVELS] };
        let mut key = edge - 1;
        for level in 0..LEVELS {
            key += draw_gap(instrument, random);
            side.keys[level] = key;
            side.sizes[level] = draw_size(instrument, random);
        }
        side
    }

    /// The price of a level, in ticks.
    pub(crate) fn price(&self, level: usize) -> u64 {
        self.keys[level].unsigned_abs()
    }

    /// The size of a level, in units.
    pub(crate) fn size(&self, level: usize) -> u64 {
        self.sizes[level]
    }

    /// Takes a level out and appends one behind the last.
    fn remove(&mut self, level: usize, instrument: &Instrument, random: &mut Random) {
        self.keys.copy_within(level + 1.., level);
        self.sizes.copy_within(level + 1.., level);
        self.keys[LEVELS - 1] = self.keys[LEVELS - 2] + draw_gap(instrument, random);
        self.sizes[LEVELS - 1] = draw_size(instrument, random);
    }

    /// Puts a level in; the last one falls out.
    fn insert(&mut self, level: usize, key: i64, size: u64) {
        self.keys.copy_within(level..LEVELS - 1, level + 1);
        self.sizes.copy_within(level..LEVELS - 1, level + 1);
        self.keys[level] = key;
        self.sizes[level] = size;
    }

    /// Drops the levels below `edge` and closes a wide gap behind it.
    fn follow(&mut self, edge: i64, instrument: &Instrument, random: &mut Random) {
        if self.keys[LEVELS - 1] < edge {
            *self = Self::build(edge, instrument, random);
            return;
        }
        while self.keys[0] < edge {
            self.remove(0, instrument, random);
        }
        let gap = instrument.gap_ticks.cast_signed();
        if self.keys[0] > edge + gap {
            self.insert(0, edge + random.below_i64(gap), draw_size(instrument, random));
        }
    }

    /// Changes a level: mostly its size, sometimes it goes or a new one comes before it.
    fn change(&mut self, instrument: &Instrument, random: &mut Random) {
        let level = random.index(LEVELS).min(random.index(LEVELS));
        match random.below(100) {
            0..15 if level > 0 => self.remove(level, instrument, random),
            15..30 if level > 0 => self.insert_before(level, instrument, random),
            _ => self.sizes[level] = draw_size(instrument, random),
        }
    }

    fn insert_before(&mut self, level: usize, instrument: &Instrument, random: &mut Random) {
        let better = self.keys[level - 1];
        let free = self.keys[level] - better - 1;
        if free > 0 {
            self.insert(level, better + 1 + random.below_i64(free), draw_size(instrument, random));
        }
    }
}

fn draw_gap(instrument: &Instrument, random: &mut Random) -> i64 {
    1 + random.below(instrument.gap_ticks).cast_signed()
}

/// A size in units, never 0.
pub(crate) fn draw_size(instrument: &Instrument, random: &mut Random) -> u64 {
    let size = random.heavy_tail(instrument.size_units, SIZE_DOUBLINGS_MAX);
    let hundredth = instrument.size_units / 2;
    if random.percent(ROUND_SIZES_PERCENT) { size / hundredth * hundredth } else { size }
}

/// A book.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Book {
    pub(crate) bids: BookSide,
    pub(crate) asks: BookSide,
}

impl Book {
    /// A full book around `fair` ticks.
    pub(crate) fn new(fair: f64, instrument: &Instrument, random: &mut Random) -> Self {
        let below = whole_ticks(fair);
        Self { bids: BookSide::build(-below, instrument, random), asks: BookSide::build(below + 1, instrument, random) }
    }

    /// The next snapshot: bids at or below `fair` ticks, asks above, and a few changes.
    pub(crate) fn update(&mut self, fair: f64, instrument: &Instrument, random: &mut Random) {
        let below = whole_ticks(fair);
        self.bids.follow(-below, instrument, random);
        self.asks.follow(below + 1, instrument, random);
        for _ in 0..1 + random.below(CHANGES_MAX) {
            let side = if random.percent(50) { &mut self.bids } else { &mut self.asks };
            side.change(instrument, random);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::instruments::INSTRUMENTS;
    use super::super::price::PriceWalk;
    use super::super::random::Stream;
    use super::*;

    fn differing(left: &BookSide, right: &BookSide) -> usize {
        let same = |level: &usize| left.keys.contains(&right.keys[*level]);
        (0..LEVELS).filter(|level| !same(level)).count()
    }

    #[test]
    fn books_stay_ordered_uncrossed_and_change_little() {
        for instrument in &INSTRUMENTS {
            let mut random = Random::new(2, Stream::Market, 0);
            let mut walk = PriceWalk::new(instrument.price_month, instrument.daily_deviation, 864_000);
            let mut book = Book::new(instrument.price_month as f64, instrument, &mut random);
            let mut new_prices = 0;
            for time in 1..20_000 {
                let before = book;
                book.update(walk.advance(time, &mut random), instrument, &mut random);
                assert!(book.bids.price(0) < book.asks.price(0));
                for side in [&book.bids, &book.asks] {
                    assert!(side.keys.windows(2).all(|pair| pair[0] < pair[1]));
                    assert!(side.sizes.iter().all(|size| *size > 0));
                }
                assert!(book.bids.keys[LEVELS - 1] < 0 && book.asks.keys[0] > 0);
                new_prices += differing(&before.bids, &book.bids) + differing(&before.asks, &book.asks);
            }
            assert!(new_prices < 20_000 * 5, "{}: {new_prices}", instrument.symbol);
        }
    }
}
