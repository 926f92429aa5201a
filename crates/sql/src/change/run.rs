//! Executes changing statements.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use splay_engine::Stop;
use splay_store::{
    ColumnSpec, ColumnType, Database, Lifecycle, Load, LoadOptions, LoadReport, Reference, Removal, Selection, Table,
    TableSpec, View,
};

use super::changed_rows::ChangedRows;
use super::condition::{self, MatchingRows, RowExpressions, Values};
use super::drop;
use super::fit::{fitted, fitted_rows, refuse_nulls};
use super::joined;
use super::materialized::{self, RefreshOutcome};
use super::queries::{self, QueryLookup};
use super::returning::{ReturnedRows, Returning};
use super::statement::{Alteration, Conflict, Statement};
use super::{ChangeOutcome, InsertRows, reference_insert, table_to_change};
use crate::answer::Answer;
use crate::error::{Error, Result, fault};
use crate::lock_retry::patiently;
use crate::long_numbers;
use crate::parameters::Parameters;
use crate::session::Session;
use crate::statements::quoted;
use crate::table_options::{self, LifecycleOption};
use crate::table_spec::{columns_of, period_of, positions, spec};
use crate::views;

pub(super) fn run(
    session: &Session,
    statement: Statement,
    parameters: &Parameters,
    stop: Stop<'_>,
    insert: &dyn InsertRows,
    returned: &mut Option<ReturnedRows>,
) -> Result<ChangeOutcome> {
    let database = session.database();
    match statement {
        Statement::Insert { into, columns, query, conflict, returning } => {
            let table = table_to_change(database, &into.table)?;
            let (into, spec) = (into.of_stored(&table), table.snapshot()?.spec().clone());
            check_conflict(&spec, conflict.as_ref())?;
            let (columns, conflict) = (columns.as_deref(), conflict.as_ref().map(|conflict| (&into, conflict)));
            let insertion = Insertion { what: "INSERT", columns, query: &query, conflict };
            let items = (&into, returning.as_deref());
            let mut returning = Returning::plan(session, items, parameters, stop, insert)?;
            let changed = insert_rows(session, &spec, &insertion, parameters, stop, (insert, returning.as_mut()))?;
            *returned = returning.map(Returning::finish);
            Ok(changed)
        }
        Statement::CopyFrom { table, columns, path } => {
            let spec = table_to_change(database, &table)?.snapshot()?.spec().clone();
            let file = format!("'{}'", path.replace('\'', "''"));
            let session = &session.reading_for(copied_columns(&spec, columns.as_deref())?, columns.is_some())?;
            let select = |columns: &[String]| {
                let names: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
                format!("SELECT {} FROM {file}", names.join(", "))
            };
            let columns = match columns {
                Some(columns) => columns,
                None => {
                    let all = session.sql_until(&format!("SELECT * FROM {file} LIMIT 0"), Parameters::None, stop)?;
                    all.schema().fields().iter().map(|field| field.name().clone()).collect()
                }
            };
            let query = select(&columns);
            let none = session.sql_until(&format!("{query} LIMIT 0"), Parameters::None, stop)?;
            refuse_guessed(&spec, &columns, &none.schema())?;
            let insertion = Insertion { what: "COPY", columns: Some(&columns), query: &query, conflict: None };
            insert_rows(session, &spec, &insertion, parameters, stop, (insert, None))
        }
        Statement::Truncate { tables } => truncate(database, &tables, stop),
        Statement::Delete { rows, returning } => {
            let mut returning = Returning::plan(session, (&rows, returning.as_deref()), parameters, stop, insert)?;
            let changed = delete(session, &rows, parameters, stop, returning.as_mut())?;
            *returned = returning.map(Returning::finish);
            Ok(changed)
        }
        Statement::Update { rows, set, returning } => {
            let mut returning = Returning::plan(session, (&rows, returning.as_deref()), parameters, stop, insert)?;
            let changed = update(session, (&rows, &set), parameters, stop, returning.as_mut())?;
            *returned = returning.map(Returning::finish);
            Ok(changed)
        }
        Statement::Create { table, if_absent, columns, not_null, key, effective, query, options } => {
            if if_absent && database.has_table(&table)? {
                return Ok(ChangeOutcome { what: "CREATE TABLE", rows: 0, commit: None });
            }
            let columns = columns.into_iter().map(|(name, column_type)| ColumnSpec::new(name, column_type)).collect();
            let reference = Reference { key, effective };
            let created = match query {
                None => {
                    let spec = spec(&table, columns, reference, &options)?;
                    refuse_not_null(&spec, &not_null)?;
                    create(database, &spec, stop)
                }
                Some(query) => create_as(session, &table, (reference, &options), &query, parameters, stop),
            }?;
            session.grant_own(&table)?;
            Ok(created)
        }
        Statement::CreateView { view, replaces, if_absent } => create_view(session, &view, (replaces, if_absent), stop),
        Statement::CreateMaterialized(creation) => materialized::create(session, creation, stop),
        Statement::Refresh { view } => {
            let what = "REFRESH MATERIALIZED VIEW";
            // What is kept is what the query gives over all rows, whoever asks for it; how many those are isn't for him.
            if session.caller().guard.is_some() {
                materialized::refresh(session.open(), &view, stop)?;
                return Ok(ChangeOutcome { what, rows: 0, commit: None });
            }
            let RefreshOutcome { written, commit, .. } = materialized::refresh(session, &view, stop)?;
            Ok(ChangeOutcome { what, rows: written, commit })
        }
        Statement::Drop(statement) => Ok(drop::run(database, &statement, stop)?.changed),
        Statement::Alter { table, if_exists, change } => {
            refuse_granted_column(database, &table, &change)?;
            let table = match (table_to_change(database, &table), &change) {
                // The undo of its drop brings a table back.
                (Err(error), Alteration::Undo { .. }) => database.dropped_table(&table).or(Err(error))?,
                (Err(Error::Store(splay_store::Error::NoSuchTable { .. })), _) if if_exists => {
                    return Ok(unaltered());
                }
                (table, _) => table?,
            };
            alter(&table, change, stop)
        }
        Statement::Access(statement) => {
            session.change_users(&statement, stop)?;
            Ok(ChangeOutcome { what: statement.tag(), rows: 0, commit: None })
        }
        Statement::SetView { view, options } => materialized::set_options(database, &view, &options, stop),
        Statement::RenameView { view, to, materialized } => rename_view(database, &view, &to, materialized, stop),
    }
}

