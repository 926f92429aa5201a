//! Changes of users and roles, each atomic.

use std::collections::BTreeMap;

use super::rights::closure;
use super::{
    Access, AccessToken, Grant, MONITOR, PUBLIC, Password, Policy, Quota, READ_ALL, Role, Secret, WRITE_ALL, is_same,
};
use crate::error::{Error, Result};
use crate::schema::validate_name;

/// Changes of a role; fields that are `None` leave the role as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleChange {
    /// Whether it may log in.
    pub login: Option<bool>,
    /// Whether it may do everything.
    pub superuser: Option<bool>,
    /// Whether row policies don't apply to it.
    pub bypasses_policies: Option<bool>,
    /// When the role expires. `Some(None)` removes the expiry.
    pub valid_until: Option<Option<i64>>,
    /// The role's password. `Some(None)` removes the password.
    pub password: Option<Option<Password>>,
    /// The role's quotas. `None` as a value removes the quota.
    pub quotas: BTreeMap<Quota, Option<u64>>,
}

fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Refused { reason: reason.into() })
}

pub(super) fn is_built_in(name: &str) -> bool {
    [PUBLIC, READ_ALL, WRITE_ALL, MONITOR].iter().any(|built_in| is_same(built_in, name))
}

/// Whether no role may be made of this name.
pub(super) fn is_reserved(name: &str) -> bool {
    name.len() >= 3 && name.is_char_boundary(3) && is_same(&name[..3], "pg_") || is_same(name, PUBLIC)
}

impl RoleChange {
    /// Refuses quotas that a file may not have.
    fn check(&self) -> Result<()> {
        let unsound = |(quota, value): &(&Quota, &Option<u64>)| value.is_some_and(|value| !quota.is_sound(value));
        match self.quotas.iter().find(unsound) {
            None => Ok(()),
            Some((quota, _)) => refuse(format!("quota {} is too small", quota.as_str())),
        }
    }

    fn apply(self, role: &mut Role) {
        let set = |to: &mut bool, from: Option<bool>| *to = from.unwrap_or(*to);
        set(&mut role.login, self.login);
        set(&mut role.superuser, self.superuser);
        set(&mut role.bypasses_policies, self.bypasses_policies);
        if let Some(valid_until) = self.valid_until {
            role.valid_until = valid_until;
        }
        if let Some(password) = self.password {
            role.password = password;
        }
        for (quota, value) in self.quotas {
            match value {
                Some(value) => role.quotas.insert(quota, value),
                None => role.quotas.remove(&quota),
            };
        }
    }
}

impl Access {
    /// Puts all lists in their order.
    pub(crate) fn sort(&mut self) {
        self.roles.sort_by(|a, b| a.name.cmp(&b.name));
        self.tokens.sort_by(|a, b| a.name.cmp(&b.name));
        self.grants.sort();
        self.policies.sort_by(|a, b| (&a.table, &a.name).cmp(&(&b.table, &b.name)));
    }

    fn role_mut(&mut self, name: &str) -> Result<&mut Role> {
        let missing = || Error::Refused { reason: format!("role \"{name}\" does not exist") };
        self.roles.iter_mut().find(|role| is_same(&role.name, name)).ok_or_else(missing)
    }

    /// A role that may be granted something, one that is built in among them.
    fn check_role(&self, name: &str) -> Result<()> {
        match is_built_in(name) || self.role(name).is_some() {
            true => Ok(()),
            false => refuse(format!("role \"{name}\" does not exist")),
        }
    }

    /// Makes sure that a superuser remains who can log in, from somewhere and without expiry: without one nobody could manage users. A database
    /// that has users keeps at least one, since a database without users is open to everybody.
    fn check_superuser(&self, had_users: bool) -> Result<()> {
        let manages = |role: &Role| role.login && role.superuser && role.valid_until.is_none();
        match (had_users || self.has_users()) && !self.roles.iter().any(manages) {
            true => refuse(
                "at least one user has to be a superuser who can log in and has no VALID UNTIL: make the first user with SUPERUSER, and keep the last one",
            ),
            false => Ok(()),
        }
    }

    /// Adds a role.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Refused`] for a name that is taken, for a quota that is too small, and for a first user that isn't a superuser.
    pub fn create_role(&mut self, name: &str, change: RoleChange) -> Result<()> {
        validate_name("role", name)?;
        if is_reserved(name) {
            return refuse(format!("role name \"{name}\" is reserved"));
        }
        if self.role(name).is_some() {
            return refuse(format!("role \"{name}\" already exists"));
        }
        let had_users = self.has_users();
        let mut role = Role::new(name);
        change.check()?;
        change.apply(&mut role);
        self.roles.push(role);
        self.check_superuser(had_users)
    }

    /// Changes a role.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none, for a quota that is too small, or if no superuser would be left.
    pub fn alter_role(&mut self, name: &str, change: RoleChange) -> Result<()> {
        let had_users = self.has_users();
        change.check()?;
        change.apply(self.role_mut(name)?);
        self.check_superuser(had_users)
    }

