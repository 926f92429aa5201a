//! Expressions over one dictionary column: evaluated once per dictionary entry, not per row.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Int32Array, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Int32Type};

use super::choice::{SomeRows, spread};
use super::{Expr, InputColumns};
use crate::binary_op::BinaryOp;
use crate::compare;
use crate::dictionaries::is_same;
use crate::error::{Error, Result};
use crate::operators::holds;
use crate::value::Value;

/// Rows per text of a dictionary from which on texts are evaluated instead of rows.
const ROWS_OF_TEXT_MIN: usize = 2;

/// Values of expressions for each text of a dictionary, cached for the next blocks with the same dictionary.
#[derive(Debug)]
pub(crate) struct TextResults {
    /// Rows of all blocks.
    rows: usize,
    results: RefCell<Vec<TextResult>>,
}

#[derive(Debug)]
struct TextResult {
    expr: Expr,
    dictionary: ArrayRef,
    /// By code, with the value of null last; `None` if evaluation refused a text that perhaps no row has.
    values: Option<ArrayRef>,
}

impl TextResults {
    /// The number of rows to be evaluated, including those of the next blocks.
    pub fn rows_in_all(columns: &dyn InputColumns) -> usize {
        columns.text_results().map_or(columns.rows(), |results| results.rows.max(columns.rows()))
    }

    /// Empty results for the texts of `rows` rows.
    pub fn new(rows: usize) -> TextResults {
        TextResults { rows, results: RefCell::default() }
    }

    fn get(&self, expr: &Expr, dictionary: &ArrayRef, constants: &[ArrayRef]) -> Option<Option<ArrayRef>> {
        let results = self.results.borrow();
        let result =
            results.iter().find(|it| is_same(&it.dictionary, dictionary) && it.expr.is_same(expr, constants))?;
        Some(result.values.clone())
    }

    fn put(&self, expr: &Expr, dictionary: &ArrayRef, values: Option<&ArrayRef>) {
        let (expr, dictionary, values) = (expr.clone(), Arc::clone(dictionary), values.cloned());
        self.results.borrow_mut().push(TextResult { expr, dictionary, values });
    }
}

/// The values of an expression that reads a single column, of codes, computed once per text; `None` if that doesn't pay, or evaluation refused a text
/// that perhaps no row has.
pub(crate) fn over_coded_column(
    expr: &Expr,
    columns: &dyn InputColumns,
    constants: &[ArrayRef],
) -> Result<Option<Value>> {
    let results = columns.text_results();
    let Some((column, dictionary)) = coded_column(expr, columns, TextResults::rows_in_all(columns))? else {
        return Ok(None);
    };
    let values = match results.and_then(|results| results.get(expr, dictionary.values(), constants)) {
        Some(cached) => cached,
        None => {
            let values = unless_refused(over_texts(expr, column, &dictionary, constants))?;
            if let Some(results) = results {
                results.put(expr, dictionary.values(), values.as_ref());
            }
            values
        }
    };
    let Some(values) = values else { return Ok(None) };
    let codes = dictionary.keys();
    if codes.null_count() == 0 {
        return Ok(Some(Value::Array(take(&values, codes, None)?)));
    }
    let of_null = i32::try_from(dictionary.values().len()).ok();
    let codes: Int32Array = codes.iter().map(|code| code.or(of_null)).collect();
    Ok(Some(Value::Array(take(&values, &codes, None)?)))
}

/// `None` if a kernel or a function refused its arguments.
pub(crate) fn unless_refused<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error is about the values that something is computed of.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Arrow(_) | Error::Function(_) | Error::Unsupported(_))
}

/// What is computed of some values. If a value is refused, it is computed again with dictionaries of the texts that rows have: a filter, or a deletion, may
/// have left no row with the text that was refused.
pub(crate) fn of_own_texts<T>(values: &[Value], compute: impl Fn(&[Value]) -> Result<T>) -> Result<T> {
    let refused = match compute(values) {
        Err(error) if is_refusal(&error) => error,
        computed => return computed,
    };
    let mut has_other_texts = false;
    let mut own = Vec::with_capacity(values.len());
    for value in values {
        own.push(match value {
            Value::Array(array) => match with_own_texts(array)? {
                Some(array) => {
                    has_other_texts = true;
                    Value::Array(array)
                }
                None => value.clone(),
            },
            Value::Scalar(_) => value.clone(),
        });
    }
    if has_other_texts { compute(&own) } else { Err(refused) }
}

