//! The tiers of segments.

use serde::{Deserialize, Serialize};

/// How the rows of a segment are kept: what they take on disk, and how fast they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tier {
    /// Arrow IPC file, uncompressed: columns are slices of the mapped file.
    #[serde(rename = "arrow")]
    Mapped,
    /// Parquet, in encodings that are read nearly as fast as memory.
    #[serde(rename = "fast")]
    Fast,
    /// Parquet, compressed as well.
    #[serde(rename = "parquet")]
    Small,
    /// Encoded as the small tier, but in an object store, and read from there.
    #[serde(rename = "object")]
    Object,
    /// Chunks of numbers compressed by pco, in a file of our own: the smallest, for what is hardly read.
    #[serde(rename = "dense")]
    Dense,
}

impl Tier {
    /// The tiers of files in the database's folder, from the fastest to the smallest.
    pub const LOCAL: [Tier; 4] = [Tier::Mapped, Tier::Fast, Tier::Small, Tier::Dense];

    /// How rows are written that come to a date of the tier. What belongs in the object store is moved there later, by itself, so that no load
    /// waits for it.
    pub(crate) fn written(self) -> Tier {
        if self == Tier::Object { Tier::Small } else { self }
    }

    /// Extension of the file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Tier::Mapped => "arrow",
            Tier::Fast | Tier::Small | Tier::Object => "parquet",
            Tier::Dense => "dense",
        }
    }

    /// The tier's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tier::Mapped => "mapped",
            Tier::Fast => "fast",
            Tier::Small => "small",
            Tier::Object => "object",
            Tier::Dense => "dense",
        }
    }

    /// Whether columns are slices of the file; in others they are decoded.
    #[must_use]
    pub fn is_mapped(self) -> bool {
        self == Tier::Mapped
    }
}

impl std::str::FromStr for Tier {
    type Err = String;

    /// Reads a name, without regard to case. Earlier releases called the mapped tier `arrow` and the small one `parquet`.
    fn from_str(text: &str) -> Result<Tier, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "mapped" | "arrow" => Ok(Tier::Mapped),
            "fast" => Ok(Tier::Fast),
            "small" | "parquet" => Ok(Tier::Small),
            "object" => Ok(Tier::Object),
            "dense" => Ok(Tier::Dense),
            _ => Err(format!("{text:?} is not a tier; there are mapped, fast, small, dense, object")),
        }
    }
}
