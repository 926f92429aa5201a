//! Resolves names in a select over one table, and normalises its expressions.

use std::collections::HashSet;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, IntervalUnit, Schema, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, Expr as Planned, Volatility};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Select, TableFactor, Value,
};
use splay_functions::{self as functions, Timeline};

use crate::function_calls::name_of;
use crate::walk::change_expressions;

/// The names of a select over one table.
pub(super) struct Scope<'a> {
    /// The table and its alias.
    qualifiers: Vec<String>,
    columns: &'a HashSet<String>,
    time: &'a str,
}

impl<'a> Scope<'a> {
    /// The scope of a select whose `FROM` is the table and nothing else.
    pub(super) fn of(select: &Select, table: &str, columns: &'a HashSet<String>, time: &'a str) -> Option<Scope<'a>> {
        let [from] = select.from.as_slice() else { return None };
        let TableFactor::Table { name, alias, .. } = &from.relation else { return None };
        let parts: Vec<String> = name.0.iter().filter_map(identifier).map(|ident| ident.value.to_lowercase()).collect();
        let (last, schema) = parts.split_last()?;
        let is_here = matches!(schema, []) || schema == ["public"] || schema == ["splay", "public"];
        // Nothing but the name and an alias.
        let plain = match alias {
            Some(alias) => format!("{name} {alias}"),
            None => name.to_string(),
        };
        let is_plain =
            from.joins.is_empty() && alias.as_ref().is_none_or(|alias| alias.columns.is_empty() && alias.at.is_none());
        if !is_here || !last.eq_ignore_ascii_case(table) || !is_plain || from.relation.to_string() != plain {
            return None;
        }
        let qualifiers = vec![alias.as_ref().map_or_else(|| last.clone(), |alias| alias.name.value.to_lowercase())];
        Some(Scope { qualifiers, columns, time })
    }

    /// The column of the table that an expression names.
    pub(super) fn column(&self, expr: &Expr) -> Option<String> {
        let name = match expr {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [of, name] if self.qualifiers.contains(&of.value.to_lowercase()) => name,
                _ => return None,
            },
            _ => return None,
        };
        let name = name.value.to_lowercase();
        self.columns.contains(&name).then_some(name)
    }

    pub(super) fn is_time(&self, expr: &Expr) -> bool {
        self.column(unnested(expr)).is_some_and(|column| column == self.time)
    }

    /// An expression in the one spelling by which it is compared with others.
    pub(super) fn spelling(&self, expr: &Expr) -> String {
        let mut plain = expr.clone();
        change_expressions(&mut plain, |inner| {
            if let Expr::Nested(within) = inner {
                let within = std::mem::replace(within.as_mut(), Expr::Value(Value::Null.into()));
                *inner = within;
            }
            match inner {
                Expr::Function(call) => fold_call(call),
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                    if let Some(column) = self.column(inner) {
                        *inner = Expr::Identifier(Ident::new(column));
                    }
                }
                _ => {}
            }
        });
        plain.to_string()
    }

    /// The buckets into which a call cuts the table's time.
    pub(super) fn timeline(&self, expr: &Expr, state: &SessionState) -> Option<Timeline> {
        let Expr::Function(call) = unnested(expr) else { return None };
        let arguments = plain_arguments(call)?;
        let [width, time, rest @ ..] = arguments.as_slice() else { return None };
        if !self.is_time(time) || !super::grouped_view::FLOORS.contains(&name_of(call).as_str()) {
            return None;
        }
        let width = constant(width, state)?;
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        let width = if name_of(call) == "date_trunc" { width } else { width.cast_to(&interval).ok()? };
        let mut others = vec![width];
        for other in rest {
            let other = constant(other, state)?;
            others.push(match other.data_type() {
                DataType::Timestamp(_, label) => {
                    other.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, label)).ok()?
                }
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => other.cast_to(&DataType::Utf8).ok()?,
                _ => return None,
            });
        }
        functions::timeline(&name_of(call), &others)
    }
}

/// The instant of an expression without columns that is compared with a time.
pub(super) fn instant(expr: &Expr, state: &SessionState) -> Option<i64> {
    let value = constant(expr, state)?;
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let cast = value.cast_to(&time).or_else(|error| match value.try_as_str().flatten() {
        // To the minute.
        Some(text) if text.len() == 16 => ScalarValue::from(format!("{text}:00")).cast_to(&time),
        _ => Err(error),
    });
    match cast.ok()? {
        ScalarValue::TimestampNanosecond(instant, _) => instant,
        _ => None,
    }
}

/// The value of an expression that has the same one each time.
fn constant(expr: &Expr, state: &SessionState) -> Option<ScalarValue> {
    let empty = DFSchema::empty();
    let planned = state.create_logical_expr(&expr.to_string(), &empty).ok()?;
    let mut is_constant = true;
    let walked = planned.apply(|inner| {
        is_constant &= match inner {
            Planned::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
            Planned::Column(_)
            | Planned::Placeholder(_)
            | Planned::AggregateFunction(_)
            | Planned::ScalarSubquery(_) => false,
            _ => true,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    walked.ok().filter(|_| is_constant)?;
    let physical = state.create_physical_expr(planned, &empty).ok()?;
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Schema::empty().into(), Vec::new(), &one).ok()?;
    match physical.evaluate(&row).ok()? {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0).ok(),
    }
}

/// An expression without brackets around it.
pub(super) fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

/// The arguments of a call that has nothing else.
fn plain_arguments(call: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let has_more = call.filter.is_some()
        || call.over.is_some()
        || call.null_treatment.is_some()
        || !call.within_group.is_empty()
        || list.duplicate_treatment.is_some()
        || !list.clauses.is_empty();
    list.args.iter().map(as_expression).collect::<Option<Vec<&Expr>>>().filter(|_| !has_more)
}

fn as_expression(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// `COUNT(1)` as `count(*)`.
fn fold_call(call: &mut Function) {
    let name = name_of(call);
    if let FunctionArguments::List(list) = &mut call.args
        && name == "count"
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] = list.args.as_slice()
        && matches!(value.value, Value::Number(..))
    {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
    }
    call.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]);
}

fn identifier(part: &ObjectNamePart) -> Option<&Ident> {
    match part {
        ObjectNamePart::Identifier(ident) => Some(ident),
        ObjectNamePart::Function(_) => None,
    }
}

/// The conditions that an `AND` is made of.
pub(super) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match unnested(expr) {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut all = conjuncts(left);
            all.extend(conjuncts(right));
            all
        }
        other => vec![other],
    }
}
