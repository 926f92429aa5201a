//! The times at which the group changes: the ends of buckets, the bounds of a key that is a step function of time,
//! such as a session by `CASE WHEN time < ...`, and the ends of the hours or days of a key such as `extract(hour FROM
//! time)`. Between two such times no key is evaluated.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use hashbrown::HashMap;

use super::TableAggregate;
use crate::aggregate::keys::optional_words;
use crate::aggregate::{Buckets, Key};
use crate::binary_op::BinaryOp;
use crate::error::{Error, Result};
use crate::expr::codes::never_fails;
use crate::expr::per_stretch::grain_of;
use crate::expr::{EvaluatedColumns, Expr};
use crate::search::partition_from;
use crate::texts::Texts;
use crate::value::Value;

/// The keys that change with time alone.
pub(super) struct Cuts<'a> {
    /// Position of the bucket among the keys.
    bucket: Option<(usize, &'a dyn Buckets)>,
    steps: Vec<StepKey<'a>>,
    grains: Vec<PeriodKey<'a>>,
    /// Nanoseconds in which no grain's key changes.
    grain: Option<i64>,
    /// Instants at which a step changes, ascending.
    instants: Vec<i64>,
    time_type: DataType,
    time_position: usize,
}

/// A key that has one value between two instants.
struct StepKey<'a> {
    key: usize,
    expr: &'a Expr,
    /// Its word between two instants, once it was computed; `None` for null.
    words: RefCell<Vec<Option<Option<u64>>>>,
}

/// A key that has one value in each hour, or day.
struct PeriodKey<'a> {
    key: usize,
    expr: &'a Expr,
    /// Its words by the beginning of the stretch of time, `None` for null.
    words: RefCell<HashMap<i64, Option<u64>>>,
}

/// Least nanoseconds of a grain. In shorter ones a symbol has so few rows that these are evaluated at less cost.
const GRAIN_MIN: i64 = 3_600_000_000_000;

/// A stretch of time in which no such key changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeCut {
    bucket: Option<i64>,
    /// How many of the instants have passed.
    passed: usize,
    /// Where the grain begins.
    grain: Option<i64>,
}

