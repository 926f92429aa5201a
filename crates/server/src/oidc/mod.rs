//! Sign-in by an OpenID Connect provider (ADR 83): tokens that programs send, and the console's sign-in with a code
//! and PKCE.
//!
//! - A token of the provider names a person and their groups. This module maps these to a user or to roles of the
//!   database, which decides their rights at each request.
//! - A person who has signed in through the console has a cookie that the provider doesn't see and no script can
//!   read.
//! - No token, code, cookie or secret is logged or returned.

mod form;
#[cfg(test)]
mod fuzz;
mod jwt;
mod login;
mod provider;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

use self::form::UrlEncodedForm;
use self::jwt::{Claims, ExpectedClaims, texts};
pub(crate) use self::jwt::{TOKEN_BYTES_MAX, has_form};
pub(crate) use self::login::SessionMark;
use self::login::{Logins, SignedIn};
use self::provider::Provider;
use crate::error::Result;
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Oidc;

/// Bytes of a person's name.
const NAME_BYTES_MAX: usize = 256;

/// Groups of a person that are looked at.
const GROUPS_MAX: usize = 1024;

/// Somebody whom the provider knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderUser {
    pub(crate) name: Arc<str>,
    /// Roles of the database to which their groups are mapped.
    pub(crate) roles: Arc<[String]>,
}

/// The identity of a user that the provider vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VerifiedIdentity {
    pub(crate) person: ProviderUser,
    /// Until when, in seconds since the epoch.
    until: i64,
    /// The session, if the user has signed in through the console.
    session: Option<SessionMark>,
}

/// A sign-in that a browser begins.
pub(crate) struct SignIn {
    /// The URL to which the browser is sent.
    pub(crate) url: String,
    /// The cookie that it keeps until it is back.
    pub(crate) cookie: String,
}

/// The parameters with which the browser comes back.
#[derive(Debug, Default)]
pub(crate) struct SignInReturn<'a> {
    pub(crate) code: &'a str,
    pub(crate) state: &'a str,
    /// The issuer, if the token names one.
    pub(crate) issuer: Option<&'a str>,
    /// The console's address when the sign-in began and now.
    pub(crate) console: &'a str,
}

/// The provider, and those whom it has signed in. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct IdentityProvider(Arc<IdentityProviderState>);

#[derive(Debug)]
struct IdentityProviderState {
    provider: Arc<Provider>,
    logins: Logins,
    audiences: Vec<String>,
    client: Vec<String>,
    cookies: Cookies,
}

/// The names of the server's cookies, and whether they need TLS.
#[derive(Debug, Clone)]
pub(crate) struct Cookies {
    pub(crate) session: String,
    pub(crate) sign_in: String,
    pub(crate) is_secure: bool,
}

impl Cookies {
    /// The cookies of a server on a port: browsers send the same cookies to all ports of a host. `__Host-` keeps other hosts of a domain from
    /// setting one.
    fn new(port: u16, is_secure: bool) -> Cookies {
        let prefix = if is_secure { "__Host-" } else { "" };
        let name = |what: &str| format!("{prefix}splay-{what}-{port}");
        Cookies { session: name("session"), sign_in: name("sign-in"), is_secure }
    }
}

fn no_random(error: crate::Error) -> Problem {
    tracing::error!(%error, "nobody can sign in");
    Problem::new(Code::Internal, "the system gives no random bytes")
}

/// The URL to which the provider sends browsers back.
fn callback(console: &str) -> String {
    format!("{}/auth/oidc/callback", console.trim_end_matches('/'))
}

impl IdentityProvider {
    /// `port` is where HTTP listens, and `is_tls` whether with TLS.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Setting`], [`crate::Error::Tls`], [`crate::Error::Random`].
    pub(crate) fn new(settings: &Oidc, port: u16, is_tls: bool) -> Result<IdentityProvider> {
        let client = vec![settings.client_id.clone()];
        let audiences = if settings.audiences.is_empty() { client.clone() } else { settings.audiences.clone() };
        let is_secure = settings.url.as_ref().map_or(is_tls, |url| url.starts_with("https:"));
        let (provider, logins) = (Arc::new(Provider::new(settings)?), Logins::new()?);
        Ok(IdentityProvider(Arc::new(IdentityProviderState {
            provider,
            logins,
            audiences,
            client,
            cookies: Cookies::new(port, is_secure),
        })))
    }

    fn settings(&self) -> &Oidc {
        self.0.provider.settings()
    }

    pub(crate) fn cookies(&self) -> &Cookies {
        &self.0.cookies
    }

    /// The console's name for the provider.
    pub(crate) fn name(&self) -> String {
        self.settings().shown_name()
    }

    /// The console's address, if the settings have it.
    pub(crate) fn console(&self) -> Option<&str> {
        self.settings().url.as_deref().map(|url| url.trim_end_matches('/'))
    }

    /// Whom a token of the provider is of.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Forbidden`], [`Code::Provider`].
    pub(crate) async fn of_token(&self, token: &str, now: i64) -> Outcome<VerifiedIdentity> {
        let issuer = self.settings().issuer.as_str();
        let expected = ExpectedClaims { issuer, audiences: &self.0.audiences, sign_in: None, now };
        let (claims, until) = self.0.provider.verify(token, expected).await?;
        Ok(VerifiedIdentity { person: self.person(&claims)?, until, session: None })
    }

