//! Compares ways of storing tables.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::row::{RowConverter, SortField};

use super::answers::{difference, rows};
use super::statements::Statement;
use super::{Table, TableLocation, Target};
use crate::compression::{Column, dropped_from_cache};
use crate::{Error, Result};

/// How it is measured.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder for what is stored. Default: that of temporary files.
    pub folder: PathBuf,
    /// Runs of each test, over which times are averaged. Default: 3.
    pub times: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { folder: std::env::temp_dir(), times: 3 }
    }
}

/// Runs a statement, whose tables are already replaced by files or names, and gives its time and its answer.
pub type Runner<'a> =
    &'a mut dyn FnMut(&TableLocation, &str) -> std::result::Result<(Duration, Vec<RecordBatch>), String>;

/// The time of a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementTime {
    /// Its name.
    pub name: String,
    /// Milliseconds; nothing if it failed, though not in the first format.
    pub time: Option<f64>,
}

/// What was measured of a way of storing tables.
#[derive(Debug, Clone, PartialEq)]
pub struct FormatResult {
    /// Its name.
    pub format: String,
    /// Bytes of all files, indexes among them; nothing if it can't hold the tables.
    pub bytes: Option<u64>,
    /// Milliseconds to write, without a sync.
    pub write_time: f64,
    /// Milliseconds to read all rows and columns.
    pub read_time: f64,
    /// Whether files were read from the device.
    pub is_cold: bool,
    /// Whether all values came back bit for bit.
    pub is_exact: bool,
    /// Times of statements.
    pub statements: Vec<StatementTime>,
    /// Why there is nothing of it, or which statement failed.
    pub reason: Option<String>,
}

/// Stores tables in each way, reads them, and runs statements. The answers of all must be the same.
///
/// # Errors
/// [`Error::Statement`] for a statement that fails or whose answers differ.
pub fn compare(
    targets: &[Box<dyn Target>],
    tables: &[Table],
    statements: &[Statement],
    settings: &Settings,
    runner: Runner<'_>,
    observer: &mut dyn FnMut(usize, &str),
) -> Result<Vec<FormatResult>> {
    let mut answers: Vec<Option<Vec<Vec<String>>>> = vec![None; statements.len()];
    let mut results = Vec::with_capacity(targets.len());
    for (number, target) in targets.iter().enumerate() {
        observer(number, &target.name());
        let io = Error::io(&settings.folder, "create a folder in");
        let folder = tempfile::Builder::new().prefix("splay-lab-").tempdir_in(&settings.folder).map_err(io)?;
        let result = measure(target.as_ref(), tables, statements, settings, folder.path(), runner, &mut answers);
        results.push(match result {
            Err(Error::Unsupported { reason, .. }) => FormatResult { reason: Some(reason), ..nothing(target.name()) },
            result => result?,
        });
    }
    Ok(results)
}

fn nothing(format: String) -> FormatResult {
    FormatResult {
        format,
        bytes: None,
        write_time: f64::NAN,
        read_time: f64::NAN,
        is_cold: false,
        is_exact: false,
        statements: Vec::new(),
        reason: None,
    }
}

