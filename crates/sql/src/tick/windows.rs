//! Window joins as tick plans: rows of any tick plan with aggregates over a table, by its symbol and time.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::logical_plan::{Aggregate as AggregateNode, Filter};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use splay_engine::asof::WindowRule;
use splay_engine::{Aggregate, Expr as TickExpr, Plan, Scan, WindowJoin};

use super::convert::{UnsupportedExpr, unknown};
use super::groups::by_time;
use super::recognise::{Recogniser, Stage, instants, types};
use crate::joins::WindowParts;

impl Recogniser<'_> {
    /// A select over a window join, which is grouped by left row.
    pub(super) fn window_join(
        &mut self,
        parts: &WindowParts<'_>,
        select: &AggregateNode,
        output: &DFSchema,
    ) -> Result<Stage, UnsupportedExpr> {
        let (keys, calls) = (&select.group_expr, &select.aggr_expr);
        let types = types(output);
        if types.len() != keys.len() + calls.len() {
            return unknown("a GROUP BY key that is named twice");
        }
        if !parts.is_ordered {
            return unknown("a window join over rows whose order isn't known");
        }
        let left_schema = parts.left.schema();
        let Right { scan, columns, symbol, keys: further } = self.right_of(parts)?;
        let left = match conjunction(parts.filters.iter().map(|filter| (*filter).clone())) {
            Some(filter) => {
                let filter = Filter::try_new(filter, Arc::new(parts.left.clone()));
                LogicalPlan::Filter(filter.map_err(|error| UnsupportedExpr(error.to_string()))?)
            }
            None => parts.left.clone(),
        };
        let mut bound = |(expr, inclusive): &(Expr, bool)| -> Result<(TickExpr, bool), UnsupportedExpr> {
            let bound_type = expr.get_type(left_schema).map_err(|error| UnsupportedExpr(error.to_string()))?;
            if !matches!(bound_type, DataType::Timestamp(TimeUnit::Nanosecond, _)) {
                return unknown(format!("a window join with a bound of type {bound_type}"));
            }
            Ok((self.convert(expr, left_schema)?, *inclusive))
        };
        let (begin, end) = (bound(parts.begin)?, bound(parts.end)?);
        let left_columns = left_schema.fields().len();
        let mut aggregates = Vec::with_capacity(calls.len());
        for (call, data_type) in calls.iter().zip(&types[keys.len()..]) {
            let aggregate = self.call(call, parts.schema, data_type, true)?;
            aggregates.push(over_right(aggregate, parts, left_columns, &columns, &self.spec(&scan))?);
        }
        let mut outputs = Vec::with_capacity(types.len());
        for key in keys {
            outputs.push(match self.convert(key, parts.schema)? {
                TickExpr::Column(column) if column < left_columns => TickExpr::Column(column),
                // The number of the left row, which isn't used here.
                TickExpr::Column(column) if column == left_columns => self.null()?,
                _ => return unknown("a window join grouped by something other than its left rows"),
            });
        }
        outputs.extend((0..calls.len()).map(|call| TickExpr::Column(left_columns + call)));
        let rule = WindowRule { prevailing: parts.prevailing };
        let join = WindowJoin { scan, begin, end, rule, symbol, keys: further, aggregates };
        let input = Box::new(self.stage(&left)?.into_plan(left_schema));
        let joined = Plan::WindowJoin { input, join: Box::new(join) };
        Ok(Stage::Frame(Plan::Project { input: Box::new(joined), outputs }))
    }

    fn right_of(&mut self, parts: &WindowParts<'_>) -> Result<Right, UnsupportedExpr> {
        let (left_schema, right_schema) = (parts.left.schema(), parts.right.schema());
        self.in_window_join = true;
        let right = self.stage(parts.right);
        self.in_window_join = false;
        let Stage::Table { mut scan, columns } = right? else {
            return unknown("a window join whose right side is a query, not a table");
        };
        scan.evaluate_symbol_conditions();
        let spec = self.spec(&scan);
        let right_time = self.convert(parts.right_time, right_schema)?.substitute(&columns);
        if !matches!(instants(&right_time), TickExpr::Column(column) if *column == spec.time_position()) {
            return unknown("a window join by a column that isn't the time of the right table");
        }
        let (symbol, keys) = self.join_keys(parts.keys, (left_schema, right_schema), &columns, &spec)?;
        Ok(Right { scan, columns, symbol, keys })
    }

    fn null(&mut self) -> Result<TickExpr, UnsupportedExpr> {
        match self.constants.fix(&datafusion::common::ScalarValue::Null) {
            Some(null) => Ok(TickExpr::Constant(null)),
            None => unknown("a NULL that has no Arrow value"),
        }
    }
}

/// The right rows of a window join.
struct Right {
    scan: Scan,
    /// Its columns, over those of its table.
    columns: Vec<TickExpr>,
    /// The expression of the left side that must equal the symbol.
    symbol: Option<TickExpr>,
    /// Expressions of the left side that must equal other columns of the table.
    keys: Vec<(TickExpr, usize)>,
}

/// An aggregate over the columns of the join as one over those of the right table.
fn over_right(
    mut aggregate: Aggregate,
    parts: &WindowParts<'_>,
    left_columns: usize,
    columns: &[TickExpr],
    spec: &splay_store::TableSpec,
) -> Result<Aggregate, UnsupportedExpr> {
    let of_right: Vec<&TickExpr> = parts.of_right.iter().filter_map(|column| columns.get(*column)).collect();
    let first = left_columns + 1;
    let over_table = |expr: &TickExpr| -> Result<TickExpr, UnsupportedExpr> {
        let mut is_right = true;
        expr.visit_columns(&mut |column| is_right &= (first..first + of_right.len()).contains(&column));
        if !is_right {
            return unknown("a window join with an aggregate over columns of both sides");
        }
        let joined = (0..first + of_right.len()).map(|column| match column.checked_sub(first) {
            Some(column) => of_right[column].clone(),
            None => TickExpr::Column(column),
        });
        Ok(expr.substitute(&joined.collect::<Vec<_>>()))
    };
    aggregate.arguments = aggregate.arguments.iter().map(over_table).collect::<Result<_, _>>()?;
    aggregate.filter = aggregate.filter.as_ref().map(over_table).transpose()?;
    by_time(&mut aggregate, spec);
    if aggregate.function.is_of_rows_in_memory() {
        return unknown("a window join with array_agg, string_agg, or first or last by another order than the time");
    }
    Ok(aggregate)
}
