//! The ordered engine.

pub mod moving;
