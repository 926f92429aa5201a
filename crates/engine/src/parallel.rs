//! Distribution of work to threads.
//!
//! The calling thread works too: only it notices a Ctrl-C, and waking other threads costs more than a small piece of
//! work.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// Rows from which on a second thread pays: waking one takes some ten microseconds.
const ROWS_MIN: usize = 100_000;

/// Rows that a piece counts for if it has to be searched for or copied on its own: it misses the cache a few times.
const ROWS_OF_PIECE: usize = 256;

/// Rows of which each thread takes some at a time, where results are for rows.
const ROWS_TOGETHER: usize = 1 << 16;

/// Threads for work on some rows, and on pieces that are looked at one by one; at least one.
pub(crate) fn threads_for(rows: usize, pieces: usize, threads: usize) -> usize {
    if rows.saturating_add(pieces.saturating_mul(ROWS_OF_PIECE)) >= ROWS_MIN { threads.max(1) } else { 1 }
}

/// Number of aggregates of a row that cost as much as reading a row of few columns.
const AGGREGATES_OF_ROW: usize = 4;

/// Threads for this many aggregates over some rows, in `pieces` pieces that are processed one by one.
pub(crate) fn threads_for_aggregates(rows: usize, aggregates: usize, pieces: usize, threads: usize) -> usize {
    threads_for(rows.saturating_mul(aggregates.div_ceil(AGGREGATES_OF_ROW).max(1)), pieces, threads)
}

/// The results of `work` for all numbers below `tasks`, in order. Each thread takes the next number when it has finished one. After a failure no
/// further task begins.
pub(crate) fn each<T: Send>(tasks: usize, threads: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    each_of(0..tasks, threads, work)
}

/// Like [`each`], for items that the threads take ownership of.
pub(crate) fn each_of<I: Send, T: Send>(
    things: impl ExactSizeIterator<Item = I> + Send,
    threads: usize,
    work: impl Fn(I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let tasks = things.len();
    let threads = threads.min(tasks);
    if threads <= 1 {
        return things.map(work).collect();
    }
    let (next, failed) = (Mutex::new(things.enumerate()), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::with_capacity(tasks));
    let take = || {
        let mut own = Vec::new();
        // Relaxed: results are handed over by the lock.
        while !failed.load(Ordering::Relaxed) {
            let Some((number, thing)) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
            let result = work(thing);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            own.push((number, result));
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    };
    rayon::in_place_scope(|scope| {
        (1..threads).for_each(|_| scope.spawn(|_| take()));
        take();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    let results = done.into_iter().map(|(_, result)| result).collect::<Result<Vec<T>>>()?;
    // Every number below a failed one has begun, so without a failure all results are present.
    if results.len() == tasks { Ok(results) } else { Err(Error::Unsupported("work that was left undone".to_owned())) }
}

/// Results for all rows, of which threads take a piece each.
pub(crate) fn by_rows<T: Send + Clone>(
    rows: usize,
    threads: usize,
    of_rows: impl Fn(Range<usize>) -> Result<Vec<T>> + Sync,
) -> Result<Vec<T>> {
    let threads = threads_for(rows, 0, threads);
    if threads == 1 {
        return of_rows(0..rows);
    }
    let piece = |number: usize| number * ROWS_TOGETHER..rows.min((number + 1) * ROWS_TOGETHER);
    Ok(each(rows.div_ceil(ROWS_TOGETHER), threads, |number| of_rows(piece(number)))?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_from_any_number_of_threads() {
        for threads in [0, 1, 2, 3, 8] {
            for tasks in [0, 1, 2, 7, 100] {
                let results = each(tasks, threads, |number| Ok(number * number)).unwrap_or_default();
                assert_eq!(results, (0..tasks).map(|number| number * number).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_first_failure_is_what_comes_of_it() {
        for threads in [1, 2, 4] {
            let result = each(50, threads, |number| if number == 13 { Err(Error::Stopped) } else { Ok(number) });
            assert!(matches!(result, Err(Error::Stopped)), "{threads} threads: {result:?}");
        }
    }
}
