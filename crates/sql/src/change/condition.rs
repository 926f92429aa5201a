//! Conditions and values of changing statements, evaluated over stored rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Date32Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef, TimestampNanosecondType};
use datafusion::catalog::TableProvider;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::logical_plan::{Projection, TableScan};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, utils::conjunction};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::PhysicalExpr;
use splay_store::{DATE_COLUMN, Removal, Selection, TableSpec};

use super::queries::{self, QueriedColumns};
use crate::error::external;
use crate::filtered_scan::filtered_scan;
use crate::provider::TickTable;
use crate::pushdown;

/// What a statement says of each row of a table.
#[derive(Debug)]
pub(super) struct RowExpressions {
    spec: TableSpec,
    /// Positions of the stored columns that are read, ascending.
    pub(super) columns: Vec<usize>,
    /// Columns as the expressions know them: those, and the date if they ask for it.
    schema: SchemaRef,
    with_date: bool,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
}

/// Rows that a condition is true for.
pub(super) enum MatchingRows {
    /// None, whatever they hold.
    None,
    Some(Removal),
    /// Rows that a query finds (`queries.rs`).
    ByQuery(QueriedColumns),
}

/// Values of rows.
#[expect(clippy::large_enum_variant, reason = "a statement has one")]
pub(super) enum Values {
    /// Values computed from each row alone.
    OfRows(RowExpressions),
    /// Values that a query gives (`queries.rs`).
    ByQuery(QueriedColumns),
}

pub(super) fn unsupported(what: &str) -> DataFusionError {
    DataFusionError::Plan(format!(
        "{what} can't stand in a statement that changes rows: read what it gives first, and name the values"
    ))
}

/// The rows of a table that a condition is true for. `plan` is `SELECT * FROM table WHERE condition`.
pub(super) fn matching(state: &SessionState, plan: &LogicalPlan) -> DataFusionResult<MatchingRows> {
    if let Some((scan, filter)) = filtered(plan)
        && let Some(named) = queries::named(&table_of(scan)?.0, filter)?
    {
        return Ok(MatchingRows::ByQuery(named));
    }
    let plan = state.optimize(plan)?;
    let Some((scan, filters)) = filtered_scan(&plan).map_err(unsupported)? else { return Ok(MatchingRows::None) };
    if filters.iter().any(Expr::is_volatile) {
        return Err(unsupported("a function whose value changes from call to call"));
    }
    let (spec, schema) = table_of(scan)?;
    let mut selection = Selection::default();
    let filters: Vec<Expr> = filters.into_iter().map(unnormalize_col).collect();
    for filter in &filters {
        // All filters are evaluated, whether the selection says them or not.
        let _ = pushdown::narrow(&mut selection, &spec, filter);
    }
    let condition = conjunction(filters).unwrap_or_else(|| datafusion::logical_expr::lit(true));
    let of_rows = RowExpressions::new(state, spec, &schema, vec![condition])?;
    let columns = of_rows.columns.clone();
    Ok(MatchingRows::Some(Removal::matching(selection, columns, move |rows| {
        let found = of_rows.evaluate(rows).map_err(refused)?;
        let found = arrow::compute::cast(&found[0], &arrow::datatypes::DataType::Boolean)?;
        Ok(BooleanArray::clone(found.as_boolean()))
    })))
}

/// The scan and the filter of `SELECT * FROM table WHERE condition`, if the condition is nothing but that.
fn filtered(plan: &LogicalPlan) -> Option<(&TableScan, &LogicalPlan)> {
    let LogicalPlan::Projection(all) = plan else { return None };
    let LogicalPlan::Filter(filter) = all.input.as_ref() else { return None };
    Some((scanned(&filter.input)?, &all.input))
}

/// The scan below names and the date, which is computed here from the time in any case.
pub(super) fn scanned(mut plan: &LogicalPlan) -> Option<&TableScan> {
    loop {
        plan = match plan {
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Projection(dated) => &dated.input,
            LogicalPlan::TableScan(scan) => return Some(scan),
            _ => return None,
        };
    }
}

/// Values of rows. `plan` is `SELECT values FROM table`.
pub(super) fn values(state: &SessionState, plan: LogicalPlan) -> DataFusionResult<Values> {
    if let LogicalPlan::Projection(node) = &plan
        && let Some(scan) = scanned(&node.input)
        && let Some(named) = queries::named(&table_of(scan)?.0, &plan)?
    {
        return Ok(Values::ByQuery(named));
    }
    let node = values_over(state, plan)?;
    let Some(scan) = scanned(&node.input) else {
        return Err(unsupported("an aggregate, a window or a query as a value"));
    };
    let (spec, schema) = table_of(scan)?;
    let expressions = node.expr.into_iter().map(|expr| unnormalize_col(expr.unalias())).collect();
    Ok(Values::OfRows(RowExpressions::new(state, spec, &schema, expressions)?))
}

