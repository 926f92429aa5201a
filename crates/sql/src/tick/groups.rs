//! Groupings as tick plans: what rows are grouped by, and what is computed of each group.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction as AggregateCall;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use splay_engine::{Aggregate, AggregateFunction, Expr as TickExpr, ExternalAggregate, Key, Plan};
use splay_store::TableSpec;

use super::aggregates::AggregateOf;
use super::convert::{Unknown, unknown};
use super::recognise::{KEYS_MAX, Recogniser, Stage, types};
use crate::functions;

impl Recogniser<'_> {
    pub(super) fn aggregate(
        &mut self,
        input: &LogicalPlan,
        keys: &[Expr],
        calls: &[Expr],
        output: &DFSchema,
    ) -> Result<Stage, Unknown> {
        if keys.len() > KEYS_MAX {
            return unknown(format!("groups by {} keys", keys.len()));
        }
        let stage = self.stage(input)?;
        let schema = input.schema();
        let types = types(output);
        if types.len() != keys.len() + calls.len() {
            return unknown("a key that is named twice");
        }
        let (key_types, result_types) = types.split_at(keys.len());
        for data_type in key_types {
            let is_known = data_type.is_primitive() && !matches!(data_type, DataType::Decimal128(_, _))
                || matches!(data_type, DataType::Utf8 | DataType::Boolean)
                || matches!(data_type, DataType::Dictionary(_, values) if **values == DataType::Utf8);
            if !is_known {
                return unknown(format!("groups by a {data_type}"));
            }
        }
        let mut aggregates = Vec::with_capacity(calls.len());
        for (call, data_type) in calls.iter().zip(result_types) {
            let ordered = matches!(stage, Stage::Table { .. });
            aggregates.push(self.call(call, schema, data_type, ordered)?);
        }
        match stage {
            Stage::Frame(input) => {
                let keys = keys.iter().map(|key| self.convert(key, schema)).collect::<Result<Vec<_>, _>>()?;
                Ok(Stage::Frame(Plan::Aggregate {
                    input: Box::new(input),
                    keys,
                    key_types: key_types.to_vec(),
                    aggregates,
                }))
            }
            Stage::Table { scan, columns } => {
                let spec = self.spec(&scan);
                let mut bucketed = false;
                let mut table_keys = Vec::with_capacity(keys.len());
                for key in keys {
                    let key = self.key(key, schema, &columns, &spec, bucketed)?;
                    bucketed |= matches!(key, Key::Bucket(_));
                    table_keys.push(key);
                }
                for aggregate in &mut aggregates {
                    let over_table = |expr: &TickExpr| expr.substitute(&columns);
                    aggregate.arguments = aggregate.arguments.iter().map(over_table).collect();
                    aggregate.filter = aggregate.filter.as_ref().map(over_table);
                    if let AggregateFunction::FirstByTime | AggregateFunction::LastByTime = aggregate.function {
                        let key = aggregate.arguments.pop();
                        if !matches!(key, Some(TickExpr::Column(position)) if position == spec.time_position()) {
                            return unknown("first or last by another column than the time");
                        }
                    }
                }
                Ok(Stage::Frame(Plan::AggregateTable {
                    scan,
                    keys: table_keys,
                    key_types: key_types.to_vec(),
                    aggregates,
                }))
            }
        }
    }

    fn key(
        &mut self,
        key: &Expr,
        schema: &DFSchema,
        columns: &[TickExpr],
        spec: &TableSpec,
        bucketed: bool,
    ) -> Result<Key, Unknown> {
        let expr = self.convert(key, schema)?.substitute(columns);
        let symbol = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol));
        if let TickExpr::Column(position) = expr {
            if Some(position) == symbol {
                return Ok(Key::Symbol);
            }
            if position == spec.columns.len() {
                return Ok(Key::Date);
            }
        }
        if let (TickExpr::Call(function, arguments), false) = (&expr, bucketed)
            && let Some(time) = arguments
                .iter()
                .position(|argument| matches!(argument, TickExpr::Column(column) if *column == spec.time_position()))
        {
            let others: Option<Vec<ScalarValue>> = arguments
                .iter()
                .enumerate()
                .filter(|(position, _)| *position != time)
                .map(|(_, argument)| match argument {
                    TickExpr::Constant(number) => self.constants.fixed(*number),
                    _ => None,
                })
                .collect();
            if time == 1
                && let Some(buckets) = others.and_then(|others| functions::buckets(function.name(), &others))
            {
                return Ok(Key::Bucket(Arc::from(buckets)));
            }
        }
        Ok(Key::Value(expr))
    }

    /// An aggregate; first and last only where rows are in the order of the table.
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        schema: &DFSchema,
        data_type: &DataType,
        ordered: bool,
    ) -> Result<Aggregate, Unknown> {
        let call: &AggregateCall = match expr {
            Expr::Alias(alias) => return self.call(&alias.expr, schema, data_type, ordered),
            Expr::AggregateFunction(call) => call,
            other => return unknown(format!("the aggregate {other}")),
        };
        let (name, params) = (call.func.name(), &call.params);
        if params.null_treatment.is_some() {
            return unknown(format!("{name} with a treatment of nulls"));
        }
        // An order by time is one that the table knows; see `aggregate`, where the columns are known.
        let by_time = match params.order_by.as_slice() {
            [key] if key.asc && matches!(name, "first" | "last") && ordered => Some(self.convert(&key.expr, schema)?),
            _ => None,
        };
        let is_plain = params.order_by.is_empty() || by_time.is_some();
        let native = if is_plain { native(name, call, by_time.is_some(), ordered, schema) } else { None };
        let function = match native {
            Some(function) => function,
            None => {
                let external = AggregateOf::new(call, schema, data_type)?;
                AggregateFunction::External(ExternalAggregate(Arc::new(external)))
            }
        };
        let given = if function == AggregateFunction::CountRows { &[] } else { params.args.as_slice() };
        let mut arguments = given.iter().map(|arg| self.convert(arg, schema)).collect::<Result<Vec<_>, _>>()?;
        if name == "vwap" && function == AggregateFunction::WeightedAverage {
            // The weight comes first.
            arguments.reverse();
        }
        arguments.extend(by_time);
        let filter = match &params.filter {
            Some(filter) => Some(self.convert(filter, schema)?),
            None => None,
        };
        Ok(Aggregate { function, arguments, filter, data_type: data_type.clone() })
    }
}

