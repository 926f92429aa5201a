//! A caller, and the checks of rights outside of statements; a caller's session checks the rights of statements
//! itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use splay_store::{Database, Permission, Privilege, Quota, Rights, RoleLimit};

use super::Callers;
use crate::audit::{Actor, Peer};
use crate::oidc::VerifiedIdentity;
use crate::priority_semaphore::Priority;
use crate::problem::{Code, Outcome, Problem};
use crate::quotas::Allowance;
use crate::settings::Role;
use crate::subscription_requests::SubscriptionRequest;

/// The caller of a request, and the connection on which he was let in.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(super) identity: Identity,
    peer: Arc<Peer>,
    /// A way within that of the connection.
    wire: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub(super) enum Identity {
    /// Whoever is on this machine: there are neither tokens nor users.
    Anybody,
    /// The holder of a token of the settings.
    Token {
        name: Arc<str>,
        roles: Arc<[Role]>,
    },
    User(User),
}

#[derive(Debug, Clone)]
pub(super) struct User {
    pub(super) name: Arc<str>,
    pub(super) user_rights: UserRights,
    pub(super) proof: Credential,
    pub(super) allowance: Allowance,
}

/// The credential by which a user was identified.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Credential {
    /// A token of the database, by its digest.
    Token(Arc<str>),
    /// A password, by what differs once it does.
    Password(Arc<str>),
    /// A token of the provider of the settings, or a session that began with one.
    Provider(VerifiedIdentity),
    /// A key of his name for line protocol.
    Key,
    /// Nothing, and the settings say who he is.
    Nothing,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof")
    }
}

/// Rights with their digest.
#[derive(Debug, Clone)]
pub(super) struct UserRights {
    pub(super) rights: Arc<Rights>,
    pub(super) digest: [u8; 32],
    pub(super) quotas: Arc<BTreeMap<Quota, RoleLimit>>,
}

impl Caller {
    /// Somebody on the connection that this task serves.
    pub(super) fn new(identity: Identity) -> Caller {
        Caller { identity, peer: Peer::current(), wire: None }
    }

    pub(super) fn anybody() -> Caller {
        Caller::new(Identity::Anybody)
    }

    /// The same on the connection of another one.
    pub(super) fn on_connection_of(self, other: &Caller) -> Caller {
        Caller { peer: Arc::clone(&other.peer), wire: other.wire, ..self }
    }

    /// The same by a way within that of the connection.
    pub(crate) fn over(self, wire: &'static str) -> Caller {
        Caller { wire: Some(wire), ..self }
    }

    /// The caller's name; empty where everybody may do everything.
    pub(crate) fn name(&self) -> Arc<str> {
        match &self.identity {
            Identity::Anybody => Arc::default(),
            Identity::Token { name, .. } => Arc::clone(name),
            Identity::User(user) => Arc::clone(&user.name),
        }
    }

    /// The caller for the audit log.
    pub(crate) fn who(&self) -> Actor {
        let (user, role) = match &self.identity {
            Identity::Anybody => (Arc::default(), "open"),
            Identity::Token { name, .. } => (Arc::clone(name), "token"),
            Identity::User(user) => {
                let role = match &user.proof {
                    Credential::Nothing => "anonymous",
                    _ if user.user_rights.rights.is_superuser() => "superuser",
                    _ => "user",
                };
                (Arc::clone(&user.name), role)
            }
        };
        let who = Actor::new(user, role, Arc::clone(&self.peer));
        match self.wire {
            Some(wire) => who.over(wire),
            None => who,
        }
    }

    /// Records that the caller was let in. Nothing is recorded where the server is open to everybody.
    pub(super) fn note_sign_in(&self) {
        if !matches!(self.identity, Identity::Anybody) {
            self.who().note_sign_in();
        }
    }

    /// Whether he may do what needs a role of a token. Users are held to their rights instead.
    pub(crate) fn check(&self, role: Role) -> Outcome<()> {
        match &self.identity {
            Identity::Token { name, roles } if !roles.contains(&role) => {
                tracing::warn!(token = &**name, ?role, "a request was refused that its token doesn't allow");
                let role = match role {
                    Role::Read => "read",
                    Role::Write => "write",
                    Role::Replicate => "replicate: name the role in the settings",
                };
                Err(Problem::new(Code::Forbidden, format!("the token doesn't allow to {role}")))
            }
            _ => Ok(()),
        }
    }

    /// The rights of a user; none of others.
    pub(crate) fn rights(&self) -> Option<&Rights> {
        match &self.identity {
            Identity::User(user) => Some(&user.user_rights.rights),
            _ => None,
        }
    }

