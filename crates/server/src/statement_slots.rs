//! Slots for statements, which let short statements through whatever long ones and slow clients do.
//!
//! - A statement begins in a *short* slot, and leaves it after [`SHORT`] for a *long* one. There are equally many of
//!   both.
//! - If all long slots are occupied, it stays until another statement waits for its short slot. Then, if it has sent
//!   nothing, it is stopped, waits without holding memory, and restarts in a long slot; if it has already sent rows,
//!   it pauses until it has one.
//! - A statement whose client reads nothing for [`PATIENCE`] gives its slot back, and continues in a long slot once
//!   the client has read.
//! - Of those that wait for a slot the one of the highest priority gets it, and among equals the one that has waited longest.
//! - The number of statements that wait, for a slot or for their client, is bounded.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::{GaugeGuard, Metrics};
use crate::priority_semaphore::{Permit, Priority, PrioritySemaphore};

/// How long a statement has its short place for itself.
const SHORT: Duration = Duration::from_millis(100);

/// How long a client that reads nothing keeps its statement's place.
const PATIENCE: Duration = Duration::from_secs(1);

/// Too many wait already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// All places.
#[derive(Debug)]
pub(crate) struct StatementSlots {
    short: PrioritySemaphore,
    long: PrioritySemaphore,
    waiting: Arc<Semaphore>,
    demand: Mutex<SlotDemand>,
    /// See [`SHORT`] and [`PATIENCE`].
    short_for: Duration,
    pub(crate) patience: Duration,
    metrics: Arc<Metrics>,
}

/// The demand for short slots, and the statements that leave theirs.
#[derive(Debug, Default)]
struct SlotDemand {
    /// Statements that wait for a short place.
    queued: usize,
    /// Statements that have been asked to leave their short slot and haven't yet.
    leaving: usize,
}

/// The place of one statement. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct StatementSlot {
    places: Arc<StatementSlots>,
    priority: Priority,
    since: Instant,
    state: Mutex<SlotState>,
    /// The kind of slot that is held, readable without the lock.
    kind: AtomicU8,
}

#[derive(Debug)]
enum SlotState {
    Short {
        _permit: Permit,
    },
    Long {
        _permit: Permit,
    },
    /// None, but one to wait.
    Waiting {
        _permit: OwnedSemaphorePermit,
        _counted: GaugeGuard,
    },
}

const IN_SHORT: u8 = 0;
const IN_LONG: u8 = 1;
const WAITING: u8 = 2;
/// The statement is in a short slot that another statement waits for.
const LEAVING: u8 = 3;

impl SlotState {
    fn kind(&self) -> u8 {
        match self {
            SlotState::Short { .. } => IN_SHORT,
            SlotState::Long { .. } => IN_LONG,
            SlotState::Waiting { .. } => WAITING,
        }
    }
}

impl StatementSlots {
    pub(crate) fn new(places: usize, waiting_max: usize, metrics: Arc<Metrics>) -> Arc<StatementSlots> {
        let (short, long) = (PrioritySemaphore::new(places), PrioritySemaphore::new(places));
        let waiting = Arc::new(Semaphore::new(waiting_max.min(Semaphore::MAX_PERMITS)));
        Arc::new(StatementSlots {
            short,
            long,
            waiting,
            demand: Mutex::default(),
            short_for: SHORT,
            patience: PATIENCE,
            metrics,
        })
    }

