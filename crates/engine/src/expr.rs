//! Expressions over columns, evaluated a chunk of rows at a time by Arrow's kernels.
//!
//! Types are resolved when the plan is made: every operation gets the types of its kernel, and the plan contains the
//! casts. Overflow of integers and their division by zero are errors, floats are ordered with one zero and one NaN,
//! which is above all numbers, nulls follow SQL. These are DataFusion's rules, so a statement gives the same rows
//! whichever way it runs.

mod choice;
pub(crate) mod codes;
pub(crate) mod per_stretch;
mod per_text;

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Int32Array, StringArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::kernels::{boolean, numeric};
use arrow::compute::{CastOptions, cast_with_options, is_not_null, is_null};
use arrow::datatypes::DataType;

use crate::binary_op::BinaryOp;
use crate::error::{Error, Result};
use crate::filter_mask::FilterMask;
use crate::lookup::LookupTable;
use crate::number_calls;
use crate::own_type::{OwnComparison, own_comparison};
use crate::value::Value;
use crate::value_list::ValueList;
use crate::widen::widen;
use choice::CaseChoice;
use codes::TextResults;
use per_stretch::{ROWS_MIN as STRETCHES_ROWS_MIN, over_stretches};
use per_text::over_recurring_texts;

/// An expression. Column numbers are positions in the input, constant numbers positions among the bound constants.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A column of the input.
    Column(usize),
    /// A constant: a literal, or a parameter in the type that it is used in.
    Constant(usize),
    /// An operation on two values of one type.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Logical negation.
    Not(Box<Expr>),
    /// Arithmetic negation.
    Negative(Box<Expr>),
    /// Whether a value is null.
    IsNull(Box<Expr>),
    /// Whether a value isn't null.
    IsNotNull(Box<Expr>),
    /// Conversion to another type; a value that doesn't fit is an error.
    Cast(Box<Expr>, DataType),
    /// The value of the first condition that holds; otherwise the last value, or null.
    Case {
        /// Conditions and values.
        branches: Vec<(Expr, Expr)>,
        /// Value if no condition holds.
        otherwise: Option<Box<Expr>>,
        /// Type of all values.
        data_type: DataType,
    },
    /// Whether a list contains a value. Null for null, and if the value isn't found in a list that has a null.
    In(Box<Expr>, Arc<ValueList>),
    /// The row of a constant table that has a value as its key: a column of that row, null if there is none; or, without a column, whether there is
    /// one.
    Lookup(Arc<LookupTable>, Option<usize>, Box<Expr>),
    /// The number of the row that a constant table has for a key; null if it has none.
    Find(Arc<LookupTable>, Vec<Expr>),
    /// A function from outside the engine.
    Call(Arc<dyn ScalarFunction>, Vec<Expr>),
}

/// A function from outside the engine: each row of the result depends on that row of the arguments alone.
pub trait ScalarFunction: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Applies it to `rows` rows.
    ///
    /// # Errors
    /// [`Error::Function`] with the function's own words.
    fn call(&self, arguments: &[Value], rows: usize) -> Result<Value>;

    /// The length in nanoseconds of the intervals of time, counted from the epoch, in each of which the value is the same. One argument is the time;
    /// the others, which are given, are constants. `None` if no such length is known.
    fn grain(&self, _arguments: &[Option<&ArrayRef>]) -> Option<i64> {
        None
    }
}

/// The columns that an expression reads.
pub(crate) trait InputColumns {
    fn rows(&self) -> usize;
    fn column(&self, position: usize) -> Result<Value>;

    /// The rows of a column that a mask keeps.
    fn filter_column(&self, position: usize, mask: &FilterMask) -> Result<Value> {
        mask.filter_value(self.column(position)?)
    }

    /// Whether a column may hold codes of a dictionary. This is cheap to ask, while reading the column may not be.
    fn may_be_coded(&self, _position: usize) -> bool {
        true
    }

    /// Cached results for the texts of the columns' dictionaries, if the dictionaries are shared with further rows.
    fn text_results(&self) -> Option<&TextResults> {
        None
    }

    /// Whether each value of a CASE is computed only for the rows that select it, because computing it for all rows failed.
    fn is_lazy(&self) -> bool {
        false
    }
}

/// Columns that are already evaluated.
pub(crate) struct EvaluatedColumns {
    pub columns: Vec<Option<Value>>,
    pub rows: usize,
}

impl InputColumns for EvaluatedColumns {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, position: usize) -> Result<Value> {
        self.columns[position].clone().ok_or_else(|| Error::Unsupported("a column that wasn't read".to_owned()))
    }
}

