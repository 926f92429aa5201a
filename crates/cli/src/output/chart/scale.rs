//! The axis of values: which there are, where they stand and how they are written.

use crate::size::Thousands;

/// Rows between two labels, about.
const ROWS_OF_LABEL: usize = 4;

/// Digits behind the point up to which numbers are written in full.
const DECIMALS_MAX: usize = 9;

/// Numbers from which on they are written with an exponent.
const PLAIN_MAX: f64 = 1e15;

/// From the lowest to the highest value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub min: f64,
    pub max: f64,
}

impl Scale {
    /// The scale of some finite values; `None` if there is none. One value alone stands in the middle.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Scale> {
        let mut scale: Option<Scale> = None;
        for value in values {
            scale = Some(match scale {
                None => Scale { min: value, max: value },
                Some(Scale { min, max }) => Scale { min: min.min(value), max: max.max(value) },
            });
        }
        let Scale { min, max } = scale?;
        if min < max {
            return scale;
        }
        let room = if min == 0.0 { 1.0 } else { min.abs() / 100.0 };
        Some(Scale { min: (min - room).max(f64::MIN), max: (max + room).min(f64::MAX) })
    }

    /// Half of the length, which is a number even where the whole isn't.
    fn half(&self) -> f64 {
        self.max / 2.0 - self.min / 2.0
    }

    /// Where a value stands: 0 at the lowest, 1 at the highest.
    pub fn place(&self, value: f64) -> f64 {
        ((value / 2.0 - self.min / 2.0) / self.half()).clamp(0.0, 1.0)
    }

    /// The one of `count` places, from the lowest up, in which a value stands.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place of a few hundred"
    )]
    pub fn step(&self, value: f64, count: usize) -> usize {
        (self.place(value) * count.saturating_sub(1) as f64).round() as usize
    }

    /// Round values with their labels, as many as `rows` rows have room for.
    #[expect(clippy::cast_precision_loss, reason = "a number of rows")]
    pub fn labels(&self, rows: usize) -> Vec<(f64, String)> {
        let count = (rows / ROWS_OF_LABEL).max(2);
        let step = round_step(self.half() / count as f64 * 2.0);
        let first = (self.min / step).ceil();
        let values: Vec<f64> = (0..=2 * count)
            .map(|number| (first + number as f64) * step)
            .take_while(|value| *value <= self.max)
            .collect();
        if values.len() >= 2 && values.windows(2).all(|pair| pair[0] < pair[1]) {
            return values.into_iter().map(|value| (value, written(value, step))).collect();
        }
        // So few numbers lie between the ends that none is round: the ends are labelled.
        [self.min, self.max].into_iter().map(|value| (value, written(value, self.half()))).collect()
    }
}

/// The 1, 2 or 5 times a power of ten that is nearest.
pub fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let times = match step / power {
        ..1.5 => 1.0,
        1.5..3.0 => 2.0,
        3.0..7.0 => 5.0,
        _ => 10.0,
    };
    times * power
}

/// A number with as many digits as tell it from one that is a step away.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be small")]
pub fn written(value: f64, step: f64) -> String {
    // A power of ten may come out a little below itself.
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0);
    if value.abs() >= PLAIN_MAX || decimals > DECIMALS_MAX as f64 {
        return format!("{value:.3e}");
    }
    let text = format!("{:.*}", decimals as usize, value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), |whole| Thousands(whole).to_string());
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if value < 0.0 && !is_zero { "-" } else { "" };
    format!("{sign}{whole}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(min: f64, max: f64, rows: usize) -> Vec<String> {
        Scale { min, max }.labels(rows).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn labels_are_round_and_tell_each_other_apart() {
        assert_eq!(labels(161.2, 164.9, 16), ["162", "163", "164"]);
        assert_eq!(labels(0.0101, 0.0149, 12), ["0.012", "0.014"]);
        assert_eq!(labels(-1_500_000.0, 1_500_000.0, 12), ["-1,000,000", "0", "1,000,000"]);
        assert_eq!(labels(-0.4, 0.4, 8), ["-0.4", "0.4"]);
        assert_eq!(labels(0.0, 1e-12, 8), ["0.000e0", "5.000e-13", "1.000e-12"]);
    }

    #[test]
    fn one_value_stands_in_the_middle_and_the_largest_have_a_place() {
        for value in [0.0, 5.0, -5.0, 1e-300, f64::MAX, f64::MIN] {
            let scale = Scale::of([value].into_iter()).unwrap();
            assert!(scale.min < scale.max && scale.min.is_finite() && scale.max.is_finite(), "{value}: {scale:?}");
            assert!((0.0..=1.0).contains(&scale.place(value)));
            assert!(scale.labels(10).len() >= 2, "{value}: {scale:?}");
        }
        let all = Scale { min: f64::MIN, max: f64::MAX };
        assert_eq!((all.place(0.0), all.step(f64::MAX, 21), all.step(f64::MIN, 21)), (0.5, 20, 0));
        assert!(all.labels(20).len() >= 2);
        assert_eq!(Scale::of([].into_iter()), None);
    }
}
