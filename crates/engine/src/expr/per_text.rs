//! Costly functions of texts, evaluated once per distinct text of a block of rows.
//!
//! Texts with few distinct values often come without a dictionary. If a sample of the block has few distinct texts, and
//! the function takes longer per row than identifying the text does, the texts of the block are numbered, and the
//! function is called once for each. The time per row is measured. It only decides between two ways to compute the same
//! values.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt32Array};
use arrow::compute::take;

use super::codes::unless_refused;
use super::{EvaluatedColumns, Expr};
use crate::error::Result;
use crate::texts::Texts;
use crate::value::Value;

/// Fewest rows for which distinct texts are counted.
const ROWS_MIN: usize = 1_024;

/// Rows whose texts are counted first, and rows per distinct text that evaluation per text takes.
const SAMPLE_ROWS: usize = 2_048;
const ROWS_OF_TEXT_MIN: usize = 3;

/// Rows for which the function is called to see how long it takes.
const TIMED_ROWS: usize = 128;

/// The least time per row at which evaluation per text pays.
const ROW_MIN: Duration = Duration::from_nanos(40);

/// The values of a call that reads one column of plain texts, computed once per text; `None` if that doesn't pay, or evaluation refuses a text.
pub(crate) fn over_recurring_texts(
    expr: &Expr,
    column: usize,
    texts: &ArrayRef,
    constants: &[ArrayRef],
) -> Result<Option<Value>> {
    let Some(texts) = texts.as_string_opt::<i32>().filter(|texts| texts.len() >= ROWS_MIN) else { return Ok(None) };
    let started = Instant::now();
    if unless_refused(values(expr, column, Arc::new(texts.slice(0, TIMED_ROWS)), constants))?.is_none()
        || started.elapsed() < ROW_MIN * u32::try_from(TIMED_ROWS).unwrap_or(u32::MAX)
        || number_texts(&texts.slice(0, SAMPLE_ROWS.min(texts.len()))).is_none()
    {
        return Ok(None);
    }
    let Some((each, of_rows)) = number_texts(texts) else { return Ok(None) };
    let Some(values) = unless_refused(values(expr, column, Arc::new(each), constants))? else { return Ok(None) };
    Ok(Some(Value::Array(take(&values, &UInt32Array::from(of_rows), None)?)))
}

fn values(expr: &Expr, column: usize, texts: ArrayRef, constants: &[ArrayRef]) -> Result<ArrayRef> {
    let rows = texts.len();
    let mut columns = vec![None; column + 1];
    columns[column] = Some(Value::Array(texts));
    expr.evaluate(&EvaluatedColumns { columns, rows }, constants)?.into_array(rows)
}

/// The distinct texts, with null if there is one, and the number of each row's text; `None` if there are many.
fn number_texts(texts: &StringArray) -> Option<(StringArray, Vec<u32>)> {
    let most = texts.len() / ROWS_OF_TEXT_MIN;
    let mut distinct = Texts::default();
    let mut of_rows = Vec::with_capacity(texts.len());
    let null = u32::MAX;
    for start in (0..texts.len()).step_by(SAMPLE_ROWS) {
        let rows = texts.slice(start, SAMPLE_ROWS.min(texts.len() - start));
        of_rows.extend(distinct.numbers(&rows, null));
        if distinct.len() > most {
            return None;
        }
    }
    let of_null = u32::try_from(distinct.len()).ok()?;
    let has_null = texts.null_count() > 0;
    if has_null {
        of_rows.iter_mut().filter(|number| **number == null).for_each(|number| *number = of_null);
    }
    let each = distinct.iter().map(Some).chain(has_null.then_some(None));
    Some((each.collect(), of_rows))
}

#[cfg(test)]
mod tests {
    use super::super::ScalarFunction;
    use super::*;

    /// The length of a text, which takes long.
    #[derive(Debug)]
    struct Length;

    impl ScalarFunction for Length {
        fn name(&self) -> &str {
            "length"
        }

        fn call(&self, arguments: &[Value], rows: usize) -> Result<Value> {
            std::thread::sleep(Duration::from_millis(1));
            Ok(Value::Array(arrow::compute::kernels::length::length(&arguments[0].clone().into_array(rows)?)?))
        }
    }

    #[test]
    fn values_are_those_of_the_rows() {
        for different in [1, 7, 500, 100_000] {
            for nulls in [0, 5] {
                let text = |row: usize| (nulls == 0 || row % nulls > 0).then(|| "x".repeat(row * 31 % different % 40));
                let texts: ArrayRef = Arc::new((0..5_000).map(text).collect::<StringArray>());
                let columns =
                    EvaluatedColumns { columns: vec![Some(Value::Array(Arc::clone(&texts)))], rows: texts.len() };
                let call = Expr::Call(Arc::new(Length), vec![Expr::Column(0)]);
                let expected = arrow::compute::kernels::length::length(&texts).unwrap();
                let values = call.evaluate(&columns, &[]).unwrap().into_array(texts.len()).unwrap();
                assert_eq!(&values, &expected, "{different} {nulls}");
                if different == 7 {
                    assert!(over_recurring_texts(&call, 0, &texts, &[]).unwrap().is_some());
                }
            }
        }
        let many: ArrayRef = Arc::new((0..5_000).map(|row| Some(row.to_string())).collect::<StringArray>());
        assert!(number_texts(many.as_string::<i32>()).is_none());
    }
}
