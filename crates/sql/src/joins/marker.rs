//! Carries the parts of an as-of join from the relation planner to [`super::convert`], as a call in the filter of a
//! plain join.
//!
//! It is a plain join until then because DataFusion resolves names and `USING` only for plain joins.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use splay_engine::asof::Direction;

/// The call in the filter. Its arguments are the left time, the right time, the tolerance, then the pairs of keys.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AsofCall {
    pub(super) direction: Direction,
    pub(super) inclusive: bool,
    signature: Signature,
}

impl AsofCall {
    pub(super) fn new(direction: Direction, inclusive: bool) -> AsofCall {
        AsofCall { direction, inclusive, signature: Signature::variadic_any(Volatility::Immutable) }
    }

    /// The filter that carries `args`.
    pub(super) fn filter(self, args: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction { func: Arc::new(ScalarUDF::from(self)), args })
    }

    /// The call and its arguments, if a filter is one.
    pub(super) fn of(filter: &Expr) -> Option<(&AsofCall, &[Expr])> {
        let Expr::ScalarFunction(call) = filter else { return None };
        Some((call.func.inner().downcast_ref::<AsofCall>()?, &call.args))
    }
}

impl ScalarUDFImpl for AsofCall {
    fn name(&self) -> &str {
        "asof_match"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("an as-of join wasn't planned as one")
    }
}
