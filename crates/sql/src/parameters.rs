//! Values for the placeholders of a statement.

use std::collections::HashMap;

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;

use crate::error::{Error, Result};

/// Values for the placeholders of a statement: `$1`, `$2` or `$name`.
#[derive(Debug, Clone, Default)]
pub enum Parameters {
    /// The statement has none.
    #[default]
    None,
    /// By position, from `$1`.
    Positional(Vec<ScalarValue>),
    /// By name.
    Named(HashMap<String, ScalarValue>),
}

impl Parameters {
    /// A plan with values in place of its placeholders; each needs one.
    pub(crate) fn put_into(self, plan: LogicalPlan, wrap: impl Fn(DataFusionError) -> Error) -> Result<LogicalPlan> {
        let values = match self {
            Parameters::None => None,
            Parameters::Positional(values) => {
                Some(ParamValues::List(values.into_iter().map(ScalarAndMetadata::from).collect()))
            }
            Parameters::Named(values) => Some(ParamValues::Map(
                values.into_iter().map(|(name, value)| (name.to_lowercase(), ScalarAndMetadata::from(value))).collect(),
            )),
        };
        let plan = match values {
            None => plan,
            Some(values) => plan.with_param_values(values).map_err(&wrap)?,
        };
        match plan.get_parameter_names().map_err(&wrap)?.into_iter().next() {
            None => Ok(plan),
            Some(name) => Err(Error::Statement { message: format!("the parameter {name} has no value") }),
        }
    }
}
