//! A server and a feed as processes, which are killed and started again. A part of the end-to-end tests of each program, which name it `PROGRAM`.
#![allow(dead_code, reason = "not every program's tests use all of it")]

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use splay_records::http_client::HttpClient;
use splay_records::settings::Access;

/// The longest that any step of a test may take.
const DEADLINE: Duration = Duration::from_secs(180);

/// A port without a listener.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The server's program; where it isn't given, there is no test.
pub fn splay() -> Result<PathBuf, String> {
    let program = std::env::var_os("SPLAY").map(PathBuf::from);
    let program = program.ok_or("the variable SPLAY names no splay program")?;
    if program.is_file() { Ok(program) } else { Err(format!("there is no {}", program.display())) }
}

fn log(folder: &Path, name: &str) -> Stdio {
    OpenOptions::new().create(true).append(true).open(folder.join(name)).unwrap().into()
}

/// Waits until something is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub struct Server {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    process: Option<Child>,
    pub http: HttpClient,
}

impl Server {
    pub fn new(program: PathBuf, folder: &Path) -> Server {
        let port = free_port();
        let access = Access {
            url: format!("http://127.0.0.1:{port}"),
            token_env: None,
            user: None,
            password_env: None,
            ca_file: None,
        };
        let http = HttpClient::new(&access, Duration::from_secs(60)).unwrap();
        let mut server = Server { program, folder: folder.to_owned(), port, process: None, http };
        server.start();
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn start(&mut self) {
        let http = format!("127.0.0.1:{}", self.port);
        let mut command = Command::new(&self.program);
        command.arg("serve").arg(self.folder.join("db")).args(["--http", &http, "--flight", "off", "--line", "off"]);
        let process = command.stdout(Stdio::null()).stderr(log(&self.folder, "server.log")).spawn().unwrap();
        self.process = Some(process);
        eventually("the server is ready", || self.http.get("/ready").is_ok_and(|answer| answer.status == 200));
    }

    pub fn kill(&mut self) {
        kill(&mut self.process);
    }

    /// The first row of an answer; none while there is no table.
    pub fn row(&self, statement: &str) -> Option<Vec<Value>> {
        let answer = self.http.post("/query", "text/plain", statement.as_bytes()).ok()?;
        answer.json["rows"][0].as_array().cloned()
    }

    pub fn number(&self, statement: &str) -> u64 {
        self.row(statement).and_then(|row| row[0].as_u64()).unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        show(&self.folder.join("server.log"));
    }
}

fn kill(process: &mut Option<Child>) {
    if let Some(mut process) = process.take() {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

/// The end of a log, where a test has failed.
fn show(log: &Path) {
    if std::thread::panicking() {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(30).collect();
        eprintln!("{}:\n{}", log.display(), lines.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
}

pub struct Feed {
    folder: PathBuf,
    process: Option<Child>,
}

impl Feed {
    /// A feed with settings, which isn't started.
    pub fn new(folder: &Path, settings: &str) -> Feed {
        std::fs::write(folder.join("feed.toml"), settings).unwrap();
        Feed { folder: folder.to_owned(), process: None }
    }

    pub fn start(&mut self) {
        let mut command = Command::new(program());
        let process = command.arg(self.folder.join("feed.toml")).stderr(log(&self.folder, "feed.log")).spawn().unwrap();
        self.process = Some(process);
    }

    pub fn kill(&mut self) {
        kill(&mut self.process);
    }

    /// Ends it by SIGTERM, and says whether it ended well.
    pub fn stop(&mut self) -> bool {
        let Some(mut process) = self.process.take() else { return false };
        let id = process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        process.wait().unwrap().success()
    }

    /// Waits until it has ended by itself, and says whether it ended well.
    pub fn ended(&mut self) -> bool {
        let mut process = self.process.take().unwrap();
        process.wait().unwrap().success()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("feed.log")).unwrap_or_default()
    }

    /// The dead letters.
    pub fn dead(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.join("dead.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        kill(&mut self.process);
        show(&self.folder.join("feed.log"));
    }
}

/// The program that is tested.
fn program() -> PathBuf {
    // Tests lie one folder below it.
    let beside = || std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join(crate::PROGRAM);
    std::env::var_os(format!("CARGO_BIN_EXE_{}", crate::PROGRAM)).map_or_else(beside, PathBuf::from)
}
