//! The web console's files, and what it asks that others don't. Whether the program has the console depends on its build.

use crate::support::{Served, TRADES, request};

const GZIP: (&str, &str) = ("accept-encoding", "gzip");

#[test]
fn the_page_is_there_or_says_what_builds_it() {
    let served = Served::new();
    let page = request(served.http(), "GET", "/", &[GZIP], b"");
    assert_eq!(page.status, 200);
    let policy = &page.headers["content-security-policy"];
    for rule in ["default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{rule}");
    }
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    if splay_console::ASSETS.is_empty() {
        assert!(page.text().contains("`make console`"), "{}", page.text());
        assert!(!page.headers.contains_key("content-encoding"));
        return;
    }
    assert_eq!(page.headers["content-encoding"], "gzip");
    assert_eq!(page.headers["cache-control"], "no-cache");
    assert_eq!(page.body, splay_console::find("index.html").unwrap().gzip);
    let again = request(served.http(), "GET", "/", &[GZIP, ("if-none-match", &page.headers["etag"])], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(served.get("/").status, 406);
}

#[test]
fn assets_are_kept_for_ever_and_nothing_else_is_served() {
    let served = Served::new();
    for asset in splay_console::ASSETS.iter().filter(|asset| asset.name.starts_with("assets/")) {
        let answer = request(served.http(), "GET", &format!("/{}", asset.name), &[GZIP], b"");
        assert_eq!((answer.status, &answer.body[..]), (200, asset.gzip), "{}", asset.name);
        assert!(answer.headers["cache-control"].contains("immutable"), "{}", asset.name);
        assert_eq!(answer.headers["content-type"], asset.content_type(), "{}", asset.name);
    }
    for path in ["/assets/", "/assets/none.js", "/assets/..%2Findex.html", "/index.html", "/assets/%2e%2e/README.md"] {
        assert_eq!(request(served.http(), "GET", path, &[GZIP], b"").status, 404, "{path}");
    }
    assert_eq!(request(served.http(), "POST", "/", &[GZIP], b"").status, 405);
}

#[test]
fn other_sites_and_other_names_do_not_get_the_page() {
    let served = Served::new();
    assert_eq!(request(served.http(), "GET", "/", &[GZIP, ("origin", "http://example.com")], b"").status, 403);
}

#[test]
fn storage_tells_partitions_columns_and_loads() {
    let served = Served::new();
    let storage = served.get("/tables/trade/storage").json();
    assert_eq!((storage["name"].as_str(), storage["partition_count"].as_u64()), (Some("trade"), Some(1)));
    let partition = &storage["partitions"][0];
    assert_eq!(partition["date"], "2026-01-01");
    assert_eq!(partition["tiers"], serde_json::json!(["mapped"]));
    assert_eq!(partition["rows"].as_i64(), Some(TRADES));
    assert_eq!((partition["live_rows"].as_u64(), partition["segments"].as_u64()), (Some(0), Some(1)));
    assert!(partition["bytes"].as_u64().unwrap() > 0);
    assert_eq!(partition["time_min"].as_i64(), Some(1_767_225_600_000_000_000));
    let columns: Vec<_> =
        storage["columns"].as_array().unwrap().iter().map(|column| column["column"].clone()).collect();
    assert_eq!(columns, ["time", "sym", "price"]);
    assert_eq!(storage["load_count"].as_u64(), Some(0), "rows without a source");
    assert_eq!(served.get("/tables/none/storage").code(), "not_found");
}
