//! A cast that is named as the statement writes it: `resolve/casts.rs` says where there is one. It is planned and never run.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function: of a cast, and the text of it.
pub const CAST: &str = "__cast";

/// The scalar function [`CAST`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedCast {
    signature: Signature,
}

impl NamedCast {
    pub(super) fn new() -> NamedCast {
        NamedCast { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        CAST
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [_, Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => Ok(text.clone()),
            _ => plan_err!("{CAST} isn't a function"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        arg_types.first().cloned().map_or_else(|| plan_err!("{CAST} isn't a function"), Ok)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        args.arg_fields.first().cloned().map_or_else(|| plan_err!("{CAST} isn't a function"), Ok)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{CAST} isn't a function")
    }
}
