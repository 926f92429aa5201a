//! The digest SHA-256.
//!
//! Source: FIPS 180-4.

use std::sync::LazyLock;

/// The first 32 bits of the parts of the square roots of the first 8 primes, and of the cube roots of the first 64.
static WORDS: LazyLock<([u32; 8], [u32; 64])> = LazyLock::new(|| {
    let mut primes = (2u128..).filter(|number| (2..*number).all(|by| number % by != 0));
    let primes: [u128; 64] = std::array::from_fn(|_| primes.next().unwrap_or_default());
    let of_squares = std::array::from_fn(|place| root(2, primes[place] << 64));
    (of_squares, std::array::from_fn(|place| root(3, primes[place] << 96)))
});

/// The last 32 bits of the whole part of a root.
#[expect(clippy::cast_possible_truncation, reason = "the bits of the part are wanted")]
fn root(power: u32, of: u128) -> u32 {
    // Its bits from the highest on.
    let root = (0..40).rev().fold(0u128, |root, bit| {
        let larger = root | 1 << bit;
        if larger.pow(power) <= of { larger } else { root }
    });
    root as u32
}

/// The digest of some bytes.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut state = WORDS.0;
    let (blocks, rest) = bytes.as_chunks::<64>();
    for block in blocks {
        mix(&mut state, block);
    }
    // A bit that is set, zeros, and the number of bits.
    let mut last = [0u8; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    let bits = (bytes.len() as u64).wrapping_mul(8);
    last[end - 8..end].copy_from_slice(&bits.to_be_bytes());
    let (blocks, _) = last[..end].as_chunks::<64>();
    for block in blocks {
        mix(&mut state, block);
    }
    let mut digest = [0u8; 32];
    for (place, word) in state.iter().enumerate() {
        digest[place * 4..place * 4 + 4].copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn mix(state: &mut [u32; 8], block: &[u8; 64]) {
    let mut words = [0u32; 64];
    let (block_words, _) = block.as_chunks::<4>();
    for (word, bytes) in words.iter_mut().zip(block_words) {
        *word = u32::from_be_bytes(*bytes);
    }
    for place in 16..64 {
        let (near, far) = (words[place - 2], words[place - 15]);
        let near = near.rotate_right(17) ^ near.rotate_right(19) ^ (near >> 10);
        let far = far.rotate_right(7) ^ far.rotate_right(18) ^ (far >> 3);
        words[place] = words[place - 16].wrapping_add(far).wrapping_add(words[place - 7]).wrapping_add(near);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.iter().zip(&WORDS.1) {
        let turned = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let chosen = (e & f) ^ (!e & g);
        let first = h.wrapping_add(turned).wrapping_add(chosen).wrapping_add(*constant).wrapping_add(*word);
        let turned = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = turned.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (sum, mixed) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *sum = sum.wrapping_add(mixed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::md5::hexadecimal;

    #[test]
    fn constants_are_those_of_the_standard() {
        assert_eq!([WORDS.0[0], WORDS.0[7]], [0x6a09_e667, 0x5be0_cd19]);
        assert_eq!([WORDS.1[0], WORDS.1[63]], [0x428a_2f98, 0xc671_78f2]);
    }

    #[test]
    fn digests_are_those_of_the_standard() {
        let digests = [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("a", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ];
        for (text, digest) in digests {
            assert_eq!(hexadecimal(&sha256(text.as_bytes())), digest);
        }
    }
}
