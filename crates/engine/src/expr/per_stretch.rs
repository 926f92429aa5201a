//! Functions of a timestamp or a date, evaluated once for each run of rows in which they can't change.
//!
//! `extract(hour FROM time)` has one value per hour, `date_trunc('minute', time)` one per minute. The function is
//! called for the first row of each such interval, and its value is reused for the other rows of the interval,
//! wherever they are. Rows mostly ascend in time, so adjacent rows share an interval. If there are nearly as many
//! intervals as rows, each row is evaluated. Any function of a date alone has one value for each date.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Date32Array, PrimitiveArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Date32Type, TimeUnit, TimestampNanosecondType};
use hashbrown::HashMap;

use super::{Expr, InputColumns};
use crate::error::{Error, Result};
use crate::shift::DAY;
use crate::value::Value;

/// Average rows of a stretch from which on its first row is evaluated for all of them.
const ROWS_OF_STRETCH_MIN: usize = 4;

/// Rows from which on stretches are looked for.
pub(crate) const ROWS_MIN: usize = 64;

/// Since the beginning of 1973 the clocks of all zones have been whole quarters of an hour away from UTC.
const QUARTERS_FROM: i64 = 94_694_400_000_000_000;

const MINUTE: i64 = 60_000_000_000;

/// The grain, in nanoseconds counted from the epoch, within which an expression of one column of instants has one value. `is_instant` identifies that
/// column.
pub(crate) fn grain_of(expr: &Expr, is_instant: &dyn Fn(&Expr) -> bool, constants: &[ArrayRef]) -> Option<i64> {
    // Shorter grains divide longer ones, so the lesser of two is a grain of both.
    let least = |exprs: &[&Expr]| {
        exprs.iter().try_fold(i64::MAX, |least, expr| Some(least.min(grain_of(expr, is_instant, constants)?)))
    };
    match expr {
        Expr::Constant(_) => Some(i64::MAX),
        Expr::Column(_) | Expr::Lookup(_, _, _) | Expr::Find(_, _) => None,
        Expr::Cast(inner, DataType::Date32) if is_instant(inner) => Some(DAY),
        Expr::Not(inner)
        | Expr::Negative(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::In(inner, _)
        | Expr::Cast(inner, _) => grain_of(inner, is_instant, constants),
        Expr::Binary(_, left, right) => least(&[left, right]),
        Expr::Case { branches, otherwise, .. } => {
            let branches = branches.iter().flat_map(|(condition, value)| [condition, value]);
            least(&branches.chain(otherwise.as_deref()).collect::<Vec<_>>())
        }
        Expr::Call(function, arguments) if arguments.iter().any(is_instant) => {
            let constant_arguments: Vec<Option<&ArrayRef>> = arguments
                .iter()
                .map(|argument| match argument {
                    Expr::Constant(constant) => Some(&constants[*constant]),
                    _ => None,
                })
                .collect();
            // The instant alone isn't known.
            let is_one = constant_arguments.iter().filter(|argument| argument.is_none()).count() == 1;
            function.grain(&constant_arguments).filter(|_| is_one)
        }
        Expr::Call(_, arguments) => least(&arguments.iter().collect::<Vec<_>>()),
    }
}

/// The column whose instants an expression is, in whatever zone.
fn instants(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => Some(*column),
        Expr::Cast(inner, DataType::Timestamp(TimeUnit::Nanosecond, Some(_))) => instants(inner),
        _ => None,
    }
}

