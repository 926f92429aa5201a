//! Joins by equal times, and equal symbols, with a large table: along its order, as as-of joins are.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::JoinType;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use splay_engine::asof::{Direction, MatchRule};
use splay_engine::{AsofJoin, BinaryOp, Expr as TickExpr, Plan};
use splay_store::TableSpec;

use super::asof::can_be_key;
use super::combine::filtered;
use super::convert::{Unknown, unknown};
use super::recognise::{Recogniser, Stage, instants, types};
use crate::provider::TickTable;

impl Recogniser<'_> {
    /// A join whose `pairs` of equal values have the time of a table on the right among them, and its symbol if it has one; `None` for others. What
    /// else must hold of a pair is over the columns of the join.
    pub(super) fn by_time(
        &mut self,
        join: &Join,
        left: &LogicalPlan,
        pairs: &[(Expr, Expr)],
        rest: Option<&TickExpr>,
    ) -> Result<Option<Stage>, Unknown> {
        let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
        let Some((spec, names)) = stored(&join.right) else { return Ok(None) };
        let is_of = |column: &str, (_, key): &(Expr, Expr)| match key {
            Expr::Column(key) => right_schema
                .index_of_column(key)
                .is_ok_and(|place| names[place].as_deref().is_some_and(|name| name.eq_ignore_ascii_case(column))),
            _ => false,
        };
        let Some(time) = pairs.iter().position(|pair| is_of(&spec.time, pair)) else { return Ok(None) };
        let has_symbol = spec.symbol.as_deref().is_none_or(|symbol| pairs.iter().any(|pair| is_of(symbol, pair)));
        let left_time = &pairs[time].0;
        let is_instant =
            left_time.get_type(left_schema).is_ok_and(|of| matches!(of, DataType::Timestamp(TimeUnit::Nanosecond, _)));
        if !has_symbol || !is_instant {
            return Ok(None);
        }
        // What can't be a key of the search is asked of the pairs that it finds.
        let is_stored = |key: &Expr| match key {
            Expr::Column(key) => right_schema.index_of_column(key).is_ok_and(|place| names[place].is_some()),
            _ => false,
        };
        let is_key =
            |(_, key): &&(Expr, Expr)| is_stored(key) && key.get_type(right_schema).is_ok_and(|of| can_be_key(&of));
        let others = pairs.iter().enumerate().filter(|(place, _)| *place != time).map(|(_, pair)| pair);
        let (keys, compared): (Vec<_>, Vec<_>) = others.partition(is_key);
        let is_inner = join.join_type == JoinType::Inner;
        if !is_inner && !compared.is_empty() {
            return Ok(None);
        }
        let Stage::Table { mut scan, columns } = self.stage(&join.right)? else {
            return unknown("a join by time with more than rows of a table");
        };
        scan.evaluate_symbol_conditions();
        let right_time = self.convert(&pairs[time].1, right_schema)?.substitute(&columns);
        if !matches!(instants(&right_time), TickExpr::Column(column) if *column == spec.time_position()) {
            return unknown("a join by another column than the time of the right table");
        }
        let keys: Vec<(Expr, Expr)> = keys.into_iter().cloned().collect();
        let (symbol, keys) = self.join_keys(&keys, (left_schema, right_schema), &columns, &spec)?;
        let time = self.convert(left_time, left_schema)?;
        let input = Box::new(self.stage(left)?.into_plan(left_schema));
        let asof = AsofJoin {
            scan,
            outputs: columns,
            types: types(right_schema),
            time,
            symbol,
            keys,
            rule: MatchRule { direction: Direction::Backward, inclusive: true, tolerance: Some(0) },
            all_of_time: true,
            inner: is_inner,
        };
        let mut joined = Plan::Asof { input, asof: Box::new(asof) };
        let width = left_schema.fields().len();
        for (own, other) in compared {
            let own = self.convert(own, left_schema)?;
            let columns: Vec<TickExpr> = (width..width + right_schema.fields().len()).map(TickExpr::Column).collect();
            let other = self.convert(other, right_schema)?.substitute(&columns);
            joined = filtered(joined, TickExpr::Binary(BinaryOp::Equal, Box::new(own), Box::new(other)));
        }
        Ok(Some(Stage::Frame(match rest {
            Some(rest) => filtered(joined, rest.clone()),
            None => joined,
        })))
    }
}

/// The table whose rows a plan's are, maybe with other names and not all of them, and which column of it each of the plan's is.
fn stored(plan: &LogicalPlan) -> Option<(TableSpec, Vec<Option<String>>)> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => stored(&alias.input),
        LogicalPlan::Filter(filter) => stored(&filter.input),
        LogicalPlan::Projection(projection) => {
            let (spec, names) = stored(&projection.input)?;
            let schema = projection.input.schema();
            let name = |expr: &Expr| match expr.clone().unalias() {
                Expr::Column(column) => names[schema.index_of_column(&column).ok()?].clone(),
                _ => None,
            };
            Some((spec, projection.expr.iter().map(name).collect()))
        }
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let table = provider.downcast_ref::<TickTable>()?;
            let names = plan.schema().fields().iter().map(|field| Some(field.name().clone())).collect();
            Some((table.snapshot().spec().clone(), names))
        }
        _ => None,
    }
}
