//! Conditions and values of changing statements that contain queries, and so can't be evaluated row by row over
//! stored rows.
//!
//! The result of such a condition for a row depends only on the columns that it names, including those that its
//! queries name. So a query over the table returns these columns for all rows where it is true, with the new values,
//! and the store looks up each of its rows in the result.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, TimestampNanosecondType};
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{Expr, LogicalPlan};
use splay_engine::Stop;
use splay_functions::walk::{Walk, WalkPlan};
use splay_store::{DATE_COLUMN, Removal, Selection, TableSpec};

use super::changed_rows::ChangedRows;
use super::condition::{MatchingRows, unsupported};
use crate::answer::Answer;
use crate::error::{Error, Result, fault};
use crate::memory::AnswerMemoryPart;
use crate::parameters::Parameters;
use crate::session::Session;
use crate::statements::quoted;

/// Why a join changes no row. PostgreSQL takes any of the matches, so that the same statement may give other rows the next time.
const SEVERAL_MATCHES: &str =
    "a row matches several rows of FROM, which give it different values: add conditions, or group them to one";

/// Bytes that the entry of a row takes besides its columns.
const ENTRY_BYTES: usize = 64;

/// The columns that expressions with queries name, of a table with these rows.
#[derive(Debug)]
pub(super) struct QueriedColumns(Vec<usize>);

/// What a query gave, by columns of the rows.
#[derive(Debug)]
pub(super) struct QueryLookup {
    /// Positions of the columns, ascending.
    pub(super) columns: Vec<usize>,
    types: Vec<DataType>,
    converter: RowConverter,
    places: HashMap<Box<[u8]>, u32>,
    /// Values by place.
    values: Vec<ArrayRef>,
    /// For a join, in which a row may match several times, the same values as keys, while they are gathered.
    variants: Option<Vec<Box<[u8]>>>,
    memory: AnswerMemoryPart,
}

