//! Users and roles: their names, secrets and rights. Stored in `access.json` in the database's folder.
//!
//! - The file is replaced as a whole, under a lock of its own: after a crash it has the old or the new content, and
//!   revoking a right doesn't wait for a change of tables.
//! - Roles have quotas (`quota.rs`), which a server enforces.
//! - If the file doesn't match its digest, every question about it fails with the damage, so nobody gets in.
//! - Passwords are stored as Argon2id hashes, or as verifiers that clients computed (`scram.rs`), tokens as BLAKE3 digests. No message contains a
//!   secret.
//! - Grants and policies refer to names, so a table that one of them names can't be renamed.
//!
//! Bytes: docs/format/access.md.

mod edit;
mod file;
mod grant;
mod quota;
mod rights;
mod scram;
mod secret;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::edit::RoleChange;
pub(crate) use self::file::{bytes, parse};
pub use self::grant::{Grant, Privilege};
pub use self::quota::{Quota, RoleLimit};
pub use self::rights::{Permission, Rights, RowCondition};
pub use self::scram::{SCRAM_SHA_256, ScramVerifier};
pub use self::secret::{Password, Secret};

/// The role that everybody has.
pub const PUBLIC: &str = "public";

/// Built-in roles: the right to read everything, to write everything, and to see the state of the server.
pub const READ_ALL: &str = "pg_read_all_data";
/// See [`READ_ALL`].
pub const WRITE_ALL: &str = "pg_write_all_data";
/// See [`READ_ALL`].
pub const MONITOR: &str = "pg_monitor";

/// A role; one that may log in is a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Its name. Names match without regard to case.
    pub name: String,
    /// Whether it may log in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub login: bool,
    /// Whether it may do everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superuser: bool,
    /// Whether row policies don't apply to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bypasses_policies: bool,
    /// When the role expires, in nanoseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<i64>,
    /// The hash of the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
    /// The roles that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub member_of: Vec<String>,
    /// Quotas of the users that have the role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quotas: BTreeMap<Quota, u64>,
}

/// A token of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessToken {
    /// Its name.
    pub name: String,
    /// The user that the token belongs to.
    pub user: String,
    /// BLAKE3 of the token, in hex.
    pub blake3: String,
    /// When the token expires, in nanoseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
}

/// The rows of a table that roles see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Its name, one of the table's.
    pub name: String,
    /// The table.
    pub table: String,
    /// Whether rows must pass this policy in addition to one that isn't restrictive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restrictive: bool,
    /// The roles that the policy applies to.
    pub roles: Vec<String>,
    /// The condition for the rows that the roles see.
    pub condition: String,
}

/// The users, roles, grants and policies of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// By name.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// By name.
    #[serde(default)]
    pub tokens: Vec<AccessToken>,
    /// By role and table.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// By table and name.
    #[serde(default)]
    pub policies: Vec<Policy>,
}

/// The bytes of the file as they were last read, and what is in them.
pub(crate) type ReadAccess = (Vec<u8>, Arc<Access>);

/// Whether two names are the same.
fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Whether a condition has a word, in quotes and comments, too.
fn has_word(condition: &str, word: &str) -> bool {
    condition.split(|c: char| !c.is_alphanumeric() && c != '_').any(|other| is_same(other, word))
}

/// The words of a policy's condition that are replaced by the user's name.
pub const USER_WORDS: [&str; 3] = ["current_user", "session_user", "current_role"];

impl Access {
    /// Whether there is a user, which is a role that may log in.
    #[must_use]
    pub fn has_users(&self) -> bool {
        self.roles.iter().any(|role| role.login)
    }

