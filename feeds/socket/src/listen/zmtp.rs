//! Publishers of ZeroMQ that connect here: the subscriber's side of ZMTP 3.0 (<https://rfc.zeromq.org/spec/23/>), with the mechanism NULL.
//!
//! - Nothing is allocated for what a length claims: a frame is refused by its length, and read in steps.
//! - A publisher that breaks the protocol is disconnected, and connects again by itself.
//!
//! Cryptofeed sends a message of one frame, `KEY {…}`; messages of several have the key first and the object last.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::arrival_queue::{Arrival, ArrivalQueue};
use crate::websocket::is_idle;

/// The longest that the greeting may take.
const GREETING: Duration = Duration::from_secs(10);

/// Bytes of a command.
const COMMAND_BYTES_MAX: usize = 1 << 10;

/// Frames of a message.
const FRAMES_MAX: usize = 16;

/// Bytes that are read at once.
const STEP: usize = 16 << 10;

/// Flags of a frame.
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Our greeting: signature, version 3.0, NULL, client, filler.
fn greeting() -> [u8; 64] {
    let mut greeting = [0; 64];
    greeting[0] = 0xff;
    greeting[8] = 1;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// A connection, read in whole pieces.
struct ZmtpConnection<'a, S> {
    stream: &'a mut S,
    buffer: Vec<u8>,
    /// The range of its bytes that aren't taken yet.
    start: usize,
    end: usize,
    /// The end of the time for the greeting.
    deadline: Option<Instant>,
    queue: &'a ArrivalQueue<'a>,
}

/// The reason why reading ends; none if the publisher or the process has ended.
struct ReadEnd(Option<String>);

impl From<String> for ReadEnd {
    fn from(reason: String) -> ReadEnd {
        ReadEnd(Some(reason))
    }
}

