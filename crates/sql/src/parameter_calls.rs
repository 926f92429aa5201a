//! Operators whose types depend on the values of parameters: they are planned as calls (`parameter_calls.rs` of
//! `functions`), which are replaced once the values are known.
//!
//! - `time - $1` with a text subtracts a time if the text can be read as a time, otherwise an interval.
//! - A lifted literal stands for the literals of all statements with the same shape. If types depend on it, the call
//!   stays in the plan. Tick plans either evaluate such a call or refuse it.
//! - A column of `VALUES` with values and parameters has their common type: floats for decimals and floats. If there is
//!   no common type, as for a text and numbers, parameters are cast to the type of the values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Values};
use splay_functions::{AT_ZONE, PARAMETER, SPAN, is_span_of_parameter};

use crate::decimals::is_decimal;
use crate::plan_rewrite::{any_expression, rewritten};
use crate::times;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The plan with operands and casts in the place of these calls.
///
/// # Errors
/// A plan error for a value that isn't a zone, or an interval.
pub(crate) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_call = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if matches!(call.func.name(), SPAN | AT_ZONE | PARAMETER));
    let has_call = any_expression(&plan, is_call)?;
    if has_call { rewritten(plan, |node, _| values(node), settled) } else { Ok(plan) }
}

fn settled(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        // From the leaves up, so the difference comes after the calls in it, whose texts are still there.
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right })
            if is_span_of_parameter(&left) || is_span_of_parameter(&right) =>
        {
            let of = if op == Operator::Minus { left.get_type(schema)? } else { DataType::Null };
            let (left, right) = (operand(*left, &of)?, operand(*right, &of)?);
            let (of_left, of_right) = (left.get_type(schema)?, right.get_type(schema)?);
            let (left, right) = (beside(left, &of_right, schema)?, beside(right, &of_left, schema)?);
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))))
        }
        Expr::ScalarFunction(call) if call.func.name() == AT_ZONE => at_zone(call, schema),
        other => Ok(Transformed::no(other)),
    }
}

/// `VALUES` with the common types of their values and parameters.
fn values(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Values(Values { schema, mut values }) = node else { return Ok(Transformed::no(node)) };
    if !values.iter().flatten().any(|cell| parameter_of(cell).is_some()) {
        return Ok(Transformed::no(LogicalPlan::Values(Values { schema, values })));
    }
    let none = DFSchema::empty();
    let mut fields = Vec::with_capacity(schema.fields().len());
    for (place, field) in schema.fields().iter().enumerate() {
        let of = common_type(&values, place, field.data_type(), &none)?;
        let mut is_nullable = field.is_nullable();
        for row in &mut values {
            let cell = std::mem::take(&mut row[place]);
            let cell = parameter_of(&cell).cloned().unwrap_or(cell);
            is_nullable |= cell.nullable(&none)?;
            row[place] = cell.cast_to(&of, &none)?;
        }
        fields.push(Field::new(field.name(), of, is_nullable));
    }
    let schema = Arc::new(DFSchema::from_unqualified_fields(fields.into(), schema.metadata().clone())?);
    Ok(Transformed::yes(LogicalPlan::Values(Values { schema, values })))
}

/// The type of a column of `VALUES`, whose values without parameters have one type.
fn common_type(values: &[Vec<Expr>], place: usize, of: &DataType, none: &DFSchema) -> Result<DataType> {
    let cells = values.iter().filter_map(|row| row.get(place));
    let is_alone = cells.clone().all(|cell| parameter_of(cell).is_some());
    let mut types = if is_alone { Vec::new() } else { vec![of.clone()] };
    for parameter in cells.filter_map(parameter_of) {
        types.push(parameter.get_type(none)?);
    }
    types.retain(|of| !of.is_null());
    if types.iter().any(is_decimal) && types.iter().any(DataType::is_floating) {
        return Ok(DataType::Float64);
    }
    Ok(if types.is_empty() { None } else { type_union_resolution(&types) }.unwrap_or_else(|| of.clone()))
}

/// The value of a parameter that is alone in a cell of `VALUES`.
fn parameter_of(cell: &Expr) -> Option<&Expr> {
    match cell {
        Expr::Alias(alias) => parameter_of(&alias.expr),
        Expr::Cast(cast) => parameter_of(&cast.expr),
        Expr::ScalarFunction(call) if call.func.name() == PARAMETER => call.args.first(),
        _ => None,
    }
}

/// What a parameter is beside `+`, or behind a value of a type and `-`.
fn operand(side: Expr, of: &DataType) -> Result<Expr> {
    let value = match &side {
        Expr::ScalarFunction(call) if call.func.name() == SPAN => call.args.first().cloned(),
        _ => None,
    };
    match value {
        Some(Expr::Literal(ScalarValue::Utf8(Some(text)), None)) => {
            let span = match (times::instant(&text), of) {
                (Some(instant), DataType::Timestamp(_, zone)) => {
                    ScalarValue::TimestampNanosecond(Some(instant), zone.clone())
                }
                (Some(_), DataType::Date32) => ScalarValue::Utf8(Some(text)).cast_to(of)?,
                _ => ScalarValue::Utf8(Some(text)).cast_to(&INTERVAL)?,
            };
            Ok(Expr::Literal(span, None))
        }
        // A text in a plan for several values of it is read when the plan runs.
        Some(Expr::Literal(value, metadata)) if !matches!(value.data_type(), DataType::Utf8 | DataType::Null) => {
            Ok(Expr::Literal(value, metadata))
        }
        Some(Expr::Literal(value, _)) if value.is_null() => Ok(Expr::Literal(ScalarValue::try_from(&INTERVAL)?, None)),
        _ => Ok(side),
    }
}

/// A date as its midnight beside an interval: that of a parameter may have a part of a day, whatever its value.
fn beside(side: Expr, other: &DataType, schema: &DFSchema) -> Result<Expr> {
    let is_date = matches!(side.get_type(schema)?, DataType::Date32 | DataType::Date64);
    match other {
        DataType::Interval(_) | DataType::Duration(_) if is_date => {
            side.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, None), schema)
        }
        _ => Ok(side),
    }
}

/// `AT TIME ZONE` as the planner has it, for a zone that is known.
fn at_zone(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let zone = match call.args.as_slice() {
        [_, Expr::Literal(ScalarValue::Utf8(Some(zone)), None)] => zone.clone(),
        [_, Expr::Literal(value, None)] if value.is_null() => {
            let null = ScalarValue::TimestampNanosecond(None, Some("UTC".into()));
            return Ok(Transformed::yes(Expr::Literal(null, None)));
        }
        [_, Expr::Literal(value, None)] => {
            return plan_err!(
                "AT TIME ZONE takes the name of a zone, such as 'America/New_York', and not a {}",
                value.data_type()
            );
        }
        _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
    };
    let Some(time) = call.args.into_iter().next() else { return plan_err!("{AT_ZONE} isn't a function") };
    let to = DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.into()));
    Ok(Transformed::yes(time.cast_to(&to, schema)?))
}