impl<'a> Cuts<'a> {
    pub fn new(aggregation: &'a TableAggregate<'a>) -> Cuts<'a> {
        let spec = aggregation.snapshot.spec();
        let time_position = spec.time_position();
        let mut cuts = Cuts {
            bucket: None,
            steps: Vec::new(),
            grains: Vec::new(),
            grain: None,
            instants: Vec::new(),
            time_type: spec.columns[time_position].column_type.arrow(),
            time_position,
        };
        for (key, of_key) in aggregation.keys.iter().enumerate().filter(|_| !aggregation.by_rows) {
            match of_key {
                Key::Bucket(buckets) => cuts.bucket = Some((key, buckets.as_ref())),
                Key::Value(expr) => {
                    if let Some(instants) = steps(expr, time_position, aggregation.constants) {
                        cuts.instants.extend(instants);
                        cuts.steps.push(StepKey { key, expr, words: RefCell::default() });
                    } else if let Some(grain) = grain(expr, time_position, aggregation.constants) {
                        cuts.grain = Some(cuts.grain.map_or(grain, |former: i64| former.min(grain)));
                        cuts.grains.push(PeriodKey { key, expr, words: RefCell::default() });
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
        self.bucket.is_none() && self.steps.is_empty() && self.grains.is_empty()
    }

    /// Whether a key is a step of time, or has one value in each of its grains.
    pub fn is_step(&self, key: usize) -> bool {
        self.steps.iter().any(|step| step.key == key) || self.grains.iter().any(|grain| grain.key == key)
    }

    /// Calls `visit` with the stretches of some rows, whose times ascend.
    pub fn each(
        &self,
        mut rows: Range<usize>,
        times: &[i64],
        mut visit: impl FnMut(Range<usize>, TimeCut) -> Result<()>,
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
    fn at(&self, instant: i64) -> Result<(TimeCut, i64)> {
        let passed = self.instants.partition_point(|step| *step <= instant);
        let mut end = self.instants.get(passed).copied().unwrap_or(i64::MAX);
        let mut cut = TimeCut { bucket: None, passed, grain: None };
        if let Some((_, buckets)) = self.bucket {
            let Some((start, bucket_end)) = buckets.bucket(instant) else {
                return Err(Error::Function(format!("the instant {instant} ns has no bucket")));
            };
            cut.bucket = Some(start);
            end = end.min(bucket_end);
        }
        if let Some(grain) = self.grain {
            let into = instant.rem_euclid(grain);
            cut.grain = Some(instant.saturating_sub(into));
            end = end.min(instant.saturating_add(grain - into));
        }
        Ok((cut, end))
    }

    /// The word of an expression that reads the time alone, at an instant.
    fn word_at(&self, expr: &Expr, instant: i64, texts: &mut Texts, constants: &[ArrayRef]) -> Result<Option<u64>> {
        let time = PrimitiveArray::<TimestampNanosecondType>::new(vec![instant].into(), None)
            .with_data_type(self.time_type.clone());
        let mut columns = vec![None; self.time_position + 1];
        columns[self.time_position] = Some(Value::Array(Arc::new(time)));
        let value = expr.evaluate(&EvaluatedColumns { columns, rows: 1 }, constants)?.into_array(1)?;
        Ok(optional_words(&value, texts)?[0])
    }

    /// Sets the words of the keys in a stretch.
    pub fn set(&self, cut: TimeCut, words: &mut [u64], texts: &mut [Texts], constants: &[ArrayRef]) -> Result<()> {
        if let (Some((key, _)), Some(bucket)) = (self.bucket, cut.bucket) {
            words[key] = bucket.cast_unsigned();
        }
        let nulls = words.len() - 1;
        for step in &self.steps {
            let cached = &mut step.words.borrow_mut()[cut.passed];
            let word = match *cached {
                Some(word) => word,
                None => {
                    let instant = match cut.passed.checked_sub(1) {
                        Some(last) => self.instants[last],
                        None => i64::MIN,
                    };
                    *cached.insert(self.word_at(step.expr, instant, &mut texts[step.key], constants)?)
                }
            };
            words[step.key] = word.unwrap_or(0);
            words[nulls] = words[nulls] & !(1 << step.key) | u64::from(word.is_none()) << step.key;
        }
        for grain in &self.grains {
            let start = cut.grain.unwrap_or(i64::MIN);
            let cached = grain.words.borrow().get(&start).copied();
            let word = match cached {
                Some(word) => word,
                None => {
                    let word = self.word_at(grain.expr, start, &mut texts[grain.key], constants)?;
                    grain.words.borrow_mut().insert(start, word);
                    word
                }
            };
            words[grain.key] = word.unwrap_or(0);
            words[nulls] = words[nulls] & !(1 << grain.key) | u64::from(word.is_none()) << grain.key;
        }
        Ok(())
    }
}

/// Whether a key is a step of time, or has one value in each of its grains.
pub(super) fn is_step(key: &Key, time: usize, constants: &[ArrayRef]) -> bool {
    let Key::Value(expr) = key else { return false };
    steps(expr, time, constants).is_some() || grain(expr, time, constants).is_some()
}

/// Nanoseconds, counted from the epoch, in which an expression of nothing but time keeps its value.
fn grain(expr: &Expr, time: usize, constants: &[ArrayRef]) -> Option<i64> {
    let is_time = |expr: &Expr| matches!(expr, Expr::Column(column) if *column == time);
    // A value of constants alone is none of time.
    grain_of(expr, &is_time, constants).filter(|grain| (GRAIN_MIN..i64::MAX).contains(grain))
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
        Expr::Column(_)
        | Expr::Negative(_)
        | Expr::In(_, _)
        | Expr::Lookup(_, _, _)
        | Expr::Find(_, _)
        | Expr::Call(_, _) => false,
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
    use crate::expr::ScalarFunction;

    /// A function of the hour of its argument.
    #[derive(Debug)]
    struct HourFunction;

    impl ScalarFunction for HourFunction {
        fn name(&self) -> &str {
            "hour"
        }

        fn call(&self, arguments: &[Value], _: usize) -> Result<Value> {
            Ok(arguments[0].clone())
        }

        fn grain(&self, _: &[Option<&ArrayRef>]) -> Option<i64> {
            Some(GRAIN_MIN)
        }
    }

    #[test]
    fn a_function_of_hours_keeps_its_value_in_them() {
        let found = |expr: &Expr| grain(expr, 2, &[]);
        let hour = |of: Expr| Expr::Call(Arc::new(HourFunction), vec![of]);
        let sum = |one: Expr, other: Expr| Expr::Binary(BinaryOp::Add, Box::new(one), Box::new(other));
        let day = Expr::Cast(Box::new(Expr::Column(2)), DataType::Date32);
        assert_eq!(found(&hour(Expr::Column(2))), Some(GRAIN_MIN));
        assert_eq!(found(&day), Some(24 * GRAIN_MIN));
        assert_eq!(found(&sum(hour(Expr::Column(2)), Expr::IsNull(Box::new(day.clone())))), Some(GRAIN_MIN));
        assert_eq!(found(&hour(hour(Expr::Column(2)))), Some(GRAIN_MIN));
        assert_eq!(found(&sum(day, Expr::Column(1))), None, "another column");
        assert_eq!(found(&hour(Expr::Column(1))), None);
        assert_eq!(found(&Expr::Column(2)), None);
    }

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
