//! Floats as whole numbers: prices and sizes originate as decimal text, so `x * 10^k` is whole for a small k, and a
//! whole number packs far better than a float.
//!
//! Invariant: a column is stored so only if **every** value decodes to the same bits. NaN, infinities, negative zero
//! or numbers with more digits leave it a column of floats.

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

/// Most digits behind the point.
const DIGITS_MAX: i8 = 12;

/// Greatest whole number: all up to it are floats, and have at most 18 digits.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The power of ten that a float is divided by; each is a float without an error.
pub(super) fn power(digits: i8) -> Option<f64> {
    POWERS.get(usize::try_from(digits).ok()?).copied()
}

/// The float that a whole number stands for: what reading its decimal text gives, since both are floats and division rounds once.
#[inline(always)]
pub(super) fn float(whole: i64, power: f64) -> f64 {
    whole as f64 / power
}

/// The whole number of a float, which may not be its own.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "checked against the float by who asks")]
fn whole(value: f64, power: f64) -> i64 {
    // Adding and taking away 1.5 * 2^52 rounds to a whole number, as long as that has fewer than 52 bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let scaled = value * power;
    if scaled.abs() < WHOLE_MAX / 4.0 { ((scaled + ROUND) - ROUND) as i64 } else { scaled.round() as i64 }
}

/// A float of either width.
trait ExactFloat: Copy {
    fn wide(self) -> f64;
    /// Whether a float that came back is the same bit for bit.
    fn is(self, back: f64) -> bool;
}

impl ExactFloat for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn is(self, back: f64) -> bool {
        self.to_bits() == back.to_bits()
    }
}

impl ExactFloat for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "as the reader does")]
    fn is(self, back: f64) -> bool {
        self.to_bits() == (back as f32).to_bits()
    }
}

/// A column of floats as whole numbers and a number of decimal places; `None` if a value wouldn't be restored exactly.
/// Null ones are 0.
pub(super) fn wholes_of_64(values: &Float64Array) -> Option<(Vec<i64>, i8)> {
    wholes(values.values(), |row| values.is_null(row), values.null_count() > 0)
}

/// Like [`wholes_of_64`], for floats of 32 bits.
pub(super) fn wholes_of_32(values: &Float32Array) -> Option<(Vec<i64>, i8)> {
    wholes(values.values(), |row| values.is_null(row), values.null_count() > 0)
}

/// A value of a column of floats that no whole number stands for: NaN, an infinity, negative zero, one of more digits. `None` if each has
/// its own, which together they needn't, and for other columns.
pub(crate) fn odd_one(column: &ArrayRef) -> Option<f64> {
    match column.data_type() {
        DataType::Float64 => odd(column.as_primitive::<Float64Type>().values(), |row| column.is_null(row)),
        DataType::Float32 => odd(column.as_primitive::<Float32Type>().values(), |row| column.is_null(row)),
        _ => None,
    }
}

fn odd<F: ExactFloat>(values: &[F], is_null: impl Fn(usize) -> bool) -> Option<f64> {
    let powers = &POWERS[..=DIGITS_MAX as usize];
    let is_odd = |value: &F| !powers.iter().any(|power| comes_back(*value, *power));
    values.iter().enumerate().find(|(row, value)| !is_null(*row) && is_odd(value)).map(|(_, value)| value.wide())
}

/// Whether the whole number of a float gives the float back, bit for bit.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the limit is a whole number")]
fn comes_back<F: ExactFloat>(value: F, power: f64) -> bool {
    let integer = whole(value.wide(), power);
    value.is(float(integer, power)) && integer.unsigned_abs() <= WHOLE_MAX as u64
}

fn wholes<F: ExactFloat>(values: &[F], is_null: impl Fn(usize) -> bool, has_nulls: bool) -> Option<(Vec<i64>, i8)> {
    let mut digits = 0;
    for (row, value) in values.iter().enumerate() {
        if has_nulls && is_null(row) {
            continue;
        }
        while !comes_back(*value, POWERS[digits]) {
            digits += 1;
            if digits > DIGITS_MAX as usize {
                return None;
            }
        }
    }
    // A number that comes back with few digits needn't do so with more.
    let power = POWERS[digits];
    let mut integers = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        if has_nulls && is_null(row) {
            integers.push(0);
        } else if comes_back(*value, power) {
            integers.push(whole(value.wide(), power));
        } else {
            return None;
        }
    }
    Some((integers, i8::try_from(digits).ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prices_come_back_and_others_stay_floats() {
        let of = |values: &[f64]| wholes_of_64(&values.to_vec().into());
        assert_eq!(of(&[]), Some((vec![], 0)));
        assert_eq!(of(&[100.0, -7.0]), Some((vec![100, -7], 0)));
        assert_eq!(of(&[0.1, 12.3456, 1e9]), Some((vec![1000, 123_456, 10_000_000_000_000], 4)));
        assert_eq!(of(&[9_007_199_254_740_992.0]), Some((vec![9_007_199_254_740_992], 0)));
        for value in [f64::NAN, f64::INFINITY, -0.0, 5e-324, 1.0 / 3.0, 1e300, f64::MAX] {
            assert_eq!(of(&[1.5, value]), None, "{value}");
        }
    }

    #[test]
    fn the_first_value_that_keeps_floats_is_named() {
        let odd = |values: Vec<Option<f64>>| odd_one(&(Arc::new(Float64Array::from(values)) as ArrayRef));
        assert_eq!(odd(vec![Some(1.5), Some(1.0 / 3.0), Some(f64::NAN)]), Some(1.0 / 3.0));
        assert_eq!(odd(vec![Some(1.5), None, Some(-0.0)]).map(f64::to_bits), Some((-0.0_f64).to_bits()));
        assert_eq!(odd(vec![None, Some(0.25), Some(9_007_199_254_740_992.0)]), None);
        let singles = Arc::new(Float32Array::from(vec![0.1, 101.25, f32::INFINITY])) as ArrayRef;
        assert_eq!(odd_one(&singles), Some(f64::INFINITY));
    }

    #[test]
    fn nulls_and_single_floats_are_whole_numbers_too() {
        assert_eq!(wholes_of_64(&vec![Some(0.25), None].into()), Some((vec![25, 0], 2)));
        assert_eq!(wholes_of_32(&vec![0.1_f32, 101.25, -3.0].into()), Some((vec![10, 10_125, -300], 2)));
    }

    proptest! {
        #[test]
        fn what_is_stored_as_whole_numbers_comes_back(bits in proptest::collection::vec(any::<u64>(), 0..20), decimals in proptest::collection::vec((-1_000_000_000_i64..1_000_000_000, 0_usize..9), 0..50)) {
            let from_text = decimals.iter().map(|(whole, digits)| format!("{whole}e-{digits}").parse::<f64>().unwrap());
            let prices: Vec<f64> = from_text.collect();
            let bits: Vec<f64> = bits.into_iter().map(f64::from_bits).collect();
            for values in [prices.clone(), bits.clone(), [prices, bits].concat()] {
                if let Some((wholes, digits)) = wholes_of_64(&values.clone().into()) {
                    for (value, whole) in values.iter().zip(wholes) {
                        prop_assert_eq!(value.to_bits(), float(whole, POWERS[digits as usize]).to_bits());
                    }
                }
            }
        }
    }
}
