//! The order of a plan's rows, for `first` and `last`: tables and files number their rows, and joins by time keep the order of their left side.

use std::sync::Arc;

use datafusion::common::{Column, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, utils::conjunction};
use splay_functions::RowOrder;

use crate::files::FileTable;
use crate::joins;
use crate::provider::{ROW_COLUMN, TickTable};

/// Numbers the rows of our tables, for `first` and `last`.
#[derive(Debug)]
pub(crate) struct TickRowOrder;

/// The scan of files with the numbers of their rows.
fn numbered_files(files: &FileTable, scan: &TableScan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
    if scan.projection.is_some() || scan.fetch.is_some() {
        return Ok(None);
    }
    let number = Expr::Column(Column::new(Some(scan.table_name.clone()), ROW_COLUMN)).sort(true, false);
    if files.is_numbered() {
        return Ok(Some((LogicalPlan::TableScan(scan.clone()), vec![number])));
    }
    let Some(numbered) = files.numbered(ROW_COLUMN) else { return Ok(None) };
    let source = provider_as_source(Arc::new(numbered));
    let mut plan = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?;
    if let Some(filter) = conjunction(scan.filters.iter().cloned()) {
        plan = plan.filter(filter)?;
    }
    Ok(Some((plan.build()?, vec![number])))
}

impl RowOrder for TickRowOrder {
    fn numbered(&self, scan: &TableScan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
        let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
        if let Some(files) = provider.downcast_ref::<FileTable>() {
            return numbered_files(files, scan);
        }
        let Some(table) = provider.downcast_ref::<TickTable>() else { return Ok(None) };
        // Before the optimiser a scan is plain; any other scan was visited before.
        if scan.projection.is_some() || scan.fetch.is_some() {
            return Ok(None);
        }
        let row = Expr::Column(Column::new(Some(scan.table_name.clone()), ROW_COLUMN)).sort(true, false);
        if table.is_numbered() {
            return Ok(Some((LogicalPlan::TableScan(scan.clone()), vec![row])));
        }
        let source = provider_as_source(Arc::new(table.numbered()));
        let mut plan = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?;
        if let Some(filter) = conjunction(scan.filters.iter().cloned()) {
            plan = plan.filter(filter)?;
        }
        Ok(Some((plan.build()?, vec![row])))
    }

    fn preserved_input<'p>(&self, operator: &'p LogicalPlan) -> Option<&'p LogicalPlan> {
        joins::left_of_asof(operator)
    }

    fn with_preserved_input(&self, operator: &LogicalPlan, input: LogicalPlan) -> Result<LogicalPlan> {
        joins::asof_with_left(operator, input)
    }
}
