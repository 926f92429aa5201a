//! New inputs out of samples: what transmission, disks and malice do to bytes.

use crate::random::Random;

/// Numbers at which counts, lengths and offsets go wrong.
const EDGES: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Most changes to one input.
const CHANGES_MAX: usize = 6;

/// Makes inputs.
#[derive(Debug)]
pub struct Mutator<'a> {
    samples: &'a [Vec<u8>],
    words: &'a [&'a [u8]],
    bytes_max: usize,
    random: Random,
}

impl<'a> Mutator<'a> {
    /// Inputs of at most `bytes_max` bytes, out of samples and of words that belong to their language. Without samples all
    /// inputs are random bytes.
    #[must_use]
    pub fn new(samples: &'a [Vec<u8>], words: &'a [&'a [u8]], bytes_max: usize, seed: u64) -> Mutator<'a> {
        Mutator { samples, words, bytes_max, random: Random::new(seed) }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        if self.samples.is_empty() || self.random.below(16) == 0 {
            let length = self.random.below(self.bytes_max.min(512) + 1);
            return (0..length).map(|_| self.random.byte()).collect();
        }
        let mut input = self.sample().to_vec();
        for _ in 0..=self.random.below(CHANGES_MAX) {
            self.change(&mut input);
        }
        input.truncate(self.bytes_max);
        input
    }

    fn sample(&mut self) -> &'a [u8] {
        &self.samples[self.random.below(self.samples.len())]
    }

    /// A place in the input, more often near its ends than chance has it: that is where headers are.
    fn place(&mut self, length: usize) -> usize {
        match self.random.below(4) {
            0 => self.random.below(length.min(64)),
            1 => length.saturating_sub(1 + self.random.below(length.min(64))),
            _ => self.random.below(length),
        }
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.place(input.len());
        let length = 1 + self.random.below(32.min(input.len() - at).max(1));
        match self.random.below(11) {
            0 if !input.is_empty() => input[at] ^= 1 << self.random.below(8),
            1 if !input.is_empty() => input[at] = self.random.byte(),
            2 => self.edge(input, at),
            3 => input.truncate(at),
            4 if !input.is_empty() => drop(input.drain(at..(at + length).min(input.len()))),
            5 => {
                let bytes: Vec<u8> = (0..length).map(|_| self.random.byte()).collect();
                input.splice(at..at, bytes);
            }
            6 if !input.is_empty() => {
                let bytes = input[at..(at + length).min(input.len())].to_vec();
                let to = self.random.below(input.len() + 1);
                input.splice(to..to, bytes);
            }
            7 => {
                let other = self.sample();
                let from = self.place(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            8 if !self.words.is_empty() => {
                let word = self.words[self.random.below(self.words.len())];
                let end = if self.random.below(2) == 0 { at } else { (at + word.len()).min(input.len()) };
                input.splice(at..end, word.iter().copied());
            }
            9 if !input.is_empty() => {
                let byte = self.random.byte();
                let end = (at + length).min(input.len());
                input[at..end].fill(byte);
            }
            _ => input.push(self.random.byte()),
        }
    }

    /// Writes a number at which lengths go wrong over 1, 2, 4 or 8 bytes.
    fn edge(&mut self, input: &mut [u8], at: usize) {
        let width = 1 << self.random.below(4);
        let edge = match self.random.below(3) {
            0 => input.len() as u64 + self.random.below(9) as u64,
            _ => EDGES[self.random.below(EDGES.len())],
        };
        let end = (at + width).min(input.len());
        let bytes = if self.random.below(4) == 0 { edge.to_be_bytes() } else { edge.to_le_bytes() };
        input[at..end].copy_from_slice(&bytes[..end - at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_repeat_with_their_seed_differ_and_are_bounded() {
        let samples = [b"one sample of bytes".to_vec(), vec![0; 300], Vec::new()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(&samples, &[b"word"], 256, seed);
            (0..2_000).map(|_| mutator.next_input()).collect::<Vec<_>>()
        };
        let all = inputs(1);
        assert_eq!(all, inputs(1));
        assert_ne!(all, inputs(2));
        assert!(all.iter().all(|input| input.len() <= 256));
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert!(distinct.len() > 1_500, "{}", distinct.len());
    }
}
