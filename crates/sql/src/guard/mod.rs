//! Tables with hidden columns or rows, as a session with limited rights sees them.

mod policy;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use splay_store::{DATE_COLUMN, Database, Permission, Privilege, Rights, RowCondition, TableSnapshot, TableSpec, View};

pub(crate) use self::policy::check_condition;
use crate::error::{denied, external};
use crate::provider::{TableGuard, TickTable};
use crate::statement_states::StatementStates;

/// Most tables whose visible part is cached for a caller.
const TABLES_MAX: usize = 1024;

/// Limits a session to the rights of its user.
pub(crate) struct Guard {
    rights: Arc<Rights>,
    database: Database,
    /// The states of a session that may do everything, in which conditions of policies are planned.
    states: Arc<dyn StatementStates>,
    /// Conditions of policies by table, with the columns that they were planned for. Those with `now()` are planned for each statement.
    conditions: Mutex<HashMap<String, (TableSpec, Arc<dyn Conditions>)>>,
}

/// Planned conditions.
///
/// A trait object, like the states of sessions, so that the compiler needn't examine DataFusion's expressions for each future that holds a session.
trait Conditions: Send + Sync {
    fn expressions(&self) -> Arc<[Expr]>;
}

impl Conditions for Arc<[Expr]> {
    fn expressions(&self) -> Arc<[Expr]> {
        Arc::clone(self)
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("rights", &self.rights).finish_non_exhaustive()
    }
}

/// The name of the table in a name of a statement, which may end in `@commit 7`.
fn table_in(name: &str) -> &str {
    name.split_once('@').map_or(name, |(table, _)| table)
}

impl Guard {
    /// `states` are those of a session over the database that may do everything.
    pub(crate) fn new(rights: Arc<Rights>, database: Database, states: Arc<dyn StatementStates>) -> Guard {
        Guard { rights, database, states, conditions: Mutex::default() }
    }

    pub(crate) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Whether the caller may know that a table exists: he has some right on it, and it doesn't store the rows of a materialized view.
    pub(crate) fn sees(&self, name: &str) -> bool {
        let table = table_in(name);
        self.rights.sees(table) && self.database.refuse_of_view(table).is_ok()
    }

    /// Whether the caller may read some columns of a table, separated by commas.
    pub(crate) fn reads(&self, table: &str, columns: &str) -> bool {
        let permission = self.rights.permission(Privilege::Select, table);
        columns.split(", ").all(|column| permission.covers(column))
    }

    /// Whether the caller may read all rows and columns of a table.
    pub(crate) fn reads_whole(&self, table: &str) -> bool {
        self.rights.permission(Privilege::Select, table) == Permission::All && !self.rights.has_row_condition(table)
    }

    /// Whether the caller may read a view.
    pub(crate) fn reads_view(&self, view: &View) -> bool {
        self.rights.may(Privilege::Select, &view.name)
    }

    /// Refuses earlier commits of a table that the caller sees only in part: its columns and policies may have differed then, and the list of commits
    /// reveals changes.
    pub(crate) fn check_past(&self, name: &str) -> splay_store::Result<()> {
        let Some((table, _)) = name.split_once('@') else { return Ok(()) };
        match self.reads_whole(table) {
            true => Ok(()),
            false => {
                let about = format!("for the past of table {table}, of which you may not see all");
                Err(splay_store::Error::Denied { about })
            }
        }
    }

    /// A table as the caller sees it.
    pub(crate) async fn table(&self, name: &str, snapshot: TableSnapshot) -> DataFusionResult<Arc<dyn TableProvider>> {
        let table = table_in(name);
        let spec = snapshot.spec();
        let permission = self.rights.permission(Privilege::Select, table);
        if permission == Permission::None {
            let visible = self.known_columns(table, &spec.shown_arrow());
            let lower =
                visible.fields().iter().map(|field| field.as_ref().clone().with_name(field.name().to_lowercase()));
            return Ok(Arc::new(UnreadableTable::new(table, Schema::new(lower.collect::<Vec<_>>()))));
        }
        let hidden: BTreeSet<String> = spec
            .columns
            .iter()
            .map(|column| column.name.to_lowercase())
            // The date is computed from the time.
            .chain(spec.has_virtual_date().then(|| DATE_COLUMN.to_owned()))
            .filter(|column| {
                let of = if spec.has_virtual_date() && column == DATE_COLUMN { &spec.time } else { column };
                !permission.covers(of)
            })
            .collect();
        let has_condition = self.rights.has_row_condition(table);
        if hidden.is_empty() && !has_condition {
            return Ok(Arc::new(TickTable::new(snapshot)));
        }
        let conditions = match self.rights.rows(table) {
            RowCondition::All => None,
            RowCondition::Where(condition) => Some(self.conditions(table, spec, &condition).await?),
        };
        Ok(Arc::new(TickTable::guarded(snapshot, Arc::new(TableGuard::new(hidden, conditions)))))
    }

    /// The columns of a schema on which the caller has some right.
    pub(crate) fn known_columns(&self, table: &str, schema: &Schema) -> Schema {
        let permissions = Privilege::OF_TABLES.map(|privilege| self.rights.permission(privilege, table));
        let is_known = |name: &str| permissions.iter().any(|permission| permission.covers(name));
        Schema::new(schema.fields().iter().filter(|field| is_known(field.name())).cloned().collect::<Vec<_>>())
    }

    async fn conditions(&self, table: &str, spec: &TableSpec, condition: &str) -> DataFusionResult<Arc<[Expr]>> {
        let cached = self.conditions.lock().unwrap_or_else(PoisonError::into_inner).get(table).cloned();
        if let Some((_, conditions)) = cached.filter(|(cached, _)| cached == spec) {
            return Ok(conditions.expressions());
        }
        let state = self.states.of_statement();
        let planned = policy::planned(&state, &spec.name, condition, self.rights.user()).await.map_err(|_| {
            // Superusers find the reason by `SHOW POLICIES`: conditions may name hidden things.
            let about = format!("for table {table}: its policies can't be applied any more, ask a superuser");
            external(splay_store::Error::Denied { about })
        })?;
        let conditions: Arc<[Expr]> = planned.conditions.into();
        if planned.is_of_the_clock {
            return Ok(conditions);
        }
        let mut cached = self.conditions.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= TABLES_MAX {
            cached.clear();
        }
        cached.insert(table.to_owned(), (spec.clone(), Arc::new(Arc::clone(&conditions))));
        Ok(conditions)
    }
}

/// A table that the caller may know but not read.
#[derive(Debug)]
pub(crate) struct UnreadableTable {
    name: String,
    schema: SchemaRef,
}

impl UnreadableTable {
    fn new(name: &str, schema: Schema) -> UnreadableTable {
        UnreadableTable { name: name.to_owned(), schema: Arc::new(schema) }
    }
}

#[async_trait]
impl TableProvider for UnreadableTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::External(Box::new(denied(format!("for table {}", self.name)))))
    }
}
