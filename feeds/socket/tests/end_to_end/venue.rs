//! A venue on loopback: a WebSocket server that plays what a test says, and a network that loses answers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tungstenite::{Message, WebSocket};

/// A connection as the venue has it.
pub type Socket = WebSocket<TcpStream>;

pub struct Venue {
    pub address: SocketAddr,
    /// The subscriptions of each connection.
    pub subscriptions: Arc<Mutex<Vec<String>>>,
}

impl Venue {
    /// Plays to each connection, whose number is given, once it has subscribed. The connection breaks off when `play` returns.
    pub fn start(play: impl Fn(usize, &mut Socket) + Send + Sync + 'static) -> Venue {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let subscriptions: Arc<Mutex<Vec<String>>> = Arc::default();
        let (of_thread, play) = (Arc::clone(&subscriptions), Arc::new(play));
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (subscriptions, play) = (Arc::clone(&of_thread), Arc::clone(&play));
                std::thread::spawn(move || {
                    let Ok(mut socket) = tungstenite::accept(stream) else { return };
                    if let Ok(Message::Text(text)) = socket.read() {
                        subscriptions.lock().unwrap().push(text.to_string());
                        play(number, &mut socket);
                    }
                });
            }
        });
        Venue { address, subscriptions }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }
}

/// Sends a message; false if the connection is gone.
pub fn say(socket: &mut Socket, text: &str) -> bool {
    socket.send(Message::text(text)).is_ok()
}

/// Answers pings until the other side goes.
pub fn listen(socket: &mut Socket) {
    while socket.read().is_ok() {}
}

/// A network before a server: of each connection the second answer is lost, though the server has done what was asked.
pub struct Network {
    pub address: SocketAddr,
    pub lost: Arc<AtomicUsize>,
}

impl Network {
    pub fn start(server: SocketAddr) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let lost = Arc::new(AtomicUsize::new(0));
        let of_thread = Arc::clone(&lost);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(server) else { continue };
                let lost = Arc::clone(&of_thread);
                std::thread::spawn(move || carry(near, far, lost));
            }
        });
        Network { address, lost }
    }
}

fn carry(mut near: TcpStream, mut far: TcpStream, lost: Arc<AtomicUsize>) {
    let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    std::thread::spawn(move || {
        std::io::copy(&mut from, &mut to).ok();
        to.shutdown(Shutdown::Write).ok();
    });
    let mut buffer = [0; 4096];
    far.set_read_timeout(Some(Duration::from_secs(60))).ok();
    // The answers are short: each is read at once.
    if let Ok(read) = far.read(&mut buffer)
        && near.write_all(&buffer[..read]).is_ok()
        && far.read(&mut buffer).is_ok_and(|read| read > 0)
    {
        lost.fetch_add(1, Ordering::SeqCst);
    }
    near.shutdown(Shutdown::Both).ok();
    far.shutdown(Shutdown::Both).ok();
}
