//! From a logical plan, names and types settled but not optimised, to a tick plan.
//!
//! The plan is walked from the table up. As long as only filters and projections came by, the rows are still those of the
//! table and in its order: conditions on date, time and symbol become bounds, others a predicate, and what is computed is
//! kept as expressions over the table's columns. The first aggregate, sort, limit or window function ends that stage.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{AggregateFunction as AggregateCall, WindowFunction as WindowExpr};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, SortExpr, TableScan, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition,
};
use splay_engine::{
    Aggregate, AggregateFunction, BinaryOp, Bound, Expr as TickExpr, FRAME_ROWS_MAX, FrameFunction, FrameRows, Key,
    Plan, Scan, SortKey, WindowCall, WindowFunction,
};
use splay_store::{TableSnapshot, TableSpec};

use super::constants::Constants;
use super::convert::{Converter, Unknown, unknown};
use super::{calls, combine};
use crate::functions;
use crate::joins::window_parts;
use crate::provider::TickTable;

/// Most keys of a group.
const KEYS_MAX: usize = 16;

/// Longest list of symbols.
const SYMBOLS_MAX: usize = 100_000;

/// A tick plan with what it needs to run.
#[derive(Debug)]
pub(super) struct Recognised {
    pub plan: Plan,
    pub constants: Constants,
    /// The tables, as the plan numbers them, at the snapshots that it was made from.
    pub tables: Vec<(String, TableSnapshot)>,
}

/// The tick plan of a logical plan, or why there is none.
pub(super) fn recognise(plan: &LogicalPlan, options: &Arc<ConfigOptions>) -> Result<Recognised, Unknown> {
    let mut recogniser =
        Recogniser { constants: Constants::default(), tables: Vec::new(), options, in_window_join: false };
    let stage = recogniser.stage(plan)?;
    let mut plan = stage.into_plan(plan.schema());
    if let Some(null) = recogniser.constants.fix(&ScalarValue::Null) {
        plan.prune(null);
    }
    Ok(Recognised { plan, constants: recogniser.constants, tables: recogniser.tables })
}

/// Rows on their way.
pub(super) enum Stage {
    /// Of a table, in its order.
    Table {
        scan: Scan,
        /// The columns, over those of the table.
        columns: Vec<TickExpr>,
    },
    /// In memory.
    Frame(Plan),
}

impl Stage {
    pub(super) fn into_plan(self, schema: &DFSchema) -> Plan {
        match self {
            Stage::Frame(plan) => plan,
            Stage::Table { scan, columns } => Plan::Rows { scan, outputs: columns, types: types(schema), fetch: None },
        }
    }
}

pub(super) fn types(schema: &DFSchema) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

pub(super) struct Recogniser<'a> {
    pub(super) constants: Constants,
    tables: Vec<(String, TableSnapshot)>,
    options: &'a Arc<ConfigOptions>,
    /// Whether the right side of a window join is looked at, whose scans number their rows.
    pub(super) in_window_join: bool,
}

