//! Rows and statements that look random and are the same in every run.

mod rows;
mod statements;
mod windows;

pub(crate) use rows::{all_rows, captured, database, rows, spec};
pub(crate) use statements::{filter, in_order, in_parts, statement};
pub(crate) use windows::{DURATION, FLOATS, OTHERS, WHOLE, typed_database, window_statement};

/// Numbers that look random and are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(crate) fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    pub(crate) fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
