//! The queue of batches between a plan's streams and the reader of the answer, bounded in number and bytes.
//!
//! A batch of usual size passes without waiting. Large ones wait until the reader has taken the earlier ones, because
//! no operator accounts for queued batches.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::bounds::size::repeated_bytes;

/// Bytes per permit; smaller batches aren't counted.
const UNIT_BYTES: usize = 1 << 16;

/// The end of the queue that accepts batches, or an error.
#[derive(Debug)]
pub(crate) struct BatchSender<E> {
    sender: mpsc::Sender<QueuedBatch<E>>,
    room: Arc<Semaphore>,
    units: usize,
}

impl<E> Clone for BatchSender<E> {
    fn clone(&self) -> BatchSender<E> {
        BatchSender { sender: self.sender.clone(), room: Arc::clone(&self.room), units: self.units }
    }
}

/// A waiting batch, and its share of the bytes in the queue.
#[derive(Debug)]
pub(crate) struct QueuedBatch<E> {
    pub(crate) batch: Result<RecordBatch, E>,
    _room: Option<OwnedSemaphorePermit>,
}

/// A channel for at most `batches` batches of at most `bytes_max` bytes together, or for one larger batch.
pub(crate) fn channel<E>(batches: usize, bytes_max: usize) -> (BatchSender<E>, mpsc::Receiver<QueuedBatch<E>>) {
    let (sender, receiver) = mpsc::channel(batches);
    let units = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
    (BatchSender { sender, room: Arc::new(Semaphore::new(units)), units }, receiver)
}

impl<E> BatchSender<E> {
    /// Puts a batch into the queue once there is room. Returns false if the reader has gone.
    pub(crate) async fn send(&self, batch: Result<RecordBatch, E>) -> bool {
        let units = batch.as_ref().map_or(0, bytes) / UNIT_BYTES;
        let room = match u32::try_from(units.min(self.units)) {
            Ok(units) if units > 0 => Arc::clone(&self.room).acquire_many_owned(units).await.ok(),
            _ => None,
        };
        self.sender.send(QueuedBatch { batch, _room: room }).await.is_ok()
    }
}

fn bytes(batch: &RecordBatch) -> usize {
    let bytes: u64 = batch.columns().iter().map(|column| repeated_bytes(column, 0..column.len())).sum();
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
