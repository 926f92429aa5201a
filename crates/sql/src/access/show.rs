//! `SHOW USERS`, `SHOW ROLES`, `SHOW GRANTS`, `SHOW POLICIES` and `SHOW TOKENS`. None of them shows a secret.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
use splay_store::{Access, Database, Role};

use crate::caller::Caller;
use crate::error::{Error, Result, denied};
use crate::token_reader::TokenReader;

/// The list that a `SHOW` statement asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShowStatement {
    Roles {
        only_users: bool,
    },
    /// Grants of a role and of the roles that it has; of all roles if `None`.
    Grants {
        of: Option<String>,
    },
    Policies,
    Tokens,
}

impl ShowStatement {
    /// The users, roles and rights: all of them for a caller who may change them, otherwise his own.
    pub(crate) fn rows(&self, database: &Database, caller: &Caller) -> Result<RecordBatch> {
        let access = database.access()?;
        if caller.guard.is_none() {
            return self.batch(&access, None);
        }
        if *self == ShowStatement::Policies {
            return Err(denied("to see policies: superusers may"));
        }
        let own = caller.user.as_deref().map(|user| access.roles_of(user)).unwrap_or_default();
        self.batch(&access, Some(&own))
    }

    /// Parses such a statement; `None` for any other.
    pub(crate) fn of(text: &str) -> Option<ShowStatement> {
        // Most statements end here, after their first word.
        let start = text.trim_start();
        let begins = |word: &str| start.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
        if !["show", "--", "/*"].into_iter().any(begins) {
            return None;
        }
        let tokens = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize().ok()?;
        let mut words = TokenReader::of(&tokens);
        let shown = if words.take(&["show", "users"]) {
            ShowStatement::Roles { only_users: true }
        } else if words.take(&["show", "roles"]) {
            ShowStatement::Roles { only_users: false }
        } else if words.take(&["show", "policies"]) {
            ShowStatement::Policies
        } else if words.take(&["show", "tokens"]) {
            ShowStatement::Tokens
        } else if words.take(&["show", "grants"]) {
            let is_of_one = words.take(&["for"]);
            ShowStatement::Grants { of: if is_of_one { Some(words.name("a role").ok()?) } else { None } }
        } else {
            return None;
        };
        words.is_at_end().then_some(shown)
    }

    /// The columns of the rows.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        Ok(self.batch(&Access::default(), None)?.schema())
    }

    /// The rows; if `own` is set, only those of these roles.
    fn batch(&self, access: &Access, own: Option<&BTreeSet<String>>) -> Result<RecordBatch> {
        let is_own = |role: &str| own.is_none_or(|own| own.contains(&role.to_lowercase()));
        let columns = match self {
            ShowStatement::Roles { only_users } => roles(access, *only_users, &is_own),
            ShowStatement::Grants { of } => grants(access, of.as_deref(), &is_own),
            ShowStatement::Policies => policies(access),
            ShowStatement::Tokens => tokens(access, &is_own),
        };
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)));
        batch.map_err(|error| Error::Internal { message: error.to_string() })
    }
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn instants(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<TimestampNanosecondArray>().with_timezone("UTC"))
}

fn truths(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

fn roles(access: &Access, only_users: bool, is_own: &dyn Fn(&str) -> bool) -> Columns {
    let shown: Vec<_> = access.roles.iter().filter(|role| (role.login || !only_users) && is_own(&role.name)).collect();
    vec![
        ("name", texts(shown.iter().map(|role| Some(role.name.clone())))),
        ("login", truths(shown.iter().map(|role| role.login))),
        ("superuser", truths(shown.iter().map(|role| role.superuser))),
        ("bypassrls", truths(shown.iter().map(|role| role.bypasses_policies))),
        ("has_password", truths(shown.iter().map(|role| role.password.is_some()))),
        ("valid_until", instants(shown.iter().map(|role| role.valid_until))),
        ("roles", texts(shown.iter().map(|role| Some(role.member_of.join(", "))))),
        ("quotas", texts(shown.iter().map(|role| quotas(role)))),
    ]
}

/// Its quotas as `SET (…)` takes them.
fn quotas(role: &Role) -> Option<String> {
    let each = role.quotas.iter().map(|(quota, value)| format!("{} = {}", quota.as_str(), quota.text(*value)));
    (!role.quotas.is_empty()).then(|| each.collect::<Vec<_>>().join(", "))
}

fn grants(access: &Access, of: Option<&str>, is_own: &dyn Fn(&str) -> bool) -> Columns {
    let of = of.map(|role| access.roles_of(role));
    let is_asked = |role: &str| of.as_ref().is_none_or(|of| of.contains(&role.to_lowercase()));
    let shown: Vec<_> = access.grants.iter().filter(|grant| is_own(&grant.role) && is_asked(&grant.role)).collect();
    let columns = |columns: &[String]| (!columns.is_empty()).then(|| columns.join(", "));
    vec![
        ("role", texts(shown.iter().map(|grant| Some(grant.role.clone())))),
        ("table", texts(shown.iter().map(|grant| grant.table.clone()))),
        ("privilege", texts(shown.iter().map(|grant| Some(grant.privilege.as_str().to_owned())))),
        ("columns", texts(shown.iter().map(|grant| columns(&grant.columns)))),
    ]
}

fn policies(access: &Access) -> Columns {
    let kind = |restrictive: bool| if restrictive { "RESTRICTIVE" } else { "PERMISSIVE" };
    let shown = &access.policies;
    vec![
        ("table", texts(shown.iter().map(|policy| Some(policy.table.clone())))),
        ("policy", texts(shown.iter().map(|policy| Some(policy.name.clone())))),
        ("kind", texts(shown.iter().map(|policy| Some(kind(policy.restrictive).to_owned())))),
        ("roles", texts(shown.iter().map(|policy| Some(policy.roles.join(", "))))),
        ("condition", texts(shown.iter().map(|policy| Some(policy.condition.clone())))),
    ]
}

fn tokens(access: &Access, is_own: &dyn Fn(&str) -> bool) -> Columns {
    let shown: Vec<_> = access.tokens.iter().filter(|token| is_own(&token.user)).collect();
    vec![
        ("name", texts(shown.iter().map(|token| Some(token.name.clone())))),
        ("user", texts(shown.iter().map(|token| Some(token.user.clone())))),
        ("valid_until", instants(shown.iter().map(|token| token.expires))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_told_from_other_statements() {
        for (text, expected) in [
            ("SHOW USERS", Some(ShowStatement::Roles { only_users: true })),
            ("-- who\nshow roles;", Some(ShowStatement::Roles { only_users: false })),
            ("show grants for Ann", Some(ShowStatement::Grants { of: Some("Ann".to_owned()) })),
            ("show grants", Some(ShowStatement::Grants { of: None })),
            ("show policies", Some(ShowStatement::Policies)),
            ("show tokens", Some(ShowStatement::Tokens)),
            ("show tables", None),
            ("show users of", None),
            ("select 1", None),
        ] {
            assert_eq!(ShowStatement::of(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_is_shown_of_nobody() {
        for shown in [
            ShowStatement::Roles { only_users: true },
            ShowStatement::Grants { of: None },
            ShowStatement::Policies,
            ShowStatement::Tokens,
        ] {
            assert!(shown.schema().is_ok_and(|schema| schema.fields().len() >= 3), "{shown:?}");
        }
    }
}
