//! A table of the store as DataFusion sees it.
//!
//! - Columns have folded names (see `names.rs`); the virtual column `date` is the last.
//! - Every filter on the table's columns is accepted: the scan evaluates what the selection doesn't express exactly.
//! - Columns and rows that the session's rights hide are removed here: columns from the schema, rows by the scan,
//!   before other filters see them.
//! - A provider is one snapshot. DataFusion requests a table once per statement, so a statement sees one state of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, lit};
use datafusion::physical_plan::ExecutionPlan;
use splay_store::{DATE_COLUMN, Selection, TableSnapshot, TableSpec};

use crate::error::external;
use crate::pushdown;
use crate::scan::{ColumnSource, TickScanExec, TickScanSettings};

/// Name of the column that numbers the rows of a snapshot, if the plan requests it.
pub(crate) const ROW_COLUMN: &str = "__row";

/// The columns and rows of a table that are hidden.
#[derive(Debug)]
pub(crate) struct TableGuard {
    /// Columns, in lower case.
    hidden: BTreeSet<String>,
    /// The conditions that rows must pass to be shown, over all columns; `None` if all are shown.
    conditions: Option<Arc<[Expr]>>,
}

impl TableGuard {
    pub(crate) fn new(hidden: BTreeSet<String>, conditions: Option<Arc<[Expr]>>) -> TableGuard {
        TableGuard { hidden, conditions }
    }

    fn hides(&self, column: &str) -> bool {
        self.hidden.contains(column)
    }
}

/// A snapshot of a table.
#[derive(Debug)]
pub(crate) struct TickTable {
    snapshot: TableSnapshot,
    schema: SchemaRef,
    columns: Vec<ColumnSource>,
    /// The columns and rows that the caller doesn't see, if there are any.
    guard: Option<Arc<TableGuard>>,
}

impl TickTable {
    pub(crate) fn new(snapshot: TableSnapshot) -> TickTable {
        let has_date = snapshot.spec().has_virtual_date();
        TickTable::with(snapshot, has_date, false, None)
    }

    /// A table of which the caller sees only some columns or rows.
    pub(crate) fn guarded(snapshot: TableSnapshot, guard: Arc<TableGuard>) -> TickTable {
        let has_date = snapshot.spec().has_virtual_date();
        TickTable::with(snapshot, has_date, false, Some(guard))
    }

    /// Whether some of its columns or rows are hidden. Such a table has no tick plans, because these address columns by position.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// This table without its date column, which is computed from the times; `None` if each partition is a date.
    pub(crate) fn without_date(&self) -> Option<TickTable> {
        let is_computed = self.has_date() && !self.spec().partition.is_day();
        is_computed.then(|| TickTable::with(self.snapshot.clone(), false, self.is_numbered(), self.guard.clone()))
    }

    /// This table with the number of each row.
    pub(crate) fn numbered(&self) -> TickTable {
        TickTable::with(self.snapshot.clone(), self.has_date(), true, self.guard.clone())
    }

