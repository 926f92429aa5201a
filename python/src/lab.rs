//! The laboratory of compression, as `splay.lab` calls it.
//!
//! Results cross as Arrow tables, so that choices over them are made by the same code as in the command.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use splay_lab::compression::{
    self as lab, Column, Dataset, Kind, Limits, List, Measurement, Metric, Order, Outcome, SchemeSet, Settings,
};

use crate::error::{Failure, Result};
use crate::signals::Signals;
use crate::write::batches;

/// A value of a text.
fn parse<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T> {
    text.parse().map_err(|reason: String| pyo3::exceptions::PyValueError::new_err(reason).into())
}

fn to_python(py: Python<'_>, batch: RecordBatch) -> Result<Py<PyAny>> {
    Ok(PyRecordBatch::new(batch).into_pyarrow(py)?.unbind())
}

/// The rows of a table of results.
fn results(rows: &Bound<'_, PyAny>) -> Result<Vec<Measurement>> {
    let batches: Vec<RecordBatch> =
        batches(rows)?.collect::<std::result::Result<_, _>>().map_err(splay_store::Error::from)?;
    Ok(lab::concatenated(&batches)?)
}

/// A generated list as a batch of one column.
#[pyfunction]
pub(crate) fn lab_generate(py: Python<'_>, kind: &str, count: usize, order: &str, seed: u64) -> Result<Py<PyAny>> {
    let list = List { kind: parse::<Kind>(kind)?, count, order: parse::<Order>(order)?, seed };
    let column = list.column()?;
    let batch = RecordBatch::try_from_iter([(column.name(), std::sync::Arc::clone(column.values()))]);
    to_python(py, batch.map_err(splay_store::Error::from)?)
}

/// The measurements to make.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CompressionRequest {
    schemes: String,
    codecs: Vec<String>,
    scheme: Option<String>,
    times: u32,
    budget: Option<f64>,
    results: Option<PathBuf>,
    folder: Option<PathBuf>,
    seed: u64,
}

impl CompressionRequest {
    fn settings(&self) -> Settings {
        let mut settings = Settings {
            times: self.times,
            budget: self.budget.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)),
            results: self.results.clone(),
            seed: self.seed,
            ..Settings::default()
        };
        settings.folder = self.folder.clone().unwrap_or(settings.folder);
        settings
    }
}

