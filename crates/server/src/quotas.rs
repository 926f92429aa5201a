//! Quotas: the limits of a user and the user's consumption, over all connections and protocols (ADR 71).
//!
//! - The database says at each request which quotas a user has. They narrow the server's limits and never exceed
//!   them.
//! - This module counts and refuses. Whatever runs statements, follows tables or takes rows uses the [`Allowance`] of
//!   its caller.
//! - Rows are counted by a token bucket that fills at the quota's rate and holds the rows of one second. A message
//!   may overdraw it, and later ones wait until the debt is paid: so no message is too large to be accepted, and the
//!   rate holds over time.
//! - A refusal names the quota and its role.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use splay_store::{Quota, RoleLimit};

use crate::ingest::{IngestCallback, IngestError};
use crate::priority_semaphore::Priority;
use crate::problem::{Code, Outcome, Problem};

/// Users whose usage is kept without anybody who uses it.
const USERS_MAX: usize = 4096;

/// Refusals by quota.
pub(crate) type QuotaRefusals = Family<[(&'static str, &'static str); 1], Counter>;

/// The usage of all users who have quotas.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    users: Mutex<HashMap<String, Arc<Usage>>>,
    refusals: QuotaRefusals,
}

impl Quotas {
    pub(crate) fn new(refusals: QuotaRefusals) -> Quotas {
        Quotas { users: Mutex::default(), refusals }
    }

    /// The allowance of a user by his quotas.
    pub(crate) fn of(&self, user: &str, allowed: &Arc<BTreeMap<Quota, RoleLimit>>) -> Allowance {
        if allowed.is_empty() {
            return Allowance::default();
        }
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= USERS_MAX {
            users.retain(|_, usage| Arc::strong_count(usage) > 1);
        }
        let usage = Arc::clone(users.entry(user.to_lowercase()).or_default());
        Allowance(Some(Arc::new(AllowanceState {
            allowed: Arc::clone(allowed),
            usage,
            refusals: self.refusals.clone(),
        })))
    }
}

/// The usage of a user.
#[derive(Debug, Default)]
struct Usage {
    statements: AtomicU64,
    subscriptions: AtomicU64,
    rows: Mutex<Bucket>,
}

/// A caller's quotas and what he has used of them; unlimited without quotas. Clones share the usage.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowance(Option<Arc<AllowanceState>>);

#[derive(Debug)]
struct AllowanceState {
    allowed: Arc<BTreeMap<Quota, RoleLimit>>,
    usage: Arc<Usage>,
    refusals: QuotaRefusals,
}

/// One of the things that a user does at a time. Dropped it is over.
#[derive(Debug, Default)]
pub(crate) struct UsageSlot(Option<(Arc<Usage>, Quota)>);

impl Usage {
    fn count(&self, quota: Quota) -> &AtomicU64 {
        if quota == Quota::SubscriptionsMax { &self.subscriptions } else { &self.statements }
    }
}

