//! Megabytes per second from a wide CSV file of short decimals to record batches, by parsing threads.
//!
//! Expected on one 3 GHz core: about 30 cycles per field of 7 bytes, 600 MB/s and more.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use splay_import::{Error, ImportSettings, expand, plan};

const COLUMNS: usize = 80;
const BYTES: usize = 64 << 20;

/// Rows of a time and 80 short decimals of varying length and sign.
fn wide_csv() -> String {
    let mut text = String::with_capacity(BYTES + 4096);
    text.push_str("time");
    (0..COLUMNS).for_each(|c| write!(text, ",f{c}").expect("a string takes all"));
    text.push('\n');
    let mut state = 1u64;
    let mut nanos = 1_700_000_000_000_000_000u64;
    while text.len() < BYTES {
        nanos += 1_000_000;
        write!(text, "{nanos}").expect("a string takes all");
        for _ in 0..COLUMNS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (whole, fraction) = (state >> 54, (state >> 32) % 1000);
            let sign = if state & 1 == 0 { "" } else { "-" };
            match state >> 60 {
                0..8 => write!(text, ",{sign}{whole}.{fraction:03}"),
                8..14 => write!(text, ",{sign}{}.{:02}", whole % 100, fraction % 100),
                _ => write!(text, ",{sign}0.{:05}", (state >> 20) % 100_000),
            }
            .expect("a string takes all");
        }
        text.push('\n');
    }
    text
}

fn benches(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("wide.csv");
    let text = wide_csv();
    std::fs::write(&path, &text).expect("room for the file");
    let mut group = criterion.benchmark_group("wide_float_csv");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10);
    for threads in [1, 2] {
        group.bench_function(format!("{threads}_threads"), |bencher| {
            bencher.iter(|| {
                let files = expand(&[path.display().to_string()]).expect("the file");
                let settings = ImportSettings { threads, ..ImportSettings::default() };
                let import = plan("wide", files, settings, None).expect("a plan");
                let report = import.run::<Error>(&mut |block| {
                    black_box(&block.batch);
                    Ok(())
                });
                report.expect("a load").rows
            });
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