/// Values in whose dictionary each text is that of a row; `None` if they have no dictionary, or have such a one already.
fn with_own_texts(values: &ArrayRef) -> Result<Option<ArrayRef>> {
    let Some(coded) = values.as_dictionary_opt::<Int32Type>() else { return Ok(None) };
    let mut places: Vec<Option<i32>> = vec![None; coded.values().len()];
    let mut own: Vec<u32> = Vec::new();
    let codes = coded.keys().iter().map(|code| {
        let code = usize::try_from(code?).ok()?;
        let place = places.get_mut(code)?;
        if place.is_none() {
            *place = i32::try_from(own.len()).ok();
            own.push(u32::try_from(code).ok()?);
        }
        *place
    });
    let codes: Int32Array = codes.collect();
    if own.len() == coded.values().len() {
        return Ok(None);
    }
    let texts = take(coded.values(), &UInt32Array::from(own), None)?;
    Ok(Some(Arc::new(DictionaryArray::try_new(codes, texts)?)))
}

/// The second of two conditions is evaluated only on the rows that passed the first, if at most one of this many did.
const ROWS_OF_PASSED_MIN: usize = 8;

/// The rows for which a condition is true; null isn't true.
pub(crate) fn condition(expr: &Expr, columns: &dyn InputColumns, constants: &[ArrayRef]) -> Result<BooleanArray> {
    BlockConditions::default().hold_of(columns.rows(), expr, columns, constants)
}

/// Conditions that are evaluated block by block, with results cached by dictionary code: the blocks of a segment share their dictionaries.
#[derive(Debug, Default)]
pub(crate) struct BlockConditions<'a> {
    evaluated: Vec<ChosenTexts<'a>>,
}

/// The texts of a dictionary for which a condition holds.
#[derive(Debug)]
struct ChosenTexts<'a> {
    condition: &'a Expr,
    dictionary: ArrayRef,
    /// By code; `None` if evaluation refused a text that perhaps no row has.
    chosen: Option<Vec<bool>>,
    is_null_chosen: bool,
}

impl<'a> BlockConditions<'a> {
    /// The rows for which a condition is true; null isn't true.
    pub fn hold(&mut self, expr: &'a Expr, columns: &dyn InputColumns, constants: &[ArrayRef]) -> Result<BooleanArray> {
        // The results for texts are cached for the next blocks.
        self.hold_of(TextResults::rows_in_all(columns), expr, columns, constants)
    }

    /// Like [`Self::hold`], for the first of many rows that share one dictionary.
    fn hold_of(
        &mut self,
        rows: usize,
        expr: &'a Expr,
        columns: &dyn InputColumns,
        constants: &[ArrayRef],
    ) -> Result<BooleanArray> {
        if let Expr::Binary(BinaryOp::And, _, _) = expr {
            let mut conditions = Vec::new();
            joined_by_and(expr, &mut conditions);
            // If no condition can fail, the cheap ones run first and leave fewer rows to the others.
            if conditions.iter().all(|condition| never_fails(condition)) {
                conditions.sort_by_key(|condition| cost(condition, columns, constants));
            }
            return self.all_hold(rows, &conditions, columns, constants);
        }
        if let Some((column, dictionary)) = coded_column(expr, columns, rows)?
            && let Some(mask) = self.over_texts(expr, column, &dictionary, constants)?.hold(&dictionary)?
        {
            return Ok(mask);
        }
        holds(&expr.evaluate(columns, constants)?.into_array(columns.rows())?)
    }

