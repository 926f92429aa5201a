//! The kernels against loops that look at every pair of rows.

use proptest::prelude::*;

use super::{Direction, MatchRule, WindowRule, match_rows, window_rows};
use crate::search::partition_from;

fn matches(rule: MatchRule, left: &[i64], right: &[i64]) -> Vec<Option<usize>> {
    let mut rows = Vec::new();
    match_rows(rule, left, right, |row| rows.push(row));
    rows
}

fn windows(rule: WindowRule, bounds: &[Option<(i64, i64)>], right: &[i64]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    window_rows(rule, bounds.iter().copied(), right, |rows| ranges.push(rows));
    ranges
}

fn naive_match(rule: MatchRule, time: i64, right: &[i64]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (row, &other) in right.iter().enumerate() {
        let fits = match rule.direction {
            Direction::Backward => other < time,
            Direction::Forward => other > time,
            Direction::Nearest => other != time,
        };
        let close =
            rule.tolerance.is_none_or(|most| (i128::from(time) - i128::from(other)).unsigned_abs() <= u128::from(most));
        if !close || !(fits || (rule.inclusive && other == time)) {
            continue;
        }
        let Some(current) = best else {
            best = Some(row);
            continue;
        };
        let distance = |row: usize| (i128::from(time) - i128::from(right[row])).unsigned_abs();
        let is_better = match distance(row).cmp(&distance(current)) {
            std::cmp::Ordering::Less => true,
            // At one distance: behind before ahead, the last of those behind, the first of those ahead. An equal time
            // counts as behind but for a search forward.
            std::cmp::Ordering::Equal => {
                other < time && other == right[current] || other == time && rule.direction != Direction::Forward
            }
            std::cmp::Ordering::Greater => false,
        };
        if is_better {
            best = Some(row);
        }
    }
    best
}

fn naive_window(rule: WindowRule, bounds: Option<(i64, i64)>, right: &[i64]) -> Vec<usize> {
    let Some((from, to)) = bounds.filter(|(from, to)| from <= to) else { return Vec::new() };
    let mut rows: Vec<usize> = (0..right.len()).filter(|row| from <= right[*row] && right[*row] <= to).collect();
    let earlier = (0..right.len()).rfind(|row| right[*row] < from);
    if rule.prevailing
        && !right.contains(&from)
        && let Some(earlier) = earlier
    {
        rows.insert(0, earlier);
    }
    rows
}

#[test]
fn ties_take_the_last_row_backward_and_the_first_forward() {
    let rule = |direction, inclusive| MatchRule { direction, inclusive, tolerance: None };
    let right = [1, 3, 3, 3, 5];
    assert_eq!(matches(rule(Direction::Backward, true), &[3, 4], &right), [Some(3), Some(3)]);
    assert_eq!(matches(rule(Direction::Backward, false), &[3, 4], &right), [Some(0), Some(3)]);
    assert_eq!(matches(rule(Direction::Forward, true), &[2, 3], &right), [Some(1), Some(1)]);
    assert_eq!(matches(rule(Direction::Forward, false), &[2, 3, 5], &right), [Some(1), Some(4), None]);
    assert_eq!(matches(rule(Direction::Nearest, true), &[2, 3, 4], &right), [Some(0), Some(3), Some(3)]);
}

#[test]
fn tolerance_is_inclusive_and_never_overflows() {
    let rule = |tolerance| MatchRule { direction: Direction::Backward, inclusive: true, tolerance: Some(tolerance) };
    assert_eq!(matches(rule(2), &[3, 4, 5], &[2]), [Some(0), Some(0), None]);
    assert_eq!(matches(rule(0), &[2, 3], &[2]), [Some(0), None]);
    assert_eq!(matches(rule(u64::MAX), &[i64::MAX], &[i64::MIN]), [Some(0)]);
    assert_eq!(matches(rule(u64::MAX - 1), &[i64::MAX], &[i64::MIN]), [None]);
}

#[test]
fn a_row_at_the_begin_prevails() {
    let with = WindowRule { prevailing: true };
    let without = WindowRule { prevailing: false };
    let right = [1, 3, 5, 5, 9];
    let bounds = [Some((4, 6)), Some((5, 6)), Some((0, 0)), Some((6, 8)), Some((9, 2)), None];
    assert_eq!(windows(with, &bounds, &right), [1..4, 2..4, 0..0, 3..4, 0..0, 0..0]);
    assert_eq!(windows(without, &bounds, &right), [2..4, 2..4, 0..0, 4..4, 0..0, 0..0]);
}

fn times(span: i64, rows: usize) -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(-span..span, 0..rows).prop_map(|mut times| {
        times.sort_unstable();
        times
    })
}

/// Dense and sparse sides in both proportions.
fn sides() -> impl Strategy<Value = (Vec<i64>, Vec<i64>)> {
    prop_oneof![
        (times(20, 40), times(20, 40)),
        (times(1_000, 4), times(1_000, 300)),
        (times(1_000, 300), times(1_000, 4)),
        (times(5, 100), times(5, 100)),
    ]
}

fn rules() -> impl Strategy<Value = MatchRule> {
    let direction = prop_oneof![Just(Direction::Backward), Just(Direction::Forward), Just(Direction::Nearest)];
    (direction, any::<bool>(), prop::option::of(0u64..30)).prop_map(|(direction, inclusive, tolerance)| MatchRule {
        direction,
        inclusive,
        tolerance,
    })
}

proptest! {
    #[test]
    fn matching_agrees_with_every_pair((left, right) in sides(), rule in rules()) {
        let naive: Vec<_> = left.iter().map(|time| naive_match(rule, *time, &right)).collect();
        prop_assert_eq!(matches(rule, &left, &right), naive);
    }

    #[test]
    fn windows_agree_with_every_pair(
        (_, right) in sides(),
        bounds in prop::collection::vec(prop::option::of((-40i64..40, -40i64..40)), 0..40),
        prevailing: bool,
    ) {
        let rule = WindowRule { prevailing };
        let ranges = windows(rule, &bounds, &right);
        prop_assert_eq!(ranges.len(), bounds.len());
        for (rows, bounds) in ranges.into_iter().zip(bounds) {
            prop_assert_eq!(rows.collect::<Vec<_>>(), naive_window(rule, bounds, &right));
        }
    }

    #[test]
    fn searching_from_anywhere_finds_the_same(right in times(50, 200), hint in 0usize..220, bound in -60i64..60) {
        prop_assert_eq!(partition_from(&right, hint, |time| time < bound), right.partition_point(|time| *time < bound));
    }
}
