//! Operators as functions that the statement can bound. DataFusion offers no way to extend its own operators.
//!
//! - `||` reserves memory for its result from the statement's pool: in nested projections, `s || s as s` doubles a text
//!   each time.
//! - `+`, `-` and `*` of whole numbers fail if their type can't hold the result. DataFusion's operators wrap around.
//!
//! The functions call DataFusion's operators for the values.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, internal_err, utils::take_function_args};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;

static CONCATENATION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OperatorCall::function("||", Operator::StringConcat));
static SUM: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OperatorCall::function("+", Operator::Plus));
static DIFFERENCE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OperatorCall::function("-", Operator::Minus));
static PRODUCT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OperatorCall::function("*", Operator::Multiply));

/// The function of an operator, if it has one.
pub(crate) fn function_of(op: Operator) -> Option<Arc<ScalarUDF>> {
    Some(Arc::clone(match op {
        Operator::StringConcat => &*CONCATENATION,
        Operator::Plus => &*SUM,
        Operator::Minus => &*DIFFERENCE,
        Operator::Multiply => &*PRODUCT,
        _ => return None,
    }))
}

/// The operator that a function implements, if any.
pub(crate) fn operator_of(function: &ScalarUDF) -> Option<Operator> {
    function.inner().downcast_ref::<OperatorCall>().map(|call| call.op)
}

/// Whether an expression is a sum, difference or product of whole numbers, which these functions implement. DataFusion's own function for
/// the type names each operand of a chain, which costs the square of the chain's length.
pub(crate) fn is_of_whole_numbers(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarFunction(call)
        if matches!(operator_of(&call.func), Some(Operator::Plus | Operator::Minus | Operator::Multiply)))
}

/// `left op right`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OperatorCall {
    name: &'static str,
    op: Operator,
    signature: Signature,
}

impl OperatorCall {
    fn function(name: &'static str, op: Operator) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(OperatorCall { name, op, signature: Signature::any(2, Volatility::Immutable) }))
    }

    /// Operands that are such calls themselves append their names to the same text. Otherwise a chain would build a name for each of its operators.
    fn write_name(&self, args: &[Expr], name: &mut String) -> Result<()> {
        let [left, right] = take_function_args(self.name, args)?;
        Self::write_operand(left, name)?;
        name.extend([" ", self.name, " "]);
        Self::write_operand(right, name)
    }

    fn write_operand(operand: &Expr, name: &mut String) -> Result<()> {
        if let Expr::ScalarFunction(call) = operand
            && let Some(inner) = call.func.inner().downcast_ref::<OperatorCall>()
        {
            return inner.write_name(&call.args, name);
        }
        Ok(write!(name, "{}", operand.schema_name())?)
    }
}

impl ScalarUDFImpl for OperatorCall {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = String::new();
        self.write_name(args, &mut name)?;
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [left, right] = take_function_args(self.name(), arg_types)?;
        BinaryTypeCoercer::new(left, &self.op, right).get_result_type()
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, is_nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        let mut sides: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for (arg, field) in args.args.into_iter().zip(&args.arg_fields) {
            match arg {
                ColumnarValue::Scalar(value) => sides.push(Arc::new(Literal::new(value))),
                ColumnarValue::Array(array) => {
                    sides.push(Arc::new(Column::new("side", columns.len())));
                    fields.push(Field::new("side", field.data_type().clone(), true));
                    columns.push(array);
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(args.number_rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        match <[Arc<dyn PhysicalExpr>; 2]>::try_from(sides) {
            Ok([left, right]) => BinaryExpr::new(left, self.op, right).with_fail_on_overflow(true).evaluate(&batch),
            Err(_) => internal_err!("{} has two sides", self.name),
        }
    }
}
