//! CASE: for each row the value of the first condition that holds.
//!
//! All branches are first computed for all rows, because kernels without a selection are faster than kernels with
//! one. Only if a branch fails, for example with a division by zero, is each branch computed again for the rows that
//! reach it, in the order of the conditions, as SQL requires.

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::codes;
use super::{Expr, InputColumns};
use crate::choose::choose;
use crate::error::Result;
use crate::filter_mask::FilterMask;
use crate::value::Value;

/// Conditions with their values, and the value if no condition holds: null if there is none.
pub(crate) struct CaseChoice<'a> {
    pub branches: &'a [(Expr, Expr)],
    pub otherwise: Option<&'a Expr>,
    pub data_type: &'a DataType,
}

impl CaseChoice<'_> {
    /// The values, each computed for all rows.
    pub fn of_all(&self, columns: &dyn InputColumns, constants: &[ArrayRef]) -> Result<Value> {
        let mut result = match self.otherwise {
            Some(expr) => expr.evaluate(columns, constants)?,
            None => self.null(),
        };
        for (condition, value) in self.branches.iter().rev() {
            let mask = codes::condition(condition, columns, constants)?;
            let value = value.evaluate(columns, constants)?;
            result = choose_values(&mask, &value, &result)?;
        }
        Ok(result)
    }

    /// The values; each is computed only for the rows that select it.
    pub fn lazily(&self, columns: &dyn InputColumns, constants: &[ArrayRef]) -> Result<Value> {
        let mut result = self.null();
        let mut open = BooleanArray::from(vec![true; columns.rows()]);
        for (condition, value) in self.branches {
            let rows = SomeRows::selected(columns, open.clone());
            let holds = codes::condition(condition, &rows, constants)?;
            let selected = spread(&open, &holds);
            result = compute_rows(&selected, value, &result, columns, constants)?;
            open = BooleanArray::new(open.values() & &!selected.values(), None);
        }
        match self.otherwise {
            Some(value) => compute_rows(&open, value, &result, columns, constants),
            None => Ok(result),
        }
    }

    fn null(&self) -> Value {
        Value::Scalar(new_null_array(self.data_type, 1))
    }
}

fn choose_values(mask: &BooleanArray, value: &Value, other: &Value) -> Result<Value> {
    Ok(Value::Array(value.with_datum(|value| other.with_datum(|other| choose(mask, value, other)))?))
}

/// The values of an expression in the rows of a mask, and `others` in all other rows.
fn compute_rows(
    selected: &BooleanArray,
    value: &Expr,
    others: &Value,
    columns: &dyn InputColumns,
    constants: &[ArrayRef],
) -> Result<Value> {
    if selected.true_count() == 0 {
        return Ok(others.clone());
    }
    let rows = SomeRows::selected(columns, selected.clone());
    let value = match value.evaluate(&rows, constants)? {
        Value::Array(array) => Value::Array(take(&array, &places(selected), None)?),
        one => one,
    };
    choose_values(selected, &value, others)
}

/// For each row of a mask its position among the set rows; null if it isn't set.
fn places(mask: &BooleanArray) -> UInt32Array {
    let mut next = 0u32..;
    mask.values().iter().map(|is_set| if is_set { next.next() } else { None }).collect()
}

/// Converts a mask over the rows of another mask to one over all rows.
pub(crate) fn spread(of: &BooleanArray, holds: &BooleanArray) -> BooleanArray {
    let mut all = BooleanBufferBuilder::new(of.len());
    all.append_n(of.len(), false);
    for (row, holds) in of.values().set_indices().zip(holds.values()) {
        if holds {
            all.set_bit(row, true);
        }
    }
    BooleanArray::new(all.finish(), None)
}

/// The rows that a mask keeps.
pub(crate) struct SomeRows<'a> {
    columns: &'a dyn InputColumns,
    mask: FilterMask,
    is_lazy: bool,
}

