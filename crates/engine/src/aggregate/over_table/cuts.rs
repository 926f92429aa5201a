//! Where groups change as time goes on: at the ends of buckets, and at the instants at which a key that is a step of time, such
//! as a session by `CASE WHEN time < ...`, has another value. Between them nothing is evaluated row by row.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};

use super::TableAggregate;
use crate::aggregate::groups::Texts;
use crate::aggregate::keys::optional_words;
use crate::aggregate::{Buckets, Key};
use crate::codes::never_fails;
use crate::error::{Error, Result};
use crate::expr::{BinaryOp, Chosen, Expr, Value};
use crate::search::partition_from;

/// The keys that change with time alone.
pub(super) struct Cuts<'a> {
    /// Position of the bucket among the keys.
    bucket: Option<(usize, &'a dyn Buckets)>,
    steps: Vec<Step<'a>>,
    /// Instants at which a step changes, ascending.
    instants: Vec<i64>,
    time_type: DataType,
    time_position: usize,
}

/// A key that has one value between two instants.
struct Step<'a> {
    key: usize,
    expr: &'a Expr,
    /// Its word between two instants, `None` for null, once it was asked for.
    words: RefCell<Vec<Option<Option<u64>>>>,
}

/// A stretch of time in which no such key changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    bucket: Option<i64>,
    /// How many of the instants have passed.
    passed: usize,
}

impl<'a> Cuts<'a> {
    pub fn new(asked: &'a TableAggregate<'a>) -> Cuts<'a> {
        let spec = asked.snapshot.spec();
        let time_position = spec.time_position();
        let mut cuts = Cuts {
            bucket: None,
            steps: Vec::new(),
            instants: Vec::new(),
            time_type: spec.columns[time_position].column_type.arrow(),
            time_position,
        };
        for (key, of_key) in asked.keys.iter().enumerate() {
            match of_key {
                Key::Bucket(buckets) => cuts.bucket = Some((key, buckets.as_ref())),
                Key::Value(expr) => {
                    if let Some(instants) = steps(expr, time_position, asked.constants) {
                        cuts.instants.extend(instants);
                        cuts.steps.push(Step { key, expr, words: RefCell::default() });
                    }
                }
                Key::Symbol | Key::Date => {}
            }
        }
        cuts.instants.sort_unstable();
        cuts.instants.dedup();
        for step in &mut cuts.steps {
            step.words.get_mut().resize(cuts.instants.len() + 1, None);
        }
        cuts
    }

    /// Whether no key changes with time alone.
    pub fn is_empty(&self) -> bool {
        self.bucket.is_none() && self.steps.is_empty()
    }

    /// Whether a key is a step of time.
    pub fn is_step(&self, key: usize) -> bool {
        self.steps.iter().any(|step| step.key == key)
    }

    /// Calls `visit` with the stretches of some rows, whose times ascend.
    pub fn each(
        &self,
        mut rows: Range<usize>,
        times: &[i64],
        mut visit: impl FnMut(Range<usize>, Cut) -> Result<()>,
    ) -> Result<()> {
        // Buckets that follow each other have about as many rows.
        let mut guess = 0;
        while !rows.is_empty() {
            let (cut, cut_end) = self.at(times[rows.start])?;
            guess = partition_from(&times[rows.start + 1..rows.end], guess, |time| time < cut_end);
            let end = rows.start + 1 + guess;
            visit(rows.start..end, cut)?;
            rows.start = end;
        }
        Ok(())
    }

    /// The stretch of an instant, and its end, which isn't part of it.
    fn at(&self, instant: i64) -> Result<(Cut, i64)> {
        let passed = self.instants.partition_point(|known| *known <= instant);
        let mut end = self.instants.get(passed).copied().unwrap_or(i64::MAX);
        let mut cut = Cut { bucket: None, passed };
        if let Some((_, buckets)) = self.bucket {
            let Some((start, bucket_end)) = buckets.bucket(instant) else {
                return Err(Error::Function(format!("the instant {instant} ns has no bucket")));
            };
            cut.bucket = Some(start);
            end = end.min(bucket_end);
        }
        Ok((cut, end))
    }

    /// Sets the words of the keys in a stretch.
    pub fn set(&self, cut: Cut, words: &mut [u64], texts: &mut [Texts], constants: &[ArrayRef]) -> Result<()> {
        if let (Some((key, _)), Some(bucket)) = (self.bucket, cut.bucket) {
            words[key] = bucket.cast_unsigned();
        }
        let nulls = words.len() - 1;
        for step in &self.steps {
            let known = &mut step.words.borrow_mut()[cut.passed];
            let word = match *known {
                Some(word) => word,
                None => {
                    let instant = match cut.passed.checked_sub(1) {
                        Some(last) => self.instants[last],
                        None => i64::MIN,
                    };
                    let time = PrimitiveArray::<TimestampNanosecondType>::new(vec![instant].into(), None)
                        .with_data_type(self.time_type.clone());
                    let mut columns = vec![None; self.time_position + 1];
                    columns[self.time_position] = Some(Value::Array(Arc::new(time)));
                    let value = step.expr.evaluate(&Chosen { columns, rows: 1 }, constants)?.into_array(1)?;
                    *known.insert(optional_words(&value, &mut texts[step.key])?[0])
                }
            };
            words[step.key] = word.unwrap_or(0);
            words[nulls] = words[nulls] & !(1 << step.key) | u64::from(word.is_none()) << step.key;
        }
        Ok(())
    }
}

