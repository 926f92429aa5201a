//! The columns of a `FROM`, and which of them is its time.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::source_as_provider;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Ident, Query};

use super::tables;
use crate::joins;
use crate::names::{Spellings, learn_columns};
use crate::provider::TickTable;
use crate::resolve::resolve;

/// The columns of a `FROM` in the order of `*`.
#[derive(Debug)]
pub(super) struct Relation {
    pub columns: Vec<FromColumn>,
    /// The time column by which its rows are ordered: that of the table, or of the left table of a join.
    pub time: Option<usize>,
}

/// The columns of a select without `FROM`.
pub(super) static EMPTY: Relation = Relation { columns: Vec::new(), time: None };

/// A column of a `FROM`.
#[derive(Debug, Clone)]
pub(super) struct FromColumn {
    /// Name or alias of the relation that has the column.
    relation: Option<String>,
    /// Its name, folded.
    pub name: String,
    /// Its name in its original spelling.
    pub written: String,
    /// Whether its values are instants.
    pub is_instant: bool,
    /// Whether another column has its name.
    is_ambiguous: bool,
    /// The expression that reads it, if that isn't its name.
    read_by: Option<ast::Expr>,
}

impl FromColumn {
    /// The expression that reads it.
    pub(super) fn expression(&self) -> ast::Expr {
        if let Some(expression) = &self.read_by {
            return expression.clone();
        }
        let name = Ident::with_quote('"', self.name.clone());
        match &self.relation {
            Some(relation) if self.is_ambiguous => {
                ast::Expr::CompoundIdentifier(vec![Ident::with_quote('"', relation.clone()), name])
            }
            _ => ast::Expr::Identifier(name),
        }
    }

    /// Its name qualified by that of its relation, if that has one.
    pub(super) fn qualified(&self) -> Option<ast::Expr> {
        let quoted = |name: &String| Ident::with_quote('"', name.clone());
        let relation = self.relation.as_ref()?;
        Some(ast::Expr::CompoundIdentifier(vec![quoted(relation), quoted(&self.name)]))
    }

    /// This column, read by another expression.
    pub(super) fn standing_for(&self, expression: ast::Expr) -> FromColumn {
        FromColumn { read_by: Some(expression), ..self.clone() }
    }

    /// Whether it is a column of a relation of this name.
    pub(super) fn is_of(&self, relation: &str) -> bool {
        self.relation.as_deref() == Some(relation)
    }
}

impl Relation {
    /// The columns that `SELECT * FROM …` returns.
    ///
    /// # Errors
    /// If it can't be planned.
    pub(super) async fn of(query: Query, state: &SessionState, has_joins: bool) -> Result<Relation> {
        // The planner would compare each column of `*` with all others.
        if !has_joins
            && let Some(tables) = tables::named(&query)
            && let Some(relation) = tables::relation(&tables, state).await?
        {
            return Ok(relation);
        }
        let mut statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query))));
        resolve(&mut statement, state).map_err(|error| datafusion::error::DataFusionError::Plan(error.to_string()))?;
        if has_joins {
            joins::arrange(&mut statement)?;
        }
        let plan = state.statement_to_plan(statement).await?;
        let mut spellings = Spellings::default();
        learn_columns(&plan, &mut spellings)?;
        Ok(Relation::spelt(plan.schema(), &spellings, time_of(&plan)))
    }

    /// The columns of a schema in the spelling of their tables, with the position of the time if it is known.
    pub(super) fn spelt(schema: &DFSchema, spellings: &Spellings, time: Option<usize>) -> Relation {
        let written = spellings.restore(schema.as_arrow());
        let mut relation = Relation::of_schema(schema);
        for (column, written) in relation.columns.iter_mut().zip(written.fields()) {
            column.written.clone_from(written.name());
        }
        relation.time = time.or(relation.time);
        relation
    }

    /// The columns of a schema, whose only timestamp is the time.
    pub(super) fn of_schema(schema: &DFSchema) -> Relation {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        schema.fields().iter().for_each(|field| *seen.entry(field.name()).or_default() += 1);
        let columns = schema.iter().map(|(relation, field)| FromColumn {
            relation: relation.map(|relation| relation.table().to_owned()),
            name: field.name().clone(),
            written: field.name().clone(),
            is_instant: matches!(field.data_type(), DataType::Timestamp(_, _)),
            is_ambiguous: seen.get(field.name().as_str()).is_some_and(|times| *times > 1),
            read_by: None,
        });
        let columns: Vec<FromColumn> = columns.collect();
        let mut instants = columns.iter().enumerate().filter(|(_, column)| column.is_instant);
        let time = match (instants.next(), instants.next()) {
            (Some((place, _)), None) => Some(place),
            _ => None,
        };
        Relation { time, columns }
    }

    /// Whether there is a column of a name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }
}

/// The position of the column that is the time of the table below, or a bucket of it.
fn time_of(plan: &LogicalPlan) -> Option<usize> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let time = provider.downcast_ref::<TickTable>()?.spec().time.to_lowercase();
            plan.schema().fields().iter().position(|field| *field.name() == time)
        }
        LogicalPlan::SubqueryAlias(alias) => time_of(&alias.input),
        LogicalPlan::Filter(filter) => time_of(&filter.input),
        LogicalPlan::Sort(sort) => time_of(&sort.input),
        LogicalPlan::Limit(limit) => time_of(&limit.input),
        LogicalPlan::Window(window) => time_of(&window.input),
        LogicalPlan::Join(join) => time_of(&join.left),
        LogicalPlan::Union(union) => time_of(union.inputs.first()?),
        LogicalPlan::Projection(projection) => {
            let time = time_of(&projection.input)?;
            projection.expr.iter().position(|expr| is_time(expr, projection.input.schema(), time))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let time = time_of(&aggregate.input)?;
            aggregate.group_expr.iter().position(|expr| is_time(expr, aggregate.input.schema(), time))
        }
        _ => None,
    }
}

/// Whether an expression is the time, or a bucket of it.
fn is_time(expr: &Expr, schema: &DFSchema, time: usize) -> bool {
    let is_column = |column: &Column| schema.maybe_index_of_column(column) == Some(time);
    match expr {
        Expr::Alias(alias) => is_time(&alias.expr, schema, time),
        Expr::Cast(cast) => is_time(&cast.expr, schema, time),
        Expr::Column(column) => is_column(column),
        Expr::ScalarFunction(call) => {
            let buckets = ["time_bucket", "time_bucket_gapfill", "xbar", "date_bin", "date_trunc"];
            (buckets.contains(&call.func.name()) || call.func.name() == splay_functions::SAMPLE_FILL)
                && call.args.get(1).is_some_and(|arg| is_time(arg, schema, time))
        }
        _ => false,
    }
}