    /// Waits for a short place.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub(crate) async fn begin(self: &Arc<StatementSlots>, priority: Priority) -> Result<Arc<StatementSlot>, QueueFull> {
        let permit = match self.short.try_acquire() {
            Some(permit) => permit,
            None => {
                let _waiting = self.wait()?;
                let _queued = QueuedStatement::behind(self);
                self.short.acquire(priority).await
            }
        };
        let (since, state) = (Instant::now(), Mutex::new(SlotState::Short { _permit: permit }));
        let (places, kind) = (Arc::clone(self), AtomicU8::new(IN_SHORT));
        let place = Arc::new(StatementSlot { places, priority, since, state, kind });
        place.watch();
        Ok(place)
    }

    fn demand(&self) -> MutexGuard<'_, SlotDemand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more that waits.
    fn wait(&self) -> Result<SlotState, QueueFull> {
        let permit = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| QueueFull)?;
        Ok(SlotState::Waiting { _permit: permit, _counted: GaugeGuard::new(self.metrics.statements_waiting.clone()) })
    }
}

/// A statement that waits for a short place.
struct QueuedStatement<'a>(&'a StatementSlots);

impl QueuedStatement<'_> {
    fn behind(places: &StatementSlots) -> QueuedStatement<'_> {
        places.demand().queued += 1;
        QueuedStatement(places)
    }
}

impl Drop for QueuedStatement<'_> {
    fn drop(&mut self) {
        self.0.demand().queued -= 1;
    }
}

impl Drop for StatementSlot {
    fn drop(&mut self) {
        self.has_left();
    }
}

