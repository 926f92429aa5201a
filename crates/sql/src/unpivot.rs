//! `FROM source UNPIVOT (value FOR name IN (a, b AS 'other'))`: columns become rows.
//!
//! Each row of the source becomes one row per listed column: the columns that aren't listed, `name` with the column's
//! name, and `value` in the common type of the list. `COLUMNS(…)` names several. Rows whose value is null are
//! dropped, unless it says `INCLUDE NULLS`. Planned as a union of one projection per column, so rows have no order.
//!
//! Source: the `UNPIVOT` of DuckDB, Snowflake and BigQuery.

use crate::expand::columns_of;
use arrow::datatypes::DataType;
use datafusion::common::{Column, DataFusionError, ExprSchema, Result, not_impl_err, plan_err};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias, NullInclusion, TableFactor};

/// Plans `UNPIVOT`.
#[derive(Debug)]
pub(crate) struct UnpivotPlanner;

impl RelationPlanner for UnpivotPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } = relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let input = context.plan(*table)?;
        let SqlExpr::Identifier(value) = value else {
            return not_impl_err!("UNPIVOT of several values at once");
        };
        let (value, name) = (context.normalize_ident(value), context.normalize_ident(name));
        let mut listed = Vec::new();
        for ExprWithAlias { expr, alias } in columns {
            if let Some(columns) = columns_of(&expr, input.schema())? {
                listed.extend(columns);
                continue;
            }
            let written = expr.to_string();
            let Expr::Column(column) = context.sql_to_expr(expr, input.schema())? else {
                return plan_err!("UNPIVOT takes columns, not {written}: name the expression in a sub-query");
            };
            listed.push((column, alias.map_or(written, |alias| alias.value)));
        }
        let is_text = |(column, _): &(Column, String)| {
            let field = input.schema().field_from_column(column)?;
            Ok::<_, DataFusionError>(match field.data_type() {
                DataType::Dictionary(_, of) => of.is_string(),
                of => of.is_string(),
            })
        };
        let texts = listed.iter().map(is_text).collect::<Result<Vec<bool>>>()?;
        if texts.contains(&true) && texts.contains(&false) {
            return plan_err!("UNPIVOT takes columns of one kind: cast the others to text in a sub-query");
        }
        let others: Vec<Column> =
            input.schema().columns().into_iter().filter(|column| !listed.iter().any(|(of, _)| of == column)).collect();
        if let Some(conflict) = others.iter().find(|column| column.name == name || column.name == value) {
            return plan_err!("UNPIVOT makes a column that is there already: {}", conflict.name);
        }
        let mut rows: Option<LogicalPlanBuilder> = None;
        for (column, written) in listed {
            let mut part = LogicalPlanBuilder::from(input.clone());
            if null_inclusion != Some(NullInclusion::IncludeNulls) {
                part = part.filter(Expr::Column(column.clone()).is_not_null())?;
            }
            let made = [lit(written).alias(&name), Expr::Column(column).alias(&value)];
            part = part.project(others.iter().cloned().map(Expr::Column).chain(made).collect::<Vec<_>>())?;
            rows = Some(match rows {
                None => part,
                Some(rows) => rows.union(part.build()?)?,
            });
        }
        let Some(rows) = rows else { return plan_err!("UNPIVOT lists no column") };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation { plan: rows.build()?, alias })))
    }
}