impl Drop for UsageSlot {
    fn drop(&mut self) {
        if let Some((usage, quota)) = self.0.take() {
            // Relaxed: the number guards no other memory.
            usage.count(quota).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A quota as refusals name it.
fn name(quota: Quota, allowed: &RoleLimit) -> String {
    format!("{} of role {}", quota.as_str(), allowed.role)
}

/// The quota that a statement of this outcome may have ended by.
fn quota_of(code: Code) -> Option<Quota> {
    match code {
        Code::Memory => Some(Quota::StatementBytesMax),
        Code::Time => Some(Quota::StatementSecondsMax),
        Code::Rows => Some(Quota::StatementRowsMax),
        _ => None,
    }
}

impl AllowanceState {
    fn get(&self, quota: Quota) -> Option<&RoleLimit> {
        self.allowed.get(&quota)
    }

    fn count_refusal(&self, quota: Quota) {
        self.refusals.get_or_create(&[("quota", quota.as_str())]).inc();
    }
}

impl Allowance {
    fn get(&self, quota: Quota) -> Option<(&AllowanceState, &RoleLimit)> {
        let state = self.0.as_deref()?;
        Some((state, state.get(quota)?))
    }

    /// The caller's limit where the server's own is `limit`: the lower of the two.
    pub(crate) fn bound(&self, quota: Quota, limit: u64) -> u64 {
        self.get(quota).map_or(limit, |(_, allowed)| allowed.value.min(limit))
    }

    /// How urgent the caller's statements are.
    pub(crate) fn priority(&self) -> Priority {
        match self.get(Quota::StatementPriority).map_or(2, |(_, allowed)| allowed.value) {
            ..=1 => Priority::Low,
            2 => Priority::Normal,
            3.. => Priority::High,
        }
    }

    /// Begins a statement.
    ///
    /// # Errors
    /// [`Code::Busy`].
    pub(crate) fn statement(&self) -> Outcome<UsageSlot> {
        self.begin(Quota::StatementsMax, "statements")
    }

    /// Begins a subscription.
    ///
    /// # Errors
    /// [`Code::Busy`].
    pub(crate) fn subscription(&self) -> Outcome<UsageSlot> {
        self.begin(Quota::SubscriptionsMax, "subscriptions")
    }

    fn begin(&self, quota: Quota, what: &str) -> Outcome<UsageSlot> {
        let Some((state, allowed)) = self.get(quota) else { return Ok(UsageSlot::default()) };
        let more = |count: u64| (count < allowed.value).then_some(count + 1);
        if state.usage.count(quota).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            return Ok(UsageSlot(Some((Arc::clone(&state.usage), quota))));
        }
        state.count_refusal(quota);
        let name = name(quota, allowed);
        let text = format!("too many {what} at once: quota {name} is {}; try again when one has ended", allowed.value);
        Err(Problem::new(Code::Busy, text).of_quota(name))
    }

    /// A problem that ended a statement, with the quota that caused it: if the server's own limit, `limit`, is wider. [`Allowance::count`] counts it.
    pub(crate) fn name_quota(&self, problem: Problem, limit: impl FnOnce(Quota) -> u64) -> Problem {
        let Some(quota) = quota_of(problem.code) else { return problem };
        match self.get(quota) {
            Some((_, allowed)) if allowed.value < limit(quota) && problem.quota.is_none() => {
                let name = name(quota, allowed);
                Problem { message: format!("{} (quota {name})", problem.message), ..problem }.of_quota(name)
            }
            _ => problem,
        }
    }

    /// Counts a refusal that [`Allowance::name_quota`] named, once for a statement.
    pub(crate) fn count(&self, problem: &Problem) {
        if let (Some(state), Some(quota)) = (&self.0, quota_of(problem.code))
            && problem.quota.is_some()
        {
            state.count_refusal(quota);
        }
    }

    /// Takes so many rows, if those before are paid.
    ///
    /// # Errors
    /// [`Code::Busy`], with the time from which on some are taken. None of these was.
    pub(crate) fn take_rows(&self, rows: u64) -> Outcome<()> {
        let Some((state, allowed)) = self.get(Quota::RowsPerSecondMax) else { return Ok(()) };
        let Err(after) = state.usage.rows(|bucket| bucket.take(allowed.value, rows, Instant::now())) else {
            return Ok(());
        };
        state.count_refusal(Quota::RowsPerSecondMax);
        let name = name(Quota::RowsPerSecondMax, allowed);
        let text = format!("too many rows a second: quota {name} is {}", allowed.value);
        let problem = Problem::new(Code::Busy, text).after(after).of_quota(name);
        let text = format!("{}; send them again in {} s", problem.message, problem.retry_seconds());
        Err(Problem { message: text, ..problem })
    }

    /// Takes so many rows of a sender who waits before he sends more.
    pub(crate) fn charge_rows(&self, rows: u64) {
        if let Some((state, allowed)) = self.get(Quota::RowsPerSecondMax) {
            state.usage.rows(|bucket| bucket.charge(allowed.value, rows, Instant::now()));
        }
    }

    /// Gives back rows that weren't stored after all.
    pub(crate) fn give_back(&self, rows: u64) {
        if let Some((state, allowed)) = self.get(Quota::RowsPerSecondMax) {
            state.usage.rows(|bucket| bucket.give_back(allowed.value, rows));
        }
    }

    /// The callback for rows that are stored or refused. It gives back the quota of rows that aren't stored.
    pub(crate) fn until_done(&self, rows: u64, done: IngestCallback) -> IngestCallback {
        if !self.counts_rows() {
            return done;
        }
        let allowance = self.clone();
        Box::new(move |acked| {
            // Unconfirmed rows are stored.
            if acked.as_ref().is_err_and(|error| !matches!(error, IngestError::Unconfirmed)) {
                allowance.give_back(rows);
            }
            done(acked);
        })
    }

    /// Whether rows are counted.
    pub(crate) fn counts_rows(&self) -> bool {
        self.get(Quota::RowsPerSecondMax).is_some()
    }

    /// How long a sender who can wait does before he sends more rows.
    pub(crate) fn pause(&self) -> Duration {
        let Some((state, allowed)) = self.get(Quota::RowsPerSecondMax) else { return Duration::ZERO };
        state.usage.rows(|bucket| bucket.pause(allowed.value, Instant::now()))
    }
}

impl Usage {
    fn rows<T>(&self, work: impl FnOnce(&mut Bucket) -> T) -> T {
        work(&mut self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Rows that may be taken, which become more with time; less than none after a large message.
#[derive(Debug, Default)]
struct Bucket {
    rows: f64,
    /// When it was filled last; never before the first rows.
    filled: Option<Instant>,
}

impl Bucket {
    fn fill(&mut self, rate: f64, now: Instant) {
        self.rows = match self.filled {
            None => rate,
            Some(filled) => (self.rows + now.saturating_duration_since(filled).as_secs_f64() * rate).min(rate),
        };
        self.filled = Some(now);
    }

    /// How long until a row may be taken.
    fn pause(&mut self, rate: u64, now: Instant) -> Duration {
        let rate = rate as f64;
        self.fill(rate, now);
        if self.rows >= 1.0 {
            return Duration::ZERO;
        }
        // A clock counts whole nanoseconds: with one more there is a whole row by then.
        Duration::try_from_secs_f64((1.0 - self.rows) / rate)
            .unwrap_or(Duration::MAX)
            .saturating_add(Duration::from_nanos(1))
    }

    fn take(&mut self, rate: u64, rows: u64, now: Instant) -> Result<(), Duration> {
        let after = self.pause(rate, now);
        if !after.is_zero() {
            return Err(after);
        }
        self.rows -= rows as f64;
        Ok(())
    }

    fn charge(&mut self, rate: u64, rows: u64, now: Instant) {
        self.fill(rate as f64, now);
        self.rows -= rows as f64;
    }

    fn give_back(&mut self, rate: u64, rows: u64) {
        self.rows = (self.rows + rows as f64).min(rate as f64);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn allowance(quotas: &Quotas, user: &str, allowed: &[(Quota, u64)]) -> Allowance {
        let of = |(quota, value): &(Quota, u64)| (*quota, RoleLimit { value: *value, role: "desk".to_owned() });
        quotas.of(user, &Arc::new(allowed.iter().map(of).collect()))
    }

    #[test]
    fn a_user_is_counted_over_all_his_requests() {
        let quotas = Quotas::default();
        let of = |user: &str| allowance(&quotas, user, &[(Quota::StatementsMax, 2), (Quota::SubscriptionsMax, 1)]);
        let (first, second) = (of("ann").statement().unwrap(), of("Ann").statement().unwrap());
        let refused = of("ANN").statement().unwrap_err();
        assert_eq!(refused.code, Code::Busy);
        assert!(refused.message.contains("quota statements_max of role desk is 2"), "{}", refused.message);
        // Other kinds of slots, and other users, have limits of their own.
        let (_subscription, _others) = (of("ann").subscription().unwrap(), of("bob").statement().unwrap());
        assert!(of("ann").subscription().is_err());
        drop(first);
        let third = of("ann").statement().unwrap();
        assert!(of("ann").statement().is_err());
        drop((second, third));
        assert_eq!(of("ann").0.unwrap().usage.statements.load(Ordering::Relaxed), 0);
        let counted = |quota: Quota| quotas.refusals.get_or_create(&[("quota", quota.as_str())]).get();
        assert_eq!((counted(Quota::StatementsMax), counted(Quota::SubscriptionsMax)), (2, 1));
        assert!(Allowance::default().statement().is_ok() && Allowance::default().take_rows(u64::MAX).is_ok());
    }

    #[test]
    fn the_lower_of_quota_and_limit_holds_and_is_named_if_it_is_the_quota() {
        let quotas = Quotas::default();
        let ann = allowance(&quotas, "ann", &[(Quota::StatementRowsMax, 10), (Quota::StatementSecondsMax, 90)]);
        assert_eq!(ann.bound(Quota::StatementRowsMax, 100), 10);
        assert_eq!(ann.bound(Quota::StatementSecondsMax, 60), 60);
        assert_eq!(ann.bound(Quota::StatementBytesMax, 5), 5);
        let named = |code: Code| ann.name_quota(Problem::new(code, "no"), |_| 60);
        assert_eq!(named(Code::Rows).message, "no (quota statement_rows_max of role desk)");
        for code in [Code::Time, Code::Memory, Code::Busy] {
            assert_eq!(named(code).message, "no");
        }
        let twice = ann.name_quota(named(Code::Rows), |_| 60);
        assert_eq!(twice.message, named(Code::Rows).message);
    }

    #[test]
    fn rows_are_taken_at_the_rate_and_a_large_message_is_paid_by_those_behind_it() {
        let (start, mut bucket) = (Instant::now(), Bucket::default());
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        assert_eq!(bucket.take(100, 100, start), Ok(()), "a second's rows at once");
        assert!(bucket.take(100, 1, start).is_err());
        assert_eq!(bucket.take(100, 500, at(0.5)), Ok(()), "more than there are");
        let after = bucket.take(100, 1, at(0.5)).unwrap_err();
        assert!((4.5..4.6).contains(&after.as_secs_f64()), "{after:?}");
        assert_eq!(bucket.pause(100, at(0.5)), after);
        assert!(bucket.take(100, 1, at(4.9)).is_err());
        assert_eq!(bucket.take(100, 1, at(0.5) + after), Ok(()));
        // An unused allowance is kept for at most a second.
        bucket.charge(100, 99, at(1000.0));
        assert_eq!(bucket.take(100, 1, at(1000.0)), Ok(()));
        assert!(bucket.take(100, 1, at(1000.0)).is_err());
        bucket.give_back(100, 1);
        assert_eq!(bucket.take(100, 1, at(1000.0)), Ok(()));
        bucket.give_back(100, 1_000_000);
        assert_eq!(bucket.take(100, 101, at(1000.0)), Ok(()));
        assert!(bucket.take(100, 1, at(1000.0)).is_err(), "no more than the rows of a second are given back");
    }
}
