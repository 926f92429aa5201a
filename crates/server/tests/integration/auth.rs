//! Tokens, TLS, and what a server refuses to be.

use splay_server::settings::Settings;
use splay_server::{Error, Server};
use splay_store::{Database, Secret};

use crate::support::{Served, request};

fn with_tokens() -> (Served, String, String) {
    let (reader, writer) = (Secret::generate().unwrap(), Secret::generate().unwrap());
    let text = format!(
        "[[auth.tokens]]\nname = \"reader\"\nblake3 = \"{}\"\nroles = [\"read\"]\n\
         [[auth.tokens]]\nname = \"writer\"\nblake3 = \"{}\"\nroles = [\"write\"]\n",
        reader.blake3, writer.blake3
    );
    (Served::with(&text), reader.token, writer.token)
}

#[test]
fn every_path_asks_for_the_token_that_it_needs() {
    let (served, reader, writer) = with_tokens();
    let (reader, writer) = (format!("Bearer {reader}"), format!("Bearer {writer}"));
    let line: &[u8] = b"trade,sym=IBM price=1 1\n";
    for (method, path, body, reads) in [
        ("GET", "/query?query=select%201", &b""[..], true),
        ("POST", "/query", b"select 1", true),
        ("GET", "/tables", b"", true),
        ("GET", "/tables/trade", b"", true),
        ("GET", "/tables/trade/storage", b"", true),
        ("GET", "/metrics", b"", true),
        ("GET", "/status", b"", true),
        ("GET", "/api/v1/write?producer=feed", b"", false),
        ("DELETE", "/api/v1/write?producer=feed&sequence=1", b"", false),
        ("POST", "/api/v2/write", line, false),
        ("POST", "/write", line, false),
        ("POST", "/api/v1/write?table=trade", b"", false),
        ("GET", "/subscribe", b"", true),
    ] {
        let status = |headers: &[(&str, &str)]| {
            let upgrade = [
                ("upgrade", "websocket"),
                ("connection", "upgrade"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ];
            let extra: &[(&str, &str)] = if path == "/subscribe" { &upgrade } else { &[] };
            // The first `connection` header says close.
            if path == "/subscribe" {
                return crate::subscribe::upgrade_status(served.http(), headers);
            }
            request(served.http(), method, path, &[headers, extra].concat(), body).status
        };
        let (right, wrong) = if reads { (&reader, &writer) } else { (&writer, &reader) };
        assert_eq!(status(&[]), 401, "{path}");
        assert_eq!(status(&[("authorization", "Bearer wrong")]), 401, "{path}");
        assert_eq!(status(&[("authorization", wrong)]), 403, "{path}");
        let ok = status(&[("authorization", right)]);
        assert!(ok == 200 || ok == 204 || ok == 101 || (path.starts_with("/api/v1") && ok == 400), "{path}: {ok}");
    }
    for path in ["/health", "/ready", "/ping", "/"] {
        let answer = request(served.http(), "GET", path, &[("accept-encoding", "gzip")], b"");
        assert!(answer.status < 300, "{path}");
    }
}

#[test]
fn with_tokens_line_protocol_is_off_unless_named() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let token = Secret::generate().unwrap();
    let text = format!(
        "http.address = \"127.0.0.1:0\"\nflight.address = \"off\"\n[[auth.tokens]]\nname = \"a\"\nblake3 = \"{}\"\n",
        token.blake3
    );
    let settings = Settings::parse(&text).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ingest = std::sync::Arc::new(crate::memory::MemoryIngest::default());
    let server = runtime.block_on(Server::bind(settings, database, Some(ingest))).unwrap();
    assert_eq!((server.addresses().line, server.addresses().flight), (None, None));
}