    /// The rows for which all conditions are true. A condition that refuses a row, for example because a sum overflows, is evaluated again, on the rows
    /// alone that pass the others.
    fn all_hold(
        &mut self,
        rows: usize,
        conditions: &[&'a Expr],
        columns: &dyn InputColumns,
        constants: &[ArrayRef],
    ) -> Result<BooleanArray> {
        let mut passed = BooleanArray::new(BooleanBuffer::new_set(columns.rows()), None);
        let mut refused = Vec::new();
        for condition in conditions {
            if passed.true_count() == 0 {
                return Ok(passed);
            }
            // Within such an evaluation, what may fail isn't tried on all rows first: the number of attempts would double with each level.
            if columns.is_lazy() && !never_fails(condition) {
                refused.push(condition);
                continue;
            }
            match unless_refused(self.hold_too(rows, condition, &passed, columns, constants))? {
                Some(too) => passed = too,
                None => refused.push(condition),
            }
        }
        for condition in refused {
            if passed.true_count() == 0 {
                return Ok(passed);
            }
            let some = SomeRows::selected(columns, passed.clone());
            passed = spread(&passed, &self.hold_of(rows, condition, &some, constants)?);
        }
        Ok(passed)
    }

    /// The rows, of those that passed the conditions before, for which a condition is true.
    fn hold_too(
        &mut self,
        rows: usize,
        condition: &'a Expr,
        passed: &BooleanArray,
        columns: &dyn InputColumns,
        constants: &[ArrayRef],
    ) -> Result<BooleanArray> {
        if passed.true_count() * ROWS_OF_PASSED_MIN < passed.len() {
            // Copying the few rows out of the columns of the other condition pays.
            let some = SomeRows::new(columns, passed.clone());
            return Ok(spread(passed, &self.hold_of(rows, condition, &some, constants)?));
        }
        let holds = self.hold_of(rows, condition, columns, constants)?;
        if passed.true_count() == passed.len() {
            return Ok(holds);
        }
        Ok(BooleanArray::new(passed.values() & holds.values(), None))
    }

    fn over_texts(
        &mut self,
        condition: &'a Expr,
        column: usize,
        codes: &DictionaryArray<Int32Type>,
        constants: &[ArrayRef],
    ) -> Result<&ChosenTexts<'a>> {
        let place = self.evaluated.iter().position(|choice| std::ptr::eq(choice.condition, condition));
        if let Some(place) = place
            && is_same(&self.evaluated[place].dictionary, codes.values())
        {
            return Ok(&self.evaluated[place]);
        }
        let values = unless_refused(over_texts(condition, column, codes, constants))?;
        let chosen = values.map(|values| holds(&values)).transpose()?;
        let mut chosen: Option<Vec<bool>> = chosen.map(|chosen| chosen.values().iter().collect());
        let is_null_chosen = chosen.as_mut().and_then(Vec::pop).unwrap_or(false);
        let choice = ChosenTexts { condition, dictionary: Arc::clone(codes.values()), chosen, is_null_chosen };
        let place = place.unwrap_or(self.evaluated.len());
        match self.evaluated.get_mut(place) {
            Some(former) => *former = choice,
            None => self.evaluated.push(choice),
        }
        Ok(&self.evaluated[place])
    }
}

/// The conditions that AND joins.
fn joined_by_and<'a>(expr: &'a Expr, conditions: &mut Vec<&'a Expr>) {
    match expr {
        Expr::Binary(BinaryOp::And, left, right) => {
            joined_by_and(left, conditions);
            joined_by_and(right, conditions);
        }
        other => conditions.push(other),
    }
}

/// The relative cost of a condition: checks for null cost least, then numbers and codes, then texts.
fn cost(condition: &Expr, columns: &dyn InputColumns, constants: &[ArrayRef]) -> u8 {
    let is_text = |constant: &usize| matches!(constants[*constant].data_type(), DataType::Utf8 | DataType::Utf8View);
    match condition {
        Expr::IsNull(of) | Expr::IsNotNull(of) if matches!(**of, Expr::Column(_)) => 0,
        Expr::Not(of) => cost(of, columns, constants),
        Expr::Binary(op, left, right) if op.is_comparison() => match (&**left, &**right) {
            (Expr::Column(column), Expr::Constant(constant)) | (Expr::Constant(constant), Expr::Column(column)) => {
                if is_text(constant) && !columns.may_be_coded(*column) {
                    2
                } else {
                    1
                }
            }
            _ => 2,
        },
        _ => 3,
    }
}

impl ChosenTexts<'_> {
    /// The rows for which the condition holds; `None` if the texts alone don't decide it.
    fn hold(&self, dictionary: &DictionaryArray<Int32Type>) -> Result<Option<BooleanArray>> {
        let Some(chosen) = &self.chosen else { return Ok(None) };
        let codes = dictionary.keys();
        let nulls = codes.nulls().filter(|nulls| nulls.null_count() > 0);
        let all = |verdict: bool| {
            chosen.iter().all(|chosen| *chosen == verdict) && (nulls.is_none() || self.is_null_chosen == verdict)
        };
        if all(true) {
            return Ok(Some(BooleanArray::new(BooleanBuffer::new_set(codes.len()), None)));
        }
        if all(false) {
            return Ok(Some(BooleanArray::new(BooleanBuffer::new_unset(codes.len()), None)));
        }
        if let ([only], false) = (chosen_codes(chosen).as_slice(), self.is_null_chosen) {
            // A comparison of all codes with one code uses vector instructions.
            let (codes, only): (ArrayRef, ArrayRef) =
                (Arc::new(codes.clone()), Arc::new(Int32Array::from(vec![*only])));
            return compare::numbers(BinaryOp::Equal, &Value::Array(codes), &Value::Scalar(only))
                .map(|is_equal| holds(&is_equal))
                .transpose();
        }
        let of_code = |code: i32| usize::try_from(code).is_ok_and(|code| chosen.get(code).copied().unwrap_or(false));
        let mask = match nulls {
            None => BooleanBuffer::collect_bool(codes.len(), |row| of_code(codes.values()[row])),
            Some(nulls) => BooleanBuffer::collect_bool(codes.len(), |row| {
                if nulls.is_valid(row) { of_code(codes.values()[row]) } else { self.is_null_chosen }
            }),
        };
        Ok(Some(BooleanArray::new(mask, None)))
    }
}

