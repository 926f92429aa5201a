//! Hides casts that map several values to one from DataFusion's inference about conditions.
//!
//! - **The rule.** In a condition such as `time::date = DATE '2024-03-09'` the cast is wrapped in a function about
//!   whose argument DataFusion infers nothing. This happens after filters have been pushed down to files, which use
//!   them to skip row groups.
//! - **The reason.** DataFusion 55.2 inverts the cast: it infers that `time` is midnight of that day, and so a
//!   constant. It then removes a sort by `time` above the condition, and the order of a window.
//! - **It can go** once `CastExpr` propagates bounds only if the result of the cast determines its argument.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

use crate::numbers::AS_CAST;

/// Hides casts in the conditions of filters.
#[derive(Debug)]
pub(crate) struct HideNarrowingCasts;

impl PhysicalOptimizerRule for HideNarrowingCasts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut options = None;
        let hidden = plan.transform_up(|operator| {
            let Some(filter) = operator.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(operator)) };
            let schema = filter.input().schema();
            let predicate = Arc::clone(filter.predicate()).transform_up(|expr| {
                let cast = expr.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
                let tried = || expr.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
                let Some((argument, to)) = cast.or_else(tried) else { return Ok(Transformed::no(expr)) };
                if CastExpr::check_bigger_cast(to, &argument.data_type(&schema)?) {
                    return Ok(Transformed::no(expr));
                }
                let options = options.get_or_insert_with(|| Arc::new(config.clone()));
                let function = Arc::clone(&AS_CAST);
                let hidden = ScalarFunctionExpr::try_new(function, vec![expr], &schema, Arc::clone(options))?;
                Ok(Transformed::yes(Arc::new(hidden) as Arc<dyn PhysicalExpr>))
            })?;
            if !predicate.transformed {
                return Ok(Transformed::no(operator));
            }
            let filter = FilterExecBuilder::from(filter).with_predicate(predicate.data).build()?;
            Ok(Transformed::yes(Arc::new(filter) as Arc<dyn ExecutionPlan>))
        });
        hidden.data()
    }

    fn name(&self) -> &str {
        "hide_narrowing_casts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