/// A table with those of its columns that are named, in their order, or with all: as the values of a file without names go into it.
fn copied_columns(spec: &TableSpec, columns: Option<&[String]>) -> Result<TableSpec> {
    let Some(columns) = columns else { return Ok(spec.clone()) };
    let all = spec.with_virtual_date().columns;
    let columns = given_positions(spec, columns)?.into_iter().filter_map(|position| all.get(position).cloned());
    Ok(TableSpec { columns: columns.collect(), reference: None, ..spec.clone() })
}

/// Refuses a column of texts or decimals whose values a file's reader took for numbers of another kind: digits, signs and zeros that are
/// written there would be lost.
fn refuse_guessed(spec: &TableSpec, columns: &[String], file: &Schema) -> Result<()> {
    for (position, field) in given_positions(spec, columns)?.into_iter().zip(file.fields()) {
        let Some(column) = spec.columns.get(position) else { continue };
        let is_text = |of: &DataType| match of {
            DataType::Dictionary(_, values) => values.is_string(),
            of => of.is_string(),
        };
        let found = field.data_type();
        let keeps = match column.column_type {
            ColumnType::Text | ColumnType::Symbol => is_text(found) || *found == DataType::Null,
            ColumnType::Decimal { .. } => !found.is_floating(),
            _ => true,
        };
        if !keeps {
            return fault(format!(
                "{}: the column is {}, and the file's values are {found}; `splay load` reads them by the table's types",
                column.name, column.column_type
            ));
        }
    }
    Ok(())
}

