//! Messages of clients: read within limits, and parsed.
//!
//! - A message is a byte for its kind, four for its length, and its body. Its length is checked before any byte of
//!   the body is read, and memory grows with the received bytes.
//! - Numbers within a message never size an allocation, and a message that ends early or late is refused.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::refusal::Refusal;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Bytes of room for the beginning of a message: what a connection holds that waits for one.
const FIRST_READ_BYTES: usize = 512;

/// Bytes of a packet before the connection is set up, as PostgreSQL bounds them.
pub(super) const STARTUP_BYTES_MAX: usize = 10_000;

/// A message of a client that was set up.
#[derive(Debug)]
pub(super) enum ClientMessage {
    Query(String),
    Parse {
        name: String,
        text: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target),
    Execute {
        portal: String,
        rows_max: u32,
    },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    /// Part of what a `COPY` takes. Ignored behind one that failed, as PostgreSQL does.
    CopyData(Bytes),
    CopyDone,
    /// With the client's reason.
    CopyFail(String),
}

/// Values for a prepared statement, and how its columns are wanted.
#[derive(Debug)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    /// None: all text. One: for all. Otherwise one a value.
    pub(super) formats: Vec<i16>,
    pub(super) values: Vec<Option<Bytes>>,
    /// The same for the columns.
    pub(super) columns: Vec<i16>,
}

/// The object to describe or to close.
#[derive(Debug)]
pub(super) enum Target {
    Statement(String),
    Portal(String),
}

/// Length of a message whose room the next ones are read into.
const BUFFER_BYTES_MAX: usize = 256 << 10;

/// Reads messages from a stream.
#[derive(Debug)]
pub(super) struct Reader<R> {
    stream: R,
    buffer: BytesMut,
    has_ended: bool,
    /// Whether the last read took all the room there was, so that more is probably waiting.
    has_filled: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(stream: R) -> Reader<R> {
        Reader { stream, buffer: BytesMut::new(), has_ended: false, has_filled: false }
    }

    /// The stream again, if nothing was read ahead.
    pub(super) fn into_inner(self) -> Option<R> {
        self.buffer.is_empty().then_some(self.stream)
    }

    /// The same over another stream.
    pub(super) fn map<S>(self, stream: impl FnOnce(R) -> S) -> Reader<S> {
        Reader {
            stream: stream(self.stream),
            buffer: self.buffer,
            has_ended: self.has_ended,
            has_filled: self.has_filled,
        }
    }

    pub(super) fn stream(&mut self) -> &mut R {
        &mut self.stream
    }

    /// Bytes that were read and not taken.
    pub(super) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Reads some bytes more. Loses nothing if it is dropped. 0 at the end of the stream.
    pub(super) async fn fill(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() && !self.has_filled {
            self.buffer = BytesMut::with_capacity(FIRST_READ_BYTES);
        } else {
            self.buffer.reserve(READ_BYTES);
        }
        let room = self.buffer.capacity() - self.buffer.len();
        let read = self.stream.read_buf(&mut self.buffer).await?;
        (self.has_ended, self.has_filled) = (read == 0, read == room);
        Ok(read)
    }

    /// Whether the end of the stream was read.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// A packet without a kind, as connections begin with; `None` at the end of the stream.
    pub(super) async fn packet(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            if let Some(length) = self.length(0, STARTUP_BYTES_MAX)?
                && self.buffer.len() >= length
            {
                let mut packet = self.buffer.split_to(length).freeze();
                packet.advance(4);
                return Ok(Some(packet));
            }
            if self.fill().await.unwrap_or(0) == 0 {
                return Ok(None);
            }
        }
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// A length that no message has, which ends the connection.
    pub(super) fn take(&mut self, bytes_max: usize) -> Result<Option<(u8, Bytes)>, Refusal> {
        let Some(length) = self.length(1, bytes_max)? else { return Ok(None) };
        if self.buffer.len() < 1 + length {
            return Ok(None);
        }
        let mut message = self.buffer.split_to(1 + length).freeze();
        if length > BUFFER_BYTES_MAX {
            // The buffer of a long message is released.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        let kind = message.get_u8();
        message.advance(4);
        Ok(Some((kind, message)))
    }

    /// The length field after `offset` bytes.
    fn length(&self, offset: usize, bytes_max: usize) -> Result<Option<usize>, Refusal> {
        let Some(four) = self.buffer.get(offset..offset + 4) else { return Ok(None) };
        let length = i32::from_be_bytes(four.try_into().unwrap_or_default());
        match usize::try_from(length) {
            Ok(length) if (4..=bytes_max).contains(&length) => Ok(Some(length)),
            _ => {
                Err(Refusal::fatal("08P01", format!("invalid length of message: {length}; at most {bytes_max} bytes")))
            }
        }
    }
}

impl ClientMessage {
    /// The message of a kind with this body.
    ///
    /// # Errors
    /// A malformed message, which ends the connection. Text that isn't UTF-8 doesn't.
    pub(super) fn of(kind: u8, body: Bytes) -> Result<ClientMessage, Refusal> {
        let mut body = Body(body);
        let message = match kind {
            b'Q' => ClientMessage::Query(body.text()?),
            b'P' => {
                let (name, text) = (body.text()?, body.text()?);
                let count = body.short()?;
                ClientMessage::Parse { name, text, types: (0..count).map(|_| body.number()).collect::<Result<_, _>>()? }
            }
            b'B' => ClientMessage::Bind(Bind {
                portal: body.text()?,
                statement: body.text()?,
                formats: body.formats()?,
                values: {
                    let count = body.short()?;
                    (0..count).map(|_| body.value()).collect::<Result<_, _>>()?
                },
                columns: body.formats()?,
            }),
            b'D' => ClientMessage::Describe(body.target()?),
            b'E' => ClientMessage::Execute { portal: body.text()?, rows_max: body.number()? },
            b'C' => ClientMessage::Close(body.target()?),
            b'H' => ClientMessage::Flush,
            b'S' => ClientMessage::Sync,
            b'X' => ClientMessage::Terminate,
            b'd' => return Ok(ClientMessage::CopyData(body.0)),
            b'c' => ClientMessage::CopyDone,
            b'f' => ClientMessage::CopyFail(body.text()?),
            b'F' => return Err(Refusal::fatal("0A000", "calls of functions by message are not supported; use select")),
            other => {
                return Err(Refusal::fatal("08P01", format!("invalid kind of message: {:?}", char::from(other))));
            }
        };
        body.end().map(|()| message)
    }
}

/// The unread rest of a message's body.
pub(super) struct Body(pub(super) Bytes);

impl Body {
    fn truncated() -> Refusal {
        Refusal::fatal("08P01", "a message ends before what it announces")
    }

