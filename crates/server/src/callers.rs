//! The caller of a request: the holder of a token of the settings, a user of the database, a person whom the provider
//! of the settings authenticates, or, if none of these is configured, any client on this machine.
//!
//! - Users, roles and rights are those of the database at the time of the request, so a change takes effect at the
//!   next one.
//! - If the file of users can't be read, nobody gets in.
//! - A user has the quotas of its roles (`quotas.rs`).
//! - Callers with equal rights share a session. Sessions are few, and created on demand.
//! - A password that was right is recognised again by a keyed digest, until it changes. Hashing one takes 20
//!   milliseconds and 19 MiB, so only a few are hashed at a time.

mod caller;
mod passwords;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use lru::LruCache;
use splay_sql::Session;
use splay_store::{Access, Database, Quota, Rights, RoleLimit, ScramVerifier};

pub(crate) use self::caller::{Caller, TableReader};
use self::caller::{Credential, Identity, User, UserRights};
use self::passwords::Passwords;
use crate::audit::Peer;
use crate::auth::{Credentials, Tokens, credentials};
use crate::blocking::on_thread;
use crate::error::Result;
use crate::oidc::{IdentityProvider, ProviderUser, SignedInBrowser, VerifiedIdentity, has_form};
use crate::problem::{Code, Outcome, Problem};
use crate::quotas::Quotas;
use crate::settings::{Auth, Role};

/// Sessions that are kept, by rights.
const SESSIONS_MAX: usize = 64;

const WRONG_PASSWORD: &str = "the user's password is wrong, or there is no such user";

/// Users whose rights are kept.
const RIGHTS_MAX: usize = 1024;

/// Tells who requests are by. Clones share what they know.
#[derive(Debug, Clone)]
pub(crate) struct Callers(Arc<CallersState>);

#[derive(Debug)]
struct CallersState {
    tokens: Tokens,
    database: Database,
    /// The role of the database by which clients without credentials are served; `None` refuses them.
    anonymous: Option<String>,
    /// Whether only this machine reaches the server.
    is_local: bool,
    /// The provider that vouches for people, if there is one.
    vouching: Option<IdentityProvider>,
    passwords: Passwords,
    rights: Mutex<RightsCache>,
    sessions: Mutex<LruCache<SessionKey, Session>>,
    quotas: Quotas,
}

/// Digest of rights, and whether there is PostgreSQL's catalogue.
type SessionKey = ([u8; 32], bool);

/// Rights by the user's name in lower case, valid until users or roles change.
#[derive(Debug, Default)]
struct RightsCache {
    of: Option<Arc<Access>>,
    rights: HashMap<String, UserRights>,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Seconds since the epoch.
pub(crate) fn now_seconds() -> i64 {
    now() / 1_000_000_000
}

fn unauthorized<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Problem::new(Code::Unauthorized, text))
}

impl Callers {
    /// # Errors
    /// [`Error::Random`](crate::Error::Random).
    pub(crate) fn new(
        tokens: Tokens,
        auth: &Auth,
        database: Database,
        is_local: bool,
        vouching: Option<IdentityProvider>,
        quotas: Quotas,
    ) -> Result<Callers> {
        let sessions = Mutex::new(LruCache::new(NonZeroUsize::new(SESSIONS_MAX).unwrap_or(NonZeroUsize::MIN)));
        let (anonymous, passwords, rights) = (auth.anonymous.clone(), Passwords::new()?, Mutex::default());
        let state =
            CallersState { tokens, database, anonymous, is_local, vouching, passwords, rights, sessions, quotas };
        Ok(Callers(Arc::new(state)))
    }

    fn database(&self) -> &Database {
        &self.0.database
    }

    /// The present users and roles.
    fn access(&self) -> Outcome<Arc<Access>> {
        self.0.database.access().map_err(|error| {
            tracing::error!(%error, "users and roles can't be read: nobody is let in");
            Problem::new(
                Code::Corrupt,
                "users and roles can't be read, so that nobody is let in; the server's log says why",
            )
        })
    }

    /// Whether everybody may do everything.
    fn is_open(&self, access: &Access) -> bool {
        self.0.is_local && self.0.tokens.are_none() && self.0.vouching.is_none() && !access.has_users()
    }

