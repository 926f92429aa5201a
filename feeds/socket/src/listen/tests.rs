//! Senders that are sound, and those that aren't, over real sockets; and bytes that never were sound.

use std::io::{Cursor, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use splay_records::mailbox::{Mailbox, MessageSize};
use splay_records::stop::StopSignal;

use super::*;
use crate::counts::{FeedCounts, LogRateLimit};
use crate::settings::WhenFull;

fn settings(listen: &str, more: &str) -> FeedSettings {
    let text = format!(
        "name = 'x'\n[server]\nurl = 'http://x'\n[dead_letters]\nfile = 'd'\n[[feed]]\nname = 'f'\nlisten = '{listen}'\n{more}\n\
         [[feed.table]]\nname = 't'\ncolumns = {{ time = '$received' }}\n"
    );
    crate::settings::Settings::parse(&text).unwrap().feeds.remove(0)
}

#[derive(Default)]
struct TestBed {
    mailbox: Mailbox<Arrival>,
    counts: FeedCounts,
    stop: StopSignal,
}

impl TestBed {
    fn queue(&self) -> ArrivalQueue<'_> {
        ArrivalQueue {
            feed: "f",
            mailbox: &self.mailbox,
            bytes_max: 1 << 20,
            when_full: WhenFull::Wait,
            counts: &self.counts,
            stop: &self.stop,
            log_limit: LogRateLimit::default(),
        }
    }

    /// The next arrivals: payloads, with their keys, or their faults.
    fn next(&self, count: usize) -> Vec<String> {
        let (mut arrivals, begin) = (Vec::new(), Instant::now());
        while arrivals.len() < count {
            assert!(begin.elapsed() < Duration::from_secs(60), "{arrivals:?}");
            for arrival in self.mailbox.take(Duration::from_millis(100)).unwrap() {
                self.mailbox.release(arrival.bytes());
                let text = String::from_utf8_lossy(&arrival.payload).into_owned();
                let key = arrival.key.map(|key| format!("{} ", String::from_utf8_lossy(&key))).unwrap_or_default();
                arrivals.push(arrival.fault.unwrap_or_else(|| format!("{key}{text}")));
            }
        }
        arrivals
    }

    fn until(&self, count: fn(&FeedCounts) -> u64, least: u64) {
        let begin = Instant::now();
        while count(&self.counts) < least {
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs a listener while `work` goes on.
fn listening(settings: &FeedSettings, work: impl FnOnce(&TestBed, Option<SocketAddr>)) {
    let test_bed = TestBed::default();
    let listener = Listener::bind(settings.listen.as_ref().unwrap()).unwrap();
    let address = listener.address();
    std::thread::scope(|scope| {
        let queue = test_bed.queue();
        let thread = scope.spawn(move || listener.run(settings, &queue));
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&test_bed, address)));
        test_bed.stop.set();
        thread.join().unwrap();
        worked.unwrap();
    });
}

#[test]
fn objects_come_over_tcp_from_as_many_senders_as_may() {
    let settings = settings("tcp://127.0.0.1:0", "connections_max = 2\nmessage_bytes_max = 50");
    listening(&settings, |test_bed, address| {
        let connect = || TcpStream::connect(address.unwrap()).unwrap();
        let (mut first, mut second) = (connect(), connect());
        first.write_all(b"{\"a\": 1}{\"a\":").unwrap();
        second.write_all(b"{\"b\": 1}").unwrap();
        let mut arrivals = test_bed.next(2);
        arrivals.sort();
        assert_eq!(arrivals, ["{\"a\": 1}", "{\"b\": 1}"]);
        // A third one is turned away.
        let mut third = connect();
        assert_eq!(third.read(&mut [0]).unwrap_or(0), 0);
        assert_eq!(test_bed.counts.refusals.get(), 1);
        first.write_all(b" 2}noise\n").unwrap();
        assert_eq!(test_bed.next(2), ["{\"a\": 2}", "5 bytes between objects"]);
        first.write_all(format!("{{\"a\": \"{}\"}}{{\"a\": ", "x".repeat(100)).as_bytes()).unwrap();
        drop(first);
        let cut = "the stream ends within an object, after 6 bytes of it";
        assert_eq!(test_bed.next(2), ["109 bytes are more than message_bytes_max", cut]);
        test_bed.until(|counts| counts.disconnections.get(), 1);
        let mut fourth = connect();
        fourth.write_all(b"{}").unwrap();
        assert_eq!(test_bed.next(1), ["{}"]);
    });
}

#[test]
fn a_unix_socket_is_its_owners_and_replaces_one_that_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feed.sock");
    let settings = settings(&format!("unix:{}", path.display()), "");
    // A run of the same process id was killed before it had moved its socket to the path.
    std::fs::create_dir(folder.path().join(format!(".feed.sock.{}", std::process::id()))).unwrap();
    for _ in 0..2 {
        listening(&settings, |test_bed, _| {
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let place = settings.listen.as_ref().unwrap();
            assert!(Listener::bind(place).unwrap_err().contains("another program listens there"));
            UnixStream::connect(&path).unwrap().write_all(b"{\"a\": 1}").unwrap();
            assert_eq!(test_bed.next(1), ["{\"a\": 1}"]);
        });
        // As a run that was killed leaves it.
        drop(UnixListener::bind(&path).unwrap());
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a file").unwrap();
    assert!(Listener::bind(settings.listen.as_ref().unwrap()).unwrap_err().contains("no socket"));
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
}

