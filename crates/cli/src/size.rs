//! Sizes as people read them.

use std::fmt::{Display, Formatter};

pub use splay_store::{Counted, Thousands};

/// Bytes for people, in powers of 1,000 as disks and networks are sold.
pub struct HumanBytes(pub u64);

impl Display for HumanBytes {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} B", self.0),
            1_000..1_000_000 => write!(f, "{:.1} kB", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", bytes / 1e6),
            _ => write!(f, "{:.2} GB", bytes / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written() {
        assert_eq!(HumanBytes(1_650_000_000).to_string(), "1.65 GB");
    }
}
