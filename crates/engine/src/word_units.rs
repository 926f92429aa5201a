//! Distances of words from the least one, in the greatest unit that divides all of them.
//!
//! Times of whole milliseconds, for example, have a unit of a million nanoseconds: their distances in milliseconds need fewer
//! places and bits than those in nanoseconds. A distance is found without a division: a multiple of an odd number,
//! multiplied by the number's inverse modulo 2^64, gives the quotient, and any other word a number greater than all
//! quotients.
//!
//! Source: T. Granlund and P. Montgomery, "Division by Invariant Integers using Multiplication", 1994, section 9.

use arrow::buffer::NullBuffer;

/// The greatest distance for which a unit is looked for: greater ones aren't stored any smaller.
const DISTANCE_MAX: u64 = u32::MAX as u64;

/// The least of some words, and the unit of the distances from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordUnits {
    least: u64,
    /// The greatest distance; `None` if words are more than half of all words apart.
    greatest: Option<u64>,
    unit: u64,
    /// Of the unit's odd factor, modulo 2^64.
    inverse: u64,
}

impl WordUnits {
    /// The units of some words, of which null doesn't count. Where the greatest distance is below a limit, the unit is one.
    pub fn of(words: &[u64], nulls: Option<&NullBuffer>, limit: usize) -> WordUnits {
        match range(words, nulls) {
            None if words.is_empty() || nulls.is_some_and(|nulls| nulls.null_count() == words.len()) => {
                WordUnits::new(0, Some(0), 1)
            }
            None => WordUnits::new(0, None, 1),
            Some((least, distance)) if distance < limit as u64 => WordUnits::new(least, Some(distance), 1),
            Some((least, distance)) => {
                let unit = match nulls {
                    None => unit(words.iter().copied(), least, distance),
                    Some(nulls) => unit(nulls.valid_indices().map(|row| words[row]), least, distance),
                };
                WordUnits::new(least, Some(distance / unit), unit)
            }
        }
    }

    fn new(least: u64, greatest: Option<u64>, unit: u64) -> WordUnits {
        let odd = unit >> unit.trailing_zeros();
        // Newton's method doubles the number of right bits, of which the first guess has three.
        let inverse = (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))));
        WordUnits { least, greatest, unit, inverse }
    }

    /// The greatest distance of a word; `None` if words are more than half of all words apart.
    pub fn greatest(&self) -> Option<u64> {
        self.greatest
    }

    /// How many distances there are up to the greatest one; `None` if these are more than memory has places.
    pub fn count(&self) -> Option<usize> {
        usize::try_from(self.greatest?).ok()?.checked_add(1)
    }

    /// The distance of a word. It is beyond the greatest one for each word that is less than the least or greater than the greatest one, or whose
    /// distance isn't a multiple of the unit.
    #[inline(always)]
    pub fn distance(&self, word: u64) -> u64 {
        word.wrapping_sub(self.least).wrapping_mul(self.inverse).rotate_right(self.unit.trailing_zeros())
    }

    /// What `result` gives for the distance of each word.
    pub fn map<R>(&self, words: &[u64], result: impl Fn(u64) -> R) -> Vec<R> {
        match self.unit {
            1 => words.iter().map(|word| result(word.wrapping_sub(self.least))).collect(),
            _ => words.iter().map(|word| result(self.distance(*word))).collect(),
        }
    }
}

/// The greatest unit that divides the distances of all words from the least; 1 once the greatest distance in it is too large to be of use.
fn unit(words: impl Iterator<Item = u64>, least: u64, distance: u64) -> u64 {
    let mut units = WordUnits::new(least, None, distance.max(1));
    for word in words {
        // A multiple of the unit so far.
        if units.distance(word) <= distance / units.unit {
            continue;
        }
        let unit = gcd(units.unit, word.wrapping_sub(least));
        if distance / unit > DISTANCE_MAX {
            return 1;
        }
        units = WordUnits::new(least, None, unit);
    }
    units.unit
}

