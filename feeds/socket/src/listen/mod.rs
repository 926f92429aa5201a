//! Listeners for senders: streams of objects over TCP and Unix sockets, datagrams, publishers of ZeroMQ.
//!
//! Each sender has a thread. Beyond `connections_max` senders are turned away and counted. A thread holds one message at most.

mod udp;
mod unix;
pub mod zmtp;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Duration;

use crate::arrival_queue::{Arrival, ArrivalQueue};
use crate::json_splitter::{JsonSplitter, StreamPiece};
use crate::settings::{FeedSettings, ListenAddress};
use crate::websocket::is_idle;

/// The longest wait of a read, after which the thread looks whether the process ends.
const TURN: Duration = Duration::from_millis(100);

/// The longest time until a new sender is noticed.
const ACCEPT: Duration = Duration::from_millis(20);

/// Stack of a sender's thread.
const STACK: usize = 512 << 10;

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// Streams of objects.
    Tcp(TcpListener),
    /// Datagrams.
    Udp(UdpSocket),
    /// Publishers.
    Zmq(TcpListener),
    /// Streams of objects, at a path that is removed when the process ends.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn bind(place: &ListenAddress) -> Result<Listener, String> {
        let tcp = |address: &SocketAddr| {
            let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
            listener.set_nonblocking(true).map_err(|error| error.to_string())?;
            Ok::<_, String>(listener)
        };
        Ok(match place {
            ListenAddress::Tcp(address) => Listener::Tcp(tcp(address)?),
            ListenAddress::Zmq(address) => Listener::Zmq(tcp(address)?),
            ListenAddress::Udp(address) => {
                let socket = UdpSocket::bind(address).map_err(|error| format!("{address}: {error}"))?;
                socket.set_read_timeout(Some(TURN)).map_err(|error| error.to_string())?;
                Listener::Udp(socket)
            }
            ListenAddress::Unix(path) => Listener::Unix(unix::bind(path)?, path.clone()),
        })
    }

    /// The address, where there is one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) | Listener::Zmq(listener) => listener.local_addr().ok(),
            Listener::Udp(socket) => socket.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    /// Reads until the process ends.
    pub fn run(&self, settings: &FeedSettings, queue: &ArrivalQueue<'_>) {
        let bytes_max = settings.message_bytes_max;
        let stream = |mut stream: Box<dyn Read + Send>| objects(stream.as_mut(), bytes_max, queue);
        match self {
            Listener::Udp(socket) => udp::run(socket, bytes_max, queue),
            Listener::Tcp(listener) => serve(settings, queue, || tcp(listener), |one| stream(Box::new(one))),
            Listener::Zmq(listener) => {
                serve(settings, queue, || tcp(listener), |mut one| zmtp::read(&mut one, bytes_max, queue));
            }
            Listener::Unix(listener, path) => {
                let accept = || {
                    let (stream, _) = listener.accept()?;
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(TURN))?;
                    Ok(stream)
                };
                serve(settings, queue, accept, |one| stream(Box::new(one)));
                std::fs::remove_file(path).ok();
            }
        }
    }
}

fn tcp(listener: &TcpListener) -> std::io::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TURN))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

/// Takes senders, each in a thread of its own, until the process ends. `read` returns the reason why a sender's connection ended.
fn serve<S: Send>(
    settings: &FeedSettings,
    queue: &ArrivalQueue<'_>,
    accept: impl Fn() -> std::io::Result<S>,
    read: impl Fn(S) -> Result<(), String> + Sync,
) {
    let (feed, count) = (&settings.name, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        while !queue.stop.is_set() {
            let stream = match accept() {
                Ok(stream) => stream,
                Err(error) => {
                    if !is_idle(&error) {
                        queue.counts.refusals.add(1);
                        tracing::warn!(feed, %error, "a sender can't be taken");
                    }
                    queue.stop.wait(ACCEPT);
                    continue;
                }
            };
            if count.load(Ordering::SeqCst) >= settings.connections_max {
                queue.counts.refusals.add(1);
                tracing::warn!(feed, connections_max = settings.connections_max, "turns a sender away");
                continue;
            }
            count.fetch_add(1, Ordering::SeqCst);
            let (read, count) = (&read, &count);
            let work = move || {
                queue.counts.connections.add(1);
                if let Err(reason) = read(stream) {
                    tracing::warn!(feed, reason, "a sender's connection has ended");
                }
                queue.counts.disconnections.add(1);
                count.fetch_sub(1, Ordering::SeqCst);
            };
            if let Err(error) = Builder::new().name("sender".to_owned()).stack_size(STACK).spawn_scoped(scope, work) {
                count.fetch_sub(1, Ordering::SeqCst);
                queue.counts.refusals.add(1);
                tracing::warn!(feed, %error, "a sender can't be taken");
            }
        }
    });
}

/// Reads objects of JSON behind each other.
fn objects(stream: &mut dyn Read, bytes_max: usize, queue: &ArrivalQueue<'_>) -> Result<(), String> {
    let mut splitter = JsonSplitter::new(bytes_max);
    let mut buffer = vec![0; BUFFER];
    let give = |piece| {
        let (payload, fault) = match piece {
            StreamPiece::Whole(payload) => (payload, None),
            StreamPiece::Fault(payload, reason) => (payload, Some(reason)),
        };
        queue.put(Arrival { fault, ..Arrival::now(payload) });
    };
    let ended = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(read) => splitter.push(&buffer[..read], give),
            Err(error) if is_idle(&error) => {}
            Err(error) => break Err(error.to_string()),
        }
        if queue.stop.is_set() {
            break Ok(());
        }
    };
    splitter.end(give);
    ended
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
