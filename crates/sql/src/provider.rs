//! A table of the store as DataFusion sees it.
//!
//! - Columns have folded names (see `names.rs`); the virtual column `date` is the last.
//! - Every filter on the table's columns is accepted: the scan evaluates what the selection doesn't express exactly.
//! - Columns and rows that the session's rights hide are removed here: columns from the schema, rows by the scan,
//!   before other filters see them.
//! - A provider is one snapshot. DataFusion requests a table once per statement, so a statement sees one state of it.

use std::sync::{Arc, OnceLock, Weak};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::datasource::{TableType, provider_as_source, source_as_provider};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, TableProviderFilterPushDown, lit, utils::conjunction,
};
use datafusion::physical_plan::ExecutionPlan;
use splay_functions::RowOrder;
use splay_store::{CommitReport, DATE_COLUMN, Database, OpenFiles, Selection, TableSnapshot, TableSpec, View};

use crate::access::{Guard, TableGuard};
use crate::error::external;
use crate::files::{self, FileTable};
use crate::joins;
use crate::pushdown;
use crate::scan::{TickScanExec, TickScanSettings};
use crate::session::logical_plan;
use crate::syntax::snapshot_of;
use crate::views;

/// Name of the column that numbers the rows of a snapshot, if the plan requests it.
const ROW_COLUMN: &str = "__row";

/// The source of a column of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnSource {
    /// Position among the stored columns.
    Stored(usize),
    /// The partition.
    Date,
    /// Number of the row in the snapshot.
    Row,
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

/// The tables of a database, and the columns of its views: the queries of views are already in the statement's `WITH` (`views.rs`).
#[derive(Debug)]
pub(crate) struct TickSchema {
    database: Database,
    /// What opens files, and the threads that parse them, if statements may read files.
    files: Option<(Arc<dyn OpenFiles>, usize)>,
    /// The session state in which views are planned. It holds this schema, hence the weak reference.
    state: OnceLock<Weak<SessionState>>,
    /// The rights that the table is read by; `None` for all rights.
    guard: Option<Arc<Guard>>,
}

impl TickSchema {
    pub(crate) fn new(
        database: Database,
        files: Option<(Arc<dyn OpenFiles>, usize)>,
        guard: Option<Arc<Guard>>,
    ) -> TickSchema {
        TickSchema { database, files, state: OnceLock::new(), guard }
    }

    /// Whether the caller may know that a table or view exists.
    fn sees(&self, name: &str) -> bool {
        self.guard.as_ref().is_none_or(|guard| guard.sees(name))
    }

    /// The views that the caller may read.
    pub(crate) fn views(&self) -> Vec<View> {
        let mut views = self.database.views().unwrap_or_default().to_vec();
        views.retain(|view| self.guard.as_ref().is_none_or(|guard| guard.reads_view(view)));
        views
    }

    /// A table that is read as a whole, not by a `FROM`; `None` if there is no such table that the caller may know.
    ///
    /// # Errors
    /// Denied, if not all of it may be seen; those of the store.
    pub(crate) fn whole(&self, name: &str) -> Result<Option<TableSnapshot>> {
        if !self.sees(name) {
            return Ok(None);
        }
        let table = match self.database.table(name) {
            Err(splay_store::Error::NoSuchTable { .. }) => return Ok(None),
            table => table.map_err(external)?,
        };
        match &self.guard {
            Some(guard) if !guard.reads_whole(name) => Err(external(splay_store::Error::Denied {
                about: format!("for table {}, of which you may not see all", table.name()),
            })),
            _ => table.snapshot().map(Some).map_err(external),
        }
    }

    /// The tables that the caller may know.
    pub(crate) fn names_of_tables(&self) -> Vec<String> {
        let mut names = self.database.tables().unwrap_or_default();
        names.retain(|name| self.sees(name));
        names
    }

