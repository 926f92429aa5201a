//! Fuzz target: any bytes as a sealed file, and sealed files with changes. They are refused, or give back exactly what was sealed.

use std::path::Path;

use splay_mutate::{Bytes, Memory};

use super::frame::{open, seal};
use super::keys::EncryptionKeys;
use crate::tier::Tier;

/// Memory that an input may take: a few blocks, and the bytes themselves a few times.
pub const MEMORY: Memory = Memory { fixed: 1 << 20, each: 1 << 10 };

const KEYS: &str = "b 000102030405060708090a0b0c0d0e0f\na 0f0e0d0c0b0a09080706050403020100";

/// Opens any bytes, or what was sealed and then cut, lengthened or changed here and there. Everything but what was sealed is refused. The rest of the
/// bytes is read as a list of keys, too.
///
/// # Panics
/// A decoder that doesn't hold to that.
pub fn sealed(bytes: &[u8]) {
    let keys = EncryptionKeys::from_text(KEYS);
    let path = Path::new("t.index");
    let mut bytes = Bytes::new(bytes);
    if bytes.one_in(4) {
        let rest = bytes.rest();
        let _ = EncryptionKeys::from_text(&String::from_utf8_lossy(rest)).newest(Tier::Small);
        // The magic bytes are rarely met by chance.
        let framed = [b"SPLAYENC", rest].concat();
        assert!(open(rest, &keys, path).is_err() && open(&framed, &keys, path).is_err(), "bytes that nobody sealed");
        return;
    }
    let changes: Vec<(u16, u8)> = (0..bytes.below(4)).map(|_| (bytes.short(), bytes.byte())).collect();
    let (cut, more) = (bytes.below(40), bytes.below(40));
    let (repeats, plain) = (bytes.below(60) + 1, bytes.rest());
    let plain = plain.repeat(repeats);
    let (Ok(Some(key)), true) = (keys.file_key_of(Tier::Small), plain.len() < 1 << 17) else { return };
    let Ok(whole) = seal(&plain, &key) else { panic!("{} bytes can't be sealed", plain.len()) };
    let mut changed = whole[..whole.len() - cut.min(whole.len())].to_vec();
    changed.extend(std::iter::repeat_n(0, more));
    for (at, change) in changes {
        if !changed.is_empty() {
            let at = usize::from(at) % changed.len();
            changed[at] ^= change;
        }
    }
    match open(&changed, &keys, path) {
        Ok(found) => assert!(changed == whole && found == plain, "changed bytes were opened"),
        Err(_) => assert!(changed != whole, "what was sealed is refused"),
    }
}

#[cfg(test)]
mod tests {
    use splay_mutate::{Random, Run};

    #[test]
    fn any_bytes_are_refused_or_are_what_was_sealed() {
        let mut random = Random::new(5);
        let samples: Vec<Vec<u8>> = (0..40).map(|_| (0..600).map(|_| random.byte()).collect()).collect();
        Run { inputs: 5_000, bytes_max: 1 << 11, memory: super::MEMORY, ..Run::default() }
            .feed(&samples, super::sealed);
    }
}
