//! Capture: from feed to journal to real-time table to history.

pub mod line;
