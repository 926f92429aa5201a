//! Numbers out of text, exactly: what comes out is the value nearest to the decimal that is written.
//!
//! - The fast path reads eight bytes at a time. A mantissa below 2^53 and a power of ten up to 10^22 are both exact
//!   doubles, so one division rounds once and rightly (Clinger 1990, "How to Read Floating Point Numbers Accurately").
//! - Everything else goes to `fast-float2` (floats) or to a plain loop with overflow checks (integers).

/// Powers of ten that are exact doubles.
pub(crate) const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

const TEN: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Eight bytes from `at`, or `None` at the end of the buffer.
#[inline(always)]
pub(crate) fn load8(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|chunk| u64::from_le_bytes(*chunk))
}

/// How many of the eight bytes, from the first, are digits; and the digits' values, one per byte.
#[inline(always)]
fn digits(word: u64) -> (usize, u64) {
    let values = word ^ 0x3030_3030_3030_3030;
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    ((others.trailing_zeros() / 8) as usize, values)
}

/// The number that the first `count` of eight digit values stand for.
#[inline(always)]
fn number(values: u64, count: usize) -> u64 {
    let values = if count == 0 { 0 } else { values << (64 - 8 * count) };
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let even = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let odd = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    even.wrapping_add(odd) >> 32
}

/// A float at `at`: its value divided by ten to the power `shift`, and where it ends. `None` when the fast path doesn't
/// reach; the caller also checks that a delimiter follows.
#[inline(always)]
pub(crate) fn float_at(bytes: &[u8], at: usize, shift: usize) -> Option<(f64, usize)> {
    let word = load8(bytes, at)?;
    let negative = word & 0xff == u64::from(b'-');
    let start = at + usize::from(negative);
    // With a sign the word's last byte is unknown; zero isn't a digit, so it ends the number and the slower path takes over.
    let word = word >> (8 * u32::from(negative));
    let values = word ^ 0x3030_3030_3030_3030;
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let point = others.trailing_zeros() / 8;
    // The place of the first other byte is right even if bytes above 0x80 follow: only they carry into the next byte.
    let end = (others & others.wrapping_sub(1)).trailing_zeros() / 8;
    if point < 7 && (word >> (8 * point)) & 0xff == u64::from(b'.') && end < 8 && !(negative && end == 7) && end > 1 {
        // Digits, point and delimiter lie in one word: close the gap and convert all digits at once.
        let below = (1u64 << (8 * point)) - 1;
        let packed = (values & below) | ((values >> 8) & !below);
        let fraction_digits = (end - point - 1) as usize;
        return finish(number(packed, end as usize - 1), fraction_digits + shift, negative, start + end as usize);
    }
    float_in_words(bytes, start, shift, negative)
}

/// [`float_at`] for numbers of up to 15 digits with at most 7 of them before the point.
#[inline(always)]
fn float_in_words(bytes: &[u8], start: usize, shift: usize, negative: bool) -> Option<(f64, usize)> {
    let (whole_digits, whole_values) = digits(load8(bytes, start)?);
    if whole_digits == 8 {
        return None;
    }
    let whole = number(whole_values, whole_digits);
    let point = start + whole_digits;
    let (mantissa, fraction_digits, end) = if *bytes.get(point)? == b'.' {
        let (count, values) = digits(load8(bytes, point + 1)?);
        let end = point + 1 + count;
        if count == 8 && bytes.get(end)?.is_ascii_digit() {
            return None;
        }
        (whole * TEN[count] + number(values, count), count, end)
    } else {
        (whole, 0, point)
    };
    if whole_digits + fraction_digits == 0 {
        return None;
    }
    finish(mantissa, fraction_digits + shift, negative, end)
}

/// At most 15 digits, so the mantissa is below 2^53.
#[inline(always)]
fn finish(mantissa: u64, exponent: usize, negative: bool, end: usize) -> Option<(f64, usize)> {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    let value = mantissa.cast_signed() as f64 / *POWERS.get(exponent)?;
    Some((f64::from_bits(value.to_bits() | (u64::from(negative) << 63)), end))
}

/// An unsigned integer of at most 15 digits at `at`, its sign, and where it ends.
#[inline(always)]
pub(crate) fn integer_at(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = *bytes.get(at)? == b'-';
    let start = at + usize::from(negative);
    let (count, values) = digits(load8(bytes, start)?);
    let (value, end) = if count == 8 {
        let (more, more_values) = digits(load8(bytes, start + 8)?);
        if more == 8 {
            return None;
        }
        (number(values, 8) * TEN[more] + number(more_values, more), start + 8 + more)
    } else {
        (number(values, count), start + count)
    };
    if end == start {
        return None;
    }
    let value = i64::try_from(value).ok()?;
    Some((if negative { -value } else { value }, end))
}

/// A float in a field of its own, divided by ten to the power `shift`.
pub(crate) fn float(text: &[u8], shift: u32) -> Option<f64> {
    let text = text.strip_prefix(b"+").unwrap_or(text);
    if shift == 0 {
        return fast_float2::parse::<f64, _>(text).ok();
    }
    if !text.last()?.is_ascii_digit() && text.last() != Some(&b'.') {
        return fast_float2::parse::<f64, _>(text).ok();
    }
    // Moving the exponent keeps it to one rounding.
    let text = std::str::from_utf8(text).ok()?;
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let shifted = format!("{mantissa}e{}", exponent.checked_sub(i32::try_from(shift).ok()?)?);
    fast_float2::parse::<f64, _>(shifted.as_bytes()).ok()
}

