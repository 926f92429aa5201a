//! Finds the right row of each left row of an as-of join.
//!
//! - Of right rows with equal times the last one is taken looking backward, the first one looking forward: in both cases
//!   the one that is nearest in the order of arrival, seen from the left row.
//! - Looking for the nearest, a row behind wins over a row ahead at the same distance.
//!
//! Idea: both sides ascend in time, so the search for each left row gallops on from the result of the row before
//! (`search.rs`): dense matches cost a merge of both sides, sparse ones a binary search.
//!
//! Source of the definitions: `aj` of kdb+, `merge_asof` of pandas.

use crate::search::partition_from;

/// The direction from a left row to its right row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// At or before it: the last such row.
    Backward,
    /// At or after it: the first such row.
    Forward,
    /// At the least distance; before it if two are equally far.
    Nearest,
}

/// The rule for a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatchRule {
    /// The direction of the search.
    pub direction: Direction,
    /// Whether an equal time is a match.
    pub inclusive: bool,
    /// The greatest distance that is still a match, in the unit of the times.
    pub tolerance: Option<u64>,
}

/// Calls `put` once for each left row, in order, with the position of its right row.
///
/// Cost: for each left row the logarithm of the number of right rows since the previous match, and in total at most
/// that of a merge of both sides.
pub fn match_rows(rule: MatchRule, left: &[i64], right: &[i64], mut put: impl FnMut(Option<usize>)) {
    let within = |time: i64, row: usize| rule.tolerance.is_none_or(|most| time.abs_diff(right[row]) <= most);
    let mut hint = 0;
    for &time in left {
        let matching_row = match rule.direction {
            Direction::Backward => {
                hint = if rule.inclusive { up_to(right, hint, time) } else { before(right, hint, time) };
                hint.checked_sub(1)
            }
            Direction::Forward => {
                hint = if rule.inclusive { before(right, hint, time) } else { up_to(right, hint, time) };
                Some(hint).filter(|row| *row < right.len())
            }
            Direction::Nearest => {
                hint = up_to(right, hint, time);
                let behind = if rule.inclusive { hint } else { before(right, hint, time) };
                nearer(right, time, behind.checked_sub(1), Some(hint).filter(|row| *row < right.len()))
            }
        };
        put(matching_row.filter(|row| within(time, *row)));
    }
}

/// The number of rows before `time`.
pub(crate) fn before(right: &[i64], hint: usize, time: i64) -> usize {
    partition_from(right, hint, |other| other < time)
}

/// The number of rows at or before `time`.
pub(crate) fn up_to(right: &[i64], hint: usize, time: i64) -> usize {
    partition_from(right, hint, |other| other <= time)
}

fn nearer(right: &[i64], time: i64, behind: Option<usize>, ahead: Option<usize>) -> Option<usize> {
    match (behind, ahead) {
        (Some(behind), Some(ahead)) if time.abs_diff(right[ahead]) < time.abs_diff(right[behind]) => Some(ahead),
        (None, ahead) => ahead,
        (behind, _) => behind,
    }
}
