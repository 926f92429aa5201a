//! Unpacks bit-packed numbers, least significant bit first, the basis of all of Parquet's encodings of whole numbers.
//!
//! 32 numbers of `width` bits take `4 * width` bytes. Each width has a function of its own, in which all shifts are
//! constants.

/// Numbers that are unpacked at once.
pub(super) const GROUP: usize = 32;

/// The number at a place of a group. All but `words` are constants once it is compiled.
#[inline(always)]
fn number<const WIDTH: usize>(words: &[u32; WIDTH], place: usize) -> u64 {
    let (word, shift) = (place * WIDTH / 32, place * WIDTH % 32);
    let at = |word: usize| if word < WIDTH { u64::from(words[word]) } else { 0 };
    let mut value = (at(word) | at(word + 1) << 32) >> shift;
    if shift + WIDTH > 64 {
        value |= at(word + 2) << (64 - shift);
    }
    if WIDTH < 64 { value & ((1 << WIDTH) - 1) } else { value }
}

fn unpack<const WIDTH: usize>(bytes: &[u8], out: &mut [u64; GROUP]) {
    let mut words = [0_u32; WIDTH];
    for (word, four) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*four);
    }
    macro_rules! each {
        ($($place:literal)*) => { $(out[$place] = number::<WIDTH>(&words, $place);)* };
    }
    each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
}

macro_rules! table {
    ($($width:literal)*) => { [$(unpack::<$width>),*] };
}

/// By width.
static UNPACK: [fn(&[u8], &mut [u64; GROUP]); 65] = table!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45
    46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
);

/// The numbers of a group, of at most 64 bits each. Bytes that are missing at the end count as zero.
#[inline]
pub(super) fn group(width: usize, bytes: &[u8], out: &mut [u64; GROUP]) {
    if bytes.len() >= 4 * width {
        return UNPACK[width](bytes, out);
    }
    let mut padded = [0; 4 * 64];
    padded[..bytes.len()].copy_from_slice(bytes);
    UNPACK[width](&padded, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_width_is_read_as_bit_by_bit(numbers in proptest::collection::vec(any::<u64>(), GROUP), width in 0_usize..=64, missing in 0_usize..9) {
            let bit = |number: usize, bit: usize| numbers[number] >> bit & 1;
            let mut bytes = vec![0_u8; 4 * width];
            for place in 0..GROUP * width {
                bytes[place / 8] |= (bit(place / width, place % width) as u8) << (place % 8);
            }
            let present = bytes.len().saturating_sub(missing);
            let mut cut = bytes.clone();
            cut[present..].fill(0);
            for (input, meant) in [(&bytes[..], &bytes), (&bytes[..present], &cut)] {
                let mut out = [1; GROUP];
                group(width, input, &mut out);
                for (place, found) in out.iter().enumerate() {
                    let expected = (0..width).map(|b| u64::from(meant[(place * width + b) / 8] >> ((place * width + b) % 8) & 1) << b).sum::<u64>();
                    prop_assert_eq!(*found, expected);
                }
            }
        }
    }
}
