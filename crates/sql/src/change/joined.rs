//! `UPDATE … FROM` and `DELETE … USING`: rows of a table that a join finds.
//!
//! - The changed table is the leftmost side of the join, as in PostgreSQL. Whether a row of it matches, and with which values, follows from
//!   the columns of it that the statement names: so one query gives these columns and the values, and the store looks up each of its rows
//!   in the result (`queries.rs`).
//! - A row that matches several rows is changed once. They must give it the same values.
//! - Cost: one run of the join, and memory for the matching rows by those columns.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan};
use splay_engine::Stop;
use splay_functions::walk::WalkPlan;
use splay_store::{Removal, Selection, Table};

use super::changed_rows::ChangedRows;
use super::condition::{scanned, table_of, unsupported};
use super::queries::{QueriedColumns, QueryLookup, refuse_volatile};
use crate::error::Result;
use crate::parameters::Parameters;
use crate::session::Session;

/// What a join found.
pub(super) struct JoinedRows {
    pub(super) lookup: Arc<QueryLookup>,
    selection: Selection,
}

impl JoinedRows {
    /// The rows of the table that matched.
    pub(super) fn removal(&self) -> Removal {
        let lookup = Arc::clone(&self.lookup);
        Removal::matching(self.selection.clone(), lookup.columns.clone(), move |rows| lookup.has(rows))
    }
}

/// Finds the rows of a table that match what they are joined with, and values of each; `None` if there are none.
pub(super) fn find(
    session: &Session,
    table: &Table,
    rows: &ChangedRows,
    values: &[String],
    parameters: &Parameters,
    stop: Stop<'_>,
) -> Result<Option<JoinedRows>> {
    let items: Vec<String> = values.iter().enumerate().map(|(place, value)| format!("({value}) AS s{place}")).collect();
    let items = if items.is_empty() { "true".to_owned() } else { items.join(", ") };
    let named = session.planned(rows.select(&items), parameters.clone(), stop, |_, plan| named(&plan))?;
    let spec = table.snapshot()?.spec().clone();
    let (lookup, selection) = QueryLookup::new(session, &spec, named, (values, rows), parameters, stop)?;
    Ok((!lookup.is_empty()).then(|| JoinedRows { lookup: Arc::new(lookup), selection }))
}

/// The columns of the changed table that a statement names. `plan` is `SELECT values FROM table, others WHERE condition`.
fn named(plan: &LogicalPlan) -> DataFusionResult<QueriedColumns> {
    plan.walk_steps(refuse_volatile)?;
    let target = target(plan)?;
    let mut names = Vec::new();
    plan.walk_steps(|step| {
        if let LogicalPlan::Subquery(query) = step {
            names.extend(query.outer_ref_columns.iter().filter_map(|column| match column {
                Expr::OuterReferenceColumn(_, column) => Some(column.name.clone()),
                _ => None,
            }));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    add_names(plan, &mut names)?;
    Ok(QueriedColumns::of(&table_of(target)?.0, &names))
}

/// The scan of the changed table: the leftmost of nothing but a projection, conditions and joins.
fn target(plan: &LogicalPlan) -> DataFusionResult<&datafusion::logical_expr::TableScan> {
    let LogicalPlan::Projection(values) = plan else {
        return Err(unsupported("a limit, an order or another clause behind the condition"));
    };
    let mut side = values.input.as_ref();
    loop {
        side = match side {
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Join(join) => &join.left,
            other => match scanned(other) {
                Some(scan) => return Ok(scan),
                None => return Err(unsupported("a group, a window or another clause behind the condition")),
            },
        };
    }
}

/// Adds the names of columns in the steps of a plan above its tables. Those of other tables do no harm if they are among them.
fn add_names(plan: &LogicalPlan, names: &mut Vec<String>) -> DataFusionResult<()> {
    if scanned(plan).is_some() {
        return Ok(());
    }
    plan.walk_expressions(|expr| {
        names.extend(expr.column_refs().into_iter().map(|column| column.name.clone()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    plan.inputs().into_iter().try_for_each(|input| add_names(input, names))
}
