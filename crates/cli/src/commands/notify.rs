//! Tells a service manager how far the server is: the protocol of `sd_notify(3)`, a datagram to the socket that NOTIFY_SOCKET names.

use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `READY=1` or `STOPPING=1`. Without a manager nothing happens; one that doesn't listen is no failure of the server.
pub fn notify(state: &str) {
    let Ok(socket) = std::env::var("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!("{state} was not sent to {socket}: {error}");
    }
}

fn send(socket: &str, state: &str) -> std::io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address(socket)?).map(|_| ())
}

/// A path, or with a leading @ a name in Linux's own name space.
fn address(socket: &str) -> std::io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.strip_prefix('@') {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(socket)
}
