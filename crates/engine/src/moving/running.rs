//! Sums, products and averages of all rows up to each.

use arrow::array::{ArrowPrimitiveType, Float64Array, PrimitiveArray};
use arrow::datatypes::DataType;

/// A sum that compensates rounding errors.
///
/// Source: A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974.
#[derive(Debug, Clone, Copy, Default)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        self.lost += if self.sum.abs() >= x.abs() { (self.sum - sum) + x } else { (x - sum) + self.sum };
        self.sum = sum;
    }

    fn value(self) -> f64 {
        // Once a sum is infinite or NaN, so is its compensation.
        if self.lost.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// The sum of all rows up to each; a null adds nothing, so the sum before the first value is 0.
#[must_use]
pub fn running_sum(x: &Float64Array) -> Float64Array {
    let mut sum = CompensatedSum::default();
    let sums = x.iter().map(|x| {
        if let Some(x) = x {
            sum.add(x);
        }
        sum.value()
    });
    sums.collect::<Vec<f64>>().into()
}

/// The exact sum of all rows up to each, of whole numbers or decimals; a null adds nothing.
///
/// `None` if one of the sums doesn't fit the type.
#[must_use]
pub fn running_sum_exact<T: ArrowPrimitiveType>(x: &PrimitiveArray<T>) -> Option<PrimitiveArray<T>>
where
    T::Native: Into<i128> + TryFrom<i128>,
{
    let data_type: &DataType = arrow::array::Array::data_type(x);
    let mut sum = 0_i128;
    let sums = x.iter().map(|x| {
        sum = sum.checked_add(x.map_or(0, Into::into))?;
        T::Native::try_from(sum).ok()
    });
    let sums: Vec<T::Native> = sums.collect::<Option<_>>()?;
    Some(PrimitiveArray::new(sums.into(), None).with_data_type(data_type.clone()))
}

/// The product of all rows up to each; a null changes nothing, so the product before the first value is 1.
#[must_use]
pub fn running_product(x: &Float64Array) -> Float64Array {
    let mut product = 1.0;
    let products = x.iter().map(|x| {
        product *= x.unwrap_or(1.0);
        product
    });
    products.collect::<Vec<f64>>().into()
}

/// The average of the values up to each row, null before the first.
#[must_use]
pub fn running_average(x: &Float64Array) -> Float64Array {
    let mut sum = CompensatedSum::default();
    let mut count = 0.0;
    let averages = x.iter().map(|x| {
        if let Some(x) = x {
            sum.add(x);
            count += 1.0;
        }
        (count > 0.0).then(|| sum.value() / count)
    });
    averages.collect()
}
