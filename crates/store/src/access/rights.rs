//! The effective rights of a user: those of all its roles, and the policies that apply to them.

use std::collections::BTreeSet;

use serde::Serialize;

use super::grant::{Grant, Privilege};
use super::{Access, MONITOR, PUBLIC, Policy, READ_ALL, USER_WORDS, WRITE_ALL, has_word, is_same};

/// The rights of a user. Two users with equal values have equal rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rights {
    is_superuser: bool,
    bypasses_policies: bool,
    /// Its roles in small letters, its own and `public` among them.
    roles: BTreeSet<String>,
    /// The grants of all the user's roles, without the names of the roles.
    grants: BTreeSet<(Option<String>, Privilege, Vec<String>)>,
    /// All policies. A table with policies shows no rows to users that none of them names.
    policies: Vec<Policy>,
    /// The user's name, if a policy asks for it.
    user: Option<String>,
}

/// The part of a table on which a user has a privilege.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Nothing.
    None,
    /// Some columns, in small letters.
    Columns(BTreeSet<String>),
    /// All columns.
    All,
}

/// The rows of a table that a user sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowCondition {
    /// All.
    All,
    /// The rows for which this condition is true.
    Where(String),
}

impl Permission {
    /// Whether it covers a column.
    #[must_use]
    pub fn covers(&self, column: &str) -> bool {
        match self {
            Permission::None => false,
            Permission::Columns(columns) => columns.contains(&column.to_lowercase()),
            Permission::All => true,
        }
    }
}

impl Rights {
    /// The rights of a user; `None` if there is no such user.
    #[must_use]
    pub fn of(access: &Access, user: &str) -> Option<Rights> {
        let role = access.role(user)?;
        let roles = closure(access, user);
        let is_of = |name: &str| roles.contains(&name.to_lowercase());
        let of_roles = access.grants.iter().filter(|grant| is_of(&grant.role));
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        let plain = |grant: &Grant| {
            (grant.table.as_ref().map(|table| table.to_lowercase()), grant.privilege, lower(&grant.columns))
        };
        // Attributes aren't inherited, as in PostgreSQL.
        let (is_superuser, bypasses_policies) = (role.superuser, role.bypasses_policies);
        let (grants, policies) = (of_roles.map(plain).collect(), access.policies.clone());
        // The user's own name says nothing but which grants and policies are its: those who may do the same share what they are planned in.
        let named = |role: &String| {
            [PUBLIC, READ_ALL, WRITE_ALL, MONITOR].contains(&role.as_str())
                || access.policies.iter().any(|policy| policy.roles.iter().any(|of| is_same(of, role)))
        };
        let roles = roles.into_iter().filter(named).collect();
        let asks = |policy: &Policy| USER_WORDS.iter().any(|word| has_word(&policy.condition, word));
        let user = policies.iter().any(asks).then(|| role.name.clone());
        Some(Rights { is_superuser, bypasses_policies, roles, grants, policies, user })
    }

    /// Whether the user may do everything, and change users and rights.
    #[must_use]
    pub fn is_superuser(&self) -> bool {
        self.is_superuser
    }

    /// On which part of a table the user has a privilege.
    #[must_use]
    pub fn permission(&self, privilege: Privilege, table: &str) -> Permission {
        if self.is_superuser || self.has_all(privilege) {
            return Permission::All;
        }
        let table = table.to_lowercase();
        let mut columns = BTreeSet::new();
        for (of, granted, names) in &self.grants {
            if *granted == privilege && of.as_deref() == Some(&table) {
                if names.is_empty() {
                    return Permission::All;
                }
                columns.extend(names.iter().cloned());
            }
        }
        if columns.is_empty() { Permission::None } else { Permission::Columns(columns) }
    }

    fn has_all(&self, privilege: Privilege) -> bool {
        match privilege {
            Privilege::Select => self.roles.contains(READ_ALL),
            Privilege::Insert | Privilege::Update | Privilege::Delete => self.roles.contains(WRITE_ALL),
            Privilege::Truncate | Privilege::Maintain | Privilege::Create => false,
        }
    }

