//! A simple LZ: literals and pairs of distance and length, without entropy coding. It stands where q has its own IPC compression, whose
//! format is another one.
//!
//! Each control byte tells of eight items, from its lowest bit on: 0 is a literal byte, 1 a pair of two bytes, of which 12 bits are the
//! distance minus 1 and 4 bits the length minus 3. The compressor looks at one earlier place for each hash of three bytes.

use crate::{Error, Result};

const LENGTH_MIN: usize = 3;
const LENGTH_MAX: usize = LENGTH_MIN + 15;
const DISTANCE_MAX: usize = 1 << 12;
const HASH_BITS: u32 = 12;

/// Compressed bytes.
pub fn compress(input: &[u8]) -> Vec<u8> {
    let mut places = vec![usize::MAX; 1 << HASH_BITS];
    let mut output = Vec::with_capacity(input.len() + input.len() / 8 + 1);
    let (mut at, mut control, mut items) = (0, 0, 8);
    while at < input.len() {
        if items == 8 {
            (control, items) = (output.len(), 0);
            output.push(0);
        }
        let length = match earlier(input, at, &mut places) {
            Some((distance, length)) => {
                output[control] |= 1 << items;
                let pair = u16::try_from((distance - 1) << 4 | (length - LENGTH_MIN)).unwrap_or(0);
                output.extend_from_slice(&pair.to_le_bytes());
                length
            }
            None => {
                output.push(input[at]);
                1
            }
        };
        at += length;
        items += 1;
    }
    output
}

/// Distance and length of bytes that were there before.
fn earlier(input: &[u8], at: usize, places: &mut [usize]) -> Option<(usize, usize)> {
    let three = input.get(at..at + LENGTH_MIN)?;
    let three = u32::from_le_bytes([three[0], three[1], three[2], 0]);
    let place = &mut places[(three.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize];
    let before = std::mem::replace(place, at);
    let distance = at.checked_sub(before).filter(|distance| (1..=DISTANCE_MAX).contains(distance))?;
    let rest = input[at..].iter().take(LENGTH_MAX);
    let length = rest.zip(&input[before..]).take_while(|(now, then)| now == then).count();
    (length >= LENGTH_MIN).then_some((distance, length))
}

/// The bytes that were compressed.
///
/// # Errors
/// [`Error::Damaged`] if they don't come to `length` bytes.
pub fn decompress(input: &[u8], length: usize) -> Result<Vec<u8>> {
    let mut output = Vec::with_capacity(length);
    let (mut at, mut control, mut items) = (0, 0, 8);
    while output.len() < length {
        if items == 8 {
            (control, items) = (byte(input, at)?, 0);
            at += 1;
        }
        if control >> items & 1 == 0 {
            output.push(byte(input, at)?);
            at += 1;
        } else {
            let pair = usize::from(byte(input, at)?) | usize::from(byte(input, at + 1)?) << 8;
            copy(&mut output, (pair >> 4) + 1, (pair & 15) + LENGTH_MIN, at)?;
            at += 2;
        }
        items += 1;
    }
    let is_whole = output.len() == length && at == input.len();
    if is_whole { Ok(output) } else { Err(Error::damaged(at as u64, "the block has another length")) }
}

fn byte(input: &[u8], at: usize) -> Result<u8> {
    input.get(at).copied().ok_or_else(|| Error::damaged(at as u64, "the block ends too early"))
}

fn copy(output: &mut Vec<u8>, distance: usize, length: usize, at: usize) -> Result<()> {
    let start = output.len().checked_sub(distance);
    let start = start.ok_or_else(|| Error::damaged(at as u64, "a distance leads before the block"))?;
    if distance >= length {
        output.extend_from_within(start..start + length);
    } else {
        for place in start..start + length {
            output.push(output[place]);
        }
    }
    Ok(())
}