impl StatementSlot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, state: &mut SlotState, next: SlotState) {
        self.has_left();
        self.kind.store(next.kind(), Ordering::Relaxed);
        *state = next;
    }

    /// Notes that the short slot is free, if the statement had been asked to leave it.
    fn has_left(&self) {
        if self.kind.load(Ordering::Relaxed) == LEAVING {
            self.places.demand().leaving -= 1;
        }
    }

    /// Moves the statement to a long place after its time even while it doesn't ask itself, for it may be planned for long.
    fn watch(self: &Arc<StatementSlot>) {
        let (short_for, place) = (self.places.short_for, Arc::downgrade(self));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(short_for).await;
                if place.upgrade().is_none_or(|place| place.kind.load(Ordering::Relaxed) != IN_SHORT || place.move_up())
                {
                    break;
                }
            }
        });
    }

    /// Whether the statement may work on. One that may not has to wait for a long place, or begins anew in one.
    pub(crate) fn may_go_on(&self) -> bool {
        match self.kind.load(Ordering::Relaxed) {
            IN_LONG => true,
            IN_SHORT => self.since.elapsed() < self.places.short_for || self.move_up() || !self.is_to_leave(),
            _ => false,
        }
    }

    /// Whether the statement has to leave its short place, because more wait for one than others leave. Said once, it stays so.
    fn is_to_leave(&self) -> bool {
        // Held so that it is said once.
        let _state = self.state();
        if self.kind.load(Ordering::Relaxed) != IN_SHORT {
            return self.kind.load(Ordering::Relaxed) != IN_LONG;
        }
        let mut demand = self.places.demand();
        let is_wanted = demand.queued > demand.leaving;
        if is_wanted {
            demand.leaving += 1;
            self.kind.store(LEAVING, Ordering::Relaxed);
        }
        is_wanted
    }

    /// Takes a long place in exchange for the short one, if there is one.
    fn move_up(&self) -> bool {
        let mut state = self.state();
        if !matches!(*state, SlotState::Short { .. }) {
            return matches!(*state, SlotState::Long { .. });
        }
        let Some(permit) = self.places.long.try_acquire() else { return false };
        self.hold(&mut state, SlotState::Long { _permit: permit });
        true
    }

    /// Gives the place back for now.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub(crate) fn step_aside(&self) -> Result<(), QueueFull> {
        let mut state = self.state();
        if !matches!(*state, SlotState::Waiting { .. }) {
            let waiting = self.places.wait()?;
            self.hold(&mut state, waiting);
        }
        Ok(())
    }

    /// Waits for a long place, without any meanwhile.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub(crate) async fn long(&self) -> Result<(), QueueFull> {
        if self.move_up() {
            return Ok(());
        }
        self.step_aside()?;
        let permit = self.places.long.acquire(self.priority).await;
        self.hold(&mut self.state(), SlotState::Long { _permit: permit });
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Places whose statements have outstayed theirs as soon as they have one, or never.
    fn places(count: usize, waiting_max: usize, short_for: Duration) -> Arc<StatementSlots> {
        let mut places =
            StatementSlots::new(count, waiting_max, Arc::new(Metrics::new(None, crate::audit::Auditor::default())));
        Arc::get_mut(&mut places).unwrap().short_for = short_for;
        places
    }

    const NEVER: Duration = Duration::from_secs(1 << 30);

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
    }

    /// Whether a future is over at its first look.
    async fn is_ready<T>(work: impl Future<Output = T>) -> bool {
        let mut work = Box::pin(work);
        futures::future::poll_fn(|context| std::task::Poll::Ready(work.as_mut().poll(context).is_ready())).await
    }

    #[test]
    fn a_statement_that_outstays_its_place_leaves_it_to_the_next() {
        run(async {
            let places = places(1, 4, Duration::ZERO);
            let first = places.begin(Priority::Normal).await.unwrap();
            assert!(first.may_go_on(), "in the long place");
            let second = places.begin(Priority::Normal).await.unwrap();
            assert!(second.may_go_on(), "nobody waits for its place");
            let mut third = Box::pin(places.begin(Priority::Normal));
            assert!(!is_ready(&mut third).await);
            assert!(!second.may_go_on() && !second.may_go_on(), "the third does");
            assert!(!is_ready(second.long()).await);
            let third = third.await.unwrap();
            assert!(third.may_go_on() && !second.may_go_on());
            drop(first);
            second.long().await.unwrap();
            assert!(second.may_go_on());
        });
    }

    #[test]
    fn a_statement_that_is_short_needs_no_long_place() {
        run(async {
            let places = places(1, 0, NEVER);
            let first = places.begin(Priority::Normal).await.unwrap();
            assert!(first.may_go_on());
            assert_eq!(places.begin(Priority::Normal).await.err(), Some(QueueFull), "and nobody may wait");
            first.long().await.unwrap();
            let second = places.begin(Priority::Normal).await.unwrap();
            assert!(second.may_go_on(), "while the long place is taken");
            assert_eq!(second.long().await, Err(QueueFull));
        });
    }

    #[test]
    fn a_client_that_reads_nothing_holds_no_place_and_its_statement_goes_on_later() {
        run(async {
            let places = places(1, 1, NEVER);
            let first = places.begin(Priority::Normal).await.unwrap();
            first.long().await.unwrap();
            first.step_aside().unwrap();
            assert!(!first.may_go_on());
            let second = places.begin(Priority::Normal).await.unwrap();
            second.long().await.unwrap();
            assert_eq!(second.step_aside(), Err(QueueFull), "so many wait, and no more");
            assert!(!is_ready(first.long()).await);
            drop(second);
            first.long().await.unwrap();
            assert!(first.may_go_on());
        });
    }

    #[test]
    fn the_most_urgent_of_those_that_wait_comes_first() {
        run(async {
            let places = places(1, 4, NEVER);
            let first = places.begin(Priority::Low).await.unwrap();
            let (mut low, mut high) = (Box::pin(places.begin(Priority::Low)), Box::pin(places.begin(Priority::High)));
            assert!(!is_ready(&mut low).await && !is_ready(&mut high).await);
            drop(first);
            let high = high.await.unwrap();
            assert!(!is_ready(&mut low).await);
            drop(high);
            low.await.unwrap();
        });
    }

    #[test]
    fn a_statement_that_is_busy_with_its_plan_is_moved_all_the_same() {
        run(async {
            let places = places(1, 0, Duration::from_millis(1));
            let first = places.begin(Priority::Normal).await.unwrap();
            while first.kind.load(Ordering::Relaxed) != IN_LONG {
                tokio::task::yield_now().await;
            }
            assert!(places.begin(Priority::Normal).await.is_ok());
        });
    }
}
