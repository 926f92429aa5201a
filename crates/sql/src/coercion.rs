//! Rewrites that tick plans and DataFusion's plans both need before DataFusion coerces types.
//!
//! - If a column of a `UNION` has texts and symbols, it has the type of the first query's column.
//! - A decimal and a float are compared as floats. A decimal and a literal are compared as decimals, with the literal's
//!   digits as written: `d = 4.07` is true for the decimal 4.07. DataFusion 55.2 casts both sides to decimals of 15
//!   places, at which the float 1e-16 becomes 0, and 4.07 becomes 4.070000000000001.
//! - If `coalesce`, `CASE` or a column of a `UNION` has decimals and floats, the result is a float, unless the floats
//!   are literals of at most 15 places.
//! - Texts and numbers beside times (`times.rs`), texts that are cast to decimals (`decimal_texts.rs`), literals beside values of other types (`literal_types.rs`).
//! - Values and defaults of `lag` and `lead` are of one type (`offset_defaults.rs`).
//! - Times are compared with dates that are out of their range (`far_times.rs`).
//! - `nullif` takes both zeros for one.
//! - Parameters beside `+`, `-` and `AT TIME ZONE` (`parameter_calls.rs`).
//! - A date and a parameter that is an interval make a time (`date_times.rs` of `functions`, which has the others).
//! - A frame `RANGE` over dates with a number is one of days; over times with a number it is refused.
//! - A frame `RANGE` without offsets over times of day or durations is one of `GROUPS`, which has the same rows; DataFusion refuses it.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Between, InList, Sort as SortKey};
use datafusion::logical_expr::logical_plan::{Join, Projection, Union};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::{CAST, as_times, is_span_of_parameter};

use crate::decimals::{fits, is_decimal, literal_text, one_type};
use crate::literal_types;
use crate::numbers::nullif;
use crate::plan_rewrite::{any_expression, any_step, rewritten};
use crate::{decimal_texts, far_times, offset_defaults, parameter_calls, times};

/// Prepares a plan for the coercion of its types.
#[derive(Debug)]
pub(crate) struct PrepareCoercion;

impl AnalyzerRule for PrepareCoercion {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        prepare(plan)
    }

    fn name(&self) -> &str {
        "prepare_coercion"
    }
}

/// The plan as DataFusion's coercion understands it.
///
/// # Errors
/// Those of DataFusion for expressions that have no type.
pub(crate) fn prepare(plan: LogicalPlan) -> Result<LogicalPlan> {
    parameter_calls::settle(plan)
        .and_then(times::complete)
        .and_then(decimal_texts::complete)
        .and_then(far_times::decide)
        .and_then(literal_types::take_types)
        .and_then(move_dates)
        .and_then(compare_decimals)
        .and_then(range_over_peers)
        .and_then(settle_calls)
        .and_then(offset_defaults::share_types)
        .and_then(aggregate_texts)
        .and_then(texts_of_unions)
}

/// The plan with texts in place of symbols for two aggregates: DataFusion 55.2 has no `approx_distinct` of dictionaries, and doesn't recognise the
/// argument of `string_agg(DISTINCT …)` in its `ORDER BY`.
fn aggregate_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_call = any_expression(&plan, is_of_texts)?;
    let as_texts = |expression: Expr, schema: &DFSchema| {
        let is_changed = is_of_texts(&expression);
        let Expr::AggregateFunction(mut call) = expression else { return Ok(Transformed::no(expression)) };
        let symbol = call.params.args.first().cloned();
        if let (true, Some(symbol)) = (is_changed, symbol)
            && let DataType::Dictionary(_, value) = symbol.get_type(schema)?
        {
            let text = symbol.clone().cast_to(&value, schema)?;
            let keys = call.params.order_by.iter_mut().map(|key| &mut key.expr);
            for same in call.params.args.iter_mut().chain(keys).filter(|expr| **expr == symbol) {
                *same = text.clone();
            }
        }
        Ok(Transformed::yes(Expr::AggregateFunction(call)))
    };
    if has_call { rewritten(plan, |node, _| Ok(Transformed::no(node)), as_texts) } else { Ok(plan) }
}

