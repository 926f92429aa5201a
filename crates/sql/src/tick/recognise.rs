//! Translates a logical plan, with names and types resolved but not optimised, to a tick plan.
//!
//! The plan is walked from the table up. As long as it has only filters and projections, the rows are those of the
//! table in its order: conditions on date, time and symbol become bounds, others a predicate, and computed columns
//! stay expressions over the table's columns. The first aggregate, sort, limit or window function ends that stage.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, SortExpr, TableScan};
use splay_engine::{BinaryOp, Bound, Buckets, Expr as TickExpr, FileScan, LookupTable, Plan, Scan, SortKey};
use splay_functions::walk::{Walk, WalkPlan};
use splay_functions::{self as functions, LOCAL_DATE};
use splay_store::{DayStart, FilesInPlace, TableSnapshot, TableSpec};

use super::combine;
use super::constants::Constants;
use super::convert::{Converter, UnsupportedExpr, unknown};
use super::keys_of_rows::with_narrowed_queries;
use super::narrow;
use crate::bounds::may_grow;
use crate::correlated_in::as_exists;
use crate::files::FileTable;
use crate::joins::window_parts;
use crate::provider::TickTable;
use crate::pushdown::is_text;

/// Most group keys; each has a bit that tells whether it is null.
pub(super) const KEYS_MAX: usize = 63;

/// Longest list of symbols.
const SYMBOLS_MAX: usize = 100_000;

/// Most nodes of an expression after substitutions. Each is evaluated as often as it occurs.
const SUBSTITUTED_NODES_MAX: usize = 1_000;

/// The limit for expressions that make texts. `x || x` doubles with each substitution, and the substituted expression holds the texts of all steps at
/// once.
const SUBSTITUTED_TEXTS_MAX: usize = 32;

/// A tick plan with its inputs.
#[derive(Debug)]
pub(super) struct RecognisedPlan {
    pub plan: Plan,
    pub constants: Constants,
    /// The side inputs, which are read first, in this order. Their columns become constants.
    pub sides: Vec<LookupSource>,
    /// Lookup tables in which a key may occur twice.
    pub lookups: Vec<Arc<LookupTable>>,
    /// The tables, by their number in the plans, with the snapshots for which the plans were made.
    pub tables: Vec<(String, TableSnapshot)>,
    /// The files that are no tables, by their number in the plans, with their path or pattern.
    pub files: Vec<(String, Arc<dyn FilesInPlace>)>,
    /// Whether the plan assumes unique keys without knowing that they are.
    pub assumes_unique: bool,
}

/// The side of a join in which rows of the other side are looked up.
#[derive(Debug)]
pub(super) struct LookupSource {
    pub plan: Plan,
    pub schema: SchemaRef,
}

/// Bytes of a row's place in the table by which it is looked up, while that is built.
const LOOKUP_ROW_BYTES: usize = 64;

/// Bytes of a text of a side, more or less.
const TEXT_BYTES: usize = 32;

impl LookupSource {
    /// Bytes that a row takes, more or less.
    pub fn row_bytes(&self) -> usize {
        let widths = self.schema.fields().iter().map(|field| field.data_type().primitive_width().unwrap_or(TEXT_BYTES));
        LOOKUP_ROW_BYTES + widths.sum::<usize>()
    }
}

/// The tick plan of a logical plan, or why there is none.
///
/// Unless `keys_repeat`, it assumes that keys of a join's side are unique where they may not be, because looking one row up is simpler.
pub(super) fn recognise(
    plan: &LogicalPlan,
    options: &Arc<ConfigOptions>,
    keys_repeat: bool,
) -> Result<RecognisedPlan, UnsupportedExpr> {
    let mut recogniser = Recogniser {
        constants: Constants::default(),
        sides: Vec::new(),
        lookups: Vec::new(),
        tables: Vec::new(),
        files: Vec::new(),
        options,
        in_window_join: false,
        names: names(plan)?,
        keys_repeat,
        assumes_unique: false,
        repeated: repeated_groups(plan)?,
        lists: Vec::new(),
    };
    let stage = recogniser.stage(plan)?;
    let mut plan = stage.into_plan(plan.schema());
    if let Some(null) = recogniser.constants.fix(&ScalarValue::Null) {
        plan.prune(null);
        recogniser.sides.iter_mut().for_each(|side| side.plan.prune(null));
    }
    for plan in recogniser.sides.iter().map(|side| &side.plan).chain([&plan]) {
        if let Some(data_type) = unread_type(plan) {
            return unknown(format!("a column of a file that has the type {data_type}"));
        }
    }
    if is_streamed(&plan) {
        return unknown("rows of files without a computation, which DataFusion streams");
    }
    let Recogniser { constants, sides, lookups, tables, files, assumes_unique, .. } = recogniser;
    Ok(RecognisedPlan { plan, constants, sides, lookups, tables, files, assumes_unique })
}

