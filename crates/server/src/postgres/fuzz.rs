//! A target for fuzzing: any bytes from a client, from the first packet on.

use splay_mutate::Run;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::startup::{self, StartupStream};
use super::{PostgresFront, Wire};
use crate::fuzz;

/// Sends bytes over one connection and reads what is answered until the server closes it.
async fn speak(front: &PostgresFront, bytes: &[u8]) -> Vec<u8> {
    let (client, server) = tokio::io::duplex(1 << 20);
    let serving = async {
        let server: Box<dyn Wire> = Box::new(server);
        if let Some(StartupStream::Plain(reader, packet)) = startup::negotiate(front, server, false).await
            && let Some(connection) = startup::begin(front, reader.boxed(), packet, false).await
        {
            Box::new(connection).run().await;
        }
    };
    let (mut reader, mut writer) = tokio::io::split(client);
    let mut answer = Vec::new();
    let asking = async {
        // A server that closes first is no failure.
        let _ = writer.write_all(bytes).await;
        let _ = writer.shutdown().await;
        let _ = reader.read_to_end(&mut answer).await;
    };
    tokio::join!(serving, asking);
    answer
}

fn packet(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len() + 4).unwrap_or(0).to_be_bytes(), body].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &packet(body)].concat()
}

/// The packets of a session that prepares, binds, describes and executes.
fn session() -> Vec<u8> {
    [
        packet(b"\0\x03\0\0user\0a\0database\0b\0application_name\0c\0options\0-c statement_timeout=1s\0\0"),
        message(b'Q', b"begin; show timezone; set extra_float_digits = 3; select 1; commit\0"),
        message(b'P', b"s\0select $1::bigint, $2\0\0\x02\0\0\0\x14\0\0\0\0"),
        message(b'D', b"Ss\0"),
        message(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x01\0\0\0\x01x\0\x01\0\x01"),
        message(b'D', b"Pp\0"),
        message(b'E', b"p\0\0\0\0\x01"),
        message(b'H', b""),
        message(b'S', b""),
        message(b'P', b"\0show search_path\0\0\0"),
        message(b'B', b"\0\0\0\0\0\0\0\0"),
        message(b'E', b"\0\0\0\0\0"),
        message(b'C', b"Ss\0"),
        message(b'S', b""),
        message(b'Q', b"rollback\0"),
        message(b'Q', b"copy (select 1 as a, 'b' as b) to stdout with (format csv, header)\0"),
        message(b'Q', b"copy trade from stdin (format binary)\0"),
        message(b'd', b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\xff\xff"),
        message(b'c', b""),
        message(b'X', b""),
    ]
    .concat()
}

#[test]
fn any_bytes_are_answered_or_their_connection_closed() {
    let (front, runtime) =
        (PostgresFront::new(fuzz::serving(), None).unwrap_or_else(|error| panic!("{error}")), fuzz::runtime());
    let answer = runtime.block_on(speak(&front, &session()));
    assert!(answer.starts_with(b"R\0\0\0\x08\0\0\0\0S"), "{}", answer.escape_ascii());
    let ready = answer.windows(6).filter(|window| window.starts_with(b"Z\0\0\0\x05")).count();
    assert_eq!(ready, 7, "{}", answer.escape_ascii());
    let samples = [session(), packet(&80_877_103u32.to_be_bytes()), packet(b"\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02")];
    let target = |bytes: &[u8]| drop(runtime.block_on(speak(&front, bytes)));
    let words: &[&[u8]] = &[
        b"\0\x03\0\0",
        b"\0\0\0\x04",
        b"\xff\xff\xff\xff",
        b"P",
        b"B",
        b"E",
        b"S\0\0\0\x04",
        b"$1",
        b"begin",
        b"copy ",
        b"set ",
        b"'",
        b"\0",
    ];
    Run { inputs: 3_000, bytes_max: 1 << 12, words, memory: fuzz::MEMORY, ..Run::default() }.feed(&samples, target);
}
