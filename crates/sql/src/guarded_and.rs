//! Evaluates conditions that may fail only on the rows that pass the other conditions of an `AND`.
//!
//! - `n <> 0 AND 10 / n > 1` doesn't divide by zero, and `time > '2024-01-01' AND in_session(time, 'NYSE')` doesn't
//!   fail for rows before the calendar begins. DataFusion 55.2 evaluates both sides on all rows, unless few pass the
//!   first, and rewrites a `CASE` of conditions to an `AND`.
//! - Conditions that may fail come last, whatever their order in the text.
//! - Arithmetic rarely fails. `flag AND a + a > 0` is evaluated on all rows first; only if a row fails, because `a + a`
//!   overflows, it is evaluated again on the rows that pass the other conditions.
//! - A filter still has the other conditions of its own, because operators above it infer from them which columns are
//!   constant.
//!
//! Tick plans follow the same rules (`tick/`).

use std::fmt::{Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::kernels::boolean::not;
use arrow::compute::{and_kleene, prep_null_mask_filter};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, NegativeExpr};
use datafusion::physical_expr::utils::conjunction;
use datafusion::physical_expr::{ScalarFunctionExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{PhysicalExpr, is_volatile};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use splay_functions::fails_out_of_range;
use splay_functions::walk::Walk;

use crate::operator_call::operator_of;
use crate::pushdown;

type PhysicalExprRef = Arc<dyn PhysicalExpr>;

/// The plan with such conditions in its filters and projections.
pub(crate) fn guard_conditions(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            return Ok(match guarded_filter(filter)? {
                Some(guarded) => Transformed::yes(guarded),
                None => Transformed::no(node),
            });
        }
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            return Ok(match guarded_projection(projection)? {
                Some(guarded) => Transformed::yes(guarded),
                None => Transformed::no(node),
            });
        }
        Ok(Transformed::no(node))
    })
    .map(|transformed| transformed.data)
}

fn guarded_filter(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = filter.input().schema();
    let guarded = guarded(Arc::clone(filter.predicate()), &schema)?;
    if !guarded.transformed {
        return Ok(None);
    }
    let conditions = split_conjunction(filter.predicate());
    let predicate = match conditions.iter().any(|condition| may_fail(condition, &schema)) {
        true => {
            let is_safe =
                |condition: &&PhysicalExprRef| !may_fail(condition, &schema) && !may_overflow(condition, &schema);
            let others = conditions.into_iter().filter(is_safe).cloned();
            conjunction(others.chain([guarded.data]))
        }
        false => guarded.data,
    };
    let filter = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
    Ok(Some(Arc::new(filter)))
}

fn guarded_projection(projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = projection.input().schema();
    let mut is_changed = false;
    let mut exprs = Vec::with_capacity(projection.expr().len());
    for ProjectionExpr { expr, alias } in projection.expr() {
        let guarded = guarded(Arc::clone(expr), &schema)?;
        is_changed |= guarded.transformed;
        exprs.push(ProjectionExpr { expr: guarded.data, alias: alias.clone() });
    }
    if !is_changed {
        return Ok(None);
    }
    let (input, shown) = (Arc::clone(projection.input()), projection.schema());
    Ok(Some(Arc::new(ProjectionExec::try_new_with_schema_metadata(exprs, input, &shown)?)))
}

/// The condition with each `AND` within it that has a side which may fail.
pub(crate) fn guarded_condition(condition: PhysicalExprRef, schema: &Schema) -> Result<PhysicalExprRef> {
    guarded(condition, schema).map(|guarded| guarded.data)
}

/// The expression with each `AND` that has a side which may fail.
fn guarded(expr: PhysicalExprRef, schema: &Schema) -> Result<Transformed<PhysicalExprRef>> {
    let retried = retried(expr, schema)?;
    let guarded = Walk::transform_up(retried.data, |expr| {
        let Some(both) = expr.downcast_ref::<BinaryExpr>().filter(|both| *both.op() == Operator::And) else {
            return Ok(Transformed::no(expr));
        };
        let (left, right) = (both.left(), both.right());
        let (first, last) = match (may_fail(left, schema), may_fail(right, schema)) {
            (false, false) => return Ok(Transformed::no(expr)),
            (true, false) => (right, left),
            (_, true) => (left, right),
        };
        let guarded = GuardedAnd { first: Arc::clone(first), last: Arc::clone(last) };
        Ok(Transformed::yes(Arc::new(guarded) as PhysicalExprRef))
    })?;
    Ok(Transformed::new_transformed(guarded.data, guarded.transformed || retried.transformed))
}

