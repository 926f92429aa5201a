//! Subscriptions over any protocol: updates from capture, encoded on a thread of their own, sent as far as the client
//! has given credit.
//!
//! - Updates for a client without credit, or one that doesn't read, wait in capture's bounded queue; when it is full,
//!   the policy that the client chose applies. Ingest never waits for a client.
//! - Each update has the sequence number after which a client can resume.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use splay_store::priority;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::audit::Action;
use crate::callers::{Caller, TableReader};
use crate::ingest::{Subscription, Update, UpdateKind};
use crate::metrics::{GaugeGuard, Metrics};
use crate::problem::{Code, Outcome, Problem};
use crate::quotas::UsageSlot;
use crate::settings::Limits;
use crate::sources::Sources;
use crate::subscription_requests::SubscriptionRequest;

/// How often a subscription looks whether its client is still there.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// How often it looks whether its client still may.
const LOOK_AT_RIGHTS: Duration = Duration::from_millis(500);

/// Encoded updates that wait for the network.
const UPDATES_WAITING: usize = 4;

/// How many updates may still be sent.
#[derive(Debug)]
pub(crate) struct Credit {
    updates: AtomicU64,
    more: Notify,
}

impl Credit {
    fn new(credit: Option<u64>) -> Arc<Credit> {
        Arc::new(Credit { updates: AtomicU64::new(credit.unwrap_or(u64::MAX)), more: Notify::new() })
    }

    /// Gives credit for so many updates more.
    pub(crate) fn give(&self, updates: u64) {
        let add = |updates_now: u64| Some(updates_now.saturating_add(updates));
        let _ = self.updates.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        self.more.notify_one();
    }

    /// Takes credit for one update, if there is any.
    fn take(&self) -> bool {
        let subtract =
            |updates_now: u64| if updates_now == u64::MAX { Some(updates_now) } else { updates_now.checked_sub(1) };
        self.updates.fetch_update(Ordering::AcqRel, Ordering::Acquire, subtract).is_ok()
    }
}

/// Makes messages of updates. Runs on the subscription's thread.
pub(crate) trait EncodeUpdate: Send + 'static {
    /// An encoded message.
    type Message: Send + 'static;

    /// The messages of an update.
    fn update(&mut self, update: &Update) -> Outcome<Vec<Self::Message>>;
}

/// Messages of a subscription. Dropping it ends the subscription.
#[derive(Debug)]
pub(crate) struct Updates<M> {
    /// The messages; after an error nothing comes.
    pub(crate) messages: mpsc::Receiver<Outcome<M>>,
    /// The client's credit.
    pub(crate) credit: Arc<Credit>,
    ended: Arc<AtomicBool>,
}

impl<M> Updates<M> {
    /// Whether the messages ended because there is nothing more: a replay is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// A subscription's place, freed when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct SubscriptionSlot(
    #[expect(dead_code, reason = "held, not looked at")] Arc<(OwnedSemaphorePermit, UsageSlot)>,
);

/// Runs subscriptions. Clones share the limits.
#[derive(Debug, Clone)]
pub(crate) struct Subscriptions {
    sources: Sources,
    places: Arc<Semaphore>,
    places_max: u32,
    metrics: Arc<Metrics>,
    stop: watch::Receiver<bool>,
}

impl Subscriptions {
    pub(crate) fn new(
        sources: Sources,
        limits: &Limits,
        metrics: Arc<Metrics>,
        stop: watch::Receiver<bool>,
    ) -> Subscriptions {
        let places_max = u32::try_from(limits.subscriptions_max).unwrap_or(u32::MAX >> 3);
        let places = Arc::new(Semaphore::new(places_max as usize));
        Subscriptions { sources, places, places_max, metrics, stop }
    }

    /// A slot for a caller's subscription, taken before he has sent his request.
    ///
    /// # Errors
    /// [`Code::Busy`].
    pub(crate) fn place(&self, caller: &Caller) -> Outcome<SubscriptionSlot> {
        let slot = caller.allowance().subscription().inspect_err(|problem| caller.who().note_quota(problem))?;
        let busy = |_| Problem::new(Code::Busy, "too many subscriptions at once");
        Arc::clone(&self.places)
            .try_acquire_owned()
            .map(|permit| SubscriptionSlot(Arc::new((permit, slot))))
            .map_err(busy)
    }

    /// Waits until no subscription is left; they end when the server stops.
    pub(crate) async fn drained(&self) {
        let _ = self.places.acquire_many(self.places_max).await;
    }