/// The values of a call that reads one column of instants or dates alone, evaluated once per stretch of rows; `None` if that isn't known to be exact, or
/// doesn't pay.
pub(crate) fn over_stretches(
    expr: &Expr,
    column: usize,
    values: &ArrayRef,
    constants: &[ArrayRef],
) -> Result<Option<Value>> {
    if values.len() < ROWS_MIN {
        return Ok(None);
    }
    if let Some(dates) = values.as_primitive_opt::<Date32Type>() {
        let Some((firsts, of_rows)) = stretches(dates, 1, i64::MIN) else { return Ok(None) };
        let firsts = firsts.into_iter().map(|first| first.and_then(|date| i32::try_from(date).ok()));
        return of_firsts(expr, column, Arc::new(Date32Array::from_iter(firsts)), of_rows, constants).map(Some);
    }
    let DataType::Timestamp(TimeUnit::Nanosecond, zone) = values.data_type() else { return Ok(None) };
    let is_instant = |expr: &Expr| instants(expr) == Some(column);
    let Some(grain) = grain_of(expr, &is_instant, constants).filter(|grain| (1..i64::MAX).contains(grain)) else {
        return Ok(None);
    };
    let is_cast = casts_to_zone(expr);
    // Without a zone a cast to one reads a clock, which may be put back.
    if is_cast && zone.is_none() {
        return Ok(None);
    }
    // Dates of other zones than UTC.
    let is_utc = zone.as_deref().is_none_or(|zone| zone == "UTC") && !is_cast;
    let grain = if grain == DAY && !is_utc { MINUTE } else { grain };
    let Some((firsts, of_rows)) = stretches(values.as_primitive::<TimestampNanosecondType>(), grain, QUARTERS_FROM)
    else {
        return Ok(None);
    };
    let instants = PrimitiveArray::<TimestampNanosecondType>::from_iter(firsts).with_timezone_opt(zone.clone());
    of_firsts(expr, column, Arc::new(instants), of_rows, constants).map(Some)
}

/// The values of an expression for one row of each stretch, by the rows' stretches.
fn of_firsts(expr: &Expr, column: usize, firsts: ArrayRef, of_rows: Vec<u32>, constants: &[ArrayRef]) -> Result<Value> {
    let first_rows = FirstRows { column, firsts };
    let values = expr.evaluate(&first_rows, constants)?.into_array(first_rows.rows())?;
    Ok(Value::Array(take(&values, &UInt32Array::from(of_rows), None)?))
}

fn casts_to_zone(expr: &Expr) -> bool {
    let mut any_cast = false;
    expr.visit(&mut |expr| any_cast |= matches!(expr, Expr::Cast(_, DataType::Timestamp(_, Some(_)))));
    any_cast
}

/// One instant for each stretch of rows within a grain, null for the stretch of rows without an instant, and the number of each row's stretch; rows
/// of a stretch needn't be adjacent. `None` if there are many stretches, or one of them is before the `earliest` instant.
fn stretches<T: ArrowPrimitiveType>(
    instants: &PrimitiveArray<T>,
    grain: i64,
    earliest: i64,
) -> Option<(Vec<Option<i64>>, Vec<u32>)>
where
    T::Native: Into<i64>,
{
    let most = instants.len() / ROWS_OF_STRETCH_MIN;
    let (mut firsts, mut of_rows) = (Vec::new(), Vec::with_capacity(instants.len()));
    let mut add = |first: Option<i64>| {
        let stretch = u32::try_from(firsts.len()).ok().filter(|_| firsts.len() < most)?;
        firsts.push(first);
        Some(stretch)
    };
    let mut stretch_by_start: HashMap<i64, u32> = HashMap::new();
    let (mut stretch, mut start, mut end, mut of_null) = (0, i64::MAX, i64::MIN, None);
    let nulls = instants.nulls().filter(|nulls| nulls.null_count() > 0);
    for (row, instant) in instants.values().iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            let null = match of_null {
                Some(null) => null,
                None => *of_null.insert(add(None)?),
            };
            of_rows.push(null);
            continue;
        }
        let instant: i64 = (*instant).into();
        if !(start..end).contains(&instant) {
            start = instant - instant.rem_euclid(grain);
            end = start.checked_add(grain)?;
            stretch = match stretch_by_start.get(&start) {
                Some(stretch) => *stretch,
                None if instant < earliest => return None,
                None => *stretch_by_start.entry(start).or_insert(add(Some(instant))?),
            };
        }
        of_rows.push(stretch);
    }
    Some((firsts, of_rows))
}

/// The first row of each stretch; it has only the instant or the date.
struct FirstRows {
    column: usize,
    firsts: ArrayRef,
}

