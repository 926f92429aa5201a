//! Followers over HTTP: who may follow, what a follower's server answers and refuses, and promotion.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use splay_capture::{Capture, CaptureSettings, Error, FollowerIdentity, Leader};
use splay_server::Server;
use splay_server::ingest::Ingest;
use splay_server::replica::{FollowerIngest, HttpLeader};
use splay_server::settings::Settings;
use splay_store::{Database, Secret};
use tokio::sync::oneshot;

use crate::support::{Answer, eventually, request};

const PORTS: &str = "http.address = \"127.0.0.1:0\"\nflight.address = \"off\"\nline.address = \"off\"\n";

const LINE: &[u8] = b"trade,sym=IBM price=1 1\n";

/// A server over a real journal.
struct Node {
    address: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    fn over(database: Database, ingest: Arc<dyn Ingest>, settings: &str) -> Node {
        let settings = Settings::parse(&format!("{PORTS}{settings}")).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (sender, bound) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let server = Server::bind(settings, database, Some(ingest)).await.unwrap();
                sender.send(server.addresses()).unwrap();
                server.run(async { drop(stopped.await) }).await;
            });
            runtime.shutdown_background();
        });
        let address = bound.recv().unwrap().http.unwrap();
        Node { address, stop: Some(stop), thread: Some(thread) }
    }

    fn leader(folder: &Path, settings: &str) -> Node {
        let database = Database::open_or_create(folder).unwrap();
        let (capture, _) = Capture::open(database.clone(), capture_settings()).unwrap();
        Node::over(database, Arc::new(capture), settings)
    }

    fn follower(folder: &Path, leader: &Node, token: Option<&str>) -> Node {
        let (database, follower) = start(folder, leader, token).unwrap();
        Node::over(database, Arc::new(follower), "")
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &[u8]) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        request(self.address, method, path, &headers, body)
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, None, b"").json()
    }

    fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.ask("POST", path, None, body)
    }

    fn count(&self) -> u64 {
        let answer = self.get("/query?query=select%20count(*)%20from%20trade&format=json");
        answer["rows"][0][0].as_u64().unwrap_or(0)
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

fn capture_settings() -> CaptureSettings {
    CaptureSettings { disk_reserve_bytes: 0, future_s: 10_000_000_000, ..CaptureSettings::default() }
}

fn start(folder: &Path, leader: &Node, token: Option<&str>) -> Result<(Database, FollowerIngest), Error> {
    let http = HttpLeader::new(&leader.url(), token.map(str::to_owned), None).unwrap();
    FollowerIngest::start(folder, http, None, capture_settings())
}

fn is_whole(follower: &Node) -> bool {
    follower.get("/ready")["status"] == "following"
}

#[test]
fn a_follower_answers_with_its_lag_and_takes_nothing() {
    let folders = tempfile::tempdir().unwrap();
    let leader = Node::leader(&folders.path().join("a"), "");
    assert_eq!(leader.post("/write", LINE).status, 204);
    let follower = Node::follower(&folders.path().join("b"), &leader, None);
    eventually("the follower is whole", || is_whole(&follower));
    eventually("its rows are there", || follower.count() == 1);
    let answer = follower.post("/query", b"select 1");
    assert!(answer.headers["splay-lag-ms"].parse::<u64>().is_ok(), "{:?}", answer.headers);
    assert!(!leader.post("/query", b"select 1").headers.contains_key("splay-lag-ms"));
    for (path, body) in [
        ("/write", LINE),
        ("/query", b"create table t (time timestamp)"),
        ("/query", b"delete from trade where price = 1"),
        ("/query", b"create user ann password 'correct horse'"),
        ("/query", b"insert into trade values ('2024-01-01', 'A', 1)"),
        ("/replica/state", b"{}"),
    ] {
        let refused = follower.post(path, body);
        let text = refused.text().to_owned();
        assert_eq!((refused.status, refused.code().as_str()), (403, read_only(path)), "{path}: {text}");
        assert!(text.contains(&leader.url()), "{text}");
    }
    let status = follower.get("/status");
    assert_eq!((&status["state"], &status["replication"]["role"]), (&json!("read_only"), &json!("follower")));
    assert_eq!(status["replication"]["leader"], json!(leader.url()));
    let status = leader.get("/status");
    assert_eq!((&status["replication"]["role"], &status["replication"]["epoch"]), (&json!("leader"), &json!(1)));
    let metrics = follower.ask("GET", "/metrics", None, b"");
    assert!(metrics.text().contains("splay_follower_lag_milliseconds"), "{}", metrics.text());
    let metrics = leader.ask("GET", "/metrics", None, b"");
    assert!(metrics.text().contains("splay_replication_followers{} 1"), "{}", metrics.text());
}

/// The code of a refusal to change something, in InfluxDB's words where its clients write.
fn read_only(path: &str) -> &'static str {
    if path.contains("write") { "forbidden" } else { "read_only" }
}

