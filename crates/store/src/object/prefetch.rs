//! Prefetches objects by threads, so that the requests of a statement overlap.
//!
//! If no thread is free, the request is dropped: the reader then fetches the bytes itself.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Requests at a time. Stores serve many in the time of one.
const THREADS: usize = 16;

/// Work that waits.
const WAITING_MAX: usize = 256;

type PrefetchTask = Box<dyn FnOnce() + Send>;

/// Does something on another thread, or not at all.
pub(crate) fn later(work: impl FnOnce() + Send + 'static) {
    static QUEUE: OnceLock<SyncSender<PrefetchTask>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| {
        let (queue, waiting) = sync_channel::<PrefetchTask>(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let waiting = Arc::clone(&waiting);
            // A thread that can't be started leaves the work to the others; without any the queue is full, or closed, and all is left out.
            let _ = std::thread::Builder::new().name("fetch-ahead".to_owned()).spawn(move || work_on(&waiting));
        }
        queue
    });
    let _ = queue.try_send(Box::new(work));
}

fn work_on(waiting: &Mutex<Receiver<PrefetchTask>>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = next else { return };
        // A panic here is ignored: the reader of the same bytes gets the error.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    }
}
