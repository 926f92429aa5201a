//! Targets for fuzzing: any bytes from a client of WebSocket, and any request for rows, from the bytes of the protocol on.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use splay_mutate::{Bytes as Input, Run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

use crate::fuzz;

/// The request that opens a WebSocket.
const UPGRADE: &str = "GET /subscribe HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

/// Sends bytes over one connection, and more once there is an answer; reads what is answered until the server closes it.
async fn speak(router: Router, first: &[u8], then: &[u8]) -> Vec<u8> {
    let (client, server) = tokio::io::duplex(1 << 20);
    let service = TowerToHyperService::new(
        router.map_request(|request: hyper::Request<hyper::body::Incoming>| request.map(axum::body::Body::new)),
    );
    let serving = http1::Builder::new().serve_connection(TokioIo::new(server), service).with_upgrades();
    let (mut reader, mut writer) = tokio::io::split(client);
    let mut answer = Vec::new();
    let asking = async {
        // A server that closes first is no failure.
        let _ = writer.write_all(first).await;
        if !then.is_empty() {
            let _ = reader.read_buf(&mut answer).await;
            let _ = writer.write_all(then).await;
        }
        let _ = writer.shutdown().await;
        let _ = reader.read_to_end(&mut answer).await;
    };
    let (_, ()) = tokio::join!(serving, asking);
    answer
}

/// Frames of a client, each with its first byte, its kind of length and its payload; the last byte of a kind leaves the mask out.
fn frames(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = Input::new(bytes);
    let mut sent = Vec::new();
    while !bytes.is_empty() {
        let (first, kind) = (bytes.byte(), bytes.byte());
        let length = usize::from(bytes.short());
        let payload = bytes.take(length);
        let mask = if kind % 32 == 31 { 0 } else { 0x80 };
        sent.push(first);
        match (kind % 4, payload.len()) {
            (0, length @ 0..126) => sent.push(mask | u8::try_from(length).unwrap_or(0)),
            (1, length) => {
                sent.push(mask | 127);
                sent.extend((length as u64).to_be_bytes());
            }
            (2, _) => {
                sent.push(mask | 127);
                sent.extend(bytes.number().to_be_bytes());
            }
            (_, length) => {
                sent.push(mask | 126);
                sent.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
            }
        }
        // A mask of zeros changes nothing.
        sent.extend_from_slice(if mask == 0 { &[] } else { &[0; 4] });
        sent.extend_from_slice(payload);
    }
    sent
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    [&[first, 0][..], &length.to_le_bytes(), payload].concat()
}

#[test]
fn any_messages_to_a_websocket_are_answered() {
    let (router, runtime) = (super::router(fuzz::shared()), fuzz::runtime());
    let ask = br#"{"table": "trade", "symbols": ["A"], "slow": "catch_up", "credit": 2, "format": "json"}"#;
    let credit = frame(0x81, br#"{"credit": 18446744073709551615}"#);
    let samples = [
        [frame(0x81, ask), credit.clone(), credit].concat(),
        [frame(0x82, ask), frame(0x89, b"ping"), frame(0x88, b"\x03\xe8bye")].concat(),
        [frame(0x01, &ask[..20]), frame(0x80, &ask[20..])].concat(),
    ];
    let target = |bytes: &[u8]| {
        let answer = runtime.block_on(speak(router.clone(), UPGRADE.as_bytes(), &frames(bytes)));
        assert!(bytes.is_empty() || answer.starts_with(b"HTTP/1.1 101"), "{}", answer.escape_ascii());
    };
    Run { inputs: 3_000, bytes_max: 1 << 12, memory: fuzz::MEMORY, ..Run::default() }.feed(&samples, target);
}

#[test]
fn any_request_is_answered_or_its_connection_closed() {
    let (router, runtime) = (super::router(fuzz::shared()), fuzz::runtime());
    let samples = [
        "GET /query?query=select+1&params=%5B1%2C%22a%22%5D HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 41\r\n\r\n\
         {\"sql\": \"select $a\", \"params\": {\"a\": 1.5}}",
        "POST /write?precision=ns HTTP/1.1\r\nhost: localhost\r\ncontent-length: 11\r\n\r\nt,a=b x=1 5\n",
        "POST /api/v1/write?table=t&ack=disk&producer=p&sequence=1 HTTP/1.1\r\nhost: localhost\r\n\
         transfer-encoding: chunked\r\n\r\n8\r\n\u{7f}\u{7f}\u{7f}\u{7f}\0\0\0\0\r\n0\r\n\r\n",
        "GET /tables/trade HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\nauthorization: Basic YTpi\r\n\r\n",
    ];
    let samples = samples.map(|text| text.as_bytes().to_vec());
    let target = |bytes: &[u8]| drop(runtime.block_on(speak(router.clone(), bytes, &[])));
    let words: &[&[u8]] = &[b"\r\n", b"%", b"&", b"HTTP/1.1", b"content-encoding: gzip\r\n", b"[", b"{", b"\"", b"\0"];
    Run { inputs: 3_000, bytes_max: 1 << 12, words, memory: fuzz::MEMORY, ..Run::default() }.feed(&samples, target);
}