impl<S: Read + Write> ZmtpConnection<'_, S> {
    /// Adds so many bytes to `into`.
    fn read(&mut self, count: usize, into: &mut Vec<u8>) -> Result<(), ReadEnd> {
        let mut remaining = count;
        while remaining > 0 {
            if self.start == self.end {
                self.fill()?;
            }
            let length = remaining.min(self.end - self.start);
            into.extend_from_slice(&self.buffer[self.start..self.start + length]);
            self.start += length;
            remaining -= length;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadEnd> {
        let mut bytes = Vec::with_capacity(N);
        self.read(N, &mut bytes)?;
        bytes.try_into().map_err(|_| ReadEnd(Some("a read of another length".to_owned())))
    }

    fn fill(&mut self) -> Result<(), ReadEnd> {
        (self.start, self.end) = (0, 0);
        loop {
            if self.queue.stop.is_set() {
                return Err(ReadEnd(None));
            }
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(ReadEnd(None)),
                Ok(read) => {
                    self.end = read;
                    return Ok(());
                }
                Err(error) if is_idle(&error) => {}
                Err(error) => return Err(error.to_string().into()),
            }
            if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err("no greeting of ZeroMQ within ten seconds".to_owned().into());
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ReadEnd> {
        let written = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        written.map_err(|error| error.to_string().into())
    }

    /// A frame's flags and length.
    fn head(&mut self) -> Result<(u8, usize), ReadEnd> {
        let [flags] = self.array()?;
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(format!("a frame with the flags {flags:#x}").into());
        }
        let length = if flags & LONG == 0 {
            let [length] = self.array()?;
            u64::from(length)
        } else {
            u64::from_be_bytes(self.array()?)
        };
        let length = usize::try_from(length).map_err(|_| format!("a frame of {length} bytes"))?;
        if flags & COMMAND != 0 && (flags & MORE != 0 || length > COMMAND_BYTES_MAX) {
            return Err("a command that is none".to_owned().into());
        }
        Ok((flags, length))
    }

    fn greet(&mut self) -> Result<(), ReadEnd> {
        self.write(&greeting())?;
        let theirs: [u8; 64] = self.array()?;
        if theirs[0] != 0xff || theirs[9] & 1 == 0 || theirs[10] < 3 {
            return Err("it speaks no ZMTP 3".to_owned().into());
        }
        if theirs[12..32] != greeting()[12..32] {
            return Err("it asks for another mechanism than NULL".to_owned().into());
        }
        self.write(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB")?;
        let (flags, length) = self.head()?;
        let mut ready = Vec::new();
        if flags & COMMAND == 0 {
            return Err("no command begins the conversation".to_owned().into());
        }
        self.read(length, &mut ready)?;
        match socket_type(&ready).as_deref() {
            Some("PUB" | "XPUB") => {}
            Some(other) => return Err(format!("it is a socket of type {other:.20}, no PUB").into()),
            None => return Err("it isn't ready".to_owned().into()),
        }
        // Subscribes to all messages.
        self.write(&[0, 1, 1])?;
        self.deadline = None;
        Ok(())
    }

    /// A frame of a message, behind those before it. Commands in between are answered. Says whether more follow.
    fn frame(&mut self, room: usize, frames: &mut Vec<Vec<u8>>) -> Result<bool, ReadEnd> {
        loop {
            let (flags, length) = self.head()?;
            let mut body = Vec::new();
            if flags & COMMAND != 0 {
                self.read(length, &mut body)?;
                if let Some(rest) = body.strip_prefix(b"\x04PING") {
                    let context = rest.get(2..).unwrap_or_default();
                    let size = u8::try_from(5 + context.len()).map_err(|_| "a ping that is none".to_owned())?;
                    self.write(&[&[COMMAND, size], &b"\x04PONG"[..], context].concat())?;
                }
                continue;
            }
            if length > room || frames.len() >= FRAMES_MAX {
                return Err(format!(
                    "a message of {length} bytes more: larger than message_bytes_max, or of too many frames"
                )
                .into());
            }
            self.read(length, &mut body)?;
            frames.push(body);
            return Ok(flags & MORE != 0);
        }
    }
}

/// The property `Socket-Type` of a READY command.
fn socket_type(ready: &[u8]) -> Option<String> {
    let mut rest = ready.strip_prefix(b"\x05READY")?;
    while let Some((length, more)) = rest.split_first() {
        let (name, more) = more.split_at_checked(usize::from(*length))?;
        let (length, more) = more.split_first_chunk::<4>()?;
        let (value, more) = more.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return String::from_utf8(value.to_vec()).ok();
        }
        rest = more;
    }
    None
}

/// Reads a publisher's messages until it goes or the process ends.
///
/// # Errors
/// The way in which it breaks the protocol; those of the operating system.
pub fn read<S: Read + Write>(stream: &mut S, bytes_max: usize, queue: &ArrivalQueue<'_>) -> Result<(), String> {
    let deadline = Some(Instant::now() + GREETING);
    let mut connection = ZmtpConnection { stream, buffer: vec![0; STEP], start: 0, end: 0, deadline, queue };
    let ended = read_all(&mut connection, bytes_max).err().and_then(|ReadEnd(reason)| reason);
    ended.map_or(Ok(()), Err)
}

fn read_all<S: Read + Write>(connection: &mut ZmtpConnection<'_, S>, bytes_max: usize) -> Result<(), ReadEnd> {
    connection.greet()?;
    loop {
        let (mut frames, mut room) = (Vec::new(), bytes_max);
        while connection.frame(room, &mut frames)? {
            room = room.saturating_sub(frames.last().map_or(0, Vec::len));
        }
        if !connection.queue.put(arrival(frames)) {
            return Err(ReadEnd(None));
        }
    }
}

/// A message with its key.
fn arrival(mut frames: Vec<Vec<u8>>) -> Arrival {
    let last = frames.pop().unwrap_or_default();
    if !frames.is_empty() {
        return Arrival { key: Some(frames.swap_remove(0)), ..Arrival::now(last) };
    }
    let begin = last.iter().position(|byte| matches!(byte, b'{' | b'['));
    match begin.filter(|begin| *begin > 0) {
        None => Arrival::now(last),
        Some(begin) => {
            let key = last[..begin].trim_ascii().to_vec();
            Arrival { key: Some(key), ..Arrival::now(last[begin..].to_vec()) }
        }
    }
}
