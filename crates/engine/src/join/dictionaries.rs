//! A cache by dictionary: each segment has its own dictionary, and a search switches between segments.
//!
//! Dictionaries are identified by their address in memory. The cache holds a reference to each, so an address can't
//! be reused for another.

use arrow::array::{Array, StringArray};
use hashbrown::HashMap;

/// Texts of all dictionaries that are kept at a time.
const TEXTS_MAX: usize = 1 << 20;

/// A value for each of some dictionaries, which are told apart by where they are in memory.
pub(super) struct ByDictionary<T> {
    all: Vec<(StringArray, T)>,
    places: HashMap<TextRange, usize>,
    /// The last one that was requested.
    last: usize,
    /// Texts of all of them.
    texts: usize,
}

/// Where the texts of a dictionary begin, and how many they are.
type TextRange = (usize, usize);

impl<T> Default for ByDictionary<T> {
    fn default() -> ByDictionary<T> {
        ByDictionary { all: Vec::new(), places: HashMap::new(), last: 0, texts: 0 }
    }
}

impl<T> ByDictionary<T> {
    pub fn get_or_insert_with(&mut self, texts: &StringArray, new: impl FnOnce() -> T) -> &mut T {
        if !self.all.get(self.last).is_some_and(|(cached, _)| same(cached, texts)) {
            let place = (texts.offsets().inner().inner().as_ptr() as usize, texts.len());
            let cached = self.places.get(&place).copied().filter(|cached| same(&self.all[*cached].0, texts));
            self.last = cached.unwrap_or_else(|| self.add(place, texts, new()));
        }
        &mut self.all[self.last].1
    }

    fn add(&mut self, place: TextRange, texts: &StringArray, value: T) -> usize {
        if self.texts.saturating_add(texts.len()) > TEXTS_MAX {
            *self = ByDictionary::default();
        }
        self.texts = self.texts.saturating_add(texts.len());
        self.places.insert(place, self.all.len());
        // The array is held, so that its memory isn't given to another one.
        self.all.push((texts.clone(), value));
        self.all.len() - 1
    }
}

/// Whether two arrays are the same bytes.
fn same(one: &StringArray, other: &StringArray) -> bool {
    one.len() == other.len()
        && one.offsets().inner().inner().as_ptr() == other.offsets().inner().inner().as_ptr()
        && one.values().as_ptr() == other.values().as_ptr()
}