/// Measures schemes on data: names, each with the frames of one column over which results are averaged.
///
/// Gives the results, the schemes that were skipped with data and reason, and how many tests the budget left.
#[pyfunction]
#[pyo3(signature = (data, request, statement=None, progress=None))]
pub(crate) fn lab_compression(
    py: Python<'_>,
    data: Vec<(String, Vec<Bound<'_, PyAny>>)>,
    request: CompressionRequest,
    statement: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> Result<(Py<PyAny>, Vec<(String, String, String)>, usize)> {
    let data = data.iter().map(|(name, lists)| dataset(name, lists)).collect::<Result<Vec<_>>>()?;
    let outcome = py.detach(|| run_measurements(&data, &request, statement, progress))?;
    let skipped = outcome.skipped.into_iter().map(|skipped| (skipped.scheme, skipped.data, skipped.reason));
    Ok((to_python(py, lab::to_batch(&outcome.rows)?)?, skipped.collect(), outcome.remaining))
}

fn dataset(name: &str, lists: &[Bound<'_, PyAny>]) -> Result<Dataset> {
    let mut columns = Vec::new();
    for list in lists {
        let rows = batches(list)?;
        let schema = rows.schema();
        let rows: Vec<RecordBatch> = rows.collect::<std::result::Result<_, _>>().map_err(splay_store::Error::from)?;
        columns.extend(Column::all(&schema, &rows)?);
    }
    Ok(Dataset { name: name.to_owned(), lists: columns })
}

/// Runs the tests; call it detached. What Python code raises ends it.
fn run_measurements(
    data: &[Dataset],
    request: &CompressionRequest,
    statement: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> Result<Outcome> {
    let schemes = lab::schemes(parse::<SchemeSet>(&request.schemes)?, &request.codecs, request.scheme.as_deref());
    if schemes.is_empty() {
        return Err(pyo3::exceptions::PyValueError::new_err("no scheme has these codecs and this name").into());
    }
    let (raised, raised_by_statement) = (std::cell::RefCell::new(None), std::cell::RefCell::new(None));
    let mut signals = Signals::new();
    let mut observer = |done: lab::Progress<'_>| {
        let told = signals.check().and_then(|()| report_progress(progress.as_ref(), done));
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised.replace(Some(error));
                ControlFlow::Break(())
            }
        }
    };
    let settings = request.settings();
    let outcome = match &statement {
        None => lab::run(data, &schemes, &settings, None, &mut observer),
        Some(statement) => {
            let mut runner = |rows: &RecordBatch| {
                time_statement(statement, rows).map_err(|error| {
                    let text = error.to_string();
                    raised_by_statement.replace(Some(error));
                    text
                })
            };
            lab::run(data, &schemes, &settings, Some(&mut runner), &mut observer)
        }
    };
    match raised.into_inner().or(raised_by_statement.into_inner()) {
        Some(error) => Err(Failure::Python(error)),
        None => Ok(outcome?),
    }
}

fn report_progress(progress: Option<&Py<PyAny>>, done: lab::Progress<'_>) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let left = done.time_remaining.map(|left| left.as_secs_f64());
    Python::attach(|py| progress.call1(py, (done.done, done.total, left, done.data, done.scheme)).map(|_| ()))
}

/// The seconds that the statement says it took, or else those of the call.
fn time_statement(statement: &Py<PyAny>, rows: &RecordBatch) -> PyResult<Duration> {
    Python::attach(|py| {
        let rows = PyRecordBatch::new(rows.clone()).into_pyarrow(py)?;
        let start = Instant::now();
        let seconds = statement.bind(py).call1((rows,))?;
        let elapsed = start.elapsed();
        let told = seconds.extract::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(told.unwrap_or(elapsed))
    })
}

/// A file of results.
#[pyfunction]
pub(crate) fn lab_load(py: Python<'_>, path: PathBuf) -> Result<Py<PyAny>> {
    to_python(py, lab::to_batch(&lab::load(&path)?)?)
}

/// Saves results.
#[pyfunction]
pub(crate) fn lab_save(rows: &Bound<'_, PyAny>, path: PathBuf) -> Result<()> {
    Ok(lab::save(&path, &results(rows)?)?)
}

/// Results of columns as one row for each scheme.
#[pyfunction]
pub(crate) fn lab_totals(py: Python<'_>, rows: &Bound<'_, PyAny>) -> Result<Py<PyAny>> {
    to_python(py, lab::to_batch(&lab::totals(&results(rows)?))?)
}

/// Metric, maximum, minimum and average.
#[pyfunction]
pub(crate) fn lab_extremes(rows: &Bound<'_, PyAny>) -> Result<Vec<(&'static str, f64, f64, f64)>> {
    let extremes = lab::extremes(&results(rows)?);
    Ok(extremes.into_iter().map(|e| (e.metric.column(), e.maximum, e.minimum, e.average)).collect())
}

/// The rows with the best value of a metric.
#[pyfunction]
pub(crate) fn lab_best(py: Python<'_>, rows: &Bound<'_, PyAny>, metric: &str) -> Result<Py<PyAny>> {
    let rows = results(rows)?;
    let best: Vec<Measurement> = lab::best(&rows, parse::<Metric>(metric)?).into_iter().cloned().collect();
    to_python(py, lab::to_batch(&best)?)
}

/// The rows within limits, the best by a metric first.
#[pyfunction]
#[pyo3(signature = (rows, order_by, min_factor=None, max_write_ms=None, max_read_ms=None, max_block_us=None, max_memory=None, max_query_ms=None))]
#[expect(clippy::too_many_arguments, reason = "each is a limit")]
pub(crate) fn lab_choose(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    order_by: &str,
    min_factor: Option<f64>,
    max_write_ms: Option<f64>,
    max_read_ms: Option<f64>,
    max_block_us: Option<f64>,
    max_memory: Option<f64>,
    max_query_ms: Option<f64>,
) -> Result<Py<PyAny>> {
    let limits = Limits { min_factor, max_write_ms, max_read_ms, max_block_us, max_memory, max_query_ms };
    let rows = results(rows)?;
    let chosen: Vec<Measurement> =
        lab::choose(&rows, &limits, parse::<Metric>(order_by)?).into_iter().cloned().collect();
    to_python(py, lab::to_batch(&chosen)?)
}

/// The Pareto front by some metrics.
#[pyfunction]
pub(crate) fn lab_front(py: Python<'_>, rows: &Bound<'_, PyAny>, metrics: Vec<String>) -> Result<Py<PyAny>> {
    let metrics = metrics.iter().map(|metric| parse::<Metric>(metric)).collect::<Result<Vec<_>>>()?;
    let rows = results(rows)?;
    let front: Vec<Measurement> = lab::front(&rows, &metrics).into_iter().cloned().collect();
    to_python(py, lab::to_batch(&front)?)
}
