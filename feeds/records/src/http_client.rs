//! HTTP requests to the server and the registry.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::settings::Access;

/// Bytes of an answer. The largest are schemas and the columns of a table.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// A client of one HTTP server, with its credentials.
pub struct HttpClient {
    agent: Agent,
    url: String,
    /// The value of the header `authorization`; never shown.
    authorization: Option<String>,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").field("url", &self.url).finish_non_exhaustive()
    }
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Seconds of `retry-after`.
    pub retry_after: Option<Duration>,
    /// The body as JSON; null if it is none.
    pub json: serde_json::Value,
}

impl HttpClient {
    /// The client of a URL, with the secrets that settings name.
    ///
    /// # Errors
    /// Variables that aren't set, a file of certificates that can't be read.
    pub fn new(access: &Access, timeout: Duration) -> Result<HttpClient, String> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(timeout))
            .timeout_connect(Some(timeout.min(Duration::from_secs(10))));
        if let Some(file) = &access.ca_file {
            let roots = RootCerts::new_with_certs(&certificates(file)?);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let authorization = match (&access.token_env, &access.user, &access.password_env) {
            (Some(name), None, None) => Some(format!("Bearer {}", secret(name)?)),
            (None, Some(user), Some(name)) => {
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{}", secret(name)?))))
            }
            (None, None, None) => None,
            _ => return Err("give token_env, or user and password_env".to_owned()),
        };
        let url = access.url.trim_end_matches('/').to_owned();
        Ok(HttpClient { agent: config.build().new_agent(), url, authorization })
    }

    /// Asks for a path.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn get(&self, path: &str) -> Result<HttpResponse, String> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        answer(request.call())
    }

    /// Sends bytes to a path.
    ///
    /// # Errors
    /// Why there is no answer: the bytes may have arrived or not.
    pub fn post(&self, path: &str, kind: &str, body: &[u8]) -> Result<HttpResponse, String> {
        let mut request = self.agent.post(format!("{}{path}", self.url)).header("content-type", kind);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        answer(request.send(body))
    }
}

fn answer(called: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<HttpResponse, String> {
    let mut response = called.map_err(|error| error.to_string())?;
    let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let mut body = Vec::new();
    let reader = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).reader();
    reader.take(ANSWER_BYTES_MAX).read_to_end(&mut body).map_err(|error| format!("the answer broke off: {error}"))?;
    Ok(HttpResponse {
        status: response.status().as_u16(),
        retry_after: retry_after.map(Duration::from_secs),
        json: serde_json::from_slice(&body).unwrap_or(serde_json::Value::Null),
    })
}

/// The value of a variable of the environment.
///
/// # Errors
/// It isn't set, or empty.
pub fn secret(name: &str) -> Result<String, String> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(value),
        _ => Err(format!("the environment variable {name} is not set")),
    }
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let pem = std::fs::read(file).map_err(|error| cannot(&error))?;
    let mut list = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| cannot(&error))? {
            list.push(certificate);
        }
    }
    if list.is_empty() { Err(cannot(&"no certificate in it")) } else { Ok(list) }
}

/// A text as a part of a URL.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(byte.into()),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_byte_by_byte() {
        assert_eq!(escaped("kafka/a b/ü&=#"), "kafka%2Fa%20b%2F%C3%BC%26%3D%23");
    }
}
