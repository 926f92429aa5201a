//! Datagrams, an object of JSON in each.
//!
//! Linux counts in `/proc/net/udp` the datagrams that it drops because the program doesn't read in time. Nothing counts those that are lost on
//! their way.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::arrival_queue::{Arrival, ArrivalQueue};
use crate::websocket::is_idle;

/// Bytes of the largest datagram.
const DATAGRAM: usize = 1 << 16;

/// Time between two reads of the number of dropped datagrams.
const ASK: Duration = Duration::from_secs(1);

pub(super) fn run(socket: &UdpSocket, bytes_max: usize, queue: &ArrivalQueue<'_>) {
    let mut buffer = vec![0; DATAGRAM];
    let (mut dropped, mut last_check) = (0, Instant::now());
    let address = socket.local_addr().ok();
    loop {
        let arrival = match socket.recv(&mut buffer) {
            Ok(length) if length > bytes_max => {
                let reason = format!("{length} bytes are more than message_bytes_max");
                Some(Arrival::fault(buffer[..length.min(4 << 10)].to_vec(), reason))
            }
            Ok(length) => Some(Arrival::now(buffer[..length].to_vec())),
            Err(error) => {
                if !is_idle(&error) {
                    tracing::warn!(feed = queue.feed, %error, "a datagram can't be read");
                    queue.stop.wait(ASK);
                }
                None
            }
        };
        arrival.map(|arrival| queue.put(arrival));
        let is_over = queue.stop.is_set();
        if let (Some(address), true) = (address, is_over || last_check.elapsed() > ASK) {
            last_check = Instant::now();
            let all = drops(address).unwrap_or(dropped);
            if all > dropped {
                let more = all - dropped;
                queue.counts.system_dropped.add(more);
                tracing::error!(feed = queue.feed, more, "the operating system has dropped datagrams");
                dropped = all;
            }
        }
        if is_over {
            return;
        }
    }
}

/// Datagrams that Linux has dropped at an address.
fn drops(address: SocketAddr) -> Option<u64> {
    let file = if address.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
    let port = format!(":{:04X}", address.port());
    let table = std::fs::read_to_string(file).ok()?;
    let of_port = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = fields.get(1)?.ends_with(&port);
        is_ours.then(|| fields.last()?.parse::<u64>().ok()).flatten()
    });
    Some(of_port.sum())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_operating_system_tells_what_it_drops() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        assert_eq!(drops(address), Some(0));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Nobody reads, and no socket holds a gigabyte.
        let datagram = vec![0; 60_000];
        for _ in 0..20_000 {
            sender.send_to(&datagram, address).unwrap();
            if drops(address).unwrap() > 0 {
                return;
            }
        }
        panic!("nothing was dropped");
    }
}