impl InputColumns for FirstRows {
    fn rows(&self) -> usize {
        self.firsts.len()
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position != self.column {
            return Err(Error::Unsupported("a second column of instants".to_owned()));
        }
        Ok(Value::Array(Arc::clone(&self.firsts)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray, TimestampNanosecondArray};

    use super::super::{EvaluatedColumns, ScalarFunction};
    use super::*;

    /// The minute of an instant since the epoch, and how often it was asked for.
    #[derive(Debug, Default)]
    struct Minute(std::sync::atomic::AtomicUsize);

    impl ScalarFunction for Minute {
        fn name(&self) -> &str {
            "minute"
        }

        fn call(&self, arguments: &[Value], rows: usize) -> Result<Value> {
            self.0.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
            let Value::Array(instants) = &arguments[0] else { return Err(Error::Function("no array".to_owned())) };
            let instants = instants.as_primitive::<TimestampNanosecondType>().iter();
            let minutes = instants.map(|instant| instant.map(|instant| instant.div_euclid(MINUTE)));
            Ok(Value::Array(Arc::new(minutes.collect::<Int64Array>())))
        }

        fn grain(&self, _: &[Option<&ArrayRef>]) -> Option<i64> {
            Some(MINUTE)
        }
    }

    fn evaluations(instants: Vec<Option<i64>>) -> (Vec<Option<i64>>, usize) {
        let function = Arc::new(Minute::default());
        let (rows, instants) = (instants.len(), Arc::new(TimestampNanosecondArray::from(instants)) as ArrayRef);
        let columns = EvaluatedColumns { columns: vec![Some(Value::Array(instants))], rows };
        let call = Expr::Call(Arc::<Minute>::clone(&function), vec![Expr::Column(0)]);
        let minutes = call.evaluate(&columns, &[]).unwrap().into_array(rows).unwrap();
        let minutes = minutes.as_primitive::<arrow::datatypes::Int64Type>().iter().collect();
        (minutes, function.0.load(std::sync::atomic::Ordering::Relaxed))
    }

    #[test]
    fn a_function_is_called_once_for_each_stretch() {
        let from = QUARTERS_FROM + 7 * MINUTE - 3;
        let minutes = |instants: &[Option<i64>]| {
            instants.iter().map(|instant| instant.map(|instant| instant.div_euclid(MINUTE))).collect::<Vec<_>>()
        };
        let slow: Vec<Option<i64>> = (0..1_000).map(|row| Some(from + row * 7_000_000_000 % (40 * MINUTE))).collect();
        assert_eq!(evaluations(slow.clone()), (minutes(&slow), 41));
        let mut with_nulls = slow.clone();
        (300..600).step_by(2).for_each(|row| with_nulls[row] = None);
        assert_eq!(evaluations(with_nulls.clone()), (minutes(&with_nulls), 42));
        // The rows in turns from one end and from the other.
        let turned: Vec<Option<i64>> = (0..500).flat_map(|row| [slow[row], slow[999 - row]]).collect();
        assert_eq!(evaluations(turned.clone()), (minutes(&turned), 41));
        // Rows of different minutes, few rows, and years in which any zone may be off by seconds: the function is called for each row.
        let quick: Vec<Option<i64>> = (0..1_000).map(|row| Some(from + row * 31_000_000_000)).collect();
        let early: Vec<Option<i64>> =
            slow.iter().map(|instant| instant.map(|instant| instant - QUARTERS_FROM)).collect();
        for instants in [quick, early, slow[..63].to_vec(), Vec::new()] {
            assert_eq!(evaluations(instants.clone()), (minutes(&instants), instants.len()));
        }
    }

    #[test]
    fn only_what_reads_one_column_of_instants_has_a_grain() {
        let constants = [Arc::new(StringArray::from(vec!["x"])) as ArrayRef];
        let grain = |expr: &Expr| grain_of(expr, &|expr| instants(expr) == Some(0), &constants);
        let minute = |of: Expr| Expr::Call(Arc::new(Minute::default()), vec![of]);
        let zone = DataType::Timestamp(TimeUnit::Nanosecond, Some("America/New_York".into()));
        let cast = |to: DataType| Expr::Cast(Box::new(Expr::Column(0)), to);
        assert_eq!(grain(&minute(Expr::Column(0))), Some(MINUTE));
        assert_eq!(grain(&minute(cast(zone))), Some(MINUTE));
        assert_eq!(grain(&cast(DataType::Date32)), Some(DAY));
        assert_eq!(grain(&minute(Expr::Column(1))), None);
        assert_eq!(grain(&minute(cast(DataType::Timestamp(TimeUnit::Second, None)))), None);
        assert_eq!(grain(&Expr::Constant(0)), Some(i64::MAX));
    }
}
