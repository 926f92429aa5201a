//! Servers as processes, which end with their test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use arrow::record_batch::RecordBatch;
use splay_cluster::token::Token;
use splay_cluster::{Result, client};

/// The program, by what Cargo says, or beside the tests: where a compiler's wrapper drops names with a hyphen, Cargo's word doesn't arrive.
fn program() -> PathBuf {
    let beside = || {
        let tests = std::env::current_exe().unwrap();
        tests.parent().and_then(Path::parent).unwrap().join("splay-cluster")
    };
    std::env::var_os("CARGO_BIN_EXE_splay-cluster").map_or_else(beside, PathBuf::from)
}

/// A server.
pub struct Server {
    process: Child,
    pub url: String,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        let mut process = Command::new(program()).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").expect("a server says where it listens").to_owned();
        Server { process, url }
    }

    pub fn executor(database: &Path) -> Server {
        Server::start(&["executor", database.to_str().unwrap(), "--threads", "2"])
    }

    /// Ends it at once, whatever it does.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A scheduler with executors.
pub struct Cluster {
    pub scheduler: Server,
    pub executors: Vec<Server>,
}

impl Cluster {
    /// Three executors over one folder, and slices of few rows.
    pub fn start(database: &Path) -> Cluster {
        Cluster::over(database, (0..3).map(|_| Server::executor(database)).collect())
    }

    pub fn over(database: &Path, executors: Vec<Server>) -> Cluster {
        let urls: Vec<&str> = executors.iter().map(|executor| executor.url.as_str()).collect();
        let arguments =
            ["scheduler", database.to_str().unwrap(), "--executors", &urls.join(","), "--slice-rows-min", "100"];
        let scheduler = Server::start(&arguments);
        Cluster { scheduler, executors }
    }

    pub fn ask(&self, text: &str) -> Result<Vec<RecordBatch>> {
        ask(&self.scheduler.url, text, &Token::default())
    }
}

pub fn ask(url: &str, text: &str, token: &Token) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    ask_each(url, text, token, |batch| batches.push(batch))?;
    Ok(batches)
}

pub fn ask_each(url: &str, text: &str, token: &Token, mut take: impl FnMut(RecordBatch)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client::ask(url, text, token, |batch| {
        take(batch);
        Ok(())
    }))
}
