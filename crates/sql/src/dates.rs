//! The column `date` of tables whose partitions are longer than a date: computed from the time.
//!
//! A table with daily partitions has the date of each row at no cost. A table with longer partitions shows the same
//! column as `local_date(time, zone)` above the scan, with the start of its days if that isn't midnight. Conditions
//! on it become bounds of the time, so they prune like those on the time.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::AnalyzerRule;
use splay_functions::local_date;
use splay_functions::walk::WalkPlan;
use splay_store::DATE_COLUMN;

use crate::provider::TickTable;

/// Computes the date column of tables with longer partitions, before other rules see the plan.
#[derive(Debug)]
pub(crate) struct ComputeDates;

impl AnalyzerRule for ComputeDates {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        compute(plan)
    }

    fn name(&self) -> &str {
        "compute_dates"
    }
}

/// The plan with computed dates for tables whose partitions are longer than a date.
///
/// # Errors
/// Those of DataFusion for a plan that can't be rebuilt.
pub(crate) fn compute(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.rewrite_steps_up(compute_date)?.data)
}

fn compute_date(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let with_date = match &node {
        LogicalPlan::TableScan(scan) => with_computed_date(scan)?,
        _ => None,
    };
    Ok(with_date.map_or_else(|| Transformed::no(node), Transformed::yes))
}

fn with_computed_date(scan: &TableScan) -> Result<Option<LogicalPlan>> {
    let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
    let Some(table) = provider.downcast_ref::<TickTable>() else { return Ok(None) };
    let Some(without) = table.without_date() else { return Ok(None) };
    if scan.projection.is_some() || !scan.filters.is_empty() || scan.fetch.is_some() {
        return Ok(None);
    }
    let spec = table.spec();
    let column = |name: &str| Expr::Column(Column::new(Some(scan.table_name.clone()), name));
    let time = column(&spec.time.to_lowercase());
    let mut arguments = vec![time, lit(spec.time_zone.clone())];
    if !spec.day_start.is_midnight() {
        arguments.push(lit(spec.day_start.to_string()));
    }
    let date = local_date().call(arguments).alias_qualified(Some(scan.table_name.clone()), DATE_COLUMN);
    let shown = scan.source.schema();
    let columns = shown.fields().iter().map(|field| match field.name().as_str() {
        DATE_COLUMN => date.clone(),
        name => column(name),
    });
    let plan = LogicalPlanBuilder::scan(scan.table_name.clone(), provider_as_source(Arc::new(without)), None)?;
    Ok(Some(plan.project(columns.collect::<Vec<_>>())?.build()?))
}