/// Refuses `ON CONFLICT` where there is no such key.
pub(super) fn check_conflict(spec: &TableSpec, conflict: Option<&Conflict>) -> Result<()> {
    match (conflict, &spec.reference) {
        (None, _) => Ok(()),
        (Some(conflict), Some(_)) => reference_insert::check_target(spec, &conflict.target),
        (Some(_), None) => fault(format!(
            "ON CONFLICT needs a reference table with a primary key; {:?} is a table with a time column",
            spec.name
        )),
    }
}

/// Rows to be inserted.
struct Insertion<'a> {
    /// The statement, in capitals.
    what: &'static str,
    /// The columns that the query gives; all that are shown if there are none.
    columns: Option<&'a [String]>,
    query: &'a str,
    /// What becomes of rows whose key is there, and the table as that names it.
    conflict: Option<(&'a ChangedRows, &'a Conflict)>,
}

/// Inserts the rows of a query.
fn insert_rows(
    session: &Session,
    spec: &TableSpec,
    insertion: &Insertion<'_>,
    parameters: &Parameters,
    stop: Stop<'_>,
    target: (&dyn InsertRows, Option<&mut Returning<'_>>),
) -> Result<ChangeOutcome> {
    let Insertion { what, columns, query, conflict } = *insertion;
    let (mut answer, positions) = rows_of(session, spec, columns, query, parameters, stop)?;
    let mut rows = answer.by_ref();
    let changed = fill(session, (spec, &positions), &mut rows, (conflict, parameters), stop, target)?;
    Ok(ChangeOutcome { what, ..changed })
}

/// Inserts rows, whose columns are those at some positions.
fn fill(
    session: &Session,
    (spec, positions): (&TableSpec, &[usize]),
    rows: &mut dyn Iterator<Item = Result<RecordBatch>>,
    (conflict, parameters): (Option<(&ChangedRows, &Conflict)>, &Parameters),
    stop: Stop<'_>,
    (insert, returning): (&dyn InsertRows, Option<&mut Returning<'_>>),
) -> Result<ChangeOutcome> {
    let mut count = 0;
    // Which rows come into a reference table shows when their keys are compared.
    let (mut returning, returning_by_key) =
        if spec.reference.is_none() { (returning, None) } else { (None, returning) };
    let rows = rows.map(|batch| {
        let batch = fitted_rows(spec, positions, &batch?)?;
        count += batch.num_rows() as u64;
        if let Some(returning) = &mut returning {
            returning.add(&batch, &[])?;
        }
        Ok(batch)
    });
    let mut some = rows.filter(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0));
    if spec.reference.is_some() {
        let conflict = (conflict, returning_by_key);
        return reference_insert::insert(session, spec, &mut some, conflict, parameters, stop);
    }
    let inserted = insert.insert(spec, &mut some)?;
    drop(some);
    let rows = count.saturating_sub(inserted.duplicates);
    Ok(ChangeOutcome { what: "INSERT", rows, commit: inserted.commit })
}

/// Positions of the columns that `COPY` fills: those that are named, or all.
pub(super) fn copied_positions(spec: &TableSpec, columns: Option<&[String]>) -> Result<Vec<usize>> {
    match columns {
        Some(columns) => positions(spec, columns),
        None => Ok((0..spec.shown_columns().len()).collect()),
    }
}

/// Inserts rows that a client has sent.
pub(super) fn copy_rows(
    session: &Session,
    (table, columns): (&str, Option<&[String]>),
    rows: &mut dyn Iterator<Item = Result<RecordBatch>>,
    stop: Stop<'_>,
    insert: &dyn InsertRows,
) -> Result<u64> {
    let spec = table_to_change(session.database(), table)?.snapshot()?.spec().clone();
    let positions = copied_positions(&spec, columns)?;
    let changed = fill(session, (&spec, &positions), rows, (None, &Parameters::None), stop, (insert, None))?;
    Ok(changed.rows)
}

/// Deletes all rows of tables, each by a commit of its own. None is changed if one can't be.
fn truncate(database: &Database, tables: &[String], stop: Stop<'_>) -> Result<ChangeOutcome> {
    let mut changed = ChangeOutcome { what: "TRUNCATE", rows: 0, commit: None };
    let tables = tables.iter().map(|table| {
        let table = table_to_change(database, table)?;
        let removal = Removal::of(table.snapshot()?.spec(), Selection::default())?;
        table.refuse_delete()?;
        Ok((table, removal))
    });
    for (table, removal) in tables.collect::<Result<Vec<_>>>()? {
        let report = patiently(stop, || table.delete(removal.clone()))?;
        changed.rows += report.removed;
        changed.commit = committed(&report).or(changed.commit);
    }
    Ok(changed)
}

fn delete(
    session: &Session,
    rows: &ChangedRows,
    parameters: &Parameters,
    stop: Stop<'_>,
    mut returning: Option<&mut Returning<'_>>,
) -> Result<ChangeOutcome> {
    let (what, table) = ("DELETE", table_to_change(session.database(), &rows.table)?);
    let rows = &rows.of_stored(&table);
    let mut found = None;
    let removal = match &rows.from {
        Some(_) => {
            let joined = returning.as_ref().map_or(&[][..], |returning| returning.joined());
            let joined = joined::find(session, &table, rows, joined, parameters, stop)?;
            found = joined.as_ref().map(|joined| Arc::clone(&joined.lookup));
            joined.map(|joined| joined.removal())
        }
        None => removal(session, &table, rows, parameters, stop)?,
    };
    let Some(removal) = removal else {
        return Ok(ChangeOutcome { what, rows: 0, commit: None });
    };
    let report = match &mut returning {
        None => patiently(stop, || table.delete(removal.clone()))?,
        Some(returning) => {
            let deleted = patiently(stop, || {
                returning.clear();
                table.delete_each(removal.clone(), &mut |rows| returning.add_found(&rows, found.as_deref()))
            });
            returning.outcome(deleted)?
        }
    };
    Ok(ChangeOutcome { what, rows: report.removed, commit: committed(&report) })
}

/// The commit of a change that had rows.
fn committed(report: &LoadReport) -> Option<u64> {
    (report.removed > 0 || report.rows > 0).then_some(report.epoch)
}

/// The rows that a condition is true for; `None` if it can't be true.
fn removal(
    session: &Session,
    table: &Table,
    rows: &ChangedRows,
    parameters: &Parameters,
    stop: Stop<'_>,
) -> Result<Option<Removal>> {
    if rows.condition.is_none() {
        let snapshot = table.snapshot()?;
        return Ok(Some(Removal::of(snapshot.spec(), Selection::default())?));
    }
    let text = rows.select("*");
    let found = session.planned(text, parameters.clone(), stop, |state, plan| condition::matching(state, &plan))?;
    let found = match found {
        MatchingRows::ByQuery(named) => {
            queries::matching(session, table.snapshot()?.spec(), named, rows, parameters, stop)?
        }
        found => found,
    };
    Ok(match found {
        MatchingRows::Some(removal) => Some(removal),
        _ => None,
    })
}

fn update(
    session: &Session,
    (rows, set): (&ChangedRows, &[(String, String)]),
    parameters: &Parameters,
    stop: Stop<'_>,
    mut returning: Option<&mut Returning<'_>>,
) -> Result<ChangeOutcome> {
    let table = table_to_change(session.database(), &rows.table)?;
    let rows = &rows.of_stored(&table);
    let spec = table.snapshot()?.spec().clone();
    let positions = positions(&spec, &set.iter().map(|(column, _)| column.clone()).collect::<Vec<_>>())?;
    let schema = spec.arrow();
    let exact = set.iter().zip(&positions).map(|((column, value), position)| {
        (column.clone(), long_numbers::as_value(value, schema.field(*position).data_type()).into_owned())
    });
    let set = &exact.collect::<Vec<_>>()[..];
    let what = "UPDATE";
    let joined = returning.as_ref().map_or(&[][..], |returning| returning.joined());
    let Some((removal, values)) = new_values(session, &table, rows, (set, joined), parameters, stop)? else {
        return Ok(ChangeOutcome { what, rows: 0, commit: None });
    };
    let change = |rows: RecordBatch| -> splay_store::Result<(RecordBatch, Vec<ArrayRef>)> {
        let changed = values.of_rows(&rows)?;
        let mut columns = rows.columns().to_vec();
        for (column, position) in changed.iter().zip(&positions) {
            let field = schema.field(*position);
            let column = fitted(column, field.data_type(), field.name());
            columns[*position] = column.map_err(|error| splay_store::Error::Refused { reason: error.to_string() })?;
        }
        refuse_nulls(&spec, |position| columns[position].logical_null_count() > 0)
            .map_err(|error| splay_store::Error::Refused { reason: error.to_string() })?;
        // Behind the new values are those of the rows that it was joined with.
        Ok((RecordBatch::try_new(rows.schema(), columns)?, changed[positions.len()..].to_vec()))
    };
    let report = match &mut returning {
        None => patiently(stop, || table.update(removal.clone(), &mut |rows| Ok(change(rows)?.0)))?,
        Some(returning) => {
            let updated = patiently(stop, || {
                returning.clear();
                table.update(removal.clone(), &mut |rows| {
                    let (rows, joined) = change(rows)?;
                    returning.add_stored(&rows, &joined)?;
                    Ok(rows)
                })
            });
            returning.outcome(updated)?
        }
    };
    Ok(ChangeOutcome { what, rows: report.removed, commit: committed(&report) })
}

/// What `UPDATE` sets columns to.
#[expect(clippy::large_enum_variant, reason = "a statement has one")]
enum NewValues {
    OfRows(RowExpressions),
    ByQuery(Arc<QueryLookup>),
}

/// The rows that `UPDATE` changes, with their new values and behind these columns that they are joined with; `None` if there can be no such
/// rows.
fn new_values(
    session: &Session,
    table: &Table,
    rows: &ChangedRows,
    (set, joined): (&[(String, String)], &[String]),
    parameters: &Parameters,
    stop: Stop<'_>,
) -> Result<Option<(Removal, NewValues)>> {
    if rows.from.is_some() {
        let values: Vec<String> = set.iter().map(|(_, value)| value).chain(joined).cloned().collect();
        let found = joined::find(session, table, rows, &values, parameters, stop)?;
        return Ok(found.map(|found| (found.removal(), NewValues::ByQuery(found.lookup))));
    }
    let values: Vec<String> =
        set.iter().enumerate().map(|(place, (_, value))| format!("({value}) AS s{place}")).collect();
    let text = rows.select_all(&values.join(", "));
    let found = session.planned(text, parameters.clone(), stop, condition::values)?;
    let Some(removal) = removal(session, table, rows, parameters, stop)? else { return Ok(None) };
    let values = NewValues::of(session, table.snapshot()?.spec(), found, (set, rows), parameters, stop)?;
    Ok(Some((removal, values)))
}

impl NewValues {
    fn of(
        session: &Session,
        spec: &TableSpec,
        found: Values,
        (set, rows): (&[(String, String)], &ChangedRows),
        parameters: &Parameters,
        stop: Stop<'_>,
    ) -> Result<NewValues> {
        let named = match found {
            Values::OfRows(values) => return Ok(NewValues::OfRows(values)),
            Values::ByQuery(named) => named,
        };
        let values: Vec<String> = set.iter().map(|(_, value)| value.clone()).collect();
        let (values, _) = QueryLookup::new(session, spec, named, (&values, rows), parameters, stop)?;
        Ok(NewValues::ByQuery(Arc::new(values)))
    }

    fn of_rows(&self, rows: &RecordBatch) -> splay_store::Result<Vec<ArrayRef>> {
        match self {
            NewValues::OfRows(values) => values.evaluate(&rows.project(&values.columns)?).map_err(condition::refused),
            NewValues::ByQuery(values) => values.values(&rows.project(&values.columns)?),
        }
    }
}

/// Positions of the columns of rows that come for a table, by names. Its date may be among them, though it keeps none: behind the others.
pub(super) fn given_positions(spec: &TableSpec, columns: &[String]) -> Result<Vec<usize>> {
    let (mut own, mut date) = (Vec::with_capacity(columns.len()), None);
    for (place, column) in columns.iter().enumerate() {
        if date.is_none() && spec.is_virtual_date(column) {
            date = Some(place);
        } else {
            own.push(column.clone());
        }
    }
    let mut found = positions(spec, &own)?;
    if let Some(place) = date {
        found.insert(place, spec.columns.len());
    }
    Ok(found)
}

/// The answer of a query, and where its columns go in a table.
fn rows_of(
    session: &Session,
    spec: &TableSpec,
    columns: Option<&[String]>,
    query: &str,
    parameters: &Parameters,
    stop: Stop<'_>,
) -> Result<(Answer, Vec<usize>)> {
    let answer = session.sql_until(&inserted(spec, columns, query), parameters.clone(), stop)?;
    let positions = fill_positions(spec, columns, &answer.schema())?;
    Ok((answer, positions))
}

/// The query of an `INSERT` with its numbers in the types of the columns.
pub(super) fn inserted<'q>(spec: &TableSpec, columns: Option<&[String]>, query: &'q str) -> Cow<'q, str> {
    let into = columns.and_then(|columns| given_positions(spec, columns).ok());
    long_numbers::as_values(query, spec, into.as_deref())
}

