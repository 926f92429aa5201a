//! Derives rules by age from the measured tiers.
//!
//! - `size`: the smallest tier for all dates, or a faster one that is hardly larger.
//! - `speed`: all dates mapped, up to half of the memory; older ones come from disk, where `fast` reads fewer bytes.
//! - `balanced`: the newest dates mapped, for at most a week and up to a quarter of the memory; older ones `fast`,
//!   and `small` from a quarter of a year on. A tier that saves little is left out, and so is `fast` if `small` is
//!   read as quickly.
//!
//! A rule that moves dates to the object store stays, and ends the others. Why these shares:
//! docs/adr/0076-advice-by-samples.md.

use super::{AdviseSettings, Goal, TierAdvice};
use crate::database::TableSnapshot;
use crate::newest_date::newest_date;
use crate::partition::Period;
use crate::schema::{TableSpec, TierRule};
use crate::tier::Tier;

/// A tier that saves less of another one's bytes isn't worth its cost: of the mapped one's, and of the fast one's.
const MAPPED_SHARE_MAX: f64 = 0.8;
const FAST_SHARE_MAX: f64 = 0.9;

/// A tier counts as small as the smallest if it takes at most this many times its bytes.
const AS_SMALL: f64 = 1.02;

/// A tier counts as quick as another if reading takes at most this many times as long.
const AS_QUICK: f64 = 1.25;

/// Days in which a date is read all day, and in which it is read now and then.
const NEW_DAYS: u32 = 7;
const WARM_DAYS: u32 = 90;

/// Rules, and why.
#[derive(Debug, Default)]
pub(super) struct TierPolicy {
    pub(super) rules: Vec<TierRule>,
    pub(super) reasons: Vec<String>,
}

impl TierPolicy {
    fn add(&mut self, after: u32, tier: Tier, reason: String) {
        // The later of two rules for an age counts.
        self.rules.retain(|rule| rule.after < after);
        if self.rules.last().is_none_or(|rule| rule.tier != tier) {
            self.rules.push(TierRule { after, tier });
        }
        self.reasons.push(reason);
    }
}

/// The figures of a table's tiers.
struct TierFigures<'a> {
    snapshot: &'a TableSnapshot,
    mapped: &'a TierAdvice,
    fast: &'a TierAdvice,
    small: &'a TierAdvice,
    dense: &'a TierAdvice,
}

/// The rules for a goal, by what the whole table takes in each tier.
pub(super) fn advise(settings: &AdviseSettings, snapshot: &TableSnapshot, tiers: &[TierAdvice]) -> TierPolicy {
    let mut policy = TierPolicy::default();
    let [mapped, fast, small, dense] = tiers else { return policy };
    if snapshot.rows() == 0 || mapped.bytes == 0 {
        policy.reasons.push("it has no rows in files, so that nothing can be measured".to_owned());
        return policy;
    }
    let figures = TierFigures { snapshot, mapped, fast, small, dense };
    match settings.goal {
        Goal::Size => figures.size(&mut policy),
        Goal::Speed => figures.speed(settings.memory_bytes, &mut policy),
        Goal::Balanced => figures.balanced(settings.memory_bytes, &mut policy),
    }
    let objects: Vec<TierRule> =
        snapshot.spec().tiers.iter().copied().filter(|rule| rule.tier == Tier::Object).collect();
    if let Some(rule) = objects.first() {
        let days = rule.after;
        policy.reasons.push(format!("dates of {days} days and more go to the object store, as the table's rule says"));
    }
    policy.rules = with_objects(policy.rules, &objects);
    policy
}

/// Rules with those that move dates to the object store, which end the others.
pub(super) fn with_objects(mut rules: Vec<TierRule>, objects: &[TierRule]) -> Vec<TierRule> {
    if let Some(first) = objects.iter().map(|rule| rule.after).min() {
        rules.retain(|rule| rule.after < first);
        rules.push(TierRule { after: first, tier: Tier::Object });
    }
    rules
}

/// Bytes of the table once each date is in the tier of its age.
pub(super) fn bytes(snapshot: &TableSnapshot, rules: &[TierRule], tiers: &[TierAdvice]) -> u64 {
    let spec = TableSpec { tiers: rules.to_vec(), ..snapshot.spec().clone() };
    let newest = newest(snapshot);
    let rows = snapshot.rows().max(1) as f64;
    let of_tier = |tier: Tier| tiers.iter().find(|advice| advice.tier == tier.written()).map_or(0, |tier| tier.bytes);
    let of_partition = |partition: &crate::database::Partition| {
        let tier = spec.tier_of(partition.date, newest).unwrap_or(Tier::Mapped);
        partition.rows() as f64 / rows * of_tier(tier) as f64
    };
    super::whole(snapshot.partitions().iter().map(of_partition).sum())
}

fn newest(snapshot: &TableSnapshot) -> i32 {
    newest_date(snapshot.spec(), snapshot.entries())
}

