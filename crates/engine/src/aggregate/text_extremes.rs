//! Minimum and maximum of texts, in the order of their bytes.
//!
//! Plain texts are compared by their first eight bytes as one number, and in full only if those are equal. Dictionary
//! codes are compared by the rank of their text in the dictionary, which is computed once for all rows.

use std::any::Any;
use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, StringArray};
use arrow::datatypes::Int32Type;

use super::accumulate::{Accumulator, RowGroups, same};
use crate::dictionaries::is_same;
use crate::error::{Error, Result};

/// Bytes by which texts are compared first.
const START: usize = 8;

/// Least or greatest text of each group.
#[derive(Debug)]
pub(super) struct TextExtreme {
    greatest: bool,
    values: Vec<Option<Box<str>>>,
    /// The first bytes of each value.
    starts: Vec<u64>,
    bytes: usize,
    ranks: Option<TextRanks>,
    /// The best rank of each group in the dictionary of `ranks`.
    best: Vec<u32>,
}

/// The texts of a dictionary in the order in which each is better than the one before.
#[derive(Debug)]
struct TextRanks {
    dictionary: ArrayRef,
    /// By code: counted from 1, or 0 for null.
    of_codes: Vec<u32>,
    /// The code of each rank but 0.
    codes: Vec<u32>,
}

impl TextRanks {
    fn new(dictionary: &ArrayRef, texts: &StringArray, greatest: bool) -> TextRanks {
        let codes = (0u32..).zip(texts).filter_map(|(code, text)| Some((text?, code)));
        let mut codes: Vec<(&str, u32)> = codes.collect();
        codes.sort_unstable_by(|one, other| if greatest { one.cmp(other) } else { other.cmp(one) });
        let codes: Vec<u32> = codes.into_iter().map(|(_, code)| code).collect();
        let mut of_codes = vec![0; texts.len()];
        for (rank, code) in (1..).zip(&codes) {
            of_codes[*code as usize] = rank;
        }
        TextRanks { dictionary: Arc::clone(dictionary), of_codes, codes }
    }
}

impl TextExtreme {
    pub fn new(greatest: bool) -> TextExtreme {
        TextExtreme { greatest, values: Vec::new(), starts: Vec::new(), bytes: 0, ranks: None, best: Vec::new() }
    }

    fn take(&mut self, group: usize, text: &str) {
        let start = start_of(text.as_bytes());
        if let Some(extreme) = &self.values[group] {
            let order =
                start.cmp(&self.starts[group]).then_with(|| of_equal_start(text.as_bytes(), extreme.as_bytes()));
            if order.is_eq() || order.is_gt() != self.greatest {
                return;
            }
            self.bytes -= extreme.len();
        }
        self.bytes += text.len();
        self.values[group] = Some(text.into());
        self.starts[group] = start;
    }

    /// Takes the texts of rows by their codes.
    fn take_coded(&mut self, coded: &DictionaryArray<Int32Type>, texts: &StringArray, assigned: RowGroups<'_>) {
        let codes = coded.keys().values();
        let is_current = |ranks: &TextRanks| is_same(&ranks.dictionary, coded.values());
        if !self.ranks.as_ref().is_some_and(is_current) {
            self.take_best();
            if texts.len() > coded.len() {
                // To rank all texts would cost more than to compare those of the rows.
                assigned.each(coded.logical_nulls().as_ref(), |group, row| {
                    self.take(group, texts.value(usize::try_from(codes[row]).unwrap_or(0)));
                });
                return;
            }
            self.ranks = Some(TextRanks::new(coded.values(), texts, self.greatest));
        }
        let (Some(ranks), best) = (&self.ranks, &mut self.best) else { return };
        assigned.each(coded.keys().nulls(), |group, row| {
            let rank = usize::try_from(codes[row]).map_or(0, |code| ranks.of_codes[code]);
            best[group] = best[group].max(rank);
        });
    }

    /// Takes the texts of the best ranks, before there are others.
    fn take_best(&mut self) {
        let Some(TextRanks { dictionary, codes, .. }) = self.ranks.take() else { return };
        let texts = dictionary.as_string::<i32>();
        for group in 0..self.best.len() {
            let rank = std::mem::take(&mut self.best[group]) as usize;
            if rank > 0 {
                self.take(group, texts.value(codes[rank - 1] as usize));
            }
        }
    }
}

/// The order of texts whose first eight bytes are equal, with zeros behind a shorter one: of two that have no more bytes the shorter one comes first.
#[inline]
fn of_equal_start(one: &[u8], other: &[u8]) -> Ordering {
    match (one.get(START..), other.get(START..)) {
        (Some(one), Some(other)) if !one.is_empty() && !other.is_empty() => one.cmp(other),
        _ => one.len().cmp(&other.len()),
    }
}

