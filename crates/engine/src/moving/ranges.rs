//! Folds a range of rows for each row, without subtraction. From one row to the next, both ends of the range stay or
//! move forward.
//!
//! The algorithm is that of a queue made of two stacks. A cut divides the rows of the range into older and newer ones.
//! The newer rows have one common fold, to which each entering row is added. Each older row has the fold of the rows
//! from itself to the cut, so that a leaving row needs no subtraction. When the last older row has left, the cut moves
//! to the end of the range, and the folds of all its rows are computed. So a row is folded at most twice, however long
//! the ranges are. Memory: one fold for each row of the longest range that was cut.

/// Gives `emit` the fold of the rows of each row's range, oldest first. `range` returns the first row and the row after
/// the last. From row to row neither may decrease, and no first row may be greater than the end of its range.
///
/// `nothing` is the fold of no rows, `at` the fold of one, `join` the fold of older and newer rows together.
pub fn fold_ranges<T: Copy>(
    rows: usize,
    range: impl Fn(usize) -> (usize, usize),
    nothing: T,
    at: impl Fn(usize) -> T,
    join: impl Fn(T, T) -> T,
    mut emit: impl FnMut(T),
) {
    // olders[row - base] is the fold of the rows from `row` to `cut`.
    let mut olders: Vec<T> = Vec::new();
    let (mut base, mut cut, mut end) = (0, 0, 0);
    let mut newer = nothing;
    for row in 0..rows {
        let (first, behind) = range(row);
        if first >= end && end < behind {
            // No earlier row is read again.
            (olders, base, cut, end, newer) = (Vec::new(), first, first, first, nothing);
        }
        for row in end..behind {
            newer = join(newer, at(row));
        }
        end = end.max(behind);
        if first > cut {
            olders.clear();
            let mut fold = nothing;
            for row in (first..end).rev() {
                fold = join(at(row), fold);
                olders.push(fold);
            }
            olders.reverse();
            (base, cut, newer) = (first, end, nothing);
        }
        emit(if first < cut { join(olders[first - base], newer) } else { newer });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn folds_are_those_of_each_range(ends in prop::collection::vec((0..40usize, 0..40usize), 0..40)) {
            let rows = ends.len();
            let mut firsts: Vec<usize> = ends.iter().map(|(first, _)| *first.min(&rows)).collect();
            let mut behinds: Vec<usize> = ends.iter().map(|(_, behind)| *behind.min(&rows)).collect();
            firsts.sort_unstable();
            behinds.sort_unstable();
            let range = |row: usize| (firsts[row].min(behinds[row]), behinds[row]);
            // A fold that tells first and last row, and how many there are.
            let join = |one: Option<(usize, usize, usize)>, other: Option<(usize, usize, usize)>| match (one, other) {
                (Some(one), Some(other)) => {
                    assert_eq!(one.1 + 1, other.0, "neighbours");
                    Some((one.0, other.1, one.2 + other.2))
                }
                (one, other) => one.or(other),
            };
            let mut folds = Vec::new();
            fold_ranges(rows, range, None, |row| Some((row, row, 1)), join, |fold| folds.push(fold));
            for (row, fold) in folds.into_iter().enumerate() {
                let (first, behind) = range(row);
                let expected = (first < behind).then(|| (first, behind - 1, behind - first));
                prop_assert_eq!(fold, expected);
            }
        }
    }
}
