//! The provider's endpoints and keys, which it publishes and changes.
//!
//! - They are fetched on demand, and again when a token names an unknown key. Strangers can forge such tokens, so
//!   requests are limited: [`ASKS`] at once, and one more each [`ASK_INTERVAL`].
//! - If the provider is unreachable, cached keys stay valid for [`CACHE_TIME`]; after [`FRESH_TIME`] they are
//!   refreshed in the background, so that a withdrawn key expires.
//! - Requests go only to the issuer's host and those that the settings name. Redirects aren't followed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{HeaderValue, Method, Uri, header};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use super::form::{UrlEncodedForm, percent_encode};
use super::jwt::{Claims, ExpectedClaims, Header, Key, TokenRefusal, UnverifiedToken};
use crate::authority::connector;
use crate::client::{Client, HttpAnswer};
use crate::error::{Error, Result};
use crate::problem::{Code, Outcome, Problem};
use crate::settings::{Oidc, is_safe};

/// Bytes of an answer of the provider.
const ANSWER_BYTES_MAX: usize = 512 << 10;

/// How long the provider is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys of a provider.
const KEYS_MAX: usize = 64;

/// Keys that are tried for a token that names none.
const TRIED_MAX: usize = 8;

/// Codes that are redeemed at a time: who has signed in nowhere can begin that.
const REDEEMED_MAX: usize = 8;

/// Requests for keys at once, and the time after which there may be another one.
const ASKS: u32 = 4;
const ASK_INTERVAL: Duration = Duration::from_secs(30);

const FRESH_TIME: Duration = Duration::from_secs(3600);
const CACHE_TIME: Duration = Duration::from_secs(24 * 3600);

/// The provider's description of itself.
#[derive(Debug, Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Endpoints and keys of the provider.
#[derive(Debug)]
struct ProviderData {
    discovery: Discovery,
    keys: Vec<Key>,
    at: Instant,
}

/// How many requests there may be.
#[derive(Debug)]
struct RequestAllowance {
    requests: u32,
    since: Instant,
    failed: Option<Instant>,
}

impl RequestAllowance {
    fn take(&mut self, now: Instant) -> bool {
        let more = now.saturating_duration_since(self.since).as_secs() / ASK_INTERVAL.as_secs();
        if more > 0 {
            self.requests = self.requests.saturating_add(u32::try_from(more).unwrap_or(ASKS)).min(ASKS);
            self.since = now;
        }
        let is_left = self.requests > 0;
        self.requests = self.requests.saturating_sub(1);
        is_left
    }
}

/// Asks the provider, and remembers what it says.
pub(super) struct Provider {
    settings: Oidc,
    secret: Option<String>,
    tls: Option<TlsConnector>,
    data: Mutex<Option<Arc<ProviderData>>>,
    /// Is locked while the provider is asked, so that there is one request at a time.
    asks: tokio::sync::Mutex<RequestAllowance>,
    redeemed: Semaphore,
    /// Whether a refresh is under way in the background.
    refreshes: AtomicBool,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
}

fn away(reason: &dyn std::fmt::Display) -> Problem {
    tracing::warn!(%reason, "the provider that signs users in can't be asked");
    Problem::new(Code::Provider, "the provider that signs users in can't be asked now; those who are signed in go on")
}

fn refuse<T>(reason: TokenRefusal) -> Outcome<T> {
    Err(Problem::new(Code::Unauthorized, format!("the token is not accepted: {reason}")))
}

impl Provider {
    /// # Errors
    /// [`Error::Io`], [`Error::Setting`], [`Error::Tls`] for files that can't be used.
    pub(super) fn new(settings: &Oidc) -> Result<Provider> {
        let is_tls = settings.issuer.starts_with("https:") || settings.authority.is_some();
        let tls = is_tls.then(|| connector(settings.authority.as_deref(), "auth.oidc.authority")).transpose()?;
        let asks = RequestAllowance { requests: ASKS, since: Instant::now(), failed: None };
        Ok(Provider {
            secret: settings.read_secret()?,
            settings: settings.clone(),
            tls,
            data: Mutex::new(None),
            asks: tokio::sync::Mutex::new(asks),
            redeemed: Semaphore::new(REDEEMED_MAX),
            refreshes: AtomicBool::new(false),
        })
    }

    pub(super) fn settings(&self) -> &Oidc {
        &self.settings
    }

