//! Galloping search: finds the end of a prefix in ascending times, starting at the previous result.
//!
//! Idea: the step doubles away from the start until it passes the end, and a binary search finishes within the last
//! step. Near the start, `NEAR` times are counted at once without a branch, because the processor would mispredict
//! half of such branches.
//!
//! Invariant: the condition holds for a prefix of the times, whatever the start. Cost: the logarithm of the distance
//! from the start, which makes a merge of dense searches and a binary search of sparse ones.

/// Number of times that are compared at once, and of such groups before the search gallops.
const NEAR: usize = 8;

/// The number of leading times for which `is_before` holds.
///
/// `is_before` must hold for a prefix of `times`. The search doubles its step away from `hint`, so that it costs the
/// logarithm of the distance: a merge where neighbours are near, a binary search where they are far.
#[inline]
pub(crate) fn partition_from(times: &[i64], hint: usize, is_before: impl Fn(i64) -> bool) -> usize {
    let hint = hint.min(times.len());
    let (behind, ahead) = times.split_at(hint);
    let (stays, is_ahead) =
        (behind.last().is_none_or(|time| is_before(*time)), ahead.first().is_some_and(|time| is_before(*time)));
    if stays && !is_ahead { hint } else { away_from(times, hint, is_ahead, is_before) }
}

fn away_from(times: &[i64], hint: usize, is_ahead: bool, is_before: impl Fn(i64) -> bool) -> usize {
    let mut step = 1;
    if is_ahead {
        let mut start = hint + 1;
        // The result is usually near. A group of times is counted without branches, half of which the processor would mispredict.
        for _ in 0..NEAR {
            let Some(near) = times.get(start..start + NEAR) else { break };
            let before = near.iter().filter(|time| is_before(**time)).count();
            start += before;
            if before < NEAR {
                return start;
            }
        }
        loop {
            let probe = start.saturating_add(step);
            if probe > times.len() {
                return start + times[start..].partition_point(|time| is_before(*time));
            }
            if !is_before(times[probe - 1]) {
                return start + times[start..probe - 1].partition_point(|time| is_before(*time));
            }
            start = probe;
            step *= 2;
        }
    }
    let mut end = hint;
    while end > 0 {
        let probe = end.saturating_sub(step);
        if is_before(times[probe]) {
            return probe + 1 + times[probe + 1..end].partition_point(|time| is_before(*time));
        }
        end = probe;
        step *= 2;
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_hint_leads_to_the_end_of_the_prefix(
            mut times in prop::collection::vec(0..400i64, 0..300),
            hint in 0..320usize,
            bound in -1..402i64,
        ) {
            times.sort_unstable();
            let expected = times.partition_point(|time| *time < bound);
            prop_assert_eq!(partition_from(&times, hint, |time| time < bound), expected);
        }
    }
}
