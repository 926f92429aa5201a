//! The journal's form of rows: what is written is read back, and any other bytes are refused or are rows that are written so.
//!
//! The first byte says which: bytes as they are, rows made of them, or such rows with one change to their bytes.

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use splay_mutate::Bytes;
use splay_store::TableSpec;

use super::batches;
use crate::codec;

/// The target.
pub fn rows(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let kind = bytes.below(3);
    let spec = batches::table(&mut bytes);
    if kind == 0 {
        check(&spec, bytes.rest());
        return;
    }
    let rows = batches::rows_of(&spec, &mut bytes);
    let mut encoded = Vec::new();
    codec::encode(&rows, &mut encoded);
    if kind == 1 {
        let back = codec::decode(&spec, &encoded);
        assert_eq!(back.map(|back| text(&back)), Ok(text(&rows)));
        return;
    }
    let at = bytes.place(encoded.len());
    match bytes.below(3) {
        0 => encoded.truncate(at),
        1 => encoded.insert(at, bytes.byte()),
        _ => encoded[at] ^= bytes.byte() | 1,
    }
    check(&spec, &encoded);
}

/// Bytes that are read as rows are those rows, and no more.
fn check(spec: &TableSpec, bytes: &[u8]) {
    let Ok(rows) = codec::decode(spec, bytes) else { return };
    assert!(rows.num_rows() <= bytes.len());
    let (mut encoded, mut again) = (Vec::new(), Vec::new());
    codec::encode(&rows, &mut encoded);
    let back = codec::decode(spec, &encoded);
    back.iter().for_each(|back| codec::encode(back, &mut again));
    assert_eq!((again, back.is_ok()), (encoded, true));
}

fn text(rows: &RecordBatch) -> String {
    pretty_format_batches(std::slice::from_ref(rows)).map_or_else(|error| error.to_string(), |text| text.to_string())
}

#[cfg(test)]
mod tests {
    use splay_mutate::{Random, Run};

    #[test]
    fn any_bytes_are_refused_or_are_rows() {
        let mut random = Random::new(5);
        let samples: Vec<Vec<u8>> = (0..64).map(|_| (0..160).map(|_| random.byte()).collect()).collect();
        Run { inputs: 20_000, bytes_max: 1 << 10, memory: super::super::MEMORY, ..Run::default() }
            .feed(&samples, super::rows);
    }
}
