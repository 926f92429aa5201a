//! Writes frames into tables, batch by batch, from any Arrow producer.

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use splay_import::{DateAndClock, SAMPLE_ROWS};
use splay_store::{ColumnType, DATE_COLUMN, Database, Error, LoadOptions, LoadReport, Replace, TableSpec};

use crate::columns::{self, NewTableOptions};
use crate::error::{Failure, Result};
use crate::fit::Fitter;
use crate::frame_stream::FrameStream;
use crate::signals::Signals;

/// Rows that are taken in at a time; larger batches are cut without a copy.
const SLICE_ROWS: usize = 1 << 16;

/// The batches of a frame.
///
/// # Errors
/// `TypeError` for an object that doesn't speak the Arrow C interface.
pub(crate) fn batches(frame: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if frame.hasattr("__arrow_c_stream__")? {
        return Ok(Box::new(FrameStream::of(frame)?));
    }
    if !frame.hasattr("__arrow_c_array__")? {
        let kind = frame.get_type().fully_qualified_name()?;
        return Err(PyTypeError::new_err(format!(
            "a frame must have __arrow_c_stream__ or __arrow_c_array__, as those of pyarrow, pandas, Polars and DuckDB \
             have; {kind} has neither: make a frame of it, as by pyarrow.table or pandas.DataFrame, and collect a lazy one"
        )));
    }
    frame.extract::<AnyRecordBatch>()?.into_reader()
}

/// Writes all rows; call it detached. The table is created if there is none.
///
/// # Errors
/// Those of the store; nothing is written then.
pub(crate) fn write(
    database: &Database,
    table: &str,
    rows: Box<dyn RecordBatchReader + Send>,
    table_options: &NewTableOptions,
    options: LoadOptions,
) -> Result<LoadReport> {
    if options.dedupe.is_some() || options.replace != Replace::Nothing {
        splay_capture::settle(database)?;
    }
    let Frame { spec, rows, positions } = fitting_table(database, table, rows, table_options)?;
    let mut load = database.load(&spec, options)?;
    let fits = load.spec().clone();
    let (fitter, mut signals, mut before) = (Fitter::new(&fits), Signals::new(), 0);
    for batch in rows {
        let batch = batch.and_then(|batch| batch.project(&positions)).map_err(Error::from)?;
        for slice in slices(&batch) {
            signals.check()?;
            let added = fitter.fit(&slice).and_then(|rows| load.append(&rows));
            added.map_err(|error| count_from(before, error))?;
            before += slice.num_rows() as u64;
        }
    }
    Ok(load.commit()?)
}

/// A frame, and the table that it goes into.
struct Frame {
    /// The table's schema; of a new table, the schema that it gets.
    spec: TableSpec,
    rows: Batches,
    /// The columns that go into it. The date of a table that doesn't keep one is among them, to be compared.
    positions: Vec<usize>,
}

type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>;

fn fitting_table(
    database: &Database,
    table: &str,
    rows: Box<dyn RecordBatchReader + Send>,
    table_options: &NewTableOptions,
) -> Result<Frame> {
    let existing = existing(database, table)?;
    let rows = with_one_time(rows, existing.as_ref(), table_options);
    let frame = rows.schema();
    let positions = stored_columns(&frame, existing.as_ref());
    let frame = frame.project(&positions).map_err(Error::from)?;
    if let Some(existing) = &existing {
        return Ok(Frame {
            spec: columns::existing_table(existing, &frame, table_options)?,
            rows: Box::new(rows),
            positions,
        });
    }
    let (mut spec, mut rows): (_, Batches) = (columns::new_table(table, &frame, table_options)?, Box::new(rows));
    let own_date = table_options.types.iter().any(|(name, _)| name.eq_ignore_ascii_case(DATE_COLUMN));
    let has_text = spec.columns.iter().any(|column| column.column_type == ColumnType::Text);
    if !has_text && (own_date || spec.without_date().is_none()) {
        return Ok(Frame { spec, rows, positions });
    }
    // The first rows tell which texts are symbols, and whether the dates are those of the times.
    let first = first_batches(&mut rows, SAMPLE_ROWS);
    let samples = first.iter().flatten().map(|batch| batch.project(&positions));
    let samples = samples.collect::<std::result::Result<Vec<_>, _>>().map_err(Error::from)?;
    columns::find_symbols(&mut spec, &samples, table_options);
    if let Some(other) = spec.without_date().filter(|_| !own_date) {
        let agree = match samples.first() {
            Some(sample) => Fitter::new(&other).has_its_dates(sample)?,
            None => first.is_empty(),
        };
        if agree {
            spec = other;
        }
    }
    Ok(Frame { spec, rows: Box::new(first.into_iter().chain(rows)), positions })
}