/// The first two of the chosen codes.
fn chosen_codes(chosen: &[bool]) -> Vec<i32> {
    chosen.iter().zip(0..).filter(|(chosen, _)| **chosen).map(|(_, code)| code).take(2).collect()
}

/// The only coded column that an expression reads, if its dictionary has fewer texts than `rows`, the number of rows to be evaluated.
pub(crate) fn coded_column(
    expr: &Expr,
    columns: &dyn InputColumns,
    rows: usize,
) -> Result<Option<(usize, DictionaryArray<Int32Type>)>> {
    let Some(column) = expr.only_column().filter(|column| columns.may_be_coded(*column)) else { return Ok(None) };
    let Value::Array(array) = columns.column(column)? else { return Ok(None) };
    let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() else { return Ok(None) };
    let is_small = dictionary.values().len() * ROWS_OF_TEXT_MIN <= rows;
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
    let each = DictionaryTexts { column, rows: each.len(), each: Arc::new(each) };
    expr.evaluate(&each, constants)?.into_array(each.rows)
}

/// Each text once, as the only column.
struct DictionaryTexts {
    column: usize,
    each: ArrayRef,
    rows: usize,
}

impl InputColumns for DictionaryTexts {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position != self.column {
            return Err(Error::Unsupported("a second column of codes".to_owned()));
        }
        Ok(Value::Array(Arc::clone(&self.each)))
    }

    // Each text is there once as it is.
    fn may_be_coded(&self, _position: usize) -> bool {
        false
    }
}

