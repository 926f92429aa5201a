//! Retries of failed calls: how often, and until when.

use std::time::{Duration, Instant};

use super::{ObjectError, ObjectFault, ObjectResult};

/// When a call that failed for a reason that may pass is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Pause before the second attempt. Each later one is twice as long, and each is shortened at random by up to half of it, so that many
    /// who failed together don't come back together.
    pub first_pause: Duration,
    /// Longest pause.
    pub longest_pause: Duration,
    /// Time after which no further attempt begins.
    pub deadline: Duration,
    /// Attempts at most.
    pub attempts_max: u32,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(5),
            deadline: Duration::from_secs(30),
            attempts_max: 16,
        }
    }
}

impl Retry {
    /// Repeats a call until it succeeds, fails permanently, or the time is over.
    pub(crate) fn run<T>(&self, mut call: impl FnMut() -> ObjectResult<T>) -> ObjectResult<T> {
        let begun = Instant::now();
        let mut pause = self.first_pause;
        for attempt in 1.. {
            let error = match call() {
                Err(error) if error.fault == ObjectFault::Passing => error,
                done => return done,
            };
            let pause_now = with_jitter(pause);
            if attempt >= self.attempts_max || begun.elapsed() + pause_now > self.deadline {
                let reason = match attempt {
                    1 => error.reason,
                    _ => format!("{} (tried {attempt} times)", error.reason),
                };
                return Err(ObjectError { reason, ..error });
            }
            tracing::debug!(attempt, reason = %error.reason, "a call of the object store failed and is made again");
            std::thread::sleep(pause_now);
            pause = (pause * 2).min(self.longest_pause);
        }
        // A loop without end.
        Err(ObjectError::new(ObjectFault::Lasting, "no attempt was made"))
    }
}

/// A pause less a random part of its second half.
fn with_jitter(pause: Duration) -> Duration {
    let mut random = [0; 2];
    // Without randomness the pause is whole.
    let _ = getrandom::fill(&mut random);
    pause - pause * u32::from(u16::from_le_bytes(random)) / (2 * (u32::from(u16::MAX) + 1))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn quick(attempts_max: u32) -> Retry {
        Retry { first_pause: Duration::ZERO, attempts_max, ..Retry::default() }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_stays_is_not() {
        for fault in [ObjectFault::Absent, ObjectFault::Exists, ObjectFault::Denied, ObjectFault::Lasting] {
            let mut calls = 0;
            let done: ObjectResult<()> = quick(5).run(|| {
                calls += 1;
                Err(ObjectError::new(fault, "no"))
            });
            assert_eq!((calls, done), (1, Err(ObjectError::new(fault, "no"))));
        }
        let mut calls = 0;
        let done = quick(5).run(|| {
            calls += 1;
            if calls < 4 { Err(ObjectError::new(ObjectFault::Passing, "busy")) } else { Ok(calls) }
        });
        assert_eq!(done, Ok(4));
        let done: ObjectResult<()> = quick(3).run(|| Err(ObjectError::new(ObjectFault::Passing, "busy")));
        assert_eq!(done.unwrap_err().reason, "busy (tried 3 times)");
        let late = Retry { deadline: Duration::ZERO, first_pause: Duration::from_secs(1), ..quick(9) };
        let done: ObjectResult<()> = late.run(|| Err(ObjectError::new(ObjectFault::Passing, "busy")));
        assert_eq!(done.unwrap_err().reason, "busy");
    }

    #[test]
    fn pauses_are_shortened_by_half_at_most() {
        for _ in 0..200 {
            let pause = with_jitter(Duration::from_millis(100));
            assert!(pause > Duration::from_millis(49) && pause <= Duration::from_millis(100), "{pause:?}");
        }
    }
}