/// The values that a query lists, each of one row alone.
pub(super) fn values_over(state: &SessionState, plan: LogicalPlan) -> DataFusionResult<Projection> {
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    let LogicalPlan::Projection(node) = plan else { return Err(unsupported("such a value")) };
    let is_query = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_));
    if node.expr.iter().any(|expr| expr.exists(|inner| Ok(is_query(inner))).unwrap_or(true)) {
        return Err(unsupported("a query as a value"));
    }
    if node.expr.iter().any(Expr::is_volatile) {
        return Err(unsupported("a function whose value changes from call to call"));
    }
    Ok(node)
}

pub(super) fn table_of(scan: &TableScan) -> DataFusionResult<(TableSpec, SchemaRef)> {
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = provider.downcast_ref::<TickTable>() else {
        return Err(unsupported("anything but a table of the database"));
    };
    // All conditions of our tables are left to them.
    debug_assert!(matches!(
        TableProvider::supports_filters_pushdown(table, &[])?.as_slice(),
        [] | [TableProviderFilterPushDown::Exact]
    ));
    Ok((table.spec().clone(), TickTable::new(table.snapshot().clone()).schema()))
}

/// An expression as it is evaluated. Functions such as `coalesce` are others once they are simplified.
pub(super) fn physical(state: &SessionState, expr: Expr, schema: &DFSchema) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        // What `now()` is.
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    state.create_physical_expr(ExprSimplifier::new(context).simplify(expr)?, schema)
}

/// An error of DataFusion as one of the store, through which it goes to the caller.
pub(super) fn refused(error: DataFusionError) -> splay_store::Error {
    match error {
        DataFusionError::ArrowError(error, _) => splay_store::Error::Refused { reason: error.to_string() },
        other => splay_store::Error::Refused { reason: other.strip_backtrace() },
    }
}

impl RowExpressions {
    fn new(
        state: &SessionState,
        spec: TableSpec,
        provided: &SchemaRef,
        expressions: Vec<Expr>,
    ) -> DataFusionResult<RowExpressions> {
        let named =
            |name: &str| expressions.iter().any(|expr| expr.column_refs().iter().any(|column| column.name == name));
        let (mut columns, mut fields, mut with_date) = (Vec::new(), Vec::new(), false);
        for field in provided.fields() {
            let is_date = spec.has_virtual_date() && field.name() == DATE_COLUMN;
            if !named(field.name()) {
                continue;
            }
            fields.push(Arc::clone(field));
            match spec.position(field.name()).filter(|_| !is_date) {
                Some(position) => columns.push(position),
                None => with_date = true,
            }
        }
        let schema = Arc::new(Schema::new(fields));
        if with_date && !columns.contains(&spec.time_position()) {
            // The date is computed from it.
            columns.push(spec.time_position());
            columns.sort_unstable();
        }
        let row_schema = DFSchema::try_from(Arc::clone(&schema))?;
        let expressions = expressions.into_iter().map(|expr| physical(state, expr, &row_schema));
        let expressions = expressions.collect::<DataFusionResult<Vec<_>>>()?;
        Ok(RowExpressions { spec, columns, schema, with_date, expressions })
    }

    /// What each expression gives for rows of the stored columns.
    pub(super) fn evaluate(&self, rows: &RecordBatch) -> DataFusionResult<Vec<ArrayRef>> {
        let column = |name: &str| {
            let found = rows.schema_ref().fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
            found.map(|place| Arc::clone(rows.column(place)))
        };
        let missing = |name: &str| DataFusionError::Internal(format!("the column {name} wasn't read"));
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields() {
            let is_date = self.with_date && field.name() == DATE_COLUMN;
            let name = if is_date { &self.spec.time } else { field.name() };
            let found = column(name).ok_or_else(|| missing(name))?;
            columns.push(if is_date { dates_of(&self.spec, &found)? } else { found });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.expressions.iter().map(|expr| expr.evaluate(&rows)?.into_array(rows.num_rows())).collect()
    }
}

/// The dates of a table's times.
pub(super) fn dates_of(spec: &TableSpec, times: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let mut dates = spec.dates().map_err(external)?;
    let times = times.as_primitive::<TimestampNanosecondType>();
    Ok(Arc::new(times.values().iter().map(|time| Some(dates.of(*time))).collect::<Date32Array>()))
}
