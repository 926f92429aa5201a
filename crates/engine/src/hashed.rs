//! Open-addressing hash tables that look up many hashes at once: numbers by hash, and sets of small values.
//!
//! A table of many groups is larger than the cache, so each lookup waits for memory. Lookups of different rows are
//! independent: a loop that does nothing else keeps as many of them in flight as the processor can. An entry has 32
//! bits of the hash and the number; the caller compares the keys behind the number. Invariant: at most half of the
//! places are occupied, so a probe ends soon.

/// A number with a part of its key's hash. Most unequal keys already differ in the hash, and a growing table is refilled by the hashes, so the keys
/// themselves are rarely read.
#[derive(Debug, Clone, Copy)]
struct HashEntry {
    hash: u32,
    number: u32,
}

/// The number of a free place.
pub(crate) const NONE: u32 = u32::MAX;

const FREE: HashEntry = HashEntry { hash: 0, number: NONE };

/// Fewest places of a table.
const PLACES_MIN: usize = 64;

/// A table of fewer places grows by a factor of four, because each growth moves all entries.
const SMALL_PLACES_MAX: usize = 1 << 13;

/// Places that are searched for occupied ones together.
const PLACES_TOGETHER: usize = 256;

/// The places of a table that grows to so many entries.
fn grown(places: usize, entries: usize) -> usize {
    let least = if places < SMALL_PLACES_MAX { places * 4 } else { 0 };
    (2 * entries).next_power_of_two().max(PLACES_MIN).max(least)
}

/// Visits the occupied places. They have no pattern that a processor could guess, so they are collected without a branch first.
fn each_occupied<T: Copy>(places: &[T], free: T, is_occupied: impl Fn(&T) -> bool, mut visit: impl FnMut(T)) {
    let mut occupied = [free; PLACES_TOGETHER];
    for places in places.chunks(PLACES_TOGETHER) {
        let mut count = 0;
        for place in places {
            occupied[count] = *place;
            count += usize::from(is_occupied(place));
        }
        occupied[..count].iter().for_each(|place| visit(*place));
    }
}

/// Entries by hash, in open addressing: each is at the place of its hash or at one of the next.
#[derive(Debug, Default)]
pub(crate) struct NumbersByHash {
    /// The number of places is a power of two; at most half are occupied.
    places: Vec<HashEntry>,
    len: usize,
}

impl NumbersByHash {
    /// The number with this hash for which `is_it` holds.
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut entries = self.from(hash).take_while(|entry| entry.number != NONE);
        entries.find(|entry| entry.hash == hash && is_it(entry.number)).map(|entry| entry.number)
    }

    /// The first number for each hash, or [`NONE`].
    pub fn first(&self, hashes: &[u32], numbers: &mut Vec<u32>) {
        numbers.clear();
        numbers.extend(hashes.iter().map(|hash| self.first_of(*hash)));
    }

    /// The first number that has a hash, or [`NONE`].
    #[inline]
    pub fn first_of(&self, hash: u32) -> u32 {
        let entry = self.from(hash).find(|entry| entry.hash == hash || entry.number == NONE);
        entry.map_or(NONE, |entry| entry.number)
    }

    /// The number with this hash for which `is_it` holds; if there is none, adds `number`.
    pub fn find_or_add(&mut self, hash: u32, number: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.reserve(1);
        let last = self.places.len() - 1;
        let mut place = hash as usize & last;
        loop {
            match self.places[place] {
                HashEntry { number: NONE, .. } => break,
                entry if entry.hash == hash && is_it(entry.number) => return Some(entry.number),
                _ => place = (place + 1) & last,
            }
        }
        self.places[place] = HashEntry { hash, number };
        self.len += 1;
        None
    }

    /// Adds a number that isn't there.
    pub fn insert(&mut self, hash: u32, number: u32) {
        self.reserve(1);
        self.put(HashEntry { hash, number });
        self.len += 1;
    }

    /// Makes room for more numbers.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        if 2 * (self.len + more) > self.places.len() {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let places = grown(self.places.len(), self.len + more);
        let before = std::mem::replace(&mut self.places, vec![FREE; places]);
        each_occupied(&before, FREE, |entry| entry.number != NONE, |entry| self.put(entry));
    }

    fn put(&mut self, entry: HashEntry) {
        let last = self.places.len() - 1;
        let mut place = entry.hash as usize & last;
        while self.places[place].number != NONE {
            place = (place + 1) & last;
        }
        self.places[place] = entry;
    }

    /// The entries from the place of a hash on, cyclically; none for an empty table.
    fn from(&self, hash: u32) -> impl Iterator<Item = &HashEntry> {
        let last = self.places.len().wrapping_sub(1);
        (hash as usize..).map_while(move |place| self.places.get(place & last))
    }
}

/// A set of small values, which the table holds directly. One value marks free places; whether the set contains that value is stored separately.
/// Invariant: at most half of the places are occupied, so a probe ends soon.
#[derive(Debug)]
pub(crate) struct ValueSet<V> {
    /// The number of places is a power of two, or zero.
    places: Vec<V>,
    free: V,
    /// Whether the value that marks free places is in the set.
    has_free: bool,
    /// Values in places.
    len: usize,
}

