//! `/auth`: sign-in of browsers by the provider of the settings (ADR 83).
//!
//! - A session is a cookie that scripts can't read and that is sent only with requests of this site. Because cookies
//!   don't distinguish the ports of a host, it counts only if the browser states that the request has this very
//!   origin.
//! - Browsers are redirected to the provider's sign-in, back to `/auth/oidc/callback`, and from there to `/`; nowhere
//!   else, whatever a request says.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Server, is_this_machine};
use crate::callers::{Caller, Callers, now_seconds};
use crate::oidc::{Cookies, IdentityProvider, SignInReturn};
use crate::problem::{Code, Outcome, Problem};
use crate::settings::Role;

/// Seconds that a browser keeps a sign-in that has begun.
const SIGN_IN_SECONDS: u64 = 600;

/// Bytes of a code.
const CODE_BYTES_MAX: usize = 4096;

/// Bytes of a provider's reason to refuse a sign-in.
const REASON_BYTES_MAX: usize = 64;

/// The cookie of a session, where the request is of this origin.
pub(super) fn session_of<'a>(callers: &Callers, headers: &'a HeaderMap) -> Option<&'a str> {
    let session = &callers.vouching()?.cookies().session;
    // The header's value was compared with the host before.
    let has_origin = headers.contains_key(header::ORIGIN);
    let is_same = headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    cookie(headers, session).filter(|_| has_origin || is_same)
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn set_cookie(response: &mut Response, cookies: &Cookies, (name, value): (&str, &str), site: &str, seconds: u64) {
    let secure = if cookies.is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite={site}; Max-Age={seconds}{secure}");
    if let Ok(value) = HeaderValue::try_from(text) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// Marks a response as one that isn't cached and has no referrer.
fn private(mut response: Response) -> Response {
    for (name, value) in [(header::CACHE_CONTROL, "no-store"), (header::REFERRER_POLICY, "no-referrer")] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn identity_provider(callers: &Callers) -> Outcome<&IdentityProvider> {
    callers.vouching().ok_or_else(|| Problem::new(Code::NotFound, "this server has no provider that signs users in"))
}

/// The console's address, which browsers come back to: that of the settings, or this machine's by the name that the browser used.
fn console_of(vouching: &IdentityProvider, headers: &HeaderMap) -> Outcome<String> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let Some(url) = vouching.console() else {
        let scheme = if vouching.cookies().is_secure { "https" } else { "http" };
        return match is_this_machine(host) {
            true => Ok(format!("{scheme}://{host}")),
            false => {
                Err(Problem::new(Code::Request, "set auth.oidc.url, the console's address, to sign in from elsewhere"))
            }
        };
    };
    let is_it = url
        .parse::<Uri>()
        .is_ok_and(|uri| uri.authority().is_some_and(|authority| authority.as_str().eq_ignore_ascii_case(host)));
    match is_it {
        true => Ok(url.to_owned()),
        false => Err(Problem::new(Code::Request, format!("sign in at the console's address, {url}"))),
    }
}

/// `GET /auth`: how users may sign in here, and who has signed in.
pub(super) async fn state(State(server): Server, headers: HeaderMap) -> Response {
    let session = session_of(&server.callers, &headers);
    let caller = session.and_then(|token| server.callers.of_session(token, Role::Read).ok());
    let user = caller.as_ref().map(Caller::name);
    let provider = server.callers.vouching().map(|vouching| json!({ "name": vouching.name(), "path": "/auth/oidc" }));
    let session_json: Value = json!({ "oidc": provider, "session": user.map(|user| json!({ "user": &*user })) });
    private(Json(session_json).into_response())
}

/// `GET /auth/oidc`: sends the browser to the provider.
pub(super) async fn begin(State(server): Server, headers: HeaderMap) -> Response {
    let begun = async {
        let vouching = identity_provider(&server.callers)?;
        let console = console_of(vouching, &headers)?;
        let sign_in = vouching.begin(&console, now_seconds()).await?;
        let there = HeaderValue::try_from(&sign_in.url);
        let there = there.map_err(|_| Problem::new(Code::Provider, "the provider's sign-in has no address"))?;
        let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, there)]).into_response();
        let cookies = vouching.cookies();
        // The browser comes back from another site, with which strict cookies aren't sent.
        set_cookie(&mut response, cookies, (&cookies.sign_in, &sign_in.cookie), "Lax", SIGN_IN_SECONDS);
        Ok(response)
    };
    private(begun.await.unwrap_or_else(|problem| problem_response(&problem)))
}

