//! Expressions over a column of dictionary codes: evaluated once for each text, not for each row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Int32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::datatypes::{DataType, Int32Type};

use crate::error::{Error, Result};
use crate::expr::{BinaryOp, Columns, Expr, Value, holds};

/// Rows for each text of a dictionary, from which on texts are evaluated instead of rows.
const ROWS_OF_TEXT_MIN: usize = 2;

/// Where a condition holds: where it is true, and not where it is null.
pub(crate) fn condition(expr: &Expr, columns: &dyn Columns, constants: &[ArrayRef]) -> Result<BooleanArray> {
    Conditions::default().hold(expr, columns, constants)
}

/// Conditions that are asked of one block of rows after the other, and what is known of those over codes: blocks of one segment have
/// the same texts.
#[derive(Debug, Default)]
pub(crate) struct Conditions<'a> {
    known: Vec<Known<'a>>,
}

/// For which texts of a dictionary a condition holds.
#[derive(Debug)]
struct Known<'a> {
    condition: &'a Expr,
    dictionary: ArrayRef,
    chosen: Vec<bool>,
    is_null_chosen: bool,
}

impl<'a> Conditions<'a> {
    /// Where a condition holds: where it is true, and not where it is null.
    pub fn hold(&mut self, expr: &'a Expr, columns: &dyn Columns, constants: &[ArrayRef]) -> Result<BooleanArray> {
        if let Expr::Binary(BinaryOp::And, left, right) = expr {
            let (left, right) = (self.hold(left, columns, constants)?, self.hold(right, columns, constants)?);
            if left.true_count() == left.len() {
                return Ok(right);
            }
            return Ok(BooleanArray::new(left.values() & right.values(), None));
        }
        let Some((column, dictionary)) = coded_column(expr, columns)? else {
            return holds(&expr.evaluate(columns, constants)?.into_array(columns.rows())?);
        };
        self.over_texts(expr, column, &dictionary, constants)?.hold(&dictionary)
    }

    fn over_texts(
        &mut self,
        condition: &'a Expr,
        column: usize,
        codes: &DictionaryArray<Int32Type>,
        constants: &[ArrayRef],
    ) -> Result<&Known<'a>> {
        let place = self.known.iter().position(|known| std::ptr::eq(known.condition, condition));
        if let Some(place) = place
            && is_same(&self.known[place].dictionary, codes.values())
        {
            return Ok(&self.known[place]);
        }
        let chosen = holds(&over_texts(condition, column, codes, constants)?)?;
        let mut chosen: Vec<bool> = chosen.values().iter().collect();
        let is_null_chosen = chosen.pop().unwrap_or(false);
        let known = Known { condition, dictionary: Arc::clone(codes.values()), chosen, is_null_chosen };
        let place = place.unwrap_or(self.known.len());
        match self.known.get_mut(place) {
            Some(former) => *former = known,
            None => self.known.push(known),
        }
        Ok(&self.known[place])
    }
}

impl Known<'_> {
    fn hold(&self, dictionary: &DictionaryArray<Int32Type>) -> Result<BooleanArray> {
        let (chosen, codes) = (&self.chosen, dictionary.keys());
        let nulls = codes.nulls().filter(|nulls| nulls.null_count() > 0);
        let all = |wanted: bool| {
            chosen.iter().all(|chosen| *chosen == wanted) && (nulls.is_none() || self.is_null_chosen == wanted)
        };
        if all(true) {
            return Ok(BooleanArray::new(BooleanBuffer::new_set(codes.len()), None));
        }
        if all(false) {
            return Ok(BooleanArray::new(BooleanBuffer::new_unset(codes.len()), None));
        }
        if let ([only], false) = (chosen_codes(chosen).as_slice(), self.is_null_chosen) {
            // Codes are compared with one several at a time.
            return holds(&(Arc::new(cmp::eq(codes, &Int32Array::new_scalar(*only))?) as ArrayRef));
        }
        let of_code = |code: i32| usize::try_from(code).is_ok_and(|code| chosen.get(code).copied().unwrap_or(false));
        let mask = match nulls {
            None => BooleanBuffer::collect_bool(codes.len(), |row| of_code(codes.values()[row])),
            Some(nulls) => BooleanBuffer::collect_bool(codes.len(), |row| {
                if nulls.is_valid(row) { of_code(codes.values()[row]) } else { self.is_null_chosen }
            }),
        };
        Ok(BooleanArray::new(mask, None))
    }
}

/// Whether two dictionaries are the same bytes.
pub(crate) fn is_same(one: &ArrayRef, other: &ArrayRef) -> bool {
    Arc::ptr_eq(one, other) || one.to_data().ptr_eq(&other.to_data())
}

/// Which codes are chosen, as far as the second.
fn chosen_codes(chosen: &[bool]) -> Vec<i32> {
    chosen.iter().zip(0..).filter(|(chosen, _)| **chosen).map(|(_, code)| code).take(2).collect()
}

/// The one column of codes that an expression reads, if nothing in it can fail and there are fewer texts than rows.
pub(crate) fn coded_column(expr: &Expr, columns: &dyn Columns) -> Result<Option<(usize, DictionaryArray<Int32Type>)>> {
    let (mut first, mut several) = (None, false);
    expr.visit_columns(&mut |column| {
        several |= first.is_some_and(|first| first != column);
        first = Some(column);
    });
    let Some(column) = first.filter(|_| !several && never_fails(expr)) else { return Ok(None) };
    let Value::Array(array) = columns.column(column)? else { return Ok(None) };
    let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() else { return Ok(None) };
    let is_small = dictionary.values().len() * ROWS_OF_TEXT_MIN <= columns.rows();
    Ok((is_small && dictionary.values().null_count() == 0).then(|| (column, dictionary.clone())))
}