    /// Starts a caller's subscription, which ends once he may not read its tables any more.
    ///
    /// # Errors
    /// That he may not, and what capture says.
    pub(crate) async fn open<E: EncodeUpdate>(
        &self,
        (place, follower): (SubscriptionSlot, TableReader),
        ask: &SubscriptionRequest,
        encode: E,
    ) -> Outcome<Updates<E::Message>> {
        let begun = follower.who().begin(Action::subscription(&ask.tables().join(", "))).await?;
        let (sources, request, asking) = (self.sources.clone(), ask.clone(), follower.clone());
        let subscribed = tokio::task::spawn_blocking(move || {
            asking.check()?;
            sources.open(&request)
        });
        let subscribed = subscribed.await;
        let broke_off = |_| Problem::new(Code::Internal, "the subscription broke off");
        let subscription = match subscribed.map_err(broke_off).flatten() {
            Ok(subscription) => subscription,
            Err(problem) => {
                begun.end(problem.code.as_str(), None);
                return Err(problem);
            }
        };
        let (outlet, messages) = mpsc::channel(UPDATES_WAITING);
        let (credit, ended) = (Credit::new(ask.credit), Arc::<AtomicBool>::default());
        let counted = GaugeGuard::new(self.metrics.subscriptions.clone());
        let mut run = SubscriptionRun {
            subscription,
            follower,
            looked: Instant::now(),
            encode,
            outlet,
            credit: Arc::clone(&credit),
            ended: Arc::clone(&ended),
            metrics: Arc::clone(&self.metrics),
            rows: 0,
            stop: self.stop.clone(),
            handle: Handle::current(),
        };
        let thread = std::thread::Builder::new().name("splay-subscription".to_owned());
        let spawned = thread.spawn(move || {
            priority::work();
            let (_place, _counted) = (place, counted);
            let ended = run.run();
            begun.end_patiently(ended.as_ref().map_or_else(|problem| problem.code.as_str(), |()| "ok"), Some(run.rows));
            if let Err(problem) = ended {
                // Waits for room: a client that reads gets the last word, one that went away frees the thread.
                let _ = run.outlet.blocking_send(Err(problem));
            }
        });
        spawned.map_err(|_| Problem::new(Code::Busy, "no thread for a subscription"))?;
        Ok(Updates { messages, credit, ended })
    }
}

/// A subscription on its thread.
struct SubscriptionRun<E: EncodeUpdate> {
    subscription: Box<dyn Subscription>,
    follower: TableReader,
    /// When it was looked last whether he still may.
    looked: Instant,
    encode: E,
    outlet: mpsc::Sender<Outcome<E::Message>>,
    credit: Arc<Credit>,
    ended: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
    /// Rows that were sent.
    rows: u64,
    stop: watch::Receiver<bool>,
    handle: Handle,
}

impl<E: EncodeUpdate> SubscriptionRun<E> {
    /// Runs until the client goes away, the server stops, capture ends it or a replay is over.
    fn run(&mut self) -> Outcome<()> {
        while self.wait_for_credit()? {
            let update = loop {
                if !self.goes_on()? {
                    return Ok(());
                }
                if let Some(update) = self.subscription.next(LOOK_AROUND)? {
                    break update;
                }
            };
            for message in self.encode.update(&update)? {
                if self.outlet.blocking_send(Ok(message)).is_err() {
                    return Ok(());
                }
            }
            self.metrics.updates_out.inc();
            self.rows += update.rows.num_rows() as u64;
            if update.kind == UpdateKind::End {
                self.ended.store(true, Ordering::Release);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether the client still listens and still may. Fails if the server stops.
    fn goes_on(&mut self) -> Outcome<bool> {
        if self.looked.elapsed() >= LOOK_AT_RIGHTS {
            self.looked = Instant::now();
            self.follower.check()?;
        }
        if *self.stop.borrow() {
            return Err(Problem::new(Code::Closed, "the server is stopping"));
        }
        Ok(!self.outlet.is_closed())
    }

    /// Waits for credit; false if the client has gone.
    fn wait_for_credit(&mut self) -> Outcome<bool> {
        while !self.credit.take() {
            if !self.goes_on()? {
                return Ok(false);
            }
            let _ =
                self.handle.block_on(async { tokio::time::timeout(LOOK_AROUND, self.credit.more.notified()).await });
        }
        self.goes_on()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_taken_one_by_one() {
        let credit = Credit::new(Some(1));
        assert!(credit.take() && !credit.take());
        credit.give(2);
        assert!(credit.take() && credit.take() && !credit.take());
        credit.give(u64::MAX);
        credit.give(u64::MAX);
        assert!(credit.take() && credit.take());
        assert!(Credit::new(None).take());
    }
}
