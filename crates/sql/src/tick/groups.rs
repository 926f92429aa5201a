//! Groupings as tick plans: their keys and their aggregates.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction as AggregateCall, Sort};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use splay_engine::{Aggregate, AggregateFunction, BinaryOp, Expr as TickExpr, ExternalAggregate, Key, Listing, Plan};
use splay_store::TableSpec;

use super::aggregates::AggregateOf;
use super::by_time::stored_table;
use super::convert::{UnsupportedExpr, unknown, without_decoding};
use super::recognise::{KEYS_MAX, Recogniser, Stage};
use super::shared_aggregates::SharedAggregates;
use crate::joins::asof_parts;

impl Recogniser<'_> {
    /// Groups of a plan's rows; `types` are those of the keys and of the aggregates.
    pub(super) fn aggregate(
        &mut self,
        input: &LogicalPlan,
        keys: &[Expr],
        calls: &[Expr],
        types: &[DataType],
    ) -> Result<Stage, UnsupportedExpr> {
        if types.len() != keys.len() + calls.len() {
            return unknown("a GROUP BY key that is named twice");
        }
        let stage = self.stage(input)?;
        self.groups_of(stage, input, keys, calls, types)
    }

    /// Groups of the rows of a stage; `types` are those of the keys and of the aggregates.
    pub(super) fn groups_of(
        &mut self,
        stage: Stage,
        input: &LogicalPlan,
        keys: &[Expr],
        calls: &[Expr],
        types: &[DataType],
    ) -> Result<Stage, UnsupportedExpr> {
        if keys.len() > KEYS_MAX {
            return unknown(format!("GROUP BY with more than {KEYS_MAX} keys"));
        }
        let schema = input.schema();
        let (key_types, result_types) = types.split_at(keys.len());
        for data_type in key_types {
            let values = match data_type {
                DataType::Dictionary(_, values) => values.as_ref(),
                other => other,
            };
            let is_known = values.is_primitive() || matches!(values, DataType::Utf8 | DataType::Boolean);
            if !is_known {
                return unknown(format!("GROUP BY a key of type {data_type}"));
            }
        }
        let have_order = matches!(stage, Stage::Table { .. }) || have_row_order(input);
        let SharedAggregates { computed: mut aggregates, outputs } =
            self.shared_aggregates(calls, result_types, schema, have_order)?;
        let stage = match stage {
            Stage::Table { scan, columns } => {
                let spec = self.spec(&scan);
                let over_table: Vec<Aggregate> =
                    aggregates.iter().map(|aggregate| over_columns(aggregate, &columns, &spec)).collect();
                let stage = Stage::Table { scan, columns };
                if over_table.iter().any(|aggregate| aggregate.function.is_of_rows_in_memory()) {
                    Stage::Frame(stage.into_plan(schema))
                } else {
                    aggregates = over_table;
                    stage
                }
            }
            frame => frame,
        };
        match stage {
            Stage::Frame(input) => {
                let keys = keys.iter().map(|key| self.convert(key, schema)).collect::<Result<Vec<_>, _>>()?;
                let (number, key_types) = (keys.len(), key_types.to_vec());
                let (aggregates, columns) = self.in_one_pass(aggregates);
                let plan = Plan::Aggregate { input: Box::new(input), keys, key_types, aggregates };
                Ok(Stage::Frame(project_aggregates(plan, number, &columns, &outputs)))
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
                let (number, key_types) = (table_keys.len(), key_types.to_vec());
                let (aggregates, columns) = self.in_one_pass(aggregates);
                let plan = Plan::AggregateTable { scan, keys: table_keys, key_types, aggregates };
                Ok(Stage::Frame(project_aggregates(plan, number, &columns, &outputs)))
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
    ) -> Result<Key, UnsupportedExpr> {
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
        if let Some(buckets) = self.buckets_of_time(&expr, spec).filter(|_| !bucketed) {
            return Ok(Key::Bucket(buckets));
        }
        Ok(Key::Value(expr))
    }

    /// An aggregate. First and last without an order of their own need rows with an order.
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        schema: &DFSchema,
        data_type: &DataType,
        ordered: bool,
    ) -> Result<Aggregate, UnsupportedExpr> {
        let call: &AggregateCall = match expr {
            Expr::Alias(alias) => return self.call(&alias.expr, schema, data_type, ordered),
            Expr::AggregateFunction(call) => call,
            other => return unknown(format!("the aggregate {other}")),
        };
        let (name, params) = (call.func.name(), &call.params);
        if params.null_treatment.is_some() {
            return unknown(format!("{name} with IGNORE NULLS or RESPECT NULLS"));
        }
        let picks = matches!(name, "first" | "last" | "first_value" | "last_value");
        let order_by = if picks { params.order_by.as_slice() } else { &[] };
        let is_plain = params.order_by.is_empty() || picks;
        // DISTINCT doesn't change a minimum or maximum.
        let is_distinct = params.distinct && !matches!(name, "min" | "max");
        let kernel = match is_plain {
            _ if matches!(name, "array_agg" | "string_agg") => self.list(call, schema, data_type),
            true => self.known_aggregate(name, &params.args, is_distinct, schema, data_type),
            false => unknown(format!("{name} with an ORDER BY in the call")),
        };
        let mut aggregate = match kernel {
            Ok(aggregate) => aggregate,
            Err(_) => self.external_aggregate(call, schema, data_type)?,
        };
        let orders = order_by.iter().map(|key| SortOptions { descending: !key.asc, nulls_first: key.nulls_first });
        aggregate.function = match aggregate.function {
            AggregateFunction::First if !order_by.is_empty() => AggregateFunction::FirstBy(orders.collect()),
            AggregateFunction::Last if !order_by.is_empty() => AggregateFunction::LastBy(orders.collect()),
            AggregateFunction::First | AggregateFunction::Last if !ordered => {
                return unknown(format!("{name} without an ORDER BY in the call, over rows without an order"));
            }
            function => function,
        };
        for key in order_by {
            aggregate.arguments.push(self.convert(&key.expr, schema)?);
        }
        if let (AggregateFunction::Min | AggregateFunction::Max, [value]) =
            (&aggregate.function, params.args.as_slice())
        {
            // The kernel compares the texts of a dictionary once.
            aggregate.arguments = vec![self.convert(without_decoding(value, schema), schema)?];
        }
        aggregate.filter = match &params.filter {
            Some(filter) => Some(self.convert(&with_equalities(filter), schema)?),
            None => None,
        };
        self.filter_by_choice(&mut aggregate);
        Ok(aggregate)
    }

    /// The values of groups as lists or texts.
    fn list(
        &mut self,
        call: &AggregateCall,
        schema: &DFSchema,
        data_type: &DataType,
    ) -> Result<Aggregate, UnsupportedExpr> {
        let (name, params) = (call.func.name(), &call.params);
        let (value, separator) = match params.args.as_slice() {
            [value] if name == "array_agg" => (value, None),
            [value, Expr::Literal(separator, None)] if name == "string_agg" => match separator.try_as_str() {
                Some(Some(separator)) => (value, Some(separator.to_owned())),
                _ => return unknown("string_agg with a separator that isn't text"),
            },
            _ => {
                return unknown(format!(
                    "{name} with another number of arguments, or a separator that isn't a literal"
                ));
            }
        };
        let by_value = [value.clone().sort(true, false)];
        let keys = match params.order_by.as_slice() {
            [] if params.distinct => &by_value,
            [key] if params.distinct && key.expr != *value => {
                return unknown(format!("{name}(DISTINCT x) with an ORDER BY other than x"));
            }
            [_, _, ..] if params.distinct => return unknown(format!("{name}(DISTINCT x) with several ORDER BY keys")),
            keys => keys,
        };
        let options = |key: &Sort| SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
        let listing = Listing { orders: keys.iter().map(options).collect(), is_distinct: params.distinct, separator };
        let values = std::iter::once(value).chain(keys.iter().map(|key| &key.expr));
        let arguments = values.map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let aggregate = Aggregate::new(AggregateFunction::List(listing), arguments, data_type.clone());
        let of = |expr: &Expr| expr.get_type(schema).map_err(|error| UnsupportedExpr(error.to_string()));
        let types = std::iter::once(value).chain(keys.iter().map(|key| &key.expr)).map(of);
        match aggregate.has_kernel(&types.collect::<Result<Vec<_>, _>>()?) {
            true => Ok(aggregate),
            false => unknown(format!("{name} with a result of type {data_type}")),
        }
    }

    /// Turns the condition of an argument such as that of `sum(CASE WHEN c THEN x END)` into a filter: the argument is null unless the condition
    /// holds.
    fn filter_by_choice(&self, aggregate: &mut Aggregate) {
        if !aggregate.function.leaves_nulls_out() {
            return;
        }
        for argument in &mut aggregate.arguments {
            let is_null = |rest: Option<ScalarValue>| rest.is_none_or(|rest| rest.is_null());
            let Some((condition, value)) = self.choice_or(argument, &is_null) else { continue };
            *argument = value;
            aggregate.filter = Some(match aggregate.filter.take() {
                Some(filter) => TickExpr::Binary(BinaryOp::And, Box::new(filter), Box::new(condition)),
                None => condition,
            });
        }
        if let (AggregateFunction::Count, [TickExpr::Constant(number)]) =
            (&aggregate.function, aggregate.arguments.as_slice())
            && self.constants.fixed_value(*number).is_some_and(|value| !value.is_null())
        {
            (aggregate.function, aggregate.arguments) = (AggregateFunction::CountRows, Vec::new());
        }
    }

    /// The condition and the value of a CASE whose result is a given constant, or null, if the condition isn't true.
    pub(super) fn choice_or(
        &self,
        expr: &TickExpr,
        is_rest: &dyn Fn(Option<ScalarValue>) -> bool,
    ) -> Option<(TickExpr, TickExpr)> {
        match expr {
            TickExpr::Case { branches, otherwise, .. } => {
                let is_it = match otherwise.as_deref() {
                    None => is_rest(None),
                    Some(TickExpr::Constant(number)) => {
                        self.constants.fixed_value(*number).is_some_and(|value| is_rest(Some(value)))
                    }
                    Some(_) => false,
                };
                let [choice] = branches.as_slice() else { return None };
                // A division may fail in just the rows that the condition excludes.
                (is_it && !divides(&choice.1)).then(|| choice.clone())
            }
            // A cast that can't fail, so it doesn't fail in a row that the condition excludes.
            TickExpr::Cast(inner, to) => {
                let TickExpr::Case { data_type: from, .. } = inner.as_ref() else { return None };
                let widens = match to {
                    DataType::Float64 => from.is_integer() || from.is_floating(),
                    DataType::Int64 => from.is_signed_integer(),
                    DataType::UInt64 => from.is_unsigned_integer(),
                    _ => false,
                };
                let (condition, value) = self.choice_or(inner, is_rest).filter(|_| widens)?;
                Some((condition, TickExpr::Cast(Box::new(value), to.clone())))
            }
            _ => None,
        }
    }

    /// An aggregate of DataFusion for which the engine has no kernel.
    fn external_aggregate(
        &mut self,
        call: &AggregateCall,
        schema: &DFSchema,
        data_type: &DataType,
    ) -> Result<Aggregate, UnsupportedExpr> {
        let function =
            AggregateFunction::External(ExternalAggregate(Arc::new(AggregateOf::new(call, schema, data_type)?)));
        let arguments = call.params.args.iter().map(|arg| self.convert(arg, schema)).collect::<Result<Vec<_>, _>>()?;
        Ok(Aggregate::new(function, arguments, data_type.clone()))
    }

    /// The engine's aggregate for one of DataFusion's or ours, for groups and for window frames.
    pub(super) fn known_aggregate(
        &mut self,
        name: &str,
        args: &[Expr],
        is_distinct: bool,
        schema: &DFSchema,
        data_type: &DataType,
    ) -> Result<Aggregate, UnsupportedExpr> {
        let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(value, None) if !value.is_null());
        let function = match (name, args) {
            ("count", [_]) if is_distinct => AggregateFunction::CountDistinct,
            _ if is_distinct => return unknown(format!("{name}(DISTINCT …)")),
            ("count", [one]) if is_constant(one) => AggregateFunction::CountRows,
            ("count", []) => AggregateFunction::CountRows,
            ("count", [_]) => AggregateFunction::Count,
            ("sum", [_]) => AggregateFunction::Sum,
            ("avg", [_]) => AggregateFunction::Average,
            ("min", [_]) => AggregateFunction::Min,
            ("max", [_]) => AggregateFunction::Max,
            ("first" | "first_value", [_]) => AggregateFunction::First,
            ("last" | "last_value", [_]) => AggregateFunction::Last,
            ("vwap" | "wavg", [_, _]) => AggregateFunction::WeightedAverage,
            ("wsum", [_, _]) => AggregateFunction::WeightedSum,
            ("var" | "var_samp", [_]) => AggregateFunction::Variance { sample: true },
            ("var_pop", [_]) => AggregateFunction::Variance { sample: false },
            ("stddev", [_]) => AggregateFunction::Deviation { sample: true },
            ("stddev_pop", [_]) => AggregateFunction::Deviation { sample: false },
            ("med" | "median", [_]) => AggregateFunction::Median,
            ("corr", [_, _]) => AggregateFunction::Correlation,
            ("covar_samp", [_, _]) => AggregateFunction::Covariance { sample: true },
            ("covar_pop", [_, _]) => AggregateFunction::Covariance { sample: false },
            _ => return unknown(format!("the aggregate {name}")),
        };
        let evaluated = if function == AggregateFunction::CountRows { &[] } else { args };
        let mut arguments = evaluated.iter().map(|arg| self.convert(arg, schema)).collect::<Result<Vec<_>, _>>()?;
        if name == "vwap" {
            // The weight is the first argument.
            arguments.reverse();
        }
        let aggregate = Aggregate::new(function, arguments, data_type.clone());
        let of = |arg: &Expr| arg.get_type(schema).map_err(|error| UnsupportedExpr(error.to_string()));
        let types = evaluated.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        if !aggregate.has_kernel(&types) {
            let types: Vec<String> = types.iter().map(ToString::to_string).collect();
            return unknown(format!("{name} of arguments of type {}", types.join(" and ")));
        }
        Ok(aggregate)
    }
}

