//! The value of the only row of a scalar sub-query: null without rows, an error for more than one. `correlated.rs` makes it the aggregate of
//! correlated sub-queries.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility};

static ONLY_ROW: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Arc::new(AggregateUDF::from(OnlyRowAggregate::new())));

/// The value of the only row.
pub fn only_row(value: Expr) -> Expr {
    Expr::AggregateFunction(AggregateFunction::new_udf(
        Arc::clone(&ONLY_ROW),
        vec![value],
        false,
        None,
        Vec::new(),
        None,
    ))
}

/// The aggregate, which no statement names.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyRowAggregate {
    signature: Signature,
}

impl OnlyRowAggregate {
    fn new() -> OnlyRowAggregate {
        OnlyRowAggregate { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for OnlyRowAggregate {
    fn name(&self) -> &'static str {
        "__only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.return_field.data_type().clone();
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "value"), value, true)),
            Arc::new(Field::new(format_state_name(args.name, "rows"), DataType::UInt64, false)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(Row { value, rows: 0 }))
    }
}

/// The row that was seen.
#[derive(Debug)]
struct Row {
    value: ScalarValue,
    rows: u64,
}

impl Row {
    fn add(&mut self, rows: u64) -> Result<()> {
        self.rows += rows;
        if self.rows > 1 { exec_err!("Scalar subquery returned more than one row") } else { Ok(()) }
    }
}

impl Accumulator for Row {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].len() as u64)?;
        if !values[0].is_empty() {
            self.value = ScalarValue::try_from_array(&values[0], 0)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (place, rows) in states[1].as_primitive::<UInt64Type>().values().iter().enumerate() {
            self.add(*rows)?;
            if *rows > 0 {
                self.value = ScalarValue::try_from_array(&states[0], place)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::UInt64(Some(self.rows))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of::<Row>() - size_of::<ScalarValue>() + self.value.size()
    }
}