    /// Text up to a zero.
    pub(super) fn text(&mut self) -> Result<String, Refusal> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(Body::truncated)?;
        let bytes = self.0.split_to(end);
        self.0.advance(1);
        String::from_utf8(bytes.into()).map_err(|_| Refusal::new("22021", "the text is not UTF-8"))
    }

    fn short(&mut self) -> Result<u16, Refusal> {
        self.0.try_get_u16().map_err(|_| Body::truncated())
    }

    pub(super) fn number(&mut self) -> Result<u32, Refusal> {
        self.0.try_get_u32().map_err(|_| Body::truncated())
    }

    fn formats(&mut self) -> Result<Vec<i16>, Refusal> {
        let count = self.short()?;
        (0..count).map(|_| self.0.try_get_i16().map_err(|_| Body::truncated())).collect()
    }

    /// Bytes with their length before them; none for null.
    fn value(&mut self) -> Result<Option<Bytes>, Refusal> {
        let length = self.number()?;
        if length == u32::MAX {
            return Ok(None);
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.0.len() {
            return Err(Body::truncated());
        }
        Ok(Some(self.0.split_to(length)))
    }

    fn target(&mut self) -> Result<Target, Refusal> {
        let kind = self.0.try_get_u8().map_err(|_| Body::truncated())?;
        match kind {
            b'S' => Ok(Target::Statement(self.text()?)),
            b'P' => Ok(Target::Portal(self.text()?)),
            _ => Err(Refusal::fatal("08P01", "only statements and portals are described and closed")),
        }
    }

    /// What is left, as text.
    pub(super) fn rest_as_text(&mut self) -> Result<String, Refusal> {
        String::from_utf8(std::mem::take(&mut self.0).into())
            .map_err(|_| Refusal::new("22021", "the text is not UTF-8"))
    }

    pub(super) fn end(&self) -> Result<(), Refusal> {
        if self.0.is_empty() { Ok(()) } else { Err(Refusal::fatal("08P01", "a message goes on behind its end")) }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(kind: u8, body: &'static [u8]) -> Result<ClientMessage, Refusal> {
        ClientMessage::of(kind, Bytes::from_static(body))
    }

    #[test]
    fn messages_are_taken_apart() {
        let parse = of(b'P', b"one\0select $1\0\0\x01\0\0\0\x14").unwrap();
        assert!(
            matches!(parse, ClientMessage::Parse { name, text, types } if name == "one" && text == "select $1" && types == [20])
        );
        let bind = of(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\0").unwrap();
        let ClientMessage::Bind(bind) = bind else { panic!("{bind:?}") };
        assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("p", "s"));
        assert_eq!((bind.formats, bind.columns), (vec![1], vec![0]));
        assert_eq!(bind.values, [Some(Bytes::from_static(b"x")), None]);
    }

    #[test]
    fn what_is_cut_or_too_long_or_unknown_is_refused() {
        let whole = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\0";
        for end in 0..whole.len() {
            assert!(of(b'B', &whole[..end]).is_err(), "{end}");
        }
        for (kind, body) in [
            (b'Q', &b"select 1"[..]),
            (b'Q', b"select 1\0more"),
            (b'S', b"x"),
            (b'D', b"Xa\0"),
            (b'P', b"\0\0\xff\xff"),
            (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
            (b'?', b""),
            (b'F', b""),
        ] {
            assert!(of(kind, body).unwrap_err().is_fatal, "{}", char::from(kind));
        }
        let text = of(b'Q', b"\xff\0").unwrap_err();
        assert!(!text.is_fatal && text.code == "22021");
    }

    #[test]
    fn lengths_are_checked_before_bodies_come() {
        let mut reader = Reader::new(&b""[..]);
        for (length, is_refused) in [(3, true), (-1, true), (101, true), (4, false), (100, false)] {
            reader.buffer.clear();
            reader.buffer.extend_from_slice(b"Q");
            reader.buffer.extend_from_slice(&i32::to_be_bytes(length));
            assert_eq!(reader.take(100).is_err(), is_refused, "{length}");
        }
    }
}
