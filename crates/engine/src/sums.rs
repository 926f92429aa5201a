//! Loops over plain slices, written so that the compiler makes vector instructions of them.

use crate::vector::vectorized;

/// Sum in eight lanes: adding in one lane would wait for each addition.
pub(crate) fn sum(values: &[f64]) -> f64 {
    vectorized(
        #[inline(always)]
        || {
            let mut lanes = [0.0f64; 8];
            let chunks = values.chunks_exact(8);
            let rest = chunks.remainder();
            for chunk in chunks {
                for (lane, value) in lanes.iter_mut().zip(chunk) {
                    *lane += value;
                }
            }
            fold(lanes) + rest.iter().sum::<f64>()
        },
    )
}

/// Sum of products.
pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    vectorized(
        #[inline(always)]
        || {
            let mut lanes = [0.0f64; 8];
            let (lefts, rights) = (left.chunks_exact(8), right.chunks_exact(8));
            let rest: f64 = lefts.remainder().iter().zip(rights.remainder()).map(|(l, r)| l * r).sum();
            for (l, r) in lefts.zip(rights) {
                for ((lane, l), r) in lanes.iter_mut().zip(l).zip(r) {
                    *lane += l * r;
                }
            }
            fold(lanes) + rest
        },
    )
}

/// Sum of squared distances from `center`.
pub(crate) fn squares(values: &[f64], center: f64) -> f64 {
    vectorized(
        #[inline(always)]
        || {
            let mut lanes = [0.0f64; 8];
            let chunks = values.chunks_exact(8);
            let rest: f64 = chunks.remainder().iter().map(|value| (value - center) * (value - center)).sum();
            for chunk in chunks {
                for (lane, value) in lanes.iter_mut().zip(chunk) {
                    *lane += (value - center) * (value - center);
                }
            }
            fold(lanes) + rest
        },
    )
}

/// Sum of the products of distances from two centers.
pub(crate) fn products(left: &[f64], left_center: f64, right: &[f64], right_center: f64) -> f64 {
    vectorized(
        #[inline(always)]
        || {
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
        },
    )
}

#[inline(always)]
fn fold(lanes: [f64; 8]) -> f64 {
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
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
}
