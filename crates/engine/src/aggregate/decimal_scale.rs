//! Floats that are multiples of a power of ten, as prices are, as keys of groups.
//!
//! [`super::dense::DenseGroups`] finds the group of a whole number without a hash, if the numbers lie close together. Prices
//! of 101.25 and 101.26 become 10125 and 10126, and so lie close together, too. A float counts as a multiple only if
//! the multiple, divided by the power of ten, gives the same float again. So two floats are equal if and only if their
//! multiples are.

use crate::vector::vectorized;

/// Most decimal digits.
const DIGITS_MAX: u8 = 6;

/// Values that are tried before the others of a block.
const FEW: usize = 64;

/// Blocks with other values after which no more are tried.
const REFUSED_MAX: u8 = 2;

/// Added to a float below [`MULTIPLE_MAX`], it leaves the nearest whole number in the last bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// Multiples from here on aren't whole numbers that floats hold exactly.
const MULTIPLE_MAX: f64 = 2_251_799_813_685_248.0;

/// The power of ten of a column's values: that of the first block with multiples of one.
#[derive(Debug, Default)]
pub(super) struct DecimalScale {
    digits: Option<u8>,
    refused: u8,
}

impl DecimalScale {
    /// The decimal digits of the values, once there were multiples.
    pub fn digits(&self) -> Option<u8> {
        self.digits
    }

    /// The values as multiples; `None` where one isn't. `is_exact` says whether a quotient is the value, of values that have been
    /// narrower.
    pub fn multiples(&mut self, values: &[f64], is_exact: impl Fn(f64, f64) -> bool + Copy) -> Option<Vec<i64>> {
        if self.refused >= REFUSED_MAX {
            return None;
        }
        let multiples = match self.digits {
            Some(digits) => at(values, digits, is_exact),
            None => {
                // Multiples of a power of ten are those of the next, too.
                let few = &values[..values.len().min(FEW)];
                let mut digits = (0..=DIGITS_MAX).filter(|digits| at(few, *digits, is_exact).is_some());
                let found = digits.find_map(|digits| Some((digits, at(values, digits, is_exact)?)));
                self.digits = found.as_ref().map(|(digits, _)| *digits);
                found.map(|(_, multiples)| multiples)
            }
        };
        self.refused = if multiples.is_some() { 0 } else { self.refused + 1 };
        multiples
    }
}

fn at(values: &[f64], digits: u8, is_exact: impl Fn(f64, f64) -> bool + Copy) -> Option<Vec<i64>> {
    let power = 10f64.powi(i32::from(digits));
    vectorized(
        #[inline(always)]
        || {
            let mut are_multiples = true;
            let multiple = |value: &f64| {
                let scaled = value * power;
                let rounded = scaled + ROUNDING;
                are_multiples &= is_exact((rounded - ROUNDING) / power, *value) & (scaled.abs() < MULTIPLE_MAX);
                rounded.to_bits().wrapping_sub(ROUNDING.to_bits()).cast_signed()
            };
            let multiples: Vec<i64> = values.iter().map(multiple).collect();
            are_multiples.then_some(multiples)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scale: &mut DecimalScale, values: &[f64]) -> Option<Vec<i64>> {
        scale.multiples(values, |quotient, value| quotient == value)
    }

    #[test]
    fn prices_are_multiples_of_the_finest_unit_that_the_first_block_has() {
        let mut scale = DecimalScale::default();
        assert_eq!(of(&mut scale, &[101.0, 99.5, -3.25]), Some(vec![10_100, 9_950, -325]));
        assert_eq!(of(&mut scale, &[0.01, 0.0]), Some(vec![1, 0]));
        assert_eq!(of(&mut scale, &[0.001]), None, "finer than before");
        assert_eq!(of(&mut scale, &[7.0]), Some(vec![700]));
        assert_eq!(of(&mut scale, &[]), Some(vec![]));
    }

    #[test]
    fn other_floats_are_refused_and_soon_not_tried() {
        for value in [f64::NAN, f64::INFINITY, 1.0 / 3.0, 1e16, 2f64.powi(60), 5e-324] {
            assert_eq!(of(&mut DecimalScale::default(), &[1.0, value]), None, "{value}");
        }
        let mut scale = DecimalScale::default();
        assert_eq!(of(&mut scale, &[0.1 + 0.2]), None);
        assert_eq!(of(&mut scale, &[f64::MAX]), None);
        assert_eq!(of(&mut scale, &[1.0]), None, "no longer tried");
    }

    #[test]
    fn every_number_of_cents_is_one_float_and_the_other_way_round() {
        let values: Vec<f64> = (-200_000..200_000).map(|cents| f64::from(cents) / 100.0).collect();
        let expected: Vec<i64> = (-200_000..200_000).collect();
        assert_eq!(of(&mut DecimalScale::default(), &values), Some(expected.clone()));
        // Those of float32, as they stand and widened.
        let narrow: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let widened: Vec<f64> = narrow.iter().map(|value| f64::from(*value)).collect();
        let found = DecimalScale::default().multiples(&widened, |quotient, value| quotient as f32 == value as f32);
        assert_eq!(found, Some(expected));
    }
}
