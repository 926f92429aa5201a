//! Line protocol: any bytes, cut anywhere, do no harm and give the same rows as when they come at once.
//!
//! The first byte is the length of the pieces, all others are the stream. `cargo fuzz run line`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use splay_capture::line::{LineDecoder, LineRows, LineSettings};

const NOW: i64 = 1_700_000_000_000_000_000;

/// All batches, with the counts of lines accepted and refused.
fn decode(bytes: &[u8], piece: usize) -> (Vec<LineRows>, u64, u64) {
    let settings = LineSettings {
        line_bytes_max: 512,
        columns_max: 16,
        tables_max: 4,
        rows_max: 64,
        batch_bytes_max: 16 << 10,
        ..LineSettings::default()
    };
    let mut decoder = LineDecoder::new(settings);
    let mut batches = Vec::new();
    for piece in bytes.chunks(piece) {
        let mut used = 0;
        loop {
            used += decoder.push(&piece[used..], NOW);
            if !decoder.is_full() {
                break;
            }
            batches.extend(decoder.take());
        }
        assert_eq!(used, piece.len());
    }
    while !decoder.finish(NOW) {
        batches.extend(decoder.take());
    }
    batches.extend(decoder.take());
    (batches, decoder.accepted(), decoder.refused())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let (whole, accepted, refused) = decode(bytes, bytes.len().max(1));
    let (cut, cut_accepted, cut_refused) = decode(bytes, usize::from(piece).max(1));
    assert_eq!((accepted, refused), (cut_accepted, cut_refused));
    assert_eq!(accepted, whole.iter().map(|batch| batch.lines).sum::<u64>());
    assert_eq!(whole.len(), cut.len());
    for (whole, cut) in whole.iter().zip(&cut) {
        assert_eq!(whole.table, cut.table);
        assert_eq!(whole.spec, cut.spec);
        assert!(whole.spec.validate().is_ok());
        // Compared as text, since a NaN isn't equal to itself.
        assert_eq!(format!("{:?}", whole.rows), format!("{:?}", cut.rows));
    }
});