/// Where the columns of a query go in a table: by their names if these are given, else in their order. `SELECT *` over a table has the date, too.
pub(super) fn fill_positions(spec: &TableSpec, columns: Option<&[String]>, answer: &Schema) -> Result<Vec<usize>> {
    let answer_columns = answer.fields().len();
    let shown = spec.shown_columns().len();
    let positions = match columns {
        Some(columns) => given_positions(spec, columns)?,
        None => match date_of_answer(spec, answer).filter(|_| answer_columns == shown + 1) {
            Some(date) => (0..date).chain([shown]).chain(date..shown).collect(),
            None => (0..shown.min(answer_columns)).collect(),
        },
    };
    if positions.len() != answer_columns || columns.is_none() && answer_columns < shown {
        let wanted = columns.map_or(spec.shown_columns().len(), <[String]>::len);
        return fault(format!("the query gives {answer_columns} columns, and {wanted} are to be filled"));
    }
    Ok(positions)
}

/// Where a query's answer has a table's date.
fn date_of_answer(spec: &TableSpec, answer: &Schema) -> Option<usize> {
    answer
        .fields()
        .iter()
        .position(|field| spec.is_virtual_date(field.name()) && *field.data_type() == DataType::Date32)
}

/// Refuses `NOT NULL` of columns that may be null: all but the time and those of the key.
fn refuse_not_null(spec: &TableSpec, not_null: &[String]) -> Result<()> {
    let never_null = |name: &str| spec.position(name).is_some_and(|position| spec.required().contains(&position));
    match not_null.iter().find(|name| !never_null(name)) {
        None => Ok(()),
        Some(name) => fault(format!(
            "column {name:?}: NOT NULL isn't supported, but for the time and the columns of the key, which are never null; leave it out"
        )),
    }
}

