//! Joins by equal times, and equal symbols, with a large table: along its order, like as-of joins.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, JoinType};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use splay_engine::asof::{Direction, MatchRule};
use splay_engine::{AsofJoin, BinaryOp, Expr as TickExpr, Plan};
use splay_store::{TableSnapshot, TableSpec};

use super::asof::can_be_key;
use super::combine::filtered;
use super::convert::{UnsupportedExpr, unknown};
use super::recognise::{Recogniser, Stage, instants, types};
use crate::provider::TickTable;

/// Rows of a table from which on a search along its order is faster than a hash table of its keys.
const ROWS_MIN: u64 = 16_384;

/// The equalities of a join with a table's columns: the one with its time, and those that are keys of the search.
struct TimePairs {
    spec: TableSpec,
    time: (Expr, Expr),
    keys: Vec<(Expr, Expr)>,
    /// Equalities that are evaluated on the rows that the search finds.
    compared: Vec<(Expr, Expr)>,
}

impl Recogniser<'_> {
    /// A join whose `pairs` of equal values include the time of the right table, and its symbol if it has one; `None` for other joins. Further
    /// conditions are over the columns of the join.
    pub(super) fn by_time(
        &mut self,
        join: &Join,
        left: &LogicalPlan,
        pairs: &[(Expr, Expr)],
        rest: Option<&TickExpr>,
    ) -> Result<Option<Stage>, UnsupportedExpr> {
        let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
        let is_inner = join.join_type == JoinType::Inner;
        let pairs = time_pairs(pairs, left_schema, &join.right);
        let Some(pairs) = pairs.filter(|pairs| is_inner || pairs.compared.is_empty()) else { return Ok(None) };
        // A join that can't search along the order may still look rows up.
        let Ok(asof) = self.at_equal_time(&pairs, left_schema, &join.right) else { return Ok(None) };
        let asof = AsofJoin { all_of_time: true, inner: is_inner, ..asof };
        let input = Box::new(self.stage(left)?.into_plan(left_schema));
        let mut joined = Plan::Asof { input, asof: Box::new(asof) };
        let width = left_schema.fields().len();
        for (own, other) in pairs.compared {
            let own = self.convert(&own, left_schema)?;
            let columns: Vec<TickExpr> = (width..width + right_schema.fields().len()).map(TickExpr::Column).collect();
            let other = self.convert(&other, right_schema)?.substitute(&columns);
            joined = filtered(joined, TickExpr::Binary(BinaryOp::Equal, Box::new(own), Box::new(other)));
        }
        Ok(Some(Stage::Frame(match rest {
            Some(rest) => filtered(joined, rest.clone()),
            None => joined,
        })))
    }

    /// The plan that finds the keys of rows in a table along its order. The table's time must be one of the keys, and the table must have enough
    /// rows. The first of each pair is the table's column. The plan drops rows without a match, or, if `has` is false, rows with one.
    pub(super) fn keys_by_time(
        &mut self,
        pairs: &[(Expr, Expr)],
        schema: &DFSchema,
        table: &LogicalPlan,
        has: bool,
    ) -> Result<Option<AsofJoin>, UnsupportedExpr> {
        let pairs: Vec<(Expr, Expr)> = pairs.iter().map(|(inner, outer)| (outer.clone(), inner.clone())).collect();
        let pairs = time_pairs(&pairs, schema, table);
        let Some(pairs) = pairs.filter(|pairs| pairs.compared.is_empty()) else { return Ok(None) };
        let Ok(asof) = self.at_equal_time(&pairs, schema, table) else { return Ok(None) };
        let time_type = pairs.time.1.get_type(table.schema()).map_err(|error| UnsupportedExpr(error.to_string()))?;
        // For a row without a match, the time of the found row is null.
        let time = TickExpr::Column(pairs.spec.time_position());
        let (outputs, types) = if has { (Vec::new(), Vec::new()) } else { (vec![time], vec![time_type]) };
        Ok(Some(AsofJoin { outputs, types, inner: has, ..asof }))
    }

    /// The rows of a stage that the search keeps.
    pub(super) fn with_keys_by_time(&mut self, stage: Stage, schema: &DFSchema, keys: AsofJoin) -> Stage {
        let (width, has) = (schema.fields().len(), keys.inner);
        let search = Plan::Asof { input: Box::new(stage.into_plan(schema)), asof: Box::new(keys) };
        if has {
            return Stage::Frame(search);
        }
        let none = TickExpr::IsNull(Box::new(TickExpr::Column(width)));
        let outputs = (0..width).map(TickExpr::Column).collect();
        Stage::Frame(Plan::Project { input: Box::new(filtered(search, none)), outputs })
    }

    /// The plan that finds, for each left row, the last row of a table with the same time and keys. Its outputs are the columns of the table's plan.
    fn at_equal_time(
        &mut self,
        pairs: &TimePairs,
        left_schema: &DFSchema,
        table: &LogicalPlan,
    ) -> Result<AsofJoin, UnsupportedExpr> {
        let right_schema = table.schema();
        let Stage::Table { mut scan, columns } = self.stage(table)? else {
            return unknown("a join by time whose right side is a query, not a table");
        };
        scan.evaluate_symbol_conditions();
        let (left_time, right_time) = &pairs.time;
        let right_time = self.convert(right_time, right_schema)?.substitute(&columns);
        if !matches!(instants(&right_time), TickExpr::Column(column) if *column == pairs.spec.time_position()) {
            return unknown("a join by a column that isn't the time of the right table");
        }
        let (symbol, keys) = self.join_keys(&pairs.keys, (left_schema, right_schema), &columns, &pairs.spec)?;
        Ok(AsofJoin {
            scan,
            types: types(right_schema),
            outputs: columns,
            time: self.convert(left_time, left_schema)?,
            symbol,
            keys,
            rule: MatchRule { direction: Direction::Backward, inclusive: true, tolerance: Some(0) },
            all_of_time: false,
            inner: true,
        })
    }
}