impl Recogniser<'_> {
    pub(super) fn convert(&mut self, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, Unknown> {
        Converter { constants: &mut self.constants, options: self.options }.convert(expr, schema)
    }

    pub(super) fn stage(&mut self, plan: &LogicalPlan) -> Result<Stage, Unknown> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.stage(&alias.input),
            LogicalPlan::Filter(filter) => self.filter(&filter.predicate, &filter.input),
            LogicalPlan::Projection(projection) => {
                let stage = self.stage(&projection.input)?;
                let schema = projection.input.schema();
                let outputs =
                    projection.expr.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
                Ok(match stage {
                    Stage::Table { scan, columns } => {
                        let columns = outputs.iter().map(|output| output.substitute(&columns)).collect();
                        Stage::Table { scan, columns }
                    }
                    Stage::Frame(input) => Stage::Frame(Plan::Project { input: Box::new(input), outputs }),
                })
            }
            LogicalPlan::Aggregate(aggregate) => {
                if let Some(parts) = window_parts(aggregate) {
                    return self.window_join(&parts, aggregate, plan.schema());
                }
                self.aggregate(&aggregate.input, &aggregate.group_expr, &aggregate.aggr_expr, plan.schema())
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let keys: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
                self.aggregate(input, &keys, &[], plan.schema())
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct),
            LogicalPlan::Window(window) => {
                let input = self.stage(&window.input)?.into_plan(window.input.schema());
                let schema = window.input.schema();
                let calls =
                    window.window_expr.iter().map(|expr| self.window(expr, schema)).collect::<Result<Vec<_>, _>>()?;
                Ok(Stage::Frame(Plan::Window { input: Box::new(input), calls }))
            }
            LogicalPlan::Sort(sort) => {
                let input = self.stage(&sort.input)?.into_plan(sort.input.schema());
                let keys = self.sort_keys(&sort.expr, sort.input.schema())?;
                Ok(Stage::Frame(Plan::Sort { input: Box::new(input), keys, fetch: sort.fetch }))
            }
            LogicalPlan::Limit(limit) => {
                let count = |expr: &Option<Box<Expr>>| match expr.as_deref() {
                    None => Ok(None),
                    Some(Expr::Literal(ScalarValue::Int64(Some(rows)), None)) => {
                        usize::try_from(*rows).map(Some).map_err(|_| Unknown("a negative limit".to_owned()))
                    }
                    Some(_) => unknown("a limit that isn't a number"),
                };
                let (skip, fetch) = (count(&limit.skip)?.unwrap_or(0), count(&limit.fetch)?);
                let input = self.stage(&limit.input)?.into_plan(limit.input.schema());
                let rows = fetch.and_then(|fetch| fetch.checked_add(skip));
                let input = match input {
                    Plan::Rows { scan, outputs, types, fetch } => {
                        Plan::Rows { scan, outputs, types, fetch: least(fetch, rows) }
                    }
                    Plan::Sort { input, keys, fetch } => Plan::Sort { input, keys, fetch: least(fetch, rows) },
                    other => other,
                };
                Ok(Stage::Frame(Plan::Limit { input: Box::new(input), skip, fetch }))
            }
            LogicalPlan::Join(join) => self.join(join, &join.left),
            LogicalPlan::Union(union) => self.union(union),
            other => unknown(node_name(other)),
        }
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Stage, Unknown> {
        let Ok(provider) = source_as_provider(&scan.source) else { return unknown("a source that is no table") };
        let Some(table) = provider.downcast_ref::<TickTable>() else {
            return unknown(format!("{}, which is no table of the database", scan.table_name));
        };
        if !scan.filters.is_empty() || scan.fetch.is_some() || scan.projection.is_some() {
            return unknown("a scan that was narrowed before");
        }
        let snapshot = table.snapshot();
        let is_numbered = table.is_numbered();
        if is_numbered && !self.in_window_join {
            return unknown("a scan with row numbers");
        }
        let width = snapshot.spec().columns.len() + usize::from(snapshot.spec().has_virtual_date());
        let name = scan.table_name.table().to_owned();
        let number = match self.tables.iter().position(|(known, _)| *known == name) {
            Some(number) => number,
            None => {
                self.tables.push((name, snapshot.clone()));
                self.tables.len() - 1
            }
        };
        let scan = Scan { table: number, bounds: Vec::new(), predicate: None };
        let mut columns: Vec<TickExpr> = (0..width).map(TickExpr::Column).collect();
        if is_numbered {
            // Nobody looks at it: rows are in the order of the table as they are.
            let Some(null) = self.constants.fix(&ScalarValue::Null) else { return unknown("a null") };
            columns.push(TickExpr::Constant(null));
        }
        Ok(Stage::Table { scan, columns })
    }

    pub(super) fn spec(&self, scan: &Scan) -> TableSpec {
        self.tables[scan.table].1.spec().clone()
    }

    fn filter(&mut self, predicate: &Expr, input: &LogicalPlan) -> Result<Stage, Unknown> {
        if let LogicalPlan::Join(join) = input {
            return self.filtered_join(predicate, join);
        }
        let stage = self.stage(input)?;
        let schema = input.schema();
        let Stage::Table { mut scan, columns } = stage else {
            let predicate = self.convert(predicate, schema)?;
            let Stage::Frame(input) = stage else { return unknown("a filter") };
            return Ok(Stage::Frame(combine::filtered(input, predicate)));
        };
        let spec = self.spec(&scan);
        for condition in split_conjunction(predicate) {
            if let Some(symbols) = self.symbols(condition, schema, &columns, &spec)? {
                scan.bounds.push(Bound::Symbol(symbols));
                continue;
            }
            let condition = self.convert(condition, schema)?.substitute(&columns);
            if self.bound(&condition, &spec, &mut scan.bounds) {
                continue;
            }
            scan.predicate = Some(match scan.predicate.take() {
                Some(known) => TickExpr::Binary(BinaryOp::And, Box::new(known), Box::new(condition)),
                None => condition,
            });
        }
        Ok(Stage::Table { scan, columns })
    }

    /// The constants that the symbol column must be one of, if a condition says that and nothing else.
    fn symbols(
        &mut self,
        condition: &Expr,
        schema: &DFSchema,
        columns: &[TickExpr],
        spec: &TableSpec,
    ) -> Result<Option<Vec<usize>>, Unknown> {
        let Some(symbol) = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol)) else { return Ok(None) };
        let (subject, items): (&Expr, Vec<&Expr>) = match condition {
            Expr::InList(list) if !list.negated && list.list.len() <= SYMBOLS_MAX => {
                (&list.expr, list.list.iter().collect())
            }
            Expr::BinaryExpr(binary) if binary.op == datafusion::logical_expr::Operator::Eq => {
                match (is_column(&binary.left), is_column(&binary.right)) {
                    (true, false) => (&binary.left, vec![&binary.right]),
                    (false, true) => (&binary.right, vec![&binary.left]),
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        let Ok(column) = self.convert(without_casts(subject), schema) else { return Ok(None) };
        if !matches!(column.substitute(columns), TickExpr::Column(position) if position == symbol) {
            return Ok(None);
        }
        let mut numbers = Vec::with_capacity(items.len());
        for item in items {
            // A text stands for a symbol as it is; other kinds of text need not be made of it in each run.
            let item = match without_casts(item) {
                literal @ Expr::Literal(ScalarValue::Utf8(_), _) => literal,
                _ => item,
            };
            match self.convert(item, schema)? {
                TickExpr::Constant(number) => numbers.push(number),
                _ => return Ok(None),
            }
        }
        Ok(Some(numbers))
    }

    /// Takes a condition that the order answers.
    fn bound(&self, condition: &TickExpr, spec: &TableSpec, bounds: &mut Vec<Bound>) -> bool {
        let TickExpr::Binary(op, left, right) = condition else { return false };
        if *op == BinaryOp::And {
            // Both sides or none: a `between` is such a pair.
            let mut taken = Vec::new();
            let both = self.bound(left, spec, &mut taken) && self.bound(right, spec, &mut taken);
            if both {
                bounds.extend(taken);
            }
            return both;
        }
        let (column, op, constant) = match (instants(left), instants(right)) {
            (TickExpr::Column(column), TickExpr::Constant(constant)) => (*column, *op, *constant),
            (TickExpr::Constant(constant), TickExpr::Column(column)) => (*column, op.swapped(), *constant),
            _ => return false,
        };
        let is_range = matches!(
            op,
            BinaryOp::Equal | BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Greater | BinaryOp::GreaterOrEqual
        );
        if !is_range {
            return false;
        }
        if column == spec.time_position() {
            bounds.push(Bound::Time(op, constant));
        } else if spec.has_virtual_date() && column == spec.columns.len() {
            bounds.push(Bound::Date(op, constant));
        } else {
            return false;
        }
        true
    }

    fn aggregate(
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
        if params.distinct || params.null_treatment.is_some() {
            return unknown(format!("{name} with distinct or a treatment of nulls"));
        }
        // An order by time is one that the table knows; see `aggregate`, where the columns are known.
        let by_time = match params.order_by.as_slice() {
            [] => None,
            [key] if key.asc && matches!(name, "first" | "last") && ordered => Some(self.convert(&key.expr, schema)?),
            _ => return unknown(format!("{name} with such an order")),
        };
        let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(value, None) if !value.is_null());
        let function = match (name, params.args.as_slice()) {
            ("count", [one]) if is_constant(one) => AggregateFunction::CountRows,
            ("count", []) => AggregateFunction::CountRows,
            ("count", [_]) => AggregateFunction::Count,
            ("sum", [_]) => AggregateFunction::Sum,
            ("avg", [_]) => AggregateFunction::Average,
            ("min", [_]) => AggregateFunction::Min,
            ("max", [_]) => AggregateFunction::Max,
            ("first", [_]) if by_time.is_some() => AggregateFunction::FirstByTime,
            ("last", [_]) if by_time.is_some() => AggregateFunction::LastByTime,
            ("first", [_]) if ordered => AggregateFunction::First,
            ("last", [_]) if ordered => AggregateFunction::Last,
            ("vwap" | "wavg", [_, _]) => AggregateFunction::WeightedAverage,
            ("wsum", [_, _]) => AggregateFunction::WeightedSum,
            ("var" | "var_samp", [_]) => AggregateFunction::Variance { sample: true },
            ("var_pop", [_]) => AggregateFunction::Variance { sample: false },
            ("stddev", [_]) => AggregateFunction::Deviation { sample: true },
            ("stddev_pop", [_]) => AggregateFunction::Deviation { sample: false },
            ("med", [_]) => AggregateFunction::Median,
            ("median", [argument]) if is_float(argument, schema) => AggregateFunction::Median,
            ("corr", [_, _]) => AggregateFunction::Correlation,
            _ => return unknown(format!("the aggregate {name}")),
        };
        let given = if function == AggregateFunction::CountRows { &[] } else { params.args.as_slice() };
        let mut arguments = given.iter().map(|arg| self.convert(arg, schema)).collect::<Result<Vec<_>, _>>()?;
        if name == "vwap" {
            // The weight comes first.
            arguments.reverse();
        }
        arguments.extend(by_time);
        if !has_kernel(function, given, schema) {
            return unknown(format!("{name} of such values"));
        }
        let filter = match &params.filter {
            Some(filter) => Some(self.convert(filter, schema)?),
            None => None,
        };
        Ok(Aggregate { function, arguments, filter, data_type: data_type.clone() })
    }

    /// The first row of each group in an order: the row with the number 1.
    fn distinct_on(&mut self, distinct: &DistinctOn) -> Result<Stage, Unknown> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = distinct;
        let schema = input.schema();
        let Some(sort_expr) = sort_expr else { return unknown("distinct on without an order") };
        let keys = on_expr.len();
        let order_by = self.sort_keys(sort_expr, schema)?;
        if keys > KEYS_MAX || order_by.len() < keys {
            return unknown(format!("distinct on by {keys} keys"));
        }
        let partition_by = on_expr.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let outputs = select_expr.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let Some(one) = self.constants.fix(&ScalarValue::UInt64(Some(1))) else { return unknown("a number") };
        let input = self.stage(input)?.into_plan(schema);
        let number = TickExpr::Column(input.width());
        let call = WindowCall {
            function: WindowFunction::Partition(Arc::new(calls::WindowCall {
                function: row_number_udwf(),
                arguments: Vec::new(),
                ignore_nulls: false,
            })),
            arguments: Vec::new(),
            partition_by,
            // The order begins with the keys of the groups, which are equal in each.
            order_by: order_by[keys..].to_vec(),
            data_type: DataType::UInt64,
            first: Some((BinaryOp::Equal, one)),
        };
        let numbered = Plan::Window { input: Box::new(input), calls: vec![call] };
        let predicate = TickExpr::Binary(BinaryOp::Equal, Box::new(number), Box::new(TickExpr::Constant(one)));
        let first = Plan::Filter { input: Box::new(numbered), predicate };
        let sorted = Plan::Sort { input: Box::new(first), keys: order_by[..keys].to_vec(), fetch: None };
        Ok(Stage::Frame(Plan::Project { input: Box::new(sorted), outputs }))
    }

    fn window(&mut self, expr: &Expr, schema: &DFSchema) -> Result<WindowCall, Unknown> {
        let window: &WindowExpr = match expr {
            Expr::Alias(alias) => return self.window(&alias.expr, schema),
            Expr::WindowFunction(window) => window,
            other => return unknown(format!("the window function {other}")),
        };
        let params = &window.params;
        if params.partition_by.len() > KEYS_MAX {
            return unknown(format!("a window by {} keys", params.partition_by.len()));
        }
        if params.filter.is_some() || params.distinct {
            return unknown("a window function with a filter or distinct");
        }
        let data_type = expr.get_type(schema).map_err(|error| Unknown(error.to_string()))?;
        let mut arguments = Vec::with_capacity(params.args.len());
        let mut described = Vec::with_capacity(params.args.len());
        for argument in &params.args {
            let argument_type = argument.get_type(schema).map_err(|error| Unknown(error.to_string()))?;
            let converted = self.convert(argument, schema)?;
            let constant = match &converted {
                TickExpr::Constant(number) => match self.constants.fixed(*number) {
                    Some(value) => Some(value),
                    None => return unknown("a window function of a parameter"),
                },
                _ => None,
            };
            described.push((argument_type, constant));
            arguments.push(converted);
        }
        let function = match &window.fun {
            WindowFunctionDefinition::WindowUDF(function) => {
                let known = ["lag", "lead", "deltas", "ratios", "log_return", "differ", "fills", "row_number"];
                if !known.contains(&function.name()) {
                    return unknown(format!("the window function {}", function.name()));
                }
                let ignore_nulls =
                    params.null_treatment == Some(datafusion::logical_expr::expr::NullTreatment::IgnoreNulls);
                WindowFunction::Partition(Arc::new(calls::WindowCall {
                    function: Arc::clone(function),
                    arguments: described.clone(),
                    ignore_nulls,
                }))
            }
            WindowFunctionDefinition::AggregateUDF(function) => {
                if params.null_treatment.is_some() {
                    return unknown("a window function with a treatment of nulls");
                }
                self.framed(function.name(), &params.args, &params.window_frame, params.order_by.is_empty(), schema)?
            }
        };
        if let WindowFunction::Frame(FrameFunction::Count, _) = function
            && described.iter().all(|(_, constant)| constant.as_ref().is_some_and(|value| !value.is_null()))
        {
            arguments.clear();
        }
        let partition_by =
            params.partition_by.iter().map(|expr| self.convert(expr, schema)).collect::<Result<Vec<_>, _>>()?;
        let order_by = self.sort_keys(&params.order_by, schema)?;
        Ok(WindowCall { function, arguments, partition_by, order_by, data_type, first: None })
    }

    fn framed(
        &self,
        name: &str,
        arguments: &[Expr],
        frame: &datafusion::logical_expr::WindowFrame,
        unordered: bool,
        schema: &DFSchema,
    ) -> Result<WindowFunction, Unknown> {
        let function = match name {
            "count" => FrameFunction::Count,
            "sum" => FrameFunction::Sum,
            "avg" => FrameFunction::Average,
            "min" => FrameFunction::Min,
            "max" => FrameFunction::Max,
            other => return unknown(format!("{other} over a window")),
        };
        let is_known = |data_type: &DataType| match function {
            FrameFunction::Count => true,
            FrameFunction::Average => *data_type == DataType::Float64,
            _ => matches!(data_type, DataType::Float64 | DataType::Int64),
        };
        let argument = arguments.first().and_then(|argument| argument.get_type(schema).ok());
        if arguments.len() != 1 || !argument.as_ref().is_some_and(is_known) {
            return unknown(format!("{name} of such values over a window"));
        }
        let unbounded = |bound: &WindowFrameBound| matches!(bound, WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) if value.is_null());
        let rows = match (&frame.start_bound, &frame.end_bound, frame.units) {
            (start, end, _) if unbounded(start) && unbounded(end) => FrameRows::Whole,
            // Without an order all rows are equal, so a range reaches over all of them.
            (start, WindowFrameBound::CurrentRow, WindowFrameUnits::Range) if unbounded(start) && unordered => {
                FrameRows::Whole
            }
            (start, WindowFrameBound::CurrentRow, WindowFrameUnits::Rows) if unbounded(start) => FrameRows::Running,
            (
                WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows))),
                WindowFrameBound::CurrentRow,
                WindowFrameUnits::Rows,
            ) => match usize::try_from(*rows) {
                Ok(rows) if rows < FRAME_ROWS_MAX => FrameRows::Last(rows),
                _ => return unknown("a frame of so many rows"),
            },
            _ => return unknown("such a window frame"),
        };
        Ok(WindowFunction::Frame(function, rows))
    }

    fn sort_keys(&mut self, keys: &[SortExpr], schema: &DFSchema) -> Result<Vec<SortKey>, Unknown> {
        let mut converted = Vec::with_capacity(keys.len());
        for key in keys {
            let expr = self.convert(&key.expr, schema)?;
            converted.push(SortKey { expr, descending: !key.asc, nulls_first: key.nulls_first });
        }
        Ok(converted)
    }
}

