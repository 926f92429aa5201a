//! Sign-in by an OpenID Connect provider: `[auth.oidc]`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use axum::http::Uri;
use serde::Deserialize;

use crate::error::{Error, Result};

/// Seconds that a sign-in of the console counts if nothing else is said.
pub const OIDC_SESSION_SECONDS: u64 = 8 * 3600;

/// Claims, scopes and hosts of a setting.
const LIST_MAX: usize = 256;

/// A provider whose users are let in, by tokens and through the console.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// The provider, as its tokens name it: `https://login.example.com/realms/desk`. `http` on this machine alone.
    pub issuer: String,
    /// This server among the provider's clients.
    pub client_id: String,
    /// A file with the client's secret. Default none: a public client, which PKCE protects.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// The console's name for the provider. Default: the issuer's host.
    #[serde(default)]
    pub name: Option<String>,
    /// The console's address, as browsers know it: `https://ticks.example.com`. The provider sends them back to `/auth/oidc/callback` below it.
    /// Default: the name of this machine that the browser used, and none other.
    #[serde(default)]
    pub url: Option<String>,
    /// Whom tokens have to be for that programs show. Default: the client.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// The scopes that the console's sign-in asks for, besides `openid`.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The claim that is the name of a user of the database. Default `sub`.
    #[serde(default = "subject")]
    pub user_claim: String,
    /// The claim with the groups of a person who isn't a user of the database. Default none: only users are let in.
    #[serde(default)]
    pub roles_claim: Option<String>,
    /// Roles of the database by groups of the provider.
    #[serde(default)]
    pub roles: BTreeMap<String, String>,
    /// Hosts that the provider's endpoints may be on, besides the issuer's.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// A PEM file of the certificates that vouch for the provider's. Default: those of the system.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// Seconds after which who has signed in through the console does so again. Default [`OIDC_SESSION_SECONDS`].
    #[serde(default = "session_seconds")]
    pub session_seconds_max: u64,
}

fn subject() -> String {
    "sub".to_owned()
}

fn session_seconds() -> u64 {
    OIDC_SESSION_SECONDS
}

fn wrong<T>(setting: &str, reason: impl Into<String>) -> Result<T> {
    Err(Error::Setting { setting: format!("auth.oidc.{setting}"), reason: reason.into() })
}

/// Whether secrets may be sent to an address: `https`, or `http` within this machine, with neither a user nor a
/// fragment.
pub(crate) fn is_safe(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let Some(host) = uri.host().filter(|_| !url.contains(['@', '#', '\\']) && !url.contains(char::is_whitespace))
    else {
        return false;
    };
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_loopback(host),
        _ => false,
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

impl Oidc {
    pub(super) fn validate(&self) -> Result<()> {
        if !is_safe(&self.issuer) || self.issuer.contains('?') {
            return wrong("issuer", "is no address such as https://login.example.com; http is for this machine alone");
        }
        if self.client_id.is_empty() {
            return wrong("client_id", "is empty");
        }
        if self.user_claim.is_empty() {
            return wrong("user_claim", "is empty");
        }
        if let Some(url) = &self.url {
            let has_path = url.parse::<Uri>().is_ok_and(|uri| !matches!(uri.path(), "" | "/") || uri.query().is_some());
            if !is_safe(url) || has_path {
                return wrong("url", "is no address such as https://ticks.example.com; http is for this machine alone");
            }
        }
        if self.roles_claim.is_none() != self.roles.is_empty() {
            return wrong("roles", "set roles_claim and [auth.oidc.roles], or neither");
        }
        if [self.audiences.len(), self.scopes.len(), self.hosts.len()].into_iter().any(|length| length > LIST_MAX) {
            return wrong("audiences", format!("a list has at most {LIST_MAX} names"));
        }
        let is_text = |scope: &String| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.scopes.iter().all(is_text) {
            return wrong("scopes", "a scope is a word");
        }
        if !(60..=7 * 86_400).contains(&self.session_seconds_max) {
            return wrong("session_seconds_max", "is not between a minute and a week");
        }
        Ok(())
    }

    /// Files of settings, whose relative paths are taken from the folder of these.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.client_secret_file.iter_mut().chain(&mut self.authority)
    }

    /// The client's secret, if there is one.
    pub(crate) fn read_secret(&self) -> Result<Option<String>> {
        let Some(path) = &self.client_secret_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        match text.trim() {
            "" => wrong("client_secret_file", "the file is empty"),
            secret => Ok(Some(secret.to_owned())),
        }
    }

    /// The console's name for the provider.
    pub(crate) fn shown_name(&self) -> String {
        let host = || self.issuer.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
        self.name.clone().or_else(host).unwrap_or_default()
    }

    /// Whether an endpoint of the provider is where it may be.
    pub(crate) fn allows(&self, url: &str) -> bool {
        let host = |url: &str| url.parse::<Uri>().ok().and_then(|uri| Some(uri.host()?.to_ascii_lowercase()));
        let Some(url_host) = host(url).filter(|_| is_safe(url)) else { return false };
        host(&self.issuer).as_ref() == Some(&url_host)
            || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(&url_host))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn parse(text: &str) -> Result<Oidc> {
        Settings::parse(&format!("[auth.oidc]\n{text}")).map(|settings| settings.auth.oidc.unwrap())
    }

    const LEAST: &str = "issuer = \"https://login.example.com/desk\"\nclient_id = \"splay\"\n";

    #[test]
    fn a_provider_and_a_client_are_enough() {
        let oidc = parse(LEAST).unwrap();
        assert_eq!((oidc.user_claim.as_str(), oidc.shown_name().as_str()), ("sub", "login.example.com"));
        assert_eq!(oidc.session_seconds_max, OIDC_SESSION_SECONDS);
    }

    #[test]
    fn what_would_send_secrets_in_clear_text_or_means_nothing_is_refused() {
        for text in [
            "issuer = \"http://login.example.com\"\nclient_id = \"splay\"",
            "issuer = \"https://a@b\"\nclient_id = \"splay\"",
            "issuer = \"login.example.com\"\nclient_id = \"splay\"",
            "issuer = \"https://login.example.com\"\nclient_id = \"\"",
            &format!("{LEAST}url = \"http://ticks.example.com\""),
            &format!("{LEAST}url = \"https://ticks.example.com/below\""),
            &format!("{LEAST}roles_claim = \"groups\""),
            &format!("{LEAST}roles = {{ a = \"b\" }}"),
            &format!("{LEAST}session_seconds_max = 1"),
            &format!("{LEAST}scopes = [\"a b\"]"),
            &format!("{LEAST}client_secret = \"s\""),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for issuer in ["http://127.0.0.1:9000", "http://localhost:9000/x", "http://[::1]:1"] {
            assert!(parse(&format!("issuer = \"{issuer}\"\nclient_id = \"splay\"")).is_ok(), "{issuer}");
        }
    }

    #[test]
    fn endpoints_are_on_hosts_that_are_named() {
        let oidc = parse(&format!("{LEAST}hosts = [\"keys.example.com\"]")).unwrap();
        assert!(oidc.allows("https://LOGIN.example.com/token") && oidc.allows("https://keys.example.com/jwks"));
        for url in
            ["https://example.com/", "http://login.example.com/token", "https://login.example.com@evil.com/", "x"]
        {
            assert!(!oidc.allows(url), "{url}");
        }
    }
}
