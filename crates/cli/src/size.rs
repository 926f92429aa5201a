//! Sizes as people write and read them.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// A number of bytes: `512M`, `2G`, `1048576`. K, M, G are powers of 1,024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let upper = text.trim().to_ascii_uppercase();
        let upper = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
        let (digits, shift) = match upper.chars().last() {
            Some('K') => (&upper[..upper.len() - 1], 10),
            Some('M') => (&upper[..upper.len() - 1], 20),
            Some('G') => (&upper[..upper.len() - 1], 30),
            _ => (upper, 0),
        };
        let number: usize = digits.trim().parse().map_err(|_| format!("{text:?} is not a size such as 512M or 2G"))?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(|| format!("{text:?} is too large"))
    }
}

/// Bytes for people, in powers of 1,000 as disks and networks are sold.
pub struct Human(pub u64);

impl Display for Human {
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
    fn sizes_are_read_and_written() {
        assert_eq!("2G".parse(), Ok(Bytes(2 << 30)));
        assert_eq!("512 MiB".parse(), Ok(Bytes(512 << 20)));
        assert_eq!("1048576".parse(), Ok(Bytes(1 << 20)));
        assert!("lots".parse::<Bytes>().is_err());
        assert!("99999999999999G".parse::<Bytes>().is_err());
        assert_eq!(Human(1_650_000_000).to_string(), "1.65 GB");
        assert_eq!(Thousands(1_234_567).to_string(), "1,234,567");
        assert_eq!(Thousands(12).to_string(), "12");
    }
}