impl Expr {
    /// Its values for the rows of `columns`.
    pub(crate) fn evaluate(&self, columns: &dyn InputColumns, constants: &[ArrayRef]) -> Result<Value> {
        match self {
            Expr::Column(position) => columns.column(*position),
            Expr::Constant(position) => Ok(Value::Scalar(Arc::clone(&constants[*position]))),
            Expr::Binary(op, left, right) => match (left.as_ref(), right.as_ref()) {
                (Expr::Cast(value, wide), Expr::Constant(constant)) => {
                    compare(*op, value, wide, *constant, columns, constants)
                }
                (Expr::Constant(constant), Expr::Cast(value, wide)) if op.is_comparison() => {
                    compare(op.swapped(), value, wide, *constant, columns, constants)
                }
                _ => op.apply(&left.evaluate(columns, constants)?, &right.evaluate(columns, constants)?),
            },
            Expr::Not(expr) => {
                expr.evaluate(columns, constants)?.map(|array| Ok(Arc::new(boolean::not(array.as_boolean())?) as _))
            }
            Expr::Negative(expr) => expr.evaluate(columns, constants)?.map(|array| Ok(numeric::neg(array)?)),
            Expr::IsNull(expr) => expr.evaluate(columns, constants)?.map(|array| Ok(Arc::new(is_null(array)?) as _)),
            Expr::IsNotNull(expr) => {
                expr.evaluate(columns, constants)?.map(|array| Ok(Arc::new(is_not_null(array)?) as _))
            }
            Expr::Cast(expr, data_type) => convert(&expr.evaluate(columns, constants)?, data_type),
            Expr::Find(_, _) => self.evaluate_each(columns, constants),
            Expr::Case { .. } | Expr::Call(_, _) | Expr::Lookup(_, _, _) => {
                if let Some(value) = codes::over_coded_column(self, columns, constants)? {
                    return Ok(value);
                }
                // Few rows are computed one by one, and their column is read once.
                if matches!(self, Expr::Call(_, _))
                    && columns.rows() >= STRETCHES_ROWS_MIN
                    && let Some(column) = self.only_column()
                    && let Value::Array(values) = columns.column(column)?
                {
                    if let Some(value) = over_stretches(self, column, &values, constants)? {
                        return Ok(value);
                    }
                    if let Some(value) = over_recurring_texts(self, column, &values, constants)? {
                        return Ok(value);
                    }
                }
                self.evaluate_each(columns, constants)
            }
            Expr::In(expr, list) => {
                let Expr::Cast(value, wide) = expr.as_ref() else {
                    return expr.evaluate(columns, constants)?.map(|array| list.contains(array, constants));
                };
                let value = value.evaluate(columns, constants)?;
                value.map(|array| match list.contains_own(array, constants)? {
                    Some(mask) => Ok(mask),
                    None => list.contains(&wide_of(array, wide)?, constants),
                })
            }
        }
    }

    /// The values of a choice, a call or a look-up, row by row.
    fn evaluate_each(&self, columns: &dyn InputColumns, constants: &[ArrayRef]) -> Result<Value> {
        match self {
            Expr::Case { branches, otherwise, data_type } => {
                let choice = CaseChoice { branches, otherwise: otherwise.as_deref(), data_type };
                if columns.is_lazy() {
                    return choice.lazily(columns, constants);
                }
                match codes::unless_refused(choice.of_all(columns, constants))? {
                    Some(value) => Ok(value),
                    // The error may come from a row for which no condition asks for the value.
                    None => choice.lazily(columns, constants),
                }
            }
            Expr::Call(function, arguments) => {
                let arguments = arguments
                    .iter()
                    .map(|argument| argument.evaluate(columns, constants))
                    .collect::<Result<Vec<_>>>()?;
                if let [Value::Array(numbers)] = arguments.as_slice()
                    && let Some(computed) = number_calls::computed(function.name(), numbers)
                {
                    return Ok(Value::Array(computed));
                }
                codes::of_own_texts(&arguments, |arguments| function.call(arguments, columns.rows()))
            }
            Expr::Lookup(table, column, key) => key.evaluate(columns, constants)?.map(|keys| match column {
                Some(column) => table.column(keys, *column, constants),
                None => table.has(keys, constants),
            }),
            Expr::Find(table, keys) => {
                let values = keys.iter().map(|key| key.evaluate(columns, constants)?.into_array(columns.rows()));
                Ok(Value::Array(Arc::new(table.numbers(&values.collect::<Result<Vec<_>>>()?, constants)?)))
            }
            other => other.evaluate(columns, constants),
        }
    }

    /// Whether another expression has the same values, judged by its form.
    pub(crate) fn is_same(&self, other: &Expr, constants: &[ArrayRef]) -> bool {
        self.is_same_by(other, &|one, other| {
            let (one, other) = (&constants[one], &constants[other]);
            Arc::ptr_eq(one, other) || one.len() <= 1 && one.as_ref() == other.as_ref()
        })
    }

