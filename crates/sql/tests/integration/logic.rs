//! Runs every `.slt` file below `tests/slt` against a database on disk: with one thread and with four, with batches of 8,192
//! rows and of 2, over Arrow and over Parquet segments, and without tick plans.

use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use splay_sql::{Error, IntoFiles, Parameters, Session, Stop};
use splay_store::Tier;
use sqllogictest::{DB, DBOutput, DefaultColumnType, QueryExpect, Record, Runner, SortMode};

use crate::market;

/// A session, and whether its statements may change tables.
struct Database(Session, bool);

impl DB for Database {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, statement: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        let mut answer = match self.1 {
            true => self.0.change(statement, Parameters::None, Stop::NEVER, &IntoFiles(self.0.database()))?,
            false => self.0.sql(statement, Parameters::None)?,
        };
        let types = answer.schema().fields().iter().map(|field| column_type(field.data_type())).collect();
        let mut rows = Vec::new();
        for batch in answer.batches()? {
            rows.extend(texts(&batch));
        }
        Ok(DBOutput::Rows { types, rows })
    }
}

fn column_type(data_type: &DataType) -> DefaultColumnType {
    match data_type {
        DataType::Float32 | DataType::Float64 => DefaultColumnType::FloatingPoint,
        data_type if data_type.is_integer() => DefaultColumnType::Integer,
        _ => DefaultColumnType::Text,
    }
}

fn texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<Vec<String>> = batch
        .columns()
        .iter()
        .map(|column| {
            let formatter = ArrayFormatter::try_new(column, &options).unwrap();
            (0..column.len())
                .map(|row| float_text(column, row).unwrap_or_else(|| formatter.value(row).to_string()))
                .collect()
        })
        .collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| text_or_empty(&column[row])).collect()).collect()
}

/// Floats in their shortest form, so that 1e300 doesn't take 300 digits.
fn float_text(column: &dyn Array, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Float64 => Some(format!("{:?}", column.as_primitive::<Float64Type>().value(row))),
        DataType::Float32 => Some(format!("{:?}", column.as_primitive::<Float32Type>().value(row))),
        _ => None,
    }
}

fn text_or_empty(text: &str) -> String {
    if text.is_empty() { "(empty)".to_owned() } else { text.to_owned() }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            paths.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            paths.push(path);
        }
    }
    paths.sort();
    paths
}

fn run_all(format: Tier, threads: usize, batch_rows: usize) {
    let (_folder, database) = market::database(format);
    let errors = errors(|| market::session(&database, threads, batch_rows));
    assert!(errors.is_empty(), "{format:?}, {threads} threads, {batch_rows} rows:\n{}", errors.join("\n\n"));
}

/// What goes wrong with a session for each file.
fn errors(session: impl Fn() -> Session) -> Vec<String> {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt"));
    assert!(!files.is_empty());
    let mut errors = Vec::new();
    for file in files {
        let session = session();
        let changes = file.parent().is_some_and(|folder| folder.ends_with("changes"));
        let mut runner = Runner::new(|| async { Ok(Database(session.clone(), changes)) });
        let records: Vec<Record<DefaultColumnType>> = sqllogictest::parse_file(&file).unwrap();
        let records = records.into_iter().map(without_order_of_values);
        errors.extend(records.filter_map(|record| runner.run(record).err()).map(|error| error.to_string()));
    }
    errors
}

/// Rows of tables come in the table's order; rows of VALUES, dealt out to threads, come in any, so that both sides of such
/// a record are sorted unless its statement orders them at its end.
fn without_order_of_values(mut record: Record<DefaultColumnType>) -> Record<DefaultColumnType> {
    if let Record::Query { sql, expected: QueryExpect::Results { sort_mode: sort_mode @ None, results, .. }, .. } =
        &mut record
        && sql.contains("(values")
        && !outside_parentheses(sql).contains("order by")
    {
        *sort_mode = Some(SortMode::RowSort);
        results.sort();
    }
    record
}

fn outside_parentheses(sql: &str) -> String {
    let mut depth = 0;
    sql.chars()
        .filter(|&character| {
            depth += i32::from(character == '(') - i32::from(character == ')');
            depth == 0
        })
        .collect()
}

#[test]
fn logic_files_hold_over_captured_rows() {
    let (_folder, database, capture) = market::captured();
    let errors = errors(|| market::session(&database, 2, 8192));
    assert!(errors.is_empty(), "{}", errors.join("\n\n"));
    capture.close().unwrap();
}

#[test]
fn logic_files_hold_without_tick_plans() {
    let (_folder, database) = market::database(Tier::Mapped);
    let errors = errors(|| market::session_without_tick_plans(&database));
    assert!(errors.is_empty(), "{}", errors.join("\n\n"));
}

#[test]
fn logic_files_hold_over_arrow_segments() {
    run_all(Tier::Mapped, 1, 8192);
}

#[test]
fn logic_files_hold_over_parquet_segments_with_four_threads() {
    run_all(Tier::Small, 4, 8192);
}

#[test]
fn logic_files_hold_with_batches_of_two_rows() {
    // Dealt out in twos to four threads, rows of VALUES reach an aggregate in any order.
    run_all(Tier::Mapped, 4, 2);
}