/// The columns of a table that the expressions of a step name, if there are queries in these.
pub(super) fn named(spec: &TableSpec, step: &LogicalPlan) -> DataFusionResult<Option<QueriedColumns>> {
    let (mut names, mut queries) = (Vec::new(), Vec::new());
    step.walk_expressions(|expr| {
        names.extend(expr.column_refs().into_iter().map(|column| column.name.clone()));
        Walk::apply(expr, |inner| {
            queries.extend(query_of(inner).cloned());
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if queries.is_empty() {
        return Ok(None);
    }
    step.walk_steps(refuse_volatile)?;
    let outer = queries.iter().flat_map(|query| &query.outer_ref_columns);
    names.extend(outer.filter_map(|column| match column {
        Expr::OuterReferenceColumn(_, column) => Some(column.name.clone()),
        _ => None,
    }));
    Ok(Some(QueriedColumns::of(spec, &names)))
}

impl QueriedColumns {
    /// The columns of a table that have some names. Its date follows from the time.
    pub(super) fn of(spec: &TableSpec, names: &[String]) -> QueriedColumns {
        let position = |name: &String| match spec.position(name) {
            None if name.eq_ignore_ascii_case(DATE_COLUMN) => Some(spec.time_position()),
            found => found,
        };
        let mut columns: Vec<usize> = names.iter().filter_map(position).collect();
        columns.sort_unstable();
        columns.dedup();
        QueriedColumns(columns)
    }
}

fn query_of(expr: &Expr) -> Option<&datafusion::logical_expr::Subquery> {
    match expr {
        Expr::ScalarSubquery(query) => Some(query),
        Expr::InSubquery(found) => Some(&found.subquery),
        Expr::Exists(found) => Some(&found.subquery),
        Expr::SetComparison(found) => Some(&found.subquery),
        _ => None,
    }
}

pub(super) fn refuse_volatile(step: &LogicalPlan) -> DataFusionResult<TreeNodeRecursion> {
    step.walk_expressions(|expr| match expr.is_volatile() {
        true => Err(unsupported("a function whose value changes from call to call")),
        false => Ok(TreeNodeRecursion::Continue),
    })
}

/// The rows of a table that a condition with queries in it is true for.
pub(super) fn matching(
    session: &Session,
    spec: &TableSpec,
    named: QueriedColumns,
    rows: &ChangedRows,
    parameters: &Parameters,
    stop: Stop<'_>,
) -> Result<MatchingRows> {
    let (found, selection) = QueryLookup::new(session, spec, named, (&[], rows), parameters, stop)?;
    if found.places.is_empty() {
        return Ok(MatchingRows::None);
    }
    let columns = found.columns.clone();
    Ok(MatchingRows::Some(Removal::matching(selection, columns, move |rows| found.has(rows))))
}

impl QueryLookup {
    /// Asks for values, of the rows that a condition is true for, and gives the times between which those are.
    pub(super) fn new(
        session: &Session,
        spec: &TableSpec,
        QueriedColumns(columns): QueriedColumns,
        (values, rows): (&[String], &ChangedRows),
        parameters: &Parameters,
        stop: Stop<'_>,
    ) -> Result<(QueryLookup, Selection)> {
        let has_time = !spec.has_hidden_time();
        let time = has_time.then_some(&spec.time).into_iter();
        let names = columns.iter().map(|position| &spec.columns[*position].name);
        let table = rows.name();
        let named = time.chain(names).map(|name| format!("{table}.{}", quoted(name)));
        let items = named.chain(values.iter().map(|value| format!("({value})")));
        // Names of their own: a value may be called as a column is.
        let mut items: Vec<String> = items.enumerate().map(|(at, item)| format!("{item} AS \"__{at}\"")).collect();
        if items.is_empty() {
            items.push("true".to_owned());
        }
        let answer = session.sql_until(&rows.select(&items.join(", ")), parameters.clone(), stop)?;
        QueryLookup::of(spec, columns, (values.len(), rows.from.is_some()), has_time, answer)
    }

    /// What an answer gives: the time if there `has_time`, columns of the rows, and values.
    fn of(
        spec: &TableSpec,
        columns: Vec<usize>,
        (values, is_joined): (usize, bool),
        has_time: bool,
        mut answer: Answer,
    ) -> Result<(QueryLookup, Selection)> {
        let schema = spec.arrow();
        let plain = |position: &usize| match schema.field(*position).data_type() {
            DataType::Dictionary(_, values) => (**values).clone(),
            other => other.clone(),
        };
        let types: Vec<DataType> = columns.iter().map(plain).collect();
        let fields = types.iter().map(|of| SortField::new(of.clone())).collect();
        let converter = RowConverter::new(fields).map_err(of_arrow)?;
        let memory = answer.memory().part_for("the rows that a query found");
        let places = HashMap::new();
        let variants = (is_joined && values > 0).then(Vec::new);
        let mut found = QueryLookup { columns, types, converter, places, values: Vec::new(), variants, memory };
        let (mut selection, mut pieces, mut bytes) = (Selection::default(), vec![Vec::new(); values], 0);
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        let begin = usize::from(has_time);
        for batch in answer.by_ref() {
            let batch = batch?;
            // A batch without rows has no times to compare.
            if batch.num_rows() == 0 {
                continue;
            }
            if has_time && let Some(times) = batch.column(0).as_primitive_opt::<TimestampNanosecondType>() {
                first = first.min(arrow::compute::min(times).unwrap_or(i64::MIN));
                last = last.max(arrow::compute::max(times).unwrap_or(i64::MAX));
            }
            let behind = begin + found.columns.len();
            let (keys, values) = batch.columns()[begin..].split_at(behind - begin);
            let new = found.add(keys, values, batch.num_rows(), &mut bytes)?;
            for (pieces, values) in pieces.iter_mut().zip(&batch.columns()[behind..]) {
                let values = take(values, &new, None).map_err(of_arrow)?;
                bytes += values.get_array_memory_size();
                pieces.push(values);
            }
            found.memory.resize(bytes)?;
        }
        if first <= last {
            (selection.time.min, selection.time.max) = (first, last);
        }
        let joined = pieces
            .iter()
            .filter(|pieces| !pieces.is_empty())
            .map(|pieces| concat(&pieces.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>()).map_err(of_arrow));
        found.values = joined.collect::<Result<_>>()?;
        found.variants = None;
        Ok((found, selection))
    }

    /// Adds rows, and gives the numbers of those that weren't there.
    ///
    /// # Errors
    /// [`Error::Execution`] for a row that the join has given before, with other values.
    fn add(
        &mut self,
        columns: &[ArrayRef],
        values: &[ArrayRef],
        rows: usize,
        bytes: &mut usize,
    ) -> Result<UInt32Array> {
        let mut new = Vec::new();
        let keys = self.keys(columns, rows).map_err(of_arrow)?;
        let variants = self.variants.as_ref().map(|_| keys_of_values(values)).transpose().map_err(of_arrow)?;
        for (row, key) in keys.iter().enumerate() {
            if let Some(place) = self.places.get(&**key) {
                let stored = self.variants.as_ref().map(|stored| &stored[*place as usize]);
                if variants.as_ref().map(|variants| &variants[row]) != stored {
                    return Err(Error::Execution { message: SEVERAL_MATCHES.to_owned() });
                }
                continue;
            }
            if let (Some(stored), Some(variants)) = (&mut self.variants, &variants) {
                *bytes += variants[row].len() + size_of::<Box<[u8]>>();
                stored.push(variants[row].clone());
            }
            let (Ok(place), Ok(row)) = (u32::try_from(self.places.len()), u32::try_from(row)) else {
                return fault("the condition is true for more than 4,294,967,295 different rows");
            };
            *bytes += key.len() + ENTRY_BYTES;
            self.places.insert(key.clone(), place);
            new.push(row);
        }
        Ok(new.into())
    }

    /// Whether no row was found.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Columns of rows as keys.
    fn keys(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<Box<[u8]>>, arrow::error::ArrowError> {
        if columns.is_empty() {
            return Ok(vec![Box::default(); rows]);
        }
        let columns =
            columns.iter().zip(&self.types).map(|(column, of)| cast(column, of)).collect::<Result<Vec<_>, _>>()?;
        let keys = self.converter.convert_columns(&columns)?;
        Ok(keys.iter().map(|key| Box::from(key.as_ref())).collect())
    }

    /// Places of rows, whose columns are those that were named.
    fn places(&self, rows: &RecordBatch) -> splay_store::Result<Vec<Option<u32>>> {
        let keys = self.keys(rows.columns(), rows.num_rows())?;
        Ok(keys.iter().map(|key| self.places.get(key).copied()).collect())
    }

    /// Whether there are such rows.
    pub(super) fn has(&self, rows: &RecordBatch) -> splay_store::Result<BooleanArray> {
        Ok(self.places(rows)?.into_iter().map(|place| Some(place.is_some())).collect())
    }

    /// The values of rows.
    ///
    /// # Errors
    /// [`splay_store::Error::Refused`] for rows that didn't exist when the values were computed.
    pub(super) fn values(&self, rows: &RecordBatch) -> splay_store::Result<Vec<ArrayRef>> {
        let places = self.places(rows)?;
        let Some(places) = places.into_iter().collect::<Option<Vec<u32>>>() else {
            let reason = "rows came in while the statement ran: run it again".to_owned();
            return Err(splay_store::Error::Refused { reason });
        };
        let places = UInt32Array::from(places);
        Ok(self.values.iter().map(|values| take(values, &places, None)).collect::<Result<_, _>>()?)
    }
}

/// Values of rows as keys.
fn keys_of_values(values: &[ArrayRef]) -> Result<Vec<Box<[u8]>>, arrow::error::ArrowError> {
    let fields = values.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let keys = RowConverter::new(fields)?.convert_columns(values)?;
    Ok(keys.iter().map(|key| Box::from(key.as_ref())).collect())
}

fn of_arrow(error: arrow::error::ArrowError) -> Error {
    Error::from_datafusion(DataFusionError::ArrowError(Box::new(error), None), usize::MAX)
}
