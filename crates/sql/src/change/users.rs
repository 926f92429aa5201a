//! Executes statements about users and roles.

use splay_engine::Stop;
use splay_store::{Access, Grant, Password, Policy, Privilege, RoleChange, Secret};

use crate::access::{AccessStatement, GrantClause, RoleOptions};
use crate::caller::Caller;
use crate::error::{Error, Result, denied, fault, of_store};
use crate::guard::check_condition;
use crate::lock_retry::patiently;
use crate::session::Session;
use crate::table_spec::positions;

/// A new token, for its user and shown once.
pub(crate) struct NewToken {
    pub(crate) name: String,
    pub(crate) secret: Secret,
}

impl Session {
    /// Changes users, roles and rights.
    ///
    /// # Errors
    /// [`splay_store::Error::Denied`] for callers who aren't superusers; [`Error::Execution`] for impossible changes.
    pub(crate) fn change_users(&self, statement: &AccessStatement, stop: Stop<'_>) -> Result<Option<NewToken>> {
        self.check_manages(statement)?;
        match statement {
            AccessStatement::CreateToken { name, user, expires } => {
                let secret = self.with_access(stop, |access| access.create_token(name, user, *expires))?;
                Ok(Some(NewToken { name: name.clone(), secret }))
            }
            AccessStatement::RotateToken { name, expires } => {
                let secret = self.with_access(stop, |access| access.rotate_token(name, *expires))?;
                Ok(Some(NewToken { name: name.clone(), secret }))
            }
            AccessStatement::CreateRole { name, options } => {
                let change = role_change(options)?;
                self.with_access(stop, |access| {
                    access.create_role(name, change.clone())?;
                    options.in_roles.iter().try_for_each(|role| access.grant_role(role, name))
                })?;
                Ok(None)
            }
            AccessStatement::AlterRole { name, options } => {
                let change = role_change(options)?;
                self.with_access(stop, |access| access.alter_role(name, change.clone()))?;
                Ok(None)
            }
            AccessStatement::Grant(clause) => {
                let grants = self.grants(clause, true)?;
                self.with_access(stop, |access| grants.iter().try_for_each(|grant| access.grant(grant.clone())))?;
                Ok(None)
            }
            AccessStatement::Revoke(clause) => {
                let grants = self.grants(clause, false)?;
                self.with_access(stop, |access| grants.iter().try_for_each(|grant| access.revoke(grant)))?;
                Ok(None)
            }
            AccessStatement::CreatePolicy(policy) => {
                self.check_policy(policy, stop)?;
                self.with_access(stop, |access| access.create_policy(policy.clone()))?;
                Ok(None)
            }
            other => self.with_access(stop, |access| drop_or_move(access, other)).map(|()| None),
        }
    }

    /// Only superusers change users and roles. Users who signed in with a password may change it.
    fn check_manages(&self, statement: &AccessStatement) -> Result<()> {
        if self.caller().manages_users {
            return Ok(());
        }
        if let (AccessStatement::AlterRole { name, options }, Some(user)) = (statement, &self.caller().user) {
            let only_password = RoleOptions { password: options.password.clone(), ..RoleOptions::default() };
            if name.eq_ignore_ascii_case(user) && *options == only_password {
                let may = self.caller().changes_password;
                let about =
                    "to ALTER ROLE: who comes by a token, or by none, changes no password; log in with the old one";
                return may.then_some(()).ok_or_else(|| denied(about));
            }
        }
        Err(denied(format!("to {}: users and roles are changed by superusers", statement.tag())))
    }

    fn with_access<T>(
        &self,
        stop: Stop<'_>,
        mut change: impl FnMut(&mut Access) -> splay_store::Result<T>,
    ) -> Result<T> {
        patiently(stop, || self.database().change_access(&mut change))
    }

    /// The rights that a `GRANT` or `REVOKE` lists, one by one. A right can be granted only on an existing table or view.
    fn grants(&self, clause: &GrantClause, is_given: bool) -> Result<Vec<Grant>> {
        let tables: Vec<Option<&str>> = match &clause.tables {
            Some(tables) => tables.iter().map(|table| Some(table.as_str())).collect(),
            None => vec![None],
        };
        let mut grants = Vec::new();
        for table in tables {
            let privileges = match table {
                Some(table) if is_given => self.privileges_of(table, &clause.privileges)?,
                Some(_) if clause.privileges.is_empty() => all(&Privilege::OF_TABLES),
                _ => clause.privileges.clone(),
            };
            for role in &clause.roles {
                let grant = |(privilege, columns): &(Privilege, Vec<String>)| Grant {
                    role: role.clone(),
                    table: table.map(str::to_owned),
                    privilege: *privilege,
                    columns: columns.clone(),
                };
                grants.extend(privileges.iter().map(grant));
            }
        }
        Ok(grants)
    }

