//! Applies operations to two values, by Arrow's kernels or by faster ones of our own.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum};
use arrow::compute::kernels::{boolean, cmp, numeric};
use arrow::compute::prep_null_mask_filter;

use crate::binary_op::BinaryOp;
use crate::error::{Error, Result};
use crate::shift::shifted;
use crate::value::Value;
use crate::{arithmetic, compare};

type ComparisonKernel = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, arrow::error::ArrowError>;

impl BinaryOp {
    pub(crate) fn apply(self, left: &Value, right: &Value) -> Result<Value> {
        if let (BinaryOp::Add | BinaryOp::Subtract, Some(moved)) =
            (self, shifted(left, right, self == BinaryOp::Subtract))
        {
            return Ok(moved);
        }
        let both_scalar = matches!((left, right), (Value::Scalar(_), Value::Scalar(_)));
        let result = match self.comparison() {
            Some(comparison) => match compare::numbers(self, left, right) {
                Some(compared) => compared,
                None => Arc::new(left.with_datum(|l| right.with_datum(|r| comparison(l, r)))?),
            },
            None => {
                match arithmetic::whole_numbers(self, left, right).or_else(|| arithmetic::decimals(self, left, right)) {
                    Some(computed) => computed,
                    None => left.with_datum(|l| right.with_datum(|r| self.kernel(l, r, left, right)))?,
                }
            }
        };
        Ok(if both_scalar { Value::Scalar(result) } else { Value::Array(result) })
    }

    fn comparison(self) -> Option<ComparisonKernel> {
        Some(match self {
            BinaryOp::Equal => cmp::eq,
            BinaryOp::NotEqual => cmp::neq,
            BinaryOp::Less => cmp::lt,
            BinaryOp::LessOrEqual => cmp::lt_eq,
            BinaryOp::Greater => cmp::gt,
            BinaryOp::GreaterOrEqual => cmp::gt_eq,
            _ => return None,
        })
    }

    fn kernel(self, l: &dyn Datum, r: &dyn Datum, left: &Value, right: &Value) -> Result<ArrayRef> {
        match self {
            BinaryOp::Add => Ok(numeric::add(l, r)?),
            BinaryOp::Subtract => Ok(numeric::sub(l, r)?),
            BinaryOp::Multiply => Ok(numeric::mul(l, r)?),
            BinaryOp::Divide => Ok(numeric::div(l, r)?),
            BinaryOp::Remainder => Ok(numeric::rem(l, r)?),
            op => logical(op, left, right),
        }
    }
}

/// The rows for which a condition is true; null isn't true.
pub(crate) fn holds(condition: &ArrayRef) -> Result<BooleanArray> {
    let Some(mask) = condition.as_boolean_opt() else {
        return Err(Error::Unsupported(format!("a condition of type {}", condition.data_type())));
    };
    Ok(if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() })
}

/// Logical operations, for which Arrow has no scalars.
fn logical(op: BinaryOp, left: &Value, right: &Value) -> Result<ArrayRef> {
    let rows = match (left, right) {
        (Value::Array(array), _) | (_, Value::Array(array)) => array.len(),
        _ => 1,
    };
    let (left, right) = (left.clone().into_array(rows)?, right.clone().into_array(rows)?);
    let (Some(left), Some(right)) = (left.as_boolean_opt(), right.as_boolean_opt()) else {
        return Err(Error::Unsupported("a logical operation on values that aren't true or false".to_owned()));
    };
    Ok(Arc::new(match op {
        BinaryOp::And => boolean::and_kleene(left, right)?,
        _ => boolean::or_kleene(left, right)?,
    }))
}
