//! Makes background threads yield the processor to threads that somebody waits for.
//!
//! Linux lets a woken thread wait behind a computing one, for 4 to 8 ms if all processors are busy, and a low
//! priority doesn't change that (docs/adr/0018-background-work-gives-way.md). So loops over many rows report their
//! progress by [`did`], and a thread that called [`enter`] yields every few thousand rows. On other threads the call
//! costs one thread-local read.

use std::cell::Cell;
use std::ops::Range;

/// Rows behind which the processor is offered: a quarter of a millisecond of most work, against a microsecond for the offer.
const ROWS: usize = 1 << 14;

/// The budget of a thread that isn't a background thread: it never yields.
const FOREGROUND: usize = usize::MAX;

thread_local! {
    /// Rows that the thread may still work on before it offers the processor again.
    static ROW_BUDGET: Cell<usize> = const { Cell::new(FOREGROUND) };
}

/// From here on the calling thread works in the background.
pub fn enter() {
    ROW_BUDGET.set(ROWS);
}

/// Counts rows that a longer piece of work has processed, and yields the processor when the budget is used up.
#[inline]
pub fn did(rows: usize) {
    let budget = ROW_BUDGET.get();
    if budget != FOREGROUND {
        if budget > rows {
            ROW_BUDGET.set(budget - rows);
        } else {
            ROW_BUDGET.set(ROWS);
            std::thread::yield_now();
        }
    }
}

/// The numbers of `rows` rows in pieces that are short enough to be worked on without an offer. Each counts as done.
pub(crate) fn pieces(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(ROWS).map(move |start| {
        let end = (start + ROWS).min(rows);
        did(end - start);
        start..end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_of_the_background_count_rows() {
        did(5);
        assert_eq!(ROW_BUDGET.get(), FOREGROUND);
        let counted = std::thread::spawn(|| {
            enter();
            did(5);
            let some = ROW_BUDGET.get();
            did(ROWS);
            (some, ROW_BUDGET.get())
        });
        assert_eq!(counted.join().ok(), Some((ROWS - 5, ROWS)));
    }

    #[test]
    fn pieces_are_all_rows_in_order() {
        for rows in [0, 1, ROWS - 1, ROWS, ROWS + 1, 5 * ROWS + 7] {
            let mut end = 0;
            for piece in pieces(rows) {
                assert_eq!(piece.start, end);
                assert!(!piece.is_empty());
                end = piece.end;
            }
            assert_eq!(end, rows);
        }
    }
}
