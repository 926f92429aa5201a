//! The ordered engine.
