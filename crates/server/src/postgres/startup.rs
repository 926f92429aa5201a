//! The start of a connection: TLS or not, version, settings, password.

use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes};
use splay_store::{SCRAM_SHA_256, ScramVerifier};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::connection::Connection;
use super::messages::{Body, Reader};
use super::parameters::{Parameters, of_options};
use super::refusal::Refusal;
use super::replies::Replies;
use super::scram::{self, ScramExchange};
use super::{PostgresFront, Wire};
use crate::callers::Caller;
use crate::problem::{Code, Problem};

const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSSAPI: u32 = 80_877_104;
/// Version 3.0; later ones have another lower half.
const VERSION: u32 = 3 << 16;

/// Bytes of the message with the password, which may be a token of the provider.
const PASSWORD_BYTES_MAX: usize = crate::oidc::TOKEN_BYTES_MAX + 1;

/// Requests for TLS or GSSAPI before the first packet that is none.
const REQUESTS_MAX: usize = 4;

/// The first message of a client.
pub(super) enum StartupStream<S> {
    /// A packet to begin with.
    Plain(Reader<S>, Bytes),
    /// TLS, which was promised.
    Tls(S),
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Reader<S> {
    /// The same for any stream.
    pub(super) fn boxed(self) -> Reader<Box<dyn Wire>> {
        self.map(|stream| Box::new(stream) as Box<dyn Wire>)
    }
}

/// Answers what comes before the first packet of a session; cancels, if that is what it is about. None if the connection is over.
pub(super) async fn negotiate<S: AsyncRead + AsyncWrite + Unpin>(
    front: &PostgresFront,
    stream: S,
    has_tls: bool,
) -> Option<StartupStream<S>> {
    let mut reader = Reader::new(stream);
    for _ in 0..REQUESTS_MAX {
        let mut packet = match reader.packet().await {
            Ok(packet) => packet?,
            Err(refusal) => {
                refuse(reader.stream(), &refusal).await;
                return None;
            }
        };
        match packet.get(..4).map(|four| u32::from_be_bytes(four.try_into().unwrap_or_default())) {
            Some(TLS) if has_tls => {
                reader.stream().write_all(b"S").await.ok()?;
                // Bytes that came before the handshake are an error: a third party could have inserted them.
                return reader.into_inner().map(StartupStream::Tls);
            }
            Some(TLS | GSSAPI) => reader.stream().write_all(b"N").await.ok()?,
            Some(CANCEL) => {
                packet.advance(4);
                front.running.cancel(&packet);
                return None;
            }
            _ => return Some(StartupStream::Plain(reader, packet)),
        }
    }
    None
}

pub(super) async fn refuse(stream: &mut (impl AsyncWrite + Unpin), refusal: &Refusal) {
    let mut replies = Replies::default();
    replies.refusal(refusal, "", 0);
    // The client may be gone.
    let _ = stream.write_all(&replies.bytes).await;
    let _ = stream.shutdown().await;
}

/// The request of a client's first packet.
struct StartupRequest {
    user: String,
    parameters: Parameters,
    /// Options that a later version would know.
    unknown: Vec<String>,
    minor: u32,
}

/// Sets a session up; none if it was refused.
pub(super) async fn begin(
    front: &PostgresFront,
    mut reader: Reader<Box<dyn Wire>>,
    packet: Bytes,
    is_tls: bool,
) -> Option<Connection> {
    match set_up(front, &mut reader, packet, is_tls).await {
        Ok((parameters, caller, replies)) => {
            let connection = Connection::new(front.clone(), reader, parameters, caller);
            connection.greet(replies, front.connections.fetch_add(1, Ordering::Relaxed)).await
        }
        Err(refusal) => {
            front
                .shared
                .metrics
                .request("postgres", if refusal.code == "28P01" { "unauthorized" } else { "bad_request" });
            refuse(reader.stream(), &refusal).await;
            None
        }
    }
}

async fn set_up(
    front: &PostgresFront,
    reader: &mut Reader<Box<dyn Wire>>,
    packet: Bytes,
    is_tls: bool,
) -> Result<(Parameters, Caller, Replies), Refusal> {
    let StartupRequest { user, parameters, unknown, minor } = request(packet)?;
    if front.tls.is_some() && !is_tls {
        return Err(Refusal::fatal("28000", "this server speaks TLS only: connect with sslmode=require"));
    }
    let mut replies = Replies::default();
    if minor > 0 || !unknown.is_empty() {
        replies.older_version(&unknown);
    }
    let callers = &front.shared.callers;
    let caller = if !callers.ask().map_err(refusal)? {
        callers.anonymous().map_err(refusal)?
    } else if let Some(verifier) = callers.verifier_of(&user).map_err(refusal)? {
        let is_proved = prove(reader, &mut replies, verifier.clone()).await?;
        callers.of_proof(&user, &verifier, is_proved).map_err(refusal)?
    } else {
        replies.ask_for_password();
        send(reader, &mut replies).await?;
        let password = password(reader).await?;
        callers.of_password(&user, &password).await.map_err(refusal)?
    };
    replies.authenticated();
    Ok((parameters, caller, replies))
}

async fn send(reader: &mut Reader<Box<dyn Wire>>, replies: &mut Replies) -> Result<(), Refusal> {
    let written = reader.stream().write_all(&replies.bytes).await;
    replies.bytes.clear();
    written.map_err(|_| Refusal::fatal("08006", "the connection broke off"))
}

/// Whether the client proves that it knows the password of a verifier. The server's last message waits in `replies`.
async fn prove(
    reader: &mut Reader<Box<dyn Wire>>,
    replies: &mut Replies,
    verifier: ScramVerifier,
) -> Result<bool, Refusal> {
    replies.ask_for_proof(SCRAM_SHA_256);
    send(reader, replies).await?;
    let mut body = response(reader, scram::MESSAGE_BYTES_MAX).await?;
    if body.text().map_err(fatal)? != SCRAM_SHA_256 {
        return Err(Refusal::fatal("0A000", format!("this server knows the mechanism {SCRAM_SHA_256} alone")));
    }
    // The length of what follows, which is the rest of the message.
    body.number().map_err(fatal)?;
    let (exchange, answer) = ScramExchange::begin(verifier, &body.rest_as_text().map_err(fatal)?)?;
    replies.exchange(&answer, false);
    send(reader, replies).await?;
    let mut body = response(reader, scram::MESSAGE_BYTES_MAX).await?;
    let last = exchange.end(&body.rest_as_text().map_err(fatal)?)?;
    if let Some(last) = &last {
        replies.exchange(last, true);
    }
    Ok(last.is_some())
}

fn fatal(refusal: Refusal) -> Refusal {
    Refusal { is_fatal: true, ..refusal }
}

/// The error for a client that isn't let in.
fn refusal(problem: Problem) -> Refusal {
    let state = match problem.code {
        Code::Unauthorized => "28P01",
        Code::Forbidden => "28000",
        Code::Provider => "57P03",
        _ => "XX001",
    };
    Refusal::fatal(state, problem.message)
}

/// The first packet of a session: a version, then names and values.
fn request(packet: Bytes) -> Result<StartupRequest, Refusal> {
    let mut body = Body(packet);
    let version = body.number()?;
    if version & 0xffff_0000 != VERSION {
        let (major, minor) = (version >> 16, version & 0xffff);
        return Err(Refusal::fatal(
            "0A000",
            format!("unsupported frontend protocol {major}.{minor}: this server speaks 3.0"),
        ));
    }
    let (user, parameters, unknown) = (String::new(), Parameters::default(), Vec::new());
    let mut request = StartupRequest { user, parameters, unknown, minor: version & 0xffff };
    loop {
        let name = body.text().map_err(fatal)?;
        if name.is_empty() {
            break;
        }
        let value = body.text().map_err(fatal)?;
        match name.as_str() {
            "user" => request.user = value,
            // There is one, whatever it is called.
            "database" => {}
            "replication" => match value.as_str() {
                "false" | "off" | "no" | "0" => {}
                _ => return Err(Refusal::fatal("0A000", "replication is not supported")),
            },
            "options" => {
                for (name, value) in of_options(&value)? {
                    request.parameters.begin_with(&name, &value).map_err(fatal)?;
                }
            }
            name if name.starts_with("_pq_.") => request.unknown.push(name.to_owned()),
            name => request.parameters.begin_with(name, &value).map_err(fatal)?,
        }
    }
    body.end()?;
    Ok(request)
}

async fn password(reader: &mut Reader<Box<dyn Wire>>) -> Result<String, Refusal> {
    response(reader, PASSWORD_BYTES_MAX).await?.text().map_err(fatal)
}

/// The client's next message about its password.
async fn response(reader: &mut Reader<Box<dyn Wire>>, bytes_max: usize) -> Result<Body, Refusal> {
    loop {
        match reader.take(bytes_max)? {
            Some((b'p', body)) => return Ok(Body(body)),
            Some(_) => return Err(Refusal::fatal("08P01", "a password was expected")),
            None if reader.fill().await.unwrap_or(0) == 0 => {
                return Err(Refusal::fatal("28P01", "no password was given: it is the user's, or a token"));
            }
            None => {}
        }
    }
}
