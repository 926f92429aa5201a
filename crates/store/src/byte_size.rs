//! Sizes as people write them (`512M`), on the command line and in options of SQL.

use std::str::FromStr;

/// A whole number of bytes: `512M`, `2G`, `1048576`. K, M, G and T are powers of 1,024, with or without `B` or `iB` behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub usize);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let upper = text.trim().to_ascii_uppercase();
        let upper = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
        let (digits, shift) = match upper.chars().last() {
            Some('K') => (&upper[..upper.len() - 1], 10),
            Some('M') => (&upper[..upper.len() - 1], 20),
            Some('G') => (&upper[..upper.len() - 1], 30),
            Some('T') => (&upper[..upper.len() - 1], 40),
            _ => (upper, 0),
        };
        let number: usize = digits.trim().parse().map_err(|_| format!("{text:?} is not a size such as 512M or 2G"))?;
        number.checked_mul(1 << shift).map(ByteSize).ok_or_else(|| format!("{text:?} is too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("2G", 2 << 30),
            ("512 MiB", 512 << 20),
            ("512mb", 512 << 20),
            (" 64k ", 64 << 10),
            ("3TB", 3 << 40),
            ("1048576", 1 << 20),
            ("7B", 7),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["lots", "", "G", "1.5G", "-1", "99999999999999G", "2X"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
