//! Digits of a line, read once for integers, floats and timestamps alike.
//!
//! Idea: eight bytes are tested and converted at once as one word. The first group that isn't all digits is read byte by byte. Cost: a few
//! instructions per eight digits, without a branch per digit.

/// A run of digits, perhaps with a point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digits {
    /// The digits as one number, wrong if there are more than 19 of them.
    pub mantissa: u64,
    /// How many digits there are, zeros in front included.
    pub count: usize,
    /// The number of digits after the point.
    pub decimals: usize,
    /// There is a point.
    pub point: bool,
    /// Position behind the last.
    pub end: usize,
}

/// Most digits that 64 bits always hold.
const DIGITS_MAX: usize = 19;

const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Reads digits and a point from `at` on.
#[inline(always)]
pub(super) fn digits(bytes: &[u8], at: usize) -> Digits {
    let mut mantissa = 0;
    let mut end = at;
    run(bytes, &mut end, &mut mantissa);
    let whole = end - at;
    if bytes.get(end) != Some(&b'.') {
        return Digits { mantissa, count: whole, decimals: 0, point: false, end };
    }
    end += 1;
    let from = end;
    run(bytes, &mut end, &mut mantissa);
    Digits { mantissa, count: whole + (end - from), decimals: end - from, point: true, end }
}

#[inline(always)]
fn run(bytes: &[u8], end: &mut usize, mantissa: &mut u64) {
    while let Some(eight) = bytes.get(*end..*end + 8).and_then(|eight| <[u8; 8]>::try_from(eight).ok())
        && let Some(value) = eight_digits(u64::from_le_bytes(eight))
    {
        *mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(value);
        *end += 8;
    }
    while let Some(byte) = bytes.get(*end)
        && byte.is_ascii_digit()
    {
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        *end += 1;
    }
}

/// Eight ASCII digits as a number, or `None` if one of the bytes isn't a digit.
/// Source: D. Lemire, "Quickly parsing eight digits" (2018).
#[inline(always)]
fn eight_digits(word: u64) -> Option<u64> {
    let low = word.wrapping_sub(0x3030_3030_3030_3030);
    let high = word.wrapping_add(0x4646_4646_4646_4646);
    if (low | high) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = low.wrapping_mul(10).wrapping_add(low >> 8);
    let high_digits = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let low_digits = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    Some(high_digits.wrapping_add(low_digits) >> 32)
}

impl Digits {
    /// The nearest float, where one division gives it: both sides are exact, so the quotient is rounded once (W. Clinger,
    /// "How to read floating point numbers accurately", 1990). `None`: read it the long way.
    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn float(&self, negative: bool) -> Option<f64> {
        if self.count == 0 || self.count > DIGITS_MAX || self.mantissa > 1 << 53 {
            return None;
        }
        let value = self.mantissa as f64 / TENS.get(self.decimals)?;
        Some(if negative { -value } else { value })
    }

    /// The integer, or `None` if 64 bits don't hold it or there is a point.
    #[inline(always)]
    pub fn unsigned(&self, text: &[u8]) -> Option<u64> {
        match self.count {
            _ if self.point => None,
            0 => None,
            1..=DIGITS_MAX => Some(self.mantissa),
            _ => std::str::from_utf8(text).ok()?.parse().ok(),
        }
    }

    /// Like [`Digits::unsigned`], with a sign.
    #[inline(always)]
    pub fn signed(&self, text: &[u8], negative: bool) -> Option<i64> {
        let value = self.unsigned(text)?;
        if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
    }
}
