//! Running and moving kernels: each row's answer over all rows up to it, or over its last `n` rows.
//!
//! Shapes: one row out per row in, in the same order. A column is one series: cut it by symbol before it comes here.
//!
//! Invariants:
//! - the last `n` rows are counted in rows, null or not; the first `n - 1` rows use what there is,
//! - nulls are left out,
//! - nothing is ever subtracted from a sum, so a moving answer doesn't drift, and a NaN or an infinity is gone once its row
//!   has left the window,
//! - a row costs a constant number of steps whatever `n` is,
//! - `n = 0` is an empty window.
//!
//! | Kernel | File |
//! | --- | --- |
//! | the window itself | `slide.rs` |
//! | ranges of any length, such as those of time | `ranges.rs` |
//! | `msum`, `mavg`, `mdev`, `mcount` | `window.rs` |
//! | `mmax`, `mmin`, `maxs`, `mins` | `extreme.rs` |
//! | `sums`, `prds`, `avgs` | `running.rs` |
//! | `ema`, `wilder` | `smooth.rs` |
//!
//! Source of the definitions: code.kx.com/q/ref/sum, /avg, /dev, /max, /min, /count, /prd, /ema.

mod extreme;
mod ranges;
mod running;
mod slide;
mod smooth;
mod window;

#[cfg(test)]
mod tests;

pub use extreme::{Extreme, moving_extreme, running_extreme};
pub use ranges::fold_ranges;
pub use running::{running_average, running_product, running_sum, running_sum_exact};
pub use slide::slide;
pub use smooth::{exponential, wilder};
pub use window::{moving_average, moving_count, moving_deviation, moving_sum, moving_sum_exact};
