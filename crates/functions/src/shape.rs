//! The shape of a distribution: skewness, kurtosis, entropy; products and geometric means.
//!
//! Moments are taken around the mean, in two passes. With a NaN or an infinity among the values skewness and kurtosis are NaN, as the variances are.
//!
//! Source: duckdb.org/docs/stable/sql/functions/aggregates. `skewness` and `kurtosis` are those of a sample (G1 and G2 of Joanes and Gill, 1998),
//! and null where values don't differ.

/// A function of all values, which are numbers. There is at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ShapeStatistic {
    Skewness,
    Kurtosis,
    KurtosisPop,
    Product,
    GeometricMean,
}

impl ShapeStatistic {
    pub(super) fn name(self) -> &'static str {
        match self {
            ShapeStatistic::Skewness => "skewness",
            ShapeStatistic::Kurtosis => "kurtosis",
            ShapeStatistic::KurtosisPop => "kurtosis_pop",
            ShapeStatistic::Product => "product",
            ShapeStatistic::GeometricMean => "geomean",
        }
    }

    pub(super) fn of(self, values: &[f64]) -> Option<f64> {
        let n = values.len() as f64;
        match self {
            ShapeStatistic::Product => Some(values.iter().product()),
            ShapeStatistic::GeometricMean => Some((values.iter().map(|value| value.ln()).sum::<f64>() / n).exp()),
            ShapeStatistic::Skewness => {
                let [second, third, _] = moments(values);
                let bias = (n * (n - 1.0)).sqrt() / (n - 2.0);
                (values.len() > 2 && differs(second)).then(|| bias * third / second.powf(1.5))
            }
            ShapeStatistic::KurtosisPop => {
                let [second, _, fourth] = moments(values);
                (values.len() > 1 && differs(second)).then(|| fourth / (second * second) - 3.0)
            }
            ShapeStatistic::Kurtosis => {
                let [second, _, fourth] = moments(values);
                let inner = (n + 1.0) * fourth / (second * second) - 3.0 * (n - 1.0);
                (values.len() > 3 && differs(second)).then(|| (n - 1.0) * inner / ((n - 2.0) * (n - 3.0)))
            }
        }
    }
}

/// Whether a second moment is one of values that aren't all the same. NaN is.
fn differs(second: f64) -> bool {
    second.is_nan() || second > 0.0
}

/// The second, third and fourth moment around the mean.
fn moments(values: &[f64]) -> [f64; 3] {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let mut sums = [0.0; 3];
    for value in values {
        let distance = value - mean;
        let square = distance * distance;
        sums[0] += square;
        sums[1] += square * distance;
        sums[2] += square * square;
    }
    sums.map(|sum| sum / n)
}

/// The entropy in bits of values that are there so often.
pub(super) fn entropy(counts: impl Iterator<Item = u64> + Clone) -> f64 {
    let all = counts.clone().sum::<u64>() as f64;
    let part = |count: u64| count as f64 / all;
    // Without the sign of a zero.
    counts.map(part).map(|part| -part * part.log2()).sum::<f64>() + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_the_same_have_no_shape() {
        for shape in [ShapeStatistic::Skewness, ShapeStatistic::Kurtosis, ShapeStatistic::KurtosisPop] {
            assert_eq!(shape.of(&[1.5; 5]), None);
            assert_eq!(shape.of(&[1.5]), None);
        }
        assert!(ShapeStatistic::Kurtosis.of(&[1.0, 2.0, f64::NAN, 3.0]).is_some_and(f64::is_nan));
        assert!((entropy([2, 2].into_iter()) - 1.0).abs() < 1e-12);
    }
}