fn has_kernel(function: AggregateFunction, arguments: &[Expr], schema: &DFSchema) -> bool {
    let types: Vec<DataType> = arguments.iter().filter_map(|argument| argument.get_type(schema).ok()).collect();
    let floats = types.iter().all(|data_type| *data_type == DataType::Float64);
    match function {
        AggregateFunction::CountRows
        | AggregateFunction::Count
        | AggregateFunction::First
        | AggregateFunction::Last
        | AggregateFunction::FirstByTime
        | AggregateFunction::LastByTime => true,
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

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type == DataType::Float64)
}

fn is_column(expr: &Expr) -> bool {
    matches!(without_casts(expr), Expr::Column(_))
}

/// An expression without casts to text, which change no text.
fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) if is_text(cast.field.data_type()) => without_casts(&cast.expr),
        other => other,
    }
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// A column, also where it is cast to the same instants.
pub(super) fn instants(expr: &TickExpr) -> &TickExpr {
    match expr {
        TickExpr::Cast(inner, DataType::Timestamp(TimeUnit::Nanosecond, zone))
            if matches!(inner.as_ref(), TickExpr::Column(_)) && zone.as_deref().is_none_or(|zone| zone == "UTC") =>
        {
            inner
        }
        other => other,
    }
}

fn least(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn node_name(plan: &LogicalPlan) -> String {
    let text = plan.display().to_string();
    let end = text.find([':', ' ']).unwrap_or(text.len());
    format!("the operation {}", &text[..end])
}
