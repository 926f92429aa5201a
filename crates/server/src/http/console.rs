//! `/` and `/assets/`: the embedded web console.
//!
//! - The files contain no data, so they need no token; the paths that serve data do.
//! - They are stored compressed and never decompressed here: a client without gzip gets an error.
//! - The content security policy lets the page load only from this server, and forbids frames.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use splay_console::Asset;

use crate::problem::{Code, Outcome, Problem};

/// The page's content security policy.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The answer of a program that was built without the console.
const ABSENT: &str = "This program was built without the web console: `make console`, which needs Node.js 20, and another build include it.\n";

/// Files whose names change with their bytes.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// `GET /`
pub(super) async fn page(headers: HeaderMap) -> Response {
    match splay_console::find("index.html") {
        Some(page) => answer(page, &headers, "no-cache"),
        None => with_security_headers(ABSENT.into_response()),
    }
}

/// `GET /licences.txt`: those of the parts that the console is made of.
pub(super) async fn licences(headers: HeaderMap) -> Outcome<Response> {
    let text = splay_console::find("licences.txt");
    Ok(answer(text.ok_or_else(absent)?, &headers, "no-cache"))
}

/// `GET /assets/NAME`
pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Outcome<Response> {
    let asset = splay_console::find(&format!("assets/{name}"));
    Ok(answer(asset.ok_or_else(absent)?, &headers, FOR_EVER))
}

fn absent() -> Problem {
    Problem::new(Code::NotFound, "the console has no such file")
}

fn answer(asset: &Asset, headers: &HeaderMap, caching: &'static str) -> Response {
    let mut response = if has_same(headers, asset.etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if takes_gzip(headers) {
        let kind = [(header::CONTENT_TYPE, asset.content_type()), (header::CONTENT_ENCODING, "gzip")];
        (kind, asset.gzip).into_response()
    } else {
        let text = "The console's files are compressed: send Accept-Encoding: gzip.\n";
        return with_security_headers((StatusCode::NOT_ACCEPTABLE, text).into_response());
    };
    let headers = [(header::ETAG, asset.etag), (header::CACHE_CONTROL, caching), (header::VARY, "accept-encoding")];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    with_security_headers(response)
}

/// The response with what keeps the page to itself, besides what all answers have.
fn with_security_headers(mut response: Response) -> Response {
    let rules = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in rules {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the client has these bytes.
fn has_same(headers: &HeaderMap, etag: &str) -> bool {
    let tags = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    tags.flat_map(|tags| tags.split(','))
        .any(|tag| matches!(tag.trim(), "*") || tag.trim().trim_start_matches("W/") == etag)
}

/// Whether the client says that it takes gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    codings.flat_map(|codings| codings.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.trim().parse() == Ok(0.0));
        matches!(name.trim(), "gzip" | "x-gzip" | "*") && !is_refused
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    const FILE: Asset = Asset { name: "assets/a.js", etag: "\"12\"", gzip: b"\x1f\x8bpacked" };

    #[test]
    fn files_are_sent_packed_to_those_who_take_it() {
        for (codings, status) in
            [("gzip, deflate, br", 200), ("br, *", 200), ("gzip;q=0.5", 200), ("gzip;q=0, br", 406), ("", 406)]
        {
            let response = answer(&FILE, &headers(header::ACCEPT_ENCODING, codings), FOR_EVER);
            assert_eq!(response.status().as_u16(), status, "{codings}");
            assert!(response.headers().contains_key(header::CONTENT_SECURITY_POLICY), "{codings}");
        }
        assert_eq!(answer(&FILE, &HeaderMap::new(), FOR_EVER).status(), StatusCode::NOT_ACCEPTABLE);
    }

    #[test]
    fn bytes_that_the_client_has_are_not_sent_again() {
        for (tags, is_same) in
            [("\"12\"", true), ("\"11\", W/\"12\"", true), ("*", true), ("\"1\"", false), ("12", false)]
        {
            assert_eq!(has_same(&headers(header::IF_NONE_MATCH, tags), FILE.etag), is_same, "{tags}");
        }
        let response = answer(&FILE, &headers(header::IF_NONE_MATCH, "\"12\""), "no-cache");
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(response.headers()[header::ETAG], "\"12\"");
    }
}
