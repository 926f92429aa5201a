//! Whole numbers in as few bits as the range of a block needs: the least value, then the differences from it.
//!
//! Layout: 8 bytes least value, 1 byte bits of a difference, then the differences, from the lowest bit of a byte on. All numbers are 64 bits
//! with a sign; arithmetic wraps, so that every value has a difference.

use crate::{Error, Result};

/// Bytes before the differences.
const HEADER: usize = 9;

/// Packs numbers.
pub fn pack(values: &[i64], output: &mut Vec<u8>) {
    let least = values.iter().copied().min().unwrap_or(0);
    let greatest = values.iter().copied().max().unwrap_or(0);
    let bits = 64 - greatest.wrapping_sub(least).cast_unsigned().leading_zeros();
    output.extend_from_slice(&least.to_le_bytes());
    output.push(u8::try_from(bits).unwrap_or(64));
    let (mut word, mut filled) = (0_u128, 0);
    for value in values {
        word |= u128::from(value.wrapping_sub(least).cast_unsigned()) << filled;
        filled += bits;
        if filled >= 64 {
            output.extend_from_slice(&low(word).to_le_bytes());
            (word, filled) = (word >> 64, filled - 64);
        }
    }
    output.extend_from_slice(&low(word).to_le_bytes()[..filled.div_ceil(8) as usize]);
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is meant")]
fn low(word: u128) -> u64 {
    word as u64
}

/// Takes packed numbers from the front of `input`.
///
/// # Errors
/// [`Error::Damaged`] if there are fewer than `count`.
pub fn unpack(input: &mut &[u8], count: usize) -> Result<Vec<i64>> {
    let short = || Error::damaged(0, "packed numbers end too early");
    let (header, rest) = input.split_at_checked(HEADER).ok_or_else(short)?;
    let least = i64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| header[at]));
    let bits = usize::from(header[8]);
    if bits > 64 {
        return Err(Error::damaged(8, format!("numbers of {bits} bits")));
    }
    let bytes = count.checked_mul(bits).ok_or_else(short)?.div_ceil(8);
    let (packed, rest) = rest.split_at_checked(bytes).ok_or_else(short)?;
    *input = rest;
    Ok(differences(packed, bits, count, least))
}

fn differences(packed: &[u8], bits: usize, count: usize, least: i64) -> Vec<i64> {
    if bits == 0 {
        return vec![least; count];
    }
    let mask = u64::MAX >> (64 - bits);
    let add = |difference: u64| least.wrapping_add((difference & mask).cast_signed());
    // Eight bytes hold any difference of at most 57 bits, wherever in its first byte it begins; the last ones are read from a copy with
    // zeros behind.
    let inner = if bits <= 57 { (packed.len().saturating_sub(7) * 8 / bits).min(count) } else { 0 };
    let mut values = Vec::with_capacity(count);
    values.extend((0..inner).map(|number| {
        let bit = number * bits;
        add(eight(packed, bit / 8) >> (bit % 8))
    }));
    let start = inner * bits / 8;
    let mut tail = packed[start..].to_vec();
    tail.extend_from_slice(&[0; 16]);
    values.extend((inner..count).map(|number| {
        let bit = number * bits - start * 8;
        let wide = u128::from(eight(&tail, bit / 8)) | u128::from(eight(&tail, bit / 8 + 8)) << 64;
        add(low(wide >> (bit % 8)))
    }));
    values
}

fn eight(bytes: &[u8], at: usize) -> u64 {
    let eight: [u8; 8] = bytes[at..at + 8].try_into().unwrap_or_default();
    u64::from_le_bytes(eight)
}
