//! Prefetches bytes into the processor's cache before they are copied, so that cache misses overlap.

/// Bytes of a line of the cache.
const LINE_BYTES: usize = 64;

/// Lines that are asked for; behind them the processor goes on by itself.
const LINES_MAX: usize = 12;

/// Asks for the begin of some bytes. Nothing is read: where they aren't in memory, nothing happens.
pub(crate) fn begin_of(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(LINE_BYTES).take(LINES_MAX) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, which reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, LINE_BYTES, LINES_MAX);
}