fn create(database: &Database, spec: &TableSpec, stop: Stop<'_>) -> Result<ChangeOutcome> {
    let report = begin_table(database, spec, stop)?.commit()?;
    Ok(ChangeOutcome { what: "CREATE TABLE", rows: report.rows, commit: Some(report.epoch) })
}

/// Begins the first load of a table, which isn't there.
fn begin_table(database: &Database, spec: &TableSpec, stop: Stop<'_>) -> Result<Load> {
    if database.has_table(&spec.name)? {
        return already_there(&spec.name);
    }
    let load = patiently(stop, || database.load(spec, LoadOptions::default()))?;
    // Another may have made it meanwhile.
    if database.has_table(&spec.name)? { already_there(&spec.name) } else { Ok(load) }
}

pub(super) fn already_there<T>(table: &str) -> Result<T> {
    fault(format!("there is a table {table:?} already"))
}

fn create_as(
    session: &Session,
    table: &str,
    (reference, options): (Reference, &[(String, String)]),
    query: &str,
    parameters: &Parameters,
    stop: Stop<'_>,
) -> Result<ChangeOutcome> {
    let mut answer = session.sql_until(query, parameters.clone(), stop)?;
    let mut spec = spec(table, columns_of(&answer.schema(), options)?, reference, options)?;
    let mut all: Vec<usize> = (0..spec.shown_columns().len()).collect();
    // The first rows are waited for before others are kept from writing.
    let has_rows = |rows: &Result<RecordBatch>| rows.as_ref().map_or(true, |rows| rows.num_rows() > 0);
    let first = answer.by_ref().find(has_rows).transpose()?;
    if let Some(other) = spec.without_date()
        && let Some(place) = date_of_answer(&other, &answer.schema())
    {
        let positions: Vec<usize> = (0..place).chain([all.len() - 1]).chain(place..all.len() - 1).collect();
        let agree =
            |rows: &RecordBatch| rows.column(place).null_count() == 0 && fitted_rows(&other, &positions, rows).is_ok();
        if first.as_ref().is_none_or(agree) {
            (spec, all) = (other, positions);
        }
    }
    let mut load = begin_table(session.database(), &spec, stop)?;
    for batch in first.map(Ok).into_iter().chain(answer.by_ref()) {
        load.append(&fitted_rows(&spec, &all, &batch?)?)?;
    }
    let report = load.commit()?;
    Ok(ChangeOutcome { what: "CREATE TABLE", rows: report.rows, commit: Some(report.epoch) })
}

