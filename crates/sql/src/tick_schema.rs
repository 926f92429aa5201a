//! The schema `public`: the tables and views of a database by their names, as far as the session's rights show them, and files by their paths.

use std::sync::{Arc, OnceLock, Weak};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::TableType;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use splay_store::{CommitReport, Database, OpenFiles, Table, TableSnapshot, View};

use crate::error::external;
use crate::files::{self, FileTable};
use crate::guard::Guard;
use crate::logical_plan::logical_plan;
use crate::provider::TickTable;
use crate::syntax::snapshot_of;
use crate::views;

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

    /// The commits of the tables that the caller may read as a whole, the newest first; for superusers also those of dropped tables.
    pub(crate) fn histories(&self) -> Vec<(String, Vec<CommitReport>)> {
        let reads = |name: &String| self.guard.as_ref().is_none_or(|guard| guard.reads_whole(name));
        let there = self.names_of_tables().into_iter().filter(reads).filter_map(|name| self.database.table(&name).ok());
        let dropped = match self.guard {
            None => self.database.dropped_tables().unwrap_or_default(),
            Some(_) => Vec::new(),
        };
        let history = |table: Table| Some((table.name().to_owned(), table.commits(usize::MAX).ok()?));
        there.chain(dropped).filter_map(history).collect()
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
