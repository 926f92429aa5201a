//! Decimal numbers as they are written, without rounding.

use std::str::FromStr;

/// `digits` times ten to the power of `exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecimalNumber {
    digits: i128,
    exponent: i32,
}

impl DecimalNumber {
    /// `digits` times ten to the power of `exponent`.
    #[must_use]
    pub fn new(digits: i128, exponent: i32) -> DecimalNumber {
        DecimalNumber { digits, exponent }
    }

    /// The number in units of `10^-scale`; none if it isn't a whole number of them, or more than fits.
    #[must_use]
    pub fn at_scale(self, scale: i32) -> Option<i128> {
        if self.digits == 0 {
            return Some(0);
        }
        let shift = self.exponent.checked_add(scale)?;
        let factor = 10_i128.checked_pow(shift.unsigned_abs())?;
        if shift >= 0 {
            return self.digits.checked_mul(factor);
        }
        (self.digits % factor == 0).then(|| self.digits / factor)
    }
}

/// Text that is no number, or has more digits than are kept exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseDecimalError;

impl FromStr for DecimalNumber {
    type Err = ParseDecimalError;

    fn from_str(text: &str) -> Result<DecimalNumber, ParseDecimalError> {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().map_err(|_| ParseDecimalError)?),
            None => (text, 0),
        };
        let (is_negative, number) = match number.as_bytes().first() {
            Some(b'-') => (true, &number[1..]),
            Some(b'+') => (false, &number[1..]),
            _ => (false, number),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(ParseDecimalError);
        }
        let fraction = fraction.trim_end_matches('0');
        let mut digits: i128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return Err(ParseDecimalError);
            }
            let digit = i128::from(byte - b'0');
            digits = digits.checked_mul(10).and_then(|digits| digits.checked_add(digit)).ok_or(ParseDecimalError)?;
        }
        let places = i32::try_from(fraction.len()).map_err(|_| ParseDecimalError)?;
        let exponent = exponent.checked_sub(places).ok_or(ParseDecimalError)?;
        Ok(DecimalNumber { digits: if is_negative { -digits } else { digits }, exponent })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_as_they_are_written() {
        let at = |text: &str, scale| text.parse::<DecimalNumber>().unwrap().at_scale(scale);
        assert_eq!(at("180.5", 4), Some(1_805_000));
        assert_eq!(at("-0.10", 1), Some(-1));
        assert_eq!(at("1.70e18", 0), Some(1_700_000_000_000_000_000));
        assert_eq!(at("5000E-3", 0), Some(5));
        assert_eq!(at("1.5", 0), None);
        assert_eq!(at("1e40", 0), None);
        assert_eq!(at("0e99999", 0), Some(0));
        assert_eq!(at("9007199254740993", 0), Some(9_007_199_254_740_993));
        assert_eq!(at(".5", 1), Some(5));
        for text in
            ["", "-", ".", "1.2.3", "1e", "0x10", "1_000", "NaN", "1 ", "99999999999999999999999999999999999999999"]
        {
            assert!(text.parse::<DecimalNumber>().is_err(), "{text}");
        }
    }
}
