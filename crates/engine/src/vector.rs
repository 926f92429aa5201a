//! Compiles loops twice: for every x86-64 processor, and for those with AVX2, whose instructions take four times as
//! many values.

/// Runs a loop, compiled for the best instructions of this processor. The loop must be a closure with `#[inline(always)]`, and so must each function
/// that it calls: everything else is compiled for every processor.
///
/// Both variants give the same results, to the last bit of floats: neither reorders additions nor fuses two operations.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    let has = std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("lzcnt")
        && std::arch::is_x86_feature_detected!("popcnt");
    if has {
        // SAFETY: the processor has these features.
        unsafe { by_avx2(work) }
    } else {
        work()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn by_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Runs a loop. On this architecture all processors have the same instructions.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// The results for some values, in a loop that [`vectorized`] runs. The function must be `#[inline(always)]`, and so must each that it calls.
#[inline]
pub(crate) fn map_vectorized<V, R>(values: impl ExactSizeIterator<Item = V>, mut result: impl FnMut(V) -> R) -> Vec<R> {
    // Filled as it grows: zeros that are overwritten later would be written to memory for nothing.
    let mut results = Vec::with_capacity(values.len());
    vectorized(
        #[inline(always)]
        || results.extend(values.map(&mut result)),
    );
    results
}
