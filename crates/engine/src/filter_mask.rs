//! Filter masks, with the forms in which kernels read them: words of 64 rows, row numbers if few rows pass, Arrow's
//! predicate.

use std::ops::Range;
use std::sync::OnceLock;

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, FilterPredicate};

/// A mask that filters the rows of columns.
#[derive(Debug)]
pub(crate) struct FilterMask {
    mask: BooleanArray,
    rows: usize,
    /// The mask in words of 64 rows; bits beyond its end are zero.
    words: Vec<u64>,
    /// The numbers of the kept rows, if they are few.
    numbers: OnceLock<Vec<u32>>,
    /// For columns whose rows Arrow filters.
    arrow: OnceLock<FilterPredicate>,
}

/// Rows per kept row from which on kept rows are found by their numbers instead of by each word.
const SPARSE: usize = 6;

impl FilterMask {
    /// A mask of the rows where `mask` is true. A mask has no nulls.
    pub fn new(mask: BooleanArray) -> FilterMask {
        let words: Vec<u64> = mask.values().bit_chunks().iter_padded().collect();
        let rows = words.iter().map(|word| word.count_ones() as usize).sum();
        FilterMask { mask, rows, words, numbers: OnceLock::new(), arrow: OnceLock::new() }
    }

    /// How many rows are kept.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn mask(&self) -> &BooleanArray {
        &self.mask
    }

    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The numbers of the kept rows, if they are few.
    pub fn numbers(&self) -> Option<&[u32]> {
        let find = || self.mask.values().set_indices_u32().collect();
        (self.rows <= self.mask.len() / SPARSE).then(|| self.numbers.get_or_init(find).as_slice())
    }

    /// The mask as a predicate of Arrow's filter kernel.
    pub fn arrow(&self) -> &FilterPredicate {
        self.arrow.get_or_init(|| FilterBuilder::new(&self.mask).optimize().build())
    }
}

/// The runs of rows that a mask keeps, if there are no more than `most`.
pub(crate) fn pieces(mask: &BooleanBuffer, most: usize) -> Option<Vec<Range<usize>>> {
    let (mut begun, mut before) = (0, 0);
    for word in mask.bit_chunks().iter_padded() {
        begun += (word & !(word << 1 | before)).count_ones() as usize;
        before = word >> 63;
    }
    (begun <= most).then(|| mask.set_slices().map(|(start, end)| start..end).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_are_found_and_many_are_not() {
        let runs_of = |bits: Vec<bool>| pieces(&BooleanBuffer::from(bits), 2);
        assert_eq!(runs_of([vec![false; 70], vec![true; 90]].concat()), Some(vec![70..160]));
        assert_eq!(runs_of([vec![true; 64], vec![true; 64]].concat()), Some(vec![0..128]), "over the end of a word");
        assert_eq!(runs_of([vec![true; 64], vec![false], vec![true; 3]].concat()), Some(vec![0..64, 65..68]));
        assert_eq!(runs_of(vec![true, false, true, false, true]), None);
        assert_eq!(runs_of(vec![]), Some(vec![]));
    }
}
