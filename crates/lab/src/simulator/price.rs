//! The fair price: a random walk in ticks of the grid, whose step grows with the square root of the time passed.

use super::random::Random;

/// A walk of the fair price.
#[derive(Debug, Clone)]
pub(crate) struct PriceWalk {
    level: f64,
    step: f64,
    low: f64,
    high: f64,
    time: u64,
}

impl PriceWalk {
    /// Starts at `level` ticks; `deviation` is the standard deviation after `span` of time, as a fraction of the start.
    /// The walk is reflected at half and at twice its start.
    pub(crate) fn new(level: u64, deviation: f64, span: u64) -> Self {
        let level = level as f64;
        Self { level, step: level * deviation / (span as f64).sqrt(), low: level / 2.0, high: level * 2.0, time: 0 }
    }

    /// Sets the time of the level without a step: the first event of the market.
    pub(crate) fn start_at(&mut self, time: u64) {
        self.time = time;
    }

    /// The level in ticks at `time`, which must not fall from call to call.
    pub(crate) fn advance(&mut self, time: u64, random: &mut Random) -> f64 {
        let passed = time.saturating_sub(self.time) as f64;
        self.time = time;
        self.level = self.reflect(self.level + random.normal() * self.step * passed.sqrt());
        self.level
    }

    fn reflect(&self, level: f64) -> f64 {
        let above = if level < self.low { 2.0 * self.low - level } else { level };
        let inside = if above > self.high { 2.0 * self.high - above } else { above };
        inside.clamp(self.low, self.high)
    }
}

/// The whole ticks below a level.
#[expect(clippy::cast_possible_truncation, reason = "a walk stays within twice its start, far below 2^63 ticks")]
pub(crate) fn whole_ticks(level: f64) -> i64 {
    level.floor() as i64
}

#[cfg(test)]
mod tests {
    use super::super::random::Stream;
    use super::*;

    #[test]
    fn the_walk_moves_and_stays_inside() {
        let mut random = Random::new(5, Stream::Market, 0);
        let mut walk = PriceWalk::new(10_000, 0.5, 100);
        let levels: Vec<f64> = (1..10_000).map(|time| walk.advance(time, &mut random)).collect();
        assert!(levels.iter().all(|level| (5_000.0..=20_000.0).contains(level)));
        assert!(levels.iter().any(|level| *level < 8_000.0) && levels.iter().any(|level| *level > 12_000.0));
    }
}