/// The first eight bytes of a text as a number, zeros behind a shorter one: texts are ordered as these are, unless they are equal.
#[inline]
fn start_of(text: &[u8]) -> u64 {
    if let Some(first) = text.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            // The last four bytes, without those that are among the first ones.
            let rest = u64::from(u32::from_be_bytes(*last)) << (8 * (8 - text.len())) & u64::from(u32::MAX);
            u64::from(u32::from_be_bytes(*first)) << 32 | rest
        }
        _ => (0..3).fold(0, |word, place| word << 8 | u64::from(text.get(place).copied().unwrap_or(0))) << 40,
    }
}

impl Accumulator for TextExtreme {
    fn grow(&mut self, groups: usize) {
        self.values.resize(groups, None);
        self.starts.resize(groups, 0);
        self.best.resize(groups, 0);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let array = &arguments[0];
        if let Some(texts) = array.as_string_opt::<i32>() {
            assigned.each(texts.nulls(), |group, row| self.take(group, texts.value(row)));
            return Ok(());
        }
        let coded = array.as_dictionary_opt::<Int32Type>();
        let Some((coded, texts)) = coded.and_then(|coded| Some((coded, coded.values().as_string_opt::<i32>()?))) else {
            return Err(Error::Unsupported(format!("extremes of a {}", array.data_type())));
        };
        self.take_coded(coded, texts, assigned);
        Ok(())
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let mut other = same::<TextExtreme>(other)?;
        other.take_best();
        for (group, value) in groups.iter().zip(&other.values) {
            if let Some(value) = value {
                self.take(*group as usize, value);
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef> {
        self.take_best();
        Ok(Arc::new(self.values.iter().map(|value| value.as_deref()).collect::<StringArray>()))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The texts of rows and the group of each.
    type Rows = Vec<(u32, Option<String>)>;

    fn coded(rows: &Rows) -> ArrayRef {
        Arc::new(rows.iter().map(|(_, text)| text.as_deref()).collect::<DictionaryArray<Int32Type>>())
    }

    fn plain(rows: &Rows) -> ArrayRef {
        Arc::new(rows.iter().map(|(_, text)| text.as_deref()).collect::<StringArray>())
    }

    /// The extremes of five groups, of blocks that two accumulators take in turns.
    fn extremes(blocks: &[(ArrayRef, Vec<u32>)], greatest: bool) -> Vec<Option<String>> {
        let mut accumulators = [TextExtreme::new(greatest), TextExtreme::new(greatest)];
        accumulators.iter_mut().for_each(|one| one.grow(5));
        for (number, (array, groups)) in blocks.iter().enumerate() {
            accumulators[number % 2].update(std::slice::from_ref(array), RowGroups::Rows(groups)).unwrap();
        }
        let [mut one, other] = accumulators;
        one.merge(Box::new(other), &[0, 1, 2, 3, 4]).unwrap();
        let found = Box::new(one).finish().unwrap();
        found.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    proptest! {
        #[test]
        fn extremes_are_those_of_sorted_texts(blocks in prop::collection::vec((prop::collection::vec((0u32..5, prop::option::weighted(0.9, "[aé\0]{0,10}")), 0..20), any::<bool>()), 0..6)) {
            let arrays: Vec<(ArrayRef, Vec<u32>)> = blocks.iter().map(|(rows, is_coded)| {
                let array = if *is_coded { coded(rows) } else { plain(rows) };
                (array, rows.iter().map(|(group, _)| *group).collect())
            }).collect();
            for greatest in [false, true] {
                let expected: Vec<Option<String>> = (0..5).map(|group| {
                    let of_group = blocks.iter().flat_map(|(rows, _)| rows).filter(|(of, _)| *of == group);
                    let texts = of_group.filter_map(|(_, text)| text.clone());
                    if greatest { texts.max() } else { texts.min() }
                }).collect();
                prop_assert_eq!(extremes(&arrays, greatest), expected);
            }
        }

        #[test]
        fn first_bytes_are_ordered_as_texts(one in "[ab\0]{0,10}", other in "[ab\0]{0,10}") {
            let (start, of_other) = (start_of(one.as_bytes()), start_of(other.as_bytes()));
            prop_assert!(start == of_other || start.cmp(&of_other) == one.cmp(&other));
            let mut padded = [0; 8];
            let some = one.len().min(8);
            padded[..some].copy_from_slice(&one.as_bytes()[..some]);
            prop_assert_eq!(start, u64::from_be_bytes(padded));
        }
    }

    #[test]
    fn blocks_share_a_dictionary_or_have_one_of_more_texts_than_rows() {
        let dictionary: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("z"), None, Some("a")]));
        let block = |codes: Vec<Option<i32>>, groups: Vec<u32>| {
            let array: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(codes.into(), Arc::clone(&dictionary)));
            (array, groups)
        };
        let blocks = [
            block(vec![Some(0), Some(1), Some(3), None, Some(2)], vec![0, 1, 0, 1, 3]),
            block(vec![Some(3), Some(0)], vec![4, 4]),
            block(vec![Some(1), Some(3), Some(0), None], vec![0, 1, 2, 2]),
        ];
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(extremes(&blocks, false), [text("a"), text("a"), text("b"), None, text("a")]);
        assert_eq!(extremes(&blocks, true), [text("z"), text("z"), text("b"), None, text("b")]);
    }
}
