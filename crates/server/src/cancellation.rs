//! Running statements by the key that cancels them: a Flight ticket, or the key of a PostgreSQL connection.
//!
//! Both are random bytes that only the statement's client received. Dropping a [`CancellationToken`] removes its key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::watch;

use crate::problem::{Code, Outcome, Problem};

/// Length of a statement's name.
const NAME_BYTES: usize = 16;

/// The first byte of a ticket with a name. No statement begins with it.
const MARK: u8 = 0;

/// Statements by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningStatements {
    statements: Arc<Mutex<HashMap<Bytes, Vec<Arc<watch::Sender<bool>>>>>>,
}

/// Tells a statement that it was cancelled.
#[derive(Debug)]
pub(crate) struct CancellationToken {
    running: RunningStatements,
    name: Bytes,
    sender: Arc<watch::Sender<bool>>,
    receiver: watch::Receiver<bool>,
}

/// The handle of a statement, with a name of its own.
pub(crate) fn handle(text: &str) -> Outcome<Bytes> {
    let mut name = [0u8; NAME_BYTES];
    let no_random = |_| Problem::new(Code::Internal, "the system gives no random bytes");
    getrandom::fill(&mut name).map_err(no_random)?;
    let mut handle = BytesMut::with_capacity(1 + NAME_BYTES + text.len());
    handle.put_u8(MARK);
    handle.put_slice(&name);
    handle.put_slice(text.as_bytes());
    Ok(handle.freeze())
}

/// Name and text of the statement that a handle is of.
pub(crate) fn statement(handle: &Bytes) -> Outcome<(Bytes, &str)> {
    let named = handle.first() == Some(&MARK) && handle.len() > NAME_BYTES;
    let start = if named { 1 + NAME_BYTES } else { 0 };
    let text = std::str::from_utf8(&handle[start..]);
    let text = text.map_err(|_| Problem::new(Code::Request, "the statement is not UTF-8"))?;
    Ok((handle.slice(..start), text))
}

impl RunningStatements {
    /// A statement begins to run. One name may run several times at once.
    pub(crate) fn begin(&self, name: Bytes) -> CancellationToken {
        let (sender, receiver) = watch::channel(false);
        let sender = Arc::new(sender);
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.entry(name.clone()).or_default().push(Arc::clone(&sender));
        drop(statements);
        CancellationToken { running: self.clone(), name, sender, receiver }
    }

    /// Cancels what runs under a name; whether anything did.
    pub(crate) fn cancel(&self, name: &Bytes) -> bool {
        let statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        let cancellers = statements.get(name).filter(|_| !name.is_empty());
        let senders = cancellers.into_iter().flatten();
        senders.fold(false, |_, sender| {
            sender.send_replace(true);
            true
        })
    }
}

impl CancellationToken {
    /// Waits until the statement is cancelled; for ever if it isn't.
    pub(crate) async fn wait(&mut self) {
        if self.receiver.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for CancellationToken {
    fn drop(&mut self) {
        let mut statements = self.running.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(senders) = statements.get_mut(&self.name) {
            senders.retain(|sender| !Arc::ptr_eq(sender, &self.sender));
            if senders.is_empty() {
                statements.remove(&self.name);
            }
        }
    }
}

/// The error for the client of a cancelled statement.
pub(crate) fn problem() -> Problem {
    Problem::new(Code::Cancelled, "the statement was cancelled")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_under_a_name_is_cancelled_and_nothing_is_kept() {
        let running = RunningStatements::default();
        let (one, other) = (handle("select 1").unwrap(), handle("select 1").unwrap());
        let ((one, text), (other, _)) = (statement(&one).unwrap(), statement(&other).unwrap());
        assert_eq!(text, "select 1");
        assert!(!running.cancel(&one), "it doesn't run yet");
        let (first, second, another) =
            (running.begin(one.clone()), running.begin(one.clone()), running.begin(other.clone()));
        assert!(running.cancel(&one));
        assert!(*first.receiver.borrow() && *second.receiver.borrow() && !*another.receiver.borrow());
        drop((first, second, another));
        assert!(running.statements.lock().unwrap().is_empty());
        // A plain statement has no name, so that it can't be cancelled by one.
        let plain = Bytes::from_static(b"select 1");
        let (none, text) = statement(&plain).unwrap();
        assert_eq!((none.len(), text), (0, "select 1"));
        let unnamed = running.begin(none.clone());
        assert!(!running.cancel(&none) && !*unnamed.receiver.borrow());
        assert!(statement(&Bytes::from_static(b"\xff\xfe")).is_err());
    }
}