impl<'a> SomeRows<'a> {
    pub fn new(columns: &'a dyn InputColumns, mask: BooleanArray) -> SomeRows<'a> {
        let is_lazy = columns.is_lazy();
        SomeRows { columns, mask: FilterMask::new(mask), is_lazy }
    }

    /// Rows that select a value, or pass the conditions before. Choices nested within it compute only what these rows select: if each tried all rows
    /// first, the number of attempts would double with each level.
    pub fn selected(columns: &'a dyn InputColumns, mask: BooleanArray) -> SomeRows<'a> {
        SomeRows { is_lazy: true, ..SomeRows::new(columns, mask) }
    }
}

impl InputColumns for SomeRows<'_> {
    fn rows(&self) -> usize {
        self.mask.rows()
    }

    fn column(&self, position: usize) -> Result<Value> {
        Ok(match self.columns.column(position)? {
            Value::Array(array) => Value::Array(self.mask.filter(&array)?),
            one => one,
        })
    }

    fn may_be_coded(&self, position: usize) -> bool {
        self.columns.may_be_coded(position)
    }

    fn is_lazy(&self) -> bool {
        self.is_lazy
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::super::EvaluatedColumns;
    use super::*;
    use crate::binary_op::BinaryOp;
    use crate::error::Error;

    fn both(op: BinaryOp, left: usize, right: Expr) -> Expr {
        Expr::Binary(op, Box::new(Expr::Column(left)), Box::new(right))
    }

    #[test]
    fn what_no_condition_asks_for_is_not_refused() {
        let numbers = |values: Vec<Option<i64>>| Some(Value::Array(Arc::new(Int64Array::from(values)) as ArrayRef));
        let of = vec![Some(7), Some(8), None, Some(9), Some(3)];
        let by = vec![Some(2), Some(0), Some(1), None, Some(0)];
        let columns = EvaluatedColumns { columns: vec![numbers(of), numbers(by)], rows: 5 };
        let constants = [0, -1].map(|value| Arc::new(Int64Array::from(vec![value])) as ArrayRef);
        let case = |conditions: Vec<Expr>| Expr::Case {
            branches: conditions.into_iter().map(|one| (one, both(BinaryOp::Divide, 0, Expr::Column(1)))).collect(),
            otherwise: Some(Box::new(Expr::Constant(1))),
            data_type: DataType::Int64,
        };
        let is_safe = both(BinaryOp::NotEqual, 1, Expr::Constant(0));
        let chosen = case(vec![is_safe.clone(), is_safe]).evaluate(&columns, &constants).unwrap();
        let chosen: Vec<Option<i64>> = chosen.into_array(5).unwrap().as_primitive::<Int64Type>().iter().collect();
        assert_eq!(chosen, [Some(3), Some(-1), None, Some(-1), Some(-1)]);
        let is_zero = both(BinaryOp::Equal, 1, Expr::Constant(0));
        assert!(
            matches!(case(vec![is_zero]).evaluate(&columns, &constants), Err(Error::Arrow(_))),
            "what is asked for is"
        );
    }

    #[test]
    fn choices_within_choices_are_refused_soon() {
        let numbers = Some(Value::Array(Arc::new(Int64Array::from(vec![3, 0, 5])) as ArrayRef));
        let columns = EvaluatedColumns { columns: vec![numbers], rows: 3 };
        let constants = [Arc::new(Int64Array::from(vec![9])) as ArrayRef];
        let division = Expr::Binary(BinaryOp::Divide, Box::new(Expr::Constant(0)), Box::new(Expr::Column(0)));
        let choice = |inner: Expr| Expr::Case {
            branches: vec![(both(BinaryOp::Less, 0, Expr::Constant(0)), inner)],
            otherwise: None,
            data_type: DataType::Int64,
        };
        let within = (0..50).fold(division, |inner, _| choice(inner));
        assert!(matches!(within.evaluate(&columns, &constants), Err(Error::Arrow(_))));
    }
}