/// Whether rows have an order of their own, as `row_order.rs` of `functions` determines it for DataFusion's groupings.
fn have_row_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => stored_table(plan).is_some(),
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Filter(filter) => have_row_order(&filter.input),
        LogicalPlan::Limit(limit) => have_row_order(&limit.input),
        LogicalPlan::Window(window) => have_row_order(&window.input),
        LogicalPlan::SubqueryAlias(alias) => have_row_order(&alias.input),
        LogicalPlan::Projection(projection) => have_row_order(&projection.input),
        LogicalPlan::Join(join) => matches!(asof_parts(join), Ok(Some(_))) && have_row_order(&join.left),
        _ => false,
    }
}

/// Rewrites an aggregate over a stage's columns to one over those of the table. First and last by the table's time become functions of their own.
pub(super) fn over_columns(aggregate: &Aggregate, columns: &[TickExpr], spec: &TableSpec) -> Aggregate {
    let substitute = |expr: &TickExpr| expr.substitute(columns);
    let mut aggregate = Aggregate {
        arguments: aggregate.arguments.iter().map(substitute).collect(),
        filter: aggregate.filter.as_ref().map(substitute),
        ..aggregate.clone()
    };
    by_time(&mut aggregate, spec);
    aggregate
}

/// First and last by the table's time become functions of their own.
pub(super) fn by_time(aggregate: &mut Aggregate, spec: &TableSpec) {
    let [_, TickExpr::Column(key)] = aggregate.arguments.as_slice() else { return };
    let rises = |orders: &[SortOptions]| *key == spec.time_position() && orders.iter().all(|order| !order.descending);
    aggregate.function = match &aggregate.function {
        AggregateFunction::FirstBy(orders) if rises(orders) => AggregateFunction::FirstByTime,
        AggregateFunction::LastBy(orders) if rises(orders) => AggregateFunction::LastByTime,
        _ => return,
    };
    aggregate.arguments.truncate(1);
}

