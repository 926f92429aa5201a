//! Stream compaction: moves the values whose mask bit is set to the front of an array.
//!
//! Idea: one AVX-512 `vcompress` instruction per 64 bytes where the processor has it; elsewhere a loop that writes
//! every value and advances the output position by the mask bit, so it has no branch to mispredict. If fewer than
//! `DENSE` of 64 values are set, their bits are found one by one instead.
//!
//! Invariant: mask bits beyond the values are zero. The output needs `SLACK_BYTES` of spare capacity, because a whole
//! register is written before its length is known. Cost: proportional to the values read, not to the values that
//! pass.

/// Kept values of 64 from which on all 64 are written, which is then faster than finding the kept ones.
const DENSE: u32 = 12;

/// Bytes that [`append`] may write beyond the values that it adds.
pub(crate) const SLACK_BYTES: usize = 64;

/// Appends the values whose bit is set. A word has the bits of 64 values, the first one lowest; bits beyond the values are zero.
pub(crate) fn append<T: Copy + Default>(out: &mut Vec<T>, values: &[T], words: &[u64]) {
    let (chunks, rest) = values.as_chunks::<64>();
    let (whole, last) = words.split_at(chunks.len().min(words.len()));
    #[cfg(target_arch = "x86_64")]
    let done = x86::append(out, chunks, whole);
    #[cfg(not(target_arch = "x86_64"))]
    let done = false;
    if !done {
        append_chunks(out, chunks, whole);
    }
    if let Some(word) = last.first() {
        out.extend(ones(*word).filter_map(|row| rest.get(row)));
    }
}

fn append_chunks<T: Copy + Default>(out: &mut Vec<T>, chunks: &[[T; 64]], words: &[u64]) {
    let mut together = [T::default(); 64];
    for (chunk, word) in chunks.iter().zip(words) {
        match word.count_ones() {
            0 => {}
            64 => out.extend_from_slice(chunk),
            DENSE.. => {
                let mut count = 0;
                for (row, value) in chunk.iter().enumerate() {
                    // At most as many were kept as there are rows before this one.
                    together[count & 63] = *value;
                    count += (word >> row & 1) as usize;
                }
                out.extend_from_slice(&together[..count]);
            }
            _ => ones(*word).for_each(|row| out.push(chunk[row & 63])),
        }
    }
}

/// The positions of the set bits of a word, ascending.
pub(crate) fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        place
    })
}

/// The fastest function here that gathers the bits of a mask at the low end: `bits(value, mask)`.
pub(crate) fn bits() -> fn(u64, u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has it.
        return |bits, mask| unsafe { std::arch::x86_64::_pext_u64(bits, mask) };
    }
    compress_word
}

/// The compression of one word on every processor (Hacker's Delight, 7-4).
fn compress_word(bits: u64, mut mask: u64) -> u64 {
    let mut result = bits & mask;
    if result == 0 || mask == u64::MAX {
        return result;
    }
    if result == mask {
        return u64::MAX >> (64 - mask.count_ones());
    }
    // Each step moves the bits with an odd number of zeros, counted in powers of two, to their right.
    let mut zeros = !mask << 1;
    for step in 0..6 {
        let mut odd = zeros ^ (zeros << 1);
        for shift in [2, 4, 8, 16, 32] {
            odd ^= odd << shift;
        }
        let moved = odd & mask;
        mask = (mask ^ moved) | (moved >> (1 << step));
        let bits = result & moved;
        result = (result ^ bits) | (bits >> (1 << step));
        zeros &= !odd;
    }
    result
}