    fn with(snapshot: TableSnapshot, has_date: bool, numbered: bool, guard: Option<Arc<TableGuard>>) -> TickTable {
        let spec = snapshot.spec();
        let mut fields: Vec<Field> = spec
            .shown_arrow()
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_name(field.name().to_lowercase()))
            .collect();
        let mut columns: Vec<ColumnSource> = (0..fields.len()).map(ColumnSource::Stored).collect();
        if has_date {
            fields.push(Field::new(DATE_COLUMN, DataType::Date32, false));
            columns.push(ColumnSource::Date);
        }
        if let Some(guard) = &guard {
            let shown = fields.into_iter().zip(columns).filter(|(field, _)| !guard.hides(field.name()));
            (fields, columns) = shown.unzip();
        }
        if numbered {
            fields.push(Field::new(ROW_COLUMN, DataType::Int64, false));
            columns.push(ColumnSource::Row);
        }
        TickTable { schema: Arc::new(Schema::new(fields)), columns, snapshot, guard }
    }

    /// The conditions that rows must pass to be shown; `None` if all are shown.
    fn conditions(&self) -> Option<&[Expr]> {
        self.guard.as_ref()?.conditions.as_deref()
    }

    /// The table with all its columns, hidden ones included, and the positions of the visible ones.
    fn with_hidden_columns(&self) -> Result<(TickTable, Vec<usize>)> {
        let all = TickTable::with(self.snapshot.clone(), self.spec().has_virtual_date(), self.is_numbered(), None);
        let place = |field: &Arc<Field>| Ok(all.schema.index_of(field.name())?);
        let places = self.schema.fields().iter().map(place).collect::<Result<_>>()?;
        Ok((all, places))
    }

    /// Whether it has the date of its partitions, behind the stored columns.
    pub(crate) fn has_date(&self) -> bool {
        self.columns.contains(&ColumnSource::Date)
    }

    /// Whether it has the row number, behind the other columns.
    pub(crate) fn is_numbered(&self) -> bool {
        self.columns.contains(&ColumnSource::Row)
    }

    pub(crate) fn snapshot(&self) -> &TableSnapshot {
        &self.snapshot
    }

    pub(crate) fn spec(&self) -> &TableSpec {
        self.snapshot.spec()
    }
}

#[async_trait]
impl TableProvider for TickTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(conditions) = self.conditions() else {
            return self.scan_all(state, (projection, filters), limit, None);
        };
        // The statement's own filters only exclude pieces here. They are evaluated above, on visible rows.
        let mut selection = Selection::default();
        for filter in filters {
            let _ = pushdown::narrow(&mut selection, self.spec(), filter);
        }
        let (all, places) = self.with_hidden_columns()?;
        let projection =
            projection.map_or_else(|| places.clone(), |columns| columns.iter().map(|at| places[*at]).collect());
        all.scan_all(state, (Some(&projection), conditions), limit, Some(selection))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = match self.conditions() {
            None => TableProviderFilterPushDown::Exact,
            Some(_) => TableProviderFilterPushDown::Inexact,
        };
        let of = |filter: &&Expr| match filter.is_volatile() {
            true => TableProviderFilterPushDown::Unsupported,
            false => support.clone(),
        };
        Ok(filters.iter().map(of).collect())
    }
}

impl TickTable {
    /// The scan of all rows that pass filters. `within` is the selection if the filters are conditions of policies, which plans and errors must
    /// not show.
    fn scan_all(
        &self,
        state: &dyn Session,
        (projection, filters): (Option<&Vec<usize>>, &[Expr]),
        limit: Option<usize>,
        within: Option<Selection>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_private = within.is_some();
        let mut selection = within.unwrap_or_default();
        let mut evaluated = Vec::new();
        for filter in filters {
            if !pushdown::narrow(&mut selection, self.spec(), filter) {
                evaluated.push(filter.clone());
            }
        }
        let (pieces, stats) = match filters.contains(&lit(false)) {
            true => Default::default(),
            false => self.snapshot.select(&selection).map_err(external)?,
        };
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let filters = evaluated
            .into_iter()
            .map(|filter| state.create_physical_expr(filter, &schema))
            .collect::<Result<Vec<_>>>()?;
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let config = state.config();
        TickScanExec::try_new(TickScanSettings {
            snapshot: self.snapshot.clone(),
            schema: Arc::clone(&self.schema),
            columns: self.columns.clone(),
            projection: projection.cloned().unwrap_or(all),
            filters,
            one_symbol: selection.symbols.as_ref().is_some_and(|symbols| symbols.len() == 1),
            pieces,
            stats,
            limit,
            streams: config.target_partitions(),
            batch_rows: config.batch_size(),
            is_private,
        })
        .map(|exec| Arc::new(exec) as Arc<dyn ExecutionPlan>)
    }
}