impl TierFigures<'_> {
    fn size(&self, policy: &mut TierPolicy) {
        let mut all = vec![self.mapped, self.fast, self.small];
        // Other engines don't read it.
        if self.snapshot.spec().publish.is_none() {
            all.push(self.dense);
        }
        let least = all.iter().map(|tier| tier.bytes).min().unwrap_or_default();
        // The fastest of those that are as small.
        let chosen = all.into_iter().find(|tier| tier.bytes as f64 <= least as f64 * AS_SMALL).unwrap_or(self.small);
        let mut reason = self.share_of_mapped(chosen);
        if chosen.tier == Tier::Mapped {
            reason = "mapped: the other tiers take no less".to_owned();
        } else if let (Some(time), Some(mapped)) = (chosen.read_seconds, self.mapped.read_seconds) {
            reason += &format!("; all values are read in {} where mapped takes {}", seconds(time), seconds(mapped));
        }
        policy.add(0, chosen.tier, reason);
    }

    fn speed(&self, memory: Option<u64>, policy: &mut TierPolicy) {
        let room = memory.map(|memory| memory / 2);
        let beyond = room.and_then(|room| self.age_beyond(room));
        if beyond != Some(0) {
            policy.add(0, Tier::Mapped, "mapped: values are read where they stand, without decoding".to_owned());
        }
        let (Some(age), Some(room)) = (beyond, room) else { return };
        if self.share(self.fast) <= MAPPED_SHARE_MAX {
            let why = format!(
                "fast from {age} days on: mapped dates up to there fill half of the memory ({}), older ones come from disk, where fast reads {} % \
                 of the bytes",
                gigabytes(room),
                percent(self.share(self.fast))
            );
            policy.add(age, Tier::Fast, why);
        } else {
            policy.add(0, Tier::Mapped, "mapped for what doesn't fit in memory too: fast takes hardly less".to_owned());
        }
    }

    fn balanced(&self, memory: Option<u64>, policy: &mut TierPolicy) {
        let beyond = memory.and_then(|memory| self.age_beyond(memory / 4));
        let from = beyond.unwrap_or(NEW_DAYS).min(NEW_DAYS);
        if from > 0 {
            let why = "mapped for new dates: loads are fastest, and what is read most isn't decoded".to_owned();
            policy.add(0, Tier::Mapped, why);
        }
        let (fast_pays, small_pays) = (self.share(self.fast) <= MAPPED_SHARE_MAX, self.small_saves() <= FAST_SHARE_MAX);
        let small_is_quick = match (self.fast.read_seconds, self.small.read_seconds) {
            (Some(fast), Some(small)) => small <= fast * AS_QUICK,
            _ => false,
        };
        if small_pays && small_is_quick && self.share(self.small) <= MAPPED_SHARE_MAX {
            let why = self.share_of_mapped(self.small) + ", and is read as quickly as fast: that is left out";
            policy.add(from, Tier::Small, why);
        } else if fast_pays {
            policy.add(from, Tier::Fast, self.share_of_mapped(self.fast) + &self.slower(self.fast, self.mapped));
            if small_pays {
                let share = percent(self.small_saves());
                let why = format!("small takes {share} % of fast{}", self.slower(self.small, self.fast));
                policy.add(WARM_DAYS, Tier::Small, why);
            } else {
                policy.reasons.push(format!("small saves nothing worth it: {} % of fast", percent(self.small_saves())));
            }
        } else if self.share(self.small) <= MAPPED_SHARE_MAX {
            let why = self.share_of_mapped(self.small) + ", and fast saves little";
            policy.add(if beyond == Some(0) { 0 } else { WARM_DAYS }, Tier::Small, why);
        } else {
            policy.add(0, Tier::Mapped, "the other tiers save less than a fifth: all stays mapped".to_owned());
        }
        if self.is_ageless() {
            // All rows are in one partition, which is always the newest.
            policy.rules.retain(|rule| rule.after == 0);
            policy
                .reasons
                .push("all rows are in one partition, which has no age: only the first rule counts".to_owned());
        }
    }

    fn share(&self, tier: &TierAdvice) -> f64 {
        tier.bytes as f64 / self.mapped.bytes as f64
    }

    fn small_saves(&self) -> f64 {
        self.small.bytes as f64 / self.fast.bytes.max(1) as f64
    }

    /// "small takes 9 % of mapped".
    fn share_of_mapped(&self, tier: &TierAdvice) -> String {
        format!("{} takes {} % of mapped", tier.tier.name(), percent(self.share(tier)))
    }

    /// How much longer a tier is read than another, as the end of a sentence.
    fn slower(&self, tier: &TierAdvice, than: &TierAdvice) -> String {
        match (tier.read_seconds, than.read_seconds) {
            (Some(slow), Some(quick)) if quick > 0.0 && slow > 0.0 => {
                format!(", and its values take {:.1} times as long to read", slow / quick)
            }
            _ => String::new(),
        }
    }

    /// The least age of the dates that don't fit in so many bytes, newer ones first, if all are mapped; `None` if all fit.
    fn age_beyond(&self, room: u64) -> Option<u32> {
        let (spec, newest) = (self.snapshot.spec(), newest(self.snapshot));
        let of_row = self.mapped.bytes as f64 / self.snapshot.rows().max(1) as f64;
        let mut bytes = 0.0;
        for partition in self.snapshot.partitions().iter().rev() {
            bytes += partition.rows() as f64 * of_row;
            if bytes > room as f64 {
                return Some(newest.saturating_sub(spec.partition.last(partition.date)).max(0).unsigned_abs());
            }
        }
        None
    }

    fn is_ageless(&self) -> bool {
        let spec = self.snapshot.spec();
        spec.reference.is_some() || spec.partition == Period::All
    }
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.3} s", seconds) } else { format!("{seconds:.1} s") }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}
