//! The clock, which tests replace. `receipt` derives receive times from it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time, in nanoseconds since the epoch.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// Now.
    fn now(&self) -> i64;

    /// Nanoseconds since some instant, by a clock that is never set back.
    fn monotonic(&self) -> i64 {
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        i64::try_from(BEGINNING.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(i64::MAX)
    }
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
    /// The time by a clock that is read as often as need be.
    fn follow(&self, read: impl Fn() -> i64) -> i64 {
        // Relaxed: only the value counts.
        let (last, now) = (self.last.load(Ordering::Relaxed), read());
        let is_back = |now: i64| last.saturating_sub(now) > STEP_BACK_MAX;
        // A thread that was held up between its two looks has an old time; read anew it isn't.
        if is_back(now) {
            let again = read();
            if is_back(again) {
                let _ = self.last.compare_exchange(last, again, Ordering::Relaxed, Ordering::Relaxed);
                return again;
            }
        }
        self.last.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        self.follow(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
            i64::try_from(now).unwrap_or(i64::MAX)
        })
    }
}

/// Seconds in nanoseconds.
pub(crate) fn seconds(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_back_are_waited_out_and_large_ones_followed() {
        let clock = SystemClock::default();
        let day = 86_400_000_000_000;
        assert_eq!(clock.follow(|| 5 * day), 5 * day);
        assert_eq!(clock.follow(|| 5 * day - STEP_BACK_MAX), 5 * day);
        assert_eq!(clock.follow(|| 5 * day + 1), 5 * day + 1);
        assert_eq!(clock.follow(|| 400 * day), 400 * day, "put ahead by mistake");
        assert_eq!(clock.follow(|| 5 * day + 2), 5 * day + 2, "and back");
        assert_eq!(clock.follow(|| 5 * day + 1), 5 * day + 2);
        // A time that was read long ago isn't believed.
        let times = std::cell::RefCell::new(vec![5 * day + 3, 0]);
        assert_eq!(clock.follow(|| times.borrow_mut().pop().unwrap_or(0)), 5 * day + 2);
    }
}
