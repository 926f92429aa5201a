//! Parquet's encodings of whole numbers, and of types with the same bits: floats and dictionary codes.
//!
//! A decoder passes the numbers to a function in runs of at most [`GROUP`], so no intermediate buffer is written, and
//! stops after the last requested number. It returns `None` for bytes that are invalid in its encoding: too short, or
//! numbers out of range.
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use std::ops::Range;

use super::thrift::{varint, zigzag};
use super::unpack::{GROUP, group};

/// Most numbers of a block of deltas. Our writer's have 128 or 256.
const BLOCK_MAX: usize = 1 << 16;

/// DELTA_BINARY_PACKED: the first `count` numbers.
pub(super) fn deltas(bytes: &[u8], count: usize, give: impl FnMut(&[i64])) -> Option<()> {
    delta_block(bytes, Some(count), give).map(|_| ())
}

/// The first numbers of a delta encoding, or all; and where it ends if all were read.
fn delta_block(bytes: &[u8], count: Option<usize>, mut give: impl FnMut(&[i64])) -> Option<usize> {
    let mut at = 0;
    let mut next = || varint(bytes, &mut at);
    let (block, minis) = (usize::try_from(next()?).ok()?, usize::try_from(next()?).ok()?);
    let (total, first) = (usize::try_from(next()?).ok()?, zigzag(next()?));
    let count = count.unwrap_or(total);
    if block > BLOCK_MAX || minis == 0 || block % minis != 0 || (block / minis) % GROUP != 0 || total < count {
        return None;
    }
    let of_mini = block / minis;
    if of_mini == 0 || count == 0 {
        return (count == 0).then_some(at);
    }
    let (mut remaining, mut value) = (count - 1, first);
    give(&[first]);
    let (mut packed, mut values) = ([0; GROUP], [0; GROUP]);
    while remaining > 0 {
        let least = zigzag(varint(bytes, &mut at)?);
        let widths = bytes.get(at..at.checked_add(minis)?)?;
        at += minis;
        for width in widths {
            // The block ends with the last number: further miniblocks aren't stored.
            if remaining == 0 {
                break;
            }
            let width = usize::from(*width);
            if width > 64 {
                return None;
            }
            for _ in 0..of_mini / GROUP {
                if remaining == 0 {
                    at += 4 * width;
                    continue;
                }
                // The last one of a page may be cut off behind its last number.
                let rest = bytes.get(at..)?;
                let here = remaining.min(GROUP);
                if rest.len() * 8 < width * here {
                    return None;
                }
                group(width, &rest[..rest.len().min(4 * width)], &mut packed);
                at += 4 * width;
                for (number, delta) in values.iter_mut().zip(&packed) {
                    value = value.wrapping_add(least).wrapping_add(delta.cast_signed());
                    *number = value;
                }
                give(&values[..here]);
                remaining -= here;
            }
        }
    }
    Some(at.min(bytes.len()))
}

/// RLE and bit packing in turn: the first `count` numbers of `width` bits, at most 32.
pub(super) fn hybrid(bytes: &[u8], width: usize, count: usize, mut give: impl FnMut(&[i64])) -> Option<()> {
    if width > 32 {
        return None;
    }
    let (mut at, mut remaining) = (0, count);
    let (mut packed, mut values) = ([0; GROUP], [0; GROUP]);
    while remaining > 0 {
        let head = varint(bytes, &mut at)?;
        let length = usize::try_from(head >> 1).ok()?;
        if head & 1 == 0 {
            let mut word = [0; 8];
            let width_bytes = width.div_ceil(8);
            word[..width_bytes].copy_from_slice(bytes.get(at..at + width_bytes)?);
            at += width_bytes;
            values = [i64::from_le_bytes(word); GROUP];
            let mut run = length.min(remaining);
            if run == 0 {
                return None;
            }
            remaining -= run;
            while run > 0 {
                let here = run.min(GROUP);
                give(&values[..here]);
                run -= here;
            }
            continue;
        }
        // Groups of eight numbers, the last of which may be filled up.
        let run_bytes = length.checked_mul(width)?;
        let run = bytes.get(at..)?;
        let run = &run[..run.len().min(run_bytes)];
        at = at.checked_add(run_bytes)?;
        let mut here = length.checked_mul(8)?.min(remaining);
        if here == 0 || run.len() * 8 < here * width {
            return None;
        }
        remaining -= here;
        let mut from = 0;
        while here > 0 {
            let rest = &run[from..];
            group(width, &rest[..rest.len().min(4 * width)], &mut packed);
            from = (from + 4 * width).min(run.len());
            for (number, bits) in values.iter_mut().zip(&packed) {
                *number = bits.cast_signed();
            }
            let some = here.min(GROUP);
            give(&values[..some]);
            here -= some;
        }
    }
    Some(())
}