    /// A role by its name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|role| is_same(&role.name, name))
    }

    /// The roles that a role has, all of them in small letters, its own and `public` among them.
    #[must_use]
    pub fn roles_of(&self, name: &str) -> std::collections::BTreeSet<String> {
        rights::closure(self, name)
    }

    /// Whether a grant or a policy names a column of a table; of policies those whose conditions have a word of its name.
    #[must_use]
    pub fn names_column(&self, table: &str, column: &str) -> bool {
        let granted = self.grants.iter().any(|grant| {
            grant.table.as_deref().is_some_and(|name| is_same(name, table))
                && grant.columns.iter().any(|name| is_same(name, column))
        });
        granted
            || self.policies.iter().any(|policy| is_same(&policy.table, table) && has_word(&policy.condition, column))
    }

    /// Whether a grant or a policy names a table or a view.
    #[must_use]
    pub fn names(&self, table: &str) -> bool {
        let granted = self.grants.iter().any(|grant| grant.table.as_deref().is_some_and(|name| is_same(name, table)));
        granted || self.policies.iter().any(|policy| is_same(&policy.table, table))
    }

    /// The user whose token this is, at a time. All digests are compared, each in constant time.
    #[must_use]
    pub fn user_of_token(&self, token: &str, now: i64) -> Option<(&Role, &AccessToken)> {
        let digest = blake3::hash(token.as_bytes());
        let is_it = |stored: &AccessToken| blake3::Hash::from_hex(&stored.blake3).is_ok_and(|stored| stored == digest);
        let token_entry = self
            .tokens
            .iter()
            .fold(None, |token_entry, stored| if is_it(stored) { Some(stored) } else { token_entry })?;
        let role = self.role(&token_entry.user)?;
        (token_entry.expires.is_none_or(|at| now < at) && role.may_log_in(now)).then_some((role, token_entry))
    }

    /// The user with this name and password, at a time. Takes as long for a name that doesn't exist as for one with an Argon2id hash.
    #[must_use]
    pub fn user_of_password(&self, name: &str, password: &str, now: i64) -> Option<&Role> {
        let role = self.role(name).filter(|role| role.may_log_in(now));
        let stored = role.and_then(|role| role.password.as_ref());
        let is_right = stored.unwrap_or(Password::nobodys()).is(password);
        role.filter(|_| is_right && stored.is_some())
    }
}

impl Access {
    /// The verifier with which to ask a client for the password of this user: his, or one that nobody knows a password for if no user of this name
    /// has a password and all others have verifiers, so that a client doesn't learn who there is. `None` asks for the password itself.
    #[must_use]
    pub fn verifier_of(&self, name: &str, now: i64, key: &[u8]) -> Option<ScramVerifier> {
        let role = self.role(name).filter(|role| role.may_log_in(now));
        if let Some(password) = role.and_then(|role| role.password.as_ref()) {
            return password.verifier().cloned();
        }
        let mut passwords = self.roles.iter().filter_map(|role| role.password.as_ref()).peekable();
        let is_usual = passwords.peek().is_some() && passwords.all(|password| password.verifier().is_some());
        // A token may stand for the password, and a client that proves a password doesn't send it.
        (is_usual && self.tokens.is_empty()).then(|| ScramVerifier::nobodys(name, key))
    }
}

/// Most bytes of the name of a guest, who isn't among the roles.
const GUEST_BYTES_MAX: usize = 256;

impl Access {
    /// The same list with somebody who isn't in it and has some of its roles, for as long as another authority vouches for him. Roles that aren't
    /// there are left out. He makes no tables: they would be granted to a name that nobody has.
    ///
    /// None if the list has a role of his name, if the name is one that no role may have, or if none of the roles is there.
    #[must_use]
    pub fn with_guest(&self, name: &str, roles: &[String]) -> Option<Access> {
        let is_usable = !name.is_empty() && name.len() <= GUEST_BYTES_MAX && !name.chars().any(char::is_control);
        if !is_usable || edit::is_reserved(name) || self.role(name).is_some() {
            return None;
        }
        let member_of: Vec<String> =
            roles.iter().filter(|role| self.role(role).is_some() || edit::is_built_in(role)).cloned().collect();
        if member_of.is_empty() {
            return None;
        }
        let mut access = self.clone();
        access.grants.retain(|grant| grant.privilege != Privilege::Create);
        access.roles.push(Role { member_of, ..Role::new(name) });
        Some(access)
    }
}

impl Role {
    /// A role of a name that may nothing.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Role {
        Role {
            name: name.into(),
            login: false,
            superuser: false,
            bypasses_policies: false,
            valid_until: None,
            password: None,
            member_of: Vec::new(),
            quotas: BTreeMap::new(),
        }
    }

    /// Whether it may log in at a time.
    #[must_use]
    pub fn may_log_in(&self, now: i64) -> bool {
        self.login && self.valid_until.is_none_or(|until| now < until)
    }
}