    /// Like `is_same`, but `same` compares the numbers of constants.
    pub fn is_same_by(&self, other: &Expr, same: &dyn Fn(usize, usize) -> bool) -> bool {
        let all = |one: &[Expr], other: &[Expr]| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same_by(other, same))
        };
        let both = |one: &Expr, other: &Expr| one.is_same_by(other, same);
        match (self, other) {
            (Expr::Column(one), Expr::Column(other)) => one == other,
            (Expr::Constant(one), Expr::Constant(other)) => one == other || same(*one, *other),
            (Expr::Binary(op, left, right), Expr::Binary(other, other_left, other_right)) => {
                op == other && both(left, other_left) && both(right, other_right)
            }
            (Expr::Not(one), Expr::Not(other))
            | (Expr::Negative(one), Expr::Negative(other))
            | (Expr::IsNull(one), Expr::IsNull(other))
            | (Expr::IsNotNull(one), Expr::IsNotNull(other)) => both(one, other),
            (Expr::Cast(one, data_type), Expr::Cast(other, other_type)) => data_type == other_type && both(one, other),
            (Expr::Call(function, arguments), Expr::Call(other, other_arguments)) => {
                Arc::ptr_eq(function, other) && all(arguments, other_arguments)
            }
            (Expr::Lookup(table, column, key), Expr::Lookup(other, other_column, other_key)) => {
                Arc::ptr_eq(table, other) && column == other_column && both(key, other_key)
            }
            (Expr::Find(table, keys), Expr::Find(other, other_keys)) => {
                Arc::ptr_eq(table, other) && all(keys, other_keys)
            }
            (Expr::In(one, list), Expr::In(other, other_list)) => {
                let lists = [list.constant(), other_list.constant()];
                both(one, other) && (lists[0] == lists[1] || same(lists[0], lists[1]))
            }
            (
                Expr::Case { branches, otherwise, data_type },
                Expr::Case { branches: other_branches, otherwise: other_otherwise, data_type: other_type },
            ) => {
                data_type == other_type
                    && branches.len() == other_branches.len()
                    && branches
                        .iter()
                        .zip(other_branches)
                        .all(|(one, other)| both(&one.0, &other.0) && both(&one.1, &other.1))
                    && match (otherwise, other_otherwise) {
                        (Some(one), Some(other)) => both(one, other),
                        (one, other) => one.is_none() && other.is_none(),
                    }
            }
            _ => false,
        }
    }

    /// The values as codes of a dictionary, if they are a choice of constant texts, or texts of a look-up; `None` for other expressions.
    pub(crate) fn evaluate_coded(
        &self,
        columns: &dyn InputColumns,
        constants: &[ArrayRef],
    ) -> Result<Option<ArrayRef>> {
        if let Expr::Lookup(table, Some(column), key) = self {
            let keys = key.evaluate(columns, constants)?.into_array(columns.rows())?;
            return table.coded(&keys, *column, constants);
        }
        let Expr::Case { branches, otherwise, data_type: DataType::Utf8 } = self else { return Ok(None) };
        let mut texts = vec![None; branches.len() + 1];
        let values = branches.iter().map(|(_, value)| value).chain(otherwise.as_deref());
        for (text, value) in texts.iter_mut().zip(values) {
            let Expr::Constant(constant) = value else { return Ok(None) };
            let array = &constants[*constant];
            if array.is_valid(0) && *array.data_type() != DataType::Null {
                let Some(array) = array.as_string_opt::<i32>() else { return Ok(None) };
                *text = Some(array.value(0).to_owned());
            }
        }
        let mut codes = vec![i32::try_from(branches.len()).unwrap_or(i32::MAX); columns.rows()];
        let mut open = BooleanBuffer::new_set(columns.rows());
        for (code, (condition, _)) in (0i32..).zip(branches) {
            let mask = codes::condition(condition, columns, constants)?;
            let chosen = &open & mask.values();
            chosen.set_indices().for_each(|row| codes[row] = code);
            open = &open & &!mask.values();
        }
        let nulls = texts.iter().any(Option::is_none).then(|| {
            codes.iter().map(|code| texts[usize::try_from(*code).unwrap_or(0)].is_some()).collect::<NullBuffer>()
        });
        let texts: StringArray = texts.iter().map(|text| Some(text.as_deref().unwrap_or_default())).collect();
        let codes = Int32Array::new(codes.into(), nulls);
        Ok(Some(Arc::new(DictionaryArray::try_new(codes, Arc::new(texts))?)))
    }

    /// The values as an array: as codes where [`Expr::evaluate_coded`] gives some.
    pub(crate) fn evaluate_key(&self, columns: &dyn InputColumns, constants: &[ArrayRef]) -> Result<ArrayRef> {
        match self.evaluate_coded(columns, constants)? {
            Some(coded) => Ok(coded),
            None => self.evaluate(columns, constants)?.into_array(columns.rows()),
        }
    }

    /// The column that is read, if it is the only one.
    #[must_use]
    pub fn only_column(&self) -> Option<usize> {
        let (mut only, mut is_one) = (None, true);
        self.visit_columns(&mut |column| is_one &= only.replace(column).is_none_or(|former| former == column));
        only.filter(|_| is_one)
    }

    /// Calls `visit` with each column that is read.
    pub fn visit_columns(&self, visit: &mut impl FnMut(usize)) {
        self.visit(&mut |expr| {
            if let Expr::Column(position) = expr {
                visit(*position);
            }
        });
    }

    /// Calls `visit` with this expression and with all within it.
    pub fn visit(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        match self {
            Expr::Column(_) | Expr::Constant(_) => {}
            Expr::Binary(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            Expr::Not(expr)
            | Expr::Negative(expr)
            | Expr::IsNull(expr)
            | Expr::IsNotNull(expr)
            | Expr::Cast(expr, _)
            | Expr::In(expr, _)
            | Expr::Lookup(_, _, expr) => expr.visit(visit),
            Expr::Case { branches, otherwise, .. } => {
                for (condition, value) in branches {
                    condition.visit(visit);
                    value.visit(visit);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.visit(visit);
                }
            }
            Expr::Call(_, arguments) | Expr::Find(_, arguments) => {
                arguments.iter().for_each(|argument| argument.visit(visit));
            }
        }
    }

    /// This expression with each column replaced by the expression that `columns` has at its position.
    #[must_use]
    pub fn substitute(&self, columns: &[Expr]) -> Expr {
        let sub = |expr: &Expr| Box::new(expr.substitute(columns));
        match self {
            Expr::Column(position) => columns[*position].clone(),
            Expr::Constant(position) => Expr::Constant(*position),
            Expr::Binary(op, left, right) => Expr::Binary(*op, sub(left), sub(right)),
            Expr::Not(expr) => Expr::Not(sub(expr)),
            Expr::Negative(expr) => Expr::Negative(sub(expr)),
            Expr::IsNull(expr) => Expr::IsNull(sub(expr)),
            Expr::IsNotNull(expr) => Expr::IsNotNull(sub(expr)),
            Expr::Cast(expr, data_type) => Expr::Cast(sub(expr), data_type.clone()),
            Expr::In(expr, list) => Expr::In(sub(expr), Arc::clone(list)),
            Expr::Lookup(table, column, key) => Expr::Lookup(Arc::clone(table), *column, sub(key)),
            Expr::Find(table, keys) => {
                Expr::Find(Arc::clone(table), keys.iter().map(|key| key.substitute(columns)).collect())
            }
            Expr::Case { branches, otherwise, data_type } => Expr::Case {
                branches: branches.iter().map(|(c, v)| (c.substitute(columns), v.substitute(columns))).collect(),
                otherwise: otherwise.as_deref().map(sub),
                data_type: data_type.clone(),
            },
            Expr::Call(function, arguments) => {
                Expr::Call(Arc::clone(function), arguments.iter().map(|a| a.substitute(columns)).collect())
            }
        }
    }
}