pub(crate) fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The first of some words on the circle of all words, of which null doesn't count, and the distance from it to the last: whole numbers near zero
/// are close together, with a sign or without. `None` without words, or if they are more than half of the circle apart.
fn range(words: &[u64], nulls: Option<&NullBuffer>) -> Option<(u64, u64)> {
    let first = match nulls {
        None => *words.first()?,
        Some(nulls) => words[nulls.valid_indices().next()?],
    };
    // Wrapping differences stay small for negative numbers as well.
    let difference = |word: &u64| word.wrapping_sub(first).cast_signed();
    let widened = |(low, high): (i64, i64), difference: i64| (low.min(difference), high.max(difference));
    let (below, above) = match nulls {
        None => words.iter().map(difference).fold((0, 0), widened),
        Some(nulls) => nulls.valid_indices().map(|row| difference(&words[row])).fold((0, 0), widened),
    };
    let distance = above.checked_sub(below)?.cast_unsigned();
    Some((first.wrapping_add_signed(below), distance))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Also of words that aren't multiples of the unit, or out of range.
        #[test]
        fn distances_are_those_of_a_division(
            least in prop_oneof![any::<u64>(), Just(0), Just(u64::MAX - 5)],
            unit in prop_oneof![1u64..100, (0u32..40).prop_map(|bits| 1 << bits), any::<u32>().prop_map(|unit| u64::from(unit) + 1)],
            numbers in prop::collection::vec(0u64..1 << 20, 0..20),
            others in prop::collection::vec(prop_oneof![0u64..1 << 40, any::<u64>()], 0..20),
        ) {
            let words: Vec<u64> = numbers.iter().map(|number| least.wrapping_add(number * unit)).collect();
            let units = WordUnits::of(&words, None, 0);
            let Some(count) = units.count() else { return Ok(()) };
            let first = words.iter().copied().min_by_key(|word| word.wrapping_sub(least)).unwrap_or(0);
            for word in words.iter().copied().chain(others.iter().map(|other| least.wrapping_add(*other))) {
                let distance = word.wrapping_sub(first);
                let expected = (distance % units.unit == 0).then_some(distance / units.unit);
                let expected = expected.filter(|distance| *distance < count as u64 && !words.is_empty());
                let found = Some(units.distance(word)).filter(|distance| *distance < count as u64 && !words.is_empty());
                prop_assert_eq!(found, expected);
            }
            prop_assert!(words.len() < 2 || units.unit % unit == 0 || count == 1);
        }
    }

    #[test]
    fn a_unit_is_looked_for_where_distances_are_great() {
        let milliseconds: Vec<u64> = [5u64, 0, 7, 9].iter().map(|number| number * 1_000_000 + 3).collect();
        assert_eq!(WordUnits::of(&milliseconds, None, 4).count(), Some(10));
        assert_eq!(WordUnits::of(&milliseconds, None, 1 << 30).count(), Some(9_000_001));
        assert_eq!(
            WordUnits::of(&[0, 1 << 40, 3], None, 4).unit,
            1,
            "the distance is too great for a unit to be of use"
        );
        assert_eq!(WordUnits::of(&[7, 7], None, 0).count(), Some(1));
        assert_eq!(WordUnits::of(&[], None, 4).count(), Some(1));
        assert_eq!(WordUnits::of(&[9], Some(&NullBuffer::new_null(1)), 4).count(), Some(1));
        assert_eq!(WordUnits::of(&[0, 1 << 63, 5], None, 4).count(), None);
        let nulls = NullBuffer::from(vec![true, false, true]);
        assert_eq!(WordUnits::of(&[10, 11, 50], Some(&nulls), 4).unit, 40);
    }

    #[test]
    fn the_range_of_words_is_one_on_their_circle() {
        let words = |numbers: &[i64]| numbers.iter().map(|number| number.cast_unsigned()).collect::<Vec<_>>();
        assert_eq!(range(&[], None), None);
        assert_eq!(range(&words(&[3, -2, 1]), None), Some(((-2i64).cast_unsigned(), 5)));
        assert_eq!(range(&words(&[i64::MIN, i64::MAX]), None), Some((i64::MAX.cast_unsigned(), 1)));
        assert_eq!(range(&words(&[i64::MIN, 0, i64::MAX]), None), None);
        let nulls = NullBuffer::from(vec![false, true, true]);
        assert_eq!(range(&words(&[900, 7, 9]), Some(&nulls)), Some((7, 2)));
        assert_eq!(range(&words(&[900]), Some(&NullBuffer::new_null(1))), None);
    }
}