/// The frame with a date and a time of day in two columns as one time.
fn with_one_time(
    rows: Box<dyn RecordBatchReader + Send>,
    existing: Option<&TableSpec>,
    table_options: &NewTableOptions,
) -> Box<dyn RecordBatchReader + Send> {
    let is_typed = |name: &str| table_options.types.iter().any(|(typed, _)| typed.eq_ignore_ascii_case(name));
    let is_reference = table_options.reference.is_some() || existing.is_some_and(|table| table.reference.is_some());
    let clock = DateAndClock::of(&rows.schema(), table_options.time.as_deref(), existing, &is_typed);
    let Some(clock) = clock.filter(|_| !is_reference) else { return rows };
    let schema = clock.schema(&rows.schema());
    let joined = rows.map(move |batch| clock.join(&batch?).map_err(ArrowError::InvalidArgumentError));
    Box::new(RecordBatchIterator::new(joined, schema))
}

/// The first batches with rows, until they have so many together or one can't be read, which is then the last.
fn first_batches(rows: &mut Batches, enough: usize) -> Vec<std::result::Result<RecordBatch, ArrowError>> {
    let (mut first, mut count) = (Vec::new(), 0);
    while count < enough {
        let Some(batch) = rows.next() else { break };
        let Ok(read) = &batch else {
            first.push(batch);
            break;
        };
        count += read.num_rows();
        if read.num_rows() > 0 {
            first.push(batch);
        }
    }
    first
}

/// All rows of a frame as one batch in the types of a table, and what the table is, or shall be if there is none.
///
/// # Errors
/// Those of the store.
pub(crate) fn one_batch(
    database: &Database,
    table: &str,
    rows: Box<dyn RecordBatchReader + Send>,
    table_options: &NewTableOptions,
) -> Result<(TableSpec, RecordBatch)> {
    let Frame { spec, rows, positions } = fitting_table(database, table, rows, table_options)?;
    let fitter = Fitter::new(&spec);
    let mut parts = Vec::new();
    for batch in rows {
        parts.push(fitter.fit(&batch.and_then(|batch| batch.project(&positions)).map_err(Error::from)?)?);
    }
    let rows = match parts.as_slice() {
        [one] => one.clone(),
        several => arrow::compute::concat_batches(&spec.arrow(), several).map_err(Error::from)?,
    };
    Ok((spec, rows))
}

/// The schema of a table, or `None` if there is none of that name.
///
/// # Errors
/// Those of the store.
pub(crate) fn existing(database: &Database, table: &str) -> Result<Option<TableSpec>> {
    match database.table(table) {
        Ok(table) => Ok(Some(table.snapshot()?.spec().clone())),
        Err(Error::NoSuchTable { .. }) => Ok(None),
        Err(error) => Err(Failure::Store(error)),
    }
}

/// All columns but those that pandas made from an index without a name.
fn stored_columns(frame: &Schema, existing: Option<&TableSpec>) -> Vec<usize> {
    let is_wanted = |name: &str| existing.is_some_and(|spec| spec.position(name).is_some());
    let fields = frame.fields().iter().enumerate();
    fields.filter(|(_, field)| !columns::is_unnamed_index(field) || is_wanted(field.name())).map(|(i, _)| i).collect()
}

fn slices(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    (0..rows).step_by(SLICE_ROWS).map(move |start| batch.slice(start, SLICE_ROWS.min(rows - start)))
}

/// The store counts rows from the slice's beginning, the caller from the frame's.
fn count_from(before: u64, error: Error) -> Error {
    match error {
        Error::Row { table, row, reason } => Error::Row { table, row: before + row, reason },
        other => other,
    }
}
