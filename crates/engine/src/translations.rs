//! Translations between dictionaries: map the codes of one dictionary to those of another, cached between statements.
//!
//! Statements that look up the symbols of one table in another use the same two dictionaries each time. A search costs some 50 ns
//! per text, and there are as many texts as symbols times segments. The addresses of the two arrays are the key of the cache: while a weak
//! reference to an array exists, no other array gets its address.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use arrow::array::{Array, ArrayRef};

/// Most numbers in the cache of a process, of four bytes each.
const NUMBERS_MAX: usize = 8 << 20;

/// Number of texts below which a search costs no more than a look-up in the cache.
const TEXTS_MIN: usize = 64;

static TRANSLATIONS: LazyLock<Mutex<Translations>> = LazyLock::new(Mutex::default);

/// The number of each text of a dictionary in another one: the result of `find`, cached for these two dictionaries.
pub(crate) fn numbers_in(texts: &ArrayRef, of: &ArrayRef, find: impl FnOnce() -> Vec<u32>) -> Arc<Vec<u32>> {
    if texts.len() < TEXTS_MIN {
        return Arc::new(find());
    }
    // The lock isn't held during a search: two threads may search for the same at once.
    if let Some(numbers) = TRANSLATIONS.lock().unwrap_or_else(PoisonError::into_inner).get(texts, of) {
        return numbers;
    }
    let numbers = Arc::new(find());
    TRANSLATIONS.lock().unwrap_or_else(PoisonError::into_inner).put(texts, of, &numbers);
    numbers
}

#[derive(Default)]
struct Translations {
    entries: HashMap<(usize, usize), Translation>,
    /// The number of cached numbers.
    numbers: usize,
    /// Counts the look-ups, as a clock.
    clock: u64,
}

struct Translation {
    arrays: [Weak<dyn Array>; 2],
    numbers: Arc<Vec<u32>>,
    last_use: u64,
}

impl Translations {
    fn get(&mut self, texts: &ArrayRef, of: &ArrayRef) -> Option<Arc<Vec<u32>>> {
        self.clock += 1;
        let entry = self.entries.get_mut(&(address(texts), address(of)))?;
        entry.last_use = self.clock;
        Some(Arc::clone(&entry.numbers))
    }

    fn put(&mut self, texts: &ArrayRef, of: &ArrayRef, numbers: &Arc<Vec<u32>>) {
        if numbers.len() > NUMBERS_MAX / 2 {
            return;
        }
        self.clock += 1;
        let arrays = [Arc::downgrade(texts), Arc::downgrade(of)];
        let new = Translation { arrays, numbers: Arc::clone(numbers), last_use: self.clock };
        self.numbers += numbers.len();
        if let Some(former) = self.entries.insert((address(texts), address(of)), new) {
            self.numbers -= former.numbers.len();
        }
        if self.numbers > NUMBERS_MAX {
            self.make_room();
        }
    }

    /// Drops the entries of arrays that no longer exist, and then the least recently used ones, until half of the cache is free.
    fn make_room(&mut self) {
        self.entries.retain(|_, one| one.arrays.iter().all(|array| array.strong_count() > 0));
        let mut by_age: Vec<(u64, usize)> =
            self.entries.values().map(|one| (one.last_use, one.numbers.len())).collect();
        by_age.sort_unstable_by(|one, other| other.cmp(one));
        let (mut numbers, mut oldest) = (0, 0);
        for (last_use, len) in by_age {
            if numbers + len > NUMBERS_MAX / 2 {
                oldest = last_use + 1;
                break;
            }
            numbers += len;
        }
        self.entries.retain(|_, one| one.last_use >= oldest);
        self.numbers = self.entries.values().map(|one| one.numbers.len()).sum();
    }
}

fn address(array: &ArrayRef) -> usize {
    Arc::as_ptr(array).cast::<()>().addr()
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    fn texts(count: usize) -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..count).map(|number| format!("T{number:06}"))))
    }

    #[test]
    fn what_was_found_for_two_dictionaries_is_found_once() {
        let (one, other) = (texts(100), texts(100));
        let numbers = |texts: &ArrayRef, of: &ArrayRef, first: u32| numbers_in(texts, of, || vec![first; 100])[0];
        assert_eq!(numbers(&one, &other, 1), 1);
        assert_eq!(numbers(&one, &other, 2), 1, "kept");
        assert_eq!(numbers(&other, &one, 3), 3, "in the other direction");
        assert_eq!(numbers(&one, &texts(100), 4), 4, "another array of the same texts");
        let few = texts(TEXTS_MIN - 1);
        assert_eq!(numbers(&few, &other, 5), 5);
        assert_eq!(numbers(&few, &other, 6), 6, "few aren't kept");
    }

    #[test]
    fn room_is_made_of_what_is_gone_and_of_the_oldest() {
        let mut translations = Translations::default();
        let of = texts(1);
        let numbers = Arc::new(vec![0; NUMBERS_MAX / 5]);
        let arrays: Vec<ArrayRef> = (0..8).map(|_| texts(1)).collect();
        for array in &arrays[..4] {
            assert!(translations.get(array, &of).is_none());
            translations.put(array, &of, &numbers);
        }
        translations.put(&texts(1), &of, &numbers);
        assert!(translations.get(&arrays[0], &of).is_some(), "the newest use");
        translations.put(&arrays[4], &of, &numbers);
        assert!(translations.numbers <= NUMBERS_MAX / 2);
        assert!(translations.get(&arrays[0], &of).is_some() && translations.get(&arrays[1], &of).is_none());
        translations.put(&arrays[5], &of, &Arc::new(vec![0; NUMBERS_MAX]));
        assert!(translations.get(&arrays[5], &of).is_none(), "too many to be kept");
    }
}