/// Whether a plan's rows are all those of files.
fn is_streamed(plan: &Plan) -> bool {
    match plan {
        Plan::Files(_) => true,
        Plan::Project { input, .. } => is_streamed(input),
        Plan::Union { inputs } => inputs.iter().any(is_streamed),
        _ => false,
    }
}

/// A type of columns that a plan reads from files, and the engine doesn't.
fn unread_type(plan: &Plan) -> Option<&DataType> {
    match plan {
        Plan::Files(scan) => {
            let read = scan.columns.iter().zip(&scan.types).filter(|(column, _)| column.is_some());
            read.map(|(_, data_type)| data_type).find(|data_type| !is_read_from_files(data_type))
        }
        other => other.inputs().iter().find_map(unread_type),
    }
}

/// Whether the engine reads columns of a type from files.
fn is_read_from_files(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(_, _)
        | DataType::Date32
        | DataType::Time64(TimeUnit::Nanosecond)
        | DataType::Timestamp(_, _)
        | DataType::Utf8 => true,
        DataType::Dictionary(codes, texts) => **codes == DataType::Int32 && **texts == DataType::Utf8,
        other => other.is_integer(),
    }
}

/// Rows at a stage of the translation.
pub(super) enum Stage {
    /// Rows of a table, in the table's order.
    Table {
        scan: Scan,
        /// The columns, over those of the table.
        columns: Vec<TickExpr>,
    },
    /// Rows in memory.
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

/// Limits a plan to its first rows.
fn first_rows(plan: Plan, rows: Option<usize>) -> Plan {
    match plan {
        Plan::Rows { scan, outputs, types, fetch } => Plan::Rows { scan, outputs, types, fetch: least(fetch, rows) },
        Plan::Sort { input, keys, fetch } => Plan::Sort { input, keys, fetch: least(fetch, rows) },
        Plan::Project { input, outputs } => Plan::Project { input: Box::new(first_rows(*input, rows)), outputs },
        other => other,
    }
}

/// Substitutes the expressions of columns into other expressions, which repeats an expression that is used several times.
fn substitute_columns(outputs: &[TickExpr], columns: &[TickExpr]) -> Result<Vec<TickExpr>, UnsupportedExpr> {
    let size = |expr: &TickExpr| {
        let mut nodes = 0usize;
        expr.visit(&mut |_| nodes += 1);
        nodes
    };
    let makes_texts = |expr: &TickExpr| {
        let mut makes = false;
        expr.visit(&mut |expr| makes |= matches!(expr, TickExpr::Call(function, _) if may_grow(function.name())));
        makes
    };
    let sizes: Vec<usize> = columns.iter().map(size).collect();
    let texts: Vec<bool> = columns.iter().map(makes_texts).collect();
    for output in outputs {
        let (own, mut nodes, mut of_texts) = (size(output), 0usize, false);
        output.visit_columns(&mut |position| {
            nodes = nodes.saturating_add(sizes[position]);
            of_texts |= texts[position];
        });
        let most = if of_texts && makes_texts(output) { SUBSTITUTED_TEXTS_MAX } else { SUBSTITUTED_NODES_MAX };
        if nodes > most && nodes / 2 > own {
            return unknown("an expression that repeats computed columns too many times");
        }
    }
    Ok(outputs.iter().map(|output| output.substitute(columns)).collect())
}

pub(super) fn types(schema: &DFSchema) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

pub(super) struct Recogniser<'a> {
    pub(super) constants: Constants,
    pub(super) sides: Vec<LookupSource>,
    pub(super) lookups: Vec<Arc<LookupTable>>,
    tables: Vec<(String, TableSnapshot)>,
    files: Vec<(String, Arc<dyn FilesInPlace>)>,
    options: &'a Arc<ConfigOptions>,
    /// Whether the right side of a window join is being translated, whose scans number their rows.
    pub(super) in_window_join: bool,
    /// The names of all columns that some expression of the statement reads, whichever table they are of.
    pub(super) names: HashSet<String>,
    /// Whether keys of sides of joins may repeat.
    pub(super) keys_repeat: bool,
    /// Whether the plan assumes that they don't repeat.
    pub(super) assumes_unique: bool,
    /// Plans that the statement reads several times, with their rows once these are a side input.
    pub(super) repeated: Vec<(LogicalPlan, Option<Plan>)>,
    /// Queries whose values are lists, with the constants that hold these.
    pub(super) lists: Vec<(LogicalPlan, usize)>,
}