    /// Whether a request is served whatever its credentials: requests of web pages have to be refused then. A request with credentials belongs to
    /// a user, unless the server is open to everybody.
    pub(crate) fn serve_anybody(&self, has_credentials: bool) -> bool {
        let is_anonymous = self.0.anonymous.is_some() && !has_credentials;
        let served = |access: Arc<Access>| self.is_open(&access) || is_anonymous && access.has_users();
        (self.0.tokens.are_none() || is_anonymous) && self.access().is_ok_and(served)
    }

    /// Whether a client has to show credentials before anything else.
    ///
    /// # Errors
    /// [`Code::Corrupt`].
    pub(crate) fn ask(&self) -> Outcome<bool> {
        let access = self.access()?;
        Ok(!self.is_open(&access))
    }

    /// The caller of a request by its `authorization` header, if he has `role`. The header is `Bearer T`, InfluxDB's `Token T`, or `Basic` with a
    /// user and his password, or with a token in its place.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Forbidden`], [`Code::Corrupt`].
    pub(crate) async fn of(&self, value: Option<&str>, role: Role) -> Outcome<Caller> {
        let caller = self.identify(value).await?;
        caller.check(role).inspect_err(|problem| caller.who().note_denied(&problem.message))?;
        Ok(caller)
    }

    /// The same, whatever he may do.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Corrupt`].
    pub(crate) async fn identify(&self, value: Option<&str>) -> Outcome<Caller> {
        let caller = self.caller_of(value).await;
        self.note_sign_in(caller, || match value.and_then(credentials)? {
            Credentials::Basic { user, .. } => Some(user),
            Credentials::Token(_) => None,
        })
    }

    async fn caller_of(&self, value: Option<&str>) -> Outcome<Caller> {
        let access = self.access()?;
        let Some(value) = value else { return self.anonymous_among(&access) };
        if self.is_open(&access) {
            return Ok(Caller::anybody());
        }
        match credentials(value) {
            None => unauthorized("the authorization header holds no token"),
            Some(Credentials::Token(token)) => self.of_any_token(&access, &token, None).await?.ok_or_else(|| {
                tracing::warn!("a request with an unknown token was refused");
                Problem::new(Code::Unauthorized, "the token is not known")
            }),
            Some(Credentials::Basic { user, password }) => self.of_pair(&access, &user, &password).await,
        }
    }

    /// The user of this password; or whose token it is. Whose name beside a token of the settings is isn't looked at.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Corrupt`].
    pub(crate) async fn of_password(&self, user: &str, password: &str) -> Outcome<Caller> {
        let access = self.access()?;
        self.note_sign_in(self.of_pair(&access, user, password).await, || Some(user.to_owned()))
    }

    /// The verifier with which PostgreSQL's clients are asked to prove this user's password; `None` asks for the password, or a token.
    ///
    /// # Errors
    /// [`Code::Corrupt`].
    pub(crate) fn verifier_of(&self, user: &str) -> Outcome<Option<ScramVerifier>> {
        let access = self.access()?;
        let verifier = access.verifier_of(user, now(), self.0.passwords.key());
        // Whoever isn't a user may have a token of the settings, or of the provider.
        let takes_tokens = !self.0.tokens.are_none() || self.0.vouching.is_some();
        Ok(verifier.filter(|_| !takes_tokens || access.role(user).is_some_and(|role| role.password.is_some())))
    }

    /// The user who has proved that he knows the password of this verifier, or has not.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Corrupt`].
    pub(crate) fn of_proof(&self, user: &str, verifier: &ScramVerifier, is_proved: bool) -> Outcome<Caller> {
        let access = self.access()?;
        let role = access.role(user).filter(|role| role.may_log_in(now()));
        let password = role.and_then(|role| role.password.as_ref());
        let password = password.filter(|password| is_proved && password.verifier() == Some(verifier));
        let credential = password.map(|password| Credential::Password(Arc::from(password.mark())));
        let caller = credential.and_then(|credential| self.user(&access, user, credential));
        let caller = caller.ok_or_else(|| {
            tracing::warn!("a request with a wrong password was refused");
            Problem::new(Code::Unauthorized, WRONG_PASSWORD)
        });
        self.note_sign_in(caller, || Some(user.to_owned()))
    }

