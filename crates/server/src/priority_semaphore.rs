//! A semaphore whose permits go to the waiter of the highest priority, and among equals to the one that has waited longest.
//!
//! A permit that is dropped goes to a waiter at once, so none is free while somebody waits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// How urgent a caller's statements are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

/// See the module's text. Clones share the permits.
#[derive(Debug, Clone)]
pub(crate) struct PrioritySemaphore(Arc<Mutex<Permits>>);

/// The place of a waiter in the queue: by priority, then by arrival.
type QueueKey = (Reverse<Priority>, u64);

#[derive(Debug)]
struct Permits {
    free: usize,
    arrivals: u64,
    queue: BTreeMap<QueueKey, oneshot::Sender<Permit>>,
}

/// One of the permits. Dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Permit {
    /// None once it was passed on.
    of: Option<PrioritySemaphore>,
}

impl PrioritySemaphore {
    pub(crate) fn new(permits: usize) -> PrioritySemaphore {
        PrioritySemaphore(Arc::new(Mutex::new(Permits { free: permits, arrivals: 0, queue: BTreeMap::new() })))
    }

    fn permits(&self) -> MutexGuard<'_, Permits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self) -> Permit {
        Permit { of: Some(self.clone()) }
    }

    /// A permit, if one is free.
    pub(crate) fn try_acquire(&self) -> Option<Permit> {
        let mut permits = self.permits();
        permits.free = permits.free.checked_sub(1)?;
        Some(self.permit())
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self, priority: Priority) -> Permit {
        loop {
            let (mut waiter, receiver) = {
                let mut permits = self.permits();
                if let Some(fewer) = permits.free.checked_sub(1) {
                    permits.free = fewer;
                    return self.permit();
                }
                permits.arrivals += 1;
                let key = (Reverse(priority), permits.arrivals);
                let (sender, receiver) = oneshot::channel();
                permits.queue.insert(key, sender);
                (Waiter { semaphore: self, key: Some(key) }, receiver)
            };
            if let Ok(permit) = receiver.await {
                waiter.key = None;
                return permit;
            }
        }
    }
}

/// A waiter, who leaves the queue if it is dropped.
struct Waiter<'a> {
    semaphore: &'a PrioritySemaphore,
    key: Option<QueueKey>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.semaphore.permits().queue.remove(&key);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(semaphore) = self.of.take() else { return };
        let mut permits = semaphore.permits();
        while let Some((_, waiter)) = permits.queue.pop_first() {
            match waiter.send(semaphore.permit()) {
                Ok(()) => return,
                // The waiter has gone: the permit isn't dropped here, where the permits are locked.
                Err(mut permit) => drop(permit.of.take()),
            }
        }
        permits.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        futures::executor::block_on(work)
    }

    /// Looks at a future once.
    async fn poll_once<T>(work: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        futures::future::poll_fn(|context| match std::pin::Pin::new(&mut *work).poll(context) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }

    #[test]
    fn permits_go_to_the_most_urgent_and_then_to_the_first() {
        run(async {
            let semaphore = PrioritySemaphore::new(1);
            let held = semaphore.try_acquire();
            assert!(held.is_some() && semaphore.try_acquire().is_none());
            let order = [Priority::Low, Priority::Normal, Priority::High, Priority::Normal, Priority::High];
            let mut waiting: Vec<_> = order.iter().map(|one| Box::pin(semaphore.acquire(*one))).collect();
            for work in &mut waiting {
                assert!(poll_once(work).await.is_none());
            }
            let mut held = held;
            for next in [2, 4, 1, 3, 0] {
                drop(held.take());
                assert!(semaphore.try_acquire().is_none(), "it goes to who waits");
                held = poll_once(&mut waiting[next]).await;
                assert!(held.is_some(), "{next}");
            }
            drop(held);
            assert!(semaphore.try_acquire().is_some());
        });
    }

    #[test]
    fn permits_of_waiters_that_leave_are_not_lost() {
        run(async {
            let semaphore = PrioritySemaphore::new(1);
            let held = semaphore.try_acquire();
            let (mut first, mut second) =
                (Box::pin(semaphore.acquire(Priority::High)), Box::pin(semaphore.acquire(Priority::Low)));
            assert!(poll_once(&mut first).await.is_none() && poll_once(&mut second).await.is_none());
            // The one leaves before it gets the permit, the other with the permit on its way.
            drop(first);
            drop(held);
            drop(second);
            assert!(semaphore.permits().queue.is_empty());
            assert!(semaphore.try_acquire().is_some() && semaphore.permits().free == 1);
        });
    }
}
