//! Total orders of numbers, and the least and greatest values by them.

use crate::vector::vectorized;

/// Floats from which on a second way to their least and greatest pays.
const PLAIN_ROWS_MIN: usize = 32;

/// Extremes that are found side by side.
const LANES: usize = 16;

/// A value with a total order, in which its least and greatest are taken.
pub(crate) trait TotalOrder: Copy {
    /// An integer with the same order.
    type Key: Ord + Copy + Into<i128>;
    fn key(self) -> Self::Key;
    fn from_key(key: Self::Key) -> Self;

    /// The least or the greatest where the processor's own comparison finds it, which for floats is faster than by keys.
    fn plain_extreme(_values: &[Self], _greatest: bool) -> Option<Self> {
        None
    }
}

macro_rules! integers {
    ($($native:ty),*) => {$(
        impl TotalOrder for $native {
            type Key = $native;
            #[inline(always)]
            fn key(self) -> $native {
                self
            }
            #[inline(always)]
            fn from_key(key: $native) -> $native {
                key
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

// The bits of a float as a signed integer, those of negative floats inverted but for the sign: ordered as IEEE 754 orders.
macro_rules! floats {
    ($($native:ty, $bits:ty, $shift:expr);*) => {$(
        impl TotalOrder for $native {
            type Key = $bits;
            #[inline(always)]
            fn key(self) -> $bits {
                // All NaN are one value, above infinity, whatever their sign.
                let value = if self.is_nan() { <$native>::NAN } else { self };
                let bits = value.to_bits().cast_signed();
                bits ^ (((bits >> $shift).cast_unsigned()) >> 1).cast_signed()
            }
            #[inline(always)]
            fn from_key(key: $bits) -> $native {
                let bits = key ^ (((key >> $shift).cast_unsigned()) >> 1).cast_signed();
                <$native>::from_bits(bits.cast_unsigned())
            }

            // NaN has a place in the total order but not in the processor's, and there zeros have two: neither is decided here.
            #[inline(always)]
            fn plain_extreme(values: &[$native], greatest: bool) -> Option<$native> {
                #[inline(always)]
                fn found(values: &[$native], pick: impl Fn($native, $native) -> $native) -> Option<$native> {
                    let start = *values.first()?;
                    let (mut lanes, mut differences) = ([start; 8], [0.0; 8]);
                    let chunks = values.chunks_exact(8);
                    let rest = chunks.remainder();
                    for chunk in chunks {
                        for ((lane, difference), value) in lanes.iter_mut().zip(&mut differences).zip(chunk) {
                            *lane = pick(*value, *lane);
                            *difference += value - value;
                        }
                    }
                    let found = lanes.iter().chain(rest).fold(start, |found, value| pick(*value, found));
                    let is_finite = differences.iter().chain(rest).all(|value| value.is_finite());
                    (is_finite && found != 0.0).then_some(found)
                }
                if values.len() < PLAIN_ROWS_MIN {
                    return None;
                }
                if greatest {
                    found(values, |one, other| if one > other { one } else { other })
                } else {
                    found(values, |one, other| if one < other { one } else { other })
                }
            }
        }
    )*};
}

floats!(f64, i64, 63; f32, i32, 31);

/// The least or the greatest of some values; `None` of nothing.
pub(crate) fn extreme<T: TotalOrder>(values: &[T], greatest: bool) -> Option<T> {
    vectorized(
        #[inline(always)]
        || {
            if let Some(value) = T::plain_extreme(values, greatest) {
                return Some(value);
            }
            let key = if greatest { picked(values, T::Key::max)? } else { picked(values, T::Key::min)? };
            Some(T::from_key(key))
        },
    )
}

#[inline(always)]
fn picked<T: TotalOrder>(values: &[T], pick: impl Fn(T::Key, T::Key) -> T::Key) -> Option<T::Key> {
    let start = values.first()?.key();
    // Lanes that don't wait for each other.
    let mut lanes = [start; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = pick(*lane, value.key());
        }
    }
    Some(rest.iter().map(|value| value.key()).chain(lanes).fold(start, pick))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_follow_total_order() {
        let values = [0.0, -0.0, f64::NAN, f64::NEG_INFINITY, 3.5];
        assert!(extreme(&values, true).is_some_and(f64::is_nan));
        assert_eq!(extreme(&values, false), Some(f64::NEG_INFINITY));
        assert!(extreme(&[0.0, -0.0], false).is_some_and(f64::is_sign_negative));
        assert_eq!(extreme::<i64>(&[], true), None);
        assert_eq!(extreme(&[3i8, -7, 5], false), Some(-7));
        for rows in 30..50 {
            let values: Vec<f64> = (0..rows).map(|row| f64::from(row * 7 % 31) - 11.5).collect();
            assert_eq!(extreme(&values, true), values.iter().copied().reduce(f64::max));
            assert_eq!(extreme(&values, false), values.iter().copied().reduce(f64::min));
            for place in 0..values.len() {
                let mut odd = values.clone();
                odd[place] = -f64::NAN;
                assert!(extreme(&odd, true).is_some_and(f64::is_nan), "row {place} of {rows}");
                assert!(extreme(&odd, false).is_some_and(f64::is_finite), "row {place} of {rows}");
                odd.iter_mut().for_each(|value| *value = 0.0);
                odd[place] = -0.0;
                assert!(extreme(&odd, false).is_some_and(f64::is_sign_negative));
                assert!(extreme(&odd, true).is_some_and(f64::is_sign_positive));
                odd[place] = f64::INFINITY;
                assert_eq!(extreme(&odd, true), Some(f64::INFINITY));
            }
        }
    }
}