/// Arithmetic on a widened value, or a comparison with a constant, in the value's own type if possible.
fn compare(
    op: BinaryOp,
    value: &Expr,
    wide: &DataType,
    constant: usize,
    columns: &dyn InputColumns,
    constants: &[ArrayRef],
) -> Result<Value> {
    let value = value.evaluate(columns, constants)?;
    let constant = &constants[constant];
    if constant.data_type() == wide
        && let Some(own) = own_comparison(op, value.data_type(), constant)
    {
        return match own {
            OwnComparison::With(op, own) => op.apply(&value, &Value::Scalar(own)),
            OwnComparison::Always(holds) => value.map(|array| {
                let all =
                    if holds { BooleanBuffer::new_set(array.len()) } else { BooleanBuffer::new_unset(array.len()) };
                Ok(Arc::new(BooleanArray::new(all, array.nulls().cloned())))
            }),
        };
    }
    op.apply(&convert(&value, wide)?, &Value::Scalar(Arc::clone(constant)))
}

fn convert(value: &Value, to: &DataType) -> Result<Value> {
    codes::of_own_texts(std::slice::from_ref(value), |values| values[0].map(|array| wide_of(array, to)))
}

fn wide_of(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    match widen(array, to) {
        Some(wide) => Ok(wide),
        None => Ok(cast_with_options(array, to, &options)?),
    }
}
