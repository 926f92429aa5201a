//! Settings of deduplication.

use serde::{Deserialize, Serialize};

/// Which rows of a table are duplicates. They are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DedupeSettings {
    /// `exact`, or names of columns with commas between them: rows of a date and symbol that are equal in these are the same.
    pub key: String,
    /// How far back of the table's latest row rows are compared, in seconds of their time. Default 60.
    pub window_s: u64,
    /// Keys that are held, each of which takes up to 90 bytes. Beyond them fewer rows are compared than the window says. Default 4 million.
    pub keys_max: usize,
}

impl Default for DedupeSettings {
    fn default() -> DedupeSettings {
        DedupeSettings { key: "exact".to_owned(), window_s: 60, keys_max: 4_000_000 }
    }
}
