//! Which right rows lie in the window of each left row.
//!
//! Source of the definitions: `wj` and `wj1` of kdb+. One difference: of several rows exactly at the begin of the
//! window, `wj` counts only the last; here all of them lie in the window, as they do without the prevailing row.

use std::ops::Range;

use crate::search::partition_from;

/// What belongs to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowRule {
    /// Whether the last row before the begin belongs to the window, as the one that prevails there. A row exactly at the
    /// begin takes its place.
    pub prevailing: bool,
}

/// Calls `put` once for each window, in order, with its range of right rows. Both bounds are inclusive.
///
/// A window without bounds, or with its begin after its end, is empty. Windows may come in any order; those that lie near
/// the one before them are found fastest.
pub fn window_rows(
    rule: WindowRule,
    bounds: impl IntoIterator<Item = Option<(i64, i64)>>,
    right: &[i64],
    mut put: impl FnMut(Range<usize>),
) {
    let (mut first, mut end) = (0, 0);
    for bounds in bounds {
        let Some((from, to)) = bounds.filter(|(from, to)| from <= to) else {
            put(0..0);
            continue;
        };
        first = partition_from(right, first, |time| time < from);
        end = partition_from(right, end, |time| time <= to);
        let is_replaced = right.get(first) == Some(&from);
        let begin = if rule.prevailing && !is_replaced { first.saturating_sub(1) } else { first };
        put(begin..end);
    }
}
