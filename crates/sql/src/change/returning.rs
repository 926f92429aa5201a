//! `RETURNING`: what a statement gives of the rows that it has inserted, changed or deleted.
//!
//! - The items are planned before anything changes, over the changed table and what it is joined with. What can't be
//!   evaluated row by row is refused there.
//! - They are evaluated over the rows on their way to the commit: an item that fails for a row fails the statement.
//! - The rows of the answer wait in memory for the commit, within the memory of a statement.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::PhysicalExpr;
use splay_engine::Stop;
use splay_store::{DATE_COLUMN, TableSpec};

use super::InsertRows;
use super::changed_rows::ChangedRows;
use super::condition::{dates_of, physical, scanned, table_of, unsupported, values_over};
use super::queries::QueryLookup;
use crate::error::{Error, Result, fault};
use crate::memory::AnswerMemoryPart;
use crate::parameters::Parameters;
use crate::session::Session;
use crate::statements::quoted;

/// The rows that a statement answers with.
#[derive(Debug)]
pub(super) struct ReturnedRows {
    pub(super) schema: SchemaRef,
    pub(super) batches: Vec<RecordBatch>,
    pub(super) memory: AnswerMemoryPart,
}

/// Evaluates the items of `RETURNING`, and holds their values.
pub(super) struct Returning<'a> {
    items: ReturningItems,
    schema: SchemaRef,
    /// Says what the client can take.
    insert: &'a dyn InsertRows,
    batches: Vec<RecordBatch>,
    rows: u64,
    bytes: usize,
    memory: AnswerMemoryPart,
    /// Why rows couldn't be taken, while the store knows only that.
    failure: Option<Error>,
}

/// Items as they are evaluated.
struct ReturningItems {
    spec: TableSpec,
    /// Where the columns come from that the items read.
    sources: Vec<ColumnSource>,
    /// These columns.
    columns: SchemaRef,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    types: Vec<DataType>,
    /// Columns of the tables that the changed one is joined with, as a statement names them.
    joined: Vec<String>,
}

/// Where a column comes from that an item reads.
enum ColumnSource {
    /// A column of the changed table.
    Own(String),
    /// Its date, which follows from the time.
    Date,
    /// One of [`ReturningItems::joined`].
    Joined(usize),
}

/// The query that gives the items their meaning, which nobody runs.
pub(super) fn select(rows: &ChangedRows, items: &str) -> String {
    rows.select_all(items)
}

impl<'a> Returning<'a> {
    /// Plans items over rows of a table; `None` without items.
    ///
    /// # Errors
    /// [`Error::Statement`] for items that can't be evaluated row by row, and those of [`InsertRows::admit_columns`].
    pub(super) fn plan(
        session: &Session,
        (rows, items): (&ChangedRows, Option<&str>),
        parameters: &Parameters,
        stop: Stop<'_>,
        insert: &'a dyn InsertRows,
    ) -> Result<Option<Returning<'a>>> {
        let Some(items) = items else { return Ok(None) };
        let text = select(rows, items);
        let described = session.describe_until(&text, stop)?.schema;
        let items = session.planned(text, parameters.clone(), stop, ReturningItems::of)?;
        if !items.joined.is_empty() && rows.from.is_none() {
            return fault("RETURNING takes no query as a value: read what it gives first, and name the values");
        }
        if described.fields().len() != items.types.len() {
            return Err(Error::Internal { message: "RETURNING was planned in two ways".to_owned() });
        }
        let mut fields = Vec::with_capacity(items.types.len());
        for (described, found) in described.fields().iter().zip(&items.types) {
            if described.data_type() == &DataType::Null && *found != DataType::Null {
                let name = described.name();
                return fault(format!(
                    "RETURNING: {name} has no type before its value is known: write it as in $1::bigint"
                ));
            }
            fields.push(Field::new(described.name(), found.clone(), true));
        }
        let schema = Arc::new(Schema::new(fields));
        insert.admit_columns(&schema)?;
        let memory = session.memory_part("the rows of RETURNING");
        let (batches, failure) = (Vec::new(), None);
        Ok(Some(Returning { items, schema, insert, batches, rows: 0, bytes: 0, memory, failure }))
    }

    /// Columns of the tables that the changed one is joined with, whose values [`Returning::add`] gets.
    pub(super) fn joined(&self) -> &[String] {
        &self.items.joined
    }

    /// Takes rows, with the columns of the table's that are stored, and columns of what they are joined with.
    ///
    /// # Errors
    /// Those of the items; [`Error::Memory`] if the answer is too large.
    pub(super) fn add(&mut self, rows: &RecordBatch, joined: &[ArrayRef]) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let values = self.items.evaluate(rows, joined).map_err(|error| Error::from_datafusion(error, usize::MAX))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options);
        let batch = batch.map_err(|error| Error::Internal { message: error.to_string() })?;
        self.rows += batch.num_rows() as u64;
        self.insert.admit_rows(self.rows)?;
        self.bytes += batch.get_array_memory_size();
        self.memory.resize(self.bytes)?;
        self.batches.push(batch);
        Ok(())
    }

    /// The same amid a change of the store. [`Returning::outcome`] says what went wrong.
    pub(super) fn add_stored(&mut self, rows: &RecordBatch, joined: &[ArrayRef]) -> splay_store::Result<()> {
        self.add(rows, joined).map_err(|error| {
            let reason = error.to_string();
            self.failure = Some(error);
            splay_store::Error::Refused { reason }
        })
    }

    /// As [`Returning::add_stored`], where a query found the rows.
    pub(super) fn add_found(&mut self, rows: &RecordBatch, found: Option<&QueryLookup>) -> splay_store::Result<()> {
        let joined = match found.filter(|_| !self.items.joined.is_empty()) {
            Some(found) => found.values(&rows.project(&found.columns)?)?,
            None => Vec::new(),
        };
        self.add_stored(rows, &joined)
    }

    /// Forgets the rows: the change is tried again.
    pub(super) fn clear(&mut self) {
        (self.rows, self.bytes, self.failure) = (0, 0, None);
        self.batches.clear();
    }

    /// What a change came to: where it failed because of these rows, why.
    pub(super) fn outcome<T>(&mut self, changed: Result<T>) -> Result<T> {
        match (changed, self.failure.take()) {
            (Err(_), Some(failure)) => Err(failure),
            (changed, _) => changed,
        }
    }

    /// The rows.
    pub(super) fn finish(self) -> ReturnedRows {
        ReturnedRows { schema: self.schema, batches: self.batches, memory: self.memory }
    }
}