    /// The user who has the key of this name for line protocol; in a database without users one who writes.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Corrupt`].
    pub(crate) fn of_key(&self, name: &str) -> Outcome<Caller> {
        let access = self.access()?;
        let caller = match access.has_users() {
            true => self.user(&access, name, Credential::Key),
            false => Some(Caller::new(Identity::Token { name: Arc::from(name), roles: Arc::from([Role::Write]) })),
        };
        let caller =
            caller.ok_or_else(|| Problem::new(Code::Unauthorized, "the key belongs to no user who may log in"));
        self.note_sign_in(caller, || Some(name.to_owned()))
    }

    /// Records whether the client was let in. A name that no role has isn't recorded: it may be a password in the wrong place.
    fn note_sign_in(&self, outcome: Outcome<Caller>, name_given: impl FnOnce() -> Option<String>) -> Outcome<Caller> {
        match &outcome {
            Ok(caller) => caller.note_sign_in(),
            Err(problem) => {
                let name =
                    name_given().and_then(|name_given| Some(self.access().ok()?.role(&name_given)?.name.clone()));
                Peer::current().note_refusal(problem, name);
            }
        }
        outcome
    }

    async fn of_pair(&self, access: &Arc<Access>, user: &str, password: &str) -> Outcome<Caller> {
        if let Some(caller) = self.of_any_token(access, password, Some(user)).await? {
            return Ok(caller);
        }
        if access.has_users() && self.0.passwords.is_right(access, user, password, now()).await? {
            let mark = access.role(user).and_then(|role| role.password.as_ref());
            let caller =
                mark.and_then(|password| self.user(access, user, Credential::Password(Arc::from(password.mark()))));
            return caller.ok_or_else(|| Problem::new(Code::Unauthorized, "there is no such user any more"));
        }
        tracing::warn!("a request with an unknown token or a wrong password was refused");
        unauthorized(match access.has_users() {
            true => WRONG_PASSWORD,
            false => "the token is not known",
        })
    }

    /// The caller with this token. The token may be one of the identity provider.
    async fn of_any_token(&self, access: &Arc<Access>, token: &str, beside: Option<&str>) -> Outcome<Option<Caller>> {
        let caller = self.of_token(access, token, beside);
        let Some(vouching) = self.0.vouching.as_ref().filter(|_| caller.is_none() && has_form(token)) else {
            return Ok(caller);
        };
        let vouched = vouching.of_token(token, now_seconds()).await.inspect_err(|problem| {
            tracing::warn!(reason = problem.message, "a request with a token of the provider was refused");
        })?;
        if beside.is_some_and(|name| !name.is_empty() && name != &*vouched.person.name) {
            return unauthorized("the token is another user's");
        }
        self.of_vouched(access, vouched).map(Some)
    }

    /// The caller with this token. The token of a user is refused beside the name of another user.
    fn of_token(&self, access: &Arc<Access>, token: &str, beside: Option<&str>) -> Option<Caller> {
        if let Some((name, roles)) = self.0.tokens.of(token) {
            return Some(Caller::new(Identity::Token { name, roles }));
        }
        if let Some((user, mark)) = self.0.passwords.login(token) {
            return self.user(access, &user, Credential::Password(mark));
        }
        let (role, access_token) = access.user_of_token(token, now())?;
        let is_his = beside.is_none_or(|name| name.is_empty() || name.eq_ignore_ascii_case(&role.name));
        if is_his {
            self.user(access, &role.name, Credential::Token(Arc::from(access_token.blake3.as_str())))
        } else {
            None
        }
    }

    /// The caller without credentials.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Corrupt`].
    pub(crate) fn anonymous(&self) -> Outcome<Caller> {
        self.note_sign_in(self.anonymous_among(&self.access()?), || None)
    }

    fn anonymous_among(&self, access: &Arc<Access>) -> Outcome<Caller> {
        if self.is_open(access) {
            return Ok(Caller::anybody());
        }
        let text =
            "a token is needed: Authorization: Bearer TOKEN, or a user's name and password: Authorization: Basic";
        match &self.0.anonymous {
            Some(name) if access.has_users() => self.user(access, name, Credential::Nothing).ok_or_else(|| {
                tracing::error!(
                    role = name,
                    "auth.anonymous names a role that isn't there, has ended or is a superuser"
                );
                Problem::new(Code::Unauthorized, text)
            }),
            _ => unauthorized(text),
        }
    }

