//! Codes of texts in the dictionaries of the right of a join: each segment has its own, and a search goes from one to the other and back.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, StringArray};
use hashbrown::HashMap;

/// Texts of all dictionaries that are kept at a time.
const TEXTS_MAX: usize = 1 << 20;

/// The code of each text of a dictionary.
type Codes = HashMap<Box<str>, i32>;

/// The dictionaries that came by, of all threads of a join.
#[derive(Default)]
pub(super) struct Dictionaries {
    known: Mutex<ByDictionary<Arc<Codes>>>,
}

impl Dictionaries {
    fn codes(&self, texts: &StringArray) -> Arc<Codes> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let codes = known.get_or_insert_with(texts, || {
            let code = |(code, text): (usize, Option<&str>)| Some((text?.into(), i32::try_from(code).ok()?));
            Arc::new(texts.iter().enumerate().filter_map(code).collect())
        });
        Arc::clone(codes)
    }
}

/// What codes of the left are in dictionaries of the right.
#[derive(Default)]
pub(super) struct Translations {
    known: ByDictionary<Translation>,
}

impl Translations {
    pub fn to(&mut self, right: &StringArray, dictionaries: &Dictionaries) -> &mut Translation {
        let new = || Translation { codes: dictionaries.codes(right), known: Vec::new() };
        self.known.get_or_insert_with(right, new)
    }
}

pub(super) struct Translation {
    codes: Arc<Codes>,
    /// By code of the left, once it was asked for.
    known: Vec<Option<Option<i32>>>,
}

impl Translation {
    /// The code on the right of a text of the left; `None` if it isn't there.
    pub fn code(&mut self, texts: &StringArray, place: usize) -> Option<i32> {
        if self.known.len() <= place {
            self.known.resize(place + 1, None);
        }
        *self.known[place].get_or_insert_with(|| self.codes.get(texts.value(place)).copied())
    }
}

/// A value for each of some dictionaries, which are told apart by where they are in memory.
struct ByDictionary<T> {
    all: Vec<(StringArray, T)>,
    places: HashMap<Place, usize>,
    /// The one that was asked for last.
    last: usize,
    /// Texts of all of them.
    texts: usize,
}

/// Where the texts of a dictionary begin, and how many they are.
type Place = (usize, usize);

impl<T> Default for ByDictionary<T> {
    fn default() -> ByDictionary<T> {
        ByDictionary { all: Vec::new(), places: HashMap::new(), last: 0, texts: 0 }
    }
}

impl<T> ByDictionary<T> {
    fn get_or_insert_with(&mut self, texts: &StringArray, new: impl FnOnce() -> T) -> &mut T {
        if !self.all.get(self.last).is_some_and(|(known, _)| same(known, texts)) {
            let place = (texts.offsets().inner().inner().as_ptr() as usize, texts.len());
            let known = self.places.get(&place).copied().filter(|known| same(&self.all[*known].0, texts));
            self.last = known.unwrap_or_else(|| self.add(place, texts, new()));
        }
        &mut self.all[self.last].1
    }

    fn add(&mut self, place: Place, texts: &StringArray, value: T) -> usize {
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