/// PLAIN numbers of 4 or 8 bytes, with their sign.
pub(super) fn plain<const BYTES: usize>(bytes: &[u8], count: usize, mut give: impl FnMut(&[i64])) -> Option<()> {
    let numbers = bytes.as_chunks::<BYTES>().0.get(..count)?;
    let mut values = [0; GROUP];
    for some in numbers.chunks(GROUP) {
        for (number, bytes) in values.iter_mut().zip(some) {
            *number = signed(bytes);
        }
        give(&values[..some.len()]);
    }
    Some(())
}

/// BYTE_STREAM_SPLIT: all first bytes, then all second ones, and so on.
pub(super) fn split<const BYTES: usize>(bytes: &[u8], count: usize, mut give: impl FnMut(&[i64])) -> Option<()> {
    let all = bytes.len() / BYTES;
    if all < count {
        return None;
    }
    let mut values = [0; GROUP];
    for start in (0..count).step_by(GROUP) {
        let some = GROUP.min(count - start);
        for (place, number) in values[..some].iter_mut().enumerate() {
            let mut word = [0; BYTES];
            for (stream, byte) in word.iter_mut().enumerate() {
                *byte = bytes[stream * all + start + place];
            }
            *number = signed(&word);
        }
        give(&values[..some]);
    }
    Some(())
}

/// The ranges of the first texts in a page: PLAIN (0), each behind its length, or DELTA_LENGTH_BYTE_ARRAY (6), all behind all lengths.
pub(super) fn texts(bytes: &[u8], encoding: i64, count: usize) -> Option<Vec<Range<usize>>> {
    // A hostile count must not ask for memory that the page doesn't justify.
    let mut spans = Vec::with_capacity(count.min(bytes.len()));
    match encoding {
        0 => {
            let mut at = 0_usize;
            for _ in 0..count {
                let (length, _) = bytes.get(at..)?.split_first_chunk::<4>()?;
                let start = at + 4;
                at = start.checked_add(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
                spans.push(start..at);
            }
            (at <= bytes.len()).then_some(spans)
        }
        6 => {
            let mut lengths = Vec::with_capacity(count.min(bytes.len()));
            let mut at = delta_block(bytes, None, |some| lengths.extend_from_slice(some))?;
            for length in lengths.get(..count)? {
                let start = at;
                at = start.checked_add(usize::try_from(*length).ok()?)?;
                spans.push(start..at);
            }
            (at <= bytes.len()).then_some(spans)
        }
        _ => None,
    }
}

/// PLAIN truth values, a bit each, as 0 and 1.
pub(super) fn bits(bytes: &[u8], count: usize, mut give: impl FnMut(&[i64])) -> Option<()> {
    if bytes.len() * 8 < count {
        return None;
    }
    let mut values = [0; GROUP];
    for start in (0..count).step_by(GROUP) {
        let some = GROUP.min(count - start);
        for (place, number) in values[..some].iter_mut().enumerate() {
            *number = i64::from(bytes[(start + place) / 8] >> ((start + place) % 8) & 1);
        }
        give(&values[..some]);
    }
    Some(())
}

fn signed<const BYTES: usize>(bytes: &[u8; BYTES]) -> i64 {
    let mut word = [if bytes[BYTES - 1] >= 128 { 255 } else { 0 }; 8];
    word[..BYTES].copy_from_slice(bytes);
    i64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn collected(decode: impl FnOnce(&mut dyn FnMut(&[i64])) -> Option<()>) -> Option<Vec<i64>> {
        let mut all = Vec::new();
        decode(&mut |some| all.extend_from_slice(some)).map(|()| all)
    }

    proptest! {
        #[test]
        fn any_bytes_give_numbers_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..300), width in 0_usize..40, count in 0_usize..500) {
            for decoded in [
                collected(|give| deltas(&bytes, count, give)),
                collected(|give| hybrid(&bytes, width, count, give)),
                collected(|give| plain::<8>(&bytes, count, give)),
                collected(|give| split::<4>(&bytes, count, give)),
                collected(|give| bits(&bytes, count, give)),
            ] {
                prop_assert!(decoded.is_none_or(|all| all.len() == count));
            }
            for encoding in [0, 6] {
                let spans = texts(&bytes, encoding, count);
                prop_assert!(spans.is_none_or(|all| all.len() == count && all.iter().all(|span| bytes.get(span.clone()).is_some())));
            }
        }
    }

    #[test]
    fn runs_and_packed_numbers_follow_each_other() {
        // Three times 5, then eight numbers of three bits.
        let bytes = [3 << 1, 5, 1 << 1 | 1, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(collected(|give| hybrid(&bytes, 3, 11, give)).unwrap(), [5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(collected(|give| hybrid(&bytes, 3, 12, give)), None);
    }
}
