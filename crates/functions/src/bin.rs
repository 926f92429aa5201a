//! `bin(bounds, x)` and `binr(bounds, x)`: the place of a value among sorted bounds.
//!
//! - `bin`: position of the last bound at or below `x`, from 0; -1 if `x` is below all.
//! - `binr`: position of the first bound at or above `x`; the number of bounds if `x` is above all.
//! - Bounds are a list in ascending order without nulls, usually a constant such as `[0, 100, 1000]`; others are an error.
//! - Null in either argument gives null. NaN is above all numbers.
//!
//! A list of session bounds and a time of day give the session: see docs/guide/market-recipes.md.
//!
//! Source: code.kx.com/q/ref/bin. There positions count from 0 too, although lists of SQL count from 1.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::binary::comparison_coercion;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// `bin` or `binr`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Bin {
    name: &'static str,
    signature: Signature,
}

impl Bin {
    pub(super) fn last_at_or_below() -> Self {
        Self { name: "bin", signature: Signature::user_defined(Volatility::Immutable) }
    }

    pub(super) fn first_at_or_above() -> Self {
        Self { name: "binr", signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The place of row `row` of `x` among `bounds`.
    fn place(&self, bounds: &ArrayRef, x: &ArrayRef, row: usize) -> Result<i64> {
        let compare = make_comparator(bounds, x, SortOptions::default())?;
        Ok(self.place_by(bounds.len(), |bound| compare(bound, row)))
    }

    fn place_by(&self, bounds: usize, compare: impl Fn(usize) -> Ordering) -> i64 {
        // The number of bounds for which the rule holds; they come first, as bounds ascend.
        let number = |holds: fn(Ordering) -> bool| {
            let (mut low, mut high) = (0, bounds);
            while low < high {
                let middle = low + (high - low) / 2;
                if holds(compare(middle)) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            i64::try_from(low).unwrap_or(i64::MAX)
        };
        match self.name {
            "bin" => number(Ordering::is_le) - 1,
            _ => number(Ordering::is_lt),
        }
    }
}

impl ScalarUDFImpl for Bin {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name;
        let (bounds, x) = match arg_types {
            [DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _), x] => {
                (item.data_type(), x)
            }
            _ => return plan_err!("{name} takes (list, x), as in {name}([0, 100, 1000], size)"),
        };
        let Some(both) = comparison_coercion(bounds, x) else {
            return plan_err!("{name} can't compare bounds of {bounds} with a {x}");
        };
        Ok(vec![DataType::List(Arc::new(Field::new_list_field(both.clone(), true))), both])
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [bounds, x] = args.args.as_slice() else { return exec_err!("{} takes (list, x)", self.name) };
        let all_constant = matches!((bounds, x), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if all_constant { 1 } else { args.number_rows };
        let x = x.to_array(rows)?;
        let nulls = x.logical_nulls();
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let places: Int64Array = match bounds {
            ColumnarValue::Scalar(list) => {
                if list.is_null() {
                    return Ok(ColumnarValue::Scalar(ScalarValue::Int64(None)));
                }
                let list = list.to_array_of_size(1)?;
                let bounds = list.as_list::<i32>().value(0);
                check(self.name, &bounds)?;
                let compare = make_comparator(&bounds, &x, SortOptions::default())?;
                (0..rows)
                    .map(|row| (!is_null(row)).then(|| self.place_by(bounds.len(), |bound| compare(bound, row))))
                    .collect()
            }
            ColumnarValue::Array(lists) => {
                let lists = lists.as_list::<i32>();
                let places = (0..rows).map(|row| {
                    if lists.is_null(row) || is_null(row) {
                        return Ok(None);
                    }
                    let bounds = lists.value(row);
                    check(self.name, &bounds)?;
                    self.place(&bounds, &x, row).map(Some)
                });
                places.collect::<Result<_>>()?
            }
        };
        if all_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&places, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(places)))
    }
}

/// Refuses bounds among which nothing has a place.
fn check(name: &str, bounds: &ArrayRef) -> Result<()> {
    if bounds.logical_null_count() > 0 {
        return exec_err!("the bounds of {name} must not be null");
    }
    let compare = make_comparator(bounds, bounds, SortOptions::default())?;
    if (1..bounds.len()).any(|bound| compare(bound - 1, bound).is_gt()) {
        return exec_err!("the bounds of {name} must ascend");
    }
    Ok(())
}