/// Writes `IS NOT DISTINCT FROM` a literal as an equality: both hold for the same rows unless the literal is null.
fn with_equalities(filter: &Expr) -> Expr {
    fn is_value(expr: &Expr) -> bool {
        match expr {
            Expr::Cast(cast) => is_value(&cast.expr),
            other => matches!(other, Expr::Literal(value, _) if !value.is_null()),
        }
    }
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            with_equalities(left).and(with_equalities(right))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, right })
            if is_value(left) || is_value(right) =>
        {
            left.as_ref().clone().eq(right.as_ref().clone())
        }
        other => other.clone(),
    }
}

/// Groups with the requested aggregates: `outputs` over `columns`, which are over the plan's columns behind the keys.
fn project_aggregates(plan: Plan, keys: usize, columns: &[TickExpr], outputs: &[TickExpr]) -> Plan {
    let is_it = |(output, place): (&TickExpr, usize)| matches!(output, TickExpr::Column(column) if *column == place);
    if columns.len() == outputs.len()
        && keys + outputs.len() == plan.width()
        && [columns, outputs].iter().all(|all| all.iter().zip(0..).all(is_it))
    {
        return plan;
    }
    let made: Vec<TickExpr> = (keys..plan.width()).map(TickExpr::Column).collect();
    let columns: Vec<TickExpr> = columns.iter().map(|column| column.substitute(&made)).collect();
    let outputs = outputs.iter().map(|output| output.substitute(&columns));
    let outputs = (0..keys).map(TickExpr::Column).chain(outputs).collect();
    Plan::Project { input: Box::new(plan), outputs }
}

fn divides(expr: &TickExpr) -> bool {
    let mut divides = false;
    expr.visit(&mut |expr| {
        divides |= matches!(expr, TickExpr::Binary(BinaryOp::Divide | BinaryOp::Remainder, _, _));
    });
    divides
}