fn is_of_texts(expr: &Expr) -> bool {
    match expr {
        Expr::AggregateFunction(call) => match call.func.name() {
            "approx_distinct" => true,
            "string_agg" => call.params.distinct && !call.params.order_by.is_empty(),
            _ => false,
        },
        _ => false,
    }
}

/// The plan with times in place of dates beside intervals that the planner didn't recognise.
fn move_dates(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_moved = any_expression(&plan, is_of_value)?;
    let moved = |expr: Expr, schema: &DFSchema| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(op, Operator::Plus | Operator::Minus) => {
            let (left, right) = as_times(*left, *right, op == Operator::Plus, schema)?;
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))))
        }
        other => Ok(Transformed::no(other)),
    };
    if is_moved { rewritten(plan, |node, _| Ok(Transformed::no(node)), moved) } else { Ok(plan) }
}

/// Whether an expression is a sum of a value that may have been a parameter, and is a date, an interval or a difference of times.
fn is_of_value(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) = expr else { return false };
    [left, right].iter().any(|side| match side.as_ref() {
        side if is_span_of_parameter(side) => true,
        Expr::Literal(value, _) => matches!(
            value.data_type(),
            DataType::Date32 | DataType::Date64 | DataType::Interval(_) | DataType::Duration(_)
        ),
        _ => false,
    })
}

/// The plan with `nullif` of floats by value, so that both zeros are equal, and with casts in place of the calls that named them.
fn settle_calls(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_call = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if is_settled(call.func.name()));
    let has_call = any_expression(&plan, is_call)?;
    let settled = |expr: Expr, schema: &DFSchema| match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == CAST && call.args.len() == 2 => {
            Ok(Transformed::yes(call.args.swap_remove(0)))
        }
        Expr::ScalarFunction(mut call) if call.func.name() == "round" => {
            // The digits of the result depend on a literal. A cast of it would hide it until the comparison has its types.
            let digits = match call.args.get(1) {
                Some(Expr::Literal(ScalarValue::Int64(Some(digits)), metadata)) => i32::try_from(*digits)
                    .ok()
                    .map(|digits| Expr::Literal(ScalarValue::Int32(Some(digits)), metadata.clone())),
                _ => None,
            };
            let Some(digits) = digits else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
            call.args[1] = digits;
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        expr => nullif(expr, schema),
    };
    if has_call { rewritten(plan, |node, _| Ok(Transformed::no(node)), settled) } else { Ok(plan) }
}

fn is_settled(name: &str) -> bool {
    matches!(name, "nullif" | "round" | CAST)
}

/// The plan with frames of peers in place of `RANGE` frames over types for which DataFusion has none.
fn range_over_peers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_window = any_step(&plan, |step| Ok(matches!(step, LogicalPlan::Window(_))))?;
    if !has_window {
        return Ok(plan);
    }
    rewritten(
        plan,
        |node, _| Ok(Transformed::no(node)),
        |expression, schema| {
            let Expr::WindowFunction(mut window) = expression else { return Ok(Transformed::no(expression)) };
            let has_ranges = |key: &SortKey| {
                key.expr.get_type(schema).is_ok_and(|data_type| {
                    !matches!(
                        data_type,
                        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) | DataType::Binary
                    )
                })
            };
            let params = &mut window.params;
            if let Some(key) = params.order_by.first()
                && params.window_frame.units == WindowFrameUnits::Range
                && let Ok(key) = key.expr.get_type(schema)
            {
                let frame = &mut params.window_frame;
                let bounds = [&mut frame.start_bound, &mut frame.end_bound];
                bounds.into_iter().try_for_each(|bound| count_days(bound, &key))?;
            }
            let frame = &params.window_frame;
            if frame.units == WindowFrameUnits::Range
                && [&frame.start_bound, &frame.end_bound].into_iter().all(is_without_offset)
                && !params.order_by.iter().all(has_ranges)
            {
                let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
                params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
            }
            Ok(Transformed::yes(Expr::WindowFunction(window)))
        },
    )
}

