//! As-of joins as tick plans: rows of any tick plan with a table, by its symbol and time.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, JoinType};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use splay_engine::{AsofJoin, Expr as TickExpr, Plan};
use splay_store::TableSpec;

use super::convert::{UnsupportedExpr, unknown};
use super::recognise::{Recogniser, Stage, instants, types};
use crate::joins::AsofParts;
use crate::lifted_literals::is_parameter;
use crate::pushdown::is_text;

impl Recogniser<'_> {
    /// An as-of join. The left side may have fewer columns than that of the plan.
    pub(super) fn asof(
        &mut self,
        join: &Join,
        parts: &AsofParts,
        left: &LogicalPlan,
    ) -> Result<Stage, UnsupportedExpr> {
        if is_parameter(&parts.tolerance) {
            return unknown("an as-of join whose tolerance is a parameter");
        }
        let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
        let Stage::Table { mut scan, columns } = self.stage(&join.right)? else {
            return unknown("an as-of join whose right side is a query, not a table");
        };
        scan.evaluate_symbol_conditions();
        let spec = self.spec(&scan);
        let right_time = self.convert(&parts.right_time, right_schema)?.substitute(&columns);
        if !matches!(instants(&right_time), TickExpr::Column(column) if *column == spec.time_position()) {
            return unknown("an as-of join by a column that isn't the time of the right table");
        }
        let time_type = parts.left_time.get_type(left_schema).map_err(|error| UnsupportedExpr(error.to_string()))?;
        if !matches!(time_type, DataType::Timestamp(TimeUnit::Nanosecond, _)) {
            return unknown(format!("an as-of join by a left column of type {time_type}"));
        }
        let (symbol, keys) = self.join_keys(&parts.keys, (left_schema, right_schema), &columns, &spec)?;
        let time = self.convert(&parts.left_time, left_schema)?;
        let input = self.stage(left)?.into_plan(left_schema);
        let asof = AsofJoin {
            scan,
            outputs: columns,
            types: types(right_schema),
            time,
            symbol,
            keys,
            rule: parts.rule,
            all_of_time: false,
            inner: join.join_type == JoinType::Inner,
        };
        Ok(Stage::Frame(Plan::Asof { input: Box::new(input), asof: Box::new(asof) }))
    }

    /// The expressions of the left side that must equal the symbol and other columns of a right table; `columns` are its columns.
    pub(super) fn join_keys(
        &mut self,
        pairs: &[(Expr, Expr)],
        (left_schema, right_schema): (&DFSchema, &DFSchema),
        columns: &[TickExpr],
        spec: &TableSpec,
    ) -> Result<(Option<TickExpr>, Vec<(TickExpr, usize)>), UnsupportedExpr> {
        let symbol_position = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol));
        let (mut symbol, mut keys) = (None, Vec::new());
        for (left_key, right_key) in pairs {
            let left_key = self.convert(as_text(left_key, left_schema), left_schema)?;
            let right_type = right_key.get_type(right_schema).map_err(|error| UnsupportedExpr(error.to_string()))?;
            let right_key = self.convert(as_text(right_key, right_schema), right_schema)?.substitute(columns);
            match right_key {
                TickExpr::Column(column) if Some(column) == symbol_position && symbol.is_none() => {
                    symbol = Some(left_key);
                }
                TickExpr::Column(column) if can_be_key(&right_type) => keys.push((left_key, column)),
                _ => return unknown(format!("a join by time whose further key is computed or of type {right_type}")),
            }
        }
        Ok((symbol, keys))
    }
}

/// A text without casts to other kinds of text.
pub(super) fn as_text<'a>(expr: &'a Expr, schema: &DFSchema) -> &'a Expr {
    match expr {
        Expr::Cast(cast)
            if is_text(cast.field.data_type()) && cast.expr.get_type(schema).is_ok_and(|inner| is_text(&inner)) =>
        {
            as_text(&cast.expr, schema)
        }
        other => other,
    }
}

/// Whether the engine's equality is that of SQL for values of a type.
pub(super) fn can_be_key(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => **values == DataType::Utf8,
        DataType::Utf8 | DataType::Boolean | DataType::Date32 => true,
        DataType::Timestamp(unit, _) => *unit == TimeUnit::Nanosecond,
        other => other.is_integer() && *other != DataType::UInt64,
    }
}