/// The expression with each condition that may overflow evaluated again, if it does, for the rows that pass the conditions beside it.
fn retried(expr: PhysicalExprRef, schema: &Schema) -> Result<Transformed<PhysicalExprRef>> {
    Walk::transform_down(expr, |expr| {
        if !expr.downcast_ref::<BinaryExpr>().is_some_and(|both| *both.op() == Operator::And) {
            return Ok(Transformed::no(expr));
        }
        let (mut conditions, mut is_changed) = (Vec::new(), false);
        for condition in split_conjunction(&expr) {
            let condition = retried(Arc::clone(condition), schema)?;
            is_changed |= condition.transformed;
            conditions.push(condition.data);
        }
        let overflow: Vec<bool> = conditions.iter().map(|condition| may_overflow(condition, schema)).collect();
        let fail: Vec<bool> = conditions.iter().map(|condition| may_fail(condition, schema)).collect();
        let is_guard = |place: &usize| !overflow[*place] && !fail[*place] && !is_volatile(&conditions[*place]);
        let guards: Vec<PhysicalExprRef> =
            (0..conditions.len()).filter(is_guard).map(|place| Arc::clone(&conditions[place])).collect();
        if !guards.is_empty() {
            let guards = conjunction(guards);
            for (place, condition) in conditions.iter_mut().enumerate() {
                if overflow[place] && !fail[place] {
                    let retried = RetriedCondition { condition: Arc::clone(condition), guards: Arc::clone(&guards) };
                    *condition = Arc::new(retried);
                    is_changed = true;
                }
            }
        }
        let expr = if is_changed { conjunction(conditions) } else { expr };
        Ok(Transformed::new(expr, is_changed, TreeNodeRecursion::Jump))
    })
}

/// Functions of numbers that may overflow.
const OVERFLOWING: [&str; 5] = ["abs", "factorial", "gcd", "lcm", "power"];

/// Whether an expression has a part that may overflow and isn't guarded: arithmetic, except of floats, and casts to a narrower type.
fn may_overflow(expr: &PhysicalExprRef, schema: &Schema) -> bool {
    let is_float = |part: &PhysicalExprRef| part.data_type(schema).is_ok_and(|of| of.is_floating());
    let overflows = |part: &PhysicalExprRef| {
        if let Some(both) = part.downcast_ref::<BinaryExpr>() {
            return matches!(both.op(), Operator::Plus | Operator::Minus | Operator::Multiply) && !is_float(part);
        }
        if let Some(call) = part.downcast_ref::<ScalarFunctionExpr>() {
            let of_numbers = operator_of(call.fun()).is_some_and(|op| op != Operator::StringConcat);
            return of_numbers || OVERFLOWING.contains(&call.fun().name());
        }
        if let Some(cast) = part.downcast_ref::<CastExpr>() {
            return !cast.expr().data_type(schema).is_ok_and(|from| holds_all(cast.cast_type(), &from));
        }
        part.downcast_ref::<NegativeExpr>().is_some() && !is_float(part)
    };
    let mut does = false;
    let walked = Walk::apply(expr, |part| {
        if part.downcast_ref::<RetriedCondition>().is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        does = overflows(part);
        Ok(if does { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_ok() && does
}

/// Whether a type has a value for each value of another.
fn holds_all(to: &DataType, from: &DataType) -> bool {
    let widens = || match (to.primitive_width(), from.primitive_width()) {
        (Some(to_bytes), Some(from_bytes)) if to.is_unsigned_integer() == from.is_unsigned_integer() => {
            to_bytes >= from_bytes
        }
        (Some(to_bytes), Some(from_bytes)) => to.is_signed_integer() && to_bytes > from_bytes,
        _ => false,
    };
    to == from
        || pushdown::is_text(to)
        || to.is_floating() && from.is_numeric()
        || to.is_integer() && from.is_integer() && widens()
}

/// Whether an expression has a part that fails for some values of its type, and that statements guard against by other conditions.
fn may_fail(expr: &PhysicalExprRef, schema: &Schema) -> bool {
    let fails = |part: &PhysicalExprRef| {
        if let Some(call) = part.downcast_ref::<ScalarFunctionExpr>() {
            return fails_out_of_range(call.fun().name());
        }
        if let Some(both) = part.downcast_ref::<BinaryExpr>() {
            return matches!(both.op(), Operator::Divide | Operator::Modulo)
                && part.data_type(schema).is_ok_and(|of| !of.is_floating());
        }
        part.downcast_ref::<CastExpr>().is_some_and(|cast| {
            !pushdown::is_text(cast.cast_type())
                && cast.expr().data_type(schema).is_ok_and(|from| pushdown::is_text(&from))
        })
    };
    expr.exists(|part| Ok(fails(part))).unwrap_or(false)
}

/// Both conditions, of which the last is evaluated where the first isn't false.
#[derive(Debug)]
struct GuardedAnd {
    first: PhysicalExprRef,
    last: PhysicalExprRef,
}

impl PartialEq for GuardedAnd {
    fn eq(&self, other: &GuardedAnd) -> bool {
        self.first.eq(&other.first) && self.last.eq(&other.last)
    }
}

impl Eq for GuardedAnd {}

impl Hash for GuardedAnd {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.first.hash(state);
        self.last.hash(state);
    }
}

impl Display for GuardedAnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} AND THEN {}", self.first, self.last)
    }
}

