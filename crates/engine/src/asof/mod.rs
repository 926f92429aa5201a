//! Kernels of the as-of and window joins, for one group of rows with equal keys.
//!
//! Times are plain `i64` in whatever unit both sides share. All slices of times are ascending, with ties in the order of
//! arrival; what comes out for unordered times is meaningless, though never a panic.
//!
//! ```
//! use splay_engine::asof::{Direction, MatchRule, match_rows};
//!
//! let rule = MatchRule { direction: Direction::Backward, inclusive: true, tolerance: None };
//! let mut matches = Vec::new();
//! match_rows(rule, &[5, 10, 12], &[10, 10, 11], |row| matches.push(row));
//! assert_eq!(matches, [None, Some(1), Some(2)]);
//! ```

mod matching;
mod window;

pub use matching::{Direction, MatchRule, match_rows};
pub(crate) use matching::{before, up_to};
pub use window::{WindowRule, window_rows};

#[cfg(test)]
mod tests;
