//! Range conditions of equality joins: bounds on one column of the smaller side by values of the left.
//!
//! `q.time BETWEEN t.time - INTERVAL '1 second' AND t.time` is an example. The rows of a key are sorted by that
//! column, and a binary search finds those in range; this also works if `t` is the smaller side, because `q.time >=
//! t.time - x` means `t.time <= q.time + x`. The moved bound may overflow its type, so the condition is evaluated
//! again on the rows found, unless it consists of the range alone.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit};
use splay_store::in_form;

use crate::binary_op::BinaryOp;
use crate::error::Result;
use crate::expr::Expr;
use crate::frame::Frame;
use crate::natives::{natives, with_native};
use crate::total_order::TotalOrder;

/// A column of the smaller side with the comparisons that must all hold for it.
#[derive(Debug)]
pub(super) struct KeyRange {
    /// Position among the smaller side's columns.
    pub column: usize,
    /// How the column compares with a value of the left.
    comparisons: Vec<(BinaryOp, Expr)>,
    /// Whether the condition consists of these comparisons alone.
    is_all: bool,
}

/// Between which numbers a column lies for each left row.
#[derive(Debug, Default)]
pub(super) struct KeyBounds {
    /// The least and the greatest number; the least above the greatest where none passes.
    pub of_rows: Vec<(i128, i128)>,
    /// Whether every value within the bounds meets the condition, so that it needn't be evaluated.
    pub are_exact: bool,
}

impl KeyRange {
    /// The range of the smaller side's column to which the condition compares most often; `width` is the number of the
    /// left's columns.
    pub fn of(condition: &Expr, width: usize, constants: &[ArrayRef]) -> Option<KeyRange> {
        let (mut ranges, mut others) = (Vec::new(), 0);
        collect(condition, width, constants, &mut ranges, &mut others);
        let is_all = others == 0 && ranges.len() == 1;
        let range = ranges.into_iter().rev().max_by_key(|range| range.comparisons.len())?;
        Some(KeyRange { is_all, ..range })
    }

    /// Between which numbers the column, whose values are of a type, lies for each left row.
    pub fn bounds(&self, left: &Frame, of: &DataType, constants: &[ArrayRef]) -> Result<KeyBounds> {
        let mut bounds = vec![(i128::MIN, i128::MAX); left.len()];
        let mut are_exact = self.is_all;
        for (op, value) in &self.comparisons {
            // What can't be computed is no range: the condition itself is refused, or never gets to it.
            let value = value.evaluate(left, constants).and_then(|value| value.into_array(left.len())).ok();
            let alike = value.filter(|value| are_alike(value.data_type(), of));
            let Some(numbers) = alike.and_then(|value| numbers(&value)) else {
                are_exact = false;
                continue;
            };
            for ((least, greatest), number) in bounds.iter_mut().zip(numbers) {
                let Some(number) = number else {
                    (*least, *greatest) = (i128::MAX, i128::MIN);
                    continue;
                };
                match op {
                    BinaryOp::Greater => *least = (*least).max(number.saturating_add(1)),
                    BinaryOp::GreaterOrEqual | BinaryOp::Equal => *least = (*least).max(number),
                    _ => {}
                }
                match op {
                    BinaryOp::Less => *greatest = (*greatest).min(number.saturating_sub(1)),
                    BinaryOp::LessOrEqual | BinaryOp::Equal => *greatest = (*greatest).min(number),
                    _ => {}
                }
            }
        }
        Ok(KeyBounds { of_rows: bounds, are_exact })
    }
}

/// Adds the ranges that a condition implies to `ranges`, and counts in `others` the conditions that a range doesn't
/// express exactly. These include comparisons whose constant has moved to the other side: the moved bound may overflow.
fn collect(condition: &Expr, width: usize, constants: &[ArrayRef], ranges: &mut Vec<KeyRange>, others: &mut usize) {
    let Expr::Binary(op, left, right) = condition else {
        *others += 1;
        return;
    };
    if *op == BinaryOp::And {
        collect(left, width, constants, ranges, others);
        collect(right, width, constants, ranges, others);
        return;
    }
    let is_range = op.is_comparison() && *op != BinaryOp::NotEqual;
    let of_left = |expr: &Expr| {
        let (mut reads, mut all) = (false, true);
        expr.visit_columns(&mut |position| (reads, all) = (true, all && position < width));
        reads && all
    };
    let of_side = |expr: &Expr| side(expr, constants).filter(|(column, _)| *column >= width);
    let compared = match (of_side(left), of_side(right)) {
        (Some(side), None) if of_left(right) => Some((side, *op, right)),
        (None, Some(side)) if of_left(left) => Some((side, op.swapped(), left)),
        _ => None,
    };
    let Some(((column, moved), op, value)) = compared.filter(|_| is_range) else {
        *others += 1;
        return;
    };
    *others += usize::from(moved.is_some());
    let value = match moved {
        Some((back, by)) => Expr::Binary(back, value.clone(), Box::new(Expr::Constant(by))),
        None => Expr::clone(value),
    };
    let column = column - width;
    match ranges.iter_mut().find(|range| range.column == column) {
        Some(range) => range.comparisons.push((op, value)),
        None => ranges.push(KeyRange { column, comparisons: vec![(op, value)], is_all: false }),
    }
}

/// A column, or a column plus or minus a constant. In the second case also the opposite operation and the constant, to
/// apply to the other side of the comparison.
fn side(expr: &Expr, constants: &[ArrayRef]) -> Option<(usize, Option<(BinaryOp, usize)>)> {
    let (op, column, by) = match expr {
        Expr::Column(column) => return Some((*column, None)),
        Expr::Binary(op, one, other) => match (op, one.as_ref(), other.as_ref()) {
            (BinaryOp::Add | BinaryOp::Subtract, Expr::Column(column), Expr::Constant(by)) => (*op, *column, *by),
            (BinaryOp::Add, Expr::Constant(by), Expr::Column(column)) => (*op, *column, *by),
            _ => return None,
        },
        _ => return None,
    };
    let back = if op == BinaryOp::Add { BinaryOp::Subtract } else { BinaryOp::Add };
    moves_back(constants.get(by)?).then_some((column, Some((back, by))))
}

/// Whether adding a constant and subtracting it again gives the same value, except if the sum overflows.
fn moves_back(by: &ArrayRef) -> bool {
    match by.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let by = by.as_primitive::<IntervalMonthDayNanoType>();
            by.len() == 1 && by.is_valid(0) && by.value(0).months == 0 && by.value(0).days == 0
        }
        DataType::Duration(_) => true,
        other => other.is_integer(),
    }
}

/// Numbers in the order of values, equal ones where these are equal, none for null; `None` for types that aren't stored as numbers.
pub(super) fn numbers(array: &ArrayRef) -> Option<Vec<Option<i128>>> {
    fn of<N: TotalOrder>(values: &[N], array: &ArrayRef) -> Vec<Option<i128>> {
        let number = |(row, value): (usize, &N)| array.is_valid(row).then(|| value.key().into());
        values.iter().enumerate().map(number).collect()
    }
    let array = &in_form(Arc::clone(array));
    with_native!(array.data_type(), N => Some(of(&natives::<N>(array), array)), _ => None)
}

/// Whether equal numbers of the two types mean equal values.
fn are_alike(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Timestamp(one, _), DataType::Timestamp(other, _)) => one == other,
        _ => one == other,
    }
}
