//! Folds the last `n` rows of each row, without subtraction, in time that doesn't depend on `n`.
//!
//! Rows are cut into blocks of `n`. A window reaches from inside one block into the next, so its fold is that of the tail
//! of the older block joined with that of the head of the newer one; tails are folded once per block, heads grow row by row.
//!
//! Source: M. van Herk, "A fast algorithm for local minimum and maximum filters on rectangular and octagonal kernels", 1992;
//! it needs no more than an associative `join`.

/// Gives `emit` the fold of the last `n` rows of each row, oldest first.
///
/// `nothing` is the fold of no rows, `at` the fold of one, `join` the fold of older and newer rows together.
/// With `n = 0` every fold is `nothing`. Holds `min(n, rows)` folds.
pub fn slide<T: Copy>(
    rows: usize,
    n: usize,
    nothing: T,
    at: impl Fn(usize) -> T,
    join: impl Fn(T, T) -> T,
    mut emit: impl FnMut(T),
) {
    if n == 0 {
        (0..rows).for_each(|_| emit(nothing));
        return;
    }
    // tails[j] is the fold of the older block from its row j on; of the first block there is no older one.
    let mut tails = vec![nothing; if n < rows { n } else { 0 }];
    let mut start = 0;
    while start < rows {
        let end = start.saturating_add(n).min(rows);
        let mut head = nothing;
        for row in start..end {
            head = join(head, at(row));
            emit(match tails.get(row - start + 1) {
                Some(tail) => join(*tail, head),
                None => head,
            });
        }
        if end < rows {
            let mut tail = nothing;
            for row in (start..end).rev() {
                tail = join(at(row), tail);
                tails[row - start] = tail;
            }
        }
        start = end;
    }
}