/// Pairs of a left value and one of a table's plan, if they include the table's time and, if it has one, its symbol, and the table has enough rows.
fn time_pairs(pairs: &[(Expr, Expr)], left_schema: &DFSchema, table: &LogicalPlan) -> Option<TimePairs> {
    let (schema, table) = (table.schema(), searched_table(table)?);
    let time = pairs.iter().position(|(_, key)| table.is_time(key, schema))?;
    let left_type = pairs[time].0.get_type(left_schema).ok()?;
    if !pairs.iter().any(|(_, key)| table.settles_symbol(key, schema))
        || !matches!(left_type, DataType::Timestamp(TimeUnit::Nanosecond, _))
    {
        return None;
    }
    // Equalities that can't be keys of the search are evaluated on the pairs that it finds.
    let is_key = |(_, key): &(Expr, Expr)| {
        table.column_of(key, schema).is_some() && key.get_type(schema).is_ok_and(|data_type| can_be_key(&data_type))
    };
    let mut others = pairs.to_vec();
    let time = others.remove(time);
    let (keys, compared) = others.into_iter().partition(is_key);
    Some(TimePairs { spec: table.snapshot.spec().clone(), time, keys, compared })
}

/// The table that a plan reads.
pub(super) struct PlanTable {
    pub snapshot: TableSnapshot,
    /// The table's column behind each column of the plan.
    pub names: Vec<Option<String>>,
}

impl PlanTable {
    /// The table's column that a key over the plan's columns is.
    fn column_of(&self, key: &Expr, schema: &DFSchema) -> Option<&str> {
        match key {
            Expr::Column(key) => self.names[schema.index_of_column(key).ok()?].as_deref(),
            _ => None,
        }
    }

    /// Whether a key is the table's time.
    pub fn is_time(&self, key: &Expr, schema: &DFSchema) -> bool {
        self.column_of(key, schema).is_some_and(|column| column.eq_ignore_ascii_case(&self.snapshot.spec().time))
    }

    /// Whether rows with a value of a key have one symbol: the key is the symbol, or there is none.
    pub fn settles_symbol(&self, key: &Expr, schema: &DFSchema) -> bool {
        let symbol = self.snapshot.spec().symbol.as_deref();
        symbol
            .is_none_or(|symbol| self.column_of(key, schema).is_some_and(|column| column.eq_ignore_ascii_case(symbol)))
    }
}

/// The table that a plan reads, if it has enough rows, regardless of those that a filter removes, to be searched along its order.
pub(super) fn searched_table(plan: &LogicalPlan) -> Option<PlanTable> {
    stored_table(plan).filter(|table| table.snapshot.rows() >= ROWS_MIN)
}

/// The table that a plan reads, possibly with renamed columns and without some rows.
pub(super) fn stored_table(plan: &LogicalPlan) -> Option<PlanTable> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => stored_table(&alias.input),
        LogicalPlan::Filter(filter) => stored_table(&filter.input),
        LogicalPlan::Projection(projection) => {
            let table = stored_table(&projection.input)?;
            let schema = projection.input.schema();
            let name = |expr: &Expr| match expr.clone().unalias() {
                Expr::Column(column) => table.names[schema.index_of_column(&column).ok()?].clone(),
                _ => None,
            };
            let names = projection.expr.iter().map(name).collect();
            Some(PlanTable { names, ..table })
        }
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let snapshot = provider.downcast_ref::<TickTable>()?.snapshot().clone();
            let names = plan.schema().fields().iter().map(|field| Some(field.name().clone())).collect();
            Some(PlanTable { snapshot, names })
        }
        _ => None,
    }
}