/// Replaces a number beside dates by a number of days. DataFusion 55.2 reads `1` beside a time as a month.
fn count_days(bound: &mut WindowFrameBound, key: &DataType) -> Result<()> {
    let (WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset)) = bound else { return Ok(()) };
    let number = match &*offset {
        ScalarValue::Utf8(Some(text)) if text.trim().parse::<f64>().is_ok() => text.trim().to_owned(),
        number if number.data_type().is_numeric() && !number.is_null() => number.to_string(),
        _ => return Ok(()),
    };
    match key {
        DataType::Date32 | DataType::Date64 if number.parse::<u32>().is_ok() => {
            *offset = ScalarValue::Utf8(Some(format!("{number} days")));
            Ok(())
        }
        key if key.is_temporal() => {
            plan_err!("RANGE {number} isn't a distance of times: write an interval, as in INTERVAL '5 seconds'")
        }
        _ => Ok(()),
    }
}

fn is_without_offset(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => offset.is_null(),
    }
}

/// The plan with comparisons of decimals and floats as comparisons of floats; or of decimals, if the float is a literal that is an exact decimal.
fn compare_decimals(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_type = |step: &LogicalPlan| step.schema().fields().iter().any(|field| is_decimal(field.data_type()));
    let has_decimal = any_step(&plan, |step| Ok(has_type(step)))?;
    if !has_decimal {
        return Ok(plan);
    }
    rewritten(plan, |node, _| one_type_of_inputs(node), coerce_comparison)
}

/// Functions that return one of their arguments, or all of them in a list.
const OF_ONE_TYPE: [&str; 7] = ["coalesce", "greatest", "least", "make_array", "nvl", "nvl2", "nullif"];

/// The same for the columns of unions, and for those that `INTERSECT` and `EXCEPT` compare.
fn one_type_of_inputs(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Join(join) = node {
        return one_type_of_keys(join);
    }
    with_columns_cast(node, |types, planned| {
        // A union of unions was planned when the inner one was still of decimals.
        let has_decimals = is_decimal(planned) || types.iter().any(is_decimal);
        (has_decimals && types.iter().any(|of| of.is_floating())).then_some(DataType::Float64)
    })
}

fn one_type_of_keys(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut is_cast = false;
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema())?, right.get_type(join.right.schema())?);
        let (decimal, schema) = match &types {
            (one, other) if is_decimal(one) && other.is_floating() => (left, join.left.schema()),
            (one, other) if one.is_floating() && is_decimal(other) => (right, join.right.schema()),
            _ => continue,
        };
        *decimal = std::mem::take(decimal).cast_to(&DataType::Float64, schema)?;
        is_cast = true;
    }
    Ok(Transformed::new(LogicalPlan::Join(join), is_cast, TreeNodeRecursion::Continue))
}

/// The plan with unions of texts and symbols as unions of texts. DataFusion 55.2 makes symbols of them, and keeps the type that was before for what
/// sub-queries read of the union, so that it compares values of two types.
fn texts_of_unions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_union = any_step(&plan, |step| Ok(matches!(step, LogicalPlan::Union(_))))?;
    let texts = |node: LogicalPlan| {
        with_columns_cast(node, |types, _| {
            // The planner gives the column the type that the first query has.
            let is_mixed = types.contains(&DataType::Utf8)
                && types.iter().any(|of| matches!(of, DataType::Dictionary(_, text) if **text == DataType::Utf8));
            is_mixed.then(|| types[0].clone())
        })
    };
    if has_union { rewritten(plan, |node, _| texts(node), |expr, _| Ok(Transformed::no(expr))) } else { Ok(plan) }
}

