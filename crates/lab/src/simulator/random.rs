//! The simulator's only source of chance: ChaCha8, seeded by (seed, stream, index).
//!
//! Invariants:
//! - Two streams, or two indexes of a stream, are independent: a symbol's day does not depend on its neighbours.
//! - No call of the mathematics library, whose last bit differs between systems.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What a generator is for. The number is part of the seed and therefore of the bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    /// Names, listings and prices of the tickers.
    Tickers = 1,
    /// Minute weights of a symbol's day.
    Activity = 2,
    /// Times of quotes or snapshots.
    QuoteTimes = 3,
    /// Times of trades.
    TradeTimes = 4,
    /// Prices, sizes, venues.
    Market = 5,
    /// Rows per day of the crypto month.
    Days = 6,
}

/// A stream of chance.
#[derive(Debug, Clone)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// The generator of `index` within `stream`.
    pub(crate) fn new(seed: u64, stream: Stream, index: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(stream as u64).to_le_bytes());
        key[16..24].copy_from_slice(&index.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A whole number in `0..bound`; 0 if `bound` is 0. The upper half of a 128-bit product, so nearly without bias.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// [`below`](Self::below) for signed numbers; 0 if `bound` is not positive.
    pub(crate) fn below_i64(&mut self, bound: i64) -> i64 {
        self.below(bound.max(0).unsigned_abs()).cast_signed()
    }

    /// [`below`](Self::below) for positions.
    #[expect(clippy::cast_possible_truncation, reason = "the result is below a length that is a usize")]
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True in `percent` of 100 calls.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number in `[0, 1)`.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Mean 0, variance 1, nearly normal: the sum of four uniform numbers, so never beyond 3.5.
    pub(crate) fn normal(&mut self) -> f64 {
        let bits = self.0.next_u64();
        let sum = (bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48);
        (sum as f64 - 131_070.0) / 65_536.0 * 3_f64.sqrt()
    }

    /// A size with a long tail: at least `typical`, each doubling half as likely, at most `doublings_max` of them.
    pub(crate) fn heavy_tail(&mut self, typical: u64, doublings_max: u32) -> u64 {
        let base = typical << self.0.next_u64().trailing_zeros().min(doublings_max);
        base + self.below(base)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn streams_and_indexes_differ_and_repeat() {
        let draw = |seed, stream, index| Random::new(seed, stream, index).below(u64::MAX);
        assert_eq!(draw(1, Stream::Market, 0), draw(1, Stream::Market, 0));
        assert_ne!(draw(1, Stream::Market, 0), draw(2, Stream::Market, 0));
        assert_ne!(draw(1, Stream::Market, 0), draw(1, Stream::Market, 1));
        assert_ne!(draw(1, Stream::Market, 0), draw(1, Stream::Days, 0));
    }

    #[test]
    fn bounds_hold() {
        let mut random = Random::new(7, Stream::Market, 0);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below_i64(-3), 0);
        for _ in 0..10_000 {
            assert!(random.below(3) < 3);
            assert!((0.0..1.0).contains(&random.fraction()));
            assert!((100..25_600 * 2).contains(&random.heavy_tail(100, 8)));
        }
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let mut random = Random::new(7, Stream::Market, 0);
        let draws: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 100_000.0;
        let variance = draws.iter().map(|draw| draw * draw).sum::<f64>() / 100_000.0;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
    }
}