    /// The provider that vouches for people, if there is one.
    pub(crate) fn vouching(&self) -> Option<&IdentityProvider> {
        self.0.vouching.as_ref()
    }

    /// The caller with this session cookie, if he has `role`. Where the database is open to everybody, no cookie is needed.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Forbidden`], [`Code::Corrupt`].
    pub(crate) fn of_session(&self, token: &str, role: Role) -> Outcome<Caller> {
        let access = self.access()?;
        if self.is_open(&access) {
            return Ok(Caller::anybody());
        }
        let ended = || Problem::new(Code::Unauthorized, "the sign-in has ended: sign in again");
        let vouched = self.0.vouching.as_ref().and_then(|vouching| vouching.of_session(token)).ok_or_else(ended);
        let caller = self.note_sign_in(vouched.and_then(|vouched| self.of_vouched(&access, vouched)), || None)?;
        caller.check(role).inspect_err(|problem| caller.who().note_denied(&problem.message))?;
        Ok(caller)
    }

    /// Checks whether a user who has signed in at the provider is let in.
    ///
    /// # Errors
    /// [`Code::Forbidden`], [`Code::Corrupt`].
    pub(crate) fn check_signed_in(&self, browser: &SignedInBrowser) -> Outcome<()> {
        let caller = self.of_vouched(&self.access()?, browser.identity(now_seconds()));
        self.note_sign_in(caller, || Some(browser.person.name.to_string())).map(drop)
    }

    /// Records that a user who came back from the provider wasn't let in.
    pub(crate) fn note_refused_sign_in(&self, problem: &Problem) {
        Peer::current().note_refusal(problem, None);
    }

    /// Records that a user has signed out.
    pub(crate) fn note_sign_out(&self, user: &Arc<str>) {
        Peer::current().note_sign_out(user);
    }

    fn of_vouched(&self, access: &Arc<Access>, vouched: VerifiedIdentity) -> Outcome<Caller> {
        if !self.0.vouching.as_ref().is_some_and(|vouching| vouching.counts(&vouched, now_seconds())) {
            return unauthorized("the sign-in has ended: sign in again");
        }
        let (name, roles) = (Arc::clone(&vouched.person.name), vouched.person.roles.len());
        self.user(access, &name, Credential::Provider(vouched)).ok_or_else(|| {
            let text = format!(
                "{name:?} is no user of this database who may log in, and has {roles} roles of it by the provider's groups"
            );
            Problem::new(Code::Forbidden, text)
        })
    }

    /// The rights of a user whom the provider vouches for: those of the database's user of this name, or else those of his roles.
    fn vouched_rights(&self, access: &Arc<Access>, person: &ProviderUser) -> Option<UserRights> {
        if let Some(role) = access.role(&person.name) {
            // Names of the provider differ by case. One that differs by that from a user's isn't his.
            return (*role.name == *person.name && role.may_log_in(now())).then(|| self.rights(access, &role.name))?;
        }
        let key = format!("{}\0{}", person.name, person.roles.join("\0"));
        self.rights_from_cache(access, key, || {
            let access = access.with_guest(&person.name, &person.roles)?;
            Some((Rights::of(&access, &person.name)?, access.quotas_of(&person.name)))
        })
    }

    /// A user with his rights, if what he has shown counts now.
    fn user(&self, access: &Arc<Access>, name: &str, proof: Credential) -> Option<Caller> {
        if let Credential::Provider(vouched) = &proof {
            let counts = self.0.vouching.as_ref()?.counts(vouched, now_seconds());
            let user_rights = self.vouched_rights(access, &vouched.person).filter(|_| counts)?;
            let allowance = self.0.quotas.of(name, &user_rights.quotas);
            return Some(Caller::new(Identity::User(User { name: Arc::from(name), user_rights, proof, allowance })));
        }
        let (role, now) = (access.role(name)?, now());
        let counts = match &proof {
            Credential::Provider(_) => false,
            Credential::Key => role.may_log_in(now),
            Credential::Nothing => !role.superuser && role.valid_until.is_none_or(|until| now < until),
            Credential::Password(mark) => {
                role.may_log_in(now) && role.password.as_ref().is_some_and(|password| password.mark() == **mark)
            }
            Credential::Token(digest) => {
                let is_it = |token: &&splay_store::AccessToken| {
                    token.blake3 == **digest && token.user.eq_ignore_ascii_case(name)
                };
                let token = access.tokens.iter().find(is_it);
                role.may_log_in(now) && token.is_some_and(|token| token.expires.is_none_or(|at| now < at))
            }
        };
        if !counts {
            return None;
        }
        let user_rights = self.rights(access, &role.name)?;
        let allowance = self.0.quotas.of(&role.name, &user_rights.quotas);
        Some(Caller::new(Identity::User(User { name: Arc::from(role.name.as_str()), user_rights, proof, allowance })))
    }