    /// The caller's allowance by his quotas; those who aren't users have no limit.
    pub(crate) fn allowance(&self) -> Allowance {
        match &self.identity {
            Identity::User(user) => user.allowance.clone(),
            _ => Allowance::default(),
        }
    }

    /// How urgent his statements are. Those of superusers are most, so that whoever sets priorities can always get in to change them.
    pub(crate) fn priority(&self) -> Priority {
        match &self.identity {
            Identity::User(user) if user.user_rights.rights.is_superuser() => Priority::High,
            _ => self.allowance().priority(),
        }
    }

    /// Whether he may see how the server stands, all tables among it.
    pub(crate) fn check_monitor(&self) -> Outcome<()> {
        match self.rights() {
            Some(rights) if !rights.may_monitor() => Err(Problem::new(
                Code::Forbidden,
                "permission denied: the state of the server is for users with the role pg_monitor",
            )),
            _ => Ok(()),
        }
    }

    /// Whether he may have all that the database holds, and say who leads it.
    pub(crate) fn check_replication(&self) -> Outcome<()> {
        match self.rights() {
            Some(rights) if !rights.is_superuser() => Err(Problem::new(
                Code::Forbidden,
                "permission denied: followers ask as a superuser, or with a token of the role replicate",
            )),
            _ => Ok(()),
        }
    }

    /// Whether he may add rows to some table: such a one has a producer's numbers.
    pub(crate) fn check_writer(&self) -> Outcome<()> {
        match self.rights() {
            Some(rights) if !rights.may_somewhere(Privilege::Insert) => {
                Err(Problem::new(Code::Forbidden, "permission denied: there is no table to INSERT rows into"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses rows that come by themselves for a table, which `is_there` or would be made for them.
    ///
    /// # Errors
    /// [`splay_store::Error::Denied`].
    pub(crate) fn check_rows(&self, table: &str, is_there: bool) -> splay_store::Result<()> {
        let Some(rights) = self.rights() else { return Ok(()) };
        let denied = |about: String| Err(splay_store::Error::Denied { about });
        if !rights.may(Privilege::Insert, table) {
            return denied(format!("to INSERT all columns of table {table}"));
        }
        if rights.has_row_condition(table) {
            return denied(format!("to change table {table}: policies hide rows of it, which needs BYPASSRLS"));
        }
        if !is_there && !rights.may_create() {
            return denied(format!("to make the table {table}: grant CREATE on the database"));
        }
        Ok(())
    }

    /// Refuses updates of tables whose columns he may not read, or whose rows he doesn't see all.
    fn check_updates(&self, database: &Database, ask: &SubscriptionRequest) -> Outcome<()> {
        let Some(rights) = self.rights() else { return Ok(()) };
        for table in ask.tables() {
            if !rights.sees(table) || database.refuse_of_view(table).is_err() {
                return Err(Problem::new(Code::NotFound, format!("no table {table:?}")));
            }
            let forbidden =
                |why: &str| Err(Problem::new(Code::Forbidden, format!("permission denied for table {table}: {why}")));
            if rights.has_row_condition(table) {
                return forbidden("policies hide rows of it, and subscriptions deliver all rows; query it instead");
            }
            let permission = rights.permission(Privilege::Select, table);
            if permission == Permission::All {
                continue;
            }
            let spec = database.table(table)?.stored()?.spec().clone();
            // Rows come at their time, and by their symbol.
            let symbol = spec.symbol.as_ref().filter(|_| ask.has_symbols());
            let named = ask.columns().map(|columns| columns.iter().chain([&spec.time]).chain(symbol));
            if !named.is_some_and(|mut named| named.all(|column| permission.covers(column))) {
                return forbidden("name columns that you may SELECT, and have the time among those");
            }
        }
        Ok(())
    }
}

/// Somebody who follows tables, and whether he still may.
#[derive(Debug, Clone)]
pub(crate) struct TableReader {
    callers: Callers,
    caller: Caller,
    ask: SubscriptionRequest,
}

impl TableReader {
    pub(crate) fn new(callers: &Callers, caller: Caller, ask: &SubscriptionRequest) -> TableReader {
        TableReader { callers: callers.clone(), caller, ask: ask.clone() }
    }

    /// The caller for the audit log.
    pub(crate) fn who(&self) -> Actor {
        self.caller.who()
    }

    /// # Errors
    /// Why he may not, by the rights that he has now.
    pub(crate) fn check(&self) -> Outcome<()> {
        let caller = self.callers.still(&self.caller)?;
        caller.check(Role::Read)?;
        caller.check_updates(self.callers.database(), &self.ask)
    }
}