/// Keeps the query of a view, if it can be planned as one.
fn create_view(
    session: &Session,
    view: &View,
    (replaces, if_absent): (bool, bool),
    stop: Stop<'_>,
) -> Result<ChangeOutcome> {
    let (what, database) = ("CREATE VIEW", session.database());
    let done = ChangeOutcome { what, rows: 0, commit: None };
    if if_absent && database.view(&view.name)?.is_some() {
        return Ok(done);
    }
    for word in ["pivot", "summarize"] {
        if view.query.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word)) {
            return fault(format!("a view can't be of {}: write a query", word.to_uppercase()));
        }
    }
    let described = session.describe_until(&view.query, stop)?;
    if let Some((parameter, _)) = described.parameters.first() {
        return fault(format!("a view has no parameters, and this one has {parameter}"));
    }
    refuse_repeated(match view.columns.is_empty() {
        true => described.schema.fields().iter().map(|field| field.name().clone()).collect(),
        false => view.columns.clone(),
    })?;
    session.describe_until(&views::select_all(&database.views()?, view)?, stop)?;
    patiently(stop, || database.create_view(view.clone(), replaces))?;
    session.grant_own(&view.name)?;
    Ok(done)
}

/// Refuses a view with two columns of one name: as a query of a `WITH` the second would be called otherwise.
pub(super) fn refuse_repeated(mut names: Vec<String>) -> Result<()> {
    names.iter_mut().for_each(|name| name.make_ascii_lowercase());
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => {
            fault(format!("two columns of the view would be called {:?}: give one another name by AS", twice[0]))
        }
        None => Ok(()),
    }
}