fn measure(
    target: &dyn Target,
    tables: &[Table],
    statements: &[Statement],
    settings: &Settings,
    folder: &Path,
    runner: Runner<'_>,
    answers: &mut [Option<Vec<Vec<String>>>],
) -> Result<FormatResult> {
    let mut result = FormatResult { is_cold: true, is_exact: true, ..nothing(target.name()) };
    let (mut write, mut read) = (Duration::ZERO, Duration::ZERO);
    let mut place = None;
    for run in 0..settings.times.max(1) {
        let folder = folder.join(run.to_string());
        std::fs::create_dir(&folder).map_err(Error::io(&folder, "create"))?;
        let start = Instant::now();
        let written = target.write(tables, &folder)?;
        write += start.elapsed();
        result.bytes = Some(bytes_of(&folder)?);
        result.is_cold &= all_dropped(&folder)?;
        let start = Instant::now();
        let tables_read = target.read(tables, &written)?;
        read += start.elapsed();
        result.is_exact &= is_exact(tables, &tables_read, target.keeps_order());
        if let Some((folder, _)) = place.replace((folder, written)) {
            std::fs::remove_dir_all(&folder).map_err(Error::io(&folder, "remove"))?;
        }
    }
    result.write_time = milliseconds(write / settings.times.max(1));
    result.read_time = milliseconds(read / settings.times.max(1));
    if let Some((_, place)) = place {
        for (statement, answer) in statements.iter().zip(answers) {
            let is_first = answer.is_none();
            let time = match timed(target, tables, &place, statement, settings.times, runner, answer) {
                Err(TargetFailure::Differs(error)) => return Err(error),
                Err(TargetFailure::Fails(error)) if is_first => return Err(error),
                Err(TargetFailure::Fails(error)) => {
                    result.reason = Some(error.to_string());
                    None
                }
                Ok(time) => Some(time),
            };
            result.statements.push(StatementTime { name: statement.name.clone(), time });
        }
    }
    Ok(result)
}

/// How a statement went wrong: it can't be run, or has another answer.
enum TargetFailure {
    Fails(Error),
    Differs(Error),
}

/// Runs a statement once to warm up and to compare its answer, then some times to measure.
fn timed(
    target: &dyn Target,
    tables: &[Table],
    place: &TableLocation,
    statement: &Statement,
    times: u32,
    runner: Runner<'_>,
    answer: &mut Option<Vec<Vec<String>>>,
) -> std::result::Result<f64, TargetFailure> {
    let text = with_places(&statement.text, tables, place);
    let error =
        |reason: String| Error::Statement { reason: format!("{}, {}: {reason}", target.name(), statement.name) };
    let failed = |reason: String| TargetFailure::Fails(error(reason));
    let answer_rows = rows(&runner(place, &text).map_err(failed)?.1).map_err(TargetFailure::Fails)?;
    match answer {
        None => *answer = Some(answer_rows),
        Some(answer) => {
            if let Some(difference) = difference(answer, &answer_rows) {
                return Err(TargetFailure::Differs(error(format!(
                    "the answer is another one than before: {difference}"
                ))));
            }
        }
    }
    let mut total = Duration::ZERO;
    for _ in 0..times.max(1) {
        total += runner(place, &text).map_err(failed)?.0;
    }
    Ok(milliseconds(total / times.max(1)))
}

