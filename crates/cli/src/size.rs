//! Sizes as people read them.

use std::fmt::{Display, Formatter};

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

/// A number with its thousands apart.
pub struct Thousands(pub u64);

impl Display for Thousands {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let digits = self.0.to_string();
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                write!(f, ",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written() {
        assert_eq!(HumanBytes(1_650_000_000).to_string(), "1.65 GB");
        assert_eq!(Thousands(1_234_567).to_string(), "1,234,567");
        assert_eq!(Thousands(12).to_string(), "12");
    }
}
