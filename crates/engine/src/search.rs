//! Search that starts where the last one ended.

/// The number of leading times for which `is_before` holds.
///
/// `is_before` must hold for a prefix of `times`. The search doubles its step away from `hint`, so that it costs the
/// logarithm of the distance: a merge where neighbours are near, a binary search where they are far.
pub(crate) fn partition_from(times: &[i64], hint: usize, is_before: impl Fn(i64) -> bool) -> usize {
    let hint = hint.min(times.len());
    let mut step = 1;
    if hint < times.len() && is_before(times[hint]) {
        let mut known = hint + 1;
        loop {
            let probe = known.saturating_add(step);
            if probe > times.len() {
                return known + times[known..].partition_point(|time| is_before(*time));
            }
            if !is_before(times[probe - 1]) {
                return known + times[known..probe - 1].partition_point(|time| is_before(*time));
            }
            known = probe;
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
