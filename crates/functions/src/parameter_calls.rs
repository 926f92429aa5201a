//! Calls in place of operators whose types depend on the values of parameters, until these are known.
//!
//! - `time + $1` is `time + __span($1)`: an interval, a text that is read as one, or whatever else can be added to a time or a date. DataFusion 55.2
//!   takes both sides of a sum to have one type, and has no sum of two times.
//! - `time AT TIME ZONE $1` is `__at_zone(time, $1)`. The zone is a part of its type.
//! - `VALUES (1), ($1)` is `VALUES (1), (__parameter($1))`. The planner casts the parameter to the type of the other values, which hides its own.
//!
//! `parameter_calls.rs` of `sql` puts the operand, or the cast, in their place once parameters have values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::arguments::is_text;

/// The name of the call in the place of an operand of `+` and `-`.
pub const SPAN: &str = "__span";

/// The name of the call in the place of `AT TIME ZONE`.
pub const AT_ZONE: &str = "__at_zone";

/// The name of the call around a parameter in `VALUES`.
pub const PARAMETER: &str = "__parameter";

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// A function of this file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ParameterCall {
    name: &'static str,
    signature: Signature,
}

impl ParameterCall {
    pub(super) fn all() -> [ParameterCall; 3] {
        [(SPAN, 1), (AT_ZONE, 2), (PARAMETER, 1)].map(|(name, arguments)| ParameterCall {
            name,
            signature: Signature::any(arguments, Volatility::Immutable),
        })
    }
}

impl ScalarUDFImpl for ParameterCall {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (self.name, arg_types) {
            (SPAN, [of]) if of.is_null() || is_text(of) => Ok(INTERVAL),
            (SPAN | PARAMETER, [of]) => Ok(of.clone()),
            // That of any zone, as far as anything but its text goes.
            (AT_ZONE, [_, _]) => Ok(DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))),
            _ => plan_err!("{} isn't a function", self.name),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.name, args.args.pop()) {
            (SPAN, Some(value)) => value.cast_to(&self.return_type(&[value.data_type()])?, None),
            (PARAMETER, Some(value)) => Ok(value),
            _ => plan_err!("AT TIME ZONE takes a zone that is known when the statement is planned"),
        }
    }
}

/// The sides of a sum, or of a difference, with a call of [`SPAN`] around a parameter beside a time or a date.
pub(super) fn with_spans(left: Expr, right: Expr, is_sum: bool, schema: &DFSchema) -> (Expr, Expr) {
    let time = |expr: &Expr| expr.get_type(schema).ok().filter(has_spans);
    match (left, right) {
        (left @ Expr::Placeholder(_), right @ Expr::Placeholder(_)) => (left, right),
        (left, Expr::Placeholder(parameter)) => match time(&left) {
            // A difference of two times, unless the parameter has another type.
            Some(of) if !is_sum => {
                let field = Field::new("parameter", of, true);
                let parameter = Placeholder { field: parameter.field.or_else(|| Some(Arc::new(field))), ..parameter };
                (left, span(Expr::Placeholder(parameter)))
            }
            Some(_) => (left, span(Expr::Placeholder(parameter))),
            None => (left, Expr::Placeholder(parameter)),
        },
        (left @ Expr::Placeholder(_), right) if is_sum && time(&right).is_some() => (span(left), right),
        (left, Expr::Literal(ScalarValue::Null, _)) if is_sum && time(&left).is_some() => {
            (left, Expr::Literal(ScalarValue::IntervalMonthDayNano(None), None))
        }
        sides => sides,
    }
}

fn has_spans(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_)
    )
}

fn span(of: Expr) -> Expr {
    let [function, ..] = ParameterCall::all();
    ScalarUDF::from(function).call(vec![of])
}

/// Whether an expression is a call of [`SPAN`].
pub fn is_span_of_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == SPAN)
}