    fn rights(&self, access: &Arc<Access>, name: &str) -> Option<UserRights> {
        let of = || Some((Rights::of(access, name)?, access.quotas_of(name)));
        self.rights_from_cache(access, name.to_lowercase(), of)
    }

    /// The rights and quotas that `of` returns, cached under a key until users or roles change.
    fn rights_from_cache(
        &self,
        access: &Arc<Access>,
        key: String,
        of: impl FnOnce() -> Option<(Rights, BTreeMap<Quota, RoleLimit>)>,
    ) -> Option<UserRights> {
        let mut cache = self.0.rights.lock().unwrap_or_else(PoisonError::into_inner);
        if !cache.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, access)) || cache.rights.len() >= RIGHTS_MAX {
            *cache = RightsCache { of: Some(Arc::clone(access)), rights: HashMap::new() };
        }
        if let Some(rights) = cache.rights.get(&key) {
            return Some(rights.clone());
        }
        let (rights, quotas) = of()?;
        let rights = UserRights { digest: rights.digest(), rights: Arc::new(rights), quotas: Arc::new(quotas) };
        cache.rights.insert(key, rights.clone());
        Some(rights)
    }

    /// The same caller with the rights that he has now.
    ///
    /// # Errors
    /// [`Code::Unauthorized`] once he isn't let in any more, [`Code::Corrupt`].
    pub(crate) fn still(&self, caller: &Caller) -> Outcome<Caller> {
        let access = self.access()?;
        let current = match &caller.identity {
            Identity::Anybody => self.anonymous_among(&access),
            Identity::Token { .. } => Ok(caller.clone()),
            Identity::User(user) => {
                let revoked = || {
                    Problem::new(
                        Code::Unauthorized,
                        "the user, his password or his token has been changed or has ended",
                    )
                };
                self.user(&access, &user.name, user.proof.clone()).ok_or_else(revoked)
            }
        };
        current.map(|current| current.on_connection_of(caller))
    }

    /// The session in which a caller's statements run, shared by all callers with equal rights. `open` is the session without restrictions.
    ///
    /// # Errors
    /// [`Code::Internal`] if it can't be set up.
    pub(crate) async fn session(&self, caller: &Caller, open: &Session) -> Outcome<Session> {
        let user = match &caller.identity {
            Identity::Anybody => return Ok(open.clone()),
            Identity::Token { .. } => return Ok(open.without_users()),
            Identity::User(user) => user,
        };
        let key = (user.user_rights.digest, open.has_catalogue());
        let cached_session = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let session = match cached_session {
            Some(session) => session,
            None => {
                let (open, rights) = (open.clone(), Arc::clone(&user.user_rights.rights));
                let session = on_thread(move || open.for_rights(rights)).await??;
                self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner).put(key, session.clone());
                session
            }
        };
        let session = session.as_user(&user.name, matches!(user.proof, Credential::Password(_)));
        let bytes = user.allowance.bound(Quota::StatementBytesMax, session.memory_bytes() as u64);
        Ok(session.with_memory_at_most(bytes))
    }

    /// A token by which a user who has shown his password is known until the server ends; of who has shown a token that one.
    pub(crate) fn bearer(&self, caller: &Caller, shown: &str) -> Outcome<String> {
        match &caller.identity {
            Identity::User(User { name, proof: Credential::Password(mark), .. }) => {
                self.0.passwords.begin_login(name, mark)
            }
            _ => Ok(shown.to_owned()),
        }
    }
}