/// Whether evaluation of an expression can't fail, whatever its input.
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
        Expr::Not(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::In(inner, _)
        | Expr::Lookup(_, _, inner) => never_fails(inner),
        Expr::Case { branches, otherwise, .. } => {
            branches.iter().all(|(condition, value)| never_fails(condition) && never_fails(value))
                && otherwise.as_deref().is_none_or(never_fails)
        }
        Expr::Find(_, keys) => keys.iter().all(never_fails),
        Expr::Negative(_) | Expr::Call(_, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};

    use super::super::{EvaluatedColumns, ScalarFunction};
    use super::*;

    /// The number that a text is, looking at the texts of rows alone.
    #[derive(Debug)]
    struct Number;

    impl ScalarFunction for Number {
        fn name(&self) -> &str {
            "number"
        }

        fn call(&self, arguments: &[Value], rows: usize) -> Result<Value> {
            let texts = arrow::compute::cast(&arguments[0].clone().into_array(rows)?, &DataType::Utf8)?;
            let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
            Ok(Value::Array(arrow::compute::cast_with_options(&texts, &DataType::Int64, &options)?))
        }
    }

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
        let columns = EvaluatedColumns { columns: vec![Some(Value::Array(Arc::clone(&column)))], rows: column.len() };
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
        let valid = EvaluatedColumns { columns: vec![Some(Value::Array(column.slice(6, 2)))], rows: 2 };
        let all = both(BinaryOp::Or, both(BinaryOp::Or, equals(0), equals(1)), equals(1));
        assert_eq!(condition(&all, &valid, &constants).unwrap().true_count(), 2);
        for expr in expressions {
            assert!(coded_column(&expr, &columns, columns.rows).unwrap().is_some());
            let expected = holds(&expr.evaluate(&columns, &constants).unwrap().into_array(8).unwrap()).unwrap();
            let mask = condition(&expr, &columns, &constants).unwrap();
            assert_eq!(
                mask.values().iter().collect::<Vec<_>>(),
                expected.values().iter().collect::<Vec<_>>(),
                "{expr:?}"
            );
        }
    }

    #[test]
    fn what_is_refused_or_has_more_texts_than_rows_is_evaluated_by_row() {
        let dictionary = Arc::new(StringArray::from(vec!["1", "x", "y"]));
        let column: ArrayRef = Arc::new(DictionaryArray::new(Int32Array::from(vec![0; 8]), dictionary));
        let columns = |rows: usize| EvaluatedColumns { columns: vec![Some(Value::Array(column.slice(0, rows)))], rows };
        // No row has a text that is no number.
        let number = Expr::Call(Arc::new(Number), vec![Expr::Column(0)]);
        let is_number = Expr::IsNotNull(Box::new(number));
        assert!(unless_refused(over_texts(&is_number, 0, column.as_dictionary(), &[])).unwrap().is_none());
        assert_eq!(condition(&is_number, &columns(8), &[]).unwrap().true_count(), 8);
        assert!(coded_column(&equals(0), &columns(5), 5).unwrap().is_none());
        assert!(coded_column(&equals(0), &columns(6), 6).unwrap().is_some());
    }

    #[test]
    fn a_text_that_no_row_has_is_not_refused() {
        let texts = |values: &[Option<&str>]| values.iter().copied().collect::<DictionaryArray<Int32Type>>();
        let all = texts(&[Some("1"), Some("x"), Some("3"), None, Some("1")]);
        let cast = |rows: DictionaryArray<Int32Type>| {
            let columns = EvaluatedColumns { rows: rows.len(), columns: vec![Some(Value::Array(Arc::new(rows)))] };
            Expr::Cast(Box::new(Expr::Column(0)), DataType::Int64).evaluate(&columns, &[])?.into_array(columns.rows)
        };
        let numbers = |array: ArrayRef| array.as_primitive::<arrow::datatypes::Int64Type>().iter().collect::<Vec<_>>();
        assert_eq!(numbers(cast(all.slice(2, 3)).unwrap()), [Some(3), None, Some(1)]);
        assert_eq!(numbers(cast(all.slice(3, 1)).unwrap()), [None]);
        assert!(numbers(cast(all.slice(0, 0)).unwrap()).is_empty());
        assert!(matches!(cast(all), Err(Error::Arrow(_))), "a row has it");
        assert!(cast(texts(&[Some("y")])).is_err());
    }

    #[test]
    fn what_other_conditions_exclude_is_not_refused() {
        let numbers = |values: Vec<Option<i64>>| Some(Value::Array(Arc::new(Int64Array::from(values)) as ArrayRef));
        let of = vec![Some(i64::MAX), Some(2), None, Some(7)];
        let columns =
            EvaluatedColumns { columns: vec![numbers(of), numbers(vec![Some(0), Some(1), Some(1), None])], rows: 4 };
        let constants = [0, 1].map(|value| Arc::new(Int64Array::from(vec![value])) as ArrayRef);
        let both = |op, left: Expr, right: Expr| Expr::Binary(op, Box::new(left), Box::new(right));
        let sum = both(BinaryOp::Add, Expr::Column(0), Expr::Column(0));
        let overflows = both(BinaryOp::Greater, sum, Expr::Constant(0));
        let guard = both(BinaryOp::Equal, Expr::Column(1), Expr::Constant(1));
        let passes = |one: &Expr, other: &Expr| {
            let all = both(BinaryOp::And, one.clone(), other.clone());
            condition(&all, &columns, &constants).map(|mask| mask.values().iter().collect::<Vec<bool>>())
        };
        assert_eq!(passes(&guard, &overflows).unwrap(), [false, true, false, false]);
        assert_eq!(passes(&overflows, &guard).unwrap(), [false, true, false, false]);
        let no_guard = Expr::IsNotNull(Box::new(Expr::Column(1)));
        assert!(matches!(passes(&overflows, &no_guard), Err(Error::Arrow(_))), "what a row asks for is refused");
    }

    #[test]
    fn what_is_computed_for_texts_is_that_of_the_rows() {
        let dictionary = Arc::new(StringArray::from(vec!["N", "Q", "P"]));
        let codes = Int32Array::from(vec![Some(0), Some(2), None, Some(1), Some(0), None, Some(1), Some(1)]);
        let column: ArrayRef = Arc::new(DictionaryArray::new(codes, dictionary));
        let columns = EvaluatedColumns { columns: vec![Some(Value::Array(column))], rows: 8 };
        let constants = ["N", "first"].map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef);
        let case =
            Expr::Case { branches: vec![(equals(0), Expr::Constant(1))], otherwise: None, data_type: DataType::Utf8 };
        let computed = over_coded_column(&case, &columns, &constants).unwrap().unwrap().into_array(8).unwrap();
        let computed: Vec<Option<&str>> = computed.as_string::<i32>().iter().collect();
        assert_eq!(computed, [Some("first"), None, None, None, Some("first"), None, None, None]);
    }
}
