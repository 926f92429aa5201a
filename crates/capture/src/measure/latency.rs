//! Histograms of times in fixed buckets, read while they are written.
//!
//! - Bounds double from 10 microseconds on, so a row's bucket is found by one division and a count of bits.
//! - One thread writes, the journal's. Readers may see a row counted and not yet summed, which metrics put up with.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Bounds. The last is some 336 seconds; what took longer is counted behind it.
pub const LATENCY_BOUNDS: usize = 26;

/// The least bound, in nanoseconds.
const FIRST: u64 = 10_000;

/// Upper bounds of the buckets in seconds, ascending.
#[expect(clippy::cast_precision_loss, reason = "bounds are small")]
pub fn latency_bounds() -> impl Iterator<Item = f64> {
    (0..LATENCY_BOUNDS).map(|bucket| (FIRST << bucket) as f64 / 1e9)
}

/// Rows by the time that something took.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Rows of each bucket alone, the last those beyond all of [`latency_bounds`].
    pub counts: Vec<u64>,
    /// The times of all rows together, in seconds.
    pub sum_seconds: f64,
}

impl Latency {
    /// Rows measured.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The bound below which a part of the rows lies, in seconds; `None` if there are none, or if it lies beyond all bounds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let threshold = ((self.rows() as f64 * part).ceil() as u64).max(1);
        let mut below = 0;
        latency_bounds().zip(&self.counts).find_map(|(bound, count)| {
            below += count;
            (below >= threshold).then_some(bound)
        })
    }
}

/// Counts that are gathered of a batch and then added at once.
#[derive(Debug, Default)]
pub(super) struct BatchLatencies {
    counts: [u64; LATENCY_BOUNDS + 1],
    seconds: f64,
}

impl BatchLatencies {
    /// Notes rows. What took less than nothing, since clocks differ, took nothing.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "a sum of times")]
    pub(super) fn note(&mut self, nanoseconds: i64, rows: u64) {
        let took = u64::try_from(nanoseconds).unwrap_or(0);
        self.counts[bucket(took)] += rows;
        self.seconds += took as f64 * 1e-9 * rows as f64;
    }
}

#[inline]
fn bucket(took: u64) -> usize {
    let tens = took.saturating_sub(1) / FIRST;
    ((u64::BITS - tens.leading_zeros()) as usize).min(LATENCY_BOUNDS)
}

/// The histogram.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    counts: [AtomicU64; LATENCY_BOUNDS + 1],
    /// Bits of a float.
    seconds: AtomicU64,
}

impl Histogram {
    pub(super) fn add(&self, gathered: &BatchLatencies) {
        for (count, more) in self.counts.iter().zip(gathered.counts) {
            if more > 0 {
                count.fetch_add(more, Ordering::Relaxed);
            }
        }
        let seconds = f64::from_bits(self.seconds.load(Ordering::Relaxed)) + gathered.seconds;
        self.seconds.store(seconds.to_bits(), Ordering::Relaxed);
    }

    /// Notes rows that took as long.
    pub(crate) fn note(&self, nanoseconds: i64, rows: u64) {
        let mut gathered = BatchLatencies::default();
        gathered.note(nanoseconds, rows);
        self.add(&gathered);
    }

    pub(crate) fn read(&self) -> Latency {
        Latency {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_seconds: f64::from_bits(self.seconds.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let bounds: Vec<u64> = (0..LATENCY_BOUNDS).map(|bucket| FIRST << bucket).collect();
        let plain = |took: u64| bounds.iter().position(|bound| took <= *bound).unwrap_or(LATENCY_BOUNDS);
        let near = bounds.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]);
        for took in near.chain([0, 1, u64::MAX]) {
            assert_eq!(bucket(took), plain(took), "{took}");
        }
    }

    #[test]
    fn times_are_counted_and_summed() {
        let histogram = Histogram::default();
        histogram.note(-5, 2);
        histogram.note(15_000, 3);
        histogram.note(1_000_000_000_000, 1);
        let read = histogram.read();
        assert_eq!((read.counts[0], read.counts[1], read.counts[LATENCY_BOUNDS], read.rows()), (2, 3, 1, 6));
        assert!((read.sum_seconds - 1000.000_045).abs() < 1e-9);
        assert_eq!((read.quantile(0.3), read.quantile(0.5), read.quantile(0.99)), (Some(1e-5), Some(2e-5), None));
        assert_eq!(Latency::default().quantile(0.5), None);
    }
}