    /// The identity of the user with this session cookie.
    pub(crate) fn of_session(&self, token: &str) -> Option<VerifiedIdentity> {
        let mark = self.0.logins.mark(token);
        let SignedIn { person, until } = self.0.logins.session(&mark)?;
        Some(VerifiedIdentity { person, until, session: Some(mark) })
    }

    /// Whether an identity is still valid, at a time in seconds since the epoch.
    pub(crate) fn counts(&self, vouched: &VerifiedIdentity, now: i64) -> bool {
        now < vouched.until && vouched.session.is_none_or(|mark| self.0.logins.session(&mark).is_some())
    }

    /// Begins a sign-in of a browser.
    ///
    /// # Errors
    /// [`Code::Provider`].
    pub(crate) async fn begin(&self, console: &str, now: i64) -> Outcome<SignIn> {
        let settings = self.settings();
        let begun = self.0.logins.begin(now).map_err(no_random)?;
        let mut scopes = vec!["openid"];
        scopes.extend(settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid"));
        let parameters = UrlEncodedForm::of([
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", &callback(console)),
            ("scope", &scopes.join(" ")),
            ("state", &begun.state()),
            ("nonce", &begun.nonce()),
            ("code_challenge", &begun.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        let url = self.0.provider.sign_in_url(&parameters).await?;
        Ok(SignIn { url, cookie: begun.cookie().to_owned() })
    }

    /// Ends a sign-in that `cookie` is of: who it is, what he is known by from now on, and for how many seconds.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Forbidden`], [`Code::Provider`].
    pub(crate) async fn finish(&self, cookie: &str, returned: SignInReturn<'_>, now: i64) -> Outcome<SignedInBrowser> {
        let again =
            || Problem::new(Code::Unauthorized, "the sign-in took too long, or was begun elsewhere: begin it again");
        let begun = self.0.logins.pending(cookie, now).ok_or_else(again)?;
        if !begun.is_answered_by(returned.state) {
            return Err(again());
        }
        let issuer = self.settings().issuer.as_str();
        if returned.issuer.is_some_and(|other| other != issuer) {
            return Err(Problem::new(Code::Unauthorized, "another provider answers the sign-in"));
        }
        let parameters = UrlEncodedForm::of([
            ("grant_type", "authorization_code"),
            ("code", returned.code),
            ("redirect_uri", &callback(returned.console)),
            ("code_verifier", &begun.verifier()),
        ]);
        let token = self.0.provider.redeem(parameters).await?;
        let nonce = begun.nonce();
        let sign_in = Some((self.settings().client_id.as_str(), nonce.as_str()));
        let expected = ExpectedClaims { issuer, audiences: &self.0.client, sign_in, now };
        let (claims, _) = self.0.provider.verify(&token, expected).await?;
        let person = self.person(&claims)?;
        let seconds = self.settings().session_seconds_max;
        Ok(SignedInBrowser { person, seconds })
    }

    /// Keeps that a person has signed in; the token that he is known by.
    ///
    /// # Errors
    /// [`Code::Internal`].
    pub(crate) fn keep(&self, browser: &SignedInBrowser, now: i64) -> Outcome<String> {
        let until = now.saturating_add_unsigned(browser.seconds);
        self.0.logins.end(SignedIn { person: browser.person.clone(), until }).map_err(no_random)
    }

    /// Ends the session of a token; the name of the user whose it was.
    pub(crate) fn sign_out(&self, token: &str) -> Option<Arc<str>> {
        self.0.logins.sign_out(token).map(|signed_in| signed_in.person.name)
    }

    /// The user that the claims of a token describe.
    fn person(&self, claims: &Claims) -> Outcome<ProviderUser> {
        let settings = self.settings();
        let forbidden = |text: String| Err(Problem::new(Code::Forbidden, text));
        let claim = &settings.user_claim;
        let name = find(claims, claim).and_then(Value::as_str).filter(|name| !name.is_empty());
        let Some(name) = name.filter(|name| name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)) else {
            return forbidden(format!("the provider's token has no claim {claim:?} that could be a user's name"));
        };
        // Anybody may write any address into some providers' forms.
        if claim == "email" && claims.get("email_verified") != Some(&Value::Bool(true)) {
            return forbidden("the provider hasn't verified the email address of the claim \"email\"".to_owned());
        }
        let groups = settings.roles_claim.as_ref().map(|claim| texts(find(claims, claim))).unwrap_or_default();
        let groups = groups.into_iter().take(GROUPS_MAX);
        let mut roles: Vec<String> = groups.filter_map(|group| settings.roles.get(group)).cloned().collect();
        roles.sort();
        roles.dedup();
        Ok(ProviderUser { name: Arc::from(name), roles: login::shared_texts(roles) })
    }
}

/// A person who has signed in at the provider.
pub(crate) struct SignedInBrowser {
    pub(crate) person: ProviderUser,
    pub(crate) seconds: u64,
}

impl SignedInBrowser {
    /// The identity that the sign-in has verified.
    pub(crate) fn identity(&self, now: i64) -> VerifiedIdentity {
        VerifiedIdentity {
            person: self.person.clone(),
            until: now.saturating_add_unsigned(self.seconds),
            session: None,
        }
    }
}

/// A claim by its name, or by a path of names with dots between them.
fn find<'a>(claims: &'a Claims, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        rest.split('.').try_fold(claims.get(first)?, |value, part| value.get(part))
    })
}
