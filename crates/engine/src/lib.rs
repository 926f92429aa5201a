//! The ordered engine: kernels that use the order of times.

pub mod asof;
