//! A file that is cut below a statement fails that statement, by its name, and the process goes on.
//!
//! A process of its own: where answers are read without checks, as in other tests, such a page ends the process.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::datatypes::Float64Type;
use splay_sql::{Answer, Error, Parameters, Session, SessionSettings};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec};

const ROWS: i64 = 200_000;

fn load(database: &Database, name: &str) {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("price", ColumnType::Float64),
    ];
    let spec = TableSpec::new(name, columns, "time", Some("sym"));
    let times = TimestampNanosecondArray::from_iter_values((0..ROWS).map(|row| row * 1_000)).with_timezone("UTC");
    let symbols: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| ["A", "B"][row as usize % 2])));
    let symbols = arrow::compute::cast(&symbols, &ColumnType::Symbol.arrow()).unwrap();
    let prices = Float64Array::from_iter_values((0..ROWS).map(|row| 1.0 + row as f64));
    let columns: [(&str, ArrayRef); 3] = [("time", Arc::new(times)), ("sym", symbols), ("price", Arc::new(prices))];
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&RecordBatch::try_from_iter_with_nullable(columns.map(|(name, rows)| (name, rows, true))).unwrap())
        .unwrap();
    load.commit().unwrap();
}

fn session(folder: &Path, tick_plans: bool) -> (Session, PathBuf) {
    let database = Database::create(folder.join("db")).unwrap();
    ["trade", "quote"].iter().for_each(|table| load(&database, table));
    let settings =
        SessionSettings { tick_plans, result_cache_bytes: 1 << 20, threads: 2, ..SessionSettings::default() };
    let path = folder.join("db/trade/date=1970-01-01/00000001.000001.arrow");
    (Session::new(database, settings).unwrap(), path)
}

fn ask(session: &Session, text: &str) -> Result<Answer, Error> {
    let mut answer = session.sql(text, Parameters::None)?;
    answer.read_with_checks();
    Ok(answer)
}

/// Sum of the first column.
fn sum(session: &Session, text: &str) -> Result<f64, Error> {
    let mut answer = ask(session, text)?;
    let mut sum = 0.0;
    while let Some(batch) = answer.next() {
        sum += batch?.column(0).as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
        answer.check()?;
    }
    Ok(sum)
}

fn cut(path: &Path) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
}

fn assert_names(error: &Error, path: &Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(matches!(error, Error::Store(splay_store::Error::Corrupt { .. })), "{error:?}");
    assert!(error.to_string().contains(name), "{error}");
}

#[test]
fn a_file_cut_below_a_statement_fails_it_alone() {
    for (tick_plans, texts) in [
        (true, ["select price from trade", "select sum(price) from trade group by sym"]),
        (false, ["select price from trade", "select sum(price) from trade"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (session, path) = session(folder.path(), tick_plans);
        let whole = std::fs::read(&path).unwrap();
        let expected = (ROWS * (ROWS + 1) / 2) as f64;
        for text in texts {
            // All checksums were looked at: none will notice.
            assert_eq!(sum(&session, text).unwrap(), expected, "{text}");
            let mut answer = ask(&session, text).unwrap();
            let first = answer.next().unwrap().unwrap();
            cut(&path);
            let mut read = first.column(0).as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
            let mut failed = answer.check().err();
            while failed.is_none()
                && let Some(batch) = answer.next()
            {
                match batch {
                    Ok(batch) => {
                        read += batch.column(0).as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
                        failed = answer.check().err();
                    }
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                Some(error) => assert_names(&error, &path),
                // It had read the file to its end before.
                None => assert_eq!(read, expected, "{text}"),
            }
            let error = sum(&session, "select max(price) as price from trade where price > 7").unwrap_err();
            assert_names(&error, &path);
            assert_eq!(sum(&session, "select price from quote").unwrap(), expected);
            std::fs::write(&path, &whole).unwrap();
            assert_eq!(sum(&session, text).unwrap(), expected, "{text}");
        }
    }
}
