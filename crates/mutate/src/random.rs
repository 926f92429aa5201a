//! Numbers that look random and repeat with their seed: SplitMix64 (Steele, Lea, Flood 2014).

/// A generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Equal seeds give equal numbers.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = u128::from(self.number()) * bound as u128;
        usize::try_from(number >> 64).unwrap_or(0)
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_and_stay_below_their_bound() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            let number = one.below(10);
            assert_eq!(number, other.below(10));
            seen[number] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(one.below(0), 0);
    }
}