    fn current(&self) -> Option<Arc<ProviderData>> {
        let data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        data.clone().filter(|data| data.at.elapsed() < CACHE_TIME)
    }

    /// The cached data of the provider, requested if there are none.
    async fn data(self: &Arc<Self>) -> Outcome<Arc<ProviderData>> {
        let Some(data) = self.current() else {
            let answer = self.ask(None).await?;
            return answer.ok_or_else(|| away(&"it was asked too often"));
        };
        if data.at.elapsed() >= FRESH_TIME && !self.refreshes.swap(true, Ordering::Relaxed) {
            let (provider, last) = (Arc::clone(self), Arc::clone(&data));
            tokio::spawn(async move {
                drop(provider.ask(Some(&last)).await);
                provider.refreshes.store(false, Ordering::Relaxed);
            });
        }
        Ok(data)
    }

    /// Asks the provider for what differs from `last`; none if it was asked too often.
    async fn ask(&self, last: Option<&Arc<ProviderData>>) -> Outcome<Option<Arc<ProviderData>>> {
        let begun = Instant::now();
        let mut asks = self.asks.lock().await;
        // Somebody else may have asked meanwhile.
        if let Some(data) = self.current()
            && last.is_none_or(|last| !Arc::ptr_eq(last, &data))
        {
            return Ok(Some(data));
        }
        if asks.failed.is_some_and(|failed| failed >= begun) {
            return Err(away(&"it didn't answer somebody else"));
        }
        if !asks.take(Instant::now()) {
            return Ok(None);
        }
        let fetched = self.fetch().await.inspect_err(|_| asks.failed = Some(Instant::now()));
        let data = Arc::new(fetched.map_err(|reason| away(&reason))?);
        *self.data.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&data));
        Ok(Some(data))
    }

    async fn fetch(&self) -> Result<ProviderData, String> {
        let issuer = self.settings.issuer.trim_end_matches('/');
        let document = self.get(&format!("{issuer}/.well-known/openid-configuration")).await?;
        let discovery: Discovery =
            serde_json::from_slice(&document).map_err(|_| "its description of itself is malformed".to_owned())?;
        if discovery.issuer != self.settings.issuer {
            return Err("it describes another issuer than auth.oidc.issuer".to_owned());
        }
        let Discovery { authorization_endpoint, token_endpoint, jwks_uri, .. } = &discovery;
        // Browsers are sent to the first, which may be anywhere that is safe.
        if !is_safe(authorization_endpoint) {
            return Err("its authorization endpoint isn't https".to_owned());
        }
        for url in [token_endpoint, jwks_uri] {
            if !self.settings.allows(url) {
                let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
                return Err(format!("an endpoint is on {host:?}, which auth.oidc.hosts doesn't name, or isn't https"));
            }
        }
        let set: Value = serde_json::from_slice(&self.get(jwks_uri).await?).map_err(|_| "its keys are malformed")?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or("its keys are malformed")?;
        let keys = keys.iter().take(KEYS_MAX).filter_map(Key::of).collect();
        Ok(ProviderData { discovery, keys, at: Instant::now() })
    }

    fn client(&self, url: &str) -> Result<(Client, String), String> {
        let lacks = || Error::Setting {
            setting: "auth.oidc".to_owned(),
            reason: "an issuer with http has no endpoints with https, unless auth.oidc.authority is set".to_owned(),
        };
        let client = Client::with_roots(url, None, || self.tls.clone().ok_or_else(lacks));
        let client = client.map_err(|error| error.to_string())?;
        let uri: Uri = url.parse().map_err(|_| "an endpoint is no address".to_owned())?;
        Ok((client, uri.path_and_query().map_or("/", |path| path.as_str()).to_owned()))
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Body,
        of: impl FnOnce(Builder) -> Builder,
    ) -> Result<HttpAnswer, String> {
        let (client, path) = self.client(url)?;
        let head = of(client.head(method, &path, None).header(header::ACCEPT, "application/json"));
        client.exchange(head, body, ANSWER_BYTES_MAX, PATIENCE).await.map_err(|error| error.to_string())
    }

    async fn get(&self, url: &str) -> Result<bytes::Bytes, String> {
        let answer = self.send(Method::GET, url, Body::empty(), |head| head).await?;
        match answer.status {
            200 => Ok(answer.body),
            status => Err(format!("it answered {status}")),
        }
    }

    /// The claims of a token of the provider, and until when they count, in seconds since the epoch.
    ///
    /// # Errors
    /// [`Code::Unauthorized`], [`Code::Provider`].
    pub(super) async fn verify(self: &Arc<Self>, token: &str, expected: ExpectedClaims<'_>) -> Outcome<(Claims, i64)> {
        let unverified = match UnverifiedToken::parse(token) {
            Ok(unverified) => unverified,
            Err(reason) => return refuse(reason),
        };
        let mut data = self.data().await?;
        let has_key = |data: &ProviderData, header: &Header| data.keys.iter().any(|key| key.is_for(header));
        if !has_key(&data, &unverified.header)
            && let Some(newer) = self.ask(Some(&data)).await?
        {
            data = newer;
        }
        let keys = data.keys.iter().filter(|key| key.is_for(&unverified.header)).take(TRIED_MAX);
        let verified = match has_key(&data, &unverified.header) {
            true => unverified.verify(keys),
            false => Err("the provider has no such key"),
        };
        let checked = verified.and_then(|claims| expected.check(&claims).map(|until| (claims, until)));
        checked.or_else(refuse)
    }

    /// The URL to which a browser is sent to sign in.
    ///
    /// # Errors
    /// [`Code::Provider`].
    pub(super) async fn sign_in_url(self: &Arc<Self>, form: &UrlEncodedForm) -> Outcome<String> {
        let data = self.data().await?;
        let endpoint = &data.discovery.authorization_endpoint;
        let joint = if endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{endpoint}{joint}{}", form.text()))
    }

    /// The ID token that the provider gives for a code.
    ///
    /// # Errors
    /// [`Code::Provider`]; [`Code::Unauthorized`] for a code that it doesn't accept; [`Code::Busy`].
    pub(super) async fn redeem(self: &Arc<Self>, mut form: UrlEncodedForm) -> Outcome<String> {
        #[derive(Deserialize)]
        struct TokenResponse {
            id_token: String,
        }
        let busy = |_| Problem::new(Code::Busy, "too many people sign in at once");
        let _place = self.redeemed.try_acquire().map_err(busy)?;
        let data = self.data().await?;
        let methods = data.discovery.token_endpoint_auth_methods_supported.as_deref();
        let is_basic = methods.is_none_or(|methods| {
            let has = |name: &str| methods.iter().any(|method| method == name);
            has("client_secret_basic") || !has("client_secret_post")
        });
        let client = self.settings.client_id.as_str();
        form.add("client_id", client);
        let mut authorization = None;
        if let Some(secret) = &self.secret {
            if is_basic {
                let pair = format!("{}:{}", percent_encode(client), percent_encode(secret));
                let value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair)));
                authorization = Some(value.map_err(|error| away(&error))?);
            } else {
                form.add("client_secret", secret);
            }
        }
        let with_headers = |head: Builder| {
            let head = head.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            authorization.into_iter().fold(head, |head, value| head.header(header::AUTHORIZATION, value))
        };
        let sent = self.send(Method::POST, &data.discovery.token_endpoint, form.text().into(), with_headers);
        let answer = sent.await.map_err(|reason| away(&reason))?;
        match answer.status {
            200 => {
                let token_response: TokenResponse =
                    serde_json::from_slice(&answer.body).map_err(|_| away(&"it gave no ID token"))?;
                Ok(token_response.id_token)
            }
            status @ 400..500 => {
                tracing::warn!(status, "the provider refused the code of a sign-in, or this client");
                Err(Problem::new(Code::Unauthorized, "the provider didn't accept the sign-in: begin it again"))
            }
            status => Err(away(&format!("it answered {status}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_keys_are_few() {
        let start = Instant::now();
        let mut asks = RequestAllowance { requests: ASKS, since: start, failed: None };
        let count = |asks: &mut RequestAllowance, at: Instant| (0..100).filter(|_| asks.take(at)).count();
        assert_eq!(count(&mut asks, start), 4);
        assert_eq!(count(&mut asks, start + ASK_INTERVAL - Duration::from_secs(1)), 0);
        assert_eq!(count(&mut asks, start + ASK_INTERVAL), 1);
        assert_eq!(count(&mut asks, start + ASK_INTERVAL * 1000), 4);
    }
}