/// The engine's own aggregate.
fn native(
    name: &str,
    call: &AggregateCall,
    by_time: bool,
    ordered: bool,
    schema: &DFSchema,
) -> Option<AggregateFunction> {
    let (args, distinct) = (call.params.args.as_slice(), call.params.distinct);
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(value, None) if !value.is_null());
    let function = match (name, args) {
        ("count", [_]) if distinct => AggregateFunction::CountDistinct,
        // Of equal values there is one.
        ("min", [_]) => AggregateFunction::Min,
        ("max", [_]) => AggregateFunction::Max,
        _ if distinct => return None,
        ("count", [one]) if is_constant(one) => AggregateFunction::CountRows,
        ("count", []) => AggregateFunction::CountRows,
        ("count", [_]) => AggregateFunction::Count,
        ("sum", [_]) => AggregateFunction::Sum,
        ("avg", [_]) => AggregateFunction::Average,
        ("first", [_]) if by_time => AggregateFunction::FirstByTime,
        ("last", [_]) if by_time => AggregateFunction::LastByTime,
        ("first", [_]) if ordered => AggregateFunction::First,
        ("last", [_]) if ordered => AggregateFunction::Last,
        ("vwap" | "wavg", [_, _]) => AggregateFunction::WeightedAverage,
        ("wsum", [_, _]) => AggregateFunction::WeightedSum,
        ("var" | "var_samp", [_]) => AggregateFunction::Variance { sample: true },
        ("var_pop", [_]) => AggregateFunction::Variance { sample: false },
        ("stddev", [_]) => AggregateFunction::Deviation { sample: true },
        ("stddev_pop", [_]) => AggregateFunction::Deviation { sample: false },
        ("med" | "median", [_]) => AggregateFunction::Median,
        ("corr", [_, _]) => AggregateFunction::Correlation,
        _ => return None,
    };
    has_kernel(&function, args, schema).then_some(function)
}

fn has_kernel(function: &AggregateFunction, arguments: &[Expr], schema: &DFSchema) -> bool {
    let types: Vec<DataType> = arguments.iter().filter_map(|argument| argument.get_type(schema).ok()).collect();
    let floats = types.iter().all(|data_type| *data_type == DataType::Float64);
    match function {
        AggregateFunction::CountRows
        | AggregateFunction::Count
        | AggregateFunction::First
        | AggregateFunction::Last
        | AggregateFunction::FirstByTime
        | AggregateFunction::LastByTime => true,
        AggregateFunction::CountDistinct => match types.as_slice() {
            [DataType::Utf8 | DataType::Boolean | DataType::Date32 | DataType::Float64 | DataType::Float32] => true,
            [DataType::Timestamp(unit, _) | DataType::Time64(unit)] => *unit == TimeUnit::Nanosecond,
            [DataType::Dictionary(codes, values)] => **codes == DataType::Int32 && **values == DataType::Utf8,
            [data_type] => data_type.is_integer(),
            _ => false,
        },
        AggregateFunction::Sum => matches!(types.as_slice(), [DataType::Float64 | DataType::Int64 | DataType::UInt64]),
        AggregateFunction::Min | AggregateFunction::Max => match types.as_slice() {
            [DataType::Timestamp(unit, _) | DataType::Time64(unit)] => *unit == TimeUnit::Nanosecond,
            [DataType::Date32 | DataType::Float64 | DataType::Float32] => true,
            [data_type] => data_type.is_integer(),
            _ => false,
        },
        _ => floats,
    }
}
