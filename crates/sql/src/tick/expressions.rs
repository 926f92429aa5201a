//! DataFusion's expressions as the engine calls them: those without an engine kernel.
//!
//! DataFusion plans the expression over columns that represent its arguments, which the engine evaluates. So
//! patterns, bit operations, and branches that must not be evaluated behave as in DataFusion. Parameters are inserted
//! as literals, because patterns and lists are prepared when an expression is planned; it is planned again for each
//! run with other values.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, DataFusionError, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use splay_engine::{Error, Result, ScalarFunction, Value};
use splay_functions::walk::Walk;

use super::calls::with_one_nan;

/// Most plans that are kept for the values of parameters: one for each run at a time.
const PLANS_MAX: usize = 16;

/// An argument of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// A value for each row.
    Values,
    /// A constant of the run, which becomes a literal.
    Parameter,
}

/// An expression over arguments, which are named by their position.
#[derive(Debug)]
pub(super) struct Expression {
    name: String,
    expr: Expr,
    arguments: Vec<Argument>,
    schema: Arc<DFSchema>,
    result: DataType,
    options: Arc<ConfigOptions>,
    /// By the values of the parameters.
    plans: Mutex<Vec<(Vec<ArrayRef>, Arc<dyn PhysicalExpr>)>>,
}

/// The column that represents an argument.
pub(super) fn argument(position: usize) -> Expr {
    Expr::Column(Column::new_unqualified(format!("a{position}")))
}

impl Expression {
    /// An expression over arguments of these types.
    ///
    /// # Errors
    /// Those of DataFusion for expressions that it can't plan.
    pub fn new(
        expr: Expr,
        arguments: Vec<(Argument, DataType)>,
        result: DataType,
        options: &Arc<ConfigOptions>,
    ) -> Result<Expression, DataFusionError> {
        let fields = arguments.iter().enumerate();
        let fields: Vec<Field> =
            fields.map(|(number, (_, of))| Field::new(format!("a{number}"), of.clone(), true)).collect();
        let expression = Expression {
            name: expr.variant_name().to_owned(),
            expr,
            arguments: arguments.into_iter().map(|(argument, _)| argument).collect(),
            schema: Arc::new(DFSchema::try_from(Schema::new(fields))?),
            result,
            options: Arc::clone(options),
            plans: Mutex::default(),
        };
        if !expression.arguments.contains(&Argument::Parameter) {
            let plan = expression.plan(expression.expr.clone())?;
            expression.plans.lock().unwrap_or_else(PoisonError::into_inner).push((Vec::new(), plan));
        }
        Ok(expression)
    }

    fn plan(&self, expr: Expr) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
        let (schema, options) = (Arc::clone(&self.schema), Arc::clone(&self.options));
        let context = SimplifyContext::builder().with_schema(schema).with_config_options(options).build();
        let expr = ExprSimplifier::new(context).simplify(expr)?;
        let properties =
            ExecutionProps { config_options: Some(Arc::clone(&self.options)), ..ExecutionProps::default() };
        let plan = create_physical_expr(&expr, &self.schema, &properties, &PhysicalPlanningContext::default())?;
        let result = plan.data_type(self.schema.as_arrow())?;
        if result == self.result {
            return Ok(plan);
        }
        Err(DataFusionError::Plan(format!("its type is planned as {} and comes out as {result}", self.result)))
    }

    /// The plan for the values of the parameters.
    fn plan_for(&self, parameters: Vec<ArrayRef>) -> Result<Arc<dyn PhysicalExpr>> {
        let are_known = |plan_parameters: &[ArrayRef]| {
            plan_parameters.iter().zip(&parameters).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(plan_parameters, _)| are_known(plan_parameters)) {
            return Ok(Arc::clone(plan));
        }
        let plan = self.with_literals(&parameters).and_then(|expr| self.plan(expr)).map_err(function_error)?;
        plans.truncate(PLANS_MAX - 1);
        plans.insert(0, (parameters, Arc::clone(&plan)));
        Ok(plan)
    }

    /// The expression with the values of its parameters.
    fn with_literals(&self, values: &[ArrayRef]) -> Result<Expr, DataFusionError> {
        let numbers = self.arguments.iter().enumerate().filter(|(_, argument)| **argument == Argument::Parameter);
        let literals = numbers
            .zip(values)
            .map(|((number, _), array)| Ok((argument(number), ScalarValue::try_from_array(array, 0)?)));
        let literals = literals.collect::<Result<Vec<(Expr, ScalarValue)>, DataFusionError>>()?;
        let expr = self.expr.clone().transform_up(|expr| match expr {
            Expr::InList(list) => Ok(Transformed::yes(Expr::InList(with_items(list, &literals)?))),
            other => Ok(Transformed::no(other)),
        })?;
        replace_parameters(expr.data, &literals)
    }
}

/// A list in which each list that was lifted as a whole is replaced by its values.
fn with_items(list: InList, literals: &[(Expr, ScalarValue)]) -> Result<InList, DataFusionError> {
    let mut items = Vec::with_capacity(list.list.len());
    for item in list.list {
        let lifted = literals.iter().find_map(|(of, value)| match value {
            ScalarValue::List(values) if item.exists(|expr| Ok(expr == of)).unwrap_or(false) => Some((of, values)),
            _ => None,
        });
        let Some((of, values)) = lifted else {
            items.push(item);
            continue;
        };
        let values = values.value(0);
        for row in 0..values.len() {
            items.push(replace_parameters(item.clone(), &[(of.clone(), ScalarValue::try_from_array(&values, row)?)])?);
        }
    }
    Ok(InList { list: items, ..list })
}

fn replace_parameters(expr: Expr, literals: &[(Expr, ScalarValue)]) -> Result<Expr, DataFusionError> {
    let put = expr.transform_up(|expr| match literals.iter().find(|(of, _)| *of == expr) {
        Some((_, value)) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
        None => Ok(Transformed::no(expr)),
    })?;
    Ok(put.data)
}

impl ScalarFunction for Expression {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, arguments: &[Value], rows: usize) -> Result<Value> {
        let (mut parameters, mut are_constant) = (Vec::new(), true);
        for (kind, value) in self.arguments.iter().zip(arguments) {
            match (kind, value) {
                (Argument::Parameter, Value::Scalar(array)) => parameters.push(Arc::clone(array)),
                (Argument::Parameter, Value::Array(_)) => {
                    return Err(Error::Unsupported("a parameter whose value changes from row to row".to_owned()));
                }
                (Argument::Values, value) => are_constant &= matches!(value, Value::Scalar(_)),
            }
        }
        let rows = if are_constant { 1 } else { rows };
        let columns = self.arguments.iter().zip(arguments).zip(self.schema.fields()).map(|((kind, value), field)| {
            match kind {
                Argument::Values => value.clone().into_array(rows).map(|values| with_one_nan(&values)),
                // Its value is in the plan.
                Argument::Parameter => Ok(arrow::array::new_null_array(field.data_type(), rows)),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new_with_options(Arc::clone(self.schema.inner()), columns, &options)?;
        let plan = self.plan_for(parameters)?;
        Ok(match plan.evaluate(&batch).map_err(function_error)? {
            ColumnarValue::Array(array) if are_constant => Value::Scalar(array),
            ColumnarValue::Array(array) => Value::Array(array),
            ColumnarValue::Scalar(value) => Value::Scalar(value.to_array().map_err(function_error)?),
        })
    }
}

fn function_error(error: DataFusionError) -> Error {
    Error::Function(error.to_string())
}
