//! Finds the right rows in the window of each left row.
//!
//! Source of the definitions: `wj` and `wj1` of kdb+. One difference: of several rows exactly at the begin of the
//! window, `wj` counts only the last; here all of them lie in the window, as they do without the prevailing row.

use std::ops::Range;

use crate::search::partition_from;

/// The rule for a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowRule {
    /// Whether the window includes the last row before its beginning, which prevails there. A row exactly at the beginning replaces it.
    pub prevailing: bool,
}

/// Calls `put` once for each window, in order, with its range of right rows. Both bounds are inclusive.
///
/// A window without bounds, or with its beginning after its end, is empty. Windows may come in any order; a window near the previous one is found
/// fastest.
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
