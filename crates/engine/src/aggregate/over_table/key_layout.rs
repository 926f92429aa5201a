//! Layout of keys in words: narrow keys share a word, and so do the bits that say which keys are null.
//!
//! A row of twenty keys takes about twelve words in this layout instead of twenty-one. Copying, hashing and comparing a
//! row costs as much as it has words.

use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;

use crate::aggregate::groups::Groups;
use crate::error::{Error, Result};

const BITS_OF_WORD: u32 = u64::BITS;

/// Where a key stands in the words of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeyField {
    word: usize,
    shift: u32,
    bits: u32,
    /// Where the bit of a null key is.
    null_word: usize,
    null_shift: u32,
}

/// Where all keys stand.
#[derive(Debug)]
pub(super) struct KeyLayout {
    fields: Vec<KeyField>,
    /// Words of a row.
    words: usize,
}

/// Bits that tell the values of a type apart; of texts those of their numbers.
pub(super) fn bits_of(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Boolean => 1,
        DataType::Int8 | DataType::UInt8 => 8,
        DataType::Int16 | DataType::UInt16 => 16,
        DataType::Int32 | DataType::UInt32 | DataType::Float32 | DataType::Date32 | DataType::Utf8 => 32,
        DataType::Dictionary(_, of) => bits_of(of),
        _ => BITS_OF_WORD,
    }
}

impl KeyLayout {
    /// The layout of keys of so many bits each: wide ones first, each where there is room.
    pub fn new(bits: &[u32]) -> KeyLayout {
        let mut taken: Vec<u32> = Vec::new();
        let mut place = |bits: u32| {
            let word = taken.iter().position(|taken| taken + bits <= BITS_OF_WORD).unwrap_or_else(|| {
                taken.push(0);
                taken.len() - 1
            });
            let shift = taken[word];
            taken[word] += bits;
            (word, shift)
        };
        let mut by_width: Vec<usize> = (0..bits.len()).collect();
        by_width.sort_by_key(|key| std::cmp::Reverse(bits[*key]));
        let mut fields = vec![KeyField { word: 0, shift: 0, bits: 0, null_word: 0, null_shift: 0 }; bits.len()];
        for key in by_width {
            let (word, shift) = place(bits[key]);
            fields[key] = KeyField { word, shift, bits: bits[key], ..fields[key] };
        }
        for field in &mut fields {
            (field.null_word, field.null_shift) = place(1);
        }
        KeyLayout { fields, words: taken.len().max(1) }
    }

    /// Words of a row.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Adds the values of a key to the words of rows, which stand by position. Where the key is null, its bit is set instead.
    pub fn add(
        &self,
        key: usize,
        values: &[u64],
        data_type: &DataType,
        nulls: Option<&NullBuffer>,
        words: &mut [Vec<u64>],
    ) -> Result<()> {
        let field = self.fields[key];
        if bits_of(data_type) > field.bits {
            return Err(Error::Unsupported(format!("a key of {} bits that is a {data_type}", field.bits)));
        }
        let (of_field, mask) = (&mut words[field.word], field.mask());
        of_field.iter_mut().zip(values).for_each(|(word, value)| *word |= (value & mask) << field.shift);
        for row in nulls.iter().flat_map(|nulls| (!nulls.inner()).set_indices().collect::<Vec<_>>()) {
            words[field.word][row] &= !(mask << field.shift);
            words[field.null_word][row] |= 1 << field.null_shift;
        }
        Ok(())
    }

    /// Adds the number of a row's text, whose place is empty, to the words of the row.
    #[inline]
    pub fn add_number(&self, key: usize, number: u64, words: &mut [u64]) {
        let field = &self.fields[key];
        words[field.word] |= (number & field.mask()) << field.shift;
    }

    /// The words of a key's values in all groups, and which of them are null.
    pub fn words_of(&self, groups: &Groups, key: usize) -> (Vec<u64>, Option<NullBuffer>) {
        let field = &self.fields[key];
        let values = groups.words_of(field.word).into_iter().map(|word| word >> field.shift & field.mask()).collect();
        let flags = groups.words_of(field.null_word);
        let nulls = BooleanBuffer::collect_bool(flags.len(), |group| flags[group] >> field.null_shift & 1 == 0);
        (values, Some(NullBuffer::new(nulls)).filter(|nulls| nulls.null_count() > 0))
    }
}

impl KeyField {
    fn mask(&self) -> u64 {
        u64::MAX >> (BITS_OF_WORD - self.bits.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_share_a_bit() {
        for bits in [vec![64], vec![32], vec![1; 64], vec![64, 32, 8, 1, 64, 32, 16, 32], vec![]] {
            let layout = KeyLayout::new(&bits);
            let mut taken = vec![0u64; layout.words()];
            let mut take = |word: usize, mask: u64| {
                assert_eq!(taken[word] & mask, 0);
                taken[word] |= mask;
            };
            for (field, bits) in layout.fields.iter().zip(&bits) {
                assert_eq!(field.bits, *bits);
                take(field.word, field.mask() << field.shift);
                take(field.null_word, 1 << field.null_shift);
            }
        }
        assert_eq!(KeyLayout::new(&[32]).words(), 1);
        assert_eq!(KeyLayout::new(&[64]).words(), 2);
        assert_eq!(KeyLayout::new(&[64, 32, 16, 8]).words(), 2);
    }

    #[test]
    fn values_come_back_from_the_words_of_groups() {
        let layout = KeyLayout::new(&[8, 64, 32]);
        let mut words = vec![vec![0; 3]; layout.words()];
        let nulls = NullBuffer::from(vec![true, false, true]);
        layout.add(0, &[-1i64 as u64, 5, 7], &DataType::Int8, Some(&nulls), &mut words).unwrap();
        layout.add(1, &[u64::MAX, 0, 9], &DataType::Int64, None, &mut words).unwrap();
        layout.add(2, &[3, 4, 0], &DataType::UInt32, None, &mut words).unwrap();
        assert!(layout.add(2, &[3, 4, 0], &DataType::Int64, None, &mut words).is_err());
        let rows: Vec<u64> =
            (0..3).flat_map(|row| words.iter().map(move |of_word| of_word[row]).collect::<Vec<_>>()).collect();
        let mut groups = Groups::of_hashed(layout.words());
        let mut found = Vec::new();
        groups.find_hashed(&rows, &[1, 1, 2], |group| found.push(group));
        assert_eq!(found, [0, 1, 2]);
        assert_eq!(layout.words_of(&groups, 0), (vec![255, 0, 7], Some(nulls)));
        assert_eq!(layout.words_of(&groups, 1), (vec![u64::MAX, 0, 9], None));
        assert_eq!(layout.words_of(&groups, 2), (vec![3, 4, 0], None));
    }
}