/// Gives a table another name, unless views read it.
///
/// # Errors
/// Those of [`Table::rename`].
pub fn rename_table(table: &Table, to: &str) -> splay_store::Result<u64> {
    table.rename(to, |view| views::reads(&view.query, table.name()))
}

/// Refuses to take a column from views over a table that name it, straight or through other views.
fn refuse_columns_of_views(table: &Table, column: &str) -> Result<()> {
    let views = table.database().views()?;
    let (mut over, mut left) = (vec![table.name()], views.iter().collect::<Vec<_>>());
    let mut at = 0;
    while let Some(name) = over.get(at).copied() {
        let (found, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|view| views::reads(&view.query, name));
        over.extend(found.iter().map(|view| view.name.as_str()));
        (left, at) = (others, at + 1);
    }
    let names = |view: &&View| over.contains(&view.name.as_str()) && views::names(&view.query, column);
    let named: Vec<&str> = views.iter().filter(names).map(|view| view.name.as_str()).collect();
    let (what, them) = match named.len() {
        0 => return Ok(()),
        1 => ("the view", "it"),
        _ => ("the views", "them"),
    };
    let named = named.join(", ");
    fault(format!("the column {column:?} is named by {what} {named}: drop {them} first, and create {them} again"))
}

fn rename_view(database: &Database, view: &str, to: &str, materialized: bool, stop: Stop<'_>) -> Result<ChangeOutcome> {
    let what = if materialized { "ALTER MATERIALIZED VIEW" } else { "ALTER VIEW" };
    patiently(stop, || database.rename_view(view, to, |other| views::reads(&other.query, view)))?;
    Ok(ChangeOutcome { what, rows: 0, commit: None })
}

