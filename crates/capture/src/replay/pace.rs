//! When updates of a replay are due.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Clock;

/// How fast a replay goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReplaySpeed {
    /// This many times as fast as the rows came; above zero.
    Times(f64),
    /// As fast as the receiver takes the rows.
    Max,
}

/// Where a replay began: by the clock, and in the time of its rows.
#[derive(Debug, Clone, Copy)]
struct ReplayStart {
    at: i64,
    of: i64,
}

/// The clock of a replay. Clones share where it began: the first that asks begins it.
#[derive(Debug, Clone)]
pub struct Pace {
    clock: Arc<dyn Clock>,
    beginning: Arc<OnceLock<ReplayStart>>,
}

impl Pace {
    /// A replay that hasn't begun.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Pace {
        Pace { clock, beginning: Arc::default() }
    }

    /// How long until an instant of the replay is there, in nanoseconds; `None` if it is. Begins the replay with `first` if it
    /// hasn't begun.
    pub(super) fn time_until(&self, speed: ReplaySpeed, first: i64, instant: i64) -> Option<Duration> {
        let ReplaySpeed::Times(times) = speed else { return None };
        let now = self.clock.now();
        let beginning = self.beginning.get_or_init(|| ReplayStart { at: now, of: first });
        let since = instant.saturating_sub(beginning.of);
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        let due = beginning.at.saturating_add((since as f64 / times) as i64);
        let time_until = due.saturating_sub(now);
        u64::try_from(time_until).ok().filter(|time_until| *time_until > 0).map(Duration::from_nanos)
    }
}