/// A union with another type for its columns. `common` gets the types of the inputs' columns and the planned one, and
/// returns the new type; a column for which it returns none keeps its type.
fn with_columns_cast(
    node: LogicalPlan,
    common: impl Fn(&[DataType], &DataType) -> Option<DataType>,
) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(union) = &node else { return Ok(Transformed::no(node)) };
    let width = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    let types = |column: usize| -> Vec<DataType> {
        let fields = union.inputs.iter().filter_map(|input| input.schema().fields().get(column));
        fields.map(|field| field.data_type().clone()).collect()
    };
    let planned = |column: usize| union.schema.fields().get(column).map_or(&DataType::Null, |field| field.data_type());
    let common: Vec<Option<DataType>> = (0..width).map(|column| common(&types(column), planned(column))).collect();
    if common.iter().all(Option::is_none) {
        return Ok(Transformed::no(node));
    }
    let inputs = union.inputs.iter().map(|input| {
        let columns = input.schema().iter().zip(&common).map(|((relation, field), common)| {
            let column = Expr::Column(Column::new(relation.cloned(), field.name()));
            match common.as_ref().filter(|common| *common != field.data_type()) {
                Some(common) => {
                    Ok(column.cast_to(common, input.schema())?.alias_qualified(relation.cloned(), field.name()))
                }
                None => Ok(column),
            }
        });
        let projection = Projection::try_new(columns.collect::<Result<Vec<_>>>()?, Arc::clone(input))?;
        Ok(Arc::new(LogicalPlan::Projection(projection)))
    });
    let union = Union::try_new_with_loose_types(inputs.collect::<Result<Vec<_>>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

fn coerce_comparison(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_cast = match &mut expression {
        Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.func.name()) => {
            one_type(call.args.iter_mut().collect(), schema)?
        }
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, result)| result).chain(&mut case.else_expr);
            one_type(results.map(AsMut::as_mut).collect(), schema)?
        }
        _ => false,
    };
    if is_cast {
        return Ok(Transformed::yes(expression));
    }
    let boxed = |side: Box<Expr>, as_what: &Sides| as_what.side(*side, schema).map(Box::new);
    Ok(Transformed::yes(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() || is_distinct(op) => {
            let Some(sides) = Sides::of(&[&left, &right], schema) else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            Expr::BinaryExpr(BinaryExpr { left: boxed(left, &sides)?, op, right: boxed(right, &sides)? })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let Some(sides) = Sides::of(&[&expr, &low, &high], schema) else {
                return Ok(Transformed::no(Expr::Between(Between { expr, negated, low, high })));
            };
            let (low, high) = (boxed(low, &sides)?, boxed(high, &sides)?);
            Expr::Between(Between { expr: boxed(expr, &sides)?, negated, low, high })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let all: Vec<&Expr> = std::iter::once(expr.as_ref()).chain(&list).collect();
            let Some(sides) = Sides::of(&all, schema) else {
                return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
            };
            let list = list.into_iter().map(|item| sides.side(item, schema)).collect::<Result<_>>()?;
            Expr::InList(InList { expr: boxed(expr, &sides)?, list, negated })
        }
        other => return Ok(Transformed::no(other)),
    }))
}

fn is_distinct(op: Operator) -> bool {
    matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// The common type of a comparison of decimals and floats.
enum Sides {
    /// The comparison is by floats.
    Floats,
    /// Decimals of this type, because each float is a literal that is such a decimal.
    Decimals(DataType),
}

impl Sides {
    /// `None` unless there are both decimals and floats.
    fn of(sides: &[&Expr], schema: &DFSchema) -> Option<Sides> {
        let types: Vec<DataType> = sides.iter().map(|e| e.get_type(schema).unwrap_or(DataType::Null)).collect();
        let decimal = types.iter().find(|data_type| is_decimal(data_type))?;
        let mut floats = sides.iter().zip(&types).filter(|(_, data_type)| data_type.is_floating()).peekable();
        floats.peek()?;
        // A literal with more places than the decimals equals none of them, so it stays a float.
        let are_written = floats.all(|(side, _)| literal_text(side).is_some_and(|value| fits(&value, decimal)));
        Some(if are_written { Sides::Decimals(decimal.clone()) } else { Sides::Floats })
    }

    fn side(&self, side: Expr, schema: &DFSchema) -> Result<Expr> {
        match self {
            Sides::Floats if side.get_type(schema).is_ok_and(|data_type| is_decimal(&data_type)) => {
                side.cast_to(&DataType::Float64, schema)
            }
            Sides::Decimals(decimal) => match literal_text(&side).map(Cow::into_owned) {
                Some(value) => Ok(Expr::Literal(ScalarValue::try_from_string(value, decimal)?, None)),
                None => Ok(side),
            },
            Sides::Floats => Ok(side),
        }
    }
}
