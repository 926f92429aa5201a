//! Exponential smoothing: moves by a share of the distance to each new value.
//!
//! A null row gives null and leaves the smoothed value as it is: one missing value must not lose the rest of a series, as it
//! does in kdb+, and a null row's own answer isn't known. NaN isn't null: after it every row is NaN.

use arrow::array::Float64Array;

/// The exponential moving average: the first value, then `r + alpha * (x - r)`.
///
/// `alphas` holds one share per row; a null there counts as a null of `x`. The caller checks that they lie in (0, 1].
///
/// Source: code.kx.com/q/ref/ema.
#[must_use]
pub fn exponential(x: &Float64Array, alphas: &Float64Array) -> Float64Array {
    let mut smoothed: Option<f64> = None;
    let rows = x.iter().zip(alphas).map(|(x, alpha)| {
        let (x, alpha) = (x?, alpha?);
        smoothed = Some(smoothed.map_or(x, |before| before + alpha * (x - before)));
        smoothed
    });
    rows.collect()
}

/// Wilder's average of `n` values: null until there are `n`, then their mean, then `r + (x - r) / n`.
///
/// Source: J. W. Wilder, "New Concepts in Technical Trading Systems", 1978.
#[must_use]
pub fn wilder(x: &Float64Array, n: usize) -> Float64Array {
    let size = n as f64;
    let (mut count, mut sum, mut smoothed) = (0_usize, 0.0, 0.0);
    let rows = x.iter().map(|x| {
        let x = x?;
        if count < n {
            count += 1;
            sum += x;
            smoothed = sum / size;
        } else {
            smoothed += (x - smoothed) / size;
        }
        (count >= n && n > 0).then_some(smoothed)
    });
    rows.collect()
}