/// Refuses another name, or none, for a column that grants or policies name: they would be of the column that gets its name next.
fn refuse_granted_column(database: &Database, table: &str, change: &Alteration) -> Result<()> {
    let (Alteration::RenameColumn { column, .. } | Alteration::DropColumn { column, .. }) = change else {
        return Ok(());
    };
    match database.access()?.names_column(table, column) {
        true => fault(format!("grants or policies name the column {column}: revoke and drop them first")),
        false => Ok(()),
    }
}

/// The outcome of a statement that finds nothing to alter.
fn unaltered() -> ChangeOutcome {
    ChangeOutcome { what: "ALTER TABLE", rows: 0, commit: None }
}

fn alter(table: &Table, change: Alteration, stop: Stop<'_>) -> Result<ChangeOutcome> {
    let has = |name: &str| {
        let stored = table.stored()?;
        Ok::<bool, Error>(stored.spec().shown_columns().iter().any(|column| column.name.eq_ignore_ascii_case(name)))
    };
    match change {
        Alteration::Add { column, if_absent: true, .. } if has(&column)? => return Ok(unaltered()),
        Alteration::DropColumn { column, if_exists: true } if !has(&column)? => return Ok(unaltered()),
        Alteration::Add { column, column_type, .. } => {
            let column = ColumnSpec::new(column, column_type);
            patiently(stop, || table.add_column(column.clone()))?;
        }
        Alteration::Widen { column, column_type } => {
            patiently(stop, || table.widen_column(&column, column_type.clone()))?
        }
        Alteration::DropColumn { column, .. } => {
            refuse_columns_of_views(table, &column)?;
            patiently(stop, || table.drop_column(&column))?;
        }
        Alteration::RenameColumn { column, to } => {
            refuse_columns_of_views(table, &column)?;
            patiently(stop, || table.rename_column(&column, &to))?;
        }
        Alteration::Partition { period } => {
            let period = period_of(&period)?;
            patiently(stop, || table.set_partition(period, LoadOptions::default()))?;
        }
        Alteration::Options { options } => {
            table_options::refuse_fixed(&options)?;
            change_lifecycle(table, &table_options::of_lifecycle(&options)?, stop)?;
        }
        Alteration::Undo { commit } => {
            let report = patiently(stop, || table.undo(commit))?;
            let rows = report.rows + report.removed;
            return Ok(ChangeOutcome { what: "ALTER TABLE", rows, commit: Some(report.epoch) });
        }
        Alteration::Rename { to } => {
            let commit = patiently(stop, || rename_table(table, &to))?;
            return Ok(ChangeOutcome { what: "ALTER TABLE", rows: 0, commit: Some(commit) });
        }
    }
    Ok(ChangeOutcome { what: "ALTER TABLE", rows: 0, commit: Some(table.stored()?.epoch()) })
}

/// Changes the lifecycle of a table's rows, by one commit, whose number is given.
pub(super) fn change_lifecycle(table: &Table, options: &[LifecycleOption], stop: Stop<'_>) -> Result<u64> {
    let put = |lifecycle: &mut Lifecycle| options.iter().cloned().for_each(|option| option.put(lifecycle));
    patiently(stop, || table.change_lifecycle(put))?;
    Ok(table.stored()?.epoch())
}
