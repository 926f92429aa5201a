//! Work that takes long, off the network's threads.

use crate::problem::{Code, Outcome, Problem};

/// Runs it on a thread of its own, and waits for it.
///
/// # Errors
/// An internal problem if it panics.
pub(crate) async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|_| Problem::new(Code::Internal, "the request broke off; this is a fault of SplayDB"))
}