impl ReturningItems {
    /// `plan` is `SELECT items FROM table, others`.
    fn of(state: &SessionState, plan: LogicalPlan) -> DataFusionResult<ReturningItems> {
        let node = values_over(state, plan)?;
        let Some(own) = leftmost(&node.input) else {
            return Err(unsupported("an aggregate, a window or a query as a value"));
        };
        let scan = scanned(own).ok_or_else(|| unsupported("anything but a table of the database"))?;
        let spec = table_of(scan)?.0;
        let (input, own_count) = (node.input.schema(), own.schema().fields().len());
        let (mut sources, mut fields, mut joined) = (Vec::new(), Vec::new(), Vec::new());
        let mut places: Vec<usize> = Vec::new();
        let mut place_of = |column: &Column| -> DataFusionResult<usize> {
            let index = input.index_of_column(column)?;
            if let Some(place) = places.iter().position(|other| *other == index) {
                return Ok(place);
            }
            let (relation, field) = input.qualified_field(index);
            let name = field.name();
            sources.push(if index >= own_count {
                let relation = relation.map(|relation| format!("{}.", quoted(relation.table()))).unwrap_or_default();
                joined.push(format!("{relation}{}", quoted(name)));
                ColumnSource::Joined(joined.len() - 1)
            } else if spec.has_virtual_date() && name == DATE_COLUMN {
                ColumnSource::Date
            } else {
                ColumnSource::Own(name.clone())
            });
            fields.push(Field::new(format!("__{}", places.len()), field.data_type().clone(), true));
            places.push(index);
            Ok(places.len() - 1)
        };
        let mut placed = Vec::with_capacity(node.expr.len());
        for expr in &node.expr {
            let expr = expr.clone().unalias().transform_up(|expr| match &expr {
                Expr::Column(column) => {
                    let place = place_of(column)?;
                    Ok(Transformed::yes(Expr::Column(Column::new_unqualified(format!("__{place}")))))
                }
                _ => Ok(Transformed::no(expr)),
            })?;
            placed.push(expr.data);
        }
        let columns = Arc::new(Schema::new(fields));
        let known = DFSchema::try_from(Arc::clone(&columns))?;
        let expressions = placed.into_iter().map(|expr| physical(state, expr, &known));
        let expressions = expressions.collect::<DataFusionResult<Vec<_>>>()?;
        let types = expressions.iter().map(|expr| expr.data_type(&columns)).collect::<DataFusionResult<Vec<_>>>()?;
        Ok(ReturningItems { spec, sources, columns, expressions, types, joined })
    }

    /// The items' values for rows, with columns of what these are joined with.
    fn evaluate(&self, rows: &RecordBatch, joined: &[ArrayRef]) -> DataFusionResult<Vec<ArrayRef>> {
        let missing = |name: &str| DataFusionError::Internal(format!("the column {name} isn't there"));
        let own = |name: &str| {
            let found = rows.schema_ref().fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
            found.map(|place| Arc::clone(rows.column(place))).ok_or_else(|| missing(name))
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.sources.len());
        for (source, field) in self.sources.iter().zip(self.columns.fields()) {
            let column = match source {
                ColumnSource::Own(name) => own(name)?,
                ColumnSource::Date => dates_of(&self.spec, &own(&self.spec.time)?)?,
                ColumnSource::Joined(place) => {
                    joined.get(*place).cloned().ok_or_else(|| missing(&self.joined[*place]))?
                }
            };
            let is_same = column.data_type() == field.data_type();
            columns.push(if is_same { column } else { cast(&column, field.data_type())? });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.columns), columns, &options)?;
        let values = self.expressions.iter().zip(&self.types).map(|(expr, data_type)| {
            let values = expr.evaluate(&rows)?.into_array(rows.num_rows())?;
            Ok(owned(&values, data_type)?)
        });
        values.collect()
    }
}

/// The leftmost side of joins and conditions: the changed table.
fn leftmost(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Join(join) => leftmost(&join.left),
        LogicalPlan::Filter(filter) => leftmost(&filter.input),
        other => scanned(other).map(|_| other),
    }
}

/// A copy of values in a type. They may be slices of a mapped file, which the change removes.
fn owned(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if let DataType::Dictionary(_, texts) = values.data_type() {
        return cast(&cast(values, texts)?, data_type);
    }
    let all: UInt32Array = (0..u32::try_from(values.len()).unwrap_or(u32::MAX)).collect();
    let copied = take(values, &all, None)?;
    if copied.data_type() == data_type { Ok(copied) } else { cast(&copied, data_type) }
}
