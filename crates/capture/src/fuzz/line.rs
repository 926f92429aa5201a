//! Line protocol: any bytes, cut anywhere, do no harm and give the same rows as when they come at once.
//!
//! The first byte is the length of the pieces, all others are the stream.

use crate::line::{LineDecoder, LineRows, LineSettings};

/// What lines without a time get.
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

/// The target.
pub fn line(bytes: &[u8]) {
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
}

#[cfg(test)]
mod tests {
    use splay_mutate::Run;

    #[test]
    fn any_lines_cut_anywhere_give_the_same_rows() {
        let samples: Vec<Vec<u8>> = [
            &b"\x07trades,symbol=BTC-USD,side=buy price=39269.98,amount=0.011 1646762637710419000\n"[..],
            b"\x03t,a=b x=1i,y=2u,z=\"te\\\"xt\",w=true 1\nt,a=c x=2i\n\nt x=0.5e-3,v=12t\n# no line\n",
            b"\x01t x==\x10\0\0\0\0\0\0\xf0?,y=\"\xc3\xa9\"\r\nt,a\\ b=c\\,d e\\=f=f 1700000000000000000\n",
            b"\xfft x=nan,y=-inf 9223372036854775807\nT X=1\nt x=t,y=\"\" -5\nu,x=1 x=1\n",
        ]
        .map(<[u8]>::to_vec)
        .to_vec();
        let words: &[&[u8]] =
            &[b"\n", b" ", b",", b"=", b"\\", b"\"", b"==\x10", b"i", b"e308", b"-", b"t", b"0x1", b"#"];
        Run { inputs: 20_000, words, bytes_max: 1 << 12, memory: super::super::MEMORY, ..Run::default() }
            .feed(&samples, super::line);
    }
}