    /// The commits of the tables that the caller may read as a whole, the newest first.
    pub(crate) fn histories(&self) -> Vec<(String, Vec<CommitReport>)> {
        let reads = |name: &String| self.guard.as_ref().is_none_or(|guard| guard.reads_whole(name));
        let named = self.names_of_tables().into_iter().filter(reads);
        let history = |name: String| {
            let commits = self.database.table(&name).and_then(|table| table.commits(usize::MAX)).ok()?;
            Some((name, commits))
        };
        named.filter_map(history).collect()
    }

    /// Whether the caller may see the queries of views, which name tables.
    pub(crate) fn shows_queries(&self) -> bool {
        self.guard.is_none()
    }

    /// Sets the session state in which views are planned.
    pub(crate) fn plan_views_in(&self, state: &Arc<SessionState>) {
        self.state.get_or_init(|| Arc::downgrade(state));
    }
}

#[async_trait]
impl SchemaProvider for TickSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.names_of_tables();
        let views = self.views();
        let is_hidden = |view: &&View| names.iter().any(|name| name.eq_ignore_ascii_case(&view.name));
        let views: Vec<String> = views.iter().filter(|view| !is_hidden(view)).map(|view| view.name.clone()).collect();
        names.extend(views);
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.sees(name) {
            return self.file(name);
        }
        if let Some(guard) = &self.guard {
            guard.check_past(name).map_err(external)?;
        }
        let snapshot = match snapshot_of(&self.database, name) {
            Ok(snapshot) => snapshot,
            Err(splay_store::Error::NoSuchTable { .. }) => match self.database.view(name) {
                Ok(Some(view)) if self.guard.as_ref().is_some_and(|guard| !guard.reads_view(&view)) => return Ok(None),
                Ok(Some(view)) => return Ok(self.view(&view).await),
                // A damaged list of views is reported by the error for an unknown name.
                Ok(None) | Err(_) => return self.file(name),
            },
            Err(error) => return Err(external(error)),
        };
        match &self.guard {
            None => Ok(Some(Arc::new(TickTable::new(snapshot)))),
            Some(guard) => guard.table(name, snapshot).await.map(Some),
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if !self.sees(name) {
            return Ok(None);
        }
        match snapshot_of(&self.database, name) {
            Err(splay_store::Error::NoSuchTable { .. }) => {
                Ok(self.database.view(name).ok().flatten().map(|_| TableType::View))
            }
            _ => Ok(Some(TableType::Base)),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.sees(name)
            && (snapshot_of(&self.database, name).is_ok() || self.database.view(name).is_ok_and(|view| view.is_some()))
    }
}

impl TickSchema {
    fn file(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match &self.files {
            Some((opener, threads)) if files::is_path(name) => {
                Ok(Some(Arc::new(FileTable::open(opener.as_ref(), name, *threads)?)))
            }
            None if files::is_path(name) => {
                plan_err!("there is no table {name:?}; files are read by the command and in Python, not by a server")
            }
            _ => Ok(None),
        }
    }

    /// The columns of a view; `None` if it can't be planned any more. A statement that reads it reports the reason.
    async fn view(&self, view: &View) -> Option<Arc<dyn TableProvider>> {
        let state = self.state.get()?.upgrade()?;
        let text = views::select_all(&self.views(), view).ok()?;
        let (plan, _, _) = logical_plan(&state, &text, usize::MAX).await.ok()?;
        let schema = Arc::clone(plan.schema().inner());
        let query = self.shows_queries().then(|| view.query.clone());
        Some(Arc::new(ViewColumns { name: view.name.clone(), query, schema }))
    }
}

/// A view as a table provider, for listings of tables.
#[derive(Debug)]
struct ViewColumns {
    name: String,
    query: Option<String>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for ViewColumns {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.query.as_deref()
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let name = &self.name;
        plan_err!(
            "the view {name} can't be read here: a query of a WITH has its name, or it stands where only a table can"
        )
    }
}

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
        if table.columns.contains(&ColumnSource::Row) {
            return Ok(Some((LogicalPlan::TableScan(scan.clone()), vec![row])));
        }
        let numbered = TickTable::with(table.snapshot.clone(), table.has_date(), true, table.guard.clone());
        let source = provider_as_source(Arc::new(numbered));
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