    /// Whether the user has a privilege on the whole of a table.
    #[must_use]
    pub fn may(&self, privilege: Privilege, table: &str) -> bool {
        self.permission(privilege, table) == Permission::All
    }

    /// Whether the user has any privilege on a table, so that lists show it.
    #[must_use]
    pub fn sees(&self, table: &str) -> bool {
        Privilege::OF_TABLES.iter().any(|privilege| self.permission(*privilege, table) != Permission::None)
    }

    /// Whether it reads all tables and views with all their rows.
    #[must_use]
    pub fn reads_everything(&self) -> bool {
        let has_all_rows = self.bypasses_policies || self.policies.is_empty();
        self.is_superuser || self.has_all(Privilege::Select) && has_all_rows
    }

    /// Whether the user has a privilege on some table.
    #[must_use]
    pub fn may_somewhere(&self, privilege: Privilege) -> bool {
        let is_granted = || self.grants.iter().any(|(of, granted, _)| of.is_some() && *granted == privilege);
        self.is_superuser || self.has_all(privilege) || is_granted()
    }

    /// Whether it may make tables and views.
    #[must_use]
    pub fn may_create(&self) -> bool {
        self.is_superuser || self.grants.contains(&(None, Privilege::Create, Vec::new()))
    }

    /// Whether the user may see the server's status.
    #[must_use]
    pub fn may_monitor(&self) -> bool {
        self.is_superuser || self.roles.contains(MONITOR)
    }

    /// The rows of a table that the user sees: those that any permissive policy admits, if every restrictive one does, too. A table with policies
    /// shows no rows to users whom no policy names.
    #[must_use]
    pub fn rows(&self, table: &str) -> RowCondition {
        let mut of_table = self.policies.iter().filter(|policy| is_same(&policy.table, table)).peekable();
        if self.is_superuser || self.bypasses_policies || of_table.peek().is_none() {
            return RowCondition::All;
        }
        let applies = |policy: &&Policy| policy.roles.iter().any(|role| self.roles.contains(&role.to_lowercase()));
        let (restrictive, permissive): (Vec<&Policy>, Vec<&Policy>) =
            of_table.filter(applies).partition(|policy| policy.restrictive);
        if permissive.is_empty() {
            return RowCondition::Where("false".to_owned());
        }
        // Each condition is put on a line of its own, because it may end with a comment.
        let in_brackets = |policies: Vec<&Policy>, word: &str| {
            policies.iter().map(|policy| format!("({}\n)", policy.condition)).collect::<Vec<_>>().join(word)
        };
        let any = format!("({})", in_brackets(permissive, " OR "));
        RowCondition::Where(match restrictive.is_empty() {
            true => any,
            false => format!("{any} AND {}", in_brackets(restrictive, " AND ")),
        })
    }

    /// The user's name, which replaces [`USER_WORDS`] in conditions; none if no policy uses it.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether policies hide rows of a table from it.
    #[must_use]
    pub fn has_row_condition(&self, table: &str) -> bool {
        self.rows(table) != RowCondition::All
    }

    /// A digest of the rights, equal for users with equal rights.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        // Plain data to memory: can't fail.
        *blake3::hash(&serde_json::to_vec(self).unwrap_or_default()).as_bytes()
    }
}

/// A role and all that it has, in small letters, with `public`.
pub(super) fn closure(access: &Access, name: &str) -> BTreeSet<String> {
    let mut roles = BTreeSet::from([PUBLIC.to_owned()]);
    let mut waiting = vec![name.to_lowercase()];
    while let Some(name) = waiting.pop() {
        if let Some(role) = access.role(&name).filter(|_| !roles.contains(&name)) {
            waiting.extend(role.member_of.iter().map(|of| of.to_lowercase()));
        }
        roles.insert(name);
    }
    roles
}
