//! Loops over plain slices, written so that the compiler makes vector instructions of them.

/// Sum in eight lanes: adding in one lane would wait for each addition.
pub(crate) fn sum(values: &[f64]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    fold(lanes) + rest.iter().sum::<f64>()
}

/// Sum of products.
pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let (lefts, rights) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f64 = lefts.remainder().iter().zip(rights.remainder()).map(|(l, r)| l * r).sum();
    for (l, r) in lefts.zip(rights) {
        for ((lane, l), r) in lanes.iter_mut().zip(l).zip(r) {
            *lane += l * r;
        }
    }
    fold(lanes) + rest
}

/// Sum of squared distances from `center`.
pub(crate) fn squares(values: &[f64], center: f64) -> f64 {
    let mut lanes = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|value| (value - center) * (value - center)).sum();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += (value - center) * (value - center);
        }
    }
    fold(lanes) + rest
}

/// Sum of the products of distances from two centers.
pub(crate) fn products(left: &[f64], left_center: f64, right: &[f64], right_center: f64) -> f64 {
    let product = |l: &f64, r: &f64| (l - left_center) * (r - right_center);
    let mut lanes = [0.0f64; 8];
    let (lefts, rights) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f64 = lefts.remainder().iter().zip(rights.remainder()).map(|(l, r)| product(l, r)).sum();
    for (l, r) in lefts.zip(rights) {
        for ((lane, l), r) in lanes.iter_mut().zip(l).zip(r) {
            *lane += product(l, r);
        }
    }
    fold(lanes) + rest
}

fn fold(lanes: [f64; 8]) -> f64 {
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
}

/// A value with a total order, in which its least and greatest are taken.
pub(crate) trait Ordered: Copy {
    /// An integer with the same order.
    type Key: Ord + Copy;
    fn key(self) -> Self::Key;
    fn from_key(key: Self::Key) -> Self;
}

macro_rules! integers {
    ($($native:ty),*) => {$(
        impl Ordered for $native {
            type Key = $native;
            fn key(self) -> $native {
                self
            }
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
        impl Ordered for $native {
            type Key = $bits;
            fn key(self) -> $bits {
                let bits = self.to_bits().cast_signed();
                bits ^ (((bits >> $shift).cast_unsigned()) >> 1).cast_signed()
            }
            fn from_key(key: $bits) -> $native {
                let bits = key ^ (((key >> $shift).cast_unsigned()) >> 1).cast_signed();
                <$native>::from_bits(bits.cast_unsigned())
            }
        }
    )*};
}

floats!(f64, i64, 63; f32, i32, 31);

/// The least and the greatest of some values; `None` of nothing.
pub(crate) fn extreme<T: Ordered>(values: &[T], greatest: bool) -> Option<T> {
    let key = if greatest { picked(values, T::Key::max)? } else { picked(values, T::Key::min)? };
    Some(T::from_key(key))
}

fn picked<T: Ordered>(values: &[T], pick: impl Fn(T::Key, T::Key) -> T::Key) -> Option<T::Key> {
    let start = values.first()?.key();
    // Lanes that don't wait for each other.
    let mut lanes = [start; 4];
    let chunks = values.chunks_exact(4);
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
    fn sums_and_products_of_any_length() {
        for rows in 0..40u32 {
            let values: Vec<f64> = (0..rows).map(f64::from).collect();
            let expected = f64::from(rows) * (f64::from(rows) - 1.0) / 2.0;
            assert!((sum(&values) - expected.max(0.0)).abs() < 1e-9);
            let naive: f64 = values.iter().map(|value| value * value).sum();
            assert!((dot(&values, &values) - naive).abs() < 1e-6);
            assert!((squares(&values, 0.0) - naive).abs() < 1e-6);
        }
    }

    #[test]
    fn extremes_follow_total_order() {
        let values = [0.0, -0.0, f64::NAN, f64::NEG_INFINITY, 3.5];
        assert!(extreme(&values, true).is_some_and(f64::is_nan));
        assert_eq!(extreme(&values, false), Some(f64::NEG_INFINITY));
        assert!(extreme(&[0.0, -0.0], false).is_some_and(f64::is_sign_negative));
        assert_eq!(extreme::<i64>(&[], true), None);
        assert_eq!(extreme(&[3i8, -7, 5], false), Some(-7));
    }
}
