//! Lines per second of the decoder, into columns.
//!
//! `cargo bench -p splay-capture --bench line`. Throughput is in lines ("elements") of 65,536 lines.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use splay_capture::line::{LineDecoder, LineSettings};

const LINES: usize = 65_536;

/// QuestDB's own example line, with symbols, prices and times that change.
fn trades() -> Vec<u8> {
    let mut state = 7u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut bytes = Vec::new();
    for row in 0..LINES {
        let symbol = ["BTC-USD", "ETH-USD", "SOL-USD", "ADA-USDT", "DOGE-USDT", "XRP-USD"][row_symbol(next(64))];
        let side = if next(2) == 0 { "buy" } else { "sell" };
        let (price, cents, amount) = (39_000 + next(500), next(100), next(100_000));
        let time = 1_646_762_637_710_419_000 + row as u64 * 1_037;
        bytes.extend_from_slice(
            format!("trades,symbol={symbol},side={side} price={price}.{cents:02},amount=0.{amount:05} {time}\n")
                .as_bytes(),
        );
    }
    bytes
}

fn row_symbol(draw: u64) -> usize {
    [32, 48, 56, 60, 62].iter().position(|&bound| draw < bound).unwrap_or(5)
}

/// The same rows as QuestDB's clients send them since protocol version 2: floats in binary.
fn binary(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
        let words: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
        bytes.extend_from_slice(words[0]);
        for (i, field) in words[1].split(|&b| b == b',').enumerate() {
            let at = memchr::memchr(b'=', field).unwrap_or(0);
            let value: f64 = fast_float2::parse(&field[at + 1..]).unwrap_or_default();
            bytes.push(if i == 0 { b' ' } else { b',' });
            bytes.extend_from_slice(&field[..at]);
            bytes.extend_from_slice(b"==\x10");
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.push(b' ');
        bytes.extend_from_slice(words[2]);
        bytes.extend_from_slice(b"n\n");
    }
    bytes
}

/// Trades of which every other has an id, of two tables in turn.
fn mixed() -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in 0..LINES {
        let table = ["trades-COINBASE", "trades-KRAKEN"][row % 2];
        let id = if row % 4 < 2 { format!("id={row}i,") } else { String::new() };
        let (price, micros) = (39_000.0 + (row % 977) as f64 / 100.0, 1_646_762_637_710_419 + row);
        bytes.extend_from_slice(
            format!(
                "{table},symbol=BTC-USD,side=buy,type=None price={price},amount=0.011,{id}receipt_timestamp={micros}t {micros}000\n"
            )
            .as_bytes(),
        );
    }
    bytes
}

/// A book of ten levels as Cryptofeed's QuestDB back end sends it: 42 columns.
fn books() -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in 0..LINES / 16 {
        bytes.extend_from_slice(b"book-COINBASE,symbol=BTC-USD ");
        for side in ["bid", "ask"] {
            for level in 0..10 {
                let price = 39_000.0 + ((row * 7 + level * 3) % 1000) as f64 / 100.0;
                let comma = if side == "bid" && level == 0 { "" } else { "," };
                bytes.extend_from_slice(
                    format!("{comma}{side}_{level}_price={price},{side}_{level}_size=0.{:04}", row % 10_000).as_bytes(),
                );
            }
        }
        bytes.extend_from_slice(format!(",receipt_timestamp={}t {}\n", 1_646_762_637_710_419u64, row).as_bytes());
    }
    bytes
}

fn decode(bytes: &[u8], chunk: usize) -> u64 {
    let mut decoder = LineDecoder::new(LineSettings { batch_bytes_max: 1 << 30, ..LineSettings::default() });
    for piece in bytes.chunks(chunk) {
        assert_eq!(decoder.push(piece, 0), piece.len());
    }
    decoder.take().iter().map(|batch| batch.lines).sum()
}

fn bench(criterion: &mut Criterion) {
    let trades = trades();
    let binary = binary(&trades);
    let books = books();
    let mixed = mixed();
    let mut group = criterion.benchmark_group("line");
    let inputs = [
        ("trades", &trades, LINES),
        ("binary", &binary, LINES),
        ("mixed", &mixed, LINES),
        ("books", &books, LINES / 16),
    ];
    for (name, bytes, lines) in inputs {
        group.throughput(Throughput::Elements(lines as u64));
        group.bench_function(format!("{name}/decoder"), |b| {
            b.iter(|| assert_eq!(decode(bytes, 64 << 10), lines as u64));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
