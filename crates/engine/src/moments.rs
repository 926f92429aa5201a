//! Means and sums of squared distances from them, of one column and of two together.
//!
//! Two parts are joined by the formulas of Chan, Golub and LeVeque (1979), so values far from zero don't cancel.

use crate::sums;

/// Count, mean and sum of squared distances from it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// The moments of a single value.
    pub fn one(value: f64) -> Moments {
        // The distance of an infinity from itself is no number, nor is that of NaN.
        Moments { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    /// The variance or its root; `None` of too few values.
    pub fn spread(&self, sample: bool, root: bool) -> Option<f64> {
        let least = if sample { 2.0 } else { 1.0 };
        (self.count >= least).then(|| {
            let variance = self.squares / (self.count - if sample { 1.0 } else { 0.0 });
            if root { variance.sqrt() } else { variance }
        })
    }

    /// How many values.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Their mean; zero of none.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The sum of their squared distances from the mean.
    pub fn squares(&self) -> f64 {
        self.squares
    }

    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
    }

    pub(crate) fn of(values: &[f64]) -> Moments {
        let count = values.len() as f64;
        let mean = sums::sum(values) / count;
        Moments { count, mean, squares: sums::squares(values, mean) }
    }

    /// Joins those of other values.
    #[inline]
    pub fn join(&mut self, other: Moments) {
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            *self = other;
            return;
        }
        let count = self.count + other.count;
        let distance = other.mean - self.mean;
        self.squares += other.squares + distance * distance * self.count * other.count / count;
        self.mean += distance * other.count / count;
        self.count = count;
    }
}

/// Moments of two columns together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pair {
    left: Moments,
    right: Moments,
    products: f64,
}

impl Pair {
    /// That of one row.
    pub fn one(left: f64, right: f64) -> Pair {
        let (left, right) = (Moments::one(left), Moments::one(right));
        Pair { left, right, products: left.squares + right.squares }
    }

    /// The moments of the left column.
    pub fn left(&self) -> &Moments {
        &self.left
    }

    /// The moments of the right column.
    pub fn right(&self) -> &Moments {
        &self.right
    }

    /// The sum of the products of their distances from the means.
    pub fn products(&self) -> f64 {
        self.products
    }

    /// What it is made of: rows, mean and squares of the left column, mean and squares of the right one, products.
    pub fn numbers(&self) -> [f64; 6] {
        let Pair { left, right, products } = self;
        [left.count, left.mean, left.squares, right.mean, right.squares, *products]
    }

    /// That of [`Pair::numbers`].
    pub fn of_numbers([count, left_mean, left_squares, right_mean, right_squares, products]: [f64; 6]) -> Pair {
        let left = Moments { count, mean: left_mean, squares: left_squares };
        Pair { left, right: Moments { count, mean: right_mean, squares: right_squares }, products }
    }

    /// The covariance; `None` of too few pairs.
    pub fn covariance(&self, sample: bool) -> Option<f64> {
        let least = if sample { 2.0 } else { 1.0 };
        (self.left.count >= least).then(|| self.products / (self.left.count - if sample { 1.0 } else { 0.0 }))
    }

    #[inline]
    pub(crate) fn add(&mut self, left: f64, right: f64) {
        let distance = left - self.left.mean;
        self.left.add(left);
        self.right.add(right);
        self.products += distance * (right - self.right.mean);
    }

    pub(crate) fn of(left: &[f64], right: &[f64]) -> Pair {
        let (of_left, of_right) = (Moments::of(left), Moments::of(right));
        let products = sums::products(left, of_left.mean, right, of_right.mean);
        Pair { left: of_left, right: of_right, products }
    }

    /// Joins that of other rows.
    #[inline]
    pub fn join(&mut self, other: Pair) {
        if other.left.count == 0.0 {
            return;
        }
        if self.left.count > 0.0 {
            let count = self.left.count + other.left.count;
            let distances = (other.left.mean - self.left.mean) * (other.right.mean - self.right.mean);
            self.products += distances * self.left.count * other.left.count / count;
        }
        self.products += other.products;
        self.left.join(other.left);
        self.right.join(other.right);
    }

    /// `None` of fewer than two pairs, or where a column doesn't vary.
    pub fn correlation(&self) -> Option<f64> {
        if self.left.count < 2.0 {
            return None;
        }
        let spread = self.left.squares.sqrt() * self.right.squares.sqrt();
        (spread != 0.0).then(|| self.products / spread)
    }
}
