//! An S3 server that the tests start on this machine, and a proxy in front of it that breaks, delays and refuses requests.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time for a server to answer after its start.
const START: Duration = Duration::from_secs(60);

/// A bucket of the server.
pub const BUCKET: &str = "ticks";

/// A running server, which is killed when this is dropped.
pub struct Server {
    pub address: SocketAddr,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// SeaweedFS, whose program is `weed` or what SPLAY_WEED names, or moto, as `moto_server` or what SPLAY_MOTO names. `None`, with the reason
    /// on standard error, where neither is.
    pub fn start() -> Option<Server> {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let name = |variable: &str, default: &str| std::env::var(variable).unwrap_or_else(|_| default.to_owned());
        let data = folder.path().display().to_string();
        let weed = name("SPLAY_WEED", "weed");
        let ports: Vec<String> = (0..4).map(|_| free_port().to_string()).collect();
        let mut weed = Command::new(weed);
        weed.args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", &format!("-dir={data}"), "-filer", "-s3"])
            .args([&format!("-s3.port={port}"), &format!("-s3.port.grpc={}", free_port())])
            .args([&format!("-master.port={}", ports[0]), &format!("-volume.port={}", ports[1])])
            .args([&format!("-filer.port={}", ports[2]), "-volume.max=20", "-master.volumeSizeLimitMB=64"]);
        let mut moto = Command::new(name("SPLAY_MOTO", "moto_server"));
        moto.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        for mut command in [weed, moto] {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let Ok(child) = command.spawn() else { continue };
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let server = Server { address, child, _folder: folder };
            server.make_bucket();
            return Some(server);
        }
        eprintln!("skipped: no S3 server: neither weed (SPLAY_WEED) nor moto_server (SPLAY_MOTO) is installed");
        None
    }

    fn make_bucket(&self) {
        let begun = Instant::now();
        let request = format!(
            "PUT /{BUCKET} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.address
        );
        loop {
            let mut answer = String::new();
            let sent = TcpStream::connect(self.address).and_then(|mut stream| {
                stream.set_read_timeout(Some(START))?;
                stream.write_all(request.as_bytes())?;
                stream.read_to_string(&mut answer)
            });
            if sent.is_ok() && answer.starts_with("HTTP/1.1 200") {
                return;
            }
            assert!(begun.elapsed() < START, "the server doesn't answer: {sent:?} {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Faults of the proxy's connections.
#[derive(Debug, Default)]
pub struct Faults {
    /// Milliseconds before the first piece of an answer.
    pub latency_ms: AtomicU64,
    /// Each n-th connection is cut within its answer; 0: none.
    pub cut_each: AtomicU64,
    /// Each n-th connection is answered with 503; 0: none.
    pub refuse_each: AtomicU64,
    /// Whether connections are closed at once, as if the server were down.
    pub away: AtomicBool,
    /// Requests so far.
    pub requests: AtomicU64,
}

/// A proxy in front of a server. Each connection carries one request.
pub struct Proxy {
    pub address: SocketAddr,
    pub faults: Arc<Faults>,
}

impl Proxy {
    pub fn start(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, faults) = (listener.local_addr().expect("an address"), Arc::new(Faults::default()));
        let shared = Arc::clone(&faults);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let faults = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, to, &faults));
            }
        });
        Proxy { address, faults }
    }
}

fn serve(mut client: TcpStream, to: SocketAddr, faults: &Faults) -> Option<()> {
    if faults.away.load(Ordering::SeqCst) {
        return None;
    }
    let number = faults.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let is_each = |each: &AtomicU64| {
        let each = each.load(Ordering::SeqCst);
        each > 0 && number.is_multiple_of(each)
    };
    let head = read_head(&mut client)?;
    if is_each(&faults.refuse_each) {
        // A busy server doesn't read the body either.
        let _ = client.write_all(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let _ = client.shutdown(Shutdown::Both);
        return None;
    }
    let cut = is_each(&faults.cut_each);
    let mut server = TcpStream::connect(to).ok()?;
    server.write_all(&with_close(&head)).ok()?;
    let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
    std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
    let mut piece = vec![0; 16 << 10];
    let mut first = true;
    loop {
        let length = server.read(&mut piece).ok().filter(|length| *length > 0)?;
        if std::mem::take(&mut first) {
            std::thread::sleep(Duration::from_millis(faults.latency_ms.load(Ordering::SeqCst)));
        }
        let length = if cut { length / 2 } else { length };
        client.write_all(&piece[..length]).ok()?;
        if cut {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
            return None;
        }
    }
}

fn read_head(client: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(head)
}

/// A request's head that asks the server to close the connection after its answer.
fn with_close(head: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(head);
    text.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1).into_bytes()
}