    /// Removes a role with its tokens and grants. Whether there was one.
    ///
    /// # Errors
    /// [`Error::Refused`] if a policy names it, or no superuser would be left.
    pub fn drop_role(&mut self, name: &str) -> Result<bool> {
        if let Some(policy) = self.policies.iter().find(|policy| policy.roles.iter().any(|role| is_same(role, name))) {
            return refuse(format!(
                "role \"{name}\" cannot be dropped because some objects depend on it: policy {} of table {}",
                policy.name, policy.table
            ));
        }
        let (before, had_users) = (self.roles.len(), self.has_users());
        self.roles.retain(|role| !is_same(&role.name, name));
        self.roles.iter_mut().for_each(|role| role.member_of.retain(|of| !is_same(of, name)));
        self.tokens.retain(|token| !is_same(&token.user, name));
        self.grants.retain(|grant| !is_same(&grant.role, name));
        self.check_superuser(had_users)?;
        Ok(self.roles.len() < before)
    }

    /// Gives a role to another.
    ///
    /// # Errors
    /// [`Error::Refused`] if one of them isn't there, or the first has the second.
    pub fn grant_role(&mut self, role: &str, to: &str) -> Result<()> {
        self.check_role(role)?;
        if is_same(role, PUBLIC) {
            return refuse("everybody has the role public");
        }
        if closure(self, role).contains(&to.to_lowercase()) {
            return refuse(format!("role \"{to}\" is a member of role \"{role}\""));
        }
        let to = self.role_mut(to)?;
        if !to.member_of.iter().any(|of| is_same(of, role)) {
            to.member_of.push(role.to_owned());
        }
        Ok(())
    }

    /// Takes a role from another.
    ///
    /// # Errors
    /// [`Error::Refused`] if one of them isn't there.
    pub fn revoke_role(&mut self, role: &str, from: &str) -> Result<()> {
        self.check_role(role)?;
        self.role_mut(from)?.member_of.retain(|of| !is_same(of, role));
        Ok(())
    }

    /// Adds a right.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such role.
    pub fn grant(&mut self, grant: Grant) -> Result<()> {
        self.check_role(&grant.role)?;
        match self.grants.iter_mut().find(|other| other.is_beside(&grant)) {
            Some(other) => {
                let is_new = |column: &&String| !other.columns.iter().any(|other_column| is_same(other_column, column));
                let new: Vec<String> = grant.columns.iter().filter(is_new).cloned().collect();
                other.columns.extend(new);
            }
            None => self.grants.push(grant),
        }
        Ok(())
    }

    /// Takes a right: of a whole table that of its columns as well, as in PostgreSQL.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such role.
    pub fn revoke(&mut self, grant: &Grant) -> Result<()> {
        self.check_role(&grant.role)?;
        if grant.columns.is_empty() {
            self.grants.retain(|other| !other.is_of_same(grant));
            return Ok(());
        }
        let revoked = |column: &String| grant.columns.iter().any(|revoked| is_same(revoked, column));
        self.grants.retain_mut(|other| {
            if !other.is_beside(grant) {
                return true;
            }
            other.columns.retain(|column| !revoked(column));
            // A grant without columns would apply to the whole table.
            !other.columns.is_empty()
        });
        Ok(())
    }

    /// Adds a policy.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Refused`] for a name that the table has a policy of, and roles that aren't there.
    pub fn create_policy(&mut self, policy: Policy) -> Result<()> {
        validate_name("policy", &policy.name)?;
        policy.roles.iter().try_for_each(|role| self.check_role(role))?;
        if self.policy_at(&policy.name, &policy.table).is_some() {
            return refuse(format!("policy \"{}\" for table \"{}\" already exists", policy.name, policy.table));
        }
        self.policies.push(policy);
        Ok(())
    }

    /// Removes a policy. Whether there was one.
    pub fn drop_policy(&mut self, name: &str, table: &str) -> bool {
        self.policy_at(name, table).map(|place| self.policies.remove(place)).is_some()
    }

    fn policy_at(&self, name: &str, table: &str) -> Option<usize> {
        self.policies.iter().position(|other| is_same(&other.name, name) && is_same(&other.table, table))
    }

    /// Adds a token of a user, and gives it.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Refused`] for a name that is taken, and if there is no such user.
    pub fn create_token(&mut self, name: &str, user: &str, expires: Option<i64>) -> Result<Secret> {
        validate_name("token", name)?;
        let Some(role) = self.role(user).filter(|role| role.login) else {
            return refuse(format!("user \"{user}\" does not exist"));
        };
        let user = role.name.clone();
        if self.tokens.iter().any(|token| is_same(&token.name, name)) {
            return refuse(format!("token \"{name}\" already exists"));
        }
        let secret = Secret::generate()?;
        self.tokens.push(AccessToken { name: name.to_owned(), user, blake3: secret.blake3.clone(), expires });
        Ok(secret)
    }

    /// Replaces a token by a new one, and returns the new one. With `expires` it also expires at another time.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none.
    pub fn rotate_token(&mut self, name: &str, expires: Option<i64>) -> Result<Secret> {
        let Some(token) = self.tokens.iter_mut().find(|token| is_same(&token.name, name)) else {
            return refuse(format!("token \"{name}\" does not exist"));
        };
        let secret = Secret::generate()?;
        secret.blake3.clone_into(&mut token.blake3);
        token.expires = expires.or(token.expires);
        Ok(secret)
    }

    /// Removes a token. Whether there was one.
    pub fn drop_token(&mut self, name: &str) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|token| !is_same(&token.name, name));
        self.tokens.len() < before
    }
}