#[test]
fn replica_is_acknowledged_by_a_follower_alone_and_what_is_promoted_fences_its_leader() {
    const REPLICA: &str = "/api/v2/write?ack=replica";
    let folders = tempfile::tempdir().unwrap();
    let leader = Node::leader(&folders.path().join("a"), "");
    let refused = leader.post(REPLICA, LINE);
    assert_eq!((refused.status, refused.code().as_str()), (503, "unavailable"), "{}", refused.text());
    let follower = Node::follower(&folders.path().join("b"), &leader, None);
    eventually("the follower is whole", || is_whole(&follower));
    eventually("rows are confirmed", || leader.post(REPLICA, LINE).status == 204);
    let sent = leader.count();
    let promoted = follower.post("/replica/promote", b"{}");
    assert_eq!((promoted.status, promoted.json()), (200, json!({ "epoch": 2 })), "{}", promoted.text());
    assert_eq!(follower.count(), sent);
    assert_eq!(follower.post("/write", LINE).status, 204);
    assert_eq!(follower.post("/replica/promote", b"{}").status, 501);
    assert_eq!(follower.get("/ready")["status"], "ready");
    eventually("the leader before hears of it", || leader.get("/ready")["status"] == "fenced");
    for (path, body) in [("/write", LINE), (REPLICA, LINE), ("/query", b"create table t (time timestamp)")] {
        let refused = leader.post(path, body);
        assert_eq!((refused.status, refused.code().as_str()), (403, read_only(path)), "{}", refused.text());
    }
    assert_eq!(leader.count(), sent, "its rows can still be read");
    // What was the leader follows.
    drop(leader);
    let former = Node::follower(&folders.path().join("a"), &follower, None);
    eventually("it follows", || is_whole(&former) && former.count() == sent + 1);
}

#[test]
fn following_takes_a_superuser_or_a_token_for_it() {
    let folders = tempfile::tempdir().unwrap();
    let tokens = [(); 2].map(|()| Secret::generate().unwrap());
    let settings = format!(
        "[[auth.tokens]]\nname = \"desk\"\nblake3 = \"{}\"\n[[auth.tokens]]\nname = \"copy\"\nblake3 = \"{}\"\nroles = [\"replicate\"]\n",
        tokens[0].blake3, tokens[1].blake3
    );
    let leader = Node::leader(&folders.path().join("a"), &settings);
    let [desk, copy] = tokens.each_ref().map(|token| token.token.as_str());
    for path in ["/replica/state", "/replica/journal", "/replica/file", "/replica/promote"] {
        for (token, expected) in [(None, 401), (Some("wrong"), 401), (Some(desk), 403)] {
            assert_eq!(leader.ask("POST", path, token, b"{}").status, expected, "{path}");
        }
    }
    assert_eq!(leader.ask("GET", "/tables", Some(copy), b"").status, 403);
    let refused = start(&folders.path().join("b"), &leader, Some(desk)).unwrap_err();
    assert!(matches!(&refused, Error::Leader { reason } if reason.contains("403")), "{refused}");
    let follower = Node::follower(&folders.path().join("b"), &leader, Some(copy));
    eventually("the follower is whole", || is_whole(&follower));
}

#[test]
fn what_no_follower_sends_is_refused() {
    let folders = tempfile::tempdir().unwrap();
    let leader = Node::leader(&folders.path().join("a"), "");
    let asker = json!({ "follower": "", "database": "", "epoch": 0 });
    for path in
        ["../a/splay.toml", "access.json", ".journal/replica", "trade/manifest/HEAD", "/etc/passwd", "a//b.log", ""]
    {
        let file_request = json!({ "asker": asker, "path": path, "offset": 0, "bytes_max": 10 });
        let refused = leader.post("/replica/file", file_request.to_string().as_bytes());
        assert!(refused.status >= 400, "{path}: {}", refused.text());
    }
    for body in ["", "{}", "[]", r#"{"asker": {}, "after": {"file": -1}}"#] {
        assert_eq!(leader.post("/replica/journal", body.as_bytes()).status, 400, "{body}");
    }
    let journal_request =
        json!({ "asker": asker, "after": { "file": u64::MAX, "offset": u64::MAX }, "bytes_max": u64::MAX });
    let ahead = leader.post("/replica/journal", journal_request.to_string().as_bytes());
    assert_eq!(ahead.status, 200, "{}", ahead.text());
    // Another database's copy isn't this one's.
    let http = HttpLeader::new(&leader.url(), None, None).unwrap();
    let other = FollowerIdentity { database: "another".to_owned(), epoch: 9, ..FollowerIdentity::default() };
    assert!(matches!(http.state(&other), Err(Error::OtherLeader { .. })));
    assert_eq!(leader.post("/write", LINE).status, 204, "and fences nothing");
}
