//! Memory of function results, reserved before the call and released with the last user of the result.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::buffer::Buffer;
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// Results below this size aren't reserved. A batch has few of them, and most are much smaller.
pub(super) const RESERVED_FROM: u64 = 1 << 20;

/// The share of a statement's memory that a result may take: each stream has one, and the operators above it copy it.
const PARTS: u64 = 8;

/// Bytes reserved per byte of the result: a growing buffer doubles and is copied, and then a sort, a group or a join copies the result.
const COPIES: usize = 2;

/// Reserves bytes for the result of a function.
///
/// # Errors
/// `ResourcesExhausted` with the function and its bytes.
pub(super) fn reserve(pool: &Arc<dyn MemoryPool>, function: &str, bytes: u64) -> Result<MemoryReservation> {
    let reservation = MemoryConsumer::new(format!("{function}()")).register(pool);
    if let MemoryLimit::Finite(limit) = pool.memory_limit()
        && bytes > limit as u64 / PARTS
    {
        let most = limit as u64 / PARTS;
        let text =
            format!("{function}() may give {bytes} bytes for the rows of one batch, of which {most} are allowed");
        return Err(DataFusionError::ResourcesExhausted(text));
    }
    reservation.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(COPIES))?;
    Ok(reservation)
}

/// A buffer and its reservation.
struct ReservedBuffer {
    buffer: Buffer,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for ReservedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// Ties the reservation to the array's largest buffer, and shrinks it to the array's size.
pub(super) fn hold(array: &ArrayRef, reservation: MemoryReservation) -> Result<ArrayRef> {
    reservation.try_resize(array.get_array_memory_size().saturating_mul(COPIES))?;
    let mut data = array.to_data();
    let largest = largest(&data);
    let mut reservation = Some(reservation);
    if replace(&mut data, largest, &mut reservation) { Ok(make_array(data)) } else { Ok(Arc::clone(array)) }
}

fn largest(data: &ArrayData) -> usize {
    let own = data.buffers().iter().map(Buffer::len).max().unwrap_or(0);
    data.child_data().iter().map(largest).fold(own, usize::max)
}

/// Replaces the first buffer of a length by one that holds the reservation.
fn replace(data: &mut ArrayData, length: usize, reservation: &mut Option<MemoryReservation>) -> bool {
    let mut buffers = data.buffers().to_vec();
    let mut children = data.child_data().to_vec();
    let is_here = match buffers.iter_mut().find(|buffer| buffer.len() == length) {
        Some(buffer) => {
            let Some(reservation) = reservation.take() else { return false };
            let owner = ReservedBuffer { buffer: buffer.clone(), _reservation: reservation };
            *buffer = Buffer::from(Bytes::from_owner(owner));
            true
        }
        None => children.iter_mut().any(|child| replace(child, length, reservation)),
    };
    if is_here {
        let built = data.clone().into_builder().buffers(buffers).child_data(children);
        // SAFETY: the parts are those of a sound array; one buffer has another owner, at the same place and of the same length.
        *data = unsafe { built.build_unchecked() };
    }
    is_here
}
