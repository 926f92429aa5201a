//! The kernels against a loop over each window, over nulls, NaN, infinities and every relation of `n` to the rows.

#![expect(clippy::unwrap_used, reason = "a test may stop at an error")]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, StringArray};
use arrow::datatypes::Float64Type;
use proptest::prelude::*;

use super::*;

fn column() -> impl Strategy<Value = Vec<Option<f64>>> {
    let value = prop_oneof![
        6 => (-800..800_i32).prop_map(|x| Some(f64::from(x) / 8.0)),
        2 => Just(None),
        1 => prop::sample::select(vec![Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(1e300)]),
    ];
    prop::collection::vec(value, 0..60)
}

/// The values of the last `n` rows of `row`.
fn window(x: &[Option<f64>], row: usize, n: usize) -> Vec<f64> {
    x[(row + 1).saturating_sub(n)..=row].iter().flatten().copied().collect()
}

fn is_close(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => {
            one == other || (one.is_nan() && other.is_nan()) || (one - other).abs() <= 1e-9 * one.abs().max(1.0)
        }
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn check(actual: &Float64Array, x: &[Option<f64>], n: usize, naive: impl Fn(&[f64]) -> Option<f64>) {
    assert_eq!(actual.len(), x.len());
    for (row, actual) in actual.iter().enumerate() {
        let expected = if n == 0 { naive(&[]) } else { naive(&window(x, row, n)) };
        assert!(is_close(actual, expected), "n {n}, row {row} of {x:?}: {actual:?}, not {expected:?}");
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    mean_of_squares(values, mean).map(f64::sqrt)
}

fn mean_of_squares(values: &[f64], mean: f64) -> Option<f64> {
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some(squares / values.len() as f64)
}

fn extreme(values: &[f64], kind: Extreme) -> Option<f64> {
    let pick = |a: &f64, b: &f64| a.total_cmp(b);
    match kind {
        Extreme::Greatest => values.iter().copied().max_by(pick),
        Extreme::Least => values.iter().copied().min_by(pick),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn moving_kernels_equal_a_loop_over_each_window(x in column(), n in 0_usize..70) {
        let array: Float64Array = x.iter().copied().collect();
        check(&moving_sum(&array, n), &x, n, |values| Some(values.iter().sum()));
        check(&moving_average(&array, n), &x, n, mean);
        let tame: Vec<Option<f64>> = x.iter().map(|x| x.filter(|x| x.abs() < 1e6)).collect();
        check(&moving_deviation(&tame.iter().copied().collect(), n), &tame, n, deviation);
        let column: ArrayRef = Arc::new(array.clone());
        for kind in [Extreme::Greatest, Extreme::Least] {
            let actual = moving_extreme(&column, n, kind).unwrap();
            check(actual.as_primitive::<Float64Type>(), &x, n, |values| extreme(values, kind));
        }
        let counts = moving_count(array.len(), |row| array.is_valid(row), n);
        for (row, count) in counts.values().iter().enumerate() {
            let expected = if n == 0 { 0 } else { window(&x, row, n).len() };
            prop_assert_eq!(usize::try_from(*count).unwrap(), expected);
        }
    }

    #[test]
    fn running_kernels_equal_a_loop_over_all_rows_before(x in column()) {
        let array: Float64Array = x.iter().copied().collect();
        let all = x.len().max(1);
        check(&running_sum(&array), &x, all, |values| Some(values.iter().sum()));
        check(&running_average(&array), &x, all, mean);
        check(&running_product(&array), &x, all, |values| Some(values.iter().product()));
        let column: ArrayRef = Arc::new(array);
        let actual = running_extreme(&column, Extreme::Least).unwrap();
        check(actual.as_primitive::<Float64Type>(), &x, all, |values| extreme(values, Extreme::Least));
    }

    #[test]
    fn whole_sums_are_exact(x in prop::collection::vec(prop::option::of(any::<i32>()), 0..60), n in 0_usize..70) {
        let array: Int64Array = x.iter().map(|x| x.map(i64::from)).collect();
        let moving = moving_sum_exact(&array, n).unwrap();
        let running = running_sum_exact(&array).unwrap();
        for row in 0..x.len() {
            let from = if n == 0 { row + 1 } else { (row + 1).saturating_sub(n) };
            prop_assert_eq!(moving.value(row), x[from..=row].iter().flatten().map(|x| i64::from(*x)).sum::<i64>());
            prop_assert_eq!(running.value(row), x[..=row].iter().flatten().map(|x| i64::from(*x)).sum::<i64>());
        }
    }
}

#[test]
fn a_moving_sum_does_not_drift() {
    // Between two huge values all sums of small ones are those of the small ones alone.
    let x: Float64Array = (0..1000).map(|row| Some(if row % 10 == 0 { 1e17 } else { 0.1 })).collect();
    let sums = moving_sum(&x, 3);
    for row in (2..1000).filter(|row| (row % 10) >= 3) {
        assert!((sums.value(row) - 0.3).abs() < 1e-15, "row {row}: {}", sums.value(row));
    }
}

#[test]
fn a_running_sum_keeps_what_rounding_would_lose() {
    let x: Float64Array = [1.0, 1e100, 1.0, -1e100].into_iter().map(Some).collect();
    assert_eq!(running_sum(&x).value(3), 2.0);
    let x: Float64Array = [1.0, f64::INFINITY, 1.0].into_iter().map(Some).collect();
    assert_eq!(running_sum(&x).values()[..], [1.0, f64::INFINITY, f64::INFINITY]);
}

#[test]
fn a_deviation_of_large_close_prices_is_not_lost() {
    let x: Float64Array = [1e9, 1e9 + 1.0, 1e9 + 2.0].into_iter().map(Some).collect();
    assert!((moving_deviation(&x, 3).value(2) - (2.0_f64 / 3.0).sqrt()).abs() < 1e-12);
}

#[test]
fn sums_that_do_not_fit_are_no_answer() {
    let x = Int64Array::from(vec![i64::MAX, 1]);
    assert!(moving_sum_exact(&x, 2).is_none() && running_sum_exact(&x).is_none());
    assert!(moving_sum_exact(&x, 1).is_some());
    let x = Decimal128Array::from(vec![i128::MAX, 1]);
    assert!(moving_sum_exact(&x, 2).is_none() && running_sum_exact(&x).is_none());
}

#[test]
fn extremes_of_text() {
    let x: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("c")]));
    let actual = moving_extreme(&x, 2, Extreme::Greatest).unwrap();
    let actual: Vec<Option<&str>> = actual.as_string::<i32>().iter().collect();
    assert_eq!(actual, [Some("b"), Some("b"), Some("a"), Some("c")]);
}

#[test]
fn a_null_leaves_smoothing_as_it_is() {
    let x: Float64Array = [None, Some(10.0), None, Some(20.0)].into_iter().collect();
    let halves: Float64Array = [Some(0.5); 4].into_iter().collect();
    assert_eq!(exponential(&x, &halves), [None, Some(10.0), None, Some(15.0)].into_iter().collect());
    let x: Float64Array = [Some(1.0), None, Some(3.0), Some(5.0)].into_iter().collect();
    assert_eq!(wilder(&x, 2), [None, None, Some(2.0), Some(3.5)].into_iter().collect());
}
