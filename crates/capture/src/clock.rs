//! The clock, which tests bring along.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time, in nanoseconds since the epoch.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// Now.
    fn now(&self) -> i64;
}

/// Steps back up to this, in nanoseconds, aren't followed.
const STEP_BACK_MAX: i64 = 1_000_000_000;

/// The machine's clock. Where that is put back a little it stands still until the clock has caught up; where it is put back by more than a
/// second it follows, for a clock that was ahead must not stay ahead.
#[derive(Debug, Default)]
pub struct SystemClock {
    last: AtomicI64,
}

impl SystemClock {
    fn follow(&self, now: i64) -> i64 {
        // Relaxed: only the value counts.
        let last = self.last.load(Ordering::Relaxed);
        if last.saturating_sub(now) > STEP_BACK_MAX {
            self.last.store(now, Ordering::Relaxed);
            return now;
        }
        self.last.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.follow(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_back_are_waited_out_and_large_ones_followed() {
        let clock = SystemClock::default();
        let day = 86_400_000_000_000;
        assert_eq!(clock.follow(5 * day), 5 * day);
        assert_eq!(clock.follow(5 * day - STEP_BACK_MAX), 5 * day);
        assert_eq!(clock.follow(5 * day + 1), 5 * day + 1);
        assert_eq!(clock.follow(400 * day), 400 * day, "put ahead by mistake");
        assert_eq!(clock.follow(5 * day + 2), 5 * day + 2, "and back");
        assert_eq!(clock.follow(5 * day + 1), 5 * day + 2);
    }
}
