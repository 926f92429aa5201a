//! `INSERT` into reference tables, with `ON CONFLICT`.
//!
//! All new rows are computed before the writer lock is taken. Under the lock the store finds which of them conflict
//! with stored rows; the expressions of `DO UPDATE` are evaluated over these pairs.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::PhysicalExpr;
use splay_engine::Stop;
use splay_store::{LoadOptions, OnConflict, REFERENCE_ROWS_MAX, ResolveConflicts, TableSpec};

use super::ChangeOutcome;
use super::changed_rows::ChangedRows;
use super::condition::{physical, refused, unsupported, values_over};
use super::fit::{fitted, refuse_nulls};
use super::returning::Returning;
use super::statement::{Conflict, Target};
use crate::error::{Error, Result, fault, of_store};
use crate::lock_retry::patiently;
use crate::parameters::Parameters;
use crate::session::Session;
use crate::statements::quoted;
use crate::table_spec::positions;

/// Inserts rows into a reference table, by one commit.
pub(super) fn insert(
    session: &Session,
    spec: &TableSpec,
    rows: &mut dyn Iterator<Item = Result<RecordBatch>>,
    (conflict, returning): (Option<(&ChangedRows, &Conflict)>, Option<&mut Returning<'_>>),
    parameters: &Parameters,
    stop: Stop<'_>,
) -> Result<ChangeOutcome> {
    let updating = match conflict {
        Some((into, conflict)) if !conflict.set.is_empty() => {
            Some(ConflictUpdate::new(session, spec, (into, conflict), parameters, stop)?)
        }
        _ => None,
    };
    let (mut batches, mut count) = (Vec::new(), 0);
    for batch in rows {
        let batch = batch?;
        count += batch.num_rows() as u64;
        if count > REFERENCE_ROWS_MAX {
            return fault(format!("a reference table has at most {REFERENCE_ROWS_MAX} rows, and the query gives more"));
        }
        batches.push(batch);
    }
    let on_conflict = if conflict.is_some() && updating.is_none() { OnConflict::Keep } else { OnConflict::Refuse };
    let options = LoadOptions { on_conflict, ..LoadOptions::default() };
    let mut load = patiently(stop, || session.database().load(spec, options.clone()))?;
    for batch in &batches {
        load.append(batch).map_err(of_store)?;
    }
    let mut resolve =
        updating.as_ref().map(|updating| move |stored: &RecordBatch, new: &RecordBatch| updating.resolve(stored, new));
    let resolve = resolve.as_mut().map(|resolve| resolve as &mut ResolveConflicts<'_>);
    let report = match returning {
        None => load.commit_resolving(resolve).map_err(of_store)?,
        Some(returning) => {
            let committed =
                load.commit_observed(resolve, Some(&mut |rows: &RecordBatch| returning.add_stored(rows, &[])));
            returning.outcome(committed.map_err(of_store))?
        }
    };
    Ok(ChangeOutcome { what: "INSERT", rows: report.rows, commit: (report.rows > 0).then_some(report.epoch) })
}

/// The conflict must be one by the key: there is no other.
pub(super) fn check_target(spec: &TableSpec, target: &Target) -> Result<()> {
    let key = spec.key_positions();
    match target {
        Target::Any if !key.is_empty() => Ok(()),
        Target::Constraint(name) if !key.is_empty() && name.eq_ignore_ascii_case(&format!("{}_pkey", spec.name)) => {
            Ok(())
        }
        Target::Constraint(name) => fault(format!("constraint {name:?} for table {:?} does not exist", spec.name)),
        Target::Columns(columns) => {
            let mut named = positions(spec, columns)?;
            let mut key = key.clone();
            named.sort_unstable();
            key.sort_unstable();
            if named == key {
                return Ok(());
            }
            fault("there is no unique or exclusion constraint matching the ON CONFLICT specification")
        }
        Target::Any => fault(format!("table {:?} has no primary key, so that no rows conflict", spec.name)),
    }
}

/// What `DO UPDATE` makes of pairs of a stored row and a new one.
struct ConflictUpdate {
    spec: TableSpec,
    /// Columns that are set.
    positions: Vec<usize>,
    /// Columns of both rows, as the expressions know them.
    schema: Arc<Schema>,
    /// The values that are set, and behind them the condition.
    expressions: Vec<Arc<dyn PhysicalExpr>>,
}

impl ConflictUpdate {
    fn new(
        session: &Session,
        spec: &TableSpec,
        (into, conflict): (&ChangedRows, &Conflict),
        parameters: &Parameters,
        stop: Stop<'_>,
    ) -> Result<ConflictUpdate> {
        let columns: Vec<String> = conflict.set.iter().map(|(column, _)| column.clone()).collect();
        let positions = positions(spec, &columns)?;
        let values = conflict.set.iter().map(|(_, value)| value.as_str());
        let condition = conflict.condition.as_deref().unwrap_or("true");
        let listed: Vec<String> =
            values.chain([condition]).enumerate().map(|(place, value)| format!("({value}) AS s{place}")).collect();
        // Read by nobody: it gives the names their meaning.
        let stored = into.select_all(&listed.join(", "));
        let text = format!("{stored} CROSS JOIN {} AS excluded", quoted(&spec.name));
        let (schema, expressions) = session.planned(text, parameters.clone(), stop, over_pairs)?;
        Ok(ConflictUpdate { spec: spec.clone(), positions, schema, expressions })
    }

    fn resolve(&self, stored: &RecordBatch, new: &RecordBatch) -> splay_store::Result<(BooleanArray, RecordBatch)> {
        let shown = self.spec.shown_columns().len();
        let both = [stored, new].into_iter().flat_map(|rows| &rows.columns()[..shown]).cloned().collect();
        let pairs = RecordBatch::try_new(Arc::clone(&self.schema), both)?;
        let of = |expression: &Arc<dyn PhysicalExpr>, pairs: &RecordBatch| {
            expression.evaluate(pairs).and_then(|value| value.into_array(pairs.num_rows())).map_err(refused)
        };
        let Some((condition, values)) = self.expressions.split_last() else { return Err(splay_store::Error::Stopped) };
        let changes = arrow::compute::cast(&of(condition, &pairs)?, &DataType::Boolean)?;
        let changes = BooleanArray::clone(changes.as_boolean());
        // Nothing is computed for rows that don't change.
        let (pairs, rows) = (filter_record_batch(&pairs, &changes)?, filter_record_batch(stored, &changes)?);
        let mut columns = rows.columns().to_vec();
        let as_store_error = |error: Error| splay_store::Error::Refused { reason: error.to_string() };
        for (value, position) in values.iter().zip(&self.positions) {
            let schema = self.spec.arrow();
            let field = schema.field(*position);
            columns[*position] =
                fitted(&of(value, &pairs)?, field.data_type(), field.name()).map_err(as_store_error)?;
        }
        refuse_nulls(&self.spec, |position| columns[position].logical_null_count() > 0).map_err(as_store_error)?;
        Ok((changes, RecordBatch::try_new(rows.schema(), columns)?))
    }
}

/// Expressions over pairs of rows. `plan` is `SELECT values FROM table CROSS JOIN table AS excluded`.
fn over_pairs(state: &SessionState, plan: LogicalPlan) -> DataFusionResult<(Arc<Schema>, Vec<Arc<dyn PhysicalExpr>>)> {
    let node = values_over(state, plan)?;
    let LogicalPlan::Join(join) = node.input.as_ref() else {
        return Err(unsupported("an aggregate, a window or a query as a value"));
    };
    let known: &DFSchema = &join.schema;
    let expressions = node.expr.iter().map(|expr| physical(state, expr.clone().unalias(), known));
    Ok((Arc::clone(known.inner()), expressions.collect::<DataFusionResult<Vec<_>>>()?))
}