/// A statement with files or names in the place of `{table}`.
fn with_places(text: &str, tables: &[Table], place: &TableLocation) -> String {
    let mut text = text.to_owned();
    for (number, table) in tables.iter().enumerate() {
        let location = match place {
            TableLocation::Files(paths) => format!("'{}'", paths[number].display().to_string().replace('\'', "''")),
            TableLocation::Database(_) => format!("\"{}\"", table.name),
        };
        text = text.replace(&format!("{{{}}}", table.name), &location);
    }
    text
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder, "list"))? {
        let path = entry.map_err(Error::io(folder, "list"))?.path();
        if path.is_dir() { files.extend(files_of(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

fn bytes_of(folder: &Path) -> Result<u64> {
    let length = |path: PathBuf| Ok(path.metadata().map_err(Error::io(&path, "look at"))?.len());
    files_of(folder)?.into_iter().map(length).sum()
}

fn all_dropped(folder: &Path) -> Result<bool> {
    let files = files_of(folder)?;
    let mut are_dropped = true;
    for file in files.iter().filter(|file| file.metadata().is_ok_and(|file| file.len() > 0)) {
        are_dropped &= dropped_from_cache(file)?;
    }
    Ok(are_dropped)
}

/// Whether all values came back. Tables that are stored in another order are compared by the sums of their rows' hashes.
fn is_exact(tables: &[Table], tables_read: &[Table], keeps_order: bool) -> bool {
    let same = |(one, other): (&Table, &Table)| is_same_table(one, other, keeps_order).unwrap_or(false);
    tables.len() == tables_read.len() && tables.iter().zip(tables_read).all(same)
}

fn is_same_table(one: &Table, other: &Table, keeps_order: bool) -> Result<bool> {
    let (expected, actual) = (Column::all(&one.schema, &one.batches)?, Column::all(&other.schema, &other.batches)?);
    if expected.len() != actual.len() {
        return Ok(false);
    }
    // A store may have wider types than the table that it was given.
    let actual =
        expected.iter().zip(&actual).map(|(expected, actual)| Ok(cast(actual.values(), expected.data_type())?));
    let actual: Vec<ArrayRef> = actual.collect::<Result<_>>()?;
    let expected: Vec<ArrayRef> = expected.iter().map(|column| Arc::clone(column.values())).collect();
    if keeps_order {
        return Ok(expected.iter().zip(&actual).all(|(one, other)| one.to_data() == other.to_data()));
    }
    Ok(hash_of_rows(&expected)? == hash_of_rows(&actual)?)
}

/// A number that is the same for the same rows in any order.
fn hash_of_rows(columns: &[ArrayRef]) -> Result<(usize, u64)> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(columns)?;
    let hash = |row: arrow::row::Row<'_>| {
        let mut hasher = DefaultHasher::new();
        hasher.write(row.as_ref());
        hasher.finish()
    };
    Ok((rows.num_rows(), rows.iter().map(hash).fold(0, u64::wrapping_add)))
}

/// Milliseconds to the microsecond, which people can read.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Results as a table: format, bytes, how much smaller than CSV, times, whether cold and exact, and a column for each statement.
///
/// # Errors
/// None that a caller could mend.
pub fn to_batch(results: &[FormatResult]) -> Result<RecordBatch> {
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
    let csv = results.iter().find(|result| result.format == "csv").and_then(|csv| csv.bytes).map(|bytes| bytes as f64);
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
    let factor = |result: &FormatResult| Some((csv? / result.bytes?.max(1) as f64 * 1e3).round() / 1e3);
    let not_nan = |value: f64| (!value.is_nan()).then_some(value);
    let bytes = |result: &FormatResult| i64::try_from(result.bytes?).ok();
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("format".to_owned(), Arc::new(StringArray::from_iter_values(results.iter().map(|r| &r.format)))),
        ("bytes".to_owned(), Arc::new(results.iter().map(bytes).collect::<Int64Array>())),
        ("factorToCsv".to_owned(), Arc::new(results.iter().map(factor).collect::<Float64Array>())),
        ("writeTime".to_owned(), Arc::new(results.iter().map(|r| not_nan(r.write_time)).collect::<Float64Array>())),
        ("readTime".to_owned(), Arc::new(results.iter().map(|r| not_nan(r.read_time)).collect::<Float64Array>())),
        ("cold".to_owned(), Arc::new(results.iter().map(|r| Some(r.is_cold)).collect::<BooleanArray>())),
        ("exact".to_owned(), Arc::new(results.iter().map(|r| Some(r.is_exact)).collect::<BooleanArray>())),
    ];
    let names = results.iter().map(|result| &result.statements).max_by_key(|times| times.len());
    for (place, statement) in names.into_iter().flatten().enumerate() {
        let times = results.iter().map(|result| result.statements.get(place).and_then(|statement| statement.time));
        columns.push((statement.name.clone(), Arc::new(times.collect::<Float64Array>())));
    }
    let field = |(name, values): &(String, ArrayRef)| Field::new(name, values.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    debug_assert!(schema.fields().iter().all(|field| field.data_type() != &DataType::Null));
    Ok(RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, values)| values).collect())?)
}
