//! How many events there are, and when.
//!
//! A day is cut into minutes with a weight each; the day's events are apportioned to the minutes and drawn one minute at
//! a time, so a day of any size needs the memory of its busiest minute.

use super::random::Random;

/// Minutes before the regular session of an equity day (04:00 to 09:30).
const EARLY_MINUTES: u32 = 330;
/// Minutes of the regular session (09:30 to 16:00).
const REGULAR_MINUTES: u32 = 390;
/// Minutes after the regular session (16:00 to 20:00).
const LATE_MINUTES: u32 = 240;
/// Minutes of a day that never closes.
const FULL_DAY_MINUTES: u32 = 1_440;
/// The longest run of events in one burst.
const BURST_EVENTS_MAX: u64 = 16;

/// Splits `total` in the proportions of `weights` (positive): the parts sum to `total` exactly, and each prefix is within
/// one of its share, rounded in favour of the first.
///
/// `total` must be below 2^53.
#[expect(clippy::cast_possible_truncation, reason = "a share of a u64 is between 0 and that u64")]
pub(crate) fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let mut weight_so_far = 0.0;
    let mut assigned = 0;
    let share = |weight: &f64| {
        weight_so_far += weight;
        let due = (total as f64 * (weight_so_far / sum)).ceil() as u64;
        let part = due.min(total) - assigned;
        assigned += part;
        part
    };
    weights.iter().map(share).collect()
}

/// Weights of the 960 minutes from 04:00 to 20:00: thin early and late, a U in the regular session.
pub(crate) fn equity_minutes(random: &mut Random) -> Vec<f64> {
    let early = (0..EARLY_MINUTES).map(|minute| 0.01 + 0.05 * f64::from(minute) / f64::from(EARLY_MINUTES));
    let regular = (0..REGULAR_MINUTES).map(regular_minute);
    let late = (0..LATE_MINUTES).map(|minute| 0.01 + 0.3 / f64::from(1 + minute));
    early.chain(regular).chain(late).map(|weight| weight * noise(random)).collect()
}

fn regular_minute(minute: u32) -> f64 {
    let middle = f64::from(minute) / f64::from(REGULAR_MINUTES) * 2.0 - 1.0;
    let opening = 4.0 / f64::from(1 + minute);
    let closing = 6.0 / f64::from(REGULAR_MINUTES - minute);
    0.5 + 1.2 * middle * middle + opening + closing
}

/// Weights of the 1,440 minutes of a UTC day: never quiet, busiest in the American afternoon.
pub(crate) fn full_day_minutes(random: &mut Random) -> Vec<f64> {
    let wave = |minute: u32| {
        let from_peak = (f64::from(minute) - 960.0) / 720.0;
        1.6 - 0.8 * from_peak * from_peak
    };
    (0..FULL_DAY_MINUTES).map(|minute| wave(minute) * noise(random)).collect()
}

/// A factor of a minute: mostly below 1, sometimes 3.
fn noise(random: &mut Random) -> f64 {
    let draw = random.fraction();
    0.4 + 2.6 * draw * draw * draw
}

/// The clock of a day: where it starts, how long a minute is, how far a burst spreads, all in the same unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// The first instant, since midnight.
    pub(crate) start: u64,
    /// A minute.
    pub(crate) minute: u64,
    /// The events of a burst lie within this span, about half of them at the same instant.
    pub(crate) burst_span: u64,
}

/// Nanoseconds, from 04:00.
pub(crate) const EQUITY_CLOCK: Clock =
    Clock { start: 4 * 3_600_000_000_000, minute: 60_000_000_000, burst_span: 20_000 };
/// Microseconds, from midnight.
pub(crate) const CRYPTO_CLOCK: Clock = Clock { start: 0, minute: 60_000_000, burst_span: 200 };

/// The instants of a day's events, never falling, in the clock's unit since midnight.
#[derive(Debug)]
pub(crate) struct Arrivals {
    random: Random,
    clock: Clock,
    counts: std::vec::IntoIter<u64>,
    minute_start: u64,
    /// The current minute's instants, latest first.
    pending: Vec<u64>,
}

impl Arrivals {
    /// Exactly `total` instants, spread by `minutes`.
    pub(crate) fn new(total: u64, minutes: &[f64], clock: Clock, random: Random) -> Self {
        let counts = apportion(total, minutes).into_iter();
        Self { random, clock, counts, minute_start: clock.start, pending: Vec::new() }
    }

    fn draw_minute(&mut self, count: u64) {
        let mut remaining = count;
        while remaining > 0 {
            let first = self.random.below(self.clock.minute);
            let burst = self.burst_events().min(remaining);
            for _ in 0..burst {
                let offset = if self.random.percent(50) { 0 } else { self.random.below(self.clock.burst_span) };
                self.pending.push(self.minute_start + (first + offset).min(self.clock.minute - 1));
            }
            remaining -= burst;
        }
        self.pending.sort_unstable_by(|remaining, right| right.cmp(remaining));
    }

    fn burst_events(&mut self) -> u64 {
        if self.random.percent(70) { 1 } else { 2 + self.random.below(BURST_EVENTS_MAX - 1) }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.pending.is_empty() {
            let count = self.counts.next()?;
            self.draw_minute(count);
            self.minute_start += self.clock.minute;
        }
        self.pending.pop()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::random::Stream;
    use super::*;

    #[test]
    fn apportioned_parts_sum_to_the_total() {
        let weights: Vec<f64> = (0..1_000).map(|rank| 1.0 / f64::from(rank + 2)).collect();
        for total in [0, 1, 7, 999, 1_000_003, (1 << 52) + 1] {
            assert_eq!(apportion(total, &weights).iter().sum::<u64>(), total);
        }
        assert_eq!(apportion(1, &weights)[0], 1, "the first is served first");
    }

    #[test]
    fn arrivals_are_exact_in_number_sorted_and_tied() {
        let mut random = Random::new(3, Stream::Activity, 0);
        let minutes = equity_minutes(&mut random);
        let times: Vec<u64> = Arrivals::new(20_000, &minutes, EQUITY_CLOCK, random).collect();
        assert_eq!(times.len(), 20_000);
        assert!(times.is_sorted());
        assert!(times.windows(2).filter(|pair| pair[0] == pair[1]).count() > 1_000);
        assert!(times[0] >= EQUITY_CLOCK.start && *times.last().unwrap() < 20 * 3_600_000_000_000);
    }

    #[test]
    fn the_open_and_the_close_are_busier_than_noon_and_the_night() {
        let minutes = equity_minutes(&mut Random::new(3, Stream::Activity, 0));
        assert_eq!(minutes.len(), 960);
        let hour = |first: usize| minutes[first..first + 30].iter().sum::<f64>();
        assert!(hour(330) > hour(510) && hour(690) > hour(510) && hour(510) > hour(300));
        assert_eq!(full_day_minutes(&mut Random::new(3, Stream::Activity, 0)).len(), 1_440);
    }
}
