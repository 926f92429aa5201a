//! `dev`, `sdev`, `svar`, `med`, `cor`, `cov` and `scov`: spread, middle and relation, under the names of kdb+.
//!
//! `dev` is the population deviation, `sdev` and `svar` are the sample forms, as in kdb+; they are names of DataFusion's
//! `stddev_pop`, `stddev_samp` and `var_samp`. DataFusion's `var` is the *sample* variance where that of kdb+ is the
//! population's, and it keeps its SQL meaning: the population variance is `var_pop`.
//!
//! `med` is the median as `Float64`: with an even count the mean of the middle two, also of whole numbers, where
//! DataFusion's `median` keeps the type of its argument and so rounds. Nulls are left out; nothing left gives null.
//!
//! `cor`, `cov` (of the population) and `scov` (of a sample) are DataFusion's `corr`, `covar_pop` and `covar_samp`.
//!
//! Source: code.kx.com/q/ref/cor, code.kx.com/q/ref/cov, code.kx.com/q/ref/dev, code.kx.com/q/ref/var, code.kx.com/q/ref/med.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::var_samp_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use crate::corrected_aggregates::corrected;

/// `dev`, `sdev`, `svar`, `med`, `cor`, `cov` and `scov`.
pub(super) fn aggregates() -> Vec<AggregateUDF> {
    let named =
        |function: Arc<AggregateUDF>, alias| corrected(Arc::new(function.as_ref().clone().with_aliases([alias])));
    vec![
        named(stddev_pop_udaf(), "dev"),
        named(stddev_udaf(), "sdev"),
        named(var_samp_udaf(), "svar"),
        AggregateUDF::from(FloatMedian::new()),
        named(corr_udaf(), "cor"),
        named(covar_pop_udaf(), "cov"),
        named(covar_samp_udaf(), "scov"),
    ]
}

/// DataFusion's median, over `Float64`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatMedian {
    signature: Signature,
    median: Arc<AggregateUDF>,
}

impl FloatMedian {
    fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), median: median_udaf() }
    }
}

impl AggregateUDFImpl for FloatMedian {
    fn name(&self) -> &str {
        "med"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [x] if x.is_numeric() || x.is_null() => Ok(vec![DataType::Float64]),
            _ => plan_err!("med takes one number"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.median.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.median.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.median.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.median.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.median.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}