/// Whether a key is a step of time.
pub(super) fn is_step(key: &Key, time: usize, constants: &[ArrayRef]) -> bool {
    matches!(key, Key::Value(expr) if steps(expr, time, constants).is_some())
}

/// The instants at which an expression may change, if it says of nothing but time whether it is before or after constants.
fn steps(expr: &Expr, time: usize, constants: &[ArrayRef]) -> Option<Vec<i64>> {
    let mut instants = Vec::new();
    (never_fails(expr) && collect(expr, time, constants, &mut instants) && !instants.is_empty()).then_some(instants)
}

fn collect(expr: &Expr, time: usize, constants: &[ArrayRef], instants: &mut Vec<i64>) -> bool {
    let mut all = |exprs: &[&Expr]| exprs.iter().all(|expr| collect(expr, time, constants, instants));
    match expr {
        Expr::Constant(_) => true,
        Expr::Column(_) | Expr::Negative(_) | Expr::In(_, _) | Expr::Lookup(_, _, _) | Expr::Call(_, _) => false,
        Expr::Not(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) | Expr::Cast(inner, _) => all(&[inner]),
        Expr::Case { branches, otherwise, .. } => {
            branches.iter().all(|(condition, value)| all(&[condition, value]))
                && otherwise.as_deref().is_none_or(|otherwise| all(&[otherwise]))
        }
        Expr::Binary(op, left, right) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Constant(constant)) | (Expr::Constant(constant), Expr::Column(column))
                if *column == time =>
            {
                let swapped = matches!(left.as_ref(), Expr::Constant(_));
                compared(if swapped { op.swapped() } else { *op }, &constants[*constant], instants)
            }
            (left, right) => all(&[left, right]),
        },
    }
}

/// Adds the instants at which a comparison of the time with a constant changes.
fn compared(op: BinaryOp, constant: &ArrayRef, instants: &mut Vec<i64>) -> bool {
    if !matches!(constant.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _)) || constant.len() != 1 {
        return false;
    }
    if constant.is_null(0) {
        return true;
    }
    let at = constant.as_primitive::<TimestampNanosecondType>().value(0);
    let after = at.checked_add(1);
    match op {
        BinaryOp::Less | BinaryOp::GreaterOrEqual => instants.push(at),
        BinaryOp::LessOrEqual | BinaryOp::Greater => instants.extend(after),
        BinaryOp::Equal | BinaryOp::NotEqual => instants.extend([Some(at), after].into_iter().flatten()),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn a_choice_by_time_changes_where_its_conditions_do() {
        let at = |instant: Option<i64>| Arc::new(TimestampNanosecondArray::from(vec![instant])) as ArrayRef;
        let text = Arc::new(StringArray::from(vec!["a"])) as ArrayRef;
        let constants = [at(Some(10)), at(Some(i64::MAX)), at(None), text];
        let compare = |op, constant| Expr::Binary(op, Box::new(Expr::Column(2)), Box::new(Expr::Constant(constant)));
        let case = |conditions: Vec<Expr>| Expr::Case {
            branches: conditions.into_iter().map(|condition| (condition, Expr::Constant(3))).collect(),
            otherwise: None,
            data_type: DataType::Utf8,
        };
        let found = |expr: &Expr| steps(expr, 2, &constants);
        let swapped = Expr::Binary(BinaryOp::Less, Box::new(Expr::Constant(0)), Box::new(Expr::Column(2)));
        assert_eq!(found(&case(vec![compare(BinaryOp::Less, 0)])), Some(vec![10]));
        assert_eq!(found(&case(vec![swapped])), Some(vec![11]));
        assert_eq!(found(&compare(BinaryOp::Equal, 0)), Some(vec![10, 11]));
        assert_eq!(found(&compare(BinaryOp::LessOrEqual, 1)), None, "it never changes");
        assert_eq!(found(&compare(BinaryOp::Less, 2)), None, "nor does what is compared with null");
        assert_eq!(found(&case(vec![compare(BinaryOp::Less, 0), compare(BinaryOp::Less, 2)])), Some(vec![10]));
        let other = Expr::IsNull(Box::new(Expr::Column(1)));
        assert_eq!(found(&case(vec![compare(BinaryOp::Less, 0), other])), None);
        assert_eq!(found(&Expr::Column(2)), None);
        let subtracted = Expr::Binary(BinaryOp::Subtract, Box::new(Expr::Column(2)), Box::new(Expr::Constant(0)));
        assert_eq!(found(&subtracted), None);
    }
}