    /// The privileges of a clause on a table or a view.
    fn privileges_of(
        &self,
        table: &str,
        privileges: &[(Privilege, Vec<String>)],
    ) -> Result<Vec<(Privilege, Vec<String>)>> {
        let database = self.database();
        if let Err(error) = database.refuse_of_view(table) {
            return Err(Error::Execution { message: error.to_string() });
        }
        if database.has_table(table)? {
            let spec = database.table(table)?.stored()?.spec().clone();
            let columns: Vec<String> = privileges.iter().flat_map(|(_, columns)| columns).cloned().collect();
            for column in &columns {
                // One by one, because a column may be listed for several rights.
                positions(&spec, std::slice::from_ref(column))?;
            }
            return Ok(if privileges.is_empty() { all(&Privilege::OF_TABLES) } else { privileges.to_vec() });
        }
        let Some(view) = database.view(table)? else { return Err(self.no_such_table(table)) };
        let of_views: &[Privilege] = match view.materialized {
            Some(_) => &[Privilege::Select, Privilege::Maintain],
            None => &[Privilege::Select],
        };
        if privileges.is_empty() {
            return Ok(all(of_views));
        }
        match privileges.iter().find(|(privilege, columns)| !of_views.contains(privilege) || !columns.is_empty()) {
            None => Ok(privileges.to_vec()),
            Some((_, columns)) if !columns.is_empty() => fault(format!(
                "{table} is a view, of which rights are whole: grant columns of the tables that it reads"
            )),
            Some((privilege, _)) => fault(format!("{table} is a view, which there is no {} for", privilege.as_str())),
        }
    }

    /// Refuses a policy that couldn't be applied.
    fn check_policy(&self, policy: &Policy, stop: Stop<'_>) -> Result<()> {
        let database = self.database();
        if !database.has_table(&policy.table)? {
            return Err(match database.view(&policy.table)? {
                Some(_) => {
                    Error::Statement { message: "policies are of tables: a view has those of its tables".to_owned() }
                }
                None => self.no_such_table(&policy.table),
            });
        }
        database.refuse_of_view(&policy.table)?;
        let (table, condition) = (policy.table.clone(), policy.condition.clone());
        self.planned_by(stop, move |state| async move { check_condition(&state, &table, &condition).await })
    }

    /// Grants the user of a session with limited rights all rights on a new table or view: nobody else would have any.
    pub(crate) fn grant_own(&self, name: &str) -> Result<()> {
        let Caller { guard: Some(_), user: Some(user), .. } = self.caller() else { return Ok(()) };
        patiently(Stop::NEVER, || {
            self.database().change_access(|access| {
                Privilege::OF_TABLES.into_iter().try_for_each(|privilege| {
                    let (role, table) = (user.to_string(), Some(name.to_owned()));
                    access.grant(Grant { role, table, privilege, columns: Vec::new() })
                })
            })
        })
    }
}

fn all(privileges: &[Privilege]) -> Vec<(Privilege, Vec<String>)> {
    privileges.iter().map(|privilege| (*privilege, Vec::new())).collect()
}

/// The change of a role that options ask for. Hashing a password takes some 20 milliseconds.
fn role_change(options: &RoleOptions) -> Result<RoleChange> {
    let password = match &options.password {
        None => None,
        Some(None) => Some(None),
        Some(Some(password)) => Some(Some(Password::new(password).map_err(of_store)?)),
    };
    Ok(RoleChange {
        login: options.login,
        superuser: options.superuser,
        bypasses_policies: options.bypasses_policies,
        valid_until: options.valid_until,
        password,
        quotas: options.quotas.clone(),
    })
}

/// Drops something, or grants or revokes roles.
fn drop_or_move(access: &mut Access, statement: &AccessStatement) -> splay_store::Result<()> {
    let there = |is_there: bool, if_exists: &bool, what: String| match is_there || *if_exists {
        true => Ok(()),
        false => Err(splay_store::Error::Refused { reason: format!("{what} does not exist") }),
    };
    let pairs = |roles: &[String], others: &[String]| -> Vec<(String, String)> {
        roles.iter().flat_map(|role| others.iter().map(|other| (role.clone(), other.clone()))).collect()
    };
    match statement {
        AccessStatement::DropRoles { names, if_exists } => names.iter().try_for_each(|name| {
            let was_there = access.drop_role(name)?;
            there(was_there, if_exists, format!("role \"{name}\""))
        }),
        AccessStatement::GrantRoles { roles, to } => {
            pairs(roles, to).iter().try_for_each(|(role, to)| access.grant_role(role, to))
        }
        AccessStatement::RevokeRoles { roles, from } => {
            pairs(roles, from).iter().try_for_each(|(role, from)| access.revoke_role(role, from))
        }
        AccessStatement::DropPolicy { name, table, if_exists } => {
            there(access.drop_policy(name, table), if_exists, format!("policy \"{name}\" for table \"{table}\""))
        }
        AccessStatement::DropToken { name, if_exists } => {
            there(access.drop_token(name), if_exists, format!("token \"{name}\""))
        }
        _ => Ok(()),
    }
}
