//! A list of row numbers in any order, analysed once for all columns that are gathered by it.
//!
//! Idea: compressed pages are decoded by ranges of rows. The list is cut where adjacent entries are far apart, so that each stretch decodes
//! only the range between its least and greatest row. The rest of the list is one stretch once there are too many.
//!
//! Cost: one pass over the numbers, 64 at a time.

use std::cell::OnceCell;
use std::ops::Range;

use arrow::array::{Array, UInt32Array};

/// Rows that are further apart than this are read apart from each other.
const NEIGHBOUR_ROWS: u32 = 1 << 16;

/// Most groups of neighbours that are read apart.
const NEIGHBOURHOODS_MAX: usize = 256;

/// Rows that are examined together: mostly they are near each other, as their least and greatest show.
const LOOK_ROWS: usize = 64;

/// Numbers of rows of a segment, in any order and as often as wanted; null for no row.
#[derive(Debug, Clone)]
pub struct RowList {
    rows: UInt32Array,
    neighbourhoods: OnceCell<Vec<NearbyRows>>,
}

/// Rows that are near each other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NearbyRows {
    /// The least and the greatest of them; `None` if all are null.
    pub between: Option<(u32, u32)>,
    /// The rows, counted from the least one.
    pub rows: UInt32Array,
}

impl From<UInt32Array> for RowList {
    fn from(rows: UInt32Array) -> RowList {
        RowList { rows, neighbourhoods: OnceCell::new() }
    }
}

impl RowList {
    /// The numbers.
    #[must_use]
    pub fn rows(&self) -> &UInt32Array {
        &self.rows
    }

    /// The rows in stretches whose rows are near each other; the last one holds the rest if there would be too many.
    pub(super) fn neighbourhoods(&self) -> &[NearbyRows] {
        self.neighbourhoods.get_or_init(|| {
            let stretches = stretches(&self.rows);
            stretches.into_iter().map(|(places, between)| self.neighbourhood(places, between)).collect()
        })
    }

    fn neighbourhood(&self, places: Range<usize>, between: Option<(u32, u32)>) -> NearbyRows {
        let rows = self.rows.slice(places.start, places.len());
        let rows = match between {
            // A missing row may have any number.
            Some((least, _)) if least > 0 => rows.unary(|row| row.wrapping_sub(least)),
            _ => rows,
        };
        NearbyRows { between, rows }
    }
}

/// The place of a stretch, and its least and its greatest row.
type RowStretch = (Range<usize>, Option<(u32, u32)>);

fn stretches(rows: &UInt32Array) -> Vec<RowStretch> {
    let mut search = StretchSearch { stretches: Vec::new(), start: 0, last: None, between: None };
    match rows.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => search.look(rows.values(), 0),
        Some(nulls) => {
            for (start, end) in nulls.valid_slices() {
                search.look(&rows.values()[start..end], start);
            }
        }
    }
    search.stretches.push((search.start..rows.len(), search.between));
    search.stretches
}

/// The state of the search for stretches.
struct StretchSearch {
    stretches: Vec<RowStretch>,
    /// The open stretch: its beginning, its last row, its least and its greatest.
    start: usize,
    last: Option<u32>,
    between: Option<(u32, u32)>,
}

impl StretchSearch {
    /// Looks at rows of which the first one stands at `place`.
    fn look(&mut self, rows: &[u32], mut place: usize) {
        for together in rows.chunks(LOOK_ROWS) {
            let (least, greatest) =
                together.iter().fold((u32::MAX, 0), |(least, greatest), row| (least.min(*row), greatest.max(*row)));
            let near = self.last.is_none_or(|last| last.abs_diff(together[0]) <= NEIGHBOUR_ROWS);
            if near && greatest - least <= NEIGHBOUR_ROWS {
                self.last = together.last().copied();
                self.extend(least, greatest);
            } else {
                together.iter().zip(place..).for_each(|(row, place)| self.row(*row, place));
            }
            place += together.len();
        }
    }

    fn row(&mut self, row: u32, place: usize) {
        let is_far = self.last.is_some_and(|last| row.abs_diff(last) > NEIGHBOUR_ROWS);
        if is_far && self.stretches.len() + 1 < NEIGHBOURHOODS_MAX {
            self.stretches.push((self.start..place, self.between.take()));
            self.start = place;
        }
        self.last = Some(row);
        self.extend(row, row);
    }

    fn extend(&mut self, least: u32, greatest: u32) {
        let bounds = self.between.unwrap_or((least, greatest));
        self.between = Some((bounds.0.min(least), bounds.1.max(greatest)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Finds the stretches row by row.
    fn one_by_one(rows: &UInt32Array) -> Vec<RowStretch> {
        let mut search = StretchSearch { stretches: Vec::new(), start: 0, last: None, between: None };
        for (place, row) in rows.iter().enumerate() {
            if let Some(row) = row {
                search.row(row, place);
            }
        }
        search.stretches.push((search.start..rows.len(), search.between));
        search.stretches
    }

    #[test]
    fn stretches_hold_every_row_once() {
        let far = NEIGHBOUR_ROWS + 1;
        let rows = UInt32Array::from(vec![None, Some(5), Some(9), None, Some(9 + far), Some(3)]);
        let expected = [(0..4, Some((5, 9))), (4..5, Some((9 + far, 9 + far))), (5..6, Some((3, 3)))];
        assert_eq!(stretches(&rows), expected);
        assert_eq!(stretches(&UInt32Array::from(vec![None, None])), [(0..2, None)]);
        assert_eq!(stretches(&UInt32Array::from(Vec::<u32>::new())), [(0..0, None)]);
        let many: UInt32Array =
            (0..2 * u32::try_from(NEIGHBOURHOODS_MAX).unwrap()).map(|row| Some(row * far)).collect();
        let ranges = stretches(&many);
        assert_eq!(ranges.len(), NEIGHBOURHOODS_MAX);
        assert_eq!(ranges.iter().map(|(places, _)| places.len()).sum::<usize>(), many.len());
    }

    #[test]
    fn rows_are_counted_from_the_least() {
        let far = 7 + 2 * NEIGHBOUR_ROWS;
        let list = RowList::from(UInt32Array::from(vec![Some(7), None, Some(9), Some(far), Some(far + 1)]));
        let [one, other] = list.neighbourhoods() else { panic!("two neighbourhoods") };
        assert_eq!((one.between, &one.rows), (Some((7, 9)), &UInt32Array::from(vec![Some(0), None, Some(2)])));
        assert_eq!((other.between, &other.rows), (Some((far, far + 1)), &UInt32Array::from(vec![0, 1])));
    }

    proptest! {
        #[test]
        fn looking_at_many_finds_what_looking_at_each_does(
            rows in prop::collection::vec(prop::option::weighted(0.9, prop_oneof![0u32..2_000, any::<u32>()]), 0..700)
        ) {
            let rows = UInt32Array::from(rows);
            prop_assert_eq!(stretches(&rows), one_by_one(&rows));
        }

        #[test]
        fn rows_in_order_likewise(
            mut rows in prop::collection::vec(0u32..10_000_000, 0..700),
            every in 1usize..50,
        ) {
            rows.sort_unstable();
            let rows: UInt32Array = rows.iter().enumerate().map(|(at, row)| (at % every > 0 || every == 1).then_some(*row)).collect();
            prop_assert_eq!(stretches(&rows), one_by_one(&rows));
        }
    }
}
