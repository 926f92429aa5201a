//! The tables of incoming rows: finds them, creates them, adds columns.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLockReadGuard};

use splay_store::{ColumnSpec, TableSpec};

use super::Capture;
use crate::append::Append;
use crate::conform::{conform, new_columns};
use crate::error::{Error, Result};
use crate::live::LiveTable;
use crate::size_estimate;
use crate::stored_tables::create_table;
use crate::table_options::TableOptions;

impl Capture {
    /// The tables of appends, which stand table by table: made or given columns if need be, each by one commit. Also gives how many
    /// were made.
    pub(super) fn live_tables_for(&self, appends: &[Append]) -> Result<(Vec<Arc<LiveTable>>, usize)> {
        let shared = &self.shared;
        let mut plans = Vec::new();
        for of_table in appends.chunk_by(|one, other| one.table.to_lowercase() == other.table.to_lowercase()) {
            plans.push((of_table, self.plan(of_table)?));
        }
        let made = plans.iter().filter(|(_, plan)| matches!(plan.table, TableTarget::New(_))).count();
        shared.check_new_tables(&appends[0].table, made)?;
        let widened = plans.iter().filter(|(_, plan)| matches!(plan.table, TableTarget::Existing(_)));
        shared.check_new_columns(&appends[0].table, widened.map(|(_, plan)| plan.missing).sum())?;
        // A refused message must make neither a table nor a column.
        if plans.iter().any(|(_, plan)| plan.missing > 0) {
            plans.iter().try_for_each(|(of_table, plan)| self.refuse_unfit(of_table, plan))?;
        }
        let mut live_tables = Vec::with_capacity(appends.len());
        for (of_table, plan) in plans {
            let live = match plan.table {
                TableTarget::Existing(live) => live,
                TableTarget::New(spec) => self.create(&shared.calendars.of(&spec.name).placed(spec))?,
            };
            if plan.missing > 0 {
                self.widen(&live, of_table)?;
            }
            live_tables.extend(of_table.iter().map(|_| Arc::clone(&live)));
        }
        Ok((live_tables, made))
    }

    /// Determines the changes that a table needs before it can take these rows.
    fn plan(&self, appends: &[Append]) -> Result<TablePlan> {
        let shared = &self.shared;
        let first = &appends[0];
        if let Err(error) = shared.database.refuse_of_view(&first.table) {
            return Err(Error::rejected(&first.table, error.to_string()));
        }
        if let Some(live) = self.live(&first.table)? {
            live.follow_schema()?;
            let spec = live.spec();
            if spec.reference.is_some() {
                let reason =
                    "it is a reference table, whose rows are inserted by statements and not captured".to_owned();
                return Err(Error::rejected(&spec.name, reason));
            }
            let missing = missing_columns(&spec, appends)?.len();
            if missing > 0 {
                shared.check_columns(&spec.name, spec.columns.len() + missing)?;
            }
            shared.dedupe.check_existing(&spec)?;
            return Ok(TablePlan { table: TableTarget::Existing(live), missing });
        }
        if !shared.settings.create_tables || first.must_exist {
            return Err(Error::NoSuchTable { table: first.table.clone() });
        }
        splay_store::refuse_quarantine_name("table", &first.table)
            .map_err(|error| Error::rejected(&first.table, error.to_string()))?;
        let mut spec = match &first.spec {
            Some(spec) => spec.clone(),
            None => TableOptions::default().table_for(&first.table, &first.rows)?,
        };
        let missing = missing_columns(&spec, appends)?;
        spec.columns.extend(missing);
        shared.check_columns(&spec.name, spec.columns.len())?;
        shared.dedupe.check(&spec)?;
        // Somebody else may make it meanwhile, with other columns.
        Ok(TablePlan { table: TableTarget::New(spec), missing: usize::MAX })
    }

    /// Refuses rows that don't fit the table, the columns that they add included.
    fn refuse_unfit(&self, appends: &[Append], plan: &TablePlan) -> Result<()> {
        let spec = match &plan.table {
            TableTarget::Existing(live) => {
                let mut spec = TableSpec::clone(&live.spec());
                let missing = missing_columns(&spec, appends)?;
                spec.columns.extend(missing);
                spec
            }
            TableTarget::New(spec) => spec.clone(),
        };
        appends.iter().try_for_each(|append| {
            self.shared.check_length(&spec.name, size_estimate::bytes(&spec, &append.rows))?;
            conform(&spec, &append.rows).map(drop)
        })
    }

    /// Gives a table the columns of rows that it lacks.
    fn widen(&self, live: &Arc<LiveTable>, appends: &[Append]) -> Result<()> {
        if missing_columns(&live.spec(), appends)?.is_empty() {
            return Ok(());
        }
        let shared = &self.shared;
        let _changes = shared.table_changes.lock().unwrap_or_else(PoisonError::into_inner);
        live.refresh_spec()?;
        let spec = live.spec();
        let new = missing_columns(&spec, appends)?;
        if !new.is_empty() {
            shared.check_columns(&spec.name, spec.columns.len() + new.len())?;
            shared.settled(live.table().add_columns(new))?;
        }
        live.refresh_spec()
    }

    /// The live rows of a table, if there is such a table.
    pub(crate) fn live(&self, table: &str) -> Result<Option<Arc<LiveTable>>> {
        let name = table.to_lowercase();
        if let Some(live) = self.tables().get(&name) {
            return Ok(Some(Arc::clone(live)));
        }
        match self.shared.database.table(table) {
            Ok(table) => {
                let mut tables = self.shared.tables.write().unwrap_or_else(PoisonError::into_inner);
                if let Some(live) = tables.get(&name) {
                    return Ok(Some(Arc::clone(live)));
                }
                // Looked up once more: a table that has lost the name meanwhile was taken out of the list, and doesn't come in again.
                let table = match self.shared.database.table(table.name()) {
                    Err(splay_store::Error::NoSuchTable { .. }) => return Ok(None),
                    found => found?,
                };
                let live = LiveTable::new(table, &self.shared.meters)?;
                self.shared.calendars.of(&name).compare(&live.spec());
                tables.insert(name, Arc::clone(&live));
                Ok(Some(live))
            }
            Err(splay_store::Error::NoSuchTable { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn tables(&self) -> RwLockReadGuard<'_, HashMap<String, Arc<LiveTable>>> {
        self.shared.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn create(&self, spec: &TableSpec) -> Result<Arc<LiveTable>> {
        let _changes = self.shared.table_changes.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.settled(create_table(&self.shared.database, spec))?;
        self.live(&spec.name)?.ok_or(Error::Closed)
    }
}

/// Columns of rows that a table lacks, each once.
fn missing_columns(spec: &TableSpec, appends: &[Append]) -> Result<Vec<ColumnSpec>> {
    let mut names = HashSet::new();
    let mut missing = Vec::new();
    for append in appends {
        let new = new_columns(spec, &append.rows)?;
        missing.extend(new.into_iter().filter(|column| names.insert(column.name.to_ascii_lowercase())));
    }
    Ok(missing)
}

/// The changes that a table needs before it takes rows.
struct TablePlan {
    table: TableTarget,
    /// Columns that it lacks.
    missing: usize,
}

/// An existing table, or one to create.
#[expect(clippy::large_enum_variant, reason = "one for each table of a message")]
enum TableTarget {
    Existing(Arc<LiveTable>),
    New(TableSpec),
}