#[test]
fn addresses_that_others_reach_need_token_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind = |text: &str| {
        let ingest = std::sync::Arc::new(crate::memory::MemoryIngest::default());
        runtime.block_on(Server::bind(Settings::parse(text).unwrap(), database.clone(), Some(ingest)))
    };
    let token = format!("[[auth.tokens]]\nname = \"a\"\nblake3 = \"{}\"\n", Secret::generate().unwrap().blake3);
    let off = "http.address = \"off\"\nflight.address = \"off\"\nline.address = \"off\"\n";
    for (listener, text, missing) in [
        ("http", String::new(), "token"),
        ("flight", String::new(), "TLS"),
        ("http", token.clone(), "[tls]"),
        ("postgres", String::new(), "token"),
        ("postgres", token.clone(), "[tls]"),
        ("line", token, "use /api/v2/write"),
    ] {
        let off = match listener {
            "postgres" => format!("{off}postgres.address = \"0.0.0.0:0\"\n"),
            _ => off.replace(&format!("{listener}.address = \"off\""), &format!("{listener}.address = \"0.0.0.0:0\"")),
        };
        let error = bind(&format!("{off}{text}")).unwrap_err();
        assert!(matches!(error, Error::Open { .. }), "{error}");
        let setting = if missing == "TLS" { "[tls]" } else { missing };
        assert!(error.to_string().contains(setting), "{error}");
    }
    let tls = "http.address = \"off\"\nflight.address = \"off\"\nline.address = \"off\"\n[tls]\ncertificate = \"/nowhere/cert.pem\"\nkey = \"/nowhere/key.pem\"\n";
    assert!(matches!(bind(tls).unwrap_err(), Error::Tls { .. }));
}

#[test]
fn web_pages_of_other_origins_are_refused() {
    let served = Served::new();
    let ask = |headers: &[(&str, &str)]| request(served.http(), "GET", "/query?query=select%201", headers, b"").status;
    let own = format!("http://{}", served.http());
    assert_eq!(ask(&[("origin", &own)]), 200);
    assert_eq!(ask(&[("origin", "https://example.com")]), 403);
    assert_eq!(ask(&[("origin", "null")]), 403);
    // A name that someone made to point at this machine.
    let mut stream = crate::support::connect(served.http());
    use std::io::Write;
    stream.write_all(b"GET /tables HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(crate::support::read_answer(stream).status, 403);
}

/// Regression: a GET that a page makes a browser send without CORS has no `Origin`, so that any page ran statements.
#[test]
fn what_a_browser_requests_for_another_site_is_refused() {
    let served = Served::new();
    let ask = |path: &str, site: &str, mode: &str, dest: &str| {
        let headers =
            [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest), ("accept-encoding", "gzip")];
        request(served.http(), "GET", path, &headers, b"")
    };
    let query = "/query?query=select%201";
    for site in ["same-origin", "none"] {
        assert_eq!(ask(query, site, "cors", "empty").status, 200, "{site}");
    }
    for (site, mode, dest) in [
        ("cross-site", "no-cors", "image"),
        ("cross-site", "no-cors", "script"),
        ("same-site", "no-cors", "empty"),
        ("cross-site", "navigate", "iframe"),
        ("cross-site", "navigate", "document"),
        ("anything", "cors", "empty"),
    ] {
        for path in [query, "/tables", "/status", "/health", "/nowhere"] {
            let answer = ask(path, site, mode, dest);
            assert_eq!((answer.status, answer.code()), (403, "forbidden".to_owned()), "{path} {site} {mode} {dest}");
        }
    }
    // A link of another site leads to the console, which an image of it doesn't load.
    for path in ["/", "/assets/nothing.js", "/licences.txt"] {
        assert_ne!(ask(path, "cross-site", "navigate", "document").status, 403, "{path}");
        assert_eq!(ask(path, "cross-site", "no-cors", "image").status, 403, "{path}");
    }
    let headers = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "websocket")];
    assert_eq!(crate::subscribe::upgrade_status(served.http(), &headers), 403);
    let posted = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("content-type", "text/plain")];
    assert_eq!(request(served.http(), "POST", "/query", &posted, b"select 1").status, 403);
}

#[test]
fn no_answer_may_be_embedded_or_taken_for_something_else() {
    let served = Served::new();
    for (path, status) in [("/query?query=select%201", 200), ("/health", 200), ("/nowhere", 404), ("/query", 400)] {
        let answer = served.get(path);
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["cross-origin-resource-policy"], "same-origin", "{path}");
    }
}

#[test]
fn a_request_of_http_1_1_has_one_host() {
    use std::io::Write;
    let served = Served::new();
    let status = |head: &str| {
        let mut stream = crate::support::connect(served.http());
        stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).unwrap();
        crate::support::read_answer(stream).status
    };
    assert_eq!(status("GET /health HTTP/1.1\r\n"), 400);
    assert_eq!(status("GET /health HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n"), 400);
    assert_eq!(status("GET /health HTTP/1.1\r\nhost: localhost\r\n"), 200);
    assert_eq!(status("GET /health HTTP/1.0\r\n"), 200);
}