/// AVX-512: one instruction moves the kept values of a register to its front. The whole register is written, and the next write overwrites the
/// surplus.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_maskz_compress_epi8, _mm512_maskz_compress_epi16, _mm512_maskz_compress_epi32,
        _mm512_maskz_compress_epi64, _mm512_storeu_si512, _pdep_u64,
    };

    use super::SLACK_BYTES;

    /// `append_chunks` with AVX-512. Gives false, and appends nothing, if this processor lacks it or a value is narrower or wider than a lane.
    pub(super) fn append<T: Copy>(out: &mut Vec<T>, chunks: &[[T; 64]], words: &[u64]) -> bool {
        let width = size_of::<T>();
        if !matches!(width, 1 | 2 | 4 | 8 | 16) || !has_instructions() {
            return false;
        }
        let chunks = &chunks[..words.len().min(chunks.len())];
        let added: usize = words[..chunks.len()].iter().map(|word| word.count_ones() as usize).sum();
        out.reserve(added + SLACK_BYTES / width);
        let begin = out.len();
        // SAFETY: `has_instructions` was true. `chunks` has 64 values for each of the words. `reserve` made room behind
        // the vector's values for `added` values and `SLACK_BYTES`, and that place can't overlap `chunks`, which is
        // borrowed while the vector is borrowed mutably. `compress` has written the `added` values when the length is
        // set.
        unsafe {
            let place = out.as_mut_ptr().add(begin).cast::<u8>();
            let end = compress(place, chunks.as_ptr().cast::<u8>(), width, &words[..chunks.len()]);
            debug_assert_eq!(end.offset_from_unsigned(place), added * width);
            out.set_len(begin + added);
        }
        true
    }

    fn has_instructions() -> bool {
        std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vbmi2")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("popcnt")
    }

    /// Copies the values, of `width` bytes each, whose bit in the mask is set; a word of the mask covers 64 values. Returns the end of the copies.
    ///
    /// # Safety
    ///
    /// `values` has 64 values for each word, and `out` room for the kept ones and [`SLACK_BYTES`]. They don't overlap.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
    #[expect(clippy::cast_possible_truncation, reason = "a register's values have so many bits of the word")]
    unsafe fn compress(mut out: *mut u8, values: *const u8, width: usize, words: &[u64]) -> *mut u8 {
        for (number, word) in words.iter().enumerate() {
            if *word == 0 {
                continue;
            }
            // SAFETY: this function has the target features of all that it calls. `values` has 64 values of `width`
            // bytes for word `number`, which is what `load` and `eights` read. `out` has room for the values that are
            // kept and for one register more, because each `put` advances it by the kept values only.
            unsafe {
                let values = values.add(number * 64 * width);
                out = match width {
                    1 => put(out, 1, word.count_ones(), _mm512_maskz_compress_epi8(*word, load(values, 0))),
                    2 => (0..2).fold(out, |out, part| {
                        let mask = (word >> (32 * part)) as u32;
                        put(out, 2, mask.count_ones(), _mm512_maskz_compress_epi16(mask, load(values, part)))
                    }),
                    4 => (0..4).fold(out, |out, part| {
                        let mask = (word >> (16 * part)) as u16;
                        put(out, 4, mask.count_ones(), _mm512_maskz_compress_epi32(mask, load(values, part)))
                    }),
                    8 => eights(out, values, *word),
                    // Two words for each value, with a bit for each.
                    _ => [(*word as u32, 0), ((word >> 32) as u32, 512)].into_iter().fold(out, |out, (word, begin)| {
                        eights(out, values.add(begin), _pdep_u64(u64::from(word), 0x5555_5555_5555_5555) * 3)
                    }),
                };
            }
        }
        out
    }

    /// [`compress`] for 64 values of eight bytes.
    ///
    /// # Safety
    ///
    /// `values` has 512 readable bytes, and `out` room for eight bytes for each bit of `word` and [`SLACK_BYTES`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
    #[expect(clippy::cast_possible_truncation, reason = "a register's values have so many bits of the word")]
    unsafe fn eights(out: *mut u8, values: *const u8, word: u64) -> *mut u8 {
        (0..8).fold(out, |out, part| {
            let mask = (word >> (8 * part)) as u8;
            // SAFETY: register `part`, of eight, is within the 512 bytes. `out` has advanced by the values kept before,
            // so that one register fits.
            unsafe { put(out, 8, mask.count_ones(), _mm512_maskz_compress_epi64(mask, load(values, part))) }
        })
    }

    /// Reads a register of 64 bytes.
    ///
    /// # Safety
    ///
    /// `values` has `64 * (register + 1)` readable bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(values: *const u8, register: usize) -> std::arch::x86_64::__m512i {
        // SAFETY: the caller guarantees that these 64 bytes can be read; the load needs no alignment.
        unsafe { _mm512_loadu_si512(values.add(64 * register).cast()) }
    }

    /// Writes a whole register and returns the place behind its first `count` values, where the next one goes.
    ///
    /// # Safety
    ///
    /// `out` has 64 writable bytes, and `count * width` is at most 64.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put(out: *mut u8, width: usize, count: u32, values: std::arch::x86_64::__m512i) -> *mut u8 {
        // SAFETY: the caller guarantees that 64 bytes can be written, within which the returned place lies; the store
        // needs no alignment.
        unsafe {
            _mm512_storeu_si512(out.cast(), values);
            out.add(count as usize * width)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Against a filter, and the loop for every processor; behind what is there.
    fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(value: impl Fn(usize) -> T, words: &[u64], rest: usize) {
        let rows = words.len().saturating_sub(1) * 64 + rest;
        let values: Vec<T> = (0..rows).map(value).collect();
        let mut words = words.to_vec();
        if let Some(last) = words.last_mut() {
            *last &= (1 << rest) - 1;
        }
        let is_kept = |row: usize| words[row / 64] >> (row % 64) & 1 > 0;
        let expected = (0..rows).filter(|row| is_kept(*row)).map(|row| values[row]);
        let expected: Vec<T> = [values.first().copied().unwrap_or_default()].into_iter().chain(expected).collect();
        let mut actual = vec![expected[0]];
        append(&mut actual, &values, &words);
        assert_eq!(actual, expected, "width {}", size_of::<T>());
        let (chunks, rest) = values.as_chunks::<64>();
        let mut actual = vec![expected[0]];
        append_chunks(&mut actual, chunks, &words);
        actual.extend((rows - rest.len()..rows).filter(|row| is_kept(*row)).map(|row| values[row]));
        assert_eq!(actual, expected, "width {}", size_of::<T>());
    }

    fn check_all(words: &[u64], rest: usize) {
        check(|row| row as u8, words, rest);
        check(|row| row as u16, words, rest);
        check(|row| row as f32, words, rest);
        check(|row| row as i64 - 100, words, rest);
        check(|row| (row as i128) << 70 | row as i128, words, rest);
        check(|row| [row as u32; 3], words, rest);
    }

    #[test]
    fn nothing_all_and_ends() {
        for rest in [0, 1, 63] {
            check_all(&[0], rest);
            check_all(&[u64::MAX], rest);
            check_all(&[u64::MAX, 0, u64::MAX, 1, 1 << 63, u64::MAX], rest);
        }
        let mut none: Vec<i64> = Vec::new();
        append(&mut none, &[], &[]);
        assert!(none.is_empty());
    }

    #[test]
    fn bits_are_moved_together() {
        assert_eq!(compress_word(0b1010_1100, 0b1111_0000), 0b1010);
        assert_eq!(compress_word(u64::MAX, 1 << 63 | 1), 0b11);
        assert_eq!(compress_word(1 << 63, 1 << 63 | 1), 0b10);
    }

    proptest! {
        #[test]
        fn values_that_a_mask_keeps(
            words in prop::collection::vec((any::<u64>(), any::<u64>(), 0u8..4), 1..9),
            rest in 0usize..64,
        ) {
            let word = |(one, other, kind): &(u64, u64, u8)| match kind {
                0 => *one,
                1 => one & other,
                2 => one | other,
                _ => one & other & one.rotate_left(7) & other.rotate_left(13),
            };
            check_all(&words.iter().map(word).collect::<Vec<_>>(), rest);
        }

        #[test]
        fn a_bit_is_moved_behind_those_that_are_kept_before_it(value in any::<u64>(), mask in any::<u64>(), sparse in any::<u64>()) {
            for mask in [mask, mask & sparse, mask | sparse] {
                let mut expected = 0;
                for (place, bit) in ones(mask).enumerate() {
                    expected |= (value >> bit & 1) << place;
                }
                prop_assert_eq!(compress_word(value, mask), expected);
                prop_assert_eq!(bits()(value, mask), expected);
            }
        }
    }
}
