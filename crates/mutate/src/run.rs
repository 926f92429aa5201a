//! Feeds a target.

use std::time::{Duration, Instant};

use crate::memory::{Memory, bounded};
use crate::mutate::Mutator;

/// How a target is fed.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Number of inputs beside the samples. The environment's `SPLAY_FUZZ_INPUTS` goes before it.
    pub inputs: u64,
    /// Where the inputs begin. The environment's `SPLAY_FUZZ_SEED` goes before it.
    pub seed: u64,
    /// Longest input.
    pub bytes_max: usize,
    /// Words of the language that the target reads.
    pub words: &'a [&'a [u8]],
    /// Memory that the target may take.
    pub memory: Memory,
}

/// 10,000 inputs of at most 4 KiB.
impl Default for Run<'_> {
    fn default() -> Self {
        Run { inputs: 10_000, seed: 1, bytes_max: 4096, words: &[], memory: Memory::default() }
    }
}

impl Run<'_> {
    /// Feeds a target the samples as they are, then inputs made of them. The environment's `SPLAY_FUZZ_SECONDS` goes on with
    /// further inputs until so much time has passed.
    ///
    /// # Panics
    /// If the target does, or if it takes more memory than it may. The input is printed before.
    pub fn feed(&self, samples: &[Vec<u8>], target: impl Fn(&[u8])) {
        let (inputs, seed) =
            (set("SPLAY_FUZZ_INPUTS").unwrap_or(self.inputs), set("SPLAY_FUZZ_SEED").unwrap_or(self.seed));
        for sample in samples {
            self.one(sample, &target);
        }
        let mut mutator = Mutator::new(samples, self.words, self.bytes_max, seed);
        let least = Duration::from_secs(set("SPLAY_FUZZ_SECONDS").unwrap_or(0));
        let (begun, mut fed) = (Instant::now(), 0);
        while fed < inputs || begun.elapsed() < least {
            self.one(&mutator.next_input(), &target);
            fed += 1;
        }
    }

    fn one(&self, input: &[u8], target: &impl Fn(&[u8])) {
        let shown = ShownOnPanic(input);
        bounded(self.memory, input, target);
        std::mem::forget(shown);
    }
}

/// A number of the environment.
fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Prints the input that a target fails on, as the text of a Rust byte string.
struct ShownOnPanic<'a>(&'a [u8]);

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        eprintln!("the input was b\"{}\"", self.0.escape_ascii());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "found it")]
    fn a_target_that_fails_on_few_inputs_is_found() {
        let samples = [b"aXb".to_vec(), b"cYd".to_vec()];
        let target = |bytes: &[u8]| {
            let has = |byte: u8| bytes.contains(&byte);
            assert!(!(has(b'X') && has(b'Y') && has(b'!')), "found it");
        };
        Run { words: &[b"!"], ..Run::default() }.feed(&samples, target);
    }
}