impl<V: Copy + PartialEq> ValueSet<V> {
    /// An empty set whose free places hold `free`: a value that is rare.
    pub fn new(free: V) -> ValueSet<V> {
        ValueSet { places: Vec::new(), free, has_free: false, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len + usize::from(self.has_free)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<V>()
    }

    /// Touches the place of a hash, so that it is in the cache when the value is looked up.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        std::hint::black_box(self.places.get(self.place(hash)).copied());
    }

    /// Adds a value with its hash, and returns whether it is new. `hash_of` gives the hashes of the present values if the table has to grow.
    #[inline]
    pub fn insert(&mut self, value: V, hash: u64, hash_of: impl Fn(&V) -> u64) -> bool {
        if value == self.free {
            return !std::mem::replace(&mut self.has_free, true);
        }
        self.reserve(1, hash_of);
        let mut place = self.place(hash);
        loop {
            let occupant = self.places[place];
            if occupant == value {
                return false;
            }
            if occupant == self.free {
                break;
            }
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = value;
        self.len += 1;
        true
    }

    /// Makes room for more values.
    #[inline]
    pub fn reserve(&mut self, more: usize, hash_of: impl Fn(&V) -> u64) {
        if (self.len + more) * 2 > self.places.len() {
            self.grow(more, hash_of);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize, hash_of: impl Fn(&V) -> u64) {
        let places = grown(self.places.len(), self.len + more);
        let (free, before) = (self.free, std::mem::replace(&mut self.places, vec![self.free; places]));
        let put = |value: V| {
            let mut place = self.place(hash_of(&value));
            while self.places[place] != free {
                place = (place + 1) & (places - 1);
            }
            self.places[place] = value;
        };
        each_occupied(&before, free, |value| *value != free, put);
    }

    /// Empties the set and makes room for so many values.
    pub fn restart(&mut self, values: usize) {
        let places = (2 * values).next_power_of_two().max(PLACES_MIN);
        self.places.clear();
        self.places.resize(places, self.free);
        (self.len, self.has_free) = (0, false);
    }

    pub fn iter(&self) -> impl Iterator<Item = V> {
        let in_places = self.places.iter().copied().filter(|value| *value != self.free);
        self.has_free.then_some(self.free).into_iter().chain(in_places)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits say the place")]
    fn place(&self, hash: u64) -> usize {
        hash as usize & self.places.len().wrapping_sub(1)
    }
}

/// A hash of a few words: each is multiplied in, and the halves of the product are folded, as in foldhash and wyhash.
pub(crate) fn hash(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(seed, |hash, word| mixed(hash, *word))
}

/// The hash of `hash` and a further word.
#[inline]
pub(crate) fn mixed(hash: u64, word: u64) -> u64 {
    // The digits of the golden ratio: bits without a pattern.
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(hash ^ word) * FACTOR;
    #[expect(clippy::cast_possible_truncation, reason = "the halves are folded")]
    let folded = (product >> 64) as u64 ^ product as u64;
    folded.rotate_left(23)
}

/// Half of the bits of a hash, to which all contribute.
#[expect(clippy::cast_possible_truncation, reason = "the halves are folded")]
pub(crate) fn half(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_hashes_that_others_have_too() {
        let mut entries = NumbersByHash::default();
        let hash_of = |number: u32| number % 97 * 0x0100_0001;
        assert_eq!(entries.find(5, |_| true), None);
        let mut first = vec![1];
        entries.first(&[0, 7], &mut first);
        assert_eq!(first, [NONE, NONE], "of an empty table");
        for number in 0..2_000 {
            assert_eq!(entries.find(hash_of(number), |one| one == number), None);
            if number % 2 == 0 {
                entries.insert(hash_of(number), number);
            } else {
                assert_eq!(entries.find_or_add(hash_of(number), number, |one| one == number), None);
            }
            assert_eq!(entries.find_or_add(hash_of(number), NONE - 1, |one| one == number), Some(number));
            assert_eq!(entries.find(hash_of(number), |one| one == number), Some(number));
        }
        assert!((0..2_000).all(|number| entries.find(hash_of(number), |one| one == number) == Some(number)));
        let hashes: Vec<u32> = (0..97).map(hash_of).chain([98 * 0x0100_0001, u32::MAX]).collect();
        entries.first(&hashes, &mut first);
        assert!(first[..97].iter().zip(&hashes).all(|(number, hash)| hash_of(*number) == *hash));
        assert_eq!(first[97..], [NONE, NONE]);
    }

    #[test]
    fn a_set_has_what_was_inserted_and_the_mark_of_free_places_too() {
        let mut set = ValueSet::new(7);
        // Hashes that many values share.
        let hash_of = |value: &u64| value % 13;
        assert!(set.is_empty() && set.iter().next().is_none());
        set.prefetch(5);
        for value in 0..1_000 {
            assert!(set.insert(value, hash_of(&value), hash_of));
            assert!(!set.insert(value, hash_of(&value), hash_of));
        }
        assert_eq!(set.len(), 1_000);
        let mut all: Vec<u64> = set.iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..1_000).collect::<Vec<_>>());
        set.restart(10);
        assert!(set.is_empty() && set.insert(3, hash_of(&3), hash_of));
    }
}
