//! Floats as the times of a join: each becomes a whole number, in the same order.
//!
//! Both zeros are one number, and NaN is the greatest and equal to itself, as everywhere. Distances between such numbers mean nothing.

use std::sync::{Arc, LazyLock};

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, utils::take_function_args};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    Arc::new(ScalarUDF::from(FloatOrder { signature }))
});

/// The place of a `Float64` among all of them.
pub(super) fn place_of(float: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![float]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatOrder {
    signature: Signature,
}

impl ScalarUDFImpl for FloatOrder {
    fn name(&self) -> &str {
        "__float_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [floats] = take_function_args(self.name(), args.args)?;
        let floats = floats.into_array(args.number_rows)?;
        let places = floats.as_primitive::<Float64Type>().unary::<_, Int64Type>(place);
        Ok(ColumnarValue::Array(Arc::new(places)))
    }
}

fn place(float: f64) -> i64 {
    let float = if float.is_nan() { f64::NAN.abs() } else { float + 0.0 };
    let bits = float.to_bits().cast_signed();
    // In a negative number all bits but the sign are flipped, because a larger magnitude is a lesser number.
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_floats() {
        let floats = [f64::NEG_INFINITY, -1e300, -1.5, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        assert!(floats.map(place).is_sorted_by(|one, other| one < other));
        assert_eq!(place(-0.0), place(0.0));
        assert_eq!(place(-f64::NAN), place(f64::NAN));
    }
}
