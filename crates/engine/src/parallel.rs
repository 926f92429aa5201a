//! Work that is dealt out to threads.
//!
//! The calling thread works too: it is the one that hears of a Ctrl-C, and waking others costs more than small work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// The results of `work` for all numbers below `tasks`, in order. Each thread takes the next number when it is done with one.
/// After a failure none is begun.
pub(crate) fn each<T: Send>(tasks: usize, threads: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let threads = threads.min(tasks);
    if threads <= 1 {
        return (0..tasks).map(work).collect();
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::with_capacity(tasks));
    let take = || {
        let mut own = Vec::new();
        // Relaxed: numbers only have to differ; results are handed over by the lock.
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= tasks {
                break;
            }
            let result = work(number);
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
    // Every number below a failed one was begun, so that without a failure all are there.
    if results.len() == tasks { Ok(results) } else { Err(Error::Unsupported("work that was left undone".to_owned())) }
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