#[test]
fn datagrams_are_messages() {
    let settings = settings("udp://127.0.0.1:0", "message_bytes_max = 20");
    listening(&settings, |test_bed, address| {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for text in ["{\"a\": 1}", "noise", "{\"a\": \"more than twenty\"}"] {
            sender.send_to(text.as_bytes(), address.unwrap()).unwrap();
            let expected = if text.len() > 20 { "25 bytes are more than message_bytes_max" } else { text };
            assert_eq!(test_bed.next(1), [expected]);
        }
    });
}

/// The bytes that a publisher sends before its first message.
fn publisher() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[0] = 0xff;
    (bytes[8], bytes[9], bytes[10], bytes[11]) = (1, 0x7f, 3, 1);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes.extend_from_slice(b"\x04\x26\x05READY\x0bSocket-Type\0\0\0\x03PUB\x08Identity\0\0\0\0");
    bytes
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![flags];
    match u8::try_from(body.len()) {
        Ok(length) if flags & 2 == 0 => bytes.push(length),
        _ => {
            bytes[0] |= 2;
            bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(body);
    bytes
}

/// A stream of bytes, of which at most so many are read at once, and what was written to it.
struct ScriptedStream {
    bytes: Cursor<Vec<u8>>,
    step: usize,
    written: Vec<u8>,
}

impl Read for ScriptedStream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(self.step);
        self.bytes.read(&mut buffer[..count])
    }
}

impl Write for ScriptedStream {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.written.write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The messages in a publisher's bytes, the reason of its end, and the bytes that it was answered.
fn heard(bytes: Vec<u8>, step: usize) -> (Vec<Arrival>, Result<(), String>, Vec<u8>) {
    let test_bed = TestBed::default();
    let mut script = ScriptedStream { bytes: Cursor::new(bytes), step, written: Vec::new() };
    let ended = zmtp::read(&mut script, 1_000, &test_bed.queue());
    let arrivals = test_bed.mailbox.take(Duration::ZERO).unwrap();
    (arrivals.into(), ended, script.written)
}

fn messages() -> Vec<u8> {
    let mut bytes = publisher();
    bytes.extend(frame(0, b"COINBASE-trades-BTC-USD {\"price\": 1}"));
    bytes.extend(frame(4, b"\x04PING\0\x64context"));
    bytes.extend(frame(1, b"topic"));
    bytes.extend(frame(2, b"{\"price\": 2}"));
    bytes.extend(frame(0, &[b'['; 400]));
    bytes
}

#[test]
fn messages_of_publishers_have_keys() {
    for step in [1, 7, 1_000] {
        let (arrivals, ended, written) = heard(messages(), step);
        let texts = arrivals.iter().map(|arrival| {
            (arrival.key.as_deref().map(String::from_utf8_lossy), String::from_utf8_lossy(&arrival.payload))
        });
        let texts: Vec<_> = texts.collect();
        assert_eq!(texts[0], (Some("COINBASE-trades-BTC-USD".into()), "{\"price\": 1}".into()));
        assert_eq!(texts[1], (Some("topic".into()), "{\"price\": 2}".into()));
        assert_eq!((texts.len(), texts[2].1.len(), ended), (3, 400, Ok(())));
        assert!(written.ends_with(b"\x04\x0c\x04PONGcontext"));
        assert!(written.windows(3).any(|bytes| bytes == [0, 1, 1]), "all messages are asked for");
    }
}

#[test]
fn publishers_that_break_the_protocol_are_told_why() {
    let reason_for = |place: usize, byte: u8| {
        let mut bytes = messages();
        bytes[place] = byte;
        heard(bytes, 1_000).1.unwrap_err()
    };
    assert_eq!(reason_for(0, b'G'), "it speaks no ZMTP 3");
    assert_eq!(reason_for(10, 2), "it speaks no ZMTP 3");
    assert_eq!(reason_for(12, b'P'), "it asks for another mechanism than NULL");
    assert_eq!(reason_for(64, 0), "no command begins the conversation");
    assert_eq!(reason_for(64, 0x80), "a frame with the flags 0x80");
    assert_eq!(reason_for(66, 4), "it isn't ready");
    assert_eq!(reason_for(90, b'H'), "it is a socket of type PUH, no PUB");
    for size in [1_001, u64::MAX / 2, u64::MAX] {
        let bytes = [&publisher()[..], &[2], &size.to_be_bytes()].concat();
        assert!(heard(bytes, 1_000).1.unwrap_err().contains("message_bytes_max"), "{size}");
    }
    // Many frames below the limit that are above it together, and too many.
    let frames = |count, length| (0..count).flat_map(move |_| frame(1, &vec![b'x'; length]));
    for (count, length) in [(5, 300), (17, 0)] {
        let bytes: Vec<u8> = publisher().into_iter().chain(frames(count, length)).collect();
        assert!(heard(bytes, 1_000).1.is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_publishers_break_nothing(
        changes in prop::collection::vec((0_usize..700, any::<u8>()), 0..4),
        cut in 0_usize..900,
        step in 1_usize..300,
    ) {
        let mut bytes = messages();
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        bytes.truncate(cut);
        let (arrivals, ..) = heard(bytes, step);
        prop_assert!(arrivals.iter().all(|arrival| arrival.payload.len() <= 1_000));
    }
}