impl PhysicalExpr for GuardedAnd {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        Ok(self.first.nullable(input_schema)? || self.last.nullable(input_schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let first = self.first.evaluate(batch)?.into_array(rows)?;
        let first = first.as_boolean();
        let selection = not_false(first)?;
        let last = self.last.evaluate_selection(batch, &selection)?.into_array(rows)?;
        Ok(ColumnarValue::Array(Arc::new(and_kleene(first, last.as_boolean())?)))
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        vec![&self.first, &self.last]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        match <[PhysicalExprRef; 2]>::try_from(children) {
            Ok([first, last]) => Ok(Arc::new(GuardedAnd { first, last })),
            Err(_) => Ok(self),
        }
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.first.fmt_sql(f)?;
        write!(f, " AND ")?;
        self.last.fmt_sql(f)
    }
}

/// Whether an expression failed because of its values, not for lack of memory or time.
pub(crate) fn is_of_values(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Execution(_) => true,
        DataFusionError::ArrowError(error, _) => {
            !matches!(**error, ArrowError::MemoryError(_) | ArrowError::ExternalError(_) | ArrowError::IoError(..))
        }
        _ => false,
    }
}

/// The rows for which a condition is true or null.
fn not_false(condition: &BooleanArray) -> Result<BooleanArray> {
    let is_false = not(condition)?;
    let is_false = if is_false.null_count() > 0 { prep_null_mask_filter(&is_false) } else { is_false };
    Ok(not(&is_false)?)
}

/// A condition that is evaluated on all rows, or if that fails, on those for which no guard is false.
#[derive(Debug)]
struct RetriedCondition {
    condition: PhysicalExprRef,
    /// Conditions beside this one, which don't fail.
    guards: PhysicalExprRef,
}

impl PartialEq for RetriedCondition {
    fn eq(&self, other: &RetriedCondition) -> bool {
        self.condition.eq(&other.condition) && self.guards.eq(&other.guards)
    }
}

impl Eq for RetriedCondition {}

impl Hash for RetriedCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
        self.guards.hash(state);
    }
}

impl Display for RetriedCondition {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for RetriedCondition {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.condition.data_type(input_schema)
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        // Rows that aren't evaluated are null.
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.condition.evaluate(batch) {
            Err(error) if is_of_values(&error) => {
                let guards = self.guards.evaluate(batch)?.into_array(batch.num_rows())?;
                self.condition.evaluate_selection(batch, &not_false(guards.as_boolean())?)
            }
            evaluated => evaluated,
        }
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        vec![&self.condition, &self.guards]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        match <[PhysicalExprRef; 2]>::try_from(children) {
            Ok([condition, guards]) => Ok(Arc::new(RetriedCondition { condition, guards })),
            Err(_) => Ok(self),
        }
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.condition.fmt_sql(f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    #[test]
    fn what_may_fail_is_evaluated_where_the_rest_is_not_false() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let numbers = Int64Array::from(vec![Some(0), Some(2), Some(9), None]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]).unwrap();
        let n = || col("n", &schema).unwrap();
        let quotient = binary(lit(10i64), Operator::Divide, n(), &schema).unwrap();
        let fails = binary(quotient, Operator::Gt, lit(1i64), &schema).unwrap();
        let guards = binary(n(), Operator::NotEq, lit(0i64), &schema).unwrap();
        let both = binary(fails, Operator::And, guards, &schema).unwrap();
        assert!(both.evaluate(&batch).is_err());
        let guarded = guarded(both, &schema).unwrap();
        assert!(guarded.transformed);
        let values = guarded.data.evaluate(&batch).unwrap().into_array(4).unwrap();
        assert_eq!(values.as_boolean(), &BooleanArray::from(vec![Some(false), Some(true), Some(false), None]));
    }
    #[test]
    fn what_overflows_is_evaluated_again_where_the_rest_is_not_false() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let numbers = Int64Array::from(vec![Some(i64::MAX), Some(2), Some(9), None, Some(-3)]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]).unwrap();
        let n = || col("n", &schema).unwrap();
        let sum = BinaryExpr::new(n(), Operator::Plus, n()).with_fail_on_overflow(true);
        let overflows = binary(Arc::new(sum), Operator::Gt, lit(1i64), &schema).unwrap();
        let guards = binary(n(), Operator::Lt, lit(100i64), &schema).unwrap();
        let other = binary(n(), Operator::NotEq, lit(9i64), &schema).unwrap();
        // The guards may stand within parentheses.
        let within = binary(Arc::clone(&overflows), Operator::And, other, &schema).unwrap();
        let all = binary(guards, Operator::And, within, &schema).unwrap();
        assert!(all.evaluate(&batch).is_err());
        let retried = guarded(all, &schema).unwrap();
        assert!(retried.transformed);
        let passes = retried.data.evaluate(&batch).unwrap().into_array(5).unwrap();
        let passes: Vec<Option<bool>> = passes.as_boolean().iter().collect();
        assert_eq!(passes, [Some(false), Some(true), Some(false), None, Some(false)]);
        assert!(guarded(overflows, &schema).unwrap().data.evaluate(&batch).is_err());
    }
}