/// The values of an expression for each text of the only column that it reads, and for null last.
pub(crate) fn over_texts(
    expr: &Expr,
    column: usize,
    dictionary: &DictionaryArray<Int32Type>,
    constants: &[ArrayRef],
) -> Result<ArrayRef> {
    let texts = i32::try_from(dictionary.values().len()).unwrap_or(i32::MAX);
    let codes: Int32Array = (0..texts).map(Some).chain([None]).collect();
    let each = DictionaryArray::try_new(codes, Arc::clone(dictionary.values()))?;
    let each = EachText { column, rows: each.len(), each: Arc::new(each) };
    expr.evaluate(&each, constants)?.into_array(each.rows)
}

/// Each text once, as the only column.
struct EachText {
    column: usize,
    each: ArrayRef,
    rows: usize,
}

impl Columns for EachText {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position != self.column {
            return Err(Error::Unsupported("a second column of codes".to_owned()));
        }
        Ok(Value::Array(Arc::clone(&self.each)))
    }
}

/// Whether an expression has a value for whatever a text is: texts that are in no row are evaluated, too.
pub(crate) fn never_fails(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Constant(_) => true,
        Expr::Binary(op, left, right) => {
            let arithmetic = matches!(
                op,
                BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Remainder
            );
            !arithmetic && never_fails(left) && never_fails(right)
        }
        Expr::Cast(inner, to) => *to == DataType::Utf8 && never_fails(inner),
        Expr::Not(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) | Expr::Lookup(_, _, inner) => {
            never_fails(inner)
        }
        Expr::Case { branches, otherwise, .. } => {
            branches.iter().all(|(condition, value)| never_fails(condition) && never_fails(value))
                && otherwise.as_deref().is_none_or(never_fails)
        }
        Expr::Negative(_) | Expr::Call(_, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;
    use crate::expr::Chosen;

    fn equals(constant: usize) -> Expr {
        Expr::Binary(BinaryOp::Equal, Box::new(Expr::Column(0)), Box::new(Expr::Constant(constant)))
    }

    #[test]
    fn conditions_over_codes_hold_where_those_over_rows_do() {
        let dictionary = Arc::new(StringArray::from(vec!["N", "Q", "P"]));
        let codes = Int32Array::from(vec![Some(0), Some(2), None, Some(1), Some(0), None, Some(1), Some(1)]);
        let column: ArrayRef = Arc::new(DictionaryArray::new(codes, dictionary));
        let text = |text: Option<&str>| Arc::new(StringArray::from(vec![text])) as ArrayRef;
        let constants = [text(Some("N")), text(Some("Q")), text(None), text(Some("Z"))];
        let columns = Chosen { columns: vec![Some(Value::Array(Arc::clone(&column)))], rows: column.len() };
        let both = |op, left: Expr, right: Expr| Expr::Binary(op, Box::new(left), Box::new(right));
        let expressions = [
            equals(0),
            equals(2),
            equals(3),
            both(BinaryOp::Or, equals(0), equals(1)),
            both(BinaryOp::And, equals(0), Expr::IsNotNull(Box::new(Expr::Column(0)))),
            Expr::Not(Box::new(equals(1))),
            Expr::IsNull(Box::new(Expr::Column(0))),
            both(BinaryOp::Or, Expr::IsNull(Box::new(Expr::Column(0))), equals(1)),
        ];
        // Without nulls, too: then what holds for null doesn't matter.
        let valid = Chosen { columns: vec![Some(Value::Array(column.slice(6, 2)))], rows: 2 };
        let all = both(BinaryOp::Or, both(BinaryOp::Or, equals(0), equals(1)), equals(1));
        assert_eq!(condition(&all, &valid, &constants).unwrap().true_count(), 2);
        for expr in expressions {
            assert!(coded_column(&expr, &columns).unwrap().is_some());
            let expected = holds(&expr.evaluate(&columns, &constants).unwrap().into_array(8).unwrap()).unwrap();
            let found = condition(&expr, &columns, &constants).unwrap();
            assert_eq!(
                found.values().iter().collect::<Vec<_>>(),
                expected.values().iter().collect::<Vec<_>>(),
                "{expr:?}"
            );
        }
    }

    #[test]
    fn what_may_fail_or_has_more_texts_than_rows_is_evaluated_by_row() {
        let dictionary = Arc::new(StringArray::from(vec!["1", "x", "y"]));
        let column: ArrayRef = Arc::new(DictionaryArray::new(Int32Array::from(vec![0; 8]), dictionary));
        let columns = |rows: usize| Chosen { columns: vec![Some(Value::Array(column.slice(0, rows)))], rows };
        let cast = Expr::Cast(Box::new(Expr::Column(0)), DataType::Int64);
        assert!(coded_column(&Expr::IsNull(Box::new(cast)), &columns(8)).unwrap().is_none());
        assert!(coded_column(&equals(0), &columns(5)).unwrap().is_none());
        assert!(coded_column(&equals(0), &columns(6)).unwrap().is_some());
    }
}
