//! How much memory a function takes: an allocator that counts by thread.
//!
//! - It counts only in a program that has it: `#[global_allocator] static ALLOCATOR: Counting = Counting;`. Elsewhere every
//!   peak is 0 and every bound holds.
//! - What other threads take isn't counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated, and the peak since the last reset.
    static ALLOCATED: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

fn count(bytes: isize) {
    // A thread that ends has no count any more; what it frees then is of no interest.
    let _ = ALLOCATED.try_with(|counter| {
        let (now, most) = counter.get();
        let now = now.wrapping_add(bytes);
        counter.set((now, most.max(now)));
    });
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: every call is handed to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size) - signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The most bytes that this thread held while `work` ran, beyond those that it held before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.with(|counter| {
        let (now, _) = counter.get();
        counter.set((now, now));
        now
    });
    let done = work();
    let most = ALLOCATED.with(|counter| counter.get().1);
    (done, usize::try_from(most - before).unwrap_or(0))
}

/// Memory that a target may take: so much, and so much for each byte of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes for any input.
    pub fixed: usize,
    /// Bytes for each byte of the input.
    pub each: usize,
}

/// 16 MiB and 256 bytes for each.
impl Default for Memory {
    fn default() -> Memory {
        Memory { fixed: 16 << 20, each: 256 }
    }
}

/// Runs a target.
///
/// # Panics
/// If the target does, or if it takes more memory than it may.
pub fn bounded(memory: Memory, input: &[u8], target: impl FnOnce(&[u8])) {
    let ((), most) = peak(|| target(input));
    let allowed = memory.fixed + memory.each * input.len();
    assert!(most <= allowed, "an input of {} bytes takes {most} bytes of memory, more than {allowed}", input.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn a_peak_is_what_was_held_at_once() {
        let (_, most) = peak(|| {
            drop(std::hint::black_box(vec![0u8; 3 << 20]));
            drop(std::hint::black_box(vec![0u8; 2 << 20]));
        });
        assert!((3 << 20..4 << 20).contains(&most), "{most}");
    }

    #[test]
    #[should_panic(expected = "more than")]
    fn a_target_that_takes_too_much_is_found() {
        let memory = Memory { fixed: 1 << 20, each: 0 };
        bounded(memory, &[], |_| drop(std::hint::black_box(vec![0u8; 2 << 20])));
    }
}