/// The parameters with which the provider sends the browser back.
#[derive(Deserialize)]
pub(super) struct Callback {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// `GET /auth/oidc/callback`: the browser is back, and signed in if the provider says so.
pub(super) async fn callback(
    State(server): Server,
    Query(callback): Query<Callback>,
    headers: HeaderMap,
) -> Outcome<Response> {
    let vouching = identity_provider(&server.callers)?;
    let cookies = vouching.cookies();
    let mut response = match finish(&server.callers, vouching, &callback, &headers).await {
        Ok((token, seconds)) => {
            let home = HeaderValue::from_static("/");
            let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, home)]).into_response();
            set_cookie(&mut response, cookies, (&cookies.session, &token), "Strict", seconds);
            response
        }
        Err(problem) => {
            tracing::warn!(
                code = problem.code.as_str(),
                reason = problem.message,
                "a sign-in by the provider was refused"
            );
            problem_response(&problem)
        }
    };
    set_cookie(&mut response, cookies, (&cookies.sign_in, ""), "Lax", 0);
    Ok(private(response))
}

async fn finish(
    callers: &Callers,
    vouching: &IdentityProvider,
    callback: &Callback,
    headers: &HeaderMap,
) -> Outcome<(String, u64)> {
    let refused = |problem: Problem| {
        callers.note_refused_sign_in(&problem);
        problem
    };
    let now = now_seconds();
    let text = |parameter: &Option<String>| parameter.clone().unwrap_or_default();
    let (code, state, console) = (text(&callback.code), text(&callback.state), console_of(vouching, headers)?);
    if let Some(error) = &callback.error {
        let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        let reason: String = error.chars().filter(plain).take(REASON_BYTES_MAX).collect();
        return Err(refused(Problem::new(Code::Unauthorized, format!("the provider refused the sign-in: {reason}"))));
    }
    if code.is_empty() || code.len() > CODE_BYTES_MAX {
        return Err(refused(Problem::new(Code::Request, "the provider gave no code")));
    }
    let begun = cookie(headers, &vouching.cookies().sign_in).unwrap_or_default();
    let returned = SignInReturn { code: &code, state: &state, issuer: callback.iss.as_deref(), console: &console };
    let browser = vouching.finish(begun, returned, now).await.map_err(refused)?;
    callers.check_signed_in(&browser)?;
    Ok((vouching.keep(&browser, now)?, browser.seconds))
}

/// A failure as people read it.
fn problem_response(problem: &Problem) -> Response {
    let text =
        format!("You aren't signed in ({}): {}\n\nThe console is at /\n", problem.code.as_str(), problem.message);
    let mut response = (problem.code.status(), text).into_response();
    if problem.code.is_retryable() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(problem.retry_seconds()));
    }
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `POST /auth/sign-out`
pub(super) async fn end(State(server): Server, headers: HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(vouching) = server.callers.vouching()
        && let Some(token) = session_of(&server.callers, &headers)
    {
        if let Some(user) = vouching.sign_out(token) {
            server.callers.note_sign_out(&user);
        }
        let cookies = vouching.cookies();
        set_cookie(&mut response, cookies, (&cookies.session, ""), "Strict", 0);
    }
    private(response)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_among_others() {
        let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static("a=1; splay=x=y;b=2"))]);
        assert_eq!(cookie(&headers, "splay"), Some("x=y"));
        assert_eq!((cookie(&headers, "b"), cookie(&headers, "splay2")), (Some("2"), None));
        assert_eq!(cookie(&HeaderMap::new(), "b"), None);
    }
}