/// The groups by keys that occur several times in a statement, like those of a `WITH` that it reads twice.
fn repeated_groups(plan: &LogicalPlan) -> Result<Vec<(LogicalPlan, Option<Plan>)>, UnsupportedExpr> {
    let mut groups: Vec<LogicalPlan> = Vec::new();
    let walked = plan.walk_steps(|node| {
        let has_keys = match node {
            LogicalPlan::Aggregate(aggregate) => !aggregate.group_expr.is_empty(),
            LogicalPlan::Distinct(Distinct::All(_)) => true,
            _ => false,
        };
        if has_keys {
            groups.push(node.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(|error| UnsupportedExpr(error.to_string()))?;
    let mut seen = HashSet::with_capacity(groups.len());
    let mut repeated = Vec::new();
    for group in &groups {
        let is_known = |(known, _): &(LogicalPlan, Option<Plan>)| known == group;
        if groups.len() > 1 && !seen.insert(group) && !repeated.iter().any(is_known) {
            repeated.push((group.clone(), None));
        }
    }
    Ok(repeated)
}

/// The names of all columns that expressions of a plan read.
fn names(plan: &LogicalPlan) -> Result<HashSet<String>, UnsupportedExpr> {
    let mut names = HashSet::new();
    let collected = plan.walk_steps(|node| {
        node.walk_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr {
                    names.insert(column.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    collected.map_err(|error| UnsupportedExpr(error.to_string()))?;
    Ok(names)
}

impl Recogniser<'_> {
    pub(super) fn convert(&mut self, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let queries = self.queries(expr, schema)?;
        Converter { constants: &mut self.constants, options: self.options, queries: &queries }.convert(expr, schema)
    }

    pub(super) fn stage(&mut self, plan: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        if let Some(values) = self.repeated.iter().find_map(|(read, values)| values.as_ref().filter(|_| read == plan)) {
            return Ok(Stage::Frame(values.clone()));
        }
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
                        Stage::Table { scan, columns: substitute_columns(&outputs, &columns)? }
                    }
                    Stage::Frame(input) => Stage::Frame(Plan::Project { input: Box::new(input), outputs }),
                })
            }
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::All(_)) => self.groups(plan),
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
                    Some(Expr::Literal(ScalarValue::Int64(Some(rows)), None)) => usize::try_from(*rows)
                        .map(Some)
                        .map_err(|_| UnsupportedExpr("a negative LIMIT or OFFSET".to_owned())),
                    Some(_) => unknown("a LIMIT or OFFSET that isn't a literal number"),
                };
                let (skip, fetch) = (count(&limit.skip)?.unwrap_or(0), count(&limit.fetch)?);
                let input = self.stage(&limit.input)?.into_plan(limit.input.schema());
                let rows = fetch.and_then(|fetch| fetch.checked_add(skip));
                let input = self.with_late_values(first_rows(input, rows));
                Ok(Stage::Frame(Plan::Limit { input: Box::new(input), skip, fetch }))
            }
            LogicalPlan::Join(join) => self.join(join, &join.left),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            LogicalPlan::Values(_) => match combine::literal_columns(plan)? {
                Some(columns) => {
                    let columns = columns.into_iter().map(|column| self.constants.column(column)).collect();
                    Ok(Stage::Frame(Plan::Values { columns, unique: 0 }))
                }
                None => unknown("VALUES with an expression that isn't a literal"),
            },
            LogicalPlan::EmptyRelation(rows) if rows.produce_one_row => {
                let row = self.constants.column(Arc::new(BooleanArray::from(vec![true])));
                Ok(Stage::Frame(Plan::Values { columns: vec![row], unique: 0 }))
            }
            other => unknown(node_name(other)),
        }
    }

    /// The groups of a plan. Groups that the statement reads several times are made once.
    fn groups(&mut self, plan: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        let Some(number) = self.repeated.iter().position(|(repeated, _)| repeated == plan) else {
            return self.own_groups(plan);
        };
        let groups = self.own_groups(plan)?.into_plan(plan.schema());
        let width = plan.schema().fields().len();
        let keys = match plan {
            LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.len(),
            _ => width,
        };
        let unique = if combine::groups_by(&groups, &(0..keys).collect::<Vec<_>>()) { keys } else { 0 };
        let side = self.add_side(groups, plan.schema());
        let columns = (0..width).map(|column| self.constants.side(side, column)).collect();
        let values = Plan::Values { columns, unique };
        self.repeated[number].1 = Some(values.clone());
        Ok(Stage::Frame(values))
    }

    fn own_groups(&mut self, plan: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        match plan {
            LogicalPlan::Aggregate(aggregate) => {
                if let Some(parts) = window_parts(aggregate) {
                    return self.window_join(&parts, aggregate, plan.schema());
                }
                if let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() {
                    return self.grouping_sets(&aggregate.input, sets, &aggregate.aggr_expr, plan.schema());
                }
                self.aggregate(&aggregate.input, &aggregate.group_expr, &aggregate.aggr_expr, &types(plan.schema()))
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let keys: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
                self.aggregate(input, &keys, &[], &types(plan.schema()))
            }
            other => unknown(node_name(other)),
        }
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Stage, UnsupportedExpr> {
        let Ok(provider) = source_as_provider(&scan.source) else { return unknown("a relation that isn't a table") };
        if let Some(files) = provider.downcast_ref::<FileTable>() {
            return self.file_scan(scan, files);
        }
        let Some(table) = provider.downcast_ref::<TickTable>() else {
            return unknown(format!("{}, which isn't a table of the database", scan.table_name));
        };
        if !scan.filters.is_empty() || scan.fetch.is_some() || scan.projection.is_some() {
            return unknown("a scan into which DataFusion has pushed filters, columns or a limit");
        }
        if table.is_guarded() {
            return unknown("a table with columns or rows that rights or policies hide");
        }
        let snapshot = table.snapshot();
        let is_numbered = table.is_numbered();
        if is_numbered && !self.in_window_join {
            return unknown("row numbers of a table, outside a window join");
        }
        let width = snapshot.spec().shown_columns().len() + usize::from(table.has_date());
        let name = scan.table_name.table().to_owned();
        let number = match self.tables.iter().position(|(table_name, _)| *table_name == name) {
            Some(number) => number,
            None => {
                self.tables.push((name, snapshot.clone()));
                self.tables.len() - 1
            }
        };
        let scan = Scan { table: number, bounds: Vec::new(), predicate: None };
        let mut columns: Vec<TickExpr> = (0..width).map(TickExpr::Column).collect();
        if is_numbered {
            // No step reads it: the rows are in the order of the table already.
            let Some(null) = self.constants.fix(&ScalarValue::Null) else {
                return unknown("a NULL that has no Arrow value");
            };
            columns.push(TickExpr::Constant(null));
        }
        Ok(Stage::Table { scan, columns })
    }

    /// The rows of files.
    fn file_scan(&mut self, scan: &TableScan, table: &FileTable) -> Result<Stage, UnsupportedExpr> {
        if !scan.filters.is_empty() || scan.fetch.is_some() || scan.projection.is_some() {
            return unknown("a scan into which DataFusion has pushed filters, columns or a limit");
        }
        if table.is_numbered() {
            return unknown("the number of a row of a file");
        }
        let types: Vec<DataType> = table.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        let path = scan.table_name.table().to_owned();
        let files = match self.files.iter().position(|(other, _)| *other == path) {
            Some(files) => files,
            None => {
                self.files.push((path, Arc::clone(table.files())));
                self.files.len() - 1
            }
        };
        let columns = (0..types.len()).map(Some).collect();
        Ok(Stage::Frame(Plan::Files(FileScan { files, columns, types })))
    }

    pub(super) fn snapshot(&self, scan: &Scan) -> &TableSnapshot {
        &self.tables[scan.table].1
    }

    pub(super) fn spec(&self, scan: &Scan) -> TableSpec {
        self.tables[scan.table].1.spec().clone()
    }

    /// The rows of a plan that pass a condition. A condition on a table's time is answered by the table's order.
    fn filter(&mut self, predicate: &Expr, input: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        let predicate = &as_exists(predicate, input.schema()).map_err(|error| UnsupportedExpr(error.to_string()))?;
        let (by_time, others): (Vec<&Expr>, Vec<&Expr>) =
            split_conjunction(predicate).into_iter().partition(|condition| matches!(condition, Expr::Exists(_)));
        let mut rest: Vec<Expr> = others.into_iter().cloned().collect();
        let mut time_keys = Vec::new();
        for condition in by_time {
            match self.exists_by_time(condition, input.schema())? {
                Some(keys) => time_keys.push(keys),
                None => rest.push(condition.clone()),
            }
        }
        let mut stage = match conjunction(rest) {
            Some(rest) => self.narrow_and_filter(&rest, input)?,
            None => self.stage(input)?,
        };
        for keys in time_keys {
            stage = self.with_keys_by_time(stage, input.schema(), keys);
        }
        Ok(stage)
    }

    fn narrow_and_filter(&mut self, predicate: &Expr, input: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        let narrowed = narrow::narrow_groups(input, predicate).map_err(|error| UnsupportedExpr(error.to_string()))?;
        match narrowed {
            Some((input, None)) => self.stage(&input),
            Some((input, Some(predicate))) => self.filter_all(&predicate, &input),
            None => self.filter_all(predicate, input),
        }
    }

    fn filter_all(&mut self, predicate: &Expr, input: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        if let LogicalPlan::Join(join) = input {
            return self.filtered_join(predicate, join);
        }
        let narrowed = with_narrowed_queries(predicate, input, false)?;
        let predicate = narrowed.as_ref().unwrap_or(predicate);
        let stage = self.stage(input)?;
        let schema = input.schema();
        let Stage::Table { mut scan, columns } = stage else {
            let predicate = self.convert(predicate, schema)?;
            let Stage::Frame(input) = stage else { return unknown("a condition on a table that was converted before") };
            if combine::joins_by_keys(&input) {
                // DataFusion pushes it down to the tables.
                return unknown("a condition above a sub-query with a join, which DataFusion pushes down");
            }
            return Ok(Stage::Frame(combine::filtered(input, predicate)));
        };
        let spec = self.spec(&scan);
        for condition in split_conjunction(predicate) {
            if let Some(symbols) = self.symbols(condition, schema, &columns, &spec)? {
                scan.bounds.push(Bound::Symbol(symbols));
                continue;
            }
            let condition = substitute_columns(&[self.convert(condition, schema)?], &columns)?.remove(0);
            if self.bound(&condition, &spec, &mut scan.bounds) {
                continue;
            }
            self.require(&mut scan, condition);
        }
        Ok(Stage::Table { scan, columns })
    }

    /// Adds a condition over the columns of the table. It is evaluated on the symbols if it reads no other column.
    pub(super) fn require(&self, scan: &mut Scan, condition: TickExpr) {
        if reads_symbol_alone(&condition, self.snapshot(scan).spec()) {
            scan.bounds.push(Bound::SymbolCondition(condition));
            return;
        }
        scan.predicate = Some(match scan.predicate.take() {
            Some(former) => TickExpr::Binary(BinaryOp::And, Box::new(former), Box::new(condition)),
            None => condition,
        });
    }

    /// The constants one of which the symbol column must equal, if a condition consists of nothing else.
    fn symbols(
        &mut self,
        condition: &Expr,
        schema: &DFSchema,
        columns: &[TickExpr],
        spec: &TableSpec,
    ) -> Result<Option<Vec<usize>>, UnsupportedExpr> {
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
        if items.iter().any(|item| matches!(without_casts(item), Expr::ScalarSubquery(_))) {
            return Ok(None);
        }
        // A symbol is compared as plain text; other kinds of text would have to be converted in each run.
        let items: Vec<Expr> = items
            .into_iter()
            .map(|item| match without_casts(item) {
                literal @ Expr::Literal(ScalarValue::Utf8(_), _) => literal.clone(),
                _ => item.clone(),
            })
            .collect();
        let mut converter = Converter { constants: &mut self.constants, options: self.options, queries: &[] };
        Ok(converter.list_of_constants(&items, None, schema)?.map(|list| vec![list]))
    }

    /// Adds a condition that the order answers.
    fn bound(&self, condition: &TickExpr, spec: &TableSpec, bounds: &mut Vec<Bound>) -> bool {
        let TickExpr::Binary(op, left, right) = condition else { return false };
        if *op == BinaryOp::And {
            // Both sides or none: a `between` is such a pair.
            let mut bounds_of_both = Vec::new();
            let both = self.bound(left, spec, &mut bounds_of_both) && self.bound(right, spec, &mut bounds_of_both);
            if both {
                bounds.extend(bounds_of_both);
            }
            return both;
        }
        let computed = |op, value, constant| {
            let of_date = self.bound_of_date(op, value, constant, spec);
            of_date.or_else(|| self.bound_of_bucket(op, value, constant, spec))
        };
        if let Some(bound) = computed(*op, left, right).or_else(|| computed(op.swapped(), right, left)) {
            bounds.push(bound);
            return true;
        }
        let (column, op, constant) = match (instants(left), instants(right)) {
            (TickExpr::Column(column), TickExpr::Constant(constant)) => (*column, *op, *constant),
            (TickExpr::Constant(constant), TickExpr::Column(column)) => (*column, op.swapped(), *constant),
            _ => return false,
        };
        if !is_range(op) {
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

    /// A comparison of a date with that of the time, in a zone or in the zone of its type.
    fn bound_of_date(&self, op: BinaryOp, value: &TickExpr, date: &TickExpr, spec: &TableSpec) -> Option<Bound> {
        let TickExpr::Constant(date) = date else { return None };
        let is_time = |expr| matches!(instants(expr), TickExpr::Column(column) if *column == spec.time_position());
        let (function, arguments) = match value {
            TickExpr::Call(function, arguments) => (function, arguments),
            // All times are stored in UTC.
            TickExpr::Cast(time, DataType::Date32) if is_time(time) && is_range(op) => {
                return Some(Bound::DateOfTime(op, *date, "UTC".parse().ok()?, DayStart::default()));
            }
            _ => return None,
        };
        let [time, TickExpr::Constant(zone), start @ ..] = arguments.as_slice() else { return None };
        if function.name() != LOCAL_DATE || !is_time(time) || !is_range(op) {
            return None;
        }
        let text = |number: usize| match self.constants.fixed_value(number) {
            Some(ScalarValue::Utf8(Some(text))) => Some(text),
            _ => None,
        };
        let start = match start {
            [] => DayStart::default(),
            [TickExpr::Constant(start)] => text(*start)?.parse().ok()?,
            _ => return None,
        };
        Some(Bound::DateOfTime(op, *date, text(*zone)?.parse().ok()?, start))
    }

    /// A comparison of an instant with the bucket of the time.
    fn bound_of_bucket(&self, op: BinaryOp, value: &TickExpr, instant: &TickExpr, spec: &TableSpec) -> Option<Bound> {
        let TickExpr::Constant(instant) = instant else { return None };
        let buckets = self.buckets_of_time(value, spec).filter(|_| is_range(op))?;
        Some(Bound::Bucket(op, *instant, buckets))
    }

    /// The buckets, if an expression is a bucket of the table's time.
    pub(super) fn buckets_of_time(&self, expr: &TickExpr, spec: &TableSpec) -> Option<Arc<dyn Buckets>> {
        let TickExpr::Call(function, arguments) = expr else { return None };
        let [width, TickExpr::Column(time), rest @ ..] = arguments.as_slice() else { return None };
        if *time != spec.time_position() {
            return None;
        }
        let fixed = |argument: &TickExpr| match argument {
            TickExpr::Constant(number) => self.constants.fixed_value(*number),
            _ => None,
        };
        let others: Option<Vec<ScalarValue>> = std::iter::once(width).chain(rest).map(fixed).collect();
        functions::buckets(function.name(), &others?).map(Arc::from)
    }

    pub(super) fn sort_keys(&mut self, keys: &[SortExpr], schema: &DFSchema) -> Result<Vec<SortKey>, UnsupportedExpr> {
        let mut converted = Vec::with_capacity(keys.len());
        for key in keys {
            let expr = self.convert(&key.expr, schema)?;
            converted.push(SortKey { expr, descending: !key.asc, nulls_first: key.nulls_first });
        }
        Ok(converted)
    }
}

fn is_range(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Equal | BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Greater | BinaryOp::GreaterOrEqual
    )
}

/// Whether a condition reads only the symbol.
pub(super) fn reads_symbol_alone(condition: &TickExpr, spec: &TableSpec) -> bool {
    spec.symbol_position().is_some_and(|symbol| condition.only_column() == Some(symbol))
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

/// A column, possibly cast to another type of the same instants.
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
