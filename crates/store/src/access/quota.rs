//! Quotas: how much of a server the users of a role may take.
//!
//! - A quota has the name of the server's limit that it narrows; the server enforces the lower of both. `statement_priority` narrows none.
//! - A user has the quotas of its own role and of all roles that it is a member of. The widest of several holds: a
//!   granted role takes nothing away. A role without a quota doesn't count.
//! - Superusers have none, so that whoever sets quotas can always get in to change them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Access;
use super::rights::closure;
use crate::byte_size::ByteSize;

/// A resource that can be bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// Bytes that a statement's sorts, joins and groups may hold.
    StatementBytesMax,
    /// Seconds from a statement's arrival to its last row sent.
    StatementSecondsMax,
    /// Rows of an answer.
    StatementRowsMax,
    /// Statements of a user at a time.
    StatementsMax,
    /// Subscriptions of a user at a time.
    SubscriptionsMax,
    /// Rows that a user sends a second.
    RowsPerSecondMax,
    /// How urgent a statement is among those that wait for a slot: 1 low, 2 normal, 3 high.
    StatementPriority,
}

/// Priorities of statements by their value, from 1 on.
const PRIORITIES: [&str; 3] = ["low", "normal", "high"];

/// The least memory that a statement may be held to: with less none runs.
const STATEMENT_BYTES_MIN: u64 = 1 << 20;

impl Quota {
    /// All of them.
    pub const ALL: [Quota; 7] = [
        Quota::StatementBytesMax,
        Quota::StatementSecondsMax,
        Quota::StatementRowsMax,
        Quota::StatementsMax,
        Quota::SubscriptionsMax,
        Quota::RowsPerSecondMax,
        Quota::StatementPriority,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Quota::StatementBytesMax => "statement_bytes_max",
            Quota::StatementSecondsMax => "statement_seconds_max",
            Quota::StatementRowsMax => "statement_rows_max",
            Quota::StatementsMax => "statements_max",
            Quota::SubscriptionsMax => "subscriptions_max",
            Quota::RowsPerSecondMax => "rows_per_second_max",
            Quota::StatementPriority => "statement_priority",
        }
    }

    /// The one of a name, in whichever case.
    #[must_use]
    pub fn of(name: &str) -> Option<Quota> {
        Quota::ALL.into_iter().find(|quota| quota.as_str().eq_ignore_ascii_case(name))
    }

    /// Its names with commas between them.
    #[must_use]
    pub fn names() -> String {
        Quota::ALL.map(Quota::as_str).join(", ")
    }

    /// The least value that the quota may have. To deny something altogether, the right isn't granted.
    fn least(self) -> u64 {
        if self == Quota::StatementBytesMax { STATEMENT_BYTES_MIN } else { 1 }
    }

    pub(super) fn is_sound(self, value: u64) -> bool {
        value >= self.least() && (self != Quota::StatementPriority || value <= PRIORITIES.len() as u64)
    }

    /// A value as it is written.
    #[must_use]
    pub fn text(self, value: u64) -> String {
        let name = usize::try_from(value).ok().and_then(|value| PRIORITIES.get(value.checked_sub(1)?));
        name.filter(|_| self == Quota::StatementPriority).map_or_else(|| value.to_string(), |name| (*name).to_owned())
    }

    /// The value that a text gives it: a size or a whole number.
    ///
    /// # Errors
    /// The values that the quota takes.
    pub fn value(self, text: &str) -> Result<u64, String> {
        let (value, takes) = match self {
            Quota::StatementBytesMax => (
                text.parse::<ByteSize>().ok().map(|size| size.0 as u64),
                "a size of 1M or more, such as '512M' or '2G'",
            ),
            Quota::StatementPriority => {
                let place = PRIORITIES.iter().position(|name| name.eq_ignore_ascii_case(text.trim()));
                (place.map(|place| place as u64 + 1), "'low', 'normal' or 'high'")
            }
            _ => (text.trim().parse::<u64>().ok(), "a whole number above 0"),
        };
        value.filter(|value| self.is_sound(*value)).ok_or_else(|| format!("{} is {takes}, not {text:?}", self.as_str()))
    }
}

/// The value of a quota, and the role that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleLimit {
    /// The value.
    pub value: u64,
    /// The role.
    pub role: String,
}

impl Access {
    /// The quotas of a user: the widest of those of its roles. None for a superuser.
    #[must_use]
    pub fn quotas_of(&self, user: &str) -> BTreeMap<Quota, RoleLimit> {
        let mut quotas: BTreeMap<Quota, RoleLimit> = BTreeMap::new();
        if self.role(user).is_none_or(|role| role.superuser) {
            return quotas;
        }
        for role in closure(self, user).iter().filter_map(|name| self.role(name)) {
            for (quota, value) in &role.quotas {
                let is_wider = quotas.get(quota).is_none_or(|widest| widest.value < *value);
                if is_wider {
                    quotas.insert(*quota, RoleLimit { value: *value, role: role.name.clone() });
                }
            }
        }
        quotas
    }
}