/// A 32-bit float in a field of its own.
pub(crate) fn float32(text: &[u8]) -> Option<f32> {
    fast_float2::parse::<f32, _>(text.strip_prefix(b"+").unwrap_or(text)).ok()
}

/// Whether a number that is written in digits came out as infinite: no float holds it.
pub(crate) fn is_beyond(value: f64, text: &[u8]) -> bool {
    value.is_infinite() && text.iter().any(u8::is_ascii_digit)
}

/// An integer in a field of its own; a fraction of zeros (`100.00`) is allowed.
pub(crate) fn integer(text: &[u8]) -> Option<i128> {
    let (negative, text) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let whole = match memchr::memchr(b'.', text) {
        Some(point) if text[point + 1..].iter().all(|&b| b == b'0') => &text[..point],
        Some(_) => return None,
        None => text,
    };
    if whole.is_empty() || whole.len() > 38 {
        return None;
    }
    let mut value: i128 = 0;
    for &byte in whole {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
    }
    Some(if negative { -value } else { value })
}

/// A decimal as its digits with `scale` of them after the point. Digits beyond the scale must be zeros.
pub(crate) fn decimal(text: &[u8], scale: u32, digits_max: u32) -> Option<i128> {
    let (negative, text) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = scale as usize;
    let decimals = &fraction[..fraction.len().min(scale)];
    if fraction[decimals.len()..].iter().any(|&b| b != b'0') {
        return None;
    }
    let mut value: i128 = 0;
    let padding = std::iter::repeat_n(&b'0', scale - decimals.len());
    for &byte in whole.iter().chain(decimals).chain(padding) {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
    }
    (value < 10i128.checked_pow(digits_max)?).then_some(if negative { -value } else { value })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn padded(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend_from_slice(&[b',', b'7', b'7', b'7', b'7', b'7', b'7', b'7', b'7', b'7', 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn any_way(text: &str) -> f64 {
        match float_at(&padded(text), 0, 0) {
            Some((value, end)) if end == text.len() => value,
            _ => float(text.as_bytes(), 0).unwrap(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn floats_equal_the_standard_library_bit_for_bit(text in "-?[0-9]{1,17}(\\.[0-9]{0,17})?([eE][+-]?[0-9]{1,3})?") {
            prop_assert_eq!(any_way(&text).to_bits(), text.parse::<f64>().unwrap().to_bits(), "{}", text);
        }

        #[test]
        fn short_decimals_equal_the_standard_library_bit_for_bit(text in "-?[0-9]{1,8}\\.[0-9]{1,9}") {
            prop_assert_eq!(any_way(&text).to_bits(), text.parse::<f64>().unwrap().to_bits(), "{}", text);
        }

        #[test]
        fn scaled_floats_are_rounded_once(whole in 0u64..9_000_000_000_000, shift in 0usize..9) {
            let text = whole.to_string();
            let expected: f64 = format!("{whole}e-{shift}").parse().unwrap();
            let shift32 = u32::try_from(shift).unwrap();
            prop_assert_eq!(float(text.as_bytes(), shift32).unwrap().to_bits(), expected.to_bits());
            if let Some((value, _)) = float_at(&padded(&text), 0, shift) {
                prop_assert_eq!(value.to_bits(), expected.to_bits());
            }
        }

        #[test]
        fn integers_equal_the_standard_library(value in any::<i64>(), digits in 1u32..19) {
            let value = value % 10i64.pow(digits);
            let text = value.to_string();
            prop_assert_eq!(integer(text.as_bytes()), Some(i128::from(value)));
            if let Some((fast, end)) = integer_at(&padded(&text), 0) {
                prop_assert_eq!(end, text.len());
                prop_assert_eq!(fast, value);
            }
        }
    }

    #[test]
    fn things_that_are_no_numbers_are_refused() {
        for text in ["", "-", ".", "1.2.3", "1e", "0x10", "1 ", " 1", "--1"] {
            assert_eq!(float(text.as_bytes(), 0), None, "{text:?}");
        }
        for text in ["", "-", ".", "1.5", "1e3", "+-1", "a"] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(integer(b"100.000"), Some(100));
    }

    #[test]
    fn only_written_infinities_are_infinite() {
        for (text, is) in [("1e400", true), ("-9e999", true), ("1e308", false), ("inf", false), ("-Infinity", false)] {
            assert_eq!(is_beyond(float(text.as_bytes(), 0).unwrap(), text.as_bytes()), is, "{text}");
        }
        assert!(is_beyond(f64::from(float32(b"1e39").unwrap()), b"1e39"));
    }

    #[test]
    fn decimals_keep_every_digit() {
        assert_eq!(decimal(b"-12.3400", 2, 10), Some(-1234));
        assert_eq!(decimal(b"12.345", 2, 10), None);
        assert_eq!(decimal(b"12", 4, 10), Some(120_000));
        assert_eq!(decimal(b"123456", 2, 6), None);
    }
}
